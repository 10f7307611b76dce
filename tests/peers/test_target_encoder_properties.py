"""Target encoding: scikit-learn's values by a naive twin, no leak of the target, and the edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import TargetEncoder

SMOOTH = [0.0, 1.0, 5.0, 20.5, "auto"]
smooths = pytest.mark.parametrize("smooth", SMOOTH, ids=str)
KINDS: list[dict[str, Any]] = [{"kind": "ordered"}, {"kind": "kfold"}, {"kind": "loo"}, {"kind": "full"}]
kinds = pytest.mark.parametrize("params", KINDS, ids=lambda p: p["kind"])
TYPES = ["text", "integer", "categorical", "enum", "boolean"]


def table(rows: int = 90, seed: int = 0) -> pl.DataFrame:
    """Categories of 20, 30 and 40 rows, mixed; a number, a flag and a label of three."""
    rng = np.random.default_rng(seed)
    c = rng.permutation(np.repeat([0, 1, 2], [rows // 9 * 2, rows // 9 * 3, rows - rows // 9 * 5]))
    y = rng.uniform(-10, 20, rows) + 3 * c
    return pl.DataFrame({"c": c, "y": y}).with_columns(
        word=pl.Series(np.array(["cat", "dog", "snake"])[c]),
        flag=pl.Series(rng.random(rows) < 0.3 + 0.2 * c),
        label=pl.Series(np.array(["u", "v", "w"])[rng.integers(0, 3, rows)]),
        w=pl.Series(rng.integers(1, 5, rows).astype(float)),
    )


def naive(c: np.ndarray, y: np.ndarray, smooth: Any, weight: np.ndarray | None = None) -> dict[Any, float]:
    """The value of each category by the textbook."""
    w = np.ones(len(y)) if weight is None else weight
    mean = np.average(y, weights=w)
    variance = np.average((y - mean) ** 2, weights=w)
    out = {}
    for value in np.unique(c).tolist():
        rows = c == value
        n, own = w[rows].sum(), np.average(y[rows], weights=w[rows])
        if smooth == "auto":
            within = np.average((y[rows] - own) ** 2, weights=w[rows])
            m = within / variance if variance > 0 else 0.0
        else:
            m = smooth
        out[value] = float((n * own + m * mean) / (n + m)) if n + m > 0 else float(mean)
    return out


@smooths
@pytest.mark.parametrize("target", ["y", "flag"])
@pytest.mark.parametrize("cat", ["c", "word"])
def test_the_value_of_a_category_is_the_smoothed_mean_of_its_rows(smooth: Any, target: str, cat: str) -> None:
    df = table()
    want = naive(df[cat].to_numpy(), df[target].cast(pl.Float64).to_numpy(), smooth)
    got = df.select(tg.target_encode(cat, target, kind="full", prior_weight=smooth)).to_series()
    np.testing.assert_allclose(got, [want[v] for v in df[cat]], rtol=1e-12)


@smooths
@pytest.mark.parametrize("target", ["y", "flag"])
@pytest.mark.parametrize("cat", ["c", "word"])
def test_new_rows_get_their_category_s_value_and_unknown_ones_the_mean(smooth: Any, target: str, cat: str) -> None:
    df = table()
    encoder = df.taiga.fit_target_encoder(cat, target, prior_weight=smooth)
    values = [*df[cat].unique().sort(), 77 if cat == "c" else "bear", None]
    got = pl.DataFrame({cat: pl.Series(values)}).select(tg.encode(encoder)).to_series()
    want = naive(df[cat].to_numpy(), df[target].cast(pl.Float64).to_numpy(), smooth)
    mean = df[target].cast(pl.Float64).mean()
    np.testing.assert_allclose(got, [want.get(v, mean) for v in values], rtol=1e-12)


@smooths
@pytest.mark.parametrize("folds", [2, 3, 7])
@pytest.mark.parametrize("target", ["y", "flag"])
def test_rows_of_a_fold_get_values_of_the_others(smooth: Any, folds: int, target: str) -> None:
    df = table().with_columns(fold=pl.int_range(pl.len()) % folds)
    got = df.select(tg.target_encode("c", target, kind="kfold", folds="fold", prior_weight=smooth)).to_series()
    want = np.empty(df.height)
    c, y, fold = df["c"].to_numpy(), df[target].cast(pl.Float64).to_numpy(), df["fold"].to_numpy()
    for f in range(folds):
        values = naive(c[fold != f], y[fold != f], smooth)
        want[fold == f] = [values[v] for v in c[fold == f]]
    np.testing.assert_allclose(got, want, rtol=1e-11)


@smooths
@pytest.mark.parametrize("cat", ["c", "word"])
def test_each_class_of_several_is_encoded_as_being_it_or_not(smooth: Any, cat: str) -> None:
    df = table()
    classes = ["u", "v", "w"]
    got = df.select(tg.target_encode(cat, "label", kind="full", prior_weight=smooth, classes=classes)).to_series()
    assert [f.name for f in got.dtype.fields] == classes  # type: ignore[union-attr]
    for k in classes:
        want = naive(df[cat].to_numpy(), (df["label"] == k).cast(pl.Float64).to_numpy(), smooth)
        np.testing.assert_allclose(got.struct[k], [want[v] for v in df[cat]], rtol=1e-12)
    if smooth != "auto":
        np.testing.assert_allclose(got.struct.unnest().sum_horizontal(), 1, rtol=1e-12)


@pytest.mark.parametrize("smooth", [0.0, 1.0, 5.0])
def test_leave_one_out_is_all_rows_but_this(smooth: float) -> None:
    df = table()
    got = df.select(tg.target_encode("c", "y", kind="loo", prior_weight=smooth)).to_series()
    c, y = df["c"].to_numpy(), df["y"].to_numpy()
    mean = y.mean()
    for i in range(df.height):
        rows = (c == c[i]) & (np.arange(df.height) != i)
        assert got[i] == pytest.approx((y[rows].sum() + smooth * mean) / (rows.sum() + smooth), rel=1e-10)


@pytest.mark.parametrize("smooth", [0.5, 1.0, 5.0])
def test_ordered_statistics_are_of_the_rows_before(smooth: float) -> None:
    df = table().with_columns(day=pl.int_range(pl.len()).reverse())
    got = df.select(tg.target_encode("c", "y", kind="ordered", order_by="day", prior_weight=smooth)).to_series()
    c, y, day = df["c"].to_numpy(), df["y"].to_numpy(), df["day"].to_numpy()
    for i in range(df.height):
        rows = (c == c[i]) & (day < day[i])
        assert got[i] == pytest.approx((y[rows].sum() + smooth * y.mean()) / (rows.sum() + smooth), rel=1e-10)


@kinds
@pytest.mark.parametrize("y", [3.4, 0.0, -1e6], ids=str)
@pytest.mark.parametrize("smooth", [1.0, 4.0, "auto"], ids=str)
def test_a_constant_target_is_every_row_s_value(params: Any, y: float, smooth: Any) -> None:
    df = pl.DataFrame({"c": ["a"] * 10 + ["b"] * 5, "y": [y] * 15})
    if params["kind"] == "ordered" and smooth == "auto":
        smooth = 2.0
    got = df.select(tg.target_encode("c", "y", prior_weight=smooth, **params)).to_series()
    np.testing.assert_allclose(got, y, rtol=1e-12)


@pytest.mark.parametrize("smooth", [0.0, 4.0, "auto"], ids=str)
def test_a_constant_target_s_encoder_gives_it_to_unknown_categories_too(smooth: Any) -> None:
    df = pl.DataFrame({"c": [1] * 20, "y": [3.4] * 20})
    encoder = df.taiga.fit_target_encoder("c", "y", prior_weight=smooth)
    got = pl.DataFrame({"c": [1, 0, None]}).select(tg.encode(encoder)).to_series()
    np.testing.assert_allclose(got, 3.4, rtol=1e-12)


def test_without_smoothing_a_category_that_the_other_folds_lack_gets_their_mean() -> None:
    y = [2.1, 4.3, 1.2, 3.1, 1.0, 9.0, 10.3, 14.2, 13.3, 15.0]
    df = pl.DataFrame({"c": [0] * 5 + [1] * 5, "y": y, "fold": [0] * 5 + [1] * 5})
    got = df.select(tg.target_encode("c", "y", kind="kfold", folds="fold", prior_weight=0)).to_series()
    np.testing.assert_allclose(got[:5], np.mean(y[5:]))
    np.testing.assert_allclose(got[5:], np.mean(y[:5]))


@kinds
@pytest.mark.parametrize("dtype", TYPES)
def test_the_type_and_names_of_categories_do_not_matter(params: Any, dtype: str) -> None:
    df = table().with_columns(pl.when(pl.col("c") > 0).then(1).otherwise(0).alias("c"))
    other = df.with_columns(
        {
            "text": pl.when(pl.col("c") == 0).then(pl.lit("zz")).otherwise(pl.lit("aa")),
            "integer": 100 - 7 * pl.col("c").cast(pl.Int16),
            "categorical": pl.col("c").cast(pl.String).cast(pl.Categorical),
            "enum": pl.col("c").cast(pl.String).cast(pl.Enum(["2", "1", "0"])),
            "boolean": pl.col("c") == 1,
        }[dtype].alias("c")
    )
    a, b = (frame.select(tg.target_encode("c", "y", **params)).to_series() for frame in (df, other))
    assert a.equals(b)


@kinds
def test_the_order_of_columns_and_other_columns_do_not_matter(params: Any) -> None:
    df = table()
    alone = [df.select(tg.target_encode(c, "y", **params)).to_series() for c in ("c", "word")]
    both = df.select(tg.target_encode(["word", "c"], "y", **params))
    assert both.columns == ["word", "c"]
    assert both["c"].equals(alone[0])
    assert both["word"].equals(alone[1])


@kinds
def test_shifting_and_scaling_the_target_shifts_and_scales_values(params: Any) -> None:
    df = table()
    a, b = (
        df.select(tg.target_encode("c", expr, **params)).to_series() for expr in (pl.col("y"), 1e3 - 4 * pl.col("y"))
    )
    np.testing.assert_allclose(b, 1e3 - 4 * a.to_numpy(), rtol=1e-10)


@pytest.mark.parametrize("smooth", [0.0, 1.0, 5.0, "auto"], ids=str)
def test_a_row_s_weight_is_how_often_it_stands(smooth: Any) -> None:
    df = table()
    repeated = df[np.repeat(np.arange(df.height), df["w"].to_numpy().astype(int))]
    values = pl.DataFrame({"c": [0, 1, 2, 9]})
    a = df.taiga.fit_target_encoder("c", "y", weight="w", prior_weight=smooth)
    b = repeated.taiga.fit_target_encoder("c", "y", prior_weight=smooth)
    np.testing.assert_allclose(*(values.select(tg.encode(e)).to_series() for e in (a, b)), rtol=1e-10)


@kinds
def test_what_a_row_of_weight_zero_says_does_not_matter(params: Any) -> None:
    df = table().with_columns(w=pl.when(pl.int_range(pl.len()) % 4 > 0).then(1.0).otherwise(0.0))
    other = df.with_columns(y=pl.when(pl.col("w") == 0).then(1e3).otherwise("y"))
    a, b = (f.select(tg.target_encode("c", "y", weight="w", **params)).to_series() for f in (df, other))
    assert a.equals(b)


@kinds
@pytest.mark.parametrize("factor", [1e-30, 0.5, 1e30])
def test_without_a_prior_a_constant_factor_of_weights_does_not_matter(params: Any, factor: float) -> None:
    df = table()
    a, b = (
        df.select(
            tg.target_encode("c", "y", weight=(pl.col("w") * c).alias("w"), prior_weight=p, prior=2.0, **params)
        ).to_series()
        for c, p in ((1.0, 1.0), (factor, factor))
    )
    np.testing.assert_allclose(a, b, rtol=1e-9)


@kinds
def test_null_is_a_category_of_its_own(params: Any) -> None:
    df = table().with_columns(pl.when(pl.col("word") != "dog").then("word").alias("word"))
    named = df.with_columns(pl.col("word").fill_null("dog"))
    a, b = (f.select(tg.target_encode("word", "y", **params)).to_series() for f in (df, named))
    assert a.equals(b)


NEAR_UNIQUE = [{"kind": "ordered"}, {"kind": "kfold"}]


@pytest.mark.parametrize("params", NEAR_UNIQUE, ids=lambda p: p["kind"])
@pytest.mark.parametrize("smooth", [0.0, 1.0], ids=str)
def test_a_near_unique_category_says_nothing_of_the_target(params: Any, smooth: float) -> None:
    """While the full statistic, on its own training rows, seems to know it."""
    rng = np.random.default_rng(0)
    df = pl.DataFrame({"c": rng.integers(0, 2_700, 3_000), "y": rng.normal(size=3_000)})
    got = df.select(tg.target_encode("c", "y", prior_weight=smooth, **params)).to_series().to_numpy()
    y = df["y"].to_numpy()
    finite = np.isfinite(got)
    assert abs(np.corrcoef(got[finite], y[finite])[0, 1]) < 0.08
    leaky = df.select(tg.target_encode("c", "y", kind="full", prior_weight=smooth)).to_series()
    assert np.corrcoef(leaky, y)[0, 1] > 0.6


@pytest.mark.parametrize("params", NEAR_UNIQUE, ids=lambda p: p["kind"])
def test_sorted_targets_leak_through_no_prior(params: Any) -> None:
    rng = np.random.default_rng(1)
    df = pl.DataFrame({"c": rng.integers(0, 30, 3_000), "y": np.sort(rng.normal(size=3_000))})
    got = df.select(tg.target_encode("c", "y", **params)).to_series()
    assert abs(np.corrcoef(got, df["y"])[0, 1]) < 0.1


@pytest.mark.parametrize("smooth", [1.0, "auto"], ids=str)
def test_a_linear_model_on_encoded_columns_weighs_only_the_informative_one(smooth: Any) -> None:
    """A slope near 1 for the category that knows the target, near 0 for its shuffled twin and for unique ones."""
    rng = np.random.default_rng(2)
    n = 20_000
    y = rng.normal(size=n)
    known = rng.permutation(100)[np.digitize(y + 0.8 * rng.normal(size=n), np.linspace(-3, 3, 99))]
    df = pl.DataFrame(
        {"known": known, "shuffled": rng.permutation(known), "unique": rng.integers(0, 18_000, n), "y": y}
    )
    train, test = df[: n // 2], df[n // 2 :]
    cats = ["known", "shuffled", "unique"]
    own = train.select(tg.target_encode(cats, "y", kind="kfold", prior_weight=smooth)).to_numpy()
    encoder = train.taiga.fit_target_encoder(cats, "y", prior_weight=smooth)
    new = test.select(tg.encode(encoder)).to_numpy()
    model = Ridge(alpha=1e-6, fit_intercept=False).fit(own, train["y"].to_numpy())
    assert model.coef_[0] == pytest.approx(1, abs=0.05)
    assert np.abs(model.coef_[1:]).max() < 0.25
    assert model.score(new, test["y"].to_numpy()) > 0.5
    leaky = train.select(tg.encode(encoder)).to_numpy()
    other = Ridge(alpha=1e-6, fit_intercept=False).fit(leaky, train["y"].to_numpy())
    assert other.score(new, test["y"].to_numpy()) < model.score(new, test["y"].to_numpy())


@pytest.mark.parametrize("target", ["y", "flag", "label"])
def test_an_encoder_gives_what_scikit_learn_s_gives(target: str) -> None:
    df = table(900)
    y = df[target].cast(pl.Int8).to_numpy() if target == "flag" else df[target].to_numpy()
    kind = {"y": "continuous", "flag": "binary", "label": "multiclass"}[target]
    peer = TargetEncoder(target_type=kind, smooth="auto").fit(df.select("c").to_numpy(), y)
    classes = ["u", "v", "w"] if target == "label" else None
    encoder = df.taiga.fit_target_encoder("c", target, prior_weight="auto", classes=classes)
    new = pl.DataFrame({"c": [0, 1, 2, 50]})
    got = new.select(tg.encode(encoder)).to_series()
    got_values = got.struct.unnest().to_numpy() if target == "label" else got.to_frame().to_numpy()
    np.testing.assert_allclose(got_values, peer.transform(new.to_numpy()), rtol=1e-10)


def test_the_encoder_gives_training_rows_the_full_statistic() -> None:
    df = table()
    encoder = df.taiga.fit_target_encoder(["c", "word"], "y")
    a = df.select(tg.encode(encoder))
    b = df.select(tg.target_encode(["c", "word"], "y", kind="full"))
    assert a.equals(b)


def test_more_permutations_average_to_less_noise() -> None:
    df = table(450)
    full = df.select(tg.target_encode("c", "y", kind="full")).to_series()
    error = [
        ((df.select(tg.target_encode("c", "y", permutations=p)).to_series() - full) ** 2).mean() for p in (1, 10, 100)
    ]
    assert error == sorted(error, reverse=True)


def test_another_seed_is_another_order() -> None:
    df = table()
    a, b, c = (df.select(tg.target_encode("c", "y", seed=s)).to_series() for s in (0, 0, 1))
    assert a.equals(b)
    assert not a.equals(c)


@kinds
@pytest.mark.parametrize("chunks", [1, 7, 40])
def test_chunks_do_not_matter(params: Any, chunks: int) -> None:
    df = table()
    pieces = pl.concat([df[i : i + chunks] for i in range(0, df.height, chunks)], rechunk=False)
    a, b = (f.select(tg.target_encode("c", "y", **params)).to_series() for f in (df, pieces))
    assert a.equals(b)


@kinds
def test_a_group_s_values_are_those_of_the_group_alone(params: Any) -> None:
    df = table().with_columns(g=pl.int_range(pl.len()) % 2)
    got = df.select("g", v=tg.target_encode("c", "y", **params).over("g"))
    for g in (0, 1):
        alone = df.filter(g=g).select(tg.target_encode("c", "y", **params)).to_series()
        assert got.filter(g=g)["v"].to_list() == alone.to_list()


@pytest.mark.parametrize("y", [[1.0, None, 2.0], [1.0, float("nan"), 2.0], [1.0, float("inf"), 2.0]], ids=str)
def test_a_target_with_holes_is_an_error_that_names_the_column(y: list[Any]) -> None:
    df = pl.DataFrame({"c": [1, 0, 1], "y": y})
    with pytest.raises(pl.exceptions.ComputeError, match="`y`"):
        df.select(tg.target_encode("c", "y"))


def test_values_of_huge_and_tiny_targets_are_exact() -> None:
    for size in (1e-300, 1e300):
        df = pl.DataFrame({"c": [0, 0, 1], "y": [1.0 * size, 3.0 * size, 5.0 * size]})
        got = df.select(tg.target_encode("c", "y", kind="full", prior_weight=0)).to_series()
        np.testing.assert_allclose(got / size, [2.0, 2.0, 5.0], rtol=1e-12)


@pytest.mark.parametrize("smoothing", [0.5, 1.0, 10.0])
def test_weight_of_evidence_and_information_value_by_their_definitions(smoothing: float) -> None:
    df = table()
    flag, c = df["flag"].to_numpy(), df["c"].to_numpy()
    p, q = ({v: ((c == v) & side).sum() + smoothing for v in range(3)} for side in (flag, ~flag))
    events, others = flag.sum() + 2 * smoothing, (~flag).sum() + 2 * smoothing
    woe = {v: np.log((p[v] / events) / (q[v] / others)) for v in range(3)}
    got = df.select(tg.woe("c", "flag", smoothing=smoothing)).to_series()
    np.testing.assert_allclose(got, [woe[v] for v in c], rtol=1e-10)
    value = sum((p[v] / events - q[v] / others) * woe[v] for v in range(3))
    assert df.select(tg.information_value("c", "flag", smoothing=smoothing)).item() == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("cat", ["c", "word", "flag"])
def test_counts_are_those_of_value_counts(cat: str) -> None:
    df = table()
    counts = dict(df[cat].value_counts().iter_rows())
    assert df.select(tg.count_encode(cat)).to_series().to_list() == [counts[v] for v in df[cat]]
    shares = df.select(tg.count_encode(cat, normalize=True)).to_series()
    np.testing.assert_allclose(shares, [counts[v] / df.height for v in df[cat]])

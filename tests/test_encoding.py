"""Encodings of categories: what they give, where they sit, and what they refuse."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
import polars_taiga as tg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

Compute = pl.exceptions.ComputeError
NAN = float("nan")
# In the first versions of Polars 1 an Enum comes to a plugin as a Categorical.
ENUMS_REACH_PLUGINS = not pl.__version__.startswith("1.")


@pytest.fixture(scope="module")
def cats() -> pl.DataFrame:
    """Categories of each type, with nulls, and targets of each kind."""
    rng = np.random.default_rng(2)
    n = 2_000
    city = [None if c == 0 else f"city {c}" for c in rng.integers(0, 12, n)]
    return pl.DataFrame(
        {
            "city": city,
            "zip": pl.Series(rng.integers(-3, 4, n), dtype=pl.Int16),
            "new": pl.Series(rng.random(n) < 0.5),
            "x": rng.normal(size=n) * 100,
            "day": rng.permutation(n),
            "fold": rng.integers(0, 4, n),
            "w": rng.integers(0, 4, n).astype(float),
            "flag": rng.random(n) < 0.3,
            "kind": rng.choice(["low", "mid", "top"], n),
        }
    )


def typed(df: pl.DataFrame, dtype: str) -> pl.DataFrame:
    """`city` as another type."""
    if dtype == "Enum":
        labels = sorted(df["city"].drop_nulls().unique(), reverse=True)
        return df.with_columns(pl.col("city").cast(pl.Enum(["unused", *labels])))
    return df.with_columns(pl.col("city").cast(getattr(pl, dtype)))


def naive(rows: list[dict[str, Any]], counts: Any, prior: float | None, a: float) -> list[float]:
    """(Σ w·y + prior·a) / (Σ w + a) over the rows of the category for which `counts(row, other)`."""
    out = []
    for i, row in enumerate(rows):
        others = [o for j, o in enumerate(rows) if counts(i, j) and o["c"] == row["c"]]
        p = prior if prior is not None else sum(o["y"] * o["w"] for o in rows) / sum(o["w"] for o in rows)
        n = sum(o["w"] for o in others)
        out.append((sum(o["y"] * o["w"] for o in others) + p * a) / (n + a) if n + a > 0 else p)
    return out


@pytest.mark.parametrize("smallest", [5e-324, 2.2e-309, 1e-300, 1e-200])
@pytest.mark.parametrize("prior", [1.0, -1e20, 1e300])
def test_targets_far_smaller_than_the_prior_leave_it_finite(smallest: float, prior: float) -> None:
    df = pl.DataFrame({"c": ["a", "a", "b"], "y": [0.0, smallest, -smallest], "w": [0.5, 0.5, 1.0]})
    for weight in (None, "w"):
        for kind in ("full", "loo", "ordered"):
            got = df.select(tg.target_encode("c", "y", kind=kind, prior=prior, prior_weight=10.0, weight=weight))["c"]
            rows = {"full": [2, 2, 1], "loo": [1, 1, 0]}.get(kind)
            if rows is not None and weight is None:
                assert got.to_list() == pytest.approx([10.0 * prior / (10.0 + n) for n in rows], rel=1e-12)
            assert got.is_finite().all(), (kind, weight, got)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from(["a", "b", "", None]), st.floats(-1e3, 1e3), st.sampled_from([0.5, 1.0, 3.0])),
        min_size=2,
        max_size=30,
    ),
    prior=st.one_of(st.none(), st.floats(-5, 5)),
    a=st.sampled_from([0.0, 0.7, 10.0]),
    seed=st.integers(0, 100),
)
def test_values_are_those_of_a_naive_twin(rows: list[Any], prior: float | None, a: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = len(rows)
    df = pl.DataFrame(rows, schema={"c": pl.String, "y": pl.Float64, "w": pl.Float64}, orient="row").with_columns(
        t=pl.Series(rng.permutation(n))
    )
    dicts = df.to_dicts()
    t = df["t"].to_list()
    options: dict[str, Any] = {"prior": prior, "prior_weight": a, "weight": "w"}
    ways: list[tuple[dict[str, Any], Any]] = [
        ({"kind": "full"}, lambda i, j: True),
        ({"kind": "loo"}, lambda i, j: i != j),
        ({"order_by": "t"}, lambda i, j: t[j] < t[i]),
    ]
    for how, counts in ways:
        got = df.select(tg.target_encode("c", "y", **how, **options))["c"].to_list()
        assert got == pytest.approx(naive(dicts, counts, prior, a), rel=1e-9, abs=1e-9), how


@pytest.mark.parametrize("dtype", ["String", "Categorical", "Enum"])
@pytest.mark.parametrize("kind", ["ordered", "kfold", "loo", "full"])
def test_types_and_chunks_and_engines_agree(cats: pl.DataFrame, dtype: str, kind: Any) -> None:
    want = cats.select(tg.target_encode("city", "x", kind=kind, seed=3))["city"]
    df = typed(cats, dtype)
    assert df.select(tg.target_encode("city", "x", kind=kind, seed=3))["city"].equals(want)
    cut = pl.concat([df[a:b] for a, b in itertools.pairwise([0, 1, 700, 701, 2_000])], rechunk=False)
    assert cut.select(tg.target_encode("city", "x", kind=kind, seed=3))["city"].equals(want)
    lazy = cut.lazy().with_columns(tg.target_encode("city", "x", kind=kind, seed=3)).collect()
    assert lazy["city"].equals(want)


def test_several_columns_share_a_permutation(cats: pl.DataFrame) -> None:
    names = ["city", "zip", "new"]
    together = cats.select(tg.target_encode(names, "flag", seed=5))
    assert together.columns == names
    for name in names:
        assert together[name].equals(cats.select(tg.target_encode(name, "flag", seed=5))[name])
    by_selector = cats.with_columns(tg.target_encode(cs.string() - cs.by_name("kind"), "flag").name.suffix("_te"))
    assert by_selector.columns == [*cats.columns, "city_te"]
    # The same rows come before: a column and a copy of it under another name have equal values.
    twin = cats.with_columns(twin="city").select(tg.target_encode(["city", "twin"], "x", seed=1))
    assert twin["city"].equals(twin["twin"].alias("city"))


def test_classes(cats: pl.DataFrame) -> None:
    classes = ["mid", "top", "low"]
    got = cats.select(tg.target_encode("city", "kind", kind="kfold", folds="fold", classes=classes))["city"]
    assert got.dtype == pl.Struct(dict.fromkeys(classes, pl.Float64))
    for name in classes:
        alone = cats.select(tg.target_encode("city", pl.col("kind") == name, kind="kfold", folds="fold"))["city"]
        assert got.struct.field(name).to_list() == pytest.approx(alone.to_list())
    enum = cats.with_columns(pl.col("kind").cast(pl.Enum(classes)))
    if ENUMS_REACH_PLUGINS:
        assert enum.select(tg.target_encode("city", "kind", kind="kfold", folds="fold"))["city"].equals(got)
        assert enum.lazy().select(tg.target_encode("city", "kind")).collect_schema()["city"] == got.dtype
    else:
        with pytest.raises(Compute, match="name the classes"):
            enum.select(tg.target_encode("city", "kind"))
    numbers = cats.select(tg.target_encode("city", "fold", kind="full", classes=[0, 1, 2, 3]))["city"]
    assert numbers.struct.fields == ["0", "1", "2", "3"]


def test_group_by_and_over(cats: pl.DataFrame) -> None:
    expr = tg.target_encode("city", "x", order_by="day")
    over = cats.select("fold", city=expr.over("fold"))
    for (fold,), part in cats.partition_by("fold", as_dict=True).items():
        alone = part.select(expr)["city"]
        assert over.filter(fold=fold)["city"].equals(alone)
    groups = cats.group_by("fold", maintain_order=True).agg(tg.information_value("city", "flag"))
    assert groups.height == 4
    assert groups["city"].is_not_null().all()


def test_the_ordered_check_of_catboost() -> None:
    df = pl.DataFrame({"c": ["a"] * 4, "y": [0, 1, 1, 0], "t": [1, 2, 3, 4]})
    got = df.select(tg.target_encode("c", "y", order_by="t", prior=0.05))["c"].to_list()
    assert got == pytest.approx([0.05, 0.025, 0.35, 0.5125])
    backwards = df.reverse().select(tg.target_encode("c", "y", order_by="t", prior=0.05))["c"].to_list()
    assert backwards == got[::-1]
    assert df.select(tg.target_encode("c", "y", order_by=pl.col("t") * 0, prior=0.05))["c"].to_list() == got


def test_permutations_are_averaged(cats: pl.DataFrame) -> None:
    one = cats.select(tg.target_encode("city", "x"))["city"]
    many = cats.select(tg.target_encode("city", "x", permutations=20))["city"]
    full = cats.select(tg.target_encode("city", "x", kind="full"))["city"]
    assert (many - full).std() < (one - full).std()


@pytest.mark.parametrize("column", ["city", "zip", "new"])
def test_encoders(cats: pl.DataFrame, column: str, tmp_path: Any) -> None:
    train, test = cats.head(1_500), cats.tail(500)
    encoder = train.taiga.fit_target_encoder(column, "x", prior_weight=2.0, weight="w")
    full = train.select(tg.target_encode(column, "x", kind="full", prior_weight=2.0, weight="w"))[column]
    assert train.select(tg.encode(encoder))[column].equals(full)
    means = dict(zip(train[column], full, strict=True))
    assert test.select(tg.encode(encoder, column))[column].to_list() == [means[v] for v in test[column]]
    test.write_parquet(tmp_path / "test.parquet")
    lazy = pl.scan_parquet(tmp_path / "test.parquet").with_columns(e=tg.encode(encoder, column))
    lazy.sink_parquet(tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet")["e"].to_list() == [means[v] for v in test[column]]


def test_encoders_keep_labels_and_not_codes(cats: pl.DataFrame) -> None:
    encoders = {typed(cats, d).taiga.fit_target_encoder("city", "x") for d in ["String", "Categorical", "Enum"]}
    cut = pl.concat([cats[:3], cats[3:1_000], cats[1_000:]], rechunk=False)
    encoders.add(cut.lazy().taiga.fit_target_encoder("city", "x"))
    assert len(encoders) == 1
    encoder = encoders.pop()
    want = cats.select(tg.encode(encoder))["city"]
    for dtype in ["Categorical", "Enum"]:
        shuffled = typed(cats.reverse(), dtype)
        assert shuffled.select(tg.encode(encoder))["city"].reverse().equals(want)
    wide = cats.with_columns(pl.col("zip").cast(pl.Int64))
    assert wide.taiga.fit_target_encoder("zip", "x") == cats.taiga.fit_target_encoder("zip", "x")


def test_what_was_never_seen_gets_the_prior(cats: pl.DataFrame) -> None:
    some = cats.filter(pl.col("city") != "city 3")
    encoder = some.taiga.fit_target_encoder(["city", "zip"], "x", prior=7.0)
    new = pl.DataFrame({"city": ["city 3", None, "city 4", ""], "zip": [99, None, 0, -(2**40)]})
    got = new.select(tg.encode(encoder))
    assert got.columns == ["city", "zip"]
    assert got["city"].to_list()[:2] == [7.0, 7.0]
    assert got["city"][2] != 7.0
    assert got["city"][3] == 7.0
    assert [v == 7.0 for v in got["zip"]] == [True, True, False, True]
    seen = cats.taiga.fit_target_encoder("city", "x", prior=7.0)
    assert pl.DataFrame({"city": [None]}, schema={"city": pl.String}).select(tg.encode(seen)).item() != 7.0
    assert pl.DataFrame({"city": [None, None]}).select(tg.encode(encoder, "city"))["city"].to_list() == [7.0, 7.0]


def test_an_encoder_for_each_group(cats: pl.DataFrame) -> None:
    encoders = cats.group_by("fold").agg(tg.fit_target_encoder("city", "kind", classes=["low", "mid", "top"]))
    joined = cats.join(encoders, on="fold", how="left")
    dtype = pl.Struct({"low": pl.Float64, "mid": pl.Float64, "top": pl.Float64})
    got = joined.select("fold", tg.encode("encoder", "city", dtype=dtype))
    for (fold,), part in cats.partition_by("fold", as_dict=True).items():
        encoder = part.taiga.fit_target_encoder("city", "kind", classes=["low", "mid", "top"])
        assert got.filter(fold=fold)["city"].equals(part.select(tg.encode(encoder))["city"])
    missing = joined.with_columns(encoder=pl.when(pl.col("fold") > 0).then("encoder"))
    assert missing.select(tg.encode("encoder", "city", dtype=dtype).is_null().sum()).item() == (cats["fold"] == 0).sum()


def test_combine_and_counts(cats: pl.DataFrame) -> None:
    df = cats.with_columns(both=tg.combine("city", cs.by_name("zip"), "new"), n=tg.count_encode("city"))
    assert df["both"].dtype == pl.UInt32
    seen: dict[Any, int] = {}
    assert [seen.setdefault(t, len(seen)) for t in df.select("city", "zip", "new").iter_rows()] == df["both"].to_list()
    assert df["n"].to_list() == cats.select(pl.len().over("city"))["len"].to_list()
    share = cats.select(tg.count_encode("city", normalize=True))["city"]
    assert share.to_list() == pytest.approx((df["n"] / cats.height).to_list())
    assert (
        typed(cats, "Categorical")
        .select(tg.combine("city", "zip", "new"))["combination"]
        .equals(df["both"].alias("combination"))
    )


def test_weight_of_evidence(cats: pl.DataFrame) -> None:
    got = cats.select("city", "flag", woe=tg.woe("city", "flag", smoothing=0.5))
    events, others = cats["flag"].sum(), (~cats["flag"]).sum()
    value = 0.0
    for (_,), part in got.partition_by("city", as_dict=True).items():
        p = (part["flag"].sum() + 0.5) / (events + 1)
        q = ((~part["flag"]).sum() + 0.5) / (others + 1)
        assert part["woe"].to_list() == pytest.approx([np.log(p / q)] * part.height)
        value += (p - q) * np.log(p / q)
    assert cats.select(tg.information_value("city", "flag")).item() == pytest.approx(value)
    ones = cats.select(tg.woe("city", pl.col("flag").cast(pl.Int8)))["city"]
    assert ones.equals(got["woe"].alias("city"))
    pure = pl.DataFrame({"c": ["a", "b", "b"], "y": [True, False, True]})
    assert pure.select(tg.woe("c", "y", smoothing=0))["c"][0] == float("inf")


def test_edges() -> None:
    empty = pl.DataFrame(schema={"c": pl.String, "y": pl.Float64, "f": pl.Boolean, "k": pl.Int64})
    for kind in ["ordered", "kfold", "loo", "full"]:
        assert empty.select(tg.target_encode("c", "y", kind=kind))["c"].to_list() == []
    assert empty.select(tg.target_encode("c", "y", kind="kfold", folds="k")).height == 0
    assert empty.select(tg.target_encode("c", "y", order_by="k", weight="y")).height == 0
    assert empty.select(tg.woe("c", "f"), tg.count_encode("k"), tg.combine("c", "k")).height == 0
    assert empty.select(tg.information_value("c", "f")).item() is None
    with pytest.raises(Compute, match=r"fit_target_encoder: .*no rows"):
        empty.select(tg.fit_target_encoder("c", "y"))
    nulls = pl.DataFrame({"c": [None, None, None], "y": [1, 2, 3]})
    assert nulls.select(tg.target_encode("c", "y", kind="full", prior_weight=0))["c"].to_list() == [2.0] * 3
    text = nulls.cast({"c": pl.String})
    assert text.select(tg.target_encode("c", "y", kind="loo", prior_weight=0))["c"].to_list() == [2.5, 2.0, 1.5]
    one = pl.DataFrame({"c": ["a"], "y": [4.0]})
    assert one.select(tg.target_encode("c", "y"), f=tg.target_encode("c", "y", kind="loo")).row(0) == (4.0, 4.0)
    ends = pl.DataFrame({"c": pl.Series([2**64 - 1, 0, 2**64 - 1], dtype=pl.UInt64), "y": [1.0, 2.0, 5.0]})
    assert ends.select(tg.target_encode("c", "y", kind="full", prior_weight=0))["c"].to_list() == [3.0, 2.0, 3.0]
    encoder = ends.taiga.fit_target_encoder("c", "y", prior_weight=0)
    assert ends.select(tg.encode(encoder))["c"].to_list() == [3.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("columns", "params", "message"),
    [
        ({"c": [1.5] * 4}, {}, "column `c`: its type is f64; a category is .*cast"),
        ({"c": [[1]] * 4}, {}, r"column `c`: its type is list\[i64\]"),
        ({"y": [1.0, None, 2.0, 3.0]}, {}, "column `y`: 1 of 4 values are null, which a target can't be"),
        ({"y": [1.0, NAN, 2.0, 3.0]}, {}, "column `y`: 1 of 4 values are NaN"),
        ({"y": [1.0, float("inf"), 2.0, 3.0]}, {}, "column `y`: 1 of 4 values are infinite"),
        ({"y": [True, None, True, False]}, {}, "column `y`: 1 of 4 values is null|column `y`: 1 of 4 values are null"),
        ({"y": list("uvuv")}, {}, "column `y`: its type is str, and a query must know .*classes="),
        ({"y": list("uvuv")}, {"classes": ["u"]}, 'column `y`: "v" is not among the classes'),
        ({}, {"classes": ["u"]}, "column `y`: its type is f64; classes="),
        ({"y": [[1.0]] * 4}, {}, r"column `y`: its type is list\[f64\]; a target is"),
        ({}, {"weight": pl.Series("w", [1.0, -1.0, 1.0, 1.0])}, "column `w`: the weight -1 is negative"),
        ({}, {"weight": pl.Series("w", [0.0] * 4)}, "column `w`: all weights are zero"),
        ({}, {"weight": pl.Series("w", [1.0, None, 1.0, 1.0])}, "column `w`: 1 of 4 values are null"),
        ({}, {"order_by": pl.Series("t", [1, None, 2, 3])}, "column `t`: `order_by` is null in 1 of 4 rows"),
        ({}, {"order_by": pl.Series("t", [1.0, NAN, 2.0, 3.0])}, "column `t`: 1 of 4 values are NaN"),
        ({}, {"kind": "kfold", "folds": 5}, "parameter `folds`: 5 are more than the 4 rows"),
        ({}, {"kind": "kfold", "folds": pl.Series("k", [7] * 4)}, "column `k`: it has one fold"),
        ({}, {"kind": "kfold", "folds": pl.Series("k", [1, 2, None, 1])}, "column `k`: the fold is null in 1 of 4"),
        ({}, {"kind": "kfold", "folds": pl.Series("k", [1.0] * 4)}, "column `k`: its type is f64; folds"),
    ],
)
def test_columns_that_cannot_be_used(columns: dict[str, Any], params: dict[str, Any], message: str) -> None:
    df = pl.DataFrame({"c": ["a", "b", "a", "b"], "y": [1.0, 2.0, 3.0, 4.0], **columns}, strict=False)
    for name, value in list(params.items()):
        if isinstance(value, pl.Series):
            df = df.with_columns(value)
            params[name] = value.name
    with pytest.raises(Compute, match=f"(?s)target_encode: .*{message}"):
        df.select(tg.target_encode("c", "y", **params))
    with pytest.raises(Compute, match=f"(?s)target_encode: .*{message}"):
        df.lazy().select(tg.target_encode("c", "y", **params)).collect()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tg.target_encode("c", "y", kind="leave_one_out"), ValueError, "`kind`: 'leave_one_out'"),
        (lambda: tg.target_encode("c", "y", kind="kfold", folds=1), ValueError, "`folds`: 1 is not at least 2"),
        (lambda: tg.target_encode("c", "y", folds=3), ValueError, "`folds`: it counts only under"),
        (lambda: tg.target_encode("c", "y", kind="loo", permutations=2), ValueError, "`permutations`: it counts only"),
        (lambda: tg.target_encode("c", "y", permutations=0), ValueError, "`permutations`: 0"),
        (lambda: tg.target_encode("c", "y", kind="full", order_by="t"), ValueError, "`order_by`: it counts only"),
        (lambda: tg.target_encode("c", "y", permutations=2, order_by="t"), ValueError, "only one order"),
        (lambda: tg.target_encode("c", "y", prior_weight=-1), ValueError, "`prior_weight`: -1"),
        (lambda: tg.target_encode("c", "y", prior_weight="some"), ValueError, '`prior_weight`: "some" is not'),
        (lambda: tg.target_encode("c", "y", prior=NAN), ValueError, "`prior`: nan"),
        (lambda: tg.target_encode("c", "y", seed=-1), ValueError, "`seed`"),
        (lambda: tg.target_encode("c", "y", classes=["a", "a"]), ValueError, "`classes`: 'a' stands twice"),
        (lambda: tg.target_encode("c", "y", classes="ab"), TypeError, "`classes`"),
        (lambda: tg.target_encode(3, "y"), TypeError, "a category"),  # type: ignore[arg-type]
        (lambda: tg.target_encode("c", 3), TypeError, "the target"),  # type: ignore[arg-type]
        (lambda: tg.woe("c", "y", smoothing=-1), ValueError, "`smoothing`: -1"),
        (lambda: tg.combine(), ValueError, "no columns"),
        (lambda: tg.encode(b""), ValueError, "encoder: the value is empty"),
        (lambda: tg.encode(b"PAR1"), ValueError, "not a polars-taiga encoder"),
        (lambda: tg.encode("encoder"), ValueError, "name the columns"),
    ],
)
def test_parameters(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_encoders_that_cannot_be_used(cats: pl.DataFrame) -> None:
    encoder = cats.taiga.fit_target_encoder("city", "x").to_bytes()
    model = cats.taiga.fit_gbdt("x", "zip", rounds=2).to_bytes()
    with pytest.raises(ValueError, match="not a target encoder"):
        tg.encode(model)
    with pytest.raises(ValueError, match="cut"):
        tg.encode(encoder[:-1])
    with pytest.raises(Compute, match="encode: encoder: the value is damaged"):
        cats.select(tg.encode(pl.lit(encoder[:60] + b"?" + encoder[61:]), "city"))
    with pytest.raises(Compute, match="encode: column `zip`: the encoder was not fitted on it but on `city`"):
        cats.select(tg.encode(encoder, "zip"))
    with pytest.raises(Compute, match="encode: column `city`: its type is i16; the fitted categories are text"):
        cats.select(tg.encode(encoder, pl.col("zip").alias("city")))
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="city"):
        cats.drop("city").select(tg.encode(encoder))
    with pytest.raises(Compute, match=r"encode: .*an encoder is Binary"):
        cats.select(tg.encode("zip", "city"))
    classes = cats.taiga.fit_target_encoder("city", "kind", classes=["low", "mid", "top"]).to_bytes()
    with pytest.raises(Compute, match=r"encode: the encoder of `kind` gives struct\{\w+: f64, .*dtype="):
        cats.select(tg.encode(pl.lit(classes), "city"))
    with pytest.raises(Compute, match="woe: column `y`: the target is the same"):
        pl.DataFrame({"c": ["a"], "y": [True]}).select(tg.woe("c", "y"))


def test_models_take_encodings_of_noise_for_what_they_are() -> None:
    """A hundred thousand random categories say nothing; only `full` makes a model believe they do."""
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(11)
    n = 200_000
    df = pl.DataFrame({"c": rng.integers(0, 100_000, n), "y": rng.random(n) < 0.4, "held": rng.random(n) < 0.5})
    for kind in ["ordered", "kfold", "full"]:
        train = df.filter(~pl.col("held")).with_columns(e=tg.target_encode("c", "y", kind=kind))
        model = train.taiga.fit_gbdt("y", "e", rounds=30)
        encoder = train.taiga.fit_target_encoder("c", "y")
        held = df.filter("held").with_columns(e=tg.encode(encoder, "c"))
        auc = {
            name: roc_auc_score(part["y"].to_numpy(), part.select(tg.predict(model))["prediction"].to_numpy())
            for name, part in [("train", train), ("held", held)]
        }
        assert abs(auc["held"] - 0.5) < 0.01, (kind, auc)
        assert (abs(auc["train"] - 0.5) < 0.02) == (kind != "full"), (kind, auc)


def test_objects_tell_no_order(cats: pl.DataFrame) -> None:
    """Proves that Python's objects, which reach the plugin by their addresses, are an error, and no order by these."""
    objects = cats.with_columns(pl.Series("o", [10**30 + i for i in range(cats.height)], dtype=pl.Object))
    with pytest.raises(pl.exceptions.PolarsError):
        objects.select(tg.target_encode("c", "y", order_by="o"))


def test_a_struct_tells_an_order_by_all_its_fields() -> None:
    df = pl.DataFrame({"c": ["a"] * 4, "y": [1.0, 2.0, 3.0, 4.0], "s": [2, 1, 2, 1], "t": [4, 3, 2, 1]})
    given: dict[str, Any] = {"prior": 0.0, "prior_weight": 0}
    found = df.select(tg.target_encode("c", "y", order_by=pl.struct("s", "t"), **given))["c"].to_list()
    # By (s, t) the rows come as 3, 1, 2, 0.
    assert found == [(4 + 2 + 3) / 3, 4.0, 3.0, 0.0]
    for wrong in (pl.lit(None, pl.Int64), pl.lit(float("nan"))):
        holed = df.with_columns(t=pl.when(pl.col("t") == 2).then(wrong).otherwise("t"))
        for order in ("t", pl.struct("t"), pl.struct("s", pl.struct("t"))):
            with pytest.raises(pl.exceptions.ComputeError, match="column `t`"):
                holed.select(tg.target_encode("c", "y", order_by=order, **given))
            with pytest.raises(pl.exceptions.ComputeError, match="column `t`"):
                holed.select(tg.fit_gbdt("y", "c", order_by=order, rounds=1))


def test_evidence_of_text_is_told_what_it_can_do() -> None:
    df = pl.DataFrame({"c": ["a", "b"], "y": ["u", "v"]}).with_columns(e=pl.col("y").cast(pl.Enum(["u", "v"])))
    for make in (tg.woe, tg.information_value):
        for target in ("y", "e"):
            with pytest.raises(
                pl.exceptions.ComputeError, match=rf"`{target}`: .* needs a Boolean .*for example pl\.col"
            ):
                df.lazy().select(make("c", target)).collect_schema()


def test_a_share_is_asked_for_by_a_boolean() -> None:
    with pytest.raises(TypeError, match="parameter `normalize`: 'no' is not True or False"):
        tg.count_encode("c", normalize="no")  # type: ignore[arg-type]


def test_a_group_of_fewer_rows_than_folds_is_null() -> None:
    """Proves that too few rows for folds are the rows' fault, which `on_error="null"` is about, and that others are
    encoded as they are alone.
    """
    rows = [1, 4, 5, 12]
    df = pl.DataFrame({"g": [n for n in rows for _ in range(n)]}).with_columns(
        c=pl.int_range(pl.len()) % 3, y=pl.int_range(pl.len()) % 7 * 1.0
    )

    def encoded(**more: Any) -> pl.Expr:
        return tg.target_encode("c", "y", kind="kfold", **more).alias("e")

    with pytest.raises(Compute, match=r"`folds`: 5 are more than the 4 rows \(a fit of 4 rows, whose first `y` is"):
        df.filter(pl.col("g") == 4).select(encoded())
    by_group = df.with_columns(encoded(on_error="null").over("g"))
    for n in rows:
        alone = df.filter(pl.col("g") == n)
        expected = [None] * n if n < 5 else alone.select(encoded())["e"].to_list()
        assert by_group.filter(pl.col("g") == n)["e"].to_list() == expected

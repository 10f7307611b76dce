"""Sparse logistic regression as expressions: against scikit-learn, and over what a user may give."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

OPTIMIZERS = ["lbfgs", "sgd", "adagrad", "ftrl"]
FEATURES = 40


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    """2,000 rows of 1 to 8 of 40 features with values; two and three classes."""
    rng = np.random.default_rng(5)
    lists = [np.sort(rng.choice(FEATURES, rng.integers(1, 9), replace=False)) for _ in range(2000)]
    values = [np.round(rng.normal(size=len(row)) * 32) / 32 for row in lists]
    truth = rng.normal(size=FEATURES)
    score = np.array([truth[i] @ v for i, v in zip(lists, values, strict=True)])
    return pl.DataFrame(
        {
            "i": pl.Series([r.tolist() for r in lists], dtype=pl.List(pl.UInt32)),
            "v": pl.Series([v.tolist() for v in values], dtype=pl.List(pl.Float64)),
            "x": np.round(rng.normal(size=2000) * 32) / 32,
            "w": rng.integers(1, 4, 2000).astype(float),
            "y": score + rng.logistic(size=2000) > 0,
            "kind": pl.Series(np.digitize(score + rng.logistic(size=2000) / 2, [-1, 1])).cast(pl.String),
            "held": np.arange(2000) % 4 == 0,
            "group": np.arange(2000) % 3,
        }
    )


def matrix(df: pl.DataFrame) -> csr_matrix:
    lengths = df["i"].list.len().to_numpy()
    indices = df["i"].explode().to_numpy().astype(np.int32)
    return csr_matrix(
        (df["v"].explode().to_numpy(), indices, np.concatenate([[0], lengths.cumsum()]).astype(np.int32)),
        (len(df), FEATURES),
    )


def objective(model: tg.Model, df: pl.DataFrame, l1: float, l2: float) -> float:
    """By definition, from the coefficients."""
    c = np.zeros(FEATURES)
    coefficients = model.coefficients()
    c[coefficients["feature"].to_numpy()] = coefficients["coefficient"].to_numpy()
    z = matrix(df) @ c + model.intercepts[0]
    y = df["y"].to_numpy()
    return float(np.mean(np.logaddexp(0, np.where(y, -z, z))) + l2 / 2 * (c @ c) + l1 * np.abs(c).sum())


@pytest.mark.parametrize("c", [0.02, 1.0, 50.0])
def test_lbfgs_finds_the_optimum_of_scikit_learn(rows: pl.DataFrame, c: float) -> None:
    l2 = 1 / (c * rows.height)
    model = rows.taiga.fit_sparse_lr("y", "i", "v", l2=l2, tolerance=1e-7, epochs=500)
    peer = LogisticRegression(C=c, tol=1e-9, max_iter=2000).fit(matrix(rows), rows["y"])
    want = np.zeros(FEATURES)
    got = model.coefficients()
    want[:] = peer.coef_[0]
    np.testing.assert_allclose(got["coefficient"], want[got["feature"].to_numpy()], atol=2e-4)
    assert model.intercepts[0] == pytest.approx(peer.intercept_[0], abs=2e-4)
    np.testing.assert_allclose(
        rows.select(tg.predict(model)).to_series(), peer.predict_proba(matrix(rows))[:, 1], atol=1e-4
    )
    assert model.converged
    assert model.objective == pytest.approx(objective(model, rows, 0, l2), rel=1e-5)


@pytest.mark.parametrize("optimizer", ["lbfgs", "ftrl"])
def test_l1_gives_true_zeros(rows: pl.DataFrame, optimizer: Any) -> None:
    l1 = 0.02
    epochs = 500 if optimizer == "lbfgs" else 200
    model = rows.taiga.fit_sparse_lr(
        "y", "i", "v", l1=l1, l2=0.0, optimizer=optimizer, epochs=epochs, batch=None if optimizer == "lbfgs" else 64
    )
    peer = LogisticRegression(C=1 / (l1 * rows.height), l1_ratio=1, solver="saga", tol=1e-8, max_iter=20_000)
    peer.fit(matrix(rows), rows["y"])
    zeros = FEATURES - model.coefficients().height
    assert zeros > 0
    z = matrix(rows) @ peer.coef_[0] + peer.intercept_[0]
    want = np.mean(np.logaddexp(0, np.where(rows["y"].to_numpy(), -z, z))) + l1 * np.abs(peer.coef_).sum()
    got = objective(model, rows, l1, 0)
    if optimizer == "lbfgs":
        assert got == pytest.approx(want, abs=1e-4)
        assert zeros == (peer.coef_ == 0).sum()
    else:
        assert got <= want + 0.02


def test_several_classes_are_a_softmax(rows: pl.DataFrame) -> None:
    model = rows.taiga.fit_sparse_lr("kind", "i", "v", tolerance=1e-7, epochs=500)
    peer = LogisticRegression(tol=1e-9, max_iter=2000).fit(matrix(rows), rows["kind"])
    got = rows.select(tg.predict(model)).to_series().struct.unnest()
    assert got.columns == list(peer.classes_)
    np.testing.assert_allclose(got.to_numpy(), peer.predict_proba(matrix(rows)), atol=2e-4)
    assert rows.select(tg.predict(model, output="class")).to_series().to_list() == peer.predict(matrix(rows)).tolist()
    assert set(model.coefficients()["class"]) == set(peer.classes_)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_bytes_are_the_same(rows: pl.DataFrame, optimizer: Any) -> None:
    def fit(frame: pl.DataFrame, threads: int = 2) -> bytes:
        expr = tg.fit_sparse_lr("y", "i", "v", dense="x", weight="w", optimizer=optimizer, epochs=4, n_threads=threads)
        return frame.select(expr).item()

    once = fit(rows)
    assert fit(rows) == once
    for threads in (1, 3, 4):
        assert fit(rows, threads) == once
    for dtype in (pl.Int32, pl.Int64, pl.UInt8, pl.UInt64):
        assert fit(rows.with_columns(pl.col("i").cast(pl.List(dtype)))) == once
    assert fit(rows.with_columns(pl.col("v").cast(pl.List(pl.Float32)))) == once
    assert fit(pl.concat([rows[k : k + 130] for k in range(0, rows.height, 130)], rechunk=False)) == once
    assert fit(pl.concat([rows, rows])[rows.height :]) == once
    assert (
        rows.lazy()
        .select(tg.fit_sparse_lr("y", "i", "v", dense="x", weight="w", optimizer=optimizer, epochs=4))
        .collect()
        .item()
        == once
    )


def test_lists_arrays_and_structs_say_the_same(rows: pl.DataFrame) -> None:
    rng = np.random.default_rng(0)
    i = rng.integers(0, 50, (500, 4))
    v = np.round(rng.normal(size=(500, 4)) * 16) / 16
    df = pl.DataFrame({"y": i[:, 0] % 2 == 0}).with_columns(
        i=pl.Series(i, dtype=pl.Array(pl.Int64, 4)), v=pl.Series(v, dtype=pl.Array(pl.Float64, 4))
    )
    array = df.taiga.fit_sparse_lr("y", "i", "v")
    lists = df.with_columns(pl.col("i", "v").arr.to_list())
    assert lists.taiga.fit_sparse_lr("y", "i", "v") == array
    pairs = lists.select(
        "y", i=pl.concat_list([pl.struct(f=pl.col("i").list.get(k), v=pl.col("v").list.get(k)) for k in range(4)])
    )
    structs = pairs.taiga.fit_sparse_lr("y", "i")
    assert structs.coefficients().equals(array.coefficients())
    want = df.select(tg.predict(array)).to_series()
    assert lists.select(tg.predict(array)).to_series().equals(want)
    assert pairs.select(tg.predict(structs)).to_series().equals(want)


def test_strings_are_hashed(rows: pl.DataFrame) -> None:
    words = rows.with_columns(i=pl.col("i").list.eval(pl.format("word {}", pl.element())))
    model = words.taiga.fit_sparse_lr("y", "i", "v", hash_bits=18)
    plain = rows.taiga.fit_sparse_lr("y", "i", "v")
    # 40 words in 2^18 places do not collide.
    np.testing.assert_allclose(
        words.select(tg.predict(model)).to_series(), rows.select(tg.predict(plain)).to_series(), atol=2e-3
    )
    assert model.features == {"i": "list of strings", "v": "list of numbers"}
    assert (
        words.with_columns(pl.col("i").cast(pl.List(pl.Categorical))).taiga.fit_sparse_lr("y", "i", "v", hash_bits=18)
        == model
    )


def test_duplicates_are_summed_and_nulls_are_not_there() -> None:
    y = [True, False] * 50
    plain = pl.DataFrame({"i": [[1, 2], [2]] * 50, "v": [[3.0, 1.0], [1.0]] * 50, "y": y})
    other = pl.DataFrame({"i": [[1, 2, 1, None, 7], [2]] * 50, "v": [[1.0, 1.0, 2.0, 9.0, None], [1.0]] * 50, "y": y})
    a, b = (df.taiga.fit_sparse_lr("y", "i", "v", features=10, l2=0.1) for df in (plain, other))
    np.testing.assert_allclose(a.coefficients()["coefficient"], b.coefficients()["coefficient"], atol=1e-4)
    empty = pl.DataFrame({"i": [None, []], "v": [None, []]}, schema={"i": pl.List(pl.Int64), "v": pl.List(pl.Float64)})
    assert empty.select(tg.predict(a, output="raw")).to_series().to_list() == [a.intercepts[0]] * 2


def test_early_stopping_keeps_the_best(rows: pl.DataFrame) -> None:
    model = rows.taiga.fit_sparse_lr(
        "y",
        "i",
        "v",
        optimizer="adagrad",
        learning_rate=1.0,
        epochs=60,
        eval="held",
        early_stopping=3,
        metric="logloss",
    )
    history = model.history
    assert model.rounds == history["logloss"].arg_min() + 1
    held = rows.filter("held")
    p = held.select(tg.predict(model)).to_series().to_numpy()
    y = held["y"].to_numpy()
    assert -np.mean(np.log(np.where(y, p, 1 - p))) == pytest.approx(history["logloss"].min(), rel=1e-6)
    changed = rows.with_columns(y=pl.col("y") ^ pl.col("held"))
    quiet = {"optimizer": "lbfgs", "eval": "held", "epochs": 5}
    assert (
        changed.taiga.fit_sparse_lr("y", "i", "v", **quiet)
        .coefficients()
        .equals(rows.taiga.fit_sparse_lr("y", "i", "v", **quiet).coefficients())
    )


def test_a_model_for_each_group_and_streaming(rows: pl.DataFrame) -> None:
    models = rows.group_by("group").agg(tg.fit_sparse_lr("y", "i", "v"))
    for group, model in models.iter_rows():
        assert rows.filter(pl.col("group") == group).select(tg.fit_sparse_lr("y", "i", "v")).item() == model
    each = rows.with_row_index("n").join(models, on="group").sort("n").select(tg.predict("model", "i", "v")).to_series()
    for group, model in models.iter_rows():
        mine = rows["group"] == group
        assert each.filter(mine).equals(rows.filter(mine).select(tg.predict(model)).to_series())
    model = rows.taiga.fit_sparse_lr("y", "i", "v")
    big = pl.concat([rows] * 150)
    eager = big.select(tg.predict(model)).to_series()
    assert eager.equals(big.lazy().select(tg.predict(model)).collect(engine="streaming").to_series())


def test_dense_columns_alone_will_do(rows: pl.DataFrame) -> None:
    model = rows.taiga.fit_sparse_lr("y", dense=["x", "w"])
    assert set(model.coefficients()["name"]) <= {"x", "w"}
    assert rows.select(tg.predict(model)).to_series().is_between(0, 1).all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"i": pl.col("i").cast(pl.List(pl.Int64)).list.eval(pl.element() - 5)}, "`i`.*negative"),
        ({"v": pl.col("v").list.head(1)}, "`v`: has 1 values in row 0"),
        ({"v": pl.col("v").list.eval(pl.element() * float("nan"))}, "`v`.*NaN"),
        ({"v": pl.col("v").list.eval(pl.element() / 0)}, "`v`.*(NaN|inf)"),
        ({"i": pl.col("x")}, "`i`.*f64"),
        ({"i": pl.col("v")}, "`i`.*integers or strings"),
        ({"v": pl.col("i").list.eval(pl.element().cast(pl.String))}, "`v`.*numbers"),
        ({"y": pl.lit(True)}, "`y`.*one class"),
        ({"y": pl.when(pl.col("x") > 0).then("y")}, "`y`.*null"),
        ({"y": pl.col("x")}, "`y`.*label|`y`.*class"),
        ({"w": pl.lit(0.0)}, "`w`: all .* zero"),
        ({"w": pl.lit(-1.0)}, "`w`.*negative"),
        ({"x": pl.lit(float("inf"))}, "`x`.*infinite"),
        ({"x": pl.lit(None, dtype=pl.Float64)}, "`x`.*null"),
    ],
)
def test_columns_that_can_not_be_used_are_errors(rows: pl.DataFrame, change: dict[str, pl.Expr], says: str) -> None:
    with pytest.raises(pl.exceptions.ComputeError, match=says):
        rows.with_columns(**change).select(tg.fit_sparse_lr("y", "i", "v", dense="x", weight="w"))


def test_feature_numbers_beyond_features_are_errors(rows: pl.DataFrame) -> None:
    with pytest.raises(pl.exceptions.ComputeError, match=r"`i`.*row.*39|`i`.*39.*row"):
        rows.select(tg.fit_sparse_lr("y", "i", "v", features=39))


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"l1": -1.0}, "`l1`"),
        ({"l2": -0.5}, "`l2`"),
        ({"epochs": 0}, "`epochs`"),
        ({"batch": 10}, "`batch`"),
        ({"optimizer": "sgd", "batch": 0}, "`batch`"),
        ({"optimizer": "newton"}, "optimizer"),
        ({"hash_bits": 40}, "`hash_bits`"),
        ({"features": 0}, "`features`"),
        ({"learning_rate": 0.0, "optimizer": "sgd"}, "`learning_rate`"),
        ({"metric": "rmse"}, "`metric`"),
    ],
)
def test_parameters_out_of_range_are_errors(params: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        tg.fit_sparse_lr("y", "i", **params)


def test_what_is_missing_is_said() -> None:
    with pytest.raises(ValueError, match="no features"):
        tg.fit_sparse_lr("y")
    with pytest.raises(ValueError, match="no features"):
        tg.fit_sparse_lr("y", values="v", dense="x")
    with pytest.raises(TypeError, match="optimiser"):
        tg.fit_sparse_lr("y", "i", optimiser="ftrl")  # type: ignore[call-arg]


def test_models_refuse_what_is_not_theirs(rows: pl.DataFrame) -> None:
    model = rows.taiga.fit_sparse_lr("y", "i", "v")
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match=r"\bi\b"):
        rows.drop("i").select(tg.predict(model))
    with pytest.raises(pl.exceptions.PolarsError, match="`v`"):
        rows.drop("v").select(tg.predict(model))
    for output in ("leaf", "staged"):
        with pytest.raises(ValueError, match=r"linear|boosted"):
            rows.select(tg.predict(model, output=output))
    with pytest.raises(ValueError, match="a linear model has no"):
        model.trees()
    data = model.to_bytes()
    for cut in range(0, len(data), 5):
        with pytest.raises(ValueError, match="model"):
            tg.Model.from_bytes(data[:cut])
    assert tg.Model.from_bytes(data) == model
    assert "sparse_lr" in repr(model)


@pytest.mark.parametrize(
    ("optimizer", "written"),
    [
        ("lbfgs", {"epochs": 100, "tolerance": 1e-4}),
        ("sgd", {"epochs": 5, "batch": 32, "learning_rate": 0.1}),
        ("ftrl", {"epochs": 5, "batch": 1024, "learning_rate": 0.1}),
    ],
)
def test_a_default_that_is_written_out_changes_no_byte(rows: pl.DataFrame, optimizer: Any, written: Any) -> None:
    """Proves that a model says what differs from the defaults, as its receipt does, and not what was typed."""
    own = rows.taiga.fit_sparse_lr("y", "i", "v", optimizer=optimizer)
    assert rows.taiga.fit_sparse_lr("y", "i", "v", optimizer=optimizer, **written).to_bytes() == own.to_bytes()
    other = rows.taiga.fit_sparse_lr("y", "i", "v", optimizer=optimizer, **{**written, "epochs": 3})
    assert other.params["epochs"] == 3
    assert other.to_bytes() != own.to_bytes()

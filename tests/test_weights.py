"""Weights of any size and of none, and what follows the unit of a target."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

POLICIES = ["symmetric", "depthwise", "leafwise"]


def auc(score: np.ndarray[Any, Any], label: np.ndarray[Any, Any]) -> float:
    """The share of pairs in the right order."""
    order = np.argsort(score, kind="stable")
    ranks = np.empty(len(score))
    ranks[order] = np.arange(1, len(score) + 1)
    ones = int(label.sum())
    return float((ranks[label].sum() - ones * (ones + 1) / 2) / (ones * (len(label) - ones)))


@pytest.fixture(scope="module")
def weighed() -> pl.DataFrame:
    """Numbers and categories, a target of each kind, and weights of which a third are 0."""
    rng = np.random.default_rng(5)
    n = 2_000
    x, z = rng.normal(size=n), rng.normal(size=n)
    city = rng.integers(0, 12, n)
    y = x - x * z + city % 4 + 0.3 * rng.normal(size=n)
    return pl.DataFrame(
        {
            "x": x,
            "z": z.astype(np.float32),
            "city": pl.Series(city).cast(pl.String).cast(pl.Categorical),
            "y": y,
            "kind": pl.Series(np.digitize(y, [0.5, 2.5])).cast(pl.String),
            "held": rng.random(n) < 0.25,
            "w": np.where(rng.random(n) < 0.35, 0.0, 0.2 + rng.random(n)),
        }
    )


@pytest.mark.parametrize("target", ["y", "kind"])
@pytest.mark.parametrize(
    "params",
    [
        {"eval": "held", "early_stopping": 3},
        {"policy": "depthwise", "cat_method": "partition", "row_sample": "goss"},
        {"policy": "leafwise", "cat_method": "one_hot", "one_hot_max_size": 20, "row_sample": "mvs"},
    ],
)
def test_a_row_of_weight_zero_is_not_there(weighed: pl.DataFrame, target: str, params: dict[str, Any]) -> None:
    def trees(df: pl.DataFrame) -> pl.DataFrame:
        model = df.taiga.fit_gbdt(target, "x", "z", "city", weight="w", rounds=10, **params)
        return model.trees()

    own = trees(weighed)
    assert own.equals(trees(weighed.filter(pl.col("w") > 0)))
    none = pl.col("w") == 0
    other = weighed.with_columns(
        x=pl.when(none).then(1e9).otherwise("x"),
        y=pl.when(none).then(-1e12).otherwise("y"),
        kind=pl.when(none).then(pl.lit("another")).otherwise("kind"),
    )
    assert own.equals(trees(other))


@pytest.mark.parametrize("target", ["y", "kind"])
def test_forests_and_encoders_know_no_row_of_weight_zero(weighed: pl.DataFrame, target: str) -> None:
    some = weighed.filter(pl.col("w") > 0)
    forest = weighed.taiga.fit_forest(target, "x", "z", "city", weight="w", trees=10, permutation_importance=True)
    other = some.taiga.fit_forest(target, "x", "z", "city", weight="w", trees=10, permutation_importance=True)
    assert forest.trees().equals(other.trees())
    assert forest.oob_score == other.oob_score
    assert forest.importance("permutation").equals(other.importance("permutation"))
    predictions = forest.oob_predictions
    assert predictions.height == weighed.height
    assert predictions.filter(weighed["w"] > 0).equals(other.oob_predictions)
    assert predictions.filter(weighed["w"] == 0).null_count().row(0) == (weighed["w"].eq(0).sum(),) * predictions.width
    fit = tg.fit_target_encoder("city", pl.col("y"), weight="w")
    assert weighed.select(fit).item() == some.select(fit).item()


def test_labels_of_rows_of_weight_zero_do_not_leak() -> None:
    """Pure noise, a category of many values: half of the rows weigh nothing, and their labels can't be told."""
    rng = np.random.default_rng(0)
    n = 20_000
    df = pl.DataFrame({"c": rng.integers(0, 4_000, n), "y": rng.random(n) < 0.5, "w": (np.arange(n) % 2).astype(float)})
    df = df.with_columns(pl.col("c").cast(pl.String))
    model = df.taiga.fit_gbdt("y", "c", weight="w", rounds=50)
    out = df.filter(pl.col("w") == 0).with_columns(tg.predict(model))
    assert abs(auc(out["prediction"].to_numpy(), out["y"].to_numpy()) - 0.5) < 0.02
    values = df.select("y", "w", e=tg.target_encode("c", pl.col("y").cast(float), kind="full", weight="w"))
    out = values.filter(pl.col("w") == 0)
    assert abs(auc(out["e"].to_numpy(), out["y"].to_numpy()) - 0.5) < 0.02


def test_borders_are_those_of_rows_that_count() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.random(2_000), 100 + rng.random(100_000)])
    order = rng.permutation(len(x))
    df = pl.DataFrame({"x": x[order], "w": (x[order] < 50).astype(float)}).with_columns(y=(10 * pl.col("x")).sin())
    model = df.taiga.fit_gbdt("y", "x", weight="w", rounds=100)
    some = df.filter(pl.col("w") > 0).with_columns(tg.predict(model))
    assert (some["prediction"] - some["y"]).pow(2).mean() < 1e-3


@pytest.mark.parametrize("weights", [{"a": 1e39, "b": 1.0}, {"a": 1e39, "b": 1e30}])
def test_class_weights_beyond_single_floats(weights: dict[str, float]) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=1_000)
    label = np.where(x + rng.normal(size=1_000) > 0, "b", "a")
    df = pl.DataFrame({"x": x, "y": label})
    forest = df.taiga.fit_forest("y", "x", class_weight=weights, trees=20, min_data_in_leaf=100)
    assert df.select(tg.predict(forest)).to_series().max() < 0.01
    model = df.taiga.fit_gbdt("y", "x", class_weight=weights, rounds=20, depth=2)
    assert df.select(tg.predict(model)).to_series().max() < 0.01
    linear = df.taiga.fit_sparse_lr("y", dense="x", class_weight=weights, l2=1e-6)
    assert df.select(tg.predict(linear)).to_series().max() < 0.01


def test_row_weights_times_class_weights() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=1_000)
    df = pl.DataFrame({"x": x, "y": x + rng.normal(size=1_000) > 0}).with_columns(w=3e38, v=1.0)
    for fit in ("fit_forest", "fit_gbdt"):
        extra = {"l2": 0.0} if fit == "fit_gbdt" else {}
        kwargs: dict[str, Any] = {
            "rounds" if fit == "fit_gbdt" else "trees": 10,
            "class_weight": {True: 10.0, False: 1.0},
            **extra,
        }
        large = getattr(df.taiga, fit)("y", "x", weight="w", **kwargs)
        plain = getattr(df.taiga, fit)("y", "x", weight="v", **kwargs)
        a, b = (df.select(tg.predict(m)).to_series().to_numpy() for m in (large, plain))
        np.testing.assert_allclose(a, b, atol=0.05)


@pytest.mark.parametrize("factor", [1e-30, 1e-10, 1e10, 1e30])
@pytest.mark.parametrize("row_sample", ["none", "bernoulli", "goss", "mvs", "bayesian"])
def test_a_factor_of_weights_changes_nothing(weighed: pl.DataFrame, row_sample: Any, factor: float) -> None:
    def error(weight: pl.Expr) -> float:
        model = weighed.taiga.fit_gbdt("y", "x", "z", "city", weight=weight, row_sample=row_sample, l2=0, rounds=30)
        some = weighed.filter(pl.col("w") > 0).with_columns(tg.predict(model))
        return float((some["prediction"] - some["y"]).pow(2).mean() ** 0.5)  # type: ignore[operator]

    assert error(pl.col("w") * factor) == pytest.approx(error(pl.col("w")), rel=0.05)
    constant = error(pl.lit(factor) + 0 * pl.col("x"))
    assert constant == pytest.approx(error(pl.lit(1.0) + 0 * pl.col("x")), rel=0.05)


@pytest.mark.parametrize("unit", [1e20, 1e-25])
@pytest.mark.parametrize("policy", POLICIES)
def test_importances_follow_the_unit_of_the_target(weighed: pl.DataFrame, unit: float, policy: Any) -> None:
    def gains(unit: float) -> np.ndarray[Any, Any]:
        df = weighed.with_columns(pl.col("y") * unit)
        model = tg.Model(df.taiga.fit_gbdt("y", "x", "z", "city", rounds=10, policy=policy).to_bytes())
        assert model.trees()["gain"].drop_nulls().is_finite().all()
        return model.importance()["importance"].to_numpy()

    np.testing.assert_allclose(gains(unit) / unit / unit, gains(1.0), rtol=0.05)

    def shares(unit: float) -> np.ndarray[Any, Any]:
        df = weighed.with_columns(pl.col("y") * unit)
        forest = df.taiga.fit_forest("y", "x", "z", "city", trees=10)
        return forest.importance()["importance"].to_numpy()

    np.testing.assert_allclose(shares(unit), shares(1.0), rtol=0.05)

"""What the values of features may be (missing, infinite, of any type), and what about them does not matter."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from .tables import EXACT, POLICIES, inner_of, names, numbers, predict, rmse, trees_of, walk

policies = pytest.mark.parametrize("policy", POLICIES)
NAN, INF = float("nan"), float("inf")


def of_one(x: list[Any], y: list[float], dtype: Any = None) -> pl.DataFrame:
    return pl.DataFrame({"x": pl.Series(x, dtype=dtype), "y": y})


@policies
@pytest.mark.parametrize("hole", [None, NAN], ids=["null", "NaN"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_missing_value_goes_where_its_rows_belong(policy: Any, hole: Any, side: str) -> None:
    """Eight numbers and holes; the holes' target is that of the small numbers, or of the large ones."""
    df = of_one([*range(8), hole, hole], [1.0] * 4 + [0.0] * 4 + [1.0 if side == "left" else 0.0] * 2, pl.Float64)
    model = df.taiga.fit_gbdt("y", "x", rounds=1, depth=1, policy=policy, **EXACT)
    np.testing.assert_allclose(predict(df, model), df["y"], atol=1e-6)
    assert inner_of(model)["missing_left"].item() == (side == "left")


@policies
@pytest.mark.parametrize("loss", ["rmse", "logloss"])
def test_missing_or_not_alone_is_enough_to_tell_classes_apart(policy: Any, loss: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    hole = rng.random(100) < 0.5
    x[hole] = np.nan
    df = pl.DataFrame({"x": x, "y": hole if loss == "logloss" else hole.astype(float)})
    model = df.taiga.fit_gbdt("y", "x", rounds=50, policy=policy, loss=loss)
    assert ((predict(df, model) > 0.5) == hole).all()


@policies
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_many_holes_cost_no_more_accuracy_than_in_scikit_learn(policy: Any, share: float) -> None:
    df = numbers(rows=1_000, seed=1)
    rng = np.random.default_rng(0)
    holes = df.with_columns(pl.when(pl.Series(rng.random(1_000) > share)).then(name) for name in names(df))
    model = holes.taiga.fit_gbdt("y", names(df), rounds=60, policy=policy)
    x, y = holes.select(names(df)).to_numpy(), df["y"].to_numpy()
    peer = HistGradientBoostingRegressor(max_iter=60, early_stopping=False).fit(x, y)
    assert rmse(predict(holes, model), y) < 1.05 * rmse(peer.predict(x), y)


@policies
def test_null_and_nan_are_the_same_to_the_byte(policy: Any) -> None:
    df = numbers().with_columns(pl.when(pl.int_range(pl.len()) % 5 > 0).then("x0").alias("x0"))
    a = df.taiga.fit_gbdt("y", names(df), rounds=5, policy=policy)
    b = df.with_columns(pl.col("x0").fill_null(NAN)).taiga.fit_gbdt("y", names(df), rounds=5, policy=policy)
    assert a == b


@policies
def test_holes_are_as_good_as_two_columns_with_a_value_below_and_above_all(policy: Any) -> None:
    """Missing values left, or right: every such split has its twin on a column filled below, or above."""
    df = numbers(rows=2_000, seed=4).select("x0", "x1", "y")
    # Holes at random in one feature, at its largest values in the other.
    df = df.with_columns(
        pl.when(pl.int_range(pl.len()) % 9 != 4).then("x0").alias("x0"),
        pl.when(pl.col("x1") < 1.2).then("x1").alias("x1"),
    )
    filled = df.select(
        "y",
        *(pl.col(n).fill_null(pl.col(n).min() - 1).alias(f"{n} low") for n in names(df)),
        *(pl.col(n).fill_null(pl.col(n).max() + 1).alias(f"{n} high") for n in names(df)),
    )
    params: dict[str, Any] = {"rounds": 20, "policy": policy, "depth": 2}
    a = df.taiga.fit_gbdt("y", names(df), **params)
    b = filled.taiga.fit_gbdt("y", pl.exclude("y"), **params)
    np.testing.assert_allclose(predict(df, a), predict(filled, b), atol=1e-5)


@policies
def test_a_hole_first_met_in_prediction_goes_the_way_that_the_trees_say(policy: Any) -> None:
    df = numbers()
    model = df.taiga.fit_gbdt("y", names(df), rounds=1, policy=policy, **EXACT)
    new = df.with_columns(pl.lit(None, dtype=pl.Float64).alias("x1"))
    nodes = trees_of(model)[0]
    want = [df["y"].mean() + walk(nodes, row)["value"] for row in new.to_dicts()]
    np.testing.assert_allclose(predict(new, model), want, rtol=1e-5, atol=1e-6)


@policies
def test_infinite_values_are_the_smallest_and_the_largest(policy: Any) -> None:
    df = of_one([-INF, 0.0, 1.0, INF], [0.0, 0.0, 1.0, 1.0])
    model = df.taiga.fit_gbdt("y", "x", rounds=1, policy=policy, **EXACT)
    np.testing.assert_allclose(predict(df, model), df["y"], atol=1e-6)
    beyond = of_one([-1e300, 1e300], [0.0, 1.0])
    np.testing.assert_allclose(predict(beyond, model), beyond["y"], atol=1e-6)


@policies
@pytest.mark.parametrize("alone", [-INF, 0.0, INF, NAN], ids=str)
def test_infinite_finite_and_missing_values_can_each_be_told_from_all_others(policy: Any, alone: float) -> None:
    x = [-INF, 0.0, 1.0, INF, NAN] * 4
    same = [v == alone or (alone != alone and v != v) for v in x]
    df = of_one(x, [float(s) for s in same])
    model = df.taiga.fit_gbdt("y", "x", rounds=1, depth=2, policy=policy, **EXACT)
    np.testing.assert_allclose(predict(df, model), df["y"], atol=1e-6)


@policies
@pytest.mark.parametrize("scale", [1e-300, 1e-40, 1e40, 1e300])
def test_the_scale_of_a_feature_does_not_matter(policy: Any, scale: float) -> None:
    df = numbers().select("x0", "y")
    model = df.taiga.fit_gbdt("y", "x0", rounds=10, policy=policy)
    scaled = df.with_columns(pl.col("x0") * scale)
    assert scaled.select("x0").n_unique() == df.select("x0").n_unique()
    other = scaled.taiga.fit_gbdt("y", "x0", rounds=10, policy=policy)
    np.testing.assert_array_equal(predict(df, model), predict(scaled, other))


@policies
@pytest.mark.parametrize("change", ["exp", "cube", "rank"])
def test_a_rising_function_of_a_feature_gives_the_same_predictions(policy: Any, change: str) -> None:
    df = numbers()
    of = {"exp": pl.all().exp(), "cube": pl.all().pow(3), "rank": pl.all().rank("dense").cast(pl.Float64)}[change]
    other = df.with_columns(df.select(names(df)).select(of))
    a, b = (frame.taiga.fit_gbdt("y", names(df), rounds=20, policy=policy) for frame in (df, other))
    np.testing.assert_array_equal(predict(df, a), predict(other, b))


@policies
def test_a_falling_function_of_a_feature_gives_the_mirrored_trees(policy: Any) -> None:
    df = numbers(rows=1_000)
    other = df.with_columns(-pl.col(names(df)))
    a, b = (frame.taiga.fit_gbdt("y", names(df), rounds=10, depth=3, policy=policy) for frame in (df, other))
    np.testing.assert_allclose(predict(df, a), predict(other, b), atol=1e-5)


TYPES = {
    "Int8": pl.Int8, "Int16": pl.Int16, "Int32": pl.Int32, "Int64": pl.Int64, "UInt8": pl.UInt8, "UInt16": pl.UInt16,
    "UInt32": pl.UInt32, "UInt64": pl.UInt64, "Float32": pl.Float32, "Decimal": pl.Decimal(20, 3),
}  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES.values(), ids=TYPES)
def test_the_type_of_a_number_does_not_matter(dtype: Any) -> None:
    df = numbers().with_columns((pl.col(f"x{i}") * 8).round().clip(-30, 30) + 40 for i in range(3))
    expected = df.taiga.fit_gbdt("y", names(df), rounds=5)
    other = df.with_columns(pl.col(names(df)).cast(dtype))
    model = other.taiga.fit_gbdt("y", names(df), rounds=5)
    assert model == expected
    np.testing.assert_array_equal(predict(other, expected), predict(df, model))


@pytest.mark.parametrize("kind", ["date", "datetime", "duration", "time"])
def test_temporal_features_order_as_their_numbers(kind: str) -> None:
    ranks = numbers().select((pl.col("x0") * 8).round().rank("dense").cast(pl.Int64).alias("x0"), "x1", "y")
    of = {
        "date": lambda n: date(2020, 1, 1) + timedelta(days=n),
        "datetime": lambda n: datetime(2020, 1, 1) + timedelta(hours=n),
        "duration": lambda n: timedelta(minutes=n),
        "time": lambda n: (datetime(2020, 1, 1) + timedelta(seconds=n)).time(),
    }[kind]
    other = ranks.with_columns(pl.Series("x0", [of(n) for n in ranks["x0"]]))
    a, b = (frame.taiga.fit_gbdt("y", "x0", "x1", rounds=10) for frame in (ranks, other))
    np.testing.assert_array_equal(predict(ranks, a), predict(other, b))


def test_a_boolean_feature_is_zero_and_one() -> None:
    df = numbers().with_columns(pl.col("x1") > 0)
    model = df.taiga.fit_gbdt("y", names(df), rounds=5)
    assert model == df.with_columns(pl.col("x1").cast(pl.Int8)).taiga.fit_gbdt("y", names(df), rounds=5)


@pytest.mark.parametrize("dtype", [pl.Int32, pl.UInt64, pl.Float32, pl.Decimal(20, 2)], ids=str)
def test_the_type_of_a_numeric_target_does_not_matter(dtype: Any) -> None:
    df = numbers().with_columns((pl.col("y") * 4).round() + 50)
    expected = predict(df, df.taiga.fit_gbdt("y", names(df), rounds=5))
    other = df.with_columns(pl.col("y").cast(dtype))
    np.testing.assert_array_equal(predict(df, other.taiga.fit_gbdt("y", names(df), rounds=5)), expected)


def test_decimals_keep_their_fractions() -> None:
    df = of_one([Decimal("0.10"), Decimal("0.20"), Decimal("0.30"), Decimal("0.40")], [0.0, 0, 1, 1])
    model = df.taiga.fit_gbdt("y", "x", rounds=1, **EXACT)
    np.testing.assert_allclose(predict(df, model), df["y"], atol=1e-6)
    assert inner_of(model)["border"].item() == pytest.approx(0.25)


@pytest.mark.parametrize("apart", [1, 1_000])
def test_large_integers_that_differ_by_little_are_kept_apart(apart: int) -> None:
    base = 2**52
    df = of_one([base, base + apart, base + 2 * apart, base + 3 * apart], [0.0, 1, 0, 1], pl.Int64)
    model = df.taiga.fit_gbdt("y", "x", rounds=1, **EXACT)
    np.testing.assert_allclose(predict(df, model), df["y"], atol=1e-6)


@policies
@pytest.mark.parametrize("value", [0.0, -7.5, NAN, INF], ids=str)
def test_a_constant_column_changes_no_prediction(policy: Any, value: float) -> None:
    df = numbers()
    a = df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy)
    other = df.with_columns(x9=pl.lit(value))
    b = other.taiga.fit_gbdt("y", "x9", *names(df), rounds=10, policy=policy)
    np.testing.assert_array_equal(predict(df, a), predict(other, b))


@policies
def test_a_feature_given_twice_under_two_names_changes_no_prediction(policy: Any) -> None:
    df = numbers()
    other = df.with_columns(x8=pl.col("x0"), x9=pl.col("x1") * 2)
    a = df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy)
    b = other.taiga.fit_gbdt("y", names(other), rounds=10, policy=policy)
    np.testing.assert_array_equal(predict(df, a), predict(other, b))
    # Of two that are as good the first one is taken.
    assert b.importance("split").filter(pl.col("feature").is_in(["x8", "x9"]))["importance"].sum() == 0


@policies
def test_the_order_of_the_features_changes_no_prediction(policy: Any) -> None:
    df = numbers(rows=1_000)
    a = df.taiga.fit_gbdt("y", "x0", "x1", "x2", rounds=10, depth=4, policy=policy)
    b = df.taiga.fit_gbdt("y", "x2", "x0", "x1", rounds=10, depth=4, policy=policy)
    np.testing.assert_array_equal(predict(df, a), predict(df, b))
    assert a.importance().sort("feature").equals(b.importance().sort("feature"))


def test_the_names_of_the_features_change_nothing_but_names() -> None:
    df = numbers()
    other = df.rename({"x0": "größe", "x1": "a b", "x2": '"', "y": "目标"})
    a = df.taiga.fit_gbdt("y", "x0", "x1", "x2", rounds=5)
    b = other.taiga.fit_gbdt("目标", "größe", "a b", '"', rounds=5)
    np.testing.assert_array_equal(predict(df, a), predict(other, b))


@policies
@pytest.mark.parametrize("shift", [-1e3, 1e6])
def test_adding_to_the_target_adds_to_predictions(policy: Any, shift: float) -> None:
    df = numbers().with_columns((pl.col("y") * 1024).round() / 1024)
    a, b = (
        predict(df, df.with_columns(pl.col("y") + c).taiga.fit_gbdt("y", names(df), rounds=20, policy=policy))
        for c in (0.0, shift)
    )
    np.testing.assert_allclose(b - shift, a, atol=1e-5 + 1e-9 * abs(shift))


@policies
@pytest.mark.parametrize("loss", ["rmse", "mae", "quantile"])
@pytest.mark.parametrize("scale", [2.0**-90, 2.0**90])
def test_predictions_scale_with_the_target(policy: Any, loss: str, scale: float) -> None:
    df = numbers()
    a, b = (
        predict(
            df, df.with_columns(pl.col("y") * c).taiga.fit_gbdt("y", names(df), rounds=10, policy=policy, loss=loss)
        )
        for c in (1.0, scale)
    )
    np.testing.assert_allclose(b / scale, a, rtol=1e-6, atol=1e-7)


@policies
def test_negating_the_target_negates_predictions(policy: Any) -> None:
    df = numbers(rows=1_000)
    a, b = (
        predict(df, df.with_columns(pl.col("y") * c).taiga.fit_gbdt("y", names(df), rounds=10, depth=4, policy=policy))
        for c in (1, -1)
    )
    np.testing.assert_allclose(-b, a, atol=1e-5)


@policies
def test_the_order_of_the_rows_hardly_matters(policy: Any) -> None:
    """Derivatives are rounded at random by a row's number, so the models are close and not the same."""
    df = numbers(rows=1_000)
    a = df.taiga.fit_gbdt("y", names(df), rounds=10, depth=4, policy=policy)
    b = df.reverse().taiga.fit_gbdt("y", names(df), rounds=10, depth=4, policy=policy)
    np.testing.assert_allclose(predict(df, a), predict(df, b), atol=1e-4)


@policies
def test_every_row_twice_is_every_row_once_without_penalties(policy: Any) -> None:
    df = numbers(rows=600)
    params: dict[str, Any] = {"rounds": 10, "depth": 3, "policy": policy, "l2": 0.0, "min_child_weight": 0.0}
    a = df.taiga.fit_gbdt("y", names(df), **params)
    b = pl.concat([df, df]).taiga.fit_gbdt("y", names(df), **params)
    np.testing.assert_allclose(predict(df, a), predict(df, b), atol=1e-4)


@policies
def test_minus_zero_is_zero(policy: Any) -> None:
    df = of_one([0.0, -0.0, 1.0, -1.0] * 5, [1.0, 1.0, 2.0, 0.0] * 5)
    model = df.taiga.fit_gbdt("y", "x", rounds=1, policy=policy, **EXACT)
    np.testing.assert_allclose(predict(df, model), df["y"], atol=1e-6)
    assert 0.0 not in model.borders["x"]


@policies
@pytest.mark.parametrize(
    ("values", "dtype"),
    [([-(2**63), -1, 0, 2**63 - 1], pl.Int64), ([0, 1, 2**63, 2**64 - 1], pl.UInt64)],
    ids=["Int64", "UInt64"],
)
@pytest.mark.parametrize("named", [False, True], ids=["numeric", "categorical"])
def test_the_ends_of_integers_are_told_apart(policy: Any, values: list[int], dtype: Any, named: bool) -> None:
    df = of_one(values * 4, [0.0, 3.0, 1.0, 2.0] * 4, dtype)
    categorical = {"categorical": ["x"], "cat_method": "one_hot"} if named else {}
    model = df.taiga.fit_gbdt("y", "x", rounds=1, policy=policy, **categorical, **EXACT)
    np.testing.assert_allclose(predict(df, model), df["y"], atol=1e-6)

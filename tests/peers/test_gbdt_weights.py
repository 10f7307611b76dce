"""Weights of rows and of classes, and scores to start from."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.utils.class_weight import compute_class_weight

from .tables import FREE, POLICIES, leaves_of, names, numbers, predict, rmse, staged, start_of

policies = pytest.mark.parametrize("policy", POLICIES)
TARGETS = {
    "rmse": "y", "mae": "y", "quantile": "y", "huber": "y", "poisson": "positive", "gamma": "positive",
    "tweedie": "positive", "logloss": "flag", "cross_entropy": "share", "multiclass": "kind",
    "expectile": "y", "log_cosh": "y", "mape": "y", "focal": "flag",
}  # fmt: skip
losses = pytest.mark.parametrize("loss", TARGETS)


def table(rows: int = 400, levels: int | None = 40) -> pl.DataFrame:
    rng = np.random.default_rng(9)
    return numbers(rows, levels=levels).with_columns(
        share=1 / (1 + (-pl.col("y")).exp()),
        w=pl.Series(rng.integers(0, 4, rows).astype(float)),
        u=pl.Series(rng.uniform(0.5, 2.0, rows)),
    )


def repeated(df: pl.DataFrame, weight: str = "w") -> pl.DataFrame:
    """Each row as often as it weighs."""
    return df[np.repeat(np.arange(df.height), df[weight].to_numpy().astype(int))]


@policies
@losses
def test_a_row_s_weight_is_how_often_it_stands(policy: Any, loss: Any) -> None:
    """Derivatives are rounded at random by a row's number, so the two are close and not the same."""
    df = table()
    params: dict[str, Any] = {"rounds": 8, "depth": 3, "policy": policy, "loss": loss}
    a = df.taiga.fit_gbdt(TARGETS[loss], names(df), weight="w", **params)
    b = repeated(df).taiga.fit_gbdt(TARGETS[loss], names(df), **params)
    p, q = predict(df, a), predict(df, b)
    assert np.abs(p - q).mean() < 5e-3 * max(p.std(), 1e-3)


@policies
@losses
def test_what_a_row_of_weight_zero_says_does_not_matter(policy: Any, loss: Any) -> None:
    """Another target there, in the same range, gives the same trees."""
    df = table()
    target = TARGETS[loss]
    other = df.with_columns(pl.when(pl.col("w") > 0).then(target).otherwise(pl.col(target).reverse()).alias(target))
    a, b = (
        frame.taiga.fit_gbdt(target, names(df), weight="w", rounds=5, policy=policy, loss=loss) for frame in (df, other)
    )
    assert not df[target].equals(other[target])
    np.testing.assert_array_equal(predict(df, a), predict(df, b))
    assert start_of(a) == start_of(b)


@policies
@pytest.mark.parametrize("target", ["y", "flag", "kind"])
def test_rows_of_weight_zero_are_as_if_they_were_not_there(policy: Any, target: str) -> None:
    df = table()
    params: dict[str, Any] = {"rounds": 8, "depth": 3, "policy": policy}
    a = df.taiga.fit_gbdt(target, names(df), weight="w", **params)
    b = df.filter(pl.col("w") > 0).taiga.fit_gbdt(target, names(df), weight="w", **params)
    p, q = predict(df, a), predict(df, b)
    assert np.abs(p - q).mean() < 5e-3 * p.std()


@policies
def test_borders_are_chosen_from_the_rows_that_weigh_something(policy: Any) -> None:
    """A hundred rows between 0 and 1 among ten thousand without weight between 100 and 200."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0, 1, 200), rng.uniform(100, 200, 20_000)])
    df = pl.DataFrame({"x": x, "y": np.sin(9 * x), "w": (x < 1).astype(float)})
    model = df.taiga.fit_gbdt("y", "x", weight="w", rounds=100, policy=policy, bins=65)
    own = df.filter(pl.col("w") > 0)
    assert rmse(predict(own, model), own["y"]) < 0.1


@policies
@pytest.mark.parametrize("target", ["y", "flag", "kind"])
def test_a_single_row_with_weight_decides_alone(policy: Any, target: str) -> None:
    """Rows of each class keep a tiny weight, for a classifier needs two classes."""
    df = table(60)
    df = df.with_columns(w=pl.when(pl.int_range(pl.len()) == 7).then(1e6).otherwise(1e-6))
    p = predict(df, df.taiga.fit_gbdt(target, names(df), weight="w", rounds=1, policy=policy))
    if target == "y":
        np.testing.assert_allclose(p, df["y"][7], rtol=1e-6)
    elif target == "flag":
        assert ((p > 0.5) == df["flag"][7]).all()
    else:
        assert (p.argmax(axis=1) == sorted(["low", "mid", "top"]).index(df["kind"][7])).all()


EXTREMES = [1e-30, 1e-10, 1e10, 1e30]


@losses
@pytest.mark.parametrize("factor", EXTREMES)
def test_a_constant_factor_of_weights_does_not_matter(loss: Any, factor: float) -> None:
    df = table()
    params: dict[str, Any] = {"rounds": 10, "loss": loss, **FREE}
    a, b = (
        df.with_columns(pl.col("u") * c).taiga.fit_gbdt(TARGETS[loss], names(df), weight="u", **params)
        for c in (1.0, factor)
    )
    np.testing.assert_allclose(predict(df, a), predict(df, b), rtol=1e-3, atol=1e-4)


@policies
@pytest.mark.parametrize("factor", [2.0**-90, 2.0**-20, 2.0**20, 2.0**90])
def test_a_power_of_two_as_factor_of_weights_gives_the_same_predictions(policy: Any, factor: float) -> None:
    df = table()
    a, b = (
        df.with_columns(pl.col("u") * c).taiga.fit_gbdt("y", names(df), weight="u", rounds=10, policy=policy, **FREE)
        for c in (1.0, factor)
    )
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


POWERS = [2.0**-100, 2.0**-33, 2.0**33, 2.0**100]


@pytest.mark.parametrize(
    ("sample", "factor"),
    [(sample, factor) for sample in ("bernoulli", "goss", "mvs") for factor in POWERS],
)
def test_a_constant_factor_of_weights_does_not_matter_to_samples(sample: Any, factor: float) -> None:
    """A power of two, so that nothing is rounded otherwise."""
    df = table(600)
    params: dict[str, Any] = {"rounds": 20, "row_sample": sample, "row_fraction": 0.5, **FREE}
    a, b = (
        df.with_columns(pl.col("u") * c).taiga.fit_gbdt("y", names(df), weight="u", **params) for c in (1.0, factor)
    )
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@pytest.mark.parametrize("factor", EXTREMES)
@pytest.mark.parametrize("kind", ["gain", "cover"])
def test_shares_of_importance_do_not_depend_on_the_weights_unit(kind: Any, factor: float) -> None:
    df = table()
    a, b = (
        df.with_columns(pl.col("u") * c)
        .taiga.fit_gbdt("y", names(df), weight="u", rounds=5, **FREE)
        .importance(kind)["importance"]
        .to_numpy()
        for c in (1.0, factor)
    )
    np.testing.assert_allclose(a / a.sum(), b / b.sum(), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    "factor",
    [
        1e-30,
        1e-20,
        1e-10,
        1e10,
        1e20,
        1e30,
    ],
)
def test_shares_of_importance_do_not_depend_on_the_target_s_unit(factor: float) -> None:
    df = table()
    a, b = (
        df.with_columns(pl.col("y") * c)
        .taiga.fit_gbdt("y", names(df), rounds=5, **FREE)
        .importance()["importance"]
        .to_numpy()
        for c in (1.0, factor)
    )
    assert b.sum() > 0
    np.testing.assert_allclose(a / a.sum(), b / b.sum(), rtol=1e-3)


@policies
def test_gains_are_in_units_of_the_squared_target(policy: Any) -> None:
    df = table()
    a, b = (
        df.with_columns(pl.col("y") * c)
        .taiga.fit_gbdt("y", names(df), rounds=5, policy=policy)
        .importance()["importance"]
        .to_numpy()
        for c in (1.0, 64.0)
    )
    np.testing.assert_allclose(b, 64.0**2 * a, rtol=1e-6)


@policies
def test_equal_weights_are_no_weights(policy: Any) -> None:
    df = table()
    a = df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy)
    b = df.with_columns(one=pl.lit(1.0)).taiga.fit_gbdt("y", names(df), weight="one", rounds=10, policy=policy)
    np.testing.assert_allclose(predict(df, a), predict(df, b), atol=1e-4)


@policies
def test_sums_of_hessians_are_sums_of_weights_where_the_hessian_is_constant(policy: Any) -> None:
    df = table()
    for loss in ("rmse", "mae"):
        model = df.taiga.fit_gbdt("y", names(df), weight="u", rounds=2, policy=policy, loss=loss)
        totals = leaves_of(model).group_by("tree").agg(pl.col("weight").sum())["weight"]
        np.testing.assert_allclose(totals, df["u"].sum(), rtol=1e-4)


@policies
@pytest.mark.parametrize("target", ["flag", "kind"])
def test_class_weights_are_row_weights(policy: Any, target: str) -> None:
    df = table()
    by_class: dict[Any, float] = {True: 3.0, False: 0.5} if target == "flag" else {"low": 2.0, "mid": 0.25, "top": 5.0}
    rows = df.with_columns(v=pl.col(target).replace_strict(by_class, return_dtype=pl.Float64))
    a = df.taiga.fit_gbdt(target, names(df), rounds=8, policy=policy, class_weight=by_class)
    b = rows.taiga.fit_gbdt(target, names(df), rounds=8, policy=policy, weight="v")
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@policies
@pytest.mark.parametrize("target", ["flag", "kind"])
def test_balanced_class_weights_are_those_of_scikit_learn(policy: Any, target: str) -> None:
    df = table()
    labels = df[target].unique().sort().to_list()
    balanced = compute_class_weight("balanced", classes=np.array(labels), y=df[target].to_numpy())
    a = df.taiga.fit_gbdt(target, names(df), rounds=8, policy=policy, class_weight="balanced")
    b = df.taiga.fit_gbdt(
        target, names(df), rounds=8, policy=policy, class_weight=dict(zip(labels, balanced.tolist(), strict=True))
    )
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@policies
def test_class_weights_multiply_row_weights(policy: Any) -> None:
    df = table()
    a = df.taiga.fit_gbdt("flag", names(df), rounds=8, policy=policy, weight="w", class_weight={True: 2.0})
    rows = df.with_columns(v=pl.col("w") * pl.when("flag").then(2.0).otherwise(1.0))
    b = rows.taiga.fit_gbdt("flag", names(df), rounds=8, policy=policy, weight="v")
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@policies
def test_a_heavier_class_is_predicted_more_often(policy: Any) -> None:
    df = table()
    means = [
        predict(df, df.taiga.fit_gbdt("flag", names(df), rounds=5, policy=policy, class_weight={True: c})).mean()
        for c in (0.1, 1.0, 10.0)
    ]
    assert means == sorted(means)
    assert means[2] - means[0] > 0.3


@pytest.mark.parametrize("heavy", [1e20, 1e38, 1e39, 1e300])
def test_class_weights_of_any_size_are_taken_as_ratios(heavy: float) -> None:
    """So heavy a class that the other does not count: its probability is about 1 and never 0."""
    df = table()
    p = predict(df, df.taiga.fit_gbdt("flag", names(df), rounds=5, class_weight={True: heavy, False: 1.0}, **FREE))
    assert (p > 0.99).all()


@policies
@pytest.mark.parametrize(("loss", "target"), [("rmse", "y"), ("logloss", "flag"), ("poisson", "positive")])
def test_the_start_itself_as_baseline_gives_the_same_trees(policy: Any, loss: Any, target: str) -> None:
    df = table()
    a = df.taiga.fit_gbdt(target, names(df), rounds=10, policy=policy, loss=loss)
    (start,) = start_of(a)
    b = df.with_columns(b=pl.lit(start)).taiga.fit_gbdt(
        target, names(df), rounds=10, policy=policy, loss=loss, baseline="b"
    )
    assert start_of(b) == [0.0]
    np.testing.assert_allclose(predict(df, a, "raw"), predict(df, b, "raw") + start, atol=2e-4)


@policies
@pytest.mark.parametrize(("loss", "target"), [("rmse", "y"), ("logloss", "flag"), ("poisson", "positive")])
def test_going_on_from_a_model_s_scores_is_training_longer(policy: Any, loss: Any, target: str) -> None:
    df = table()
    params: dict[str, Any] = {"policy": policy, "loss": loss, "depth": 3}
    first = df.taiga.fit_gbdt(target, names(df), rounds=10, **params)
    so_far = predict(df, first, "raw")
    second = df.with_columns(b=pl.Series(so_far)).taiga.fit_gbdt(target, names(df), rounds=10, baseline="b", **params)
    whole = df.taiga.fit_gbdt(target, names(df), rounds=20, **params)
    a, b = so_far + predict(df, second, "raw"), predict(df, whole, "raw")
    assert rmse(a, b) < 0.02 * b.std()


def test_baselines_of_several_classes_are_a_column_each() -> None:
    df = table()
    a = df.taiga.fit_gbdt("kind", names(df), rounds=10)
    start = dict(zip("ABC", start_of(a), strict=True))
    b = df.with_columns(**{k: pl.lit(v) for k, v in start.items()}).taiga.fit_gbdt(
        "kind", names(df), rounds=10, baseline=list("ABC")
    )
    np.testing.assert_allclose(predict(df, a, "raw"), predict(df, b, "raw") + list(start.values()), atol=2e-4)


@policies
def test_a_baseline_that_knows_the_target_leaves_nothing_to_learn(policy: Any) -> None:
    df = table()
    model = df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy, baseline=pl.col("y").alias("b"))
    np.testing.assert_allclose(predict(df, model), 0, atol=1e-6)


@policies
def test_the_baseline_of_held_out_rows_counts_in_the_metric(policy: Any) -> None:
    df = table().with_columns(held=pl.int_range(pl.len()) % 3 == 0)
    model = df.taiga.fit_gbdt("y", names(df), rounds=5, policy=policy, baseline=2 * pl.col("x0"), eval="held")
    test = df.filter("held")
    want = [rmse(p + 2 * test["x0"].to_numpy(), test["y"]) for p in staged(test, model)]
    np.testing.assert_allclose(model.history["rmse"], want, rtol=1e-5)

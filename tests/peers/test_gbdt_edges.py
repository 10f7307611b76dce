"""Tables with next to nothing in them: the peers fit a constant there, and so do we."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

from .tables import FREE, POLICIES, numbers, predict

policies = pytest.mark.parametrize("policy", POLICIES)

REGRESSIONS = [([0.0, 10.0, 0.0, 10.0], 5.0), ([0.0, 1.0, 2.0, 3.0], 1.5), ([-1.0, 1.0, -2.0, 2.0], 0.0)]
CLASSES = [(["a", "b", "c", "a"], [0.5, 0.25, 0.25]), (["a", "b", "c", "b"], [0.25, 0.5, 0.25])]


@policies
@pytest.mark.parametrize(("y", "mean"), REGRESSIONS)
def test_constant_features_predict_the_mean(policy: Any, y: list[float], mean: float) -> None:
    df = pl.DataFrame({"x": [1.0] * 4, "z": [None] * 4, "y": y}, schema_overrides={"z": pl.Float64})
    np.testing.assert_allclose(predict(df, df.taiga.fit_gbdt("y", "x", "z", policy=policy, rounds=3)), mean, atol=1e-9)


@policies
def test_constant_features_predict_the_share_of_a_class(policy: Any) -> None:
    df = pl.DataFrame({"x": [1.0] * 4, "y": [False, True, True, True]})
    np.testing.assert_allclose(predict(df, df.taiga.fit_gbdt("y", "x", policy=policy, rounds=3)), 0.75, rtol=1e-6)


@policies
@pytest.mark.parametrize(("y", "shares"), CLASSES)
def test_constant_features_predict_the_shares_of_several_classes(
    policy: Any, y: list[str], shares: list[float]
) -> None:
    df = pl.DataFrame({"x": [1.0] * 4, "y": y})
    np.testing.assert_allclose(predict(df, df.taiga.fit_gbdt("y", "x", policy=policy, rounds=3)), [shares] * 4)


@pytest.mark.parametrize("loss", ["mae", "quantile", "huber", "poisson", "gamma", "tweedie", "cross_entropy"])
def test_constant_features_predict_each_loss_s_best_constant(loss: Any) -> None:
    y = [0.125, 0.25, 0.875] if loss != "huber" else [0.25, 0.375, 0.875]
    df = pl.DataFrame({"x": [1.0] * 3, "y": y})
    want = np.median(y) if loss in ("mae", "quantile") else np.mean(y)
    np.testing.assert_allclose(predict(df, df.taiga.fit_gbdt("y", "x", loss=loss, rounds=3)), want, rtol=1e-6)


@pytest.mark.parametrize("method", ["ctr", "one_hot", "partition"])
def test_one_category_predicts_the_mean(method: Any) -> None:
    df = pl.DataFrame({"c": ["a"] * 4, "y": [0.0, 1.0, 2.0, 3.0]})
    model = df.taiga.fit_gbdt("y", "c", cat_method=method, policy="depthwise", rounds=3)
    np.testing.assert_allclose(predict(df, model), 1.5)


def test_a_model_of_no_tree_says_so_in_its_tables() -> None:
    df = pl.DataFrame({"x": [1.0] * 4, "y": [0.0, 1.0, 2.0, 3.0]})
    model = df.taiga.fit_gbdt("y", "x", rounds=3)
    assert model.trees().filter(pl.col("leaf").is_null()).height == 0
    assert model.importance()["importance"].to_list() == [0.0]
    assert tg.Model(model.to_bytes()) == model


@policies
def test_new_values_of_a_constant_feature_are_predicted_the_mean_too(policy: Any) -> None:
    df = pl.DataFrame({"x": [1.0] * 4, "y": [0.0, 1.0, 2.0, 3.0]})
    model = df.taiga.fit_gbdt("y", "x", policy=policy, rounds=3)
    new = pl.DataFrame({"x": [None, -1e300, float("inf")]}, schema={"x": pl.Float64})
    np.testing.assert_allclose(predict(new, model), 1.5)


@policies
@pytest.mark.parametrize("label", [True, False, "only"], ids=str)
def test_one_class_is_certain(policy: Any, label: Any) -> None:
    df = numbers().with_columns(one=pl.lit(label))
    model = df.taiga.fit_gbdt("one", "x0", "x1", policy=policy, rounds=3, on_error="constant")
    assert df.select(tg.predict(model, output="class")).to_series().to_list() == [label] * df.height


@policies
def test_one_row_predicts_its_own_target(policy: Any) -> None:
    df = pl.DataFrame({"x": [1.0], "y": [7.0]})
    np.testing.assert_allclose(
        predict(df, df.taiga.fit_gbdt("y", "x", policy=policy, rounds=3, on_error="constant")), 7.0
    )


@policies
def test_two_rows_are_enough(policy: Any) -> None:
    df = pl.DataFrame({"x": [1.0, 2.0], "y": [3.0, 5.0]})
    model = df.taiga.fit_gbdt("y", "x", policy=policy, rounds=1, learning_rate=1.0, **FREE)
    np.testing.assert_allclose(predict(df, model), df["y"], rtol=1e-6)


@policies
def test_a_few_rows_stay_within_their_targets(policy: Any) -> None:
    """Six rows of one feature that hardly varies and one that does."""
    df = pl.DataFrame(
        {
            "a": [1021.06, 1023.86, 1024.55, 1019.03, 1016.8, 1007.6],
            "b": [1018.96, 1018.79, 1018.89, 1018.89, 1018.89, 1018.89],
            "y": [1023.8, 1024.6, 1024.4, 1023.8, 1022.0, 1014.4],
        }
    )
    p = predict(df, df.taiga.fit_gbdt("y", "a", "b", policy=policy, rounds=10, min_child_weight=0.0))
    assert df["y"].min() <= p.min()
    assert p.max() <= df["y"].max()
    assert p.mean() == pytest.approx(df["y"].mean(), rel=1e-3)


@policies
def test_a_weighted_row_among_rows_of_weight_zero_and_holes_is_a_row_alone(policy: Any) -> None:
    """A feature with a single value that weighs something, and one that is missing all but once: a constant, where it
    may be one.
    """
    df = pl.DataFrame(
        {
            "a": [618827.16, 637345.679, 638888.889, 628086.42],
            "b": [173.0, None, None, None],
            "y": [1e6, 0.0, 0.0, 5e5],
            "w": [0.0, 0.0, 1.0, 0.0],
        }
    )
    model = df.taiga.fit_gbdt("y", "a", "b", weight="w", policy=policy, on_error="constant")
    assert model is not None
    np.testing.assert_allclose(predict(df, model), 0, atol=1e-6)


@policies
def test_more_features_than_rows_are_fitted(policy: Any) -> None:
    rng = np.random.default_rng(0)
    df = pl.DataFrame({f"x{i}": rng.normal(size=12) for i in range(60)}).with_columns(y=pl.col("x7"))
    p = predict(df, df.taiga.fit_gbdt("y", pl.exclude("y"), policy=policy, rounds=60, **FREE))
    assert np.corrcoef(p, df["y"])[0, 1] > 0.95


@policies
@pytest.mark.parametrize("size", [1e-30, 1e-10, 1e10, 1e30, 1e150, 1e300])
def test_targets_of_any_size_are_fitted(policy: Any, size: float) -> None:
    df = numbers().with_columns(pl.col("y") * size)
    p = predict(df, df.taiga.fit_gbdt("y", "x0", "x1", "x2", policy=policy, rounds=40))
    assert np.isfinite(p).all()
    assert np.corrcoef(p / size, df["y"] / size)[0, 1] > 0.9


@policies
def test_a_target_that_hardly_varies_around_a_large_number_is_fitted(policy: Any) -> None:
    df = numbers().with_columns(y=1e9 + (pl.col("x1") > 0.3).cast(pl.Float64) * 1e-3)
    p = predict(df, df.taiga.fit_gbdt("y", "x0", "x1", policy=policy, rounds=1, learning_rate=1.0, **FREE))
    np.testing.assert_allclose(p - 1e9, df["y"] - 1e9, atol=2e-7)


@pytest.mark.parametrize("groups", [3, 7])
def test_a_model_for_each_group_is_that_of_the_group_alone(groups: int) -> None:
    df = numbers().with_columns(g=pl.int_range(pl.len()) % groups)
    models = df.group_by("g").agg(m=tg.fit_gbdt("y", "x0", "x1", rounds=3))
    for g, model in models.iter_rows():
        assert df.filter(g=g).taiga.fit_gbdt("y", "x0", "x1", rounds=3).to_bytes() == model

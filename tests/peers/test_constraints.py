"""Monotone and interaction constraints: kept for every policy, loss and neighbour, and no stronger than asked."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

from .tables import POLICIES, categories, inner_of, names, numbers, paths_of, predict, rmse, trees_of

policies = pytest.mark.parametrize("policy", POLICIES)
signs = pytest.mark.parametrize("sign", [1, -1], ids=["rising", "falling"])


def waves(rows: int = 800, sign: int = 1, seed: int = 0) -> pl.DataFrame:
    """x0 pulls the target up and x1 down, both with waves; x2 turns the effect of x0 around."""
    rng = np.random.default_rng(seed)
    x = rng.random((rows, 3))
    up = 5 * x[:, 0] + 2 * np.sin(30 * x[:, 0])
    down = 5 * x[:, 1] + 2 * np.cos(30 * x[:, 1])
    y = sign * (up - down) + 3 * np.where(x[:, 2] > 0.5, 1, -1) * x[:, 0] + rng.normal(size=rows) / 10
    return pl.DataFrame({f"x{i}": x[:, i] for i in range(3)}).with_columns(
        y=pl.Series(y), flag=pl.Series(y > 0), positive=pl.Series(np.exp(y / 4))
    )


def course(model: tg.Model, df: pl.DataFrame, feature: str, output: Any = "raw", steps: int = 60) -> np.ndarray:
    """Predictions for 40 rows of the table where one feature takes ascending values, `[row][value]`."""
    values = np.linspace(-0.1, 1.1, steps)
    rows = df[:40]
    grid = rows.with_row_index("row").drop(feature).join(pl.DataFrame({feature: values}), how="cross")
    p = predict(grid.sort("row", feature), model, output)
    return p.reshape(len(rows), steps, *p.shape[1:])


LOSSES = {
    "rmse": "y", "mae": "y", "quantile": "y", "huber": "y", "poisson": "positive", "gamma": "positive",
    "tweedie": "positive", "logloss": "flag",
}  # fmt: skip


@policies
@signs
@pytest.mark.parametrize("loss", LOSSES)
def test_predictions_never_turn_against_the_constraint(policy: Any, sign: int, loss: Any) -> None:
    df = waves(sign=sign)
    params: dict[str, Any] = {"rounds": 25, "policy": policy, "loss": loss, "min_child_weight": 0.0}
    target = LOSSES[loss]
    model = df.taiga.fit_gbdt(target, names(df), monotone={"x0": sign, "x1": -sign}, **params)
    assert (np.diff(sign * course(model, df, "x0")) >= 0).all()
    assert (np.diff(-sign * course(model, df, "x1")) >= 0).all()
    free = df.taiga.fit_gbdt(target, names(df), **params)
    assert (np.diff(sign * course(free, df, "x0")) < 0).any()


@policies
@signs
def test_the_wrong_direction_leaves_nothing_to_learn_of_a_feature(policy: Any, sign: int) -> None:
    df = pl.DataFrame({"x": np.arange(200.0)}).with_columns(y=-sign * pl.col("x"))
    model = df.taiga.fit_gbdt("y", "x", rounds=10, policy=policy, monotone={"x": sign})
    np.testing.assert_allclose(predict(df, model), df["y"].mean(), rtol=1e-6)


@policies
@signs
def test_the_right_direction_costs_nothing(policy: Any, sign: int) -> None:
    df = pl.DataFrame({"x": np.arange(200.0)}).with_columns(y=sign * pl.col("x").sqrt())
    params: dict[str, Any] = {"rounds": 30, "policy": policy}
    a = df.taiga.fit_gbdt("y", "x", monotone={"x": sign}, **params)
    b = df.taiga.fit_gbdt("y", "x", **params)
    assert rmse(predict(df, a), df["y"]) < 1.05 * rmse(predict(df, b), df["y"]) + 1e-3


@policies
def test_a_constraint_of_zero_is_none(policy: Any) -> None:
    df = waves()
    a = df.taiga.fit_gbdt("y", names(df), rounds=5, policy=policy, monotone={"x0": 0, "x1": 0})
    b = df.taiga.fit_gbdt("y", names(df), rounds=5, policy=policy)
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@policies
@pytest.mark.parametrize("hole", ["own", "other"])
def test_constraints_hold_beside_missing_values(policy: Any, hole: str) -> None:
    df = waves()
    gap = pl.int_range(pl.len()) % 4 == 0
    name = "x0" if hole == "own" else "x2"
    df = df.with_columns(pl.when(~gap).then(name).alias(name))
    model = df.taiga.fit_gbdt("y", names(df), rounds=25, policy=policy, monotone={"x0": 1})
    assert (np.diff(course(model, df, "x0")) >= 0).all()


@policies
@pytest.mark.parametrize("method", ["ctr", "one_hot", "partition"])
def test_constraints_hold_beside_categories(policy: Any, method: Any) -> None:
    if (policy, method) == ("symmetric", "partition"):
        with pytest.raises(ValueError, match="cat_method"):
            waves().taiga.fit_gbdt("y", "x0", policy=policy, cat_method=method)
        return
    df = waves().with_columns(c=pl.format("c{}", (pl.col("x2") * 12).floor().cast(pl.Int32)))
    model = df.taiga.fit_gbdt(
        "y", "x0", "x1", "c", rounds=25, policy=policy, cat_method=method, monotone={"x0": 1, "x1": -1}
    )
    assert (np.diff(course(model, df, "x0")) >= 0).all()
    assert (np.diff(-course(model, df, "x1")) >= 0).all()
    assert any("c" in name.replace("buckets", "") for name in inner_of(model)["feature"] if not name.startswith("x"))


@policies
@pytest.mark.parametrize(
    "params",
    [
        {"row_sample": "bernoulli", "row_fraction": 0.5},
        {"row_sample": "goss"},
        {"row_sample": "mvs"},
        {"feature_fraction": 0.7},
        {"l1": 1.0, "l2": 5.0},
        {"learning_rate": 1.0},
        {"min_data_in_leaf": 10},
        {"bins": 5},
    ],
    ids=lambda p: next(iter(p)) if "row_sample" not in p else p["row_sample"],
)
def test_constraints_hold_under_every_other_setting(policy: Any, params: Any) -> None:
    df = waves()
    model = df.taiga.fit_gbdt("y", names(df), rounds=25, policy=policy, monotone={"x0": 1, "x1": -1}, **params)
    assert (np.diff(course(model, df, "x0")) >= 0).all()
    assert (np.diff(-course(model, df, "x1")) >= 0).all()


@policies
@signs
def test_weights_do_not_break_constraints(policy: Any, sign: int) -> None:
    df = waves(sign=sign).with_columns(w=pl.int_range(pl.len()) % 4)
    for loss in ("rmse", "mae"):
        model = df.taiga.fit_gbdt(
            "y", names(df), rounds=25, policy=policy, weight="w", monotone={"x0": sign}, loss=loss
        )
        assert (np.diff(sign * course(model, df, "x0")) >= 0).all()


@policies
def test_each_class_s_score_keeps_the_constraint(policy: Any) -> None:
    """With several classes the constraint is on the raw score of each; shares may turn."""
    df = waves().with_columns(kind=pl.col("y").qcut(3, labels=["a", "b", "c"]).cast(pl.String))
    model = df.taiga.fit_gbdt("kind", names(df), rounds=10, policy=policy, monotone={"x0": 1})
    assert (np.diff(course(model, df, "x0"), axis=1) >= 0).all()


@policies
def test_stages_keep_the_constraint_each(policy: Any) -> None:
    df = waves()
    model = df.taiga.fit_gbdt("y", names(df), rounds=8, policy=policy, monotone={"x0": 1})
    grid = df[:20].with_row_index("row").drop("x0").join(pl.DataFrame({"x0": np.linspace(0, 1, 50)}), how="cross")
    stages = np.array(grid.sort("row", "x0").select(tg.predict(model, output="staged")).to_series().to_list()).reshape(
        20, 50, 8
    )
    assert (np.diff(stages, axis=1) >= -1e-12).all()


def leaf_values(nodes: dict[int, Any], at: int) -> list[float]:
    node = nodes[at]
    if node["leaf"] is not None:
        return [node["value"]]
    return leaf_values(nodes, node["left"]) + leaf_values(nodes, node["right"])


@policies
@signs
def test_all_leaves_on_one_side_of_a_constrained_split_lie_on_one_side(policy: Any, sign: int) -> None:
    df = waves(sign=sign)
    model = df.taiga.fit_gbdt("y", names(df), rounds=8, policy=policy, monotone={"x0": sign})
    checked = 0
    for nodes in trees_of(model):
        for node in nodes.values():
            if node["leaf"] is None and node["feature"] == "x0":
                left, right = (np.array(leaf_values(nodes, node[s])) * sign for s in ("left", "right"))
                assert left.max() <= right.min() + 1e-7
                checked += 1
    assert checked > 0


@policies
def test_constraints_on_all_features_bound_predictions_between_corners(policy: Any) -> None:
    df = waves()
    model = df.taiga.fit_gbdt("y", names(df), rounds=25, policy=policy, monotone={"x0": 1, "x1": -1, "x2": 1})
    low, high = predict(pl.DataFrame({"x0": [-9.0, 9.0], "x1": [9.0, -9.0], "x2": [-9.0, 9.0]}), model)
    p = predict(df, model)
    assert low <= p.min()
    assert p.max() <= high


@policies
@pytest.mark.filterwarnings("ignore")
def test_constrained_accuracy_is_that_of_the_peers(policy: Any) -> None:
    """XGBoost's, on new rows, within a tenth; only trees of the same depth compare."""
    from xgboost import XGBRegressor

    train, test = waves(1_500, seed=1), waves(800, seed=2)
    ours = train.taiga.fit_gbdt("y", names(train), rounds=60, policy=policy, depth=6, monotone={"x0": 1, "x1": -1})
    peer = XGBRegressor(n_estimators=60, max_depth=6, learning_rate=0.1, monotone_constraints=(1, -1, 0), n_jobs=1)
    peer.fit(train.select(names(train)).to_numpy(), train["y"].to_numpy())
    want = rmse(peer.predict(test.select(names(test)).to_numpy()), test["y"])
    assert rmse(predict(test, ours), test["y"]) < 1.1 * want


@pytest.mark.parametrize(
    ("monotone", "error", "says"),
    [
        ({"nope": 1}, pl.exceptions.ComputeError, "nope"),
        ({"x0": 2}, ValueError, "x0"),
        ({"c": 1}, pl.exceptions.ComputeError, "`c`"),
    ],
    ids=["unknown feature", "two", "a category"],
)
def test_impossible_constraints_are_errors_that_name_the_feature(monotone: Any, error: Any, says: str) -> None:
    df = waves().with_columns(c=pl.lit("a"))
    with pytest.raises(error, match=says):
        df.taiga.fit_gbdt("y", "x0", "x1", "c", rounds=2, monotone=monotone)


# Interactions: which features may stand on one path.
GROUPS: dict[str, list[list[str]]] = {
    "pairs": [["x0", "x1"], ["x2", "x3"]],
    "overlapping": [["x0", "x1"], ["x1", "x2"], ["x3"]],
    "alone": [["x0"], ["x1"], ["x2"], ["x3"]],
    "one and the rest": [["x0"], ["x1", "x2", "x3"]],
}


def product(rows: int = 600) -> pl.DataFrame:
    rng = np.random.default_rng(2)
    x = np.round(rng.normal(size=(rows, 4)) * 8) / 8
    y = x.sum(axis=1) + x[:, 0] * x[:, 1] * x[:, 2] + x[:, 2] * x[:, 3]
    return pl.DataFrame({f"x{i}": x[:, i] for i in range(4)}).with_columns(
        y=pl.Series(y), flag=pl.Series(y > 0), kind=pl.Series(np.array(["a", "b", "c"])[np.digitize(y, [-1, 1])])
    )


def allowed(path: set[str], groups: list[list[str]]) -> bool:
    return any(path <= set(group) for group in groups) or len(path) <= 1


@policies
@pytest.mark.parametrize("target", ["y", "flag", "kind"])
@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
def test_the_features_of_a_path_are_of_one_group(policy: Any, target: str, groups: Any) -> None:
    df = product()
    model = df.taiga.fit_gbdt(target, names(df), rounds=10, policy=policy, interaction=groups)
    paths = paths_of(model)
    assert all(allowed(path, groups) for path in paths)
    if any(len(group) > 1 for group in groups):
        assert any(len(path) > 1 for path in paths)


@policies
def test_a_group_of_all_features_is_no_constraint(policy: Any) -> None:
    df = product()
    a = df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy, interaction=[names(df)])
    b = df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy)
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@policies
def test_narrower_groups_fit_the_training_rows_less(policy: Any) -> None:
    df = product()
    error = [
        rmse(predict(df, df.taiga.fit_gbdt("y", names(df), rounds=30, policy=policy, interaction=groups)), df["y"])
        for groups in ([], GROUPS["pairs"], GROUPS["alone"])
    ]
    assert error == sorted(error)


@policies
@pytest.mark.parametrize("stated", [True, False], ids=["alone in a group", "in no group"])
def test_a_feature_outside_a_group_adds_the_same_to_every_row(policy: Any, stated: bool) -> None:
    """What `interaction` does not list stands alone: its effect does not depend on the others."""
    df = product()
    groups = [["x0", "x1"], ["x2"], ["x3"]] if stated else [["x0", "x1"]]
    model = df.taiga.fit_gbdt("y", names(df), rounds=40, policy=policy, interaction=groups)
    for name in ("x2", "x3"):
        at = [predict(df.with_columns(pl.lit(v).alias(name)), model) for v in (-1.0, 0.0, 1.0)]
        for a, b in itertools.pairwise(at):
            np.testing.assert_allclose(b - a, (b - a)[0], atol=1e-5)


@policies
def test_features_alone_are_an_additive_model(policy: Any) -> None:
    df = product()
    model = df.taiga.fit_gbdt("y", names(df), rounds=30, policy=policy, interaction=GROUPS["alone"])
    zero = pl.DataFrame({name: [0.0] for name in names(df)})
    base = predict(zero, model)[0]
    parts = sum(
        predict(df.select(pl.col(n) if n == name else pl.lit(0.0).alias(n) for n in names(df)), model) - base
        for name in names(df)
    )
    np.testing.assert_allclose(base + parts, predict(df, model), atol=1e-5)


@policies
@pytest.mark.parametrize("method", ["ctr", "one_hot", "partition"])
@pytest.mark.parametrize("apart", [True, False], ids=["apart", "together"])
def test_categories_and_their_combinations_keep_to_their_groups(policy: Any, method: Any, apart: bool) -> None:
    if (policy, method) == ("symmetric", "partition"):
        pytest.skip("a symmetric tree has no subsets")
    df = categories()
    groups = [["city"], ["kind"], ["x"]] if apart else [["city", "kind"], ["x"]]
    model = df.taiga.fit_gbdt(
        "y", "city", "kind", "x", rounds=15, policy=policy, cat_method=method, interaction=groups, max_combination=2
    )

    def columns(path: set[str]) -> set[str]:
        # The labels of cities are "city 3", so a column is named without a number behind it.
        text = " ".join(path)
        found = {n for n in ("kind",) if n in text} | ({"x"} if "x" in path else set())
        return found | ({"city"} if "city" in text else set())

    found = [columns(path) for path in paths_of(model)]
    assert all(any(path <= set(group) for group in groups) for path in found if path)
    assert {n for path in found for n in path} >= {"city", "kind"}
    if not apart:
        assert {"city", "kind"} in found


@policies
def test_monotone_and_interaction_hold_together(policy: Any) -> None:
    df = waves()
    groups = [["x0"], ["x1", "x2"]]
    model = df.taiga.fit_gbdt(
        "y", names(df), rounds=25, policy=policy, monotone={"x0": 1, "x1": -1}, interaction=groups
    )
    assert (np.diff(course(model, df, "x0")) >= 0).all()
    assert (np.diff(-course(model, df, "x1")) >= 0).all()
    assert all(allowed(path, groups) for path in paths_of(model))


@policies
def test_groups_with_a_constant_feature_are_kept(policy: Any) -> None:
    df = product().with_columns(x9=pl.lit(0.0))
    groups = [["x9", "x0", "x1"], ["x2", "x3"]]
    model = df.taiga.fit_gbdt("y", [*names(df)], rounds=5, policy=policy, interaction=groups)
    assert all(allowed(path, groups) for path in paths_of(model))


def test_a_group_of_an_unknown_feature_is_an_error_that_names_it() -> None:
    with pytest.raises(pl.exceptions.ComputeError, match="nope"):
        numbers().taiga.fit_gbdt("y", "x0", rounds=2, interaction=[["x0", "nope"]])

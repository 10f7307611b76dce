"""One tree at a time: values and gains by their closed forms, limits that are kept, the peers' trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

from .tables import (
    BRANCHING,
    EXACT,
    POLICIES,
    inner_of,
    leaves_of,
    names,
    numbers,
    predict,
    rmse,
    start_of,
    trees_of,
)

policies = pytest.mark.parametrize("policy", POLICIES)


def two_groups() -> pl.DataFrame:
    """A feature of two values, 30 and 10 rows, of means that differ."""
    rng = np.random.default_rng(5)
    x = np.repeat([0.0, 1.0], [30, 10])
    return pl.DataFrame({"x": x, "y": np.round((3 * x + rng.normal(size=40)) * 64) / 64})


def threshold(g: float, l1: float) -> float:
    return float(np.sign(g) * max(abs(g) - l1, 0.0))


@policies
def test_one_tree_at_rate_one_without_penalty_reproduces_distinct_rows(policy: Any) -> None:
    df = pl.DataFrame({"x": [0.0, 1, 2, 3], "y": [0.0, 1, 2, 3]})
    model = df.taiga.fit_gbdt("y", "x", rounds=1, policy=policy, **EXACT)
    np.testing.assert_allclose(predict(df, model), df["y"], atol=1e-6)


@policies
@pytest.mark.parametrize("l1", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("l2", [0.0, 1.0, 7.5])
@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_leaf_values_are_the_closed_form_of_l1_l2_and_rate(policy: Any, l1: float, l2: float, rate: float) -> None:
    df = two_groups()
    model = df.taiga.fit_gbdt("y", "x", rounds=1, policy=policy, l1=l1, l2=l2, learning_rate=rate, min_child_weight=0.0)
    mean = df["y"].mean()
    got = predict(df, model)
    for x in (0.0, 1.0):
        rows = df["x"].to_numpy() == x
        residual = (df["y"].to_numpy()[rows] - mean).sum()
        want = mean + rate * threshold(residual, l1) / (rows.sum() + l2)
        np.testing.assert_allclose(got[rows], want, atol=1e-6)


@policies
@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.0), (0.0, 3.0), (2.0, 1.0)])
def test_a_split_s_gain_is_its_closed_form(policy: Any, l1: float, l2: float) -> None:
    df = two_groups()
    model = df.taiga.fit_gbdt("y", "x", rounds=1, policy=policy, l1=l1, l2=l2, min_child_weight=0.0)
    residual = df["y"].to_numpy() - df["y"].mean()
    left, right = (residual[df["x"].to_numpy() == x] for x in (0.0, 1.0))
    score = [threshold(part.sum(), l1) ** 2 / (len(part) + l2) for part in (left, right, residual)]
    gain = inner_of(model)["gain"].item()
    assert gain == pytest.approx(score[0] + score[1] - score[2], rel=1e-3)


@policies
@pytest.mark.parametrize(("share", "splits"), [(0.98, 1), (1.02, 0)])
def test_min_gain_lets_a_split_through_or_not_as_gamma_of_xgboost(policy: Any, share: float, splits: int) -> None:
    from xgboost import XGBRegressor

    df = two_groups()
    free = df.taiga.fit_gbdt("y", "x", rounds=1, policy=policy, min_child_weight=0.0)
    limit = share * inner_of(free)["gain"].item()
    model = df.taiga.fit_gbdt("y", "x", rounds=1, policy=policy, min_child_weight=0.0, min_gain=limit)
    assert inner_of(model).height == splits
    peer = XGBRegressor(n_estimators=1, gamma=limit, reg_lambda=1, min_child_weight=0, base_score=df["y"].mean())
    peer.fit(df.select("x").to_numpy(), df["y"].to_numpy())
    assert (len(np.unique(peer.predict(df.select("x").to_numpy()))) > 1) == (splits == 1)


@policies
def test_an_l1_larger_than_every_sum_leaves_the_mean(policy: Any) -> None:
    df = numbers()
    model = df.taiga.fit_gbdt("y", names(df), rounds=5, policy=policy, l1=1e6)
    np.testing.assert_allclose(predict(df, model), df["y"].mean(), rtol=1e-7)


@policies
def test_a_larger_l2_shrinks_predictions_to_the_mean(policy: Any) -> None:
    df = numbers()
    spread = [
        predict(df, df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy, l2=l2)).std()
        for l2 in (0.0, 10.0, 1e3, 1e9)
    ]
    assert spread == sorted(spread, reverse=True)
    assert spread[-1] < 1e-4


@policies
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_no_leaf_is_deeper_than_depth(policy: Any, depth: int) -> None:
    df = numbers()
    leaves = leaves_of(df.taiga.fit_gbdt("y", names(df), rounds=5, policy=policy, depth=depth, **EXACT))
    assert leaves["depth"].max() == depth
    assert leaves.group_by("tree").len()["len"].max() <= 2**depth


@pytest.mark.parametrize("leaves", [2, 3, 7, 20])
def test_leafwise_trees_have_the_leaves_that_are_allowed(leaves: int) -> None:
    df = numbers(levels=None)
    model = df.taiga.fit_gbdt("y", names(df), rounds=4, policy="leafwise", leaves=leaves, **EXACT)
    assert leaves_of(model).group_by("tree").len()["len"].to_list() == [leaves] * 4


def test_depth_and_leaves_hold_together_leafwise() -> None:
    df = numbers()
    got = leaves_of(df.taiga.fit_gbdt("y", names(df), rounds=3, policy="leafwise", depth=2, leaves=3, **EXACT))
    assert got["depth"].max() == 2
    assert got.group_by("tree").len()["len"].to_list() == [3, 3, 3]


def test_leafwise_with_room_for_every_leaf_is_the_depthwise_tree() -> None:
    df = numbers()
    a = df.taiga.fit_gbdt("y", names(df), rounds=1, policy="depthwise", depth=4, **EXACT)
    b = df.taiga.fit_gbdt("y", names(df), rounds=1, policy="leafwise", depth=4, leaves=16, **EXACT)
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@pytest.mark.parametrize("policy", ["symmetric", *BRANCHING])
@pytest.mark.parametrize("least", [5, 40])
def test_no_leaf_has_fewer_rows_than_min_data_in_leaf(policy: Any, least: int) -> None:
    df = numbers()
    model = df.taiga.fit_gbdt("y", names(df), rounds=5, policy=policy, min_data_in_leaf=least)
    assert inner_of(model).height > 0
    leaves = leaves_of(model)
    # A symmetric tree has leaves that no row comes to.
    assert leaves.filter(pl.col("count") > 0)["count"].min() >= least
    assert policy == "symmetric" or leaves["count"].min() > 0


@pytest.mark.parametrize("policy", ["symmetric", *BRANCHING])
@pytest.mark.parametrize("least", [2.0, 12.0])
def test_no_leaf_weighs_less_than_min_child_weight(policy: Any, least: float) -> None:
    df = numbers()
    model = df.taiga.fit_gbdt("flag", names(df), rounds=5, policy=policy, min_child_weight=least)
    assert inner_of(model).height > 0
    # Hessians are rounded to 16 bits, at random, where splits are looked for.
    leaves = leaves_of(model).filter(pl.col("count") > 0)
    assert leaves["weight"].min() >= least * (1 - 1e-3)


@policies
@pytest.mark.parametrize(("least", "splits"), [(200, True), (201, False)])
def test_more_rows_asked_for_than_two_leaves_can_have_is_a_tree_of_one_leaf(
    policy: Any, least: int, splits: bool
) -> None:
    df = pl.DataFrame({"x": np.arange(400.0)}).with_columns(y=pl.col("x") // 200)
    model = df.taiga.fit_gbdt("y", "x", rounds=2, policy=policy, depth=1, min_data_in_leaf=least)
    assert (predict(df, model).std() > 0) == splits


@policies
@pytest.mark.parametrize("seed", range(3))
def test_the_first_split_is_the_best_of_all_by_brute_force(policy: Any, seed: int) -> None:
    df = numbers(rows=150, seed=seed)
    model = df.taiga.fit_gbdt("y", names(df), rounds=1, depth=1, policy=policy, **EXACT)
    y = df["y"].to_numpy() - df["y"].mean()
    best: tuple[float, str, float] = (0.0, "", 0.0)
    for name in names(df):
        x = df[name].to_numpy()
        values = np.unique(x)
        for border in (values[1:] + values[:-1]) / 2:
            sides = y[x <= border], y[x > border]
            gain = sum(s.sum() ** 2 / len(s) for s in sides)
            best = max(best, (gain, name, border))
    split = inner_of(model).row(0, named=True)
    assert (split["feature"], split["border"]) == (best[1], pytest.approx(best[2]))
    assert split["gain"] == pytest.approx(best[0], rel=1e-3)


def of_xgboost(x: np.ndarray, y: np.ndarray, trees: int, rate: float, **more: Any) -> np.ndarray:
    from xgboost import XGBRegressor

    settings: dict[str, Any] = {"max_depth": 4, **more}
    model = XGBRegressor(
        n_estimators=trees, learning_rate=rate, reg_lambda=1, min_child_weight=0, tree_method="hist",
        base_score=y.mean(), n_jobs=1, **settings,
    )  # fmt: skip
    return np.asarray(model.fit(x, y).predict(x))


def of_lightgbm(x: np.ndarray, y: np.ndarray, trees: int, rate: float, **more: Any) -> np.ndarray:
    from lightgbm import LGBMRegressor

    settings: dict[str, Any] = {"min_child_samples": 1, **more}
    model = LGBMRegressor(
        n_estimators=trees, num_leaves=12, learning_rate=rate, reg_lambda=1, min_child_weight=0, min_data_in_bin=1,
        n_jobs=1, verbose=-1, **settings,
    )  # fmt: skip
    return np.asarray(model.fit(x, y).predict(x))


def of_scikit_learn(x: np.ndarray, y: np.ndarray, trees: int, rate: float) -> np.ndarray:
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        max_iter=trees, max_leaf_nodes=12, learning_rate=rate, l2_regularization=1, min_samples_leaf=1,
        early_stopping=False,
    )  # fmt: skip
    return np.asarray(model.fit(x, y).predict(x))


def of_catboost(x: np.ndarray, y: np.ndarray, trees: int, rate: float) -> np.ndarray:
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(
        iterations=trees, depth=4, learning_rate=rate, l2_leaf_reg=1, border_count=254, verbose=0, thread_count=1,
        boosting_type="Plain", bootstrap_type="No", random_strength=0, leaf_estimation_iterations=1,
        score_function="L2", allow_writing_files=False, boost_from_average=True,
    )  # fmt: skip
    return np.asarray(model.fit(x, y).predict(x))


@pytest.mark.parametrize(
    ("peer", "params"),
    [
        (of_xgboost, {"policy": "depthwise", "depth": 4}),
        (of_lightgbm, {"policy": "leafwise", "leaves": 12}),
        (of_scikit_learn, {"policy": "leafwise", "leaves": 12}),
        (of_catboost, {"policy": "symmetric", "depth": 4}),
    ],
    ids=["xgboost", "lightgbm", "scikit-learn", "catboost"],
)
@pytest.mark.parametrize(("trees", "rate"), [(1, 1.0), (1, 0.3), (5, 0.3)])
@pytest.mark.filterwarnings("ignore")
def test_predictions_are_those_of_the_peer_tree_by_tree(peer: Any, params: Any, trees: int, rate: float) -> None:
    """Features of few levels and noisy targets: no two splits are as good, and all borders are there."""
    df = numbers(rows=1_000, seed=2)
    x, y = df.select(names(df)).to_numpy().astype(np.float32), df["y"].to_numpy()
    model = df.taiga.fit_gbdt("y", names(df), rounds=trees, learning_rate=rate, l2=1.0, min_child_weight=0.0, **params)
    np.testing.assert_allclose(predict(df, model), peer(x, y, trees, rate), atol=2e-4)


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        ({"policy": "depthwise", "depth": 4}, {}),
        ({"policy": "leafwise", "leaves": 12}, {"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0}),
    ],
    ids=["depthwise", "leafwise"],
)
@pytest.mark.parametrize("most", [0.3, 1.0])
@pytest.mark.parametrize(("trees", "rate"), [(1, 1.0), (5, 0.3)])
@pytest.mark.filterwarnings("ignore")
def test_limited_leaves_are_those_of_xgboost_tree_by_tree(
    policy: dict[str, Any], settings: dict[str, Any], most: float, trees: int, rate: float
) -> None:
    """The limit counts in the splits' gains as well, so that other trees grow."""
    df = numbers(rows=1_000, seed=2)
    x, y = df.select(names(df)).to_numpy().astype(np.float32), df["y"].to_numpy()
    common: dict[str, Any] = {"rounds": trees, "learning_rate": rate, "l2": 1.0, "min_child_weight": 0.0, **policy}
    model = df.taiga.fit_gbdt("y", names(df), max_delta_step=most, **common)
    peer = of_xgboost(x, y, trees, rate, max_delta_step=most, **settings)
    np.testing.assert_allclose(predict(df, model), peer, atol=2e-4)
    assert not np.allclose(predict(df, model), predict(df, df.taiga.fit_gbdt("y", names(df), **common)), atol=1e-2)


@pytest.mark.parametrize("smooth", [1.0, 30.0])
@pytest.mark.parametrize("more", [{}, {"min_data_in_leaf": 8}], ids=str)
@pytest.mark.parametrize(("trees", "rate"), [(1, 1.0), (5, 0.3)])
@pytest.mark.filterwarnings("ignore")
def test_smoothed_leaves_are_those_of_lightgbm_tree_by_tree(
    smooth: float, more: dict[str, Any], trees: int, rate: float
) -> None:
    df = numbers(rows=1_000, seed=2)
    x, y = df.select(names(df)).to_numpy().astype(np.float32), df["y"].to_numpy()
    common: dict[str, Any] = {"rounds": trees, "learning_rate": rate, "policy": "leafwise", "leaves": 12, **more}
    model = df.taiga.fit_gbdt("y", names(df), path_smooth=smooth, l2=1.0, min_child_weight=0.0, **common)
    peer = of_lightgbm(x, y, trees, rate, path_smooth=smooth, min_child_samples=more.get("min_data_in_leaf", 2))
    np.testing.assert_allclose(predict(df, model), peer, atol=2e-4)


@pytest.mark.parametrize("weights", [(0.2, 1.0, 0.6), (3.0, 0.05, 1.0), (1.0, 0.0, 1.0)], ids=str)
@pytest.mark.parametrize(("trees", "rate"), [(1, 1.0), (5, 0.3)])
@pytest.mark.filterwarnings("ignore")
def test_weighted_features_give_the_trees_of_lightgbm(weights: tuple[float, ...], trees: int, rate: float) -> None:
    df = numbers(rows=1_000, seed=2)
    x, y = df.select(names(df)).to_numpy().astype(np.float32), df["y"].to_numpy()
    common: dict[str, Any] = {"rounds": trees, "learning_rate": rate, "policy": "leafwise", "leaves": 12}
    common |= {"l2": 1.0, "min_child_weight": 0.0}
    by_name = dict(zip(names(df), weights, strict=True))
    model = df.taiga.fit_gbdt("y", names(df), feature_weights=by_name, **common)
    peer = of_lightgbm(x, y, trees, rate, feature_contri=list(weights))
    np.testing.assert_allclose(predict(df, model), peer, atol=2e-4)
    assert not np.allclose(predict(df, model), predict(df, df.taiga.fit_gbdt("y", names(df), **common)), atol=1e-2)


@policies
def test_features_have_bins_of_their_own(policy: Any) -> None:
    df = numbers(rows=2_000, levels=None)
    model = df.taiga.fit_gbdt("y", names(df), rounds=30, policy=policy, bins={"x0": 3, "x2": 10})
    nodes = model.trees().drop_nulls("border")
    counts = dict(nodes.group_by("feature").agg(pl.col("border").n_unique()).iter_rows())
    assert counts["x0"] <= 2
    assert counts["x2"] <= 9
    assert counts["x1"] > 10


@policies
@pytest.mark.parametrize("weight", [0.01, 1.0, 40.0])
def test_weights_that_are_all_the_same_are_none(policy: Any, weight: float) -> None:
    df = numbers()
    fit: dict[str, Any] = {"rounds": 3, "policy": policy}
    plain = df.taiga.fit_gbdt("y", names(df), **fit)
    model = df.taiga.fit_gbdt("y", names(df), feature_weights=dict.fromkeys(names(df), weight), **fit)
    assert trees_of(model) == trees_of(plain)


@policies
def test_features_of_weight_0_are_not_important(policy: Any) -> None:
    df = numbers()
    model = df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy, feature_weights={"x1": 0})
    importance = dict(model.importance().select("feature", "importance").iter_rows())
    assert importance["x1"] == 0.0
    assert importance["x0"] > 0.0
    assert model.params["feature_weights"] == {"x1": 0.0}


@policies
def test_the_more_values_are_smoothed_the_less_do_leaves_differ(policy: Any) -> None:
    df = numbers()
    fit: dict[str, Any] = {"rounds": 3, "policy": policy, "learning_rate": 1.0}
    spread = [
        predict(df, df.taiga.fit_gbdt("y", names(df), path_smooth=smooth, **fit)).std()
        for smooth in (0.0, 5.0, 100.0, 1e4, 1e9)
    ]
    assert spread == sorted(spread, reverse=True)
    assert spread[-1] < 1e-3 * spread[0]
    free = df.taiga.fit_gbdt("y", names(df), **fit)
    np.testing.assert_array_equal(
        predict(df, free), predict(df, df.taiga.fit_gbdt("y", names(df), path_smooth=0, **fit))
    )


@policies
@pytest.mark.parametrize("loss", ["rmse", "mae", "huber", "logloss", "poisson"])
def test_no_leaf_is_larger_than_max_delta_step(policy: Any, loss: Any) -> None:
    df = numbers()
    target = {"logloss": "flag", "poisson": "positive"}.get(loss, "y")
    fit: dict[str, Any] = {"rounds": 5, "policy": policy, "loss": loss, "learning_rate": 0.5}
    free = leaves_of(df.taiga.fit_gbdt(target, names(df), **fit))["value"].abs().max()
    most = free / 4
    values = leaves_of(df.taiga.fit_gbdt(target, names(df), max_delta_step=2 * most, **fit))["value"].abs()
    assert values.max() == pytest.approx(most, rel=1e-5)
    far = df.taiga.fit_gbdt(target, names(df), max_delta_step=1e6, **fit)
    np.testing.assert_allclose(predict(df, far), predict(df, df.taiga.fit_gbdt(target, names(df), **fit)), atol=1e-4)


@policies
def test_leaves_that_outputs_share_are_limited_too(policy: Any) -> None:
    df = numbers().with_columns(both=pl.struct("y", "positive"))
    model = df.taiga.fit_gbdt("both", names(df), rounds=5, policy=policy, learning_rate=1.0, max_delta_step=0.2)
    assert leaves_of(model)["value"].abs().max() == pytest.approx(0.2, rel=1e-5)


@policies
def test_leaves_weigh_and_count_the_rows_that_fall_into_them(policy: Any) -> None:
    df = numbers()
    model = df.taiga.fit_gbdt("y", names(df), rounds=3, policy=policy)
    fallen = df.select(tg.predict(model, output="leaf").list.get(0)).to_series().value_counts()
    leaves = leaves_of(model).filter(pl.col("tree") == 0)
    counts = dict(leaves.filter(pl.col("count") > 0).select("leaf", "count").iter_rows())
    assert counts == dict(fallen.iter_rows())
    np.testing.assert_allclose(leaves["weight"], leaves["count"])


@policies
def test_with_a_constant_target_every_prediction_is_that_constant(policy: Any) -> None:
    df = numbers().with_columns(y=pl.lit(3.25))
    model = df.taiga.fit_gbdt("y", names(df), rounds=5, policy=policy)
    assert set(predict(df, model)) == {3.25}


@policies
def test_a_pure_node_gains_nothing_but_the_noise_of_rounding(policy: Any) -> None:
    """Gradients are rounded at random to 2^-15 of the largest: what a node of equal targets seems to gain is of the
    order of that unit's square, which any small `min_gain` leaves out.
    """
    df = pl.DataFrame({"x": np.arange(100.0)}).with_columns(y=pl.when(pl.col("x") < 37).then(0.0).otherwise(1.0))
    model = df.taiga.fit_gbdt("y", "x", rounds=1, depth=6, policy=policy, **EXACT)
    assert inner_of(model)["border"][0] == 36.5
    assert inner_of(model)["gain"].drop_nulls()[1:].max() < 100 * 2.0**-30
    np.testing.assert_allclose(predict(df, model), df["y"], atol=1e-6)
    model = df.taiga.fit_gbdt("y", "x", rounds=1, depth=6, policy=policy, min_gain=1e-6, **EXACT)
    assert inner_of(model)["border"].to_list() == [36.5]


@policies
@pytest.mark.parametrize("bins", [2, 3, 6, 17])
def test_a_feature_has_fewer_borders_than_bins(policy: Any, bins: int) -> None:
    df = numbers(levels=None)
    model = df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy, bins=bins)
    assert all(1 <= inner_of(model).filter(feature=name)["border"].n_unique() < bins for name in names(df))


@policies
def test_more_borders_lower_the_training_error(policy: Any) -> None:
    df = numbers(rows=800, levels=None)
    error = [
        rmse(predict(df, df.taiga.fit_gbdt("y", names(df), rounds=20, policy=policy, bins=bins)), df["y"])
        for bins in (2, 5, 33)
    ]
    assert error == sorted(error, reverse=True)
    assert error[0] > 1.3 * error[2]


@policies
def test_borders_lie_between_values_and_never_on_one(policy: Any) -> None:
    df = numbers(rows=60)
    model = df.taiga.fit_gbdt("y", names(df), rounds=5, policy=policy, **EXACT)
    for split in inner_of(model).iter_rows(named=True):
        values = df[split["feature"]]
        assert not values.is_in([split["border"]]).any()
        assert values.min() < split["border"] < values.max()


@pytest.mark.parametrize("sign", [1, -1], ids=["positive", "negative"])
def test_few_bins_serve_features_of_one_sign(sign: int) -> None:
    """Zero lies outside the values of a feature without zeros, on the side of the smaller ones."""
    x = sign * np.arange(0.01, 1, 0.01)
    df = pl.DataFrame({"x": x, "y": np.abs(x)})
    model = df.taiga.fit_gbdt("y", "x", rounds=20, bins=6, policy="leafwise", leaves=2, loss="mae", min_child_weight=0)
    p = predict(pl.DataFrame({"x": [-1.0, 0.0, 1.0]}), model)
    same, other = ((0, 1), (1, 2)) if sign > 0 else ((1, 2), (0, 1))
    assert p[same[0]] == p[same[1]]
    assert p[other[0]] != p[other[1]]


@policies
def test_children_partition_their_parent(policy: Any) -> None:
    df = numbers()
    for nodes in trees_of(df.taiga.fit_gbdt("flag", names(df), rounds=4, policy=policy)):
        for node in nodes.values():
            if node["leaf"] is None:
                sides = [nodes[node[s]] for s in ("left", "right")]
                assert sum(s["count"] for s in sides) == node["count"]
                assert sum(s["weight"] for s in sides) == pytest.approx(node["weight"], rel=1e-5)
                assert {s["depth"] for s in sides} == {node["depth"] + 1}


@policies
def test_the_start_is_the_mean_of_the_target(policy: Any) -> None:
    df = numbers()
    model = df.taiga.fit_gbdt("y", names(df), rounds=1, policy=policy)
    assert start_of(model) == [pytest.approx(df["y"].mean())]

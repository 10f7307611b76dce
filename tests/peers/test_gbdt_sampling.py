"""Samples of rows and features, and what a seed decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from .tables import BRANCHING, POLICIES, categories, inner_of, leaves_of, names, numbers, paths_of, predict, rmse

policies = pytest.mark.parametrize("policy", POLICIES)
SAMPLES = ["bernoulli", "goss", "mvs"]
samples = pytest.mark.parametrize("sample", SAMPLES)
draws = pytest.mark.parametrize("sample", [*SAMPLES, "bayesian"])


@policies
@draws
def test_a_seed_gives_the_same_model_again(policy: Any, sample: Any) -> None:
    df = numbers()
    fits = [df.taiga.fit_gbdt("y", names(df), rounds=5, policy=policy, row_sample=sample, seed=7) for _ in range(2)]
    assert fits[0] == fits[1]


@policies
@draws
def test_another_seed_draws_other_rows(policy: Any, sample: Any) -> None:
    df = numbers()
    share: dict[str, Any] = {} if sample == "bayesian" else {"row_fraction": 0.3}
    params: dict[str, Any] = {"rounds": 5, "policy": policy, "row_sample": sample, **share}
    a, b = (predict(df, df.taiga.fit_gbdt("y", names(df), seed=s, **params)) for s in (0, 1))
    assert np.abs(a - b).mean() > 1e-3


@policies
def test_without_draws_a_seed_changes_nothing(policy: Any) -> None:
    """Gradients are rounded by tree and row alone, so that a seed counts only where something is drawn."""
    df = numbers(rows=1_000)
    a, b = (predict(df, df.taiga.fit_gbdt("y", names(df), rounds=20, policy=policy, depth=4, seed=s)) for s in (0, 1))
    assert a.tolist() == b.tolist()


@policies
@pytest.mark.parametrize(
    "sample",
    [
        "bernoulli",
        "goss",
        "mvs",
    ],
)
def test_a_sample_of_all_rows_is_no_sample(policy: Any, sample: Any) -> None:
    df = numbers()
    a = df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy)
    b = df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy, row_sample=sample, row_fraction=1.0)
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@policies
@samples
@pytest.mark.parametrize("target", ["y", "flag", "kind"])
def test_half_the_rows_a_tree_learn_nearly_as_much(policy: Any, sample: Any, target: str) -> None:
    df = numbers(rows=1_500)
    train, test = df[:1_000], df[1_000:]

    def error(**params: Any) -> float:
        p = predict(test, train.taiga.fit_gbdt(target, names(df), rounds=40, policy=policy, **params))
        if target == "y":
            return rmse(p, test["y"])
        if target == "flag":
            return float(np.mean((p > 0.5) != test["flag"].to_numpy()))
        return float(np.mean(np.array(["low", "mid", "top"])[p.argmax(axis=1)] != test["kind"].to_numpy()))

    assert error(row_sample=sample, row_fraction=0.5) < 1.35 * error() + 0.02


@policies
def test_fewer_rows_a_tree_fit_the_training_rows_less(policy: Any) -> None:
    df = numbers()
    error = [
        rmse(
            predict(
                df,
                df.taiga.fit_gbdt("y", names(df), rounds=30, policy=policy, row_sample="bernoulli", row_fraction=share),
            ),
            df["y"],
        )
        for share in (0.05, 0.3, 1.0)
    ]
    assert error == sorted(error, reverse=True)


@policies
@pytest.mark.parametrize(("share", "most"), [(0.01, 1), (0.25, 2), (0.5, 4), (1.0, 8)])
def test_a_tree_uses_no_more_features_than_its_share(policy: Any, share: float, most: int) -> None:
    df = numbers(features=8)
    model = df.taiga.fit_gbdt("y", names(df), rounds=20, policy=policy, feature_fraction=share, min_child_weight=0.0)
    used = inner_of(model).group_by("tree").agg(pl.col("feature").n_unique())["feature"]
    assert used.max() <= most
    assert inner_of(model)["tree"].n_unique() == 20


@policies
def test_all_features_get_their_turn(policy: Any) -> None:
    df = numbers(features=6)
    model = df.taiga.fit_gbdt("y", names(df), rounds=60, policy=policy, feature_fraction=0.2)
    assert set(inner_of(model)["feature"]) == set(names(df))


@pytest.mark.parametrize("policy", ["symmetric", "depthwise"])
def test_a_level_looks_at_its_share_of_the_features(policy: Any) -> None:
    df = numbers(features=8)
    model = df.taiga.fit_gbdt("y", names(df), rounds=20, policy=policy, depth=3, feature_fraction_level=0.13)
    used = inner_of(model).group_by("tree", "depth").agg(pl.col("feature").n_unique())["feature"]
    assert used.max() <= 2
    whole = inner_of(model).group_by("tree").agg(pl.col("feature").n_unique())["feature"]
    assert whole.max() > 1


@pytest.mark.parametrize("policy", BRANCHING)
def test_a_share_of_the_features_by_node_fits_the_training_rows_less(policy: Any) -> None:
    df = numbers(features=8)
    error = [
        rmse(
            predict(df, df.taiga.fit_gbdt("y", names(df), rounds=20, policy=policy, feature_fraction_node=share)),
            df["y"],
        )
        for share in (0.13, 1.0)
    ]
    assert error[0] > error[1]


@policies
@pytest.mark.parametrize("which", ["feature_fraction", "feature_fraction_level", "feature_fraction_node"])
def test_another_seed_draws_other_features(policy: Any, which: str) -> None:
    if (policy, which) == ("symmetric", "feature_fraction_node"):
        with pytest.raises(ValueError, match="feature_fraction_node"):
            numbers().taiga.fit_gbdt("y", "x0", policy=policy, feature_fraction_node=0.5)
        return
    df = numbers(features=8)
    a, b = (
        df.taiga.fit_gbdt("y", names(df), rounds=4, policy=policy, seed=s, **{which: 0.5}).importance("split")
        for s in (0, 1)
    )
    assert not a.equals(b)


@policies
def test_draws_of_features_keep_interactions_and_categories_whole(policy: Any) -> None:
    """A drawn category comes with all its statistics or questions, and constraints hold among what is drawn."""
    df = categories()
    model = df.taiga.fit_gbdt(
        "y", "city", "kind", "x", rounds=20, policy=policy, feature_fraction=0.67,
        interaction=[["city"], ["kind"], ["x"]],
    )  # fmt: skip
    for path in paths_of(model):
        assert sum(any(name in text for text in path) for name in ("city", "kind", "x")) <= 1


@draws
def test_threads_do_not_change_draws(sample: Any) -> None:
    df = numbers(rows=2_000)
    params: dict[str, Any] = {"rounds": 5, "row_sample": sample, "feature_fraction": 0.7}
    assert df.taiga.fit_gbdt("y", names(df), n_threads=1, **params) == df.taiga.fit_gbdt(
        "y", names(df), n_threads=2, **params
    )


@policies
def test_large_gradients_are_kept_by_goss(policy: Any) -> None:
    """A few rows that are far off are in every sample, so their leaf is found even with few rows a tree."""
    rng = np.random.default_rng(0)
    x = np.arange(2_000.0) // 10
    df = pl.DataFrame({"x": x, "y": np.where(x >= 199, 100.0, rng.normal(size=2_000))})
    model = df.taiga.fit_gbdt(
        "y", "x", rounds=60, policy=policy, row_sample="goss", row_fraction=0.1, min_child_weight=0.0, l2=0.0
    )
    assert predict(df, model)[-5:].min() > 90


@policies
@pytest.mark.parametrize("sample", ["goss", "mvs"])
def test_samples_of_gradients_estimate_leaves_without_bias(policy: Any, sample: Any) -> None:
    """The mean prediction over seeds comes near to the mean target of each group."""
    rng = np.random.default_rng(1)
    group = rng.integers(0, 3, 900)
    df = pl.DataFrame({"x": group.astype(float), "y": group * 2.0 + rng.exponential(size=900)})
    means = df.group_by("x").agg(pl.col("y").mean()).sort("x")["y"].to_numpy()
    grid = pl.DataFrame({"x": [0.0, 1.0, 2.0]})
    params: dict[str, Any] = {"rounds": 30, "policy": policy, "row_sample": sample, "row_fraction": 0.4, "l2": 0.0}
    found = [predict(grid, df.taiga.fit_gbdt("y", "x", seed=s, **params)) for s in range(6)]
    np.testing.assert_allclose(np.mean(found, axis=0), means, atol=0.15)


@policies
def test_bayesian_weights_of_no_temperature_are_all_one(policy: Any) -> None:
    df = numbers()
    a = df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy)
    b = df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy, row_sample="bayesian", bagging_temperature=0.0)
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@policies
def test_bayesian_weights_keep_all_rows_and_estimate_leaves_without_bias(policy: Any) -> None:
    """The mean prediction over seeds comes near to each group's mean target, the further apart the weights the less."""
    rng = np.random.default_rng(1)
    group = rng.integers(0, 3, 900)
    df = pl.DataFrame({"x": group.astype(float), "y": group * 2.0 + rng.exponential(size=900)})
    means = df.group_by("x").agg(pl.col("y").mean()).sort("x")["y"].to_numpy()
    grid = pl.DataFrame({"x": [0.0, 1.0, 2.0]})
    params: dict[str, Any] = {"rounds": 30, "policy": policy, "row_sample": "bayesian", "l2": 0.0}
    spread = []
    for temperature in (0.3, 1.0, 3.0):
        models = [df.taiga.fit_gbdt("y", "x", seed=s, bagging_temperature=temperature, **params) for s in range(6)]
        assert leaves_of(models[0]).group_by("tree").agg(pl.col("count").sum())["count"].max() == 900
        found = np.array([predict(grid, model) for model in models])
        np.testing.assert_allclose(found.mean(axis=0), means, atol=0.15 if temperature < 3 else 0.5)
        spread.append(found.std(axis=0).mean())
    assert spread == sorted(spread)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.filterwarnings("ignore")
def test_the_bayesian_bootstrap_is_as_accurate_as_catboosts(temperature: float) -> None:
    """The mean error over seeds on rows not trained on, beside CatBoost with the same settings."""
    catboost = pytest.importorskip("catboost")
    df = numbers(rows=4_000, seed=3)
    train, test = df[:2_000], df[2_000:]
    x, rows = (part.select(names(df)).to_numpy().astype(np.float32) for part in (train, test))
    ours, theirs = [], []
    for seed in range(3):
        model = train.taiga.fit_gbdt(
            "y", names(df), rounds=80, row_sample="bayesian", bagging_temperature=temperature, seed=seed
        )
        ours.append(rmse(predict(test, model), test["y"]))
        peer = catboost.CatBoostRegressor(
            iterations=80, depth=6, learning_rate=0.1, l2_leaf_reg=1, border_count=254, verbose=0, thread_count=2,
            boosting_type="Plain", bootstrap_type="Bayesian", bagging_temperature=temperature, random_strength=0,
            leaf_estimation_iterations=1, random_seed=seed, allow_writing_files=False,
        )  # fmt: skip
        theirs.append(rmse(peer.fit(x, train["y"].to_numpy()).predict(rows), test["y"]))
    assert np.mean(ours) < 1.03 * np.mean(theirs), (ours, theirs)


@policies
def test_a_node_looks_at_one_border_of_each_feature(policy: Any) -> None:
    """First splits lie at borders drawn among all, each about as often, where a feature has no say otherwise."""
    rng = np.random.default_rng(4)
    df = pl.DataFrame({"x": np.repeat(np.arange(8.0), 50)}).with_columns(y=pl.Series(rng.normal(size=400)))
    params: dict[str, Any] = {"rounds": 1, "depth": 1, "policy": policy, "l2": 0.0, "min_child_weight": 0.0}
    borders = [
        inner_of(df.taiga.fit_gbdt("y", "x", seed=s, extra_trees=True, **params))["border"][0] for s in range(140)
    ]
    assert sorted(set(borders)) == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    assert min(borders.count(border) for border in set(borders)) >= 8
    assert len({inner_of(df.taiga.fit_gbdt("y", "x", seed=s, **params))["border"][0] for s in range(20)}) == 1


@policies
def test_extra_trees_fit_the_training_rows_less(policy: Any) -> None:
    df = numbers()
    error = [
        rmse(predict(df, df.taiga.fit_gbdt("y", names(df), rounds=20, policy=policy, extra_trees=extra)), df["y"])
        for extra in (True, False)
    ]
    assert error[0] > error[1]


@pytest.mark.parametrize("leaves", [8, 31])
@pytest.mark.filterwarnings("ignore")
def test_extra_trees_are_as_accurate_as_lightgbms(leaves: int) -> None:
    """The mean error over seeds on rows not trained on, beside LightGBM with the same settings."""
    lightgbm = pytest.importorskip("lightgbm")
    df = numbers(rows=4_000, features=8, seed=3, levels=None)
    train, test = df[:2_000], df[2_000:]
    x, rows = (part.select(names(df)).to_numpy() for part in (train, test))
    ours, theirs = [], []
    for seed in range(4):
        model = train.taiga.fit_gbdt(
            "y",
            names(df),
            rounds=100,
            policy="leafwise",
            leaves=leaves,
            extra_trees=True,
            min_data_in_leaf=5,
            seed=seed,
        )
        ours.append(rmse(predict(test, model), test["y"]))
        peer = lightgbm.LGBMRegressor(
            n_estimators=100, num_leaves=leaves, learning_rate=0.1, reg_lambda=1, min_child_weight=1,
            min_child_samples=5, extra_trees=True, extra_seed=seed, n_jobs=2, verbose=-1,
        )  # fmt: skip
        theirs.append(rmse(peer.fit(x, train["y"].to_numpy()).predict(rows), test["y"]))
    assert np.mean(ours) < 1.03 * np.mean(theirs), (ours, theirs)


@policies
def test_noise_on_scores_lets_other_features_split(policy: Any) -> None:
    df = numbers(features=8)
    fit: dict[str, Any] = {"rounds": 10, "policy": policy}
    plain = df.taiga.fit_gbdt("y", names(df), **fit)
    error, others = [], []
    for strength in (0.0, 1.0, 100.0):
        models = [df.taiga.fit_gbdt("y", names(df), random_strength=strength, seed=s, **fit) for s in range(3)]
        error.append(np.mean([rmse(predict(df, model), df["y"]) for model in models]))
        others.append(np.mean([inner_of(model)["feature"].is_in(["x0", "x1", "x2"]).not_().mean() for model in models]))
    assert error == sorted(error)
    assert others[0] < others[2]
    # So much that scores have no say: eight features, of which five are not among the first three.
    assert others[2] > 0.4
    none = df.taiga.fit_gbdt("y", names(df), random_strength=0.0, **fit)
    np.testing.assert_array_equal(predict(df, plain), predict(df, none))


@pytest.mark.parametrize("strength", [1.0, 5.0])
@pytest.mark.filterwarnings("ignore")
def test_noise_on_scores_is_as_accurate_as_catboosts(strength: float) -> None:
    """The mean error over seeds on rows not trained on, beside CatBoost with the same settings."""
    catboost = pytest.importorskip("catboost")
    df = numbers(rows=3_000, features=8, seed=3, levels=None)
    train, test = df[:1_000], df[1_000:]
    x, rows = (part.select(names(df)).to_numpy().astype(np.float32) for part in (train, test))
    ours, theirs = [], []
    for seed in range(4):
        model = train.taiga.fit_gbdt("y", names(df), rounds=100, random_strength=strength, seed=seed)
        ours.append(rmse(predict(test, model), test["y"]))
        peer = catboost.CatBoostRegressor(
            iterations=100, depth=6, learning_rate=0.1, l2_leaf_reg=1, border_count=254, verbose=0, thread_count=2,
            boosting_type="Plain", bootstrap_type="No", random_strength=strength, leaf_estimation_iterations=1,
            random_seed=seed, allow_writing_files=False,
        )  # fmt: skip
        theirs.append(rmse(peer.fit(x, train["y"].to_numpy()).predict(rows), test["y"]))
    assert np.mean(ours) < 1.03 * np.mean(theirs), (ours, theirs)

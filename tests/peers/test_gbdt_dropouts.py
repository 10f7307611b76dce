"""`boosting="dart"` beside LightGBM's and XGBoost's, by the same settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

from .tables import POLICIES, names, numbers, predict, rmse

SEEDS = range(4)


def parts() -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """Rows to train on, others, and the features.

    The mean is 0, since LightGBM's is part of its first tree, which may be left out.
    """
    df = numbers(rows=3_000, features=6, seed=5, levels=None).with_columns(pl.col("y") - pl.col("y").head(2_000).mean())
    return df[:2_000], df[2_000:], names(df)


def ours(settings: dict[str, Any]) -> list[float]:
    """The errors on the other rows, by seed."""
    train, test, features = parts()
    models = [train.taiga.fit_gbdt("y", *features, boosting="dart", seed=seed, **settings) for seed in SEEDS]
    return [rmse(predict(test, model), test["y"]) for model in models]


def alike(own: list[float], theirs: list[float]) -> bool:
    """Whether the means are within 4 % or three standard errors of each other."""
    error = np.sqrt((np.var(own) + np.var(theirs)) / (len(own) - 1))
    return bool(abs(np.mean(own) - np.mean(theirs)) < max(0.04 * float(np.mean(theirs)), 3 * float(error)))


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize(("rate", "skip"), [(0.1, 0.5), (0.3, 0.0)])
def test_dropouts_are_as_accurate_as_lightgbms(uniform: bool, rate: float, skip: float) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    train, test, features = parts()
    own = ours(
        {
            "rounds": 60, "policy": "leafwise", "leaves": 31, "min_data_in_leaf": 20, "min_child_weight": 1e-3,
            "l2": 0.0, "drop_rate": rate, "skip_drop": skip, "uniform_drop": uniform,
        }
    )  # fmt: skip
    x, y, rows = train.select(features).to_numpy(), train["y"].to_numpy(), test.select(features).to_numpy()
    theirs = []
    for seed in SEEDS:
        params = {
            "objective": "regression", "boosting": "dart", "drop_rate": rate, "skip_drop": skip,
            "uniform_drop": uniform, "drop_seed": seed, "num_leaves": 31, "min_data_in_leaf": 20,
            "learning_rate": 0.1, "num_threads": 1, "verbose": -1,
        }  # fmt: skip
        peer = lightgbm.train(params, lightgbm.Dataset(x, y), num_boost_round=60)
        theirs.append(rmse(peer.predict(rows), test["y"]))
    assert alike(own, theirs), (own, theirs)


@pytest.mark.parametrize("normalize", ["tree", "forest"])
@pytest.mark.parametrize("sample", ["uniform", "weighted"])
def test_dropouts_are_as_accurate_as_xgboosts(normalize: Any, sample: str) -> None:
    xgboost = pytest.importorskip("xgboost")
    train, test, features = parts()
    own = ours(
        {
            "rounds": 60, "policy": "depthwise", "depth": 5, "drop_rate": 0.2, "skip_drop": 0.2, "max_drop": 1_000,
            "one_drop": True, "uniform_drop": sample == "uniform", "normalize": normalize,
        }
    )  # fmt: skip
    x, y = train.select(features).to_numpy(), train["y"].to_numpy()
    rows = xgboost.DMatrix(test.select(features).to_numpy())
    theirs = []
    for seed in SEEDS:
        params = {
            "booster": "dart", "rate_drop": 0.2, "skip_drop": 0.2, "one_drop": 1, "sample_type": sample,
            "max_depth": 5, "normalize_type": normalize, "eta": 0.1, "seed": seed, "nthread": 1,
        }  # fmt: skip
        peer = xgboost.train(params, xgboost.DMatrix(x, y), num_boost_round=60)
        theirs.append(rmse(peer.predict(rows, iteration_range=(0, 60)), test["y"]))
    assert alike(own, theirs), (own, theirs)


@pytest.mark.parametrize("policy", POLICIES)
def test_text_and_several_classes_have_dropouts_too(policy: Any) -> None:
    rng = np.random.default_rng(1)
    df = pl.DataFrame(
        {"x": rng.normal(size=600), "c": rng.choice(list("abcdefgh"), 600), "held": rng.random(600) < 0.3}
    ).with_columns(y=pl.when(pl.col("x") + pl.col("c").is_in(["a", "b"]) > 0.5).then(pl.lit("up")).otherwise("c"))
    df = df.with_columns(y=pl.when(pl.col("c") == "h").then(pl.lit("h")).otherwise("y"))
    fit: dict[str, Any] = {
        "rounds": 40, "policy": policy, "boosting": "dart", "drop_rate": 0.3, "eval": "held", "early_stopping": 10
    }  # fmt: skip
    model = df.taiga.fit_gbdt("y", "x", "c", **fit)
    assert model.to_bytes() == df.taiga.fit_gbdt("y", "x", "c", n_threads=1, **fit).to_bytes()
    assert tg.Model(model.to_bytes()) == model
    # A third of what the shares of the classes alone come to.
    share = df["y"].value_counts()["count"] / len(df)
    assert model.history.drop("round", "best").to_series().min() < -(share * share.log()).sum() / 3

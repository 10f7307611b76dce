"""Losses of several scores: several quantiles, each class against the others, a mean with its variance; and those whose
LightGBM twin is an objective of one's own.
"""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from scipy import optimize, stats
from sklearn import metrics

from .tables import FREE, POLICIES, names, numbers, predict, start_of

policies = pytest.mark.parametrize("policy", POLICIES)
LEVELS = [0.05, 0.5, 0.95]


def noisy(rows: int, seed: int = 0) -> pl.DataFrame:
    """Numbers whose spread depends on a feature."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (rows, 3))
    y = np.sin(3 * x[:, 0]) + x[:, 1] + (0.2 + 0.8 * (x[:, 2] > 0)) * rng.normal(size=rows)
    return pl.DataFrame({f"x{i}": x[:, i] for i in range(3)}).with_columns(y=pl.Series(y))


def peer(df: pl.DataFrame, target: str, test: pl.DataFrame, objective: Any, **params: Any) -> np.ndarray:
    """LightGBM's raw scores, for an objective by name or by function."""
    x, y = df[names(df)].to_numpy(), df[target].to_numpy().astype(float)
    start = params.pop("start", 0.0)
    data = lgb.Dataset(x, y, init_score=np.full(len(y), start))
    settings = {"objective": objective, "verbosity": -1, "num_leaves": 16, "learning_rate": 0.1, "lambda_l2": 1.0,
                "min_data_in_leaf": 1, "boost_from_average": False, **params}  # fmt: skip
    booster = lgb.train(settings, data, num_boost_round=60)
    return start + np.asarray(booster.predict(test[names(df)].to_numpy(), raw_score=True))


OURS: dict[str, Any] = {"policy": "leafwise", "leaves": 16, "rounds": 60}


@policies
def test_quantiles_ascend_and_cover_what_they_say(policy: Any) -> None:
    train, test = noisy(20_000), noisy(20_000, seed=1)
    model = train.taiga.fit_gbdt("y", names(train), loss="quantile", alpha=LEVELS, policy=policy, rounds=100, depth=4)
    p = test.select(tg.predict(model)).to_series()
    assert p.struct.fields == ["0.05", "0.5", "0.95"]
    q = p.struct.unnest().to_numpy()
    assert (np.diff(q, axis=1) >= 0).all()
    covered = (test["y"].to_numpy()[:, None] <= q).mean(axis=0)
    np.testing.assert_allclose(covered, LEVELS, atol=0.015)
    raw = test.select(tg.predict(model, output="raw")).to_series().struct.unnest().to_numpy()
    np.testing.assert_array_equal(np.sort(raw, axis=1), q)
    loss = np.mean([metrics.mean_pinball_loss(test["y"], q[:, k], alpha=a) for k, a in enumerate(LEVELS)])
    before = np.mean([metrics.mean_pinball_loss(test["y"], raw[:, k], alpha=a) for k, a in enumerate(LEVELS)])
    assert loss <= before + 1e-12
    assert model.score(test) == pytest.approx(loss, rel=1e-12)


@policies
def test_each_of_several_quantiles_is_near_the_one_alone(policy: Any) -> None:
    train, test = noisy(5000), noisy(5000, seed=1)
    params: dict[str, Any] = {"loss": "quantile", "policy": policy, "rounds": 40, "depth": 4}
    q = predict(test, train.taiga.fit_gbdt("y", names(train), alpha=LEVELS, **params))
    for k, alpha in enumerate(LEVELS):
        alone = predict(test, train.taiga.fit_gbdt("y", names(train), alpha=alpha, **params))
        both = [metrics.mean_pinball_loss(test["y"], p, alpha=alpha) for p in (q[:, k], alone)]
        assert both[0] == pytest.approx(both[1], rel=0.02)


def test_a_list_of_one_quantile_is_that_number() -> None:
    df = numbers()
    one, of_list = (df.taiga.fit_gbdt("y", names(df), loss="quantile", rounds=5, alpha=alpha) for alpha in (0.3, [0.3]))
    np.testing.assert_array_equal(predict(df, one), predict(df, of_list))


@policies
@pytest.mark.parametrize("device", ["cpu"])
def test_a_model_of_quantiles_is_read_back_and_moves_with_its_target(policy: Any, device: Any) -> None:
    """A constant and a power of two in the target come out as they went in."""
    df = numbers().with_columns(far=pl.col("y") * 1024 + 2.0**20)
    params: dict[str, Any] = {"loss": "quantile", "alpha": LEVELS, "policy": policy, "rounds": 15, "device": device}
    near, far = (df.taiga.fit_gbdt(target, *(f"x{i}" for i in range(3)), **params) for target in ("y", "far"))
    np.testing.assert_allclose(predict(df, far), predict(df, near) * 1024 + 2.0**20, rtol=1e-6)
    assert tg.Model.from_bytes(near.to_bytes()) == near
    assert tg.Model.from_json(near.to_json()) == near
    assert near.params["alpha"] == LEVELS


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"loss": "quantile", "alpha": [0.5, 0.5]}, "ascending"),
        ({"loss": "quantile", "alpha": [0.9, 0.1]}, "ascending"),
        ({"loss": "quantile", "alpha": []}, "1 to 1,000 numbers"),
        ({"loss": "quantile", "alpha": [0.1, 1.0]}, r"inside \(0, 1\)"),
        ({"loss": "expectile", "alpha": [0.1, 0.9]}, 'loss="quantile" alone'),
        ({"loss": "quantile", "alpha": "half"}, "a number, or a list of numbers"),
        ({"loss": "quantile", "alpha": [0.1, 0.9], "metric": "rmse"}, '"rmse" can\'t be measured'),
        ({"loss": "focal", "focal_gamma": -1.0}, "focal_gamma"),
        ({"loss": "gaussian", "metric": "logloss"}, '"logloss" can\'t be measured'),
    ],
)
def test_parameters_that_are_none_are_errors(params: Any, text: str) -> None:
    df = numbers()
    with pytest.raises((ValueError, TypeError, pl.exceptions.PolarsError), match=text):
        df.taiga.fit_gbdt("y", names(df), eval=pl.int_range(pl.len()) % 3 == 0, **params)


@policies
def test_shapley_values_sum_to_the_raw_scores(policy: Any) -> None:
    df = numbers()
    for params in ({"loss": "quantile", "alpha": LEVELS}, {"loss": "gaussian"}):
        model = df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy, **params)
        parts = df.select(tg.predict(model, output="shap")).to_series().struct.unnest()
        raw = df.select(tg.predict(model, output="raw")).to_series().struct.unnest()
        assert parts.columns == raw.columns
        for name in raw.columns:
            total = parts[name].struct.unnest().sum_horizontal()
            np.testing.assert_allclose(total, raw[name], atol=1e-9)
        explained = model.explain(df[0])
        assert explained.label == ("mean" if model.loss == "gaussian" else "0.5")
        curves = tg.partial_dependence(model, df, "x0", grid=3)
        fields = predict_fields(df, model)
        assert curves["class"].unique(maintain_order=True).to_list() == fields
        assert tg.Model.from_json(model.to_json()) == model


def predict_fields(df: pl.DataFrame, model: tg.Model) -> list[str]:
    fields: list[str] = df.select(tg.predict(model)).to_series().struct.fields
    return fields


@policies
def test_gaussian_finds_mean_and_variance(policy: Any) -> None:
    train, test = noisy(20_000), noisy(10_000, seed=1)
    model = train.taiga.fit_gbdt("y", names(train), loss="gaussian", policy=policy, rounds=100, depth=4)
    p = test.select(tg.predict(model)).to_series().struct.unnest()
    assert p.columns == ["mean", "variance"]
    sigma = np.where(test["x2"] > 0, 1.0, 0.2)
    np.testing.assert_allclose(np.median(np.sqrt(p["variance"]) / sigma), 1, atol=0.05)
    truth = np.sin(3 * test["x0"]) + test["x1"]
    best = -stats.norm.logpdf(test["y"], truth, sigma).mean()
    own = -stats.norm.logpdf(test["y"], p["mean"], np.sqrt(p["variance"])).mean()
    constant = -stats.norm.logpdf(test["y"], train["y"].mean(), train["y"].std()).mean()
    assert own < best + 0.1 * (constant - best)
    assert model.score(test) == pytest.approx(own, rel=1e-9)
    raw = test.select(tg.predict(model, output="raw")).to_series().struct.unnest()
    assert raw.columns == ["mean", "log_sigma"]
    np.testing.assert_allclose(np.exp(2 * raw["log_sigma"]), p["variance"], rtol=1e-12)


@policies
def test_the_mean_of_a_gaussian_is_that_of_rmse(policy: Any) -> None:
    train, test = noisy(5000), noisy(5000, seed=1)
    params: dict[str, Any] = {"policy": policy, "rounds": 40, "depth": 4}
    mean = predict(test, train.taiga.fit_gbdt("y", names(train), loss="gaussian", **params))[:, 0]
    alone = predict(test, train.taiga.fit_gbdt("y", names(train), **params))
    assert np.sqrt(np.mean((mean - alone) ** 2)) < 0.05 * alone.std()
    errors = [metrics.root_mean_squared_error(test["y"], p) for p in (mean, alone)]
    assert errors[0] == pytest.approx(errors[1], rel=0.01)


def test_a_gaussian_of_a_shifted_and_scaled_target() -> None:
    df = numbers().with_columns(far=pl.col("y") * 1024 + 2.0**20)
    params: dict[str, Any] = {"loss": "gaussian", "rounds": 15}
    near, far = (predict(df, df.taiga.fit_gbdt(t, *(f"x{i}" for i in range(3)), **params)) for t in ("y", "far"))
    np.testing.assert_allclose(far[:, 0], near[:, 0] * 1024 + 2.0**20, rtol=1e-6)
    np.testing.assert_allclose(far[:, 1], near[:, 1] * 2.0**20, rtol=0.05)


def test_a_gaussian_starts_from_a_baseline_of_its_two_scores() -> None:
    df = noisy(2000)
    first = df.taiga.fit_gbdt("y", names(df), loss="gaussian", rounds=10)
    raw = df.select(tg.predict(first, output="raw")).to_series().struct.unnest()
    df = df.with_columns(raw.rename({"mean": "b0", "log_sigma": "b1"}))
    more = df.taiga.fit_gbdt("y", "x0", "x1", "x2", loss="gaussian", rounds=10, baseline=["b0", "b1"])
    assert start_of(more) == [0.0, 0.0]
    added = df.select(tg.predict(more, output="raw")).to_series().struct.unnest()
    nll = [
        -stats.norm.logpdf(df["y"], m, np.exp(s)).mean()
        for m, s in ((df["b0"], df["b1"]), (df["b0"] + added["mean"], df["b1"] + added["log_sigma"]))
    ]
    assert nll[1] < nll[0]


@policies
def test_one_versus_all_is_a_model_of_each_class(policy: Any) -> None:
    df = numbers(800)
    params: dict[str, Any] = {"policy": policy, "rounds": 15, "depth": 3}
    p = predict(df, df.taiga.fit_gbdt("kind", names(df), loss="ova", **params))
    assert abs(p.sum(axis=1) - 1).max() > 1e-3
    for k, name in enumerate(["low", "mid", "top"]):
        alone = df.with_columns(own=pl.col("kind") == name)
        one = predict(alone, alone.taiga.fit_gbdt("own", names(df), **params))
        y = alone["own"]
        assert metrics.log_loss(y, p[:, k]) == pytest.approx(metrics.log_loss(y, one), rel=0.02)


def test_one_versus_all_as_in_lightgbm() -> None:
    train, test = numbers(4000), numbers(4000, seed=1)
    model = train.taiga.fit_gbdt("kind", names(train), loss="ova", **OURS)
    own = predict(test, model)
    codes = train["kind"].cast(pl.Enum(["low", "mid", "top"])).to_physical().to_numpy()
    settings = {"objective": "multiclassova", "num_class": 3, "verbosity": -1, "num_leaves": 16, "lambda_l2": 1.0}
    booster = lgb.train(settings, lgb.Dataset(train[names(train)].to_numpy(), codes), num_boost_round=60)
    theirs = np.asarray(booster.predict(test[names(train)].to_numpy()))
    losses = [
        np.mean([metrics.log_loss(test["kind"] == name, p[:, k]) for k, name in enumerate(["low", "mid", "top"])])
        for p in (own, theirs)
    ]
    assert losses[0] < 1.02 * losses[1]
    assert own.argmax(axis=1).tolist() == [
        ["low", "mid", "top"].index(c) for c in test.select(tg.predict(model, output="class")).to_series()
    ]


def test_mape_as_in_lightgbm() -> None:
    make = lambda seed: numbers(4000, seed=seed).with_columns(y=pl.col("positive") * 20)  # noqa: E731
    train, test = make(0), make(1)
    model = train.taiga.fit_gbdt("y", names(train), loss="mape", **OURS)
    share = lambda p: np.mean(np.abs(p - test["y"].to_numpy()) / np.maximum(1, test["y"].to_numpy()))  # noqa: E731
    theirs = peer(train, "y", test, "mape", boost_from_average=True)
    assert share(predict(test, model)) < 1.01 * share(theirs)
    y = train["y"].to_numpy()
    weight = 1 / np.maximum(1, y)
    order = np.argsort(y)
    median = y[order][np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2)]
    assert start_of(model)[0] == pytest.approx(median, rel=1e-6)


def test_mape_is_mae_by_weights() -> None:
    """The same trees as of `mae` with what LightGBM divides by as weights; a factor of all weights is none."""
    df = numbers(800).with_columns(pl.col("y") * 5, w=1.0 + pl.int_range(pl.len()) % 3)
    weighed = df.with_columns(w=pl.col("w") / pl.max_horizontal(1.0, pl.col("y").abs()))
    params: dict[str, Any] = {"rounds": 20, "weight": "w", **FREE}
    a = df.taiga.fit_gbdt("y", "x0", "x1", "x2", loss="mape", **params)
    b = weighed.taiga.fit_gbdt("y", "x0", "x1", "x2", loss="mae", **params)
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


def test_a_power_of_two_in_large_targets_scales_mape() -> None:
    df = numbers(400).with_columns(y=pl.col("positive") * 100)
    params: dict[str, Any] = {"loss": "mape", "rounds": 15, "policy": "depthwise"}
    a = predict(df, df.taiga.fit_gbdt("y", "x0", "x1", "x2", **params))
    b = predict(df, df.with_columns(pl.col("y") * 1024).taiga.fit_gbdt("y", "x0", "x1", "x2", **params))
    np.testing.assert_allclose(b, a * 1024, rtol=1e-6)


def test_expectile_as_by_an_objective_of_lightgbm() -> None:
    train, test = noisy(5000), noisy(5000, seed=1)
    alpha = 0.8

    def objective(score: np.ndarray, data: lgb.Dataset) -> tuple[np.ndarray, np.ndarray]:
        r = score - data.get_label()
        w = np.where(r < 0, 2 * alpha, 2 * (1 - alpha))
        return w * r, w

    own = predict(test, train.taiga.fit_gbdt("y", names(train), loss="expectile", alpha=alpha, **OURS))
    theirs = peer(train, "y", test, objective, start=float(stats.expectile(train["y"].to_numpy(), alpha=alpha)))
    y = test["y"].to_numpy()
    loss = [np.mean(np.where(y > p, alpha, 1 - alpha) * (y - p) ** 2) for p in (own, theirs)]
    assert loss[0] < 1.02 * loss[1]
    assert np.corrcoef(own, theirs)[0, 1] > 0.99


def test_an_expectile_of_a_half_is_a_mean() -> None:
    df = numbers()
    half, mean = (
        predict(df, df.taiga.fit_gbdt("y", names(df), rounds=20, loss=loss)) for loss in ("expectile", "rmse")
    )
    np.testing.assert_allclose(half, mean, atol=0.05)


def test_focal_as_by_an_objective_of_lightgbm() -> None:
    """Gradients by definition, second derivatives by differences of them, kept positive."""
    train, test = numbers(4000), numbers(4000, seed=1)
    gamma, alpha = 2.0, 0.25

    def gradient(s: np.ndarray, y: np.ndarray) -> np.ndarray:
        sign = np.where(y == 1, 1.0, -1.0)
        p = 1 / (1 + np.exp(-sign * s))
        balance = np.where(y == 1, alpha, 1 - alpha)
        return -sign * balance * (1 - p) ** gamma * ((1 - p) - gamma * p * np.log(p))

    def objective(s: np.ndarray, data: lgb.Dataset) -> tuple[np.ndarray, np.ndarray]:
        y = data.get_label()
        h = (gradient(s + 1e-4, y) - gradient(s - 1e-4, y)) / 2e-4
        return gradient(s, y), np.maximum(h, 1e-3)

    y = train["flag"].to_numpy().astype(float)
    start = float(optimize.brentq(lambda s: gradient(np.full(len(y), s), y).sum(), -10, 10))
    model = train.taiga.fit_gbdt("flag", names(train), loss="focal", focal_alpha=alpha, **OURS)
    assert start_of(model)[0] == pytest.approx(start, abs=1e-6)
    own, theirs = predict(test, model), 1 / (1 + np.exp(-peer(train, "flag", test, objective, start=start)))

    def focal(p: np.ndarray) -> float:
        of_one = test["flag"].to_numpy()
        q = np.where(of_one, p, 1 - p)
        return float(np.mean(-np.where(of_one, alpha, 1 - alpha) * (1 - q) ** gamma * np.log(q)))

    assert focal(own) < 1.03 * focal(theirs)


def test_focal_without_a_focus_is_the_log_loss() -> None:
    df = numbers()
    a, b = (
        predict(df, df.taiga.fit_gbdt("flag", names(df), rounds=10, **params))
        for params in ({"loss": "focal", "focal_gamma": 0.0}, {"loss": "logloss"})
    )
    np.testing.assert_allclose(a, b, atol=0.01)

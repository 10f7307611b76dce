"""What each loss estimates, in which range, and that training lowers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from scipy import optimize, stats
from sklearn import metrics

from .tables import POLICIES, names, numbers, predict, rmse, staged, start_of

policies = pytest.mark.parametrize("policy", POLICIES)
ALPHA, DELTA, POWER = 0.3, 0.8, 1.4


def huber(y: np.ndarray, p: np.ndarray) -> float:
    r = np.abs(p - y)
    return float(np.mean(np.where(r <= DELTA, r**2 / 2, DELTA * (r - DELTA / 2))))


def log_cosh(y: np.ndarray, p: np.ndarray) -> float:
    return float(np.mean(np.log(np.cosh(p - y))))


def expectile(y: np.ndarray, p: np.ndarray) -> float:
    return float(np.mean(np.where(y > p, ALPHA, 1 - ALPHA) * (y - p) ** 2))


def mape(y: np.ndarray, p: np.ndarray) -> float:
    return float(np.mean(np.abs(y - p) / np.maximum(1, np.abs(y))))


def focal(y: np.ndarray, p: np.ndarray) -> float:
    own = np.where(y, p, 1 - p)
    return float(np.mean(-np.where(y, 0.25, 0.75) * (1 - own) ** 2 * np.log(own)))


def divergence(y: np.ndarray, p: np.ndarray) -> float:
    """The cross entropy less that of perfect predictions."""
    return float(np.mean(y * np.log(y / p) + (1 - y) * np.log((1 - y) / (1 - p))))


# Each loss: its parameters, its target, and what it lowers.
LOSSES: dict[str, tuple[dict[str, Any], str, Callable[[Any, Any], float]]] = {
    "rmse": ({}, "y", metrics.mean_squared_error),
    "mae": ({}, "y", metrics.mean_absolute_error),
    "quantile": ({"alpha": ALPHA}, "y", lambda y, p: metrics.mean_pinball_loss(y, p, alpha=ALPHA)),
    "huber": ({"huber_delta": DELTA}, "y", huber),
    "expectile": ({"alpha": ALPHA}, "y", expectile),
    "mape": ({}, "y", mape),
    "log_cosh": ({}, "y", log_cosh),
    "focal": ({"focal_alpha": 0.25}, "flag", focal),
    "poisson": ({}, "positive", metrics.mean_poisson_deviance),
    "gamma": ({}, "positive", metrics.mean_gamma_deviance),
    "tweedie": ({"tweedie_power": POWER}, "positive", lambda y, p: metrics.mean_tweedie_deviance(y, p, power=POWER)),
    "logloss": ({}, "flag", metrics.log_loss),
    "cross_entropy": ({}, "share", divergence),
}
losses = pytest.mark.parametrize("loss", LOSSES)


def table(rows: int = 400) -> pl.DataFrame:
    return numbers(rows).with_columns(share=1 / (1 + (-pl.col("y")).exp()))


@policies
@losses
def test_no_round_raises_the_training_loss(policy: Any, loss: Any) -> None:
    params, target, measure = LOSSES[loss]
    df = table()
    model = df.taiga.fit_gbdt(target, names(df), rounds=25, policy=policy, loss=loss, **params)
    course = np.array([measure(df[target].to_numpy(), p) for p in staged(df, model)])
    assert (np.diff(course) <= 1e-6 * course[0]).all()
    assert course[-1] < 0.7 * course[0]


@policies
def test_no_round_raises_the_training_loss_of_several_classes(policy: Any) -> None:
    df = table()
    model = df.taiga.fit_gbdt("kind", names(df), rounds=15, policy=policy)
    stages = df.select(tg.predict(model, output="staged")).to_series().struct.unnest()
    shares = np.array([stages[k].to_list() for k in stages.columns])
    course = np.array([metrics.log_loss(df["kind"], shares[:, :, i].T) for i in range(15)])
    assert (np.diff(course) < 0).all()


STARTS: dict[str, Callable[[np.ndarray], float]] = {
    "rmse": np.mean,
    "mae": np.median,
    "quantile": lambda y: float(np.quantile(y, ALPHA, method="inverted_cdf")),
    "expectile": lambda y: float(stats.expectile(y, alpha=ALPHA)),
    "log_cosh": lambda y: float(optimize.minimize_scalar(lambda m: np.log(np.cosh(y - m)).sum(), tol=1e-14).x),
    "poisson": lambda y: float(np.log(np.mean(y))),
    "gamma": lambda y: float(np.log(np.mean(y))),
    "tweedie": lambda y: float(np.log(np.mean(y))),
    "logloss": lambda y: float(np.log(np.mean(y) / (1 - np.mean(y)))),
    "cross_entropy": lambda y: float(np.log(np.mean(y) / (1 - np.mean(y)))),
}


@pytest.mark.parametrize("loss", STARTS)
def test_the_start_is_the_best_constant(loss: Any) -> None:
    params, target, _ = LOSSES[loss]
    df = table(401)
    model = df.taiga.fit_gbdt(target, names(df), rounds=1, loss=loss, **params)
    assert start_of(model)[0] == pytest.approx(STARTS[loss](df[target].cast(pl.Float64).to_numpy()), rel=1e-6)


def test_the_start_of_huber_is_the_best_constant() -> None:
    df = table()
    y = df["y"].to_numpy()
    start = start_of(df.taiga.fit_gbdt("y", names(df), rounds=1, loss="huber", huber_delta=DELTA))[0]
    around = [huber(y, np.full_like(y, start + e)) for e in (-0.01, 0.0, 0.01)]
    assert min(around) == around[1]
    assert np.clip(start - y, -DELTA, DELTA).mean() == pytest.approx(0, abs=1e-6)


def huber_scale(y: np.ndarray, weight: np.ndarray) -> float:
    """The distance from the weighted median that the nine tenths of the weights are within, by its definition."""

    def quantile(values: np.ndarray, level: float) -> float:
        order = np.argsort(values)
        reached = np.cumsum(weight[order]) - level * weight.sum()
        at = int(np.argmax(reached >= 0))
        return float(np.mean(values[order][at : at + 1 + (reached[at] == 0)]))

    return quantile(np.abs(y - quantile(y, 0.5)), 0.9)


@pytest.mark.parametrize("weighted", [False, True])
def test_huber_turns_where_nine_of_ten_rows_are_within(weighted: bool) -> None:
    df = table().with_columns(w=pl.int_range(pl.len()) % 4 + 1.0, held=pl.int_range(pl.len()) % 5 == 0)
    df = df.with_columns(y=pl.when("held").then(1e4).otherwise("y"))
    params: dict[str, Any] = {"loss": "huber", "eval": "held", "rounds": 4, **({"weight": "w"} if weighted else {})}
    model = df.taiga.fit_gbdt("y", names(df), **params)
    train = df.filter(~pl.col("held"))
    weight = train["w"].to_numpy() if weighted else np.ones(train.height)
    assert model.params["huber_delta"] == pytest.approx(huber_scale(train["y"].to_numpy(), weight), rel=1e-12)
    assert model == df.taiga.fit_gbdt("y", names(df), **params, huber_delta=model.params["huber_delta"])
    other = df.taiga.fit_gbdt("y", names(df), **{**params, "loss": "rmse"})
    assert other.params["huber_delta"] == 1


@policies
def test_huber_of_a_scaled_target_is_the_scaled_model(policy: Any) -> None:
    """To the last bit for a power of two, and but for roundings for any other scale."""
    df = table()
    fit_scaled = lambda by: df.with_columns(pl.col("y") * by).taiga.fit_gbdt(  # noqa: E731
        "y", names(df), rounds=10, loss="huber", policy=policy
    )
    plain = predict(df, fit_scaled(1.0))
    assert (predict(df, fit_scaled(2.0**20)) == plain * 2.0**20).all()
    np.testing.assert_allclose(predict(df, fit_scaled(1e6)), plain * 1e6, rtol=1e-4, atol=1e2)
    chunks = pl.concat([df[:77], df[77:]], rechunk=False)
    params: dict[str, Any] = {"loss": "huber", "rounds": 3, "policy": policy}
    assert chunks.taiga.fit_gbdt("y", names(df), **params, n_threads=2) == df.taiga.fit_gbdt("y", names(df), **params)


def test_huber_of_targets_that_are_mostly_alike() -> None:
    """Where nine of ten distances are 0, those of the others count; where all are, 1."""
    df = pl.DataFrame({"x": range(100), "y": [0.0] * 95 + [1.0, 2.0, 3.0, 4.0, 5.0]})
    assert df.taiga.fit_gbdt("y", "x", rounds=2, loss="huber").params["huber_delta"] == 5
    assert df.taiga.fit_gbdt(pl.col("y") * 0, "x", rounds=2, loss="huber").params["huber_delta"] == 1


def test_huber_starts_from_the_baseline() -> None:
    df = table().with_columns(base=pl.col("y") - pl.int_range(pl.len()) % 10 / 4)
    model = df.taiga.fit_gbdt("y", names(table()), rounds=2, loss="huber", baseline="base")
    assert model.params["huber_delta"] == pytest.approx((8 + 9) / 8)


def test_the_start_of_several_classes_is_their_shares() -> None:
    df = table()
    start = np.array(start_of(df.taiga.fit_gbdt("kind", names(df), rounds=1)))
    shares = df["kind"].value_counts().sort("kind")["count"].to_numpy() / df.height
    np.testing.assert_allclose(np.exp(start) / np.exp(start).sum(), shares, rtol=1e-6)


@policies
@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
def test_means_of_positive_targets_are_positive(policy: Any, loss: Any) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=500)
    y = rng.gamma(0.5, np.exp(3 * x)) + 1e-6
    df = pl.DataFrame({"x": x, "y": y})
    model = df.taiga.fit_gbdt("y", "x", rounds=100, policy=policy, loss=loss)
    far = pl.DataFrame({"x": [-1e9, None, 1e9]})
    for frame in (df, far):
        assert (predict(frame, model) > 0).all()
        assert np.isfinite(predict(frame, model)).all()


@policies
@pytest.mark.parametrize("loss", ["rmse", "logloss", "poisson", "multiclass"])
def test_predictions_sum_to_the_targets_without_penalties(policy: Any, loss: Any) -> None:
    """The balance of losses in the exponential family, which boosting reaches in the limit."""
    df = table()
    target = {"rmse": "y", "logloss": "flag", "poisson": "positive", "multiclass": "kind"}[loss]
    params = {"l2": 0.0, "min_child_weight": 0.0, "depth": 2, "learning_rate": 0.3}
    p = predict(df, df.taiga.fit_gbdt(target, names(df), rounds=60, policy=policy, loss=loss, **params))
    if loss == "multiclass":
        shares = df["kind"].value_counts().sort("kind")["count"].to_numpy() / df.height
        np.testing.assert_allclose(p.mean(axis=0), shares, atol=5e-3)
    else:
        assert p.mean() == pytest.approx(df[target].cast(pl.Float64).mean(), rel=5e-3)


@policies
@pytest.mark.parametrize("alpha", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_a_quantile_lies_above_its_share_of_the_rows(policy: Any, alpha: float) -> None:
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=2_000), 1)
    df = pl.DataFrame({"x": x, "y": x + rng.exponential(1 + np.abs(x))})
    model = df.taiga.fit_gbdt("y", "x", rounds=60, policy=policy, loss="quantile", alpha=alpha, depth=3)
    p = predict(df, model)
    assert (df["y"].to_numpy() <= p).mean() == pytest.approx(alpha, abs=0.03)


@policies
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_quantiles_are_as_good_as_those_of_lightgbm(policy: Any, alpha: float) -> None:
    from lightgbm import LGBMRegressor

    df = table(1_000)
    model = df.taiga.fit_gbdt("y", names(df), rounds=60, policy=policy, loss="quantile", alpha=alpha)
    x, y = df.select(names(df)).to_numpy(), df["y"].to_numpy()
    peer = LGBMRegressor(objective="quantile", alpha=alpha, n_estimators=60, verbose=-1, n_jobs=1).fit(x, y)
    ours, theirs = (metrics.mean_pinball_loss(y, p, alpha=alpha) for p in (predict(df, model), peer.predict(x)))
    assert ours < 1.1 * theirs


@policies
def test_larger_quantiles_lie_above_smaller_ones_on_the_mean(policy: Any) -> None:
    df = table()
    means = [
        predict(df, df.taiga.fit_gbdt("y", names(df), rounds=30, policy=policy, loss="quantile", alpha=a)).mean()
        for a in (0.1, 0.3, 0.5, 0.7, 0.9)
    ]
    assert means == sorted(means)


def capped(rows: int, share: float) -> pl.DataFrame:
    """A target of which the largest value is that of a share of the rows."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 4))
    y = 10 * (x[:, 0] + x[:, 1] * x[:, 2]) + 5 * rng.normal(size=rows)
    y = np.round(np.minimum(y, np.quantile(y, 1 - share)), 1)
    return pl.DataFrame({f"x{i}": x[:, i] for i in range(4)}).with_columns(y=pl.Series(y))


@pytest.mark.parametrize(
    "policy",
    [
        "symmetric",
        "depthwise",
        "leafwise",
    ],
)
def test_a_quantile_of_a_capped_target_does_not_stall(policy: Any) -> None:
    """The upper quantile of a target whose largest value is frequent: nearly as good as LightGBM's."""
    from lightgbm import LGBMRegressor

    df = capped(1_000, 0.05)
    p = predict(df, df.taiga.fit_gbdt("y", names(df), rounds=300, policy=policy, loss="quantile", alpha=0.9))
    x, y = df.select(names(df)).to_numpy(), df["y"].to_numpy()
    peer = LGBMRegressor(objective="quantile", alpha=0.9, n_estimators=300, verbose=-1, n_jobs=1).fit(x, y)
    want = metrics.mean_pinball_loss(y, peer.predict(x), alpha=0.9)
    assert metrics.mean_pinball_loss(y, p, alpha=0.9) < 1.3 * want


@policies
def test_a_quantile_that_starts_at_the_cap_itself_is_learnt(policy: Any) -> None:
    """More rows stand at the cap than lie above the quantile; LightGBM 4.7 never leaves its start there."""
    df = capped(1_500, 0.12)
    p = predict(df, df.taiga.fit_gbdt("y", names(df), rounds=100, policy=policy, loss="quantile", alpha=0.95))
    constant = metrics.mean_pinball_loss(df["y"], np.full(df.height, df["y"].max()), alpha=0.95)
    assert metrics.mean_pinball_loss(df["y"], p, alpha=0.95) < 0.7 * constant


@policies
def test_the_median_is_the_quantile_of_a_half(policy: Any) -> None:
    df = table()
    a = predict(df, df.taiga.fit_gbdt("y", names(df), rounds=20, policy=policy, loss="mae"))
    b = predict(df, df.taiga.fit_gbdt("y", names(df), rounds=20, policy=policy, loss="quantile", alpha=0.5))
    np.testing.assert_allclose(a, b, atol=1e-6)


@policies
@pytest.mark.parametrize("loss", ["mae", "huber"])
def test_outliers_hardly_move_a_robust_loss(policy: Any, loss: Any) -> None:
    df = table(1_000)
    wild = df.with_columns(pl.when(pl.int_range(pl.len()) % 50 == 7).then(1e6).otherwise("y").alias("y"))
    clean, robust, mean = (
        predict(df, frame.taiga.fit_gbdt("y", names(df), rounds=30, policy=policy, loss=kind, min_data_in_leaf=5))
        for frame, kind in ((df, loss), (wild, loss), (wild, "rmse"))
    )
    assert np.median(np.abs(robust - clean)) < 0.3
    assert np.median(np.abs(mean - clean)) > 30


@policies
def test_a_wide_huber_is_the_squared_error(policy: Any) -> None:
    df = table()
    a = predict(df, df.taiga.fit_gbdt("y", names(df), rounds=20, policy=policy, loss="huber", huber_delta=1e3))
    b = predict(df, df.taiga.fit_gbdt("y", names(df), rounds=20, policy=policy, loss="rmse"))
    np.testing.assert_allclose(a, b, atol=1e-4)


@policies
def test_huber_s_error_is_between_those_of_the_mean_and_the_median(policy: Any) -> None:
    """On skewed targets: the median lies below the mean, and Huber's value in between."""
    rng = np.random.default_rng(4)
    df = pl.DataFrame({"x": rng.integers(0, 5, 2_000).astype(float), "y": rng.exponential(size=2_000)})
    median, middle, mean = (
        predict(df, df.taiga.fit_gbdt("y", "x", rounds=80, policy=policy, **of_loss)).mean()
        for of_loss in ({"loss": "mae"}, {"loss": "huber", "huber_delta": 0.7}, {"loss": "rmse"})
    )
    assert median < middle < mean


@policies
@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_the_likelihood_of_the_data_s_own_family_beats_the_squared_error(policy: Any, loss: Any) -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(1_500, 3))
    mean = np.exp(x[:, 0] + np.maximum(x[:, 1], 0))
    y = rng.poisson(mean).astype(float) if loss == "poisson" else rng.gamma(2.0, mean / 2) + 1e-9
    df = pl.DataFrame(x, schema=["x0", "x1", "x2"]).with_columns(y=pl.Series(y))
    train, test = df[:1_000], df[1_000:]
    measure = {"poisson": metrics.mean_poisson_deviance, "gamma": metrics.mean_gamma_deviance}[loss]
    own, squared = (
        predict(test, train.taiga.fit_gbdt("y", names(df), rounds=60, depth=4, policy=policy, loss=kind))
        for kind in (loss, "rmse")
    )
    floor = train["y"].filter(train["y"] > 0).min()
    assert measure(test["y"], own) < measure(test["y"], np.maximum(squared, floor))
    assert measure(test["y"], own) < 0.8 * measure(test["y"], np.full(500, train["y"].mean()))


@policies
@pytest.mark.parametrize(("power", "near"), [(1.0001, "poisson"), (1.9999, "gamma")])
def test_tweedie_lies_between_poisson_and_gamma(policy: Any, power: float, near: Any) -> None:
    df = table()
    params: dict[str, Any] = {"rounds": 20, "depth": 3, "policy": policy}
    a = df.taiga.fit_gbdt("positive", names(df), loss="tweedie", tweedie_power=power, **params)
    b = df.taiga.fit_gbdt("positive", names(df), loss=near, **params)
    np.testing.assert_allclose(predict(df, a), predict(df, b), rtol=5e-3)


@policies
@pytest.mark.parametrize("loss", ["poisson", "tweedie"])
def test_zeros_among_counts_are_fitted(policy: Any, loss: Any) -> None:
    df = pl.DataFrame({"x": [0.0] * 30 + [1.0] * 30, "y": [0.0] * 30 + [4.0] * 30})
    p = predict(df, df.taiga.fit_gbdt("y", "x", rounds=200, policy=policy, loss=loss, l2=0.0, min_child_weight=0.0))
    assert p[-1] == pytest.approx(4, rel=1e-2)
    assert 0 < p[0] < 0.1


@policies
def test_labels_as_probabilities_are_the_log_loss(policy: Any) -> None:
    df = table().with_columns(number=pl.col("flag").cast(pl.Float64))
    a = df.taiga.fit_gbdt("flag", names(df), rounds=20, policy=policy)
    b = df.taiga.fit_gbdt("number", names(df), rounds=20, policy=policy, loss="cross_entropy")
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@policies
def test_probabilities_are_estimated_from_probabilities(policy: Any) -> None:
    df = table()
    p = predict(df, df.taiga.fit_gbdt("share", names(df), rounds=100, policy=policy, loss="cross_entropy"))
    assert rmse(p, df["share"]) < 0.5 * df["share"].std()
    assert p.min() > 0
    assert p.max() < 1


@policies
def test_two_classes_by_softmax_are_nearly_those_by_log_loss(policy: Any) -> None:
    df = table()
    a = predict(df, df.taiga.fit_gbdt("flag", names(df), rounds=40, policy=policy, loss="logloss"))
    b = predict(df, df.taiga.fit_gbdt("flag", names(df), rounds=40, policy=policy, loss="multiclass"))
    b = b[:, 1] if b.ndim == 2 else b
    assert np.corrcoef(a, b)[0, 1] > 0.98


@policies
@pytest.mark.parametrize("target", ["flag", "kind"])
@pytest.mark.parametrize("rate", [10.0, 100.0])
def test_a_learning_rate_far_too_large_gives_finite_probabilities(policy: Any, target: str, rate: float) -> None:
    df = table()
    p = predict(df, df.taiga.fit_gbdt(target, names(df), rounds=10, policy=policy, learning_rate=rate))
    assert np.isfinite(p).all()
    assert p.min() >= 0
    assert p.max() <= 1


@policies
def test_probabilities_of_several_classes_sum_to_one(policy: Any) -> None:
    df = table()
    p = predict(df, df.taiga.fit_gbdt("kind", names(df), rounds=20, policy=policy))
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert p.min() > 0


@policies
def test_probabilities_are_the_softmax_of_raw_scores(policy: Any) -> None:
    df = table()
    model = df.taiga.fit_gbdt("kind", names(df), rounds=10, policy=policy)
    raw = np.exp(predict(df, model, "raw"))
    np.testing.assert_allclose(predict(df, model), raw / raw.sum(axis=1, keepdims=True), rtol=1e-9)


LINKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rmse": lambda s: s, "mae": lambda s: s, "quantile": lambda s: s, "huber": lambda s: s, "poisson": np.exp,
    "expectile": lambda s: s, "mape": lambda s: s, "log_cosh": lambda s: s, "focal": lambda s: 1 / (1 + np.exp(-s)),
    "gamma": np.exp, "tweedie": np.exp, "logloss": lambda s: 1 / (1 + np.exp(-s)),
    "cross_entropy": lambda s: 1 / (1 + np.exp(-s)),
}  # fmt: skip


@losses
def test_predictions_are_the_link_of_raw_scores(loss: Any) -> None:
    params, target, _ = LOSSES[loss]
    df = table()
    model = df.taiga.fit_gbdt(target, names(df), rounds=10, loss=loss, **params)
    np.testing.assert_allclose(predict(df, model), LINKS[loss](predict(df, model, "raw")), rtol=1e-9)


@policies
@pytest.mark.parametrize("target", ["flag", "kind"])
def test_the_class_is_the_likeliest(policy: Any, target: str) -> None:
    df = table()
    model = df.taiga.fit_gbdt(target, names(df), rounds=10, policy=policy)
    p, classes = predict(df, model), np.array(model.classes)
    best = classes[p.argmax(axis=1)] if p.ndim == 2 else classes[(p > 0.5).astype(int)]
    assert df.select(tg.predict(model, output="class")).to_series().to_list() == best.tolist()


@policies
def test_renaming_classes_renames_columns_and_nothing_else(policy: Any) -> None:
    """Labels are sorted; with names that sort otherwise the columns come in another order."""
    df = table()
    other = df.with_columns(pl.col("kind").replace({"low": "z", "mid": "y", "top": "x"}))
    a, b = (frame.taiga.fit_gbdt("kind", names(df), rounds=5, depth=3, policy=policy) for frame in (df, other))
    assert b.classes == ["x", "y", "z"]
    np.testing.assert_allclose(predict(df, a), predict(df, b)[:, ::-1], atol=1e-4)


@policies
def test_swapping_two_classes_mirrors_the_probability(policy: Any) -> None:
    df = table()
    a, b = (
        predict(df, frame.taiga.fit_gbdt("flag", names(df), rounds=10, depth=3, policy=policy))
        for frame in (df, df.with_columns(~pl.col("flag")))
    )
    np.testing.assert_allclose(a, 1 - b, atol=1e-4)


@policies
def test_integer_labels_with_gaps_are_classes(policy: Any) -> None:
    df = table().with_columns(code=pl.col("kind").replace_strict({"low": -5, "mid": 3, "top": 1000}))
    model = df.taiga.fit_gbdt("code", names(df), rounds=10, policy=policy, loss="multiclass")
    assert model.classes == [-5, 3, 1000]
    same = df.taiga.fit_gbdt("kind", names(df), rounds=10, policy=policy)
    np.testing.assert_array_equal(predict(df, model), predict(df, same))


@policies
def test_a_class_of_one_row_among_many_is_learnt(policy: Any) -> None:
    df = pl.DataFrame({"x": np.arange(200.0), "y": ["a"] * 100 + ["b"] * 99 + ["c"]})
    model = df.taiga.fit_gbdt("y", "x", rounds=60, policy=policy, min_child_weight=0.0)
    assert df.select(tg.predict(model, output="class")).to_series().to_list() == df["y"].to_list()


@pytest.mark.parametrize(
    ("loss", "values"),
    [
        ("gamma", [1.0, 0.0, 2.0]),
        ("gamma", [1.0, -2.0, 2.0]),
        ("poisson", [1.0, -1e-9, 2.0]),
        ("tweedie", [1.0, -1.0, 2.0]),
        ("cross_entropy", [0.0, 1.1, 0.5]),
    ],
)
def test_a_target_outside_the_loss_s_range_is_an_error_that_names_the_column(loss: Any, values: list[float]) -> None:
    df = pl.DataFrame({"x": [0.0, 1.0, 2.0], "y": values})
    with pytest.raises(pl.exceptions.ComputeError, match=r"column `y`"):
        df.taiga.fit_gbdt("y", "x", loss=loss)


@pytest.mark.parametrize("loss", ["poisson", "tweedie"])
@pytest.mark.parametrize("policy", POLICIES)
def test_counts_that_are_all_zero_predict_next_to_nothing(loss: Any, policy: Any) -> None:
    """Where scikit-learn gives an error; XGBoost and LightGBM predict a tiny mean, as we do."""
    df = pl.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [0.0] * 4})
    p = predict(df, df.taiga.fit_gbdt("y", "x", loss=loss, policy=policy, rounds=5))
    assert (p > 0).all()
    assert p.max() < 1e-6

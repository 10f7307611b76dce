"""What is measured on held-out rows: scikit-learn's numbers, the best round, and nothing learnt from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from scipy import stats
from sklearn import metrics

from .tables import POLICIES, categories, names, numbers, predict, staged

policies = pytest.mark.parametrize("policy", POLICIES)
Metric = Callable[..., float]


def huber(y: Any, p: Any, sample_weight: Any = None) -> float:
    r = np.abs(np.asarray(p) - np.asarray(y))
    return float(np.average(np.where(r <= 1, r**2 / 2, r - 0.5), weights=sample_weight))


def mape(y: Any, p: Any, sample_weight: Any = None) -> float:
    return float(np.average(np.abs(y - p) / np.maximum(1, np.abs(y)), weights=sample_weight))


def log_cosh(y: Any, p: Any, sample_weight: Any = None) -> float:
    return float(np.average(np.log(np.cosh(y - p)), weights=sample_weight))


def expectile(y: Any, p: Any, sample_weight: Any = None) -> float:
    return float(np.average(np.where(y > p, 0.7, 0.3) * (y - p) ** 2, weights=sample_weight))


def focal(y: Any, p: Any, sample_weight: Any = None) -> float:
    own = np.where(y, p, 1 - p)
    return float(np.average(-((1 - own) ** 2) * np.log(own), weights=sample_weight))


def one_versus_all(y: Any, p: Any, sample_weight: Any = None) -> float:
    each = [
        metrics.log_loss(np.asarray(y) == name, p[:, k], sample_weight=sample_weight)
        for k, name in enumerate(["low", "mid", "top"])
    ]
    return float(np.mean(each))


def gaussian(y: Any, p: Any, sample_weight: Any = None) -> float:
    return float(-np.average(stats.norm.logpdf(y, p[:, 0], np.sqrt(p[:, 1])), weights=sample_weight))


def cross_entropy(y: Any, p: Any, sample_weight: Any = None) -> float:
    return float(np.average(-(y * np.log(p) + (1 - y) * np.log(1 - p)), weights=sample_weight))


def accuracy(y: Any, p: Any, sample_weight: Any = None) -> float:
    best = np.array(["low", "mid", "top"])[p.argmax(axis=1)] if p.ndim == 2 else p > 0.5
    return float(metrics.accuracy_score(y, best, sample_weight=sample_weight))


# (loss, metric): the target, and the same by scikit-learn or by definition.
CASES: dict[tuple[str, str], tuple[str, Metric]] = {
    ("rmse", "rmse"): ("y", metrics.root_mean_squared_error),
    ("rmse", "mae"): ("y", metrics.mean_absolute_error),
    ("rmse", "r2"): ("y", metrics.r2_score),
    ("rmse", "huber"): ("y", huber),
    ("expectile", "expectile"): ("y", expectile),
    ("mape", "mape"): ("y", mape),
    ("log_cosh", "log_cosh"): ("y", log_cosh),
    ("focal", "focal"): ("flag", focal),
    ("focal", "auc"): ("flag", metrics.roc_auc_score),
    ("ova", "ova"): ("kind", one_versus_all),
    ("ova", "accuracy"): ("kind", accuracy),
    ("gaussian", "gaussian"): ("y", gaussian),
    ("gaussian", "rmse"): ("y", lambda y, p, sample_weight=None: metrics.root_mean_squared_error(
        y, p[:, 0], sample_weight=sample_weight)),
    ("mae", "rmse"): ("y", metrics.root_mean_squared_error),
    ("quantile", "quantile"): ("y", lambda y, p, sample_weight=None: metrics.mean_pinball_loss(
        y, p, alpha=0.7, sample_weight=sample_weight)),
    ("poisson", "poisson"): ("positive", metrics.mean_poisson_deviance),
    ("poisson", "rmse"): ("positive", metrics.root_mean_squared_error),
    ("gamma", "gamma"): ("positive", metrics.mean_gamma_deviance),
    ("tweedie", "tweedie"): ("positive", lambda y, p, sample_weight=None: metrics.mean_tweedie_deviance(
        y, p, power=1.5, sample_weight=sample_weight)),
    ("logloss", "logloss"): ("flag", metrics.log_loss),
    ("logloss", "auc"): ("flag", metrics.roc_auc_score),
    ("logloss", "accuracy"): ("flag", accuracy),
    ("logloss", "rmse"): ("flag", lambda y, p, sample_weight=None: np.sqrt(
        metrics.brier_score_loss(y, p, sample_weight=sample_weight))),
    ("cross_entropy", "cross_entropy"): ("share", cross_entropy),
    ("multiclass", "multiclass"): ("kind", metrics.log_loss),
    ("multiclass", "accuracy"): ("kind", accuracy),
}  # fmt: skip


def table(rows: int = 500) -> pl.DataFrame:
    return numbers(rows).with_columns(
        share=1 / (1 + (-pl.col("y")).exp()),
        held=pl.int_range(pl.len()) % 3 == 0,
        w=1.0 + pl.int_range(pl.len()) % 4,
    )


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(("loss", "metric"), CASES)
def test_the_history_is_the_metric_of_scikit_learn_on_the_held_out_rows(loss: Any, metric: Any, weighted: bool) -> None:
    target, measure = CASES[loss, metric]
    df = table()
    model = df.taiga.fit_gbdt(
        target, names(df), rounds=6, loss=loss, metric=metric, eval="held", weight="w" if weighted else None,
        **({"alpha": 0.7} if loss in ("quantile", "expectile") else {"huber_delta": 1.0} if metric == "huber" else {}),
    )  # fmt: skip
    test = df.filter("held")
    weight = test["w"].to_numpy() if weighted else None
    assert model.history.height == 6
    want = measure(test[target].to_numpy(), predict(test, model), sample_weight=weight)
    assert model.history[metric][-1] == pytest.approx(want, rel=2e-5)


@policies
def test_the_history_has_the_metric_after_each_round(policy: Any) -> None:
    df = table()
    model = df.taiga.fit_gbdt("y", names(df), rounds=8, policy=policy, eval="held")
    test = df.filter("held")
    want = [metrics.root_mean_squared_error(test["y"], p) for p in staged(test, model)]
    np.testing.assert_allclose(model.history["rmse"], want, rtol=1e-5)
    assert model.history["round"].to_list() == list(range(8))
    assert model.history.filter("best")["round"].to_list() == [int(np.argmin(want))]


OF_HELD_OUT = {
    "target": pl.when("held").then(pl.col("y").reverse()).otherwise("y").alias("y"),
    "features": pl.when("held").then(1e6).otherwise("x0").alias("x0"),
    "missing": pl.when(~pl.col("held")).then("x1").alias("x1"),
    "infinite": pl.when("held").then(float("inf")).otherwise("x2").alias("x2"),
}


@policies
@pytest.mark.parametrize("what", OF_HELD_OUT)
def test_nothing_of_held_out_rows_gets_into_the_trees(policy: Any, what: str) -> None:
    """Neither their targets, nor borders of their values."""
    df = table()
    a, b = (
        frame.taiga.fit_gbdt("y", names(df), rounds=5, policy=policy, eval="held")
        for frame in (df, df.with_columns(OF_HELD_OUT[what]))
    )
    assert a.history["rmse"].to_list() != b.history["rmse"].to_list()
    assert a.trees().equals(b.trees())
    assert a.borders == b.borders


@policies
def test_held_out_rows_are_as_if_they_were_not_there(policy: Any) -> None:
    df = table()
    params: dict[str, Any] = {"rounds": 10, "depth": 3, "policy": policy}
    a = df.taiga.fit_gbdt("y", names(df), eval="held", **params)
    b = df.filter(~pl.col("held")).taiga.fit_gbdt("y", names(df), **params)
    # Draws are by the number of the row in the table, so the two are close and not the same.
    np.testing.assert_allclose(predict(df, a), predict(df, b), atol=1e-3)


@policies
@pytest.mark.parametrize("metric", ["logloss", "auc", "accuracy"])
@pytest.mark.parametrize("patience", [1, 5])
def test_training_ends_so_many_rounds_after_the_best(policy: Any, metric: Any, patience: int) -> None:
    df = table()
    model = df.taiga.fit_gbdt(
        "flag", names(df), rounds=400, learning_rate=0.5, policy=policy, eval="held", metric=metric,
        early_stopping=patience,
    )  # fmt: skip
    values = model.history[metric].to_numpy()
    best = int(np.argmin(values) if metric == "logloss" else np.argmax(values))
    assert model.rounds == best + 1
    assert len(values) == min(best + 1 + patience, 400)
    assert model.trees()["round"].max() == best


@policies
def test_a_stopped_model_is_the_beginning_of_the_longer_one(policy: Any) -> None:
    df = table()
    params: dict[str, Any] = {"learning_rate": 0.5, "policy": policy, "eval": "held"}
    stopped = df.taiga.fit_gbdt("flag", names(df), rounds=200, early_stopping=3, **params)
    whole = df.taiga.fit_gbdt("flag", names(df), rounds=stopped.rounds + 3, **params)
    np.testing.assert_array_equal(predict(df, stopped), staged(df, whole)[stopped.rounds - 1])
    assert stopped.history["logloss"].to_list() == whole.history["logloss"].to_list()


@policies
def test_patience_that_never_ends_changes_nothing(policy: Any) -> None:
    df = table()
    a = df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy, eval="held", early_stopping=1_000)
    b = df.taiga.fit_gbdt("y", names(df), rounds=10, policy=policy, eval="held")
    rounds = a.rounds
    np.testing.assert_array_equal(predict(df, a), staged(df, b)[rounds - 1])


def test_a_metric_that_never_changes_keeps_the_first_round() -> None:
    df = table().with_columns(easy=pl.col("x1") > 0.3)
    model = df.taiga.fit_gbdt("easy", names(df), rounds=50, eval="held", metric="auc", early_stopping=4)
    assert set(model.history["auc"]) == {1.0}
    assert (model.rounds, model.history.height) == (1, 5)


def test_a_forced_metric_does_not_change_the_trees() -> None:
    df = table()
    a, b = (df.taiga.fit_gbdt("flag", names(df), rounds=5, eval="held", metric=m) for m in ("logloss", "auc"))
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@pytest.mark.parametrize("target", ["flag", "kind"])
def test_early_stopping_works_on_text_labels(target: str) -> None:
    df = table().with_columns(flag=pl.when("flag").then(pl.lit("yes")).otherwise(pl.lit("no")))
    model = df.taiga.fit_gbdt(target, names(df), rounds=200, learning_rate=0.5, eval="held", early_stopping=5)
    assert model.rounds < 200
    assert set(df.select(tg.predict(model, output="class")).to_series()) <= set(model.classes or [])


def test_held_out_weights_of_zero_do_not_count() -> None:
    df = table().with_columns(w=pl.when(pl.col("held") & (pl.col("x0") > 0)).then(0.0).otherwise(1.0))
    model = df.taiga.fit_gbdt("y", names(df), rounds=3, eval="held", weight="w")
    test = df.filter(pl.col("held") & (pl.col("w") > 0))
    assert model.history["rmse"][-1] == pytest.approx(metrics.root_mean_squared_error(test["y"], predict(test, model)))


@pytest.mark.parametrize("metric", ["rmse", "logloss", "auc"])
def test_the_metric_by_its_definition_on_two_rows(metric: Any) -> None:
    df = pl.DataFrame({"x": [0.0, 1.0] * 3, "y": [False, True] * 3, "held": [False] * 4 + [True] * 2})
    model = df.taiga.fit_gbdt("y", "x", rounds=4, eval="held", metric=metric, min_child_weight=0.0)
    p = predict(df, model)[-1]
    want = {"rmse": 1 - p, "logloss": -np.log(p), "auc": 1.0}[metric]
    assert model.history[metric][-1] == pytest.approx(want, rel=1e-5)


CATEGORICAL = [
    (p, m) for p in POLICIES for m in ("ctr", "one_hot", "partition") if (p, m) != ("symmetric", "partition")
]


@pytest.mark.parametrize(("policy", "method"), CATEGORICAL)
@pytest.mark.parametrize("target", ["y", "flag"])
def test_held_out_categories_are_measured_as_they_are_predicted(policy: Any, method: Any, target: str) -> None:
    """Those that training has not seen, and null, too."""
    df = categories().with_columns(held=pl.int_range(pl.len()) % 3 == 0)
    df = df.with_columns(
        city=pl.when(pl.col("held") & (pl.col("shop") == 1)).then(pl.lit("new"))
        .when(pl.col("held") & (pl.col("shop") == 2)).then(None).otherwise("city")
    )  # fmt: skip
    model = df.taiga.fit_gbdt(target, "city", "kind", "x", rounds=6, policy=policy, cat_method=method, eval="held")
    test = df.filter("held")
    name, measure = ("rmse", metrics.root_mean_squared_error) if target == "y" else ("logloss", metrics.log_loss)
    want = [measure(test[target], p) for p in staged(test, model)]
    np.testing.assert_allclose(model.history[name], want, rtol=1e-4)


@policies
def test_a_class_that_only_held_out_rows_have_is_next_to_impossible(policy: Any) -> None:
    df = table().with_columns(held=(pl.col("kind") == "top") | (pl.int_range(pl.len()) % 5 == 0))
    model = df.taiga.fit_gbdt("kind", names(df), rounds=3, policy=policy, eval="held")
    p = predict(df, model)
    assert model.classes == ["low", "mid", "top"]
    assert p[:, 2].max() < 1e-6
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert model.history["multiclass"].is_finite().all()


@policies
def test_a_class_of_class_weight_zero_is_next_to_impossible(policy: Any) -> None:
    df = table()
    p = predict(df, df.taiga.fit_gbdt("kind", names(df), rounds=5, policy=policy, class_weight={"top": 0.0}))
    assert p[:, 2].max() < 1e-6
    assert np.isfinite(p).all()


@policies
def test_a_class_that_only_rows_of_weight_zero_have_is_not_there(policy: Any) -> None:
    df = table().with_columns(w=pl.when(pl.col("kind") == "top").then(0.0).otherwise(1.0))
    model = df.taiga.fit_gbdt("kind", names(df), rounds=5, policy=policy, weight="w")
    assert model.classes == ["low", "mid"]

"""Survival: the losses `cox` and `aft` and their metrics against lifelines, XGBoost and scikit-survival, in queries,
and where they can't be.
"""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import polars_taiga as tg
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from lifelines import CoxPHFitter
from lifelines.fitters.coxph_fitter import SemiParametricPHFitter
from lifelines.utils import concordance_index
from polars.exceptions import ComputeError
from polars_taiga.sklearn import GbdtRegressor
from scipy.stats import norm
from sksurv.metrics import integrated_brier_score

LOSSES = ["cox", "aft"]
DISTRIBUTIONS = {"normal": "normal", "logistic": "logistic", "extreme": "extreme"}
FEATURES = list("abcd")


@pytest.fixture(scope="module")
def df() -> pl.DataFrame:
    """Times in whole weeks, a third of them censored, of three clinics."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(900, 4))
    time = np.ceil(20 * rng.weibull(1.3, 900) * np.exp(0.7 * x[:, 0] - 0.5 * x[:, 1] * (x[:, 2] > 0)))
    return pl.DataFrame(x, schema=FEATURES).with_columns(
        weeks=pl.Series(time),
        died=pl.Series(rng.random(900) < 0.66),
        clinic=pl.Series(rng.integers(0, 3, 900)),
        w=pl.Series(rng.integers(1, 5, 900)),
    )


def raw(df: pl.DataFrame, model: Any) -> np.ndarray:
    return df.select(tg.predict(model, output="raw")).to_series().to_numpy()


def steps(df: pl.DataFrame, l2: float, **call: Any) -> np.ndarray:
    """What each row gets at the column `score`: -gradient / (hessian + l2), in a leaf of its own where that gains."""
    rows = df.height
    frame = df.with_columns(row=pl.int_range(rows).cast(pl.Float64))
    params = {
        "baseline": "score",
        "policy": "leafwise",
        "leaves": max(rows, 2),
        "bins": 256,
        "min_child_weight": 0,
        "border_method": "quantile",
        "learning_rate": 1.0,
        "rounds": 1,
    }
    return raw(frame, frame.taiga.fit_gbdt("time", "row", l2=l2, **params, **call))


def derivatives(df: pl.DataFrame, **call: Any) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and hessian of each row at the column `score`, of the steps under two penalties."""
    of = {l2: steps(df, l2, **call) for l2 in (1.0, 3.0)}
    hessian = (3 * of[3.0] - of[1.0]) / (of[1.0] - of[3.0])
    return -of[1.0] * (hessian + 1), hessian


def patients(rows: int, seed: int, *, ties: bool = False, weights: bool = False) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    time = rng.integers(1, 12, rows).astype(float) if ties else rng.permutation(rows) + rng.random(rows) / 2 + 1
    return pl.DataFrame(
        {
            "time": time,
            "died": rng.random(rows) < 0.7,
            "score": rng.normal(size=rows),
            "w": rng.uniform(0.5, 3, rows) if weights else np.ones(rows),
        }
    )


def efron(df: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, float]:
    """The derivatives that lifelines has, with respect to each row's score, and the log likelihood."""
    order = np.argsort(df["time"].to_numpy(), kind="stable")
    by_time = df[order]
    column = lambda name: pd.Series(by_time[name].to_numpy())  # noqa: E731
    of = SemiParametricPHFitter._get_efron_values_single
    beta, rows = by_time["score"].to_numpy(), pd.DataFrame(np.eye(df.height))
    hessian, gradient, likelihood = of(CoxPHFitter(), rows, column("time"), column("died"), column("w"), None, beta)
    back = np.argsort(order)
    return -np.asarray(gradient).ravel()[back], -np.diag(hessian)[back], float(likelihood)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weights", [False, True])
def test_cox_has_lifelines_derivatives(seed: int, weights: bool) -> None:
    df = patients(120, seed, ties=True, weights=weights)
    gradient, hessian, likelihood = efron(df)
    # Without a penalty every leaf gains by being divided, down to rows of the same step.
    own = steps(df, 0.0, event="died", loss="cox", weight="w")
    assert own == pytest.approx(-gradient / hessian, rel=2e-3)
    model = df.taiga.fit_gbdt("time", "score", event="died", loss="cox", rounds=1)
    events = df.filter("died")["w"].sum()
    frame = df.with_columns(score=pl.Series(raw(df, model)))
    found = df.select(tg.score(model, "time", event="died", weight="w")).item()
    # Weights in units of their mean.
    expected = -efron(frame)[2] / events - math.log(df["w"].mean())
    assert found == pytest.approx(expected, abs=1e-6 if weights else 1e-9)
    assert likelihood < 0


def booster(df: pl.DataFrame, objective: str, matrix: xgboost.DMatrix, l2: float, **params: Any) -> np.ndarray:
    """What XGBoost's one tree with a leaf for each row adds to the margin."""
    params = {
        "objective": objective,
        "eta": 1.0,
        "lambda": l2,
        "min_child_weight": 0,
        "max_depth": 0,
        "grow_policy": "lossguide",
        "max_leaves": df.height,
        "max_bin": 2 * df.height,
        "tree_method": "hist",
        "nthread": 1,
        **params,
    }
    matrix.set_base_margin(df["score"].to_numpy())
    return xgboost.train(params, matrix, 1).predict(matrix, output_margin=True) - df["score"].to_numpy()


def theirs(df: pl.DataFrame, objective: str, matrix: xgboost.DMatrix, **params: Any) -> tuple[np.ndarray, np.ndarray]:
    of = {l2: booster(df, objective, matrix, l2, **params).astype(np.float64) for l2 in (1.0, 3.0)}
    hessian = (3 * of[3.0] - of[1.0]) / (of[1.0] - of[3.0])
    return -of[1.0] * (hessian + 1), hessian


@pytest.mark.parametrize("seed", range(3))
def test_cox_without_ties_has_xgboosts_derivatives(seed: int) -> None:
    df = patients(120, seed)
    label = np.where(df["died"], df["time"], -df["time"])
    matrix = xgboost.DMatrix(np.arange(120.0)[:, None], label=label)
    gradient, hessian = theirs(df, "survival:cox", matrix)
    own = derivatives(df, event="died", loss="cox")
    near = np.isclose(own[0], gradient, rtol=5e-3, atol=5e-3) & np.isclose(own[1], hessian, rtol=5e-3, atol=5e-3)
    assert near.mean() > 0.97, (own[0][~near], gradient[~near])


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_aft_has_xgboosts_derivatives(distribution: str) -> None:
    """Of every kind of censoring, where neither clips: residuals are of moderate size. A hessian is at least that of a
    parabola whose lowest point is at the nearer bound, or a scale away (docs/survival.md). Each row is fitted alone,
    twice over, because gains, and with them leaves, go by hessians.
    """
    rng = np.random.default_rng(0)
    rows, scale = 60, 1.2
    time, kind, score = np.exp(rng.normal(size=rows)), rng.integers(0, 4, rows), rng.normal(size=rows)
    lower = np.where(kind == 2, 0.0, time)
    upper = np.select([kind == 0, kind == 1, kind == 2], [time, np.inf, time], time * (1 + rng.random(rows)))
    df = pl.DataFrame({"time": time, "score": score, "lo": lower, "hi": upper})
    params = {"aft_loss_distribution": distribution, "aft_loss_distribution_scale": scale}
    call = {"lower": "lo", "upper": "hi", "loss": "aft", "aft_distribution": distribution, "aft_scale": scale}
    for i in range(rows):
        matrix, row = xgboost.DMatrix(np.zeros((2, 1))), df[[i, i]]
        matrix.set_float_info("label_lower_bound", lower[[i, i]])
        matrix.set_float_info("label_upper_bound", upper[[i, i]])
        gradient, hessian = theirs(row, "survival:aft", matrix, **params)
        own = derivatives(row, **call)
        bounds = np.array([np.log(lower[i]) if lower[i] > 0 else -np.inf, np.log(upper[i])])
        beyond = max(bounds[0] - score[i], score[i] - bounds[1], scale)
        assert own[0] == pytest.approx(gradient, rel=5e-3, abs=5e-3), i
        assert own[1] == pytest.approx(np.maximum(hessian, np.abs(gradient) / beyond), rel=2e-2, abs=1e-2), i


@pytest.mark.parametrize("scale", [0.5, 0.3, 0.1, 0.01])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_aft_finds_times_of_any_scale(distribution: str, scale: float) -> None:
    """Proves that a fit comes to the times that it was made of, however small the scale and far the first scores are,
    at the default policy, which asks for no weight in a leaf, and at the others.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=2_000)
    uniform = rng.random(2_000)
    drawn = {
        "extreme": np.log(-np.log(uniform)),
        "logistic": np.log(uniform / (1 - uniform)),
        "normal": rng.normal(size=2_000),
    }[distribution]
    time, censored = np.exp(1.5 * x + scale * drawn), np.exp(1.5 * x + 0.5 * rng.normal(size=2_000))
    died = time <= censored
    df = pl.DataFrame({"x": x, "time": np.minimum(time, censored), "died": died})
    for policy in ("symmetric", "depthwise"):
        params = {"aft_distribution": distribution, "aft_scale": scale, "policy": policy}
        model = df.taiga.fit_gbdt("time", "x", loss="aft", event="died", rounds=100, **params)
        apart = model.predict(df, output="raw").to_numpy() - 1.5 * x
        assert np.sqrt(np.mean(apart**2)) < max(0.4, scale), (policy, np.abs(apart).max())


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_aft_nloglik_is_xgboosts(df: pl.DataFrame, distribution: str) -> None:
    params = {"aft_distribution": distribution, "aft_scale": 0.8}
    model = df.taiga.fit_gbdt("weeks", FEATURES, event="died", loss="aft", rounds=20, **params)
    matrix = xgboost.DMatrix(df.select(FEATURES).to_numpy(), base_margin=raw(df, model))
    time = df["weeks"].to_numpy()
    matrix.set_float_info("label_lower_bound", time)
    matrix.set_float_info("label_upper_bound", np.where(df["died"], time, np.inf))
    shared = {"aft_loss_distribution": distribution, "aft_loss_distribution_scale": 0.8, "eval_metric": "aft-nloglik"}
    # `Booster.eval` forgets the scale; what a fit measures has it.
    measured: dict[str, Any] = {}
    idle = {"objective": "survival:aft", "eta": 0.0, **shared}
    xgboost.train(idle, matrix, 1, evals=[(matrix, "all")], evals_result=measured, verbose_eval=False)
    expected = measured["all"]["aft-nloglik"][0]
    assert df.select(tg.score(model, "weeks", event="died")).item() == pytest.approx(expected, rel=1e-6)


def test_cox_nloglik_without_ties_is_xgboosts() -> None:
    df = patients(200, 5)
    model = df.taiga.fit_gbdt("time", "score", event="died", loss="cox", rounds=20)
    label = np.where(df["died"], df["time"], -df["time"])
    matrix = xgboost.DMatrix(np.zeros((200, 1)), label=label, base_margin=raw(df, model))
    idle = xgboost.train({"objective": "survival:cox", "eta": 0.0, "eval_metric": "cox-nloglik"}, matrix, 1)
    expected = float(idle.eval(matrix).split(":")[-1])
    assert df.select(tg.score(model, "time", event="died")).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_concordance_is_lifelines(df: pl.DataFrame, loss: str) -> None:
    model = df.taiga.fit_gbdt("weeks", FEATURES, event="died", loss=loss, rounds=2, depth=2)
    predicted = df.select(tg.predict(model)).to_series().to_numpy()
    assert len(np.unique(predicted)) < 20
    expected = concordance_index(df["weeks"], -predicted if loss == "cox" else predicted, df["died"])
    assert df.select(tg.score(model, "weeks", event="died", metric="concordance")).item() == pytest.approx(
        expected, abs=1e-12
    )
    weighted = df.select(tg.score(model, "weeks", event="died", metric="concordance", weight="w")).item()
    again = df.select(pl.all().repeat_by("w")).explode(pl.all())
    repeated = again.select(tg.score(model, "weeks", event="died", metric="concordance")).item()
    # Rows of one event are no pair when they are repeated, and those that are censored are none with each other.
    assert weighted == pytest.approx(repeated, abs=5e-3)


def test_brier_is_scikit_survivals(df: pl.DataFrame) -> None:
    model = df.taiga.fit_gbdt("weeks", FEATURES, event="died", loss="aft", rounds=20, aft_scale=0.9)
    time, died, score = df["weeks"].to_numpy(), df["died"].to_numpy(), raw(df, model)
    y = np.array(list(zip(died, time, strict=True)), dtype=[("e", bool), ("t", float)])
    times = np.unique(time[died & (time < time.max())])
    times = times if len(times) <= 100 else times[np.arange(100) * (len(times) - 1) // 99]
    survive = norm.sf((np.log(times)[None] - score[:, None]) / 0.9)
    expected = integrated_brier_score(y, y, survive, times)
    assert df.select(tg.score(model, "weeks", event="died", metric="brier")).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_held_out_rows_are_scored_alike(df: pl.DataFrame, loss: str) -> None:
    marked = df.with_columns(out=pl.int_range(pl.len()) % 3 == 0)
    out = marked.filter("out")
    for metric in ("concordance", "brier", f"{loss}_nloglik"):
        model = marked.taiga.fit_gbdt("weeks", FEATURES, event="died", eval="out", loss=loss, metric=metric, rounds=20)
        value = out.select(tg.score(model, "weeks", event="died", metric=metric)).item()
        assert model.history[metric].to_list()[-1] == pytest.approx(value, rel=1e-5)


def test_ways_to_say_the_same_give_the_same_bytes(df: pl.DataFrame) -> None:
    inf = pl.lit(np.inf)
    says = df.with_columns(number=pl.col("died").cast(pl.Int8), hi=pl.when("died").then("weeks").otherwise(inf))
    for loss in LOSSES:
        model = says.select(tg.fit_gbdt("weeks", FEATURES, event="died", loss=loss, rounds=4)).item()
        for call in (
            {"event": "number"},
            {"upper": "hi"},
            {"lower": "weeks", "upper": "hi"},
            {"event": pl.col("number") == 1},
        ):
            assert says.select(tg.fit_gbdt("weeks", FEATURES, loss=loss, rounds=4, **call)).item() == model


@pytest.mark.parametrize("loss", LOSSES)
def test_chunks_threads_and_streams_change_no_byte(df: pl.DataFrame, loss: str) -> None:
    fit = tg.fit_gbdt("weeks", FEATURES, event="died", weight="w", group="clinic", loss=loss, rounds=5)
    model = df.select(fit).item()
    parts = pl.concat([df.head(100), df.slice(100, 7), df.slice(107)], rechunk=False)
    assert parts.select(fit).item() == model
    assert df.lazy().select(fit).collect(engine="streaming").item() == model
    one = tg.fit_gbdt("weeks", FEATURES, event="died", weight="w", group="clinic", loss=loss, rounds=5, n_threads=1)
    assert df.select(one).item() == model


@pytest.mark.parametrize("loss", LOSSES)
def test_a_model_for_each_clinic(df: pl.DataFrame, loss: str) -> None:
    fit = tg.fit_gbdt("weeks", FEATURES, event="died", loss=loss, rounds=3)
    grouped = df.group_by("clinic", maintain_order=True).agg(fit)
    for clinic, model in grouped.iter_rows():
        assert df.filter(clinic=clinic).select(fit).item() == model
    model = df.select(fit).item()
    scores = df.group_by("clinic").agg(tg.score(model, "weeks", event="died", metric="concordance"))
    assert scores["score"].is_between(0.5, 1).all()


def test_predictions_are_ratios_and_times(df: pl.DataFrame) -> None:
    for loss in LOSSES:
        model = df.taiga.fit_gbdt("weeks", FEATURES, event="died", loss=loss, rounds=30)
        predicted = df.select(tg.predict(model)).to_series().to_numpy()
        assert np.allclose(predicted, np.exp(raw(df, model)))
        assert model.loss == loss
        again = tg.Model.from_json(model.to_json())
        assert again == model
    assert model.params["aft_distribution"] == "normal"
    assert 0.3 < np.median(predicted / df["weeks"].to_numpy()) < 5


def test_strata_are_lifelines(df: pl.DataFrame) -> None:
    """The likelihood under strata is the sum of theirs."""
    frame = df.head(150).rename({"weeks": "time"}).with_columns(score=pl.col("a"))
    marked = pl.concat([frame.with_columns(out=False), frame.with_columns(out=True)])
    model = marked.taiga.fit_gbdt("time", "b", event="died", group="clinic", eval="out", loss="cox", rounds=3)
    scored = frame.with_columns(score=pl.Series(raw(frame, model)), w=1.0)
    likelihood = sum(efron(part)[2] for part in scored.partition_by("clinic"))
    assert model.history["cox_nloglik"].to_list()[-1] == pytest.approx(-likelihood / frame["died"].sum(), abs=1e-6)


def test_what_can_not_be_is_told(df: pl.DataFrame) -> None:
    def fault(frame: pl.DataFrame, kind: type[Exception] = ComputeError, **call: Any) -> str:
        with pytest.raises(kind) as info:
            frame.select(tg.fit_gbdt("weeks", FEATURES, rounds=2, **{"loss": "cox", **call}))
        return str(info.value)

    for loss in LOSSES:
        assert "`event`" in fault(df, loss=loss)
        assert "pl.lit(True)" in fault(df, loss=loss)
    assert "neither the loss nor the metric reads" in fault(df, loss="rmse", event="died")
    text = df.with_columns(died=pl.col("died").cast(pl.String))
    assert "`died`" in fault(text, event="died")
    assert "Boolean" in fault(text, event="died")
    assert "`died`" in fault(df.with_columns(died=datetime.date(2026, 1, 1)), event="died")
    two = df.with_columns(died=pl.col("died") + 1)
    assert "column `died`: it is 2 in row" in fault(two, event="died")
    nulls = df.with_columns(died=pl.when(pl.int_range(pl.len()) == 7).then(None).otherwise("died"))
    assert "column `died`: it is null or NaN in row 7" in fault(nulls, event="died")
    negative = df.with_columns(weeks=pl.when(pl.int_range(pl.len()) == 5).then(-1.0).otherwise("weeks"))
    assert "`weeks`" in fault(negative, event="died")
    assert "row 5" in fault(negative, event="died")
    above = df.with_columns(lo=pl.col("weeks") + pl.when(pl.int_range(pl.len()) == 3).then(9).otherwise(0))
    message = fault(above.with_columns(hi="weeks"), loss="aft", lower="lo", upper="hi")
    assert "column `lo`: it is" in message
    assert "in row 3, above `hi`" in message
    gap = above.with_columns(hi=pl.when(pl.int_range(pl.len()) == 2).then(float("nan")).otherwise("weeks"))
    assert "column `hi`: it is null or NaN in row 2" in fault(gap, loss="aft", upper="hi")
    assert "`event`" in fault(df, event="died", upper="weeks")
    between = df.with_columns(hi=pl.col("weeks") + 1)
    assert 'loss="aft"' in fault(between, upper="hi")
    assert "no event happened" in fault(df, event=pl.lit(False))
    assert "can't be measured" in fault(df, ValueError, event="died", eval=pl.col("clinic") == 0, metric="rmse")
    assert "aft_scale" in fault(df, ValueError, loss="aft", event="died", aft_scale=-1)
    assert '"extreme"' in fault(df, ValueError, loss="aft", event="died", aft_distribution="weibull")
    assert '"cox"' in fault(df, ValueError, loss="survival:cox")
    assert "one column" in fault(df, event=["died", "w"])
    model = df.taiga.fit_gbdt("weeks", FEATURES, event="died", loss="cox", rounds=2)
    with pytest.raises(ComputeError, match="`event`"):
        df.select(tg.score(model, "weeks"))
    with pytest.raises(ComputeError, match="died"):
        df.select(tg.score(model, "weeks", event=pl.col("died").cast(pl.String)))
    with pytest.raises(ValueError, match=r"tg\.fit_gbdt"):
        GbdtRegressor(loss="cox").fit(df.select(FEATURES), df["weeks"])
    constant = df.select(tg.fit_gbdt("weeks", FEATURES, event=pl.lit(False), loss="cox", on_error="constant")).item()
    assert (df.select(tg.predict(constant)).to_series() == 1.0).all()


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(-3, 3)), min_size=2, max_size=80),
    loss=st.sampled_from(LOSSES),
)
def test_few_rows_of_any_kind(rows: list[tuple[int, bool, int]], loss: str) -> None:
    """A model, or an error of the rows; scores are numbers."""
    df = pl.DataFrame(rows, schema=["time", "died", "x"], orient="row").with_columns(pl.col("time") + 1)
    model = df.select(tg.fit_gbdt("time", "x", event="died", loss=loss, rounds=3, on_error="null")).item()
    if model is None:
        assert loss == "cox"
        assert not df["died"].any()
    else:
        assert np.isfinite(raw(df, model)).all()
        value = df.select(tg.score(model, "time", event="died", metric="concordance", on_error="null")).item()
        assert value is None or 0 <= value <= 1

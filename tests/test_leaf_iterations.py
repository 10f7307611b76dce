"""`leaf_iterations`: several Newton steps of a leaf, against CatBoost and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SIGMOID = {"logloss": "Logloss", "cross_entropy": "CrossEntropy"}


def table(loss: str, rows: int = 600, seed: int = 1) -> pl.DataFrame:
    """One number of eight levels, and a target that it says something of."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 8, rows)
    f = np.sin(x) * 1.5 - 0.3
    y = {
        "logloss": lambda: rng.random(rows) < 1 / (1 + np.exp(-f)),
        "cross_entropy": lambda: 1 / (1 + np.exp(-f - rng.normal(size=rows))),
        "poisson": lambda: rng.poisson(np.exp(f)).astype(float),
    }[loss]()
    return pl.DataFrame({"x": x.astype(float), "y": y})


@pytest.mark.parametrize(
    ("loss", "steps"),
    [(loss, steps) for loss in SIGMOID for steps in (1, 2, 5, 10)] + [("poisson", 12), ("poisson", 30)],
)
@pytest.mark.parametrize("rounds", [1, 3])
def test_leaves_have_catboosts_values(loss: str, steps: int, rounds: int) -> None:
    """Symmetric trees on one numeric column (of two values for several rounds, where nothing is left to choose): the
    same leaves, of the same values. For counts the hessians here are others, and what many steps come to is the same.
    """
    catboost = pytest.importorskip("catboost")
    df = table(loss)
    if rounds > 1:
        df = df.with_columns(x=(pl.col("x") > 2).cast(pl.Float64))
    peer = catboost.CatBoost(
        {
            "loss_function": {"poisson": "Poisson", **SIGMOID}[loss], "iterations": rounds, "depth": 3,
            "learning_rate": 0.5, "l2_leaf_reg": 2.0, "leaf_estimation_method": "Newton",
            "leaf_estimation_iterations": steps, "leaf_estimation_backtracking": "No", "boosting_type": "Plain",
            "bootstrap_type": "No", "random_strength": 0, "boost_from_average": False, "score_function": "L2",
            "verbose": 0, "thread_count": 1, "allow_writing_files": False, "border_count": 254,
        }
    )  # fmt: skip
    x = df.select("x").to_numpy()
    theirs = peer.fit(x, df["y"].to_numpy().astype(float)).predict(x, prediction_type="RawFormulaVal")
    model = df.with_columns(zero=0.0).taiga.fit_gbdt(
        "y", "x", baseline="zero", loss=loss, rounds=rounds, depth=3, learning_rate=0.5, l2=2.0, leaf_iterations=steps
    )
    ours = df.select(tg.predict(model, output="raw")).to_series().to_numpy()
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    steps=st.integers(1, 8),
    l2=st.sampled_from([0.5, 3.0, 30.0]),
    rate=st.sampled_from([0.1, 1.0]),
    weighted=st.booleans(),
)
def test_a_leaf_is_newtons_method(seed: int, steps: int, l2: float, rate: float, weighted: bool) -> None:
    """One leaf of a log loss, by hand."""
    rng = np.random.default_rng(seed)
    y = rng.random(60) < 0.2 + 0.6 * rng.random()
    y[:2] = [True, False]
    w = rng.integers(1, 5, 60).astype(float) if weighted else np.ones(60)
    df = pl.DataFrame({"x": np.zeros(60), "y": y, "w": w, "zero": np.zeros(60)})
    model = df.taiga.fit_gbdt(
        "y", "x", weight="w", baseline="zero", rounds=1, l2=l2, learning_rate=rate, leaf_iterations=steps
    )
    value = 0.0
    for _ in range(steps):
        p = 1 / (1 + np.exp(-value))
        value += (w * (y - p)).sum() / (w.sum() * p * (1 - p) + l2)
    got = df.select(tg.predict(model, output="raw"))[0, 0]
    assert got == pytest.approx(rate * value, rel=1e-5, abs=1e-6)


def test_the_parameter_comes_along() -> None:
    """What a model, its JSON and an estimator tell of it; one step is no parameter at all."""
    df = table("logloss")
    model = df.taiga.fit_gbdt("y", "x", rounds=3, leaf_iterations=4)
    assert model.params["leaf_iterations"] == 4
    assert tg.Model(model.to_bytes()) == model == tg.Model.from_json(model.to_json())
    one: dict[str, Any] = {"rounds": 3}
    plain = df.taiga.fit_gbdt("y", "x", **one)
    assert df.taiga.fit_gbdt("y", "x", leaf_iterations=1, **one).to_bytes() == plain.to_bytes()
    from polars_taiga.sklearn import GbdtClassifier

    est = GbdtClassifier(rounds=3, leaf_iterations=4).fit(df.select("x"), df["y"])
    assert np.array_equal(est.predict_proba(df.select("x"))[:, 1], df.select(tg.predict(model)).to_series().to_numpy())


def test_steps_that_overshoot_are_told() -> None:
    """A target far above the scores, where the second step of a leaf goes much too far; a limit of steps helps."""
    df = pl.DataFrame({"x": [0.0, 1.0] * 50, "y": [0.0] * 99 + [1e5], "zero": [0.0] * 100})
    counts = tg.loss(lambda y, f: f.exp() - y * f)
    fit: dict[str, Any] = {"loss": counts, "baseline": "zero", "rounds": 1, "l2": 0.0}
    df.taiga.fit_gbdt("y", "x", **fit)
    with pytest.raises(pl.exceptions.ComputeError, match=r"`leaf_iterations` comes to .*`max_delta_step`"):
        df.taiga.fit_gbdt("y", "x", leaf_iterations=2, **fit)
    assert df.select(tg.fit_gbdt("y", "x", on_error="null", leaf_iterations=2, **fit)).item() is None
    df.taiga.fit_gbdt("y", "x", leaf_iterations=2, max_delta_step=0.7, **fit)

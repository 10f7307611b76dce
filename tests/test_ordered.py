"""`boosting="ordered"`: scores that rows had no part in, against NumPy, CatBoost and itself."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import polars_taiga as tg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars_taiga.sklearn import GbdtClassifier, GbdtRegressor

Array = npt.NDArray[np.float64]
FEATURES = ("a", "b", "c")


def table(rows: int = 400, seed: int = 0) -> pl.DataFrame:
    """Numbers, a column of categories, a target that they say something of, weights, marks and a time."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    return pl.DataFrame(
        {
            **{name: x[:, i] for i, name in enumerate(FEATURES)},
            "city": rng.integers(0, 30, rows).astype(str),
            "y": x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=rows),
            "w": 0.5 + rng.random(rows),
            "held": rng.random(rows) < 0.2,
            "time": rng.permutation(rows),
        }
    ).with_columns(yes=pl.col("y") > 0.3, kind=pl.col("y").clip(-1, 1).round().cast(pl.Int8))


def trees_of(model: tg.Model) -> list[dict[str, Any]]:
    """The model's trees, as its JSON has them."""
    trees: list[dict[str, Any]] = json.loads(model.to_json())["trees"]
    return trees


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), rows=st.integers(2, 60), rounds=st.integers(1, 6), permutations=st.integers(1, 4))
def test_leaves_have_the_values_of_all_rows(seed: int, rows: int, rounds: int, permutations: int) -> None:
    """Where there is one thing to ask, leaves come to what those of a plain fit do: by NumPy."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 2, rows).astype(float), rng.normal(size=rows)
    (x[0], y[0], x[1], y[1]) = (0.0, -9.0, 1.0, 9.0)
    df = pl.DataFrame({"x": x, "y": y, "zero": np.zeros(rows)})
    model = df.taiga.fit_gbdt(
        "y", "x", baseline="zero", loss="rmse", rounds=rounds, depth=1, learning_rate=0.5, l2=2.0, seed=seed,
        boosting="ordered", permutations=permutations,
    )  # fmt: skip
    scores = np.zeros(rows)
    for tree in trees_of(model):
        # A tree that gains nothing by the split has one leaf.
        sides = [x == 0, x == 1] if tree["splits"] else [x >= 0]
        for side in sides:
            scores[side] += 0.5 * (y[side] - scores[side]).sum() / (side.sum() + 2.0)
    ours = df.select(tg.predict(model, output="raw")).to_series().to_numpy()
    np.testing.assert_allclose(ours, scores, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_bytes_are_the_same_whatever_threads_and_chunks(data: st.DataObject) -> None:
    """Of any such fit: losses, several classes, samples of rows, categories, orders, held-out rows."""
    draw = data.draw
    df = table(draw(st.sampled_from([1, 2, 30, 700])), draw(st.integers(0, 3)))
    target = draw(st.sampled_from(["y", "yes", "kind"]))
    params: dict[str, Any] = {
        "rounds": 4,
        "boosting": "ordered",
        "policy": draw(st.sampled_from(["symmetric", "depthwise", "leafwise"])),
        "permutations": draw(st.integers(1, 4)),
        "row_sample": draw(st.sampled_from(["none", "bernoulli", "goss", "mvs", "bayesian"])),
        "weight": draw(st.sampled_from([None, "w"])),
        "eval": draw(st.sampled_from([None, "held"])),
        "path_smooth": draw(st.sampled_from([None, 2.0])),
        "loss": draw(st.sampled_from(["auto", "log_cosh", "mae"])) if target == "y" else "auto",
        "seed": draw(st.integers(0, 3)),
        "on_error": "null",
    }
    if params["loss"] != "mae":
        params["leaf_iterations"] = draw(st.sampled_from([None, 3]))
    if draw(st.booleans()):
        params |= {"order_by": "time", "permutations": 3}
    features = draw(st.lists(st.sampled_from([*FEATURES, "city"]), min_size=1, max_size=4, unique=True))
    expr = tg.fit_gbdt(target, *features, n_threads=1, **params)
    value = df.select(expr).item()
    cut = df.height // 3
    chunked = pl.concat([df[:cut], df[cut:]], rechunk=False)
    assert chunked.select(tg.fit_gbdt(target, *features, n_threads=3, **params)).item() == value
    if value is not None:
        assert tg.Model(value).to_bytes() == value


def test_the_parameter_comes_along() -> None:
    """What a model, its JSON, an estimator and folds tell of it; other libraries' names for it."""
    df = table()
    fit: dict[str, Any] = {"rounds": 8, "boosting": "ordered"}
    model = df.taiga.fit_gbdt("y", *FEATURES, **fit)
    assert model.params["boosting"] == "ordered"
    assert tg.Model(model.to_bytes()) == model == tg.Model.from_json(model.to_json())
    plain = df.taiga.fit_gbdt("y", *FEATURES, rounds=8)
    assert plain.to_bytes() != model.to_bytes()
    assert df.taiga.fit_gbdt("y", *FEATURES, rounds=8, boosting="gbdt").to_bytes() == plain.to_bytes()
    est = GbdtRegressor(**fit).fit(df.select(FEATURES), df["y"])
    assert np.array_equal(est.predict(df.select(FEATURES)), df.select(tg.predict(model)).to_series().to_numpy())
    assert GbdtClassifier(**fit).fit(df.select(FEATURES), df["kind"]).predict_proba(df.select(FEATURES)).shape[1] == 3
    assert df.select(tg.cross_val_predict("y", *FEATURES, folds=3, **fit)).to_series().null_count() == 0
    told = df.taiga.fit_gbdt("y", *FEATURES, boosting="ordered")
    assert told.rounds > 1
    by_group = df.group_by(pl.col("held"), maintain_order=True).agg(tg.fit_gbdt("y", *FEATURES, **fit).alias("m"))
    for held, value in by_group.iter_rows():
        assert df.filter(pl.col("held") == held).select(tg.fit_gbdt("y", *FEATURES, **fit)).item() == value


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"loss": "cox"}, '`boosting`: "ordered".*loss="cox"'),
        ({"loss": "lambdarank"}, '`boosting`: "ordered".*loss="lambdarank"'),
        ({"monotone": {"a": 1}}, '`boosting`: "ordered".*`monotone`'),
        ({"leaf": "linear"}, '`leaf`.*boosting="ordered"'),
        ({"drop_rate": 0.1}, '`drop_rate`.*boosting="dart"'),
        ({"device": "cuda"}, "device|cuda|CUDA"),
    ],
)
def test_what_does_not_go_with_it_is_told(params: dict[str, Any], match: str) -> None:
    """Both parameters by name."""
    with pytest.raises((ValueError, TypeError, RuntimeError, pl.exceptions.ComputeError), match=match):
        table(50).taiga.fit_gbdt("y", *FEATURES, rounds=2, boosting="ordered", **params)


def test_what_goes_on_is_told() -> None:
    """A model, and a snapshot, have no scores of bodies."""
    df = table(60)
    model = df.taiga.fit_gbdt("y", *FEATURES, rounds=2)
    with pytest.raises(pl.exceptions.ComputeError, match='`init_model`: boosting="ordered"'):
        df.taiga.fit_gbdt("y", *FEATURES, rounds=2, boosting="ordered", init_model=model)


def gains(x: Array, y: Array, order: npt.NDArray[np.int64], rounds: int) -> list[float]:
    """What trees of one split, `x > 0`, gain by bodies and tails: `learning_rate` 0.5, `l2` 1."""
    rows, sides = len(y), [x == 0, x == 1]
    bodies = [(end, np.zeros(rows)) for end in (2**k for k in range(20)) if end < rows]
    found = []
    for _ in range(rounds):
        gain = 0.0
        for end, scores in bodies[-4:]:
            body, tail = (np.isin(np.arange(rows), part) for part in (order[:end], order[end : 2 * end]))
            for part, sign in [(sides[0], 1), (sides[1], 1), (x >= 0, -1)]:
                value = (y - scores)[part & body].sum() / ((part & body).sum() + 1.0)
                gain += sign * (2 * value * (y - scores)[part & tail].sum() - value**2 * (part & tail).sum())
        found.append(gain)
        for end, scores in bodies:
            own = np.isin(np.arange(rows), order[:end])
            for side in sides:
                scores[side] += 0.5 * (y - scores)[side & own].sum() / ((side & own).sum() + 1.0)
    return found


def test_gains_are_those_of_bodies_and_tails() -> None:
    """The gain that a model tells of each split, round after round, in the order of a column: by NumPy."""
    rng = np.random.default_rng(4)
    x = (rng.random(200) < 0.5).astype(float)
    y = 20.0 * x - 10.0 + rng.normal(size=200)
    time = rng.permutation(200)
    df = pl.DataFrame({"x": x, "y": y, "time": time, "zero": np.zeros(200)})
    fit: dict[str, Any] = {"baseline": "zero", "loss": "rmse", "depth": 1, "learning_rate": 0.5, "l2": 1.0}
    model = df.taiga.fit_gbdt("y", "x", rounds=4, boosting="ordered", order_by="time", **fit)
    told = [tree["splits"][0]["gain"] for tree in trees_of(model)]
    np.testing.assert_allclose(told, gains(x, y, np.argsort(time), 4), rtol=2e-3)

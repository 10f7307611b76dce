"""Losses of one's own: built-in ones written as symbols, other libraries' documented custom objectives, what the
model records, and what is said of functions that can't be traced.
"""

from __future__ import annotations

import copy
import json
import math
import pickle

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def table(n: int = 4000, seed: int = 0) -> pl.DataFrame:
    r = np.random.default_rng(seed)
    x = r.normal(size=(n, 5))
    s = np.sin(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2]
    return pl.DataFrame({f"x{i}": x[:, i] for i in range(5)}).with_columns(
        number=pl.Series(3 * s + r.normal(size=n)),
        positive=pl.Series(np.exp(s + 0.5 * r.normal(size=n))),
        count=pl.Series(r.poisson(np.exp(0.5 * s))),
        share=pl.Series(1 / (1 + np.exp(-s - r.normal(size=n)))),
        two=pl.Series((s + r.normal(size=n) > 0).astype(np.int8)),
        exposure=pl.Series(r.uniform(0.2, 3.0, size=n)),
        weight=pl.Series(r.uniform(0.1, 2.0, size=n)),
        held_out=pl.Series(r.uniform(size=n) < 0.25),
        text=pl.Series(r.choice(["a", "b", "c", "d", "e"], size=n)),
    )


DF = table()
X = [f"x{i}" for i in range(5)]


def predictions(target: str, df: pl.DataFrame = DF, **params: object) -> np.ndarray:
    model = df.select(tg.fit_gbdt(target, *X, rounds=25, **params)).item()  # type: ignore[arg-type]
    return df.select(tg.predict(model)).to_series().to_numpy()


def huber(y, f):
    r = y - f
    return tg.when(r.abs() <= 1.5).then(r**2 / 2).otherwise(1.5 * (r.abs() - 0.75))


def cross_entropy(y, f):
    p = 1 / (1 + np.exp(-f))
    return -y * np.log(p) - (1 - y) * np.log(1 - p)


def tweedie(power: float):
    return lambda y, f: ((2 - power) * f).exp() / (2 - power) - y * ((1 - power) * f).exp() / (1 - power)


def touching(y, f):
    """The curvature of the parabola that touches the logarithm of the hyperbolic cosine from above."""
    r = y - f
    return tg.when(r.abs() < 1e-3).then(1 - r * r / 3).otherwise(r.tanh() / r)


def focal_parts(y, f):
    """The focal loss at gamma 2, and the larger of its second derivative and of what is never negative in it."""
    z = (2 * y - 1) * f
    p, q, cost = z.sigmoid(), (-z).sigmoid(), (-z).softplus()
    slope = q**2 * (q + 2 * p * cost)
    return q**2 * cost, np.maximum(q**2 * p * (5 * q - 2 * cost * (q - 2 * p)), slope * p)


BUILT_IN = [
    ("number", {"loss": "rmse"}, tg.loss(lambda y, f: 0.5 * (y - f) ** 2)),
    ("share", {"loss": "cross_entropy"}, tg.loss(lambda y, f: np.log1p(np.exp(f)) - y * f, link="logit")),
    ("share", {"loss": "cross_entropy"}, tg.loss(cross_entropy, link="logit")),
    ("two", {"loss": "logloss"}, tg.loss(lambda y, f: f.softplus() - y * f, link="logit")),
    ("number", {"loss": "huber", "huber_delta": 1.5}, tg.loss(huber, hessian=1)),
    (
        "count",
        {"loss": "poisson"},
        tg.loss(lambda y, f: f.exp() - y * f, hessian=lambda y, f: (f.exp() + y) / 2, link="log"),
    ),
    (
        "positive",
        {"loss": "gamma"},
        tg.loss(lambda y, f: f + y * (-f).exp(), hessian=lambda y, f: (1 + y / f.exp()) / 2, link="log"),
    ),
    ("positive", {"loss": "tweedie", "tweedie_power": 1.5}, tg.loss(tweedie(1.5), link="log")),
    (
        "count",
        {"loss": "tweedie", "tweedie_power": 1.2},
        tg.loss(tweedie(1.2), hessian="(y * exp(-0.2 * f) + exp(0.8 * f)) / 2", link="log"),
    ),
    ("number", {"loss": "rmse"}, tg.loss("r = y - f; r * r / 2")),
    (
        "number",
        {"loss": "expectile", "alpha": 0.8},
        tg.loss(lambda y, f: tg.when(f < y).then(0.8).otherwise(0.2) * (y - f) ** 2),
    ),
    ("number", {"loss": "log_cosh"}, tg.loss(lambda y, f: (2 * (y - f)).softplus() - (y - f), hessian=touching)),
    (
        "two",
        {"loss": "focal"},
        tg.loss(lambda y, f: focal_parts(y, f)[0], hessian=lambda y, f: focal_parts(y, f)[1], link="logit"),
    ),
]


@pytest.mark.parametrize("policy", ["symmetric", "depthwise", "leafwise"])
@pytest.mark.parametrize(("target", "built_in", "own"), BUILT_IN)
def test_ten_built_in_losses_written_as_symbols_predict_the_same(target, built_in, own, policy) -> None:
    a = predictions(target, policy=policy, weight="weight", **built_in)
    b = predictions(target, policy=policy, weight="weight", loss=own)
    assert np.max(np.abs(a - b) / (1 + np.abs(a))) < 1e-6


def test_half_a_squared_error_is_rmse() -> None:
    own = tg.loss(lambda y, f: (y - f) ** 2 / 2)
    a, b = (DF.select(tg.fit_gbdt("number", *X, rounds=10, loss=loss)).item() for loss in ("rmse", own))
    trees = [json.loads(tg.Model(m).to_json())["trees"] for m in (a, b)]
    assert trees[0] == trees[1]


@pytest.mark.parametrize("policy", ["symmetric", "depthwise", "leafwise"])
def test_bytes_are_the_same_over_threads_and_chunks(policy: str) -> None:
    own = tg.loss(lambda y, f: ((y - f) ** 2 + 1).sqrt() + 0.01 * f**2)
    chunks = pl.concat([DF[:1234], DF[1234:3000], DF[3000:]], rechunk=False)
    fits = [
        df.select(tg.fit_gbdt("number", *X, "text", rounds=8, loss=own, policy=policy, n_threads=threads)).item()
        for df in (DF, chunks)
        for threads in (1, 2, 3)
    ]
    assert len(set(fits)) == 1


def test_the_model_records_its_loss() -> None:
    own = tg.loss(lambda y, f: tg.when(y > f).then(2 * (y - f) ** 2).otherwise((y - f) ** 2))
    model = tg.Model(DF.select(tg.fit_gbdt("number", *X, rounds=4, loss=own)).item())
    text = "loss(lambda y, f: when(y > f).then(2 * (y - f) ** 2).otherwise((y - f) ** 2))"
    assert (repr(own), model.loss, model.params["loss"]) == (text, text, own)
    assert text in repr(model)
    assert "custom_loss" not in model.params
    again = tg.Model.from_json(model.to_json())
    assert again == model
    assert again.params["loss"] == own
    refitted = DF.select(tg.fit_gbdt("number", *X, **{k: v for k, v in model.params.items() if v is not None})).item()
    assert refitted == model.to_bytes()


def test_an_own_loss_is_data() -> None:
    own = tg.loss(lambda y, f, exposure: exposure * f.exp() - y * f, link="log", hessian=lambda y, f, exposure: f.exp())
    assert own.columns == ["exposure"]
    for other in (pickle.loads(pickle.dumps(own)), copy.copy(own), copy.deepcopy(own)):
        assert other == own
        assert hash(other) == hash(own)
        assert other.columns == own.columns
    assert own != tg.loss("exp(f) - y * f", link="log")
    assert repr(own) == (
        'loss(lambda y, f, exposure: exposure * exp(f) - y * f, hessian=lambda y, f, exposure: exp(f), link="log")'
    )


def test_the_held_out_curve_is_the_mean_of_the_loss() -> None:
    own = tg.loss(lambda y, f: (y - f).abs() - (1 + (y - f).abs()).log() + 1e-3 * (y - f) ** 2)
    fit = tg.fit_gbdt("number", *X, rounds=30, loss=own, eval="held_out", early_stopping=5, weight="weight")
    model = tg.Model(DF.select(fit).item())
    rest = DF.filter("held_out")
    f = rest.select(tg.predict(model)).to_series().to_numpy()
    y, w = rest["number"].to_numpy(), rest["weight"].to_numpy()
    r = np.abs(y - f)
    expected = np.average(r - np.log1p(r) + 1e-3 * r**2, weights=w)
    assert model.history is not None
    assert rest.select(tg.score(model, "number", weight="weight")).item() == pytest.approx(expected, rel=1e-8)
    assert min(model.history["custom"].to_list()) == pytest.approx(expected, rel=1e-6)
    assert rest.select(tg.score(model, "number", metric="mae")).item() == pytest.approx(r.mean(), rel=1e-12)


def test_links_make_predictions() -> None:
    for link, back in [("identity", lambda f: f), ("log", np.exp), ("logit", lambda f: 1 / (1 + np.exp(-f)))]:
        own = tg.loss(lambda y, f: (y - f) ** 2, link=link)
        model = DF.select(tg.fit_gbdt("share", *X, rounds=3, loss=own)).item()
        raw, p = (DF.select(tg.predict(model, output=output)).to_series().to_numpy() for output in ("raw", "auto"))
        np.testing.assert_allclose(back(raw), p, rtol=1e-12)


def test_columns_come_in_by_name() -> None:
    """Poisson counts over exposures: the same as their rates with the exposures as weights."""
    loss = tg.loss(lambda y, f, exposure: exposure * f.exp() - y * f, link="log")
    odd = tg.loss(lambda y, f, e: e * f.exp() - y * f, link="log", columns={"e": "exposure (years)"})
    rate = tg.loss(lambda y, f: f.exp() - y * f, link="log")
    df = DF.with_columns(pl.col("exposure").alias("exposure (years)"), rate=pl.col("count") / pl.col("exposure"))
    a = predictions("count", df, loss=loss)
    b = predictions("rate", df, loss=rate, weight="exposure")
    np.testing.assert_array_equal(predictions("count", df, loss=odd), a)
    assert np.max(np.abs(np.log(a) - np.log(b))) < 0.05
    assert np.corrcoef(a, b)[0, 1] > 0.9999
    with pytest.raises(pl.exceptions.PolarsError, match="exposure"):
        predictions("count", df.drop("exposure"), loss=loss)
    missing = df.with_columns(exposure=pl.when(pl.col("x0") > -9).then(pl.lit(None)).otherwise(1.0))
    with pytest.raises(pl.exceptions.PolarsError, match="`exposure`"):
        predictions("count", missing, loss=loss)


def test_own_losses_in_groups_and_estimators() -> None:
    from polars_taiga.sklearn import GbdtRegressor
    from sklearn.base import clone

    own = tg.loss(lambda y, f: (y - f).tanh() ** 2 + 0.1 * (y - f) ** 2)
    models = DF.group_by("text").agg(tg.fit_gbdt("number", *X, rounds=3, loss=own))
    assert models.height == 5
    estimator = clone(GbdtRegressor(loss=own, rounds=5))
    assert estimator.get_params()["loss"] == own
    fitted = estimator.fit(DF.select(X), DF["number"])
    np.testing.assert_allclose(fitted.predict(DF.select(X)), predictions_of(DF, own), rtol=1e-12)


def predictions_of(df: pl.DataFrame, own: tg.CustomLoss) -> np.ndarray:
    model = df.select(tg.fit_gbdt("number", *X, rounds=5, loss=own)).item()
    return df.select(tg.predict(model)).to_series().to_numpy()


# Other libraries' documented examples.


def test_xgboosts_squared_log_error() -> None:
    """XGBoost's tutorial "Custom Objective and Evaluation Metric": gradient and hessian of SLE as it writes them, and
    the error that it reaches.
    """
    xgb = pytest.importorskip("xgboost")
    own = tg.loss(lambda y, f: 0.5 * (f.log1p() - y.log1p()) ** 2)
    r = np.random.default_rng(1)
    y, f = r.uniform(0, 5, 500), r.uniform(-0.9, 5, 500)
    gradient = (np.log1p(f) - np.log1p(y)) / (f + 1)
    hessian = (-np.log1p(f) + np.log1p(y) + 1) / (f + 1) ** 2
    found = own.derivatives(y, f)
    np.testing.assert_allclose(found["gradient"], gradient, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(found["hessian"], hessian, rtol=1e-10, atol=1e-13)

    def squared_log(predt, dtrain):
        y = dtrain.get_label()
        predt[predt < -1] = -1 + 1e-6
        return (np.log1p(predt) - np.log1p(y)) / (predt + 1), np.maximum(
            (-np.log1p(predt) + np.log1p(y) + 1) / np.power(predt + 1, 2), 1e-6
        )

    y, x = DF["positive"].to_numpy(), DF.select(X).to_numpy()
    data = xgb.DMatrix(x, y, base_margin=np.full(len(y), 1.0))
    booster = xgb.train({"max_depth": 4, "eta": 0.1, "tree_method": "hist"}, data, num_boost_round=60, obj=squared_log)
    theirs = booster.predict(data)
    # Hessians of 1e-6 and less make large steps: so their floor.
    floored = tg.loss(own.value, hessian="max((log1p(y) - log1p(f) + 1) / (f + 1) ** 2, 1e-6)")
    fit = tg.fit_gbdt("positive", *X, rounds=60, depth=4, policy="depthwise", loss=floored)
    model = DF.select(fit).item()
    ours = DF.select(tg.predict(model)).to_series().to_numpy()

    def error(p):
        return np.mean((np.log1p(np.maximum(p, -1 + 1e-6)) - np.log1p(y)) ** 2)

    assert error(ours) < 1.05 * error(theirs)


def test_lightgbms_focal_loss() -> None:
    """The focal loss (Lin et al. 2017) as it is written for LightGBM's `fobj`, by differences there, exactly here."""
    lgb = pytest.importorskip("lightgbm")
    alpha, gamma = 0.25, 2.0

    def focal(y, f):
        p = f.sigmoid()
        a = y * alpha + (1 - y) * (1 - alpha)
        q = y * p + (1 - y) * (1 - p)
        return -a * (1 - q) ** gamma * (y * p.log() + (1 - y) * (1 - p).log())

    def plain(y, f):
        p = 1 / (1 + np.exp(-f))
        q = np.where(y == 1, p, 1 - p)
        return -np.where(y == 1, alpha, 1 - alpha) * (1 - q) ** gamma * np.log(q)

    own = tg.loss(focal, link="logit")
    r = np.random.default_rng(1)
    y, f = (r.uniform(size=300) < 0.5).astype(float), r.normal(size=300) * 2
    found, d = own.derivatives(y, f), 1e-5
    np.testing.assert_allclose(found["value"], plain(y, f), rtol=1e-9)
    np.testing.assert_allclose(found["gradient"], (plain(y, f + d) - plain(y, f - d)) / (2 * d), rtol=1e-5, atol=1e-8)
    d = 1e-4
    second = (plain(y, f + d) - 2 * plain(y, f) + plain(y, f - d)) / d**2
    np.testing.assert_allclose(found["hessian"], second, rtol=1e-4, atol=1e-6)

    y, x = DF["two"].to_numpy().astype(float), DF.select(X).to_numpy()

    def objective(preds, data):
        of = own.derivatives(data.get_label(), preds)
        return of["gradient"].to_numpy(), np.maximum(of["hessian"].to_numpy(), 1e-16)

    params = {"objective": objective, "learning_rate": 0.1, "num_leaves": 31, "verbose": -1, "lambda_l2": 1.0}
    booster = lgb.train(params, lgb.Dataset(x, y), num_boost_round=30)
    theirs = np.mean(plain(y, booster.predict(x)))
    model = DF.select(tg.fit_gbdt("two", *X, rounds=30, policy="leafwise", min_data_in_leaf=20, loss=own)).item()
    ours = DF.select(tg.score(model, "two")).item()
    assert ours < 1.05 * theirs


# What is said of functions that can't be traced or fitted.


@pytest.mark.parametrize(
    ("function", "error", "says"),
    [
        (lambda y, f: (y - f) ** 2 if y > f else (f - y) ** 2, TypeError, r"tg\.when\(y > f\)\.then\(a\)"),
        (lambda y, f: max(y - f, 0) ** 2, TypeError, r"a\.maximum\(b\)"),
        (lambda y, f: (y - f) ** 2 * (0 < f < 1), TypeError, "chains"),
        (lambda y, f: math.exp(f) - y * f, TypeError, r"np\.exp\(x\)"),
        (lambda y, f: np.gamma(f), AttributeError, "gamma"),
        (lambda y, f: np.arctan(f) + y, TypeError, r"np\.arctan can't be part of a loss"),
        (lambda y, f: np.sum(f), TypeError, "np.sum can't be part of a loss"),
        (lambda y, f: f.mean(), AttributeError, "has no `mean`"),
        (lambda y, f: f[0], TypeError, "one row's number"),
        (lambda y, f: sum(f), TypeError, "one row's number"),
        (lambda y, f: (y - f) ** unknown_name, NameError, "unknown_name"),  # noqa: F821
        (lambda y, f: "text", TypeError, "of type str can't be part of a loss"),
        (lambda y, f: (f - pl.col("y")) ** 2, TypeError, "further parameter"),
        (lambda y, f: None, TypeError, "NoneType"),
        (lambda y, f: f * math.inf, ValueError, "finite"),
        (lambda y, f: tg.when(y > f).then(f), TypeError, "otherwise"),
        (lambda y, f: tg.when(y).then(f).otherwise(y), ValueError, "needs conditions"),
        (lambda y, f: 3.0, ValueError, "is a constant"),
        (lambda y, f: y**2, ValueError, "does not depend on the raw score"),
        (lambda y, f: abs(y - f), ValueError, "has no curvature.*hessian=1"),
        (lambda y, f: -((y - f) ** 2), ValueError, "nowhere positive"),
        (lambda y, f: y > f, ValueError, "it is a condition"),
        (lambda y, f: f**y, ValueError, "an exponent is to be a number"),
        (lambda f: f**2, TypeError, "lambda y, f"),
        (lambda *a: a[0], TypeError, "lambda y, f"),
        ("exp(f) - q * f", ValueError, "`q` is no name here"),
        (3, TypeError, "neither a function nor a formula"),
    ],
)
def test_what_is_wrong_with_a_function_is_said(function, error, says) -> None:
    with pytest.raises(error, match=says):
        tg.loss(function)


def test_what_is_wrong_with_a_call_is_said() -> None:
    with pytest.raises(ValueError, match="link='sqrt' is not one of"):
        tg.loss(lambda y, f: (y - f) ** 2, link="sqrt")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"tg\.loss"):
        tg.fit_gbdt("y", "x", loss="custom")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`class_weight`"):
        tg.fit_gbdt("y", "x", loss=BUILT_IN[0][2], class_weight="balanced")
    with pytest.raises(ValueError, match="mean of a loss of your own"):
        tg.fit_gbdt("y", "x", loss="rmse", metric="custom", eval="held_out")
    with pytest.raises(TypeError, match=r"pl\.when"):
        tg.when(pl.col("x") > 0)  # type: ignore[arg-type]


def test_rows_without_derivatives_are_named() -> None:
    own = tg.loss(lambda y, f: (y.log() - f) ** 2, link="log")
    df = DF.with_columns(number=pl.when(pl.int_range(pl.len()) == 77).then(-2.5).otherwise(pl.col("positive")))
    with pytest.raises(
        pl.exceptions.PolarsError, match=r"infinite or no number in row 77, at y = -2.5 and the raw score f"
    ):
        predictions("number", df, loss=own)
    with pytest.raises(pl.exceptions.PolarsError, match="1e30"):
        predictions("number", df.with_columns(number=pl.lit(1e31)), loss=own)


def test_an_absolute_error_with_a_hessian_finds_the_median() -> None:
    own = tg.loss(lambda y, f: abs(y - f), hessian=1)
    model = DF.select(tg.fit_gbdt("number", *X, rounds=200, loss=own)).item()
    mae = DF.select(tg.score(model, "number", metric="mae")).item()
    best = DF.select(tg.fit_gbdt("number", *X, rounds=200, loss="mae")).item()
    assert mae < 1.1 * DF.select(tg.score(best, "number")).item()


def test_formulas_grow_by_their_parts_alone() -> None:
    def deep(y, f):
        x = y - f
        for _ in range(6):
            x = (x * x + x).tanh()
        return x**2 + 0.1 * f**2

    own = tg.loss(deep)
    assert len(own.value) < 1000
    r = np.random.default_rng(3)
    y, f = r.normal(size=50), r.normal(size=50)
    x = y - f
    for _ in range(6):
        x = np.tanh(x * x + x)
    np.testing.assert_allclose(own.derivatives(y, f)["value"], x**2 + 0.1 * f**2, rtol=1e-10)


# Random functions: the symbols' text against the function on numbers.

LEAVES = st.sampled_from(["y", "f", "c"]) | st.integers(-4, 4).map(float) | st.sampled_from([0.5, -0.25, 1e-3])


def grown(inner):
    return st.one_of(
        st.tuples(st.sampled_from(["+", "-", "*", "min", "max"]), inner, inner),
        st.tuples(st.sampled_from(["negative", "abs", "tanh", "sigmoid"]), inner),
        st.tuples(st.just("square"), inner),
        st.tuples(st.just("when"), inner, inner, inner, inner),
        st.tuples(st.just("both"), inner, inner, inner, inner),
    )


def value(tree, leaf, where, low, high, sigmoid, tanh):
    """A tree's value, of numbers or of symbols."""
    if not isinstance(tree, tuple):
        return leaf(tree)
    name, *parts = tree
    of = [value(part, leaf, where, low, high, sigmoid, tanh) for part in parts]
    a, b = of[0], of[-1] if len(of) > 1 else None
    return {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "min": lambda: low(a, b),
        "max": lambda: high(a, b),
        "negative": lambda: -a,
        "abs": lambda: abs(a),
        "tanh": lambda: tanh(a),
        "sigmoid": lambda: sigmoid(a),
        "square": lambda: a**2,
        "when": lambda: where(of[0] > of[1], of[2], of[3]),
        "both": lambda: where((of[0] <= of[1]) & ~(of[2] == of[3]) | (of[0] < of[3]), of[2] - of[1], of[0]),
    }[name]()


@settings(max_examples=150, deadline=None)
@given(tree=st.recursive(LEAVES, grown, max_leaves=12))
def test_random_functions_are_what_their_text_computes(tree) -> None:
    def traced(y, f, c):
        symbols = {"y": y, "f": f, "c": c}
        of = value(
            tree,
            # Numbers become symbols where they meet one.
            lambda x: symbols[x] if isinstance(x, str) else 0 * f + x,
            lambda condition, a, b: tg.when(condition).then(a).otherwise(b),
            tg.Symbol.minimum,
            tg.Symbol.maximum,
            tg.Symbol.sigmoid,
            np.tanh,
        )
        return of + (y - f) ** 2 + 0 * c

    own = tg.loss(traced, hessian=lambda y, f, c: 1 + 0 * c)
    r = np.random.default_rng(0)
    y, f, c = r.normal(size=(3, 20))
    arrays = {"y": y, "f": f, "c": c}
    expected = value(
        tree,
        lambda x: arrays[x] if isinstance(x, str) else np.full(20, x),
        np.where,
        np.minimum,
        np.maximum,
        lambda a: 1 / (1 + np.exp(-a)),
        np.tanh,
    )
    found = own.derivatives(y, f, c=c)["value"]
    np.testing.assert_allclose(found, expected + (y - f) ** 2, rtol=1e-9, atol=1e-9)

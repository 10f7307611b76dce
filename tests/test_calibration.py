"""Calibration of probabilities, with scikit-learn as the judge."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

ROW = st.tuples(st.integers(0, 20), st.booleans(), st.integers(0, 3))
METHODS = ["isotonic", "platt", "beta"]


def curve_of(df: pl.DataFrame, method: Any = "isotonic", **more: Any) -> bytes:
    value = df.select(tg.fit_calibration("y", "p", method=method, **more)).item()
    assert isinstance(value, bytes)
    return value


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, min_size=2, max_size=40), st.integers(0, 40))
def test_isotonic_is_scikit_learns_whatever_the_chunks_and_the_order(rows: list[Any], cut: int) -> None:
    kept = [row for row in rows if row[2] > 0]
    if len({y for _, y, _ in kept}) < 2:
        return
    df = pl.DataFrame([(p / 20, y, float(w)) for p, y, w in rows], schema=["p", "y", "w"], orient="row")
    curve = curve_of(df, weight="w")
    judge = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    judge.fit([p / 20 for p, _, _ in kept], [y for _, y, _ in kept], sample_weight=[w for _, _, w in kept])
    at = np.linspace(0, 1, 41)
    ours = pl.DataFrame({"p": at}).select(tg.calibrate(curve, "p")).to_series().to_numpy()
    np.testing.assert_allclose(ours, judge.predict(at), atol=1e-12)
    chunks = pl.concat([df[:cut], df[cut:]], rechunk=False)
    for method in METHODS:
        assert curve_of(chunks, method, weight="w") == curve_of(df.reverse(), method, weight="w")


def sample(n: int = 4_000) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    p = rng.random(n).round(3)
    return pl.DataFrame({"p": p, "y": rng.random(n) < p**2, "g": rng.integers(0, 2, n)})


def test_beta_and_platt_are_logistic_regressions() -> None:
    df = sample()
    p = df["p"].to_numpy().clip(1e-12, 1 - 1e-12)
    y = df["y"].to_numpy()
    for method, terms in (("beta", [np.log(p), -np.log1p(-p)]), ("platt", [np.log(p) - np.log1p(-p)])):
        judge = LogisticRegression(C=1e10, tol=1e-10, max_iter=1_000)
        x = np.column_stack(terms)
        if method == "platt":
            yes, no = (y.sum() + 1) / (y.sum() + 2), 1 / ((~y).sum() + 2)
            share = np.where(y, yes, no)
            judge.fit(np.vstack([x, x]), np.repeat([1, 0], len(y)), sample_weight=np.concatenate([share, 1 - share]))
        else:
            judge.fit(x, y)
        ours = df.select(tg.calibrate(curve_of(df, method), "p")).to_series().to_numpy()
        np.testing.assert_allclose(ours, judge.predict_proba(x)[:, 1], atol=2e-4)
        measured = df.with_columns(q=tg.calibrate(curve_of(df, method), "p"))
        assert measured.select(tg.metrics.logloss("y", "q") < tg.metrics.logloss("y", "p")).item()


def test_curves_of_groups_are_those_of_their_rows_and_stream() -> None:
    df = sample(400).with_row_index()
    for method in METHODS:
        curves = df.group_by("g").agg(tg.fit_calibration("y", "p", method=method))
        joined = df.lazy().join(curves.lazy(), on="g", how="left")
        out = joined.with_columns(q=tg.calibrate("calibration", "p")).collect().sort("index")
        for g in range(2):
            own = df.filter(g=g)
            alone = own.select(tg.calibrate(curve_of(own, method), "p")).to_series()
            assert out.filter(g=g)["q"].rename("p").equals(alone)


@pytest.mark.parametrize("method", METHODS)
def test_nulls_nan_no_rows_and_names(method: str) -> None:
    curve = curve_of(sample(100), method)
    df = pl.DataFrame({"value": [0.0, None, math.nan, 1.0]})
    out = df.select(tg.calibrate(curve, "value"))
    assert out.columns == ["value"]
    values = out.to_series().to_list()
    assert values[1] is None
    assert math.isnan(values[2])
    assert 0 <= values[0] <= values[3] <= 1
    assert df.clear().select(tg.calibrate(curve, "value")).height == 0
    nobody = df.select(tg.calibrate(pl.lit(None, dtype=pl.Binary), "value"))
    assert nobody.to_series().null_count() == 4


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ({"p": [0.1, None], "y": [0, 1]}, "column `p`: 1 of 2 values are null"),
        ({"p": [0.1, math.nan], "y": [0, 1]}, "column `p`: 1 of 2 values are NaN"),
        ({"p": [0.1, 2.0], "y": [0, 1]}, "column `p`: it is 2"),
        ({"p": [0.1, 0.2], "y": [0, 2]}, "column `y`: it is 2"),
        ({"p": [0.1, 0.2], "y": [1, 1]}, "class"),
        ({"p": [], "y": []}, "no rows"),
    ],
)
def test_wrong_rows_are_errors(rows: dict[str, list[Any]], text: str) -> None:
    """Proves that each error is about the columns that were given, in the name of the function that was called."""
    df = pl.DataFrame(rows, schema={"p": pl.Float64, "y": pl.Int64})
    for method in METHODS:
        with pytest.raises(pl.exceptions.ComputeError, match=f"fit_calibration: .*{text}") as raised:
            curve_of(df, method)
        assert "metric" not in str(raised.value).split("\n")[0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((pl.lit(True), "p", None), "column `literal`: all rows are of one class, the second"),
        (("y", "p", pl.col("y").cast(pl.Float64)), "column `y`: all rows are of one class, the second"),
        (("text", "p", None), "column `text`: its type is String; a target is a Boolean"),
        (("p", "p", pl.col("text")), "column `text`: its type is String; a weight is a number"),
        (("y", "text", None), "column `text`: its type is String; a probability is a number"),
        (("y", "p", pl.lit(0.0).alias("w")), "column `w`: all rows weigh zero"),
    ],
)
def test_wrong_columns_are_errors_that_name_them(method: Any, given: tuple[Any, Any, Any], text: str) -> None:
    """Proves that types, one class and weights of zero are errors by every method, none of them about metrics."""
    target, predicted, weight = given
    df = sample(50).with_columns(text=pl.lit("0.2"))
    with pytest.raises(pl.exceptions.ComputeError, match=f"fit_calibration: {text}") as raised:
        df.select(tg.fit_calibration(target, predicted, weight=weight, method=method))
    assert "metric" not in str(raised.value).split("\n")[0]


def test_one_class_in_a_group_is_an_error() -> None:
    """Proves that a class is looked for in each group by itself."""
    df = sample(100).with_columns(y=pl.col("y") | (pl.col("g") == 1))
    with pytest.raises(pl.exceptions.ComputeError, match="column `y`: all rows are of one class"):
        df.group_by("g").agg(tg.fit_calibration("y", "p"))


@pytest.mark.parametrize("method", METHODS)
def test_what_is_no_probability_is_no_input(method: str) -> None:
    """Proves that `calibrate` refuses what the fit refuses, and that null and NaN stay."""
    curve = curve_of(sample(100), method)
    for value in (-5.0, 2.0, math.inf, -math.inf, 1.0000001):
        df = pl.DataFrame({"p": [0.5, value, None, math.nan]})
        with pytest.raises(pl.exceptions.ComputeError, match=f"calibrate: column `p`: it is {value}: a probability is"):
            df.select(tg.calibrate(curve, "p"))
        with pytest.raises(pl.exceptions.ComputeError, match=f"calibrate: column `p`: it is {value}: a probability is"):
            df.with_columns(curve=pl.lit(curve)).lazy().select(tg.calibrate("curve", "p")).collect()
    with pytest.raises(pl.exceptions.ComputeError, match="calibrate: column `p`: its type is String; a probability is"):
        pl.DataFrame({"p": ["0.2"]}).select(tg.calibrate(curve, "p"))
    whole = pl.DataFrame({"p": [0, 1, None]}).select(tg.calibrate(curve, "p")).to_series()
    assert whole.to_list() == pl.DataFrame({"p": [0.0, 1.0, None]}).select(tg.calibrate(curve, "p"))["p"].to_list()


@pytest.mark.parametrize("method", METHODS)
def test_damaged_curves_are_errors(method: str) -> None:
    """Proves that every cut and every changed bit is seen, and that curves without a seal are used as before."""
    df = sample(20)
    whole = curve_of(df, method)
    cuts = [whole[:n] for n in range(len(whole))]
    flips = [whole[: i // 8] + bytes([whole[i // 8] ^ 1 << i % 8]) + whole[i // 8 + 1 :] for i in range(len(whole) * 8)]
    for value in [*cuts, *flips, whole + b"0"]:
        with pytest.raises(ValueError, match="calibrate: these bytes are no calibration"):
            tg.calibrate(value, "p")
    for value in [cuts[0], cuts[30], cuts[-1], flips[100], flips[-1]]:
        with pytest.raises(pl.exceptions.ComputeError, match="calibrate: these bytes are no calibration"):
            df.select(tg.calibrate(pl.lit(value), "p"))
    assert df.select(tg.calibrate(whole[20:-4], "p")).equals(df.select(tg.calibrate(whole, "p")))


def test_wrong_calls_are_errors() -> None:
    with pytest.raises(ValueError, match="parameter `method`: 'spline'"):
        tg.fit_calibration("y", "p", method="spline")  # type: ignore[arg-type]
    for value in (
        b"",
        b"[]",
        b'{"method": "platt", "coefficients": [1]}',
        b'{"method": "isotonic", "p": [1, 0], "value": [0, 1]}',
        b'{"method": "platt", "coefficients": [1, true]}',
        b'{"method": "platt", "coefficients": [1, NaN]}',
        b'{"method": "platt", "coefficients": [1, 1%s]}' % (b"0" * 400),
        b"[" * 100_000,
    ):
        with pytest.raises(ValueError, match="these bytes are no calibration"):
            tg.calibrate(value, "p")
    with pytest.raises(
        pl.exceptions.ComputeError, match="calibrate: column `literal`: its type is String; a calibration is Binary"
    ):
        sample(10).select(tg.calibrate(pl.lit("text"), "p"))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("factor", [5e-324, 2.0**-1060, 1e-308, 1e-170, 1e-150, 1e150, 1e160, 1e300, 1e308])
def test_weights_of_any_size_give_a_curve(method: Any, factor: float) -> None:
    """Proves that a factor common to all weights changes no curve, but for Platt's targets, which are of their sums."""
    df = sample(60)
    heavy = df.select(tg.calibrate(curve_of(df, method, weight=pl.lit(factor)), "p")).to_series()
    # Of much less than a row Platt has no classes yet; of very many his targets are 0 and 1.
    many = pl.lit(1e140 if method == "platt" else 1.0)
    even = df.select(tg.calibrate(curve_of(df, method, weight=many), "p")).to_series()
    if method == "platt" and factor < 1:
        even = pl.Series([0.5] * 60)
    assert (heavy - even).abs().max() < 1e-9  # type: ignore[operator]


@pytest.mark.parametrize("method", ["isotonic", "beta"])
def test_a_power_of_two_in_weights_changes_no_bit(method: Any) -> None:
    """Proves that curves of weights that differ are those of the same weights at another scale."""
    df = sample(200).with_columns(w=pl.col("p") + 0.1)
    whole = curve_of(df, method, weight="w")
    for power in (-1000, -500, -3, 7, 900):
        assert curve_of(df, method, weight=pl.col("w") * 2.0**power) == whole


@pytest.mark.parametrize("method", METHODS)
def test_weights_are_numbers_of_rows(method: Any) -> None:
    """Proves that three times the rows and three times the weights are one, of Platt's targets too."""
    df = sample(200).with_columns(w=pl.col("p") + 0.1)
    heavy, often = curve_of(df, method, weight=pl.col("w") * 3), curve_of(pl.concat([df] * 3), method, weight="w")
    one, other = (df.select(tg.calibrate(curve, "p")).to_series() for curve in (heavy, often))
    assert (one - other).abs().max() < 1e-9  # type: ignore[operator]


def test_weights_that_are_far_apart_are_steps_of_their_own() -> None:
    """Proves that steps are told apart by their heights, however little they weigh beside each other."""
    df = pl.DataFrame({"p": [0.1, 0.2, 0.6, 0.8], "y": [0, 1, 0, 1]})
    for weights, curve in (
        ([1e-300, 1e-300, 1e-300, 1e300], [0.0, 0.5, 0.5, 1.0]),
        ([1e-200, 1e-200, 1.0, 1e200], [0.0, 0.0, 0.0, 1.0]),
        ([1e308, 1e308, 1e308, 5e-324], [0.0, 0.5, 0.5, 1.0]),
    ):
        fitted = curve_of(df.with_columns(w=pl.Series(weights)), weight="w")
        assert df.select(tg.calibrate(fitted, "p")).to_series().to_list() == pytest.approx(curve, abs=1e-12)


FAULTS: dict[str, dict[str, list[float | None]]] = {
    "no rows": {"p": [], "y": [], "w": []},
    "probability null": {"p": [None, 0.2, 0.6, 0.8]},
    "probability NaN": {"p": [math.nan, 0.2, 0.6, 0.8]},
    "no probability": {"p": [2.0, 0.2, 0.6, 0.8]},
    "target null": {"y": [None, 1.0, 0.0, 1.0]},
    "target NaN": {"y": [math.nan, 1.0, 0.0, 1.0]},
    "no class": {"y": [2.0, 1.0, 0.0, 1.0]},
    "no class in a row of weight 0": {"y": [2.0, 1.0, 0.0, 1.0], "w": [0.0, 1.0, 1.0, 1.0]},
    "one class": {"y": [1.0] * 4},
    "one class weighs": {"w": [0.0, 1.0, 0.0, 1.0]},
    "weight null": {"w": [None, 1.0, 1.0, 1.0]},
    "weight NaN": {"w": [math.nan, 1.0, 1.0, 1.0]},
    "weight infinite": {"w": [math.inf, 1.0, 1.0, 1.0]},
    "weight negative": {"w": [-1.0, 1.0, 1.0, 1.0]},
    "no weight": {"w": [0.0] * 4},
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("fault", FAULTS)
def test_rows_at_fault_may_give_null(method: Any, fault: str) -> None:
    """Proves that `on_error="null"` gives null where the default is an error, of one group among others too."""
    good: dict[str, list[float | None]] = {"p": [0.1, 0.2, 0.6, 0.8], "y": [0.0, 1.0, 0.0, 1.0], "w": [1.0] * 4}
    schema = dict.fromkeys(good, pl.Float64)
    whole, df = (pl.DataFrame({**good, **more}, schema=schema) for more in ({}, FAULTS[fault]))
    with pytest.raises(pl.exceptions.ComputeError, match="fit_calibration: "):
        curve_of(df, method, weight="w")
    call = tg.fit_calibration("y", "p", weight="w", method=method, on_error="null")
    assert df.select(call).item() is None
    assert whole.select(call).item() == curve_of(whole, method, weight="w")
    both = pl.concat([whole.with_columns(g=pl.lit(0)), df.with_columns(g=pl.lit(1))])
    curves = both.group_by("g").agg(call)
    nulls = dict(curves.select("g", pl.col("calibration").is_null()).iter_rows())
    assert nulls == ({0: False, 1: True} if df.height > 0 else {0: False})


def test_what_is_no_fault_of_rows_is_an_error_always() -> None:
    """Proves that types are errors under `on_error="null"` too, and that it has no other value."""
    df = sample(50).with_columns(text=pl.lit("0.2"))
    for target, predicted, weight in (("text", "p", None), ("y", "text", None), ("y", "p", "text")):
        with pytest.raises(pl.exceptions.ComputeError, match="column `text`: its type is String"):
            df.select(tg.fit_calibration(target, predicted, weight=weight, on_error="null"))
    for value in ("constant", None, "ignore"):
        with pytest.raises(ValueError, match=f"parameter `on_error`: {value!r} is not one of 'raise', 'null'"):
            tg.fit_calibration("y", "p", on_error=value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "column",
    [pl.lit(2**62).cast(pl.Datetime("ms")), pl.lit(2**31 - 1).cast(pl.Int32).cast(pl.Date), pl.col("g"), pl.lit("x")],
)
def test_a_column_of_another_type_is_no_column_of_curves(column: pl.Expr) -> None:
    """Proves that no value of another type gets to Python, and that the error names its column."""
    df = sample(20).with_columns(column.alias("c"))
    with pytest.raises(
        pl.exceptions.ComputeError, match=r"calibrate: column `c`: its type is .*; a calibration is Bin"
    ):
        df.select(tg.calibrate("c", "p"))
    nobody = df.with_columns(c=pl.lit(None)).select(tg.calibrate("c", "p"))
    assert nobody.schema == {"p": pl.Float64}
    assert nobody.to_series().null_count() == 20


@pytest.mark.parametrize("name", ["^y$", "^.*$", "*", "__row", "value", "out", "p"])
def test_columns_may_have_any_name(name: str) -> None:
    """Proves that neither a pattern nor the name of something inside is another column than its own."""
    df = sample(100)
    for method in METHODS:
        curve = curve_of(df, method)
        parts = (pl.col("y").alias(name), pl.col("p").alias(name))
        assert df.select(tg.fit_calibration(*parts, method=method)).item() == curve  # type: ignore[arg-type]
        out = df.select(tg.calibrate(curve, parts[1]))
        assert out.columns == [name]
        assert out[name].to_list() == df.select(tg.calibrate(curve, "p"))["p"].to_list()

"""`min_max`, `histogram` and `histogram2d` against NumPy, and where the expressions may stand."""

from __future__ import annotations

import math
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
import polars_taiga as tg
import pytest
from polars.testing import assert_frame_equal, assert_series_equal

Compute = pl.exceptions.ComputeError
NAN, INF = math.nan, math.inf
INTEGERS = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64]


# --- against NumPy -----------------------------------------------------------------------------


def column(rng: np.random.Generator, n: int) -> np.ndarray:
    """Values of one type, random in kind: normal, whole, constant, huge, tiny, on a grid."""
    kind = rng.integers(9)
    if kind == 0:
        dtype = INTEGERS[rng.integers(8)].__name__.lower()
        info = np.iinfo(dtype)
        low, high = [(info.min, info.max), (0, 100), (max(info.min, -20), 20)][rng.integers(3)]
        return rng.integers(low, high, n, dtype=dtype, endpoint=True)
    if kind == 1:
        return rng.integers(0, 2, n).astype(bool)
    if kind == 2:
        values = np.full(n, rng.choice([0.0, 1.0, -3.5, 1e-300, 1e300, 0.1, 1e6]))
    elif kind == 3:
        values = rng.normal(size=n) * rng.choice([1e-300, 1e300, 1e-30, 1e30])
    elif kind == 4:
        values = rng.integers(-40, 40, n) / rng.choice([1, 3, 4, 10])
    elif kind == 5:
        values = np.round(rng.exponential(size=n), 2) + rng.choice([0, 1e4])
    else:
        values = rng.normal(size=n) * 10.0 ** rng.integers(-3, 6) + rng.choice([0, 0, 7, -1e3])
    if rng.random() < 0.5:
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
    holes = rng.random(n)
    if rng.random() < 0.4:
        values[holes < 0.1] = NAN
    if rng.random() < 0.1:
        values[(holes > 0.1) & (holes < 0.15)] = INF
        values[holes > 0.97] = -INF
    return values


def in_bins(rng: np.random.Generator, values: np.ndarray) -> dict[str, Any]:
    """Random `bins`, a number or edges, and `range`; some of the edges are values of the column."""
    present = values[np.isfinite(values)].astype(float)
    pool = np.concatenate([present, [-1.0, 0.0, 2.5]])
    if rng.random() < 0.25:
        edges = np.sort(rng.choice(pool, rng.integers(2, 40)))
        if rng.random() < 0.3:
            edges[0], edges[-1] = [(-INF, INF), (edges[0], INF), (-INF, edges[-1])][rng.integers(3)]
        return {"bins": edges.tolist()}
    bins = int(rng.choice([1, 2, 3, 10, 64, 100, 255, 256, 1000, 4096, rng.integers(1, 4097)]))
    params: dict[str, Any] = {"bins": bins}
    if rng.random() < 0.4:
        first, last = sorted(rng.choice(pool, 2).tolist())
        params["range"] = (first, last) if rng.random() < 0.9 else (0, 0)
    return params


def own_range(values: np.ndarray, given: Any) -> Any:
    """The range as NumPy is to have it: what our rules make of a given one and of the data."""
    if given is None or given == (0, 0):
        if not len(values):
            return (0.0, 1.0)
        given = (values.min(), values.max())
        if not np.isfinite(given).all():
            return None
    if given[0] == given[1]:
        return (float(given[0]) - 1.0, float(given[0]) + 1.0)
    return given


def numpy_histogram(values: np.ndarray, params: dict[str, Any], weights: np.ndarray | None) -> Any:
    """Edges and heights by NumPy; None where it can't make bins."""
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    values = values[~missing]
    weights = None if weights is None else weights[~missing]
    if values.dtype == bool:
        values = values.astype(np.uint8)
    more = {"weights": weights, "density": params.get("density", False)}
    with np.errstate(all="ignore"):
        if isinstance(params["bins"], list):
            heights, edges = np.histogram(values, params["bins"], **more)
            return np.asarray(edges, float), heights
        outer = own_range(values, params.get("range"))
        if outer is None:
            return None
        try:
            heights, edges = np.histogram(values, params["bins"], outer, **more)
        except (ValueError, IndexError):  # too many bins; indices of infinite widths
            return None
    return (edges, heights) if np.isfinite(edges).all() else None


def series(rng: np.random.Generator, values: np.ndarray) -> pl.Series:
    """The values as a column; some of the missing ones as nulls."""
    out = pl.Series("x", values)
    return out.fill_nan(None) if out.dtype.is_float() and rng.random() < 0.5 else out


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_histogram_equals_numpy(seed: int) -> None:
    """To the last count, edge, weight and density; a thousand random cases for each seed."""
    rng = np.random.default_rng(seed)
    compared = 0
    for _ in range(1000):
        values = column(rng, int(rng.choice([0, 1, 2, 5, 30, 200, 700])))
        params = in_bins(rng, values)
        frame = pl.DataFrame([series(rng, values)])
        if density := bool(rng.random() < 0.3):
            params["density"] = True
        if weighted := bool(rng.random() < 0.3):
            frame = frame.with_columns(w=pl.Series(rng.normal(size=len(values)) + 0.5))
        expr = tg.histogram("x", weights="w" if weighted else None, **params)
        expected = numpy_histogram(values, params, frame["w"].to_numpy() if weighted else None)
        if expected is None:
            with pytest.raises(Compute, match=r"column `x`: (its values|the range)"):
                frame.select(expr)
            continue
        edges, heights = expected
        got = frame.select(expr.explode()).unnest("x")
        assert got.columns == ["lower", "upper", "density" if density else "weight" if weighted else "count"]
        lower, upper, found = (got.to_series(i).to_numpy() for i in range(3))
        assert np.array_equal(lower, edges[:-1]), params
        assert np.array_equal(upper, edges[1:]), params
        if weighted and isinstance(params["bins"], list):
            # NumPy takes differences of cumulative sums over sorted values.
            largest = np.abs(heights[np.isfinite(heights)]).max(initial=1.0)
            np.testing.assert_allclose(found, heights, rtol=1e-9, atol=1e-10 * largest, err_msg=str(params))
        else:
            assert np.array_equal(found, heights, equal_nan=density), params
        compared += 1
    assert compared > 700


def test_long_weighted_columns_equal_numpy_to_the_last_bit() -> None:
    """NumPy adds blocks of 65,536 rows; NaN rows stay where they are."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=400_000)
    x[::17] = NAN
    w = rng.normal(size=len(x)) * 10.0 ** rng.integers(-3, 4, len(x))
    frame = pl.DataFrame({"x": x, "w": w})
    for values, dtype in [(x, pl.Float64), (x.astype(np.float32), pl.Float32)]:
        outer = (np.nanmin(values), np.nanmax(values))
        for density in [False, True]:
            expected, edges = np.histogram(values, 300, outer, weights=w, density=density)
            expr = tg.histogram(pl.col("x").cast(dtype), 300, weights="w", density=density)
            got = frame.select(expr.explode()).unnest("x")
            np.testing.assert_array_equal(got.to_series(2).to_numpy(), expected)
            np.testing.assert_array_equal(got["lower"].to_numpy(), edges[:-1])


def has_width(edges: np.ndarray) -> bool:
    return bool(np.isfinite(edges).all() and (np.diff(edges) > 0).all() and math.isfinite(float(edges[-1]) - edges[0]))


def as_array(got: pl.Series, nx: int) -> np.ndarray:
    return got.explode().struct.unnest().to_series(4).to_numpy().reshape(nx, -1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_histogram2d_equals_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    compared = 0
    for _ in range(250):
        n = int(rng.choice([0, 1, 3, 50, 300]))
        x, y = column(rng, n), column(rng, n)
        both = [np.isnan(v) if v.dtype.kind == "f" else np.zeros(n, bool) for v in (x, y)]
        keep = ~(both[0] | both[1])
        a, b = (v[keep].astype(np.uint8) if v.dtype == bool else v[keep] for v in (x, y))
        # As NumPy stacks the two: their common type.
        common = np.result_type(a, b)
        a, b = (v.astype(common if common.kind == "f" else float) for v in (a, b))
        bins, ranges, numpy_bins, numpy_ranges = [], [], [], []
        for v in (a, b):
            params = in_bins(rng, v)
            count = params["bins"]
            count = count if isinstance(count, list) else min(count, 300)
            outer = None if isinstance(count, list) else own_range(v, params.get("range"))
            bins.append(count)
            ranges.append(params.get("range"))
            numpy_bins.append(count)
            numpy_ranges.append(outer)
        weights = rng.normal(size=n) if rng.random() < 0.3 else None
        density = bool(rng.random() < 0.3)
        expr = tg.histogram2d(
            "x",
            "y",
            tuple(bins),
            range=tuple(ranges),
            weights=None if weights is None else "w",
            density=density,
        )
        frame = pl.DataFrame({"x": x, "y": y, "w": np.zeros(n) if weights is None else weights})
        try:
            expected, *numpy_edges = np.histogram2d(
                a, b, numpy_bins, numpy_ranges, density, None if weights is None else weights[keep]
            )
            # NumPy goes on with bins without width.
            cut = all(isinstance(c, list) or has_width(e) for c, e in zip(bins, numpy_edges, strict=True))
        except ValueError:
            cut = False
        if not cut:
            with pytest.raises(Compute, match=r"column `[xy]`: (its values|the range)"):
                frame.select(expr)
            continue
        got = frame.select(expr).to_series()
        cells = got.explode().struct.unnest()
        nx, ny = len(numpy_edges[0]) - 1, len(numpy_edges[1]) - 1
        for name, want in {
            "x_lower": np.repeat(numpy_edges[0][:-1], ny),
            "x_upper": np.repeat(numpy_edges[0][1:], ny),
            "y_lower": np.tile(numpy_edges[1][:-1], nx),
            "y_upper": np.tile(numpy_edges[1][1:], nx),
        }.items():
            np.testing.assert_array_equal(cells[name].to_numpy(), want)
        if weights is not None and density:
            np.testing.assert_allclose(as_array(got, nx), expected, rtol=1e-9)
        else:
            np.testing.assert_array_equal(as_array(got, nx), expected)
        compared += 1
    assert compared > 100


def test_values_on_and_beside_each_edge() -> None:
    rng = np.random.default_rng(5)
    for bins in [1, 7, 10, 256, 1000, 4096]:
        for dtype in [np.float32, np.float64]:
            first, last = np.sort(rng.normal(size=2) * 100).astype(dtype)
            edges = np.histogram_bin_edges(np.array([first, last]), bins)
            values = np.concatenate([edges, np.nextafter(edges, -INF), np.nextafter(edges, INF)]).astype(dtype)
            values = values[(values >= first) & (values <= last)]
            expected, edges = np.histogram(values, bins)
            got = pl.DataFrame({"x": values}).select(tg.histogram("x", bins).explode()).unnest("x")
            np.testing.assert_array_equal(got["count"].to_numpy(), expected)
            np.testing.assert_array_equal(got["lower"].to_numpy(), edges[:-1])


# --- types -------------------------------------------------------------------------------------

TYPED: list[tuple[Any, list[Any], Any, Any]] = [
    (pl.Boolean, [True, None, True], True, True),
    (pl.Boolean, [True, False, None], False, True),
    (pl.Float32, [0.5, NAN, None, -0.25], -0.25, 0.5),
    (pl.Float64, [INF, NAN, -INF], -INF, INF),
    (pl.Float64, [NAN, None, NAN], None, None),
    (pl.Decimal(20, 2), [Decimal("1.25"), None, Decimal("-7.50")], Decimal("-7.50"), Decimal("1.25")),
    (pl.Date, [date(2020, 1, 2), None, date(1950, 3, 4)], date(1950, 3, 4), date(2020, 1, 2)),
    (pl.Time, [time(3, 4), time(1, 2, 3)], time(1, 2, 3), time(3, 4)),
    (pl.Datetime("us"), [datetime(2020, 1, 2, 3), None], datetime(2020, 1, 2, 3), datetime(2020, 1, 2, 3)),
    (pl.Datetime("ms"), [datetime(2020, 1, 2, 3), datetime(1920, 1, 1)], datetime(1920, 1, 1), datetime(2020, 1, 2, 3)),
    (pl.Duration("ns"), [timedelta(1), timedelta(-1)], timedelta(-1), timedelta(1)),
    (pl.Null, [None, None], None, None),
    *[(t, [3, None, 7, 5], 3, 7) for t in INTEGERS],
    (pl.UInt64, [2**64 - 1, 0], 0, 2**64 - 1),
    (pl.Int64, [-(2**63), 2**63 - 1], -(2**63), 2**63 - 1),
    (pl.Int64, [], None, None),
    *([(pl.Int128, [-(2**100), 2**100], -(2**100), 2**100)] if hasattr(pl, "Int128") else []),
]


@pytest.mark.parametrize(("dtype", "values", "low", "high"), TYPED, ids=lambda v: str(v)[:30])
def test_min_max_keeps_the_type(dtype: Any, values: list[Any], low: Any, high: Any) -> None:
    lf = pl.LazyFrame({"x": pl.Series(values, dtype=dtype)}).select(tg.min_max("x"))
    out = lf.collect()
    assert out.schema == lf.collect_schema() == {"x": pl.Struct({"min": dtype, "max": dtype})}
    assert out.rows() == [({"min": low, "max": high},)]


def test_min_max_of_time_zones() -> None:
    zoned = pl.Series("x", [datetime(2020, 1, 2)]).dt.replace_time_zone("Europe/Paris")
    out = zoned.to_frame().select(tg.min_max("x")).unnest("x")
    assert_series_equal(out["max"], zoned.alias("max"))


@pytest.mark.parametrize(("name", "values"), [("UInt128", [2**128 - 1, 5]), ("Float16", [0.5, -2.0])])
def test_min_max_of_newer_types(name: str, values: list[Any]) -> None:
    if not hasattr(pl, name):
        pytest.skip(f"this Polars has no {name}")
    s = pl.Series("x", values, dtype=getattr(pl, name))
    out = s.to_frame().select(tg.min_max("x")).unnest("x")
    assert out.rows() == [(min(values), max(values))]
    assert out.dtypes == [s.dtype] * 2


def test_min_max_equals_polars_on_random_columns() -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        values = column(rng, int(rng.choice([1, 63, 64, 65, 1000, 3000])))
        s = series(rng, values)
        frame = s.to_frame().with_columns(x=pl.when(pl.Series(rng.random(len(s)) < 0.8)).then("x"))
        got = frame.select(tg.min_max("x")).unnest("x")
        clean = pl.col("x").drop_nulls()
        clean = clean.drop_nans() if s.dtype.is_float() else clean
        assert_frame_equal(got, frame.select(min=clean.min(), max=clean.max()), check_exact=True)


@pytest.mark.skipif(pl.__version__.startswith("1.0"), reason="this Polars has no Decimal of so many digits")
@pytest.mark.parametrize("scale", [0, 2, 22, 25, 37])
def test_long_decimals_are_the_nearest_floats(scale: int) -> None:
    """Proves that a Decimal of any length is the float that is nearest to it, wherever it stands."""
    digits = [7 * 13**i % 10 ** (15 + i % 23) for i in range(60)]
    with localcontext() as context:
        context.prec = 60
        values = [Decimal(d).scaleb(-scale) for d in digits]
    df = pl.DataFrame({"x": pl.Series(values, dtype=pl.Decimal(38, scale)), "f": [float(v) for v in values]})
    assert [float(f"{d}e-{scale}") for d in digits] == df["f"].to_list()
    for expr in (lambda c: tg.min_max(c), lambda c: tg.borders(c, 60)):
        found, wanted = (df.select(expr(c)).to_series().to_list() for c in ("x", "f"))
        as_floats = [{k: float(v) for k, v in row.items()} if isinstance(row, dict) else row for row in found]
        assert as_floats == wanted
    models = [
        df.select(tg.fit_gbdt(pl.col("f").rank().alias("y"), pl.col(c).alias("x"), rounds=3)).item() for c in "xf"
    ]
    assert tg.Model(models[0]).borders == tg.Model(models[1]).borders


def test_decimal_columns_are_binned_by_their_numbers() -> None:
    money = pl.DataFrame({"x": pl.Series([Decimal("0.10"), Decimal("0.25"), None], dtype=pl.Decimal(9, 2))})
    assert money.select(tg.histogram("x", [0.1, 0.2, 0.25]).explode()).unnest("x")["count"].to_list() == [1, 1]


# --- where the expressions may stand -----------------------------------------------------------


def test_schema_is_known_before_the_query_runs(df: pl.DataFrame) -> None:
    bins = {"lower": pl.Float64, "upper": pl.Float64}
    cell = {f"{a}_{side}": pl.Float64 for a in "xy" for side in ("lower", "upper")}
    for expr, fields in [
        (tg.histogram("a"), {**bins, "count": pl.UInt64}),
        (tg.histogram("a", weights="w"), {**bins, "weight": pl.Float64}),
        (tg.histogram("a", weights="w", density=True), {**bins, "density": pl.Float64}),
        (tg.histogram2d("a", "b"), {**cell, "count": pl.UInt64}),
        (tg.histogram2d("a", "b", weights="w"), {**cell, "weight": pl.Float64}),
        (tg.histogram2d("a", "b", density=True), {**cell, "density": pl.Float64}),
    ]:
        lf = df.lazy().select(expr)
        assert lf.collect_schema() == {"a": pl.List(pl.Struct(fields))}
        assert lf.collect().schema == lf.collect_schema()


def test_selectors_give_one_histogram_a_column(df: pl.DataFrame) -> None:
    out = df.select(tg.histogram(cs.float(), bins=5))
    assert out.columns == df.select(cs.float()).columns
    assert out.height == 1
    for name in out.columns:
        assert_series_equal(out[name], df.select(tg.histogram(name, bins=5))[name])
    weighted = df.select(tg.histogram(cs.by_name("a", "b"), bins=5, weights="w"))
    assert_series_equal(weighted["b"], df.select(tg.histogram("b", bins=5, weights="w"))["b"])
    assert df.select(tg.min_max(cs.by_name("a", "b"))).columns == ["a", "b"]


@pytest.mark.parametrize("which", ["min_max", "histogram", "weighted", "histogram2d"])
def test_groups_and_windows_are_the_groups_alone(df: pl.DataFrame, which: str) -> None:
    expr = {
        "min_max": tg.min_max("b"),
        "histogram": tg.histogram("b", 7),
        "weighted": tg.histogram("b", 7, weights="w"),
        "histogram2d": tg.histogram2d("b", "c", (3, 4), weights="w"),
    }[which]
    groups = df.group_by("group").agg(expr.alias("h")).sort("group")
    over = df.with_columns(h=expr.over("group")).unique("group").select("group", "h").sort("group")
    assert_frame_equal(over, groups)
    for group, h in zip(groups["group"], groups["h"].to_list(), strict=True):
        assert h == df.filter(pl.col("group") == group).select(h=expr)["h"].to_list()[0]
    lazy = df.lazy().group_by("group").agg(expr.alias("h")).sort("group").collect()
    assert_frame_equal(lazy, groups)


def test_lists_of_names_are_selectors(df: pl.DataFrame) -> None:
    """Proves that statistics and encodings take several columns by their names and by `pl.col`, each once."""
    table = pl.DataFrame({"u": [1.0, 2.0, 4.0], "v": [3, 1, 2], "s": ["a", "b", "a"], "y": [0, 1, 1]})
    for function in (tg.min_max, lambda columns: tg.histogram(columns, 2), tg.count_encode):
        names = ["s", "v"] if function is tg.count_encode else ["u", "v"]
        wanted = table.select(function(pl.col(names)))
        assert table.select(function(names)).equals(wanted)
        assert table.select(function([pl.col(names[0]), names[1]])).equals(wanted)
    encoded = table.select(tg.target_encode([pl.col("s"), pl.col("v")], "y", kind="full"))
    assert encoded.equals(table.select(tg.target_encode(["s", "v"], "y", kind="full")))
    for function, name in [(tg.min_max, "min_max"), (tg.histogram, "histogram"), (tg.count_encode, "count_encode")]:
        with pytest.raises(TypeError, match=f"^{name}: of several columns each is a name or"):
            function(["u", pl.col("v") + 1])
        with pytest.raises(ValueError, match=f"^{name}: there are no columns"):
            function([])
    with pytest.raises(TypeError, match=r"not Series: make it a column"):
        tg.min_max(table["u"])


def test_namespace_and_expressions(df: pl.DataFrame) -> None:
    x = pl.col("a")
    assert_frame_equal(df.select(x.taiga.histogram(5)), df.select(tg.histogram("a", 5)))
    assert_frame_equal(df.select(x.taiga.min_max()), df.select(tg.min_max("a")))
    assert_frame_equal(
        df.select(x.taiga.histogram2d("b", 3, weights="w")), df.select(tg.histogram2d("a", "b", 3, weights="w"))
    )
    doubled = df.select(tg.histogram((x * 2).alias("z"), 5, weights=pl.col("w") + 1))
    assert doubled.columns == ["z"]
    # A column may be its own weight, and its own y.
    same = df.select(tg.histogram2d("d", "d", 3, weights="d").explode()).unnest("d")
    assert same["x_lower"].n_unique() == same["y_lower"].n_unique() == 3
    literal = df.select(tg.histogram("a", 5, weights=pl.lit(2.0)).explode()).unnest("a")["weight"]
    assert literal.to_list() == (df.select(tg.histogram("a", 5).explode()).unnest("a")["count"] * 2).to_list()


def test_edges_as_a_series_an_array_and_a_list_are_the_same(df: pl.DataFrame) -> None:
    edges = [-2.0, -0.5, 0.0, 3.0]
    ways = [edges, tuple(edges), np.array(edges), pl.Series(edges), [-2, -0.5, 0, 3]]
    outs = [df.select(tg.histogram("a", e)) for e in ways]
    assert all(out.equals(outs[0]) for out in outs)
    assert_frame_equal(df.select(tg.histogram("a", range=(0, 0))), df.select(tg.histogram("a")))


def test_chunks_slices_and_nulls_leave_no_trace() -> None:
    rng = np.random.default_rng(8)
    rows = 300_000
    frame = pl.DataFrame({"x": rng.normal(size=rows), "w": rng.normal(size=rows), "i": rng.integers(0, 90, rows)})
    frame = frame.with_columns(f=pl.col("x").cast(pl.Float32), n=pl.when(pl.col("i") % 7 > 0).then("x"))
    exprs = [
        tg.histogram(cs.by_name("x", "f", "n", "i"), 300),
        tg.histogram("n", 20, weights="w").alias("nw"),
        tg.histogram("f", [-1, 0, 0.5, 2], weights="w").alias("fw"),
        tg.histogram2d("f", "n", 20, weights="w").alias("fn"),
        tg.min_max(cs.by_name("x", "f", "n")).name.suffix("_m"),
    ]
    expected = frame.select(exprs)
    chunked = pl.concat([frame[i : i + 7_777] for i in range(0, rows, 7_777)], rechunk=False)
    assert chunked.select(exprs).equals(expected)
    framed = pl.concat([frame[:1000], frame, frame[:500]], rechunk=True)[1000 : 1000 + rows]
    assert framed.select(exprs).equals(expected)
    # A null and a NaN are the same.
    nan = frame.with_columns(pl.col("n").fill_null(NAN))
    assert nan.select(exprs).equals(expected)


def test_threads_leave_no_trace() -> None:
    import subprocess

    code = (
        "import polars as pl, polars_taiga as tg\n"
        "i = pl.int_range(600_000, eager=True)\n"
        "df = pl.DataFrame({'x': (i * 0.618).sin(), 'w': (i * 0.37).cos()})\n"
        "df = df.with_columns(f=pl.col('x').cast(pl.Float32))\n"
        "out = df.select(tg.histogram('x', 100, weights='w'), tg.histogram('f', 300), m=tg.min_max('f'),\n"
        "    d=tg.histogram2d('x', 'f', 9, weights='w', density=True))\n"
        "print(out.to_dict(as_series=False))"
    )
    import os

    def run(threads: int) -> str:
        env = os.environ | {"POLARS_MAX_THREADS": str(threads)}
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout

    assert run(1) == run(3) == run(8)


@pytest.mark.parametrize("rows", [0, 1])
def test_no_rows_and_one(rows: int) -> None:
    lf = pl.LazyFrame({"x": [2.0], "w": [1.5]}).head(rows)
    out = lf.select(tg.histogram("x", 2), w=tg.histogram("x", 2, weights="w"), d=tg.histogram2d("x", "x", 1)).collect()
    first, last = (0.0, 1.0) if rows == 0 else (1.0, 3.0)
    middle = (first + last) / 2
    assert out["x"][0].struct.unnest().rows() == [(first, middle, 0), (middle, last, rows)]
    assert out["w"][0].struct.unnest()["weight"].to_list() == [0.0, 1.5 * rows]
    assert out["d"][0].struct.unnest().rows() == [(first, last, first, last, rows)]


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "error", "text"),
    [
        ({"bins": 0}, ValueError, "parameter `bins`: 0 is not between 1 and 1000000"),
        ({"bins": -3}, ValueError, "parameter `bins`: -3 is not"),
        ({"bins": 10**9}, ValueError, "parameter `bins`: 1000000000 is not"),
        ({"bins": 10**30}, ValueError, "parameter `bins`: .* is not between"),
        ({"bins": 2.5}, TypeError, "parameter `bins`: 2.5 is not an integer"),
        ({"bins": True}, TypeError, "parameter `bins`: True is not an integer"),
        ({"bins": "auto"}, TypeError, "parameter `bins`: 'auto' is not an integer"),
        ({"range": (2, 1)}, ValueError, "parameter `range`: .*must not be larger"),
        ({"range": (0, INF)}, ValueError, "parameter `range`: .*inf.* is not finite"),
        ({"range": (NAN, 1)}, ValueError, "parameter `range`: .*NaN.* is not finite"),
        ({"range": (1,)}, ValueError, "parameter `range`: .* is not a pair"),
        ({"range": 3}, TypeError, "parameter `range`: 3 is not a pair"),
        ({"range": ("a", "b")}, TypeError, "parameter `range`: 'a' is not a number"),
        ({"bins": [1]}, ValueError, "parameter `bins`: 1 edges; there must be 2"),
        ({"bins": [1, 3, 2]}, ValueError, "parameter `bins`: edges must ascend, and 3.0 is followed by 2.0"),
        ({"bins": [1, NAN]}, ValueError, "parameter `bins`: edge 1 is NaN"),
        ({"bins": [1, None]}, TypeError, "parameter `bins`: None is not a number"),
        ({"bins": [1, 2], "range": (0, 1)}, ValueError, "parameter `bins`: a list of edges says all of the bins"),
        ({"bins": [1, date(2026, 1, 1)]}, TypeError, "parameter `bins`: .* are of several types"),
        ({"range": (date(2026, 1, 1), 3)}, TypeError, "parameter `range`: .* are of several types"),
        ({"edges": [1, 2]}, TypeError, "edges"),
        ({"density": "yes"}, TypeError, "parameter `density`: 'yes'"),
        ({"weights": 3}, TypeError, "weights is a column's name or an expression"),
        ({"limits": 3}, TypeError, "limits"),
    ],
    ids=str,
)
def test_bad_parameters(params: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        tg.histogram("x", **params)
    if not ({"weights", "limits", "edges"} & params.keys() or isinstance(params.get("bins"), list)):
        both = {**params, **({"range": (params["range"], None)} if "range" in params else {})}
        with pytest.raises(error, match=text.replace("`:", "( of x)?`:")):
            tg.histogram2d("x", "y", **both)


def test_bad_parameters_of_two_columns() -> None:
    with pytest.raises(ValueError, match="parameter `bins`: 3000 by 3000 bins are more than 4000000 cells"):
        tg.histogram2d("x", "y", 3_000)
    with pytest.raises(ValueError, match="parameter `bins of y`: 0"):
        tg.histogram2d("x", "y", (3, 0))
    with pytest.raises(ValueError, match="parameter `bins of y`: edges must ascend"):
        tg.histogram2d("x", "y", (None, [2, 1]))
    with pytest.raises(ValueError, match="parameter `bins of x`: a list of edges says all"):
        tg.histogram2d("x", "y", ([1, 2], [1, 2]), range=((0, 1), None))
    with pytest.raises(ValueError, match="parameter `x`: one column"):
        tg.histogram2d(cs.numeric(), "y")


@pytest.mark.parametrize(
    ("columns", "params", "text"),
    [
        (
            {"x": [1.0, INF]},
            {},
            r"column `x`: its values reach from 1.0 to inf.*range=.*filter\(pl.col\(\"x\"\).is_finite",
        ),
        ({"x": ["a", "b"]}, {}, "column `x`: its type is str"),
        ({"x": [[1], [2]]}, {}, "column `x`: its type is list"),
        ({"x": [{"a": 1}, {"a": 2}]}, {}, "column `x`: its type is struct"),
        ({"x": [1e300, 1e300]}, {}, "column `x`: its values from 1e300 to 1e300 can't be cut into 10 bins"),
        ({"x": [1.0, 2.0]}, {"range": (-1.7e308, 1.7e308)}, "column `x`: the range .* of a finite width in Float64"),
        ({"x": [1.0, 2.0], "w": [1.0, None]}, {"weights": "w"}, "column `w`: 1 of 2 values are null, which a weight"),
        ({"x": [1.0, 2.0], "w": [NAN, NAN]}, {"weights": "w"}, "column `w`: 2 of 2 values are NaN"),
        ({"x": [1.0, 2.0], "w": [INF, 1.0]}, {"weights": "w"}, "column `w`: 1 of 2 values .* infinite"),
        ({"x": [1.0, 2.0], "w": ["u", "v"]}, {"weights": "w"}, "column `w`: its type is str; a weight is a number"),
    ],
)
def test_bad_columns(columns: dict[str, Any], params: dict[str, Any], text: str) -> None:
    frame = pl.DataFrame(columns)
    with pytest.raises(Compute, match=f"histogram: {text}"):
        frame.select(tg.histogram("x", **params))
    with pytest.raises(Compute, match=f"histogram: {text}"):
        frame.with_columns(g=1).group_by("g").agg(tg.histogram("x", **params))


def test_min_max_of_text_is_an_error() -> None:
    with pytest.raises(Compute, match="min_max: column `x`: its type is str"):
        pl.DataFrame({"x": ["a"]}).select(tg.min_max("x"))


# --- plots -------------------------------------------------------------------------------------


def test_plot_of_columns_and_of_results(df: pl.DataFrame) -> None:
    pytest.importorskip("altair")
    result = df.select(tg.histogram("a", 5))
    charts = [
        tg.plot.histogram(df, "a", bins=5),
        tg.plot.histogram(df.lazy(), "a", bins=5),
        tg.plot.histogram(df["a"], bins=5),
        tg.plot.histogram(result),
        tg.plot.histogram(result["a"]),
        tg.plot.histogram(result.explode("a"), "a"),
        tg.plot.histogram(result.explode("a").unnest("a"), title="a"),
    ]
    dicts = [chart.to_dict() for chart in charts]
    assert all(d == dicts[0] for d in dicts)
    assert dicts[0]["data"]["values"] == result["a"][0].to_list()
    assert dicts[0]["encoding"]["x"]["title"] == "a"
    weighted = tg.plot.histogram(df, "a", weights="w", density=True).to_dict()
    assert weighted["encoding"]["y"]["field"] == "density"
    for bad, text in [
        (lambda: tg.plot.histogram(df), "which of a, b"),
        (lambda: tg.plot.histogram(df, "nope"), "'nope' is not one of a, b"),
        (lambda: tg.plot.histogram(result, bins=7), "already computed: bins"),
        (lambda: tg.plot.histogram(pl.concat([result, result])), "2 histograms; one can be drawn"),
    ]:
        with pytest.raises(ValueError, match=text):
            bad()
    with pytest.raises(TypeError, match="not dict"):
        tg.plot.histogram({"x": [1]})  # type: ignore[arg-type]


def test_plot_without_altair_says_what_to_install(df: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(ImportError, match="pip install altair"):
        tg.plot.histogram(df, "a")

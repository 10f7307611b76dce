"""Histograms of temporal columns: edges of the column's type, counts as by comparing the values themselves."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

DAY = 86_400 * 10**9
TYPES: list[tuple[Any, int, int]] = [
    (pl.Date, -200, 20_000),
    (pl.Datetime("ms"), -(10**12), 10**12),
    (pl.Datetime("us", "Europe/Vienna"), 10**15, 2 * 10**15),
    (pl.Datetime("ns"), 17 * 10**17, 17 * 10**17 + 3_000),
    (pl.Datetime("ns", "UTC"), -9 * 10**18, 9 * 10**18),
    (pl.Duration("ns"), -(10**6), 10**6),
    (pl.Duration("ms"), 0, 7),
    (pl.Time, 0, DAY - 1),
]


def column(dtype: Any, low: int, high: int, seed: int) -> pl.Series:
    values = np.random.default_rng(seed).integers(low, high, 500, endpoint=True).tolist()
    physical = pl.Int32 if dtype == pl.Date else pl.Int64
    return pl.Series("x", [None, *values], dtype=physical).cast(dtype)


@pytest.mark.parametrize(("dtype", "low", "high"), TYPES, ids=str)
def test_counts_are_those_of_comparing_the_values(dtype: Any, low: int, high: int) -> None:
    """Equal bins: their edges are the exact ones in whole numbers, moved up to the unit."""
    x = column(dtype, low, high, 3)
    for bins in (1, 7, 10, 100):
        lf = x.to_frame().lazy().select(tg.histogram("x", bins))
        assert lf.collect_schema() == lf.collect().schema
        frame = lf.collect().explode("x").unnest("x")
        assert frame.schema["lower"] == frame.schema["upper"] == x.dtype
        first, last = int(x.to_physical().min()), int(x.to_physical().max())  # type: ignore[arg-type]
        edges = [-((-first * bins - i * (last - first)) // bins) for i in range(bins + 1)]
        assert [*frame["lower"].to_physical(), int(frame["upper"].to_physical()[-1])] == edges
        values = [v for v in x.to_physical().to_list() if v is not None]
        for i, count in enumerate(frame["count"].to_list()):
            end = edges[i + 1] + (i == bins - 1)
            assert count == sum(edges[i] <= v < end for v in values)


@pytest.mark.parametrize(("dtype", "low", "high"), TYPES, ids=str)
def test_edges_are_values_of_the_column(dtype: Any, low: int, high: int) -> None:
    """Given edges come back as they are, a Series to the nanosecond, and hold what lies in [lower, upper)."""
    x = column(dtype, low, high, 5)
    edges = x.drop_nulls().sort()[::50]
    frame = x.to_frame().select(tg.histogram("x", edges).explode()).unnest("x")
    assert frame["lower"].to_list() == edges[:-1].to_list()
    for i, (lower, upper, count) in enumerate(frame.with_columns(pl.col("lower", "upper").to_physical()).rows()):
        inside = x.to_physical().is_between(lower, upper, closed="both" if i == frame.height - 1 else "left")
        assert count == inside.sum()
    same = (
        x.to_frame().select(tg.histogram("x", bins=4, range=pl.concat([edges[:1], edges[-1:]])).explode()).unnest("x")
    )
    assert (same["lower"][0], same["upper"][-1]) == (edges[0], edges[-1])
    assert same["count"].sum() == frame["count"].sum()


def test_python_values_weights_density_and_two_columns() -> None:
    df = pl.DataFrame(
        {
            "d": [date(2026, 1, 3), date(2026, 1, 31), date(2026, 2, 1), None],
            "w": [1.0, 2.0, 4.0, 8.0],
            "y": [0, 1, 1, 1],
        }
    )
    months = [date(2026, 1, 1), date(2026, 2, 1), date(2026, 3, 1)]
    assert df.select(tg.histogram("d", months, weights="w").explode()).unnest("d")["weight"].to_list() == [3.0, 4.0]
    density = df.select(tg.histogram("d", months, density=True).explode()).unnest("d")["density"].to_list()
    assert density == pytest.approx([2 / 3 / 31, 1 / 3 / 28])
    cells = df.select(tg.histogram2d("d", "y", (months, 2), density=True).explode()).unnest("d")
    assert cells["x_lower"].to_list() == [months[0]] * 2 + [months[1]] * 2
    assert cells["density"].to_list() == pytest.approx([1 / 3 / 31 / 0.5, 1 / 3 / 31 / 0.5, 0.0, 1 / 3 / 28 / 0.5])
    # Threads and groups give the same, and no values have the range 0 to 1.
    assert df.group_by("y", maintain_order=True).agg(tg.histogram("d", months))["d"].list.eval(
        pl.element().struct.field("count")
    ).to_list() == [[1, 0], [1, 1]]
    empty = df.head(0).select(tg.histogram("d", 1).explode()).unnest("d")
    assert empty.rows() == [(date(1970, 1, 1), date(1970, 1, 2), 0)]
    zone = timezone(timedelta(hours=2))
    when = pl.DataFrame({"t": [datetime(2026, 1, 1, 12, tzinfo=zone)]}, schema={"t": pl.Datetime("ms", "UTC")})
    ends = (datetime(2026, 1, 1, 12, tzinfo=zone), datetime(2026, 1, 1, 13, tzinfo=zone))
    got = when.select(tg.histogram("t", 1, range=ends).explode()).unnest("t")
    assert got.row(0) == (*ends, 1)
    clock = pl.DataFrame({"t": [time(9), time(10, 30)]}).select(
        tg.histogram("t", [time(9), time(10), time(11)]).explode()
    )
    assert clock.unnest("t")["count"].to_list() == [1, 1]


@pytest.mark.parametrize(
    ("dtype", "params", "text"),
    [
        (
            pl.Date,
            {"range": (0, 5)},
            "column `x`: parameter `range`: its type is date, and edges are dates, not numbers",
        ),
        (pl.Date, {"bins": [0, 5]}, "column `x`: parameter `bins`: its type is date, and edges are dates, not numbers"),
        (
            pl.Float64,
            {"range": (date(2026, 1, 1), date(2026, 1, 2))},
            "parameter `range`: its type is f64, and edges are",
        ),
        (pl.Datetime("ms"), {"range": (time(1), time(2))}, "parameter `range`: .* not time"),
        (
            pl.Datetime("ms"),
            {"bins": [datetime(2026, 1, 1, tzinfo=timezone.utc)] * 2},
            "not a datetime with a time zone",
        ),
        (pl.Datetime("ms", "UTC"), {"bins": [datetime(2026, 1, 1)] * 2}, "not a datetime without a time zone"),
        (pl.Duration("ms"), {"bins": [timedelta(0), timedelta(microseconds=1)]}, "edge 1 is finer than its type"),
        (pl.Date, {"range": (date(2026, 1, 2), date(2026, 1, 1))}, "edges must ascend, and edge 1 lies before edge 0"),
    ],
)
def test_bad_edges_are_told_when_the_query_is_planned(dtype: Any, params: dict[str, Any], text: str) -> None:
    lf = pl.LazyFrame({"x": []}, schema={"x": dtype}).select(tg.histogram("x", **params))
    with pytest.raises(pl.exceptions.PolarsError, match=text):
        lf.collect_schema()
    with pytest.raises(ValueError, match="parameter `bins`: 1 edges; there must be 2"):
        tg.histogram("x", [date(2026, 1, 1)])


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (0, pl.Time),
        (86_400 * 10**9 - 1, pl.Time),
        (2**31 - 1, pl.Date),
        (-(2**31), pl.Date),
        (2**63 - 1, pl.Duration("us")),
        (-(2**63), pl.Duration("ns")),
    ],
)
def test_edges_stay_inside_their_type(value: int, dtype: Any) -> None:
    """Proves that the only value of a column is in a bin whose edges there are, at either end of its type."""
    physical = pl.Int32 if dtype == pl.Date else pl.Int64
    df = pl.DataFrame({"x": pl.Series([value], dtype=physical).cast(dtype)})
    found = df.select(tg.histogram("x", 2).alias("bins").explode()).unnest("bins")
    assert found.null_count().row(0) == (0, 0, 0)
    assert found["count"].sum() == 1

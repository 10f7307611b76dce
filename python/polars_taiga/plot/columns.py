"""Pictures of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_taiga._names import by_name
from polars_taiga.plot import _chart, _rows
from polars_taiga.statistics import histogram as _histogram
from polars_taiga.statistics import min_max

if TYPE_CHECKING:
    from altair import Chart, ConcatChart

__all__ = ["histogram"]

# What groups and histograms are called here: a column may have any name.
_GROUP, _BINS = "series", "bins"

_HEIGHTS = ("count", "weight", "density")
_COLUMNS = 24


def _is_bins(dtype: pl.DataType) -> bool:
    """Whether it is the struct of a bin."""
    if not isinstance(dtype, pl.Struct):
        return False
    names = [field.name for field in dtype.fields]
    return names[:2] == ["lower", "upper"] and len(names) == 3 and names[2] in _HEIGHTS


def _is_result(dtype: pl.DataType) -> bool:
    """Whether it is what `tg.histogram` gives, as a list or exploded."""
    return _is_bins(dtype) or (isinstance(dtype, pl.List) and _is_bins(dtype.inner))  # type: ignore[arg-type]


def _frame(data: object) -> pl.DataFrame:
    if isinstance(data, pl.DataFrame):
        return data
    if isinstance(data, pl.LazyFrame):
        return data.collect()
    if isinstance(data, pl.Series):
        return data.to_frame(data.name or "value")
    msg = f"a frame or a series can be drawn, not {type(data).__name__}"
    raise TypeError(msg)


def histogram(
    data: pl.DataFrame | pl.LazyFrame | pl.Series,
    column: str | Sequence[str] | None = None,
    *,
    by: str | None = None,
    title: str | None = None,
    **params: Any,
) -> Chart | ConcatChart:
    """Draw a histogram: of columns, of groups, or one that `tg.histogram` has computed.

    Only the bins get into the chart, never the rows: for each column and group as many as `bins` says, and one more.

    Parameters
    ----------
    data
        A frame with columns of numbers or with results of `tg.histogram`, a series of either, or a
        frame of bins with the columns `lower`, `upper` and `count`, `weight` or `density` (a result
        that was exploded and unnested). A result has one row, or with `by` one row for each group.
    column
        The column of the frame, or a list of columns, each in a panel of its own (24 at most); not needed where
        there is only one.
    by
        A column of groups, 10 at most: their histograms over the same bins in different colours.
    title
        What the horizontal axis is called; default the column's name.
    **params
        For columns of values the parameters of `tg.histogram`: `bins`, `range`, `weights`,
        `density` (of groups of different size, their `density` compares).

    Returns
    -------
    altair.Chart
        Bars, or steps for groups; of several columns an `altair.ConcatChart`.

    Raises
    ------
    ImportError
        Without Altair.
    TypeError, ValueError
        For data that can't be drawn, a column that isn't there, more groups or columns than can be drawn, and
        parameters beside a result.
    polars.exceptions.ComputeError
        As `tg.histogram`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": [1, 2, 2, 3], "z": [0.5, 1.5, 3.0, 9.0], "g": ["a", "b", "a", "b"]})
    >>> chart = tg.plot.histogram(df, "x", bins=3)
    >>> tg.plot.histogram(pl.Series("x", [1.0, 2.0, 4.0]), density=True).to_dict()["mark"]["type"]
    'bar'
    >>> tg.plot.histogram(df, "x", by="g", bins=2).to_dict()["mark"]["type"]
    'area'
    >>> len(tg.plot.histogram(df, ["x", "z"]).to_dict()["concat"])
    2
    """
    altair = _chart.altair()
    data = _frame(data)
    if by is not None:
        _chart.choose(data.columns, by, "by")
    if column is None or isinstance(column, str):
        one: Chart = _one(data, column, by, title, params)
        return one
    names = [_chart.choose(data.columns, name) for name in column]
    if not names or len(names) > _COLUMNS:
        msg = f"parameter `column`: {len(names)} columns; 1 to {_COLUMNS} can be drawn"
        raise ValueError(msg)
    panels = [_one(data, name, by, title, params).properties(width=240, height=160) for name in names]
    several: ConcatChart = altair.concat(*panels, columns=3)
    return several


def _one(data: pl.DataFrame, column: str | None, by: str | None, title: str | None, params: dict[str, Any]) -> Any:
    """Draw one column."""
    others = [name for name in data.columns if name != by]
    groups = [] if by is None else [data[by].alias(_GROUP)]
    if column is None and [*others[:2], *others[2:3]] == ["lower", "upper", *others[2:3]]:
        bins, name, computed = pl.DataFrame([*groups, *(data[other] for other in others)]), "", True
    else:
        name = _chart.choose(others, column)
        computed = _is_result(data.schema[name])
        if computed:
            result = pl.DataFrame([*groups, data[name].alias(_BINS)])
        else:
            if isinstance(params.get("weights"), str):
                params = {**params, "weights": _rows.of_frame(params["weights"], "weights")}
            # Weights may be any expression over the frame.
            drawn = by_name(name)
            result = data.select(_made(drawn, params)) if by is None else _of_groups(data, drawn, by, params)
        if isinstance(result.schema[_BINS], pl.List):
            if by is None and result.height != 1:
                msg = f"column `{name}`: {result.height} histograms; one can be drawn, or with `by` one for each group"
                raise ValueError(msg)
            result = result.explode(_BINS)
        bins = result.unnest(_BINS)
    if computed and params:
        msg = f"the histogram is already computed: {', '.join(params)} can't be changed"
        raise ValueError(msg)
    found = [name for name in bins.columns if name not in ("lower", "upper", *(() if by is None else (_GROUP,)))]
    height = found[0] if len(found) == 1 else ""
    if height not in _HEIGHTS or "lower" not in bins.columns:
        msg = f"bins have the columns lower, upper and one of {', '.join(_HEIGHTS)}, not {', '.join(bins.columns)}"
        raise ValueError(msg)
    name = name if title is None else title
    bins, kind = _drawable(bins)
    if by is None:
        return _chart.finish(_bars(bins, height, name, kind), f"Histogram of {name}" if name else "Histogram")
    return _chart.finish(_outlines(bins, height, name, by, kind), f"Histogram of {name} by {by}")


def _made(column: pl.Expr, params: dict[str, Any]) -> pl.Expr:
    """The histogram of a column, under a name of ours."""
    return _histogram(column, **params).alias(_BINS)


def _of_groups(data: pl.DataFrame, column: pl.Expr, by: str, params: dict[str, Any]) -> pl.DataFrame:
    """A histogram for each group, over the same bins: those of all rows unless parameters say which."""
    asked = params.get("range")
    is_free = asked is None or (not isinstance(asked, pl.Series) and asked in ((0, 0), [0, 0]))
    if isinstance(params.get("bins"), int | None) and is_free:
        ends = data.select(min_max(column).alias(_BINS)).to_series().struct.unnest()
        if ends["min"].dtype.is_temporal() and not ends["min"].null_count():
            params = {**params, "range": pl.concat([ends["min"], ends["max"].alias("min")])}
        elif not ends["min"].null_count():
            low, high = ends.select(pl.all().cast(pl.Float64)).row(0)
            params = {**params, "range": (low - 1, high + 1) if low == high else (low, high)}
    return data.group_by(by_name(by).alias(_GROUP), maintain_order=True).agg(_made(column, params))


def _drawable(bins: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Edges as Vega reads them, and their kind: dates and datetimes as milliseconds; durations and times in seconds."""
    dtype, edges = bins.schema["lower"], pl.col("lower", "upper")
    if not dtype.is_temporal():
        return bins, "Q"
    if isinstance(dtype, pl.Datetime):
        # What the clock of the zone shows.
        edges = edges.dt.replace_time_zone(None)
    if isinstance(dtype, pl.Datetime | pl.Date):
        return bins.with_columns(edges.cast(pl.Datetime("ms")).to_physical()), "T"
    return bins.with_columns(edges.cast(pl.Duration("us")).to_physical() / 1e6), "Q"


def _bars(bins: pl.DataFrame, height: str, name: str, kind: str) -> Any:
    altair = _chart.altair()
    return (
        altair.Chart(altair.Data(values=bins.to_dicts()))
        .mark_bar()
        .encode(
            x=altair.X(f"lower:{kind}", bin="binned", title=name, **_axis(kind)),
            x2=f"upper:{kind}" if kind == "Q" else "upper",
            y=altair.Y(f"{height}:Q", title=height),
            tooltip=[f"lower:{kind}", f"upper:{kind}", f"{height}:Q"],
        )
    )


def _axis(kind: str) -> dict[str, Any]:
    """The scale of an axis: times as they stand in the data, whatever the zone of who looks at the chart."""
    return {"scale": _chart.altair().Scale(type="utc")} if kind == "T" else {}


def _outlines(bins: pl.DataFrame, height: str, name: str, by: str, kind: str) -> Any:
    """Draw the bins of groups as steps: at each lower edge the bin's height, at the last upper edge the last's."""
    altair = _chart.altair()
    bins = bins.with_columns(pl.col(_GROUP).cast(pl.String).fill_null("null"))
    groups = sorted(bins[_GROUP].unique().to_list())
    _chart.few("groups", len(groups), f"filter `{by}`")
    ends = bins.group_by(_GROUP, maintain_order=True).agg(pl.col("upper").last(), pl.col(height).last())
    columns = [_GROUP, "x", height]
    steps = pl.concat([bins.rename({"lower": "x"}).select(columns), ends.rename({"upper": "x"}).select(columns)]).sort(
        _GROUP, "x", maintain_order=True
    )
    return (
        altair.Chart(_chart.data(steps))
        .mark_area(interpolate="step-after", line=True, fillOpacity=0.12)
        .encode(
            x=altair.X(f"x:{kind}", title=name, **_axis(kind)),
            y=altair.Y(f"{height}:Q", title=height, stack=None),
            color=_chart.colours(groups, by),
            tooltip=["series:N", f"x:{kind}", f"{height}:Q"],
        )
    )

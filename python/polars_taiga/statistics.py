"""Statistics as expressions: the smallest and the largest value, and histograms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta, timezone
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from polars_taiga import _fit, _plugin, _taiga
from polars_taiga.device import checked_several

if TYPE_CHECKING:
    from polars_taiga._plugin import IntoColumn, IntoColumns

__all__ = ["histogram", "histogram2d", "min_max"]

Edge: TypeAlias = float | date | datetime | time | timedelta
"""An edge: a number, or of a temporal column a value of its type."""

Range: TypeAlias = tuple[Edge, Edge] | pl.Series
"""The outer edges of the bins."""

Edges: TypeAlias = Sequence[Edge] | pl.Series
"""All edges of the bins."""

Bins: TypeAlias = int | Edges
"""How many bins, or all their edges."""

_Axis: TypeAlias = tuple[int | None, tuple[float, float] | None, list[float] | None]

_Moment: TypeAlias = tuple[str, int, int]


def _integer(name: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Integral):
        msg = f"parameter `{name}`: {value!r} is not an integer"
        raise TypeError(msg)
    # What does not fit into 64 bits is out of any bounds.
    return max(-(2**63), min(int(value), 2**63 - 1))


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        msg = f"parameter `{name}`: {value!r} is not a number"
        raise TypeError(msg)
    return float(value)


def _values(name: str, values: object, what: str) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        msg = f"parameter `{name}`: {values!r} is not {what}"
        raise TypeError(msg)
    return list(values)


def _pair(name: str, value: object, what: str) -> list[Any]:
    values = _values(name, value, what)
    if len(values) != 2:
        msg = f"parameter `{name}`: {value!r} is not {what}"
        raise ValueError(msg)
    return values


def _moment(value: object) -> _Moment | None:
    """A date, time or duration as the plugin reads it (src/plugin/statistics/moments.rs); none for anything else."""
    if isinstance(value, datetime):
        kind = "datetime" if value.utcoffset() is None else "instant"
        zone = timezone.utc
        since = (value.replace(tzinfo=zone) if kind == "datetime" else value) - datetime(1970, 1, 1, tzinfo=zone)
    elif isinstance(value, date):
        kind, since = "date", value - date(1970, 1, 1)
    elif isinstance(value, time):
        kind = "time"
        since = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
    elif isinstance(value, timedelta):
        kind, since = "duration", value
    else:
        return None
    return kind, since.days * 86_400 + since.seconds, since.microseconds * 1_000


def _moments_of(series: pl.Series) -> list[_Moment] | None:
    """The same of a temporal column, to the nanosecond; none for any other."""
    dtype: Any = series.dtype
    if dtype not in (pl.Date, pl.Datetime, pl.Time, pl.Duration) or series.null_count():
        return None
    a_second = {"ms": 10**3, "us": 10**6}.get(getattr(dtype, "time_unit", "ns"), 10**9)
    kinds = {pl.Date: "date", pl.Time: "time", pl.Duration: "duration"}
    kind = next((name for own, name in kinds.items() if dtype == own), None)
    kind = kind or ("datetime" if dtype.time_zone is None else "instant")
    values = series.to_physical().to_list()
    if dtype == pl.Date:
        return [(kind, value * 86_400, 0) for value in values]
    return [(kind, value // a_second, value % a_second * (10**9 // a_second)) for value in values]


def _edges(name: str, values: object, what: str) -> tuple[list[float] | None, list[_Moment] | None]:
    """Edges as numbers or as moments: all of them are one or the other."""
    if isinstance(values, pl.Series) and (of_series := _moments_of(values)) is not None:
        return None, of_series
    items = _values(name, values, what)
    moments = [moment for moment in map(_moment, items) if moment is not None]
    if not moments:
        return [_number(name, item) for item in items], None
    if len(moments) < len(items) or len({kind for kind, _, _ in moments}) > 1:
        msg = f"parameter `{name}`: {items!r} are of several types"
        raise TypeError(msg)
    return None, moments


def _axis(bins: object, range: object, of: str = "") -> tuple[_Axis, dict[str, object] | None]:
    """The bins of one column, in plain types, which the engine checks; and edges that are no numbers.

    `of`: which of two columns.
    """
    if bins is None or isinstance(bins, str) or not isinstance(bins, Iterable):
        count, edges, moments, name = _integer("bins", bins), None, None, "range"
    else:
        count, name = None, "bins"
        edges, moments = _edges("bins", bins, "an integer or a list of edges")
    outer: list[float] | None = None
    if range is not None:
        two = _pair("range", range, "a pair of edges")
        outer, of_range = _edges("range", range if isinstance(range, pl.Series) else two, "a pair of edges")
        if name == "bins":
            msg = f"parameter `bins{of}`: a list of edges says all of the bins: leave out `range`"
            raise ValueError(msg)
        moments = of_range
    if moments is not None and name == "bins" and not 2 <= len(moments) <= _MOST_EDGES:
        msg = f"parameter `bins{of}`: {len(moments)} edges; there must be 2 to {_MOST_EDGES}"
        raise ValueError(msg)
    if moments is not None and edges is None and name == "bins":
        count = len(moments) - 1
    said: dict[str, object] | None = None if moments is None else {"parameter": name + of, "values": moments}
    return (count, None if outer is None else (outer[0], outer[1]), edges), said


_MOST_EDGES = 1_000_001


def _params(axis: _Axis) -> dict[str, object]:
    return dict(zip(("bins", "range", "edges"), axis, strict=True))


def _density(value: object) -> bool:
    if not isinstance(value, bool):
        msg = f"parameter `density`: {value!r} is not True or False"
        raise TypeError(msg)
    return value


def _name(column: pl.Expr) -> str | None:
    """The column's name for errors, where it is one column: inside groups Polars does not pass it on."""
    return next(iter(_plugin.names_of([column])), None)


def _together(first: pl.Expr, *rest: pl.Expr) -> list[pl.Expr]:
    """The columns of one call as one struct, with which groups are worked on in parallel.

    A first column that stands for several can't be packed, since each gets a call of its own.
    """
    if first.meta.has_multiple_outputs():
        return [first, *rest]
    return [pl.struct([first, *(pl.struct(expr).alias(f"__taiga_{i}") for i, expr in enumerate(rest))])]


def _columns(function: str, expr: IntoColumns) -> pl.Expr:
    """One column or several as the one expression that Polars expands; data is none."""
    return _plugin.as_expr(expr, "a column") if _plugin._is_data(expr) else _fit.each(function, "a column", expr)


def min_max(expr: IntoColumns, *, device: str = "auto") -> pl.Expr:
    """The smallest and the largest value in one pass: `Struct{min, max}` of the column's own type.

    Null and NaN are ignored; where nothing is left, both are null. A zero has no sign.

    Parameters
    ----------
    expr
        A column of integers, floats, Boolean, Decimal or a temporal type; several by a selector or a list of names.
    device
        Where it is computed: `"cpu"`, `"cuda"` or `"cuda:N"` (an NVIDIA GPU, an error where there is
        none), `"cuda:0,1"` or `"cuda:all"` (several, each with a share of the rows), or `"auto"`, the default, which
        is the CPU: a column has to go there first. The result is the same, to the last bit.

    Raises
    ------
    polars.exceptions.ComputeError
        When the query is planned: for other types, naming the column; when it runs: for a device that is not there.
    KeyboardInterrupt
        After Ctrl-C, as in `fit_gbdt`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> pl.DataFrame({"x": [2, 7, None]}).select(tg.min_max("x")).item()
    {'min': 2, 'max': 7}
    """
    column = _columns("min_max", expr)
    return _plugin.scalar("min_max", [column], {"name": _name(column), "device": checked_several(device)})


def histogram(
    expr: IntoColumns,
    bins: Bins | None = None,
    *,
    range: Range | None = None,
    weights: IntoColumn | None = None,
    density: bool = False,
    device: str = "auto",
) -> pl.Expr:
    """A histogram, equal to `numpy.histogram`: one `List(Struct{lower, upper, count})`.

    A bin is [lower, upper), the rows with `lower <= x < upper`; the last one holds its upper edge, too. (Those of
    `quantize` are (lower, upper].) Null and NaN are ignored. The expression sits in `select`, `group_by().agg()` (a
    histogram for each group) and `over`; `.explode()` and `.struct.unnest()`, or `unnest`, make rows and columns of it.

    Parameters
    ----------
    expr
        A column of integers, floats, Boolean, Decimal or a temporal type; several by a selector or a list of names: a
        histogram for each, under its name.
    bins
        How many bins of equal width, 1 to 1,000,000; default 10. Or all edges, as NumPy takes them: a list (an array, a
        Series), ascending, at least two; equal and infinite ones are allowed, and there is no `range` then.
    range
        The outer edges, finite. Default, and `(0, 0)`: the smallest and the largest value. Values
        outside are ignored. Equal ends are moved apart by 1 each (NumPy: by a half). No values
        have the range 0 to 1.
    weights
        A weight for each row, finite, to be summed in place of counting rows: the third field is
        then `weight`, a Float64. Sums are taken in Float64 in NumPy's order, so they are equal to
        the last bit with bins of equal width; with edges NumPy's own sums are rounded more.
    density
        Divide by the bin's width and by the sum over all bins: the third field is then `density`,
        whose integral is 1 (NaN where nothing was counted).
    device
        As in `min_max`.

    Raises
    ------
    TypeError
        For a parameter of the wrong type.
    ValueError
        For a parameter that can't have its value.
    polars.exceptions.ComputeError
        When the query is planned: for a column of another type. When it runs: for one with infinite
        values and neither `range` nor edges, or in a range so narrow that rounding leaves bins
        without width; for weights that are null, NaN or infinite; and where the process can't have the memory for the
        bins.
    KeyboardInterrupt
        After Ctrl-C, as in `fit_gbdt`.

    Notes
    -----
    As in NumPy, the edges of a Float32 column are rounded to Float32, and other types are compared
    as Float64. Counts and edges are the same bytes with any number of threads and any chunks.

    A temporal column (Date, Datetime with its unit and zone, Duration, Time) has edges of its own type, and `range` and
    edges in `bins` are such values: `datetime.date`, `datetime` (with a time zone where the column has one),
    `timedelta`, `time`, or a Series. All is counted in whole units of the column, exactly: an edge that lies between
    two units is moved up to the next one, so each row is in the bin where it was, and bins that are narrower than a
    unit may be empty, of no width. `density` is one by the column's unit (days for a Date).

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": [0.0, 1.0, 1.5, 2.0, None]})
    >>> df.select(tg.histogram("x", bins=2)).item().to_list()
    [{'lower': 0.0, 'upper': 1.0, 'count': 1}, {'lower': 1.0, 'upper': 2.0, 'count': 3}]
    >>> df.select(tg.histogram("x", bins=[0, 2, 10]).explode()).unnest("x")["count"].to_list()
    [3, 1]
    >>> from datetime import date
    >>> days = pl.DataFrame({"day": [date(2026, 1, 3), date(2026, 1, 31), date(2026, 2, 1)]})
    >>> months = [date(2026, 1, 1), date(2026, 2, 1), date(2026, 3, 1)]
    >>> days.select(tg.histogram("day", months).explode()).unnest("day")["count"].to_list()
    [2, 1]
    """
    axis, moments = _axis(bins, range)
    _taiga.check_histogram_params(axis)
    column = _columns("histogram", expr)
    args = [column] if weights is None else _together(column, _plugin.as_expr(weights, "weights"))
    params = {"axis": _params(axis), "density": _density(density)}
    kwargs = {
        "params": params,
        "moments": moments,
        "weighted": weights is not None,
        "name": _name(column),
        "device": checked_several(device),
    }
    return _plugin.scalar("histogram", args, kwargs)


def histogram2d(
    x: IntoColumn,
    y: IntoColumn,
    bins: int | tuple[Bins | None, Bins | None] | None = None,
    *,
    range: tuple[Range | None, Range | None] | None = None,
    weights: IntoColumn | None = None,
    density: bool = False,
    device: str = "auto",
) -> pl.Expr:
    """A histogram of two columns, equal to `numpy.histogram2d`: one list with a struct for each cell.

    `List(Struct{x_lower, x_upper, y_lower, y_upper, count})`, all cells of the first bin of x before
    those of the second: `counts.reshape(nx, ny)` is NumPy's array. A row counts where neither x nor
    y is null or NaN. The expression is named after x.

    Parameters
    ----------
    x, y
        Columns as in `histogram`, one each.
    bins
        How many bins of equal width for both, or a pair, for x and for y, each a number or a list of edges;
        default 10. At most 4,000,000 cells.
    range
        `((x_first, x_last), (y_first, y_last))`; None in place of a pair, and `(0, 0)`, mean the
        data's own. The rules are those of `histogram`, for temporal columns too.
    weights
        As in `histogram`: the last field is then `weight`. Sums are taken inside blocks of 65,536
        rows and then over them, NumPy's over all rows in one go.
    density
        Divide by the cell's area and by the sum over all cells: the last field is then `density`.
    device
        As in `min_max`.

    Raises
    ------
    TypeError, ValueError, polars.exceptions.ComputeError, KeyboardInterrupt
        As `histogram`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": [0.0, 1.0, 2.0], "y": [5, 6, 7]})
    >>> df.select(tg.histogram2d("x", "y", bins=(2, 1)).explode()).unnest("x").rows()
    [(0.0, 1.0, 5.0, 7.0, 1), (1.0, 2.0, 5.0, 7.0, 2)]
    """
    all_ranges = [None, None] if range is None else _pair("range", range, "a pair of pairs of edges")
    several = isinstance(bins, tuple | list)
    all_bins = _pair("bins", bins, "an integer or a pair, of x and of y") if several else [bins, bins]
    pairs = [_axis(*axis) for axis in zip(all_bins, all_ranges, (" of x", " of y"), strict=True)]
    axes = [axis for axis, _ in pairs]
    _taiga.check_histogram_params(*axes)
    columns = [_plugin.as_expr(x, "x"), _plugin.as_expr(y, "y")]
    if weights is not None:
        columns.append(_plugin.as_expr(weights, "weights"))
    for role, column in zip(("x", "y", "weights"), columns, strict=False):
        if column.meta.has_multiple_outputs():
            msg = f"parameter `{role}`: one column, not several"
            raise ValueError(msg)
    params = {"x": _params(axes[0]), "y": _params(axes[1]), "density": _density(density)}
    moments = [moments for _, moments in pairs]
    kwargs = {"params": params, "moments": moments, "weighted": weights is not None, "device": checked_several(device)}
    return _plugin.scalar("histogram2d", _together(*columns), kwargs)

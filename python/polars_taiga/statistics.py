"""Statistics as expressions: the smallest and the largest value, and histograms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from polars_taiga import _plugin, _taiga
from polars_taiga.device import checked

if TYPE_CHECKING:
    from polars_taiga._plugin import IntoColumn

__all__ = ["histogram", "histogram2d", "min_max"]

Range: TypeAlias = tuple[float, float]
"""The outer edges of the bins."""

Edges: TypeAlias = Sequence[float] | pl.Series
"""All edges of the bins."""

_Axis: TypeAlias = tuple[int | None, Range | None, list[float] | None]


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


def _axis(bins: object, range: object, edges: object) -> _Axis:
    """The bins of one column, in plain types; the engine checks what they say."""
    first, last = (None, None) if range is None else _pair("range", range, "a pair of numbers")
    return (
        _integer("bins", bins),
        None if range is None else (_number("range", first), _number("range", last)),
        None if edges is None else [_number("edges", edge) for edge in _values("edges", edges, "a list of numbers")],
    )


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


def min_max(expr: IntoColumn, *, device: str = "auto") -> pl.Expr:
    """The smallest and the largest value in one pass: `Struct{min, max}` of the column's own type.

    Null and NaN are ignored; where nothing is left, both are null. A zero has no sign.

    Parameters
    ----------
    expr
        A column of integers, floats, Boolean, Decimal or a temporal type; several by a selector.
    device
        Where it is computed: `"cpu"`, `"cuda"` or `"cuda:N"` (an NVIDIA GPU, an error where there is
        none), or `"auto"`, the default, which is the CPU: a column has to go there first. The result is the same, to
        the last bit.

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
    column = _plugin.as_expr(expr, "a column")
    return _plugin.scalar("min_max", [column], {"name": _name(column), "device": checked(device)})


def histogram(
    expr: IntoColumn,
    bins: int | None = None,
    *,
    range: Range | None = None,
    edges: Edges | None = None,
    weights: IntoColumn | None = None,
    density: bool = False,
    device: str = "auto",
) -> pl.Expr:
    """A histogram, equal to `numpy.histogram`: one `List(Struct{lower, upper, count})`.

    A bin holds the rows with `lower <= x < upper`; the last one holds its upper edge, too. Null and
    NaN are ignored. The expression sits in `select`, `group_by().agg()` (a histogram for each
    group) and `over`; `.explode()` and `.struct.unnest()`, or `unnest`, make rows and columns of it.

    Parameters
    ----------
    expr
        A column of integers, floats, Boolean, Decimal or a temporal type (edges are then in its
        physical unit); several by a selector: a histogram for each, under its name.
    bins
        How many bins of equal width, 1 to 1,000,000; default 10.
    range
        The outer edges, finite. Default, and `(0, 0)`: the smallest and the largest value. Values
        outside are ignored. Equal ends are moved apart by 1 each (NumPy: by a half). No values
        have the range 0 to 1.
    edges
        All edges in place of `bins` and `range`: ascending, at least two. Equal and infinite ones
        are allowed.
    weights
        A weight for each row, finite, to be summed in place of counting rows: the third field is
        then `weight`, a Float64. Sums are taken in Float64 in NumPy's order, so they are equal to
        the last bit with `bins`; with `edges` NumPy's own sums are rounded more.
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
        values and neither `range` nor `edges`, or in a range so narrow that rounding leaves bins
        without width; for weights that are null, NaN or infinite; and where the process can't have the memory for the
        bins.
    KeyboardInterrupt
        After Ctrl-C, as in `fit_gbdt`.

    Notes
    -----
    As in NumPy, the edges of a Float32 column are rounded to Float32, and other types are compared
    as Float64. Counts and edges are the same bytes with any number of threads and any chunks.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": [0.0, 1.0, 1.5, 2.0, None]})
    >>> df.select(tg.histogram("x", bins=2)).item().to_list()
    [{'lower': 0.0, 'upper': 1.0, 'count': 1}, {'lower': 1.0, 'upper': 2.0, 'count': 3}]
    >>> df.select(tg.histogram("x", edges=[0, 2, 10]).explode()).unnest("x")["count"].to_list()
    [3, 1]
    """
    axis = _axis(bins, range, edges)
    _taiga.check_histogram_params(axis)
    column = _plugin.as_expr(expr, "a column")
    args = [column] if weights is None else _together(column, _plugin.as_expr(weights, "weights"))
    params = {"axis": _params(axis), "density": _density(density)}
    kwargs = {"params": params, "weighted": weights is not None, "name": _name(column), "device": checked(device)}
    return _plugin.scalar("histogram", args, kwargs)


def histogram2d(
    x: IntoColumn,
    y: IntoColumn,
    bins: int | tuple[int | None, int | None] | None = None,
    *,
    range: tuple[Range | None, Range | None] | None = None,
    edges: tuple[Edges | None, Edges | None] | None = None,
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
        How many bins of equal width for both, or `(nx, ny)`; default 10. At most 4,000,000 cells.
    range
        `((x_first, x_last), (y_first, y_last))`; None in place of a pair, and `(0, 0)`, mean the
        data's own. The rules are those of `histogram`.
    edges
        `(x_edges, y_edges)` in place of `bins` and `range`; None in place of one leaves that column
        to `bins` and `range`.
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
    all_edges = [None, None] if edges is None else _pair("edges", edges, "a pair of lists of numbers")
    all_ranges = [None, None] if range is None else _pair("range", range, "a pair of pairs of numbers")
    if isinstance(bins, tuple | list):
        all_bins = _pair("bins", bins, "an integer or a pair of integers")
    else:
        # One number is for each column that has no edges of its own.
        all_bins = [bins if own is None else None for own in all_edges]
        if bins is not None and None not in all_edges:
            all_bins = [bins, bins]
    axes = [_axis(*axis) for axis in zip(all_bins, all_ranges, all_edges, strict=True)]
    _taiga.check_histogram_params(*axes)
    columns = [_plugin.as_expr(x, "x"), _plugin.as_expr(y, "y")]
    if weights is not None:
        columns.append(_plugin.as_expr(weights, "weights"))
    for role, column in zip(("x", "y", "weights"), columns, strict=False):
        if column.meta.has_multiple_outputs():
            msg = f"parameter `{role}`: one column, not several"
            raise ValueError(msg)
    params = {"x": _params(axes[0]), "y": _params(axes[1]), "density": _density(density)}
    kwargs = {"params": params, "weighted": weights is not None, "device": checked(device)}
    return _plugin.scalar("histogram2d", _together(*columns), kwargs)

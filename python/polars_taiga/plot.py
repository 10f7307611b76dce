"""Pictures of what the expressions compute, by Altair, which is imported only here and only when used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_taiga.statistics import histogram as _histogram

if TYPE_CHECKING:
    import altair as alt

__all__ = ["histogram"]

_HEIGHTS = ("count", "weight", "density")


def _altair() -> Any:
    try:
        import altair
    except ImportError:
        msg = "tg.plot draws with Altair, which is not installed: pip install altair"
        raise ImportError(msg) from None
    return altair


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


def _choose(names: list[str], column: str | None) -> str:
    if column is None:
        if len(names) == 1:
            return names[0]
        msg = f"parameter `column`: which of {', '.join(names) or 'no columns'}?"
        raise ValueError(msg)
    if column not in names:
        msg = f"parameter `column`: {column!r} is not one of {', '.join(names) or 'no columns'}"
        raise ValueError(msg)
    return column


def histogram(
    data: pl.DataFrame | pl.LazyFrame | pl.Series,
    column: str | None = None,
    *,
    title: str | None = None,
    **params: Any,
) -> alt.Chart:
    """Draw a histogram: of a column, or one that `tg.histogram` has computed.

    Only the bins get into the chart, never the rows.

    Parameters
    ----------
    data
        A frame with a column of numbers or with a result of `tg.histogram`, a series of either, or a
        frame of bins with the columns `lower`, `upper` and `count`, `weight` or `density` (a result
        that was exploded and unnested). A result of one row, please: filter a group first.
    column
        The column of the frame; not needed where there is only one.
    title
        What the horizontal axis is called; default the column's name.
    **params
        For a column of numbers the parameters of `tg.histogram`: `bins`, `range`, `edges`,
        `weights`, `density`.

    Returns
    -------
    altair.Chart
        Show it in a notebook, `save` it, or change it as any chart.

    Raises
    ------
    ImportError
        Without Altair.
    TypeError, ValueError
        For data that can't be drawn, a column that isn't there, and parameters beside a result.
    polars.exceptions.ComputeError
        As `tg.histogram`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> chart = tg.plot.histogram(pl.DataFrame({"x": [1, 2, 2, 3]}), "x", bins=3)
    >>> tg.plot.histogram(pl.Series("x", [1.0, 2.0, 4.0]), density=True).to_dict()["mark"]["type"]
    'bar'
    """
    altair = _altair()
    data = _frame(data)
    if column is None and [*data.columns[:2], *data.columns[2:3]] == ["lower", "upper", *data.columns[2:3]]:
        bins, name, computed = data, "", True
    else:
        name = _choose(data.columns, column)
        computed = _is_result(data.schema[name])
        # Weights may be any expression over the frame.
        result = data.select(name if computed else _histogram(name, **params).alias(name))
        if isinstance(result.schema[name], pl.List):
            if result.height != 1:
                msg = f"column `{name}`: {result.height} histograms; one can be drawn"
                raise ValueError(msg)
            result = result.explode(name)
        bins = result.unnest(name)
    if computed and params:
        msg = f"the histogram is already computed: {', '.join(params)} can't be changed"
        raise ValueError(msg)
    height = bins.columns[2] if bins.width == 3 else ""
    if height not in _HEIGHTS:
        msg = f"bins have the columns lower, upper and one of {', '.join(_HEIGHTS)}, not {', '.join(bins.columns)}"
        raise ValueError(msg)

    chart: alt.Chart = (
        altair.Chart(altair.Data(values=bins.to_dicts()))
        .mark_bar()
        .encode(
            x=altair.X("lower:Q", bin="binned", title=name if title is None else title),
            x2="upper:Q",
            y=altair.Y(f"{height}:Q", title=height),
            tooltip=["lower:Q", "upper:Q", f"{height}:Q"],
        )
    )
    return chart

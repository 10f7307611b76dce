"""Clouds of points, bounded: rows that would lie on each other become one dot."""

from __future__ import annotations

from typing import Any

import polars as pl

from polars_taiga.plot import _chart


def cell_of(column: str, cells: int) -> pl.Expr:
    """The cell, from 0, of each value when the column's range is cut into so many of equal width."""
    low, high = pl.col(column).min(), pl.col(column).max()
    # Halves, so that the difference of any two finite numbers is one.
    place = (pl.col(column) / 2 - low / 2) / (high / 2 - low / 2)
    return (place * cells).fill_nan(0.0).clip(0, cells - 1).floor().cast(pl.UInt32)


def cells(rows: pl.DataFrame, nx: int, ny: int, colour: str | None = None, by: list[str] | None = None) -> pl.DataFrame:
    """Gather rows into cells by `x` and `y`: the means `x`, `y` and of `colour`, and the number of `rows`.

    A cell with one row is that row. A column `x` of texts is its own cells. With `by`, cells of each group apart.
    """
    texts = rows.schema["x"] == pl.String
    keys = [*(by or []), "x_cell", "y_cell"]
    cut = rows.with_columns(x_cell=pl.col("x") if texts else cell_of("x", nx), y_cell=cell_of("y", ny))
    means = ["y", *([] if colour is None else [colour])]
    found = cut.group_by(keys).agg(
        pl.col("x").first() if texts else pl.col("x").mean(), pl.col(means).mean(), rows=pl.len()
    )
    return found.sort(keys).select(*(by or []), "x", *means, "rows")


def dot_size(dots: pl.DataFrame) -> Any:
    """Let dots grow with their rows; all are small where each is one row."""
    alt = _chart.altair()
    most = dots.select(pl.col("rows").max()).item()
    if most == 1:
        return alt.value(18)
    legend = alt.Legend(values=sorted({1, -(-most // 4), most}), format=",d", symbolOpacity=1)
    return alt.Size(
        "rows:Q", title="rows", scale=alt.Scale(type="sqrt", range=[8, 60], domain=[1, most]), legend=legend
    )

"""Axes of columns of any type, and panels of several classes."""

from __future__ import annotations

from typing import Any

import polars as pl

from polars_taiga._names import unnamed
from polars_taiga.plot import _chart

OTHERS = "(others)"


def is_ordered(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype.is_temporal()


def axis_values(values: pl.Series) -> tuple[pl.Series, str]:
    """A column as an axis draws it, and the kind of axis: numbers, times in milliseconds, or texts."""
    values = unnamed(values)
    if values.dtype in (pl.Date, pl.Datetime):
        return values.cast(pl.Datetime("ms")).to_physical().cast(pl.Float64), "T"
    if is_ordered(values.dtype):
        return values.to_physical().cast(pl.Float64), "Q"
    return values.cast(pl.String), "N"


def frequent(values: pl.Series, most: int) -> tuple[pl.Series, list[str]]:
    """Texts, those that are not among the most frequent made one; and these, in order. Missing values are null."""
    values = unnamed(values)
    counts = values.drop_nulls().value_counts(sort=False)
    counts = counts.sort(["count", "value"], descending=[True, False])
    kept = sorted(counts["value"].head(most).to_list())
    if counts.height <= most:
        return values, kept
    texts = pl.when(pl.col("value").is_in(kept) | pl.col("value").is_null()).then(pl.col("value"))
    return values.to_frame().select(texts.otherwise(pl.lit(OTHERS)).alias("value")).to_series(), [*kept, OTHERS]


def x_of(feature: str, axis: str, categories: list[str]) -> Any:
    alt = _chart.altair()
    if axis == "N":
        return alt.X("x:N", sort=categories, title=feature, axis=alt.Axis(labelAngle=-40, labelLimit=140))
    scale = alt.Scale(type="utc") if axis == "T" else alt.Scale(zero=False, nice=False, padding=6)
    return alt.X(f"x:{axis}", title=feature, scale=scale, axis=alt.Axis(labelOverlap=True))


def panels(chart: Any, drawn: list[str | None], title: str, subtitle: str, categories: list[str]) -> Any:
    """Give the chart its size; of several classes a panel each."""
    alt = _chart.altair()
    width: Any = alt.Step(34) if len(categories) > 12 else 460
    if len(drawn) == 1:
        return _chart.finish(chart, title, subtitle, width=width, height=300)
    chart = chart.properties(width=300, height=200)
    facet = alt.Facet("series:N", title=None, sort=drawn)
    return _chart.finish(chart.facet(facet=facet, columns=2), title, subtitle)

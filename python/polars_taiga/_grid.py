"""The values of a column at which partial dependence is computed."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from polars_taiga._categories import category_series
from polars_taiga._names import unnamed
from polars_taiga._scores import listed

if TYPE_CHECKING:
    from polars_taiga.model import Model

# Not evaluated at run time: a dictionary's values are those of one column.
GridValues: TypeAlias = "int | Sequence[Any] | pl.Series"
"""The points of one column: so many of them, or they themselves."""

Grid: TypeAlias = "GridValues | Mapping[str, GridValues]"
"""The points of one column or of two, of two by name."""

# So many points of a column, and of each of two.
_POINTS = {1: 40, 2: 20}

_UNITS = ("ms", "us", "ns")
_TYPES: dict[str, Any] = {
    "numeric": pl.Float64,
    "date": pl.Date,
    "time": pl.Time,
    **{f"datetime[{unit}]": pl.Datetime(unit) for unit in _UNITS},  # type: ignore[arg-type]
    **{f"duration[{unit}]": pl.Duration(unit) for unit in _UNITS},  # type: ignore[arg-type]
    "list of strings": pl.List(pl.String),
    "list of integers": pl.List(pl.Int64),
    "list of numbers": pl.List(pl.Float64),
}
_LAST_TIME = 86_400 * 10**9 - 1


def type_of(model: Model, feature: str) -> Any:
    """A type that serves as a model's column; of categories the one of those that it knows."""
    known = model._inner.categories(feature)
    if known is not None:
        return category_series(feature, *known).dtype
    return _TYPES.get(model.features[feature], pl.String)


def asked_points(features: list[str], grid: Grid | None) -> dict[str, int | pl.Series | None]:
    """What is asked for of each column: points, so many of them, or nothing."""
    if isinstance(grid, Mapping):
        for name in grid:
            if name not in features:
                msg = f"parameter `grid`: {name!r} is not one of {listed(features)}"
                raise ValueError(msg)
        return {name: _checked(name, grid.get(name)) for name in features}
    if len(features) > 1 and not (grid is None or isinstance(grid, int)):
        msg = f"parameter `grid`: of two columns their values come by name, {{{features[0]!r}: …, {features[1]!r}: …}}"
        raise ValueError(msg)
    return {name: _checked(name, grid) for name in features}


def _checked(name: str, points: object) -> int | pl.Series | None:
    if points is None:
        return None
    if isinstance(points, bool | str | bytes | Mapping | pl.DataFrame):
        msg = f"parameter `grid`: of {name!r} it is a number of points or a list of values, not {points!r:.80}"
        raise TypeError(msg)
    if hasattr(points, "__index__") and not hasattr(points, "__len__"):
        number = int(points.__index__())
        if number < 2:
            msg = f"parameter `grid`: {number} points of {name!r}; it takes 2 at least"
            raise ValueError(msg)
        return number
    if not isinstance(points, pl.Series):
        if not isinstance(points, Iterable):
            msg = f"parameter `grid`: of {name!r} it is a number of points or a list of values, not {points!r:.80}"
            raise TypeError(msg)
        points = _series(name, points)
    if points.is_empty():
        msg = f"parameter `grid`: no values of {name!r}"
        raise ValueError(msg)
    return points.alias(name)


def _series(name: str, values: Iterable[Any]) -> pl.Series:
    """Values of one type; whole numbers among others are as they are."""
    if hasattr(values, "__array__"):
        return pl.Series(name, values)
    items = list(values)
    numbers = [x for x in items if isinstance(x, int | float) and not isinstance(x, bool)]
    if len(numbers) + items.count(None) == len(items) and any(isinstance(x, float) for x in numbers):
        return pl.Series(name, items, dtype=pl.Float64, strict=False)
    try:
        return pl.Series(name, items)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        msg = f"parameter `grid`: the values of {name!r} are not of one type: {str(error).splitlines()[0]}"
        raise ValueError(msg) from None


def is_missing(values: pl.Series) -> pl.Series:
    """Which values a model takes for missing: null and NaN."""
    values = unnamed(values)
    missing: pl.Series = (values.fill_nan(None) if values.dtype.is_float() else values).is_null()
    return missing


def _as_type(feature: str, values: pl.Series, dtype: Any, *, is_number: bool) -> pl.Series:
    """Values that a user gives in the column's type; numbers that it has no place for as they are."""
    values = unnamed(values)
    if values.dtype == dtype:
        return values
    own_number = values.dtype.is_numeric() or values.dtype == pl.Boolean
    if is_number and own_number != (dtype.is_numeric() or dtype == pl.Boolean):
        msg = f"parameter `grid`: the values of {feature!r} are of {values.dtype}; the column is {dtype}"
        raise ValueError(msg)
    try:
        cast: pl.Series = values.cast(dtype)
    except pl.exceptions.PolarsError as error:
        if is_number and own_number:
            return values
        msg = f"parameter `grid`: the values of {feature!r} are of {values.dtype}, not {dtype}: {error}"
        raise ValueError(msg) from None
    if own_number and not cast.cast(values.dtype, strict=False).eq_missing(values).all():
        if is_number:
            return values
        msg = f"parameter `grid`: the values of {feature!r} are of {values.dtype}, not all of them {dtype}"
        raise ValueError(msg)
    return cast


def _evenly(values: pl.Series, points: int) -> pl.Series:
    """Values of a sorted column at so many ranks, from the first to the last."""
    last = len(values) - 1
    kept: pl.Series = values.gather([(2 * i * last + points - 1) // (2 * (points - 1)) for i in range(points)])
    return kept


def _with_missing(values: pl.Series, missing: bool) -> pl.Series:
    return values.gather(pl.Series([*range(len(values)), None], dtype=pl.UInt32)) if missing else values


def data_points(
    model: Model, rows: pl.DataFrame, feature: str, asked: int | pl.Series | None, missing: bool | None, features: int
) -> pl.Series:
    """The points of a column by its values in some rows: each once, in order, a missing one last."""
    column = unnamed(rows[feature])
    is_category = model.features[feature] == "categorical"
    is_list = isinstance(column.dtype, pl.List | pl.Array | pl.Struct)
    if isinstance(asked, pl.Series):
        given = _as_type(feature, asked, column.dtype, is_number=not is_category and not is_list)
        return _with_missing(given, missing is True and not is_missing(given).any()).alias(feature)
    if is_list:
        msg = f"parameter `grid`: {feature!r} has lists: say which, grid=[[…], […]]"
        raise ValueError(msg)
    absent = is_missing(column)
    present = column.filter(~absent)
    if present.dtype.is_float():
        present = present.filter(present.is_finite())
    if present.is_empty():
        msg = f"parameter `grid`: {feature!r} has no values in the data: say which to look at"
        raise ValueError(msg)
    points = asked or _POINTS[features]
    if is_category or not (column.dtype.is_numeric() or column.dtype.is_temporal()):
        found = _categories(present, asked)
    else:
        found = present.unique().sort()
        if len(found) > points:
            found = _evenly(present.sort(), points).unique().sort()
    return _with_missing(found, absent.any() if missing is None else missing).alias(feature)


def _categories(present: pl.Series, most: int | None) -> pl.Series:
    """The categories of a column in order, or the most frequent ones: text by its letters, an Enum as it is made."""
    order = pl.col("value")
    if present.dtype == pl.Categorical:
        order = order.cast(pl.String)
    elif isinstance(present.dtype, pl.Enum):
        order = order.to_physical()
    counts = present.to_frame().group_by("value").agg(count=pl.len()).with_columns(order=order)
    if most is not None and counts.height > most:
        counts = counts.sort("count", "order", descending=[True, False]).head(most)
    return counts.sort("order")["value"]


def model_points(
    model: Model, feature: str, asked: int | pl.Series | None, missing: bool | None, features: int
) -> pl.Series:
    """The points of a column by what a model asks about it: between its borders, or the categories that it knows."""
    kind, dtype = model.features[feature], type_of(model, feature)
    if isinstance(asked, pl.Series):
        is_free = kind == "categorical" and model._inner.categories(feature) is None
        is_number = kind != "categorical" and "list" not in kind
        given = unnamed(asked) if is_free else _as_type(feature, asked, dtype, is_number=is_number)
    elif model.learner == "sparse_lr":
        msg = f"parameter `grid`: a linear model knows no values of {feature!r}: say which to look at, or give data"
        raise ValueError(msg)
    elif kind == "categorical":
        known = model._inner.categories(feature)
        labels = pl.Series([], dtype=pl.String) if known is None else category_series("value", *known)
        given = labels.drop_nulls().sort()
        given = given if asked is None else given.head(asked)
    else:
        given = pl.Series(_between(model.borders[feature], kind), dtype=None if kind == "numeric" else pl.Int64)
        points = asked or _POINTS[features]
        given = (_evenly(given, points).unique(maintain_order=True) if len(given) > points else given).cast(dtype)
    # Of a column that no split asks about nothing is known: one point stands for all values.
    is_missing_last = len(given) == 0 or (missing is True and not is_missing(given).any())
    return _with_missing(given, is_missing_last).alias(feature)


def _between(borders: list[float], kind: str) -> list[Any]:
    """A number between any two borders, in the middle, and one below the first and above the last."""
    inner = [border for border in borders if math.isfinite(border)]
    if not inner:
        return []
    gaps = [b / 2 - a / 2 for a, b in itertools.pairwise(inner)] or [max(abs(inner[0]), 1.0) / 2]
    above = list(zip(inner, (gaps + gaps[-1:])[: len(inner)], strict=True))
    if kind == "numeric":
        numbers = [inner[0] - gaps[0], *(max(border + gap, math.nextafter(border, math.inf)) for border, gap in above)]
        return [min(max(x, -sys.float_info.max), sys.float_info.max) for x in numbers]
    bits = 31 if kind == "date" else 63
    least, most = (0, _LAST_TIME) if kind == "time" else (-(2**bits), 2**bits - 1)
    ticks = [inner[0] - gaps[0], *(max(border + gap, math.floor(border) + 1) for border, gap in above)]
    return [min(max(math.floor(tick), least), most) for tick in ticks]

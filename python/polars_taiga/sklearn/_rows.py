"""What is given of the rows beside their features: keys, an order, groups, positions."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from polars_taiga.sklearn import _data

__all__ = ["any_value", "as_column", "as_groups", "as_keys", "least"]


def as_column(name: str, values: Any, rows: int) -> pl.Series:
    """A column that is given of the `rows` rows of a table, by the argument of this name."""
    column = _series(name, values)
    if isinstance(column.dtype, _data.STRANGE):
        msg = (
            f"{name}: Polars has no type for its values, such as {column[0]!r}: give numbers, times, or text, for "
            "example str(value) of each"
        )
        raise TypeError(msg)
    if len(column) != rows:
        msg = f"{name} has {len(column)} rows, and X has {rows}"
        raise ValueError(msg)
    return column


def _series(name: str, values: Any) -> pl.Series:
    """A series of any library, an array, or a list of values, in their own type of Polars'."""
    if isinstance(values, pl.Series):
        return values
    pandas, arrow = nw.dependencies.get_pandas(), nw.dependencies.get_pyarrow()
    if pandas is not None and isinstance(values, pandas.Index | pandas.api.extensions.ExtensionArray):
        values = pandas.Series(values)
    elif arrow is not None and isinstance(values, arrow.Array):
        values = arrow.chunked_array([values])
    if nw.dependencies.is_into_series(values):
        frame: Any = nw.from_native(values, series_only=True).alias(name).to_frame().to_native()
        return _data.as_frame(frame, [name])[0].to_series()
    if isinstance(values, list | tuple):
        return _of_values(name, list(values))
    array = np.asarray(values)
    if array.ndim != 1:
        msg = f"{name}: it is of shape {array.shape}, and takes a value for each row"
        raise ValueError(msg)
    return _of_values(name, array.tolist()) if array.dtype == object else _of_array(array)


def _of_array(array: Any) -> pl.Series:
    """A series of an array's own type; times in units that Polars lacks in days or milliseconds."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind == "f" and size not in (4, 8):
        return pl.Series(array.astype(np.float32 if size == 2 else np.float64))
    unit = np.datetime_data(array.dtype)[0] if kind in "mM" else None
    if kind == "M" and unit in ("Y", "M", "W", "D"):
        return pl.Series(array.astype("M8[D]"))
    if unit in ("Y", "M", "W", "D", "h", "m", "s"):
        return pl.Series(array.astype(f"{kind}8[ms]"))
    return pl.Series(array.astype(array.dtype.newbyteorder("="), copy=False))


def _of_values(name: str, values: list[Any]) -> pl.Series:
    """A series of Python's, NumPy's or pandas' values; None, NaN and the like are null."""
    missing = [_data.is_missing(value) for value in values]
    known = [value for value, no in zip(values, missing, strict=True) if not no]
    try:
        column = _of_known(name, known)
    except _data.NO_TYPE as error:
        msg = f"{name}: Polars has no type for its values: {str(error).splitlines()[0]}"
        raise TypeError(msg) from error
    if len(known) == len(values):
        return column
    places = pl.Series(np.cumsum(np.logical_not(missing)) - 1)
    return column.gather(places.set(pl.Series(missing), None))


def _of_known(name: str, values: list[Any]) -> pl.Series:
    """A series of values of which none is missing."""
    if all(isinstance(value, str) for value in values):
        return pl.Series(values, dtype=pl.String)
    array = np.asarray(values)  # numbers of several types meet in one, and with text in text
    large = array.dtype.kind == "f" and all(isinstance(value, int) for value in values)
    if array.dtype.kind in "biufmMU" and not large:
        return _of_array(array)
    pandas = nw.dependencies.get_pandas()
    if pandas is not None and any(isinstance(value, pandas.Timestamp | pandas.Timedelta) for value in values):
        return _series(name, pandas.Series(values))
    # Days meet times, and Decimals of several scales each other.
    meet = any(all(isinstance(value, kind) for value in values) for kind in (dt.date, Decimal))
    return pl.Series(values, strict=not meet)


def as_keys(keys: Any, rows: int) -> list[pl.Series]:
    """The columns of the rows' keys, of which there may be several: a frame, or a matrix."""
    if nw.dependencies.is_into_dataframe(keys):
        names = nw.from_native(keys, eager_only=True).columns
        named = all(isinstance(name, str) for name in names)
        columns: list[Any] = _data.as_frame(keys, names if named else _data.numbered(len(names)))[0].get_columns()
    elif not isinstance(keys, pl.Series) and not nw.dependencies.is_into_series(keys) and np.ndim(keys) == 2:
        matrix = np.asarray(keys)
        columns = [matrix[:, j] for j in range(matrix.shape[1])]
    else:
        columns = [keys]
    return [as_column("row_key", column, rows) for column in columns]


def least(column: pl.Series) -> pl.Series:
    """The least value of a column of keys, whatever order they come in."""
    texts = column.dtype in (pl.Categorical, pl.Enum)
    known: pl.Series = column.cast(pl.String) if texts else column
    first: pl.Series = known.sort().head(1)
    return first


def any_value(dtype: pl.DataType) -> pl.Series:
    """A value of a type."""
    counts = dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean
    value: Any = dtype.categories[0] if isinstance(dtype, pl.Enum) else 0 if counts else ""
    column: pl.Series = pl.Series([value]).cast(dtype)
    return column


def as_groups(group: Any, rows: int, part: int | None) -> pl.Series:
    """The group of each row; all rows are one where nothing is given. `part`: the groups of several parts differ."""
    groups = pl.repeat(0, rows, dtype=pl.Int64, eager=True) if group is None else as_column("group", group, rows)
    if part is None:
        return groups
    return groups.to_frame("group").select(pl.format(f"{part} {{}}", "group")).to_series()

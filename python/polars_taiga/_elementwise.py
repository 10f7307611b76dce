"""Functions in Python as expressions: of each row with a value that few rows differ in, and of a whole column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl


def one_value(exprs: Sequence[pl.Expr], function: Callable[[list[pl.Series]], object], dtype: Any) -> pl.Expr:
    """One value of whole columns, of a group's in `group_by().agg()`."""

    def called(columns: Sequence[pl.Series]) -> pl.Series:
        return pl.Series("value", [function(list(columns))], dtype=dtype)

    return pl.map_groups(list(exprs), called, return_dtype=dtype, returns_scalar=True)


def by_value(both: pl.Expr, function: Callable[[bytes, pl.DataFrame], pl.Series], dtype: Any) -> pl.Expr:
    """Apply `function` to the rows of each distinct Binary `value` of a struct, with the struct's other fields.

    Rows are apart from each other, so it streams; where the value is null the result is.
    """

    def called(column: pl.Series) -> pl.Series:
        frame = column.struct.unnest().with_row_index("__row")
        parts = []
        for value in frame["value"].unique().to_list():
            if value is not None:
                own = frame.filter(pl.col("value") == value)
                parts.append(own.select("__row").with_columns(function(value, own).alias("out").cast(dtype)))
        if not parts:
            return pl.Series(column.name, [None] * len(column), dtype=dtype)
        if len(parts) == 1 and parts[0].height == len(column):
            return parts[0]["out"].alias(column.name)
        found = pl.concat(parts)
        return frame.select("__row").join(found, on="__row", how="left").sort("__row")["out"].alias(column.name)

    return both.map_batches(called, return_dtype=dtype, is_elementwise=True)

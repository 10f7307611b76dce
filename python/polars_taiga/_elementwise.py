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
        frame = column.struct.unnest()
        # One pass, however many values there are.
        places = pl.DataFrame([frame["value"], pl.Series("row", range(len(column)), dtype=pl.UInt32)])
        places = places.drop_nulls("value").group_by("value", maintain_order=True).agg("row")
        if places.height == 0:
            return pl.Series(column.name, [None] * len(column), dtype=dtype)
        parts = []
        for value, rows in zip(places["value"], places["row"], strict=True):
            own = frame if len(rows) == len(column) else frame[rows]
            parts.append(function(value, own).alias(column.name).cast(dtype))
        found = pl.concat(parts)
        # Each row's place in what was found; of a row whose value is null there is none.
        at = pl.DataFrame([places["row"].explode(), pl.Series("at", range(len(found)), dtype=pl.UInt32)])
        order = pl.DataFrame({"row": range(len(column))}, schema={"row": pl.UInt32})
        out: pl.Series = found.gather(order.join(at, on="row", how="left").sort("row")["at"])
        return out

    return both.map_batches(called, return_dtype=dtype, is_elementwise=True)

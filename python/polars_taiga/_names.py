"""Columns of exactly a name where Polars would take it for a pattern of names, and names that it can't hand on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl
import polars.selectors as cs

__all__ = ["by_name", "is_pattern", "names_with_nul", "unnamed"]


def is_pattern(name: str) -> bool:
    """Whether `pl.col` takes a name for a pattern."""
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def by_name(name: str) -> pl.Expr:
    """A column of exactly this name: in `pl.col` one like "^x$", or "*", is a pattern."""
    # Not for all: early versions of Polars have one selector in an expression at most.
    return cs.by_name(name) if is_pattern(name) else pl.col(name)


def unnamed(values: pl.Series) -> pl.Series:
    """A column under a name of ours: what Polars runs as `pl.col(name)`, as it does many methods of a Series, takes one
    like "^x$" for a pattern.
    """
    return values.alias("value")


def names_with_nul(columns: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Those of names, and of the fields that their types have, in which the character NUL stands: Polars panics
    where it hands such a column on.
    """
    for name, dtype in columns:
        if "\0" in name:
            yield name
        while isinstance(dtype, pl.List | pl.Array):
            dtype = dtype.inner
        if isinstance(dtype, pl.Struct):
            yield from names_with_nul((field.name, field.dtype) for field in dtype.fields)

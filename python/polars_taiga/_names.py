"""Columns of exactly a name, where Polars would take the name for a pattern of names."""

from __future__ import annotations

import polars as pl
import polars.selectors as cs

__all__ = ["by_name", "is_pattern", "unnamed"]


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

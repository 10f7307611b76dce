"""What the plugin knows of categories, as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence


def _integer_type(values: Sequence[Any]) -> Any:
    """The type of a column of integer labels."""
    known = [value for value in values if value is not None]
    least, most = min(known, default=0), max(known, default=0)
    if least >= -(2**63) and most < 2**63:
        return pl.Int64
    return pl.UInt64 if least >= 0 and most < 2**64 else getattr(pl, "Int128", pl.String)


def category_series(name: str, kind: str, labels: Sequence[Any]) -> pl.Series:
    """Labels of a kind (`text`, `integers`, `Booleans`, or all three) as a column of String, of an integer type or of
    Boolean; of all three as text.
    """
    known = {"text": pl.String, "text, integers or Booleans": pl.String, "Booleans": pl.Boolean}
    dtype = known.get(kind) or _integer_type(labels)
    if kind == "integers" and dtype == pl.String:
        labels = [None if label is None else str(label) for label in labels]
    return pl.Series(name, labels, dtype=dtype)

"""Models as tables."""

from __future__ import annotations

import os

import polars as pl

from polars_taiga.model import Model

__all__ = ["scan_model"]


def scan_model(model: Model | bytes | str | os.PathLike[str]) -> pl.LazyFrame:
    """Make a lazy frame of the nodes and leaves of a model's trees, one row each: those of `Model.trees`.

    Parameters
    ----------
    model
        A model, its bytes, or the path of a file that `Model.save` wrote, which is read now.

    Raises
    ------
    ValueError
        For bytes that are no model, and for a linear one, which has no trees.
    OSError
        Where the file can't be read.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=2.0 * pl.col("x"))
    >>> model = df.taiga.fit_gbdt("y", "x", rounds=3, depth=2)
    >>> leaves = tg.scan_model(model).filter(pl.col("leaf").is_not_null())
    >>> leaves.group_by("tree").agg(pl.col("count").sum()).sort("tree").collect().rows()
    [(0, 100), (1, 100), (2, 100)]
    """
    if isinstance(model, str | os.PathLike):
        model = Model.load(model)
    found = model if isinstance(model, Model) else Model(model)
    return found.trees().lazy()

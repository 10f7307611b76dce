"""Rows that have keys: the order in which fits read them, and receipts of what was fitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_taiga import _fit, _plugin, _taiga
from polars_taiga.forest import fit_forest
from polars_taiga.gbdt import fit_gbdt
from polars_taiga.linear import fit_sparse_lr

if TYPE_CHECKING:
    from polars_taiga._plugin import IntoColumns

__all__ = ["receipt", "row_key_order"]

_FITS = (fit_gbdt, fit_forest, fit_sparse_lr)


def receipt(
    fit: Callable[..., pl.Expr],
    *columns: IntoColumns,
    row_key: IntoColumns,
    version: str = _taiga.__version__,
    **params: Any,
) -> pl.Expr:
    """Compute the receipt that a model of these rows has (`Model.receipt`), without fitting it: one String.

    Whoever has the rows finds out by it whether a model says that it was fitted on just these, by these parameters.
    What that proves and what not is in docs/row_key.md. It costs one pass over the rows: the order of their keys, and
    SHA-256 of their values. The expression's name is `receipt`.

    Parameters
    ----------
    fit
        The function that fits: `tg.fit_gbdt`, `tg.fit_forest` or `tg.fit_sparse_lr`.
    columns
        What that function is given by position: the target and the features; of `tg.fit_sparse_lr` the target,
        `indices` and `values`.
    row_key
        As in `fit_gbdt`.
    version
        The version of this package that has fitted the model; default this one.
    params
        What that function is given by name. What is no part of the receipt changes nothing: `n_threads`, `device`,
        `metadata`, `progress`, `verbose`. `collective` is an error: one process has the rows.

    Raises
    ------
    TypeError, ValueError, polars.exceptions.ComputeError
        As that function does.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"id": range(100), "x": range(100)}).with_columns(y=pl.col("x") % 7)
    >>> model = df.taiga.fit_gbdt("y", "x", rounds=3, row_key="id")
    >>> df.reverse().select(tg.receipt(tg.fit_gbdt, "y", "x", rounds=3, row_key="id")).item() == model.receipt
    True
    >>> df.head(99).select(tg.receipt(tg.fit_gbdt, "y", "x", rounds=3, row_key="id")).item() == model.receipt
    False
    """
    if fit not in _FITS:
        msg = f"parameter `fit`: {fit!r} is none of tg.fit_gbdt, tg.fit_forest and tg.fit_sparse_lr"
        raise TypeError(msg)
    if params.get("collective") is not None:
        msg = "parameter `collective`: a receipt is computed by one process, of all rows"
        raise ValueError(msg)
    with _fit.asking(receipt=str(version)):
        value = fit(*columns, row_key=row_key, **params)
    return value.cast(pl.String).alias("receipt")


def row_key_order(*row_key: IntoColumns) -> pl.Expr:
    """Number rows in the order in which a fit with `row_key` reads them: UInt32, from 0 on, as many as there are.

    It is that of a hash of the keys (XXH3, 128 bits), so it looks like a random one and is the same wherever the rows
    stand. `Model.oob_predictions` of such a fit come in it. The expression's name is `row_key_order`.

    Parameters
    ----------
    row_key
        The columns that tell rows apart, as in `fit_gbdt`.

    Raises
    ------
    ValueError
        Without a column.
    polars.exceptions.ComputeError
        For keys that are null or NaN or occur twice, and for types that can't be keys.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"id": ["oak", "fir", "elm"]}).with_columns(place=tg.row_key_order("id"))
    >>> again = df.reverse().with_columns(again=tg.row_key_order("id"))
    >>> again["again"].equals(again["place"])
    True
    """
    columns = _plugin.as_exprs(row_key, "`row_key`")
    if not columns:
        msg = "row_key_order: parameter `row_key`: it names no column"
        raise ValueError(msg)
    return _plugin.whole("row_key_order", [pl.struct(columns)], {"name": "row_key_order"}).alias("row_key_order")

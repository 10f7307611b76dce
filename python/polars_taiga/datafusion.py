"""Models in DataFusion, as functions of its SQL; this needs the packages `datafusion` and `pyarrow`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polars_taiga._arrow_function import arrow_function, arrow_type
from polars_taiga._optional import needed

if TYPE_CHECKING:
    from polars_taiga.model import Model
    from polars_taiga.predict import Output

__all__ = ["register"]


def register(
    context: Any,
    name: str,
    model: Model | bytes,
    *,
    output: Output = "auto",
    rounds: int | None = None,
    device: str = "auto",
) -> Any:
    """Make a model known to a DataFusion context, as a function of rows.

    `SELECT name(age, job) FROM customers` gives the predictions; the arguments are the model's columns, in the order of
    `Model.features`. Rows come and go as Arrow arrays, a batch at a time, and null and NaN are missing.

    Parameters
    ----------
    context
        A `datafusion.SessionContext`.
    name
        What the function is called. (DataFusion makes small letters of names that are not in quotes.)
    model
        A model or its bytes.
    output, rounds, device
        As in `tg.predict`. (One output. A model that gives a struct gives a struct.)

    Returns
    -------
    datafusion.ScalarUDF
        The function, for DataFusion's data frames.

    Raises
    ------
    ImportError
        Without the packages `datafusion` and `pyarrow` (`polars-taiga[datafusion]`).
    ValueError
        For a column or a prediction of a type that DataFusion has none for.

    Examples
    --------
    >>> import datafusion
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") >= 50)
    >>> context = datafusion.SessionContext()
    >>> _ = tg.datafusion.register(context, "above", df.taiga.fit_gbdt("y", "x", rounds=20))
    >>> context.sql("SELECT above(80.0) > 0.5 AS p").to_pydict()
    {'p': [True]}
    """
    datafusion = needed("datafusion.register", "datafusion", "datafusion")
    pyarrow = needed("datafusion.register", "pyarrow", "datafusion")
    own = arrow_function("datafusion.register", model, output, {"rounds": rounds, "device": device})
    types = [arrow_type(pyarrow, dtype, "datafusion.register") for dtype in own.types]
    result = arrow_type(pyarrow, own.result, "datafusion.register")

    def predict(*columns: Any) -> Any:
        found = own.call(*columns)
        return found.combine_chunks() if isinstance(found, pyarrow.ChunkedArray) else found

    function = datafusion.udf(predict, types, result, "immutable", name)
    context.register_udf(function)
    return function

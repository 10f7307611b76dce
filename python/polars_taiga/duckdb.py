"""Models in DuckDB, as functions of its SQL; this needs the packages `duckdb` and `pyarrow`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_taiga._arrow_function import arrow_function
from polars_taiga._optional import needed

if TYPE_CHECKING:
    from polars_taiga.model import Model
    from polars_taiga.predict import Output

__all__ = ["register"]

_NAMES: dict[Any, str] = {
    pl.Float64: "DOUBLE",
    pl.Float32: "FLOAT",
    pl.String: "VARCHAR",
    pl.Boolean: "BOOLEAN",
    pl.Int8: "TINYINT",
    pl.Int16: "SMALLINT",
    pl.Int32: "INTEGER",
    pl.Int64: "BIGINT",
    pl.UInt8: "UTINYINT",
    pl.UInt16: "USMALLINT",
    pl.UInt32: "UINTEGER",
    pl.UInt64: "UBIGINT",
    pl.Date: "DATE",
    pl.Time: "TIME",
}


def register(
    connection: Any,
    name: str,
    model: Model | bytes,
    *,
    output: Output = "auto",
    rounds: int | None = None,
    device: str = "auto",
    replace: bool = False,
) -> None:
    """Make a model known to a DuckDB connection, as a function of rows and as one of tables.

    `SELECT name(age, job) FROM customers` gives the predictions; the arguments are the model's columns, in the order of
    `Model.features`. `SELECT id, prediction FROM name('customers')` finds them by their names: it is the table (or
    view, or common table expression) and a column `prediction`, which is computed only where it is asked for. Rows
    come and go as Arrow batches of 2,048, as DuckDB has them, and null and NaN are missing.

    Parameters
    ----------
    connection
        A connection, `duckdb.connect()`, or the module `duckdb` for its default one.
    name
        What the functions are called.
    model
        A model or its bytes.
    output, rounds, device
        As in `tg.predict`. (One output. A model that gives a struct gives a STRUCT.)
    replace
        Whether a model that was registered under the name before is replaced.

    Raises
    ------
    ImportError
        Without the packages `duckdb` and `pyarrow` (`polars-taiga[duckdb]`).
    ValueError
        For a column or a prediction of a type that DuckDB has none for.
    duckdb.Error
        For a name that is taken.

    Examples
    --------
    >>> import duckdb
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") >= 50)
    >>> connection = duckdb.connect()
    >>> tg.duckdb.register(connection, "above", df.taiga.fit_gbdt("y", "x", rounds=20), output="class")
    >>> connection.sql("SELECT above(x) FROM (VALUES (3), (80)) AS t(x)").fetchall()
    [(False,), (True,)]
    >>> _ = connection.execute("CREATE TABLE points AS SELECT range AS x FROM range(100)")
    >>> connection.sql("SELECT MIN(x) FROM above('points') WHERE prediction").fetchall()
    [(50,)]
    """
    needed("duckdb.register", "duckdb", "duckdb")
    own = arrow_function("duckdb.register", model, output, {"rounds": rounds, "device": device})
    types = [_type_name(dtype) for dtype in own.types]
    quoted = _quoted(name)
    if replace:
        connection.execute(f"DROP MACRO TABLE IF EXISTS {quoted}")
        _forget(connection, name)

    def predict(*columns: Any) -> Any:
        return own.call(*columns)

    # DuckDB counts the parameters that a function says it has.
    positional = inspect.Parameter.POSITIONAL_ONLY
    signature = inspect.Signature([inspect.Parameter(f"column_{i}", positional) for i in range(len(types))])
    predict.__signature__ = signature  # type: ignore[attr-defined]
    connection.create_function(name, predict, types, _type_name(own.result), type="arrow", null_handling="special")
    arguments = ", ".join(f"CAST(t.{_quoted(c)} AS {kind})" for c, kind in zip(own.names, types, strict=True))
    connection.execute(
        f"CREATE MACRO {quoted}(rows_of) AS TABLE "
        f"SELECT *, {quoted}({arguments}) AS prediction FROM (FROM query_table(rows_of)) AS t"
    )


def _forget(connection: Any, name: str) -> None:
    """Remove a function that was registered, if there is one."""
    missing = needed("duckdb.register", "duckdb", "duckdb").InvalidInputException
    try:
        connection.remove_function(name)
    except missing:
        return


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _type_name(dtype: pl.DataType) -> str:
    """What DuckDB calls a type."""
    if isinstance(dtype, pl.List):
        return f"{_type_name(dtype.inner)}[]"  # type: ignore[arg-type]
    if isinstance(dtype, pl.Struct):
        fields = ", ".join(f"{_quoted(f.name)} {_type_name(f.dtype)}" for f in dtype.fields)  # type: ignore[arg-type]
        return f"STRUCT({fields})"
    if isinstance(dtype, pl.Datetime):
        return {"ms": "TIMESTAMP_MS", "ns": "TIMESTAMP_NS"}.get(dtype.time_unit, "TIMESTAMP")
    return _NAMES[type(dtype)]

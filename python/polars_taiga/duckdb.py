"""Models in DuckDB, as functions of its SQL; this needs the packages `duckdb` and `pyarrow`."""

from __future__ import annotations

import inspect
import weakref
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_taiga._arrow_function import arrow_function, arrow_type
from polars_taiga._optional import needed
from polars_taiga.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

# The column of predictions, and what a model says of categories that it knows by a hash of their text.
_PREDICTION, _HASHED = "prediction", "text, integers or Booleans"

# The parameter of a function of tables, by which our macros are known.
_ROWS = "rows_of"
_MACRO, _PLACE = "'a macro'", "database_name, schema_name, function_name"
_MACROS = (
    "FROM duckdb_functions() WHERE lower(function_name) = lower($1) AND function_type = 'table_macro' "
    f"AND parameters = ['{_ROWS}'] "
)

# DuckDB lets go of a function with the connection that registered it, and goes on calling it where another connection
# of the database asks: so functions stay, and their models go with the connection.
_KEPT: list[Any] = []
_HELD: weakref.WeakKeyDictionary[Any, dict[str, list[Any]]] = weakref.WeakKeyDictionary()


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
    view, or common table expression) and a column `prediction`, which is computed only where it is asked for; a table
    that has such a column already is an error. Both go with the connection: nothing of them is written into a database
    file. (Of a database in memory, what `connection.cursor()` gives shares both; of a file the function of rows alone.
    Once the connection that registered them is gone, they are an error in those that share them.) Rows come and go as
    Arrow batches of 2,048, as DuckDB has them, and null and NaN are missing.

    Both take columns of the types that `tg.predict` takes, and what becomes one of these without a loss, as a DATE does
    and as whole milliseconds do. Of a TIMESTAMP WITH TIME ZONE its UTC counts, of a TIME WITH TIME ZONE what its clock
    shows, which is all that DuckDB hands on.

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
        Whether a model that was registered under the name before, by this connection, is replaced.

    Raises
    ------
    ImportError
        Without the packages `duckdb` and `pyarrow` (`polars-taiga[duckdb]`).
    ValueError
        For a column or a prediction of a type that DuckDB has none for; for columns whose names differ in case alone,
        which DuckDB takes for one.
    duckdb.Error
        For a name that is taken, by a function of DuckDB's own too, in whatever case.

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
    if not isinstance(name, str) or not name:
        msg = f"duckdb.register: parameter `name`: {name!r} is no name of a function"
        raise (ValueError if isinstance(name, str) else TypeError)(msg)
    model = model if isinstance(model, Model) else Model(model)
    own = arrow_function("duckdb.register", model, output, {"rounds": rounds, "device": device})
    _check_names(own.names)
    readers = [_reader(model, *column) for column in zip(own.names, own.types, strict=True)]
    quoted = _quoted(name)
    if replace:
        _forget(connection, name)
    _check_free(connection, name, replace=replace)
    if replace:
        for place in connection.execute(f"SELECT DISTINCT {_PLACE} {_MACROS}", [name]).fetchall():
            connection.execute(f"DROP MACRO TABLE {'.'.join(map(_quoted, place))}")
    held: list[Any] = [(own.call, readers)]

    def predict(*columns: Any) -> Any:
        for call, reads in held:
            return call(*(c if read is None else read(c) for c, read in zip(columns, reads, strict=True)))
        msg = f"duckdb: the connection that registered `{name}` is gone: register it by one that stays"
        raise ValueError(msg)

    # DuckDB counts the parameters that a function says it has; one without an annotation may be of any type.
    positional = inspect.Parameter.POSITIONAL_ONLY
    parameters = []
    for i, (dtype, read) in enumerate(zip(own.types, readers, strict=True)):
        kind: Any = _type_name(dtype) if read is None else inspect.Parameter.empty
        parameters.append(inspect.Parameter(f"column_{i}", positional, annotation=kind))
    predict.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    connection.create_function(name, predict, None, _type_name(own.result), type="arrow", null_handling="special")
    _KEPT.append(predict)
    _HELD.setdefault(connection, {})[name] = held
    weakref.finalize(connection, held.clear)
    arguments = ", ".join(f"t.{_quoted(c)}" for c in own.names)
    # A macro stays in a database file, but for a temporary one, which cursors do not share.
    path = "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"
    in_memory = all(row[0] is None for row in connection.execute(path).fetchall())
    try:
        connection.execute(
            f"CREATE {'' if in_memory else 'TEMP '}MACRO {quoted}({_ROWS}) AS TABLE "
            f"SELECT {_columns(own.names)}, {quoted}({arguments}) AS {_PREDICTION} "
            f"FROM (FROM query_table({_ROWS})) AS t"
        )
    except BaseException:
        _forget(connection, name)
        raise


def _check_free(connection: Any, name: str, *, replace: bool) -> None:
    """Raise for a name that has a meaning already: DuckDB would keep it, or have the model for some types alone."""
    taken = (
        "SELECT CASE WHEN internal THEN 'a function' ELSE 'a macro' END FROM duckdb_functions() "
        f"WHERE lower(function_name) = lower($1) {f'EXCEPT ALL SELECT {_MACRO} {_MACROS}' if replace else ''}"
        "UNION ALL SELECT 'a word' FROM duckdb_keywords() "
        "WHERE keyword_name = lower($1) AND keyword_category = 'column_name'"
    )
    found = connection.execute(taken, [name]).fetchall()
    if found:
        hint = "" if replace else ", or replace=True where it is a model of this connection"
        msg = f"duckdb.register: the name `{name}` is taken: {found[0][0]} has it. Give another{hint}"
        raise needed("duckdb.register", "duckdb", "duckdb").CatalogException(msg)


def _check_names(names: Sequence[str]) -> None:
    """Raise for names that are one to DuckDB, which ignores the case of ASCII letters, in quotes too."""
    known: dict[bytes, str] = {}
    for name in names:
        other = known.setdefault(name.encode().lower(), name)
        if other != name:
            msg = f"duckdb.register: columns `{other}` and `{name}` differ in case alone, and DuckDB takes them for one"
            raise ValueError(msg)


def _columns(names: Sequence[str]) -> str:
    """All columns of a table in SQL; one that is called as the predictions is an error when a query is planned."""
    is_read = any(name.lower() == _PREDICTION for name in names)
    remedy = "the model reads it, so call the function of rows" if is_read else "SELECT the others, or rename it"
    # A cast that fails is all that raises an error in COLUMNS.
    error = f"CAST('the table has a column `' || c || '` already: {remedy}' AS BOOLEAN)"
    return f"COLUMNS([c FOR c IN (*) IF CASE WHEN lower(c) = '{_PREDICTION}' THEN {error} ELSE TRUE END])"


def _reader(model: Model, name: str, dtype: pl.DataType) -> Callable[[Any], Any] | None:
    """What reads a column of any type, where `tg.predict` takes others than DuckDB would cast; else None."""
    pyarrow = needed("duckdb.register", "pyarrow", "duckdb")
    types, known = pyarrow.types, model._inner.categories(name)
    taken: list[Callable[[Any], bool]]
    if isinstance(dtype, pl.Datetime):
        taken = [types.is_timestamp, types.is_date]
    elif dtype == pl.Time:
        # DuckDB has two types of these, and casts neither to the other by itself.
        taken = [types.is_time]
    elif dtype == pl.Float64:
        taken = [types.is_floating, types.is_integer, types.is_decimal, types.is_boolean]
    elif dtype == pl.Int64:
        taken = [types.is_integer]
    elif known is not None and known[0] == _HASHED:
        taken = [types.is_string, types.is_large_string, types.is_dictionary, types.is_integer, types.is_boolean]
    else:
        return None

    wanted = arrow_type(pyarrow, dtype, "duckdb.register")

    def read(column: Any) -> Any:
        if column.type == wanted:
            return column
        if not (types.is_null(column.type) or any(test(column.type) for test in taken)):
            kind = model.features[name] if known is None else f"categorical {known[0]}"
            msg = f"duckdb: column `{name}`: its type is {column.type}; the model was fitted on {kind}"
            raise TypeError(msg)
        if isinstance(dtype, pl.Datetime):
            # Of a zone its UTC. What has no place in the unit is an error.
            unit = dtype.time_unit
            return column.cast(pyarrow.timestamp(unit, "UTC")).cast(pyarrow.timestamp(unit))
        values: Any = pl.from_arrow(column)
        # As text a Boolean is 0 or 1.
        is_hashed = dtype == pl.String and values.dtype == pl.Boolean
        return (values.cast(pl.Int8) if is_hashed else values).cast(dtype).to_arrow()

    return read


def _forget(connection: Any, name: str) -> None:
    """Remove the function that this connection registered under a name, if there is one."""
    missing = needed("duckdb.register", "duckdb", "duckdb").InvalidInputException
    own = _HELD.get(connection, {})
    for known in [n for n in own if n.lower() == name.lower()] or [name]:
        try:
            connection.remove_function(known)
        except missing:
            continue
        own.pop(known, []).clear()


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

"""What names models are registered under in DuckDB, and for how long."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import TYPE_CHECKING, Any, cast

import duckdb
import polars as pl
import polars_taiga as tg
import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def model() -> tg.Model:
    df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") - 50.5)
    return df.taiga.fit_gbdt("y", "x", rounds=20)


def by_model(model: tg.Model, x: int) -> list[tuple[Any]]:
    return [(model.predict(pl.DataFrame({"x": [x]}))[0],)]


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("name", ["abs", "ROUND", "sqrt", "sum", "lower", "range", "coalesce"])
def test_names_of_duckdb_are_taken(name: str, replace: bool, model: tg.Model) -> None:
    """Proves that no function of DuckDB's hides a model, nor a model one of them, for some types or all."""
    connection = duckdb.connect()
    query = f"SELECT count(*) FROM duckdb_functions() WHERE lower(function_name) = lower('{name}')"
    before = connection.sql(query).fetchall()
    with pytest.raises(duckdb.Error, match=f"the name `{name}` is taken"):
        tg.duckdb.register(connection, name, model, replace=replace)
    assert connection.sql(query).fetchall() == before


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("what", ["(a) AS TABLE SELECT a", "(a) AS a + 1"])
def test_macros_of_others_are_left(what: str, replace: bool, model: tg.Model) -> None:
    """Proves that a macro's name is taken, and that a registration which fails leaves nothing."""
    connection = duckdb.connect()
    connection.execute(f"CREATE MACRO mine{what}")
    query = "SELECT function_type FROM duckdb_functions() WHERE function_name = 'mine'"
    before = connection.sql(query).fetchall()
    with pytest.raises(duckdb.Error, match="`MINE` is taken: a macro has it"):
        tg.duckdb.register(connection, "MINE", model, replace=replace)
    assert connection.sql(query).fetchall() == before
    connection.execute("DROP MACRO TABLE mine" if "TABLE" in what else "DROP MACRO mine")
    tg.duckdb.register(connection, "mine", model)
    assert connection.sql("SELECT mine(80)").fetchall() == by_model(model, 80)


def test_nothing_is_left_in_a_database_file(model: tg.Model, tmp_path: Path) -> None:
    """Proves that both functions go with the connection, and that a database that can't be written to has them."""
    path = str(tmp_path / "shop.db")
    for read_only in (False, False, True):
        connection = duckdb.connect(path, read_only=read_only)
        found = "SELECT 1 FROM duckdb_functions() WHERE function_name = 'churn'"
        assert connection.sql(found).fetchall() == []
        if not read_only:
            connection.execute("CREATE OR REPLACE TABLE points AS SELECT range AS x FROM range(100)")
        for replace in (False, True):
            tg.duckdb.register(connection, "churn", model, replace=replace)
            used = connection.sql("SELECT prediction FROM churn('points') WHERE x = 80").fetchall()
            assert used == by_model(model, 80) == connection.sql("SELECT churn(80)").fetchall()
        with pytest.raises(duckdb.Error, match="`Churn` is taken"):
            tg.duckdb.register(connection, "Churn", model)
        connection.close()


def test_what_an_earlier_version_left(model: tg.Model) -> None:
    """Proves that a macro which an earlier version left in a file gives way to `replace=True`."""
    connection = duckdb.connect()
    connection.execute("CREATE MACRO old(rows_of) AS TABLE SELECT 1 AS prediction FROM query_table(rows_of)")
    with pytest.raises(duckdb.Error, match="`old` is taken"):
        tg.duckdb.register(connection, "old", model)
    tg.duckdb.register(connection, "old", model, replace=True)
    assert connection.sql("SELECT old(3)").fetchall() == by_model(model, 3)


def test_cursors_of_a_database_in_memory_share(model: tg.Model) -> None:
    """Proves that a cursor sees the functions of its connection, and the connection those of an open cursor."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE points AS SELECT range AS x FROM range(100)")
    cursor = connection.cursor()
    tg.duckdb.register(cursor, "m", model)
    for one in (connection, cursor, connection.cursor()):
        assert one.sql("SELECT m(80)").fetchall() == by_model(model, 80)
        assert one.sql("SELECT prediction FROM m('points') WHERE x = 80").fetchall() == by_model(model, 80)


def test_what_fails_to_replace_leaves_what_was(model: tg.Model) -> None:
    """Proves that a model is replaced under its name in another case, and by no connection but its own."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE points AS SELECT range AS x FROM range(100)")
    cursor = connection.cursor()
    tg.duckdb.register(connection, "m", model)
    with pytest.raises(duckdb.Error, match="`m` is taken: a function has it"):
        tg.duckdb.register(cursor, "m", model, replace=True)
    assert connection.sql("SELECT prediction FROM m('points') WHERE x = 80").fetchall() == by_model(model, 80)
    tg.duckdb.register(connection, "M", model.head(2), replace=True)
    assert connection.sql("SELECT prediction FROM m('points') WHERE x = 80").fetchall() == by_model(model.head(2), 80)


GONE = """
import gc, duckdb, polars as pl, polars_taiga as tg
model = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") - 50.5).taiga.fit_gbdt("y", "x", rounds=5)
connection = duckdb.connect()
cursor = connection.cursor()
tg.duckdb.register(cursor, "m", model)
cursor.close()
rows = [object() for _ in range(10_000)]
print(connection.sql("SELECT m(80) FROM range(5)").fetchall() == 5 * [(model.predict(pl.DataFrame({"x": [80]}))[0],)])
del cursor
gc.collect()
for _ in range(3):
    try:
        connection.sql("SELECT m(80)").fetchall()
    except duckdb.Error as error:
        print("the connection that registered `m` is gone" in str(error))
"""


def test_a_cursor_that_is_gone(model: tg.Model) -> None:
    """Proves that the process lives on, with an error, where DuckDB calls a function whose cursor is gone."""
    done = subprocess.run([sys.executable, "-c", GONE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"] * 4


def test_a_model_goes_with_its_connection(model: tg.Model) -> None:
    """Proves that models of connections that are gone, and those replaced, are not kept."""
    from polars_taiga import duckdb as ours

    connection = duckdb.connect()
    tg.duckdb.register(connection, "m", model)
    (first,) = ours._HELD[connection].values()
    tg.duckdb.register(connection, "m", model, replace=True)
    assert first == []
    (second,) = ours._HELD[connection].values()
    assert len(second) == 1
    del connection
    gc.collect()
    assert second == []


def test_no_name(model: tg.Model) -> None:
    """Proves that what is no name is told before anything is registered."""
    with pytest.raises(ValueError, match="parameter `name`: '' is no name"):
        tg.duckdb.register(duckdb.connect(), "", model)
    with pytest.raises(TypeError, match="parameter `name`: 5 is no name"):
        tg.duckdb.register(duckdb.connect(), cast("Any", 5), model)

"""Models as SQL text: databases compute what `tg.predict` does, on rows on every border and beside it."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import re
import shutil
import sqlite3
import sys
import tempfile
from typing import Any, cast

import duckdb
import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

from tests import exported
from tests.test_onnx import LOSSES


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return exported.table()


@pytest.fixture(scope="module")
def models(table: pl.DataFrame) -> dict[str, tg.Model]:
    """Of few trees: what a database takes longest for is to plan a statement."""
    return {name: model.head(2) for name, model in exported.models(table).items()}


def in_duckdb(query: str, rows: pl.DataFrame) -> pl.DataFrame:
    connection = duckdb.connect(config={"threads": 1})
    connection.register("the rows", rows.to_arrow())
    return connection.sql(query).pl()


def in_sqlite(query: str, rows: pl.DataFrame) -> pl.DataFrame:
    """In SQLite, which has no NaN: it keeps null instead."""
    connection = sqlite3.connect(":memory:")
    names = ", ".join(f'"{name}"' for name in rows.columns)
    connection.execute(f'CREATE TABLE "the rows" ({names})')
    connection.executemany(f'INSERT INTO "the rows" VALUES ({", ".join("?" * rows.width)})', rows.rows())
    cursor = connection.execute(query)
    names_of_result = [one[0] for one in cursor.description]
    return pl.DataFrame(cursor.fetchall(), schema=names_of_result, orient="row")


@functools.cache
def postgres() -> Any:
    """A connection to a server of our own, which is gone when Python ends."""
    import pgserver
    import psycopg

    folder = tempfile.mkdtemp()
    server = pgserver.get_server(folder, cleanup_mode="delete")
    connection = psycopg.connect(server.get_uri(), autocommit=True)

    def end() -> None:
        connection.close()
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return connection


def in_postgres(query: str, rows: pl.DataFrame) -> pl.DataFrame:
    kinds = {pl.Float64: "DOUBLE PRECISION", pl.Float32: "REAL", pl.Boolean: "BOOLEAN", pl.Datetime: "TIMESTAMP"}
    types = ((name, dtype.is_integer(), dtype.base_type()) for name, dtype in rows.schema.items())
    columns = ", ".join(f'"{name}" {"BIGINT" if whole else kinds.get(base, "TEXT")}' for name, whole, base in types)
    with postgres().cursor() as cursor:
        cursor.execute(f'CREATE TEMPORARY TABLE "the rows" ({columns})')
        with cursor.copy('COPY "the rows" FROM STDIN') as copy:
            for row in rows.rows():
                copy.write_row(row)
        cursor.execute(query)
        names = [one.name for one in cursor.description]
        found = pl.DataFrame(cursor.fetchall(), schema=names, orient="row", infer_schema_length=None)
        cursor.execute('DROP TABLE "the rows"')
    return found


RUN = {"duckdb": in_duckdb, "sqlite": in_sqlite}
# Its wheels are of some Pythons and systems alone.
if importlib.util.find_spec("pgserver"):
    RUN["postgres"] = in_postgres


def check(model: tg.Model, df: pl.DataFrame, dialect: str, rows: int = 1_000) -> None:
    """Compare predictions, classes and what is kept, in the order of the rows."""
    frame = exported.on_borders(model, df, rows, pl.Float64).with_row_index("row")
    query = model.to_sql(dialect, '"the rows"', keep=["row"])
    found = RUN[dialect](query, frame).sort("row")
    prediction = model.predict(frame)
    parts = {"prediction": prediction}
    if prediction.dtype == pl.Struct:
        parts = {f"prediction_{s.name}": s for s in prediction.struct.unnest().get_columns()}
    names = ["row", *parts]
    for name, ours in parts.items():
        worst = np.abs(found[name].cast(pl.Float64).to_numpy() - ours.to_numpy()).max()
        assert worst < 1e-13 * max(1.0, ours.abs().max()), (dialect, name, worst)
    if model.classes is not None:
        names.append(f"predicted_{model.target}")
        classes = found[names[-1]].cast(pl.Boolean) if isinstance(model.classes[0], bool) else found[names[-1]]
        ours = model.predict(frame, output="class").cast(pl.String)
        # Shares of a forest are counted otherwise than they are added: two that are equal may not be so there.
        assert (classes.cast(pl.String) == ours).mean() > (0.99 if model.learner == "forest" else 0.9999)
    assert found.columns == names


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite", "postgres"])
def test_databases_predict_what_we_do(dialect: str, models: dict[str, tg.Model], table: pl.DataFrame) -> None:
    if dialect not in RUN:
        pytest.skip("there is no pgserver for this Python and system")
    for model in models.values():
        check(model, table, dialect)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_link(loss: str, table: pl.DataFrame) -> None:
    target, params = LOSSES[loss]
    of = pl.struct("two", three=pl.col("three") == "low") if loss == "multilabel" else target
    model = table.taiga.fit_gbdt(of, exported.NUMBERS, rounds=3, depth=3, **{"loss": loss, **params})
    for dialect in RUN:
        check(model, table, dialect, 500)


def test_many_trees(table: pl.DataFrame) -> None:
    """More than an expression may have operators: they are added in stages, in their order."""
    model = table.taiga.fit_gbdt("y", "a", "b", rounds=1_100, depth=2)
    for dialect in RUN:
        check(model, table, dialect, 1_000)
    with pytest.raises(ValueError, match="longer than max_length=10,000 characters"):
        model.to_sql("duckdb", "t", max_length=10_000)
    assert len(model.head(5).to_sql("duckdb", "t", max_length=10_000)) < 10_000


def test_linear_models(table: pl.DataFrame) -> None:
    frame = table.select(pl.col("a", "b").fill_null(0).fill_nan(0), "two", "three")
    for target in ("two", "three"):
        model = frame.taiga.fit_sparse_lr(target, dense=["b", "a"])
        for dialect, run in RUN.items():
            found = run(model.to_sql(dialect, '"the rows"'), frame)
            ours = exported.predicted(model, frame)[:, -1]
            assert np.abs(found.to_series(-2).to_numpy() - ours).max() < 1e-13


def test_columns_that_are_computed(table: pl.DataFrame) -> None:
    when = table.with_columns(when=pl.from_epoch(pl.int_range(pl.len()) * 7919, time_unit="us"))
    model = when.taiga.fit_gbdt(pl.int_range(pl.len()).alias("y"), "when", (pl.col("a") * 2).alias("twice"), rounds=3)
    with pytest.raises(ValueError, match=r"column `when` is datetime\[us\]: say by columns="):
        model.to_sql("duckdb", "t")
    query = model.to_sql("duckdb", '"the rows"', columns={"when": 'epoch_us("when")', "twice": "a * 2"})
    ours = model.predict(when, "when", (pl.col("a") * 2).alias("twice"))
    assert np.abs(in_duckdb(query, when)["prediction"].to_numpy() - ours.to_numpy()).max() < 1e-13
    with pytest.raises(ValueError, match="reads no column `nope`"):
        model.to_sql("duckdb", "t", columns={"nope": "1"})


def test_dialects(models: dict[str, tg.Model], monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, texts and types are those of the database; what is on its way is called as nothing that is kept."""
    model = models["combinations"]
    assert "`text`" in model.to_sql("bigquery", "a.b")
    assert "IS_NAN(" in model.to_sql("bigquery", "a.b")
    assert r"it\'s" in model.to_sql("bigquery", "a.b")
    assert "it''s" in model.to_sql("postgres", "a.b")
    assert "DOUBLE PRECISION" in model.to_sql("postgres", "a.b")
    assert re.search(r"\bm_x0\b", model.to_sql("duckdb", "t", keep=["mx0"]))
    with pytest.raises(ValueError, match=r"'nosql' is no dialect that sqlglot knows: .*duckdb"):
        model.to_sql("nosql", "t")
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(ImportError, match=r"to_sql needs the package sqlglot: pip install 'polars-taiga\[sql\]'"):
        model.to_sql("duckdb", "t")


def test_constants_are_rows_too(table: pl.DataFrame) -> None:
    model: Any = table.taiga.fit_gbdt(pl.lit(2.5).alias("c"), "a", rounds=1)
    assert in_duckdb(model.to_sql("duckdb", '"the rows"'), table)["prediction"].to_list() == [2.5] * len(table)


def test_a_string_is_one_column_to_keep(table: pl.DataFrame) -> None:
    """Proves that it is the list of that name."""
    model = table.taiga.fit_gbdt("y", "a", rounds=1)
    query = model.to_sql("duckdb", '"the rows"', keep="code")
    assert query == model.to_sql("duckdb", '"the rows"', keep=["code"])
    assert in_duckdb(query, table).columns == ["code", "prediction"]


def test_names_that_can_not_be_are_told(table: pl.DataFrame) -> None:
    """Proves that columns are not doubled, and that errors name the parameter."""
    model = table.taiga.fit_gbdt("two", "a", rounds=1)
    several = table.taiga.fit_gbdt("three", "a", rounds=1)
    with pytest.raises(ValueError, match=r"to_sql: keep: `code` stands there twice"):
        model.to_sql("duckdb", "t", keep=["code", "a", "code"])
    for one, name in ((model, "prediction"), (model, "predicted_two"), (several, "prediction_mid")):
        with pytest.raises(ValueError, match=rf"to_sql: keep: `{name}` is what a column of the statement is called"):
            one.to_sql("duckdb", "t", keep=["code", name])
    assert several.to_sql("duckdb", "t", keep="prediction")
    with pytest.raises(TypeError, match=r"to_sql: keep: 3 is not a column's name"):
        model.to_sql("duckdb", "t", keep=cast("Any", ["code", 3]))
    for wrong in ("", "  "):
        with pytest.raises(ValueError, match=rf"to_sql: table: '{wrong}' is no table's name"):
            model.to_sql("duckdb", wrong)
    with pytest.raises(TypeError, match=r"to_sql: table: None is not a table's name"):
        model.to_sql("duckdb", cast("Any", None))


@pytest.mark.parametrize("columns", [None, {"b": "1e0"}], ids=["plain", "computed"])
@pytest.mark.parametrize("name", ["people", "main.people"])
@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_columns_that_the_table_lacks_are_errors(
    dialect: str, name: str, columns: dict[str, str] | None, table: pl.DataFrame
) -> None:
    """Proves that the database tells of them, of those to keep too: to SQLite `"a"` alone is a text."""
    model = table.taiga.fit_gbdt("y", "a", "b", rounds=3)
    connection: Any = sqlite3.connect(":memory:") if dialect == "sqlite" else duckdb.connect()
    connection.execute("CREATE TABLE people (b DOUBLE)")
    with pytest.raises(
        (sqlite3.Error, duckdb.Error), match=r"no such column: \w+\.a|does not have a column named \"a\""
    ):
        connection.execute(model.to_sql(dialect, name, columns=columns))
    connection.execute("ALTER TABLE people ADD COLUMN a DOUBLE")
    assert connection.execute(model.to_sql(dialect, name, columns=columns, keep="a")).fetchall() == []
    with pytest.raises(
        (sqlite3.Error, duckdb.Error), match=r"no such column: \w+\.c|does not have a column named \"c\""
    ):
        connection.execute(model.to_sql(dialect, name, columns=columns, keep=["a", "c"]))


def test_what_is_computed_may_name_the_table(table: pl.DataFrame) -> None:
    """Proves that `columns` may ask for the table's columns by its name, and that names need not be plain."""
    model = table.taiga.fit_gbdt("y", "a", "b", rounds=3)
    for dialect, run in RUN.items():
        found = run(model.to_sql(dialect, '"the rows"', columns={"a": '"the rows"."a"'}), table.select("a", "b"))
        prediction = found["prediction"].cast(pl.Float64)
        assert np.abs(prediction.to_numpy() - model.predict(table).to_numpy()).max() < 1e-13, dialect
    # A table and a column of one name.
    connection = duckdb.connect()
    connection.register("rows", table.select("a", "b").to_arrow())
    connection.execute("CREATE TABLE a AS SELECT * FROM rows")
    found = connection.sql(model.to_sql("duckdb", "main.a")).pl()["prediction"]
    assert np.abs(found.to_numpy() - model.predict(table).to_numpy()).max() < 1e-13


def test_names_that_differ_in_case_alone(table: pl.DataFrame) -> None:
    """Proves that they are an error where they are one column, and right where they are two."""
    frame = table.select("y", "a", A="b")
    model = frame.taiga.fit_gbdt("y", "a", "A", rounds=5)
    for dialect in ("duckdb", "sqlite", "bigquery", "mysql", "tsql"):
        with pytest.raises(
            ValueError, match=rf"to_sql: columns: `a` and `A` differ in case alone, and are one.* {dialect}"
        ):
            model.to_sql(dialect, "t")
        with pytest.raises(ValueError, match=r"to_sql: keep: `x` and `X` differ in case alone"):
            model.to_sql(dialect, "t", columns={"A": "1"}, keep=["x", "X"])
        with pytest.raises(ValueError, match=r"to_sql: keep: `Prediction` is what a column of the statement is called"):
            model.to_sql(dialect, "t", columns={"A": "1"}, keep="Prediction")
        assert model.to_sql(dialect, "t", columns={"A": "1"}, keep=["x", "a"])
    assert model.to_sql("postgres", "t", keep=["x", "X", "Prediction"])
    if "postgres" in RUN:
        check(model, frame, "postgres")
    # Of other letters than ASCII's there are two.
    frame = table.select("y", pl.col("a").alias("ü"), pl.col("b").alias("Ü"))
    model = frame.taiga.fit_gbdt("y", "ü", "Ü", rounds=5)
    for dialect in RUN:
        check(model, frame, dialect)

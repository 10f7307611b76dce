"""Models in DuckDB and DataFusion: the bytes of `tg.predict`, whatever the batches; what can not be is told."""

from __future__ import annotations

import sys
from typing import Any

import catboost
import datafusion
import duckdb
import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

from tests import exported

ROWS = 1_000_000


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return exported.table()


@pytest.fixture(scope="module")
def models(table: pl.DataFrame) -> dict[str, tg.Model]:
    return exported.models(table)


def in_duckdb(model: tg.Model, rows: pl.DataFrame, output: Any = "auto") -> pl.Series:
    """The predictions of a model by its function of tables."""
    connection = duckdb.connect(config={"threads": 1})
    connection.register("arrow", rows.with_row_index("row").to_arrow())
    connection.execute("CREATE TABLE t AS SELECT * FROM arrow")
    tg.duckdb.register(connection, "my model", model, output=output)
    return connection.sql("SELECT prediction FROM \"my model\"('t') ORDER BY row").pl()["prediction"]


def in_datafusion(model: tg.Model, rows: pl.DataFrame, output: Any = "auto") -> pl.Series:
    """The predictions of a model by its function of rows."""
    context = datafusion.SessionContext()
    context.from_arrow(rows.with_row_index("row").to_arrow(), name="t")
    tg.datafusion.register(context, "m", model, output=output)
    columns = ", ".join(f'"{name}"' for name in model.features)
    frame: Any = pl.from_arrow(context.sql(f"SELECT m({columns}) AS p FROM t ORDER BY row").to_arrow_table())
    return frame["p"]


ENGINES = {"duckdb": in_duckdb, "datafusion": in_datafusion}


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_predict_what_we_do(engine: str, models: dict[str, tg.Model], table: pl.DataFrame) -> None:
    for name, model in models.items():
        rows = exported.on_borders(model, table, 5_000, pl.Float64)
        for output in ("auto", "class", "raw", "shap"):
            if (output == "class" and model.classes is None) or (output == "raw" and model.learner == "forest"):
                continue
            found = ENGINES[engine](model, rows, output)
            assert found.equals(model.predict(rows, output=output), check_dtypes=True), (name, output)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_million_rows(engine: str, models: dict[str, tg.Model], table: pl.DataFrame) -> None:
    rows = table.select("a", "b").sample(ROWS, with_replacement=True, seed=1)
    assert ENGINES[engine](models["symmetric"], rows).equals(models["symmetric"].predict(rows))


def test_types_and_labels(table: pl.DataFrame) -> None:
    """Temporal columns, numbers of every type, lists, labels that are an Enum."""
    row = pl.int_range(pl.len())
    frame = table.select(
        "y",
        a=pl.col("a").cast(pl.Float32),
        small=pl.col("code").cast(pl.Int8),
        large=pl.col("code").cast(pl.Int64) * 2**40,
        on=pl.from_epoch(row * 7, time_unit="d"),
        at=pl.from_epoch(row * 7919, time_unit="us"),
        words=pl.concat_list(pl.col("text").fill_null("?"), "many"),
        t=pl.col("three").cast(pl.Enum(["top", "mid", "low"])),
    )
    model = frame.taiga.fit_gbdt("t", "a", "small", "large", "on", "at", rounds=5)
    for run in ENGINES.values():
        assert run(model, frame.drop("t"), "class").equals(model.predict(frame, output="class").cast(pl.String))
        assert run(model, frame.drop("t")).equals(model.predict(frame))
    words = frame.with_columns(two=row % 2 == 0).taiga.fit_sparse_lr("two", "words", hash_bits=8)
    for run in ENGINES.values():
        assert run(words, frame.select("words")).equals(words.predict(frame))
    lasting = frame.with_columns(d=pl.col("at") - pl.col("at").min()).taiga.fit_gbdt("y", "d", rounds=2)
    with pytest.raises(ValueError, match=r"duckdb.register: column `d` is duration\[us\]"):
        tg.duckdb.register(duckdb.connect(), "m", lasting)


def test_computed_features_and_structs(table: pl.DataFrame) -> None:
    """They are arguments under their names."""
    computed = table.taiga.fit_gbdt("y", (pl.col("a") * 2).alias("twice"), rounds=3)
    rows = table.select(twice=pl.col("a") * 2)
    structs = table.select("y", s=pl.struct("a", "b")).taiga.fit_gbdt("y", "s", rounds=3)
    for run in ENGINES.values():
        assert run(computed, rows).equals(computed.predict(table, (pl.col("a") * 2).alias("twice")))
        assert run(structs, table.select("b", "a")).equals(structs.predict(table.select(s=pl.struct("a", "b"))))


def test_duckdb_functions(models: dict[str, tg.Model], table: pl.DataFrame) -> None:
    """Of rows and of tables, in conditions; predictions that nobody asks for are not made; names are replaced."""
    connection = duckdb.connect()
    connection.register("arrow", table.with_row_index("id").to_arrow())
    connection.execute("CREATE TABLE t AS SELECT * FROM arrow")
    tg.duckdb.register(connection, "churn", models["leafwise"])
    p = models["leafwise"].predict(table)
    query = "WITH best AS (SELECT * FROM t WHERE id < 100) SELECT COUNT(*) FROM churn(best) WHERE prediction > 0.5"
    assert connection.sql(query).fetchall() == [((p.head(100) > 0.5).sum(),)]
    assert (
        connection.sql("SELECT churn(a, b) FROM t ORDER BY id LIMIT 5").pl().to_series().to_list()
        == p.head(5).to_list()
    )
    assert "churn(" not in str(connection.sql("EXPLAIN SELECT id FROM churn('t')").fetchall())
    with pytest.raises(duckdb.Error):
        tg.duckdb.register(connection, "churn", models["three"])
    tg.duckdb.register(connection, "churn", models["three"], replace=True)
    top = connection.sql("SELECT prediction.top FROM churn('t') ORDER BY id").pl().to_series()
    assert top.equals(models["three"].predict(table).struct.field("top"), check_names=False)
    tg.duckdb.register(connection, "new", models["three"].to_bytes(), replace=True, rounds=2)
    low = connection.sql("SELECT prediction.low FROM new('t') ORDER BY id").pl().to_series()
    assert low.equals(models["three"].predict(table, rounds=2).struct.field("low"), check_names=False)


def test_errors_come_through(models: dict[str, tg.Model], table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    linear = table.select(pl.col("a", "b").fill_null(0).fill_nan(0), "two").taiga.fit_sparse_lr("two", dense=["a", "b"])
    with pytest.raises(duckdb.Error, match="`a`"):
        in_duckdb(linear, table.select(a=pl.lit(None, pl.Float64), b=1.0).head(5))
    with pytest.raises(ValueError, match="output='staged'"):
        tg.datafusion.register(datafusion.SessionContext(), "m", models["forest"], output="staged")
    for module, name in ((tg.duckdb, "duckdb"), (tg.datafusion, "datafusion")):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match=rf"{name}.register needs the package {name}: pip install 'polars-taiga"):
            module.register(None, "m", models["symmetric"])


def test_batches_of_any_size(models: dict[str, tg.Model], table: pl.DataFrame) -> None:
    """DataFusion's batches are what a table was made of; one of no rows too."""
    context = datafusion.SessionContext()
    batches = table.select("a", "b").to_arrow()
    parts = [batches.slice(start, 1 + start % 97) for start in range(0, 900, 97)]
    import pyarrow

    joined = pyarrow.concat_tables(parts)
    context.from_arrow(joined, name="t")
    tg.datafusion.register(context, "m", models["symmetric"])
    frame: Any = pl.from_arrow(context.sql("SELECT m(a, b) AS p FROM t").to_arrow_table())
    ours: Any = pl.from_arrow(joined)
    assert np.array_equal(np.sort(frame["p"]), np.sort(models["symmetric"].predict(ours)))
    assert context.sql("SELECT m(a, b) AS p FROM t WHERE a > 1e9").to_arrow_table().num_rows == 0


@pytest.fixture(scope="module")
def typed() -> pl.DataFrame:
    """A column of each type, all of which the target follows."""
    row = pl.int_range(400)
    return pl.select(
        seen=pl.datetime(2024, 1, 1, time_zone="UTC") + pl.duration(hours=row),
        x=row % 31,
        flag=row % 2 == 0,
        code=row % 5,
        word=(row % 3).cast(pl.String),
    ).with_columns(
        day=pl.col("seen").dt.date(),
        time=pl.col("seen").dt.time(),
        y=(pl.col("seen").dt.hour() + pl.col("x") + pl.col("flag") * 3 + pl.col("code") ** 2).cast(pl.Float64),
    )


def both_forms(model: tg.Model, rows: pl.DataFrame, column: str, expression: str) -> list[Any]:
    """The predictions, by the functions of tables and of rows, where a column of the table is a SQL expression.

    The session's zone is five hours from UTC. An error is the text of it.
    """
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'America/New_York'")
    connection.register("arrow", rows.with_row_index("row").to_arrow())
    connection.execute("CREATE TABLE t AS SELECT * FROM arrow")
    connection.execute(f"CREATE TABLE u AS SELECT * REPLACE ({expression} AS {column}) FROM t")
    tg.duckdb.register(connection, "m", model)
    found: list[Any] = []
    for query in (
        "SELECT prediction FROM m('u') ORDER BY row",
        f"SELECT m({', '.join(model.features)}) FROM u ORDER BY row",
    ):
        try:
            found.append(connection.sql(query).pl().to_series().to_list())
        except duckdb.Error as error:
            found.append(str(error))
    return found


TAKEN = [
    ("seen", "seen"),
    ("seen", "seen AT TIME ZONE 'UTC'"),
    ("seen", "(seen AT TIME ZONE 'UTC')::TIMESTAMP_S"),
    ("seen", "(seen AT TIME ZONE 'UTC')::TIMESTAMP_MS"),
    ("seen", "(seen AT TIME ZONE 'UTC')::TIMESTAMP_NS"),
    ("x", "x::DOUBLE"),
    ("x", "x::UTINYINT"),
    ("x", "x::HUGEINT"),
    ("x", "x::DECIMAL(9, 3)"),
    ("flag", "flag::INTEGER"),
    ("code", "code::TINYINT"),
    ("code", "code::UBIGINT"),
    ("word", "word::ENUM('0', '1', '2')"),
]


@pytest.mark.parametrize(("column", "expression"), TAKEN)
def test_duckdb_takes_what_tells_the_same(column: str, expression: str, typed: pl.DataFrame) -> None:
    """Proves that both forms give what `tg.predict` does: by instants, whatever the session's zone."""
    features = ["seen", "x", "flag", "code", "word", "day", "time"]
    model = typed.taiga.fit_gbdt("y", features, rounds=30, learning_rate=0.3, categorical=["code", "word"])
    assert both_forms(model, typed, column, expression) == [model.predict(typed).to_list()] * 2


REFUSED = [
    ("seen", "epoch_us(seen)", "column `seen`: its type is int64; the model was fitted on datetime"),
    ("seen", "seen::VARCHAR", "column `seen`: its type is string; the model was fitted on datetime"),
    ("x", "x::VARCHAR", "column `x`: its type is string; the model was fitted on numeric"),
    ("x", "seen", "column `x`: its type is timestamp"),
    ("code", "code + 0.5::DOUBLE", "column `code`: its type is double; the model was fitted on categorical integers"),
    ("code", "code::VARCHAR", "column `code`: its type is string; the model was fitted on categorical integers"),
    ("code", "code > 2", "column `code`: its type is bool; the model was fitted on categorical integers"),
    ("word", "word::INTEGER", "No function matches"),
    ("day", "seen", "No function matches"),
    ("day", "seen AT TIME ZONE 'UTC'", "No function matches"),
    ("time", "seen", "column `time`: its type is timestamp"),
]


@pytest.mark.parametrize(("column", "expression", "told"), REFUSED)
def test_duckdb_refuses_what_predict_refuses(column: str, expression: str, told: str, typed: pl.DataFrame) -> None:
    """Proves that neither form casts what would lose something, or is of another kind."""
    categorical = [column] if column in ("code", "word") else []
    model = typed.taiga.fit_gbdt("y", column, rounds=2, categorical=categorical)
    for found in both_forms(model, typed, column, expression):
        assert told in found


def test_duckdb_keeps_the_unit_of_time(typed: pl.DataFrame) -> None:
    """Proves that ticks which a model's unit has no place for are an error, and others not."""
    frame = typed.with_columns(pl.col("seen").cast(pl.Datetime("ms", "UTC")))
    model = frame.taiga.fit_gbdt("y", "seen", rounds=5)
    assert both_forms(model, typed, "seen", "seen") == [model.predict(frame).to_list()] * 2
    for found in both_forms(model, typed, "seen", "seen + INTERVAL 1 MICROSECOND"):
        assert "would lose data" in found


def test_duckdb_reads_categories_known_by_a_hash() -> None:
    """Proves that text, integers and Booleans are as CatBoost reads them, in both forms."""
    row = np.arange(300)
    words = np.array([[str(i % 7), str(i % 2)] for i in row], dtype=object)
    fitted = catboost.CatBoostRegressor(
        iterations=5, cat_features=[0, 1], verbose=0, thread_count=1, allow_writing_files=False
    ).fit(words, row % 14)
    model = tg.import_model(fitted, features=["k", "b"])
    rows = pl.DataFrame({"k": row % 7, "b": row % 2 == 1})
    wanted = model.predict(rows).to_list()
    assert wanted == model.predict(rows.select(pl.col("k").cast(pl.String), pl.col("b").cast(pl.Int64))).to_list()
    for expression in ("k", "k::TINYINT", "k::VARCHAR"):
        assert both_forms(model, rows, "k", expression) == [wanted] * 2
    assert "column `k`: its type is double" in both_forms(model, rows, "k", "k::DOUBLE")[0]


@pytest.mark.parametrize("name", ["prediction", "Prediction", "PREDICTION"])
def test_duckdb_has_one_column_of_predictions(name: str, typed: pl.DataFrame) -> None:
    """Proves that a table with such a column is an error, whatever is asked for, and none without it."""
    model = typed.taiga.fit_gbdt("y", "x", rounds=3)
    connection = duckdb.connect()
    connection.register("arrow", typed.to_arrow())
    connection.execute(f"CREATE TABLE t AS SELECT *, 1 AS {name} FROM arrow")
    tg.duckdb.register(connection, "m", model)
    told = f"the table has a column `{name}` already: SELECT the others, or rename it"
    for query in ("SELECT prediction FROM m('t')", "SELECT x FROM m('t')", "FROM m('t') LIMIT 0"):
        with pytest.raises(duckdb.Error, match=told):
            connection.sql(query).fetchall()
    others = "WITH u AS (SELECT * EXCLUDE (prediction), 2 AS predictions FROM t) "
    found = connection.sql(f"{others} SELECT * FROM m(u)")
    assert found.columns == [*typed.columns, "predictions", "prediction"]
    assert found.pl()["prediction"].equals(model.predict(typed), check_names=False)
    # A model that reads it has its function of rows.
    reads = typed.rename({"x": name}).taiga.fit_gbdt("y", name, rounds=3)
    tg.duckdb.register(connection, "r", reads)
    with pytest.raises(duckdb.Error, match=f"a column `{name}` already: the model reads it, so call the function of"):
        connection.sql("SELECT prediction FROM r('t')").fetchall()
    one = reads.predict(pl.DataFrame({name: [1]}))[0]
    assert connection.sql("SELECT DISTINCT r(prediction) FROM t").fetchall() == [(one,)]


def test_duckdb_can_not_tell_names_by_case(typed: pl.DataFrame) -> None:
    """Proves that two columns which are one to DuckDB are an error, and others that look alike are not."""
    frame = typed.select("y", "x", X=pl.col("code"))
    model = frame.taiga.fit_gbdt("y", "x", "X", rounds=5)
    with pytest.raises(ValueError, match=r"duckdb.register: columns `x` and `X` differ in case alone"):
        tg.duckdb.register(duckdb.connect(), "m", model)
    frame = frame.rename({"x": "ü", "X": "Ü"})
    model = frame.taiga.fit_gbdt("y", "ü", "Ü", rounds=5)
    assert in_duckdb(model, frame).equals(model.predict(frame))

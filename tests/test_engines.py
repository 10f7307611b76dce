"""Models in DuckDB and DataFusion: the bytes of `tg.predict`, whatever the batches; what can not be is told."""

from __future__ import annotations

import sys
from typing import Any

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

"""Fit, measure, explain and apply models in SQL, on lazy frames; apply one in DuckDB, DataFusion and SQLite."""

import importlib
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(28)
n = 5_000
past = pl.DataFrame(
    {
        "id": range(n),
        "age": rng.integers(18, 90, n),
        "visits": rng.poisson(3, n),
        "plan": rng.choice(["basic", "family", "pro"], n),
        "country": rng.choice(["NO", "SE", "DK"], n),
    }
).with_columns(held_out=pl.col("id") % 4 == 0)
score = past["age"] / 30 - past["visits"] + 2 * (past["plan"] == "basic").cast(pl.Int64)
past = past.with_columns(left=score + rng.normal(0, 1, n) > 0.5)

models: dict[str, tg.Model] = {}
try:
    tg.sql(
        """CREATE MODEL churn OPTIONS(target = 'left', eval = 'held_out', rounds = 300, early_stopping = 20)
           AS SELECT age, visits, plan, held_out, left FROM past""",
        models=models,
        past=past,
    )
except ImportError as error:
    sys.exit(print(f"not run: {error}"))
print(models["churn"])


def show(query: str, **tables: pl.LazyFrame) -> None:
    """Print a query's result."""
    print(tg.sql(query, models=models, **tables).collect())


show("SELECT * FROM ML.EVALUATE(MODEL churn, (SELECT * FROM past WHERE held_out))", past=past.lazy())
show("SELECT * FROM ML.FEATURE_IMPORTANCE(MODEL churn) ORDER BY importance_gain DESC")
show(
    "SELECT * FROM HISTOGRAM((SELECT prediction FROM ML.PREDICT(MODEL churn, TABLE past)), 'prediction', 4)",
    past=past.lazy(),
)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "customers.parquet"
    past.write_parquet(path)
    lazy = tg.sql(
        """SELECT id, prediction, top_feature_attributions AS why
           FROM ML.EXPLAIN_PREDICT(MODEL churn, TABLE customers, STRUCT(1 AS top_k_features))
           WHERE country = 'NO' AND prediction > 0.95""",
        models=models,
        customers=pl.scan_parquet(path),
    )
    # Of the scan only what is needed is read, and the condition on its own columns is checked there.
    print("\n".join(line.strip() for line in lazy.explain().splitlines() if "PROJECT" in line or "SELECTION" in line))
    print(lazy.collect().head(3))

try:
    show("SELECT id\nFROM ML.PREDICT(MODEL chrun, TABLE past)", past=past.lazy())
except ValueError as error:
    print(error)

# The model in other engines. As a table, whose columns are found by name, or as a function of values in their order.
try:
    duckdb: Any = importlib.import_module("duckdb")
    datafusion: Any = importlib.import_module("datafusion")
except ImportError as error:
    sys.exit(print(f"the rest is not run: {error}"))
churn = models["churn"]
connection = duckdb.connect()
connection.register("arrow", past.to_arrow())
connection.execute("CREATE TABLE past AS SELECT * FROM arrow")
tg.duckdb.register(connection, "churn", churn)
print(
    "DuckDB:", connection.sql("SELECT plan, AVG(prediction) FROM churn('past') GROUP BY plan ORDER BY plan").fetchall()
)

context = datafusion.SessionContext()
context.from_arrow(past.to_arrow(), name="past")
tg.datafusion.register(context, "churn", churn)
query = f"SELECT plan, AVG(churn({', '.join(churn.features)})) AS mean FROM past GROUP BY plan ORDER BY plan"
print("DataFusion:", context.sql(query).to_pydict()["mean"])

# A database that runs nothing but SQL gets the trees as CASE expressions.
lite = sqlite3.connect(":memory:")
lite.execute("CREATE TABLE past (age REAL, visits REAL, plan TEXT)")
lite.executemany("INSERT INTO past VALUES (?, ?, ?)", past.select("age", "visits", "plan").rows())
statement = churn.to_sql("sqlite", "past", keep=["plan"])
mean = lite.execute(f"SELECT AVG(prediction) FROM ({statement}) GROUP BY plan ORDER BY plan").fetchall()
print("SQLite:", [one for (one,) in mean], f"by {len(statement):,} characters of SQL")

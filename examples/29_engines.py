"""Apply a model in DuckDB and in DataFusion, and write a small one as plain SQL, for SQLite say."""

import sqlite3
import sys

import numpy as np
import polars as pl
import polars_taiga as tg

try:
    import datafusion
    import duckdb
except ImportError as error:
    sys.exit(print(f"not run: {error}"))

rng = np.random.default_rng(29)
n = 5_000
rows = pl.DataFrame(
    {
        "id": range(n),
        "age": rng.integers(18, 90, n),
        "visits": rng.poisson(3, n),
        "plan": rng.choice(["basic", "pro"], n),
    }
).with_columns(left=(pl.col("age") / 30 - pl.col("visits") + pl.Series(rng.normal(0, 1, n))) > 0)
model: tg.Model = rows.taiga.fit_gbdt("left", "age", "visits", "plan", rounds=60)

connection = duckdb.connect()
connection.register("rows_", rows.to_arrow())
connection.execute("CREATE TABLE customers AS SELECT * FROM rows_")
tg.duckdb.register(connection, "churn", model)
# As a table, whose columns are found by name, and as a function of values in the order of model.features.
top = connection.sql("SELECT id, prediction FROM churn('customers') ORDER BY prediction DESC, id LIMIT 3").fetchall()
print("DuckDB:", [(i, round(p, 4)) for i, p in top])
print(connection.sql("SELECT plan, AVG(churn(age, visits, plan)) AS mean FROM customers GROUP BY plan ORDER BY plan"))

context = datafusion.SessionContext()
context.from_arrow(rows.to_arrow(), name="customers")
tg.datafusion.register(context, "churn", model)
query = "SELECT id, churn(age, visits, plan) AS p FROM customers ORDER BY p DESC, id LIMIT 3"
print("DataFusion:", context.sql(query).to_pydict())

# A database that runs nothing but SQL gets the trees as CASE expressions.
lite = sqlite3.connect(":memory:")
lite.execute("CREATE TABLE customers (id INTEGER, age REAL, visits REAL, plan TEXT)")
lite.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", rows.drop("left").rows())
try:
    statement = model.to_sql("sqlite", "customers", keep=["id"])
except ImportError as error:
    sys.exit(print(f"not run: {error}"))
found = lite.execute(f"SELECT id, prediction FROM ({statement}) ORDER BY prediction DESC, id LIMIT 3").fetchall()
print("SQLite:", [(i, round(p, 4)) for i, p in found], f"by {len(statement):,} characters of SQL")

"""Keep models by name and version in a table: in SQLite and in Parquet; load one, the newest, or one for each row."""

import sqlite3
import tempfile
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(29)
n = 6_000
sales = pl.DataFrame(
    {
        "shop": rng.choice(["Bergen", "Oslo", "Tromsø"], n),
        "price": rng.uniform(1, 9, n),
        "weekday": rng.integers(0, 7, n),
    }
).with_columns(sold=pl.lit(20.0) - 2 * pl.col("price") + (pl.col("weekday") > 4) * 6 + pl.Series(rng.normal(0, 1, n)))


def rows_of(models: dict[str, tg.Model], version: int) -> pl.DataFrame:
    """A row for each model; what is said of it stands beside it, so that nobody needs to read it to choose."""
    return pl.DataFrame(
        {
            "name": list(models),
            "version": [version] * len(models),
            "created": [datetime(2026, 11, 20 + version, tzinfo=timezone.utc)] * len(models),
            "rmse": [model.score(sales, "sold") for model in models.values()],
            "model": [model.to_bytes() for model in models.values()],
        }
    )


first = {"sold": sales.taiga.fit_gbdt("sold", "price", "weekday", rounds=20)}
second = {"sold": sales.taiga.fit_gbdt("sold", "price", "weekday", rounds=80, metadata={"by": "ann"})}
table = pl.concat([rows_of(first, 1), rows_of(second, 2)])

# SQLite: a model is a BLOB. The key keeps a version from being written twice.
database = sqlite3.connect(":memory:")
database.execute(
    "CREATE TABLE models (name TEXT, version INTEGER, created TEXT, rmse REAL, model BLOB, PRIMARY KEY (name, version))"
)
rows = table.with_columns(pl.col("created").dt.to_string("iso:strict")).rows()
with database:
    database.executemany("INSERT INTO models VALUES (?, ?, ?, ?, ?)", rows)

query = "SELECT model FROM models WHERE name = 'sold' AND version = 1"
model = tg.Model.from_bytes(pl.read_database(query, database).item())
print("SQLite, version 1:", model)
assert model == first["sold"]
newest = pl.read_database(
    "SELECT version, rmse, model FROM models WHERE name = 'sold' ORDER BY version DESC LIMIT 1", database
)
print("the newest:", newest.select("version", pl.col("rmse").round(3)).row(0), tg.Model(newest["model"][0]).metadata)

with tempfile.TemporaryDirectory() as folder:
    # Parquet: a file for each version, appended by writing another one; of the scan only the chosen models are read.
    for version, models in ((1, first), (2, second)):
        rows_of(models, version).write_parquet(Path(folder) / f"{version}.parquet")
    kept = pl.scan_parquet(Path(folder) / "*.parquet").sort("version").group_by("name").last().collect()
    models = {name: tg.Model(data) for name, data in kept.select("name", "model").iter_rows()}
    assert models == second

    # A model for each shop, all fitted by one query, and each row predicted by its own.
    fits = sales.lazy().group_by("shop").agg(model=tg.fit_gbdt("sold", "price", "weekday", rounds=40))
    path = Path(folder) / "shops.parquet"
    fits.with_columns(version=pl.lit(1)).collect().write_parquet(path)
    by_shop = pl.scan_parquet(path).filter(pl.col("version") == 1).select("shop", "model")
    scored = sales.lazy().join(by_shop, on="shop").with_columns(p=tg.predict("model", "price", "weekday"))
    error = scored.group_by("shop").agg(rmse=tg.metrics.rmse("sold", "p").round(3)).sort("shop")
    print(error.collect())

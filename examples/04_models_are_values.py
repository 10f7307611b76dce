"""A model is a value: a file, a Parquet column, a pickle, a table of its nodes."""

import pickle
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(4)
n = 5_000
rows = pl.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)}).with_columns(
    kind=pl.when(pl.col("a") > 0.7)
    .then(pl.lit("high"))
    .when(pl.col("b") > 0)
    .then(pl.lit("middle"))
    .otherwise(pl.lit("low"))
)
model = tg.Model.from_bytes(rows.select(tg.fit_gbdt("kind", "a", "b", rounds=20)).item())

with tempfile.TemporaryDirectory() as folder:
    # To a file and back.
    path = Path(folder) / "kinds.taiga"
    model.save(path)
    assert tg.Model.load(path) == model

    # As a column of a Parquet file, beside whatever else describes it.
    registry = Path(folder) / "registry.parquet"
    pl.DataFrame({"name": ["kinds"], "version": [1], "model": [model.to_bytes()]}).write_parquet(registry)
    chosen = pl.scan_parquet(registry).filter(pl.col("name") == "kinds").select("model").collect().item()

assert pickle.loads(pickle.dumps(model)) == model

# Every kind of output.
outputs = rows.with_columns(
    probabilities=tg.predict(chosen),
    label=tg.predict(chosen, output="class"),
    leaves=tg.predict(chosen, output="leaf"),
)
print(outputs.head())
print(model.trees().head())
right = outputs.select((pl.col("kind") == pl.col("label").cast(pl.String)).mean()).item()
print(f"{right:.1%} of the rows are labelled as they were")
assert right > 0.95

"""Fit a table that is never in memory as a whole, to the same bytes, and predict in a stream."""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import polars_taiga as tg

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(25)
# Files, no two of which are in memory at a time.
for number in range(8):
    x = rng.normal(size=(50_000, 6)).astype(np.float32)
    y = x[:, 0] + np.sin(3 * x[:, 1]) + x[:, 2] * x[:, 3] + rng.normal(size=50_000) / 4
    rows = pl.DataFrame({f"x{i}": x[:, i] for i in range(6)}).with_columns(
        y=pl.Series(y.astype(np.float32)), held=pl.Series(rng.random(50_000) < 0.1)
    )
    rows.write_parquet(folder / f"{number}.parquet")

frame = pl.scan_parquet(folder / "*.parquet")
fit = {"eval": "held", "rounds": 60, "early_stopping": 5}

# The query is run in batches; codes lie in files of the folder, which are gone when the fit is over.
model = frame.taiga.fit_gbdt("y", pl.exclude("y", "held"), batches=True, spill=folder, **fit)
print("rounds:", model.rounds)

# The bytes are those of the fit that has the table whole.
whole = frame.taiga.fit_gbdt("y", pl.exclude("y", "held"), **fit)
print("the same bytes:", model.to_bytes() == whole.to_bytes())

# Whether that is needed can be left to the memory there is.
auto = frame.taiga.fit_gbdt("y", pl.exclude("y", "held"), batches="auto", **fit)
print("the same again:", auto.to_bytes() == whole.to_bytes())

# Predictions stream, to a file of any size.
predicted = frame.select("y", p=tg.predict(model))
predicted.sink_parquet(folder / "predicted.parquet")
error = pl.scan_parquet(folder / "predicted.parquet").select((pl.col("y") - pl.col("p")).pow(2).mean().sqrt())
print(f"RMSE: {error.collect().item():.3f}")

"""Go on from a model, survive a failure, and look at each round."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(17)
n = 5_000
rows = pl.DataFrame({f"x{i}": rng.normal(size=n) for i in range(6)}).with_columns(
    y=pl.col("x0") + pl.col("x1") * pl.col("x2") + pl.Series(rng.normal(size=n)),
    held_out=pl.int_range(pl.len()) % 5 == 0,
)
columns = pl.col("^x.*$")

# 60 rounds and 40 more are the bytes of 100.
first = rows.taiga.fit_gbdt("y", columns, rounds=60)
more = rows.taiga.fit_gbdt("y", columns, rounds=40, init_model=first)
print(more.to_bytes() == rows.taiga.fit_gbdt("y", columns, rounds=100).to_bytes())

# A month later: new rows, smaller steps. The model's own trees stay as they are.
new = rows.with_columns(pl.col("x0") + 0.5)
later = new.taiga.fit_gbdt("y", columns, rounds=20, learning_rate=0.02, init_model=more)
print(new.select(before=tg.predict(more), now=tg.predict(later)).head(3))


def watch(done: int, metrics: Mapping[str, float]) -> bool:
    """Say how it goes, and stop when it is good enough."""
    if done % 25 == 0:
        print(done, metrics)
    return metrics["rmse"] < 1.1


# A fit that is killed goes on from the file when the same call is made again.
with tempfile.TemporaryDirectory() as folder:
    model = rows.taiga.fit_gbdt(
        "y",
        columns,
        eval="held_out",
        rounds=1000,
        early_stopping=50,
        early_stopping_min_delta=0.001,
        snapshot=Path(folder) / "fit.snapshot",
        snapshot_every=20,
        callback=watch,
    )
print(model)

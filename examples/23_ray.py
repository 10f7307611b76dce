"""Fit one model by the workers of a Ray cluster, here of this machine; one of them is killed, and replaced."""

import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

# Whoever reaches this cluster is on this machine.
os.environ["RAY_AUTH_MODE"] = "disabled"

try:
    import ray
    from polars_taiga.ray import fit_gbdt
except ImportError as error:
    sys.exit(print(f"not run: {error}"))

rng = np.random.default_rng(23)
x = pl.DataFrame({f"x{i}": rng.normal(size=8_000) for i in range(4)})
table = x.with_columns(y=pl.col("x0") * pl.col("x1") + pl.col("x2"))

with tempfile.TemporaryDirectory() as folder:
    for i in range(5):
        table[1_600 * i : 1_600 * i + 1_600].write_parquet(f"{folder}/{i}.parquet")

    def rows(rank: int, world: int) -> pl.LazyFrame:
        """A worker's part, as `fit_gbdt(folder, …)` would deal it by itself; here the worker leaves its number too."""
        Path(f"{folder}/{rank}").write_text(str(os.getpid()))
        return pl.scan_parquet(f"{folder}/*.parquet").slice(8_000 * rank // world, 8_000 // world)

    killed = []

    def after_round(done: int, metrics: Mapping[str, float]) -> None:
        """Kill a worker, once."""
        if done == 70 and not killed:
            killed.append(int(Path(f"{folder}/1").read_text()))
            os.kill(killed[0], signal.SIGKILL)

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    model = fit_gbdt(
        rows, "y", *x.columns, workers=2, rounds=100, snapshot_every=25, callback=after_round, interface="127.0.0.1"
    )
    ray.shutdown()

print(
    "killed:",
    len(killed),
    "of 2 workers; the bytes of one fit:",
    model == table.taiga.fit_gbdt("y", *x.columns, rounds=100),
)

"""Fit one model by the workers of a Dask cluster; here two processes of this machine."""

import secrets
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg

try:
    import distributed
except ImportError as error:
    sys.exit(print(f"not run: {error}"))


def free_port() -> int:
    """A port at which rank 0 can listen; run by its worker."""
    with socket.socket() as free:
        free.bind(("", 0))
        return int(free.getsockname()[1])


def part(us: dict[str, Any], files: list[str], fit: dict[str, Any]) -> bytes:
    """Fit with the others; run by each worker, on its files (without any, it reads the columns' types)."""
    own = files[us["rank"] * len(files) // us["world"] : (us["rank"] + 1) * len(files) // us["world"]]
    rows = pl.scan_parquet(own) if own else pl.scan_parquet(files[0]).head(0)
    params = {key: value for key, value in fit.items() if key not in ("target", "features")}
    return rows.taiga.fit_gbdt(fit["target"], *fit["features"], collective=tg.Collective(**us), **params).to_bytes()


def fit_gbdt(client: distributed.Client, files: list[str], world: int, failures: int = 3, **fit: Any) -> tg.Model:
    """Fit on `world` workers, a task on each; again where one is lost, from the `snapshot` if there is one."""
    for left in reversed(range(1 + failures)):
        client.wait_for_workers(world, timeout=120)
        workers = sorted(client.scheduler_info(n_workers=-1)["workers"])[:world]
        tasks: list[distributed.Future] = []
        try:
            host = workers[0].rpartition("://")[2].rpartition(":")[0]
            port = client.submit(free_port, workers=workers[:1], pure=False).result(timeout=60)
            us = {"world": world, "address": f"{host}:{port}", "secret": secrets.token_hex(16), "timeout": 60.0}
            for rank, worker in enumerate(workers):
                # Pinned, since a fit of fewer processes would wait for the one that is missing.
                tasks.append(client.submit(part, {**us, "rank": rank}, files, fit, workers=[worker], pure=False))
            models = [model for _, model in distributed.as_completed(tasks, with_results=True)]
            return tg.Model(models[0])
        except Exception:
            if left == 0:
                raise
        finally:
            client.cancel(tasks, force=True)
        client.restart(timeout=120)  # what a lost one has left behind ends, and all begin anew
    raise AssertionError


if __name__ == "__main__":
    rng = np.random.default_rng(24)
    x = pl.DataFrame({f"x{i}": rng.normal(size=6_000) for i in range(4)})
    table = x.with_columns(y=pl.col("x0") * pl.col("x1") + pl.col("x2"))
    with tempfile.TemporaryDirectory() as folder:
        for i in range(5):
            table[1_200 * i : 1_200 * i + 1_200].write_parquet(f"{folder}/{i}.parquet")
        files = sorted(map(str, Path(folder).glob("*.parquet")))
        # On storage that every machine sees.
        kept = {"snapshot": f"{folder}/fit.snapshot", "snapshot_every": 20}
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            model = fit_gbdt(client, files, 2, target="y", features=x.columns, rounds=50, **kept)
    same = model.to_bytes() == table.taiga.fit_gbdt("y", *x.columns, rounds=50).to_bytes()
    print("two workers of Dask: the bytes of one fit:", same)

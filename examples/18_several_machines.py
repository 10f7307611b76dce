"""Fit one model in three processes, each with its part of the rows; here all on this machine."""

import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import polars_taiga as tg


def rows() -> pl.DataFrame:
    """The whole table, which nobody has in earnest: each machine reads its own files."""
    rng = np.random.default_rng(18)
    x = pl.DataFrame({f"x{i}": rng.normal(size=9_000) for i in range(4)})
    kind = pl.Series(rng.choice(["oak", "pine", "larch"], 9_000))
    return x.with_columns(kind=kind, y=pl.col("x0") * pl.col("x1") + pl.col("x2") + (kind == "larch"))


def work() -> None:
    """What each process does; who it is, it reads from its environment."""
    us = tg.Collective.from_env()
    ends = [0, 2_000, 2_500, 9_000]
    own = rows()[ends[us.rank] : ends[us.rank + 1]]
    model = own.lazy().taiga.fit_gbdt("y", pl.col("^x.*$"), "kind", rounds=50, collective=us)
    whole = rows().taiga.fit_gbdt("y", pl.col("^x.*$"), "kind", rounds=50)
    print(f"rank {us.rank}: {own.height} rows; the model of all {whole.to_bytes() == model.to_bytes()}", flush=True)


def start() -> None:
    """Start three processes, as torchrun or Slurm would on many machines."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    ours = {"TAIGA_WORLD": "3", "TAIGA_ADDRESS": address, "TAIGA_SECRET": secrets.token_hex(16), "TAIGA_TIMEOUT": "60"}
    command = [sys.executable, str(Path(__file__).resolve())]
    started = [subprocess.Popen(command, env={**os.environ, **ours, "TAIGA_RANK": str(rank)}) for rank in range(3)]
    if any(code != 0 for code in [process.wait() for process in started]):
        sys.exit("a process has failed")


if __name__ == "__main__":
    work() if "TAIGA_RANK" in os.environ else start()

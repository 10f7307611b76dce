"""Fits by the workers of a Dask cluster, as examples/24_dask.py makes them."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import distributed
import polars as pl
import polars_taiga as tg
import pytest

from tests.test_collective import NUMBERS, table

FILE = Path(__file__).parent.parent / "examples" / "24_dask.py"


@pytest.fixture(scope="module")
def example() -> Any:
    """The example's functions; the workers get them as they are, since nobody can import the module."""
    spec = importlib.util.spec_from_file_location("example_of_dask", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    """A cluster of three processes."""
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "60s"}),
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster, timeout="60s") as client,
    ):
        yield client


def test_the_workers_of_a_cluster_fit_together(example: Any, client: distributed.Client, tmp_path: Path) -> None:
    """More workers than files, and a killed one: the fit is made again from its snapshot, to the bytes of one fit."""
    frame, files = table(), [str(tmp_path / "0.parquet"), str(tmp_path / "1.parquet")]
    frame[:1_000].write_parquet(files[0])
    frame[1_000:].write_parquet(files[1])
    fit: dict[str, Any] = {"rounds": 600, "learning_rate": 0.02, "weight": "w"}
    state = tmp_path / "fit.snapshot"
    before = sorted(client.run(os.getpid).items())

    def killing() -> None:
        until = time.monotonic() + 60
        while not state.exists() and time.monotonic() < until:
            time.sleep(0.005)
        os.kill(before[1][1], signal.SIGKILL)

    killer = threading.Thread(target=killing)
    killer.start()
    try:
        model = example.fit_gbdt(
            client, files, 3, target="y", features=NUMBERS, snapshot=str(state), snapshot_every=20, **fit
        )
    finally:
        killer.join()
    # All have begun anew, so it was killed before the fit had ended.
    assert {pid for _, pid in before}.isdisjoint(client.run(os.getpid).values())
    assert model.to_bytes() == frame.taiga.fit_gbdt("y", *NUMBERS, **fit).to_bytes()


def test_an_error_is_told(example: Any, client: distributed.Client, tmp_path: Path) -> None:
    """Behind the last failure, as the worker has it."""
    file = str(tmp_path / "0.parquet")
    table().write_parquet(file)
    with pytest.raises(pl.exceptions.PolarsError, match="nowhere"):
        example.fit_gbdt(client, [file], 1, failures=0, target="y", features=["nowhere"], rounds=3)
    assert isinstance(example.fit_gbdt(client, [file], 1, target="y", features=NUMBERS, rounds=3), tg.Model)

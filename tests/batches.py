"""What tests of fits in batches share: frames that change or are watched, little memory, interrupted fits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars_taiga import _batches

from tests.signals import WAIT_FOR_OUR_HANDLER

HAS_BATCHES = hasattr(pl.LazyFrame, "collect_batches")
needs_batches = pytest.mark.skipif(not HAS_BATCHES, reason="this Polars has no collect_batches")


def written(frame: pl.DataFrame, folder: Path) -> Path:
    """The frame in a file of several groups of rows."""
    path = folder / "table.parquet"
    frame.write_parquet(path, row_group_size=400)
    return path


def note_columns_read(monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> list[set[str]]:
    """Notes which of some columns each query of a file reads, in this list."""
    read: list[set[str]] = []
    batches, collect = pl.LazyFrame.collect_batches, pl.LazyFrame.collect

    def note(own: pl.LazyFrame) -> None:
        plan = own.explain()
        read.append({name for name in names if f'col("{name}")' in plan})

    def noted_batches(self: pl.LazyFrame, **more: Any) -> Any:
        note(self)
        return batches(self, **more)

    def noted_collect(self: pl.LazyFrame, **more: Any) -> Any:
        if "PARQUET" in self.explain().upper():
            note(self)
        return collect(self, **more)

    monkeypatch.setattr(pl.LazyFrame, "collect_batches", noted_batches)
    monkeypatch.setattr(pl.LazyFrame, "collect", noted_collect)
    return read


def changing(frame: pl.DataFrame, last: int, changes: str) -> tuple[pl.LazyFrame, Callable[[], int]]:
    """A query of the frame that gives something else when it runs for the `last` time: `more` rows, `fewer`, or another
    order in the column that `changes` names; and how often it ran.
    """
    # The oldest Polars has none.
    from polars.io.plugins import register_io_source

    runs = 0

    def source(columns: list[str] | None, *_: Any) -> Iterator[pl.DataFrame]:
        nonlocal runs
        runs += 1
        own = frame
        if runs == last and changes == "more":
            own = pl.concat([own, own.head(1)])
        elif runs == last and changes == "fewer":
            own = own.head(own.height - 1)
        elif runs == last:
            own = own.with_columns(own[changes].gather([1, 0, *range(2, own.height)]))
        yield own if columns is None else own.select(columns)

    return register_io_source(source, schema=frame.schema), lambda: runs  # type: ignore[arg-type]


def have_room_for_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this a process with little memory: it has room for fits of less than 1,000 rows."""
    fit = _batches._taiga.BatchedFit

    class Small:
        def __init__(self, *args: Any) -> None:
            self.own = fit(*args)

        def has_room(self, rows: int) -> bool:
            return rows < 1_000

        def __getattr__(self, name: str) -> Any:
            return getattr(self.own, name)

    monkeypatch.setattr(_batches._taiga, "BatchedFit", Small)


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import polars as pl, polars_taiga as tg
signal.signal(signal.SIGINT, signal.default_int_handler)
rows = pl.LazyFrame({"i": range(400_000)}).select(y=pl.col("i") % 97 * 1.0, x=pl.col("i") * 7919 % 10_007)
folder, when = sys.argv[1], sys.argv[2]
# In a pass over many rows, or in many rounds.
lazy, rounds, batches = (rows, 100_000, True) if when == "rounds" else (rows, 2, 5)
interrupt_once_a_call_is_under_way()
try:
    FIT
    print("done")
except KeyboardInterrupt:
    sum(range(1000)), [str(j) for j in range(1000)]  # a second one would come here
    print("KeyboardInterrupt", flush=True)
assert rows.head(500).taiga.fit_gbdt("y", "x", rounds=1, batches=100).rounds == 1
try:
    signal.raise_signal(signal.SIGINT)
    print("no signal")
except KeyboardInterrupt:
    print("again")
"""


def check_that_ctrl_c_ends(fit: str, when: str, folder: Path) -> None:
    """Interrupts a fit in a process of its own, in a `pass` or in its `rounds`: it ends by KeyboardInterrupt alone,
    fits go on afterwards, and no file is left. `fit`: of `lazy`, by `rounds`, `batches` and `folder`.
    """
    script = WAIT_FOR_OUR_HANDLER + INTERRUPTED.replace("FIT", fit)
    run = subprocess.run([sys.executable, "-c", script, str(folder), when], capture_output=True, text=True, timeout=300)
    assert run.stdout.split() == ["KeyboardInterrupt", "again"], run.stderr
    assert run.returncode == 0, run.stderr
    assert list(folder.iterdir()) == []

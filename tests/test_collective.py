"""Fits that several processes make together: the bytes of one fit of all rows; and what becomes of those that fail."""

from __future__ import annotations

import base64
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

from tests.collective_worker import fitted, free_port

ROWS = 3_000


def table(rows: int = ROWS) -> pl.DataFrame:
    """Numbers of several types with nulls, categories in few rows, lists, targets of several types, weights."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(rows, 3))
    signal_ = x[:, 0] + np.sin(2 * x[:, 1]) + 0.3 * rng.normal(size=rows)
    # A category, and a class, that the last rows alone have.
    city = np.array([f"city {i}" for i in rng.integers(0, 12, rows)])
    city[-5:] = "far away"
    kind = np.where(signal_ > 1, "high", np.where(signal_ < -1, "low", "middle"))
    kind[-4:] = "none"
    # Lists of words and of numbers with values, some null, some empty.
    counts = rng.integers(0, 5, rows)
    words = [None if n == 4 else [f"word {i}" for i in rng.integers(0, 50, n)] for n in counts]
    tokens = [[] if word is None else [int(text[5:]) * 3 for text in word] for word in words]
    return pl.DataFrame(
        {
            "a": x[:, 0].astype(np.float32),
            "b": pl.Series(x[:, 1]).set(pl.Series(rng.random(rows) < 0.1), None),
            "c": pl.Series((x[:, 2] * 10).astype(np.int16)),
            "day": pl.Series(rng.integers(0, 400, rows)).cast(pl.Int32).cast(pl.Date),
            "city": city,
            "y": signal_ * 100 + 7,
            "small": signal_.round(0),
            "kind": kind,
            "level": pl.Series(kind).cast(pl.Enum(["low", "middle", "high", "none"])),
            "yes": signal_ > 0,
            "count": np.exp(np.clip(signal_, -3, 3)).round(0),
            "w": rng.integers(0, 3, rows).astype(np.float64),
            "set": pl.Series([("first", "second", None, None)[i] for i in rng.integers(0, 4, rows)], dtype=pl.String),
            "held": rng.random(rows) < 0.25,
            "words": words,
            "tokens": pl.Series(tokens, dtype=pl.List(pl.UInt16)),
            "values": [[0.5 + token % 7 for token in row] for row in tokens],
            "pairs": pl.Series(
                [[{"feature": token, "value": token % 4 - 1.5} for token in row] for row in tokens],
                dtype=pl.List(pl.Struct({"feature": pl.Int64, "value": pl.Float32})),
            ),
            "both": pl.Series([[i % 9, 9 + i % 5] for i in range(rows)], dtype=pl.Array(pl.Int32, 2)),
            # Rows of a query lie in several processes.
            "query": [f"query {row * 7919 % 400}" for row in range(rows)],
            "grade": np.clip(signal_ + 2, 0, 4).astype(np.int8),
            "place": [row % 9 for row in range(rows)],
            "labels": pl.Series(
                [["warm"] * int(v[0] > 0) + ["wet"] * int(v[1] > 1) for v in x], dtype=pl.List(pl.String)
            ),
        }
    )


NUMBERS = ["a", "b", "c", "day"]
FITS: list[dict[str, Any]] = [
    {"target": "y", "features": NUMBERS, "rounds": 8},
    {"target": "y", "features": [*NUMBERS, "city"], "weight": "w", "eval": "set", "early_stopping": 3, "rounds": 30},
    {"target": "kind", "features": [*NUMBERS, "city"], "rounds": 4, "policy": "leafwise", "class_weight": "balanced"},
    {"target": "y", "features": ["a", "city"], "rounds": 4, "order_by": "day", "weight": "w", "loss": "log_cosh"},
    {"target": "yes", "features": [*NUMBERS, "city"], "rounds": 3, "leaf_iterations": 3, "row_sample": "mvs"},
    {"target": "yes", "features": [*NUMBERS, "city"], "rounds": 3, "boosting": "ordered", "weight": "w"},
    {
        "target": "level",
        "features": NUMBERS,
        "rounds": 4,
        "weight": "w",
        "eval": "held",
        "metric": ["accuracy", "multiclass"],
    },
    {
        "target": "yes",
        "features": NUMBERS,
        "eval": "held",
        "metric": ["auc", "logloss"],
        "early_stopping": 4,
        "rounds": 20,
    },
    {"target": "small", "features": NUMBERS, "rounds": 4, "loss": "mae", "policy": "depthwise", "row_sample": "goss"},
    {
        "target": "y",
        "features": ["city", "a"],
        "rounds": 4,
        "loss": "quantile",
        "alpha": [0.1, 0.9],
        "row_sample": "mvs",
    },
    {"target": "labels", "features": NUMBERS, "rounds": 4, "loss": "multilabel"},
    {"target": "y", "features": [*NUMBERS, "city"], "rounds": 5, "leaf": "linear", "weight": "w", "eval": "held"},
    {"target": "kind", "features": NUMBERS, "rounds": 3, "leaf": "linear", "linear_l2": 1.0, "policy": "leafwise"},
    {
        "target": "count",
        "features": NUMBERS,
        "rounds": 4,
        "loss": "poisson",
        "baseline": ["a"],
        "row_sample": "bernoulli",
    },
    {"target": "yes", "features": ["city"], "rounds": 4, "positive": False},
    {"target": "y", "features": NUMBERS, "rounds": 4, "row_sample": "bayesian", "bagging_temperature": 2.0},
    {"target": "y", "features": NUMBERS, "loss": "huber", "learning_rate": 0.6},
    {"target": "both", "features": NUMBERS, "rounds": 3},
    {"target": "grade", "features": NUMBERS, "rounds": 4, "loss": "lambdarank", "group": "query", "position": "place"},
    {"target": "grade", "features": ["a", "city"], "rounds": 4, "loss": "yetirank", "group": "query", "weight": "w"},
    {"target": "count", "features": NUMBERS, "rounds": 4, "loss": "cox", "event": "yes", "weight": "w"},
    {
        "function": "fit_forest",
        "target": "kind",
        "features": [*NUMBERS, "city"],
        "trees": 7,
        "weight": "w",
        "permutation_importance": True,
    },
    {"function": "fit_forest", "target": "y", "features": NUMBERS, "trees": 5, "splitter": "exact", "leaves": 40},
    {
        "function": "fit_forest",
        "target": "yes",
        "features": NUMBERS,
        "trees": 2,
        "splitter": "random",
        "bootstrap": False,
    },
    {"function": "fit_sparse_lr", "target": "yes", "features": ["words"], "dense": ["a", "c"], "weight": "w"},
    {
        "function": "fit_sparse_lr",
        "target": "kind",
        "features": ["tokens", "values"],
        "eval": "held",
        "metric": "accuracy",
        "early_stopping": 4,
    },
    {"function": "fit_sparse_lr", "target": "level", "features": ["pairs"], "l1": 1e-4, "epochs": 8},
    {"function": "fit_sparse_lr", "target": "yes", "features": ["both"], "epochs": 5},
]


class Workers:
    """Processes that fit together."""

    def __init__(self, folder: Path, frame: pl.DataFrame) -> None:
        """Of a table, which they read from a file in this folder."""
        self.folder, self.file = folder, folder / "table.arrow"
        frame.write_ipc(self.file)
        self.started: list[subprocess.Popen[str]] = []

    def start(
        self,
        rank: int,
        rows: tuple[int, int],
        fits: list[dict[str, Any]],
        env: dict[str, str] | None = None,
        **collective: Any,
    ) -> subprocess.Popen[str]:
        """Start one, on its rows."""
        told = {
            "table": str(self.file),
            "rows": rows,
            "fits": fits,
            "out": str(self.folder / f"out-{rank}.json"),
            "collective": {"rank": rank, **collective},
            "from_env": env is not None,
        }
        (self.folder / f"out-{rank}.json").unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.collective_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
            env={**os.environ, "POLARS_MAX_THREADS": str(1 + rank % 2), **(env or {})},
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(told))
        process.stdin.close()
        self.started.append(process)
        return process

    def told(self, rank: int) -> list[dict[str, str]]:
        """What one has come to."""
        return list(json.loads((self.folder / f"out-{rank}.json").read_text()))

    def end(self) -> None:
        """End those that still run."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture(scope="module")
def whole() -> list[bytes]:
    """The models of one process that has all rows."""
    frame = table()
    return [fitted(frame, fit, None).to_bytes() for fit in FITS]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    """Processes that end with the test."""
    all_ = Workers(tmp_path, table())
    yield all_
    all_.end()


def common(world: int, **more: Any) -> dict[str, Any]:
    """What all processes are told."""
    given = {"world": world, "address": f"127.0.0.1:{free_port()}", "secret": "a cedar", "timeout": 60.0}
    return {**given, **more}


@pytest.mark.parametrize(
    "ends",
    [
        [3_000],
        [1_700, 3_000],
        [0, 3_000],
        [1_023, 1_024, 3_000],
        [1, 2_900, 2_900, 2_999, 3_000],
    ],
    ids=lambda ends: f"{len(ends)} processes",
)
def test_models_have_the_bytes_of_one_fit(workers: Workers, whole: list[bytes], ends: list[int]) -> None:
    """However rows are dealt, uneven, one or none: every process gets the model of all of them, fit after fit."""
    given = common(len(ends))
    first = 0
    for rank, end in enumerate(ends):
        workers.start(rank, (first, end), FITS, **given)
        first = end
    for process in workers.started:
        process.wait(timeout=120)
    for rank in range(len(ends)):
        told = workers.told(rank)
        assert [one.get("error") for one in told] == [None] * len(FITS)
        for fit, one, expected in zip(FITS, told, whole, strict=True):
            assert base64.b64decode(one["model"]) == expected, fit


@pytest.mark.parametrize("launcher", ["own", "torchrun", "slurm"])
def test_who_a_process_is_may_come_from_its_environment(workers: Workers, whole: list[bytes], launcher: str) -> None:
    """The variables of this package, of torchrun, and of Slurm."""
    port = free_port()
    for rank, rows in enumerate([(0, 1_000), (1_000, 3_000)]):
        env = {
            "own": {"TAIGA_RANK": str(rank), "TAIGA_WORLD": "2", "TAIGA_ADDRESS": f"127.0.0.1:{port}"},
            "torchrun": {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
            "slurm": {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "TAIGA_ADDRESS": f"127.0.0.1:{port}"},
        }[launcher]
        workers.start(rank, rows, FITS[:1], env={**env, "TAIGA_SECRET": "a cedar", "TAIGA_TIMEOUT": "30"})
    for process in workers.started:
        process.wait(timeout=60)
    assert [base64.b64decode(workers.told(rank)[0]["model"]) for rank in (0, 1)] == [whole[0]] * 2


def errors_of(workers: Workers, world: int) -> list[str]:
    """What all processes end with."""
    for process in workers.started:
        process.wait(timeout=60)
    return [workers.told(rank)[-1].get("error", "") for rank in range(world)]


def test_differences_are_told(workers: Workers) -> None:
    """Another parameter, other columns: errors in all that say which and whose."""
    fit = FITS[0]

    def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
        given = common(2)
        workers.start(0, (0, 1_500), [one], **given)
        workers.start(1, (1_500, 3_000), [other], **given)
        return errors_of(workers, 2)

    for error in differing(fit, {**fit, "depth": 3}):
        assert "the parameters of rank 1 differ from those of rank 0" in error
        assert "`depth`" in error
    for error in differing(fit, {**fit, "features": ["a", "b"]}):
        assert "the columns of rank 1 differ from those of rank 0" in error
        assert "`features[2]` is missing" in error
    for error in differing(fit, {**fit, "weight": "w"}):
        assert "the columns of rank 1 differ" in error


@pytest.mark.parametrize(
    ("of_other", "to_rank_0", "to_the_other"),
    [
        ({"secret": "a larch"}, "knew another secret", "knows another secret"),
        ({"job": "another"}, "of another job", "is of another job"),
        ({"world": 3}, "rank 1 says that there are 3 processes", "is one of 2 processes"),
        ({"rank": 2, "world": 3}, "rank 2 says that there are 3 processes", "is one of 2 processes"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_who_belongs_to_another_fit_is_told(of_other: dict[str, Any], to_rank_0: str, to_the_other: str) -> None:
    """Another secret, another job, another number of processes: both sides say so."""
    given = common(2, timeout=3.0)
    frame = table(50)

    def fails(rank: int) -> str:
        us = tg.Collective(**{"rank": rank, **given, **(of_other if rank else {})})
        with pytest.raises(pl.exceptions.ComputeError) as error:
            frame.taiga.fit_gbdt("y", "a", rounds=2, collective=us)
        return str(error.value)

    with ThreadPoolExecutor(2) as threads:
        zero, one = threads.map(fails, range(2))
    assert to_rank_0 in zero
    assert to_the_other in one


def test_what_is_wrong_with_the_rows_is_an_error_in_all(workers: Workers) -> None:
    """A target that is null in one process, and one of a single class, are the same errors as of one process."""
    frame = table().with_columns(
        one=pl.lit("same"), gap=pl.when(pl.int_range(pl.len()) == 2_999).then(None).otherwise("y")
    )
    workers = Workers(workers.folder, frame)
    try:
        for target, text in (("gap", "null"), ("one", "all 3000 rows are of one class")):
            given = common(2)
            fit = {"target": target, "features": NUMBERS, "rounds": 3}
            workers.start(0, (0, 1_000), [fit], **given)
            workers.start(1, (1_000, 3_000), [fit], **given)
            for error in errors_of(workers, 2):
                assert text in error
    finally:
        workers.end()


def test_a_killed_process_ends_all_others(workers: Workers) -> None:
    """Whenever it is killed, of six moments (`TAIGA_KILLS`), the others end soon, with an error naming it."""
    dice, kills = random.Random(8), int(os.environ.get("TAIGA_KILLS", "6"))
    long = {"target": "y", "features": [*NUMBERS, "city"], "rounds": 20_000, "learning_rate": 0.001}
    moments = [(dice.randrange(3), 0.5 + dice.random() / 2) for _ in range(kills)]

    def one(i: int) -> None:
        victim, wait = moments[i]
        folder = workers.folder / str(i)
        folder.mkdir()
        own = Workers(folder, table())
        given = common(3)
        processes = [own.start(rank, (1_000 * rank, 1_000 * rank + 1_000), [long], **given) for rank in range(3)]
        try:
            for process in processes:
                assert process.stdout is not None
                process.stdout.readline()
            time.sleep(wait)
            processes[victim].send_signal(signal.SIGKILL)
            killed = time.monotonic()
            for rank in set(range(3)) - {victim}:
                processes[rank].wait(timeout=30)
                error = own.told(rank)[0]["error"]
                assert f"rank {victim} has ended" in error or "have ended" in error, error
            assert time.monotonic() - killed < 20
        finally:
            own.end()

    with ThreadPoolExecutor(2) as two:
        list(two.map(one, range(kills)))


def test_a_process_that_is_killed_while_trees_grow_ends_all_others(workers: Workers) -> None:
    """A forest's trees grow without a word between the processes; that one is gone is noticed all the same."""
    long = {"function": "fit_forest", "target": "y", "features": NUMBERS, "trees": 100_000, "splitter": "exact"}
    given = common(3)
    processes = [workers.start(rank, (1_000 * rank, 1_000 * rank + 1_000), [long], **given) for rank in range(3)]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    time.sleep(1.0)
    processes[1].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    for rank in (0, 2):
        processes[rank].wait(timeout=30)
        assert "rank 1 has ended" in workers.told(rank)[0]["error"]
    assert time.monotonic() - killed < 20


def test_an_optimizer_that_takes_batches_is_told_before_anybody_is_waited_for() -> None:
    """It names the parameter, and what to use."""
    us = tg.Collective(rank=0, world=2, address=f"127.0.0.1:{free_port()}", secret="a cedar")
    with pytest.raises(pl.exceptions.ComputeError, match=r'`optimizer`: "sgd" takes one batch.* use "lbfgs"'):
        table(50).select(tg.fit_sparse_lr("yes", "words", optimizer="sgd", collective=us))


KILLED: dict[str, dict[str, Any]] = {
    "gbdt": {"target": "y", "features": [*NUMBERS, "city"], "rounds": 300, "learning_rate": 0.05, "weight": "w"},
    "forest": {"function": "fit_forest", "target": "kind", "features": [*NUMBERS, "city"], "trees": 400, "weight": "w"},
    "sparse": {
        "function": "fit_sparse_lr",
        "target": "kind",
        "features": ["tokens", "values"],
        "dense": ["a"],
        "epochs": 300,
        "tolerance": 0.0,
        "l2": 1e-9,
    },
}


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [("gbdt", 3, 2), ("gbdt", 2, 1), ("gbdt", 1, 3), ("forest", 3, 2), ("forest", 1, 2), ("sparse", 2, 3)],
)
def test_a_job_that_was_killed_goes_on_from_its_snapshot(workers: Workers, name: str, before: int, after: int) -> None:
    """To the bytes of a fit that was never killed, in another number of processes; rank 0 alone has the file."""
    fit = KILLED[name]
    state = workers.folder / "fit.snapshot"

    def start(world: int) -> list[subprocess.Popen[str]]:
        given, ends = common(world), [ROWS * rank // world for rank in range(world + 1)]
        of_rank = [
            {**fit, "snapshot": str(state if rank == 0 else "/nowhere/x"), "snapshot_every": 20}
            for rank in range(world)
        ]
        return [workers.start(rank, (ends[rank], ends[rank + 1]), [of_rank[rank]], **given) for rank in range(world)]

    processes = start(before)
    until = time.monotonic() + 60
    while not state.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    processes[-1].send_signal(signal.SIGKILL)
    for process in processes:
        process.wait(timeout=60)
    saved = state.read_bytes()
    for process in start(after):
        process.wait(timeout=60)
    assert state.read_bytes() != saved or before == 1
    whole = fitted(table(), fit, None).to_bytes()
    for rank in range(after):
        assert base64.b64decode(workers.told(rank)[0]["model"]) == whole


# The oldest Polars has no integers of 128 bits.
WIDE = [pl.Decimal(38, 3), *(getattr(pl, name) for name in ("Int128", "UInt128") if hasattr(pl, name))]


@pytest.mark.parametrize("of", WIDE, ids=str)
@pytest.mark.parametrize("column", ["target", "weight"])
def test_targets_and_weights_may_be_wide(column: str, of: Any) -> None:
    """Integers of 128 bits and decimals are sent as they are: the bytes of one fit."""
    base = {"target": pl.col("y").abs().floor(), "weight": pl.col("w")}
    frame = table().with_columns(**{name: value.cast(of) if name == column else value for name, value in base.items()})
    fit: dict[str, Any] = {"target": "target", "weight": "weight", "features": NUMBERS, "rounds": 4}
    given, ends = common(2), [0, 1_700, 3_000]

    def of_rank(rank: int) -> bytes:
        return fitted(frame[ends[rank] : ends[rank + 1]], fit, tg.Collective(rank=rank, **given)).to_bytes()

    with ThreadPoolExecutor(2) as threads:
        made = list(threads.map(of_rank, range(2)))
    assert made == [fitted(frame, fit, None).to_bytes()] * 2


def test_processes_go_on_from_a_model(workers: Workers) -> None:
    """Sixty rounds of one process and forty of three are the bytes of a hundred, held-out rows measured."""
    fit: dict[str, Any] = {"target": "y", "features": NUMBERS, "eval": "held"}
    frame = table()
    first = fitted(frame, {**fit, "rounds": 60}, None)
    given, ends = common(3), [0, 1_000, 1_000, 3_000]

    def of_rank(rank: int) -> bytes:
        us = tg.Collective(rank=rank, **given)
        return fitted(
            frame[ends[rank] : ends[rank + 1]], {**fit, "rounds": 40, "init_model": first.to_bytes()}, us
        ).to_bytes()

    with ThreadPoolExecutor(3) as threads:
        made = list(threads.map(of_rank, range(3)))
    assert made == [fitted(frame, {**fit, "rounds": 100}, None).to_bytes()] * 3


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("waits_for", ["a process that has not come", "a step of a fit"])
def test_ctrl_c_ends_a_wait(workers: Workers, waits_for: str) -> None:
    """A process that waits for others ends at once; those that wait for it then say that it has ended."""
    long = {"target": "y", "features": NUMBERS, "rounds": 20_000, "learning_rate": 0.001}
    given = common(2)
    zero = workers.start(0, (0, 1_500), [long], **given)
    assert zero.stdout is not None
    zero.stdout.readline()
    one = workers.start(1, (1_500, 3_000), [long], **given) if waits_for == "a step of a fit" else None
    if one is not None:
        assert one.stdout is not None
        one.stdout.readline()
        time.sleep(1.0)
        # It computes nothing, so that the other one waits.
        one.send_signal(signal.SIGSTOP)
    time.sleep(1.0)
    zero.send_signal(signal.SIGINT)
    sent = time.monotonic()
    zero.wait(timeout=30)
    assert time.monotonic() - sent < 10
    assert workers.told(0) == [{"error": "KeyboardInterrupt"}]
    if one is not None:
        one.send_signal(signal.SIGCONT)
        one.wait(timeout=30)
        assert "rank 0 has ended" in workers.told(1)[0]["error"]


def test_strangers_change_nothing(workers: Workers, whole: list[bytes]) -> None:
    """Garbage, few bytes and silence at rank 0's port while it waits: the fit is made."""
    given = common(2)
    host, port = given["address"].split(":")
    zero = workers.start(0, (0, 1_500), FITS[:1], **given)
    assert zero.stdout is not None
    zero.stdout.readline()
    strangers = []
    until = time.monotonic() + 20
    for said in (b"", b"x", b"GET / HTTP/1.1\r\n\r\n" * 50, b"\xff" * 4_096):
        while True:
            try:
                stranger = socket.create_connection((host, int(port)), timeout=5)
                break
            except ConnectionRefusedError:
                assert time.monotonic() < until
                time.sleep(0.05)
        strangers.append(stranger)
        stranger.sendall(said)
    workers.start(1, (1_500, 3_000), FITS[:1], **given)
    assert errors_of(workers, 2) == ["", ""]
    assert base64.b64decode(workers.told(0)[0]["model"]) == whole[0]
    for stranger in strangers:
        stranger.close()


def alone(**more: Any) -> tg.Collective:
    """A process whose peer never comes."""
    return tg.Collective(
        **{"rank": 0, "world": 2, "address": f"127.0.0.1:{free_port()}", "secret": "s", "timeout": 0.5, **more}
    )


def test_who_does_not_come_is_named() -> None:
    """Rank 0 says who has not come; another one that nobody listens at the address."""
    frame = table(50)
    with pytest.raises(pl.exceptions.ComputeError, match=r"rank 1 did not come to 127.0.0.1:\d+ within 0.5 seconds"):
        frame.taiga.fit_gbdt("y", "a", rounds=2, collective=alone())
    with pytest.raises(
        pl.exceptions.ComputeError, match=r"rank 0 at 127.0.0.1:\d+ could not be reached for 0.5 seconds"
    ):
        frame.taiga.fit_gbdt("y", "a", rounds=2, collective=alone(rank=1))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = alone(address=f"127.0.0.1:{other.getsockname()[1]}")
        with pytest.raises(pl.exceptions.ComputeError, match="something listens there already"):
            frame.taiga.fit_gbdt("y", "a", rounds=2, collective=taken)


def test_fits_of_groups_are_refused() -> None:
    """Each group would be a fit, and nobody knows with which group of the others; nor is a query run again."""
    frame = table(400).with_columns(half=pl.int_range(pl.len()) % 2)
    us = alone(world=1)
    with pytest.raises(pl.exceptions.PolarsError, match="group_by"):
        frame.group_by("half").agg(tg.fit_gbdt("y", "a", rounds=2, collective=us))
    with pytest.raises(pl.exceptions.PolarsError, match="group_by"):
        frame.select(tg.fit_gbdt("y", "a", rounds=2, collective=us).over("half"))
    query = frame.lazy().select(tg.fit_gbdt("y", "a", rounds=2, collective=us))
    assert query.collect().item() == frame.select(tg.fit_gbdt("y", "a", rounds=2)).item()
    with pytest.raises(pl.exceptions.PolarsError, match="run before"):
        query.collect()


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"collective": "10.0.0.1"}, "no Collective"),
    ],
)
def test_what_does_not_go_together_is_told_at_the_call(more: dict[str, Any], match: str) -> None:
    """Before anything is connected."""
    with pytest.raises((TypeError, ValueError), match=match):
        tg.fit_gbdt("y", "a", rounds=2, **{"collective": alone(), **more})


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"rank": 2}, "`rank`"),
        ({"rank": -1}, "`rank`"),
        ({"rank": "0"}, "`rank`"),
        ({"world": 0}, "`world`"),
        ({"world": True}, "`world`"),
        ({"address": "here"}, "`address`"),
        ({"address": "10.0.0.1:0"}, "`address`"),
        ({"secret": ""}, "`secret`"),
        ({"timeout": 0}, "`timeout`"),
        ({"timeout": -1}, "`timeout`: -1 is not a number of seconds"),
        ({"timeout": float("nan")}, "`timeout`: nan is not a number of seconds"),
        ({"timeout": float("inf")}, "`timeout`: inf is not a number of seconds"),
        ({"timeout": "long"}, "`timeout`"),
    ],
)
def test_a_wrong_parameter_is_named(more: dict[str, Any], match: str) -> None:
    """When the object is made."""
    with pytest.raises((TypeError, ValueError), match=match):
        alone(**more)


def test_the_environment_says_what_is_missing() -> None:
    """Variables that are not there, or are no numbers, are named; the secret is not shown."""
    env = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "TAIGA_SECRET": "a cedar"}
    assert "cedar" not in repr(tg.Collective.from_env(env))
    assert tg.Collective.from_env({**env, "TORCHELASTIC_USE_AGENT_STORE": "True"}).address == "10.0.0.1:29501"
    assert tg.Collective.from_env({**env, "TAIGA_RANK": "3"}).rank == 3
    for name in env:
        with pytest.raises(ValueError, match=name):
            tg.Collective.from_env({k: v for k, v in env.items() if k != name})
    with pytest.raises(ValueError, match="RANK is 'one'"):
        tg.Collective.from_env({**env, "RANK": "one"})


@pytest.mark.parametrize(
    ("variable", "text", "match"),
    [
        ("RANK", "1.7", "RANK is '1.7', not a whole number"),
        ("RANK", "-0.5", "RANK is '-0.5', not a whole number"),
        ("RANK", "nan", "RANK is 'nan', not a whole number"),
        ("RANK", "1_0", "RANK is '1_0', not a whole number"),
        ("TAIGA_RANK", "", "TAIGA_RANK is '', not a whole number"),
        ("TAIGA_RANK", "9" * 26, r"`rank`: the number is too large \(from TAIGA_RANK\)"),
        ("SLURM_NTASKS", "4", r"`rank`: 7 of 4: .* \(from SLURM_PROCID\)"),
        ("WORLD_SIZE", "4.9", "WORLD_SIZE is '4.9', not a whole number"),
        ("WORLD_SIZE", "0", r"`world`: 0 is not .* \(from WORLD_SIZE\)"),
        ("MASTER_PORT", "29500.9", "MASTER_PORT is '29500.9', not a whole number"),
        ("MASTER_PORT", "inf", "MASTER_PORT is 'inf', not a whole number"),
        ("MASTER_PORT", "70000", r"`address`: .* \(from MASTER_ADDR and MASTER_PORT\)"),
        ("TAIGA_ADDRESS", "here", r"`address`: .* \(from TAIGA_ADDRESS\)"),
        ("TAIGA_TIMEOUT", "nan", r"`timeout`: nan is not a number of seconds .* \(from TAIGA_TIMEOUT\)"),
        ("TAIGA_SECRET", "", r"`secret`: it is empty.* \(from TAIGA_SECRET\)"),
        ("TAIGA_SECRET", "cedar\udc80", r"`secret`: character 5 is a surrogate.* \(from TAIGA_SECRET\)"),
        ("TAIGA_JOB", "\udc80", r"`job`: character 0 is a surrogate.* \(from TAIGA_JOB\)"),
    ],
)
def test_the_environment_says_what_is_no_number(variable: str, text: str, match: str) -> None:
    """Proves that a variable that says something else than it should is an error naming it, and is not cut to fit."""
    env = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "TAIGA_SECRET": "a cedar"}
    slurm = {"SLURM_PROCID": "7", "SLURM_NTASKS": "8"} if variable.startswith("SLURM") else {}
    torchrun = {} if slurm else {"RANK": "1", "WORLD_SIZE": "4"}
    with pytest.raises(ValueError, match=match) as error:
        tg.Collective.from_env({**env, **slurm, **torchrun, variable: text})
    assert "cedar" not in str(error.value)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"rank": 2**70}, "`rank`: the number is too large"),
        ({"rank": -(10**5_000)}, "`rank`: the number is too small"),
        ({"world": 2**70}, "`world`: the number is too large"),
        ({"rank": 0.0}, "`rank`: float is not int"),
        ({"world": np.array([2])}, "`world`: (ndarray is not int|array)"),
        ({"secret": "\udc80"}, "`secret`: character 0 is a surrogate"),
        ({"address": "\udc80:1"}, "`address`: character 0 is a surrogate"),
        ({"job": "a\udc80"}, "`job`: character 1 is a surrogate"),
        ({"timeout": 10**5_000}, "`timeout`: inf is not a number of seconds"),
        ({"timeout": np.float32("nan")}, "`timeout`: nan is not a number of seconds"),
    ],
)
def test_what_the_plugin_could_not_read_is_named(more: dict[str, Any], match: str) -> None:
    """Proves that numbers and texts that Rust has no place for are errors that name the parameter."""
    with pytest.raises((TypeError, ValueError), match=match):
        alone(**more)


def test_numbers_of_numpy_are_numbers() -> None:
    """Proves that ranks of MPI's and NumPy's users, and seconds, are taken as Python's."""
    us = alone(rank=np.int64(1), world=np.int32(2), timeout=np.float32(3))
    assert (us.rank, us.world, us.timeout) == (1, 2, 3.0)
    assert [type(value) for value in (us.rank, us.world, us.timeout)] == [int, int, float]


def test_what_a_callback_raises_is_that_of_its_rank_alone() -> None:
    """Proves that another rank says who has ended, in one process too, and the rank itself raises what it was."""
    frame, address = table(60), f"127.0.0.1:{free_port()}"

    def leave(done: int, _: object) -> None:
        if done == 2:
            raise SystemExit(3)

    def ended(rank: int) -> BaseException | None:
        us = alone(rank=rank, world=2, address=address, timeout=20)
        callback = leave if rank == 1 else None
        try:
            frame[30 * rank : 30 * rank + 30].taiga.fit_gbdt("y", "a", rounds=4, collective=us, callback=callback)
        except BaseException as error:
            return error
        return None

    with ThreadPoolExecutor(2) as threads:
        told, raised = threads.map(ended, range(2))
    assert isinstance(told, pl.exceptions.ComputeError)
    assert "rank 1 has ended: parameter `callback`: it raised SystemExit after round 2: 3" in str(told)
    assert isinstance(raised, SystemExit)
    assert raised.code == 3


def test_the_secret_stays_out_of_a_query() -> None:
    """An expression's text does not have it."""
    secret = "a very old cedar"
    expr = tg.fit_gbdt("y", "a", rounds=2, collective=alone(secret=secret))
    assert secret not in str(expr)
    assert secret not in pl.DataFrame({"y": [1.0], "a": [1.0]}).lazy().select(expr).explain()

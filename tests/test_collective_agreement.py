"""Processes that fit together say the same before anything is sent, and come to one end where rows are at fault."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import polars as pl
import polars_taiga as tg
import pytest

from tests.collective_worker import free_port

ROWS = 400
TABLE = pl.DataFrame(
    {"id": [row * 7 % 401 for row in range(ROWS)], "x": [row % 13 * 0.5 for row in range(ROWS)]}
).with_columns(
    c=pl.when(pl.col("id") % 3 == 0).then(pl.lit("a")).otherwise(pl.lit("b")),
    at=pl.datetime(2024, 1, 1, time_zone="Europe/Berlin") + pl.duration(hours=pl.col("id")),
    y=pl.col("x") * 2 + pl.col("id") % 5,
    yes=pl.col("x") > 3,
    tokens=pl.concat_list(pl.col("id") % 9, pl.col("id") % 4),
)
Fit = Callable[[pl.DataFrame, Any], Any]


def together(fits: list[Fit], cuts: list[int], frame: pl.DataFrame = TABLE, **of_collective: Any) -> list[Any]:
    """What each of some ranks, which are threads of this process, gets of its rows: bytes, None, or an error."""
    address = f"127.0.0.1:{free_port()}"
    ends = [0, *cuts, frame.height]

    def rank(k: int) -> Any:
        us = tg.Collective(
            rank=k, world=len(fits), address=address, secret="pine", **{"timeout": 20.0, **of_collective}
        )
        try:
            model = fits[k](frame[ends[k] : ends[k + 1]], us)
        except Exception as error:
            return error
        return None if model is None else model.to_bytes()

    with ThreadPoolExecutor(len(fits)) as pool:
        return list(pool.map(rank, range(len(fits))))


def gbdt(*features: Any, **params: Any) -> Fit:
    return lambda frame, us: frame.taiga.fit_gbdt(
        "y", *(features or ("x", "c")), **{"rounds": 3, **params}, collective=us
    )


def test_more_ranks_than_threads() -> None:
    """Proves that ranks which are threads of one process wait for each other outside of the threads of Polars."""
    code = """
from tests.test_collective_agreement import TABLE, gbdt, together
found = together([gbdt(row_key="id")] * 3, [150, 300], timeout=20.0)
whole = TABLE.taiga.fit_gbdt("y", "x", "c", rounds=3, row_key="id").to_bytes()
assert found == [whole] * 3, found
"""
    env = {**os.environ, "POLARS_MAX_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("role", ["feature", "order_by", "row_key"])
def test_times_with_a_zone(role: str) -> None:
    """Proves that a column of times keeps its zone on the way to another process."""
    fit = gbdt("x", "at") if role == "feature" else gbdt(**{role: "at"})
    whole = fit(TABLE, None).to_bytes()
    assert together([fit] * 2, [150]) == [whole] * 2
    keyed = gbdt("x", "at", row_key="id")
    assert together([keyed] * 2, [150]) == [keyed(TABLE, None).to_bytes()] * 2
    assert isinstance(TABLE["at"][0], datetime)


FORBIDDEN = pl.when(pl.col("id") != 399).then(pl.col("id"))
AT_FAULT: list[tuple[str, Fit]] = [
    ("key", gbdt(row_key=FORBIDDEN.alias("key"), on_error="null")),
    ("repeated", gbdt(row_key=(pl.col("id") // 2).alias("half"), on_error="null")),
    (
        "list",
        lambda frame, us: frame.taiga.fit_sparse_lr(
            "yes",
            pl.when(pl.col("id") == 399).then(pl.concat_list(pl.lit(-1))).otherwise(pl.col("tokens")).alias("tokens"),
            on_error="null",
            collective=us,
        ),
    ),
]


@pytest.mark.parametrize(("name", "fit"), AT_FAULT, ids=[name for name, _ in AT_FAULT])
def test_a_fault_of_one_rank_is_one_of_all(name: str, fit: Fit) -> None:
    """Proves that `on_error="null"` is null in every process where the rows of one are at fault, as of one fit."""
    assert fit(TABLE, None) is None
    assert together([fit] * 3, [150, 300]) == [None] * 3


def as_error(fit: Fit) -> Fit:
    return lambda frame, us: fit(frame, us)


DIFFERENT: list[tuple[str, Fit, Fit, str]] = [
    ("metadata", gbdt(metadata={"a": 1}), gbdt(metadata={"a": 2}), "`metadata.a` is 2 .* and 1"),
    (
        "computed",
        gbdt("c", "x"),
        gbdt("c", (pl.col("x") * 1.0).alias("x")),
        r'`features\[1\]` is "x \(f64, computed\)" .* and "x \(f64\)"',
    ),
    (
        "categorical",
        gbdt("x", "id"),
        gbdt("x", "id", categorical=["id"]),
        r'`categorical(\[0\])?` is \["id"\] .* and \[\]|"id".* and missing',
    ),
    (
        "function",
        gbdt("x"),
        lambda frame, us: frame.taiga.fit_forest("y", "x", trees=3, collective=us),
        '`function` is "fit_forest" .* and "fit_gbdt"',
    ),
    ("features", gbdt("x", "c"), gbdt("x"), r'`features\[1\]` is missing .* and "c '),
    ("rounds", gbdt(), gbdt(rounds=4), "`rounds` is 4 .* and 3"),
]


@pytest.mark.parametrize(("name", "first", "second", "text"), DIFFERENT, ids=[d[0] for d in DIFFERENT])
def test_what_differs_is_named(name: str, first: Fit, second: Fit, text: str) -> None:
    """Proves that ranks whose calls differ get an error that says what differs, and none a model of its own."""
    for error in together([first, second], [150]):
        assert isinstance(error, pl.exceptions.ComputeError)
        with pytest.raises(pl.exceptions.ComputeError, match=f"of rank 1 differ from those of rank 0: {text}"):
            raise error


def test_metadata_in_another_order_is_the_same() -> None:
    """Proves that what is said of a model is compared by its values."""
    found = together([gbdt(metadata={"a": 1, "b": 2}), gbdt(metadata={"b": 2, "a": 1})], [150])
    assert found[0] == found[1] == gbdt(metadata={"a": 1, "b": 2})(TABLE, None).to_bytes()


def test_who_was_too_slow_is_told() -> None:
    """Proves that a rank which comes back after the others have given it up hears why they ended."""

    def slow(round: int, metrics: dict[str, float]) -> bool:
        time.sleep(1.8)
        return False

    slow_one, other = together([gbdt(callback=slow), gbdt()], [150], timeout=0.6)
    assert "nothing was heard from rank 0 for 0.6 seconds" in str(other)
    assert "nothing was heard from rank 0 for 0.6 seconds" in str(slow_one), slow_one


@pytest.mark.parametrize("loss", ["rmse", "cox"])
@pytest.mark.parametrize("held_out", [False, True])
def test_training_rows_are_measured_in_every_process(loss: str, held_out: bool) -> None:
    """Proves that `eval_train=True` measures the rows of all, and that all have the curves of one fit."""
    frame = TABLE.with_columns(y=pl.col("y") + 1, held=pl.col("id") % 5 == 0)

    def fit(own: pl.DataFrame, us: Any) -> Any:
        held = {"eval": "held"} if held_out else {}
        held |= {"event": "yes"} if loss == "cox" else {}
        return own.taiga.fit_gbdt("y", "x", "c", rounds=4, loss=loss, eval_train=True, collective=us, **held)

    whole = fit(frame, None)
    assert "train_rmse" in whole.history.columns or loss == "cox"
    assert together([fit] * 3, [150, 151], frame) == [whole.to_bytes()] * 3


INTERRUPTED = """
import sys
import time
import polars as pl, polars_taiga as tg
rank, address, learner = int(sys.argv[1]), sys.argv[2], sys.argv[3]
rows = range(20_000)
df = pl.DataFrame({f"x{i}": [(row * (2 * i + 7)) % 997 * 1.0 for row in rows] for i in range(20)})
df = df.with_columns(y=pl.col("x0") * pl.col("x1"))
us = tg.Collective(rank=rank, world=2, address=address, secret="pine", timeout=60.0)
own = df.head(10_000) if rank == 0 else df.tail(10_000)
size = {"rounds": 100_000, "callback": lambda done, _: print("begun", flush=True) if done == 3 else None}
size = size if learner == "fit_gbdt" else {"trees": 100_000}
if learner == "fit_forest":
    print("begun", flush=True)
try:
    model = getattr(own.taiga, learner)("y", [f"x{i}" for i in range(20)], collective=us, **size)
except KeyboardInterrupt:
    print("KeyboardInterrupt")
except pl.exceptions.ComputeError as error:
    print("ComputeError", error)
else:
    print("returned", model)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one process")
@pytest.mark.parametrize("learner", ["fit_gbdt", "fit_forest"])
@pytest.mark.parametrize("rank", [0, 1])
def test_ctrl_c_in_one_process_is_an_error_in_the_others(learner: str, rank: int) -> None:
    """Proves that no other process takes it for its own, and returns no model without an error."""
    address = f"127.0.0.1:{free_port()}"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, str(k), address, learner], stdout=subprocess.PIPE, text=True
        )
        for k in range(2)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
    time.sleep(1.0)
    started[rank].send_signal(signal.SIGINT)
    said = [process.communicate(timeout=60)[0] for process in started]
    assert said[rank] == "KeyboardInterrupt\n"
    assert "ComputeError" in said[1 - rank], said
    assert f"rank {rank} has ended" in said[1 - rank], said


@pytest.mark.parametrize("text", ["interrupted", "upload: interrupted"])
def test_a_callback_that_says_interrupted_is_no_ctrl_c(text: str) -> None:
    """Proves that the text of an error does not make it an end by Ctrl-C, which gives null."""

    def callback(done: int, measured: dict[str, float]) -> bool:
        raise RuntimeError(text)

    with pytest.raises(RuntimeError, match=text):
        TABLE.taiga.fit_gbdt("y", "x", rounds=3, callback=callback)
    with pytest.raises(pl.exceptions.ComputeError, match=text):
        TABLE.select(tg.fit_gbdt("y", "x", rounds=3, callback=callback))


def test_words_of_an_enum_that_another_process_has_not() -> None:
    """Proves that lists of Enums of other categories are an error, where rows that move would lose words."""
    few, many = (pl.Enum([f"w{i}" for i in range(n)]) for n in (10, 40))
    words = pl.Series([[f"w{i % 10}", f"w{i % 7}"] for i in range(ROWS)])

    def fit(dtype: pl.Enum) -> Fit:
        def of(frame: pl.DataFrame, us: Any) -> Any:
            typed = frame.with_columns(pl.col("words").cast(pl.List(dtype)))
            return typed.taiga.fit_sparse_lr("yes", "words", row_key="id", collective=us)

        return of

    for error in together([fit(few), fit(many)], [150], TABLE.with_columns(words=words)):
        assert "the columns of rank 1 differ from those of rank 0: `beside it.indices` is" in str(error), error

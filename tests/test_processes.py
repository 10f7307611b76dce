"""Threads end, and forked processes work."""

from __future__ import annotations

import os
import subprocess
import sys

import polars as pl
import pytest

from tests.signals import WAIT_FOR_OUR_HANDLER

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux about threads, and forks")

THREADS = """
import os, time
import polars as pl, polars_taiga as tg
def ours():
    n = 0
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as name:
                n += name.read().startswith("taiga-")
        except (FileNotFoundError, ProcessLookupError):  # it has just ended, before it was opened or after
            pass
    return n
def all_threads():
    return len(os.listdir("/proc/self/task"))
def counted():
    # Until it runs, a thread that was started has the name of the one that started it.
    end = time.monotonic() + 20
    while True:
        own, more = ours(), all_threads() - before
        if more - own <= 16 or time.monotonic() > end:
            return own, more
        time.sleep(0.05)
ROWS, GROUPS = 4096, 24
df = pl.select(i=pl.int_range(ROWS * GROUPS)).with_columns(
    *(((pl.col("i") * (31 + 2 * j)) % 1009).alias(f"x{j}") for j in range(5)),
    y=(pl.col("i") * 7919 % 101).cast(pl.Float64),
    g=pl.col("i") // ROWS,
)
xs = [f"x{j}" for j in range(5)]
df.group_by("g").agg(pl.col(xs).sum())  # Polars' own threads
before = all_threads()
df.group_by("g").agg(tg.fit_forest("y", *xs, trees=64, depth=3, progress=False))
print(*counted())
for n in range(2, 64, 5):
    df.select(tg.fit_forest("y", *xs, trees=4, depth=3, n_threads=n, progress=False))
    df.select(tg.fit_gbdt("y", *xs, rounds=2, depth=3, n_threads=n, progress=False))
print(*counted())
df.select(tg.target_encode("g", "y").sum(), tg.histogram("y"))
print(*counted())
end = time.monotonic() + 60
while ours() and time.monotonic() < end:
    time.sleep(0.1)
print(ours(), 0)
"""


def test_threads_of_sizes_that_nobody_uses_end() -> None:
    """Proves that on 128 cores the groups of a `group_by` leave no more than twice 128 threads, and that these end.

    Groups are fitted side by side, each with fewer threads than those before it. One thread more looks after them.
    """
    run = subprocess.run(
        [sys.executable, "-c", THREADS],
        env={**os.environ, "POLARS_MAX_THREADS": "128"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    (groups, more), (sizes, more_sizes), (encoded, more_encoded), (idle, _) = (
        map(int, line.split()) for line in run.stdout.splitlines()
    )
    assert 0 < groups <= 257
    assert 0 < sizes <= 257
    assert 0 < encoded <= 257
    assert idle == 0
    # What has no name of ours: some of Polars', which wait for work that blocks.
    assert max(more - groups, more_sizes - sizes, more_encoded - encoded) <= 16


FORKED = """
import multiprocessing, sys, warnings
import polars as pl, polars_taiga as tg
from polars_taiga import _plugin
warnings.simplefilter("ignore")
i = pl.int_range(400_000, eager=True)
df = pl.DataFrame({"x": (i * 7919 % 100_003).cast(pl.Float32), "k": i * 31 % 5_021, "y": i % 3 == 0}).with_columns(
    s=pl.col("k").cast(pl.String), c=(pl.col("k") % 1009).cast(pl.Float64), f=pl.concat_list(pl.col("k") % 100, "k")
)
# Polars evaluates expressions of one input on the calling thread, and reads several inputs on its own threads,
# for which a forked process waits for ever. So the struct that a fit reads is made before.
def packed(fit):
    register, calls = _plugin.register_plugin_function, []
    _plugin.register_plugin_function = lambda **call: calls.append(call) or register(**call)
    fit()
    _plugin.register_plugin_function = register
    inputs = df.select(*calls[-1]["args"])
    return inputs, register(**(calls[-1] | {"args": [pl.col(inputs.columns[0])]}))
WORK = {
    "count_encode": (df, tg.count_encode("s")),
    "histogram": (df, tg.histogram("x")),
    "min_max": (df, tg.min_max("x")),
    "borders": (df, tg.borders("x")),
    "quantize": (df, tg.quantize("x")),
    "fit_gbdt": packed(lambda: tg.fit_gbdt("c", "x", "k", rounds=3, progress=False)),
    "one_thread": packed(lambda: tg.fit_gbdt("c", "x", "k", rounds=3, n_threads=1, progress=False)),
    "fit_forest": packed(lambda: tg.fit_forest("c", "x", "k", trees=2, depth=6, progress=False)),
    "fit_sparse_lr": packed(lambda: tg.fit_sparse_lr("y", "f", progress=False)),
    "fit_target_encoder": packed(lambda: tg.fit_target_encoder("s", target="y")),
}
def result(name):
    table, expr = WORK[name]
    column = table.with_columns(result=expr).get_column("result")
    return column.head(1) if column.dtype == pl.Binary else column
df.group_by("y").agg(tg.fit_gbdt("c", "x", "k", rounds=3, progress=False))
expected = {name: result(name) for name in WORK}
def child(name):
    sys.exit(0 if result(name).equals(expected[name]) else 3)
for name in WORK:
    process = multiprocessing.get_context("fork").Process(target=child, args=(name,))
    process.start()
    process.join(60)
    print(name, process.exitcode, flush=True)
    process.kill()
"""


def words(script: str) -> list[str]:
    """What a script prints, word by word."""
    run = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True, timeout=1200)
    return run.stdout.split()


@pytest.mark.skipif(pl.__version__.startswith("1."), reason="Polars 1 hangs by itself after a fork")
def test_forked_processes_do_what_their_parent_did() -> None:
    """Proves for what Polars does without threads of its own that a child's results are its parent's.

    The parent has used every pool before. Predictions read several inputs, and so are not among them.
    """
    printed = words(FORKED)
    assert printed[1::2] == ["0"] * 10, printed


SIGNALS = """
import os
signal.signal(signal.SIGINT, signal.default_int_handler)
import polars as pl, polars_taiga as tg
signal.signal(signal.SIGINT, signal.default_int_handler)
df = pl.DataFrame({"x": range(20_000)}).with_columns(y=(pl.col("x") * 7919 % 1009).cast(pl.Float64))
fit = lambda: df.select(tg.fit_gbdt("y", "x", rounds=1_000_000, progress=False))
threading.Thread(target=fit, daemon=True).start()
wait_for_our_handler()
child = os.fork()
if child == 0:
    try:
        signal.raise_signal(signal.SIGINT)
        os._exit(3)
    except KeyboardInterrupt:
        os._exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(code, flush=True)
os._exit(0)
"""


def test_ctrl_c_reaches_a_process_that_is_forked_during_a_fit() -> None:
    """Proves that the handler that stands in for Python's during a fit of the parent is not left in the child."""
    assert words(WAIT_FOR_OUR_HANDLER + SIGNALS) == ["0"]

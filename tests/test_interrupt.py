"""Ctrl-C ends everything that takes long, not fits alone; and other threads of Python run meanwhile."""

from __future__ import annotations

import subprocess
import sys

import polars as pl
import pytest

from tests.signals import WAIT_FOR_OUR_HANDLER

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGINT is sent the POSIX way")

# Tables of many columns and rows that take little memory: the same buffers again and again. `n` is how often.
WORK = """
import signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import polars as pl, polars_taiga as tg
# Whoever runs the tests in the background of a shell hands SIGINT down as ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
ROWS = 2_000_000
i = pl.int_range(ROWS, eager=True)
rows = pl.DataFrame({"x": (i * 7919 % 100_003).cast(pl.Float32), "y": i % 3 == 0, "k": i * 31 % 50_021, "r": -i})
rows = rows.with_columns(s=pl.col("k").cast(pl.String))
def wide(column, n):
    return rows.select("y", *(pl.col(column).alias(f"{column}{j}") for j in range(n)))
def tall(columns, n, copies):
    wide = rows.select(*(pl.col(columns).alias(f"{columns}{j}") for j in range(n)))
    return pl.concat([wide] * copies, rechunk=False)
def sums(exprs):
    return [e.sum().alias(str(j)) for j, e in enumerate(exprs)]
def forest():
    few = rows.head(20_000).with_columns(z=(pl.col("k") * 7919 % 1009).cast(pl.Float64))
    return few.taiga.fit_forest("z", "x", "k", trees=100, progress=False)
def sparse():
    few = rows.head(2_000).select("y", f=pl.concat_list(pl.col("k") % 100, pl.col("k") % 77 + 100))
    return few.taiga.fit_sparse_lr("y", "f", progress=False)
work = sys.argv[1]
if work in ("predict", "streaming", "groups", "importance"):
    model, table = forest(), pl.concat([rows] * 4, rechunk=False)
if work == "linear":
    words = [pl.col("k") % (50 + j) + 50 * j for j in range(20)]
    model, lists = sparse(), rows.head(ROWS // 4).select(f=pl.concat_list(words))
if work == "encode":
    encoder = rows.head(100_000).select(tg.fit_target_encoder("s", target="y")).item()
def run(n):
    if work == "predict":  # one call
        return table.head(n * 80_000).select(tg.predict(model, "x", "k").sum())
    if work == "streaming":  # a call a morsel
        return table.head(n * 80_000).lazy().select(tg.predict(model, "x", "k").sum()).collect(engine="streaming")
    if work == "groups":
        groups = table.head(n * 80_000).group_by(pl.int_range(pl.len()) // 20_000)
        return groups.agg(tg.predict(model, "x", "k").sum())
    if work == "importance":
        return table.head(80_000).select(tg.importance(model, "k", "x", "k", kind="permutation", repeats=n))
    if work == "linear":
        return lists.select(sums(tg.predict(model, pl.col("f").slice(j, 10**9)) for j in range(n)))
    if work == "target_encode":  # one call
        return rows.select(tg.target_encode("s", "y", permutations=min(10 * n, 1000)).sum())
    if work == "order_by":
        exprs = (tg.target_encode("k", "y", order_by=pl.col("r") * (j + 1)) for j in range(n))
        return rows.select(sums(exprs))
    if work == "fit_target_encoder":
        return wide("s", n).select(tg.fit_target_encoder(pl.exclude("y"), target="y"))
    if work == "encode":
        exprs = (tg.encode(encoder, pl.col(f"s{j}").alias("s")) for j in range(n))
        return wide("s", n).select(sums(exprs))
    if work == "woe":
        return wide("s", n).select(sums(tg.woe(f"s{j}", "y") for j in range(n)))
    if work == "count_encode":
        return wide("s", n).select(sums(tg.count_encode(f"s{j}") for j in range(n)))
    if work == "combine":
        return wide("k", n).select(sums(tg.combine(f"k{j}", "y") for j in range(n)))
    if work == "min_max":
        return tall("k", n, 100).select(tg.min_max(f"k{j}") for j in range(n))
    if work == "histogram":
        return tall("x", n, 40).select(tg.histogram(f"x{j}", bins=100) for j in range(n))
    if work == "histogram2d":
        return tall("x", n + 1, 20).select(tg.histogram2d(f"x{j}", f"x{j + 1}") for j in range(n))
    if work == "borders":
        return wide("x", n).select(tg.borders(f"x{j}", sample=ROWS) for j in range(n))
    if work == "fit_folds":  # one call
        return rows.select(tg.fit_folds("y", "x", "k", folds=min(n, 40), rounds=n).struct.field("fold").sum())
    if work == "search":
        few, space = rows.head(20_000), {"depth": [4, 6], "l2": (0.1, 9)}
        return few.select(tg.search("y", "x", "k", space=space, trials=n, folds=3, rounds=60).list.len())
    if work == "quantize":
        return wide("x", n).select(sums(tg.quantize(f"x{j}", bins=1000) for j in range(n)))
    raise ValueError(work)
"""

KINDS = [
    *("predict", "streaming", "groups", "importance", "linear"),
    *("target_encode", "order_by", "fit_target_encoder", "encode", "woe", "count_encode", "combine"),
    *("min_max", "histogram", "histogram2d", "borders", "quantize", "fit_folds", "search"),
]

INTERRUPTED = """
interrupt_once_a_call_is_under_way()
result = "untouched"
try:
    result = run(400)
    print("done")
except KeyboardInterrupt:
    sum(range(1000)), [str(j) for j in range(1000)]  # a second one would come here
    print("KeyboardInterrupt", flush=True)
assert isinstance(result, str)
# What comes after works as before: a short call, and another Ctrl-C.
assert rows.select(tg.histogram("x", bins=3)).item().len() == 3
try:
    signal.raise_signal(signal.SIGINT)
    print("no signal")
except KeyboardInterrupt:
    print("again")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says which library a signal goes to")
@pytest.mark.parametrize("work", KINDS)
def test_ctrl_c_ends_what_takes_long(work: str) -> None:
    """Proves that work of a minute and more is not done to its end after the signal, by KeyboardInterrupt alone."""
    if pl.__version__.startswith("1."):
        pytest.skip("in Polars 1 some of this ends by Polars' own check of signals, as it does without a plugin")
    script = [sys.executable, "-c", WAIT_FOR_OUR_HANDLER + WORK + INTERRUPTED, work]
    run = subprocess.run(script, capture_output=True, text=True, timeout=300)
    assert run.stdout.split() == ["KeyboardInterrupt", "again"], run.stderr
    assert run.returncode == 0, run.stderr


OTHER_THREAD = """
ticks = []
def tick():
    while True:
        ticks.append(time.perf_counter())
        time.sleep(0.001)
threading.Thread(target=tick, daemon=True).start()
def longest_gap(call):
    begun = time.perf_counter()
    call()
    ended = time.perf_counter()
    if ended - begun < 0.1:  # too short for anyone to wait for
        return 0.0
    seen = [begun, *(t for t in ticks if begun < t < ended), ended]
    return max(b - a for a, b in zip(seen, seen[1:])) / (ended - begun)
def leaves_room(what, call):
    # On a busy machine the other thread may wait for a core too. A call that keeps the interpreter's lock for itself
    # leaves no tick however often it is made: the gap is then all of each.
    gaps = []
    while not gaps or gaps[-1] >= 0.5:
        assert len(gaps) < 50, f"{what}: the longest gaps are {min(gaps):.2f} and more of the time"
        gaps.append(longest_gap(call))
"""


@pytest.mark.parametrize("work", KINDS)
def test_other_threads_run_during_a_query(work: str) -> None:
    """Proves that another thread runs during calls that take long; predictions do so for each n."""
    n = 1 if work in ("predict", "streaming", "groups", "importance") else 4
    script = f"{WORK}{OTHER_THREAD}\nleaves_room(work, lambda: run({n}))"
    subprocess.run([sys.executable, "-c", script, work], check=True, timeout=300)


MODELS = """
import threading, time
import polars as pl, polars_taiga as tg
i = pl.int_range(30_000, eager=True)
df = pl.DataFrame({"x": i * 7919 % 100_003, "k": i * 31 % 50_021, "z": (i * 7919 % 1009).cast(pl.Float64)})
forest = df.taiga.fit_forest("z", "x", "k", trees=30, oob=True, progress=False)
trees = df.taiga.fit_gbdt("z", "x", "k", rounds=500, policy="depthwise", depth=8, progress=False)
"""

METHODS = """
for name, model in [("forest", forest), ("gbdt", trees)]:
    data = model.to_bytes()
    leaves_room(f"{name}: from_bytes", lambda: tg.Model.from_bytes(data))
    leaves_room(f"{name}: to_json", model.to_json)
    leaves_room(f"{name}: nodes", model._inner.nodes)
    leaves_room(f"{name}: importance", lambda: [model.importance() for _ in range(10)])
    leaves_room(f"{name}: borders", lambda: [model.borders for _ in range(10)])
leaves_room("out of bag", lambda: [forest._inner.out_of_bag() for _ in range(20)])
"""


def test_other_threads_run_while_a_model_is_read() -> None:
    subprocess.run([sys.executable, "-c", MODELS + OTHER_THREAD + METHODS], check=True, timeout=300)


OWN_HANDLER = """
interrupt_once_a_call_is_under_way()
came = []
signal.signal(signal.SIGINT, lambda *_: came.append("handler"))
few = rows.head(20_000).select("x", "k")
try:
    if work == "method":
        few.taiga.fit_gbdt("x", "k", rounds=1_000_000)
    few.select(tg.fit_gbdt("x", "k", rounds=1_000_000))
except pl.exceptions.ComputeError as error:
    sum(range(1000)), [str(j) for j in range(1000)]
    print("interrupted" in str(error), *came)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says which library a signal goes to")
@pytest.mark.parametrize("work", ["method", "expression"])
def test_a_programs_own_handler_is_called(work: str) -> None:
    """Proves that Ctrl-C ends a fit and comes to the program's handler, which raises nothing."""
    script = [sys.executable, "-c", WAIT_FOR_OUR_HANDLER + WORK + OWN_HANDLER, work]
    run = subprocess.run(script, capture_output=True, text=True, timeout=300)
    assert run.stdout.split() == ["True", "handler"], run.stderr
    assert run.returncode == 0, run.stderr

"""Ctrl-C ends a fit; the progress bar shows when asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.signals import WAIT_FOR_OUR_HANDLER

ENDLESS = """
import signal, sys
# Whoever runs the tests in the background of a shell hands SIGINT down as ignored, which a fit respects.
signal.signal(signal.SIGINT, signal.default_int_handler)
import polars as pl, polars_taiga as tg
if "late" in sys.argv:  # as notebooks do: a handler set after Polars has set its own
    signal.signal(signal.SIGINT, signal.default_int_handler)
df = pl.DataFrame({"x": range(20_000)}).with_columns(y=(pl.col("x") * 7919 % 1009).cast(pl.Float64), g=pl.col("x") % 3)
fit = tg.fit_gbdt("y", "x", rounds=1_000_000, progress=False)
interrupt_once_a_call_is_under_way()
engines = tuple(map(int, pl.__version__.split(".")[:2])) >= (1, 23)
result = "untouched"
def query():
    global result
    if "frame" in sys.argv:
        result = df.taiga.fit_gbdt("y", "x", rounds=1_000_000, progress=False)
    elif "group" in sys.argv:
        result = df.group_by("g").agg(fit)
    elif "many" in sys.argv:  # more groups than threads: those that have not begun end too
        result = df.group_by(pl.col("x") // 50).agg(fit)
    elif "over" in sys.argv:
        result = df.with_columns(fit.over("g"))
    elif "nested" in sys.argv:  # what goes on with the model in the same query
        result = df.lazy().with_columns(p=tg.predict(fit, "x")).filter(pl.col("p") > 0).collect()
    elif "streaming" in sys.argv:
        result = df.lazy().select(fit).collect(**({"engine": "streaming"} if engines else {}))
    elif "memory" in sys.argv:
        result = df.lazy().select(fit).collect(**({"engine": "in-memory"} if engines else {}))
    elif "sink" in sys.argv:
        df.lazy().select(fit).sink_parquet("model.parquet")
    else:
        result = df.select(fit)
if "handler" in sys.argv:  # whoever handles the signal otherwise does, and the query has its error
    signal.signal(signal.SIGINT, lambda *_: print("handled", flush=True))
try:
    if "thread" in sys.argv:  # the query of another thread fails, and the main thread gets what Ctrl-C means
        import concurrent.futures
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            future = pool.submit(query)
            try:
                future.result()
            finally:
                assert "interrupted" in str(future.exception())
    else:
        query()
    print("done")
except pl.exceptions.ComputeError as error:
    print("interrupted" if "fit_gbdt: interrupted" in str(error) else error, flush=True)
except KeyboardInterrupt:
    sum(range(1000)), [str(i) for i in range(1000)]  # a second one would come here
    print("KeyboardInterrupt", flush=True)
assert result == "untouched"
if "handler" in sys.argv:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# What comes after works as before: a short fit, and another Ctrl-C.
assert len(df.select(tg.fit_gbdt("y", "x", rounds=2)).item()) > 0
try:
    signal.raise_signal(signal.SIGINT)
    print("no signal")
except KeyboardInterrupt:
    print("again")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says which library a signal goes to")
@pytest.mark.parametrize(
    ("how", "ends"),
    [
        ("select", "KeyboardInterrupt"),
        ("memory", "KeyboardInterrupt"),
        ("streaming", "KeyboardInterrupt"),
        ("group", "KeyboardInterrupt"),
        ("many", "KeyboardInterrupt"),
        ("over", "KeyboardInterrupt"),
        ("nested", "KeyboardInterrupt"),
        ("late", "KeyboardInterrupt"),
        ("frame", "KeyboardInterrupt"),
        ("thread", "KeyboardInterrupt"),
        ("handler", "handled interrupted"),
        ("sink", "interrupted"),
    ],
)
def test_ctrl_c_ends_a_fit(how: str, ends: str, tmp_path: Path) -> None:
    if how == "sink" and pl.__version__.startswith("1.0."):
        pytest.skip("this version of Polars can't sink what does not stream")
    script = [sys.executable, "-c", WAIT_FOR_OUR_HANDLER + ENDLESS, how]
    run = subprocess.run(script, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert run.stdout.split() == [*ends.split(), "again"], run.stderr
    assert run.returncode == 0, run.stderr


def test_progress_when_asked_for() -> None:
    script = (
        "import polars as pl, polars_taiga as tg;"
        "df = pl.select(x=pl.int_range(1000), y=pl.int_range(1000));"
        "df.select(tg.fit_gbdt('y', 'x', rounds=7, progress={}))"
    )
    for progress, shown in [(True, True), (False, False), (None, False)]:
        run = subprocess.run(
            [sys.executable, "-c", script.format(progress)], capture_output=True, text=True, check=True
        )
        assert ("7/7 rounds" in run.stderr) == shown
        assert run.stdout == ""

"""Ctrl-C ends a fit; the progress bar shows when asked for."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

ENDLESS = """
import signal, sys
# Whoever runs the tests in the background of a shell hands SIGINT down as ignored, which a fit respects.
signal.signal(signal.SIGINT, signal.default_int_handler)
import polars as pl, polars_taiga as tg
if "late" in sys.argv:  # as notebooks do: a handler set after Polars has set its own
    signal.signal(signal.SIGINT, signal.default_int_handler)
df = pl.DataFrame({"x": range(20_000)}).with_columns(y=(pl.col("x") * 7919 % 1009).cast(pl.Float64), g=pl.col("x") % 3)
fit = tg.fit_gbdt("y", "x", trees=1_000_000, progress=False)
print("fitting", flush=True)
try:
    if "frame" in sys.argv:
        df.taiga.fit_gbdt("y", "x", trees=1_000_000, progress=False)
    elif "group" in sys.argv:
        df.group_by("g").agg(fit)
    elif "memory" in sys.argv:
        version = tuple(map(int, pl.__version__.split(".")[:2]))
        df.lazy().select(fit).collect(**({"engine": "in-memory"} if version >= (1, 23) else {}))
    else:
        df.select(fit)
    print("done")
except pl.exceptions.ComputeError as error:
    print("interrupted" if "fit_gbdt: interrupted" in str(error) else error, flush=True)
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
# What comes after works as before: a short fit, and another Ctrl-C.
assert len(df.select(tg.fit_gbdt("y", "x", trees=2)).item()) > 0
try:
    signal.raise_signal(signal.SIGINT)
    print("no signal")
except KeyboardInterrupt:
    print("again")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT is sent the POSIX way")
@pytest.mark.parametrize("how", ["select", "memory", "group", "late", "frame"])
def test_ctrl_c_ends_a_fit(how: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as p:
        assert p.stdout is not None
        assert p.stdout.readline() == "fitting\n"
        time.sleep(0.5)
        p.send_signal(signal.SIGINT)
        try:
            out, err = p.communicate(timeout=60)
        finally:
            p.kill()
    assert out.split() == ["KeyboardInterrupt" if how == "frame" else "interrupted", "again"], err
    assert p.returncode == 0, err


def test_progress_when_asked_for() -> None:
    script = (
        "import polars as pl, polars_taiga as tg;"
        "df = pl.select(x=pl.int_range(1000), y=pl.int_range(1000));"
        "df.select(tg.fit_gbdt('y', 'x', trees=7, progress={}))"
    )
    for progress, shown in [(True, True), (False, False), (None, False)]:
        run = subprocess.run(
            [sys.executable, "-c", script.format(progress)], capture_output=True, text=True, check=True
        )
        assert ("7/7 trees" in run.stderr) == shown
        assert run.stdout == ""

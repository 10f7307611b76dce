"""Queries that run within a call of ours: a callback, a warning's filter, a snapshot, on whatever thread."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PRELUDE = """
import polars as pl, polars_taiga as tg
rows = range(400)
df = pl.DataFrame({"x": [i * 7 % 31 * 1.0 for i in rows], "y": [i * 5 % 13 * 1.0 for i in rows]})
df = df.with_columns(g=pl.Series(rows) % 4)
whole = pl.DataFrame({"x": df["x"], "y": df["x"].cast(pl.Int64) % 2})
"""
WITHIN = {
    "a query": 'df.group_by("g").agg(pl.col("x").sum())',
    "a fit with a callback": 'df.select(tg.fit_gbdt("y", "x", callback=lambda *_: None, rounds=1))',
    "a method with a callback": 'df.taiga.fit_gbdt("y", "x", callback=lambda *_: None, rounds=1)',
    "a fit with a snapshot": 'df.select(tg.fit_gbdt("y", "x", snapshot=path, snapshot_every=1, rounds=2))',
    "a fit that warns": 'whole.select(tg.fit_gbdt("y", "x", rounds=1))',
    "a query that streams": 'df.lazy().select(pl.col("x").sum()).collect(engine="streaming")',
}
AROUND = {
    "select": 'df.select(tg.fit_gbdt("y", "x", callback=callback, rounds=2))',
    "group_by": 'df.group_by("g").agg(tg.fit_gbdt("y", "x", callback=callback, rounds=2))',
    "over": 'df.select(tg.fit_gbdt("y", "x", callback=callback, rounds=2).over("g"))',
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("within", WITHIN)
@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_callback_may_run_queries(within: str, around: str, threads: str, tmp_path: object) -> None:
    """Proves that the process survives, and the fit ends, whatever a callback runs on a thread that waits in a fit."""
    code = f"""{PRELUDE}
import itertools, warnings
warnings.simplefilter("ignore")
count = itertools.count()
called = []
def callback(done, measured):
    path = f"{tmp_path}/{{next(count)}}.snapshot"
    called.append({WITHIN[within]})
{AROUND[around]}
assert len(called) >= 2, called
"""
    if within == "a query that streams":
        code = f"import polars as pl\nif not hasattr(pl.LazyFrame, 'collect_batches'): raise SystemExit\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "POLARS_MAX_THREADS": threads},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr

"""Times metrics of columns beside scikit-learn's and polars-ds's: python -m benchmarks.metrics

Each is measured on the same frame in one process, the libraries in turn, the best of the repeats; a value that differs
from scikit-learn's by more than 1e-9 is printed. polars-ds comes from PyPI (`pip install polars-ds`) and is left out
where it is not there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
from sklearn import metrics as sk

try:
    import polars_ds as pds
except ImportError:
    pds = None


def table(rows: int, distinct: int | None) -> pl.DataFrame:
    """Two classes and their probabilities, all different or of so many values."""
    rng = np.random.default_rng(0)
    p = rng.random(rows)
    if distinct:
        p = np.round(p * distinct) / distinct
    return pl.DataFrame({"y": (rng.random(rows) < p).astype(np.int32), "p": p, "w": rng.random(rows)})


def contenders() -> dict[str, dict[str, Callable[[pl.DataFrame], Any]]]:
    """For each metric the calls of the libraries."""
    calls: dict[str, dict[str, Callable[[pl.DataFrame], Any]]] = {
        "auc": {
            "polars-taiga": lambda df: df.select(tg.metrics.auc("y", "p")).item(),
            "scikit-learn": lambda df: sk.roc_auc_score(df["y"].to_numpy(), df["p"].to_numpy()),
        },
        "auc, weights": {
            "polars-taiga": lambda df: df.select(tg.metrics.auc("y", "p", weight="w")).item(),
            "scikit-learn": lambda df: sk.roc_auc_score(
                df["y"].to_numpy(), df["p"].to_numpy(), sample_weight=df["w"].to_numpy()
            ),
        },
        "logloss": {
            "polars-taiga": lambda df: df.select(tg.metrics.logloss("y", "p")).item(),
            "scikit-learn": lambda df: sk.log_loss(df["y"].to_numpy(), df["p"].to_numpy()),
        },
        "average_precision": {
            "polars-taiga": lambda df: df.select(tg.metrics.average_precision("y", "p")).item(),
            "scikit-learn": lambda df: sk.average_precision_score(df["y"].to_numpy(), df["p"].to_numpy()),
        },
    }
    if pds is not None:
        calls["auc"]["polars-ds"] = lambda df: df.select(pds.query_roc_auc("y", "p")).item()
        calls["logloss"]["polars-ds"] = lambda df: df.select(pds.query_log_loss("y", "p")).item()
    return calls


def main() -> None:
    """Print a line for each metric: seconds of each library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--distinct", type=int, default=None, help="how many probabilities; all different unless told")
    args = parser.parse_args()
    df = table(args.rows, args.distinct)
    for name, calls in contenders().items():
        best = dict.fromkeys(calls, float("inf"))
        values: dict[str, float] = {}
        for _ in range(args.repeats):
            for library, call in calls.items():
                start = time.perf_counter()
                values[library] = float(call(df))
                best[library] = min(best[library], time.perf_counter() - start)
        line = ", ".join(f"{library} {seconds:.3f} s" for library, seconds in best.items())
        apart = [lib for lib, v in values.items() if abs(v - values["scikit-learn"]) > 1e-9]
        print(f"{name}: {line}" + (f"; differs: {apart} {values}" if apart else ""))


if __name__ == "__main__":
    main()

"""Histograms and extremes of one column: `python -m benchmarks.histogram [--rows 100000000]`.

Ours, NumPy's and Polars' own, on the same column in memory, in one process of two threads. They
take turns; the best time counts, and our counts and edges must be NumPy's.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, Results, number, table


def columns(rows: int) -> dict[str, Any]:
    """Columns by name, as Polars series."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(1)
    normal = rng.standard_normal(rows, dtype=np.float32)
    return {
        "normal f32": pl.Series("x", normal),
        "whole numbers f32": pl.Series("x", np.floor(normal * 16 + 100)),
        "normal f64": pl.Series("x", normal.astype(np.float64)),
        "i32": pl.Series("x", (normal * 1000).astype(np.int32)),
    }


def best(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The best seconds of each, in turns."""
    seconds = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds


def compare(series: Any, bins: int, rounds: int) -> dict[str, float]:
    """Seconds of each library; ours is compared with NumPy's first."""
    import numpy as np
    import polars as pl
    import polars_taiga as tg

    frame, array = series.to_frame(), series.to_numpy()
    middle = float(np.median(array[:100_000]))
    edges = np.linspace(middle - 3, middle + 3, bins + 1) ** 3
    counts, outer = np.histogram(array, bins)
    ours = frame.select(tg.histogram("x", bins).explode()).unnest("x")
    if not (ours["count"].to_numpy() == counts).all() or not (ours["lower"].to_numpy() == outer[:-1]).all():
        raise SystemExit(f"{series.dtype}: the histogram is not NumPy's")
    return best(
        {
            "read (sum)": series.sum,
            "taiga min_max": lambda: frame.select(tg.min_max("x")),
            "polars min, max": lambda: frame.select(a=pl.col("x").min(), b=pl.col("x").max()),
            "taiga histogram": lambda: frame.select(tg.histogram("x", bins)),
            "taiga histogram, edges given": lambda: frame.select(tg.histogram("x", edges)),
            "polars hist": lambda: series.hist(bin_count=bins),
        },
        rounds,
    ) | best({"numpy histogram": lambda: np.histogram(array, bins)}, min(rounds, 2))


def main() -> None:
    """Measures all columns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--bins", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", help="columns whose names contain this")
    parser.add_argument("--out", type=Path, default=RESULTS / "histogram.jsonl")
    args = parser.parse_args()
    # Before Polars is imported.
    os.environ["POLARS_MAX_THREADS"] = str(args.threads)
    results = Results(args.out)
    for name, series in columns(args.rows).items():
        if args.only and args.only not in name:
            continue
        seconds = compare(series, args.bins, args.rounds)
        results.add({"column": name, "rows": args.rows, "bins": args.bins, "seconds": seconds})
        ours = {
            "numpy histogram": "taiga histogram",
            "polars hist": "taiga histogram",
            "polars min, max": "taiga min_max",
        }
        rows = [
            [what, number(s, 4), f"{s / seconds[ours[what]]:.1f}" if what in ours else ""]
            for what, s in seconds.items()
        ]
        print(f"\n{name}: {args.rows:,} rows, {args.bins} bins, {args.threads} threads\n")
        print(table(["what", "best s", "times ours"], rows), flush=True)
    print(f"\nResults: {args.out}")


if __name__ == "__main__":
    main()

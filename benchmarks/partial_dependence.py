"""Partial dependence beside scikit-learn's: `python -m benchmarks.partial_dependence [--rows 20000]`.

Models of the same size, fitted on the same rows: ours by `tg.partial_dependence` from a Polars frame, scikit-learn's
HistGradientBoostingRegressor by its `partial_dependence` from a NumPy table; by data ("brute") and by the trees alone
("recursion"), the mean at 100 points of a column. The best of some rounds in turn, in one process.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any


def main() -> None:
    """Measures every way in turn, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    works = prepare(args)
    best: dict[str, float] = {}
    for _ in range(args.repeats):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            best[name] = min(best.get(name, float("inf")), time.perf_counter() - start)
    print(f"\n{args.rows:,} x {args.features}, {args.trees} trees of depth {args.depth}, {args.threads} threads\n")
    print("| | seconds |\n|---|---|")
    for name, seconds in best.items():
        print(f"| {name} | {seconds:.4f} |")


def prepare(args: argparse.Namespace) -> dict[str, Callable[[], Any]]:
    """Fits the models; what computes each one's partial dependence."""
    # Imported here, because the number of threads is read at the import.
    import numpy as np
    import polars as pl
    import polars_taiga as tg
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.inspection import partial_dependence

    rng = np.random.default_rng(0)
    x = rng.normal(size=(args.rows, args.features))
    y = x[:, 0] ** 2 + x[:, 1] * x[:, 2] + rng.normal(size=args.rows)
    names = [f"f{i}" for i in range(args.features)]
    frame = pl.DataFrame(dict(zip(names, x.T.copy(), strict=True))).with_columns(y=pl.Series(y))

    works: dict[str, Callable[[], Any]] = {}
    for policy in ("symmetric", "depthwise"):
        model = frame.taiga.fit_gbdt("y", *names, policy=policy, rounds=args.trees, depth=args.depth, progress=False)
        for way, data in (("data", frame), ("trees", None)):
            works[f"taiga {policy}, by {way}"] = lambda model=model, data=data: tg.partial_dependence(
                model, data, "f0", grid=args.points
            )
    peer = HistGradientBoostingRegressor(
        max_iter=args.trees, max_depth=args.depth, max_leaf_nodes=2**args.depth, early_stopping=False
    ).fit(x, y)
    for way, method in (("data", "brute"), ("trees", "recursion")):
        works[f"scikit-learn, by {way}"] = lambda method=method: partial_dependence(
            peer, x, [0], method=method, grid_resolution=args.points, percentiles=(0, 1)
        )
    return works


if __name__ == "__main__":
    main()

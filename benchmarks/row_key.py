"""What it costs that rows have keys: `python -m benchmarks.row_key`.

Fits of rows in the order in which they come, and of the same rows by a key (a shuffled Int64, or text), in turn; and
the receipt alone, which is the order of the keys, a copy of the columns, and the digest, without the fit. Best of
several.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="1000,100000,1000000")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    os.environ["POLARS_MAX_THREADS"] = str(args.threads)
    print(f"\n28 features, 100 rounds, {args.threads} threads: seconds (best of {args.repeats})\n")
    print("| rows | no key | Int64 | more | text | more | order and receipt | order alone |")
    print("|---|---|---|---|---|---|---|---|")
    for rows in (int(text) for text in args.rows.split(",")):
        none, integer, text, receipt, order = measured(rows, args.repeats)
        more = [f"{100 * (time / none - 1):.0f} %" for time in (integer, text)]
        row = f"{none:.3f} | {integer:.3f} | {more[0]} | {text:.3f} | {more[1]} | {receipt:.3f} | {order:.3f}"
        print(f"| {rows:,} | {row} |", flush=True)


def measured(rows: int, repeats: int) -> list[float]:
    """The seconds of a fit without a key, by an integer, by text; of the receipt alone; and of the order alone."""
    import numpy as np
    import polars as pl
    import polars_taiga as tg

    from benchmarks.data import TARGET, synthetic

    df = synthetic(rows)
    features = [name for name in df.columns if name != TARGET]
    df = df.with_columns(id=pl.Series(np.random.default_rng(1).permutation(rows)))
    df = df.with_columns(text=pl.format("row-{}", "id"))
    ways: list[Callable[[], object]] = [
        lambda: df.select(tg.fit_gbdt(TARGET, *features, rounds=100)),
        lambda: df.select(tg.fit_gbdt(TARGET, *features, rounds=100, row_key="id")),
        lambda: df.select(tg.fit_gbdt(TARGET, *features, rounds=100, row_key="text")),
        lambda: df.select(tg.receipt(tg.fit_gbdt, TARGET, *features, rounds=100, row_key="id")),
        lambda: df.select(tg.row_key_order("id")),
    ]
    best = [float("inf")] * len(ways)
    for _ in range(repeats + 1):
        for way, run in enumerate(ways):
            start = time.perf_counter()
            run()
            best[way] = min(best[way], time.perf_counter() - start)
    return best


if __name__ == "__main__":
    main()

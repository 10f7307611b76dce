"""One GPU beside several, from Polars frames: `python -m benchmarks.gpu_several --rows 11000000`.

Fits of boosted trees and of forests, predictions and Shapley values of the same rows, by each device in turn; the best
of several runs, the ratio to the first device, and whether the bytes are equal. Times are those that a user sees:
borders, codes and the way to the devices are in them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import polars as pl
import polars_taiga as tg

from benchmarks.data import TARGET, synthetic


def main() -> None:
    """Measures every task on every device, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=11_000_000)
    parser.add_argument("--devices", default="cuda:0 cuda:all", help="names, with spaces between them")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    devices = args.devices.split()
    df = synthetic(args.rows)
    features = [name for name in df.columns if name != TARGET]
    boosted = df.head(1_000_000).select(tg.fit_gbdt(TARGET, *features, rounds=100, device="cuda")).item()
    forest = df.head(1_000_000).select(tg.fit_forest(TARGET, *features, trees=100, depth=12, device="cuda")).item()
    tasks: dict[str, Callable[[str], pl.Expr]] = {
        "boosted trees, 100 rounds": lambda device: tg.fit_gbdt(TARGET, *features, rounds=100, device=device),
        "forest, 100 trees, depth 12": lambda device: tg.fit_forest(
            TARGET, *features, trees=100, depth=12, oob=False, device=device
        ),
        "forest, 100 trees, any depth": lambda device: tg.fit_forest(TARGET, *features, trees=100, device=device),
        "predict, boosted": lambda device: tg.predict(boosted, device=device),
        "predict, forest": lambda device: tg.predict(forest, device=device),
        "Shapley values, boosted": lambda device: tg.predict(boosted, output="shap", device=device),
    }
    print(f"{args.rows:,} x {len(features)}, best of {args.repeats} in turn, seconds\n")
    print("| task | " + " | ".join(devices) + " | times as fast | bytes |")
    print("|---|" + "---|" * (len(devices) + 2))
    for name, expr in tasks.items():
        # Explanations are as wide as the table.
        rows = df.head(args.rows // 10) if "Shapley" in name else df
        best, answers = [float("inf")] * len(devices), [pl.DataFrame()] * len(devices)
        for _ in range(args.repeats):
            for k, device in enumerate(devices):
                start = time.perf_counter()
                answers[k] = rows.select(expr(device).alias("answer"))
                best[k] = min(best[k], time.perf_counter() - start)
        same = all(answer.equals(answers[0]) for answer in answers)
        seconds = " | ".join(f"{s:.3f}" for s in best)
        print(f"| {name} | {seconds} | {best[0] / best[-1]:.2f} | {'equal' if same else 'DIFFER'} |", flush=True)


if __name__ == "__main__":
    main()

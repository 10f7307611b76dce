"""One GPU beside several, from Polars frames: `python -m benchmarks.gpu_several --rows 11000000`.

Fits of boosted trees and of forests, predictions and Shapley values of the same rows, by each device in turn; the best
of several runs, how many times as fast as the first device each is, and whether the bytes are equal. Times are those
that a user sees: borders, codes and the way to the devices are in them. A tree's time is the difference between fits of
many and of few trees. `python -m benchmarks.scaling` draws what `--out` keeps.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import polars_taiga as tg

from benchmarks.data import TARGET, synthetic


def main() -> None:
    """Measures every task on every device, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=11_000_000)
    parser.add_argument("--devices", default="cuda:0 cuda:all", help="names, with spaces between them")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tasks", default="", help="a regular expression; all unless told")
    parser.add_argument("--out", type=Path, help="a file that gets a line of JSON for each task")
    args = parser.parse_args()
    devices = args.devices.split()
    df = synthetic(args.rows)
    features = [name for name in df.columns if name != TARGET]
    sample = df.head(1_000_000)
    boosted = sample.select(tg.fit_gbdt(TARGET, *features, rounds=100, device="cuda")).item()
    forest = sample.select(tg.fit_forest(TARGET, *features, trees=100, depth=12, device="cuda")).item()

    def fit(rounds: int, **params: str | int) -> Callable[[str], pl.Expr]:
        return lambda device: tg.fit_gbdt(TARGET, *features, rounds=rounds, device=device, **params)

    def grow(trees: int, **params: int) -> Callable[[str], pl.Expr]:
        return lambda device: tg.fit_forest(TARGET, *features, trees=trees, device=device, **params)

    # A fit of few trees stands before that of many, from which it is subtracted.
    tasks: dict[str, Callable[[str], pl.Expr]] = {
        "boosted trees, 100 rounds": fit(100),
        "boosted trees, 500 rounds": fit(500),
        "depthwise trees, 100 rounds": fit(100, policy="depthwise", depth=6),
        "depthwise trees, 500 rounds": fit(500, policy="depthwise", depth=6),
        "forest of depth 12, 20 trees": grow(20, depth=12, oob=False),
        "forest of depth 12, 100 trees": grow(100, depth=12, oob=False),
        "forest of any depth, 100 trees": grow(100),
        "predict, boosted": lambda device: tg.predict(boosted, device=device),
        "predict, forest": lambda device: tg.predict(forest, device=device),
        "Shapley values, boosted": lambda device: tg.predict(boosted, output="shap", device=device),
    }

    def keep(name: str, seconds: list[float]) -> None:
        if args.out:
            args.out.parent.mkdir(parents=True, exist_ok=True)
            with args.out.open("a") as out:
                told = {"rows": args.rows, "features": len(features), "task": name}
                out.write(json.dumps({**told, "devices": devices, "seconds": seconds}) + "\n")

    print(f"{args.rows:,} x {len(features)}, best of {args.repeats} in turn: seconds, times as fast as {devices[0]}\n")
    print("| task | " + " | ".join(devices) + " | bytes |")
    print("|---|" + "---|" * (len(devices) + 1))
    measured: dict[str, list[float]] = {}
    for name, expr in tasks.items():
        if not re.search(args.tasks, name):
            continue
        # Explanations are as wide as the table.
        rows = df.head(args.rows // 10) if "Shapley" in name else df
        best, answers = [float("inf")] * len(devices), [pl.DataFrame()] * len(devices)
        for _ in range(args.repeats):
            for k, device in enumerate(devices):
                start = time.perf_counter()
                answers[k] = rows.select(expr(device).alias("answer"))
                best[k] = min(best[k], time.perf_counter() - start)
        same = all(answer.equals(answers[0]) for answer in answers)
        measured[name] = best
        keep(name, best)
        print(line(name, best, "equal" if same else "DIFFER"), flush=True)
        for many, few, each in ((500, 100, "rounds"), (100, 20, "trees")):
            fewer = name.replace(f"{many} {each}", f"{few} {each}")
            if fewer != name and fewer in measured:
                trees = [(long - short) / (many - few) for long, short in zip(best, measured[fewer], strict=True)]
                one = name.replace(f"{many} {each}", "one")
                keep(one, trees)
                print(line(one, trees, ""), flush=True)


def line(name: str, seconds: list[float], said: str) -> str:
    """Returns a task's line of the table."""
    cells = " | ".join(f"{s:.3g} ({seconds[0] / s:.2f})" for s in seconds)
    return f"| {name} | {cells} | {said} |"


if __name__ == "__main__":
    main()

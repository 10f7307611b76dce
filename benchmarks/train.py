"""Training speed, side by side: `python -m benchmarks.train [--sizes 1000000x28,5000x20] [--trees 100]`.

Every fit starts from a Polars frame in memory and includes whatever the library does to it. Each
measurement is a fresh process; the libraries take turns, `--repeats` rounds, and the best counts.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from benchmarks.data import synthetic_files
from benchmarks.harness import RESULTS, Results, measure, number, progress, select, table, version
from benchmarks.libraries import ENTRIES, Entry, Settings

Best = dict[str, dict[str, Any]]


def size(text: str) -> tuple[int, int]:
    """`1000000x28` as rows and features."""
    rows, features = text.split("x")
    return int(rows), int(features)


def run(
    rows: int, features: int, trees: int, entries: list[Entry], settings: Settings, repeats: int, results: Results
) -> Best:
    """Measures one size: the best of each entry by name, or its error."""
    train, test = synthetic_files(rows, features, test_rows=max(5_000, min(200_000, rows // 5)), task=settings.task)
    settings = dataclasses.replace(settings, trees=trees)
    best: Best = {}
    for repeat in range(repeats):
        for entry in entries:
            if "error" in best.get(entry.name, {}):
                continue
            job = {"job": "train", "entry": entry.name, "settings": dataclasses.asdict(settings)}
            answer = measure(job | {"train": str(train), "test": str(test)}, settings.threads)
            progress(f"{rows}x{features} {trees} trees, round {repeat + 1}: {entry.name}: {answer}")
            line = {"rows": rows, "features": features, "settings": dataclasses.asdict(settings), "entry": entry.name}
            results.add(line | {"version": version(entry.library), "repeat": repeat} | answer)
            known = best.get(entry.name)
            if known is None or "error" in answer or answer["best_s"] < known["best_s"]:
                best[entry.name] = answer
    return best


def rivals(entry: Entry, best: Best) -> dict[str, float]:
    """The seconds of the peers that grow trees of the same size: by depth, or by leaves."""
    by_leaves = entry.policy == "leafwise"
    return {
        name: answer["best_s"]
        for name, answer in best.items()
        if "error" not in answer and not ENTRIES[name].ours and (ENTRIES[name].policy == "leafwise") == by_leaves
    }


def report(rows: int, features: int, trees: int, best: Best, metric_names: list[str]) -> str:
    """The table of one size."""
    body = []
    for name, answer in best.items():
        if "error" in answer:
            body.append([name, "-", "-", *["-"] * len(metric_names), answer["error"][:60]])
            continue
        against = rivals(ENTRIES[name], best) if ENTRIES[name].ours else {}
        ratio = ""
        if against:
            fastest = min(against, key=lambda peer: against[peer])
            ratio = f"{against[fastest] / answer['best_s']:.2f} x {fastest}"
        body.append(
            [name, number(answer["best_s"]), number(answer["first_s"])]
            + [number(answer[metric], 5) for metric in metric_names]
            + [ratio]
        )
    header = ["library, policy", "best s", "first s", *metric_names, "times faster than the fastest peer"]
    return f"\n{rows:,} x {features}, {trees} trees\n\n{table(header, body)}"


def main() -> None:
    """Measures every size and number of trees asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000000x28", help="comma-separated ROWSxFEATURES")
    parser.add_argument("--trees", default="100", help="comma-separated numbers of trees")
    parser.add_argument("--task", choices=["binary", "regression"], default="binary")
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--leaves", type=int, default=64, help="for the leafwise policy")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", help="comma-separated words; only entries whose names contain one")
    parser.add_argument("--out", type=Path, default=RESULTS / "train.jsonl")
    args = parser.parse_args()
    settings = Settings(task=args.task, depth=args.depth, leaves=args.leaves, threads=args.threads)
    results = Results(args.out)
    metric_names = ["auc", "logloss"] if args.task == "binary" else ["rmse"]
    for text in args.sizes.split(","):
        rows, features = size(text)
        for trees in map(int, args.trees.split(",")):
            best = run(rows, features, trees, select(args.only), settings, args.repeats, results)
            print(report(rows, features, trees, best, metric_names), flush=True)
    print(f"\nResults: {args.out}")


if __name__ == "__main__":
    main()

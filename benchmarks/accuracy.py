"""Accuracy at the same settings over several seeds: `python -m benchmarks.accuracy [--tables adult,housing]`.

A seed is a random split (a quarter held out) and the libraries' own seed. Differences are paired
by seed and relative; positive means worse than the peer.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path

from benchmarks.data import Task, split_files, synthetic_files
from benchmarks.harness import RESULTS, Results, measure, number, progress, select, table, version
from benchmarks.libraries import ENTRIES, SAME_POLICY, Entry, Settings

Scores = dict[str, list[float]]


def files(name: str, seed: int, synthetic_rows: int) -> tuple[Path, Path, Task]:
    """The training and held-out files of a table for a seed."""
    if name == "synthetic":
        train, test = synthetic_files(synthetic_rows, 28, test_rows=max(10_000, synthetic_rows // 5), seed=seed)
        return train, test, "binary"
    return split_files(name, seed)


def for_entry(settings: Settings, entry: Entry) -> Settings:
    """CatBoost's symmetric trees know no smallest child weight, so that policy goes without one."""
    return dataclasses.replace(settings, min_child_weight=0.0) if entry.policy == "symmetric" else settings


def worse_by(ours: Sequence[float], peer: Sequence[float], metric: str) -> tuple[float, float]:
    """How much worse than the peer, in percent: the mean over the seeds and its standard error."""
    sign = -1 if metric == "auc" else 1
    relative = [sign * (a - b) / b * 100 for a, b in zip(ours, peer, strict=True)]
    error = statistics.stdev(relative) / len(relative) ** 0.5 if len(relative) > 1 else 0.0
    return statistics.fmean(relative), error


def best_of(scores: Scores, metric: str) -> str | None:
    """The peer with the best mean."""
    peers = {name: statistics.fmean(values) for name, values in scores.items() if not ENTRIES[name].ours and values}
    if not peers:
        return None
    return (max if metric == "auc" else min)(peers, key=lambda name: peers[name])


def report(name: str, metric: str, scores: Scores) -> str:
    """The table of one data set and metric."""
    best = best_of(scores, metric)
    body = []
    for entry, values in scores.items():
        row = [entry, number(statistics.fmean(values), 5) if values else "-", "", ""]
        if ENTRIES[entry].ours and values:
            for column, peer in ((2, SAME_POLICY[ENTRIES[entry].policy]), (3, best)):
                if peer and len(scores.get(peer, [])) == len(values):
                    mean, error = worse_by(values, scores[peer], metric)
                    row[column] = f"{mean:+.3f} % ± {error:.3f} ({peer})"
        body.append(row)
    return f"\n{name}: {metric}\n\n" + table(
        ["library, policy", metric, "worse than the same policy", "worse than the best"], body
    )


def main() -> None:
    """Measures every table asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", default="adult,housing,weather,synthetic")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--leaves", type=int, default=64)
    parser.add_argument("--l2", type=float, default=1.0)
    parser.add_argument("--synthetic-rows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="taiga,catboost,xgboost,lightgbm depthwise,lightgbm leafwise")
    parser.add_argument("--out", type=Path, default=RESULTS / "accuracy.jsonl")
    args = parser.parse_args()
    entries = [entry for entry in select(args.only) if not entry.quantized]
    results = Results(args.out)
    for name in args.tables.split(","):
        scores: dict[str, Scores] = {}
        for seed in range(args.seeds):
            train, test, task = files(name, seed, args.synthetic_rows)
            settings = Settings(
                task, args.trees, args.learning_rate, args.depth, args.leaves, args.l2, threads=args.threads, seed=seed
            )
            metrics = ["auc", "logloss"] if task == "binary" else ["rmse"]
            for entry in entries:
                job = {"job": "train", "entry": entry.name, "settings": dataclasses.asdict(for_entry(settings, entry))}
                answer = measure(job | {"train": str(train), "test": str(test), "fill_seconds": 0}, args.threads)
                progress(f"{name}, seed {seed}: {entry.name}: {answer}")
                results.add({"table": name, "version": version(entry.library)} | job | answer)
                for metric in metrics:
                    values = scores.setdefault(metric, {}).setdefault(entry.name, [])
                    if metric in answer:
                        values.append(answer[metric])
        for metric, by_entry in scores.items():
            print(report(name, metric, by_entry), flush=True)
    print(f"\nResults: {args.out}")


if __name__ == "__main__":
    main()

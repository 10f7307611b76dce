"""Training on tables that are mostly zeros: `python -m benchmarks.sparse [--rows 200000 --features 2000]`.

Three tables with 1 % of the values off zero: `onehot`, the flags of categories with 100 levels each
(so that the columns of a category exclude each other); `flags`, drawn independently; `numbers`,
the same with uniform values. Ours runs with `bundle=False` too: the models must be equal, byte for
byte, and the metrics beside the times say so. Each measurement is a fresh process, as in `train.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.data import CACHE, TARGET
from benchmarks.harness import RESULTS, Results, measure, number, progress, select, table, version
from benchmarks.libraries import Settings

KINDS = ("onehot", "flags", "numbers")
LEVELS = 100
ENTRIES = "taiga,lightgbm depthwise,lightgbm leafwise,xgboost"


def sparse(kind: str, rows: int, features: int, seed: int = 0) -> pl.DataFrame:
    """A table of `features` f32 columns, one value in a hundred off zero, and a Boolean target."""
    if features % LEVELS:
        raise ValueError(f"features={features} is not a multiple of {LEVELS}")
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    effect = np.random.default_rng([seed, 9]).normal(size=features) * (np.arange(features) % 3 == 0)
    columns = np.zeros((features, rows), dtype=np.float32)
    score = np.zeros(rows)
    for start in range(0, features, LEVELS):
        if kind == "onehot":
            level = rng.integers(0, LEVELS, rows)
            columns[start + level, np.arange(rows)] = 1
            score += effect[start + level]
            continue
        for feature in range(start, start + LEVELS):
            at = rng.choice(rows, rows // LEVELS, replace=False)
            columns[feature, at] = 1 if kind == "flags" else rng.random(at.size)
            score += effect[feature] * columns[feature]
    noise = rng.random(rows)
    frame = pl.DataFrame({f"f{i}": column for i, column in enumerate(columns)})
    return frame.with_columns(pl.Series(TARGET, noise < 1 / (1 + np.exp(-score))))


def files(kind: str, rows: int, features: int) -> tuple[Path, Path]:
    """Arrow files of a training part and of a held-out part a fifth as long, made once and kept."""
    CACHE.mkdir(parents=True, exist_ok=True)
    train, test = (CACHE / f"sparse-{kind}-{rows}x{features}{part}.arrow" for part in ("", "-test"))
    if not (train.exists() and test.exists()):
        frame = sparse(kind, rows + rows // 5, features)
        frame.head(rows).write_ipc(train)
        frame.tail(-rows).write_ipc(test)
    return train, test


def run(kind: str, args: argparse.Namespace, results: Results) -> dict[str, dict[str, Any]]:
    """The best of each entry by name, or its error."""
    train, test = files(kind, args.rows, args.features)
    settings = Settings(trees=args.trees, threads=args.threads)
    jobs = []
    for entry in select(args.only):
        jobs.append((entry.name, entry, settings))
        if entry.ours:
            jobs.append((f"{entry.name}, bundle=False", entry, dataclasses.replace(settings, bundle=False)))
    best: dict[str, dict[str, Any]] = {}
    for repeat in range(args.repeats):
        for name, entry, own in jobs:
            job = {"job": "train", "entry": entry.name, "settings": dataclasses.asdict(own)}
            answer = measure(job | {"train": str(train), "test": str(test)}, own.threads)
            progress(f"{kind}, round {repeat + 1}: {name}: {answer}")
            results.add(
                {"kind": kind, "name": name, "version": version(entry.library), "repeat": repeat} | job | answer
            )
            if name not in best or answer.get("best_s", 0.0) < best[name].get("best_s", 0.0):
                best[name] = answer
    return best


def report(kind: str, args: argparse.Namespace, best: dict[str, dict[str, Any]]) -> str:
    """The table of one kind."""
    body = []
    for name, answer in best.items():
        if "error" in answer:
            body.append([name, "-", "-", "-", answer["error"][:60]])
            continue
        ratios = []
        if name.startswith("taiga") and "bundle" not in name:
            peer = "lightgbm leafwise" if "leafwise" in name else "lightgbm depthwise"
            for other in (f"{name}, bundle=False", peer):
                if "best_s" in best.get(other, {}):
                    ratios.append(f"{best[other]['best_s'] / answer['best_s']:.1f} x {other.removeprefix(name + ', ')}")
        cells = [number(answer["best_s"], 2), number(answer["auc"], 5), number(answer["logloss"], 5)]
        body.append([name, *cells, ", ".join(ratios)])
    header = ["library, policy", "best s", "auc", "logloss", "times faster than"]
    return f"\n{kind}, {args.rows:,} x {args.features:,}, {args.trees} trees\n\n{table(header, body)}"


def main() -> None:
    """Measures every kind asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=2_000)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", default=ENTRIES, help="comma-separated words; only entries whose names contain one")
    parser.add_argument("--out", type=Path, default=RESULTS / "sparse.jsonl")
    args = parser.parse_args()
    results = Results(args.out)
    for kind in args.kinds.split(","):
        print(report(kind, args, run(kind, args, results)), flush=True)
    print(f"\nResults: {args.out}")


if __name__ == "__main__":
    main()

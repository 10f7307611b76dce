"""Prediction speed: `python -m benchmarks.predict [--rows 1000000]`.

Models of the same size, fitted on the first rows, score the whole Polars frame: ours in a
streaming query, the peers by their fastest call that takes the frame or its NumPy view.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from benchmarks.data import synthetic_files
from benchmarks.harness import RESULTS, Results, measure, number, progress, select, table, version
from benchmarks.libraries import ENTRIES, Settings


def main() -> None:
    """Measures every entry in turn, `--repeats` rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--fit-rows", type=int, default=200_000)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="taiga,catboost,xgboost,lightgbm depthwise,lightgbm leafwise,sklearn")
    parser.add_argument("--out", type=Path, default=RESULTS / "predict.jsonl")
    args = parser.parse_args()
    settings = Settings(trees=args.trees, threads=args.threads)
    train, _ = synthetic_files(args.rows, args.features, test_rows=max(5_000, min(200_000, args.rows // 5)))
    entries = [entry for entry in select(args.only) if not entry.quantized]
    results = Results(args.out)
    best: dict[str, dict[str, Any]] = {}
    for repeat in range(args.repeats):
        for entry in entries:
            job = {"job": "predict", "entry": entry.name, "settings": dataclasses.asdict(settings), "train": str(train)}
            answer = measure(job | {"fit_rows": args.fit_rows, "repeats": 3}, args.threads)
            progress(f"round {repeat + 1}: {entry.name}: {answer}")
            results.add({"rows": args.rows, "version": version(entry.library), "repeat": repeat} | job | answer)
            known = best.get(entry.name)
            if known is None or "error" in answer or answer["best_s"] < known.get("best_s", 0):
                best[entry.name] = answer
    peers = {name: a["best_s"] for name, a in best.items() if "error" not in a and not ENTRIES[name].ours}
    body = []
    for name, answer in best.items():
        if "error" in answer:
            body.append([name, "-", "-", "-", answer["error"][:60]])
            continue
        ratios = ""
        if ENTRIES[name].ours:
            ratios = ", ".join(
                f"{peers[peer] / answer['best_s']:.1f} x {peer}"
                for peer in ("catboost symmetric", "xgboost depthwise")
                if peer in peers
            )
        speed = f"{args.rows / answer['best_s'] / 1e6:.2f}"
        body.append([name, number(answer["best_s"], 4), speed, number(answer["auc"], 5), ratios])
    print(f"\n{args.rows:,} x {args.features}, {args.trees} trees, {args.threads} threads\n")
    print(table(["library, policy", "best s", "million rows/s", "auc", "times faster than"], body))
    print(f"\nResults: {args.out}")


if __name__ == "__main__":
    main()

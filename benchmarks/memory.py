"""Memory: `python -m benchmarks.memory [--rows 1000000]`.

1. The peak of resident memory while fitting, above the input frame, against the budget of one
   byte a value, 24 bytes a row and 150 MB.
2. Scoring a Parquet file larger than the memory that the process may have: the limit is set by
   `RLIMIT_DATA`, which counts private memory and not the mapped file, and the answer is written
   by `sink_parquet`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.data import BLOCK, ROOT, TARGET, synthetic, synthetic_files
from benchmarks.harness import RESULTS, Results, measure, progress, select, table, version
from benchmarks.libraries import ENTRIES, Settings
from benchmarks.worker import PeakMemory

MIB = 1 << 20


def budget(rows: int, features: int) -> int:
    """What a fit may need above its input frame, in bytes."""
    return rows * features + 24 * rows + 150_000_000


def fit_table(rows: int, features: int, only: str, settings: Settings, results: Results) -> str:
    """The peaks of all entries."""
    train, _ = synthetic_files(rows, features, test_rows=5_000)
    body = []
    for entry in select(only):
        job = {"job": "memory", "entry": entry.name, "settings": dataclasses.asdict(settings), "train": str(train)}
        answer = measure(job, settings.threads)
        progress(f"{entry.name}: {answer}")
        results.add({"rows": rows, "features": features, "version": version(entry.library)} | job | answer)
        if "error" in answer:
            body.append([entry.name, "-", "-", answer["error"][:60]])
            continue
        peak, allowed = answer["peak_bytes"], budget(rows, features)
        verdict = ("within the budget" if peak <= allowed else "OVER the budget") if ENTRIES[entry.name].ours else ""
        body.append([entry.name, f"{peak / 1e6:.0f}", f"{allowed / 1e6:.0f}", f"{verdict} ({answer['method']})"])
    header = ["library, policy", "peak above the frame, MB", "budget, MB", ""]
    return f"\nFit, {rows:,} x {features}, {settings.trees} trees\n\n" + table(header, body)


def write_parquet(path: Path, rows: int, features: int) -> None:
    """A file of synthetic rows, written part by part so that this process needs little itself."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        step = 8 * BLOCK
        for part, first in enumerate(range(0, rows, step)):
            frame = synthetic(min(step, rows - first), features, first_row=first).drop(TARGET)
            frame.write_parquet(Path(folder) / f"{part:05}.parquet", compression="uncompressed")
        pl.scan_parquet(Path(folder) / "*.parquet").sink_parquet(
            path, compression="uncompressed", row_group_size=BLOCK * 2
        )


def score(arguments: dict[str, Any]) -> dict[str, Any]:
    """In the limited process: scores the file in a streaming query."""
    import polars_taiga as tg

    model = Path(arguments["model"]).read_bytes()
    limit = arguments["limit"]
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    start = time.perf_counter()
    with PeakMemory() as peak:
        pl.scan_parquet(arguments["file"]).select(p=tg.predict(model)).sink_parquet(arguments["out"])
    return {"seconds": time.perf_counter() - start, "peak_bytes": peak.above, "method": peak.method}


def score_table(rows: int, features: int, limit: int, settings: Settings, results: Results) -> str:
    """Scores a file larger than the limit, and says how it went."""
    import polars_taiga as tg

    with tempfile.TemporaryDirectory(dir=RESULTS) as folder:
        file, model, out = (Path(folder) / name for name in ("rows.parquet", "model.taiga", "scored.parquet"))
        fit = tg.fit_gbdt(TARGET, pl.exclude(TARGET), rounds=settings.trees, n_threads=settings.threads)
        model.write_bytes(synthetic(2 * BLOCK, features).lazy().select(fit).collect().item())
        write_parquet(file, rows, features)
        size = file.stat().st_size
        arguments = {"file": str(file), "model": str(model), "out": str(out), "limit": limit}
        command = [sys.executable, "-m", "benchmarks.memory", "--score", json.dumps(arguments)]
        env = os.environ | {"POLARS_MAX_THREADS": str(settings.threads)}
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"\nScoring FAILED under a limit of {limit / MIB:.0f} MiB: {done.stderr.strip()[-300:]}"
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        scored = pl.scan_parquet(out).select(pl.len()).collect().item()
    results.add({"job": "score", "rows": rows, "features": features, "file_bytes": size, "limit_bytes": limit} | answer)
    assert scored == rows, f"{scored} rows came out of {rows}"
    larger = "larger" if size > limit else "NOT larger"
    return (
        f"\nScoring {rows:,} x {features} in {answer['seconds']:.1f} s: a Parquet file of {size / MIB:.0f} MiB,"
        f" {larger} than the limit of {limit / MIB:.0f} MiB on private memory;"
        f" resident memory grew by {answer['peak_bytes'] / MIB:.0f} MiB"
        f" ({answer['method']}; pages of a mapped file count in it)"
    )


def main() -> None:
    """Measures both, or is the limited process itself (`--score`)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="taiga,catboost,xgboost,lightgbm depthwise,lightgbm leafwise,sklearn")
    parser.add_argument("--score-rows", type=int, default=16_000_000, help="0: leave the second part out")
    parser.add_argument("--limit-mib", type=int, default=1024)
    parser.add_argument("--out", type=Path, default=RESULTS / "memory.jsonl")
    parser.add_argument("--score", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.score:
        print(json.dumps(score(json.loads(args.score))))
        return
    settings = Settings(trees=args.trees, threads=args.threads)
    results = Results(args.out)
    print(fit_table(args.rows, args.features, args.only, settings, results), flush=True)
    if args.score_rows:
        print(score_table(args.score_rows, args.features, args.limit_mib * MIB, settings, results), flush=True)
    print(f"\nResults: {args.out}")


if __name__ == "__main__":
    main()

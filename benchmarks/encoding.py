"""Target encoding: `python -m benchmarks.encoding [--rows 10000000] [--device cuda]`.

Ours beside scikit-learn's and category_encoders' (where it is installed), and beside the same
statistics written as Polars expressions, from a Polars frame with preparation counted. Each
measurement has a process of its own; in it the best of three runs counts. The digest is
of the values' bytes: ours are the same on every device.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.data import ROOT
from benchmarks.harness import RESULTS, Results, number, progress, table


def frame(rows: int, categories: int, kind: str, target: str) -> pl.DataFrame:
    """Categories drawn evenly, as integers, strings or a Categorical, and a target."""
    rng = np.random.default_rng(5)
    c = pl.Series("c", rng.integers(0, categories, rows))
    if kind != "integer":
        c = ("category " + c.cast(pl.String)).alias("c")
    if kind == "categorical":
        c = c.cast(pl.Categorical)
    y = pl.Series("y", rng.random(rows))
    return pl.DataFrame([c, y > 0.5 if target == "binary" else y])


Entry = Callable[[pl.DataFrame, str], Any]


def _taiga(**params: Any) -> Entry:
    def run(df: pl.DataFrame, device: str) -> pl.DataFrame:
        import polars_taiga as tg

        return df.lazy().select(tg.target_encode("c", "y", device=device, **params)).collect()

    return run


def _taiga_fit(df: pl.DataFrame, device: str) -> object:
    import polars_taiga as tg

    return df.lazy().select(tg.fit_target_encoder("c", "y", device=device)).collect().item()


def _taiga_encode(df: pl.DataFrame, device: str) -> pl.DataFrame:
    import polars_taiga as tg

    # A GPU gets the column whole, not a morsel at a time.
    engine: Any = "in-memory" if device.startswith("cuda") else "auto"
    return df.lazy().select(tg.encode(_taiga_fit(df, device), device=device)).collect(engine=engine)


def _polars_ordered(df: pl.DataFrame, _: str) -> object:
    """In the order of the rows, which spares it the permutation."""
    y = pl.col("y").cast(pl.Float64)
    before = y.cum_sum().over("c") - y
    return df.lazy().select((before + y.mean()) / pl.int_range(1, pl.len() + 1).over("c")).collect()


def _polars_full(df: pl.DataFrame, _: str) -> object:
    y = pl.col("y").cast(pl.Float64)
    return df.lazy().select((y.sum().over("c") + y.mean()) / (pl.len().over("c") + 1)).collect()


def _sklearn(whole: bool) -> Entry:
    def run(df: pl.DataFrame, _: str) -> object:
        from sklearn.preprocessing import TargetEncoder

        x = df.select(pl.col("c").cast(pl.String) if df["c"].dtype == pl.Categorical else "c").to_numpy()
        y = df["y"].cast(pl.Float64).to_numpy()
        encoder = TargetEncoder(target_type="continuous", smooth=1.0)
        return encoder.fit(x, y).transform(x) if whole else encoder.fit_transform(x, y)

    return run


def _category_encoders(name: str) -> Entry:
    def run(df: pl.DataFrame, _: str) -> object:
        import category_encoders

        x = df.select(pl.col("c").cast(pl.String)).to_pandas()
        return getattr(category_encoders, name)().fit_transform(x, df["y"].cast(pl.Float64).to_numpy())

    return run


ENTRIES: dict[str, Entry] = {
    "taiga ordered": _taiga(),
    "taiga ordered by rows": _taiga(order_by=pl.int_range(pl.len())),
    "taiga kfold": _taiga(kind="kfold"),
    "taiga loo": _taiga(kind="loo"),
    "taiga full": _taiga(kind="full"),
    "taiga fit": _taiga_fit,
    "taiga fit, encode": _taiga_encode,
    "polars ordered by rows": _polars_ordered,
    "polars full": _polars_full,
    "sklearn kfold": _sklearn(whole=False),
    "sklearn full": _sklearn(whole=True),
    "category_encoders ordered": _category_encoders("CatBoostEncoder"),
    "category_encoders full": _category_encoders("TargetEncoder"),
}


def one(job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of the first and of the best run, the peak of memory above the frame, and a digest of our values."""
    from benchmarks.worker import PeakMemory

    df = frame(job["rows"], job["categories"], job["type"], job["target"])
    run = ENTRIES[job["entry"]]
    run(df.head(1000), job["device"])
    seconds: list[float] = []
    answer: Any = None
    with PeakMemory() as memory:
        for _ in range(job["repeats"]):
            start = time.perf_counter()
            answer = run(df, job["device"])
            seconds.append(time.perf_counter() - start)
            if seconds[0] > 3:
                break
    digest = hashlib.sha256()
    for series in answer if isinstance(answer, pl.DataFrame) else []:
        digest.update(series.to_numpy().tobytes())
    return {
        "best_s": min(seconds),
        "first_s": seconds[0],
        "peak_mb": memory.above / 1e6,
        "digest": digest.hexdigest()[:8] if "taiga" in job["entry"] else "",
    }


def main() -> None:
    """Measures every entry for every kind of categories."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--categories", default="10,1000,100000,1000000")
    parser.add_argument("--types", default="integer,string")
    parser.add_argument("--target", choices=["binary", "continuous"], default="binary")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="entries whose names contain one of these words")
    parser.add_argument("--out", type=Path, default=RESULTS / "encoding.jsonl")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        print(json.dumps(one(json.loads(args.job))))
        return
    words = [word for word in args.only.split(",") if word] or [""]
    env = os.environ | {name: str(args.threads) for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS")}
    results = Results(args.out)
    for kind in args.types.split(","):
        for categories in map(int, args.categories.split(",")):
            body = []
            for entry in ENTRIES:
                if not any(word in entry for word in words):
                    continue
                job = {
                    "rows": args.rows,
                    "categories": categories,
                    "type": kind,
                    "target": args.target,
                    "entry": entry,
                    "device": args.device,
                    "repeats": args.repeats,
                }
                command = [sys.executable, "-m", "benchmarks.encoding", "--job", json.dumps(job)]
                done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
                if done.returncode:
                    reason = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
                    body.append([entry, "-", "-", "-", reason[:60]])
                    continue
                answer = json.loads(done.stdout.strip().splitlines()[-1])
                progress(f"{kind}, {categories:,}: {entry}: {answer}")
                results.add(job | answer)
                body.append(
                    [
                        entry,
                        number(answer["best_s"]),
                        number(answer["first_s"]),
                        number(answer["peak_mb"], 0),
                        answer["digest"],
                    ]
                )
            data = f"{args.rows:,} rows, {categories:,} categories ({kind}), {args.target}"
            print(f"\n{data}, {args.threads} threads, {args.device}\n")
            print(table(["library, kind", "best s", "first s", "peak MB", "digest"], body), flush=True)
    print(f"\nResults: {args.out}")


if __name__ == "__main__":
    main()

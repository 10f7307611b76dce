"""Tables larger than memory: `python -m benchmarks.larger_than_memory [--rows 100000000] [--limit-mb 5368]`.

Writes a table of `--rows` by 28 f32 columns and an f32 target to Parquet files, a piece at a time: 11.6 GB for
100,000,000 rows. Fits it in processes of their own that a control group holds to a limit (version 1 or 2, made by hand,
which root may; the kernel ends what takes more, and reads what was mapped from files again where it has given it up):
`fit_gbdt(batches=True)` with codes in memory under `--limit-mb` (5 GiB, as control groups read 5G), the same with
`spill` under `--spill-limit-mb`, and XGBoost's `ExtMemQuantileDMatrix`. Each says its time and the most anonymous
memory (what can't be read again from a file) that its group held. Before that `--sample-rows` of the table are fitted
both ways, and must give the same bytes. The files stay, in build/benchmarks, until they are deleted.

`--only words`: sparse logistic regression, 10 passes of `lbfgs` over `--words-rows` rows of 40 words each, whole, in
batches and with `spill`, under `--limit-mb` all.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.data import BLOCK, ROOT, TARGET, synthetic
from benchmarks.harness import RESULTS, Results, machine, progress, table, version

FEATURES = 28
# Rows of a file, and of a group of rows in it.
PIECE = 32 * BLOCK
GROUP = 4 * BLOCK


def write(folder: Path, rows: int) -> int:
    """Writes the table in files, no two of which are in memory at a time; its size in bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, rows, PIECE)):
        path = folder / f"{number:05}.parquet"
        if not path.exists():
            piece = synthetic(min(PIECE, rows - first), FEATURES, "regression", first_row=first)
            part = path.with_suffix(".part")
            piece.write_parquet(part, compression="uncompressed", row_group_size=GROUP)
            part.rename(path)
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))


WORDS = 40
KNOWN_WORDS = 1_000_000


def write_words(folder: Path, rows: int) -> int:
    """Writes rows of words, whose class follows how many of them are common, in files; their size in bytes."""
    import numpy as np
    import polars as pl

    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, rows, PIECE)):
        path = folder / f"{number:05}.parquet"
        if not path.exists():
            rng = np.random.default_rng(number)
            drawn = (KNOWN_WORDS * rng.random((min(PIECE, rows - first), WORDS)) ** 2).astype(np.int64)
            words = pl.Series("words", drawn.ravel()).cast(pl.String).reshape(drawn.shape).arr.to_list()
            common = (drawn < KNOWN_WORDS // 10).sum(axis=1) + rng.normal(0, 2, len(drawn))
            part = path.with_suffix(".part")
            pl.DataFrame({"words": words, TARGET: common > np.median(common)}).write_parquet(part, row_group_size=GROUP)
            part.rename(path)
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))


def of_words(job: dict[str, Any]) -> dict[str, Any]:
    """Fits sparse logistic regression to all rows of words."""
    import hashlib

    import polars as pl
    import polars_taiga as tg

    begun = time.perf_counter()
    rows = pl.scan_parquet(f"{job['folder']}/*.parquet")
    given: dict[str, Any] = {"batches": job["batches"], "spill": job["spill"]}
    model: tg.Model = rows.taiga.fit_sparse_lr(TARGET, "words", epochs=10, **given)
    return {"seconds": time.perf_counter() - begun, "model": hashlib.sha256(model.to_bytes()).hexdigest()}


def of_taiga(job: dict[str, Any]) -> dict[str, Any]:
    """Fits all rows of the files, or the first ones, and tells how long it took and a hash of the model."""
    import hashlib

    import polars as pl
    import polars_taiga as tg

    rows = pl.scan_parquet(f"{job['folder']}/*.parquet")
    if job["rows"]:
        rows = rows.head(job["rows"])
    given: dict[str, Any] = {"batches": job["batches"], "spill": job["spill"]}
    passes: list[float] = []
    begun = time.perf_counter()

    def tell(*_: object) -> None:
        passes.append(time.perf_counter() - begun)

    model: tg.Model = rows.taiga.fit_gbdt(
        TARGET,
        pl.exclude(TARGET),
        loss="rmse",
        rounds=job["trees"],
        policy="depthwise",
        depth=6,
        callback=tell,
        **given,
    )
    seconds = time.perf_counter() - begun
    each = (passes[-1] - passes[0]) / max(1, len(passes) - 1)
    return {
        "seconds": seconds,
        "before": passes[0] - each,
        "tree": each,
        "model": hashlib.sha256(model.to_bytes()).hexdigest(),
    }


def of_xgboost(job: dict[str, Any]) -> dict[str, Any]:
    """Fits the files by XGBoost's external memory, a file at a time, as its guide says."""
    import polars as pl
    import xgboost as xgb

    paths = sorted(Path(job["folder"]).glob("*.parquet"))

    class Files(xgb.DataIter):
        """The files, one after the other."""

        def __init__(self, cache: str) -> None:
            self.at = 0
            super().__init__(cache_prefix=cache)

        def next(self, input_data: Any) -> bool:
            if self.at == len(paths):
                return False
            rows = pl.read_parquet(paths[self.at])
            input_data(data=rows.drop(TARGET).to_numpy(), label=rows[TARGET].to_numpy())
            self.at += 1
            return True

        def reset(self) -> None:
            self.at = 0

    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=job["spill"]) as cache:
        data = xgb.ExtMemQuantileDMatrix(Files(str(Path(cache) / "cache")), max_bin=256)
        before = time.perf_counter() - begun
        params = {"tree_method": "hist", "grow_policy": "depthwise", "max_depth": 6, "max_bin": 256, "eta": 0.1}
        xgb.train(params, data, num_boost_round=job["trees"])
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "before": before, "tree": (seconds - before) / job["trees"]}


@contextmanager
def control_group(limit: int) -> Iterator[Path]:
    """A control group of processes that may hold so many bytes together."""
    first = Path("/sys/fs/cgroup/memory")
    root, most = (first, "memory.limit_in_bytes") if first.is_dir() else (Path("/sys/fs/cgroup"), "memory.max")
    group = root / f"taiga-{os.getpid()}"
    group.mkdir()
    try:
        (group / most).write_text(str(limit))
        yield group
    finally:
        # The kernel may still be at the end of the last process.
        for _ in range(50):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def anonymous(group: Path) -> int:
    """Bytes of a group that are not those of a file."""
    found = re.search(r"^(?:total_rss|anon) (\d+)$", (group / "memory.stat").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def run(job: dict[str, Any], limit: int) -> dict[str, Any]:
    """What a job says that a process of its own did under a limit; and the most anonymous memory it held."""
    command = [sys.executable, "-m", "benchmarks.larger_than_memory", "--worker", json.dumps(job)]
    with control_group(limit) as group:

        def enter() -> None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

        worker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=enter)
        most = 0
        while worker.poll() is None:
            most = max(most, anonymous(group))
            time.sleep(0.05)
        told = worker.communicate()[0].splitlines()
    if worker.returncode:
        return {"error": f"ended with status {worker.returncode}", "anonymous": most}
    answer: dict[str, Any] = json.loads(told[-1])
    return answer | {"anonymous": most}


def compare_words(rows: int, limit: int) -> None:
    """Measures fits to rows of words, and prints a table."""
    folder, spill = RESULTS / f"words-{rows}", RESULTS / "larger-spill"
    progress(f"{rows:,} rows of {WORDS} words: {write_words(folder, rows) / 1e9:.2f} GB of Parquet")
    spill.mkdir(exist_ok=True)
    results, body = Results(RESULTS / "larger_than_memory.jsonl"), []
    ways: dict[str, dict[str, Any]] = {
        "whole": {"batches": False, "spill": None},
        "batches=True": {"batches": True, "spill": None},
        "batches=True, spill=": {"batches": True, "spill": str(spill)},
    }
    for name, given in ways.items():
        answer = run({"library": "words", "folder": str(folder)} | given, limit * 10**6)
        results.add({"rows": rows, "words": WORDS, "limit_mb": limit, "way": name} | answer)
        told = [answer["error"], "-"] if "error" in answer else [f"{answer['seconds']:.1f}", answer["model"][:16]]
        body.append([name, limit, *told, f"{answer['anonymous'] / 1e6:.0f}"])
    shutil.rmtree(spill)
    print(machine())
    print(table(["", "limit, MB", "all, s", "model", "most anonymous, MB"], body))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--sample-rows", type=int, default=2_000_000)
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--limit-mb", type=int, default=5 * 2**30 // 10**6)
    parser.add_argument("--spill-limit-mb", type=int, default=1_500)
    parser.add_argument("--words-rows", type=int, default=5_000_000)
    parser.add_argument("--only", nargs="+", default=["memory", "spill", "xgboost"])
    args = parser.parse_args()
    if args.worker:
        job = json.loads(args.worker)
        print(json.dumps({"xgboost": of_xgboost, "taiga": of_taiga, "words": of_words}[job["library"]](job)))
        return
    if args.only == ["words"]:
        compare_words(args.words_rows, args.limit_mb)
        return
    folder = RESULTS / f"larger-{args.rows}"
    progress(f"{args.rows:,} rows: {write(folder, args.rows) / 1e9:.2f} GB of Parquet")
    spill = RESULTS / "larger-spill"
    spill.mkdir(exist_ok=True)
    results, body = Results(RESULTS / "larger_than_memory.jsonl"), []
    job = {"library": "taiga", "folder": str(folder), "rows": args.sample_rows, "trees": args.trees, "spill": None}
    both = [run(job | {"batches": batches}, args.limit_mb * 10**6)["model"] for batches in (False, True)]
    assert both[0] == both[1], "batches have come to another model"
    progress(f"the first {args.sample_rows:,} rows: the same bytes both ways, {both[0][:16]}")
    ways: dict[str, tuple[str, dict[str, Any], int]] = {
        "memory": ("batches=True", {"spill": None}, args.limit_mb),
        "spill": ("batches=True, spill=", {"spill": str(spill)}, args.spill_limit_mb),
        "xgboost": (
            f"XGBoost {version('xgboost')} external memory",
            {"library": "xgboost", "spill": str(spill)},
            args.limit_mb,
        ),
    }
    for name in args.only:
        what, more, limit = ways[name]
        progress(f"{what}, under {limit} MB")
        answer = run(job | {"rows": 0, "batches": True} | more, limit * 10**6)
        progress(str(answer))
        results.add({"rows": args.rows, "trees": args.trees, "limit_mb": limit, "way": name} | answer)
        if "error" in answer:
            body.append([what, limit, answer["error"], "-", "-", f"{answer['anonymous'] / 1e6:.0f}"])
        else:
            figures = [f"{answer[k]:.1f}" for k in ("seconds", "before", "tree")]
            body.append([what, limit, *figures, f"{answer['anonymous'] / 1e6:.0f}"])
    shutil.rmtree(spill)
    print(machine())
    print(table(["", "limit, MB", "all, s", "before trees, s", "a tree, s", "most anonymous, MB"], body))


if __name__ == "__main__":
    main()

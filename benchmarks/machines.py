"""Several processes beside one: `python -m benchmarks.machines [--rows 1000000] [--processes 2] [--trees 100]`.

One process of as many threads fits all rows; so many processes of one thread each fit their shares, over the loopback.
Boosted trees by policy; with `--fits forest logistic` a forest, and a logistic regression of the dense columns.
`--device cuda`: each process fits on a GPU of its own, and the one on the first.
Both start from Polars frames in memory; a process's time begins when all have read their rows and ends with its model,
and the slowest process counts. Both ways take turns, and the best of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from typing import Any

from benchmarks.data import ROOT, TARGET, synthetic_files
from benchmarks.harness import RESULTS, Results, machine, progress, table


def fitted(own: Any, job: dict[str, Any], seed: int, collective: Any) -> Any:
    """The model of the rows of one process."""
    import polars as pl

    features = pl.exclude(job["target"])
    device = f"cuda:{job['rank']}" if job["device"] == "cuda" else job["device"]
    given: dict[str, Any] = {"n_threads": job["threads"], "seed": seed, "device": device}
    if collective is not None:
        given["collective"] = collective
    if job["fit"] == "forest":
        return own.taiga.fit_forest(job["target"], features, trees=job["trees"], depth=12, **given)
    if job["fit"] == "logistic":
        return own.taiga.fit_sparse_lr(job["target"], dense=features, tolerance=1e-9, **given)
    boosted = {"rounds": job["trees"], "loss": "logloss", "policy": job["fit"], "depth": 6}
    return own.taiga.fit_gbdt(job["target"], features, **boosted, **given)


def worker(job: dict[str, Any]) -> None:
    """Fit the rows of one process, and print its seconds and a hash of the model."""
    import hashlib

    import polars as pl
    import polars_taiga as tg

    rank, world, features = job["rank"], job["world"], pl.exclude(job["target"])
    rows = pl.read_ipc(job["train"])
    first, end = (len(rows) * k // world for k in (rank, rank + 1))
    own = rows[first:end].rechunk()
    us = {"rank": rank, "world": world, "secret": job["secret"], "timeout": 300.0}
    best = float("inf")
    if job["device"] == "cuda":
        fitted(own[:5000], job | {"trees": 2}, 0, None)  # the driver's start
    for repeat in range(job["repeats"]):
        collective = None
        if world > 1:
            address = f"127.0.0.1:{job['port'] + repeat}"
            collective = tg.Collective(address=address, **us)
            # A fit of nothing: when it ends, all are there.
            own[:200].taiga.fit_gbdt(job["target"], features, loss="logloss", rounds=1, collective=collective)
        begun = time.perf_counter()
        model = fitted(own, job, repeat, collective)
        best = min(best, time.perf_counter() - begun)
    print(json.dumps({"seconds": best, "model": hashlib.sha256(model.to_bytes()).hexdigest()}))


def free_port() -> int:
    """A port of this machine that nobody listens at, nor at the next ones, most likely."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def run(job: dict[str, Any], world: int, threads: int) -> dict[str, Any]:
    """The seconds of the slowest of `world` processes of so many threads, and the models' hash."""
    told = job | {"world": world, "threads": threads, "port": free_port(), "secret": secrets.token_hex(16)}
    env = os.environ | {"POLARS_MAX_THREADS": str(threads)}
    command = [sys.executable, "-m", "benchmarks.machines", "--worker"]
    each = [
        subprocess.Popen(
            [*command, json.dumps(told | {"rank": rank})], env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        for rank in range(world)
    ]
    answers = [json.loads(process.communicate()[0].splitlines()[-1]) for process in each]
    assert len({answer["model"] for answer in answers}) == 1, "processes have come to different models"
    return {"seconds": max(answer["seconds"] for answer in answers), "model": answers[0]["model"]}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--threads", type=int, help="of all processes together; as many as processes unless told")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--fits", nargs="+", default=["symmetric", "depthwise", "leafwise"])
    args = parser.parse_args()
    if args.worker:
        worker(json.loads(args.worker))
        return
    train, _ = synthetic_files(args.rows, args.features, test_rows=5_000, task="binary")
    threads = args.threads or args.processes
    results, body = Results(RESULTS / "machines.jsonl"), []
    for fit in args.fits:
        job = {"train": str(train), "target": TARGET, "trees": args.trees, "fit": fit, "repeats": 1}
        job["device"] = args.device
        best: dict[int, dict[str, Any]] = {}
        for repeat in range(args.repeats):
            for world in (1, args.processes):
                answer = run(job, world, threads // world)
                progress(f"{fit}, {world} processes, round {repeat + 1}: {answer['seconds']:.2f} s")
                results.add({"rows": args.rows, "features": args.features, "fit": fit, "processes": world} | answer)
                if world not in best or answer["seconds"] < best[world]["seconds"]:
                    best[world] = answer
        one, several = best[1], best[args.processes]
        assert one["model"] == several["model"], "several processes have come to another model than one"
        ratio = several["seconds"] / one["seconds"]
        body.append([fit, f"{one['seconds']:.2f}", f"{several['seconds']:.2f}", f"{ratio:.2f}"])
    print(machine())
    each = f"{args.processes} x {threads // args.processes} threads, s"
    print(table([f"fit on {args.device}", f"1 x {threads} threads, s", each, "ratio"], body))


if __name__ == "__main__":
    main()

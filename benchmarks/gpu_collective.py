"""XGBoost's own collective, a process for each GPU of this host, beside `gpu_several.py`: the time of a tree.

Needs cupy and XGBoost with its NCCL. `python3 benchmarks/gpu_collective.py --rows 11000000 --processes 1 2 4`: each
process draws its share of the rows on its GPU (28 uniform features, as `gpu_train.py`), makes a `QuantileDMatrix` and
fits; a tree's time is the difference between fits of many and of few rounds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from typing import Any

DEPTH = 6
FEW, MANY = 20, 120


def work(rank: int, share: int, features: int, tracker: dict[str, Any], answers: Any) -> None:
    """Fits this process's share; rank 0 answers with the seconds of preparation and of a tree, and the version."""
    import cupy
    import xgboost

    with cupy.cuda.Device(rank), xgboost.collective.CommunicatorContext(**tracker):
        random = cupy.random.default_rng(1 + rank)
        x = random.random((share, features), dtype=cupy.float32) * 2 - 1
        z = 1.2 * x[:, 0] + cupy.sin(3 * x[:, 5]) + 1.5 * x[:, 7] * x[:, 12] + 0.5 * x[:, 21]
        y = (random.random(share, dtype=cupy.float32) < 1 / (1 + cupy.exp(-1.5 * z))).astype(cupy.int32)
        params = {"device": f"cuda:{rank}", "max_depth": DEPTH, "learning_rate": 0.1, "objective": "binary:logistic"}
        start = time.perf_counter()
        data = xgboost.QuantileDMatrix(x, y, max_bin=256)
        prepared = time.perf_counter() - start
        times = []
        for rounds in (FEW, FEW, MANY, FEW, MANY):
            start = time.perf_counter()
            xgboost.train(params, data, rounds)
            times.append((rounds, time.perf_counter() - start))
        least = {rounds: min(t for r, t in times if r == rounds) for rounds in (FEW, MANY)}
        if rank == 0:
            answers.put((prepared, (least[MANY] - least[FEW]) / (MANY - FEW), xgboost.__version__))


def measure(rows: int, features: int, processes: int) -> tuple[float, float, str]:
    """Returns the seconds of preparation and of a tree in so many processes, a GPU each, and XGBoost's version."""
    from xgboost.tracker import RabitTracker

    tracker = RabitTracker(host_ip="127.0.0.1", n_workers=processes)
    tracker.start()
    spawning = multiprocessing.get_context("spawn")
    answers = spawning.Queue()
    told = tracker.worker_args()
    workers = [
        spawning.Process(target=work, args=(rank, rows // processes, features, told, answers))
        for rank in range(processes)
    ]
    for worker in workers:
        worker.start()
    answer: tuple[float, float, str] = answers.get(timeout=240)
    for worker in workers:
        worker.join()
    return answer


def main() -> None:
    """Measures each number of processes, and prints a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[11_000_000])
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    for rows in args.rows:
        for processes in args.processes:
            prepared, tree, version = measure(rows, args.features, processes)
            print(
                f"XGBoost {version}, {rows:,} x {args.features}, {processes} processes: "
                f"{prepared:.3f} s of preparation, then {tree * 1e3:.2f} ms a tree",
                flush=True,
            )


if __name__ == "__main__":
    main()

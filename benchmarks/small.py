"""What small things cost: `python -m benchmarks.small [--device cuda]`.

Imports (a fresh process each: seconds and memory of its own), a fit of 500 rows x 10 with 100 trees of depth 6, a model
loaded from its file, and predictions of 1, 100 and 1,000 rows by 100 such trees, beside the peers by their fastest call
from Polars or NumPy; the same of a model of 11 MB; and `histogram` and `min_max` of 10^6 values by the device. The best
of many calls, in microseconds where it says nothing else.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg

from benchmarks.data import TARGET, synthetic

TREES, DEPTH, RATE = 100, 6, 0.1
IMPORTS = ["polars", "polars_taiga", "numpy", "xgboost", "lightgbm", "catboost", "sklearn.ensemble"]
MEASURED = """
import resource, sys, time
{before}
start, memory = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
import {module}
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory)
"""


def import_cost(module: str) -> tuple[float, float]:
    """Milliseconds and MB that an import takes, the best of five; of ours beyond Polars itself."""
    code = MEASURED.format(module=module, before="import polars" if module == "polars_taiga" else "")
    told = [
        [float(x) for x in subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.split()]
        for _ in range(5)
    ]
    return min(t for t, _ in told) * 1e3, min(m for _, m in told) / 1024


def best(call: Callable[[], Any], least_calls: int = 20, seconds: float = 1.0) -> float:
    """The shortest of many calls, in microseconds."""
    shortest, calls, until = float("inf"), 0, time.perf_counter() + seconds
    while calls < least_calls or time.perf_counter() < until:
        start = time.perf_counter()
        call()
        shortest, calls = min(shortest, time.perf_counter() - start), calls + 1
    return shortest * 1e6


def of_ours(train: pl.DataFrame, rows: list[pl.DataFrame], folder: Path) -> list[float]:
    features = pl.exclude(TARGET)

    def fit() -> tg.Model:
        return train.taiga.fit_gbdt(TARGET, features, rounds=TREES, depth=DEPTH, learning_rate=RATE)

    model, path = fit(), folder / "taiga"
    model.save(path)
    predict = tg.predict(model)
    return [
        best(fit),
        best(lambda: tg.Model.load(path)),
        *(best(lambda part=part: part.select(predict)) for part in rows),
    ]


def of_bytes(train: pl.DataFrame, rows: list[pl.DataFrame], _: Path) -> list[float]:
    """A model that comes as bytes with the query: its predictions alone."""
    model = train.taiga.fit_gbdt(TARGET, pl.exclude(TARGET), rounds=TREES, depth=DEPTH, learning_rate=RATE).to_bytes()
    predict = tg.predict(pl.lit(model), *train.drop(TARGET).columns)
    return [np.nan, np.nan, *(best(lambda part=part: part.select(predict)) for part in rows)]


def of_large(_: pl.DataFrame, rows: list[pl.DataFrame], folder: Path) -> list[float]:
    """A model of 2,000 trees of 255 leaves."""
    train, path = synthetic(50_000, 10), folder / "large"
    model = train.taiga.fit_gbdt(TARGET, pl.exclude(TARGET), rounds=2_000, policy="leafwise", leaves=255)
    model.save(path)
    load = best(lambda: tg.Model.load(path))
    return [np.nan, load, *(best(lambda part=part: model.predict(part)) for part in rows)]


def of_xgboost(train: pl.DataFrame, rows: list[pl.DataFrame], folder: Path) -> list[float]:
    import xgboost

    x, y = train.drop(TARGET).to_numpy(), train[TARGET].to_numpy()
    params = {"max_depth": DEPTH, "learning_rate": RATE, "objective": "binary:logistic", "nthread": 2}

    def fit() -> Any:
        return xgboost.train(params, xgboost.QuantileDMatrix(x, y), TREES)

    model, path = fit(), folder / "model.ubj"
    model.save_model(path)
    parts = [part.drop(TARGET).to_numpy() for part in rows]
    load = best(lambda: xgboost.Booster(model_file=path))
    return [best(fit), load, *(best(lambda part=part: model.inplace_predict(part)) for part in parts)]


def of_lightgbm(train: pl.DataFrame, rows: list[pl.DataFrame], folder: Path) -> list[float]:
    import lightgbm

    x, y = train.drop(TARGET).to_numpy(), train[TARGET].to_numpy()
    params = {
        "max_depth": DEPTH,
        "num_leaves": 64,
        "learning_rate": RATE,
        "objective": "binary",
        "num_threads": 2,
        "verbose": -1,
    }

    def fit() -> Any:
        return lightgbm.train(params, lightgbm.Dataset(x, y), TREES)

    model, path = fit(), folder / "model.txt"
    model.save_model(path)
    parts = [part.drop(TARGET).to_numpy() for part in rows]
    load = best(lambda: lightgbm.Booster(model_file=path))
    return [best(fit), load, *(best(lambda part=part: model.predict(part)) for part in parts)]


def of_catboost(train: pl.DataFrame, rows: list[pl.DataFrame], folder: Path) -> list[float]:
    import catboost

    x, y = train.drop(TARGET).to_numpy(), train[TARGET].to_numpy()

    def fit() -> Any:
        model = catboost.CatBoostClassifier(
            iterations=TREES, depth=DEPTH, learning_rate=RATE, thread_count=2, verbose=False, allow_writing_files=False
        )
        return model.fit(x, y)

    model, path = fit(), folder / "model.cbm"
    model.save_model(str(path))
    parts = [part.drop(TARGET).to_numpy() for part in rows]
    load = best(lambda: catboost.CatBoostClassifier().load_model(str(path)))
    return [best(fit, 5), load, *(best(lambda part=part: model.predict_proba(part)) for part in parts)]


def main() -> None:
    """Measures everything, and prints three tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="of histogram and min_max")
    parser.add_argument("--no-peers", action="store_true", help="ours alone, for a profile")
    args = parser.parse_args()
    if not args.no_peers:
        print("| import | ms | MB |\n|---|---|---|")
        for module in IMPORTS:
            try:
                milliseconds, megabytes = import_cost(module)
            except subprocess.CalledProcessError:
                continue
            print(f"| {module} | {milliseconds:.0f} | {megabytes:.0f} |", flush=True)
    train = synthetic(500, 10)
    rows = [synthetic(n, 10, first_row=65_536) for n in (1, 100, 1_000)]
    print("\n| | fit of 500 rows, ms | load | predict 1 row | 100 | 1,000 |\n|---|---|---|---|---|---|")
    libraries = [of_ours, of_bytes, of_large] + ([] if args.no_peers else [of_xgboost, of_lightgbm, of_catboost])
    for library in libraries:
        with tempfile.TemporaryDirectory() as folder:
            try:
                fit, *others = library(train, rows, Path(folder))
            except ImportError as error:
                print(f"| {library.__name__} | {error} |")
                continue
        name = library.__name__.removeprefix("of_")
        print(f"| {name} | {fit / 1e3:.2f} | " + " | ".join(f"{t:.0f}" for t in others) + " |", flush=True)
    values = pl.DataFrame({"x": np.random.default_rng(1).random(1_000_000, dtype=np.float32)})
    print(f"\n| 10^6 values, {args.device} | |\n|---|---|")
    for name, expr in {
        "histogram": tg.histogram("x", bins=100, device=args.device),
        "min_max": tg.min_max("x", device=args.device),
        "Polars' min and max": pl.struct(pl.col("x").min().alias("min"), pl.col("x").max().alias("max")),
        "an empty query": pl.lit(1),
    }.items():
        print(f"| {name} | {best(lambda expr=expr: values.select(expr)):.0f} |", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("POLARS_MAX_THREADS", "2")
    main()

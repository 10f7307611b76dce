"""How long imported models take to predict, and the libraries that they come from.

python -m benchmarks.imported [rows]        500 trees each, all cores of this process; the best of three runs
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import lightgbm
import numpy as np
import polars as pl
import polars_taiga as tg
import xgboost
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

if TYPE_CHECKING:
    from collections.abc import Callable

TREES, FEATURES, TRAINING = 500, 20, 20_000


def best(run: Callable[[], object]) -> float:
    """Return the least seconds of three runs."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    """Print one line a library."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    threads = len(os.sched_getaffinity(0))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    train = x[:TRAINING]
    y = train[:, 0] + train[:, 1] * train[:, 2] + np.sin(train[:, 3]) + rng.normal(size=TRAINING)
    frame = pl.DataFrame(x, schema=[f"f{i}" for i in range(FEATURES)])
    names = frame.columns
    boosted = xgboost.train({"max_depth": 6, "nthread": threads}, xgboost.DMatrix(train, y), TREES)
    light = lightgbm.train({"verbose": -1, "num_threads": threads}, lightgbm.Dataset(train, y), TREES)
    hist = HistGradientBoostingRegressor(max_iter=TREES, early_stopping=False).fit(train, y)
    forest = RandomForestRegressor(TREES, max_depth=10, n_jobs=threads).fit(train[:5_000], y[:5_000])
    peers: dict[str, tuple[object, Callable[[], object]]] = {
        "XGBoost": (boosted, lambda: boosted.inplace_predict(x)),
        "LightGBM": (light, lambda: light.predict(x)),
        "HistGradientBoosting": (hist, lambda: hist.predict(x)),
        "RandomForest": (forest, lambda: forest.predict(x)),
    }
    print(f"{rows:,} rows, {FEATURES} Float32 columns, {TREES} trees, {threads} threads")
    for name, (fitted, run) in peers.items():
        start = time.perf_counter()
        model = tg.import_model(fitted, features=names)
        read = time.perf_counter() - start
        here = best(lambda model=model: model.predict(frame, device="cpu"))  # type: ignore[misc]
        there = best(run)
        print(
            f"{name:22} there {there:7.2f} s, here {here:7.2f} s ({there / here:.2f} times), read in {read:.2f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()

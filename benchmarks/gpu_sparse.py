"""XGBoost's GPU training on tables that are mostly zeros, beside the engine's bench `sparse` on a GPU: the same kinds
of tables, from the same kind of model.

Needs a GPU, numpy, cupy and XGBoost with CUDA. `python3 benchmarks/gpu_sparse.py KIND:ROWS:FEATURES:PERCENT …`; kinds
are `onehot` (100 exclusive columns for each of features / 100 categories), `binary`, `counts` and `numbers`. XGBoost
gets device arrays, once with zeros as values and once as missing values.
"""

import sys
import time

import cupy
import xgboost

TREES = 100


def table(kind: str, rows: int, features: int, percent: float) -> tuple[cupy.ndarray, cupy.ndarray]:
    """Values at random places (`onehot`: in one column of each hundred), and a target that all have a part in."""
    random = cupy.random.default_rng(1)
    each = features // 100 if kind == "onehot" else int(features * percent / 100)
    x = cupy.zeros((rows, features), dtype=cupy.float32)
    z = cupy.zeros(rows, dtype=cupy.float32)
    effect = 6 * (random.random(features, dtype=cupy.float32) - 0.5) * random.random(features, dtype=cupy.float32)
    at = cupy.arange(rows)
    for k in range(each):
        low, high = (100 * k, 100 * k + 100) if kind == "onehot" else (0, features)
        column = random.integers(low, high, rows)
        u = random.random(rows, dtype=cupy.float32)
        value = {"numbers": u, "counts": 1 + cupy.floor(8 * u)}.get(kind, cupy.ones_like(u))
        x[at, column] = value
        z += effect[column] * (1 if kind == "onehot" else 0.5 + cupy.minimum(value, 2))
    return x, (random.random(rows, dtype=cupy.float32) < 1 / (1 + cupy.exp(-z))).astype(cupy.int32)


def main() -> None:
    params = {
        "device": "cuda",
        "tree_method": "hist",
        "max_bin": 256,
        "learning_rate": 0.1,
        "max_depth": 6,
        "objective": "binary:logistic",
    }
    for case in sys.argv[1:]:
        kind, rows, features, percent = case.split(":")
        x, y = table(kind, int(rows), int(features), float(percent))
        for zeros, missing in [("values", float("nan")), ("missing values", 0.0)]:
            for _ in range(2):
                cupy.cuda.Device().synchronize()
                start = time.perf_counter()
                data = xgboost.QuantileDMatrix(x, y, max_bin=256, missing=missing)
                prepared = time.perf_counter()
                xgboost.train(params, data, TREES)
                end = time.perf_counter()
                del data
            print(
                f"{case}, zeros as {zeros}: XGBoost {xgboost.__version__}: {prepared - start:.3f} s of preparation, "
                f"then {(end - prepared) / TREES * 1e3:.2f} ms a tree",
                flush=True,
            )
        del x, y
        cupy.get_default_memory_pool().free_all_blocks()


if __name__ == "__main__":
    main()

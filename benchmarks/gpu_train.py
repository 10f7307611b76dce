"""GPU training of XGBoost and CatBoost, beside `cargo bench --features cuda --bench train -- … cuda`: the same shapes
of tables, from the same kind of model.

Needs a GPU, numpy, cupy and either of the two. XGBoost gets device arrays, its best path; CatBoost its own pool.
`python3 benchmarks/gpu_train.py CASE …`, where a case is ROWS:FEATURES:BINS:DEPTH:POLICY[:CLASSES[:CATEGORICAL]];
policies are `depthwise` and `leafwise` (255 leaves) for XGBoost, `symmetric` for CatBoost. `held_out.py` measures AUC.
"""

import sys
import time

import cupy
import numpy as np

TREES = 60


def table(rows: int, features: int, classes: int, categorical: int) -> tuple[cupy.ndarray, cupy.ndarray]:
    """Uniform features, categories as numbers behind them, and a target of a few of the features."""
    random = cupy.random.default_rng(1)
    x = cupy.empty((rows, features + categorical), dtype=cupy.float32)
    for f in range(features):
        x[:, f] = random.random(rows, dtype=cupy.float32) * 2 - 1
    for c in range(categorical):
        x[:, features + c] = cupy.floor(random.random(rows, dtype=cupy.float32) ** 2 * (8 << min(c, 5)))
    z = 1.2 * x[:, 0] + cupy.sin(3 * x[:, 5]) + 1.5 * x[:, 7 % features] * x[:, 12 % features]
    z += cupy.where(x[:, 14 % features] > 0.1, 0.8, -0.4) * x[:, 19 % features] + 0.5 * x[:, 21 % features]
    drawn = random.random(rows, dtype=cupy.float32)
    if classes > 2:
        return x, cupy.clip((z + drawn + 2.5) * 2, 0, classes - 1).astype(cupy.int32)
    return x, (drawn < 1 / (1 + cupy.exp(-1.5 * z))).astype(cupy.int32)


def train_xgboost(case: list[int], policy: str) -> str:
    import xgboost

    rows, features, bins, depth, classes, categorical = case
    x, y = table(rows, features, classes, categorical)
    types = ["q"] * features + ["c"] * categorical
    params = {
        "device": "cuda",
        "tree_method": "hist",
        "max_bin": bins,
        "learning_rate": 0.1,
        "max_depth": 0 if policy == "leafwise" else depth,
        "grow_policy": "lossguide" if policy == "leafwise" else "depthwise",
        "max_leaves": 255 if policy == "leafwise" else 0,
        "objective": "multi:softprob" if classes > 2 else "binary:logistic",
    }
    if classes > 2:
        params["num_class"] = classes
    trees = TREES // classes if classes > 2 else TREES
    times = []
    for _ in range(2):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        data = xgboost.QuantileDMatrix(x, y, max_bin=bins, feature_types=types, enable_categorical=categorical > 0)
        prepared = time.perf_counter() - start
        start = time.perf_counter()
        xgboost.train(params, data, trees)
        times.append((prepared, time.perf_counter() - start))
        del data
    prepared, fitted = times[1]
    count = trees * (classes if classes > 2 else 1)
    return f"XGBoost {xgboost.__version__}: {prepared:.3f} s of preparation, then {fitted / count * 1e3:.2f} ms a tree"


def train_catboost(case: list[int], _policy: str) -> str:
    import catboost

    rows, features, bins, depth, classes, categorical = case
    x, y = (cupy.asnumpy(a) for a in table(rows, features, classes, categorical))
    start = time.perf_counter()
    if categorical:
        import pandas

        frame = pandas.DataFrame(x[:, :features], columns=[f"x{f}" for f in range(features)])
        for c in range(categorical):
            frame[f"c{c}"] = x[:, features + c].astype(np.int32)
        pool = catboost.Pool(frame, y, cat_features=[f"c{c}" for c in range(categorical)])
    else:
        pool = catboost.Pool(x, y)
    pooled = time.perf_counter() - start

    def fit(trees: int) -> float:
        model = catboost.CatBoostClassifier(
            iterations=trees, depth=depth, border_count=min(bins - 1, 254), learning_rate=0.1, task_type="GPU",
            verbose=False, allow_writing_files=False,
        )  # fmt: skip
        start = time.perf_counter()
        model.fit(pool)
        return time.perf_counter() - start

    fit(2)
    few, many = fit(5), fit(25)
    each = (many - few) / 20 / (classes if classes > 2 else 1)
    prepared = f"pool {pooled:.2f} s, preparation {few - 5 * each:.2f} s"
    return f"CatBoost {catboost.__version__}: {prepared}, then {each * 1e3:.2f} ms a tree"


def main() -> None:
    for text in sys.argv[1:]:
        fields = text.split(":")
        policy = fields[4]
        numbers = [int(f) for f in fields[:4] + fields[5:]]
        case = numbers + [2, 0][len(numbers) - 4 :]
        work = train_catboost if policy == "symmetric" else train_xgboost
        try:
            print(f"{text}: {work(case, policy)}", flush=True)
        except Exception as error:  # one that fails is told, and the others are measured
            print(f"{text}: not measured: {type(error).__name__}: {str(error)[:200]}", flush=True)
        cupy.get_default_memory_pool().free_all_blocks()


if __name__ == "__main__":
    main()

"""GPU predictions of XGBoost and CatBoost, 200 trees of depth 6 for 10M rows: see benches/cuda_predict.rs.

Needs a GPU, numpy, cupy and either of the two. XGBoost predicts from a device array; CatBoost takes its own
pool, quantised beforehand where it accepts that.
"""

import time

import numpy as np

N, FEATURES, TREES, DEPTH = 10_000_000, 28, 200, 6


def best(work, repeats: int = 5) -> float:
    """Milliseconds that a caller waits, the best of some: the others have what came before them in their way."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    return min(times)


def main() -> None:
    random = np.random.default_rng(0)
    x = random.random((N, FEATURES), dtype=np.float32)
    train = x[:200_000]
    y = (train[:, 0] + train[:, 1] * train[:, 2] + 0.1 * random.standard_normal(len(train))).astype(np.float32)
    try:
        import cupy
        import xgboost

        model = xgboost.train(
            {"device": "cuda", "max_depth": DEPTH, "tree_method": "hist"}, xgboost.QuantileDMatrix(train, y), TREES
        )
        on_device = cupy.asarray(x)

        def work(on_device: object = on_device) -> None:
            model.inplace_predict(on_device)
            cupy.cuda.Device().synchronize()

        print(f"XGBoost {xgboost.__version__}, from a device array: {best(work):.1f} ms", flush=True)
    except ImportError as error:
        print(f"XGBoost not measured: {error}")
    try:
        import catboost

        model = catboost.CatBoostRegressor(iterations=TREES, depth=DEPTH, task_type="GPU", verbose=False).fit(train, y)
        pool = catboost.Pool(x)
        print(
            f"CatBoost {catboost.__version__}, CPU, from its pool: {best(lambda: model.predict(pool)):.1f} ms",
            flush=True,
        )
        print(f"CatBoost, GPU, from its pool: {best(lambda: model.predict(pool, task_type='GPU')):.1f} ms", flush=True)
    except ImportError as error:
        print(f"CatBoost not measured: {error}")


if __name__ == "__main__":
    main()

"""XGBoost's GPU random forest, beside the test `timing` of src/engine/tests/cuda/forest.rs on the same rows.

Needs a GPU, numpy, cupy and XGBoost with CUDA. `python3 benchmarks/gpu_forest.py ROWS DEPTH TREES FILE` makes ROWS
rows of 28 features and a twelfth of them more to be held out, fits XGBoost on device arrays, and writes the rows to
FILE (column after column as f32, then the target), which the test reads: `TAIGA_FOREST_FILE=FILE cuda forest::timing`.
"""

import sys
import time

import cupy
import numpy as np
import xgboost
from gpu_train import table
from sklearn.metrics import roc_auc_score

FEATURES = 28


def main() -> None:
    rows, depth, trees = (int(x) for x in sys.argv[1:4])
    held_out = rows // 12
    x, y = table(rows + held_out, FEATURES, 2, 0)
    with open("/dev/null" if sys.argv[4] == "-" else sys.argv[4], "wb") as file:
        np.array([rows, held_out, FEATURES], dtype=np.float32).tofile(file)
        for f in range(FEATURES):
            cupy.asnumpy(x[:, f]).tofile(file)
        cupy.asnumpy(y).astype(np.float32).tofile(file)
    params = {
        "device": "cuda",
        "tree_method": "hist",
        "objective": "binary:logistic",
        "num_parallel_tree": trees,
        "subsample": 0.632,
        "colsample_bynode": int(FEATURES**0.5) / FEATURES,
        "max_depth": depth,
        "min_child_weight": 0,
        "lambda": 0,
        "eta": 1,
        "max_bin": 255,
    }
    xgboost.train(params, xgboost.QuantileDMatrix(x[:100_000], y[:100_000], max_bin=255), 1)
    cupy.cuda.Device().synchronize()
    start = time.perf_counter()
    data = xgboost.QuantileDMatrix(x[:rows], y[:rows], max_bin=255)
    prepared = time.perf_counter() - start
    start = time.perf_counter()
    model = xgboost.train(params, data, 1)
    fitted = time.perf_counter() - start
    what = f"XGBoost {xgboost.__version__}, {rows} x {FEATURES}, {trees} trees of depth {depth}"
    print(f"{what}: {prepared:.3f} s of preparation, {fitted:.3f} s of fitting", flush=True)
    p = model.inplace_predict(x[rows:])
    auc = roc_auc_score(cupy.asnumpy(y[rows:]), cupy.asnumpy(p))
    print(f"XGBoost: AUC of {held_out} rows held out {auc:.5f}")


main()

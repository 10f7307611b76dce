r"""AUC on held-out rows where the same table is given to us and to the peers, on any machine, with a GPU or without.

    python3 benchmarks/held_out.py write FOLDER 11000000 28   # raw f32 columns, u8 labels; a million rows held out
    cargo bench -p taiga-engine --features cuda --bench train -- \
        11000000 28 200 symmetric,depthwise 16 logloss 1 cuda 0 0 254 0 FOLDER
    python3 benchmarks/held_out.py peers FOLDER 200 [xgboost] [lightgbm] [catboost]
    python3 benchmarks/held_out.py auc FOLDER                 # of what the last two left there

Needs numpy and the peers that are named; XGBoost and CatBoost use a GPU where `nvidia-smi` finds one.
"""

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

HELD_OUT = 1_000_000


def write(folder: Path, rows: int, features: int) -> None:
    """Uniform features and a target of a few of them, from one seed: the model of `gpu_train.py`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, n, seed in [("train", rows, 1), ("test", HELD_OUT, 2)]:
        random = np.random.default_rng(seed)
        x = [random.random(n, dtype=np.float32) * 2 - 1 for _ in range(features)]
        z = 1.2 * x[0] + np.sin(3 * x[5 % features]) + 1.5 * x[7 % features] * x[12 % features]
        z += np.where(x[14 % features] > 0.1, 0.8, -0.4) * x[19 % features] + 0.5 * x[21 % features]
        y = (random.random(n, dtype=np.float32) < 1 / (1 + np.exp(-1.5 * z))).astype(np.uint8)
        with (folder / f"{name}.f32").open("wb") as file:
            for column in x:
                column.tofile(file)
        y.tofile(folder / f"{name}.u8")


def read(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features by rows, and labels."""
    y = np.fromfile(folder / f"{name}.u8", dtype=np.uint8)
    return np.fromfile(folder / f"{name}.f32", dtype=np.float32).reshape(-1, len(y)).T, y


def area(scores: np.ndarray, y: np.ndarray) -> float:
    """The share of pairs of rows in order, ties half."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    rank = np.cumsum(counts) - (counts - 1) / 2
    ones = int(y.sum())
    return float((rank[place][y == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(y) - ones)))


def xgboost(x: np.ndarray, y: np.ndarray, test: np.ndarray, trees: int, gpu: bool) -> np.ndarray:
    import xgboost

    params = {
        "device": "cuda" if gpu else "cpu",
        "tree_method": "hist",
        "max_bin": 256,
        "learning_rate": 0.1,
        "max_depth": 6,
    }
    model = xgboost.train(params | {"objective": "binary:logistic"}, xgboost.QuantileDMatrix(x, y, max_bin=256), trees)
    return model.inplace_predict(test)


def lightgbm(x: np.ndarray, y: np.ndarray, test: np.ndarray, trees: int, _gpu: bool) -> np.ndarray:
    import lightgbm

    params = {
        "objective": "binary",
        "learning_rate": 0.1,
        "max_bin": 255,
        "num_leaves": 64,
        "max_depth": 6,
        "verbose": -1,
    }
    return lightgbm.train(params, lightgbm.Dataset(x, y, params={"max_bin": 255}), trees).predict(test)


def catboost(x: np.ndarray, y: np.ndarray, test: np.ndarray, trees: int, gpu: bool) -> np.ndarray:
    import catboost

    model = catboost.CatBoostClassifier(
        iterations=trees, depth=6, border_count=254, learning_rate=0.1, task_type="GPU" if gpu else "CPU",
        verbose=False, allow_writing_files=False,
    )  # fmt: skip
    model.fit(catboost.Pool(np.ascontiguousarray(x), y))
    return model.predict(np.ascontiguousarray(test), prediction_type="RawFormulaVal")


PEERS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray, int, bool], np.ndarray]] = {
    "xgboost": xgboost,
    "lightgbm": lightgbm,
    "catboost": catboost,
}


def main() -> None:
    verb, folder = sys.argv[1], Path(sys.argv[2])
    if verb == "write":
        write(folder, int(sys.argv[3]), int(sys.argv[4]))
    elif verb == "peers":
        gpu = shutil.which("nvidia-smi") is not None
        (x, y), (test, _) = read(folder, "train"), read(folder, "test")
        for name in sys.argv[4:] or PEERS:
            start = time.perf_counter()
            scores = PEERS[name](x, y, test, int(sys.argv[3]), gpu)
            print(
                f"{name}: {time.perf_counter() - start:.1f} s in all, {'with' if gpu else 'without'} a GPU", flush=True
            )
            scores.astype(np.float32).tofile(folder / f"{name}.scores")
    else:
        y = np.fromfile(folder / "test.u8", dtype=np.uint8)
        for path in sorted(folder.glob("*.scores")):
            print(f"{path.stem}: AUC {area(np.fromfile(path, dtype=np.float32), y):.6f}")


if __name__ == "__main__":
    main()

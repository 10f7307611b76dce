"""Sparse logistic regression, the classic trial: `python -m benchmarks.sparse_lr [--rows N --only ours,sgd,batches]`.

A row has 10 to 110 of a million features, and its class is whether even or odd feature numbers prevail (a coin where
neither does). Ours is fitted inside a query on a list column, from the frame to the model's bytes; scikit-learn gets
its CSR matrix ready-made. Set POLARS_MAX_THREADS and OMP_NUM_THREADS to the number of threads. Times are the best of
`--repeat` fits; AUC is of 100,000 other rows. `batches` are the optimizers that take rows in batches beside
scikit-learn's SGD, all of them in turn in one window, after one epoch and after five: `--rows 100000 --only batches`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import roc_auc_score

from benchmarks.harness import number, progress, table

FEATURES = 1_000_000
HELD_OUT = 100_000


Rows = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int8]]


def rows(count: int, seed: int) -> Rows:
    """Offsets, feature numbers and classes."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(10, 111, count)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    numbers = rng.integers(0, FEATURES, offsets[-1], dtype=np.int32)
    even = np.add.reduceat((numbers % 2 == 0).astype(np.int64), offsets[:-1])
    coin = rng.integers(0, 2, count)
    return offsets, numbers, np.where(2 * even == lengths, coin, 2 * even > lengths).astype(np.int8)


def frame(offsets: NDArray[np.int64], numbers: NDArray[np.int32], classes: NDArray[np.int8]) -> pl.DataFrame:
    """The rows as a list column, made without a loop over rows."""
    flat = pl.DataFrame({"tokens": numbers, "row": np.repeat(np.arange(len(classes)), np.diff(offsets))})
    lists = flat.group_by("row", maintain_order=True).agg("tokens")
    return pl.DataFrame({"tokens": lists["tokens"], "y": pl.Series(classes).cast(pl.Boolean)})


def matrix(offsets: NDArray[np.int64], numbers: NDArray[np.int32]) -> scipy.sparse.csr_matrix:
    """The rows as a CSR matrix of ones."""
    ones = np.ones(len(numbers), dtype=np.float64)
    return scipy.sparse.csr_matrix((ones, numbers, offsets), shape=(len(offsets) - 1, FEATURES))


def in_turn(train: Rows, test: Rows, repeat: int) -> list[tuple[str, str, str]]:
    """Fits by batches and scikit-learn's SGD in turn, so that all meet the same machine: names, least seconds, AUC."""
    import polars_taiga as tg

    data, held_out = frame(*train), frame(*test)
    train_x, test_x = matrix(*train[:2]), matrix(*test[:2])

    def fit_ours(optimizer: str, epochs: int) -> bytes:
        fit = tg.fit_sparse_lr("y", "tokens", features=FEATURES, optimizer=optimizer, epochs=epochs)
        model: bytes = data.select(fit).item()
        return model

    def fit_theirs(epochs: int) -> Any:
        return SGDClassifier(loss="log_loss", max_iter=epochs, tol=None, random_state=0).fit(train_x, train[2])

    def score_ours(model: bytes) -> NDArray[np.float64]:
        return held_out.select(tg.predict(model)).to_series().to_numpy()

    def score_theirs(model: Any) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = model.decision_function(test_x)
        return scores

    contestants: dict[str, tuple[Callable[[], Any], Callable[[Any], NDArray[np.float64]]]] = {}
    for epochs in (1, 5):
        behind = "1 epoch" if epochs == 1 else f"{epochs} epochs"
        for optimizer in ("sgd", "adagrad", "ftrl"):
            contestants[f"ours, {optimizer}, {behind}"] = (partial(fit_ours, optimizer, epochs), score_ours)
        contestants[f"scikit-learn SGDClassifier, {behind}"] = (partial(fit_theirs, epochs), score_theirs)
    best = dict.fromkeys(contestants, float("inf"))
    models: dict[str, Any] = {}
    for _ in range(repeat):
        for name, (fit, _) in contestants.items():
            start = time.perf_counter()
            models[name] = fit()
            best[name] = min(best[name], time.perf_counter() - start)
    auc = {name: roc_auc_score(test[2], score(models[name])) for name, (_, score) in contestants.items()}
    return [(name, number(best[name], 3), number(auc[name], 4)) for name in contestants]


def main() -> None:
    """Prints a table of AUC and seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="ours,lbfgs,sgd")
    arguments = parser.parse_args()
    only = arguments.only.split(",")
    train, test = rows(arguments.rows, 0), rows(HELD_OUT, 1)
    lines: list[tuple[str, str, str]] = []

    def add(name: str, fit: Callable[[], Any], score: Callable[[Any], NDArray[np.float64]]) -> None:
        best, model = float("inf"), None
        for _ in range(arguments.repeat):
            start = time.perf_counter()
            model = fit()
            best = min(best, time.perf_counter() - start)
        auc = roc_auc_score(test[2], score(model))
        progress(f"{name}: {best:.2f} s, AUC {auc:.4f}")
        lines.append((name, number(best, 2), number(auc, 4)))

    if "ours" in only:
        import polars_taiga as tg

        data, held_out = frame(*train), frame(*test)

        def score(model: bytes) -> NDArray[np.float64]:
            return held_out.select(tg.predict(model)).to_series().to_numpy()

        for passes in (1, 2, 3, 4, 5, 8, 100):

            def fit(passes: int = passes) -> bytes:
                model: bytes = data.select(tg.fit_sparse_lr("y", "tokens", features=FEATURES, epochs=passes)).item()
                return model

            add(
                f"ours, lbfgs, at most {passes} passes",
                fit,
                score,
            )
        for optimizer in ("adagrad", "ftrl"):

            def fit_batches(optimizer: str = optimizer) -> bytes:
                model: bytes = data.select(
                    tg.fit_sparse_lr("y", "tokens", features=FEATURES, optimizer=optimizer, epochs=2)
                ).item()
                return model

            add(
                f"ours, {optimizer}, 2 epochs",
                fit_batches,
                score,
            )
    train_x, test_x = matrix(*train[:2]), matrix(*test[:2])
    if "lbfgs" in only:
        add(
            "scikit-learn LogisticRegression(C=1)",
            lambda: LogisticRegression(C=1.0, solver="lbfgs").fit(train_x, train[2]),
            lambda m: m.decision_function(test_x),
        )
    if "sgd" in only:
        add(
            "scikit-learn SGDClassifier, 5 epochs",
            lambda: SGDClassifier(loss="log_loss", max_iter=5, tol=None, random_state=0).fit(train_x, train[2]),
            lambda m: m.decision_function(test_x),
        )
    if "batches" in only:
        lines += in_turn(train, test, arguments.repeat)
    print(table(("fit", "seconds", "AUC"), lines))


if __name__ == "__main__":
    main()

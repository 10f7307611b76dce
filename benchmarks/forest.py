"""Random forests beside scikit-learn, LightGBM and XGBoost: `python -m benchmarks.forest [--accuracy] [--speed]`.

`--accuracy`: the same trees, depth and features per node on four real tables, five seeds, with the
out-of-bag score beside scikit-learn's. `--speed`: one synthetic table, seconds from a Polars frame to a
model (whatever a library does to it on the way) and the accuracy on held-out rows.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score

from benchmarks.data import BLOCK, TARGET, real, synthetic
from benchmarks.harness import RESULTS, Results, number, progress, table

# Seconds, predictions of the test rows (probabilities of classes, or values), the out-of-bag score.
Answer = tuple[float, np.ndarray, float | None]
Fit = Callable[[pl.DataFrame, pl.DataFrame, int], Answer]


def load(name: str) -> tuple[pl.DataFrame, bool]:
    """A table, numbers only, missing values filled for scikit-learn's sake; whether its target is a class."""
    if name == "digits":
        bunch = load_digits()
        frame = pl.DataFrame(bunch.data, schema=[f"x{i}" for i in range(64)]).with_columns(
            pl.Series(TARGET, bunch.target)
        )
        return frame.with_columns(pl.col(TARGET).cast(pl.String)), True
    frame, task = real(name)
    return frame, task == "binary"


def ours(classes: bool, trees: int, depth: int | None, features: str | float, threads: int, **params: Any) -> Fit:
    """A forest of polars-taiga."""

    def fit(train: pl.DataFrame, test: pl.DataFrame, seed: int) -> Answer:
        import polars_taiga as tg

        start = time.perf_counter()
        model = train.taiga.fit_forest(
            TARGET,
            pl.exclude(TARGET),
            trees=trees,
            depth=depth,
            max_features=features,
            seed=seed,
            n_threads=threads,
            criterion="gini" if classes else "squared_error",
            **params,
        )
        seconds = time.perf_counter() - start
        p = test.select(tg.predict(model)).to_series()
        shares = p.struct.unnest().to_numpy() if p.dtype == pl.Struct else p.to_numpy()
        return seconds, shares, model.oob_score

    return fit


def sklearn(
    kind: str, classes: bool, trees: int, depth: int | None, features: str | float, threads: int, oob: bool
) -> Fit:
    """A forest of scikit-learn; `kind` is `RandomForest` or `ExtraTrees`."""

    def fit(train: pl.DataFrame, test: pl.DataFrame, seed: int) -> Answer:
        import sklearn.ensemble

        cls = getattr(sklearn.ensemble, kind + ("Classifier" if classes else "Regressor"))
        start = time.perf_counter()
        model = cls(
            trees,
            max_depth=depth,
            max_features=features,
            n_jobs=threads,
            random_state=seed,
            bootstrap=True,
            oob_score=oob,
        )
        model.fit(train.drop(TARGET).to_numpy(), train[TARGET].to_numpy())
        seconds = time.perf_counter() - start
        x = test.drop(TARGET).to_numpy()
        shares = model.predict_proba(x) if classes else model.predict(x)
        if classes and shares.shape[1] == 2:
            shares = shares[:, 1]
        return seconds, shares, model.oob_score_ if oob else None

    return fit


def lightgbm(trees: int, depth: int, share: float, threads: int) -> Fit:
    """LightGBM's forest mode, for two classes: a bag of 63 % of the rows without replacement."""

    def fit(train: pl.DataFrame, test: pl.DataFrame, seed: int) -> Answer:
        import lightgbm as lgb

        params = {
            "objective": "binary",
            "boosting": "rf",
            "bagging_fraction": 0.632,
            "bagging_freq": 1,
            "feature_fraction_bynode": share,
            "max_depth": depth,
            "num_leaves": min(2**depth, 131_072),
            "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": 0,
            "num_threads": threads,
            "seed": seed,
            "verbose": -1,
        }
        start = time.perf_counter()
        data = lgb.Dataset(train.drop(TARGET).to_numpy(), train[TARGET].to_numpy(), params=params)
        model = lgb.train(params, data, trees)
        seconds = time.perf_counter() - start
        return seconds, np.asarray(model.predict(test.drop(TARGET).to_numpy())), None

    return fit


def xgboost(trees: int, depth: int, share: float, threads: int) -> Fit:
    """XGBoost's forest mode, for two classes: one round of parallel trees on 63 % of the rows each."""

    def fit(train: pl.DataFrame, test: pl.DataFrame, seed: int) -> Answer:
        import xgboost as xgb

        params = {
            "objective": "binary:logistic",
            "num_parallel_tree": trees,
            "subsample": 0.632,
            "colsample_bynode": share,
            "max_depth": depth,
            "min_child_weight": 0,
            "lambda": 0,
            "eta": 1,
            "tree_method": "hist",
            "nthread": threads,
            "seed": seed,
        }
        start = time.perf_counter()
        data = xgb.QuantileDMatrix(train.drop(TARGET).to_numpy(), train[TARGET].to_numpy(), nthread=threads)
        model = xgb.train(params, data, 1)
        seconds = time.perf_counter() - start
        return seconds, model.predict(xgb.DMatrix(test.drop(TARGET).to_numpy())), None

    return fit


def scores(truth: pl.Series, predicted: np.ndarray, classes: bool) -> dict[str, float]:
    """Accuracy and log loss of classes (and AUC of two), R² of numbers."""
    if not classes:
        return {"r2": float(r2_score(truth, predicted))}
    if predicted.ndim == 1:
        y = truth.to_numpy()
        return {
            "accuracy": float(accuracy_score(y, predicted > 0.5)),
            "auc": float(roc_auc_score(y, predicted)),
            "logloss": float(log_loss(y, np.clip(predicted, 1e-6, 1 - 1e-6))),
        }
    labels = np.sort(truth.unique().to_numpy())
    best = labels[predicted.argmax(axis=1)]
    clipped = np.clip(predicted, 1e-6, 1)
    return {
        "accuracy": float(accuracy_score(truth, best)),
        "logloss": float(log_loss(truth, clipped / clipped.sum(axis=1, keepdims=True), labels=labels)),
    }


def accuracy(args: argparse.Namespace, results: Results) -> None:
    """The real tables."""
    for name in args.tables.split(","):
        frame, classes = load(name)
        features: str | float = "sqrt" if classes else 1.0
        common = (classes, args.trees, None, features, args.threads)
        entries: dict[str, Fit] = {
            f"polars-taiga, {s}": ours(*common, splitter=s, oob=True) for s in ("histogram", "exact", "random")
        } | {
            "scikit-learn, random forest": sklearn("RandomForest", *common, oob=True),
            "scikit-learn, extra trees": sklearn("ExtraTrees", *common, oob=True),
        }
        kept: dict[str, list[tuple[float, float | None, dict[str, float]]]] = {}
        for seed in range(args.seeds):
            order = np.random.default_rng([seed, 11]).permutation(frame.height)
            cut = frame.height // 4
            train, test = frame[np.sort(order[cut:])], frame[np.sort(order[:cut])]
            for entry, fit in entries.items():
                seconds, predicted, oob = fit(train, test, seed)
                found = scores(test[TARGET], predicted, classes)
                progress(f"{name}, seed {seed}: {entry}: {seconds:.2f} s, out of bag {oob}, {found}")
                results.add({"table": name, "seed": seed, "entry": entry, "seconds": seconds, "oob": oob} | found)
                kept.setdefault(entry, []).append((seconds, oob, found))
        metrics = list(next(iter(kept.values()))[0][2])
        body = []
        for entry, runs in kept.items():
            row = [
                entry,
                number(statistics.fmean(r[0] for r in runs), 2),
                number(statistics.fmean(r[1] or 0 for r in runs), 5),
            ]
            body.append(row + [number(statistics.fmean(r[2][m] for r in runs), 5) for m in metrics])
        print(f"\n{name}, {args.seeds} seeds, {args.trees} trees\n")
        print(table(["", "seconds", "out of bag", *metrics], body), flush=True)


def speed(args: argparse.Namespace, results: Results) -> None:
    """The synthetic table."""
    rows, depth, trees, threads = args.rows, args.depth, args.trees, args.threads
    train = synthetic(rows, 28)
    test = synthetic(100_000, 28, first_row=-(-rows // BLOCK) * BLOCK)
    share = 5 / 28
    common = (True, trees, depth, "sqrt", threads)
    entries: dict[str, Fit] = {
        "polars-taiga, histogram": ours(*common, oob=False),
        "polars-taiga, exact": ours(*common, splitter="exact", oob=False),
        "polars-taiga, random": ours(*common, splitter="random", oob=False),
        "LightGBM": lightgbm(trees, depth, share, threads),
        "XGBoost": xgboost(trees, depth, share, threads),
        "scikit-learn, random forest": sklearn("RandomForest", *common, oob=False),
        "scikit-learn, extra trees": sklearn("ExtraTrees", *common, oob=False),
    }
    body = []
    for entry, fit in entries.items():
        if args.only and not any(word in entry for word in args.only.split(",")):
            continue
        seconds, predicted, _ = fit(train, test, 0)
        found = scores(test[TARGET], predicted, True)
        progress(f"{entry}: {seconds:.2f} s, {found}")
        results.add({"rows": rows, "trees": trees, "depth": depth, "entry": entry, "seconds": seconds} | found)
        body.append([entry, number(seconds, 2), *(number(v, 4) for v in found.values())])
    print(f"\n{rows:,} x 28, {trees} trees, depth {depth}, {threads} threads\n")
    print(table(["", "seconds", "accuracy", "auc", "logloss"], body), flush=True)


def main() -> None:
    """Measures what is asked for; both without a word."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--tables", default="adult,housing,digits,weather")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="comma-separated words; only entries whose names contain one")
    parser.add_argument("--out", type=Path, default=RESULTS / "forest.jsonl")
    args = parser.parse_args()
    results = Results(args.out)
    if args.accuracy or not args.speed:
        accuracy(args, results)
    if args.speed or not args.accuracy:
        speed(args, results)


if __name__ == "__main__":
    main()

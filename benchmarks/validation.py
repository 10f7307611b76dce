"""Cross-validation and search beside single fits and beside Optuna over LightGBM: `python -m benchmarks.validation`.

Folds: the time of one fit of all rows, and of `cross_val_predict` with five folds, in turn; the goal is less than four
fits' time, for five fits of four fifths of the rows, their predictions, and one coding of the columns.

Search: the same 30 draws of parameters, each by three folds. LightGBM's are Optuna trials that are enqueued with the
same values, each `lightgbm.cv` on one `Dataset` that is built once, with the same folds; ours are one `tg.search`,
with and without halving. The loss is what the best trial's parameters come to on held-out rows, fitted to all rows by
the library that chose them.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

FOLDS = 3
ROUNDS = 200


def main() -> None:
    """Measures both, and prints tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="2000,20000,200000,1000000")
    parser.add_argument("--search-rows", default="30000,200000")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    print(f"\nFive folds, 28 features, 100 rounds, {args.threads} threads: seconds (best of {args.repeats})\n")
    print("| rows | policy | one fit | five folds | in fits |\n|---|---|---|---|---|")
    for rows in (int(text) for text in args.rows.split(",") if text):
        for policy in ("symmetric", "leafwise"):
            one, five = folds(rows, policy, args.repeats)
            print(f"| {rows:,} | {policy} | {one:.3f} | {five:.3f} | {five / one:.2f} |", flush=True)
    print(f"\n{args.trials} trials of {ROUNDS} rounds at most, {FOLDS} folds, {args.threads} threads\n")
    print("| rows | search | seconds | best by folds | log loss of held-out rows |\n|---|---|---|---|---|")
    for rows in (int(text) for text in args.search_rows.split(",") if text):
        for name, (seconds, best, loss) in searches(rows, args.trials, args.threads).items():
            print(f"| {rows:,} | {name} | {seconds:.1f} | {best:.5f} | {loss:.5f} |", flush=True)


def folds(rows: int, policy: Any, repeats: int) -> tuple[float, float]:
    """The seconds of one fit, and of five folds with their predictions; the best of several, in turn."""
    import polars_taiga as tg

    from benchmarks.data import TARGET, synthetic

    df = synthetic(rows)
    features = [name for name in df.columns if name != TARGET]
    ways: list[Callable[[], object]] = [
        lambda: df.select(tg.fit_gbdt(TARGET, *features, rounds=100, policy=policy)),
        lambda: df.select(tg.cross_val_predict(TARGET, *features, rounds=100, policy=policy, folds=5)),
    ]
    best = [float("inf")] * 2
    for _ in range(repeats + 1):
        for way, run in enumerate(ways):
            start = time.perf_counter()
            run()
            best[way] = min(best[way], time.perf_counter() - start)
    return best[0], best[1]


SPACE: dict[str, Any] = {
    "learning_rate": (0.02, 0.3, "log"),
    "leaves": (7, 127, "log"),
    "l2": (0.01, 10.0, "log"),
    "min_data_in_leaf": (5, 200, "log"),
    "feature_fraction": (0.4, 1.0),
}


def searches(rows: int, trials: int, threads: int) -> dict[str, tuple[float, float, float]]:
    """By name: seconds, what the best trial came to over its folds, and on held-out rows."""
    import lightgbm as lgb
    import numpy as np
    import optuna
    import polars as pl
    import polars_taiga as tg
    from polars_taiga.search import draw

    from benchmarks.data import TARGET, synthetic

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    train, test = synthetic(rows), synthetic(200_000, first_row=16 * 65_536 * 4)
    features = [name for name in train.columns if name != TARGET]
    fold = np.arange(rows) % FOLDS
    train = train.with_columns(fold=pl.Series(fold))
    truth = test[TARGET].to_numpy()

    def loss(p: Any) -> float:
        return float(-np.mean(np.log(np.where(truth, p, 1 - p))))

    found: dict[str, tuple[float, float, float]] = {}
    for name, halving in (("taiga", None), ("taiga, halving by 3", 3)):
        start = time.perf_counter()
        ours = train.taiga.search(
            TARGET,
            *features,
            space=SPACE,
            trials=trials,
            halving=halving,
            folds="fold",
            rounds=ROUNDS,
            policy="leafwise",
            min_child_weight=0.001,
        )
        seconds = time.perf_counter() - start
        own = {key: ours[key][0] for key in SPACE}
        model = train.taiga.fit_gbdt(TARGET, *features, rounds=ROUNDS, policy="leafwise", min_child_weight=0.001, **own)
        found[name] = (seconds, ours["mean"][0], loss(test.select(tg.predict(model)).to_series().to_numpy()))

    start = time.perf_counter()
    x, y = train.select(features).to_numpy(), train[TARGET].to_numpy()
    data = lgb.Dataset(
        x, y, free_raw_data=False, params={"verbose": -1, "num_threads": threads, "feature_pre_filter": False}
    )
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(FOLDS)]

    def params(trial: optuna.Trial) -> dict[str, Any]:
        return {
            "objective": "binary",
            "metric": "binary_logloss",
            "verbose": -1,
            "num_threads": threads,
            "bagging_freq": 0,
            "learning_rate": trial.suggest_float("learning_rate", 0.02, 0.3, log=True),
            "num_leaves": trial.suggest_int("leaves", 7, 127, log=True),
            "lambda_l2": trial.suggest_float("l2", 0.01, 10.0, log=True),
            "min_data_in_leaf": trial.suggest_int("min_data_in_leaf", 5, 200, log=True),
            "feature_fraction": trial.suggest_float("feature_fraction", 0.4, 1.0),
        }

    def objective(trial: optuna.Trial) -> float:
        curve = lgb.cv(params(trial), data, num_boost_round=ROUNDS, folds=splits)
        return float(curve["valid binary_logloss-mean"][-1])

    study = optuna.create_study()
    for drawn in draw(SPACE, trials, 0):
        study.enqueue_trial(drawn)
    study.optimize(objective, n_trials=trials)
    seconds = time.perf_counter() - start
    best = params(optuna.trial.FixedTrial(study.best_params))  # type: ignore[arg-type]
    booster = lgb.train(best, lgb.Dataset(x, y, params={"verbose": -1}), num_boost_round=ROUNDS)
    theirs = np.asarray(booster.predict(test.select(features).to_numpy()))
    found["LightGBM by Optuna"] = (seconds, study.best_value, loss(theirs))
    return found


if __name__ == "__main__":
    main()

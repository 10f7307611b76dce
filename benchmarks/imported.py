"""How long imported models take to predict, and the libraries that they come from: `python -m benchmarks.imported`.

500 trees each, all cores of this process; the best of three runs, from a Polars frame here, from NumPy's array there.
CatBoost's model of categories has statistics of combinations of four columns of text; it predicts from pandas' frame,
and from a `Pool` that is made beforehand.
With `--device cuda` XGBoost and CatBoost predict on the GPU as well; the others are not run.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import polars_taiga as tg

if TYPE_CHECKING:
    from collections.abc import Callable

TREES, FEATURES, TRAINING = 500, 20, 20_000


def best(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the least seconds of three runs, and what the last one gave."""
    seconds, found = [], None
    for _ in range(3):
        start = time.perf_counter()
        found = run()
        seconds.append(time.perf_counter() - start)
    return min(seconds), found


def peers(x: Any, device: str, only: list[str]) -> dict[str, tuple[object, Callable[[], Any]]]:
    """Fit each library's model: the model, and its prediction of all rows."""
    threads = len(os.sched_getaffinity(0))
    train = x[:TRAINING]
    noise = np.random.default_rng(1).normal(size=len(train))
    y = train[:, 0] + train[:, 1] * train[:, 2] + np.sin(train[:, 3]) + noise

    def of_xgboost() -> tuple[object, Callable[[], Any]]:
        import xgboost

        model = xgboost.train({"max_depth": 6, "nthread": threads, "device": device}, xgboost.DMatrix(train, y), TREES)
        return model, lambda: model.inplace_predict(x)

    def of_catboost() -> tuple[object, Callable[[], Any]]:
        import catboost

        model = catboost.CatBoostRegressor(
            iterations=TREES, depth=6, verbose=False, thread_count=threads, allow_writing_files=False
        ).fit(train, y)
        task = "GPU" if device == "cuda" else "CPU"
        return model, lambda: model.predict(x, thread_count=threads, task_type=task)

    def of_lightgbm() -> tuple[object, Callable[[], Any]]:
        import lightgbm

        model = lightgbm.train({"verbose": -1, "num_threads": threads}, lightgbm.Dataset(train, y), TREES)
        return model, lambda: model.predict(x)

    def of_sklearn(name: str, rows: int = TRAINING, **params: Any) -> tuple[object, Callable[[], Any]]:
        from sklearn import ensemble

        model = getattr(ensemble, name)(**params).fit(train[:rows], y[:rows])
        return model, lambda: model.predict(x)

    forest: dict[str, Any] = {"n_estimators": TREES, "n_jobs": threads, "max_features": 1 / 3, "random_state": 0}
    makers: dict[str, Callable[[], tuple[object, Callable[[], Any]]]] = {"XGBoost": of_xgboost, "CatBoost": of_catboost}
    if device == "cpu":
        makers |= {
            "LightGBM": of_lightgbm,
            "HistGradientBoosting": lambda: of_sklearn(
                "HistGradientBoostingRegressor", max_iter=TREES, early_stopping=False
            ),
            "RandomForest, depth 10": lambda: of_sklearn("RandomForestRegressor", 5_000, max_depth=10, **forest),
            "RandomForest, deep": lambda: of_sklearn("RandomForestRegressor", 5_000, **forest),
            "ExtraTrees, deep": lambda: of_sklearn("ExtraTreesRegressor", 5_000, **forest),
        }
    return {name: make() for name, make in makers.items() if not only or any(word in name for word in only)}


def of_categories(rows: int, device: str) -> None:
    """Print the rows of CatBoost's model with statistics of combinations of columns of text."""
    import catboost

    threads, rng = len(os.sched_getaffinity(0)), np.random.default_rng(2)
    sizes = {"city": 2_000, "job": 60, "shop": 300, "kind": 12}
    made = {name: rng.zipf(1.3, rows) % size for name, size in sizes.items()}
    columns: dict[str, Any] = {f"x{i}": rng.normal(size=rows).astype(np.float32) for i in range(4)}
    score = sum((code % 7) * (columns["x0"] > 0) for code in made.values()) + columns["x1"] + rng.normal(size=rows)
    frame = pl.DataFrame({**columns, **{name: [f"{name} {code}" for code in codes] for name, codes in made.items()}})
    given = frame.to_pandas()
    fitted = catboost.CatBoostRegressor(
        iterations=TREES, depth=6, verbose=False, thread_count=threads, allow_writing_files=False
    ).fit(catboost.Pool(given[:TRAINING], score[:TRAINING], cat_features=list(sizes)))
    start = time.perf_counter()
    model = tg.import_model(fitted)
    read = time.perf_counter() - start
    here, ours = best(lambda: model.predict(frame, device=device))
    pool = catboost.Pool(given, cat_features=list(sizes))
    for name, source in (("pandas", given), ("Pool", pool)):
        there, theirs = best(lambda source=source: fitted.predict(source, thread_count=threads))  # type: ignore[misc]
        apart = float(np.abs(ours.to_numpy() - theirs).max())
        what = f"CatBoost, 4 columns of text, from {name}"
        print(f"| {what} | {there:.2f} | {here:.2f} | {there / here:.2f} | {apart:.0e} | {read:.2f} |", flush=True)


def main() -> None:
    """Print a table, a row a library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    x = np.random.default_rng(0).normal(size=(args.rows, FEATURES)).astype(np.float32)
    frame = pl.DataFrame(x, schema=[f"f{i}" for i in range(FEATURES)])
    print(f"{args.rows:,} rows, {FEATURES} Float32 columns, {TREES} trees, {len(os.sched_getaffinity(0))} threads\n")
    print("| model | there, s | here, s | times as fast | apart at most | read, s |\n|---|---|---|---|---|---|")
    for name, (fitted, run) in peers(x, args.device, [word for word in args.only.split(",") if word]).items():
        start = time.perf_counter()
        model = tg.import_model(fitted, features=frame.columns)
        read = time.perf_counter() - start
        here, ours = best(lambda model=model: model.predict(frame, device=args.device))  # type: ignore[misc]
        there, theirs = best(run)
        apart = float(np.abs(ours.to_numpy() - theirs).max())
        print(f"| {name} | {there:.2f} | {here:.2f} | {there / here:.2f} | {apart:.0e} | {read:.2f} |", flush=True)
    if not args.only or "categories" in args.only:
        of_categories(args.rows, args.device)


if __name__ == "__main__":
    main()

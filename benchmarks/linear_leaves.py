"""Leaves that are linear functions beside LightGBM's `linear_tree`, by the same settings, on real tables.

`python -m benchmarks.linear_leaves`: the numeric columns alone, five splits; of each table the RMSE on the other
quarter of the rows, as a share of that of numbers in leaves, in the mean over the splits; behind it the same of the
mean absolute error, which a few rows beyond what was seen do not decide; and the seconds of the fits.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import lightgbm
import numpy as np
import polars as pl
import polars.selectors as cs
import polars_taiga as tg

from benchmarks.default_tables import TABLES, load, split

NAMES = (
    "sklearn/diabetes",
    "shared/housing",
    "shared/weather.temp",
    "MASS/Boston",
    "Ecdat/Computers",
    "ISLR/Auto",
    "mosaicData/SaratogaHouses",
    "openintro/ames",
    "wooldridge/airfare",
    "gapminder",
)
ROUNDS, LEAVES, RATE = 100, 31, 0.1


def ours(train: pl.DataFrame, target: str, features: list[str], threads: int, **more: Any) -> Any:
    """Fit ours; what it returns predicts a frame."""
    model = train.taiga.fit_gbdt(
        target,
        features,
        rounds=ROUNDS,
        policy="leafwise",
        leaves=LEAVES,
        learning_rate=RATE,
        l2=0.0,
        min_child_weight=1e-3,
        min_data_in_leaf=20,
        border_method="quantile",
        device="cpu",
        n_threads=threads,
        **more,
    )
    return lambda test: test.select(tg.predict(model)).to_series().to_numpy()


def theirs(train: pl.DataFrame, target: str, features: list[str], threads: int, **more: Any) -> Any:
    """Fit LightGBM's likewise."""
    params = {
        "num_leaves": LEAVES,
        "learning_rate": RATE,
        "num_threads": threads,
        "verbose": -1,
        "min_data_in_leaf": 20,
    }
    params |= more
    data = lightgbm.Dataset(train.select(features).to_numpy(), train[target].to_numpy(), params=params)
    booster = lightgbm.train(params, data, ROUNDS)
    return lambda test: booster.predict(test.select(features).to_numpy(), num_threads=threads)


WAYS: dict[str, Any] = {
    "numbers": (ours, {}),
    "linear": (ours, {"leaf": "linear"}),
    "linear, l2 1": (ours, {"leaf": "linear", "linear_l2": 1.0}),
    "LightGBM": (theirs, {}),
    "LightGBM linear": (theirs, {"linear_tree": True}),
    "LightGBM linear, lambda 1": (theirs, {"linear_tree": True, "linear_lambda": 1.0}),
}


def _cell(shares: Any) -> str:
    return " ".join(f"{share:.3f}" for share in shares)


def main() -> None:
    """Measure the tables named, and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=30_000)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tables", nargs="*", default=NAMES)
    args = parser.parse_args()
    shares: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    print("| table | rows × columns |", " | ".join(WAYS), "| seconds |")
    for table in (t for t in TABLES if t.name in args.tables or t.item in args.tables):
        frame = load(table, args.most)
        features = frame.select(cs.numeric()).drop(table.target, strict=False).columns
        frame = frame.select(pl.col(features).cast(pl.Float64), table.target)
        errors: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        for number in range(args.splits):
            train, test = split(frame, number)
            for way, (fit, more) in WAYS.items():
                start = time.perf_counter()
                predict = fit(train, table.target, features, args.threads, **more)
                seconds[way].append(time.perf_counter() - start)
                off = predict(test) - test[table.target].to_numpy()
                errors[way].append((float(np.sqrt(np.mean(off**2))), float(np.abs(off).mean())))
        base = np.mean(errors["numbers"], axis=0)
        for way in WAYS:
            shares[way].append(tuple(np.mean(errors[way], axis=0) / base))
        cells = " | ".join(_cell(shares[way][-1]) for way in WAYS)
        times = ", ".join(f"{np.median(seconds[way]):.2f}" for way in WAYS)
        print(f"| {table.name} | {frame.height:,} × {len(features)} | {cells} | {times} |", flush=True)
    print("| mean | |", " | ".join(_cell(np.mean(shares[way], axis=0)) for way in WAYS), "| |")
    print("| median | |", " | ".join(_cell(np.median(shares[way], axis=0)) for way in WAYS), "| |")


if __name__ == "__main__":
    main()

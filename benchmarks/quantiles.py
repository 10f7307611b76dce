"""Several quantiles beside LightGBM's and XGBoost's: `python -m benchmarks.quantiles [--rows 100000] [--test 1000000]`.

A table whose spread depends on its features and is not symmetric, from a seed. Each library fits trees of the same
size at the same rate; ours and XGBoost's have all quantiles in one model, LightGBM's are one model each, as it has
no other way. On held-out rows: the mean pinball loss, the share of rows below each quantile, the rows whose
quantiles cross, and the seconds of the fit (from a Polars frame, preparation counted). The means over the seeds.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

FEATURES = 10


def main() -> None:
    """Measures every library on every seed, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--test", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--min-data", type=int, default=20, help="the smallest number of rows in a leaf")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--alpha", default="0.05,0.5,0.95")
    args = parser.parse_args()
    for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    import numpy as np

    levels = [float(level) for level in args.alpha.split(",")]
    found: dict[str, list[list[float]]] = {}
    for seed in range(args.seeds):
        train, test = table(args.rows, 2 * seed), table(args.test, 2 * seed + 1)
        truth = test["y"].to_numpy()
        for name, fit in libraries(args, levels).items():
            start = time.perf_counter()
            predict = fit(train)
            seconds = time.perf_counter() - start
            q = predict(test)
            under = [float(np.mean(truth <= q[:, k])) for k in range(len(levels))]
            crossed = int((np.diff(q, axis=1) < 0).any(axis=1).sum())
            found.setdefault(name, []).append([pinball(truth, q, levels), *under, crossed, seconds])
    trees = f"{args.rounds} rounds, {args.leaves} leaves of {args.min_data} rows or more"
    print(f"\n{args.rows:,} x {FEATURES}, {trees}, {args.test:,} held-out rows\n")
    print(f"| | pinball | {' | '.join(f'below {level}' for level in levels)} | rows that cross | seconds |")
    print(f"|{'---|' * (len(levels) + 4)}")
    for name, lines in found.items():
        loss, *under, crossed, seconds = np.mean(lines, axis=0)
        shares = " | ".join(f"{share:.4f}" for share in under)
        print(f"| {name} | {loss:.5f} | {shares} | {crossed:,.0f} | {seconds:.2f} |")


def table(rows: int, seed: int) -> pl.DataFrame:
    """Features, and a target around a smooth function of some, skewed and spread by others."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (rows, FEATURES)).astype(np.float32)
    spread = 0.2 + 0.8 * (x[:, 2] > 0.1) + 0.5 * x[:, 3] ** 2
    noise = rng.gamma(2.0, 1.0, rows) - 2.0
    y = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 4] + spread * noise
    return pl.DataFrame({f"x{i}": x[:, i] for i in range(FEATURES)}).with_columns(y=pl.Series(y))


def pinball(truth: np.ndarray, q: np.ndarray, levels: Sequence[float]) -> float:
    """The pinball loss in the mean over rows and quantiles."""
    import numpy as np

    each = [np.maximum(a * (truth - q[:, k]), (a - 1) * (truth - q[:, k])).mean() for k, a in enumerate(levels)]
    return float(np.mean(each))


Fit = Callable[["pl.DataFrame"], Callable[["pl.DataFrame"], "np.ndarray"]]


def libraries(args: argparse.Namespace, levels: list[float]) -> dict[str, Fit]:
    """A fit for each library: a frame in, a function from a frame to quantiles out."""
    import lightgbm as lgb
    import numpy as np
    import polars_taiga as tg
    import xgboost as xgb

    names = [f"x{i}" for i in range(FEATURES)]

    def ours(alpha: list[float], frame: pl.DataFrame) -> tg.Model:
        return frame.taiga.fit_gbdt(
            "y", *names, loss="quantile", alpha=alpha, policy="leafwise", leaves=args.leaves, rounds=args.rounds,
            min_data_in_leaf=args.min_data, n_threads=args.threads, progress=False,
        )  # fmt: skip

    def together(frame: pl.DataFrame) -> Any:
        model = ours(levels, frame)
        return lambda test: test.select(tg.predict(model)).to_series().struct.unnest().to_numpy()

    def one_each(frame: pl.DataFrame) -> Any:
        models = [ours([level], frame) for level in levels]
        return lambda test: test.select(tg.predict(m).alias(str(k)) for k, m in enumerate(models)).to_numpy()

    def lightgbm(frame: pl.DataFrame) -> Any:
        data = lgb.Dataset(frame.select(names).to_arrow(), frame["y"].to_numpy(), free_raw_data=False)
        same = {
            "objective": "quantile",
            "num_leaves": args.leaves,
            "min_data_in_leaf": args.min_data,
            "learning_rate": 0.1,
            "verbosity": -1,
        }
        params = [{**same, "alpha": level, "num_threads": args.threads} for level in levels]
        models = [lgb.train(own, data, num_boost_round=args.rounds) for own in params]
        return lambda test: np.column_stack([np.asarray(m.predict(test.select(names).to_numpy())) for m in models])

    def xgboost(frame: pl.DataFrame) -> Any:
        data = xgb.QuantileDMatrix(frame.select(names), frame["y"].to_numpy(), nthread=args.threads)
        params = {
            "objective": "reg:quantileerror", "quantile_alpha": np.array(levels), "tree_method": "hist", "eta": 0.1,
            "grow_policy": "lossguide", "max_leaves": args.leaves, "max_depth": 0, "min_child_weight": args.min_data,
            "nthread": args.threads,
        }  # fmt: skip
        model = xgb.train(params, data, num_boost_round=args.rounds)
        return lambda test: model.inplace_predict(test.select(names).to_numpy())

    return {"polars-taiga": together, "one model each": one_each, "LightGBM": lightgbm, "XGBoost": xgboost}


if __name__ == "__main__":
    main()

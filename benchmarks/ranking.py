"""Ranking beside LightGBM, XGBoost and CatBoost: `python -m benchmarks.ranking [--rows 200000] [--catboost]`.

A table like MSLR-WEB30K, from a seed: 136 features (some heavy-tailed, some counts, most of them noise), grades from 0
to 4 of which most are low, groups of 120 rows. Each library grows trees of 31 leaves (CatBoost: symmetric ones of depth
6) at the same rate, on the same threads, without stopping. Seconds are those from a Polars frame to a model, whatever a
library does to it on the way; NDCG is that of held-out groups, gains 2^grade - 1. The means over the seeds.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

FEATURES, GROUP, PLACES = 136, 120, (1, 3, 5, 10)
NAMES = [f"x{i}" for i in range(FEATURES)]

Fit = Callable[["pl.DataFrame", int], Callable[["pl.DataFrame"], "np.ndarray"]]


def main() -> None:
    """Measures every library on every seed, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--test", type=int, default=120_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--catboost", action="store_true", help="CatBoost's YetiRank too, which takes long")
    args = parser.parse_args()
    for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    import numpy as np

    found: dict[str, list[list[float]]] = {}
    for seed in range(args.seeds):
        rows, held_out = args.rows // GROUP * GROUP, args.test // GROUP * GROUP
        both = table(rows + held_out, seed)
        train, test = both.head(rows), both.tail(held_out)
        for name, fit in libraries(args).items():
            start = time.perf_counter()
            predict = fit(train, seed)
            seconds = time.perf_counter() - start
            found.setdefault(name, []).append([seconds, *ndcg(test["grade"].to_numpy(), predict(test))])
    print(f"\n{args.rows:,} x {FEATURES}, groups of {GROUP}, {args.rounds} rounds, {args.seeds} seeds\n")
    print(f"| | seconds | {' | '.join(f'NDCG@{k}' for k in PLACES)} |")
    print(f"|{'---|' * (len(PLACES) + 2)}")
    for name, lines in found.items():
        seconds, *values = np.mean(lines, axis=0)
        spread = np.std(lines, axis=0)[-1]
        print(f"| {name} | {seconds:.2f} | {' | '.join(f'{v:.4f}' for v in values)} (±{spread:.4f}) |", flush=True)


def table(rows: int, seed: int) -> pl.DataFrame:
    """Features, grades and queries."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    x[:, 30:60] = np.exp(x[:, 30:60])
    x[:, 60:90] = rng.poisson(3, (rows, 30))
    query = np.arange(rows) // GROUP
    z = x[:, 0] + 0.7 * np.sin(2 * x[:, 1]) * x[:, 2] + 0.5 * np.log(x[:, 30]) * x[:, 3] + 0.3 * np.minimum(x[:, 60], 5)
    z += x[:, 4:14] @ np.linspace(0.5, 0.05, 10).astype(np.float32) + 1.5 * rng.normal(size=rows)
    z += rng.normal(size=rows // GROUP + 1)[query]
    grade = np.digitize(z, np.quantile(z, [0.52, 0.84, 0.97, 0.99]))
    return pl.DataFrame(x, schema=NAMES).with_columns(grade=pl.Series(grade), query=pl.Series(query))


def ndcg(grade: np.ndarray, scores: np.ndarray) -> list[float]:
    """NDCG at each of `PLACES` in the mean over groups; 1 where there is nothing to gain."""
    import numpy as np

    gains = (2.0**grade - 1).reshape(-1, GROUP)
    order = np.argsort(-scores.reshape(-1, GROUP), axis=1, kind="stable")
    by_score, best = np.take_along_axis(gains, order, axis=1), -np.sort(-gains, axis=1)
    discount = 1 / np.log2(np.arange(GROUP) + 2)
    found, ideal = np.cumsum(by_score * discount, axis=1), np.cumsum(best * discount, axis=1)
    return [float(np.where(ideal[:, k - 1] > 0, found[:, k - 1] / ideal[:, k - 1], 1).mean()) for k in PLACES]


def libraries(args: argparse.Namespace) -> dict[str, Fit]:
    """A fit for each library and loss: a frame and a seed in, a function from a frame to scores out."""

    def ours(loss: str, policy: str) -> Fit:
        def fit(frame: pl.DataFrame, seed: int) -> Callable[[pl.DataFrame], np.ndarray]:
            import polars_taiga as tg

            model = frame.taiga.fit_gbdt(
                "grade", *NAMES, group="query", loss=loss, policy=policy, rounds=args.rounds, seed=seed,
                n_threads=args.threads, progress=False, min_child_weight=1e-3 if policy == "leafwise" else None,
            )  # fmt: skip
            return lambda test: test.select(tg.predict(model)).to_series().to_numpy()

        return fit

    def lightgbm(objective: str) -> Fit:
        def fit(frame: pl.DataFrame, seed: int) -> Callable[[pl.DataFrame], np.ndarray]:
            import lightgbm as lgb
            import numpy as np

            sizes = np.full(frame.height // GROUP, GROUP)
            data = lgb.Dataset(frame.select(NAMES).to_arrow(), frame["grade"].to_numpy(), group=sizes)
            params = {"objective": objective, "num_leaves": 31, "learning_rate": 0.1, "verbosity": -1, "seed": seed}
            model = lgb.train({**params, "num_threads": args.threads}, data, num_boost_round=args.rounds)
            return lambda test: np.asarray(model.predict(test.select(NAMES).to_numpy()))

        return fit

    def xgboost(objective: str) -> Fit:
        def fit(frame: pl.DataFrame, seed: int) -> Callable[[pl.DataFrame], np.ndarray]:
            import numpy as np
            import xgboost as xgb

            query = frame["query"].to_numpy()
            data = xgb.QuantileDMatrix(frame.select(NAMES), frame["grade"].to_numpy(), qid=query, nthread=args.threads)
            params = {
                "objective": objective, "tree_method": "hist", "eta": 0.1, "grow_policy": "lossguide", "max_leaves": 31,
                "max_depth": 0, "nthread": args.threads, "seed": seed,
            }  # fmt: skip
            model = xgb.train(params, data, num_boost_round=args.rounds)
            return lambda test: np.asarray(model.inplace_predict(test.select(NAMES).to_numpy()))

        return fit

    def catboost(frame: pl.DataFrame, seed: int) -> Callable[[pl.DataFrame], np.ndarray]:
        import catboost
        import numpy as np

        pool = catboost.Pool(
            frame.select(NAMES).to_numpy(), frame["grade"].to_numpy(), group_id=frame["query"].to_numpy()
        )
        model = catboost.CatBoost(
            {"loss_function": "YetiRank", "iterations": args.rounds, "learning_rate": 0.1, "depth": 6, "verbose": False,
             "thread_count": args.threads, "random_seed": seed, "allow_writing_files": False}
        )  # fmt: skip
        model.fit(pool)
        return lambda test: np.asarray(model.predict(test.select(NAMES).to_numpy()))

    found: dict[str, Fit] = {}
    for policy in ("leafwise", "symmetric"):
        for loss in ("lambdarank", "xendcg", "pairwise", "yetirank"):
            found[f"polars-taiga {loss}, {policy}"] = ours(loss, policy)
    found["LightGBM lambdarank"], found["LightGBM rank_xendcg"] = lightgbm("lambdarank"), lightgbm("rank_xendcg")
    found["XGBoost rank:ndcg"], found["XGBoost rank:pairwise"] = xgboost("rank:ndcg"), xgboost("rank:pairwise")
    return found | ({"CatBoost YetiRank": catboost} if args.catboost else {})


if __name__ == "__main__":
    main()

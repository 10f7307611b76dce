"""Ranking beside LightGBM, XGBoost and CatBoost: `python -m benchmarks.ranking [--rows 200000] [--catboost]`.

A table like MSLR-WEB30K, from a seed: 136 features (some heavy-tailed, some counts, most of them noise), grades from 0
to 4 of which most are low, groups of 120 rows. Or, by `--example DIR`, LightGBM's `examples/lambdarank` (its files
`rank.train`, `rank.test` and their `.query`), by that example's own `train.conf`, in five folds of all its queries,
since those of `rank.test` are 50. Each library grows trees of 31 leaves (CatBoost: symmetric ones of depth 6) at the
same rate, on the same threads, without stopping; leafwise ones by LightGBM's defaults, in XGBoost too: an `l2` of 0,
hessians of 0.001 a leaf and, but for XGBoost, which has no such rule, 20 rows. Seconds are those from a Polars frame
to a model, whatever a library does to it on the way; NDCG is that of held-out groups, gains 2^grade - 1, in the mean
over groups and seeds. The last column: by how much the best NDCG of the other libraries is above it, with the
standard error of that from the differences by group.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

FEATURES, GROUP, PLACES, FOLDS = 136, 120, (1, 3, 5, 10), 5

Fit = Callable[["pl.DataFrame", int], Callable[["pl.DataFrame"], "np.ndarray"]]


def main() -> None:
    """Measures every library on every seed, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--test", type=int, default=120_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--example", type=Path, help="the folder of LightGBM's lambdarank example")
    parser.add_argument("--device", default="cpu", help="of ours and of XGBoost's: cpu or cuda")
    parser.add_argument("--catboost", action="store_true", help="CatBoost too, which takes long")
    parser.add_argument("--only", default="", help="libraries and losses whose name has this in it")
    args = parser.parse_args()
    for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    import numpy as np

    seconds: dict[str, list[float]] = {}
    values: dict[str, list[np.ndarray]] = {}
    groups: list[np.ndarray] = []
    for seed, train, test in example(args) if args.example else generated(args):
        # The example has the same groups for every seed.
        groups.append(test["query"].unique(maintain_order=True).to_numpy() + (0 if args.example else seed << 32))
        for name, fit in libraries(args).items():
            if args.only not in name:
                continue
            start = time.perf_counter()
            predict = fit(train, seed)
            seconds.setdefault(name, []).append(time.perf_counter() - start)
            values.setdefault(name, []).append(ndcg(test, predict(test)))
    what = "LightGBM's example" if args.example else f"{args.rows:,} x {FEATURES}, groups of {GROUP}"
    print(f"\n{what}, {args.rounds} rounds, {args.seeds} seeds\n")
    print(f"| | seconds | {' | '.join(f'NDCG@{k}' for k in PLACES)} | best of the others at each |")
    print(f"|{'---|' * (len(PLACES) + 3)}")
    group = np.unique(np.concatenate(groups), return_inverse=True)[1]
    found = {name: np.concatenate(lines) for name, lines in values.items()}
    others = {name: lines.mean(axis=0) for name, lines in found.items() if not name.startswith("polars-taiga")}
    for name, lines in found.items():
        means = " | ".join(f"{v:.4f}" for v in lines.mean(axis=0))
        gaps = []
        for k in range(len(PLACES) if others else 0):
            best = max(others, key=lambda other, k=k: others[other][k])
            gap = (found[best][:, k] - lines[:, k]) / others[best][k] * 100
            of_group = np.bincount(group, gap) / np.bincount(group)
            gaps.append(f"{gap.mean():+.2f} ± {of_group.std() / np.sqrt(len(of_group)):.2f} %")
        print(f"| {name} | {np.mean(seconds[name]):.2f} | {means} | {', '.join(gaps)} |", flush=True)


def generated(args: argparse.Namespace) -> Iterator[tuple[int, pl.DataFrame, pl.DataFrame]]:
    """For each seed its training rows and its held-out ones."""
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        rows, held_out = args.rows // GROUP * GROUP, args.test // GROUP * GROUP
        both = table(rows + held_out, seed)
        yield seed, both.head(rows), both.tail(held_out)


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
    names = [f"x{i}" for i in range(FEATURES)]
    return pl.DataFrame(x, schema=names).with_columns(grade=pl.Series(grade), query=pl.Series(query))


def example(args: argparse.Namespace) -> Iterator[tuple[int, pl.DataFrame, pl.DataFrame]]:
    """For each seed and fold the rows of the other queries and the fold's own."""
    import numpy as np
    import polars as pl
    from sklearn.datasets import load_svmlight_files

    x, grade, more, of_more = load_svmlight_files([str(args.example / name) for name in ("rank.train", "rank.test")])
    sizes = np.concatenate([np.loadtxt(args.example / f"rank.{part}.query", dtype=int) for part in ("train", "test")])
    query = np.repeat(np.arange(len(sizes)), sizes)
    both = np.vstack([x.toarray(), more.toarray()]).astype(np.float32)
    frame = pl.DataFrame(both, schema=[f"x{i}" for i in range(both.shape[1])])
    frame = frame.with_columns(grade=np.concatenate([grade, of_more]).astype(int), query=query)
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        fold = np.random.default_rng(seed).permutation(len(sizes)) % FOLDS
        for out in range(FOLDS):
            yield seed, frame.filter(fold[query] != out), frame.filter(fold[query] == out)


def ndcg(test: pl.DataFrame, scores: np.ndarray) -> np.ndarray:
    """NDCG of each group at each of `PLACES`; 1 where there is nothing to gain."""
    import numpy as np

    query, gains = test["query"].rle_id().to_numpy(), 2.0 ** test["grade"].to_numpy() - 1

    def dcg(by: np.ndarray) -> np.ndarray:
        order = np.lexsort((-by, query))
        place = np.arange(len(order)) - np.searchsorted(query, query[order])
        gain = gains[order] / np.log2(place + 2)
        return np.column_stack([np.bincount(query, gain * (place < k)) for k in PLACES])

    best = dcg(gains)
    return np.where(best > 0, dcg(scores) / np.where(best > 0, best, 1), 1.0)


def features(frame: pl.DataFrame) -> list[str]:
    """The names of the features."""
    return [name for name in frame.columns if name.startswith("x")]


def libraries(args: argparse.Namespace) -> dict[str, Fit]:
    """A fit for each library and loss: a frame and a seed in, a function from a frame to scores out."""
    # What LightGBM's example says beside the defaults.
    strict = args.example is not None

    def ours(loss: str, policy: str) -> Fit:
        def fit(frame: pl.DataFrame, seed: int) -> Callable[[pl.DataFrame], np.ndarray]:
            import polars_taiga as tg

            params: dict[str, Any] = {}
            if policy == "leafwise":
                params = {"min_child_weight": 1e-3, "min_data_in_leaf": 20, "l2": 0.0}
            if strict:
                params = {"row_sample": "bernoulli", "row_fraction": 0.9}
                # Symmetric trees have the noise on splits' scores that CatBoost's have by default.
                strict_leaves = {"min_data_in_leaf": 50, "min_child_weight": 5.0, "l2": 0.0}
                params |= strict_leaves if policy == "leafwise" else {"random_strength": 1.0}
            model = frame.taiga.fit_gbdt(
                "grade", *features(frame), group="query", loss=loss, policy=policy, rounds=args.rounds, seed=seed,
                n_threads=args.threads, progress=False, device=args.device, **params,
            )  # fmt: skip
            return lambda test: test.select(tg.predict(model)).to_series().to_numpy()

        return fit

    def lightgbm(objective: str) -> Fit:
        def fit(frame: pl.DataFrame, seed: int) -> Callable[[pl.DataFrame], np.ndarray]:
            import lightgbm as lgb
            import numpy as np

            sizes = frame["query"].rle().struct.field("len").to_numpy()
            x = frame.select(features(frame))
            data = lgb.Dataset(x.to_arrow(), frame["grade"].to_numpy(), group=sizes)
            params = {"objective": objective, "num_leaves": 31, "learning_rate": 0.1, "verbosity": -1, "seed": seed}
            if strict:
                params |= {"bagging_freq": 1, "bagging_fraction": 0.9, "min_data_in_leaf": 50}
                params |= {"min_sum_hessian_in_leaf": 5.0}
            model = lgb.train({**params, "num_threads": args.threads}, data, num_boost_round=args.rounds)
            return lambda test: np.asarray(model.predict(test.select(x.columns).to_numpy()))

        return fit

    def xgboost(objective: str) -> Fit:
        def fit(frame: pl.DataFrame, seed: int) -> Callable[[pl.DataFrame], np.ndarray]:
            import numpy as np
            import xgboost as xgb

            query, x = frame["query"].to_numpy(), frame.select(features(frame))
            data = xgb.QuantileDMatrix(x, frame["grade"].to_numpy(), qid=query, nthread=args.threads)
            params = {
                "objective": objective, "tree_method": "hist", "eta": 0.1, "grow_policy": "lossguide", "max_leaves": 31,
                "max_depth": 0, "nthread": args.threads, "seed": seed, "subsample": 0.9 if strict else 1.0,
                "lambda": 0.0, "min_child_weight": 5.0 if strict else 1e-3, "device": args.device,
            }  # fmt: skip
            model = xgb.train(params, data, num_boost_round=args.rounds)
            return lambda test: np.asarray(model.inplace_predict(test.select(x.columns).to_numpy()))

        return fit

    def catboost(loss: str) -> Fit:
        def fit(frame: pl.DataFrame, seed: int) -> Callable[[pl.DataFrame], np.ndarray]:
            import catboost
            import numpy as np

            query, x = frame["query"].to_numpy(), frame.select(features(frame))
            pool = catboost.Pool(x.to_numpy(), frame["grade"].to_numpy(), group_id=query)
            model = catboost.CatBoost(
                {"loss_function": loss, "iterations": args.rounds, "learning_rate": 0.1, "depth": 6, "verbose": False,
                 "thread_count": args.threads, "random_seed": seed, "allow_writing_files": False}
            )  # fmt: skip
            model.fit(pool)
            return lambda test: np.asarray(model.predict(test.select(x.columns).to_numpy()))

        return fit

    found: dict[str, Fit] = {}
    for policy in ("leafwise", "symmetric"):
        for loss in ("lambdarank", "xendcg", "pairwise", "yetirank"):
            found[f"polars-taiga {loss}, {policy}"] = ours(loss, policy)
    found["LightGBM lambdarank"], found["LightGBM rank_xendcg"] = lightgbm("lambdarank"), lightgbm("rank_xendcg")
    found["XGBoost rank:ndcg"], found["XGBoost rank:pairwise"] = xgboost("rank:ndcg"), xgboost("rank:pairwise")
    if args.catboost:
        found["CatBoost YetiRank"], found["CatBoost QueryRMSE"] = catboost("YetiRank"), catboost("QueryRMSE")
    return found


if __name__ == "__main__":
    main()

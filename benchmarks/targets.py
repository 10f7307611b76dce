"""Several targets in one tree, or with a tree each in one fit, beside a model each: `python -m benchmarks.targets`.

Options: `[--targets 2,5,20] [--rows 100000]`. Tables of 28 features from a seed. Targets are mixtures of a few
functions of the features, as several measurements of one thing are, or (`--apart`) each has functions of its own.
Every fit has as many rounds, the same rate and trees of the same depth; with `--stop 50` a fit ends as soon as a
tenth of its rows, which no tree sees, have not got better for 50 rounds (`--rounds` is the most then), and each model
of its own so. On held-out rows: the error, the mean over the targets of the root of the mean squared error in units
of the target's deviation, beside that of one model each; and the seconds of the fit (from a Polars frame, preparation
counted), the least of the seeds: the clock's, or with `--processor` those of all threads together, which other jobs
disturb less. `--rates 0.1,0.15` fits one tree at each of these rates, a model each at 0.1. `--even 0.1` asks beside it
how long one tree takes until it is no worse than a model each by so many %: the least number of rounds for which that
is so is looked for on the held-out rows, and fitted once more. `--device cuda` fits ours on a GPU. The peers:
XGBoost's `multi_output_tree`, CatBoost's `MultiRMSE`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from polars_taiga import Model

FEATURES = 28
FUNCTIONS = 8

Predict = Callable[["pl.DataFrame"], "np.ndarray"]
Fit = Callable[["pl.DataFrame"], Predict]


def main() -> None:
    """Measures every library on every seed, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--test", type=int, default=100_000)
    parser.add_argument("--targets", default="2,5,20")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--policies", default="symmetric,depthwise,leafwise")
    parser.add_argument("--stop", type=int, help="rounds without a better error on a tenth of the rows that end a fit")
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--rates", default="0.1", help="learning rates of one tree for all targets")
    parser.add_argument("--processor", action="store_true", help="seconds of the processor, not of the clock")
    parser.add_argument(
        "--even", type=float, help="time one tree until it is worse than a model each by so many %% at most"
    )
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--device", default="cpu", help="where ours are fitted")
    args = parser.parse_args()
    for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    import numpy as np
    import polars as pl

    if args.device != "cpu":
        # The first fit opens the GPU.
        table(1000, 1, 0, apart=False).taiga.fit_gbdt("y0", "x0", rounds=1, device=args.device)
    clock = time.process_time if args.processor else time.perf_counter
    for count in [int(count) for count in args.targets.split(",")]:
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(args.seeds):
            both = table(args.rows + args.test, count, seed, apart=args.apart)
            train, test = both[: args.rows].with_columns(held=pl.int_range(pl.len()) % 10 == 9), both[args.rows :]
            truth = test.select(f"y{k}" for k in range(count)).to_numpy()
            error_of = partial(mean_error, truth)
            kept: dict[str, Model] = {}
            for name, fit in libraries(args, count, kept).items():
                start = clock()
                predict = fit(train)
                seconds = clock() - start
                found.setdefault(name, []).append((error_of(predict(test)), seconds))
                if args.even is None or name not in kept:
                    continue
                policy, rate = name.split(", one tree at ")
                most = found[f"{policy}, a model each"][-1][0] * (1 + args.even / 100)
                rounds = rounds_until(kept[name], test, truth, most)
                if rounds is not None:
                    start = clock()
                    model = fit_together(args, count, train, policy, "one_tree", float(rate), rounds)
                    seconds = clock() - start
                    found.setdefault(f"{name} until even", []).append((error_of(predict_all(model, test)), seconds))
        rounds = f"at most {args.rounds} rounds, stopped after {args.stop}" if args.stop else f"{args.rounds} rounds"
        print(f"\n{args.rows:,} x {FEATURES}, {count} targets{', apart' * args.apart}, {rounds}\n")
        print("| | error | to a model each | seconds | to a model each |\n|---|---|---|---|---|")
        for name, lines in found.items():
            each = found.get(f"{name.split(',')[0]}, a model each", lines)
            (error, seconds), (error_each, seconds_each) = (
                (float(np.mean([e for e, _ in of])), min(s for _, s in of)) for of in (lines, each)
            )
            change, ratio = f"{100 * (error / error_each - 1):+.2f} %", f"{seconds_each / seconds:.2f}"
            print(f"| {name} | {error:.5f} | {change} | {seconds:.2f} | {ratio} times as fast |", flush=True)


def table(rows: int, targets: int, seed: int, *, apart: bool) -> pl.DataFrame:
    """Features, and targets that are mixtures of functions of a few of them, with noise."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, FEATURES)).astype(np.float32)

    def function(i: int) -> np.ndarray:
        a, b, c = (x[:, rng.integers(FEATURES)] for _ in range(3))
        made = [np.sin(2 * a) + b, a * b, np.where(a > 0.3, 1.5, -0.5) + 0.5 * c, np.abs(a) - 0.7 * b * (c > 0)]
        return np.asarray(made[i % len(made)])

    functions = [function(i) for i in range(FUNCTIONS)]
    out = pl.DataFrame({f"x{i}": x[:, i] for i in range(FEATURES)})
    for k in range(targets):
        own = [function(i) for i in range(k, k + 3)] if apart else functions
        signal = sum(weight * f for weight, f in zip(rng.normal(size=len(own)), own, strict=True))
        noise = 0.5 * np.std(signal) * rng.normal(size=rows)
        out = out.with_columns(pl.Series(f"y{k}", (10.0**k if k < 3 else 1.0) * (signal + noise)))
    return out


def mean_error(truth: np.ndarray, predicted: np.ndarray) -> float:
    """The mean over the targets of the root of the mean squared error in units of the target's deviation."""
    import numpy as np

    return float((np.sqrt(((predicted - truth) ** 2).mean(axis=0)) / truth.std(axis=0)).mean())


def fit_together(
    args: argparse.Namespace,
    count: int,
    frame: pl.DataFrame,
    policy: str,
    strategy: str,
    rate: float,
    rounds: int | None = None,
) -> Model:
    """The model of all targets, of so many rounds or as many as the arguments say."""
    import polars as pl

    names, targets = features(), pl.struct(f"y{k}" for k in range(count))
    own = params(args, policy, rate) | ({} if rounds is None else {"rounds": rounds})
    return frame.taiga.fit_gbdt(targets, *names, multi_strategy=strategy, **own)


def predict_all(model: Model, frame: pl.DataFrame, rounds: int | None = None) -> np.ndarray:
    """The predictions of a model of several targets, a column each."""
    return model.predict(frame, rounds=rounds).struct.unnest().to_numpy()


def rounds_until(model: Model, test: pl.DataFrame, truth: np.ndarray, most: float) -> int | None:
    """The least number of rounds after which a model's error is `most`, if it ever is."""

    def good(rounds: int) -> bool:
        return mean_error(truth, predict_all(model, test, rounds)) <= most

    if not good(model.rounds):
        return None
    few, enough = 0, model.rounds
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if good(middle) else (middle, enough)
    return enough


def features() -> list[str]:
    """The names of the features."""
    return [f"x{i}" for i in range(FEATURES)]


def params(args: argparse.Namespace, policy: str, rate: float = 0.1) -> dict[str, Any]:
    """The parameters of our fits."""
    size = {"leaves": 2**args.depth} if policy == "leafwise" else {"depth": args.depth}
    own = {"n_threads": args.threads, "device": args.device, "progress": False}
    stop = {"eval": "held", "early_stopping": args.stop} if args.stop else {}
    return {"policy": policy, **size, "rounds": args.rounds, "learning_rate": rate, **stop, **own}


def libraries(args: argparse.Namespace, count: int, kept: dict[str, Model]) -> dict[str, Fit]:
    """A fit for each way: a frame in, a function from a frame to predictions out. Keeps models of one tree by name."""
    import polars_taiga as tg

    names, targets = features(), [f"y{k}" for k in range(count)]

    def together(policy: str, strategy: str, rate: float, name: str | None = None) -> Fit:
        def fit(frame: pl.DataFrame) -> Predict:
            model = fit_together(args, count, frame, policy, strategy, rate)
            if name is not None:
                kept[name] = model
            return lambda test: predict_all(model, test)

        return fit

    def model_each(policy: str) -> Fit:
        def fit(frame: pl.DataFrame) -> Predict:
            models = [frame.taiga.fit_gbdt(target, *names, **params(args, policy)) for target in targets]
            return lambda test: test.select(tg.predict(m).alias(str(k)) for k, m in enumerate(models)).to_numpy()

        return fit

    out: dict[str, Fit] = {}
    for policy in args.policies.split(","):
        out[f"{policy}, a model each"] = model_each(policy)
        for rate in [float(rate) for rate in args.rates.split(",")]:
            name = f"{policy}, one tree at {rate:g}"
            out[name] = together(policy, "one_tree", rate, name)
        out[f"{policy}, a tree each"] = together(policy, "tree_each", 0.1)
    return out | (peers(args, names, targets) if args.peers else {})


def peers(args: argparse.Namespace, names: list[str], targets: list[str]) -> dict[str, Fit]:
    """XGBoost's and CatBoost's trees of several targets, and XGBoost's of one each."""
    import catboost
    import xgboost as xgb

    def xgboost(strategy: str) -> Fit:
        def fit(frame: pl.DataFrame) -> Predict:
            # Of a common unit: XGBoost adds squared errors as they are.
            y = frame.select(targets).to_numpy()
            mean, deviation = y.mean(axis=0), y.std(axis=0)
            x, y = frame.select(names).to_numpy(), (y - mean) / deviation
            held = frame["held"].to_numpy() & bool(args.stop)
            data = xgb.QuantileDMatrix(x[~held], y[~held], nthread=args.threads)
            eval_data = [(xgb.QuantileDMatrix(x[held], y[held], ref=data), "held")] if args.stop else []
            stop = {"early_stopping_rounds": args.stop, "evals": eval_data, "verbose_eval": False} if args.stop else {}
            own = {"tree_method": "hist", "eta": 0.1, "max_depth": args.depth, "nthread": args.threads}
            model = xgb.train({**own, "multi_strategy": strategy}, data, num_boost_round=args.rounds, **stop)
            trees = (0, model.best_iteration + 1 if args.stop else 0)
            return lambda test: model.inplace_predict(test.select(names).to_numpy(), trees) * deviation + mean

        return fit

    def of_catboost(frame: pl.DataFrame) -> Predict:
        y = frame.select(targets).to_numpy()
        mean, deviation = y.mean(axis=0), y.std(axis=0)
        model = catboost.CatBoostRegressor(
            loss_function="MultiRMSE", iterations=args.rounds, learning_rate=0.1, depth=args.depth, l2_leaf_reg=1.0,
            thread_count=args.threads, verbose=False, allow_writing_files=False, boost_from_average=True,
        )  # fmt: skip
        x, y, held = frame.select(names).to_numpy(), (y - mean) / deviation, frame["held"].to_numpy() & bool(args.stop)
        stop = (
            {"eval_set": (x[held], y[held]), "early_stopping_rounds": args.stop, "use_best_model": True}
            if args.stop
            else {}
        )
        model.fit(x[~held], y[~held], **stop)
        return lambda test: model.predict(test.select(names).to_numpy()) * deviation + mean

    return {
        "XGBoost, a model each": xgboost("one_output_per_tree"),
        "XGBoost, one tree": xgboost("multi_output_tree"),
        "CatBoost, MultiRMSE": of_catboost,
    }


if __name__ == "__main__":
    main()

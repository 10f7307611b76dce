"""Random forests beside scikit-learn's, LightGBM's and XGBoost's: `python -m benchmarks.forest [--part accuracy|speed]`.

Accuracy: the same trees, depth and features, over several seeds, each a random split (a quarter held
out) and the libraries' own seed; adult and housing and weather (their numeric columns) and
scikit-learn's digits. Missing values are filled with -999 for all, since scikit-learn's splitters and
ours would send them elsewhere. Speed: the synthetic table, best of `--rounds`, libraries in turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from benchmarks.data import TARGET, real, synthetic
from benchmarks.harness import number, progress, table


def load(name: str) -> tuple[pl.DataFrame, bool]:
    """A table without missing values, and whether its target is one of classes."""
    if name == "digits":
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        frame = pl.DataFrame({f"p{i}": x[:, i].astype(np.float32) for i in range(x.shape[1])})
        return frame.with_columns(pl.Series(TARGET, y)), True
    frame, task = real(name)
    frame = frame.filter(pl.col(TARGET).is_not_null())
    return frame.with_columns(pl.exclude(TARGET).cast(pl.Float32).fill_null(-999.0)), task == "binary"


def ours(frame: pl.DataFrame, classes: bool, **params: Any) -> bytes:
    """Our forest's bytes."""
    import polars_taiga as tg

    target = pl.col(TARGET) if classes else pl.col(TARGET).cast(pl.Float64)
    model: bytes = frame.select(tg.fit_forest(target, pl.exclude(TARGET), **params)).item()
    return model


def score(classes: bool, y: np.ndarray[Any, Any], predicted: np.ndarray[Any, Any]) -> float:
    """Accuracy, or R²."""
    if classes:
        return float((y == predicted).mean())
    return float(1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def sklearn(frame: pl.DataFrame, classes: bool, threads: int, **params: Any) -> Any:
    """scikit-learn's forest."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestClassifier if classes else RandomForestRegressor
    x = frame.drop(TARGET).to_numpy().astype(np.float32)
    return kind(n_jobs=threads, **params).fit(x, frame[TARGET].to_numpy())


def accuracy(args: argparse.Namespace) -> None:
    """Held-out and out-of-bag scores, ours and scikit-learn's."""
    import polars_taiga as tg

    body = []
    for name in args.tables.split(","):
        frame, classes = load(name)
        if name == "weather":
            frame = frame.sample(min(frame.height, 20_000), seed=1)
        scores: dict[str, list[tuple[float, float]]] = {}
        for seed in range(args.seeds):
            order = np.random.default_rng([seed, 11]).permutation(frame.height)
            cut = frame.height // 4
            train, test = frame[np.sort(order[cut:])], frame[np.sort(order[:cut])]
            y, x = test[TARGET].to_numpy(), test.drop(TARGET).to_numpy().astype(np.float32)
            depth = args.depth or None
            # The same number of features for all of them.
            features = "sqrt" if classes else 1.0 / 3.0
            share = {"trees": args.trees, "depth": depth, "max_features": features, "seed": seed, "n_threads": args.threads}
            for splitter in ("histogram", "exact", "random"):
                model = ours(train, classes, splitter=splitter, **share)
                predicted = test.select(p=tg.predict(model, output="class" if classes else "auto"))["p"].to_numpy()
                oob = tg.Model(model).oob_score
                scores.setdefault(f"taiga {splitter}", []).append((score(classes, y, predicted), oob))
            peer = sklearn(
                train, classes, args.threads, n_estimators=args.trees, max_depth=depth, max_features=features, random_state=seed, oob_score=True
            )
            scores.setdefault("scikit-learn", []).append((score(classes, y, peer.predict(x)), peer.oob_score_))
            progress(f"{name} seed {seed}")
        for library, pairs in scores.items():
            held, oob = zip(*pairs, strict=True)
            paired = [a - b for (a, _), (b, _) in zip(pairs, scores["scikit-learn"], strict=True)]
            error = statistics.stdev(paired) / len(paired) ** 0.5 if len(paired) > 1 else 0.0
            better = f"{statistics.fmean(paired):+.5f} ± {error:.5f}"
            body.append([name, library, number(statistics.fmean(held), 5), better, number(statistics.fmean(oob), 5)])
    print(table(["table", "library", "accuracy / R² held out", "better than scikit-learn", "out of bag"], body))


def speed(args: argparse.Namespace) -> None:
    """Seconds of a fit."""
    import lightgbm
    import xgboost

    frame = synthetic(args.rows, 28)
    small = frame.head(args.rows // 5)
    x, y = frame.drop(TARGET).to_numpy(), frame[TARGET].to_numpy().astype(np.int32)
    share = {"trees": args.trees, "depth": 16, "max_features": "sqrt", "n_threads": args.threads}
    part = 5 / 28
    works: dict[str, Callable[[], object]] = {
        "taiga histogram": lambda: ours(frame, True, splitter="histogram", **share),
        "taiga random": lambda: ours(frame, True, splitter="random", **share),
        "taiga exact": lambda: ours(frame, True, splitter="exact", **share),
        "taiga exact, a fifth of the rows": lambda: ours(small, True, splitter="exact", **share),
        "scikit-learn, a fifth of the rows": lambda: sklearn(
            small, True, args.threads, n_estimators=args.trees, max_depth=16, max_features="sqrt"
        ),
        "lightgbm rf": lambda: lightgbm.LGBMClassifier(
            boosting_type="rf", n_estimators=args.trees, num_leaves=1 << 16, max_depth=16, min_child_samples=1, subsample=0.632,
            subsample_freq=1, feature_fraction_bynode=part, n_jobs=args.threads, verbose=-1,
        ).fit(x, y),
        "xgboost rf": lambda: xgboost.XGBRFClassifier(
            n_estimators=args.trees, max_depth=16, min_child_weight=0, subsample=0.632, colsample_bynode=part, tree_method="hist", n_jobs=args.threads
        ).fit(x, y),
    }
    seconds = dict.fromkeys(works, float("inf"))
    for _ in range(args.rounds):
        for name, work in works.items():
            if args.only and not any(wanted in name for wanted in args.only.split(",")):
                continue
            start = time.perf_counter()
            work()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
            progress(f"{name}: {seconds[name]:.2f} s")
    print(table(["library", f"seconds, {args.trees} trees of depth 16, {args.rows} x 28"], [[k, number(v, 2)] for k, v in seconds.items()]))


def main() -> None:
    """Measures what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["accuracy", "speed"], default="accuracy")
    parser.add_argument("--tables", default="adult,housing,digits,weather")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--depth", type=int, default=0, help="0: without limit")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    accuracy(args) if args.part == "accuracy" else speed(args)


if __name__ == "__main__":
    main()

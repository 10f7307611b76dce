"""Categorical columns beside CatBoost and LightGBM: `python -m benchmarks.categories [--tables adult,interaction]`.

`adult` is the real table with all of its 14 columns, eight of them text; `interaction` is synthetic:
three columns of 100,000 categories each, two of which act together. Seconds count from a Polars
frame to a model, whatever a library does to it on the way; each library gets its own defaults, at
the same number of trees and learning rate.
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
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.data import REAL, TARGET
from benchmarks.harness import RESULTS, Results, number, progress, table, version

Fit = Callable[[pl.DataFrame, pl.DataFrame, int], tuple[float, np.ndarray]]


def adult(seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All columns of adult; a quarter is held out."""
    df = pl.read_csv(REAL / "adult.csv", infer_schema_length=10_000)
    df = df.with_columns(pl.col("income").str.contains(">50K").alias(TARGET)).drop("income")
    held_out = pl.Series(np.random.default_rng(seed).random(df.height) < 0.25)
    return df.filter(~held_out), df.filter(held_out)


def interaction(seed: int, rows: int = 1_000_000, categories: int = 100_000) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Three columns of many categories: frequent ones matter by themselves, two of them together."""
    rng = np.random.default_rng(seed)
    # A few categories are frequent, most are rare, as identifiers are.
    codes = [np.minimum((categories ** rng.random(rows)).astype(np.int64), categories) - 1 for _ in range(3)]
    x = rng.standard_normal((2, rows)).astype(np.float32)
    effects = [np.random.default_rng([7, i]).standard_normal(categories) for i in range(3)]
    together = np.sin((codes[0] * 2_654_435_761 + codes[1] * 40_503) % 1_000_003)
    score = sum(0.3 * e[c] for e, c in zip(effects, codes, strict=True)) + 1.5 * together + 0.3 * x[0]
    target = rng.random(rows) < 1 / (1 + np.exp(-score))
    columns: dict[str, Any] = {f"c{i}": pl.Series(c).cast(pl.String) for i, c in enumerate(codes)}
    df = pl.DataFrame(columns | {"x0": x[0], "x1": x[1], TARGET: target})
    return df.head(rows * 4 // 5), df.slice(rows * 4 // 5)


def text_columns(df: pl.DataFrame) -> list[str]:
    """The categorical ones."""
    return [c for c in df.columns if df[c].dtype == pl.String]


def ours(trees: int, rate: float, **params: Any) -> Fit:
    """A fit of polars-taiga."""

    def fit(train: pl.DataFrame, test: pl.DataFrame, seed: int) -> tuple[float, np.ndarray]:
        import polars_taiga as tg

        settings = {"rounds": trees, "learning_rate": rate, "seed": seed, "n_threads": 2} | params
        expr = tg.fit_gbdt(TARGET, pl.exclude(TARGET), **settings)
        start = time.perf_counter()
        model = train.lazy().select(expr).collect().item()
        seconds = time.perf_counter() - start
        return seconds, test.select(tg.predict(model)).to_series().to_numpy()

    return fit


def catboost(trees: int, rate: float, **params: Any) -> Fit:
    """A fit of CatBoost."""

    def fit(train: pl.DataFrame, test: pl.DataFrame, seed: int) -> tuple[float, np.ndarray]:
        from catboost import CatBoostClassifier, Pool

        def frame(df: pl.DataFrame) -> Any:
            return df.drop(TARGET).with_columns(pl.col(pl.String).fill_null("missing")).to_pandas()

        start = time.perf_counter()
        settings = {"iterations": trees, "learning_rate": rate, "random_seed": seed, "thread_count": 2} | params
        model = CatBoostClassifier(verbose=0, allow_writing_files=False, **settings)
        model.fit(Pool(frame(train), train[TARGET].to_numpy().astype(np.int8), cat_features=text_columns(train)))
        seconds = time.perf_counter() - start
        return seconds, model.predict_proba(frame(test))[:, 1]

    return fit


def lightgbm(trees: int, rate: float, **params: Any) -> Fit:
    """A fit of LightGBM with its native categories."""

    def fit(train: pl.DataFrame, test: pl.DataFrame, seed: int) -> tuple[float, np.ndarray]:
        import lightgbm as lgb

        start = time.perf_counter()
        # The same codes for both frames.
        known = {c: pl.Enum(train[c].drop_nulls().unique(maintain_order=True)) for c in text_columns(train)}
        coded = [pl.col(c).cast(dtype, strict=False) for c, dtype in known.items()]
        pandas = [df.drop(TARGET).with_columns(coded).to_pandas() for df in (train, test)]
        base = {"objective": "binary", "learning_rate": rate, "num_threads": 2, "verbose": -1, "seed": seed} | params
        model = lgb.train(base, lgb.Dataset(pandas[0], train[TARGET].to_numpy()), trees)
        seconds = time.perf_counter() - start
        return seconds, model.predict(pandas[1])

    return fit


def entries(name: str, trees: int, rate: float) -> dict[str, Fit]:
    """What is compared on a table."""
    out: dict[str, Fit] = {
        "taiga": ours(trees, rate),
        "taiga, no combinations": ours(trees, rate, max_combination=1),
        # On large tables CatBoost's default combines nothing.
        "catboost": catboost(trees, rate) if name == "adult" else catboost(trees, rate, max_ctr_complexity=2),
        "catboost, no combinations": catboost(trees, rate, max_ctr_complexity=1),
        "lightgbm": lightgbm(trees, rate),
    }
    if name == "adult":
        out |= {
            "taiga depthwise": ours(trees, rate, policy="depthwise"),
            "taiga leafwise": ours(trees, rate, policy="leafwise"),
            "taiga leafwise, partition": ours(trees, rate, policy="leafwise", cat_method="partition"),
        }
    return out


def main() -> None:
    """Measures every table asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", default="adult,interaction")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--only", default="", help="comma-separated words; only entries whose names contain one")
    parser.add_argument("--out", type=Path, default=RESULTS / "categories.jsonl")
    args = parser.parse_args()
    results = Results(args.out)
    for name in args.tables.split(","):
        scores: dict[str, list[tuple[float, float, float]]] = {}
        for seed in range(args.seeds if name == "adult" else 1):
            train, test = adult(seed) if name == "adult" else interaction(seed)
            truth = test[TARGET].to_numpy()
            for entry, fit in entries(name, args.trees, args.learning_rate).items():
                if not any(word in entry for word in args.only.split(",")):
                    continue
                seconds, p = fit(train, test, seed)
                line = (roc_auc_score(truth, p), log_loss(truth, p), seconds)
                progress(f"{name}, seed {seed}: {entry}: {line}")
                library = "polars_taiga" if entry.startswith("taiga") else entry.split(",")[0]
                results.add(
                    {"table": name, "seed": seed, "entry": entry, "trees": args.trees, "version": version(library)}
                    | {"auc": line[0], "logloss": line[1], "s": line[2]}
                )
                scores.setdefault(entry, []).append(line)
        body = []
        for entry, v in scores.items():
            auc, loss = (number(statistics.fmean(x[i] for x in v), 5) for i in (0, 1))
            body.append([entry, auc, loss, number(min(x[2] for x in v), 3)])
        print(f"\n{name}, {args.trees} trees\n\n{table(['library', 'auc', 'logloss', 'best s'], body)}", flush=True)
    print(f"\nResults: {args.out}")


if __name__ == "__main__":
    main()

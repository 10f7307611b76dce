"""The spread over seeds, and forests and target encodings beside scikit-learn's: `python -m benchmarks.spread`.

Seeds: each library at its defaults with five seeds on one split of ten tables of `default_tables.py`, and the
standard deviation of the error over the seeds, as a share of its mean. Without sampling XGBoost and LightGBM draw
nothing. Forests: `fit_forest` and scikit-learn's at the defaults of each, text columns numbered by order for both.
Target encodings: text columns by `target_encode` of the training rows and its encoder on the others, and by
scikit-learn's `TargetEncoder` (`fit_transform`, `transform`); what both are worth is the error of the same ridge or
logistic regression on them.
"""

from __future__ import annotations

import argparse
import importlib
import math
import time
from typing import Any

import numpy as np
import polars as pl

from benchmarks.default_tables import TABLES, Table, load, split
from benchmarks.defaults import Array, error_of, fit_once
from benchmarks.harness import number, table

SEEDS = {"taiga": "seed", "catboost": "random_seed", "lightgbm": "random_state", "xgboost": "random_state"}


def seeds(tables: list[Table], most: int, count: int, threads: int) -> str:
    """A table of the spread of each library's error over seeds, in % of its mean."""
    rows, spreads = [], dict.fromkeys(SEEDS, 0.0)
    for t in tables:
        line: list[object] = [t.name]
        for library, name in SEEDS.items():
            errors = [fit_once(library, t, most, 0, threads, {name: seed})["error"] for seed in range(count)]
            spread = 100 * float(np.std(errors, ddof=1) / np.mean(errors))
            spreads[library] += spread / len(tables)
            line.append(f"{np.mean(errors):.5g} +- {spread:.2f} %")
        rows.append(line)
    rows.append(["mean", *(f"{spread:.2f} %" for spread in spreads.values())])
    return table(["table", *SEEDS], rows)


def _numbered(train: pl.DataFrame, test: pl.DataFrame, target: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Text columns as numbers by the order of the training rows' texts; others and nulls are missing."""
    for name in [n for n in train.columns if n != target and train[n].dtype == pl.String]:
        texts = train[name].drop_nulls().unique().sort()
        own = pl.col(name).replace_strict(texts, range(len(texts)), default=None, return_dtype=pl.Float64)
        train, test = train.with_columns(own), test.with_columns(own)
    features = [n for n in train.columns if n != target]
    as_float = pl.col(features).cast(pl.Float64)
    return train.with_columns(as_float), test.with_columns(as_float)


def _probabilities(out: pl.Series) -> Array:
    if out.dtype == pl.Struct:
        return out.struct.unnest().to_numpy()
    second = out.to_numpy()
    return np.column_stack([1 - second, second])


def forest(t: Table, most: int, threads: int) -> tuple[list[float], list[float]]:
    """The errors, and the seconds of the fits, of ours and of scikit-learn's."""
    import polars_taiga as tg

    sklearn = importlib.import_module("sklearn.ensemble")
    train, test = split(load(t, most), 0)
    classes = sorted(train[t.target].unique().to_list()) if t.kind == "classes" else []
    train, test = _numbered(train, test, t.target)
    features = [n for n in train.columns if n != t.target]
    start = time.perf_counter()
    model = train.select(tg.fit_forest(t.target, *features, n_threads=threads)).item()
    seconds = [time.perf_counter() - start]
    out = test.select(p=tg.predict(model))["p"]
    errors = [error_of(t, test, classes, _probabilities(out) if classes else out.to_numpy())]
    make = sklearn.RandomForestClassifier if classes else sklearn.RandomForestRegressor
    x, y = train[features].to_numpy(), train[t.target].to_numpy()
    start = time.perf_counter()
    peer = make(n_jobs=threads, random_state=0).fit(x, y)
    seconds.append(time.perf_counter() - start)
    rows = test[features].to_numpy()
    predicted = peer.predict_proba(rows) if classes else peer.predict(rows)
    errors.append(error_of(t, test, classes, np.asarray(predicted, dtype=np.float64)))
    return errors, seconds


def encoded(t: Table, most: int) -> list[float]:
    """The errors of a linear model of the text columns, encoded by us and by scikit-learn."""
    import polars_taiga as tg

    preprocessing = importlib.import_module("sklearn.preprocessing")
    linear = importlib.import_module("sklearn.linear_model")
    train, test = split(load(t, most), 0)
    classes = sorted(train[t.target].unique().to_list()) if t.kind == "classes" else []
    text = [n for n in train.columns if n != t.target and train[n].dtype == pl.String]
    train, test = (part.with_columns(pl.col(text).fill_null("(missing)")) for part in (train, test))
    y = train[t.target].to_numpy()
    named = train.with_columns(**{"(target)": pl.Series(y == classes[1] if classes else y)})
    own = named.select(tg.target_encode(n, "(target)").alias(n) for n in text).to_numpy()
    encoders = {n: named.select(tg.fit_target_encoder(n, "(target)")).item() for n in text}
    others = test.select(tg.encode(encoders[n], n).alias(n) for n in text).to_numpy()
    kind = "binary" if classes else "continuous"
    peer = preprocessing.TargetEncoder(target_type=kind, random_state=0)
    theirs = peer.fit_transform(train[text].to_numpy(), y)
    both = [(own, others), (theirs, peer.transform(test[text].to_numpy()))]
    errors = []
    for x, rows in both:
        model: Any = linear.LogisticRegression(max_iter=1000) if classes else linear.Ridge()
        scaler = preprocessing.StandardScaler().fit(x)
        model.fit(scaler.transform(x), y)
        predicted = model.predict_proba(scaler.transform(rows)) if classes else model.predict(scaler.transform(rows))
        errors.append(error_of(t, test, classes, np.asarray(predicted, dtype=np.float64)))
    return errors


def beside(name: str, ratios: list[float], seconds: list[float]) -> list[object]:
    """A line of figures: the log ratio in %, its mean with the standard error, how often it is below 0, and seconds."""
    values = 100 * np.log(ratios)
    spread = values.std(ddof=1) / math.sqrt(len(values))
    better = f"{int((values < 0).sum())} of {len(values)}"
    times = [number(s, 1) for s in seconds] or ["", ""]
    return [name, f"{values.mean():+.2f} +- {spread:.2f}", f"{np.median(values):+.2f}", better, *times]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=3000, help="rows of a table; of more a sample is taken")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tables", type=int, default=10, help="tables whose fits are repeated with several seeds")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--what", default="seeds,forests,encodings")
    args = parser.parse_args()
    what = args.what.split(",")
    lines = []
    if "encodings" in what:
        pairs = []
        for t in TABLES:
            frame = load(t, args.most)
            has_text = any(frame[n].dtype == pl.String for n in frame.columns if n != t.target)
            few = frame[t.target].value_counts()["count"]
            # Scikit-learn's folds want five rows of each class among the training rows.
            if has_text and (t.kind == "numbers" or (len(few) == 2 and few.min() >= 20)):
                pairs.append(encoded(t, args.most))
        lines.append(beside("target_encode, TargetEncoder", [a / b for a, b in pairs], []))
    if "forests" in what:
        for kind in ("numbers", "classes"):
            found = [forest(t, args.most, args.threads) for t in TABLES if t.kind == kind]
            of = [sum(seconds[i] for _, seconds in found) for i in range(2)]
            lines.append(beside(f"forests, {kind}", [a / b for (a, b), _ in found], of))
    if lines:
        header = ["", "% to scikit-learn, mean", "median", "better", "our seconds", "scikit-learn's"]
        print(table(header, lines), flush=True)
    if "seeds" in what:
        few = TABLES[:: max(len(TABLES) // args.tables, 1)][: args.tables]
        print(seeds(few, args.most, args.seeds, args.threads))


if __name__ == "__main__":
    main()

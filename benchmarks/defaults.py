"""Every library at its own defaults, on the tables of `default_tables.py`: `python -m benchmarks.defaults`.

A fit is given a target, features and the number of threads, and nothing else; text columns are categories, and every
library is told so in its own way. Each fits in a process of its own. What was measured is kept in
`build/benchmarks/defaults.jsonl` by library, version, settings, table, rows and split, and not measured again. The
figures are log loss for classes and RMSE for numbers; a table counts by the logarithm of the ratio of the means over
its splits, so that every table counts the same.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.data import ROOT
from benchmarks.default_tables import LARGEST, TABLES, Table, load, split
from benchmarks.harness import RESULTS, number, progress, table, version

Array: TypeAlias = npt.NDArray[np.float64]
Prediction: TypeAlias = Array
"""Numbers, or probabilities by row and class, the classes sorted."""

PEERS = ("catboost", "lightgbm", "xgboost")
CACHE = RESULTS / "defaults.jsonl"


# --- What a worker does.


def _taiga(
    train: pl.DataFrame, test: pl.DataFrame, job: Table, threads: int, settings: dict[str, Any]
) -> Callable[[], Prediction]:
    import polars_taiga as tg

    features = [name for name in train.columns if name != job.target]
    model = train.select(tg.fit_gbdt(job.target, *features, n_threads=threads, **settings)).item()

    def predict() -> Prediction:
        out = test.select(tg.predict(model).alias("p"))["p"]
        if job.kind == "numbers":
            return out.to_numpy()
        if out.dtype == pl.Struct:
            return out.struct.unnest().to_numpy()
        second = out.to_numpy()
        return np.column_stack([1 - second, second])

    return predict


def _pandas(train: pl.DataFrame, test: pl.DataFrame, job: Table) -> tuple[Any, Any, Any, list[str]]:
    """Both parts' features in pandas, the target as numbers, and the names of the text columns: categories."""
    classes = sorted(train[job.target].unique().to_list()) if job.kind == "classes" else []
    target = (
        train[job.target].replace_strict(classes, range(len(classes)), return_dtype=pl.Int64)
        if classes
        else train[job.target]
    )
    text = [name for name in train.columns if name != job.target and train[name].dtype == pl.String]
    both = []
    for part in (train, test):
        frame = part.drop(job.target).with_columns(pl.selectors.boolean().cast(pl.Int8))
        both.append(frame.to_pandas())
    return both[0], both[1], target.to_numpy(), text


def _of_sklearn(model: Any, rows: Any, job: Table) -> Callable[[], Prediction]:
    return lambda: np.asarray(
        model.predict(rows) if job.kind == "numbers" else model.predict_proba(rows), dtype=np.float64
    )


def _as_categories(train: Any, test: Any, text: list[str]) -> None:
    """Text columns as pandas' categories, those of the training rows: others are missing."""
    import pandas as pd

    for name in text:
        train[name] = train[name].astype("category")
        test[name] = pd.Categorical(test[name], categories=train[name].cat.categories)


def _xgboost(
    train: pl.DataFrame, test: pl.DataFrame, job: Table, threads: int, settings: dict[str, Any]
) -> Callable[[], Prediction]:
    import xgboost as xgb

    x, rows, y, text = _pandas(train, test, job)
    _as_categories(x, rows, text)
    make = xgb.XGBRegressor if job.kind == "numbers" else xgb.XGBClassifier
    return _of_sklearn(make(n_jobs=threads, enable_categorical=True, **settings).fit(x, y), rows, job)


def _lightgbm(
    train: pl.DataFrame, test: pl.DataFrame, job: Table, threads: int, settings: dict[str, Any]
) -> Callable[[], Prediction]:
    import lightgbm as lgb

    x, rows, y, text = _pandas(train, test, job)
    _as_categories(x, rows, text)
    # LightGBM knows no names with such characters.
    x.columns = rows.columns = [f"f{i}" for i in range(x.shape[1])]
    make = lgb.LGBMRegressor if job.kind == "numbers" else lgb.LGBMClassifier
    return _of_sklearn(make(n_jobs=threads, verbose=-1, **settings).fit(x, y), rows, job)


def _catboost(
    train: pl.DataFrame, test: pl.DataFrame, job: Table, threads: int, settings: dict[str, Any]
) -> Callable[[], Prediction]:
    import catboost as cb

    x, rows, y, text = _pandas(train, test, job)
    for part in (x, rows):
        # CatBoost's categories are text: a missing one is told by a text that no table has.
        part[text] = part[text].fillna("(missing)")
    make = cb.CatBoostRegressor if job.kind == "numbers" else cb.CatBoostClassifier
    model = make(thread_count=threads, verbose=False, allow_writing_files=False, **settings)
    return _of_sklearn(model.fit(x, y, cat_features=text), rows, job)


_LIBRARIES = {"taiga": _taiga, "xgboost": _xgboost, "lightgbm": _lightgbm, "catboost": _catboost}


def error_of(job: Table, test: pl.DataFrame, classes: list[str], predicted: Prediction) -> float:
    """RMSE, or the mean log loss with probabilities kept 1e-15 away from 0."""
    if job.kind == "numbers":
        return float(np.sqrt(np.mean((test[job.target].to_numpy() - predicted) ** 2)))
    known = test[job.target].replace_strict(classes, range(len(classes)), return_dtype=pl.Int64).to_numpy()
    p = predicted / predicted.sum(axis=1, keepdims=True)
    return float(-np.mean(np.log(np.maximum(p[np.arange(len(known)), known], 1e-15))))


def fit_once(library: str, job: Table, most: int, part: int, threads: int, settings: dict[str, Any]) -> dict[str, Any]:
    """A library's error on the other rows of a split, and what the fit took: seconds, and seconds of processors."""
    train, test = split(load(job, most), part)
    classes = sorted(train[job.target].unique().to_list()) if job.kind == "classes" else []
    importlib.import_module("polars_taiga" if library == "taiga" else library)
    clock, cpu = time.perf_counter(), time.process_time()
    predict = _LIBRARIES[library](train, test, job, threads, settings)
    seconds, of_cpu = time.perf_counter() - clock, time.process_time() - cpu
    return {"error": error_of(job, test, classes, predict()), "seconds": seconds, "cpu": of_cpu, "rows": train.height}


def _serve() -> None:
    """Answers jobs, a line of JSON each, until there are no more."""
    tables = {t.name: t for t in TABLES}
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What a library prints is no answer.
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = fit_once(
                job["library"], tables[job["table"]], job["most"], job["split"], job["threads"], job["settings"]
            )
        except Exception as error:  # An answer as well: this library can't fit this table.
            answer = {"fault": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=out, flush=True)


# --- Who asks it.


class Worker:
    """A process that fits for one library; another one after a fit that took too long."""

    def __init__(self, threads: int, limit: float) -> None:
        self.threads, self.limit = threads, limit
        self.process: subprocess.Popen[str] | None = None

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """The answer to a job, or a fault."""
        if self.process is None or self.process.poll() is not None:
            names = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS")
            env = os.environ | {name: str(self.threads) for name in names}
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.defaults", "--serve"]
            self.process = subprocess.Popen(
                command,
                env=env,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job | {"threads": self.threads}) + "\n")
        self.process.stdin.flush()
        with selectors.DefaultSelector() as wait:
            wait.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline() if wait.select(self.limit) else ""
        if not line:
            self.close()
            return {"fault": f"no answer within {self.limit:.0f} s"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Ends the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _key(line: dict[str, Any]) -> str:
    names = ("library", "version", "settings", "table", "most", "split", "threads")
    return json.dumps({name: line[name] for name in names}, sort_keys=True)


def kept() -> dict[str, dict[str, Any]]:
    """All measurements that were kept, by their key."""
    if not CACHE.exists():
        return {}
    lines = [json.loads(line) for line in CACHE.read_text().splitlines()]
    return {_key(line): line for line in lines}


def measure(
    library: str, settings: dict[str, Any], tables: Iterable[Table], args: argparse.Namespace, build: str = ""
) -> dict[tuple[str, int], dict[str, Any]]:
    """The answers by table and split, measured where they are not kept yet."""
    known, worker = kept(), Worker(args.threads, args.limit)
    found = {}
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    for part in range(args.splits):
        for t in tables:
            job = {"library": library, "settings": settings, "table": t.name, "most": args.most, "split": part}
            line: dict[str, Any] = job | {"version": version(library) + build, "threads": args.threads}
            if (old := known.get(_key(line))) is not None:
                found[t.name, part] = old
                continue
            if args.kept:
                continue
            line |= worker.ask(job)
            with CACHE.open("a") as file:
                file.write(json.dumps(line) + "\n")
            found[t.name, part] = line
            figure = line.get("fault") or f"{line['error']:.6g} in {line['seconds']:.2f} s"
            progress(f"{library:9} {part} {t.name:40} {figure}")
    worker.close()
    return found


def _mean(answers: dict[tuple[str, int], dict[str, Any]], name: str, splits: list[int], what: str) -> float | None:
    values = [answers[name, part].get(what) for part in splits if (name, part) in answers]
    return None if not values or any(v is None for v in values) else sum(values) / len(values)


def report(answers: dict[str, dict[tuple[str, int], dict[str, Any]]], tables: list[Table], splits: int) -> None:
    """Prints each table's errors, then what they come to."""
    ours, peers = [x for x in answers if x.startswith("taiga")], [x for x in answers if not x.startswith("taiga")]
    lines, ratios = [], {name: {peer: [] for peer in [*peers, "best"]} for name in ours}
    ties: dict[str, list[float]] = {peer: [] for peer in peers}
    seconds: dict[str, list[float]] = {x: [0.0, 0.0] for x in answers}
    for t in tables:
        parts = [p for p in range(splits) if all((t.name, p) in of for of in answers.values())]
        errors = {x: _mean(of, t.name, parts, "error") for x, of in answers.items()}
        if not parts or any(e is None for e in errors.values()):
            progress(f"{t.name}: left out, {[x for x, e in errors.items() if e is None]} have no figure")
            continue
        value = {x: e for x, e in errors.items() if e is not None}
        best = min(value[p] for p in peers) if peers else math.nan
        for name in ours:
            for peer in peers:
                ratios[name][peer].append(math.log(value[name] / value[peer]))
            ratios[name]["best"].append(math.log(value[name] / best))
        for peer in peers:
            ties[peer].append(math.log(value[peer] / best))
        for x, of in answers.items():
            seconds[x][0] += _mean(of, t.name, parts, "seconds") or 0.0
            seconds[x][1] += _mean(of, t.name, parts, "cpu") or 0.0
        rows = answers[next(iter(answers))][t.name, parts[0]].get("rows")
        lines.append(
            [
                t.name,
                rows,
                *(f"{value[x]:.5g}" for x in answers),
                *(f"{100 * ratios[x]['best'][-1]:+.1f}" for x in ours),
            ]
        )
    print(table(["table", "rows", *answers, *(f"{x}: % to the best peer" for x in ours)], lines))
    n = len(lines)
    header = [
        "",
        *(f"% to {peer}" for peer in peers),
        "% to the best peer",
        "better than it",
        "seconds",
        "of processors",
    ]
    rows_of = []
    for x in answers:
        own = ratios.get(x)
        best_of = own["best"] if own else ties[x]
        to = [number(100 * sum(own[p]) / n, 2) if own else "" for p in peers]
        rows_of.append(
            [
                x,
                *to,
                number(100 * sum(best_of) / n, 2),
                sum(r < 0 for r in best_of),
                number(seconds[x][0], 1),
                number(seconds[x][1], 1),
            ]
        )
    print(f"\nMeans over {n} tables; seconds: a split's fits of all tables.\n")
    print(table(header, rows_of))


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--most", type=int, default=LARGEST, help="rows of a table; of more a sample is taken")
    parser.add_argument("--limit", type=float, default=600, help="seconds a fit may take")
    parser.add_argument("--only", default="", help="tables whose names contain one of these words, commas between")
    parser.add_argument("--libraries", default=",".join(["taiga", *PEERS]))
    parser.add_argument("--settings", action="append", default=[], help="ours also with these parameters, as JSON")
    parser.add_argument("--build", default="", help="a name of this build of ours, kept beside its version")
    parser.add_argument("--kept", action="store_true", help="measure nothing")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        _serve()
        return
    words = [word for word in args.only.split(",") if word]
    tables = [t for t in TABLES if not words or any(word in t.name for word in words)]
    answers = {}
    for library in args.libraries.split(","):
        if library != "taiga":
            answers[library] = measure(library, {}, tables, args)
            continue
        for settings in ["{}", *args.settings]:
            name = "taiga" if settings == "{}" else f"taiga {settings}"
            answers[name] = measure("taiga", json.loads(settings), tables, args, args.build)
    report(answers, tables, args.splits)


if __name__ == "__main__":
    main()

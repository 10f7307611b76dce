"""How often intervals hold, how wide they are and what they cost, beside MAPIE's and hessboost's.

python -m benchmarks.intervals [--splits 20] [--policy depthwise] [--out FILE]

Real tables of benchmarks.default_tables, targets that are numbers, numeric features, at most 6,000 rows; three quarters
train (a quarter of these calibrates), the rest is measured; the seed of the split is averaged over. MAPIE's estimators
are polars-taiga's own of the same parameters, so that methods are compared and not trees; hessboost has trees of its
own, 100 of depth 6 at the same rate, which grow as ours do with `--policy depthwise`. Needs `pip install mapie
hessboost`; peers that are missing are left out.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import polars_taiga as tg
import polars_taiga.sklearn as tgs

from benchmarks import default_tables

if TYPE_CHECKING:
    from collections.abc import Callable

ALPHA = 0.1
# What our trees are fitted with; `--policy` adds to it.
OURS: dict[str, Any] = {"rounds": 100}
# The learning rate of our fits.
HESSBOOST = {"eta": 0.1}
TABLES = [
    ("AER", "CPSSW8"),
    ("AER", "CollegeDistance"),
    ("AER", "PSID7682"),
    ("AER", "DoctorVisits"),
    ("Ecdat", "Workinghours"),
    ("Ecdat", "Computers"),
    ("Ecdat", "Star"),
    ("ISLR", "Wage"),
    ("shared", "housing"),
    ("shared", "weather"),
]

Bounds = tuple[np.ndarray, np.ndarray]


def ours(method: str) -> Callable[[pl.DataFrame, pl.DataFrame, np.ndarray, list[str]], Bounds]:
    def run(train: pl.DataFrame, test: pl.DataFrame, held: np.ndarray, names: list[str]) -> Bounds:
        df = train.with_columns(held=pl.Series(held))
        fit = tg.conformal("y", *names, alpha=ALPHA, method=method, calibration="held", **OURS)  # type: ignore[arg-type]
        fitted = df.lazy().select(fit).collect().item()
        out = test.lazy().select(tg.interval(fitted, *names, method=method, alpha=ALPHA)).collect().unnest("interval")  # type: ignore[arg-type]
        return out["lower"].to_numpy(), out["upper"].to_numpy()

    return run


def arrays(frame: pl.DataFrame, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    return frame.select(names).cast(pl.Float64).fill_null(np.nan).to_numpy(), frame["y"].to_numpy()


def mapie_split(train: pl.DataFrame, test: pl.DataFrame, held: np.ndarray, names: list[str]) -> Bounds:
    from mapie.regression import SplitConformalRegressor

    x, y = arrays(train, names)
    model = SplitConformalRegressor(tgs.GbdtRegressor(**OURS), confidence_level=1 - ALPHA, prefit=False)
    model.fit(x[~held], y[~held]).conformalize(x[held], y[held])
    found = model.predict_interval(arrays(test, names)[0])[1]
    return found[:, 0, 0], found[:, 1, 0]


def mapie_cv_plus(train: pl.DataFrame, test: pl.DataFrame, held: np.ndarray, names: list[str]) -> Bounds:
    from mapie.regression import CrossConformalRegressor
    from sklearn.model_selection import KFold

    folds = KFold(5, shuffle=True, random_state=0)
    model = CrossConformalRegressor(tgs.GbdtRegressor(**OURS), confidence_level=1 - ALPHA, cv=folds)
    model.fit_conformalize(*arrays(train, names))
    found = model.predict_interval(arrays(test, names)[0])[1]
    return found[:, 0, 0], found[:, 1, 0]


def mapie_cqr(train: pl.DataFrame, test: pl.DataFrame, held: np.ndarray, names: list[str]) -> Bounds:
    from mapie.regression import ConformalizedQuantileRegressor

    x, y = arrays(train, names)
    each = [
        tgs.GbdtRegressor(loss="quantile", alpha=level, **OURS).fit(x[~held], y[~held])
        for level in (ALPHA / 2, 1 - ALPHA / 2, 0.5)
    ]
    model = ConformalizedQuantileRegressor(each, confidence_level=1 - ALPHA, prefit=True)
    model.conformalize(x[held], y[held])
    found = model.predict_interval(arrays(test, names)[0], symmetric_correction=True)[1]
    return found[:, 0, 0], found[:, 1, 0]


def hessboost_split(train: pl.DataFrame, test: pl.DataFrame, held: np.ndarray, names: list[str]) -> Bounds:
    import hessboost
    from hessboost.conformal import SplitConformal

    x, y = arrays(train, names)
    params = {"objective": "reg:squarederror", **HESSBOOST}
    model = hessboost.train(params, hessboost.DMatrix(x[~held], y[~held]), OURS["rounds"])
    found = SplitConformal.calibrate(model, x[held], y[held], alpha=ALPHA)
    lower, upper = found.predict_interval(arrays(test, names)[0]).T
    return lower, upper


def hessboost_cqr(train: pl.DataFrame, test: pl.DataFrame, held: np.ndarray, names: list[str]) -> Bounds:
    import hessboost
    from hessboost.conformal import ConformalizedQuantile

    x, y = arrays(train, names)
    params = {"objective": "reg:quantileerror", "quantile_alpha": [ALPHA / 2, 1 - ALPHA / 2], **HESSBOOST}
    model = hessboost.train(params, hessboost.DMatrix(x[~held], y[~held]), OURS["rounds"])
    found = ConformalizedQuantile.calibrate_outputs(model, x[held], y[held], alpha=ALPHA)
    lower, upper = found.predict_interval(arrays(test, names)[0]).T
    return lower, upper


RUNS = {
    "split": {"polars-taiga": ours("split"), "MAPIE": mapie_split, "hessboost": hessboost_split},
    "cv+": {"polars-taiga": ours("cv+"), "MAPIE": mapie_cv_plus},
    "cqr": {"polars-taiga": ours("cqr"), "MAPIE": mapie_cqr, "hessboost": hessboost_cqr},
}


def table(package: str, item: str) -> tuple[pl.DataFrame, list[str]]:
    """The numeric columns of a table, and its target as `y`."""
    own = next(t for t in default_tables.TABLES if (t.package, t.item, t.kind) == (package, item, "numbers"))
    frame = default_tables.load(own, 6_000)
    numeric = frame.drop(own.target).select(pl.selectors.numeric())
    names = [f"f{i}" for i in range(numeric.width)]
    numeric.columns = names
    # Equal targets would be tied with equal scores: a trace of noise, so that the share can be exact.
    noise = np.random.default_rng(0).normal(size=frame.height) * 1e-6
    return numeric.cast(pl.Float64).with_columns(y=frame[own.target] + noise), names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--methods", default="split,cv+,cqr")
    parser.add_argument("--policy", default="symmetric")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/intervals.jsonl"))
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    OURS["policy"] = args.policy
    warnings.simplefilter("ignore")
    missing: set[str] = set()
    with args.out.open("w") as file:
        for package, item in TABLES:
            frame, names = table(package, item)
            for method in args.methods.split(","):
                for peer, run in RUNS[method].items():
                    if peer in missing:
                        continue
                    seen, wide, spent = [], [], []
                    for number in range(args.splits):
                        train, test = default_tables.split(frame, number)
                        draw = np.random.default_rng(number).permutation(train.height)
                        held = draw < -(-train.height // 4)
                        start = time.perf_counter()
                        try:
                            lower, upper = run(train, test, held, names)
                        except ImportError:
                            missing.add(peer)
                            break
                        spent.append(time.perf_counter() - start)
                        y = test["y"].to_numpy()
                        seen.append(float(np.mean((lower <= y) & (y <= upper))))
                        wide.append(float(np.mean(upper - lower)))
                    if seen:
                        line = {
                            "table": f"{package}/{item}",
                            "rows": frame.height,
                            "method": method,
                            "library": peer,
                            "coverage": round(float(np.mean(seen)), 4),
                            "width": float(np.mean(wide)),
                            "seconds": round(float(np.min(spent)), 3),
                        }
                        print(json.dumps(line), flush=True)
                        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()

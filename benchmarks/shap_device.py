"""Explanations on a GPU: `python -m benchmarks.shap_device [--rows 1000000]`.

The time from a Polars frame to a Polars series: the first round, which makes the model's tables and brings them to the
GPU, and the best and the median of those behind it. Of the first rows the bytes are compared with the CPU's. Where
XGBoost is installed its GPU explains models of the same sizes.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg


def main() -> None:
    """Measures each model, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--pairs", type=int, default=20_000, help="rows whose interactions are computed")
    parser.add_argument("--deep", type=int, default=50_000, help="rows of forests whose trees grow to the end")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(args.rows, args.features)).astype(np.float32)
    y = x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=args.rows) > 0
    names = [f"f{i}" for i in range(args.features)]
    frame = pl.DataFrame(dict(zip(names, x.T.copy(), strict=True))).with_columns(y=pl.Series(y))
    print(f"\n{args.rows:,} x {args.features}; interactions of {args.pairs:,} rows\n")
    print("| model | output | first | best | median | bytes as the CPU's |\n|---|---|---|---|---|---|")
    fit = {"device": args.device, "progress": False}
    for policy, trees, depth in (
        ("symmetric", 100, 6),
        ("depthwise", 100, 6),
        ("depthwise", 200, 8),
        ("forest", 100, 8),
        ("forest", 100, 64),
    ):
        few = frame.head(args.deep)
        if policy == "forest":
            model = (few if depth > 8 else frame).taiga.fit_forest("y", *names, trees=trees, depth=depth, **fit)
        else:
            model = frame.taiga.fit_gbdt("y", *names, policy=policy, rounds=trees, depth=depth, **fit)
        whole = few if depth > 8 else frame
        for output, rows in (("auto", whole), ("shap", whole), ("shap_interactions", frame.head(args.pairs))):
            if output == "shap_interactions" and (trees == 200 or depth > 8):
                continue

            def explained(
                of: pl.DataFrame = rows, device: str = args.device, model: Any = model, output: Any = output
            ) -> pl.Series:
                return of.select(tg.predict(model, output=output, device=device)).to_series()

            some = rows.head(5_000 if depth <= 8 else 100)
            same = explained(some).equals(explained(some, "cpu"))
            taken = times(explained, args.repeats if depth <= 8 else 1)
            print(f"| {policy}, {trees} of depth {depth} | {output} | {taken} | {same} |", flush=True)
    if args.device != "cpu" and importlib.util.find_spec("xgboost"):
        peer(args, x, y)


def times(work: Callable[[], object], repeats: int) -> str:
    """The seconds of the first call, the best and the median of those behind it."""
    each = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        work()
        each.append(time.perf_counter() - start)
    return f"{each[0]:.4f} | {min(each[1:]):.4f} | {median(each[1:]):.4f}"


def peer(args: argparse.Namespace, x: Any, y: Any) -> None:
    """Measures XGBoost from device arrays."""
    import xgboost

    data = xgboost.DMatrix(x, y)
    few = xgboost.DMatrix(x[: args.pairs])
    for trees, depth in ((100, 6), (200, 8)):
        settings = {"objective": "binary:logistic", "max_depth": depth, "tree_method": "hist", "device": "cuda"}
        model = xgboost.train(settings, data, trees)
        found = times(lambda model=model: model.predict(data, pred_contribs=True), args.repeats)
        print(f"| XGBoost, {trees} of depth {depth} | shap | {found} | |", flush=True)
        if trees == 100:
            found = times(lambda model=model: model.predict(few, pred_interactions=True), args.repeats)
            print(f"| XGBoost, {trees} of depth {depth} | shap_interactions | {found} | |", flush=True)


if __name__ == "__main__":
    main()

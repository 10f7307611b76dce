"""A model per group: `python -m benchmarks.groups [--groups 10000] [--device cuda]`.

Ours in one `group_by().agg()` and in one call of `fit_gbdt_by`; beside it a Python loop that fits LightGBM on each
group's NumPy arrays. Processor time, of all threads, is told beside seconds: on a machine that others use it says
more. `--no-loop` leaves LightGBM out, for a profile of the query, and `--no-query` the `group_by`, which on a GPU fits
one group at a time. A sample of the groups is fitted alone on the CPU as well: the models must be equal, byte for byte.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.data import TARGET, synthetic
from benchmarks.harness import RESULTS, Results, version

GROUP = "group"


def table_of_groups(groups: int, rows: int, features: int) -> pl.DataFrame:
    """Synthetic regression rows dealt to groups at random, so that no group is contiguous."""
    frame = synthetic(groups * rows, features, task="regression")
    order = np.random.default_rng(3).permutation(np.repeat(np.arange(groups, dtype=np.uint32), rows))
    return frame.with_columns(pl.Series(GROUP, order))


def ours(frame: pl.DataFrame, params: dict[str, Any], *, one_call: bool) -> tuple[float, float, pl.DataFrame]:
    """Seconds, processor seconds and models of one query: of one call for all groups, or of one call for each."""
    import polars_taiga as tg

    columns = (TARGET, pl.exclude(TARGET, GROUP))
    lazy = frame.lazy()
    if one_call:
        query = lazy.select(tg.fit_gbdt_by(GROUP, *columns, **params)).unnest("models")
    else:
        query = lazy.group_by(GROUP).agg(model=tg.fit_gbdt(*columns, **params))
    start, processor = time.perf_counter(), time.process_time()
    models = query.collect()
    return time.perf_counter() - start, time.process_time() - processor, models


def check(frame: pl.DataFrame, models: pl.DataFrame, params: dict[str, Any], sample: int) -> int:
    """Fits a sample of groups alone; the number whose model differs."""
    import polars_taiga as tg

    fit = tg.fit_gbdt(TARGET, pl.exclude(TARGET, GROUP), **params | {"device": "cpu"})
    different = 0
    for key, model in models.sort(GROUP).gather_every(max(1, models.height // sample)).iter_rows():
        alone = frame.lazy().filter(pl.col(GROUP) == key).select(fit).collect().item()
        different += alone != model
    return different


def lightgbm_loop(frame: pl.DataFrame, trees: int, depth: int) -> tuple[float, float]:
    """Seconds and processor seconds of a loop over the groups; on one thread, LightGBM's fastest here."""
    import lightgbm as lgb

    params = {
        "objective": "regression",
        "num_leaves": 2**depth,
        "max_depth": depth,
        "learning_rate": 0.1,
        "lambda_l2": 1.0,
        "min_data_in_leaf": 1,
        "min_sum_hessian_in_leaf": 1.0,
        "min_data_in_bin": 1,
        "feature_pre_filter": False,
        "num_threads": 1,
        "verbose": -1,
    }
    start, processor = time.perf_counter(), time.process_time()
    models = {}
    for (key,), part in frame.partition_by(GROUP, as_dict=True).items():
        data = lgb.Dataset(part.drop(TARGET, GROUP).to_numpy(), part[TARGET].to_numpy(), params=params)
        models[key] = lgb.train(params, data, num_boost_round=trees)
    return time.perf_counter() - start, time.process_time() - processor


def main() -> None:
    """Measures both and compares the sample."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=100, help="rows a group")
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--policy", choices=["symmetric", "depthwise"], default="depthwise")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sample", type=int, default=50)
    parser.add_argument("--query", action=argparse.BooleanOptionalAction, default=True, help="group_by besides")
    parser.add_argument("--loop", action=argparse.BooleanOptionalAction, default=True, help="LightGBM beside it")
    parser.add_argument("--out", type=Path, default=RESULTS / "groups.jsonl")
    args = parser.parse_args()
    results = Results(args.out)
    frame = table_of_groups(args.groups, args.rows, args.features)
    params = {"loss": "rmse", "rounds": args.trees, "depth": args.depth, "policy": args.policy, "device": args.device}
    shape = f"{args.groups:,} groups x {args.rows} rows x {args.features} features, {args.trees} trees"
    print(shape, flush=True)
    measured: dict[str, Any] = {}
    if args.loop:
        loop, processor = lightgbm_loop(frame, args.trees, args.depth)
        measured |= {"loop_s": loop, "loop_processor_s": processor}
        print(f"LightGBM {version('lightgbm')} in a loop: {loop:.2f} s, processor {processor:.2f} s", flush=True)
    # The first call opens a GPU and loads its kernels.
    ours(frame.filter(pl.col(GROUP) < 10), params, one_call=True)
    ways = [("one call", True), ("group_by", False)] if args.query else [("one call", True)]
    for name, one_call in ways:
        seconds, processor, models = ours(frame, params, one_call=one_call)
        different = check(frame, models, params, args.sample)
        way = name.replace(" ", "_")
        measured |= {f"{way}_s": seconds, f"{way}_processor_s": processor, f"{way}_different": different}
        print(
            f"polars-taiga, {name} ({args.policy}, {args.device}): {seconds:.3f} s, processor {processor:.2f} s",
            flush=True,
        )
        if args.loop:
            times, of_processor = measured["loop_s"] / seconds, measured["loop_processor_s"] / processor
            print(f"{times:.1f} times faster, {of_processor:.1f} times by processor time")
        print(f"models that differ from the group fitted alone, of a sample of {args.sample}: {different}")
    results.add(vars(args) | {"out": None} | measured)
    print(f"\nResults: {args.out}")


if __name__ == "__main__":
    main()

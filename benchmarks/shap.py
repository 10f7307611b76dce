"""Explanations beside the peers': `python -m benchmarks.shap [--rows 20000]`.

Models of the same size, fitted on the same rows, explain them: ours as an expression, the peers by their own exact
values (CatBoost's ShapValues, XGBoost's pred_contribs and pred_interactions, LightGBM's pred_contrib), scikit-learn's
trees by the package `shap`, which has one thread, for fewer rows. The best of some rounds in turn, in one process;
beside the time the largest difference between a row's values and its raw score, as a share of the sum of absolute
values.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any


def main() -> None:
    """Measures every library in turn, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--leaves", type=int, default=64, help="of leafwise trees")
    parser.add_argument("--pairs", type=int, default=2_000, help="rows whose interactions are computed, and for shap")
    parser.add_argument("--background", type=int, default=100, help="rows to compare with")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    works = prepare(args)
    best: dict[str, float] = {}
    for _ in range(args.repeats):
        for name, (work, _) in works.items():
            start = time.perf_counter()
            work()
            best[name] = min(best.get(name, float("inf")), time.perf_counter() - start)
    print(f"\n{args.rows:,} x {args.features}, {args.trees} trees of depth {args.depth}, {args.threads} threads\n")
    print("| | seconds | sums to the score to |\n|---|---|---|")
    for name, (work, error) in works.items():
        print(f"| {name} | {best[name]:.4f} | {error(work()):.0e} |")


Work = tuple[Callable[[], Any], Callable[[Any], float]]


def prepare(args: argparse.Namespace) -> dict[str, Work]:
    """Fits the models; of each what explains it, and how far the result is from its scores."""
    # Imported here, because the number of threads is read at the import.
    import catboost
    import lightgbm
    import numpy as np
    import polars as pl
    import polars_taiga as tg
    import shap
    import sklearn.ensemble
    import xgboost

    rng = np.random.default_rng(0)
    x = rng.normal(size=(args.rows, args.features)).astype(np.float32)
    y = x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=args.rows) > 0
    names = [f"f{i}" for i in range(args.features)]
    frame = pl.DataFrame(dict(zip(names, x.T.copy(), strict=True))).with_columns(y=pl.Series(y))
    few = frame.head(args.pairs)

    def off(values: Any, raw: Any) -> float:
        values, raw = np.asarray(values, dtype=np.float64), np.asarray(raw, dtype=np.float64)
        return float((np.abs(values.sum(axis=1) - raw) / np.abs(values).sum(axis=1)).max())

    works: dict[str, Work] = {}
    for policy in ("symmetric", "depthwise", "leafwise"):
        size = {"leaves": args.leaves} if policy == "leafwise" else {"depth": args.depth}
        model = frame.taiga.fit_gbdt("y", *names, policy=policy, rounds=args.trees, progress=False, **size)
        raw = frame.select(tg.predict(model, output="raw")).to_series().to_numpy()
        works[f"taiga {policy}"] = (
            lambda model=model: frame.select(tg.predict(model, output="shap")).unnest("prediction"),
            lambda found, raw=raw: off(found.to_numpy(), raw),
        )
        works[f"taiga {policy}, interactions of {args.pairs:,}"] = (
            lambda model=model: few.select(tg.predict(model, output="shap_interactions")).unnest("prediction"),
            lambda found, model=model, raw=raw: off(
                np.hstack([found.unnest(n, separator=".").select(f"^{n}\\..*$").to_numpy() for n in names]),
                raw[: args.pairs] - few.select(tg.predict(model, output="shap")).unnest("prediction")["base_value"][0],
            ),
        )
    background = frame.tail(args.background)
    works[f"taiga leafwise, {args.pairs:,}"] = (
        lambda model=model: few.select(tg.predict(model, output="shap")).unnest("prediction"),
        lambda found, raw=raw: off(found.to_numpy(), raw[: args.pairs]),
    )
    works[f"taiga leafwise, {args.pairs:,} against {args.background}"] = (
        lambda model=model: few.select(tg.predict(model, output="shap", background=background)).unnest("prediction"),
        lambda found, raw=raw: off(found.to_numpy(), raw[: args.pairs]),
    )
    cat = catboost.CatBoostClassifier(
        iterations=args.trees, depth=args.depth, thread_count=args.threads, verbose=False, allow_writing_files=False
    ).fit(x, y)
    pool = catboost.Pool(x, y)
    works["catboost symmetric"] = (
        lambda: cat.get_feature_importance(pool, type="ShapValues", thread_count=args.threads),
        lambda found: off(found, cat.predict(x, prediction_type="RawFormulaVal")),
    )
    data = xgboost.DMatrix(x, y)
    settings = {"objective": "binary:logistic", "nthread": args.threads, "max_depth": args.depth, "tree_method": "hist"}
    boosted = xgboost.train(settings, data, args.trees)
    margin = boosted.predict(data, output_margin=True)
    first = xgboost.DMatrix(x[: args.pairs])
    works["xgboost depthwise"] = (
        lambda: boosted.predict(data, pred_contribs=True),
        lambda found: off(found, margin),
    )
    works[f"xgboost depthwise, interactions of {args.pairs:,}"] = (
        lambda: boosted.predict(first, pred_interactions=True),
        lambda found: off(found.reshape(len(found), -1), margin[: args.pairs]),
    )
    light = lightgbm.LGBMClassifier(
        n_estimators=args.trees, num_leaves=args.leaves, n_jobs=args.threads, verbose=-1
    ).fit(x, y)
    works["lightgbm leafwise"] = (
        lambda: light.predict(x, pred_contrib=True),
        lambda found: off(found, light.predict(x, raw_score=True)),
    )
    hist = sklearn.ensemble.HistGradientBoostingClassifier(
        max_iter=args.trees, max_leaf_nodes=args.leaves, early_stopping=False
    ).fit(x, y)
    first_rows, scores = x[: args.pairs].astype(np.float64), hist.decision_function(x[: args.pairs])
    own = shap.TreeExplainer(hist, feature_perturbation="tree_path_dependent")
    others = shap.TreeExplainer(hist, data=x[-args.background :].astype(np.float64))
    for name, explainer in (
        (f"shap leafwise, {args.pairs:,}", own),
        (f"shap leafwise, {args.pairs:,} against {args.background}", others),
    ):
        works[name] = (
            lambda explainer=explainer: explainer.shap_values(first_rows),
            lambda found, explainer=explainer: off(
                np.column_stack([found, np.full(len(found), np.ravel(explainer.expected_value)[0])]), scores
            ),
        )
    return works


if __name__ == "__main__":
    main()

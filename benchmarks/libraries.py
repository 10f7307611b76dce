"""Every library behind one call, with the same settings said in each one's own words.

What "the same settings" means here (`benchmarks/README.md` has it as a table): the number of
trees, the learning rate, the depth or the number of leaves, 255 bins or what the library counts as
that, L2 on leaf values, the smallest sum of hessians in a child where the library has it, a start
at the target's mean, no sampling of rows or features, one Newton step a leaf, no early stopping.

Each library takes the Polars frame itself where it can (XGBoost, LightGBM, CatBoost and hessboost do).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.data import TARGET, Task

Array = npt.NDArray[np.floating[Any]]
Predict = Callable[[pl.DataFrame], Array]
Policy = Literal["symmetric", "depthwise", "leafwise"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is the same for all."""

    task: Task = "binary"
    trees: int = 100
    learning_rate: float = 0.1
    depth: int = 6
    leaves: int = 64
    l2: float = 1.0
    min_child_weight: float = 1.0
    threads: int = 2
    seed: int = 0
    bundle: bool = True
    """Of ours; the peers keep to their own default."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A library under a policy."""

    library: str
    policy: Policy
    quantized: bool = False

    @property
    def name(self) -> str:
        return f"{self.library} {self.policy}" + (" quantized" if self.quantized else "")

    @property
    def ours(self) -> bool:
        return self.library == "taiga"


ENTRIES = {
    entry.name: entry
    for entry in [
        Entry("taiga", "symmetric"),
        Entry("taiga", "depthwise"),
        Entry("taiga", "leafwise"),
        Entry("catboost", "symmetric"),
        Entry("xgboost", "depthwise"),
        Entry("xgboost", "leafwise"),
        Entry("lightgbm", "depthwise"),
        Entry("lightgbm", "depthwise", quantized=True),
        Entry("lightgbm", "leafwise"),
        Entry("lightgbm", "leafwise", quantized=True),
        Entry("hessboost", "depthwise"),
        Entry("hessboost", "leafwise"),
        Entry("sklearn", "depthwise"),
        Entry("sklearn", "leafwise"),
    ]
}
"""By name, in the order of the tables."""

SAME_POLICY = {"symmetric": "catboost symmetric", "depthwise": "xgboost depthwise", "leafwise": "lightgbm leafwise"}
"""The peer that grows its trees in the same way, for each policy."""


def _numbers(frame: pl.DataFrame) -> npt.NDArray[np.float32]:
    numbers: npt.NDArray[np.float32] = frame[TARGET].cast(pl.Float32).to_numpy()
    return numbers


def _taiga(entry: Entry, s: Settings) -> Callable[[pl.DataFrame], Predict]:
    import polars_taiga as tg

    params: dict[str, Any] = {
        "loss": "logloss" if s.task == "binary" else "rmse",
        "rounds": s.trees,
        "learning_rate": s.learning_rate,
        "policy": entry.policy,
        "bins": 255,
        "l2": s.l2,
        "min_child_weight": s.min_child_weight,
        "seed": s.seed,
        "n_threads": s.threads,
        "bundle": s.bundle,
    }
    params |= {"leaves": s.leaves} if entry.policy == "leafwise" else {"depth": s.depth}

    def fit(frame: pl.DataFrame) -> Predict:
        model = frame.lazy().select(tg.fit_gbdt(TARGET, pl.exclude(TARGET), **params)).collect().item()

        def predict(rows: pl.DataFrame) -> Array:
            return rows.lazy().select(tg.predict(model)).collect(engine="streaming").to_series().to_numpy()

        return predict

    return fit


def _xgboost(entry: Entry, s: Settings) -> Callable[[pl.DataFrame], Predict]:
    import xgboost as xgb

    params: dict[str, Any] = {
        "objective": "binary:logistic" if s.task == "binary" else "reg:squarederror",
        "tree_method": "hist",
        "max_bin": 256,
        "learning_rate": s.learning_rate,
        "reg_lambda": s.l2,
        "min_child_weight": s.min_child_weight,
        "nthread": s.threads,
        "seed": s.seed,
        "verbosity": 1,
    }
    if entry.policy == "leafwise":
        params |= {"grow_policy": "lossguide", "max_leaves": s.leaves, "max_depth": 0}
    else:
        params |= {"max_depth": s.depth}

    def fit(frame: pl.DataFrame) -> Predict:
        data = xgb.QuantileDMatrix(frame.drop(TARGET), _numbers(frame), max_bin=256, nthread=s.threads)
        booster = xgb.train(params, data, num_boost_round=s.trees)

        def predict(rows: pl.DataFrame) -> Array:
            return np.asarray(booster.inplace_predict(rows.drop(TARGET, strict=False)))

        return predict

    return fit


def _lightgbm(entry: Entry, s: Settings) -> Callable[[pl.DataFrame], Predict]:
    import lightgbm as lgb

    params: dict[str, Any] = {
        "objective": "binary" if s.task == "binary" else "regression",
        "learning_rate": s.learning_rate,
        "max_bin": 255,
        "num_leaves": s.leaves if entry.policy == "leafwise" else 2**s.depth,
        "max_depth": -1 if entry.policy == "leafwise" else s.depth,
        "lambda_l2": s.l2,
        "min_sum_hessian_in_leaf": s.min_child_weight,
        "min_data_in_leaf": 1,
        "feature_pre_filter": False,
        "num_threads": s.threads,
        "seed": s.seed,
        "verbose": -1,
    }
    if entry.quantized:
        params |= {"use_quantized_grad": True, "num_grad_quant_bins": 4, "quant_train_renew_leaf": True}

    def fit(frame: pl.DataFrame) -> Predict:
        data = lgb.Dataset(frame.drop(TARGET), _numbers(frame), params=params, free_raw_data=True)
        booster = lgb.train(params, data, num_boost_round=s.trees)

        def predict(rows: pl.DataFrame) -> Array:
            return np.asarray(booster.predict(rows.drop(TARGET, strict=False).to_numpy(), num_threads=s.threads))

        return predict

    return fit


def _hessboost(entry: Entry, s: Settings) -> Callable[[pl.DataFrame], Predict]:
    import hessboost as hb

    params: dict[str, Any] = {
        "objective": "binary:logistic" if s.task == "binary" else "reg:squarederror",
        "tree_method": "hist",
        "max_bin": 256,
        "learning_rate": s.learning_rate,
        "reg_lambda": s.l2,
        "min_child_weight": s.min_child_weight,
        "nthread": s.threads,
        "seed": s.seed,
    }
    if entry.policy == "leafwise":
        params |= {"grow_policy": "lossguide", "max_leaves": s.leaves, "max_depth": 0}
    else:
        params |= {"max_depth": s.depth}

    def fit(frame: pl.DataFrame) -> Predict:
        data = hb.DMatrix(frame.drop(TARGET), label=_numbers(frame))
        booster = hb.train(params, data, num_boost_round=s.trees)

        def predict(rows: pl.DataFrame) -> Array:
            return np.asarray(booster.predict(rows.drop(TARGET, strict=False)))

        return predict

    return fit


def _catboost(entry: Entry, s: Settings) -> Callable[[pl.DataFrame], Predict]:
    import catboost as cb

    params: dict[str, Any] = {
        "loss_function": "Logloss" if s.task == "binary" else "RMSE",
        "iterations": s.trees,
        "learning_rate": s.learning_rate,
        "depth": s.depth,
        "border_count": 254,
        "l2_leaf_reg": s.l2,
        "bootstrap_type": "No",
        "random_strength": 0,
        "boosting_type": "Plain",
        "boost_from_average": True,
        "leaf_estimation_method": "Newton",
        "leaf_estimation_iterations": 1,
        "random_seed": s.seed,
        "thread_count": s.threads,
        "allow_writing_files": False,
        "verbose": False,
    }

    def fit(frame: pl.DataFrame) -> Predict:
        model = cb.CatBoost(params)
        model.fit(cb.Pool(frame.drop(TARGET), _numbers(frame), thread_count=s.threads))
        kind = "Probability" if s.task == "binary" else "RawFormulaVal"

        def predict(rows: pl.DataFrame) -> Array:
            pool = cb.Pool(rows.drop(TARGET, strict=False), thread_count=s.threads)
            out = np.asarray(model.predict(pool, prediction_type=kind, thread_count=s.threads))
            return out[:, 1] if out.ndim == 2 else out

        return predict

    return fit


def _sklearn(entry: Entry, s: Settings) -> Callable[[pl.DataFrame], Predict]:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    params: dict[str, Any] = {
        "max_iter": s.trees,
        "learning_rate": s.learning_rate,
        "max_bins": 255,
        "max_leaf_nodes": s.leaves if entry.policy == "leafwise" else 2**s.depth,
        "max_depth": None if entry.policy == "leafwise" else s.depth,
        "l2_regularization": s.l2,
        "min_samples_leaf": 1,
        "early_stopping": False,
        "random_state": s.seed,
    }

    def fit(frame: pl.DataFrame) -> Predict:
        make = HistGradientBoostingClassifier if s.task == "binary" else HistGradientBoostingRegressor
        model = make(**params).fit(frame.drop(TARGET).to_numpy(), _numbers(frame))

        def predict(rows: pl.DataFrame) -> Array:
            values = rows.drop(TARGET, strict=False).to_numpy()
            return np.asarray(model.predict_proba(values)[:, 1] if s.task == "binary" else model.predict(values))

        return predict

    return fit


def fitter(entry: Entry, settings: Settings) -> Callable[[pl.DataFrame], Predict]:
    """Imports the library and returns its fit: a frame with the target `y` in, a predictor out."""
    make = {
        "taiga": _taiga,
        "xgboost": _xgboost,
        "lightgbm": _lightgbm,
        "catboost": _catboost,
        "hessboost": _hessboost,
        "sklearn": _sklearn,
    }
    return make[entry.library](entry, settings)

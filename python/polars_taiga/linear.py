"""Fitting sparse logistic regression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from polars_taiga import _fit, _plugin, _taiga

if TYPE_CHECKING:
    import polars as pl
    from typing_extensions import Unpack

    from polars_taiga._plugin import IntoColumn, IntoColumns

__all__ = ["LinearParams", "fit_sparse_lr"]


class LinearParams(TypedDict, total=False):
    """The parameters of `fit_sparse_lr`; what each means, its default and its name elsewhere: see there."""

    features: int | None
    hash_bits: int | None
    optimizer: Literal["lbfgs", "sgd", "adagrad", "ftrl"]
    epochs: int | None
    batch: int
    learning_rate: float | None
    l1: float
    l2: float
    fit_intercept: bool
    tolerance: float
    class_weight: Literal["none", "balanced"] | Mapping[Any, float] | None
    metric: Literal["logloss", "auc"] | None
    early_stopping: int | None
    seed: int
    n_threads: int | None
    device: str

"""Metrics of columns of predictions, as expressions: `tg.metrics.auc("y", "p")`.

They sit in `select`, `group_by().agg()` (a value for each group) and `over`, are computed on all threads, and give the
same bytes whatever the threads and the chunks: sums run over blocks of rows in their order, or in fixed point. They are
the metrics of `fit_gbdt` and `tg.score` (`docs/metrics.md`), of predictions in the place of scores, and equal
scikit-learn's where it has them.

All of them raise a ComputeError when the query runs: for a null or NaN in any column, for lengths that differ, for
values that are no targets, predictions, probabilities or weights, and where the metric has no value (there are no rows,
all weigh 0, `auc` of one class); under `on_error="null"` the value is null for what is wrong with rows. Rows
of weight 0 are as if they were not there, but their values are checked all the same.
"""

from polars_taiga.metrics.classes import accuracy, auc, average_precision, balanced_accuracy, ece, f1, logloss, mcc
from polars_taiga.metrics.numbers import (
    expectile,
    gamma_deviance,
    huber,
    log_cosh,
    mae,
    mape,
    pinball,
    poisson_deviance,
    r2,
    rmse,
    rmsle,
    tweedie_deviance,
)
from polars_taiga.metrics.ranking import map, mrr, ndcg, precision_at_k  # noqa: A004

__all__ = [
    "accuracy",
    "auc",
    "average_precision",
    "balanced_accuracy",
    "ece",
    "expectile",
    "f1",
    "gamma_deviance",
    "huber",
    "log_cosh",
    "logloss",
    "mae",
    "map",
    "mape",
    "mcc",
    "mrr",
    "ndcg",
    "pinball",
    "poisson_deviance",
    "precision_at_k",
    "r2",
    "rmse",
    "rmsle",
    "tweedie_deviance",
]

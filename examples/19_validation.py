"""Predictions of rows by models that have not seen them, metrics by fold, and a search among parameters."""

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(18)
n = 6_000
rows = pl.DataFrame({f"x{i}": rng.normal(size=n) for i in range(6)}).with_columns(
    customer=pl.Series(rng.integers(0, 300, n)), day=pl.Series(np.sort(rng.integers(0, 365, n)))
)
score = pl.col("x0") + pl.col("x1") * pl.col("x2") + pl.Series(rng.normal(size=n))
rows = rows.with_columns(y=score, bought=score > 0.5)
columns = pl.col("^x.*$")

# Out-of-fold predictions, for a second model, a threshold, or a picture.
rows = rows.with_columns(p=tg.cross_val_predict("bought", columns, folds=5, rounds=100))
print(rows.select(auc=tg.metrics.auc("bought", "p"), logloss=tg.metrics.logloss("bought", "p")))

# No customer on both sides; and each block of days by a model of the days before it.
metrics = ["rmse", "r2"]
print(rows.taiga.cross_validate("y", columns, folds="group", fold_by="customer", metric=metrics, rounds=100))
print(rows.taiga.cross_validate("y", columns, folds="time", fold_by="day", n_folds=4, metric=metrics, rounds=100))

# Thirty draws of parameters, all but the best given up early.
found = rows.lazy().taiga.search(
    "y",
    columns,
    space={
        "policy": ["symmetric", "leafwise"],
        "depth": [3, 4, 6],
        "l2": (0.1, 30, "log"),
        "feature_fraction": (0.5, 1),
    },
    trials=30,
    halving=3,
    folds=3,
    rounds=200,
)
print(found.head(3))

"""Hold rows out, stop when they no longer gain, and look at the curve."""

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(3)
n = 10_000
rows = pl.LazyFrame({f"x{i}": rng.normal(size=n) for i in range(10)}).with_columns(
    bought=pl.col("x0") + pl.col("x1") * pl.col("x2") + pl.Series(rng.logistic(size=n)) > 0,
    day=pl.Series(rng.integers(0, 100, n)),
)

# `eval` marks the rows to measure on; here the last fifth of the days.
fit = tg.fit_gbdt(
    "bought",
    pl.col("^x.*$"),
    eval=pl.col("day") >= 80,
    metric="auc",
    early_stopping=20,
    rounds=1000,
    learning_rate=0.05,
)
model = tg.Model.from_bytes(rows.select(fit).collect().item())

print(model)
print(model.history)
print(model.importance(kind="gain"))

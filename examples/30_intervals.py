"""Intervals and sets of classes that hold the truth in nine rows of ten, and calibrated probabilities."""

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(22)
n = 12_000
rows = pl.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "shop": rng.integers(0, 3, n)}).with_columns(
    y=2 * pl.col("a") + pl.Series(rng.normal(size=n)) * (1 + pl.col("b").abs())
)
rows = rows.with_columns(
    size=pl.when(pl.col("y") < -1).then(pl.lit("S")).when(pl.col("y") < 1).then(pl.lit("M")).otherwise(pl.lit("L")),
    sold=pl.col("y") > 1,
)
train, test = rows.head(n // 2), rows.tail(n // 2)

# One fit, and the bounds of rows to come in a query that streams.
for method in ("split", "cv+", "cqr"):
    fitted = train.select(tg.conformal("y", "a", "b", method=method, rounds=100)).item()
    bounds = test.lazy().with_columns(tg.interval(fitted, "a", "b", method=method)).unnest("interval")
    print(
        method,
        bounds.select(
            held=pl.col("y").is_between("lower", "upper").mean(), width=(pl.col("upper") - pl.col("lower")).mean()
        ).collect(),
    )

# The share holds in each shop; and a model for each shop.
by = train.select(tg.conformal("y", "a", "b", by="shop", rounds=100)).item()
bounds = test.with_columns(tg.interval(by, "a", "b", by="shop")).unnest("interval")
print(bounds.group_by("shop").agg(held=pl.col("y").is_between("lower", "upper").mean()).sort("shop"))
each = train.group_by("shop").agg(tg.conformal("y", "a", "b", rounds=100))
print(test.join(each, on="shop").select(tg.interval("conformal", "a", "b")).head(2))

# Sets of classes.
labels = ["S", "M", "L"]
fitted = train.select(tg.conformal("size", "a", "b", method="aps", classes=labels, rounds=100)).item()
sets = test.with_columns(tg.interval(fitted, "a", "b", method="aps", classes=labels))
print(
    sets.select(
        held=pl.col("interval").list.contains(pl.col("size")).mean(), labels=pl.col("interval").list.len().mean()
    )
)

# Probabilities: the curve comes of rows that their model has not seen.
model = train.taiga.fit_gbdt("sold", "a", "b", rounds=600, learning_rate=0.3)
unseen = tg.cross_val_predict("sold", "a", "b", rounds=600, learning_rate=0.3)
print("logloss", test.select(tg.score(model, "sold")).item())
for method in ("isotonic", "platt", "beta"):
    curve = train.select(tg.fit_calibration("sold", unseen, method=method)).item()
    worth = test.with_columns(p=tg.calibrate(curve, tg.predict(model)))
    print(method, worth.select(tg.metrics.logloss("sold", "p"), tg.metrics.ece("sold", "p")).row(0))

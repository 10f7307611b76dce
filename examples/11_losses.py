"""Losses beyond a mean: several quantiles in one model, a mean with its variance, expectiles, focal loss."""

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (4_000, 3))
spread = 0.2 + 0.8 * (x[:, 1] > 0)
df = pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}).with_columns(
    y=pl.Series(np.sin(3 * x[:, 0]) + spread * rng.normal(size=len(x))),
    rare=pl.Series(rng.uniform(size=len(x)) < 0.02 + 0.2 * (x[:, 2] > 0.8)),
)
train, test = df[:3_000], df[3_000:]

# Several quantiles: a struct with a field for each, which never cross.
model = train.taiga.fit_gbdt("y", "a", "b", "c", loss="quantile", alpha=[0.05, 0.5, 0.95], depth=4)
quantiles = test.select("y", q=tg.predict(model)).unnest("q")
print(quantiles.head(3))
print("below each:", quantiles.select((pl.col("0.05", "0.5", "0.95") >= pl.col("y")).mean()).row(0))

# A mean and a variance, and what they are worth: the mean negative log likelihood.
model = train.taiga.fit_gbdt("y", "a", "b", "c", loss="gaussian", depth=4)
print(test.select(tg.predict(model)).unnest("prediction").group_by(test["b"] > 0).agg(pl.col("variance").median()))
print("negative log likelihood:", model.score(test))

# A mean to which being too low costs four times as much as being too high.
model = train.taiga.fit_gbdt("y", "a", "b", "c", loss="expectile", alpha=0.8, depth=4)
print("rows whose expectile is above the mean:", (model.predict(test) > test["y"].mean()).mean())

# Rare and hard: rows that are predicted well have a smaller part in the loss.
model = train.taiga.fit_gbdt("rare", "a", "b", "c", loss="focal", focal_gamma=2.0, depth=4)
print("area under the curve:", model.score(test, metric="auc"))

"""Metrics: several of a fit, of several held-out sets, one's own, and of columns of predictions in each group."""

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(0)
x = rng.normal(size=(6_000, 3))
df = pl.DataFrame(x, schema=["a", "b", "c"]).with_columns(
    shop=pl.Series(rng.integers(0, 5, len(x))),
    day=pl.int_range(pl.len()) % 100,
    y=pl.Series(rng.uniform(size=len(x)) < 1 / (1 + np.exp(-x[:, 0] - x[:, 1] * x[:, 2]))),
)

# Held-out sets by name; null trains. The first metric of the first set ("late") decides when to stop.
split = pl.when(pl.col("day") >= 80).then(pl.lit("late")).when(pl.col("shop") == 4).then(pl.lit("new shop"))
features = ["a", "b", "c"]
model = df.taiga.fit_gbdt(
    "y", *features, eval=split, metric=["auc", "logloss", "ece@10"], eval_train=True, rounds=300, early_stopping=20
)
print(model.history.filter("best"))

# Metrics are expressions: any predictions, in each group, with weights.
scored = df.filter(pl.col("day") >= 80).with_columns(p=tg.predict(model))
print(
    scored.group_by("shop", maintain_order=True)
    .agg(tg.metrics.auc("y", "p"), tg.metrics.logloss("y", "p"), tg.metrics.f1("y", "p"), tg.metrics.ece("y", "p"))
    .sort("shop")
)

# One's own: a function of target and prediction, of means and what is made of them.
lift = tg.metric(lambda y, p: tg.mean(y * p) / tg.mean(p) / tg.mean(y), name="lift", larger_is_better=True)
print(lift, scored.select(lift("y", "p")).item())
again = df.taiga.fit_gbdt("y", *features, eval=pl.col("day") >= 80, metric=["logloss", lift], rounds=50)
print(again.history.tail(1), again.params["metric"])

"""Several targets in one model: numbers that share their trees, and labels of which a row may have several."""

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(0)
x = rng.normal(size=(4_000, 5))
mild, steep = np.sin(2 * x[:, 0]) + x[:, 1], x[:, 1] * x[:, 2]
df = pl.DataFrame({f"x{i}": x[:, i] for i in range(5)}).with_columns(
    length=pl.Series(mild + 0.3 * rng.normal(size=len(x))),
    weight=pl.Series(1_000 * (mild - 0.5 * steep) + 300 * rng.normal(size=len(x))),
    price=pl.Series(0.01 * steep + 0.003 * rng.normal(size=len(x))),
)
train, test = df[:3_000], df[3_000:]
features = [f"x{i}" for i in range(5)]

# A struct of targets: a prediction is a struct of the same fields. Their units are nothing to each other.
targets = pl.struct("length", "weight", "price")
model = train.taiga.fit_gbdt(targets, *features)
print(test.select(tg.predict(model)).head(3))
print("rmse, the mean over the targets:", test.select(tg.score(model, targets)).item())

# A tree for each target, as if each were fitted by itself.
each = train.taiga.fit_gbdt(targets, *features, multi_strategy="tree_each")
print(
    "r2 of one tree, of a tree each:", *(test.select(tg.score(m, targets, metric="r2")).item() for m in (model, each))
)

# Labels: each row lists those it has, or none; each has a probability of its own.
genres = pl.concat_list(
    pl.when(pl.col("length") > 0).then(pl.lit("drama")),
    pl.when(pl.col("weight") > 0).then(pl.lit("comedy")),
    pl.when(pl.col("price") > 0.01).then(pl.lit("documentary")),
).list.drop_nulls()
labelled = df.with_columns(genres=genres)
model = labelled[:3_000].taiga.fit_gbdt("genres", *features)
print(labelled[3_000:].select("genres", p=tg.predict(model)).unnest("p").head(3))
print("log loss, area under the curve:", *(model.score(labelled[3_000:], metric=m) for m in ("logloss", "auc")))

"""One model for each group, all in one query, and each row scored by its own group's model."""

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(2)
n = 30_000
rows = pl.DataFrame(
    {"shop": rng.integers(0, 30, n), "price": rng.uniform(1, 10, n), "weekday": rng.integers(0, 7, n)}
).with_columns(sold=100 / pl.col("price") ** (0.5 + pl.col("shop") / 30) + 2 * (pl.col("weekday") >= 5))

# In `group_by().agg()` the fit runs once a group. The models are used twice below: a query that is not collected would
# fit them twice.
models = rows.lazy().group_by("shop").agg(model=tg.fit_gbdt("sold", "price", "weekday", rounds=50)).collect()

# One call for all groups gives the same models, in the order of the groups' first rows. It is the quicker way where
# there are many groups of few rows, and with `device="cuda"` their trees grow together.
in_one_call = rows.lazy().taiga.fit_gbdt_by("shop", "sold", "price", "weekday", rounds=50).collect()
assert in_one_call.sort("shop").equals(models.sort("shop"))

# Joined back, the model stands beside each row of its group, and `predict` takes it from there.
joined = rows.lazy().join(models.lazy(), on="shop")
per_group = joined.with_columns(p=tg.predict("model", "price", "weekday")).drop("model").collect()

# One model for all, without knowing the shop, for comparison.
together = rows.select(tg.fit_gbdt("sold", "price", "weekday", rounds=50)).item()
scored = per_group.with_columns(q=tg.predict(together))

print(models.select("shop", size=pl.col("model").bin.size()).sort("shop").head())
errors = scored.select(
    per_shop=((pl.col("sold") - pl.col("p")) ** 2).mean().sqrt(),
    together=((pl.col("sold") - pl.col("q")) ** 2).mean().sqrt(),
)
print(errors)
assert errors["per_shop"][0] < errors["together"][0]

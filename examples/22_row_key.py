"""Fit behind a join that gives rows in any order, to the same bytes, and check of which rows a model is."""

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(22)
orders = pl.DataFrame(
    {"id": range(50_000), "customer": rng.integers(0, 5_000, 50_000), "price": rng.gamma(2.0, 10.0, 50_000)}
)
customers = pl.DataFrame(
    {"customer": range(5_000), "age": rng.integers(18, 90, 5_000), "city": rng.choice(["Ulm", "Bonn", "Jena"], 5_000)}
)
rows = (
    orders.lazy()
    .join(customers.lazy(), on="customer")
    .with_columns(late=pl.col("price") * (pl.col("city") == "Ulm") + pl.col("age") > 80)
)

# A streaming join gives its rows in any order; the model is one of the set of the rows.
fit = tg.fit_gbdt("late", "price", "age", "city", row_key="id", rounds=50)
models = [rows.select(fit).collect(engine="streaming").item() for _ in range(3)]
print("the same bytes at each run:", models[0] == models[1] == models[2])

# Whoever has the rows can check which ones a model says that it was fitted on, without fitting.
model = tg.Model(models[0])
print("receipt:", model.receipt)
receipt = tg.receipt(tg.fit_gbdt, "late", "price", "age", "city", row_key="id", rounds=50)
print("of these rows:", rows.select(receipt).collect().item() == model.receipt)
print("of all but one:", rows.filter(pl.col("id") != 7).select(receipt).collect().item() == model.receipt)

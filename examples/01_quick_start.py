"""Fit and predict inside a lazy query."""

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(1)
rows = pl.DataFrame({"x": rng.normal(size=20_000), "z": rng.normal(size=20_000)}).with_columns(
    y=pl.col("x").sin() + pl.col("x") * pl.col("z")
)

# A fit is an expression whose value is the model, as bytes.
model = rows.lazy().select(tg.fit_gbdt("y", "x", "z", rounds=200, depth=5, seed=7)).collect().item()

# A prediction is an expression too. The model knows its columns; the query streams.
scored = rows.lazy().with_columns(p=tg.predict(model)).collect()
print(scored.head())

error = scored.select(((pl.col("y") - pl.col("p")) ** 2).mean().sqrt()).item()
spread = scored.select(pl.col("y").std()).item()
print(f"RMSE {error:.4f}; the target's own spread is {spread:.4f}")
assert error < 0.25 * spread

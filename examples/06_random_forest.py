"""A random forest: out-of-bag score, importance, and what one tree looks like."""

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(0)
n = 20_000
df = pl.DataFrame({f"x{i}": rng.normal(size=n) for i in range(8)}).with_columns(
    city=pl.Series(rng.choice(["Turku", "Oulu", "Inari"], n))
)
score = pl.col("x0") * pl.col("x1") + pl.col("x2").sin() + 1.5 * (pl.col("city") == "Inari")
df = df.with_columns(y=score + pl.Series(rng.normal(size=n)) > 0.5)

# The out-of-bag score needs no rows to be held out: each row is judged by the trees that did not draw it.
forest = df.taiga.fit_forest("y", pl.exclude("y"), trees=100, permutation_importance=True, seed=1)
print(forest)
print(f"out-of-bag accuracy {forest.oob_score:.3f}")
print(
    forest.importance("impurity")
    .rename({"importance": "impurity"})
    .with_columns(permutation=forest.importance("permutation")["importance"])
    .sort("impurity", descending=True)
    .head(5)
)
print(
    forest.trees()
    .filter(pl.col("tree") == 0, pl.col("depth") < 2)
    .select("node", "depth", "feature", "border", "right_categories", "gain", "count")
)

# Extremely randomised trees: one random threshold a feature, and no bootstrap.
extra = df.taiga.fit_forest("y", pl.selectors.numeric(), splitter="random", bootstrap=False, depth=10)
print(df.select(right=((tg.predict(extra) > 0.5) == pl.col("y")).mean()))

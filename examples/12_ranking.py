"""Ranking: the rows of each query in an order, by LambdaMART and its kin; whole queries held out."""

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(0)
query = np.repeat(np.arange(300), rng.integers(5, 40, 300))
x = rng.normal(size=(len(query), 4))
quality = x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=300)[query] + 0.5 * rng.normal(size=len(query))
df = pl.DataFrame(x, schema=["match", "age", "visits", "length"]).with_columns(
    grade=pl.Series(np.digitize(quality, [0.5, 1.5, 2.5])), query=pl.Series(query), out=pl.Series(query % 4 == 0)
)

# Rows of a query need not stand side by side; all of them are held out or none.
features = ["match", "age", "visits", "length"]
for loss in ["lambdarank", "xendcg", "pairwise", "yetirank"]:
    model = df.taiga.fit_gbdt("grade", *features, group="query", eval="out", loss=loss, rounds=60, early_stopping=10)
    best = model.history.filter(pl.col("best"))
    print(f"{loss:>10}: NDCG {best['ndcg'].item():.4f} after {best['round'].item() + 1} rounds")

# The best three documents of each query, in a query of Polars.
best = (
    df.lazy()
    .filter("out")
    .with_columns(score=tg.predict(model))
    .sort("score", descending=True)
    .group_by("query", maintain_order=True)
    .head(3)
    .sort("query", maintain_order=True)
)
print(best.select("query", "grade", "score").collect().head(6))

# Clicks say as much of the position at which a document was shown as of the document: position= takes the two apart.
seen = (
    df.with_columns(rank=pl.col("length").rank("ordinal", descending=True).over("query"))
    .filter(pl.col("rank") <= 8)
    .join(pl.DataFrame({"user": range(20)}), how="cross", maintain_order="left_right")
    .with_columns(list=pl.col("query") * 20 + pl.col("user"))
)
clicked = rng.random(seen.height) < (0.15 + 0.15 * seen["grade"].to_numpy()) / seen["rank"].to_numpy()
seen = seen.with_columns(click=pl.Series(clicked.astype(float)))
ranker = seen.taiga.fit_gbdt("click", *features, group="list", position="rank", loss="lambdarank", rounds=60)
print(ranker.position_factors)

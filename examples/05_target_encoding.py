"""Categories as numbers that leak nothing: ordered target encoding, and an encoder for new rows."""

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(0)
n = 50_000
shop = rng.integers(0, 20_000, n)
quality = rng.normal(size=20_000)[shop]
df = pl.DataFrame({"shop": shop, "price": rng.random(n)}).with_columns(
    shop=pl.format("shop {}", "shop"), sold=pl.Series(quality - 2 * rng.random(n) + rng.normal(size=n) > 0)
)
train, new = df.head(40_000), df.tail(10_000)

encoder = train.taiga.fit_target_encoder("shop", "sold")
for kind in ["ordered", "kfold", "full"]:
    encoded = train.with_columns(shop=tg.target_encode("shop", "sold", kind=kind))
    model = encoded.taiga.fit_gbdt("sold", "shop", "price", rounds=50)
    scored = new.with_columns(tg.encode(encoder, "shop")).with_columns(p=tg.predict(model))
    right = scored.select(((pl.col("p") > 0.5) == pl.col("sold")).mean()).item()
    print(f"{kind:8} {right:.1%} of the new rows right")

print(train.select(tg.information_value("shop", "sold"), combinations=tg.combine("shop", "sold").n_unique()))

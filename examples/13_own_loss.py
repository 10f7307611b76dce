"""Write a loss as a function: arriving late costs four times what arriving early does."""

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(11)
n = 20_000
rows = pl.DataFrame(
    {"distance": rng.uniform(1, 30, n), "hour": rng.integers(0, 24, n), "rain": rng.uniform(size=n) < 0.3}
)
rush = pl.col("hour").is_between(7, 9) | pl.col("hour").is_between(16, 18)
noise = pl.Series(rng.gamma(2.0, 1.5, n))
rows = rows.with_columns(
    minutes=2.0 * pl.col("distance") * pl.when(rush).then(1.6).otherwise(1.0) + 4 * pl.col("rain") + noise
).with_columns(held_out=pl.Series(rng.uniform(size=n) < 0.25))

# The function is called once, with symbols. What it computes is differentiated, and runs without Python.
late = tg.loss(lambda y, f: tg.when(y > f).then(4 * (y - f) ** 2).otherwise((y - f) ** 2))
print(late)
print(late.derivatives(y=[10.0, 10.0], f=[8.0, 12.0]))

features = ["distance", "hour", "rain"]
fit = tg.fit_gbdt("minutes", *features, loss=late, eval="held_out", early_stopping=20, rounds=500)
model = tg.Model(rows.select(fit).item())
plain = tg.Model(rows.select(tg.fit_gbdt("minutes", *features, eval="held_out", early_stopping=20, rounds=500)).item())

test = rows.filter("held_out")
is_late = [(pl.col("minutes") > tg.predict(m)).mean().alias(name) for m, name in ((model, "own loss"), (plain, "rmse"))]
print("share of trips that take longer than predicted:", test.select(is_late).row(0, named=True))
print("mean of the own loss:", test.select(tg.score(model, "minutes")).item())

# Counts over exposures of their own: a third parameter is a column.
claims = pl.DataFrame({"age": rng.uniform(18, 80, n), "years": rng.uniform(0.1, 3, n)})
claims = claims.with_columns(claims=pl.Series(rng.poisson(claims["years"] * np.exp(1 - claims["age"] / 25))))
rate = tg.loss(lambda y, f, years: years * f.exp() - y * f, link="log")
by_age = tg.Model(claims.select(tg.fit_gbdt("claims", "age", loss=rate, rounds=60)).item())
print(by_age)
print(pl.DataFrame({"age": [20.0, 40.0, 60.0]}).with_columns(claims_a_year=tg.predict(by_age)))

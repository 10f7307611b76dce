"""Survival: times until an event, some censored, by proportional hazards and by accelerated failure times."""

import numpy as np
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(0)
rows = 3000
x = rng.normal(size=(rows, 3))
months = 30 * rng.weibull(1.4, rows) * np.exp(-0.6 * x[:, 0] + 0.5 * x[:, 1] * (x[:, 2] > 0))
end = rng.uniform(5, 60, rows)
df = pl.DataFrame(x, schema=["age", "dose", "stage"]).with_columns(
    months=pl.Series(np.minimum(months, end)),
    died=pl.Series(months <= end),
    clinic=pl.Series(rng.integers(0, 4, rows)),
    out=pl.Series(np.arange(rows) % 4 == 0),
)
features = ["age", "dose", "stage"]

# Ratios of hazards. `group=` would make clinics strata: who is at risk is then of the same clinic.
cox = df.taiga.fit_gbdt("months", *features, event="died", loss="cox", eval="out", rounds=200, early_stopping=20)
print(f"cox: {cox.rounds} rounds")

# Times, here by the Weibull distribution.
aft = df.taiga.fit_gbdt(
    "months",
    *features,
    event="died",
    loss="aft",
    aft_distribution="extreme",
    aft_scale=0.7,
    eval="out",
    early_stopping=20,
)
held_out = df.filter("out")
for name, model in [("cox", cox), ("aft", aft)]:
    score = held_out.select(
        tg.score(model, "months", event="died", metric="concordance").alias("concordance"),
        tg.score(model, "months", event="died", metric="brier").alias("brier"),
    )
    print(f"{name}: concordance {score['concordance'].item():.3f}, Brier score {score['brier'].item():.3f}")

# How good in each clinic, in one query.
by_clinic = held_out.group_by("clinic").agg(tg.score(cox, "months", event="died", metric="concordance")).sort("clinic")
print(by_clinic)

# Parts that were looked at now and then: the event lies between two visits, or after the last.
visited = df.with_columns(seen_well=(pl.col("months") / 6).floor() * 6).with_columns(
    seen_ill=pl.when("died").then(pl.col("seen_well") + 6).otherwise(pl.lit(float("inf")))
)
between = visited.taiga.fit_gbdt("months", *features, lower="seen_well", upper="seen_ill", loss="aft", rounds=50)
print(visited.select("seen_well", "seen_ill", predicted=tg.predict(between).round(1)).head(4))

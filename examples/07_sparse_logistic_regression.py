"""Logistic regression on rows that are lists: words of a text, hashed; and numbered features with values."""

import numpy as np
import polars as pl
import polars_taiga as tg

# Lines of a log: which words speak for an error to come?
rng = np.random.default_rng(0)
words = pl.Series("word", [f"event{i}" for i in range(5000)] + ["disk", "timeout", "retry", "ok", "cached"])
often = np.array([1.0] * 5000 + [400.0] * 5)
lists = [rng.choice(len(words), rng.integers(5, 40), p=often / often.sum()) for _ in range(20_000)]
bad = np.array([np.sum(np.isin(w, [5000, 5001, 5002])) - np.sum(np.isin(w, [5003, 5004])) for w in lists])
logs = pl.DataFrame(
    {
        "line": [" ".join(words[w.tolist()]) for w in lists],
        "failed": bad + rng.logistic(size=len(lists)) > 1,
    }
)

train, new = logs.head(16_000), logs.tail(4_000)
split = pl.col("line").str.split(" ")
model = train.lazy().taiga.fit_sparse_lr("failed", split.alias("words"), hash_bits=18, l1=1e-4)
print(model)
right = new.lazy().select(((tg.predict(model, split.alias("words")) > 0.5) == pl.col("failed")).mean())
print(
    f"{right.collect().item():.1%} of the new lines right, {model.coefficients().height} of {2**18:,} coefficients used"
)

# Feature numbers and values, as a sparse matrix has them, and dense columns beside them.
table = pl.DataFrame(
    {
        "item": pl.Series([np.unique(w)[:10].tolist() for w in lists], dtype=pl.List(pl.UInt32)),
        "age": rng.random(len(lists)),
        "bought": bad > 0,
    }
).with_columns(amount=pl.col("item").list.eval(1.0 / (1 + pl.element() % 3)))
model = table.taiga.fit_sparse_lr("bought", "item", "amount", dense="age", features=6000, optimizer="adagrad", epochs=3)
print(model.coefficients().sort(pl.col("coefficient").abs(), descending=True).head(3))

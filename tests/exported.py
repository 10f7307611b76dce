"""What the tests of exported models share: a table with categories, models of every kind, rows on their borders."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg

NUMBERS = ["a", "b"]
COLUMNS = [*NUMBERS, "text", "many", "code", "flag"]
CATEGORIES: dict[str, Any] = {"categorical": ["code", "flag"]}


def table(rows: int = 1_500) -> pl.DataFrame:
    """Numbers with missing values, text of few and of many categories, integers and Booleans as categories; targets."""
    rng = np.random.default_rng(5)
    row = pl.int_range(rows)
    frame = pl.DataFrame(
        {
            "a": rng.normal(size=rows),
            "b": rng.normal(size=rows),
            "text": rng.choice(["ü", "it's", "x\ny", "z"], rows),
            "many": rng.choice([f"k{i}" for i in range(30)], rows),
            "code": rng.integers(-5, 7, rows),
            "flag": rng.random(rows) < 0.5,
        }
    ).with_columns(
        a=pl.when(row % 7 > 0).then("a"),
        b=pl.when(row % 13 > 0).then("b").otherwise(float("nan")),
        text=pl.when(row % 11 > 0).then("text"),
        code=pl.when(row % 17 > 0).then("code"),
        flag=pl.when(row % 19 > 0).then("flag"),
    )
    score = (
        pl.col("a").fill_null(0.7)
        + pl.col("b").fill_nan(0).abs()
        + (pl.col("text").fill_null("z") == "z")
        + pl.col("many").str.len_bytes() / 2
        + pl.col("code").fill_null(3).abs() / 5
        + pl.col("flag").fill_null(True) * pl.col("a").fill_null(0)
    )
    return frame.with_columns(y=score + pl.Series(rng.normal(size=rows)) / 4).with_columns(
        two=pl.col("y") > 2,
        three=pl.col("y").cut([1.5, 2.5], labels=["low", "mid", "top"]).cast(pl.String),
        four=(pl.col("y").round().cast(pl.Int64) % 4) * 10 - 10,
        positive=pl.col("y").abs() + 0.1,
        share=1 / (1 + (-pl.col("y")).exp()),
        grade=pl.col("y").abs().floor().clip(0, 4),
        query=row // 10,
    )


def models(df: pl.DataFrame) -> dict[str, tg.Model]:
    """Every policy, learner, number of outputs and way of categories."""
    fit, forest = df.taiga.fit_gbdt, df.taiga.fit_forest
    return {
        "symmetric": fit("y", NUMBERS, rounds=30),
        "depthwise": fit("y", NUMBERS, rounds=20, policy="depthwise", depth=4),
        "leafwise": fit("two", NUMBERS, rounds=20, policy="leafwise"),
        "three": fit("three", NUMBERS, rounds=5),
        "four": fit("four", NUMBERS, rounds=5, loss="ova"),
        "targets": fit(pl.struct("y", "positive"), COLUMNS, rounds=10, **CATEGORIES),
        "ctr": fit("y", COLUMNS, rounds=20, **CATEGORIES),
        "combinations": fit("two", COLUMNS, rounds=20, policy="depthwise", max_combination=3, **CATEGORIES),
        "counter": fit("three", COLUMNS, rounds=5, ctr=["counter", "buckets"], **CATEGORIES),
        "one_hot": fit("y", COLUMNS, rounds=20, cat_method="one_hot", one_hot_max_size=50, **CATEGORIES),
        "partition": fit("y", COLUMNS, rounds=20, policy="leafwise", cat_method="partition", **CATEGORIES),
        "forest": forest("y", NUMBERS, trees=10, depth=8),
        "forest of two": forest("two", COLUMNS, trees=10, depth=8, **CATEGORIES),
        "forest of four": forest(pl.col("four").cast(pl.String), COLUMNS, trees=10, depth=8, **CATEGORIES),
        "exact": forest("y", NUMBERS, trees=5, depth=6, splitter="exact"),
        "constant": fit(pl.lit(2.5).alias("c"), "a", rounds=1),
        "constant of text": fit(pl.lit(2.5).alias("c"), "text", rounds=1),
    }


def on_borders(model: tg.Model, df: pl.DataFrame, rows: int, dtype: Any) -> pl.DataFrame:
    """Rows whose numbers lie on every border of a model and one unit in the last place beside it, on both sides, are
    missing, or as large as can be; whose categories are those of a table, or unknown. Each border is in some row.
    """
    rng = np.random.default_rng(8)
    narrow = np.float32 if dtype == pl.Float32 else np.float64
    columns: dict[str, pl.Series] = {}
    for name in model.features:
        if not df[name].dtype.is_float():
            known = df[name].unique(maintain_order=True)
            unknown = pl.Series(["never"] if known.dtype == pl.String else [77], dtype=None)
            known = pl.concat([known, unknown.cast(known.dtype)]) if known.dtype != pl.Boolean else known
            columns[name] = known.gather(rng.integers(0, len(known), rows))
            continue
        borders = np.array(model.borders[name], dtype=narrow)
        ends = [np.inf, -np.inf, np.nan, 0.0, 1e300 if narrow is np.float64 else 1e30]
        beside = [np.nextafter(borders, narrow(end)) for end in (np.inf, -np.inf)]
        pool = np.concatenate([borders, *beside, np.array(ends, dtype=narrow)])
        assert len(pool) <= rows
        drawn = np.concatenate([pool, rng.choice(pool, rows - len(pool))])
        values = pl.Series(name, rng.permutation(drawn))
        columns[name] = pl.select(pl.when(pl.Series(rng.random(rows) < 0.97)).then(values)).to_series()
    return pl.DataFrame(columns)


def predicted(model: tg.Model, rows: pl.DataFrame) -> np.ndarray:
    """What is predicted, a column for each number; of two classes the probabilities of both."""
    found = model.predict(rows)
    if found.dtype == pl.Struct:
        return found.struct.unnest().to_numpy()
    values = found.to_numpy()
    of_classes = model.classes is not None and len(model.classes) == 2
    return np.stack([1 - values, values], 1) if of_classes else values[:, None]

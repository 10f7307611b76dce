"""Columns that are mostly one value: the same bytes whether they are stored sparsely or not."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

WAYS: dict[str, dict[str, Any]] = {
    "symmetric": {"depth": 4},
    "depthwise": {"policy": "depthwise", "row_sample": "bernoulli", "min_data_in_leaf": 4},
    "leafwise": {"policy": "leafwise", "row_sample": "goss", "feature_fraction": 0.7},
}


def sparse_frame(seed: int, rows: int = 1_500, levels: int = 20) -> pl.DataFrame:
    """The dummies of two categories, flags and counts drawn independently, mostly null columns."""
    rng = np.random.default_rng(seed)
    categories = pl.DataFrame({name: rng.integers(0, levels, rows) for name in "ab"})
    dummies = categories.to_dummies()
    columns: dict[str, Any] = {}
    for i in range(12):
        off = rng.random(rows) < 0.04
        columns[f"flag{i}"] = off
        columns[f"count{i}"] = np.where(off, rng.integers(-2, 6, rows), i % 2)
        columns[f"null{i}"] = pl.Series(np.where(off, rng.normal(size=rows), 0.0)).set(pl.Series(~off), None)
    y = 3 * (categories["a"] % 3 == 0).cast(pl.Int8) + columns["flag3"] - columns["count5"] + rng.normal(size=rows)
    return pl.concat([dummies, pl.DataFrame(columns)], how="horizontal").with_columns(
        y=pl.Series(y), dense=rng.normal(size=rows)
    )


def fit(df: pl.DataFrame, **params: Any) -> bytes:
    model = df.lazy().select(tg.fit_gbdt("y", pl.exclude("y"), rounds=5, **params)).collect().item()
    assert isinstance(model, bytes)
    return model


@pytest.mark.parametrize("way", WAYS)
@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 1 << 30), chunks=st.integers(1, 5), width=st.sampled_from([None, pl.Float32, pl.Float64]))
def test_bundling_changes_nothing(way: str, seed: int, chunks: int, width: Any) -> None:
    df = sparse_frame(seed)
    cuts = [df.height * i // chunks for i in range(chunks + 1)]
    chunked = pl.concat([df[a:b] for a, b in itertools.pairwise(cuts)], rechunk=False)
    off = fit(df, bundle=False, **WAYS[way])
    assert fit(chunked, **WAYS[way]) == off
    assert fit(df, n_threads=3, **WAYS[way]) == off
    if width is not None:
        integers = df.select(pl.selectors.boolean() | pl.selectors.integer()).columns
        assert fit(df.with_columns(pl.col(integers).cast(width)), **WAYS[way]) == off


def test_the_parameter_is_no_part_of_a_model() -> None:
    df = sparse_frame(1)
    assert "bundle" not in tg.Model(fit(df, bundle=False)).params
    with pytest.raises(ValueError, match="`bundle`"):
        tg.fit_gbdt("y", "dense", bundle="yes")  # type: ignore[arg-type]


def test_predictions_of_a_group_by() -> None:
    """Groups with rows enough to be stored sparsely, and without."""
    df = pl.concat([sparse_frame(2), sparse_frame(3, rows=300)]).with_columns(g=pl.int_range(1_800) < 1_500)
    ways = [
        df.group_by("g").agg(m=tg.fit_gbdt("y", pl.exclude("y", "g"), rounds=4, bundle=b)).sort("g")
        for b in (True, False)
    ]
    assert ways[0].equals(ways[1])

"""Equal bytes, whatever the threads, the chunks, the slices and the widths (issue 2, item 6)."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import polars_taiga as tg
import pytest

FEATURES = list("abcd")

WAYS: dict[str, dict[str, Any]] = {
    "symmetric": {},
    "depthwise": {"policy": "depthwise", "row_sample": "bernoulli", "feature_fraction_node": 0.7},
    "leafwise": {"policy": "leafwise", "row_sample": "goss", "feature_fraction": 0.8, "min_data_in_leaf": 5},
    "mvs": {"row_sample": "mvs", "feature_fraction_level": 0.8, "weight": "w"},
    "mae": {"loss": "mae", "weight": "w"},
    "early stopping": {"eval": "held", "early_stopping": 3, "learning_rate": 0.5},
    "feature weights": {"feature_weights": {"a": 0.3, "c": 2.0}, "random_strength": 0.5},
    "bins": {"bins": {"a": 3, "c": 40}},
    "leaf iterations": {"leaf_iterations": 4, "l2": 10.0, "loss": "huber"},
    "ordered": {"boosting": "ordered", "row_sample": "mvs", "weight": "w"},
    "linear leaves": {"leaf": "linear", "linear_l2": 0.1, "policy": "leafwise", "row_sample": "bernoulli"},
    "monotone": {"policy": "depthwise", "monotone": {"a": 1}, "interaction": [["a", "b"], ["c", "d"]]},
}


def chunked(df: pl.DataFrame, chunks: int) -> pl.DataFrame:
    """The same rows in that many chunks of unequal lengths."""
    cuts = sorted({(i * i * df.height) // (chunks * chunks) for i in range(chunks)} | {0, df.height})
    out = pl.concat([df[a:b] for a, b in itertools.pairwise(cuts)], rechunk=False)
    assert out["a"].n_chunks() == len(cuts) - 1
    return out


@pytest.fixture(params=WAYS)
def fit(request: pytest.FixtureRequest) -> Any:
    """A way to fit: from a frame to bytes."""
    params = WAYS[request.param]

    def fitted(df: pl.DataFrame, *features: Any, lazy: bool = False, **more: Any) -> bytes:
        expr = tg.fit_gbdt("y", *(features or FEATURES), **{"rounds": 12, **params, **more})
        return (df.lazy().select(expr).collect() if lazy else df.select(expr)).item()

    return fitted


def test_threads(df: pl.DataFrame, fit: Any) -> None:
    models = {fit(df, n_threads=n) for n in [1, 2, 4, None]}
    assert len(models) == 1


def test_twice(df: pl.DataFrame, fit: Any) -> None:
    assert fit(df) == fit(df)


@pytest.mark.parametrize("chunks", [2, 7, 1000])
def test_chunks(df: pl.DataFrame, fit: Any, chunks: int) -> None:
    assert fit(chunked(df, chunks)) == fit(df)
    assert fit(chunked(df, chunks), lazy=True) == fit(df)


def test_slices_and_their_copies(df: pl.DataFrame, fit: Any) -> None:
    view = df.slice(13, 2_001)
    copy = pl.DataFrame({s.name: s.to_list() for s in view}, schema=view.schema)
    assert fit(view) == fit(copy)
    assert fit(df.slice(13).head(2_001), lazy=True) == fit(copy)


def test_widths(df: pl.DataFrame, fit: Any) -> None:
    narrow = df.with_columns(pl.col(FEATURES).cast(pl.Float32))
    assert fit(narrow) == fit(df)
    exact = df.with_columns(pl.col(FEATURES).fill_nan(None) * 64)
    for dtype in [pl.Int16, pl.Int64, pl.Float32, pl.Decimal(10, 2)]:
        assert fit(exact.with_columns(pl.col(FEATURES).cast(dtype))) == fit(exact), dtype


def test_null_and_nan_are_the_same(df: pl.DataFrame, fit: Any) -> None:
    assert fit(df.with_columns(pl.col(FEATURES).fill_nan(None))) == fit(df)
    assert fit(df.with_columns(pl.col(FEATURES).fill_null(float("nan")))) == fit(df)


def test_structs_and_misaligned_chunks(df: pl.DataFrame, fit: Any) -> None:
    mixed = chunked(df, 7).with_columns(df["a"], df["w"])
    assert len(set(mixed.n_chunks("all"))) > 1
    assert fit(mixed) == fit(df)
    assert fit(df, pl.struct(FEATURES)) == fit(df)


def test_order_matters_not_for_predictions(df: pl.DataFrame) -> None:
    """Predictions are a function of the row."""
    model = df.taiga.fit_gbdt("y", FEATURES, rounds=12)
    p = df.select("y", p=tg.predict(model))
    for frame in [df.reverse(), chunked(df, 7).reverse(), df.cast(dict.fromkeys(FEATURES, pl.Float32)).reverse()]:
        assert frame.select("y", p=tg.predict(model)).reverse().equals(p)


def test_processes_with_other_thread_counts(df: pl.DataFrame, tmp_path: Path) -> None:
    """POLARS_MAX_THREADS sets the default, and changes nothing."""
    df.write_parquet(tmp_path / "df.parquet")
    script = (
        "import polars as pl, polars_taiga as tg, sys; df = pl.read_parquet(sys.argv[1]);"
        "print(hash(tuple(df.select(tg.fit_gbdt('y', *'abcd', rounds=12)).item())))"
    )
    out = set()
    for threads in ["1", "2", "4"]:
        env = {**os.environ, "POLARS_MAX_THREADS": threads, "PYTHONHASHSEED": "0"}
        run = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "df.parquet")],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        out.add(run.stdout)
    assert len(out) == 1

"""Tables that the tests share."""

from __future__ import annotations

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

ROWS = 3_000

# Files of few tests that take long begin first: of two processes side by side neither is then left with one at the end.
LONGEST = (
    "test_interrupt.py",
    "test_memory_limit.py",
    "test_collective.py",
    "test_ray.py",
    "test_processes.py",
    "test_training.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests of files that take longest first; each file's stay in their order."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(scope="session")
def df() -> pl.DataFrame:
    """Four numeric features with missing values, and targets of each kind; values are exact in f32."""
    rng = np.random.default_rng(1)
    x = np.round(rng.normal(size=(ROWS, 4)) * 64) / 64
    score = x[:, 0] - 2 * (x[:, 1] > 0) + x[:, 2] * x[:, 3] + rng.normal(size=ROWS) / 4
    return (
        pl.DataFrame({name: x[:, i] for i, name in enumerate("abcd")})
        .with_columns(
            b=pl.when(pl.int_range(pl.len()) % 7 == 3).then(None).otherwise("b"),
            c=pl.when(pl.int_range(pl.len()) % 11 == 5).then(float("nan")).otherwise("c"),
            y=pl.Series(score),
            flag=pl.Series(score > 0),
            kind=pl.Series(np.digitize(score, [-2, 0.5])).cast(pl.String).replace({"0": "low", "1": "mid", "2": "top"}),
            group=pl.Series(rng.integers(0, 5, ROWS)),
            held=pl.int_range(pl.len()) % 4 == 0,
            w=pl.Series(rng.integers(1, 4, ROWS).astype(float)),
        )
        .rechunk()
    )


@pytest.fixture(scope="session")
def regression(df: pl.DataFrame) -> tg.Model:
    """A model of `y`."""
    return df.taiga.fit_gbdt("y", *"abcd", rounds=20)


@pytest.fixture(scope="session")
def binary(df: pl.DataFrame) -> tg.Model:
    """A model of `flag`."""
    return df.taiga.fit_gbdt("flag", *"abcd", rounds=20)


@pytest.fixture(scope="session")
def multiclass(df: pl.DataFrame) -> tg.Model:
    """A model of `kind`: low, mid, top."""
    return df.taiga.fit_gbdt("kind", *"abcd", rounds=10)

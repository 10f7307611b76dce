"""Target encoding equals scikit-learn's TargetEncoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

preprocessing = pytest.importorskip("sklearn.preprocessing")
selection = pytest.importorskip("sklearn.model_selection")

N = 3_000


@pytest.fixture(scope="module")
def table() -> tuple[pl.DataFrame, np.ndarray]:
    """Categories of very different sizes and targets of each type."""
    rng = np.random.default_rng(7)
    c = np.floor(60 * rng.random(N) ** 3).astype(int)
    signal = np.sin(c) + rng.normal(size=N)
    df = pl.DataFrame({"c": c, "continuous": 1e3 + 50 * signal, "binary": signal > 0.5}).with_columns(
        multiclass=pl.Series(np.digitize(signal, [-0.5, 0.5])).cast(pl.String)
    )
    return df, c.reshape(-1, 1)


TYPES = ["continuous", "binary", "multiclass"]


def target_of(df: pl.DataFrame, kind: str) -> np.ndarray:
    y: np.ndarray = (df[kind].cast(pl.Int8) if kind == "binary" else df[kind]).to_numpy()
    return y


def as_array(series: pl.Series) -> np.ndarray:
    frame = series.struct.unnest() if series.dtype == pl.Struct else series.to_frame()
    out: np.ndarray = frame.to_numpy()
    return out


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("smooth", [0.0, 1.0, 20.5, "auto"])
def test_full(table: Any, kind: str, smooth: Any) -> None:
    df, x = table
    encoder = preprocessing.TargetEncoder(target_type=kind, smooth=smooth).fit(x, target_of(df, kind))
    want = encoder.transform(x)
    classes = list(encoder.classes_) if kind == "multiclass" else None
    got = df.select(tg.target_encode("c", kind, kind="full", prior_weight=smooth, classes=classes))["c"]
    np.testing.assert_allclose(as_array(got), want, rtol=1e-9)
    new = pl.DataFrame({"c": [0, 5, 59, 1_000]})
    fitted = df.taiga.fit_target_encoder("c", kind, prior_weight=smooth, classes=classes)
    np.testing.assert_allclose(
        as_array(new.select(tg.encode(fitted))["c"]), encoder.transform(new["c"].to_numpy().reshape(-1, 1)), rtol=1e-9
    )


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("smooth", [0.0, 2.5, "auto"])
def test_kfold_with_its_folds(table: Any, kind: str, smooth: Any) -> None:
    df, x = table
    y = target_of(df, kind)
    encoder = preprocessing.TargetEncoder(target_type=kind, smooth=smooth, cv=4, shuffle=True, random_state=3)
    want = encoder.fit_transform(x, y)
    splitter = selection.KFold if kind == "continuous" else selection.StratifiedKFold
    folds = np.empty(N, dtype=np.int64)
    for fold, (_, rows) in enumerate(splitter(4, shuffle=True, random_state=3).split(x, y)):
        folds[rows] = fold
    classes = list(encoder.classes_) if kind == "multiclass" else None
    expr = tg.target_encode("c", kind, kind="kfold", folds="fold", prior_weight=smooth, classes=classes)
    got = df.with_columns(fold=pl.Series(folds)).select(expr)["c"]
    np.testing.assert_allclose(as_array(got), want, rtol=1e-9, atol=1e-12)


def test_weight_of_evidence_of_category_encoders(table: Any) -> None:
    category_encoders = pytest.importorskip("category_encoders")
    df, _ = table
    frame = df.select(pl.col("c").cast(pl.String)).to_pandas()
    counts = df.select(pl.len().over("c"))["len"].to_numpy()
    want = category_encoders.WOEEncoder(regularization=1.0).fit(frame, target_of(df, "binary")).transform(frame)
    got = df.select(tg.woe("c", "binary", smoothing=1.0))["c"].to_numpy()
    # It leaves out categories of one row.
    np.testing.assert_allclose(got[counts > 1], want["c"].to_numpy()[counts > 1], rtol=1e-9)

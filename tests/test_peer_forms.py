"""Models as those of Treelite, LightGBM and XGBoost, which predict what `tg.predict` does, on borders and beside."""

from __future__ import annotations

import sys
from typing import Any

import lightgbm
import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
import treelite
import xgboost

from tests import exported
from tests.test_onnx import LOSSES

ROWS = 100_000


def by_treelite(model: tg.Model, rows: np.ndarray) -> np.ndarray:
    return treelite.gtil.predict(model.to_treelite(), rows)


def by_lightgbm(model: tg.Model, rows: np.ndarray) -> np.ndarray:
    booster = model.to_lightgbm()
    again = lightgbm.Booster(model_str=booster.model_to_string())
    assert np.array_equal(again.predict(rows[:100]), booster.predict(rows[:100]))
    return booster.predict(rows, num_threads=1)


def by_xgboost(model: tg.Model, rows: np.ndarray) -> np.ndarray:
    booster = model.to_xgboost()
    booster.set_param({"nthread": 1})
    return booster.predict(xgboost.DMatrix(rows, feature_names=booster.feature_names, nthread=1))


# Each with the type that its numbers have, and how far from ours its predictions may be.
PEERS: dict[str, tuple[Any, Any, float]] = {
    "treelite": (by_treelite, pl.Float64, 1e-14),
    "lightgbm": (by_lightgbm, pl.Float64, 1e-14),
    "xgboost": (by_xgboost, pl.Float32, 1e-6),
}


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return exported.table()


@pytest.fixture(scope="module")
def models(table: pl.DataFrame) -> dict[str, tg.Model]:
    """Those of numbers, and more of them."""
    found = {n: m for n, m in exported.models(table).items() if set(m.features) <= set(exported.NUMBERS)}
    fit, forest = table.taiga.fit_gbdt, table.taiga.fit_forest
    return found | {
        "targets of numbers": fit(pl.struct("y", "positive"), exported.NUMBERS, rounds=10),
        "forest of three": forest("three", exported.NUMBERS, trees=10),
        "forest of two numbers": forest("two", exported.NUMBERS, trees=10),
        # Splits that part missing values from all others alone, and one that has no number on its left.
        "missing": table.select("y", a=pl.when(pl.col("a") > 0.5).then(1.0)).taiga.fit_gbdt("y", "a", rounds=3),
    }


def check(peer: str, model: tg.Model, df: pl.DataFrame, rows: int = 3_000) -> None:
    run, dtype, tolerance = PEERS[peer]
    frame = exported.on_borders(model, df, rows, dtype)
    if dtype == pl.Float32:  # XGBoost takes no infinity, and reads what is beyond f32 as one.
        frame = frame.with_columns(pl.col(pl.Float32).clip(-1e30, 1e30))
    narrow = np.float32 if dtype == pl.Float32 else np.float64
    matrix = np.ascontiguousarray(frame.select(pl.all().fill_null(np.nan)).to_numpy(), narrow)
    found = run(model, matrix).reshape(rows, -1).astype(np.float64)
    ours = exported.predicted(model, frame)
    ours = ours if found.shape[1] == ours.shape[1] else ours[:, 1:]  # of two classes one probability
    # Treelite computes softmax in f32.
    tolerance = max(tolerance, 1e-7) if peer == "treelite" and model.loss == "multiclass" else tolerance
    assert np.abs(found - ours).max() < tolerance * max(1.0, np.abs(ours).max()), peer


@pytest.mark.parametrize("peer", PEERS)
def test_peers_predict_what_we_do(peer: str, models: dict[str, tg.Model], table: pl.DataFrame) -> None:
    """Of every kind of model; of some of them 10^5 rows."""
    text = models["missing"].to_json()
    assert '"border":"inf"' in text or '"border":"-inf"' in text
    for name, model in models.items():
        check(peer, model, table, ROWS if name in ("symmetric", "three") else 3_000)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_link(loss: str, table: pl.DataFrame) -> None:
    target, params = LOSSES[loss]
    of = pl.struct("two", three=pl.col("three") == "low") if loss == "multilabel" else target
    model = table.taiga.fit_gbdt(of, exported.NUMBERS, rounds=4, **{"loss": loss, **params})
    for peer in PEERS:
        if loss in ("gaussian", "quantiles"):
            with pytest.raises(ValueError, match=r"does not know; to_onnx keeps it"):
                PEERS[peer][0](model, np.zeros((1, 2)))
        else:
            check(peer, model, table, 1_000)


def test_rounds_and_names(table: pl.DataFrame) -> None:
    """A peer's first rounds are ours; names that it can't have become others."""
    frame = table.rename({"a": "a, [x]", "b": "b"})
    model = frame.taiga.fit_gbdt("three", "a, [x]", "b", rounds=6)
    matrix = np.ascontiguousarray(frame.select(pl.col("a, [x]", "b").fill_null(np.nan)).to_numpy().astype(np.float32))
    rows = pl.DataFrame(matrix, schema=["a, [x]", "b"])
    ours = exported.predicted(model.head(4), rows)
    booster = model.to_lightgbm()
    assert booster.feature_name() == ["a___x_", "b"]
    assert np.abs(booster.predict(matrix, num_iteration=4) - ours).max() < 1e-14
    other = model.to_xgboost()
    assert other.feature_names is None
    assert np.abs(other.predict(xgboost.DMatrix(matrix), iteration_range=(0, 4)) - ours).max() < 1e-6


def test_what_they_do_not_know(table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    with_text = table.taiga.fit_gbdt("y", "a", "text", rounds=3)
    linear = table.select(pl.col("b").fill_nan(0).fill_null(0), "two").taiga.fit_sparse_lr("two", dense="b")
    for peer in PEERS:
        with pytest.raises(ValueError, match=f"to_{peer}: `text` has categories"):
            getattr(with_text, f"to_{peer}")()
        with pytest.raises(ValueError, match=f"to_{peer}: the model of `two` is linear"):
            getattr(linear, f"to_{peer}")()
        monkeypatch.setitem(sys.modules, peer, None)
        monkeypatch.setitem(sys.modules, f"{peer}.model_builder", None)
        with pytest.raises(ImportError, match=rf"to_{peer} needs the package {peer}: pip install"):
            getattr(with_text, f"to_{peer}")()

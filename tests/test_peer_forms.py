"""Models as those of Treelite, LightGBM and XGBoost, which predict what `tg.predict` does, on borders and beside."""

from __future__ import annotations

import json
import sys
from typing import Any

import lightgbm
import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
import treelite
import xgboost

from tests import equal_models as equal
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


def test_several_targets_of_a_log_link(table: pl.DataFrame) -> None:
    """Proves that LightGBM, which takes the exponential of the first score alone, is refused, and that the others keep
    it.
    """
    frame = table.with_columns(t=pl.col("y").abs() / 10, u=pl.col("y").abs() / 5)
    for strategy in ("one_tree", "tree_each"):
        model = frame.taiga.fit_gbdt(pl.struct("t", "u"), "a", "b", loss="poisson", rounds=4, multi_strategy=strategy)
        with pytest.raises(ValueError, match="LightGBM takes the exponential of one score alone"):
            model.to_lightgbm()
        finite = table.filter(pl.col("a").is_finite() & pl.col("b").is_finite())
        rows, matrix = rows_of(model, finite)
        ours = np.column_stack([model.predict(rows).struct.field(name).to_numpy() for name in ("t", "u")])
        booster = model.to_xgboost()
        found = booster.predict(xgboost.DMatrix(matrix, feature_names=booster.feature_names))
        assert np.abs(found / ours - 1).max() < 1e-5


def explained_by(booster: Any, matrix: np.ndarray) -> np.ndarray:
    """A peer's contributions, `[row][feature, or the base value][output]`."""
    if isinstance(booster, xgboost.Booster):
        booster.set_param({"nthread": 1})
        data = xgboost.DMatrix(matrix, feature_names=booster.feature_names, nthread=1)
        found = booster.predict(data, pred_contribs=True)
    else:
        found = booster.predict(matrix, pred_contrib=True, num_threads=1)
    return np.moveaxis(found.reshape(len(matrix), -1, matrix.shape[1] + 1), 1, -1).astype(np.float64)


def same(found: np.ndarray, ours: np.ndarray, tolerance: float) -> None:
    """Compares contributions, by a share of the sum of the absolute values of a row and output."""
    scale = np.maximum(np.abs(ours).sum(axis=1, keepdims=True), 1e-300)
    assert found.shape == ours.shape
    assert (np.abs(found - ours) <= tolerance * scale).all(), np.abs((found - ours) / scale).max()


def with_hessians_as_counts(model: tg.Model) -> tg.Model:
    """The same model, whose leaves have their hessians, in small units, as numbers of rows."""
    data = json.loads(model.to_json())
    for leaf in (leaf for tree in data["trees"] for leaf in tree["leaves"]):
        leaf["count"] = round(leaf["weight"] * equal.HESSIAN_UNITS)
    return tg.Model.from_json(json.dumps(data))


def rows_of(model: tg.Model, table: pl.DataFrame, rows: int = 200) -> tuple[pl.DataFrame, np.ndarray]:
    """Some rows whose numbers are exact in 32 bits, as a frame and as a matrix."""
    numbers = pl.col(list(model.features)).cast(pl.Float32).cast(pl.Float64)
    frame = table.head(rows).select(numbers)
    return frame, frame.select(pl.all().fill_null(np.nan)).to_numpy()


def test_peers_explain_as_we_do(models: dict[str, tg.Model], table: pl.DataFrame) -> None:
    """Proves that contributions of LightGBM, by rows, and of XGBoost, by hessians, are ours of the same weights.

    Trees some of whose leaves no row came to agree too, to what the peer's counts tell beside next to nothing.
    """
    has_empty = {
        name: model.trees().filter(pl.col("leaf").is_not_null(), pl.col("count") == 0).height > 0
        for name, model in models.items()
    }
    assert has_empty["symmetric"]
    assert not has_empty["depthwise"]
    for name, model in models.items():
        frame, matrix = rows_of(model, table)
        ours = equal.contributions(model, frame)
        # LightGBM adds the contributions of forests where it averages predictions.
        trees = model.rounds if model.learner == "forest" else 1
        same(explained_by(model.to_lightgbm(), matrix) / trees, ours, 1e-6 if has_empty[name] else 1e-13)
        if model.learner == "gbdt":
            ours = equal.contributions(with_hessians_as_counts(model), frame)
        same(explained_by(model.to_xgboost(), matrix), ours, 1e-5)


def test_models_that_know_no_rows_are_explained(table: pl.DataFrame) -> None:
    """Proves it of leaves that tell weights alone, as XGBoost's do, and of those that tell neither: halves, as ours."""
    model = table.taiga.fit_gbdt("two", exported.NUMBERS, rounds=5, policy="leafwise")
    data = json.loads(model.to_json())
    for leaf in (leaf for tree in data["trees"] for leaf in tree["leaves"]):
        leaf |= {"count": 0, "weight": 0.0}
    unknown, by_weights = tg.Model.from_json(json.dumps(data)), tg.import_model(model.to_xgboost())
    assert by_weights.trees()["count"].max() == 0
    for one in (unknown, by_weights):
        frame, matrix = rows_of(one, table)
        ours = equal.contributions(one, frame)
        same(explained_by(one.to_lightgbm(), matrix), ours, 1e-6)
        same(explained_by(one.to_xgboost(), matrix), ours, 1e-5)


def importances(model: tg.Model, kind: Any) -> np.ndarray:
    return model.importance(kind)["importance"].to_numpy()


def test_peers_have_our_importances(models: dict[str, tg.Model]) -> None:
    """Proves it of gain, splits and cover, and that a peer's booster read again has them too.

    XGBoost counts every node of a symmetric tree's level, LightGBM as we do a level once; a forest of three classes is
    to both a tree for each.
    """
    for name, model in models.items():
        copies = 3 if name == "forest of three" else 1
        gain, split, cover = (importances(model, kind) for kind in ("gain", "split", "cover"))
        light, other = model.to_lightgbm(), model.to_xgboost()
        assert np.allclose(light.feature_importance("gain"), gain, rtol=1e-6), name
        assert light.feature_importance("split").tolist() == (copies * split).tolist(), name

        def of_xgboost(kind: str, booster: xgboost.Booster = other, of: tg.Model = model) -> list[float]:
            found = booster.get_score(importance_type=kind)
            return [found.get(feature, 0.0) for feature in of.features]

        nodes = model.trees()["feature"].drop_nulls().to_list()
        assert np.allclose(of_xgboost("total_gain"), gain, rtol=1e-5), name
        assert np.allclose(of_xgboost("total_cover"), copies * cover, rtol=1e-5), name
        assert of_xgboost("weight") == [copies * nodes.count(feature) for feature in model.features], name
        for booster, tolerance in ((light, 1e-6), (other, 1e-5)):
            again = tg.import_model(booster)
            assert np.allclose(importances(again, "gain"), gain, rtol=tolerance), name
            assert np.allclose(importances(again, "cover"), copies * cover, rtol=tolerance), name


def test_counts_weights_and_means_of_nodes(table: pl.DataFrame) -> None:
    """Proves that LightGBM's table of nodes has our counts, weights and gains, and its inner values are means."""
    weights = pl.Series("w", [0.25, 1.0, 4.0]).gather(pl.int_range(table.height, eager=True) % 3)
    model = table.with_columns(weights).taiga.fit_gbdt(
        "y", exported.NUMBERS, rounds=3, policy="leafwise", leaves=9, weight="w"
    )
    ours = model.trees()
    found = model.to_lightgbm().trees_to_dataframe()
    names = ("tree_index", "node_depth", "split_gain", "value", "weight", "count")
    theirs = pl.DataFrame({name: found[name].to_numpy() for name in names})
    for name, key in (("count", "count"), ("weight", "weight"), ("split_gain", "gain")):
        own = ours.filter(pl.col("leaf").is_null())[key].sort()
        assert np.allclose(theirs.filter(pl.col("split_gain").is_not_nan())[name].sort(), own, rtol=1e-6)
        if key != "gain":
            own = ours.filter(pl.col("leaf").is_not_null())[key].sort()
            assert np.allclose(theirs.filter(pl.col("split_gain").is_nan())[name].sort(), own, rtol=1e-6)
    leaves = theirs.filter(pl.col("split_gain").is_nan()).group_by("tree_index", maintain_order=True)
    means = leaves.agg((pl.col("value") * pl.col("weight")).sum() / pl.col("weight").sum())["value"]
    roots = theirs.filter(pl.col("node_depth") == 1)["value"]
    assert np.allclose(roots, means, rtol=1e-12, atol=1e-12)

"""Shapley values and interactions against four libraries of others, on models made equal.

`shap` is held to 1e-9 of a row's sum of absolute values where it computes in 64 bits: its TreeExplainer by the
training rows, its ExactExplainer (by the definition, over all subsets) against a background, its LinearExplainer. So
are CatBoost and LightGBM. XGBoost's values are of 32 bits, and TreeExplainer's weights against a background: 1e-5.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

from tests import equal_models as equal

ROWS, NAMES = 1_200, [f"f{i}" for i in range(6)]
CLOSE, CLOSE_IN_32_BITS = 1e-9, 1e-5


@pytest.fixture(scope="module")
def shap() -> Any:
    """The package; what it would compile by numba takes longer to compile than to run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_DISABLE_JIT", "1")
        return pytest.importorskip("shap")


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    """Six features, exact in 32 bits, with missing values; f5 is one number. Targets `y`, `flag` and `kind`."""
    rng = np.random.default_rng(17)
    x = np.round(rng.normal(size=(ROWS, len(NAMES))) * 64) / 64
    x[rng.random(x.shape) < 0.08] = np.nan
    x[:, 5] = 1.0
    z = np.nan_to_num(x)
    y = z[:, 0] + z[:, 1] * z[:, 2] + 2 * (z[:, 3] > 0.5) * z[:, 4] + rng.normal(size=ROWS) / 4
    targets = {"y": y, "flag": (y > 0).astype(int), "kind": np.digitize(y, [-1, 1])}
    return pl.DataFrame({name: x[:, i] for i, name in enumerate(NAMES)} | targets)


def arrays(frame: pl.DataFrame) -> np.ndarray:
    return np.asarray(frame.select(NAMES).to_numpy())


def same(found: np.ndarray, expected: Any, tolerance: float = CLOSE) -> None:
    """Compares `[row]…[output]`, by a share of the sum of the absolute values of a row and output."""
    expected = np.asarray(expected, dtype=np.float64).reshape(found.shape)
    scale = np.abs(expected).sum(axis=tuple(range(1, found.ndim - 1)), keepdims=True)
    assert np.isfinite(found).all()
    assert (np.abs(found - expected) <= tolerance * scale).all(), np.abs((found - expected) / scale).max()


def hangs_together(model: tg.Model, frame: pl.DataFrame, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values, which sum to scores, and interactions, whose lines and columns sum to values."""
    values, pairs = equal.contributions(model, frame, **options), equal.interactions(model, frame, **options)
    scale = np.abs(values).sum(axis=1)
    assert (np.abs(values.sum(axis=1) - equal.score(model, frame)) <= 1e-12 * scale).all()
    for axis in (1, 2):
        assert (np.abs(pairs.sum(axis=axis) - values[:, :-1]) <= 1e-12 * scale[:, None]).all()
    return values, pairs


def by_shap(shap: Any, what: Any, x: np.ndarray, outputs: int, pairs: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """What TreeExplainer gives by the training rows, of the last outputs: values with the base value, interactions."""
    explainer = shap.TreeExplainer(what, feature_perturbation="tree_path_dependent")
    n, m = x.shape
    values = np.asarray(explainer.shap_values(x)).reshape(n, m, -1)[..., -outputs:]
    base = np.broadcast_to(np.reshape(explainer.expected_value, -1)[-outputs:], (n, 1, outputs))
    both = explainer.shap_interaction_values(x) if pairs else None
    return np.hstack([values, base]), None if both is None else np.reshape(both, (n, m, m, -1))[..., -outputs:]


def held_by_shap(shap: Any, model: tg.Model, trees: list[equal.Tree], frame: pl.DataFrame, pairs: bool = True) -> None:
    """Holds values and interactions by the training rows against TreeExplainer's, of the same trees."""
    start = equal.start_of(model)
    values, both = hangs_together(model, frame)
    theirs, their_pairs = by_shap(shap, equal.for_shap(trees, start), arrays(frame), len(start), pairs)
    same(values, theirs)
    if pairs:
        same(both, their_pairs)


def against(shap: Any, model: tg.Model, frame: pl.DataFrame, background: pl.DataFrame) -> Any:
    """What TreeExplainer gives for a model's trees against a background."""
    trees, columns = equal.for_shap(equal.of_taiga(model), equal.start_of(model)), list(model.features)
    rows, others = (f.select(columns).to_numpy() for f in (frame, background))
    return shap.TreeExplainer(trees, data=others, feature_perturbation="interventional").shap_values(rows)


OURS: dict[str, Callable[[pl.DataFrame], tg.Model]] = {
    "symmetric": lambda f: f.taiga.fit_gbdt("y", NAMES, rounds=8, depth=4),
    "symmetric_flag": lambda f: f.taiga.fit_gbdt("flag", NAMES, rounds=8, depth=4, loss="logloss"),
    "symmetric_kind": lambda f: f.taiga.fit_gbdt("kind", NAMES, rounds=4, depth=3, loss="multiclass"),
    "depthwise": lambda f: f.taiga.fit_gbdt("y", NAMES, rounds=8, policy="depthwise"),
    "leafwise_flag": lambda f: f.taiga.fit_gbdt("flag", NAMES, rounds=8, policy="leafwise", loss="logloss"),
    "leafwise_kind": lambda f: f.taiga.fit_gbdt("kind", NAMES, rounds=4, policy="leafwise", loss="multiclass"),
    "deep": lambda f: f.taiga.fit_gbdt("y", NAMES, rounds=4, policy="depthwise", depth=12, min_child_weight=0),
    "forest": lambda f: f.taiga.fit_forest("y", NAMES, trees=4, depth=9),
    "forest_flag": lambda f: f.taiga.fit_forest(pl.col("flag").cast(pl.Boolean).alias("flag"), NAMES, trees=4),
    "forest_kind": lambda f: f.taiga.fit_forest(pl.col("kind").cast(pl.String).alias("kind"), NAMES, trees=4),
}


@pytest.mark.parametrize("kind", OURS)
def test_shap_has_the_same_values_for_our_trees(shap: Any, table: pl.DataFrame, kind: str) -> None:
    """Proves it by the training rows, to 1e-9: values, base values, interactions."""
    model = OURS[kind](table)
    trees = equal.of_taiga(model)
    if kind == "deep":
        assert model.trees()["depth"].max() == 12
    held_by_shap(shap, model, equal.with_traces(trees), table.head(40))


def same_as_defined(
    shap: Any,
    model: tg.Model,
    few: pl.DataFrame,
    background: pl.DataFrame,
    array: Callable[[pl.DataFrame], np.ndarray],
    frame: Callable[[np.ndarray], pl.DataFrame],
) -> np.ndarray:
    """Holds values against a background to ExactExplainer's, which asks for scores alone: of frames made of arrays."""
    found, _ = hangs_together(model, few, background=background)
    masker = shap.maskers.Independent(array(background), max_samples=background.height)
    exact = shap.ExactExplainer(lambda x: equal.score(model, frame(x)), masker)(array(few), silent=True)
    n, m, outputs = found.shape
    base = exact.base_values.reshape(n, 1, outputs)
    same(found, np.hstack([exact.values.reshape(n, m - 1, outputs), base]))
    return found


@pytest.mark.parametrize("kind", OURS)
def test_shap_has_the_same_values_against_a_background(shap: Any, table: pl.DataFrame, kind: str) -> None:
    """Proves it over all subsets of columns, to 1e-9, and against TreeExplainer's, whose weights are of 32 bits."""
    model = OURS[kind](table)
    few, background = table.head(12), table.slice(500, 30)

    def frame(x: np.ndarray) -> pl.DataFrame:
        return pl.DataFrame(dict(zip(NAMES, x.T, strict=True)))

    found = same_as_defined(shap, model, few, background, arrays, frame)
    same(found[:, :-1], against(shap, model, few, background), CLOSE_IN_32_BITS)


def chain(rng: np.random.Generator, depth: int, features: int) -> equal.Tree:
    """A tree of one long path, by hand: each node asks another column, has a leaf on one side and rows on both."""
    nodes: list[dict[str, Any]] = []
    for level, feature in enumerate(rng.permutation(features)[:depth].tolist()):
        at, leaf_left = 2 * level, bool(rng.random() < 0.5)
        sides = {"left": at + 1, "right": at + 2} if leaf_left else {"left": at + 2, "right": at + 1}
        own = {"feature": feature, "border": round(rng.normal()), "missing_left": bool(rng.random() < 0.5)}
        nodes += [sides | own, {"value": float(np.float32(rng.normal())), "count": int(rng.integers(1, 9))}]
    nodes.append({"value": float(np.float32(rng.normal())), "count": 3})
    for node in reversed(nodes):
        if "feature" in node:
            node["count"] = nodes[node["left"]]["count"] + nodes[node["right"]]["count"]
    return equal.tree_of(nodes)


def test_trees_by_hand(shap: Any) -> None:
    """Proves it where a path has up to 20 columns, which is walked, where a tree is one leaf, and of unused columns."""
    rng = np.random.default_rng(5)
    names = [f"c{i}" for i in range(22)]
    x = rng.normal(size=(30, 22))
    x[rng.random(x.shape) < 0.1] = np.nan
    frame = pl.DataFrame(dict(zip(names, x.T, strict=True)))
    leaf = equal.tree_of([{"value": 0.25, "count": 7}])
    for trees in ([chain(rng, depth, 21) for depth in (20, 9, 1, 17)] + [leaf], [leaf], [chain(rng, 2, 21), leaf]):
        model = equal.boosted(trees, names, [-0.5])
        values, both = hangs_together(model, frame)
        theirs, their_pairs = by_shap(shap, equal.for_shap(trees, -0.5), x, 1, pairs=True)
        same(values, theirs)
        same(both, their_pairs)
        assert not values[:, 21].any()
        few, background = frame.head(5), frame.tail(9)
        found, _ = hangs_together(model, few, background=background)
        same(found[:, :-1], against(shap, model, few, background), CLOSE_IN_32_BITS)


XGBOOST: dict[str, tuple[str, str, list[float], dict[str, Any]]] = {
    "number": ("reg:squarederror", "y", [0.5], {}),
    "deep": ("reg:squarederror", "y", [0.5], {"max_depth": 12, "learning_rate": 1.0, "gamma": 0.5}),
    "flag": ("binary:logistic", "flag", [0.0], {}),
    "classes": ("multi:softprob", "kind", [0.5] * 3, {"num_class": 3}),
}


@pytest.mark.parametrize("kind", XGBOOST)
def test_xgboost(shap: Any, table: pl.DataFrame, kind: str) -> None:
    """Proves it against XGBoost's contributions and interactions, which are of 32 bits, and `shap`'s of its trees.

    XGBoost weighs branches by hessians, which are rows only under a squared loss: read as counts in a small unit.
    """
    xgboost = pytest.importorskip("xgboost")
    objective, target, start, more = XGBOOST[kind]
    settings = {"objective": objective, "base_score": 0.5, "max_depth": 5, "max_bin": 64, "nthread": 1, **more}
    booster = xgboost.train(settings, xgboost.DMatrix(arrays(table), table[target].to_numpy()), 10)
    trees = equal.of_xgboost(booster)
    model = equal.boosted(trees, NAMES, start, 1.0 if target == "y" else equal.HESSIAN_UNITS)
    if kind == "deep":
        assert min(len(tree["features"]) for tree in trees) == 1
        assert model.trees()["depth"].max() == 12
    few = table.head(60)
    rows = xgboost.DMatrix(arrays(few))
    values, both = hangs_together(model, few)
    # An output is a class and stands before the columns.
    same(
        values,
        np.moveaxis(booster.predict(rows, pred_contribs=True).reshape(60, len(start), 7), 1, -1),
        CLOSE_IN_32_BITS,
    )
    pairs = booster.predict(rows, pred_interactions=True).reshape(60, len(start), 7, 7)
    same(both, np.moveaxis(pairs[..., :-1, :-1], 1, -1), CLOSE_IN_32_BITS)
    # In 64 bits, by the counts that our model has.
    held_by_shap(shap, model, equal.of_taiga(model), few)
    background = table.slice(700, 25)
    found, _ = hangs_together(model, few, background=background)
    same(found[:, :-1], against(shap, model, few, background), CLOSE_IN_32_BITS)


def of_catboost(frame: pl.DataFrame, target: str, path: Path, **settings: Any) -> tuple[Any, dict[str, Any]]:
    """CatBoost's model, and what it is as JSON; its leaves are rounded to 32 bits, as ours are."""
    catboost = pytest.importorskip("catboost")
    quiet = {"thread_count": 1, "verbose": False, "allow_writing_files": False}
    model = catboost.CatBoost({**settings, **quiet, "iterations": 10, "border_count": 32})
    model.fit(arrays(frame), frame[target].to_numpy())
    model.save_model(str(path), format="json")
    data = json.loads(path.read_text())
    for tree in data["oblivious_trees"]:
        tree["leaf_values"] = np.float32(tree["leaf_values"]).astype(float).tolist()
    path.write_text(json.dumps(data))
    return catboost.CatBoost().load_model(str(path), format="json"), data


@pytest.mark.parametrize(("loss", "target"), [("RMSE", "y"), ("Logloss", "flag"), ("MultiClass", "kind")])
@pytest.mark.parametrize("depth", [4, 8])
def test_catboost(shap: Any, table: pl.DataFrame, tmp_path: Path, loss: str, target: str, depth: int) -> None:
    """Proves it to 1e-9 with symmetric trees: ShapValues, those of reference data, ShapInteractionValues.

    Some leaves have no rows, and rows come to them while other columns are unknown.
    """
    peer, data = of_catboost(table, target, tmp_path / "model.json", loss_function=loss, depth=depth)
    assert any(0 in tree["leaf_weights"] for tree in data["oblivious_trees"])
    model = equal.symmetric(data, NAMES)
    few, reference = table.head(60), table.slice(700, 25)
    outputs = 3 if loss == "MultiClass" else 1

    def pool(frame: pl.DataFrame) -> Any:
        return pytest.importorskip("catboost").Pool(arrays(frame), label=frame[target].to_numpy())

    def explained(kind: str, shape: tuple[int, ...], **more: Any) -> np.ndarray:
        found = peer.get_feature_importance(pool(few), type=kind, thread_count=1, **more)
        return np.moveaxis(np.reshape(found, (60, outputs, *shape)), 1, -1)

    raw = peer.predict(arrays(few), prediction_type="RawFormulaVal").reshape(60, outputs)
    assert np.abs(equal.score(model, few) - raw).max() < 1e-12
    values, both = hangs_together(model, few)
    same(values, explained("ShapValues", (7,)))
    same(both, explained("ShapInteractionValues", (7, 7))[:, :-1, :-1])
    held_by_shap(shap, model, equal.with_traces(equal.of_taiga(model)), few, pairs=depth == 4)
    found, _ = hangs_together(model, few, background=reference)
    same(found, explained("ShapValues", (7,), reference_data=pool(reference)))


def rounded(booster: Any) -> Any:
    """LightGBM's model with leaves of 32 bits, as ours are."""
    for number, tree in enumerate(equal.of_lightgbm(booster)):
        for leaf in range((len(tree["values"]) + 1) // 2):
            booster.set_leaf_output(number, leaf, float(np.float32(booster.get_leaf_output(number, leaf))))
    return booster


@pytest.mark.parametrize(("objective", "target"), [("regression", "y"), ("binary", "flag"), ("multiclass", "kind")])
def test_lightgbm(shap: Any, table: pl.DataFrame, objective: str, target: str) -> None:
    """Proves it to 1e-9, of its own trees with leaves rounded to 32 bits: pred_contrib, and `shap`'s interactions."""
    lightgbm = pytest.importorskip("lightgbm")
    outputs = 3 if objective == "multiclass" else 1
    settings = {"objective": objective, "num_leaves": 24, "num_class": outputs, "verbose": -1, "num_threads": 1}
    settings |= {"boost_from_average": False}
    booster = rounded(lightgbm.train(settings, lightgbm.Dataset(arrays(table), table[target].to_numpy()), 8))
    model = equal.boosted(equal.of_lightgbm(booster), NAMES, [0.0] * outputs)
    few = table.head(60)
    values, _ = hangs_together(model, few)
    peers = booster.predict(arrays(few), pred_contrib=True)
    same(values, np.moveaxis(peers.reshape(60, outputs, 7), 1, -1))
    held_by_shap(shap, model, equal.of_taiga(model), few)


@pytest.mark.parametrize(("kind", "target"), [("Regressor", "y"), ("Classifier", "flag"), ("Classifier", "kind")])
def test_forests_of_scikit_learn(shap: Any, table: pl.DataFrame, kind: str, target: str) -> None:
    """Proves it to 1e-9 against TreeExplainer's reading of scikit-learn's forest, with missing values."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    peer = getattr(ensemble, f"RandomForest{kind}")(6, max_depth=8, random_state=0)
    peer.fit(arrays(table), table[target].to_numpy())
    model = equal.forest(equal.of_scikit_learn(peer), NAMES, {"y": None, "flag": 2, "kind": 3}[target])
    few = table.head(40)
    outputs = 3 if target == "kind" else 1
    predicted = peer.predict(arrays(few))[:, None] if target == "y" else peer.predict_proba(arrays(few))
    assert np.abs(equal.score(model, few) - predicted[:, -outputs:]).max() < 1e-12
    values, both = hangs_together(model, few)
    theirs, their_pairs = by_shap(shap, peer, arrays(few), outputs, pairs=True)
    same(values, theirs)
    same(both, their_pairs)


@pytest.mark.parametrize("target", ["flag", "kind"])
def test_linear_models(shap: Any, table: pl.DataFrame, target: str) -> None:
    """Proves it to 1e-9 against LinearExplainer, of all training rows and of a background."""
    full = table.with_columns(pl.col(NAMES).fill_nan(0))
    model = full.with_columns(pl.col(target).cast(pl.String)).taiga.fit_sparse_lr(target, dense=NAMES)
    data = json.loads(model.to_json())
    slopes = np.zeros((len(NAMES), len(data["labels"])))
    for c in data["coefficients"]:
        slopes[NAMES.index(c["feature"]), c["class"]] = c["value"]
    few, background = full.head(60), full.slice(700, 25)
    outputs = len(data["intercepts"])
    for rows, options in ((full, {}), (background, {"background": background})):
        found = equal.contributions(model, few, **options)
        masker = shap.maskers.Independent(arrays(rows), max_samples=rows.height)
        for output in range(outputs):
            own = slopes[:, -1] if outputs == 1 else slopes[:, output]
            explainer = shap.LinearExplainer((own, data["intercepts"][output]), masker)
            same(found[:, :-1, output, None], explainer.shap_values(arrays(few))[..., None])
            assert found[:, -1, output] == pytest.approx(explainer.expected_value, abs=CLOSE)


@pytest.fixture(scope="module")
def shop(table: pl.DataFrame) -> pl.DataFrame:
    """Two numbers, and columns of 11 and 5 categories, c0, c1, …, that `y` and `flag` depend on."""
    rng = np.random.default_rng(23)
    codes = {"city": rng.integers(0, 11, ROWS), "kind": rng.integers(0, 5, ROWS)}
    text = {name: pl.Series([f"c{code}" for code in code_of]) for name, code_of in codes.items()}
    y = np.nan_to_num(table["f0"].to_numpy()) * (codes["kind"] < 2) + np.sin(5.0 * codes["city"] + codes["kind"])
    return table.select("f0", "f1").with_columns(**text, y=pl.Series(y), flag=pl.Series(y > 0))


SHOP, CODES = ["f0", "f1", "city", "kind"], {"city": 11, "kind": 5}


def coded(frame: pl.DataFrame) -> np.ndarray:
    """Categories by their numbers, missing ones as NaN."""
    number = pl.col(pl.String).str.slice(1).cast(pl.Float64).fill_null(float("nan"))
    return frame.select(SHOP).with_columns(number).to_numpy()


def test_categories_of_lightgbm(shop: pl.DataFrame) -> None:
    """Proves it to 1e-9 where splits are sets of categories; one that is missing is in no set."""
    lightgbm = pytest.importorskip("lightgbm")
    settings = {"num_leaves": 24, "verbose": -1, "num_threads": 1, "boost_from_average": False, "cat_smooth": 1}
    data = lightgbm.Dataset(coded(shop), shop["y"].to_numpy(), categorical_feature=[2, 3])
    booster = rounded(lightgbm.train(settings | {"min_data_per_group": 5}, data, 8))
    model = equal.boosted(equal.of_lightgbm(booster), SHOP, categories=CODES)
    assert '"one_of"' in model.to_json()
    few = shop.head(60).with_columns(city=pl.when(pl.int_range(pl.len()) % 4 > 0).then("city"))
    values, _ = hangs_together(model, few)
    same(values, booster.predict(coded(few), pred_contrib=True))


def test_categories_of_xgboost(shop: pl.DataFrame) -> None:
    """Proves it where splits are sets of categories: contributions and interactions, which are of 32 bits."""
    xgboost = pytest.importorskip("xgboost")

    def matrix(frame: pl.DataFrame) -> Any:
        return xgboost.DMatrix(coded(frame), frame["y"].to_numpy(), feature_types=list("qqcc"), enable_categorical=True)

    settings = {"base_score": 0.5, "max_depth": 5, "max_cat_to_onehot": 6, "nthread": 1}
    booster = xgboost.train(settings, matrix(shop), 8)
    model = equal.boosted(equal.of_xgboost(booster), SHOP, [0.5], categories={"city": 11, "kind": 5})
    assert '"one_of"' in model.to_json()
    few = shop.head(60)
    values, both = hangs_together(model, few)
    same(values, booster.predict(matrix(few), pred_contribs=True), CLOSE_IN_32_BITS)
    same(both, booster.predict(matrix(few), pred_interactions=True)[:, :-1, :-1], CLOSE_IN_32_BITS)


CATEGORIES: dict[str, Callable[[pl.DataFrame], tg.Model]] = {
    "statistics": lambda f: f.taiga.fit_gbdt("flag", SHOP, rounds=8, max_combination=1),
    "sets": lambda f: f.taiga.fit_gbdt("y", SHOP, rounds=8, policy="leafwise", cat_method="partition"),
    "one_hot": lambda f: f.taiga.fit_gbdt("y", SHOP, rounds=8, policy="depthwise", cat_method="one_hot"),
    "forest": lambda f: f.taiga.fit_forest("flag", SHOP, trees=4),
}


@pytest.mark.parametrize("kind", CATEGORIES)
def test_shap_has_the_same_values_of_categories(shap: Any, shop: pl.DataFrame, kind: str) -> None:
    """Proves it over all subsets of columns, to 1e-9. Statistics of combinations are players of their own with us."""
    model = CATEGORIES[kind](shop)

    def frame(x: np.ndarray) -> pl.DataFrame:
        text = [pl.concat_str(pl.lit("c"), pl.col(name).cast(pl.Int64)).alias(name) for name in CODES]
        return pl.DataFrame(dict(zip(SHOP, x.T, strict=True))).with_columns(text)

    few, background = shop.head(12), shop.slice(500, 30)
    same_as_defined(shap, model, few, background, coded, frame)

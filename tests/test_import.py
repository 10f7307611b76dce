"""Models of other libraries predict here what they predict there: on thresholds, beside, where values are missing."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import catboost
import lightgbm
import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
import sklearn.ensemble as ensemble
import sklearn.tree
import xgboost

NUMBERS = ["a", "b", "c"]
TRAINING = 300


def table(seed: int, *, missing: bool) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=TRAINING), np.exp(rng.normal(3, 2, TRAINING)), rng.integers(-3, 4, TRAINING)])
    score = x[:, 0] + np.log(x[:, 1]) - x[:, 2] + rng.normal(size=TRAINING)
    if missing:
        x[rng.random(x.shape) < 0.15] = np.nan
    targets = {
        "number": score,
        "positive": np.exp(score / 3),
        "two": (score > np.median(score)).astype(int),
        "three": np.digitize(score, np.quantile(score, [0.3, 0.7])),
    }
    return x, targets


def around(model: tg.Model, *, missing: bool, f32: bool = False) -> np.ndarray:
    """Rows on every border of a model and one unit in the last place beside it, and missing ones."""
    of = []
    for name in model.features:
        at = np.array(model.borders[name] or [0.0])
        at = at[np.isfinite(at)]
        at = np.concatenate(
            [at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf), [0.0, -0.0, 1e-36, -1e-36, 1e6, -1e6]]
        )
        if f32:
            near = at.astype(np.float32)
            at = np.concatenate([near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))])
        of.append(np.concatenate([at, [np.nan]]) if missing else at)
    rng = np.random.default_rng(7)
    rows = max(600, *(2 * len(x) for x in of))
    # Each value of each column stands in some row, with others' at random.
    columns = [np.concatenate([x, rng.choice(x, rows - len(x))])[rng.permutation(rows)] for x in of]
    return np.column_stack(columns).astype(np.float32 if f32 else np.float64)


def ours(model: tg.Model, rows: np.ndarray, **more: Any) -> np.ndarray:
    found = model.predict(pl.DataFrame(dict(zip(model.features, rows.T, strict=True))), **more)
    return found.struct.unnest().to_numpy() if found.dtype == pl.Struct else found.to_numpy()


def assert_equal(found: np.ndarray, wanted: np.ndarray, within: float) -> None:
    wanted = np.asarray(wanted, np.float64).reshape(found.shape)
    off = np.abs(found - wanted) / np.maximum(1.0, np.abs(wanted))
    assert off.max() <= within, (off.max(), np.argmax(off), found.shape)


XGBOOST: list[tuple[str, dict[str, Any]]] = [
    ("number", {"objective": "reg:squarederror"}),
    ("number", {"objective": "reg:absoluteerror"}),
    ("number", {"objective": "reg:pseudohubererror"}),
    ("number", {"objective": "reg:quantileerror", "quantile_alpha": 0.7}),
    ("number", {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]}),
    ("positive", {"objective": "reg:gamma"}),
    ("positive", {"objective": "reg:tweedie", "tweedie_variance_power": 1.3}),
    ("positive", {"objective": "count:poisson"}),
    ("positive", {"objective": "survival:cox"}),
    ("two", {"objective": "binary:logistic"}),
    ("two", {"objective": "binary:logitraw"}),
    ("two", {"objective": "reg:logistic"}),
    ("three", {"objective": "multi:softprob", "num_class": 3}),
]
SHAPES: list[dict[str, Any]] = [
    {},
    {"tree_method": "exact", "max_depth": 9},
    {"booster": "dart", "rate_drop": 0.5, "base_score": 0.3},
    {"num_parallel_tree": 3, "subsample": 0.5, "grow_policy": "lossguide", "max_leaves": 20},
]


@pytest.mark.parametrize(("target", "params"), XGBOOST, ids=lambda x: x if isinstance(x, str) else x["objective"])
def test_xgboost(target: str, params: dict[str, Any]) -> None:
    """Proves it for losses, boosters, shapes of trees, missing values and both forms of file."""
    for (number, shape), missing in itertools.product(enumerate(SHAPES), (False, True)):
        x, targets = table(number, missing=missing)
        own = {"nthread": 1, "seed": 1, **params, **shape}
        booster = xgboost.train(own, xgboost.DMatrix(x, targets[target], nthread=1), 4)
        model = tg.import_model(booster)
        assert tg.import_model(bytes(booster.save_raw("json"))) == model
        for f32 in (True, False):
            rows = around(model, missing=missing, f32=f32)
            seen = xgboost.DMatrix(rows, nthread=1)
            assert_equal(ours(model, rows), booster.predict(seen), 1e-6)
            assert_equal(ours(model, rows, output="raw"), booster.predict(seen, output_margin=True), 2e-6)


def test_xgboost_of_several_targets() -> None:
    """Proves it for trees with vectors in their leaves, a tree a target, and labels."""
    x, targets = table(3, missing=True)
    numbers = np.column_stack([targets["number"], targets["positive"], -targets["number"]])
    labels = np.column_stack([targets["two"], 1 - targets["two"]])
    for y, strategy, objective in itertools.product(
        (numbers, labels), ("multi_output_tree", "one_output_per_tree"), ("reg:squarederror", "binary:logistic")
    ):
        if objective == "binary:logistic" and y is numbers:
            continue
        params = {"multi_strategy": strategy, "objective": objective, "nthread": 1}
        booster = xgboost.train(params, xgboost.DMatrix(x, y, nthread=1), 3)
        model = tg.import_model(booster)
        rows = around(model, missing=True)
        assert_equal(ours(model, rows), booster.predict(xgboost.DMatrix(rows, nthread=1)), 1e-6)


def test_xgboost_with_categories() -> None:
    """Proves it for categories, known, unknown and missing, by their numbers and by their texts."""
    rng = np.random.default_rng(5)
    for number, (one_hot, objective) in enumerate(itertools.product((1, 100), ("reg:squarederror", "binary:logistic"))):
        codes = rng.integers(0, 40, TRAINING)
        x = np.column_stack([rng.normal(size=TRAINING), np.where(rng.random(TRAINING) < 0.1, np.nan, codes)])
        y = (codes % 3 + x[:, 0] > 1).astype(float)
        seen = xgboost.DMatrix(x, y, feature_types=["q", "c"], enable_categorical=True, nthread=1)
        booster = xgboost.train(
            {"max_cat_to_onehot": one_hot, "objective": objective, "nthread": 1, "seed": number}, seen, 5
        )
        model = tg.import_model(booster, features=["x", "kind"])
        test = np.column_stack([np.tile(rng.normal(size=45), 2), np.tile([*range(44), np.nan], 2)])
        wanted = booster.predict(xgboost.DMatrix(test, feature_types=["q", "c"], enable_categorical=True, nthread=1))
        kind = pl.Series([None if math.isnan(c) else int(c) for c in test[:, 1]], dtype=pl.Int32)
        rows = pl.DataFrame({"x": test[:, 0], "kind": kind})
        assert_equal(model.predict(rows).to_numpy(), wanted, 1e-6)
        # As XGBoost 1.4 wrote splits by categories.
        file = json.loads(booster.save_raw("json"))
        for tree in file["learner"]["gradient_booster"]["model"]["trees"]:
            for node in tree["categories_nodes"]:
                tree["split_conditions"][node] = math.nan
        assert tg.import_model(json.dumps(file).encode(), features=["x", "kind"]).to_bytes() == model.to_bytes()
        named = tg.import_model(booster, features=["x", "kind"], categories={"kind": [f"k{i}" for i in range(40)]})
        texts = rows.with_columns(pl.format("k{}", "kind").alias("kind"))
        assert_equal(named.predict(texts).to_numpy(), wanted, 1e-6)


def test_unknown_names_of_xgboost() -> None:
    """Proves that an unknown category goes where a number goes that no split lists, which is not where null goes."""
    import pandas as pd

    rng = np.random.default_rng(0)
    kinds = [f"k{i}" for i in range(6)]
    for one_hot in (1, 4, 100):
        codes = rng.integers(0, 6, 2000)
        frame = pd.DataFrame({"k": pd.Categorical([kinds[c] for c in codes], categories=kinds)})
        y = (codes == 1) * 3.0 + (codes == 4) - (codes == 2) * 2.0
        frame.loc[(codes == 2) & (rng.random(2000) < 0.5), "k"] = None
        params = {"max_cat_to_onehot": one_hot, "max_depth": 3, "nthread": 1}
        booster = xgboost.train(params, xgboost.DMatrix(frame, y, enable_categorical=True), 3)
        numbers = np.array([[0.0], [1], [2], [3], [4], [5], [99], [np.nan]])
        wanted = booster.predict(
            xgboost.DMatrix(numbers, feature_names=["k"], feature_types=["c"], enable_categorical=True)
        )
        found = tg.import_model(booster).predict(pl.DataFrame({"k": [*kinds, "new", None]}))
        assert_equal(found.to_numpy(), wanted, 1e-6)
        assert found[6] != found[7]


LIGHTGBM: list[tuple[str, dict[str, Any]]] = [
    *(("number", {"objective": o}) for o in ("regression", "l1", "huber", "fair", "quantile", "mape")),
    *(("positive", {"objective": o}) for o in ("poisson", "gamma", "tweedie")),
    *(("two", {"objective": o}) for o in ("binary", "cross_entropy")),
    ("two", {"objective": "binary", "sigmoid": 1.7}),
    *(("three", {"objective": o, "num_class": 3}) for o in ("multiclass", "multiclassova")),
]
STYLES: list[dict[str, Any]] = [
    {},
    {"zero_as_missing": True},
    {"use_missing": False},
    {"boosting": "dart", "drop_rate": 0.5},
    {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1},
    {"num_leaves": 300, "min_data_in_leaf": 1, "max_bin": 1000, "min_data_in_bin": 1},
]


@pytest.mark.parametrize(("target", "params"), LIGHTGBM, ids=lambda x: x if isinstance(x, str) else x["objective"])
def test_lightgbm(target: str, params: dict[str, Any]) -> None:
    """Proves it for losses, boosters and kinds of missing values; raw scores are equal in every bit."""
    for (number, style), missing in itertools.product(enumerate(STYLES), (False, True)):
        x, targets = table(number, missing=missing)
        own = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 5, **params, **style}
        booster = lightgbm.train(own, lightgbm.Dataset(x, targets[target], feature_name=NUMBERS, params=own), 4)
        model = tg.import_model(booster)
        rows = around(model, missing=True)
        assert_equal(ours(model, rows), booster.predict(rows, num_threads=1), 1e-14)
        exact = style.get("boosting") != "rf" and "sigmoid" not in params
        # Its raw scores of a forest are sums, of which predictions are made by the mean.
        by = params.get("sigmoid", 1.0) / (4 if style.get("boosting") == "rf" else 1)
        assert_equal(
            ours(model, rows, output="raw"),
            by * booster.predict(rows, raw_score=True, num_threads=1),
            0 if exact else 1e-14,
        )


@pytest.mark.parametrize("objective", ["regression", "binary"])
def test_zero_as_missing_shares_rows(objective: str) -> None:
    """Proves that splits of three parts keep their rows, weights and gains, so that explanations and importance are
    right.
    """
    rng = np.random.default_rng(1)
    x = rng.normal(size=(800, 2)).round(2)
    x[rng.random(x.shape) < 0.2] = 0
    y = x[:, 0] * 2 + (x[:, 0] == 0) * 3 + x[:, 1]
    own = {"verbose": -1, "num_threads": 1, "num_leaves": 12, "zero_as_missing": True, "min_data_in_leaf": 5}
    own |= {"objective": objective, "learning_rate": 1.0}
    target = y if objective == "regression" else (y > 0).astype(int)
    booster = lightgbm.train(own, lightgbm.Dataset(x, target, feature_name=["a", "b"]), 3)
    model = tg.import_model(booster)
    nodes, told = model.trees(), booster.trees_to_dataframe()
    assert nodes.height > len(told)
    roots = nodes.filter(pl.col("depth") == 0)
    assert roots["count"].to_list() == [800] * 3
    counts = dict(zip(zip(nodes["tree"], nodes["node"], strict=True), nodes["count"], strict=True))
    for tree, left, right, count in nodes.filter(pl.col("leaf").is_null())["tree", "left", "right", "count"].rows():
        assert counts[tree, left] + counts[tree, right] == count
    # Leaves may have the same value.
    leaves = told[told["left_child"].isna()].assign(value=lambda leaf: leaf["value"].round(9))
    theirs = leaves.groupby(["tree_index", "value"])["count"].sum()
    kept = (
        nodes.filter(pl.col("leaf").is_not_null()).group_by("tree", pl.col("value").round(9)).agg(pl.col("count").sum())
    )
    assert {(tree, value): count for tree, value, count in kept.rows()} == dict(theirs.items())
    gains = dict(model.importance("gain").rows())
    wanted = dict(zip(["a", "b"], booster.feature_importance("gain"), strict=True))
    assert all(math.isclose(gains[name], gain, rel_tol=1e-5) for name, gain in wanted.items())
    shap = model.predict(pl.DataFrame(x, schema=["a", "b"]), output="shap").struct.unnest().to_numpy()
    assert_equal(shap.sum(axis=1), booster.predict(x, raw_score=True), 1e-12)
    if objective == "regression":
        theirs_of = booster.predict(x, pred_contrib=True)
        assert_equal(shap[:, -1], theirs_of[:, -1], 1e-9)
        # Odd numbers of rows have no halves.
        assert_equal(shap, theirs_of, 0.03)


def test_lightgbm_with_categories() -> None:
    """Proves it for categories of pandas, whose texts the file tells, and for numbers."""
    import pandas as pd

    rng = np.random.default_rng(6)
    for number in range(4):
        kinds = rng.choice([f"k{i}" for i in range(60)], TRAINING)
        frame = pd.DataFrame({"x": rng.normal(size=TRAINING), "kind": pd.Categorical(kinds)})
        y = frame["x"] + frame["kind"].cat.codes % 4
        frame.loc[::9, "kind"] = np.nan
        own = {"verbose": -1, "num_threads": 1, "min_data_per_group": 5, "max_cat_to_onehot": 1 + number, "cat_l2": 1.0}
        booster = lightgbm.train(own, lightgbm.Dataset(frame, y), 5)
        model = tg.import_model(booster)
        # The first files of version 2 had no line for the end of the trees.
        older = booster.model_to_string().replace("version=v4", "version=v2")
        older = older.replace("end of trees\n", "").replace("feature_importances:", "feature importances:")
        assert tg.import_model(older.encode()).to_json() == model.to_json().replace("LightGBM v4", "LightGBM v2")
        test = pd.DataFrame({"x": rng.normal(size=63), "kind": [*(f"k{i}" for i in range(61)), "new", None]})
        wanted = booster.predict(test.assign(kind=pd.Categorical(test["kind"])))
        rows = pl.DataFrame({"x": test["x"].to_numpy(), "kind": test["kind"].tolist()})
        assert_equal(model.predict(rows).to_numpy(), wanted, 1e-14)


def saved(booster: Any, form: str) -> bytes:
    """The file that CatBoost writes."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{form}"
        booster.save_model(str(path), format=form)
        return path.read_bytes()


CATBOOST: list[tuple[str, dict[str, Any]]] = [
    *(("number", {"loss_function": o}) for o in ("RMSE", "MAE", "Quantile:alpha=0.3", "RMSEWithUncertainty")),
    ("positive", {"loss_function": "Poisson"}),
    ("positive", {"loss_function": "Tweedie:variance_power=1.5"}),
    ("two", {"loss_function": "Logloss"}),
    ("two", {"loss_function": "CrossEntropy"}),
    *(("three", {"loss_function": o}) for o in ("MultiClass", "MultiClassOneVsAll")),
]


@pytest.mark.parametrize(("target", "params"), CATBOOST, ids=lambda x: x if isinstance(x, str) else x["loss_function"])
def test_catboost(target: str, params: dict[str, Any]) -> None:
    """Proves it for losses, shapes of trees and both sides of missing values, of an object and of its binary file."""
    for policy, nan_mode in itertools.product(("SymmetricTree", "Depthwise", "Lossguide"), ("Min", "Max")):
        x, targets = table(len(policy), missing=True)
        common = {"iterations": 4, "depth": 4, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
        booster = catboost.CatBoost({**common, **params, "grow_policy": policy, "nan_mode": nan_mode})
        if policy != "SymmetricTree" and params["loss_function"] == "MultiClassOneVsAll":
            continue
        booster.fit(x, targets[target])
        for model in (tg.import_model(booster), tg.import_model(saved(booster, "json"))):
            rows = around(model, missing=True)
            assert_equal(ours(model, rows, output="raw"), booster.predict(rows, prediction_type="RawFormulaVal"), 1e-14)


def test_catboost_with_categories(tmp_path: Path) -> None:
    """Proves it for splits by one category and by statistics of them, with unknown ones, by texts of every length."""
    rng = np.random.default_rng(8)
    texts = [f"k{i}" + "é" * (i % 2) + "x" * (5 * i) for i in range(30)]
    assert {len(text.encode()) // 16 for text in texts} > {0, 1, 2, 3, 4, 7}
    for number, loss in enumerate(("RMSE", "Logloss", "MultiClass")):
        kinds, few = rng.integers(0, 30, TRAINING), rng.integers(0, 3, TRAINING)
        frame = [[float(v), texts[k], f"{f}"] for v, k, f in zip(rng.normal(size=TRAINING), kinds, few, strict=True)]
        y = (kinds % 3 + few + rng.normal(size=TRAINING)).round().clip(0, 3 if loss == "MultiClass" else 1).astype(int)
        test = [[float(v), [*texts, "new", ""][i % 32], f"{i % 4}"] for i, v in enumerate(rng.normal(size=200))]
        rows = pl.DataFrame(test, schema=["0", "1", "2"], orient="row").with_columns(pl.col("2").cast(pl.Int32))
        for one_hot in (4, 100):
            booster = catboost.CatBoost(
                {"iterations": 6, "depth": 4, "verbose": 0, "thread_count": 1, "loss_function": loss}
                | {"one_hot_max_size": one_hot, "max_ctr_complexity": 1, "random_seed": number}
                | {"allow_writing_files": False}
            )
            pool = catboost.Pool(frame, y, cat_features=[1, 2])
            booster.fit(pool)
            wanted = booster.predict(test, prediction_type="RawFormulaVal")
            known = {"1": texts[::-1], "2": [2, 0, 1, 7]}
            booster.save_model(str(tmp_path / "model.json"), format="json", pool=pool)
            named = tg.Model.load(tmp_path / "model.json")
            models = [(named, rows.with_columns(pl.col("2").cast(str)))]
            models.append((tg.import_model(booster, categories=known), rows))
            models.append((tg.import_model(saved(booster, "cbm"), categories=known), rows))
            # Of texts that nobody tells hashes are known, which are enough.
            models.append((tg.import_model(saved(booster, "cbm")), rows))
            models.append((tg.import_model(booster, categories={**known, "1": ["none of them"]}), rows))
            for model, of in models:
                raw = model.predict(of, output="raw")
                found = raw.struct.unnest().to_numpy() if raw.dtype == pl.Struct else raw.to_numpy()
                assert_equal(found, wanted, 1e-14)
            with pytest.raises(ValueError, match="`0`, whose categories are given, is none of its columns"):
                tg.import_model(booster, categories={**known, "0": ["a"]})


FORESTS = [
    *((kind, "two") for kind in (ensemble.RandomForestClassifier, ensemble.ExtraTreesClassifier)),
    *((kind, "three") for kind in (ensemble.RandomForestClassifier, sklearn.tree.DecisionTreeClassifier)),
    *(
        (kind, "number")
        for kind in (ensemble.RandomForestRegressor, ensemble.ExtraTreesRegressor, sklearn.tree.DecisionTreeRegressor)
    ),
]


@pytest.mark.parametrize(("kind", "target"), FORESTS)
def test_forests_of_scikit_learn(kind: Any, target: str) -> None:
    """Proves it with and without weights of classes, of missing values and not."""
    for number, missing in itertools.product(range(3), (False, True)):
        x, targets = table(number, missing=missing)
        own: dict[str, Any] = {"random_state": number, "max_depth": (None, 4, 8)[number]}
        if hasattr(kind, "predict_proba") and number == 1:
            own["class_weight"] = "balanced"
        if "Tree" not in kind.__name__.replace("ExtraTrees", ""):
            own["n_estimators"] = 5
        fitted = kind(**own).fit(x, targets[target])
        model = tg.import_model(fitted)
        rows = around(model, missing=missing)
        if hasattr(fitted, "predict_proba"):
            wanted = fitted.predict_proba(rows)
            found = model.predict(pl.DataFrame(dict(zip(model.features, rows.T, strict=True))))
            wanted = wanted if found.dtype == pl.Struct else wanted[:, 1]
            assert_equal(
                found.struct.unnest().to_numpy() if found.dtype == pl.Struct else found.to_numpy(), wanted, 1e-12
            )
        else:
            assert_equal(ours(model, rows), fitted.predict(rows), 1e-14)


def test_boosting_of_scikit_learn() -> None:
    """Proves it for both of its kinds of boosting, with categories and labels of text; and for the isolation forest."""
    x, targets = table(11, missing=False)
    with_missing, more = table(12, missing=True)
    names = np.array(["low", "mid", "high"])
    for loss in ("squared_error", "absolute_error", "huber", "quantile"):
        fitted = ensemble.GradientBoostingRegressor(n_estimators=5, loss=loss).fit(x, targets["number"])
        model = tg.import_model(fitted)
        rows = around(model, missing=False)
        assert_equal(ours(model, rows), fitted.predict(rows), 1e-14)
    for loss, target in (
        ("log_loss", targets["two"]),
        ("exponential", targets["two"]),
        ("log_loss", names[targets["three"]]),
    ):
        fitted = ensemble.GradientBoostingClassifier(n_estimators=5, loss=loss).fit(x, target)
        model = tg.import_model(fitted)
        rows = around(model, missing=False)
        wanted = fitted.predict_proba(rows)
        assert_equal(ours(model, rows), wanted if wanted.shape[1] > 2 else wanted[:, 1], 1e-13)
        frame = pl.DataFrame(dict(zip(model.features, rows.T, strict=True)))
        assert model.classes == fitted.classes_.tolist()
        assert (model.predict(frame, output="class").to_numpy() == fitted.predict(rows)).all()
    for loss, target in (
        ("squared_error", "number"),
        ("poisson", "positive"),
        ("gamma", "positive"),
        ("absolute_error", "number"),
    ):
        fitted = ensemble.HistGradientBoostingRegressor(max_iter=5, loss=loss).fit(with_missing, more[target])
        model = tg.import_model(fitted)
        rows = around(model, missing=True)
        assert_equal(ours(model, rows), fitted.predict(rows), 1e-13)
    for target in ("two", "three"):
        kinds = np.where(np.isnan(with_missing[:, 2]), np.nan, with_missing[:, 2] + 3)
        own = np.column_stack([with_missing[:, :2], kinds])
        fitted = ensemble.HistGradientBoostingClassifier(max_iter=5, categorical_features=[2]).fit(own, more[target])
        model = tg.import_model(fitted)
        test = np.column_stack([np.random.default_rng(1).normal(size=(90, 2)), np.tile([*range(8), np.nan], 10)])
        frame = pl.DataFrame(dict(zip(model.features, test.T, strict=True))).with_columns(
            pl.col("x2").fill_nan(None).cast(pl.Int64)
        )
        found = model.predict(frame)
        wanted = fitted.predict_proba(test)
        numbers = found.struct.unnest().to_numpy() if found.dtype == pl.Struct else found.to_numpy()
        assert_equal(numbers, wanted if target == "three" else wanted[:, 1], 1e-13)
    isolated = ensemble.IsolationForest(n_estimators=20, random_state=1, max_features=2).fit(x)
    model = tg.import_model(isolated)
    rows = around(model, missing=False)
    assert_equal(ours(model, rows), -isolated.score_samples(rows), 1e-13)


def test_estimators_tell_their_labels() -> None:
    """Proves that labels of estimators are the model's, and that a stopped fit predicts by its best rounds."""
    x, targets = table(2, missing=False)
    names = np.array(["low", "mid", "high"])
    fitted = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(x, names[targets["three"]])
    assert tg.import_model(fitted).classes == fitted.classes_.tolist()
    stopping = xgboost.XGBRegressor(n_estimators=50, early_stopping_rounds=1, learning_rate=1.0, n_jobs=1)
    stopping.fit(x[:200], targets["number"][:200], eval_set=[(x[200:], targets["number"][200:])], verbose=False)
    model = tg.import_model(stopping)
    assert model.rounds == stopping.best_iteration + 1
    assert_equal(ours(model, x), stopping.predict(x), 1e-6)


def test_labels_are_of_models_of_classes() -> None:
    """Proves that estimators of several labels, and of shares, are imported: what they list as classes is none here."""
    x, targets = table(2, missing=False)
    y = np.column_stack([targets["two"], targets["three"] == 1]).astype(int)
    of_xgboost = xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(x, y)
    of_catboost = catboost.CatBoostClassifier(
        loss_function="MultiLogloss", iterations=3, verbose=0, thread_count=1, allow_writing_files=False
    ).fit(x, y)
    for fitted in (of_xgboost, of_catboost):
        model = tg.import_model(fitted)
        assert model.classes is None
        assert_equal(ours(model, x), fitted.predict_proba(x), 1e-6)
    shares = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, objective="cross_entropy").fit(x, targets["two"])
    assert tg.import_model(shares).classes is None
    # Labels keep their kind.
    for labels in (targets["two"], targets["two"] > 0, targets["two"] * 1.0, np.array(["no", "yes"])[targets["two"]]):
        fitted = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(x, labels)
        assert json.dumps(tg.import_model(fitted).classes) == json.dumps(fitted.classes_.tolist())
        assert tg.import_model(fitted, classes=["a", "b"]).classes == ["a", "b"]


def test_missing_values_of_xgboost() -> None:
    """Proves that an estimator that takes a number for missing is an error, and that its booster predicts by null."""
    x, targets = table(2, missing=True)
    fitted = xgboost.XGBRegressor(n_estimators=3, missing=-999.0, n_jobs=1).fit(
        np.nan_to_num(x, nan=-999.0), x[:, 0] > 0
    )
    with pytest.raises(ValueError, match=r"takes -999\.0 as missing .*get_booster.*null instead of -999\.0"):
        tg.import_model(fitted)
    model = tg.import_model(fitted.get_booster())
    assert_equal(ours(model, x), fitted.predict(np.nan_to_num(x, nan=-999.0)), 1e-6)
    assert tg.import_model(xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(x, targets["two"])).rounds == 3


def test_trees_of_a_round_are_rounds() -> None:
    """Proves that of XGBoost's `num_parallel_tree` each tree is a round here, which the documentation says."""
    x, targets = table(2, missing=False)
    booster = xgboost.train({"num_parallel_tree": 3, "nthread": 1}, xgboost.DMatrix(x, targets["number"]), 6)
    model = tg.import_model(booster)
    assert (model.rounds, booster.num_boosted_rounds()) == (18, 6)
    frame = pl.DataFrame(dict(zip(model.features, x.T, strict=True)))
    for rounds in (1, 4, 6):
        wanted = booster.predict(xgboost.DMatrix(x), iteration_range=(0, rounds))
        assert_equal(model.head(3 * rounds).predict(frame).to_numpy(), wanted, 1e-6)


def test_they_are_models_as_any_other(tmp_path: Any) -> None:
    """Proves that one streams, keeps its bytes and JSON, explains, is exported, and is read from files."""
    x, targets = table(1, missing=True)
    booster = lightgbm.train(
        {"verbose": -1, "num_threads": 1}, lightgbm.Dataset(x, targets["number"], feature_name=NUMBERS), 5
    )
    model = tg.import_model(booster)
    frame = pl.DataFrame(dict(zip(NUMBERS, x.T, strict=True)))
    wanted = booster.predict(x)
    assert tg.Model.from_bytes(model.to_bytes()) == model
    assert tg.Model.from_json(model.to_json()) == model
    streamed = frame.lazy().select(tg.predict(model)).collect(engine="streaming").to_series()
    assert streamed.to_numpy().tobytes() == wanted.tobytes()
    shap = model.predict(frame, output="shap").struct.unnest().to_numpy()
    assert_equal(shap.sum(axis=1), wanted, 1e-12)
    assert_equal(shap[:, :3], booster.predict(x, pred_contrib=True)[:, :3], 1e-6)
    assert_equal(model.to_lightgbm().predict(x), wanted, 1e-14)
    assert model.head(2).rounds == 2
    assert sum(model.importance("split")["importance"]) == sum(booster.feature_importance("split"))
    for name, save in (
        ("model.txt", lambda p: booster.save_model(p)),
        ("own.json", lambda p: p.write_text(model.to_json())),
        ("sorted.json", lambda p: p.write_text(json.dumps(json.loads(model.to_json()), sort_keys=True))),
        ("indented.json", lambda p: p.write_text("\n" + json.dumps(json.loads(model.to_json()), indent=4))),
        ("own.taiga", model.save),
    ):
        save(tmp_path / name)
        assert tg.Model.load(tmp_path / name).to_bytes() == model.to_bytes()


LINEAR: list[tuple[str, dict[str, Any]]] = [
    ("number", {}),
    ("number", {"linear_lambda": 3.0, "boosting": "dart", "drop_rate": 0.5}),
    ("number", {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1}),
    ("number", {"objective": "huber", "num_leaves": 5}),
    ("positive", {"objective": "poisson"}),
    ("two", {"objective": "binary", "sigmoid": 0.7}),
    ("three", {"objective": "multiclass", "num_class": 3}),
]


def linear(target: str, params: dict[str, Any], x: np.ndarray, y: np.ndarray, rounds: int = 6) -> lightgbm.Booster:
    own = {"verbose": -1, "num_threads": 1, "linear_tree": True, "min_data_in_leaf": 10, **params}
    return lightgbm.train(own, lightgbm.Dataset(x, y, params=own), rounds)


@pytest.mark.parametrize(("target", "params"), LINEAR)
@pytest.mark.parametrize("missing", [False, True])
def test_linear_trees_of_lightgbm(target: str, params: dict[str, Any], missing: bool) -> None:
    """Proves it for leaves that are linear functions: of losses, boosters and missing values, and written back."""
    x, targets = table(2, missing=missing)
    booster = linear(target, params, x, targets[target])
    model = tg.import_model(booster)
    leaves = model.trees().filter(pl.col("leaf").is_not_null())
    assert leaves["coefficients"].list.len().max() >= 2
    rows = around(model, missing=True)
    wanted = booster.predict(rows, raw_score=True)
    found = ours(model, rows, output="raw")
    if params.get("boosting") == "rf":
        # Raw scores are their trees' sums there.
        assert_equal(found * 6, wanted, 1e-12)
    elif "sigmoid" in params:
        assert_equal(found, wanted * params["sigmoid"], 1e-12)
    else:
        assert np.array_equal(found, wanted)
    found, wanted = ours(model, rows), booster.predict(rows)
    # Of scores beyond what was seen the exponential may be infinite.
    assert np.array_equal(np.isinf(found), np.isinf(wanted))
    assert_equal(found[np.isfinite(found)], wanted[np.isfinite(wanted)], 1e-12)
    for again in (tg.Model.from_bytes(model.to_bytes()), tg.Model.from_json(model.to_json())):
        assert again == model
    if target == "number":
        assert_equal(model.to_lightgbm().predict(rows), ours(model, rows), 1e-12)
    staged = ours(model, rows[:50], output="staged")
    assert staged.shape[0] == 50


def test_what_linear_leaves_cant_be() -> None:
    """Proves that what such a model is not made for is an error, that of infinite values a leaf's plain value counts,
    and that damaged lines are told.
    """
    x, targets = table(5, missing=True)
    booster = linear("number", {}, x, targets["number"])
    model = tg.import_model(booster)
    frame = pl.DataFrame(dict(zip(model.features, x.T, strict=True)))
    for output in ("shap", "shap_interactions"):
        with pytest.raises(pl.exceptions.ComputeError, match="linear functions"):
            model.predict(frame, output=output)
    for export in (model.to_onnx, model.to_treelite, model.to_xgboost):
        with pytest.raises(ValueError, match=r"linear functions.*to_lightgbm and to_sql"):
            export()
    infinite = pl.DataFrame({name: [math.inf, -math.inf] for name in model.features})
    assert model.predict(infinite).is_finite().all()
    text = booster.model_to_string()
    for old, new, fault in (
        ("num_features=", "num_features=9 ", "numbers of features"),
        ("leaf_coeff=", "leaf_coeff=1 ", "coefficients"),
        ("leaf_features=0 1", "leaf_features=1 0", "do not ascend"),
        ("leaf_features=0 1 2", "leaf_features=0 1 7", "reads feature 7"),
        ("leaf_const=", "leaf_const=nan ", "constants"),
    ):
        damaged = text.replace(old, new)
        assert damaged != text, old
        with pytest.raises(ValueError, match=fault):
            tg.import_model(damaged.encode())


def test_what_cant_be_kept_is_an_error() -> None:
    """Proves that what a model here can't hold is refused by name."""
    x, targets = table(1, missing=False)
    with pytest.raises(ValueError, match="gblinear"):
        tg.import_model(xgboost.train({"booster": "gblinear"}, xgboost.DMatrix(x, targets["number"]), 2))
    with pytest.raises(ValueError, match="hinge"):
        tg.import_model(xgboost.train({"objective": "binary:hinge"}, xgboost.DMatrix(x, targets["two"]), 2))
    with pytest.raises(TypeError, match="no model of a library"):
        tg.import_model(3)
    with pytest.raises(ValueError, match="neither"):
        tg.import_model(b"PK\x03\x04")
    booster = lightgbm.train({"verbose": -1}, lightgbm.Dataset(x, targets["number"]), 2)
    with pytest.raises(ValueError, match="3 features, and 2 names"):
        tg.import_model(booster, features=["a", "b"])
    with pytest.raises(ValueError, match="0 classes, and 2 labels"):
        tg.import_model(booster, classes=["a", "b"])
    for wrong in ({"features": "abc"}, {"classes": "ab"}, {"categories": {"a": "xyz"}}):
        with pytest.raises(TypeError, match=f"`{next(iter(wrong))}` takes lists, not the text"):
            tg.import_model(booster, **wrong)
    with pytest.raises(TypeError, match="`features` are texts, and 3 is none"):
        tg.import_model(booster, features=["a", "b", 3])


def test_what_is_not_fitted_is_an_error() -> None:
    """Proves that estimators without a fit are refused by name, and so is what is no model."""
    for kind in (
        *(lightgbm.LGBMRegressor, lightgbm.LGBMClassifier, xgboost.XGBRegressor, xgboost.XGBClassifier),
        *(catboost.CatBoost, catboost.CatBoostClassifier, ensemble.RandomForestRegressor),
    ):
        with pytest.raises(ValueError, match=f"import_model: the {kind.__name__} is not fitted"):
            tg.import_model(kind())
    x, _ = table(1, missing=False)
    for data in (lightgbm.Dataset(x), lightgbm.CVBooster(), xgboost.DMatrix(x), catboost.Pool(x)):
        with pytest.raises(TypeError, match=f"{type(data).__name__} is no model of a library"):
            tg.import_model(data)


def test_damaged_files_are_errors() -> None:
    """Proves that a file cut or changed anywhere is an error or a valid model, never a panic."""
    x, targets = table(4, missing=True)
    booster = xgboost.train({"max_depth": 2}, xgboost.DMatrix(x, targets["number"]), 2)
    light = lightgbm.train({"verbose": -1, "num_leaves": 4}, lightgbm.Dataset(x, targets["number"]), 2)
    cat = catboost.CatBoost({"iterations": 2, "depth": 2, "verbose": 0, "allow_writing_files": False}).fit(
        x, targets["number"]
    )
    files = [bytes(booster.save_raw("json")), bytes(booster.save_raw("ubj")), light.model_to_string().encode()]
    files.append(json.dumps({k: v for k, v in json.loads(saved(cat, "json")).items() if k != "model_info"}).encode())
    files.append(saved(cat, "cbm"))
    files.append(linear("number", {"num_leaves": 4}, x, targets["number"], 2).model_to_string().encode())
    rng = np.random.default_rng(0)
    faults: list[str] = []
    for file in files:
        tried = [file[:n] for n in rng.integers(0, len(file), 150)]
        for _ in range(450):
            changed = bytearray(file)
            for at in rng.integers(0, len(file), rng.integers(1, 4)):
                changed[at] = rng.choice([rng.integers(0, 256), ord("9"), ord("-"), 0xFF, ord("L")])
            tried.append(bytes(changed))
        for data in tried:
            try:
                model = tg.import_model(data)
            except ValueError as error:
                faults.append(str(error))
            else:
                assert tg.Model.from_bytes(model.to_bytes()) == model

    assert not [fault for fault in faults if "bug" in fault]


def of_arrays(**changes: Any) -> bytes:
    """A file of plain arrays: a tree of one split, changed."""
    tree = {"output": 0, "width": 1, "column": [0, 0, 0], "threshold": [0.5, 0, 0], "missing_left": [True] * 3}
    tree |= {"left": [1, -1, -1], "right": [2, -1, -1], "sets": [], "values": [0, 1, 2], "weights": [2, 1, 1]}
    file = {"taiga_arrays": 1, "library": "scikit-learn 1.9", "objective": "x", "loss": "rmse", "classes": False}
    file |= {"columns": [{"name": "x", "is_categorical": False, "categories": None}], "start": [0.0], "rows": 2}
    file |= {"is_f32": False, "is_forest": False, "trees": [tree | {"counts": [2, 1, 1]} | changes.pop("tree", {})]}
    return json.dumps(file | changes).encode()


def of_xgboost(tree: dict[str, Any], group: int, **param: str) -> bytes:
    """A file of XGBoost: one tree of one leaf, changed."""
    leaf = {"left_children": [-1], "right_children": [-1], "split_indices": [0], "split_conditions": [0.5]}
    model = {"tree_info": [group], "trees": [leaf | {"default_left": [0], "tree_param": {}} | tree]}
    learner = {"feature_names": ["x"], "feature_types": ["float"], "objective": {"name": "reg:squarederror"}}
    learner |= {"learner_model_param": {"base_score": "[0]", "num_class": "0", "num_feature": "1"} | param}
    return json.dumps({"learner": learner | {"gradient_booster": {"name": "gbtree", "model": model}}}).encode()


THREE_NODES = {"left_children": [1, -1, -1], "split_indices": [0] * 3, "split_conditions": [0.5] * 3}
HOSTILE: list[tuple[bytes, str]] = [
    (of_xgboost({}, 10**12 - 1, num_class=str(10**12)), f"{10**12} outputs of 1 trees"),
    (of_xgboost({}, 2**62 - 1, num_class=str(2**62)), f"{2**62} outputs of 1 trees"),
    (
        of_xgboost({"tree_param": {"size_leaf_vector": str(10**11)}}, 0, num_target=str(10**11)),
        f"{10**11} outputs of 1 trees",
    ),
    (
        of_xgboost(
            THREE_NODES
            | {"right_children": [2, 0, 0], "default_left": [0] * 3, "leaf_weights": [0.25, 0.5]}
            | {"tree_param": {"size_leaf_vector": "2"}},
            0,
            num_target="2",
        ),
        "its leaves share their values",
    ),
    (of_arrays(tree={"output": 2**64 - 1}), f"it adds 1 values from output {2**64 - 1} of 1 on"),
    (of_arrays(is_forest=True, start=[], tree={"width": 0, "values": []}), "a forest that predicts 0 numbers"),
    (of_arrays(is_forest=True, start=[0, 0], tree={"width": 2, "values": [0] * 6}), "a forest that predicts 2 numbers"),
]


@pytest.mark.parametrize(("file", "fault"), HOSTILE, ids=[fault for _, fault in HOSTILE])
def test_a_number_alone_takes_no_memory(file: bytes, fault: str) -> None:
    """Proves that a file of some hundred bytes, whose numbers ask for terabytes or lead beyond all numbers, is an
    error.
    """
    with pytest.raises(ValueError, match=fault):
        tg.import_model(file)


def test_there_are_three_hundred_models() -> None:
    """Counts the models that are compared above."""
    with warnings.catch_warnings():
        compared = (
            len(XGBOOST) * len(SHAPES) * 2 + len(LIGHTGBM) * len(STYLES) * 2 + len(CATBOOST) * 6 + len(FORESTS) * 6
        )
    assert compared >= 300


WRONG: list[tuple[dict[str, Any], Any, str]] = [
    ({"target": 1}, TypeError, "`target` is a text, not 1"),
    ({"features": 5}, TypeError, "`features` takes lists, not 5"),
    ({"classes": 5}, TypeError, "`classes` takes lists, not 5"),
    ({"classes": [None, "a"]}, TypeError, "`classes` are text, numbers or Booleans, and None is none"),
    ({"classes": [math.nan, 1.0]}, ValueError, "`classes` are finite, and nan is not"),
    ({"classes": [2**63, 1]}, ValueError, f"`classes` are integers of 64 bits, and {2**63} is none"),
    ({"classes": [1, "a"]}, ValueError, "`classes` are of one kind, and 1 and 'a' are of two"),
    ({"classes": [True, 0]}, ValueError, "`classes` are of one kind, and True and 0 are of two"),
    ({"classes": np.array(["2024-01-01"], "datetime64[D]")}, TypeError, "`classes` are text, .*2024, 1, 1.* is none"),
    ({"categories": [1]}, TypeError, r"`categories` are lists by column, \{'job': \['cook', …\]\}, not \[1\]"),
    ({"categories": {"k": 5}}, TypeError, "column `k`: `categories` takes lists, not 5"),
    ({"categories": {"k": "ab"}}, TypeError, "column `k`: `categories` takes lists, not the text 'ab'"),
    ({"categories": {"k": ["a", None]}}, TypeError, "column `k`: `categories` are text, .*, and None is none"),
    ({"categories": {"k": ["a", math.nan]}}, ValueError, "column `k`: `categories` are finite, and nan is not"),
    ({"categories": {"k": [math.inf]}}, ValueError, "column `k`: `categories` are finite, and inf is not"),
    ({"categories": {"k": [b"a"]}}, TypeError, "column `k`: `categories` are text, .*, and b'a' is none"),
    ({"categories": {"k": [["a"]]}}, TypeError, r"column `k`: `categories` are text, .*, and \['a'\] is none"),
    (
        {"categories": {"k": np.array([["a"]])}},
        TypeError,
        r"column `k`: `categories` are text, .*array\(\['a'\].* is none",
    ),
    ({"categories": {"k": np.array(["2024-01-01"], "datetime64[D]")}}, TypeError, "column `k`: .*2024, 1, 1.* is none"),
]


@pytest.mark.parametrize(("wrong", "kind", "text"), WRONG)
def test_what_is_told_is_checked(wrong: dict[str, Any], kind: Any, text: str) -> None:
    """Proves that an error names the parameter, the column and what was given."""
    x, targets = table(1, missing=False)
    rows = lightgbm.Dataset(x, targets["two"], feature_name=NUMBERS)
    booster = lightgbm.train({"verbose": -1, "objective": "binary", "num_threads": 1}, rows, 2)
    with pytest.raises(kind, match=f"^import_model: {text}"):
        tg.import_model(booster, **wrong)


def test_too_few_categories_are_an_error() -> None:
    """Proves that a list which lacks categories that the trees ask about is no silent change of their answers."""
    rng = np.random.default_rng(0)
    c = rng.integers(0, 5, 400)
    y = np.isin(c, [2, 4]) * 1.0
    params: dict[str, Any] = {"verbose": -1, "min_data_per_group": 1, "cat_smooth": 0, "max_cat_to_onehot": 1}
    booster = lightgbm.train(params, lightgbm.Dataset(c[:, None].astype(float), y, categorical_feature=[0]), 20)
    names = ["red", "green", "blue", "black", "white"]
    model = tg.import_model(booster, categories={"Column_0": names})
    found = model.predict(pl.DataFrame({"Column_0": names})).to_numpy()
    assert_equal(found, booster.predict(np.arange(5.0)[:, None]), 1e-12)
    for count in (0, 3):
        with pytest.raises(
            ValueError, match=f"`Column_0`: splits ask about its category number 4.*and {count} are given"
        ):
            tg.import_model(booster, categories={"Column_0": names[:count]})
    more = tg.import_model(booster, categories={"Column_0": [*names, "grey"]})
    assert more.predict(pl.DataFrame({"Column_0": names})).to_list() == found.tolist()


LOSSES: dict[str, tuple[dict[str, Any], str, float]] = {
    "quantile": ({"objective": "quantile", "alpha": 0.9}, "alpha", 0.9),
    "huber": ({"objective": "huber", "alpha": 3.0}, "huber_delta", 3.0),
    "tweedie": ({"objective": "tweedie", "tweedie_variance_power": 1.2}, "tweedie_power", 1.2),
}
LOSSES_OF_CATBOOST: dict[str, tuple[str, str, float]] = {
    "quantile": ("Quantile:alpha=0.9", "alpha", 0.9),
    "huber": ("Huber:delta=3.0", "huber_delta", 3.0),
    "tweedie": ("Tweedie:variance_power=1.2", "tweedie_power", 1.2),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_keeps_its_parameter(loss: str, tmp_path: Path) -> None:
    """Proves that unless told a model is measured by its own loss, with the parameter that it was fitted with."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = np.exp(x[:, 0] + rng.normal(size=300))
    df = pl.DataFrame(x, schema=["a", "b"]).with_columns(y=y)
    params, name, value = LOSSES[loss]
    booster = lightgbm.train({**params, "verbose": -1}, lightgbm.Dataset(x, y), 5)
    cat, _, of_cat = LOSSES_OF_CATBOOST[loss]
    theirs = catboost.CatBoostRegressor(loss_function=cat, iterations=5, verbose=0, allow_writing_files=False).fit(x, y)
    theirs.save_model(str(tmp_path / "m.json"), format="json")
    models = [
        tg.import_model(booster, features=["a", "b"]),
        tg.import_model(theirs, features=["a", "b"]),
        tg.import_model((tmp_path / "m.json").read_bytes(), features=["a", "b"]),
    ]
    for model, wanted in zip(models, [value, of_cat, of_cat], strict=True):
        assert model.params[name] == wanted
        assert model.score(df, "y") == model.score(df, "y", metric=f"{loss}@{wanted:g}")


def test_a_pool_without_categories_may_be_saved_along(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(100, 2))
    pool = catboost.Pool(x, x[:, 0])
    model = catboost.CatBoostRegressor(iterations=3, verbose=0, allow_writing_files=False).fit(pool)
    model.save_model(str(tmp_path / "m.json"), format="json", pool=pool)
    text = (tmp_path / "m.json").read_text()
    assert '"cat_features_hash":null' in text.replace(" ", "")
    found = tg.Model.load(tmp_path / "m.json")
    rows = pl.DataFrame(x, schema=list(found.features))
    assert_equal(found.predict(rows).to_numpy(), model.predict(x), 1e-12)

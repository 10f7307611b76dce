"""`leaf="linear"`: leaves that are linear functions, in every expression, output and form, and beside LightGBM's."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import jsonschema_rs
import lightgbm
import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from polars_taiga.sklearn import GbdtRegressor

FEATURES = ["a", "b", "c"]
PLAIN: dict[str, Any] = {"rounds": 20, "policy": "leafwise", "leaves": 8}
LINEAR: dict[str, Any] = {**PLAIN, "leaf": "linear"}


def lines(rows: int = 1_500, seed: int = 0, missing: float = 0.1) -> pl.DataFrame:
    """Slopes that change at a few places, with values missing and a column of categories."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=rows), rng.uniform(-50, 50, rows), rng.normal(1e5, 3, rows)
    y = np.where(a > 0, 3 * a, -a) + 0.2 * b + (c - 1e5) * (b > 10) + rng.normal(0, 0.3, rows)
    frame = pl.DataFrame({"a": a, "b": b, "c": c, "y": y, "group": rng.integers(0, 3, rows)})
    lost = pl.Series(rng.random(rows) < missing)
    return frame.with_columns(
        a=pl.when(~lost).then("a"),
        k=pl.format("k{}", pl.col("group")),
        two=pl.col("y") > 1,
        held=pl.Series(rng.random(rows) < 0.2),
    )


@pytest.fixture(scope="module")
def df() -> pl.DataFrame:
    return lines()


@pytest.fixture(scope="module")
def model(df: pl.DataFrame) -> tg.Model:
    return df.taiga.fit_gbdt("y", FEATURES, **LINEAR)


def rmse(model: tg.Model, frame: pl.DataFrame) -> float:
    return float(((model.predict(frame) - frame["y"]) ** 2).mean() ** 0.5)  # type: ignore[operator, arg-type]


def by_hand(model: tg.Model, frame: pl.DataFrame) -> np.ndarray:
    """Raw scores by the text of a model of branching trees, row by row."""
    data = json.loads(model.to_json())
    out = []
    for row in frame.select(list(model.features)).rows():
        values = [np.nan if x is None else x for x in row]
        total = 0.0
        for tree in data["trees"]:
            at = {"node": 0} if tree["nodes"] else {"leaf": 0}
            while "node" in at:
                node = tree["nodes"][at["node"]]
                x = values[node["feature"]]
                right = node["missing"] == "right" if np.isnan(x) else x > float(node["border"])
                at = node["right" if right else "left"]
            leaf = tree["leaves"][at["leaf"]]
            value = leaf["value"]
            if (linear := leaf.get("linear")) is not None:
                found = linear["constant"]
                for feature, by in zip(linear["features"], linear["coefficients"], strict=True):
                    found += by * values[feature]
                value = found if np.isfinite(found) else value
            total += value
        out.append(data["start"][0] + data["scale"] * total)
    return np.array(out)


def test_predictions_are_what_the_text_says(df: pl.DataFrame, model: tg.Model) -> None:
    rows = df[:200].with_columns(b=pl.when(pl.int_range(pl.len()) % 9 == 0).then(float("inf")).otherwise("b"))
    assert np.array_equal(model.predict(rows).to_numpy(), by_hand(model, rows))
    streamed = df.lazy().select(tg.predict(model)).collect(engine="streaming").to_series()
    assert streamed.to_list() == model.predict(df).to_list()
    staged = model.predict(df, output="staged")
    assert np.array_equal(staged.list.last().to_numpy(), model.predict(df).to_numpy())
    assert np.array_equal(model.predict(df, rounds=7).to_numpy(), model.head(7).predict(df).to_numpy())
    assert model.predict(df, output="leaf").list.len().unique().to_list() == [20]


def test_bytes_and_text_come_back(model: tg.Model, tmp_path: Path) -> None:
    assert tg.Model.from_bytes(model.to_bytes()) == model
    assert tg.Model.from_json(model.to_json()) == model
    assert model.to_bytes()[8] == 15
    model.save(tmp_path / "model.taiga")
    assert tg.Model.load(tmp_path / "model.taiga") == model
    schema = json.loads((Path(__file__).parents[1] / "docs" / "model.schema.json").read_text())
    jsonschema_rs.Draft202012Validator(schema).validate(json.loads(model.to_json()))
    assert model.params["leaf"] == "linear"


@pytest.mark.parametrize("policy", ["symmetric", "leafwise"])
@pytest.mark.parametrize("learning_rate", [0.1, 0.5])
def test_small_hessians_make_no_large_steps(policy: str, learning_rate: float) -> None:
    """Proves that a fit of hazards, whose early events have next to no hessian, learns and does not diverge."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=800), rng.normal(size=800)
    risk = 2 * a + a * b
    hazards = pl.DataFrame({"a": a, "b": b, "t": np.exp(risk) * rng.exponential(size=800), "e": rng.random(800) < 0.7})
    params: dict[str, Any] = {"event": "e", "loss": "cox", "rounds": 60, "learning_rate": learning_rate}
    params |= {"policy": policy, "eval_train": True}
    first, last = ({}, {})
    for leaf in ("constant", "linear"):
        model = hazards.taiga.fit_gbdt("t", "a", "b", leaf=leaf, **params)
        curve = model.history[:, 1]
        first[leaf], last[leaf] = curve[0], curve[-1]
        scores = hazards.select(tg.predict(model, output="raw")).to_series()
        assert scores.abs().max() < 50  # type: ignore[operator]
    assert last["linear"] < last["constant"] + 0.1 < first["constant"]


def test_rows_without_a_column_get_the_number() -> None:
    """Proves that a column that is the same in all rows of a leaf that have it stays a column of its function."""
    rng = np.random.default_rng(0)
    a, i = rng.choice([1.0, 5.0, np.nan], 300), rng.normal(size=300)
    y = np.where(np.isnan(a), -3 * i, 3 * i) + np.where(a == 5, 20, 0)
    rows = pl.DataFrame({"a": a, "i": i, "y": y}).with_columns(pl.col("a").fill_nan(None))
    model = rows.taiga.fit_gbdt("y", "a", "i", leaf="linear", rounds=2, depth=2, learning_rate=0.3)
    own = model.trees().filter(pl.col("round") == 1, pl.col("coefficients").is_not_null())
    steps = rows.select(
        "a",
        leaf=tg.predict(model, output="leaf").list.get(1).cast(pl.UInt32),
        step=tg.predict(model, output="raw") - tg.predict(model, output="raw", rounds=1),
    )
    found = steps.join(own.with_columns(pl.col("leaf").cast(pl.UInt32)), on="leaf").filter(pl.col("a").is_null())
    assert found.height > 0
    assert found["linear_features"].list.contains("a").all()
    assert found["coefficients"].list.get(0).unique().to_list() == [0.0]
    assert np.allclose(found["step"], found["value"], rtol=0, atol=1e-9)


def test_the_default_is_constant(df: pl.DataFrame) -> None:
    plain = df.taiga.fit_gbdt("y", FEATURES, **PLAIN)
    assert df.taiga.fit_gbdt("y", FEATURES, **PLAIN, leaf="constant").to_bytes() == plain.to_bytes()
    assert "leaf" not in plain.params
    assert "coefficients" not in plain.trees().columns


def test_slopes_are_learned(df: pl.DataFrame, model: tg.Model) -> None:
    """Better than numbers at slopes, on other rows and beyond what was seen; the first round has numbers."""
    others = lines(seed=1, missing=0)
    plain = df.taiga.fit_gbdt("y", FEATURES, **PLAIN)
    assert rmse(model, others) < 0.75 * rmse(plain, others)
    beyond = pl.DataFrame({"a": [0.5, 0.5], "b": [-50.0, -90.0], "c": [1e5, 1e5]})
    near, far = model.predict(beyond)
    assert near - far > 4
    leaves = model.trees().filter(pl.col("leaf").is_not_null())
    assert leaves.filter(pl.col("round") == 0)["coefficients"].is_null().all()
    assert leaves.filter(pl.col("round") == 1)["coefficients"].is_not_null().any()
    own = leaves.drop_nulls("coefficients")
    assert (own["linear_features"].list.len() == own["coefficients"].list.len()).all()
    assert set(own["linear_features"].explode()) <= set(FEATURES)


@pytest.mark.parametrize("policy", ["symmetric", "depthwise", "leafwise"])
def test_threads_and_chunks_do_not_show(df: pl.DataFrame, policy: str) -> None:
    params: dict[str, Any] = {"rounds": 8, "policy": policy, "leaf": "linear"}
    whole = df.taiga.fit_gbdt("y", FEATURES, "k", **params).to_bytes()
    chunked = pl.concat([df[:11], df[11:700], df[700:]], rechunk=False)
    for n_threads in (1, 2, 5):
        assert chunked.taiga.fit_gbdt("y", FEATURES, "k", **params, n_threads=n_threads).to_bytes() == whole
    narrow = df.with_columns(pl.col("a", "b").cast(pl.Float32))
    wide = narrow.with_columns(pl.col("a", "b").cast(pl.Float64))
    assert narrow.taiga.fit_gbdt("y", FEATURES, **params) == wide.taiga.fit_gbdt("y", FEATURES, **params)


def test_fits_are_expressions(df: pl.DataFrame) -> None:
    """Groups, folds, searches, held-out rows, several targets and estimators have linear leaves as well."""
    expr = tg.fit_gbdt("y", *FEATURES, **LINEAR)
    groups = df.group_by("group", maintain_order=True).agg(expr.alias("model"))
    for group, own in groups.rows():
        assert own == df.filter(pl.col("group") == group).select(expr).item()
    assert df.taiga.fit_gbdt_by("group", "y", *FEATURES, **LINEAR)["model"].to_list() == groups["model"].to_list()
    held = df.taiga.fit_gbdt("y", FEATURES, **{**LINEAR, "rounds": 200}, eval="held", early_stopping=10)
    curve = held.history.filter("best")["rmse"].item()
    assert rmse(held, df.filter("held")) == pytest.approx(curve, rel=1e-5)
    both = df.taiga.fit_gbdt(pl.struct("y", twice=2 * pl.col("y")), FEATURES, rounds=5, leaf="linear")
    scores = both.predict(df).struct.unnest()
    assert np.allclose(scores["twice"], 2 * scores["y"], rtol=1e-4, atol=1e-3)
    classes = df.taiga.fit_gbdt("two", FEATURES, **LINEAR)
    assert classes.predict(df).is_between(0, 1).all()
    of_numbers = GbdtRegressor(**LINEAR, linear_l2=2.0).fit(df.select(FEATURES), df["y"])
    assert of_numbers.model_.params["linear_l2"] == 2.0
    assert "linear" in of_numbers.get_params().values()


def test_folds_and_searches(df: pl.DataFrame) -> None:
    both = [df.taiga.cross_validate("y", *FEATURES, **params, folds=3, seed=1) for params in (LINEAR, PLAIN)]
    linear, plain = (one.select(pl.col("score").mean()).item() for one in both)
    assert linear < plain
    found = df.taiga.search(
        "y", *FEATURES, space={"leaf": ["constant", "linear"]}, rounds=10, policy="leafwise", leaves=8, folds=3
    )
    assert found["leaf"][0] == "linear"


def test_importance_and_dependence(df: pl.DataFrame, model: tg.Model) -> None:
    for kind in ("gain", "split", "cover"):
        assert model.importance(kind)["importance"].sum() > 0
    assert set(model.importance("permutation", df, "y")["feature"]) == set(FEATURES)
    at = tg.partial_dependence(model, df, "b")
    assert at.height > 1
    with pytest.raises((ValueError, pl.exceptions.ComputeError), match="linear functions"):
        model.importance("shap", df)
    for output in ("shap", "shap_interactions"):
        with pytest.raises(pl.exceptions.ComputeError, match="linear functions"):
            model.predict(df, output=output)


def test_leaves_are_drawn_as_formulas(df: pl.DataFrame, model: tg.Model) -> None:
    spec = json.dumps(tg.plot.tree(model, 3).to_dict(), ensure_ascii=False)
    assert "·b" in spec
    assert '"formula"' in spec
    symmetric = df.taiga.fit_gbdt("y", FEATURES, rounds=3, leaf="linear", depth=3)
    assert '"formula"' in json.dumps(tg.plot.tree(symmetric, 1).to_dict())
    plain = df.taiga.fit_gbdt("y", FEATURES, **PLAIN)
    assert '"formula"' not in json.dumps(tg.plot.tree(plain, 3).to_dict())


def test_other_forms(df: pl.DataFrame, model: tg.Model) -> None:
    """LightGBM and databases compute what `tg.predict` does; other forms are errors."""
    ours = model.predict(df).to_numpy()
    booster = model.to_lightgbm()
    rows = df.select(FEATURES).to_numpy()
    assert np.allclose(booster.predict(rows), ours, rtol=1e-12, atol=1e-12)
    again = lightgbm.Booster(model_str=booster.model_to_string())
    assert np.array_equal(again.predict(rows), booster.predict(rows))
    assert np.allclose(tg.import_model(booster).predict(df).to_numpy(), ours, rtol=1e-12, atol=1e-12)
    connection = duckdb.connect(config={"threads": 1})
    frame = df.with_row_index("row").with_columns(b=pl.when(pl.col("row") % 10 == 0).then(float("inf")).otherwise("b"))
    ours = model.predict(frame).to_numpy()
    connection.register("t", frame.to_arrow())
    found = connection.sql(model.to_sql("duckdb", "t", keep=["row"])).pl().sort("row")["prediction"].to_numpy()
    assert np.allclose(found, ours, rtol=1e-13, atol=1e-12)
    lite = sqlite3.connect(":memory:")
    lite.execute('CREATE TABLE "t" ("row", "a", "b", "c")')
    lite.executemany('INSERT INTO "t" VALUES (?, ?, ?, ?)', frame.select("row", *FEATURES).rows())
    found = np.array(sorted(lite.execute(model.to_sql("sqlite", "t", keep=["row"])).fetchall()))[:, 1]
    assert np.allclose(found, ours, rtol=1e-12, atol=1e-11)
    for export in (model.to_onnx, model.to_treelite, model.to_xgboost):
        with pytest.raises(ValueError, match=r"linear functions.*to_lightgbm and to_sql"):
            export()


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        ({"loss": "mae"}, "`leaf`.*quantiles of residuals"),
        ({"monotone": {"a": 1}}, "`leaf`.*`monotone`"),
        ({"max_delta_step": 1.0}, "`leaf`.*`max_delta_step`"),
        ({"path_smooth": 1.0}, "`leaf`.*`path_smooth`"),
        ({"boosting": "dart"}, "`leaf`.*dart"),
        ({"leaf": "round"}, "`leaf`"),
        ({"linear_l2": -1.0}, "`linear_l2`"),
        ({"leaf": "constant", "linear_l2": 1.0}, "`linear_l2`.*counts only under"),
    ],
)
def test_what_does_not_go_together_is_an_error(df: pl.DataFrame, params: dict[str, Any], fault: str) -> None:
    with pytest.raises((ValueError, pl.exceptions.ComputeError), match=f"(?s){fault}"):
        df.taiga.fit_gbdt("y", FEATURES, **{**LINEAR, **params})


OURS_TO_THEIRS = {
    "rounds": 60,
    "policy": "leafwise",
    "leaves": 16,
    "learning_rate": 0.1,
    "l2": 0.0,
    "min_child_weight": 0.0,
}


@pytest.mark.parametrize("l2", [0.0, 1.0])
def test_as_accurate_as_lightgbm(l2: float) -> None:
    """By the same settings, on other rows, in the mean over five tables."""
    own, theirs = [], []
    for seed in range(5):
        train, test = lines(1_500, seed), lines(3_000, 100 + seed)
        model = train.taiga.fit_gbdt("y", FEATURES, **OURS_TO_THEIRS, min_data_in_leaf=20, leaf="linear", linear_l2=l2)
        settings = {"verbose": -1, "num_threads": 1, "num_leaves": 16, "learning_rate": 0.1, "linear_tree": True}
        settings |= {"linear_lambda": l2, "min_sum_hessian_in_leaf": 0.0, "min_data_in_leaf": 20}
        data = lightgbm.Dataset(train.select(FEATURES).to_numpy(), train["y"].to_numpy(), params=settings)
        booster = lightgbm.train(settings, data, 60)
        own.append(rmse(model, test))
        theirs.append(
            float(np.sqrt(np.mean((booster.predict(test.select(FEATURES).to_numpy()) - test["y"].to_numpy()) ** 2)))
        )
    assert np.mean(own) < 1.03 * np.mean(theirs), (own, theirs)

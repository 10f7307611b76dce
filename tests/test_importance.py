"""Importance measured on rows: against twins in Python, scikit-learn and CatBoost, in groups; what can't be told."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import catboost
import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from sklearn.inspection import permutation_importance

FEATURES = list("abcd")
LARGER_IS_BETTER = ("auc", "accuracy", "r2")


@pytest.fixture(scope="module")
def data(df: pl.DataFrame) -> pl.DataFrame:
    """Numbers with missing values, a category, lists with values, weights of which some are 0, on 1,200 rows."""
    index = pl.int_range(pl.len())
    return df.head(1_200).with_columns(
        city=pl.when(index % 13 != 4).then((index * 7 % 5 + (pl.col("y") > 0)).cast(pl.String)),
        none=pl.lit(1.0),
        w=index % 4 * 0.75,
        words=pl.concat_list(index % 9, index % 5 + 10, (pl.col("y") > 0).cast(pl.Int64) * 2 + 20 + index % 2),
        counts=pl.concat_list(pl.lit(1.0), index % 3 + 0.5, pl.lit(2.0)),
        p=pl.col("y").abs() + 1,
    )


FITS: dict[str, Any] = {
    "symmetric": lambda df: df.taiga.fit_gbdt("y", FEATURES, "city", "none", rounds=12, depth=4),
    "depthwise": lambda df: df.taiga.fit_gbdt("flag", FEATURES, "city", rounds=8, policy="depthwise"),
    "leafwise": lambda df: df.taiga.fit_gbdt("kind", FEATURES, "city", rounds=5, policy="leafwise", leaves=12),
    "poisson": lambda df: df.taiga.fit_gbdt("p", FEATURES, rounds=10, loss="poisson"),
    "quantile": lambda df: df.taiga.fit_gbdt("y", FEATURES, rounds=8, loss="quantile", alpha=0.7),
    "forest": lambda df: df.taiga.fit_forest("y", FEATURES, "city", trees=6, depth=5),
    "shares": lambda df: df.taiga.fit_forest("flag", FEATURES, trees=6, depth=5),
    "forest of classes": lambda df: df.taiga.fit_forest("kind", FEATURES, "city", trees=6, depth=5),
    "linear": lambda df: df.taiga.fit_sparse_lr("flag", dense=["p", "w", "y"]),
    "lists": lambda df: df.taiga.fit_sparse_lr("kind", "words", "counts", dense=["p", "w"]),
}


@pytest.fixture(scope="module")
def models(data: pl.DataFrame) -> dict[str, tg.Model]:
    return {name: fit(data) for name, fit in FITS.items()}


def shuffled(rows: int, seed: int, repeat: int) -> np.ndarray:
    """The row that each row's value comes from, by the definition in docs/explanations.md."""
    golden = np.uint64(0x9E3779B97F4A7C15)

    def mix(z: Any) -> Any:
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    with np.errstate(over="ignore"):
        key = mix(np.uint64(seed) + golden)
        key = mix(key ^ np.uint64(14) * golden)
        key = mix(key ^ np.uint64(repeat + 1) * golden)
        words = mix(key + np.arange(rows, dtype=np.uint64) * golden)
    return np.argsort(words >> np.uint64(32), kind="stable")


def by_feature(found: pl.DataFrame) -> dict[str, float]:
    assert found.schema == {"feature": pl.String, "importance": pl.Float64}
    return dict(found.iter_rows())


def naive_permutation(model: tg.Model, data: pl.DataFrame, repeats: int, seed: int, **options: Any) -> dict[str, float]:
    """How much `Model.score` gets worse for each column, shuffled with all that belongs to it."""
    before = model.score(data, **options)
    metric = options.get("metric") or {"forest": "r2" if model.classes is None else "accuracy"}.get(model.learner, "")
    sign = -1.0 if metric in LARGER_IS_BETTER else 1.0
    found = {}
    for name in model._inner.explained_columns():
        columns = ["words", "counts"] if name == "words" else [name]
        total = 0.0
        for repeat in range(repeats):
            order = pl.Series(shuffled(data.height, seed, repeat), dtype=pl.UInt32)
            total += sign * (model.score(data.with_columns(pl.col(columns).gather(order)), **options) - before)
        found[name] = total / repeats
    return found


@pytest.mark.parametrize("name", FITS)
def test_permutation_is_the_fall_of_the_score(name: str, data: pl.DataFrame, models: dict[str, tg.Model]) -> None:
    """Bit by bit, for every learner."""
    model = models[name]
    expected = naive_permutation(model, data, 2, 3)
    found = model.importance("permutation", data, repeats=2, seed=3)
    assert found["feature"].to_list() == model._inner.explained_columns()
    assert by_feature(found) == expected
    assert max(expected.values()) > 0
    assert model.importance("permutation", data, repeats=2, seed=4).equals(found) is False


@pytest.mark.parametrize("metric", ["auc", "accuracy", "logloss", "rmse"])
def test_the_sign_is_that_of_worse(metric: Any, data: pl.DataFrame, models: dict[str, tg.Model]) -> None:
    """Whichever way the metric points; weighted, where rows of weight 0 are as if they were not there."""
    model = models["depthwise"]
    found = by_feature(model.importance("permutation", data, metric=metric, repeats=2, weight="w"))
    some = data.filter(pl.col("w") > 0)
    assert found == naive_permutation(model, some, 2, 0, metric=metric, weight="w")
    assert found["city"] > 0


def test_permutation_is_scikit_learn_s_in_the_mean(data: pl.DataFrame, models: dict[str, tg.Model]) -> None:
    """Other permutations of the same distribution: means over 30 differ by less than 5 standard errors."""
    model, columns = models["quantile"], FEATURES
    x = data.select(pl.col(columns).fill_null(float("nan"))).to_numpy()

    class Predictor:
        def fit(self, *_: Any) -> None: ...

        def score(self, x: np.ndarray, y: np.ndarray) -> float:
            p = model.predict(pl.DataFrame(x, schema=columns)).to_numpy()
            return float(1 - ((p - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())

    peer = permutation_importance(Predictor(), x, data["y"].to_numpy(), n_repeats=30, random_state=1)
    found = by_feature(model.importance("permutation", data, metric="r2", repeats=30))
    errors = np.sqrt(2 / 30) * peer.importances_std
    assert (np.abs(np.array(list(found.values())) - peer.importances_mean) <= 5 * errors).all()


def shap_by_class(model: tg.Model, data: pl.DataFrame, **options: Any) -> list[np.ndarray]:
    """`[class][row, column]`, of one class where there is one number a row."""
    values = data.select(tg.predict(model, output="shap", **options)).unnest("prediction")
    several = [values[name].struct.unnest() for name in values.columns] if values.dtypes[0] == pl.Struct else [values]
    return [one.drop("base_value").to_numpy() for one in several]


@pytest.mark.parametrize("name", FITS)
def test_shap_is_the_mean_size_of_the_values(name: str, data: pl.DataFrame, models: dict[str, tg.Model]) -> None:
    model = models[name]
    for weight in [None, "w"]:
        w = None if weight is None else data["w"].to_numpy()
        expected = sum(np.average(np.abs(v), axis=0, weights=w) for v in shap_by_class(model, data))
        found = model.importance("shap", data.drop(model.target), weight=weight)
        assert found["feature"].to_list() == model._inner.explained_columns()
        assert np.allclose(found["importance"].to_numpy(), expected, rtol=1e-12, atol=0)


def test_shap_against_a_background(data: pl.DataFrame, models: dict[str, tg.Model]) -> None:
    model, background = models["symmetric"], data.head(20)
    expected = np.abs(shap_by_class(model, data, background=background)[0]).mean(axis=0)
    found = model.importance("shap", data, background=background)["importance"].to_numpy()
    assert np.allclose(found, expected, rtol=1e-12, atol=0)
    assert not np.allclose(found, model.importance("shap", data)["importance"].to_numpy())


def losses(model: tg.Model, data: pl.DataFrame, scores: list[np.ndarray], w: np.ndarray | None) -> float:
    """The mean loss of raw scores by its definition."""
    target = data[model.target]
    y = np.zeros(0) if target.dtype == pl.String else target.cast(pl.Float64).to_numpy()
    code = np.array([(model.classes or [""]).index(v) for v in target]) if model.classes else np.zeros(0)
    own = np.eye(max(len(scores), 2))[code.astype(int)].T
    s = scores[0]
    if model.learner == "forest" and model.classes is not None:
        shares = scores if len(scores) > 1 else [s]
        rows = sum((p - o) ** 2 for p, o in zip(shares, own if len(scores) > 1 else own[1:], strict=True))
        return float(np.average(rows, weights=w))
    rows = {
        "rmse": lambda: (s - y) ** 2,
        "squared_error": lambda: (s - y) ** 2,
        "logloss": lambda: np.logaddexp(0, s) - own[1] * s,
        "multiclass": lambda: (
            np.log(sum(np.exp(k) for k in scores)) - sum(k * o for k, o in zip(scores, own, strict=True))
        ),
        "poisson": lambda: 2 * (y * np.log(y / np.exp(s)) - y + np.exp(s)),
        "quantile": lambda: np.maximum(0.7 * (y - s), 0.3 * (s - y)),
    }[model.loss]()
    mean = float(np.average(rows, weights=w))
    return math.sqrt(mean) if model.loss in ("rmse", "squared_error") else mean


@pytest.mark.parametrize("name", FITS)
def test_loss_change_by_the_definition(name: str, data: pl.DataFrame, models: dict[str, tg.Model]) -> None:
    """In NumPy, for every loss and learner, with and without weights."""
    model = models[name]
    raw = model.predict(data, output="auto" if model.learner == "forest" else "raw")
    scores = [raw.struct.field(f).to_numpy() for f in raw.struct.fields] if raw.dtype == pl.Struct else [raw.to_numpy()]
    values = shap_by_class(model, data)
    for weight in [None, "w"]:
        w = None if weight is None else data["w"].to_numpy()
        before = losses(model, data, scores, w)
        if model.learner != "forest":
            assert math.isclose(model.score(data, weight=weight), before, rel_tol=1e-12)
        expected = [
            losses(model, data, [s - v[:, j] for s, v in zip(scores, values, strict=True)], w) - before
            for j in range(values[0].shape[1])
        ]
        found = model.importance("loss_change", data, weight=weight)
        assert found["feature"].to_list() == model._inner.explained_columns()
        assert np.allclose(found["importance"].to_numpy(), expected, rtol=1e-9, atol=1e-12 * before)
    if name == "symmetric":
        assert by_feature(found)["none"] == 0


def as_catboost(model: tg.Model, start: float, loss: str, path: Path) -> catboost.CatBoost:
    """The same symmetric trees as CatBoost's, whose first split is the last one asked, with the same rows in leaves."""
    trees: list[dict[str, Any]] = []
    for rows in model.trees().partition_by("tree", maintain_order=True):
        nodes = {n["node"]: n for n in rows.to_dicts()}
        by_level = {n["depth"]: n for n in nodes.values() if n["leaf"] is None}
        splits = [by_level[level] for level in sorted(by_level, reverse=True)]
        leaves = []
        for leaf in range(2 ** len(splits)):
            node = nodes[0]
            for bit in reversed(range(len(splits))):
                node = nodes[node["right" if leaf >> bit & 1 else "left"]]
            leaves.append(node)
        trees.append({"values": [n["value"] for n in leaves], "counts": [n["count"] for n in leaves], "splits": splits})
    of = {f: sorted({s["border"] for t in trees for s in t["splits"] if s["feature"] == f}) for f in FEATURES}
    numbers = {split: i for i, split in enumerate((f, border) for f in FEATURES for border in of[f])}
    text = {
        "oblivious_trees": [
            {
                "leaf_values": tree["values"],
                "leaf_weights": tree["counts"],
                "splits": [
                    {
                        "float_feature_index": FEATURES.index(s["feature"]),
                        "border": s["border"],
                        "split_type": "FloatFeature",
                        "split_index": numbers[s["feature"], s["border"]],
                    }
                    for s in tree["splits"]
                ],
            }
            for tree in trees
        ],
        "features_info": {
            "float_features": [
                {
                    "feature_index": i,
                    "flat_feature_index": i,
                    "feature_id": f,
                    "borders": of[f],
                    "has_nans": False,
                    "nan_value_treatment": "AsIs",
                }
                for i, f in enumerate(FEATURES)
            ]
        },
        "scale_and_bias": [1, [start]],
        "model_info": {"params": json.dumps({"loss_function": {"type": loss, "params": {}}})},
    }
    path.write_text(json.dumps(text))
    peer = catboost.CatBoost()
    peer.load_model(str(path), format="json")
    return peer


@pytest.mark.parametrize(("target", "loss"), [("y", "RMSE"), ("flag", "Logloss")])
def test_loss_change_is_that_of_catboost(data: pl.DataFrame, target: str, loss: str, tmp_path: Path) -> None:
    frame = data.with_columns(pl.col(FEATURES).fill_nan(0).fill_null(0), pl.col(target).cast(pl.Float64))
    model = frame.with_columns(pl.col(target) if loss == "RMSE" else pl.col(target) > 0).taiga.fit_gbdt(
        target, FEATURES, rounds=15, depth=4, policy="symmetric"
    )
    raw = model.predict(frame, output="raw").to_numpy()
    x = frame.select(FEATURES).to_numpy()
    options: dict[str, Any] = {"prediction_type": "RawFormulaVal"}
    start = raw[0] - as_catboost(model, 0.0, loss, tmp_path / "model.json").predict(x[:1], **options)[0]
    peer = as_catboost(model, start, loss, tmp_path / "model.json")
    assert np.allclose(peer.predict(x, **options), raw, rtol=1e-12, atol=1e-12)
    pool = catboost.Pool(x, frame[target].to_numpy(), feature_names=FEATURES)
    expected = peer.get_feature_importance(pool, type="LossFunctionChange")
    measured = frame.with_columns(pl.col(target) if loss == "RMSE" else pl.col(target) > 0)
    found = model.importance("loss_change", measured)["importance"].to_numpy()
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-6)


KINDS: list[dict[str, Any]] = [
    {"kind": "shap"},
    {"kind": "permutation", "repeats": 2, "metric": "auc"},
    {"kind": "loss_change", "weight": "w"},
]


@pytest.mark.parametrize("options", KINDS, ids=lambda o: o["kind"])
def test_as_an_expression(options: dict[str, Any], data: pl.DataFrame, models: dict[str, tg.Model]) -> None:
    """Sorted, in groups as in a loop, over windows, lazily, in chunks, of a column of models."""
    model = models["depthwise"]
    data = data.with_columns(w=pl.col("w") + 1)
    expr = tg.importance(model, "flag", **options)
    whole = data.select(expr)
    assert whole.schema == {"importance": pl.List(pl.Struct({"feature": pl.String, "importance": pl.Float64}))}
    assert whole.schema == data.lazy().select(expr).collect_schema()
    lines = whole.item().struct.unnest()
    in_order = model.importance(data=data, target="flag", **options)
    assert lines.equals(in_order.sort("importance", descending=True, maintain_order=True))
    assert whole.equals(data.lazy().select(expr).collect())
    assert whole.equals(pl.concat([data[:7], data[7:600], data[600:]], rechunk=False).select(expr))
    assert whole.equals(data.select(tg.importance(model.to_bytes(), "flag", *reversed([*FEATURES, "city"]), **options)))
    fewer = data.select(*FEATURES, "city", "flag", "w")
    assert whole.equals(fewer.select(expr))

    groups = data.group_by("group").agg(expr)
    for group, found in groups.rows():
        own = data.filter(pl.col("group") == group)
        assert found == own.select(expr).item().to_list()
    over = data.select("group", expr.over("group")).unique("group", maintain_order=True).sort("group")
    assert over["importance"].to_list() == groups.sort("group")["importance"].to_list()

    fits = data.group_by("group").agg(tg.fit_gbdt("flag", FEATURES, rounds=3))
    joined = data.join(fits, on="group").sort("group", "y")
    each = joined.group_by("group").agg(pl.col("model").first().taiga.importance("flag", FEATURES, **options))
    for group, found in each.rows():
        own, one = joined.filter(pl.col("group") == group), fits.filter(pl.col("group") == group)["model"].item()
        assert found == own.select(tg.importance(one, "flag", **options)).item().to_list()


def test_equal_features_keep_the_order_of_fitting(data: pl.DataFrame) -> None:
    frame = data.select("y", "a", z=pl.lit(0.0), k=pl.lit(1.0))
    model = frame.taiga.fit_gbdt("y", "k", "a", "z", rounds=3)
    for kind in ("shap", "permutation", "loss_change"):
        found = frame.select(tg.importance(model, "y", kind=kind)).item().to_list()  # type: ignore[arg-type]
        assert [line["feature"] for line in found] == ["a", "k", "z"]
        assert [line["importance"] for line in found[1:]] == [0, 0]


def test_a_column_s_value_does_not_depend_on_others(data: pl.DataFrame) -> None:
    """The same trees, fitted beside columns that no split asks about: the same shuffles."""
    alone = data.taiga.fit_gbdt("y", "a", "d", rounds=5)
    beside = data.with_columns(z=pl.lit(0.0), k=pl.lit(1.0)).taiga.fit_gbdt("y", "z", "a", "k", "d", rounds=5)
    found = by_feature(alone.importance("permutation", data))
    frame = data.with_columns(z=pl.lit(0.0), k=pl.lit(1.0))
    assert {**found, "z": 0.0, "k": 0.0} == by_feature(beside.importance("permutation", frame))


THREADS = """
import hashlib, sys
import numpy as np, polars as pl, polars_taiga as tg
rng = np.random.default_rng(0)
x = rng.normal(size=(70_000, 3))
df = pl.DataFrame(x, schema=["a", "b", "c"])
df = df.with_columns(y=pl.col("a") + pl.col("b") ** 2, w=pl.Series(rng.random(70_000)))
model = df.head(2_000).taiga.fit_gbdt("y", "a", "b", "c", rounds=5, depth=3)
for kind in ["shap", "permutation", "loss_change"]:
    found = model.importance(kind, df, repeats=2, weight="w")
    print([value.hex() for value in found["importance"]])
"""


def test_threads_leave_no_trace() -> None:
    """On rows for several blocks: the same bits by one thread and by four."""
    said = [
        subprocess.run(
            [sys.executable, "-c", THREADS],
            env={**os.environ, "POLARS_MAX_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "4")
    ]
    assert said[0] == said[1] != ""


def test_a_single_row(data: pl.DataFrame, models: dict[str, tg.Model]) -> None:
    model, row = models["symmetric"], data[5]
    assert (model.importance("permutation", row)["importance"] == 0).all()
    shap = shap_by_class(model, row)[0][0]
    assert model.importance("shap", row)["importance"].to_list() == [abs(v) for v in shap]
    raw, y = model.predict(row).item(), row["y"].item()
    expected = [abs(raw - v - y) - abs(raw - y) for v in shap]
    assert np.allclose(model.importance("loss_change", row)["importance"].to_numpy(), expected, atol=1e-12)


def test_rounds_and_computed_features(data: pl.DataFrame, models: dict[str, tg.Model]) -> None:
    model = models["symmetric"]
    for kind in ("shap", "permutation", "loss_change"):
        found = model.importance(kind, data, rounds=3)  # type: ignore[arg-type]
        assert found.equals(model.head(3).importance(kind, data))  # type: ignore[arg-type]
    computed = data.taiga.fit_gbdt("y", pl.col("a").abs(), "d", rounds=3)
    with pytest.raises(ValueError, match=r"computed by an expression .* tg.importance\(model, target, <the expr"):
        computed.importance("shap", data)
    found = computed.importance("shap", data, None, pl.col("a").abs(), "d")
    assert found.equals(computed.importance("shap", data.with_columns(pl.col("a").abs()), None, "a", "d"))


def test_far_numbers(data: pl.DataFrame) -> None:
    """Sums that f64 does not hold: means in the target's unit all the same."""
    far = data.with_columns(y=pl.col("y") * 2.0**1013)
    plain, model = data.taiga.fit_gbdt("y", FEATURES, rounds=3), far.taiga.fit_gbdt("y", FEATURES, rounds=3)
    for kind in ("shap", "permutation", "loss_change"):
        own = model.importance(kind, far)["importance"].to_numpy()  # type: ignore[arg-type]
        assert np.allclose(own * 2.0**-1013, plain.importance(kind, data)["importance"].to_numpy(), rtol=1e-3)  # type: ignore[arg-type]


def test_what_can_not_be_measured_is_told(data: pl.DataFrame, models: dict[str, tg.Model]) -> None:
    model, linear = models["depthwise"], models["linear"]
    said: list[tuple[Any, type[Exception], str]] = [
        (lambda: model.importance("shap"), ValueError, "kind='shap' is measured on rows: give them by data="),
        (lambda: model.importance("permutation"), ValueError, "measured on rows"),
        (lambda: model.importance("mean", data), ValueError, "kind='mean' is not one of 'shap', 'perm"),
        (lambda: model.importance("mean"), ValueError, "kind"),
        (lambda: model.importance("gain", data), ValueError, "kind='gain' is of the model itself"),
        (lambda: model.importance("gain", rounds=2), ValueError, "rounds= is for what is measured on rows"),
        (lambda: model.importance("shap", data["a"]), TypeError, "DataFrame or LazyFrame .* not Series"),
        (lambda: model.importance("permutation", data, metric="mse"), ValueError, '`metric`: "mse" is not "rmse"'),
        (lambda: model.importance("shap", data, metric="auc"), ValueError, "metric= is for kind='permutation'"),
        (lambda: model.importance("loss_change", data, metric="auc"), ValueError, "the model's own loss"),
        (lambda: model.importance("permutation", data, background=data), ValueError, "background="),
        (lambda: model.importance("permutation", data, repeats=0), ValueError, "`repeats`: 0 is not between 1"),
        (lambda: model.importance("permutation", data, repeats=1.5), TypeError, "`repeats`: 1.5 is not an integer"),
        (lambda: model.importance("permutation", data, seed=-1), ValueError, "`seed`: -1"),
        (lambda: linear.importance("shap", data, rounds=1), ValueError, "no rounds"),
        (lambda: linear.importance("gain"), ValueError, "has no trees"),
        (lambda: tg.importance(model, kind="loss_change"), ValueError, "'loss_change' needs the target"),
        (lambda: tg.importance("model", "y"), ValueError, "name the features"),
        (lambda: tg.importance(model, on_error="none"), ValueError, "on_error"),
        (lambda: model.importance("permutation", data.drop("flag")), pl.exceptions.ColumnNotFoundError, "flag"),
        (lambda: model.importance("shap", data.drop("a")), pl.exceptions.ColumnNotFoundError, "a"),
        (lambda: model.importance("shap", data.with_columns(city=1.5)), pl.exceptions.SchemaError, "`city`"),
        (lambda: model.importance("permutation", data, "kind"), pl.exceptions.PolarsError, "`kind`"),
        (lambda: model.importance("permutation", data, metric="multiclass"), pl.exceptions.PolarsError, "can't"),
        (lambda: model.importance("shap", data[:0]), pl.exceptions.PolarsError, "no rows"),
        (lambda: model.importance("shap", data, weight=pl.col("a") * 0), pl.exceptions.PolarsError, "zero|null|NaN"),
        (
            lambda: model.importance("permutation", data.filter("flag"), metric="auc"),
            pl.exceptions.PolarsError,
            "one class",
        ),
    ]
    for call, kind, text in said:
        with pytest.raises(kind, match=text):
            call()
    one_class = data.with_columns(flag=pl.col("flag") | (pl.col("group") == 0))
    expr = tg.importance(model, "flag", kind="permutation", metric="auc", repeats=1, on_error="null")
    values = one_class.group_by("group").agg(expr)
    assert values.filter(pl.col("importance").is_null())["group"].to_list() == [0]
    nothing = data.select(tg.importance(pl.lit(None, dtype=pl.Binary), "flag", FEATURES))
    assert nothing["importance"].to_list() == [None]
    assert nothing.dtypes == values.dtypes[1:]


def test_a_kind_that_there_is_not_is_told_with_those_that_there_are(models: dict[str, tg.Model]) -> None:
    """Proves that the error names the function and every kind that the learner has."""
    measured = "'shap', 'permutation', 'loss_change'"
    for name, own in (
        ("depthwise", "'gain', 'split', 'cover', or, measured on rows that data= gives, "),
        ("forest", "'gain', 'impurity', 'split', 'cover', 'permutation', or, measured on rows that data= gives, "),
        ("linear", ""),
    ):
        with pytest.raises(ValueError, match=f"^importance: kind='foo' is not one of {own}{measured}$"):
            models[name].importance(cast("Any", "foo"))


def ranked(data: pl.DataFrame) -> pl.DataFrame:
    """Grades of documents, and times of events of which some have not happened."""
    index = pl.int_range(pl.len())
    return data.with_columns(
        grade=(pl.col("y").rank() * 4 / (pl.len() + 1)).cast(pl.Int64),
        query=index // 12,
        time=pl.col("p") * 3 + index % 5,
        died=index % 3 > 0,
        late=pl.when(index % 3 > 0).then(pl.col("p") * 3 + index % 5).otherwise(float("inf")),
    )


TOGETHER: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "lambdarank": ("grade", {"loss": "lambdarank", "group": "query"}, {"group": "query"}),
    "xendcg": ("grade", {"loss": "xendcg", "group": "query"}, {"group": "query"}),
    "cox": ("time", {"loss": "cox", "event": "died"}, {"event": "died"}),
    "aft": ("time", {"loss": "aft", "event": "died"}, {"event": "died"}),
    "aft of bounds": ("time", {"loss": "aft", "upper": "late"}, {"upper": "late"}),
}


@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.parametrize("weight", [None, "w"])
def test_what_is_measured_in_groups_or_by_events_has_importance(
    name: str, weight: str | None, data: pl.DataFrame
) -> None:
    """Proves that shuffled columns are measured as `tg.score` measures them, given the same groups and events, and that
    the change of the loss is that of all rows together; rows of weight 0 are as if they were not there.
    """
    target, fit, roles = TOGETHER[name]
    data = ranked(data)
    model = data.taiga.fit_gbdt(target, FEATURES, rounds=6, **fit)
    if weight is not None:
        roles = {**roles, "weight": weight}
    some = data if weight is None else data.filter(pl.col("w") > 0)
    sign = -1.0 if name in ("lambdarank", "xendcg") else 1.0

    def score(rows: pl.DataFrame) -> float:
        return cast("float", rows.select(tg.score(model, target, **roles)).item())

    def values(lines: pl.DataFrame) -> dict[str, float]:
        return {line["feature"]: line["importance"] for line in lines["importance"].item()}

    expected = {}
    for column in FEATURES:
        total = 0.0
        for repeat in range(2):
            order = pl.Series(shuffled(some.height, 3, repeat), dtype=pl.UInt32)
            total += sign * (score(some.with_columns(pl.col(column).gather(order))) - score(some))
        expected[column] = total / 2
    own = values(data.select(tg.importance(model, target, kind="permutation", repeats=2, seed=3, **roles)))
    assert own == expected
    assert by_feature(model.importance("permutation", data, repeats=2, seed=3, **roles)) == expected
    assert max(own.values()) > 0
    by_loss = values(data.select(tg.importance(model, target, kind="loss_change", **roles)))
    assert set(by_loss) == set(FEATURES)
    assert max(by_loss.values()) > 0


def test_the_loss_of_rows_together_by_the_definition(data: pl.DataFrame) -> None:
    """Proves that Shapley values are taken from the scores of all rows, of which each query is ranked anew."""
    data = ranked(data)
    model = data.taiga.fit_gbdt("grade", FEATURES, rounds=6, loss="lambdarank", group="query")
    raw = model.predict(data, output="raw").to_numpy()
    shap = model.predict(data, output="shap").struct.unnest()

    def ndcg(scores: Any) -> float:
        rows = data.with_columns(s=pl.Series(scores))
        return cast("float", rows.select(tg.metrics.ndcg("grade", "s", group="query")).item())

    lines = data.select(tg.importance(model, "grade", kind="loss_change", group="query"))["importance"].item()
    for line in lines:
        expected = ndcg(raw) - ndcg(raw - shap[line["feature"]].to_numpy())
        assert math.isclose(line["importance"], expected, rel_tol=1e-9, abs_tol=1e-12), line


def test_groups_and_events_that_are_missing_or_of_no_use_are_told(data: pl.DataFrame) -> None:
    """Proves that an error names the role, and that a group of a query has its own value."""
    data = ranked(data)
    model = data.taiga.fit_gbdt("time", FEATURES, rounds=3, loss="cox", event="died")
    for kind in ("permutation", "loss_change"):
        with pytest.raises(
            pl.exceptions.ComputeError, match=r"importance: parameter `event`: metric=.cox_nloglik. is of"
        ):
            data.select(tg.importance(model, "time", kind=kind))  # type: ignore[arg-type]
    for role in ("group", "event", "lower", "upper"):
        roles: dict[str, Any] = {role: "died"}
        with pytest.raises(ValueError, match=f"{role}= is for kind='permutation' and 'loss_change'"):
            tg.importance(model, **roles)
    parts = data.group_by("group", maintain_order=True).agg(
        tg.importance(model, "time", kind="loss_change", event="died")
    )
    for group, found in parts.rows():
        alone = data.filter(pl.col("group") == group)
        assert found == alone.select(tg.importance(model, "time", kind="loss_change", event="died")).item().to_list()
    several = data.taiga.fit_gbdt(pl.struct("time", "grade"), FEATURES, rounds=2)
    with pytest.raises(
        pl.exceptions.ComputeError, match=r"importance: kind=.loss_change. shares out the loss of"
    ) as told:
        data.select(tg.importance(several, pl.struct("time", "grade"), kind="loss_change"))
    assert "importance: importance:" not in str(told.value)

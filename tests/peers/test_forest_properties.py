"""Random forests: what scikit-learn's tests of forests prove, for every splitter and criterion."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from sklearn import metrics
from sklearn.datasets import load_iris
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from .tables import names, numbers, predict, rmse, trees_of, walk

SPLITTERS = ["histogram", "exact", "random"]
splitters = pytest.mark.parametrize("splitter", SPLITTERS)
TARGETS = ["y", "flag", "kind"]
targets = pytest.mark.parametrize("target", TARGETS)
CRITERIA = [("gini", "kind"), ("entropy", "kind"), ("gini", "flag"), ("squared_error", "y"), ("poisson", "positive")]
criteria = pytest.mark.parametrize(("criterion", "target"), CRITERIA)
WHOLE: dict[str, Any] = {"bootstrap": False, "max_features": "all"}
"""No draws but those of thresholds."""


def right(df: pl.DataFrame, model: tg.Model, target: str) -> float:
    """The share of rows whose class is predicted."""
    return float((df.select(tg.predict(model, output="class")).to_series() == df[target]).mean())


@pytest.fixture(scope="module")
def iris() -> pl.DataFrame:
    bunch = load_iris()
    return pl.DataFrame(bunch.data, schema=["x0", "x1", "x2", "x3"]).with_columns(
        kind=pl.Series([bunch.target_names[t] for t in bunch.target], dtype=pl.String)
    )


@splitters
@pytest.mark.parametrize("max_features", [1, "all", "sqrt"])
def test_a_handful_of_points_is_classified(splitter: Any, max_features: Any) -> None:
    df = pl.DataFrame({"a": [-2, -1, -1, 1, 1, 2], "b": [-1, -1, -2, 1, 2, 1], "side": ["left"] * 3 + ["right"] * 3})
    model = df.taiga.fit_forest("side", "a", "b", trees=20, splitter=splitter, max_features=max_features, seed=1)
    new = pl.DataFrame({"a": [-1, 2, 3], "b": [-1, 2, 2]})
    assert new.select(tg.predict(model, output="class")).to_series().to_list() == ["left", "right", "right"]
    leaves = df.select(tg.predict(model, output="leaf")).to_series()
    assert leaves.list.len().to_list() == [20] * 6


@splitters
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize(("max_features", "least"), [("sqrt", 0.97), (2, 0.97), (1, 0.95)])
def test_iris_is_learnt_under_every_criterion(
    iris: pl.DataFrame, splitter: Any, criterion: Any, max_features: Any, least: float
) -> None:
    model = iris.taiga.fit_forest(
        "kind", names(iris), trees=15, criterion=criterion, splitter=splitter, max_features=max_features, seed=1
    )
    assert right(iris, model, "kind") > least


@splitters
@pytest.mark.parametrize("max_features", ["all", 2, 0.5])
def test_a_regression_fits_its_training_rows(splitter: Any, max_features: Any) -> None:
    df = numbers(500)
    model = df.taiga.fit_forest("y", names(df), trees=20, splitter=splitter, max_features=max_features)
    assert metrics.r2_score(df["y"], predict(df, model)) > 0.93


@splitters
@criteria
def test_a_whole_tree_without_a_bootstrap_reproduces_distinct_rows(splitter: Any, criterion: Any, target: str) -> None:
    df = numbers(200, levels=None)
    model = df.taiga.fit_forest(target, names(df), trees=1, splitter=splitter, criterion=criterion, bins=255, **WHOLE)
    if criterion in ("gini", "entropy"):
        assert right(df, model, target) == 1
    else:
        np.testing.assert_allclose(predict(df, model), df[target], rtol=1e-9)


@splitters
@pytest.mark.parametrize("criterion", ["squared_error", "poisson"])
@pytest.mark.parametrize("leaf", [1, 10])
def test_predictions_sum_to_the_targets_without_a_bootstrap(splitter: Any, criterion: Any, leaf: int) -> None:
    df = numbers()
    model = df.taiga.fit_forest(
        "positive", names(df), trees=10, splitter=splitter, criterion=criterion, min_data_in_leaf=leaf, bootstrap=False
    )
    assert predict(df, model).sum() == pytest.approx(df["positive"].sum(), rel=1e-9)


def test_poisson_is_better_than_squared_error_on_counts() -> None:
    rng = np.random.default_rng(42)
    x = rng.normal(size=(1_000, 6))
    y = rng.poisson(np.exp(x[:, 0] + x[:, 1] / 2 - 0.5))
    df = pl.DataFrame({f"x{i}": x[:, i] for i in range(6)}).with_columns(y=pl.Series(y, dtype=pl.Float64))
    train, test = df[:600], df[600:]
    deviance = [
        metrics.mean_poisson_deviance(
            test["y"],
            np.maximum(
                predict(
                    test,
                    train.taiga.fit_forest(
                        "y", names(df), criterion=c, min_data_in_leaf=10, max_features="sqrt", trees=100
                    ),
                ),
                1e-6,
            ),
        )
        for c in ("poisson", "squared_error")
    ]
    assert deviance[0] < deviance[1]
    assert deviance[0] < 0.8 * metrics.mean_poisson_deviance(test["y"], np.full(400, train["y"].mean()))


@splitters
@pytest.mark.parametrize("target", ["flag", "kind"])
@pytest.mark.parametrize("depth", [1, 4, None])
def test_shares_of_classes_sum_to_one(splitter: Any, target: str, depth: Any) -> None:
    df = numbers()
    p = predict(df, df.taiga.fit_forest(target, names(df), trees=10, depth=depth, splitter=splitter, max_features=1))
    p = np.column_stack([1 - p, p]) if p.ndim == 1 else p
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert p.min() >= 0


@splitters
@targets
def test_predictions_are_the_mean_over_the_trees_of_the_table(splitter: Any, target: str) -> None:
    df = numbers(80).with_columns(pl.when(pl.int_range(pl.len()) % 6 > 0).then("x0").alias("x0"))
    model = df.taiga.fit_forest(target, names(df), trees=5, splitter=splitter, depth=5)
    trees = trees_of(model)
    want = np.array([np.mean([walk(nodes, row)["value"] for nodes in trees], axis=0) for row in df.to_dicts()])
    want = want[:, 1] if target == "flag" else want[:, 0] if target == "y" else want
    np.testing.assert_allclose(predict(df, model), want, rtol=1e-9, atol=1e-12)


@splitters
@targets
def test_predictions_stay_within_the_training_targets(splitter: Any, target: str) -> None:
    df = numbers()
    model = df.taiga.fit_forest(target, names(df), trees=10, splitter=splitter)
    p = predict(pl.DataFrame({name: [-1e300, 0.0, 1e300, None] for name in names(df)}), model)
    low, high = (df["y"].min(), df["y"].max()) if target == "y" else (0, 1)
    assert low <= p.min()
    assert p.max() <= high


@splitters
@pytest.mark.parametrize("criterion", ["gini", "entropy", "squared_error"])
def test_importances_find_the_three_informative_features(splitter: Any, criterion: Any) -> None:
    df = numbers(800, features=10, levels=None)
    target = "y" if criterion == "squared_error" else "flag"
    model = df.taiga.fit_forest(
        target, names(df), trees=40, splitter=splitter, criterion=criterion, max_features=0.5, min_data_in_leaf=5
    )
    importance = model.importance()["importance"].to_numpy()
    assert importance.sum() == pytest.approx(1)
    assert (importance >= 0).all()
    assert importance[:3].min() > importance[3:].max()


@splitters
@targets
@pytest.mark.parametrize("factor", [0.5, 2.0**90, 2.0**-90, 100.0, 1e-20, 1e20])
def test_a_constant_factor_of_weights_changes_neither_importances_nor_predictions(
    splitter: Any, target: str, factor: float
) -> None:
    """A power of two not at all; others round otherwise, and splits as good as one another may swap."""
    df = numbers().with_columns(w=1.0 + pl.int_range(pl.len()) % 7)
    a, b = (
        df.with_columns(pl.col("w") * c).taiga.fit_forest(target, names(df), weight="w", trees=10, splitter=splitter)
        for c in (1.0, factor)
    )
    if math.log2(factor).is_integer():
        np.testing.assert_array_equal(predict(df, a), predict(df, b))
    np.testing.assert_allclose(a.importance()["importance"], b.importance()["importance"], atol=0.01)
    assert rmse(predict(df, a), predict(df, b)) < 0.1 * predict(df, a).std()


@splitters
@pytest.mark.parametrize("factor", [1e-25, 1e-10, 2.0**-10, 1e-3, 1e3, 1e10, 1e20])
def test_the_target_s_unit_changes_no_importance(splitter: Any, factor: float) -> None:
    df = numbers()
    a, b = (
        df.with_columns(pl.col("y") * c).taiga.fit_forest("y", names(df), trees=10, splitter=splitter)
        for c in (1.0, factor)
    )
    np.testing.assert_allclose(a.importance()["importance"], b.importance()["importance"], atol=0.01)
    assert rmse(predict(df, b) / factor, predict(df, a)) < 0.1 * predict(df, a).std()


def conditional_importance(feature: int, x: np.ndarray, y: np.ndarray) -> float:
    """The expected decrease of entropy by a feature in totally random trees (Louppe and others, 2013)."""
    rows, features = x.shape
    others = [k for k in range(features) if k != feature]

    def entropy(part: np.ndarray) -> float:
        shares = np.unique(part, return_counts=True)[1] / max(len(part), 1)
        return float(-(shares * np.log2(shares)).sum())

    total = 0.0
    for size in range(features):
        for chosen in itertools.combinations(others, size):
            weight = 1.0 / (math.comb(features, size) * (features - size))
            for values in itertools.product(*([0, 1] for _ in chosen)):
                met = np.all(x[:, list(chosen)] == list(values), axis=1) if chosen else np.ones(rows, dtype=bool)
                part, split = y[met], x[met, feature]
                if len(part):
                    below = sum(entropy(part[split == v]) * np.mean(split == v) for v in (0, 1))
                    total += weight * len(part) / rows * (entropy(part) - below)
    return total


def test_importances_of_totally_random_trees_come_near_their_expectation() -> None:
    """Ten digits of seven segments; one random feature a node, all rows."""
    lit = ["1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011"]
    x = np.array([[int(s) for s in digit] for digit in lit])
    df = pl.DataFrame(x, schema=[f"x{i}" for i in range(7)]).with_columns(digit=pl.Series([str(i) for i in range(10)]))
    model = df.taiga.fit_forest(
        "digit", names(df), trees=1_000, splitter="random", criterion="entropy", max_features=1, bootstrap=False
    )
    want = np.array([conditional_importance(i, x, np.arange(10)) for i in range(7)])
    assert want.sum() == pytest.approx(math.log2(10))
    np.testing.assert_allclose(model.importance()["importance"], want / want.sum(), atol=0.01)


@splitters
def test_a_constant_target_of_numbers_has_no_importances(splitter: Any) -> None:
    df = numbers(60).with_columns(y=pl.lit(2.5))
    model = df.taiga.fit_forest("y", names(df), trees=5, splitter=splitter)
    assert model.importance()["importance"].to_list() == [0.0, 0.0, 0.0]
    assert set(predict(df, model)) == {2.5}
    assert model.trees().height == 5


@splitters
def test_constant_features_predict_the_mean(splitter: Any) -> None:
    df = pl.DataFrame({"x": [1.0] * 4, "y": [0.0, 1.0, 2.0, 3.0]})
    model = df.taiga.fit_forest("y", "x", trees=3, splitter=splitter, bootstrap=False)
    np.testing.assert_allclose(predict(df, model), 1.5)


@splitters
def test_one_class_is_certain(splitter: Any) -> None:
    df = pl.DataFrame({"x": [1.0, 2.0, 3.0], "y": ["a"] * 3})
    model = df.taiga.fit_forest("y", "x", trees=3, splitter=splitter, on_error="constant")
    assert df.select(tg.predict(model, output="class")).to_series().to_list() == ["a"] * 3


@splitters
@targets
def test_the_out_of_bag_score_is_near_that_on_new_rows(splitter: Any, target: str) -> None:
    df = numbers(1_200)
    train, test = df[:600], df[600:]
    model = train.taiga.fit_forest(target, names(df), trees=60, splitter=splitter)
    score = metrics.r2_score(test["y"], predict(test, model)) if target == "y" else right(test, model, target)
    assert model.oob_score == pytest.approx(score, abs=0.08)


@splitters
@targets
def test_out_of_bag_predictions_have_a_row_each_and_the_score_follows(splitter: Any, target: str) -> None:
    df = numbers(200)
    model = df.taiga.fit_forest(target, names(df), trees=4, splitter=splitter)
    oob = model.oob_predictions
    assert oob.height == 200
    seen = oob.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    # Four trees leave (1 - 1/e)^4 of the rows in every bag.
    assert 0.05 < 1 - seen.mean() < 0.3
    if target == "y":
        want = metrics.r2_score(df["y"].filter(seen), oob["prediction"].drop_nulls())
    else:
        best = oob.filter(seen).to_numpy().argmax(axis=1)
        want = np.mean(np.array(model.classes)[best] == df[target].filter(seen).to_numpy())
    assert model.oob_score == pytest.approx(want, abs=1e-9)


@targets
def test_no_bootstrap_has_no_out_of_bag_score(target: str) -> None:
    df = numbers(100)
    model = df.taiga.fit_forest(target, names(df), trees=2, bootstrap=False)
    assert model.oob_score is None
    assert model.oob_predictions.is_empty()
    with pytest.raises(ValueError, match="oob"):
        df.taiga.fit_forest(target, names(df), trees=2, bootstrap=False, oob=True)


def test_out_of_bag_predictions_know_nothing_of_noise() -> None:
    rng = np.random.default_rng(0)
    df = pl.DataFrame({"x": rng.normal(size=250), "y": rng.normal(size=250)})
    model = df.taiga.fit_forest("y", "x", trees=60)
    assert metrics.r2_score(df["y"], predict(df, model)) > 0.5
    assert model.oob_score is not None
    assert model.oob_score < 0.05


@splitters
@targets
def test_copies_and_pickles_predict_the_same(splitter: Any, target: str) -> None:
    df = numbers(100)
    model = df.taiga.fit_forest(target, names(df), trees=4, splitter=splitter)
    for same in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert same == model
        assert same.oob_score == model.oob_score
        assert df.select(tg.predict(same)).equals(df.select(tg.predict(model)))


@splitters
def test_a_seed_decides_everything(splitter: Any) -> None:
    df = numbers(150)
    fits = [df.taiga.fit_forest("y", names(df), trees=4, splitter=splitter, seed=s, n_threads=t) for s, t in
            ((3, 1), (3, 2), (4, 1))]  # fmt: skip
    assert fits[0] == fits[1] != fits[2]


@splitters
def test_more_trees_begin_with_the_same_trees(splitter: Any) -> None:
    df = numbers(150)
    few, many = (df.taiga.fit_forest("y", names(df), trees=t, splitter=splitter) for t in (3, 8))
    assert many.trees().filter(pl.col("tree") < 3).equals(few.trees())


@splitters
def test_trees_differ_from_one_another(splitter: Any) -> None:
    df = numbers(200)
    parts = df.taiga.fit_forest("y", names(df), trees=6, splitter=splitter).trees().drop("tree")
    trees = df.taiga.fit_forest("y", names(df), trees=6, splitter=splitter).trees().partition_by("tree")
    assert parts.height == sum(t.height for t in trees)
    assert len({tuple(t["border"].to_list()) for t in trees}) == 6


@pytest.mark.parametrize("splitter", ["histogram", "exact"])
def test_trees_without_draws_are_all_the_same(splitter: Any) -> None:
    """In large nodes; in small ones splits are as good as one another, and the feature drawn first wins."""
    df = numbers(300, levels=None)
    model = df.taiga.fit_forest("y", names(df), trees=4, splitter=splitter, min_data_in_leaf=15, **WHOLE)
    trees = model.trees().drop("tree")
    size = trees.height // 4
    assert all(trees[:size].equals(trees[size * i : size * (i + 1)]) for i in range(4))


def shapes(model: tg.Model) -> Iterable[tuple[str, ...]]:
    """Each tree's shape: its splits from the top."""
    for tree in model.trees().partition_by("tree", maintain_order=True):
        yield tuple(f"{f}<{b}" if f is not None else "leaf" for f, b in tree.select("feature", "border").iter_rows())


def test_random_thresholds_of_three_values_are_either_gap() -> None:
    """One feature with values 0, 1, 3: the threshold lies in a gap with a chance as large as the gap."""
    df = pl.DataFrame({"x": [0.0, 1.0, 3.0] * 4, "y": [0.0, 10.0, 30.0] * 4})
    model = df.taiga.fit_forest("y", "x", trees=900, splitter="random", depth=1, **WHOLE)
    borders = model.trees()["border"].drop_nulls()
    assert len(borders) == 900
    assert (borders < 1).mean() == pytest.approx(1 / 3, abs=0.05)
    assert borders.min() >= 0
    assert borders.max() < 3


def test_random_thresholds_of_two_features_give_every_shape() -> None:
    rng = np.random.default_rng(0)
    df = pl.DataFrame({"x0": rng.integers(0, 2, 30), "x1": rng.integers(0, 3, 30), "y": rng.normal(size=30)})
    model = df.taiga.fit_forest("y", "x0", "x1", trees=300, splitter="random", max_features=1, bootstrap=False)
    first = [shape[0].split("<")[0] for shape in shapes(model)]
    assert first.count("x0") / 300 == pytest.approx(0.5, abs=0.1)


@splitters
@criteria
@pytest.mark.parametrize(("depth", "leaves"), [(2, None), (None, 4), (1, 4), (3, 5)])
def test_depth_and_leaves_are_limits(splitter: Any, criterion: Any, target: str, depth: Any, leaves: Any) -> None:
    df = numbers(200)
    model = df.taiga.fit_forest(
        target, names(df), trees=4, splitter=splitter, criterion=criterion, depth=depth, leaves=leaves
    )
    found = model.trees().filter(pl.col("leaf").is_not_null())
    counts = found.group_by("tree").len()["len"]
    if depth is not None:
        assert found["depth"].max() <= depth
    if leaves is not None:
        assert counts.max() <= leaves
    if depth is None:
        assert counts.min() == leaves


@splitters
@criteria
@pytest.mark.parametrize("least", [2, 7, 25])
def test_no_leaf_has_fewer_rows_than_asked(splitter: Any, criterion: Any, target: str, least: int) -> None:
    df = numbers(200)
    model = df.taiga.fit_forest(
        target, names(df), trees=4, splitter=splitter, criterion=criterion, min_data_in_leaf=least
    )
    assert model.trees()["count"].min() >= least
    assert model.trees().height > 4


def mean_of(nodes: dict[int, Any], node: dict[str, Any]) -> float:
    """The mean target of the rows that came by a node, from the leaves below it."""
    if node["leaf"] is not None:
        return float(node["value"][0])
    sides = [nodes[node[s]] for s in ("left", "right")]
    return sum(s["weight"] * mean_of(nodes, s) for s in sides) / node["weight"]


@splitters
@pytest.mark.parametrize("least", [0.0, 0.01, 0.1])
def test_every_split_lowers_the_impurity_by_min_gain(splitter: Any, least: float) -> None:
    df = numbers(300)
    model = df.taiga.fit_forest("y", names(df), trees=5, splitter=splitter, min_gain=least)
    nodes = model.trees()
    splits = nodes.filter(pl.col("leaf").is_null())
    assert splits.height > 0
    assert splits["gain"].min() >= least * (1 - 1e-9)
    # The gain is the decrease of variance, by the share of the rows that came by.
    nodes = trees_of(model)[0]
    root, left, right_ = nodes[0], nodes[nodes[0]["left"]], nodes[nodes[0]["right"]]
    means = {id(n): mean_of(nodes, n) for n in (root, left, right_)}
    between = sum(n["weight"] * (means[id(n)] - means[id(root)]) ** 2 for n in (left, right_)) / root["weight"]
    assert root["gain"] == pytest.approx(between, rel=1e-5)


@splitters
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_a_bootstrap_draws_its_share_of_the_rows(splitter: Any, share: float) -> None:
    df = numbers(400)
    model = df.taiga.fit_forest("y", names(df), trees=5, splitter=splitter, bootstrap=share)
    assert model.trees().filter(pl.col("node") == 0)["count"].to_list() == [round(400 * share)] * 5


def test_a_bootstrap_of_all_rows_is_the_default() -> None:
    df = numbers(100)
    a, b = (df.taiga.fit_forest("y", names(df), trees=3, bootstrap=share) for share in (True, 1.0))
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


def test_the_smallest_bootstrap_is_one_row() -> None:
    df = numbers(50)
    model = df.taiga.fit_forest("y", names(df), trees=10, bootstrap=1e-9)
    assert set(model.trees()["count"]) == {1}
    np.testing.assert_allclose(predict(df, model), model.trees()["value"].list.get(0).mean())


@splitters
@targets
def test_equal_weights_are_no_weights(splitter: Any, target: str) -> None:
    df = numbers(150)
    a = df.taiga.fit_forest(target, names(df), trees=4, splitter=splitter)
    b = df.with_columns(w=pl.lit(2.0)).taiga.fit_forest(target, names(df), trees=4, splitter=splitter, weight="w")
    np.testing.assert_allclose(predict(df, a), predict(df, b), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("splitter", ["histogram", "exact"])
@targets
def test_a_row_s_weight_is_how_often_it_stands_without_a_bootstrap(splitter: Any, target: str) -> None:
    df = numbers(150).with_columns(w=1.0 + pl.int_range(pl.len()) % 3)
    twice = df[np.repeat(np.arange(150), df["w"].to_numpy().astype(int))]
    a = df.taiga.fit_forest(target, names(df), trees=1, splitter=splitter, weight="w", depth=4, **WHOLE)
    b = twice.taiga.fit_forest(target, names(df), trees=1, splitter=splitter, depth=4, **WHOLE)
    np.testing.assert_allclose(predict(df, a), predict(df, b), rtol=1e-9, atol=1e-12)


@splitters
@targets
def test_what_a_row_of_weight_zero_says_does_not_matter(splitter: Any, target: str) -> None:
    df = numbers(200).with_columns(w=(pl.int_range(pl.len()) % 3 > 0).cast(pl.Float64))
    other = df.with_columns(pl.when(pl.col("w") > 0).then(target).otherwise(pl.col(target).reverse()).alias(target))
    a, b = (
        frame.taiga.fit_forest(target, names(df), trees=5, splitter=splitter, weight="w", oob=False)
        for frame in (df, other)
    )
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@splitters
@pytest.mark.parametrize("target", ["flag", "kind"])
def test_class_weights_are_row_weights(splitter: Any, target: str) -> None:
    df = numbers(200)
    by_class: dict[Any, float] = {True: 4.0, False: 0.5} if target == "flag" else {"low": 2.0, "mid": 0.25, "top": 8.0}
    rows = df.with_columns(w=pl.col(target).replace_strict(by_class, return_dtype=pl.Float64))
    a = df.taiga.fit_forest(target, names(df), trees=5, splitter=splitter, class_weight=by_class)
    b = rows.taiga.fit_forest(target, names(df), trees=5, splitter=splitter, weight="w")
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@pytest.mark.parametrize(
    "weights",
    [
        {True: 1.0, False: 1.0},
        {True: 1e10, False: 1e10},
        {True: 1e39, False: 1e39},
    ],
    ids=["1", "1e10", "1e39"],
)
def test_equal_class_weights_of_any_size_are_none(weights: Any) -> None:
    df = numbers(200)
    a = df.taiga.fit_forest("flag", names(df), trees=5)
    b = df.taiga.fit_forest("flag", names(df), trees=5, class_weight=weights)
    np.testing.assert_allclose(predict(df, a), predict(df, b), atol=1e-9)


def test_a_class_that_weighs_far_more_is_predicted_everywhere() -> None:
    df = numbers(200)
    model = df.taiga.fit_forest("flag", names(df), trees=5, class_weight={True: 1e39, False: 1.0}, min_data_in_leaf=80)
    assert (predict(df, model) > 0.99).all()


def test_balanced_classes_are_balanced() -> None:
    df = numbers(300)
    counts = dict(df["kind"].value_counts().iter_rows())
    by_hand = {k: 300 / (3 * n) for k, n in counts.items()}
    a, b = (df.taiga.fit_forest("kind", names(df), trees=5, class_weight=w) for w in ("balanced", by_hand))
    np.testing.assert_allclose(predict(df, a), predict(df, b), atol=1e-6)


@splitters
@pytest.mark.parametrize("target", ["y", "flag"])
def test_holes_that_tell_the_target_are_used(splitter: Any, target: str) -> None:
    rng = np.random.default_rng(0)
    hole = rng.random(400) < 0.5
    df = pl.DataFrame({"x0": np.where(hole, np.nan, rng.normal(size=400)), "x1": rng.normal(size=400)}).with_columns(
        y=pl.Series(hole * 5.0), flag=pl.Series(hole)
    )
    train, test = df[:300], df[300:]
    model = train.taiga.fit_forest(target, "x0", "x1", trees=30, splitter=splitter)
    assert np.mean((predict(test, model) > df[target].cast(pl.Float64).max() / 2) == test["flag"].to_numpy()) > 0.97


@splitters
@criteria
def test_holes_cost_no_more_accuracy_than_in_scikit_learn(splitter: Any, criterion: Any, target: str) -> None:
    df = numbers(1_000)
    rng = np.random.default_rng(1)
    df = df.with_columns(pl.when(pl.Series(rng.random(1_000) > 0.1)).then(n) for n in names(df))
    train, test = df[:600], df[600:]
    model = train.taiga.fit_forest(target, names(df), trees=50, splitter=splitter, criterion=criterion)
    numeric = criterion in ("squared_error", "poisson")
    kinds = {
        (True, False): RandomForestRegressor, (True, True): ExtraTreesRegressor, (False, False): RandomForestClassifier,
        (False, True): ExtraTreesClassifier,
    }  # fmt: skip
    peer = kinds[numeric, splitter == "random"](50, criterion=criterion, bootstrap=True, random_state=0)
    peer.fit(train.select(names(df)).to_numpy(), train[target].to_list())
    ours = metrics.r2_score(test[target], predict(test, model)) if numeric else right(test, model, target)
    assert ours > peer.score(test.select(names(df)).to_numpy(), test[target].to_list()) - 0.04


@splitters
@pytest.mark.parametrize("dtype", [pl.Float32, pl.Int16, pl.UInt8, pl.Decimal(10, 2)], ids=str)
def test_the_type_of_a_number_does_not_matter(splitter: Any, dtype: Any) -> None:
    df = numbers(150).with_columns((pl.col(f"x{i}") * 8).round().clip(-30, 30) + 40 for i in range(3))
    a = df.taiga.fit_forest("y", names(df), trees=4, splitter=splitter)
    other = df.with_columns(pl.col(names(df)).cast(dtype))
    assert other.taiga.fit_forest("y", names(df), trees=4, splitter=splitter) == a
    np.testing.assert_array_equal(predict(other, a), predict(df, a))


@pytest.mark.parametrize("splitter", ["histogram", "exact"])
def test_a_rising_function_of_the_features_gives_the_same_training_predictions(splitter: Any) -> None:
    df = numbers(200)
    other = df.with_columns(pl.col(names(df)).exp())
    a, b = (
        frame.taiga.fit_forest("y", names(df), trees=5, splitter=splitter, bootstrap=False) for frame in (df, other)
    )
    np.testing.assert_allclose(predict(df, a), predict(other, b))


@splitters
def test_null_and_nan_are_the_same_to_the_byte(splitter: Any) -> None:
    df = numbers(150).with_columns(pl.when(pl.int_range(pl.len()) % 5 > 0).then("x0").alias("x0"))
    a = df.taiga.fit_forest("y", names(df), trees=4, splitter=splitter)
    b = df.with_columns(pl.col("x0").fill_null(float("nan"))).taiga.fit_forest(
        "y", names(df), trees=4, splitter=splitter
    )
    assert a == b


@splitters
def test_infinite_values_are_the_smallest_and_the_largest(splitter: Any) -> None:
    inf = float("inf")
    df = pl.DataFrame({"x": [-inf, 0.0, 1.0, inf] * 3, "y": [0.0, 0.0, 1.0, 1.0] * 3})
    model = df.taiga.fit_forest("y", "x", trees=1, splitter=splitter, **WHOLE)
    np.testing.assert_allclose(predict(df, model), df["y"])


@splitters
@pytest.mark.parametrize("target", ["flag", "kind"])
def test_labels_of_any_type_are_the_same_classes(splitter: Any, target: str) -> None:
    df = numbers(150)
    words = df.with_columns(pl.col(target).cast(pl.String).replace({"false": "0", "true": "1"}))
    other = words.with_columns(pl.col(target).cast(pl.Categorical))
    a, b = (f.taiga.fit_forest(target, names(df), trees=4, splitter=splitter) for f in (words, other))
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@pytest.mark.parametrize("splitter", ["exact", "random"])
def test_categories_under_other_splitters_are_an_error_that_names_the_column(splitter: Any) -> None:
    df = numbers(50).with_columns(c=pl.lit("a"))
    with pytest.raises(pl.exceptions.ComputeError, match=r"`c`.*histogram"):
        df.taiga.fit_forest("y", "c", "x0", trees=2, splitter=splitter)


def test_unseen_categories_are_all_alike() -> None:
    df = numbers(200).with_columns(c=pl.format("c{}", pl.int_range(pl.len()) % 6))
    model = df.taiga.fit_forest("y", "c", "x0", trees=5)
    a, b = (predict(df.with_columns(c=pl.lit(v)), model) for v in ("new", "newer"))
    np.testing.assert_array_equal(a, b)
    assert np.isfinite(a).all()


@pytest.mark.parametrize("rows", [60, 400])
def test_categories_are_divided_in_the_best_two_sets(rows: int) -> None:
    """One split tells the even from the odd ones."""
    df = pl.DataFrame({"c": [f"c{i % 10}" for i in range(rows)]}).with_columns(
        y=pl.col("c").str.slice(1).cast(pl.Float64) % 2
    )
    model = df.taiga.fit_forest("y", "c", trees=1, depth=1, **WHOLE)
    np.testing.assert_allclose(predict(df, model), df["y"])


@pytest.mark.parametrize(
    ("splitter", "peer"),
    [("histogram", RandomForestRegressor), ("exact", RandomForestRegressor), ("random", ExtraTreesRegressor)],
)
@pytest.mark.parametrize("share", [0.34, 1.0])
def test_accuracy_on_new_rows_is_that_of_scikit_learn(splitter: Any, peer: Any, share: float) -> None:
    df = numbers(1_200, features=6, levels=None)
    train, test = df[:600], df[600:]
    model = train.taiga.fit_forest("y", names(df), trees=80, splitter=splitter, max_features=share, seed=1)
    other = peer(80, max_features=share, bootstrap=True, random_state=0, n_jobs=1)
    other.fit(train.select(names(df)).to_numpy(), train["y"].to_numpy())
    theirs = rmse(other.predict(test.select(names(df)).to_numpy()), test["y"])
    assert rmse(predict(test, model), test["y"]) < 1.05 * theirs


@pytest.mark.parametrize("leaves", [3, 8, 20])
def test_limited_leaves_are_those_of_scikit_learn_s_best_first_tree(leaves: int) -> None:
    df = numbers(400, levels=None)
    model = df.taiga.fit_forest("y", names(df), trees=1, splitter="exact", leaves=leaves, **WHOLE)
    x = df.select(names(df)).to_numpy()
    peer = DecisionTreeRegressor(max_leaf_nodes=leaves).fit(x, df["y"].to_numpy())
    np.testing.assert_allclose(predict(df, model), peer.predict(x), rtol=1e-9)


@pytest.mark.parametrize("least", [0.01, 0.05, 0.2])
def test_min_gain_is_scikit_learn_s_min_impurity_decrease(least: float) -> None:
    df = numbers(400, levels=None)
    model = df.taiga.fit_forest("y", names(df), trees=1, splitter="exact", min_gain=least, **WHOLE)
    x = df.select(names(df)).to_numpy()
    peer = DecisionTreeRegressor(min_impurity_decrease=least).fit(x, df["y"].to_numpy())
    np.testing.assert_allclose(predict(df, model), peer.predict(x), rtol=1e-9)


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_importances_of_one_exact_tree_are_those_of_scikit_learn(criterion: Any) -> None:
    df = numbers(500, features=5, levels=None)
    model = df.taiga.fit_forest(
        "kind", names(df), trees=1, splitter="exact", criterion=criterion, min_data_in_leaf=20, **WHOLE
    )
    x = df.select(names(df)).to_numpy()
    peer = RandomForestClassifier(
        1, criterion=criterion, bootstrap=False, max_features=None, min_samples_leaf=20, random_state=0
    ).fit(x, df["kind"].to_list())
    np.testing.assert_allclose(model.importance()["importance"], peer.feature_importances_, atol=1e-9)


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_permutation_importance_finds_the_informative_features(splitter: Any) -> None:
    df = numbers(500, features=6)
    model = df.taiga.fit_forest("y", names(df), trees=40, splitter=splitter, permutation_importance=True)
    importance = model.importance("permutation")["importance"].to_numpy()
    assert importance[:3].min() > 5 * np.abs(importance[3:]).max()

"""Partial dependence: against scikit-learn's, by both its methods; against the definition; and its grids."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

inspection = pytest.importorskip("sklearn.inspection")
estimators = pytest.importorskip("polars_taiga.sklearn")

FEATURES = list("abcd")
POLARS = tuple(map(int, pl.__version__.split(".")[:2]))
POLICIES: list[dict[str, Any]] = [
    {"policy": "symmetric", "depth": 4},
    {"policy": "depthwise", "depth": 5},
    {"policy": "leafwise", "leaves": 24},
]


@pytest.fixture(scope="module")
def mixed(df: pl.DataFrame) -> pl.DataFrame:
    """Columns of every kind, with missing values, and targets that each of them matters to."""
    row = pl.int_range(pl.len())
    return (
        df.head(800)
        .with_columns(
            city=pl.when(row % 17 > 0).then(pl.concat_str(pl.lit("c"), (row * 7919 % 11).cast(pl.String))),
            size=(row * 31 % 3).cast(pl.String).replace({"0": "small", "1": "mid", "2": "big"}),
            day=pl.date(2020, 1, 1) + pl.duration(days=row * 37 % 300),
            at=pl.datetime(2020, 1, 1) + pl.duration(hours=row * 41 % 500),
            open=row % 3 == 0,
            whole=(row * 13 % 97).cast(pl.Int32),
        )
        .with_columns(
            size=pl.col("size").cast(pl.Enum(["small", "mid", "big"])),
            place=pl.col("city").cast(pl.Categorical),
            y=pl.col("y") + (row * 7919 % 11 > 5) + (row * 37 % 300) / 100 + (row % 3 == 0) - (row * 13 % 97) / 50,
        )
    )


MIXED = ["a", "b", "city", "size", "day", "at", "open", "whole"]
FITS: dict[str, Callable[[pl.DataFrame], tg.Model]] = {
    "symmetric": lambda f: f.taiga.fit_gbdt("y", *MIXED, rounds=8, cat_method="ctr"),
    "depthwise": lambda f: f.taiga.fit_gbdt("flag", *MIXED, rounds=8, policy="depthwise", cat_method="one_hot"),
    "leafwise": lambda f: f.taiga.fit_gbdt("kind", *MIXED, rounds=4, policy="leafwise", cat_method="partition"),
    "poisson": lambda f: f.taiga.fit_gbdt(pl.col("y").exp().clip(0, 50).alias("n"), *MIXED, rounds=8, loss="poisson"),
    "forest": lambda f: f.taiga.fit_forest("kind", *MIXED, trees=6, depth=6),
    "linear": lambda f: filled(f).taiga.fit_sparse_lr("kind", dense=["a", "b", "open", "whole"]),
}


def filled(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("b", "c").fill_nan(0).fill_null(0))


def of_classes(predicted: pl.Series) -> dict[str | None, pl.Series]:
    if predicted.dtype != pl.Struct:
        return {None: predicted}
    frame = predicted.struct.unnest()
    return {name: frame[name] for name in frame.columns}


def predictions(
    model: tg.Model, frame: pl.DataFrame, point: dict[str, Any], output: Any
) -> dict[str | None, pl.Series]:
    """Predictions of rows whose columns are given some values."""
    given = frame.with_columns(pl.Series(n, [v] * frame.height, dtype=frame.schema[n]) for n, v in point.items())
    return of_classes(given.select(tg.predict(model, output=output)).to_series())


@pytest.mark.parametrize("kind", FITS)
def test_it_is_the_mean_of_predictions_for_every_learner(mixed: pl.DataFrame, kind: str) -> None:
    """Proves it by the definition, for one column and two, weights, curves of rows and their differences."""
    frame = filled(mixed) if kind == "linear" else mixed
    model = FITS[kind](frame)
    # A small part, which is predicted in one block.
    frame = frame.head(60)
    weight = frame["w"].to_numpy()
    columns: list[Any] = ["whole", "open", ["a", "whole"], "city", "day", ["size", "at"]]
    for features in columns[:3] if kind == "linear" else columns:
        names = [features] if isinstance(features, str) else features
        for output in ("auto",) if kind == "forest" else ("auto", "raw"):
            found = tg.partial_dependence(model, frame, features, grid=4, output=output)  # type: ignore[arg-type]
            weighed = model.partial_dependence(frame, features, grid=4, output=output, weight="w")  # type: ignore[arg-type]
            assert found.columns == [*(["class"] if model._inner.outputs() > 1 else []), *names, "prediction"]
            assert [found.schema[name] for name in names] == [frame.schema[name] for name in names]
            for row, again in zip(found.to_dicts(), weighed["prediction"], strict=True):
                point = {name: row[name] for name in names}
                values = predictions(model, frame, point, output)[row.get("class")]
                assert row["prediction"] == pytest.approx(values.mean(), rel=1e-12, abs=1e-14)
                assert again == pytest.approx(np.average(values.to_numpy(), weights=weight), rel=1e-12, abs=1e-14)
    curves = tg.partial_dependence(model, frame, "whole", grid=[3, 50], individual=True)
    assert curves.height == 2 * frame.height * model._inner.outputs()
    for label, values in predictions(model, frame, {"whole": 50}, "auto").items():
        of_class = curves if label is None else curves.filter(pl.col("class") == label)
        assert of_class["row"].to_list() == [r for r in range(60) for _ in range(2)]
        assert of_class.filter(pl.col("whole") == 50)["prediction"].to_list() == values.to_list()
    centered = tg.partial_dependence(model, frame, "whole", grid=[3, 50], individual=True, centered=True)
    assert (centered["prediction"][::2] == 0).all()
    first, second = curves["prediction"][::2], curves["prediction"][1::2]
    assert (centered["prediction"][1::2] - (second - first)).abs().max() == 0
    mean = tg.partial_dependence(model, frame, "whole", grid=[3, 50])["prediction"]
    difference = tg.partial_dependence(model, frame, "whole", grid=[3, 50], centered=True)["prediction"]
    assert difference[1] == mean[1] - mean[0]


def test_scikit_learns_brute_force_gives_the_same(df: pl.DataFrame) -> None:
    x, w = df.select(FEATURES).fill_null(float("nan")).to_numpy(), df["w"].to_numpy()
    frame = pl.DataFrame(x, schema=["x0", "x1", "x2", "x3"]).with_columns(w=df["w"])
    for estimator, target in [
        (estimators.GbdtRegressor(rounds=10), df["y"].to_numpy()),
        (estimators.GbdtClassifier(rounds=10, policy="depthwise"), df["flag"].to_numpy()),
        (estimators.ForestClassifier(trees=5, depth=6), df["kind"].to_numpy()),
        (estimators.ForestRegressor(trees=5, depth=6), df["y"].to_numpy()),
    ]:
        estimator.fit(x, target)
        points = np.quantile(x[:, 0], np.linspace(0, 1, 7))
        peer = inspection.partial_dependence(
            estimator, x[:500], [0], method="brute", kind="both", custom_values={0: points}
        )
        grid = {"x0": points}
        found = tg.partial_dependence(estimator.model_, frame.head(500), "x0", grid=grid)  # type: ignore[arg-type]
        assert found["prediction"].to_numpy() == pytest.approx(peer["average"].reshape(-1), rel=1e-12)
        curves = estimator.model_.partial_dependence(frame.head(500), "x0", grid=grid, individual=True)
        assert curves["prediction"].to_numpy() == pytest.approx(peer["individual"].reshape(-1), rel=1e-12)
        pair: dict[Any, Any] = {2: np.array([-1.0, 0.5]), 0: np.array([-1.0, 0.0, 2.0])}
        peer = inspection.partial_dependence(
            estimator, x[:500], [2, 0], method="brute", custom_values=pair, sample_weight=w[:500]
        )
        given = {"x2": pair[2], "x0": pair[0]}
        found = tg.partial_dependence(estimator.model_, frame.head(500), ["x2", "x0"], grid=given, weight="w")
        assert found["prediction"].to_numpy() == pytest.approx(peer["average"].reshape(-1), rel=1e-12)


def as_scikit_learn(model: tg.Model, frame: pl.DataFrame) -> tuple[Any, float]:
    """A regression's trees as scikit-learn's, with the same numbers of rows in their nodes, and the score before."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.ensemble._hist_gradient_boosting.predictor import PREDICTOR_RECORD_DTYPE, TreePredictor

    peer = HistGradientBoostingRegressor(max_iter=1).fit(frame.to_numpy(), np.arange(frame.height))
    peer._predictors, none = [], np.zeros((0, 8), dtype=np.uint32)
    for rows in model.trees().partition_by("tree", maintain_order=True):
        nodes = np.zeros(rows.height, dtype=PREDICTOR_RECORD_DTYPE)
        for own, row in zip(nodes, rows.sort("node").to_dicts(), strict=True):
            own["count"], own["depth"], own["is_leaf"] = row["count"], row["depth"], row["leaf"] is not None
            if row["leaf"] is not None:
                own["value"] = row["value"]
                continue
            own["feature_idx"], own["num_threshold"] = frame.columns.index(row["feature"]), row["border"]
            own["left"], own["right"], own["missing_go_to_left"] = row["left"], row["right"], row["missing_left"]
        peer._predictors.append([TreePredictor(nodes, none, none)])
    predicted = frame.head(1).select(tg.predict(model, output="raw")).item()
    peer._baseline_prediction = np.zeros((1, 1))
    return peer, predicted - peer.predict(frame.head(1).to_numpy())[0]


@pytest.mark.parametrize("params", POLICIES[1:], ids=lambda p: p["policy"])
def test_scikit_learns_recursion_gives_the_same_for_the_same_trees(df: pl.DataFrame, params: dict[str, Any]) -> None:
    """Proves it where splits send missing values to either side. (Symmetric trees have leaves without rows, for which
    scikit-learn divides by zero.)
    """
    model = df.taiga.fit_gbdt("y", *FEATURES, rounds=20, **params)
    frame = df.select(FEATURES).with_columns(pl.col("b").fill_null(float("nan")))
    peer, start = as_scikit_learn(model, frame)
    for names in (["a"], ["c"], ["a", "b"]):
        found = model.partial_dependence(features=names, grid=11)
        grid = {FEATURES.index(name): found[name].unique().sort().to_numpy() for name in names}
        wanted = inspection.partial_dependence(
            peer, frame.to_numpy(), list(grid), method="recursion", custom_values=grid
        )
        assert found["prediction"].to_numpy() == pytest.approx(start + wanted["average"].reshape(-1), rel=1e-12)


def walk(model: tg.Model, known: dict[str, Any]) -> list[float]:
    """The sum of the trees (the mean, of a forest) where some columns are known, by their table."""
    is_forest = model.learner == "forest"
    outputs = model._inner.outputs()
    trees = [{n["node"]: n for n in t.to_dicts()} for t in model.trees().partition_by("tree", maintain_order=True)]

    def below(tree: dict[int, Any], at: int) -> np.ndarray:
        node = tree[at]
        if node["leaf"] is not None:
            of_output = np.arange(outputs) == node.get("output", 0)
            return np.array(node["value"])[-outputs:] if is_forest else node["value"] * of_output
        left, right = node["left"], node["right"]
        if node["feature"] in known:
            x, sets = known[node["feature"]], node.get("right_categories")
            if x is None or x != x:
                goes_left = node["missing_left"]
            else:
                goes_left = x <= node["border"] if sets is None else x not in sets
            return below(tree, left if goes_left else right)
        share = tree[left]["count"] / node["count"] if node["count"] else 0.5
        return share * below(tree, left) + (1 - share) * below(tree, right)

    total = np.sum([below(tree, 0) for tree in trees], axis=0)
    return list(total / len(trees) if is_forest else total)


@pytest.mark.parametrize("params", [*POLICIES, "forest", "forest of classes"], ids=str)
def test_without_data_it_follows_the_training_rows_as_defined(df: pl.DataFrame, params: Any) -> None:
    """Proves it for every policy and forests, of several classes, missing values and categories of a forest too."""
    frame = df.with_columns(size=(pl.int_range(pl.len()) * 31 % 5).cast(pl.String))
    if isinstance(params, str):
        target, names = ("y" if params == "forest" else "kind"), [*FEATURES, "size"]
        model = frame.taiga.fit_forest(target, *names, trees=4, depth=6)
        start = [0.0] * model._inner.outputs()
    else:
        names = FEATURES
        model = frame.taiga.fit_gbdt("kind", *names, rounds=4, **params)
        row = frame.row(1, named=True)
        raw = frame[1].select(tg.predict(model, output="raw")).item().values()
        start = list(np.array(list(raw)) - walk(model, {name: row[name] for name in names}))
    asked: list[Any] = ["a", ["a", "b"], *(["size", ["size", "c"]] if "size" in names else [])]
    for features in asked:
        found = model.partial_dependence(features=features, grid=5, missing=True)
        columns = [features] if isinstance(features, str) else features
        labels = model._inner.class_names() or []
        assert found.select(pl.col(columns[0]).is_null().any()).item()
        for row in found.to_dicts():
            output = labels.index(row["class"]) if "class" in row else 0
            wanted = start[output] + walk(model, {name: row[name] for name in columns})[output]
            assert row["prediction"] == pytest.approx(wanted, abs=1e-11)


CATEGORIES: dict[str, Callable[[pl.DataFrame], tg.Model]] = {
    "ctr": lambda f: f.taiga.fit_gbdt("flag", "a", "city", rounds=10, cat_method="ctr"),
    "one_hot": lambda f: f.taiga.fit_gbdt("y", "a", "city", rounds=10, policy="depthwise", cat_method="one_hot"),
    "partition": lambda f: f.taiga.fit_gbdt("kind", "a", "city", rounds=5, policy="leafwise", cat_method="partition"),
    "integers": lambda f: f.with_columns(city="whole").taiga.fit_gbdt("y", "a", "city", rounds=9, categorical="city"),
    "linear": lambda f: f.with_columns(city="b").taiga.fit_sparse_lr("flag", dense=["a", "city"]),
}


@pytest.mark.parametrize("kind", CATEGORIES)
def test_without_data_it_is_what_shapley_values_are_made_of(mixed: pl.DataFrame, kind: str) -> None:
    """Proves for two columns, one of them categories under each method, that their Shapley values are the means of what
    each gives first and what it gives last; and that nothing but the prediction is left when both are known.
    """
    frame = filled(mixed)
    model = CATEGORIES[kind](frame)
    renamed = {"integers": "whole", "linear": "b"}.get(kind)
    frame = frame if renamed is None else frame.with_columns(city=renamed)
    frame = frame.head(50)
    shap = of_classes(frame.select(tg.predict(model, output="shap")).to_series())
    shap = {None: frame.select(tg.predict(model, output="shap")).to_series()} if "a" in shap else shap
    raw = of_classes(frame.select(tg.predict(model, output="raw")).to_series())

    def known(features: list[str], label: str | None) -> np.ndarray:
        """What each row's values give: the points of a grid that they are on."""
        columns = {name: frame[name].unique() for name in features}
        found = model.partial_dependence(features=features, grid=columns)
        found = found if label is None else found.filter(pl.col("class") == label)
        rows = frame.select(features)
        values = dict(zip(found.select(features).rows(), found["prediction"], strict=True))
        return np.array([values[row] for row in rows.rows()])

    for label, explained in shap.items():
        base = explained.struct.field("base_value").to_numpy()
        a, city, both = known(["a"], label), known(["city"], label), known(["a", "city"], label)
        assert both == pytest.approx(raw[label].to_numpy(), abs=1e-11)
        assert explained.struct.field("a").to_numpy() == pytest.approx((a - base + both - city) / 2, abs=1e-11)
        assert explained.struct.field("city").to_numpy() == pytest.approx((city - base + both - a) / 2, abs=1e-11)


def test_a_column_in_combinations_needs_data_or_its_partners(mixed: pl.DataFrame) -> None:
    frame = mixed.with_columns(odd=(pl.int_range(pl.len()) % 2).cast(pl.String)).with_columns(
        y=(pl.col("city").fill_null("c0").str.slice(1).cast(pl.Int64) + pl.col("odd").cast(pl.Int64)) % 2
    )
    model = frame.taiga.fit_gbdt(pl.col("y") > 0, "city", "odd", rounds=10, depth=4, cat_method="ctr")
    assert any("(city, odd" in (name or "") for name in model.trees()["feature"])
    with pytest.raises(pl.exceptions.ComputeError, match=r"asks about `city` together with `odd` .*: give data"):
        model.partial_dependence(features="city")
    found = model.partial_dependence(features=["city", "odd"])
    given = found.select("city", "odd").select(tg.predict(model, output="raw")).to_series()
    assert (found["prediction"] - given).abs().max() < 1e-12
    assert model.partial_dependence(frame, "city").height == 12


def test_grids_by_data(mixed: pl.DataFrame, df: pl.DataFrame) -> None:
    """Proves which points are taken: all values or ranks, categories in order, a missing one last, in their type."""
    model = FITS["symmetric"](mixed)

    def grid(feature: str, frame: pl.DataFrame = mixed, **options: Any) -> list[Any]:
        return tg.partial_dependence(model, frame.head(600), feature, **options)[feature].to_list()

    assert grid("whole", grid=200) == list(range(97))
    a = sorted(mixed["a"].head(600))
    assert grid("a", grid=3) == [a[0], a[300], a[-1]]
    assert len(grid("a")) <= 40
    b = mixed["b"].head(600)
    assert grid("b", grid=2) == [b.min(), b.max(), None]
    assert grid("b", grid=2, missing=False) == [b.min(), b.max()]
    assert grid("whole", grid=2, missing=True) == [0, 96, None]
    days = mixed["day"].head(600)
    assert grid("day", grid=2) == [days.min(), days.max()]
    assert grid("day", grid=[dt.date(2020, 5, 1)]) == [dt.date(2020, 5, 1)]
    assert grid("at", grid=2)[0] == dt.datetime(2020, 1, 1)
    assert grid("open") == [False, True]
    assert grid("size") == ["small", "mid", "big"]
    assert grid("city") == [*sorted(f"c{i}" for i in range(11)), None]
    counts = mixed["city"].head(600).drop_nulls().value_counts()
    frequent = counts.sort(["count", "city"], descending=[True, False])["city"].head(3)
    assert grid("city", grid=3) == [*frequent.sort(), None]
    assert grid("city", mixed.with_columns(city="place")) == [*sorted(f"c{i}" for i in range(11)), None]
    assert grid("city", grid=["c3", None, "elsewhere"]) == ["c3", None, "elsewhere"]
    found = tg.partial_dependence(model, mixed.with_columns(city="place"), "city", grid=["c3"])
    assert found.schema["city"] == pl.Categorical
    # Numbers that the column's type has no place for stay as they are.
    assert grid("whole", grid=[1, 2.5]) == [1, 2.5]
    assert tg.partial_dependence(model, mixed, "whole", grid=[1, 2]).schema["whole"] == pl.Int32
    assert grid("whole", grid=pl.Series([7], dtype=pl.UInt8)) == [7]
    both = tg.partial_dependence(model, mixed, ["size", "whole"], grid={"whole": [5, 6]})
    assert both.select("size", "whole").rows() == [(s, w) for s in ("small", "mid", "big") for w in (5, 6)]
    assert tg.partial_dependence(model, mixed, ["a", "whole"]).height == 400


def test_grids_by_the_model(mixed: pl.DataFrame) -> None:
    """Proves that points lie on either side of every border, so that no other value gives anything else."""
    model = FITS["symmetric"](mixed)
    for feature in ("a", "whole", "day", "at", "open"):
        points = model.partial_dependence(features=feature, grid=10_000)[feature]
        borders = model.borders[feature]
        numbers = points.to_physical().cast(pl.Float64).to_list()
        assert len(numbers) == len(borders) + 1
        for border, low, high in zip(borders, numbers, numbers[1:], strict=False):
            assert low <= border < high
        some = model.partial_dependence(features=feature, grid=4)[feature]
        assert some.to_list() == sorted(set(some.to_list()))
        assert (some[0], some[-1]) == (points[0], points[-1])
    assert model.partial_dependence(features="day").schema["day"] == pl.Date
    assert model.partial_dependence(features="at").schema["at"] == pl.Datetime("us")
    assert model.partial_dependence(features="city")["city"].to_list() == sorted(f"c{i}" for i in range(11))
    with_null = model.partial_dependence(features="city", missing=True, centered=True)
    assert with_null["city"].null_count() == 1
    assert with_null["prediction"][0] == 0
    # A column that no split asks about: whatever it is, the mean over the training rows.
    unused = mixed.with_columns(c=1.0).taiga.fit_gbdt("y", "a", "c", rounds=3)
    base = mixed.head(1).select(tg.predict(unused, output="shap").struct.field("base_value")).item()
    ((value, mean),) = unused.partial_dependence(features="c").rows()
    assert value is None
    assert mean == pytest.approx(base, abs=1e-12)


def test_borders_next_to_each_other() -> None:
    x = [1.0, 1.0 + 2**-52, 1.0 + 2**-51]
    df = pl.DataFrame({"x": x * 20, "y": [0.0, 1.0, 5.0] * 20})
    model = df.taiga.fit_gbdt("y", "x", rounds=4, policy="depthwise", depth=2, learning_rate=1.0, l2=0.0)
    found = model.partial_dependence(features="x")
    assert found["prediction"].to_list() == pytest.approx([0.0, 1.0, 5.0], abs=1e-6)


def test_sparse_rows(df: pl.DataFrame) -> None:
    frame = df.head(300).with_columns(
        words=pl.concat_list("kind", pl.lit("x"), pl.int_range(pl.len()).mod(5).cast(pl.String))
    )
    model = frame.taiga.fit_sparse_lr("flag", "words", dense=["a"])
    given = [["low"], ["top", "3"], []]
    found = tg.partial_dependence(model, frame, "words", grid=given, output="raw")
    for words, mean in found.rows():
        one = frame.with_columns(words=pl.lit(pl.Series([words], dtype=pl.List(pl.String))).first())
        assert mean == pytest.approx(one.select(tg.predict(model, output="raw")).to_series().mean(), rel=1e-12)
    # Linear scores have the same mean over the training rows by the model alone.
    known = tg.partial_dependence(model, features="words", grid=given)
    assert known["words"].to_list() == given
    assert known["prediction"].to_numpy() == pytest.approx(found["prediction"].to_numpy(), abs=1e-6)
    a = model.partial_dependence(features="a", grid=[-1.0, 2.0])["prediction"]
    slope = model.coefficients().filter(pl.col("name") == "a")["coefficient"][0]
    assert a[1] - a[0] == pytest.approx(3 * slope)
    for bad, text in [
        (lambda: tg.partial_dependence(model, frame, "words"), "parameter `grid`: 'words' has lists: say which"),
        (lambda: model.partial_dependence(features="a"), "a linear model knows no values of 'a'"),
    ]:
        with pytest.raises(ValueError, match=text):
            bad()
    numbered = frame.select("flag", ids=pl.concat_list(pl.int_range(pl.len()) % 7), scores=pl.concat_list("a"))
    of_values = numbered.taiga.fit_sparse_lr("flag", "ids", values="scores")
    with pytest.raises(ValueError, match="'ids' has lists whose values are in 'scores'"):
        tg.partial_dependence(of_values, numbered, "ids", grid=[[1]])


def test_frames_chunks_samples_and_one_row_give_the_same_bytes(mixed: pl.DataFrame) -> None:
    model = FITS["depthwise"](mixed)
    chunks = pl.concat([mixed[:7], mixed[7:300], mixed[300:]], rechunk=False)
    for options in ({}, {"individual": True}, {"weight": pl.col("w") * 2}, {"sample": 99, "seed": 4}):
        found = tg.partial_dependence(model, mixed, ["whole", "size"], grid=5, **options)  # type: ignore[arg-type]
        for other in (chunks, mixed.lazy(), chunks.lazy()):
            assert tg.partial_dependence(model, other, ["whole", "size"], grid=5, **options).equals(found)  # type: ignore[arg-type]
    assert tg.partial_dependence(model.to_bytes(), mixed, "a").equals(model.partial_dependence(mixed, "a"))
    curves = tg.partial_dependence(model, mixed, "whole", sample=20, seed=1, individual=True)
    assert curves["row"].n_unique() == 20
    assert curves["whole"].n_unique() == tg.partial_dependence(model, mixed, "whole").height
    one = tg.partial_dependence(model, mixed[5], "whole", grid=[3, 4])
    alone = tg.partial_dependence(model, mixed, "whole", grid=[3, 4], individual=True).filter(pl.col("row") == 5)
    assert one["prediction"].to_list() == alone["prediction"].to_list()


def test_blocks_and_threads_do_not_show(df: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves that blocks of any number of rows give the same curves, and the same means but for rounding; and that the
    bytes are the same on one thread and on many.
    """
    from polars_taiga import dependence

    model = df.taiga.fit_gbdt("kind", *FEATURES, rounds=5)
    found = tg.partial_dependence(model, df, ["a", "b"], grid=3, individual=True)
    means = tg.partial_dependence(model, df, ["a", "b"], grid=3, weight="w")
    for rows in (1_000, 7_000, 12_345):
        monkeypatch.setattr(dependence, "_ROWS", rows)
        assert tg.partial_dependence(model, df, ["a", "b"], grid=3, individual=True).equals(found)
        again = tg.partial_dependence(model, df, ["a", "b"], grid=3, weight="w")
        assert (again["prediction"] - means["prediction"]).abs().max() < 1e-13
    program = """
import numpy as np, polars as pl, polars_taiga as tg
rng = np.random.default_rng(0)
df = pl.DataFrame({"a": rng.normal(size=300_000), "b": rng.normal(size=300_000)}).with_columns(y=pl.col("a") ** 3)
model = df.head(5_000).taiga.fit_gbdt("y", "a", "b", rounds=5)
print(tg.partial_dependence(model, df, "a", grid=3)["prediction"].to_list())
print(model.partial_dependence(features="a")["prediction"].to_list())
"""
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "POLARS_MAX_THREADS": threads},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for threads in ("1", "4")
    }
    assert len(texts) == 1


def test_computed_features_are_found_by_name(df: pl.DataFrame) -> None:
    model = df.taiga.fit_gbdt("y", "a", (pl.col("d") * 2).alias("twice"), rounds=3)
    frame = df.with_columns(twice=pl.col("d") * 2)
    mean = frame.with_columns(twice=0.0).select(tg.predict(model, "a", "twice").mean()).item()
    assert tg.partial_dependence(model, frame, "twice", grid=[0.0])["prediction"][0] == pytest.approx(mean)
    assert model.partial_dependence(features="twice").height > 1
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="twice"):
        tg.partial_dependence(model, df, "twice")


def test_bad_input(mixed: pl.DataFrame) -> None:
    model, forest = FITS["depthwise"](mixed), FITS["forest"](mixed)
    pd: Any = tg.partial_dependence
    for bad, text in [
        (
            lambda: pd(model, mixed, "nope"),
            "parameter `features`: 'nope' is not one of the model's columns: a, b, city",
        ),
        (lambda: pd(model, mixed), "parameter `features`: 0 columns; it takes one or two of a, b"),
        (lambda: pd(model, mixed, ["a", "b", "city"]), "parameter `features`: 3 columns"),
        (lambda: pd(model, mixed, ["a", "a"]), "parameter `features`: 'a' stands twice"),
        (lambda: pd(model, mixed[:0], "a"), "parameter `data`: no rows"),
        (lambda: pd(model, mixed, "a", grid=1), "parameter `grid`: 1 points of 'a'; it takes 2 at least"),
        (lambda: pd(model, mixed, "a", grid=[]), "parameter `grid`: no values of 'a'"),
        (lambda: pd(model, mixed, "a", grid=["x"]), "the values of 'a' are of String; the column is Float64"),
        (lambda: pd(model, mixed, "day", grid=[3]), "the values of 'day' are of Int64; the column is Date"),
        (lambda: pd(model, mixed, "size", grid=["huge"]), "the values of 'size' are of String, not Enum"),
        (lambda: pd(model, features="day", grid=[1.5]), "the values of 'day' are of Float64; the column is Date"),
        (lambda: pd(model, mixed, "a", grid={"b": [1]}), "parameter `grid`: 'b' is not one of a"),
        (lambda: pd(model, mixed, ["a", "b"], grid=[1, 2]), "of two columns their values come by name"),
        (lambda: pd(model, mixed, "a", grid=[1, "x"]), "parameter `grid`: the values of 'a' are not of one type"),
        (
            lambda: pd(model, mixed.with_columns(a=pl.lit(None, pl.Float64)), "a"),
            "parameter `grid`: 'a' has no values in the data",
        ),
        (lambda: pd(model, mixed, "a", output="class"), "parameter `output`: 'class' is not 'auto' or 'raw'"),
        (lambda: pd(forest, mixed, "a", output="raw"), "a forest, which has no raw scores"),
        (lambda: pd(model, features="a", output="auto"), "without data means are of raw scores"),
        (lambda: pd(model, features="a", individual=True), "parameter `individual`: it is of the rows of data"),
        (lambda: pd(model, features="a", weight="w"), "parameter `weight`: it is of the rows of data"),
        (lambda: pd(model, features="a", sample=5), "parameter `sample`: it is of the rows of data"),
        (lambda: pd(model, mixed, "a", individual=True, weight="w"), "individual curves have none"),
        (lambda: pd(model, mixed, "a", weight=-pl.col("w")), "800 of 800 weights are null, negative or not finite"),
        (lambda: pd(model, mixed, "a", weight=pl.lit(0.0)), "parameter `weight`: all weights are 0"),
        (lambda: pd(model, mixed, "a", sample=0), "parameter `sample`: 0 is not at least 1"),
        (lambda: pd(model, mixed, "a", device="gpu"), "parameter `device`"),
    ]:
        with pytest.raises(ValueError, match=text):
            bad()
    integers = CATEGORIES["integers"](mixed)
    with pytest.raises(ValueError, match="the values of 'city' are of Float64, not all of them Int32"):
        pd(integers, mixed.with_columns(city="whole"), "city", grid=[1.5])
    for bad, text in [
        (lambda: pd(pl.col("m"), mixed, "a"), "a model is a tg.Model or its bytes, not Expr"),
        (lambda: pd(model, [1], "a"), "parameter `data`: rows come in a DataFrame or a LazyFrame, not in list"),
        (lambda: pd(model, mixed, 3), "parameter `features`: a column's name or a list of two, not 3"),
        (lambda: pd(model, mixed, "a", grid="x"), "parameter `grid`: of 'a' it is a number of points or a list"),
        (lambda: pd(model, mixed, "a", sample=1.5), "parameter `sample`: 1.5 is not an integer"),
        (lambda: pd(model, mixed, "a", weight=[1.0]), "`weight` is a column's name or an expression"),
    ]:
        with pytest.raises(TypeError, match=text):
            bad()
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="city"):
        pd(model, mixed.drop("city"), "a")
    with pytest.raises(pl.exceptions.SchemaError, match="whole"):
        pd(model, mixed.with_columns(pl.col("whole").cast(pl.String)), "a")
    named = mixed.rename({"a": "prediction", "b": "class"})
    reserved = named.taiga.fit_gbdt("kind", "prediction", "class", rounds=2)
    for name in ("prediction", "class"):
        with pytest.raises(ValueError, match=f"the result has a column '{name}' of its own"):
            pd(reserved, named, name)


def test_a_model_without_its_training_rows_is_told(df: pl.DataFrame) -> None:
    import json

    model = df.taiga.fit_gbdt("y", "a", rounds=2, depth=2)
    text = json.loads(model.to_json())
    for tree in text["trees"]:
        for leaf in tree["leaves"]:
            leaf["count"] = 0
    bare = tg.Model.from_json(json.dumps(text))
    with pytest.raises(
        pl.exceptions.ComputeError, match="does not know how many training rows its leaves had: give data"
    ):
        bare.partial_dependence(features="a")
    assert bare.partial_dependence(df, "a").height > 2


GRIDS: dict[str, tuple[str, dict[str, Any]]] = {
    "a number of points": ("a", {"grid": 3}),
    "all of them": ("a", {"grid": 10_000, "missing": True, "sample": 5}),
    "values": ("a", {"grid": [0, 1]}),
    "a missing value": ("a", {"grid": [0.5, None], "missing": True}),
    "curves": ("a", {"grid": 3, "individual": True, "centered": True, "sample": 20}),
    "categories": ("kind", {"grid": 3}),
    "categories by name": ("kind", {"grid": ["red", "blue"]}),
    "dates": ("day", {"grid": 4}),
}


@pytest.mark.skipif(POLARS < (1, 36), reason="older versions take some names for patterns everywhere")
@pytest.mark.parametrize("name", ["^b.*$", "*"])
@pytest.mark.parametrize("case", GRIDS)
def test_names_that_look_like_patterns(df: pl.DataFrame, case: str, name: str) -> None:
    """Proves that the table is the same whatever a column is called, with rows, without, and beside another column."""
    column, params = GRIDS[case]
    row = pl.int_range(pl.len())
    frame = df.select("y", "a", "b", "kind", day=pl.date(2024, 1, 1) + pl.duration(days=row % 100)).head(400)
    tables = []
    for called in (name, "plain"):
        own = frame.rename({column: called})
        features = pl.selectors.by_name(*(called if of == column else of for of in ("a", "b", "kind", "day")))
        model = own.taiga.fit_gbdt("y", features, rounds=5)
        found = [tg.partial_dependence(model, own, called, **params)]
        points = params["grid"]
        if "individual" not in params:
            found.append(tg.partial_dependence(model, None, called, grid=points, missing=params.get("missing")))
        other = "b" if column == "a" else "a"
        found.append(tg.partial_dependence(model, own.head(20), [called, other], grid={called: points, other: 3}))
        found.append(tg.partial_dependence(model, None, [other, called], grid={called: points, other: 3}))
        tables.append([of.rename({called: column}) for of in found])
    for mine, wanted in zip(*tables, strict=True):
        assert mine.equals(wanted)

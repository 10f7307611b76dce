"""Pictures: what gets into a chart, against scikit-learn and sums by hand, and that each can be drawn.

That they are drawn is seen by their PNG: more than one colour, of each mark's own too, and rows that are not white.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

pytest.importorskip("altair")
vl_convert = pytest.importorskip("vl_convert")
metrics = pytest.importorskip("sklearn.metrics")
pillow = pytest.importorskip("PIL.Image")
calibrated = pytest.importorskip("sklearn.calibration")

plot = tg.plot
POLARS = tuple(map(int, pl.__version__.split(".")[:2]))


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    """Categories, a date, missing values, and targets of two and of three classes."""
    rng = np.random.default_rng(7)
    n = 2_000
    work = rng.choice(["office", "field", "lab", "home"], n, p=[0.5, 0.3, 0.15, 0.05])
    age = rng.integers(18, 80, n).astype(float)
    score = age / 20 + 2 * (work == "lab") + rng.normal(size=n)
    return pl.DataFrame({"age": age, "work": work, "hours": rng.normal(40, 8, n)}).with_columns(
        age=pl.when(pl.int_range(n) % 13 == 0).then(None).otherwise("age"),
        since=pl.date(2000, 1, 1) + pl.duration(days=pl.Series(rng.integers(0, 9000, n))),
        rich=pl.Series(np.where(score > 3, "yes", "no")),
        rank=pl.Series(np.digitize(score, [2, 4])).replace_strict([0, 1, 2], ["low", "mid", "top"]),
        held=pl.int_range(n) % 4 == 0,
        w=pl.Series(rng.integers(1, 4, n).astype(float)),
        score=pl.Series(score),
    )


FEATURES = ["age", "work", "hours", "since"]


@pytest.fixture(scope="module")
def two(people: pl.DataFrame) -> tg.Model:
    """A model of two classes, with a history."""
    return people.taiga.fit_gbdt("rich", *FEATURES, rounds=12, depth=4, eval="held")


@pytest.fixture(scope="module")
def three(people: pl.DataFrame) -> tg.Model:
    """A model of three classes."""
    return people.taiga.fit_gbdt("rank", *FEATURES, rounds=6, depth=3)


@pytest.fixture(scope="module")
def number(people: pl.DataFrame) -> tg.Model:
    """A regression whose trees branch."""
    return people.taiga.fit_gbdt("score", *FEATURES, rounds=12, depth=4, policy="depthwise")


@pytest.fixture(scope="module")
def forest(people: pl.DataFrame) -> tg.Model:
    """A forest of two classes."""
    return people.taiga.fit_forest("rich", *FEATURES, trees=5, depth=4)


@pytest.fixture(scope="module")
def linear(people: pl.DataFrame) -> tg.Model:
    """A sparse logistic regression on dense columns and lists."""
    return listed(people).taiga.fit_sparse_lr("rich", "words", dense=["hours", "age"])


def listed(people: pl.DataFrame) -> pl.DataFrame:
    return people.with_columns(pl.col("age").fill_null(40.0), words=pl.concat_list("work", "work"))


def parts(chart: Any) -> Iterator[dict[str, Any]]:
    """The units of a chart's dictionary, with marks and data of their own."""

    def walk(spec: dict[str, Any], data: Any) -> Iterator[dict[str, Any]]:
        data = spec.get("data", data)
        for key in ("layer", "concat", "vconcat", "hconcat"):
            for inner in spec.get(key, []):
                yield from walk(inner, data)
        if "spec" in spec:
            yield from walk(spec["spec"], data)
        if "mark" in spec:
            yield {**spec, "data": data}

    yield from walk(chart.to_dict(), None)


def marks(chart: Any) -> list[str]:
    return [part["mark"]["type"] for part in parts(chart)]


def values(chart: Any, mark: str) -> list[dict[str, Any]]:
    """The data of the first part with a mark."""
    part = next(part for part in parts(chart) if part["mark"]["type"] == mark)
    found: list[dict[str, Any]] = part["data"]["values"]
    return found


def check_png(chart: Any) -> None:
    """Render it: it has some size, and at least a fiftieth part of it is not white, in more than 20 colours."""
    png = vl_convert.vegalite_to_png(chart.to_json(), scale=1)
    assert png[:4] == b"\x89PNG"
    pixels = np.asarray(pillow.open(io.BytesIO(png)).convert("RGB"))
    assert min(pixels.shape[:2]) > 60
    assert max(pixels.shape[:2]) < 1_700
    coloured = (pixels < 250).any(axis=2)
    assert coloured.mean() > 0.01
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20
    # Nothing is cut off at the right or below: the edge is background.
    assert coloured[-1].mean() < 0.05
    assert coloured[:, -1].mean() < 0.05


def test_history(two: tg.Model, people: pl.DataFrame) -> None:
    other = people.taiga.fit_gbdt("rich", *FEATURES, rounds=30, eval="held", early_stopping=3, learning_rate=0.3)
    chart = plot.history({"slow": two, "fast": other})
    rows = values(chart, "line")
    for name, model in (("slow", two), ("fast", other)):
        drawn = [(row["round"], row["value"], row["best"]) for row in rows if row["series"] == name]
        assert drawn == model.history.rows()
        assert sum(best for *_, best in drawn) == 1
    assert marks(chart) == ["line", "point"]
    best = two.history.filter("best")
    assert plot.history(two).to_dict()["title"]["subtitle"][0].endswith(f"in round {best['round'][0]}")
    check_png(chart)
    with pytest.raises(ValueError, match="no history: fit it with eval="):
        plot.history(people.taiga.fit_gbdt("score", "age", rounds=1))
    with pytest.raises(ValueError, match="no models"):
        plot.history({})
    with pytest.raises(TypeError, match=r"a picture is of a tg.Model, not of str"):
        plot.history("model")  # type: ignore[arg-type]


def test_a_long_history_is_thinned_and_keeps_its_best_round() -> None:
    df = pl.DataFrame({"x": range(400)}).with_columns(y=pl.col("x").sin(), held=pl.col("x") % 3 == 0)
    model = df.taiga.fit_gbdt("y", "x", rounds=300, depth=1, eval="held")
    rows = values(plot.history(model, points=50), "line")
    assert len(rows) <= 53
    assert [row["round"] for row in rows if row["best"]] == model.history.filter("best")["round"].to_list()
    assert rows[-1]["round"] == model.history.height - 1


def test_importance(number: tg.Model, three: tg.Model, people: pl.DataFrame) -> None:
    chart = plot.importance(number)
    bars = values(chart, "bar")
    expected = number.importance().sort("importance", descending=True)
    assert [(bar["feature"], bar["importance"]) for bar in bars] == expected.rows()
    check_png(chart)
    cut = values(plot.importance(number, features=2, kind="split"), "bar")
    assert [bar["feature"] for bar in cut][2:] == ["2 others"]
    assert sum(bar["importance"] for bar in cut) == number.importance("split")["importance"].sum()

    shap = plot.importance(number, people)
    explained = people.select(tg.predict(number, output="shap")).unnest("prediction")
    assert {bar["feature"]: bar["importance"] for bar in values(shap, "bar")} == pytest.approx(
        {name: explained[name].abs().mean() for name in FEATURES}
    )
    of_classes = plot.importance(three, people)
    assert {bar["series"] for bar in values(of_classes, "bar")} == {"low", "mid", "top"}
    check_png(of_classes)
    with pytest.raises(ValueError, match='kind="shap" is measured on rows'):
        plot.importance(number, kind="shap")
    with pytest.raises(ValueError, match="parameter `features`: 0 is not between 1 and 200"):
        plot.importance(number, features=0)


def summary_models(request: pytest.FixtureRequest) -> Iterator[tuple[tg.Model, pl.DataFrame]]:
    people = request.getfixturevalue("people")
    for name in ("number", "two", "three", "forest"):
        yield request.getfixturevalue(name), people
    yield request.getfixturevalue("linear"), listed(people)


def test_shap_summary_has_all_rows_in_bounded_dots(request: pytest.FixtureRequest) -> None:
    for model, frame in summary_models(request):
        chart = plot.shap_summary(model, frame)
        dots = pl.DataFrame(values(chart, "circle"), infer_schema_length=None)
        classes = model._inner.outputs()
        features = len(model._inner.explained_columns())
        by = dots.group_by("feature", "series").agg(pl.col("rows").sum(), pl.len())
        assert by.height == classes * features
        assert by["rows"].unique().to_list() == [frame.height]
        assert by["len"].max() <= 120 * 9  # type: ignore[operator]
        assert dots["offset"].abs().max() <= 0.5  # type: ignore[operator]
        # The mean over dots is the mean over rows.
        if classes == 1:
            background = {"background": frame} if model.learner == "sparse_lr" else {}
            if not background:
                explained = frame.select(tg.predict(model, output="shap")).unnest("prediction")
                for name in model._inner.explained_columns():
                    of = dots.filter(pl.col("feature") == name)
                    mean = (of["x"] * of["rows"]).sum() / frame.height
                    assert mean == pytest.approx(explained[name].mean(), abs=1e-9)
        check_png(chart)


def test_a_large_frame_makes_no_larger_summary(number: tg.Model, people: pl.DataFrame) -> None:
    many = pl.concat([people] * 20)
    few = values(plot.shap_summary(number, people), "circle")
    dots = values(plot.shap_summary(number, many.lazy()), "circle")
    assert sum(dot["rows"] for dot in dots) == many.height * 4
    assert len(dots) <= 2 * len(few)
    some = values(plot.shap_summary(number, many, rows=500, features=2), "circle")
    assert sum(dot["rows"] for dot in some) == 1_000
    assert plot.shap_summary(number, many, rows=500).to_dict() == plot.shap_summary(number, many, rows=500).to_dict()


def test_colours_of_a_summary_are_ranks_and_null_where_there_is_no_order(
    number: tg.Model, people: pl.DataFrame
) -> None:
    dots = pl.DataFrame(values(plot.shap_summary(number, people), "circle"), infer_schema_length=None)
    assert dots.filter(pl.col("feature") == "work")["value"].null_count() > 0
    assert dots.filter(pl.col("feature") == "work")["value"].drop_nulls().len() == 0
    hours = dots.filter(pl.col("feature") == "hours")["value"]
    assert hours.null_count() == 0
    assert 0 <= hours.min() <= hours.max() <= 1  # type: ignore[operator]


def test_shap_waterfall(request: pytest.FixtureRequest) -> None:
    for model, frame in summary_models(request):
        chart = plot.shap_waterfall(model, frame, 5)
        bars = values(chart, "bar")
        assert len(bars) == len(model._inner.explained_columns())
        sizes = [abs(bar["value"]) for bar in bars]
        assert sizes == sorted(sizes, reverse=True)
        assert [bar["end"] for bar in bars[:-1]] == [bar["start"] for bar in bars[1:]]
        output = "auto" if model.learner == "forest" else "raw"
        score = frame[5:6].select(tg.predict(model, output=output)).item()
        if isinstance(score, dict):
            score = max(score.values())
        assert bars[-1]["end"] == pytest.approx(score)
        check_png(chart)
    model, frame = request.getfixturevalue("number"), request.getfixturevalue("people")
    pooled = values(plot.shap_waterfall(model, frame, -1, features=2), "bar")
    assert pooled[-1]["name"] == "2 other columns"
    with pytest.raises(ValueError, match="parameter `row`: 2000 is not one of the 2000 rows"):
        plot.shap_waterfall(model, frame, 2000)
    with pytest.raises(
        ValueError, match="parameter `label`: 'nope' is not one of the classes of `rank`: low, mid, top"
    ):
        plot.shap_waterfall(request.getfixturevalue("three"), frame, label="nope")


def test_dependence(request: pytest.FixtureRequest) -> None:
    people = request.getfixturevalue("people")
    for model, feature, color in [
        (request.getfixturevalue("number"), "age", "auto"),
        (request.getfixturevalue("number"), "hours", "work"),
        (request.getfixturevalue("number"), "since", None),
        (request.getfixturevalue("two"), "work", "age"),
        (request.getfixturevalue("three"), "age", "hours"),
        (request.getfixturevalue("forest"), "work", "work"),
    ]:
        chart = plot.dependence(model, people, feature, color=color)
        dots = pl.DataFrame(values(chart, "circle"), infer_schema_length=None)
        present = people[feature].len() - people[feature].null_count()
        assert dots["rows"].sum() == present * model._inner.outputs()
        check_png(chart)
    number = request.getfixturevalue("number")
    shap = people.select(tg.predict(number, output="shap")).unnest("prediction")
    rows = values(plot.dependence(number, people[:50], "hours", color=None), "circle")
    exact = sorted(zip(people["hours"][:50], shap["hours"][:50], strict=True))
    alone = [(row["x"], row["y"]) for row in rows if row["rows"] == 1]
    assert len(alone) > 20
    assert set(alone) <= set(exact)
    for bad, text in [
        (lambda: plot.dependence(number, people, "nope"), "parameter `feature`: 'nope' is not one of age, work"),
        (lambda: plot.dependence(number, people, "age", color="nope"), "parameter `color`: 'nope'"),
        (lambda: plot.dependence(number, people, "age", kind="nope"), "parameter `kind`: 'nope'"),  # type: ignore[arg-type]
        (lambda: plot.dependence(number, people[:0], "age"), "frame: no rows"),
        (lambda: plot.dependence(number, people, "age", label="low"), "more than two classes"),
    ]:
        with pytest.raises(ValueError, match=text):
            bad()


def test_columns_of_any_name_are_drawn(request: pytest.FixtureRequest) -> None:
    """Proves that a column may be called as those that are counted with here."""
    people = request.getfixturevalue("people").rename({"work": "count", "age": "value", "hours": "row"})
    model = people.taiga.fit_gbdt("score", "count", "value", "row", rounds=5)
    for feature, color in [("count", "value"), ("value", "count"), ("row", "auto")]:
        dots = pl.DataFrame(values(plot.dependence(model, people, feature, color=color), "circle"))
        assert dots["rows"].sum() == people[feature].len() - people[feature].null_count()


def test_partial_dependence_is_the_mean_of_predictions(request: pytest.FixtureRequest) -> None:
    people = request.getfixturevalue("people")
    for name, frame, feature in [
        ("number", people, "hours"),
        ("two", people, "work"),
        ("three", people, "since"),
        ("linear", listed(people), "hours"),
    ]:
        model = request.getfixturevalue(name)
        chart = plot.dependence(model, frame[:300], feature, kind="partial", curves=20)
        rows = pl.DataFrame(values(chart, "line"), infer_schema_length=None)
        mean = rows.filter(pl.col("row").is_null())
        assert rows.filter(pl.col("row").is_not_null())["row"].n_unique() == 20
        assert mean.height <= 41 * model._inner.outputs()
        if feature in ("hours", "work"):
            for row in mean[::7].iter_rows(named=True):
                given = frame[:300].with_columns(pl.lit(row["x"]).alias(feature))
                assert given.select(tg.predict(model).mean()).item() == pytest.approx(row["y"])
        check_png(chart)


def test_interactions(number: tg.Model, three: tg.Model, people: pl.DataFrame) -> None:
    chart = plot.interactions(number, people)
    cells = {(cell["row"], cell["column"]): cell["value"] for cell in values(chart, "rect")}
    assert len(cells) == 16
    explained = people.select(tg.predict(number, output="shap_interactions")).unnest("prediction")
    for (row, column), value in cells.items():
        assert value == pytest.approx(explained[row].struct.field(column).abs().mean())
        assert value == pytest.approx(cells[column, row])
    check_png(chart)
    check_png(plot.interactions(three, people))
    assert len(values(plot.interactions(three, people, label="mid", features=3), "rect")) == 9


def test_roc_is_scikit_learns(two: tg.Model, three: tg.Model, forest: tg.Model, people: pl.DataFrame) -> None:
    score = people.select(tg.predict(two)).to_series().to_numpy()
    truth = (people["rich"] == "yes").to_numpy()
    for weights in (None, "w"):
        weight = None if weights is None else people[weights].to_numpy()
        chart = plot.roc(two, people, weights=weights, points=5_000)
        fpr, tpr, _ = metrics.roc_curve(truth, score, sample_weight=weight, drop_intermediate=False)
        curve = pl.DataFrame(values_of_series(chart))
        np.testing.assert_allclose(curve["x"], fpr, atol=1e-12)
        np.testing.assert_allclose(curve["y"], tpr, atol=1e-12)
        area = metrics.roc_auc_score(truth, score, sample_weight=weight)
        assert f"{area:.3f}" in chart.to_dict()["title"]["subtitle"][0]
    check_png(chart)
    thin = pl.DataFrame(values_of_series(plot.roc(two, people, points=20)))
    assert thin.height <= 20
    assert thin.select("x", "y").row(-1) == (1.0, 1.0)

    probabilities = people.select(tg.predict(three)).unnest("prediction")
    rows = values_of_series(plot.roc(three, people, points=5_000))
    assert len({row["series"] for row in rows}) == 3
    for name in probabilities.columns:
        fpr, tpr, _ = metrics.roc_curve(people["rank"] == name, probabilities[name], drop_intermediate=False)
        mine = [row for row in rows if row["series"].startswith(name)]
        np.testing.assert_allclose([row["x"] for row in mine], fpr, atol=1e-12)
        np.testing.assert_allclose([row["y"] for row in mine], tpr, atol=1e-12)
    check_png(plot.roc({"boosted": two, "forest": forest}, people))


def values_of_series(chart: Any) -> list[dict[str, Any]]:
    """The data of the part whose rows have a curve's title."""
    return next(
        rows
        for part in parts(chart)
        if part["mark"]["type"] == "line" and "series" in (rows := part["data"]["values"])[0]
    )


def test_precision_recall_is_scikit_learns(two: tg.Model, three: tg.Model, people: pl.DataFrame) -> None:
    score = people.select(tg.predict(two)).to_series().to_numpy()
    truth = (people["rich"] == "yes").to_numpy()
    for weights in (None, "w"):
        weight = None if weights is None else people[weights].to_numpy()
        chart = plot.precision_recall(two, people, weights=weights, points=5_000)
        precision, recall, _ = metrics.precision_recall_curve(truth, score, sample_weight=weight)
        curve = pl.DataFrame(values_of_series(chart))
        np.testing.assert_allclose(curve["y"].reverse(), precision, atol=1e-12)
        np.testing.assert_allclose(curve["x"].reverse(), recall, atol=1e-12)
        area = metrics.average_precision_score(truth, score, sample_weight=weight)
        assert f"{area:.3f}" in chart.to_dict()["title"]["subtitle"][0]
    check_png(chart)
    check_png(plot.precision_recall(three, people))
    other = values_of_series(plot.precision_recall(two, people, label="no", points=5_000))
    precision, recall, _ = metrics.precision_recall_curve(~truth, 1 - score)
    np.testing.assert_allclose([row["y"] for row in other], precision[::-1], atol=1e-12)


def test_calibration_is_scikit_learns(two: tg.Model, three: tg.Model, people: pl.DataFrame) -> None:
    score = people.select(tg.predict(two)).to_series().to_numpy()
    truth = (people["rich"] == "yes").to_numpy()
    for strategy in ("uniform", "quantile"):
        for bins in (5, 10, 13):
            chart = plot.calibration(two, people, bins=bins, strategy=strategy)  # type: ignore[arg-type]
            actual, predicted = calibrated.calibration_curve(truth, score, n_bins=bins, strategy=strategy)
            rows = values_of_series(chart)
            np.testing.assert_allclose([row["actual"] for row in rows], actual, atol=1e-12)
            np.testing.assert_allclose([row["predicted"] for row in rows], predicted, atol=1e-12)
            assert sum(row["rows"] for row in rows) == people.height
            assert all(0 <= row["lower"] <= row["actual"] <= row["upper"] <= 1 for row in rows)
    assert f"{metrics.brier_score_loss(truth, score):.4f}" in chart.to_dict()["title"]["subtitle"][0]
    check_png(chart)
    check_png(plot.calibration(three, people))
    # Rows that stand three times, and rows of weight 3, have the same points.
    weighted = values_of_series(plot.calibration(two, people, weights="w", strategy="uniform"))
    repeated = people.select(pl.all().repeat_by(pl.col("w").cast(pl.Int64)).explode())
    for row, again in zip(weighted, values_of_series(plot.calibration(two, repeated)), strict=True):
        assert (row["predicted"], row["actual"]) == pytest.approx((again["predicted"], again["actual"]))


def test_calibration_of_a_regression_and_residuals_by_hand(number: tg.Model, people: pl.DataFrame) -> None:
    rows = values_of_series(plot.calibration(number, people, bins=4))
    predicted = people.select(tg.predict(number)).to_series().to_numpy()
    quarter = np.searchsorted(np.quantile(predicted, [0.25, 0.5, 0.75]), predicted)
    for i, row in enumerate(rows):
        of = people["score"].to_numpy()[quarter == i]
        assert row["actual"] == pytest.approx(of.mean())
        assert row["upper"] - row["actual"] == pytest.approx(1.959964 * of.std() / np.sqrt(len(of)))
    check_png(plot.calibration(number, people))

    chart = plot.residuals(number, people, weights="w")
    residual = people["score"].to_numpy() - predicted
    w = people["w"].to_numpy()
    rmse = np.sqrt((w * residual**2).sum() / w.sum())
    assert chart.to_dict()["title"]["subtitle"][0].startswith(f"RMSE {rmse:.4g}, mean size ")
    dots = values(chart, "circle")
    assert len(dots) <= 80 * 60
    assert sum(dot["rows"] for dot in dots) == people.height
    assert sum(dot["y"] * dot["rows"] for dot in dots) == pytest.approx(residual.sum(), abs=1e-6)
    check_png(chart)
    over = plot.residuals(number, people, x="hours")
    lines = values(over, "area")
    assert len(lines) == 20
    first = np.argsort(people["hours"].to_numpy())[:100]
    assert lines[0]["q50"] == pytest.approx(np.median(residual[first]))
    assert lines[0]["q10"] == pytest.approx(np.quantile(residual[first], 0.1))
    check_png(over)
    exact = values(plot.residuals(number, people[:30]), "circle")
    assert {(dot["x"], dot["y"]) for dot in exact if dot["rows"] == 1} <= set(zip(predicted, residual, strict=True))


@pytest.fixture(scope="module")
def several(people: pl.DataFrame) -> tg.Model:
    """A model of two numbers, with a history."""
    return people.taiga.fit_gbdt(pl.struct("score", "w"), *FEATURES, rounds=6, depth=3, eval="held")


@pytest.mark.parametrize("draw", [plot.residuals, plot.calibration, plot.roc, plot.precision_recall])
def test_what_is_of_one_number_says_which_targets_a_model_has(
    several: tg.Model, people: pl.DataFrame, draw: Callable[..., Any]
) -> None:
    """Proves that a model of several targets is not taken for one of several quantiles, and is named by all of them."""
    with pytest.raises(ValueError, match="the model of `score`, `w` predicts several targets, and one is drawn"):
        draw(several, people)
    labels = people.with_columns(old=pl.col("w") > 1, tired=pl.col("hours") > 40)
    of_labels = labels.taiga.fit_gbdt(pl.struct("old", "tired").alias("both"), "hours", rounds=2)
    with pytest.raises(ValueError, match="the model of `old`, `tired` predicts several targets, and one is drawn"):
        draw(of_labels, labels)


def test_what_is_of_one_number_says_that_a_model_has_quantiles(people: pl.DataFrame) -> None:
    """Proves that several quantiles are still told."""
    model = people.taiga.fit_gbdt("score", "hours", rounds=2, loss="quantile", alpha=[0.1, 0.9])
    with pytest.raises(ValueError, match="the model of `score` predicts several quantiles, and one number is drawn"):
        plot.residuals(model, people)


def test_pictures_of_several_targets_are_called_by_what_is_drawn(several: tg.Model, people: pl.DataFrame) -> None:
    """Proves that a title names all targets, or the one that is drawn, and not the first one for another."""
    pictures: list[tuple[Any, str]] = [
        (plot.importance(several), "Importance of features for score, w"),
        (plot.history(several), "Held-out rows of score, w"),
        (plot.tree(several, 1), "Tree 1 of 12 for w"),
        (plot.shap_summary(several, people), "What moves score, w"),
        (plot.shap_summary(several, people, label="w"), "What moves w"),
        (plot.shap_waterfall(several, people, 3, label="w"), "How row 3 comes to its w"),
        (plot.interactions(several, people, rows=20), "What columns do together for score, w"),
        (plot.dependence(several, people, "hours", label="w"), "What hours does to w"),
        (plot.partial_dependence(several, people, "hours", rows=50), "score, w by hours"),
        (plot.partial_dependence(several, people, "hours", rows=50, label="w"), "w by hours"),
    ]
    for picture, title in pictures:
        assert picture.to_dict()["title"]["text"] == title
    units = plot.partial_dependence(several, people, "hours", rows=50).to_json()
    assert "predicted target" in units
    assert "probability" not in units
    assert "mean size of its Shapley values, score" not in plot.importance(several, people, kind="shap").to_json()
    with pytest.raises(ValueError, match="the model of `score`, `w` has no history"):
        plot.history(people.taiga.fit_gbdt(pl.struct("score", "w"), "hours", rounds=1))
    many = people.select("hours", pl.concat_list([pl.col("score") * i for i in range(1, 9)]).alias("all"))
    model = many.taiga.fit_gbdt("all", "hours", rounds=1)
    with pytest.raises(ValueError, match=r"the model predicts 8 targets, `0`, `1`, .*, and at most 6 are drawn: name"):
        plot.shap_summary(model, many)
    assert plot.importance(model).to_dict()["title"]["text"] == "Importance of features for 0, 1, 2, … (8)"


def test_a_struct_of_one_target_is_drawn(people: pl.DataFrame) -> None:
    """Proves that pictures know its field, and those of one number say what the model predicts."""
    model = people.taiga.fit_gbdt(pl.struct("score"), "hours", "age", rounds=2)
    pictures: list[tuple[Any, str]] = [
        (plot.tree(model, 1), "Tree 1 of 2 for score"),
        (plot.shap_summary(model, people), "What moves score"),
        (plot.shap_waterfall(model, people, 3), "How row 3 comes to its score"),
        (plot.interactions(model, people, rows=20), "What columns do together for score"),
        (plot.dependence(model, people, "hours"), "What hours does to score"),
        (plot.partial_dependence(model, people, "hours", rows=50), "score by hours"),
    ]
    for picture, title in pictures:
        assert picture.to_dict()["title"]["text"] == title
    with pytest.raises(ValueError, match="the model of `score` predicts a struct of one target, and one is drawn"):
        plot.residuals(model, people)


def test_targets_that_do_not_fit_are_errors(two: tg.Model, number: tg.Model, people: pl.DataFrame) -> None:
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: plot.roc(number, people), "the model of `score` is a regression and has no classes"),
        (lambda: plot.residuals(two, people), "the model of `rich` has classes, not residuals"),
        (lambda: plot.roc(two, people, "rank"), "'(low|mid|top)' is none of the model's classes, 'no', 'yes'"),
        (lambda: plot.roc(two, people.filter(pl.col("rich") == "no")), "target `rich`: no row is yes"),
        (lambda: plot.roc(two, people, weights=-pl.col("w")), "2000 of 2000 weights are null, negative or not finite"),
        (lambda: plot.roc(two, people, pl.lit(None, pl.String)), "it is null, or the weight 0, in every row"),
        (lambda: plot.roc(two, people, label="maybe"), "'maybe' is not one of the classes of `rich`: no, yes"),
        (lambda: plot.roc(two, people, points=3), "parameter `points`: 3 is not between 10 and 5,000"),
        (lambda: plot.calibration(number, people, strategy="uniform"), "not between 0 and 1; take 'quantile'"),
        (
            lambda: plot.calibration(number, people, label="x"),
            "parameter `label`: the model of `score` is a regression",
        ),
    ]
    for call, text in calls:
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match="rows come in a DataFrame or a LazyFrame, not in list"):
        plot.roc(two, [1, 2])  # type: ignore[arg-type]
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="hours"):
        plot.roc(two, people.drop("hours"))


def test_rows_without_a_target_or_a_weight_do_not_count(two: tg.Model, people: pl.DataFrame) -> None:
    some = people.with_columns(rich=pl.when(pl.int_range(pl.len()) % 3 > 0).then("rich"))
    kept = people.filter(pl.int_range(pl.len()) % 3 > 0)
    assert values_of_series(plot.roc(two, some)) == values_of_series(plot.roc(two, kept.lazy()))
    weights = (pl.int_range(pl.len()) % 3 > 0).cast(pl.Float64)
    assert values_of_series(plot.roc(two, people, weights=weights)) == values_of_series(plot.roc(two, kept))


def test_labels_of_other_types_than_text(people: pl.DataFrame) -> None:
    frame = people.with_columns(
        number=pl.col("rank").replace_strict(["low", "mid", "top"], [10, 20, 30], return_dtype=pl.Int64),
        truth=pl.col("rich") == "yes",
        enum=pl.col("rank").cast(pl.Enum(["top", "mid", "low"])),
    )
    for target, label in [("number", 20), ("truth", False), ("enum", "mid")]:
        loss: Any = "multiclass" if target == "number" else "auto"
        model = frame.taiga.fit_gbdt(target, "age", "hours", rounds=3, loss=loss)
        expected = frame.select(pl.col(target).cast(pl.String) == str(label).lower()).to_series()
        predicted = frame.select(tg.predict(model)).to_series()
        score = predicted.struct.field(str(label)) if predicted.dtype == pl.Struct else 1 - predicted
        area = metrics.roc_auc_score(expected, score)
        assert f"{area:.3f}" in plot.roc(model, frame, label=label).to_dict()["title"]["subtitle"][0]


def test_branching_trees(number: tg.Model, forest: tg.Model, people: pl.DataFrame) -> None:
    nodes = number.trees().filter(pl.col("tree") == 3)
    chart = plot.tree(number, 3)
    boxes = values(chart, "rect")
    assert len(boxes) == nodes.height
    links = values(chart, "rule")
    assert len(links) == nodes.height - 1
    drawn = sorted(box["value"] for box in boxes if not box["split"])
    assert drawn == pytest.approx(nodes["value"].drop_nulls().sort().to_list())
    assert {box["rows"] for box in boxes} == {f"{count:,} rows" for count in nodes["count"]}
    # A box of its own for each: none lies over another.
    places = [(box["x"], box["y"]) for box in boxes]
    assert len(set(places)) == len(places)
    check_png(chart)

    cut = values(plot.tree(number, 3, depth=1), "rect")
    assert len(cut) == 3
    of_root = nodes.filter(pl.col("leaf").is_not_null()).select(
        (pl.col("value") * pl.col("count")).sum() / pl.col("count").sum()
    )
    assert cut[0]["value"] == pytest.approx(of_root.item())
    check_png(plot.tree(forest, 1, label="no"))
    for bad, text in [
        (lambda: plot.tree(number, 99), "parameter `tree`: 99 is not one of the 12 trees"),
        (lambda: plot.tree(number, 0, depth=11), "parameter `depth`: 11 is not between 1 and 10"),
        (lambda: plot.tree(number, 0, label="x"), "it is for forests"),
    ]:
        with pytest.raises(ValueError, match=text):
            bad()


def test_symmetric_trees_are_tables(two: tg.Model, three: tg.Model) -> None:
    nodes = two.trees().filter(pl.col("tree") == 0)
    leaves = nodes.filter(pl.col("leaf").is_not_null())
    chart = plot.tree(two)
    cells = values(chart, "rect")
    assert len(cells) == leaves.height == 16
    assert len({(cell["down"], cell["across"]) for cell in cells}) == 16
    assert [cell["rows"] for cell in sorted(cells, key=lambda cell: (cell["down"], cell["across"]))] == [
        f"{count:,}" for count in leaves.sort("leaf")["count"]
    ]
    # The subtitle has a line for each question.
    assert len(chart.to_dict()["title"]["subtitle"]) == 5
    check_png(chart)
    check_png(plot.tree(three, 1))
    assert len(values(plot.tree(two, depth=2), "rect")) == 4


def test_a_tree_of_one_leaf() -> None:
    model = pl.DataFrame({"x": [1.0, 2.0], "y": [1.0, 1.0]}).taiga.fit_gbdt("y", "x", rounds=1)
    assert len(values(plot.tree(model), "rect")) == 1


def test_histogram_of_groups_and_of_columns(people: pl.DataFrame) -> None:
    chart = plot.histogram(people, "hours", by="work", bins=15)
    steps = pl.DataFrame(values(chart, "area"))
    edges = people.select(tg.histogram("hours", bins=15)).to_series().explode().struct.field("lower").to_list()
    for name in people["work"].unique():
        mine = steps.filter(pl.col("series") == name)
        counts, _ = np.histogram(people.filter(pl.col("work") == name)["hours"], [*edges, people["hours"].max()])
        assert mine["count"].to_list() == [*counts, counts[-1]]
        assert mine["x"].to_list()[:-1] == pytest.approx(edges)
    check_png(chart)
    computed = people.group_by("work").agg(tg.histogram("hours", bins=5, range=(20, 60)))
    assert len(values(plot.histogram(computed, by="work"), "area")) == 4 * 6
    several = plot.histogram(people, ["age", "hours"], bins=8)
    assert [len(part["data"]["values"]) for part in parts(several)] == [8, 8]
    check_png(several)
    check_png(plot.histogram(people, ["age", "hours"], by="rich", density=True))
    for bad, text in [
        (lambda: plot.histogram(people, "age", by="nope"), "parameter `by`: 'nope'"),
        (lambda: plot.histogram(people, []), "0 columns; 1 to 24 can be drawn"),
        (lambda: plot.histogram(people, "hours", by="age"), "63 groups; at most 10 can be told apart: filter `age`"),
    ]:
        with pytest.raises(ValueError, match=text):
            bad()


def test_columns_that_the_fit_computed_are_found_by_name(people: pl.DataFrame) -> None:
    model = people.taiga.fit_gbdt("score", "age", (pl.col("hours") / 40).alias("share"), rounds=3)
    assert model.computed_features == ["share"]
    frame = people.with_columns(share=pl.col("hours") / 40)
    rows = values(plot.importance(model, frame), "bar")
    assert {row["feature"] for row in rows} == {"age", "share"}
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="share"):
        plot.shap_summary(model, people)


def test_partial_dependence_of_one_column_and_of_two(request: pytest.FixtureRequest) -> None:
    """Proves that what is drawn is the table's, with rows and without, and that cells lie side by side."""
    people, number = request.getfixturevalue("people"), request.getfixturevalue("number")
    chart = plot.partial_dependence(number, people, "hours", rows=200, curves=10, centered=True)
    rows = pl.DataFrame(values(chart, "line"), infer_schema_length=None)
    table = tg.partial_dependence(number, people, "hours", grid=40, individual=True, centered=True, sample=200)
    mean = table.group_by("hours").agg(pl.col("prediction").mean()).sort("hours")
    drawn = rows.filter(pl.col("row").is_null()).sort("x")
    assert drawn["x"].to_list() == mean["hours"].to_list()
    assert drawn["y"].to_list() == pytest.approx(mean["prediction"].to_list(), abs=1e-12)
    assert rows["row"].n_unique() == 11
    check_png(chart)
    # Missing values: told for lines, a point among categories.
    assert (
        "; without a value: mean " in plot.partial_dependence(number, people, "age").to_dict()["title"]["subtitle"][0]
    )

    by_trees = plot.partial_dependence(number, features="since")
    alone = tg.partial_dependence(number, features="since", grid=40)
    assert [row["y"] for row in values(by_trees, "line")] == alone["prediction"].to_list()
    check_png(by_trees)

    pair = plot.partial_dependence(number, people, ["hours", "since"], rows=50)
    cells = pl.DataFrame(values(pair, "rect"))
    assert cells.height == 400
    for side in "xy":
        ends = cells.select(side, f"{side}2").unique().sort(side)
        assert ends[side].to_list()[1:] == ends[f"{side}2"].to_list()[:-1]
        assert (ends[side] < ends[f"{side}2"]).all()
    check_png(pair)
    three = request.getfixturevalue("three")
    for frame in (people, None):
        check_png(plot.partial_dependence(three, frame, ["work", "age"], rows=50))
    check_png(plot.partial_dependence(three, features="work", label="mid"))
    unused = people.taiga.fit_gbdt("score", "age", pl.lit(1.0).alias("one"), rounds=1)
    for bad, text in [
        (lambda: plot.partial_dependence(unused, features="one"), "no split asks about 'one', so there is nothing"),
        (lambda: plot.partial_dependence(unused, features=["one", "age"]), "no split asks about 'one' or 'age'"),
        (lambda: plot.partial_dependence(number, people, []), "0 columns; it takes one or two"),
        (lambda: plot.partial_dependence(number, people, "age", curves=300), "parameter `curves`: 300 is not between"),
        (
            lambda: plot.partial_dependence(request.getfixturevalue("linear"), listed(people), "words"),
            "'words' has lists, which no axis can show",
        ),
    ]:
        with pytest.raises(ValueError, match=text):
            bad()


NAMED: dict[str, tuple[str, Callable[[tg.Model, pl.DataFrame, str], Any]]] = {
    "importance": ("hours", lambda model, frame, _: plot.importance(model, frame)),
    "shap_summary": ("hours", lambda model, frame, _: plot.shap_summary(model, frame, rows=300)),
    "shap_summary of categories": ("work", lambda model, frame, _: plot.shap_summary(model, frame, rows=300)),
    "shap_waterfall": ("hours", lambda model, frame, _: plot.shap_waterfall(model, frame, 3)),
    "interactions": ("hours", lambda model, frame, _: plot.interactions(model, frame, rows=50)),
    "dependence": ("hours", lambda model, frame, name: plot.dependence(model, frame, name, rows=300)),
    "dependence of dates": ("since", lambda model, frame, name: plot.dependence(model, frame, name, rows=300)),
    "dependence of categories": ("work", lambda model, frame, name: plot.dependence(model, frame, name, rows=300)),
    "dependence by colour": ("hours", lambda model, frame, name: plot.dependence(model, frame, "age", color=name)),
    "dependence by a category": ("work", lambda model, frame, name: plot.dependence(model, frame, "age", color=name)),
    "partial_dependence": ("age", lambda model, frame, name: plot.partial_dependence(model, frame, name, rows=30)),
    "partial_dependence of dates": (
        "since",
        lambda model, frame, name: plot.partial_dependence(model, frame, name, rows=30),
    ),
    "partial_dependence of categories": (
        "work",
        lambda model, frame, name: plot.partial_dependence(model, frame, name, rows=30),
    ),
    "partial_dependence of two": (
        "hours",
        lambda model, frame, name: plot.partial_dependence(model, frame, [name, "work"], rows=30),
    ),
    "partial_dependence of the model": ("age", lambda model, _, name: plot.partial_dependence(model, None, name)),
    "histogram": ("hours", lambda _, frame, name: plot.histogram(frame, name)),
    "histogram of a series": ("hours", lambda _, frame, name: plot.histogram(frame[name])),
    "histogram by": ("hours", lambda _, frame, name: plot.histogram(frame, name, by="rank")),
    "histogram of dates by": ("since", lambda _, frame, name: plot.histogram(frame, name, by="rank", bins=9)),
    "histogram by groups": ("work", lambda _, frame, name: plot.histogram(frame, "age", by=name)),
    "histogram by weight": ("w", lambda _, frame, name: plot.histogram(frame, "age", weights=name)),
    "histogram of a result": (
        "work",
        lambda _, frame, name: plot.histogram(
            pl.DataFrame([frame[name].alias("g"), frame["age"]])
            .group_by("g", maintain_order=True)
            .agg(tg.histogram("age", 5, range=(0, 100)))
            .rename({"g": name}),
            by=name,
        ),
    ),
    "residuals": ("hours", lambda model, frame, _: plot.residuals(model, frame)),
    "residuals by": ("hours", lambda model, frame, name: plot.residuals(model, frame, x=name)),
    "residuals of a target": ("score", lambda model, frame, _: plot.residuals(model, frame)),
    "calibration by weight": ("w", lambda model, frame, name: plot.calibration(model, frame, weights=name)),
}


def assert_alike(one: Any, other: Any) -> None:
    """That two pictures say the same, but for the last digits of means: Polars adds up in an order of its threads."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert_alike(value, other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_alike(a, b)
    elif isinstance(one, float) and isinstance(other, float):
        assert one == pytest.approx(other, rel=1e-12, abs=1e-12, nan_ok=True)
    else:
        assert one == other


def renamed(part: Any, old: str, new: str) -> Any:
    """A chart's dictionary with another name of a column in its texts."""
    if isinstance(part, dict):
        return {key: renamed(value, old, new) for key, value in part.items()}
    if isinstance(part, list):
        return [renamed(value, old, new) for value in part]
    return part.replace(old, new) if isinstance(part, str) else part


@pytest.mark.skipif(POLARS < (1, 36), reason="older versions take some names for patterns everywhere")
@pytest.mark.parametrize("name", ["^r.*$", "*"])
@pytest.mark.parametrize("picture", NAMED)
def test_names_that_look_like_patterns(picture: str, name: str, people: pl.DataFrame) -> None:
    """Proves that a picture is the same whatever a column of it is called."""
    column, draw = NAMED[picture]
    drawn = []
    for called in (name, "plain"):
        frame = people.rename({column: called})
        target, *features = (pl.selectors.by_name(called if of == column else of) for of in ["score", *FEATURES])
        model = frame.taiga.fit_gbdt(target, features, rounds=5, depth=3)
        drawn.append(draw(model, frame, called).to_dict())
    assert_alike(renamed(drawn[0], name, "plain"), drawn[1])


@pytest.mark.skipif(POLARS < (1, 36), reason="older versions take some names for patterns everywhere")
def test_labels_that_look_like_patterns(three: tg.Model, people: pl.DataFrame) -> None:
    """Proves that a picture of classes is the same whatever they are called, but for their names."""
    names = {"low": "*", "mid": "^r.*$", "top": "^top$"}
    frame = people.with_columns(pl.col("rank").replace(names))
    odd = frame.taiga.fit_gbdt("rank", *FEATURES, rounds=6, depth=3)
    for old, new in names.items():
        for draw in (plot.roc, plot.precision_recall, plot.calibration):
            chart = draw(odd, frame, label=new).to_dict()
            assert renamed(chart, new, old) == draw(three, people, label=old).to_dict()
        for of in (plot.interactions, plot.shap_summary):
            chart = of(odd, frame, label=new, rows=50).to_dict()
            assert renamed(chart, new, old) == of(three, people, label=old, rows=50).to_dict()
        chart = plot.dependence(odd, frame, "hours", label=new, rows=300).to_dict()
        assert renamed(chart, new, old) == plot.dependence(three, people, "hours", label=old, rows=300).to_dict()


def test_a_column_called_as_a_side_of_the_map(people: pl.DataFrame) -> None:
    """Proves that interactions of columns called `row` and `column` are those of these columns."""
    names = {"age": "row", "hours": "column", "work": "value"}
    odd = people.rename(names)
    plain, same = (
        frame.taiga.fit_gbdt("score", *columns, rounds=5) for frame, columns in ((people, names), (odd, names.values()))
    )
    wanted = {
        (names[cell["row"]], names[cell["column"]]): cell["value"]
        for cell in values(plot.interactions(plain, people), "rect")
    }
    found = {(cell["row"], cell["column"]): cell["value"] for cell in values(plot.interactions(same, odd), "rect")}
    assert found == wanted


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, None])
def test_a_column_without_a_finite_value_has_no_dependence(
    value: float | None, number: tg.Model, three: tg.Model, people: pl.DataFrame
) -> None:
    """Proves that this is told, for one number and for classes, and that one finite value is drawn."""
    frame = people.head(20).with_columns(hours=pl.lit(value, pl.Float64))
    for model in (number, three):
        with pytest.raises(ValueError, match=r"parameter `feature`: 'hours' is null( or not finite)? in every row"):
            plot.dependence(model, frame, "hours")
    some = frame.with_columns(hours=pl.when(pl.int_range(20) == 7).then(40.0).otherwise("hours"))
    assert [dot["x"] for dot in values(plot.dependence(number, some, "hours"), "circle")] == [40.0]


def test_a_histogram_of_times_by_groups(people: pl.DataFrame) -> None:
    """Proves that groups have the same bins, those of all rows."""
    frame = people.with_columns(at=pl.col("since").cast(pl.Datetime("us")))
    steps = pl.DataFrame(values(plot.histogram(frame, "at", by="rich", bins=7), "area"))
    assert steps.height == 2 * 8
    assert steps.group_by("x").len()["len"].unique().to_list() == [2]

"""What names and types tell is told when a query is planned: nothing runs, and no file is touched."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs
import polars_taiga as tg
import pytest

Compute, NotFound = pl.exceptions.ComputeError, pl.exceptions.ColumnNotFoundError
POLARS = tuple(map(int, pl.__version__.split(".")[:2]))
Schema, Duplicate = pl.exceptions.SchemaError, pl.exceptions.DuplicateError


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    """A column of each kind, and targets."""
    n = 60
    return pl.DataFrame(
        {
            "a": [float(i * 7 % n) for i in range(n)],
            "b": [i % 5 for i in range(n)],
            "city": [["oslo", "rome", "lima"][i % 3] for i in range(n)],
            "day": [date(2024, 1, 1 + i % 28) for i in range(n)],
            "flag": [i % 3 == 0 for i in range(n)],
            "list": [[i % 4, i % 7] for i in range(n)],
            "words": [[f"w{i % 4}", f"w{i % 7}"] for i in range(n)],
            "values": [[1.0, float(i)] for i in range(n)],
            "bytes": [b"x"] * n,
            "pair": [{"a": 1.0, "z": i % 2} for i in range(n)],
            "y": [float(i % 11) for i in range(n)],
            "held": [i % 4 == 0 for i in range(n)],
            "half": [i < n // 2 for i in range(n)],
        }
    )


def small(fit: str = "fit_gbdt", **params: Any) -> dict[str, Any]:
    """A fit that takes no time, if it takes place."""
    return {"trees" if fit == "fit_forest" else "rounds": 2, **params}


CITIES = pl.Enum(["lima", "oslo", "rome"])
OWN = tg.metric(lambda y, p, city: tg.mean(abs(y - p) * city), name="own")

FITS: dict[str, tuple[Callable[[], pl.Expr], str]] = {
    "gbdt: a list": (lambda: tg.fit_gbdt("y", "a", "list"), "column `list`: its type is list"),
    "gbdt: bytes": (lambda: tg.fit_gbdt("y", "a", "bytes"), "column `bytes`: its type is binary"),
    "gbdt: no features": (lambda: tg.fit_gbdt("y", cs.duration()), "there are no features"),
    "gbdt: twice": (
        lambda: tg.fit_gbdt("y", "a", "pair"),
        "column `a`: this feature is given twice",
    ),
    "gbdt: text for a regression": (lambda: tg.fit_gbdt("city", "a", loss="mae"), '`city`.*loss="mae" can\'t use'),
    "gbdt: a date": (lambda: tg.fit_gbdt("day", "a"), "column `day`: its type is date; a target is a number"),
    "forest: several targets": (lambda: tg.fit_forest(pl.struct("y", "b"), "a"), "column `y`.*several targets"),
    "sparse_lr: several targets": (lambda: tg.fit_sparse_lr(pl.struct("y", "b"), "a"), "column `y`.*several targets"),
    "gbdt: text as weight": (lambda: tg.fit_gbdt("y", "a", weight="city"), "`city`: its type is str; a weight"),
    "gbdt: text as baseline": (lambda: tg.fit_gbdt("y", "a", baseline="city"), "`city`: its type is str; a baseline"),
    "gbdt: two baselines": (lambda: tg.fit_gbdt("y", "a", baseline=["a", "b"]), "`baseline`: 2 columns"),
    "gbdt: numbers for eval": (lambda: tg.fit_gbdt("y", "a", eval="b"), "column `b`.*marks held-out rows by a Boolean"),
    "gbdt: metric of classes": (lambda: tg.fit_gbdt("y", "a", eval="held", metric="auc"), '`metric`: "auc"'),
    "gbdt: class weight": (lambda: tg.fit_gbdt("y", "a", class_weight="balanced"), "`class_weight`"),
    "gbdt: categorical": (lambda: tg.fit_gbdt("y", "a", "b", categorical=["c"]), "`categorical`: there is no.*`c`"),
    "gbdt: a float as categories": (
        lambda: tg.fit_gbdt("y", "a", categorical=["a"]),
        "column `a`: its type is f64; a category is",
    ),
    "gbdt: monotone": (lambda: tg.fit_gbdt("y", "a", monotone={"aa": 1}), "no feature `aa`; did you mean `a`"),
    "gbdt: monotone text": (lambda: tg.fit_gbdt("y", "city", monotone={"city": 1}), "`city` is categorical"),
    "gbdt: bins": (lambda: tg.fit_gbdt("y", "a", bins={"aa": 3}), "no feature `aa`; did you mean `a`"),
    "gbdt: bins of text": (lambda: tg.fit_gbdt("y", "city", bins={"city": 3}), "`city` is categorical"),
    "gbdt: feature weights": (
        lambda: tg.fit_gbdt("y", "a", feature_weights={"aa": 1}),
        "no feature `aa`; did you mean `a`",
    ),
    "gbdt: a list to order by": (lambda: tg.fit_gbdt("y", "city", order_by="list"), "`list`: its type is .*no order"),
    "gbdt: an order of one-hot questions": (
        lambda: tg.fit_gbdt("y", "city", order_by="day", cat_method="one_hot"),
        '`order_by`: it counts only under cat_method="ctr", not "one_hot"',
    ),
    "gbdt: an order and permutations": (
        lambda: tg.fit_gbdt("y", "city", order_by="day", permutations=5),
        "`permutations`: there is only one order with `order_by`",
    ),
    "gbdt: no feature weight": (lambda: tg.fit_gbdt("y", "a", feature_weights={"a": 0}), "all features .`a`. have"),
    "gbdt: interaction": (lambda: tg.fit_gbdt("y", "a", "b", interaction=[["a", "z"]]), "`interaction`: .*`z`"),
    "forest: a list": (lambda: tg.fit_forest("y", "a", "list"), "column `list`: its type is list"),
    "forest: criterion": (lambda: tg.fit_forest("city", "a", criterion="poisson"), '`city`.*"poisson" can\'t use'),
    "forest: class weight": (lambda: tg.fit_forest("y", "a", class_weight="balanced"), "`class_weight`"),
    "forest: categorical": (lambda: tg.fit_forest("y", "a", categorical=["c"]), "`categorical`: there is no"),
    "forest: bins": (lambda: tg.fit_forest("y", "a", bins={"aa": 3}), "no feature `aa`; did you mean `a`"),
    "forest: bins of text": (lambda: tg.fit_forest("y", "city", bins={"city": 3}), "`city` is categorical"),
    "forest: text as weight": (lambda: tg.fit_forest("y", "a", weight="city"), "`city`: its type is str; a weight"),
    "sparse_lr: no lists": (lambda: tg.fit_sparse_lr("flag", "a"), "column `a`: its type is f64; sparse rows"),
    "sparse_lr: lists of floats": (lambda: tg.fit_sparse_lr("flag", "values"), "`values`: its lists hold f64"),
    "sparse_lr: values of text": (lambda: tg.fit_sparse_lr("flag", "list", "words"), "`words`: its lists hold str"),
    "sparse_lr: text beside": (lambda: tg.fit_sparse_lr("flag", "list", dense="city"), "column `city`: is categorical"),
    "sparse_lr: a date": (lambda: tg.fit_sparse_lr("day", "list"), "column `day`: its type is date"),
    "sparse_lr: hash_bits": (
        lambda: tg.fit_sparse_lr("flag", "list", hash_bits=9),
        "`hash_bits`: `list` holds numbers",
    ),
    "sparse_lr: features": (lambda: tg.fit_sparse_lr("flag", "words", features=9), "`features`: `words` holds strings"),
    "sparse_lr: metric": (
        lambda: tg.fit_sparse_lr("flag", "list", eval="held", metric="multiclass"),
        '`metric`: "multiclass"',
    ),
    "encoder: a float": (lambda: tg.fit_target_encoder(["city", "a"], "y"), "column `a`: its type is f64; a category"),
    "encoder: nothing": (lambda: tg.fit_target_encoder(cs.duration(), "y"), "there are no columns to encode"),
    "encoder: target": (lambda: tg.fit_target_encoder("city", "day"), "column `day`: its type is date; a target"),
    "encoder: weight": (lambda: tg.fit_target_encoder("city", "y", weight="city"), "`city`: its type is str; a weight"),
}

OTHERS: dict[str, tuple[Callable[[], pl.Expr], str]] = {
    "target_encode: a float": (lambda: tg.target_encode("a", "y"), "column `a`: its type is f64; a category"),
    "target_encode: target": (lambda: tg.target_encode("city", "words"), "column `words`: its type is list"),
    "target_encode: weight": (lambda: tg.target_encode("city", "y", weight="day"), "column `day`: .*a weight"),
    "target_encode: order": (lambda: tg.target_encode("city", "y", order_by="list"), "`list`.*no order"),
    "target_encode: folds": (lambda: tg.target_encode("city", "y", kind="kfold", folds="a"), "`a`.*folds are"),
    "woe: category": (lambda: tg.woe("a", "flag"), "woe: column `a`: its type is f64; a category"),
    "woe: target": (lambda: tg.woe("city", "day"), "woe: column `day`: its type is date"),
    "woe: weight": (lambda: tg.woe("city", "flag", weight="city"), "woe: column `city`: .*a weight"),
    "information_value: category": (lambda: tg.information_value("a", "flag"), "information_value: column `a`"),
    "information_value: target": (lambda: tg.information_value("b", "city"), "information_value: column `city`"),
    "count_encode": (lambda: tg.count_encode("day"), "count_encode: column `day`: its type is date"),
    "combine": (lambda: tg.combine("city", "a"), "combine: column `a`: its type is f64"),
    "borders": (lambda: tg.borders("city"), "borders: column `city`: its type is str"),
    "quantize": (lambda: tg.quantize("city"), "quantize: column `city`: its type is str"),
    "quantize: borders": (lambda: tg.quantize("a", borders=pl.col("words").first()), "`borders` is a list of numbers"),
    "min_max": (lambda: tg.min_max("city"), "min_max: column `city`: its type is str"),
    "histogram": (lambda: tg.histogram("city"), "histogram: column `city`: its type is str"),
    "histogram: weights": (lambda: tg.histogram("a", weights="city"), "histogram: column `city`: .*a weight"),
    "histogram2d": (lambda: tg.histogram2d("a", "list"), "histogram2d: column `list`: its type is list"),
    "rmse: target": (lambda: tg.metrics.rmse("city", "a"), "metrics.rmse: column `city`: its type is str; a target"),
    "rmse: predicted": (lambda: tg.metrics.rmse("y", "day"), "column `day`: its type is date; a prediction"),
    "rmse: a struct": (lambda: tg.metrics.rmse("y", "pair"), "column `pair`: it is a struct"),
    "rmse: weight": (lambda: tg.metrics.rmse("y", "a", weight="city"), "column `city`: its type is str; a weight"),
    "gamma_deviance": (lambda: tg.metrics.gamma_deviance("y", "city"), "column `city`: its type is str; a prediction"),
    "auc: target": (lambda: tg.metrics.auc("day", "a"), "metrics.auc: column `day`: its type is date; a target"),
    "auc: text": (lambda: tg.metrics.auc("city", "a"), "column `city`: its labels are text: say by `positive=`"),
    "auc: predicted": (lambda: tg.metrics.auc("flag", "city"), 'column `city`: its type is str; "auc" is of prob'),
    "auc: shares": (lambda: tg.metrics.auc("flag", pl.struct("a", "city")), "`city`: its type is str; a probability"),
    "auc: positive": (
        lambda: tg.metrics.auc("b", "a", positive="2"),
        'column `b`: its type is i64, and `positive` is "2"',
    ),
    "auc: a positive of a struct": (
        lambda: tg.metrics.auc("city", pl.struct("a", "b"), positive="c"),
        'parameter `positive`: "c" is none of the classes a, b',
    ),
    "f1: labels": (lambda: tg.metrics.f1("city", "b"), "column `b`: its type is i64, and the labels of `city` are"),
    "f1: positive": (
        lambda: tg.metrics.f1("city", "city", positive=1),
        "column `city`: its type is str, and `positive`",
    ),
    "ndcg: group": (lambda: tg.metrics.ndcg("b", "a", group="a"), "column `a`: its type is f64, which can't say"),
    "own metric": (lambda: OWN("y", "a"), "column `city`: its type is str; a column that a metric reads"),
    "fit_folds: groups": (
        lambda: tg.fit_folds("y", "b", folds="group", fold_by="a"),
        "fit_folds: column `a`: its type is f64, which can't say which rows are of a group",
    ),
    "cross_validate: groups": (
        lambda: tg.cross_validate("y", "b", folds="group", fold_by="a"),
        "cross_validate: column `a`: its type is f64, which can't say",
    ),
    "search: groups": (
        lambda: tg.search("y", "b", space={"depth": [1]}, folds="group", fold_by="a"),
        "search: column `a`: its type is f64, which can't say",
    ),
    "fit_folds: folds": (lambda: tg.fit_folds("y", "b", folds=pl.col("list")), "column `list`: .*tells no folds"),
    "score: a model of a column": (
        lambda: tg.score("bytes", "day", "a"),
        "score: column `day`: its type is date; a target",
    ),
    "importance: a model of a column": (
        lambda: tg.importance("bytes", "y", "a", kind="permutation", weight="city"),
        "importance: column `city`: its type is str; a weight",
    ),
}

# In Polars 1 an Enum reaches a plugin as a Categorical, which does not know its labels.
if POLARS >= (2, 0):
    OTHERS["auc: a positive of an Enum"] = (
        lambda: tg.metrics.auc(pl.col("city").cast(CITIES), "a", positive="Rome"),
        r'parameter `positive`: "Rome" is none of the labels of column `city` \(lima, oslo, rome\)',
    )


@pytest.mark.parametrize("case", [*FITS, *OTHERS])
def test_what_types_tell_is_told_when_the_query_is_planned(table: pl.DataFrame, case: str) -> None:
    expr, message = (FITS | OTHERS)[case]
    with pytest.raises(Compute, match=f"(?s){message}"):
        table.lazy().select(expr()).collect_schema()
    with pytest.raises(Compute, match=f"(?s){message}"):
        table.lazy().group_by("half").agg(expr()).collect_schema()
    with pytest.raises(Compute, match=f"(?s){message}"):
        table.select(expr())


GOOD: list[Callable[[], pl.Expr]] = [
    lambda: tg.fit_gbdt("y", "a", "b", "city", "day", weight="b", eval="held", metric="mae", **small()),
    lambda: tg.fit_gbdt("flag", pl.col("a") + 1, "b", eval=pl.col("held") & True, metric="auc", **small()),
    lambda: tg.fit_gbdt("city", cs.numeric().name.suffix("_"), class_weight="balanced", **small()),
    lambda: tg.fit_gbdt(pl.lit(3) + pl.col("b"), "a", pl.lit(None).alias("none"), weight=pl.lit(2), **small()),
    lambda: tg.fit_forest("y", "a", pl.struct("b", "city"), categorical=["b"], **small("fit_forest")),
    lambda: tg.fit_sparse_lr("flag", "list", "values", dense=["a", "b"], epochs=2),
    lambda: tg.fit_sparse_lr("city", "words", eval="held", metric="accuracy", epochs=2),
    lambda: tg.fit_target_encoder(["city", "b"], "y", weight=pl.lit(1)),
    lambda: tg.information_value("b", pl.col("city") == "oslo"),
    lambda: tg.min_max("day"),
    lambda: tg.histogram("a", weights="b"),
    lambda: tg.histogram2d("a", "b", weights="y"),
    lambda: tg.borders("flag"),
]


@pytest.mark.parametrize("at", range(len(GOOD)))
def test_what_runs_is_planned_everywhere(table: pl.DataFrame, at: int) -> None:
    for query in [
        table.lazy().select(GOOD[at]().alias("out")),
        table.lazy().with_columns(GOOD[at]().alias("out")),
        table.lazy().group_by("half", maintain_order=True).agg(GOOD[at]().alias("out")),
        table.lazy().with_columns(GOOD[at]().over("half").alias("out")),
    ]:
        schema, out = query.collect_schema(), query.collect()
        # Early versions of Polars take a scalar in `agg` for a list when they plan.
        assert out.schema == schema or (out.columns == ["half", "out"] and POLARS < (1, 36))


@pytest.mark.parametrize("fit", ["fit_gbdt", "fit_forest"])
def test_predictions_are_checked_when_the_query_is_planned(table: pl.DataFrame, fit: str) -> None:
    model = getattr(table.taiga, fit)("y", "a", "city", "day", **small(fit))
    lf = table.lazy()
    assert lf.select(tg.predict(model)).collect_schema() == {"prediction": pl.Float64}
    with pytest.raises(NotFound, match="city"):
        lf.drop("city").select(tg.predict(model)).collect_schema()
    for change, message in [
        (pl.col("a").cast(pl.String), "column `a`: its type is str; the model was fitted on numeric"),
        (pl.col("b").alias("city"), "column `city`: its type is i64; the model was fitted on categorical"),
        (pl.col("b").alias("day"), "column `day`: its type is i64; the model was fitted on date"),
        (pl.col("list").alias("a"), r"column `a`: its type is list\[i64\]; the model was fitted on numeric"),
    ]:
        with pytest.raises(Compute, match=message):
            lf.with_columns(change).select(tg.predict(model)).collect_schema()
    two = lf.with_columns(pl.col("a").cast(pl.String), pl.col("day").cast(pl.String))
    with pytest.raises(Compute, match=r"column `a`: .*; column `day`: "):
        two.select(tg.predict(model)).collect_schema()


MEASURED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a number": ("city", {}, "column `city`: its type is str; a target is a number"),
    "a weight": ("y", {"weight": "city"}, "column `city`: its type is str; a weight"),
    "a group": ("y", {"group": "a"}, "column `a`: its type is f64, which can't say"),
    "an event": ("y", {"event": "city"}, "column `city`: its type is str; `event` is a Boolean"),
    "a bound": ("y", {"lower": "day"}, "column `day`: its type is date; `lower` is a number"),
}


@pytest.mark.parametrize("case", MEASURED)
def test_what_a_model_is_measured_against_is_checked_when_the_query_is_planned(table: pl.DataFrame, case: str) -> None:
    """Proves that types of targets, weights, groups and times are told by `score` and `importance` at planning."""
    target, roles, message = MEASURED[case]
    model, lf = table.taiga.fit_gbdt("y", "a", "b", **small()), table.lazy()
    with pytest.raises(Compute, match=f"score: {message}"):
        lf.select(tg.score(model, target, **roles)).collect_schema()
    for kind in ("permutation", "loss_change"):
        with pytest.raises(Compute, match=f"importance: {message}"):
            lf.select(tg.importance(model, target, kind=kind, **roles)).collect_schema()


def test_labels_and_several_targets_are_checked_when_the_query_is_planned(table: pl.DataFrame) -> None:
    """Proves that a target is held against the type of the model's own, and that what is right is planned."""
    lf = table.lazy()
    for own, wrong, message in [
        ("city", "b", "column `b`: its type is i64; the model's classes are of type String"),
        ("flag", "b", "column `b`: its type is i64; the model's classes are of type Boolean"),
        (pl.struct("y", "b"), "a", "column `a`: its type is f64; the model has 2 targets, in a struct or in lists"),
        ("words", "a", "column `a`: its type is f64; the model has 7 targets"),
    ]:
        model = table.taiga.fit_gbdt(own, "a", "day", **small())  # type: ignore[arg-type]
        with pytest.raises(Compute, match=message):
            lf.select(tg.score(model, wrong)).collect_schema()
        assert lf.select(tg.score(model, own)).collect_schema() == {"score": pl.Float64}  # type: ignore[arg-type]
        assert table.select(tg.score(model, own)).item() >= 0  # type: ignore[arg-type]
    text = table.taiga.fit_gbdt("city", "a", **small())
    for dtype in (pl.Categorical, CITIES):
        assert lf.select(tg.score(text, pl.col("city").cast(dtype))).collect_schema() == {"score": pl.Float64}


def test_columns_without_a_type_are_left_to_the_rows(table: pl.DataFrame) -> None:
    """Proves that a column of nothing but nulls, as a table of no rows may have, is no fault of the plan."""
    model = table.taiga.fit_gbdt("y", "a", **small())
    empty = pl.DataFrame({"y": [], "a": [], "w": []}, schema={"y": pl.Null, "a": pl.Null, "w": pl.Null})
    assert empty.select(tg.score(model, "y", weight="w", on_error="null")).item() is None
    assert empty.select(tg.metrics.rmse("y", "a", weight="w", on_error="null")).item() is None
    assert empty.select(tg.metrics.auc("y", "a", on_error="null")).item() is None


def test_a_column_of_nulls_stands_for_any_feature(table: pl.DataFrame) -> None:
    """Proves that a column of nothing but nulls is one of missing values for any feature, temporal ones too."""
    day = pl.col("day")
    kinds = table.with_columns(
        at=day.cast(pl.Datetime("ms")), since=day - date(2024, 1, 1), time=day.cast(pl.Datetime).dt.time()
    )
    features = ["a", "city", "day", "at", "since", "time", "flag"]
    kinds = kinds.with_columns(pl.when(pl.int_range(pl.len()) % 5 > 0).then(pl.col(features)))
    model = kinds.taiga.fit_gbdt("y", features, **small(rounds=8))
    for name in features:
        typed = kinds.with_columns(pl.lit(None, dtype=kinds.schema[name]).alias(name))
        untyped = kinds.with_columns(pl.lit(None).alias(name))
        assert untyped.schema[name] == pl.Null
        assert untyped.lazy().select(tg.predict(model)).collect_schema() == {"prediction": pl.Float64}
        assert untyped.select(tg.predict(model)).equals(typed.select(tg.predict(model))), name
        assert untyped.select(tg.score(model, "y")).equals(typed.select(tg.score(model, "y"))), name


def test_a_model_to_go_on_from_may_be_a_column_of_nulls(table: pl.DataFrame) -> None:
    """Proves that `init_model` of nothing but nulls begins anew, whatever its type."""
    plain = table.select(tg.fit_gbdt("y", "a", **small()))
    for none in (pl.lit(None), pl.lit(None, dtype=pl.Binary)):
        assert table.select(tg.fit_gbdt("y", "a", init_model=none, **small())).equals(plain)
    column = table.with_columns(before=pl.lit(None))
    assert column.select(tg.fit_gbdt("y", "a", init_model=pl.col("before"), **small())).equals(plain)


def test_given_features_are_checked_the_same_way(table: pl.DataFrame) -> None:
    model = table.taiga.fit_gbdt("y", "a", "b", "city", **small())
    lf = table.lazy()
    assert lf.select(tg.predict(model, "city", pl.col("b").abs(), pl.col("a") * 2)).collect_schema() == {
        "prediction": pl.Float64
    }
    assert lf.select(tg.predict(model, pl.struct(pl.exclude("pair")))).collect_schema() == {"prediction": pl.Float64}
    with pytest.raises(Compute, match=r"missing: `a` \(numeric\), `city` \(categorical text"):
        lf.select(tg.predict(model, "b")).collect_schema()
    with pytest.raises(Compute, match=r"`city` \(categorical text, did you mean `City`\?\)"):
        lf.select(tg.predict(model, "a", "b", pl.col("city").alias("City"))).collect_schema()
    with pytest.raises(Compute, match="column `a`: its type is str"):
        lf.select(tg.predict(model, pl.col("a").cast(pl.String), "b", "city")).collect_schema()
    with pytest.raises(Compute, match="column `a`: this column is given twice"):
        lf.select(tg.predict(model, "a", "b", "city", pl.struct("a"))).collect_schema()
    with pytest.raises(Compute, match=r"column `b`: its type is i64; a model is Binary"):
        lf.select(tg.predict("b", "a")).collect_schema()


def test_linear_models_are_checked_too(table: pl.DataFrame) -> None:
    lf = table.lazy()
    numbers = table.taiga.fit_sparse_lr("flag", "list", "values", dense="a", epochs=2)
    assert lf.select(tg.predict(numbers)).collect_schema() == {"prediction": pl.Float64}
    with pytest.raises(NotFound, match="list"):
        lf.drop("list").select(tg.predict(numbers)).collect_schema()
    with pytest.raises(Compute, match=r"`values` \(lists of numbers\)"):
        lf.drop("values").select(tg.predict(numbers)).collect_schema()
    with pytest.raises(Compute, match=r"column `list`.*the model was fitted on numbers"):
        lf.with_columns(pl.col("words").alias("list")).select(tg.predict(numbers)).collect_schema()
    with pytest.raises(Compute, match="column `a`: its type is str"):
        lf.with_columns(pl.col("city").alias("a")).select(tg.predict(numbers)).collect_schema()
    words = table.taiga.fit_sparse_lr("flag", "words", epochs=2)
    with pytest.raises(Compute, match=r"column `words`.*the model was fitted on strings"):
        lf.with_columns(pl.col("list").alias("words")).select(tg.predict(words)).collect_schema()
    with pytest.raises(Compute, match="column `words`: its type is f64; sparse rows are lists"):
        lf.with_columns(pl.col("a").alias("words")).select(tg.predict(words)).collect_schema()


def test_values_inside_structs_come_with_their_features(table: pl.DataFrame) -> None:
    pairs = table.with_columns(
        pairs=pl.Series([[{"i": i % 4, "v": 1.0 * i}] for i in range(table.height)]),
    )
    model = pairs.taiga.fit_sparse_lr("flag", "pairs", epochs=2)
    lf = pairs.lazy()
    assert lf.select(tg.predict(model)).collect().schema == lf.select(tg.predict(model)).collect_schema()


def test_encodings_are_checked_when_the_query_is_planned(table: pl.DataFrame) -> None:
    lf = table.lazy()
    encoder = table.taiga.fit_target_encoder(["city", "b", "flag"], "y")
    assert list(lf.select(tg.encode(encoder)).collect_schema()) == ["city", "b", "flag"]
    with pytest.raises(NotFound, match="city"):
        lf.drop("city").select(tg.encode(encoder)).collect_schema()
    with pytest.raises(
        Compute, match="encode: column `day`: the encoder was not fitted on it but on `city`, `b`, `flag`"
    ):
        lf.select(tg.encode(encoder, "day")).collect_schema()
    for column, dtype, kind in [("city", "i64", "text"), ("flag", "i64", "Booleans")]:
        with pytest.raises(Compute, match=f"column `{column}`: its type is {dtype}; the fitted categories are {kind}"):
            lf.select(tg.encode(encoder, pl.col("b").alias(column))).collect_schema()
    with pytest.raises(Compute, match="column `b`: its type is str; the fitted categories are integers"):
        lf.select(tg.encode(encoder, pl.col("city").alias("b"))).collect_schema()
    with pytest.raises(Compute, match=r"column `b`: its type is i64; an encoder is Binary"):
        lf.select(tg.encode("b", "city")).collect_schema()
    with pytest.raises(Compute, match="column `a`: its type is f64; a category is"):
        lf.select(tg.encode(pl.lit(encoder.to_bytes()), "a")).collect_schema()


def test_a_file_is_untouched_when_the_plan_fails(table: pl.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    table.select("a", "b").write_parquet(path)
    before = path.read_bytes()
    model = table.taiga.fit_gbdt("y", "a", "b", "city", **small())
    encoder = table.taiga.fit_target_encoder("city", "y")
    for frame, expr in [
        (table.drop("b"), tg.predict(model)),
        (table.with_columns(pl.col("city").alias("a")), tg.predict(model)),
        (table, tg.predict(model, "a", "city")),
        (table.drop("city"), tg.encode(encoder)),
        (table.with_columns(pl.col("b").alias("city")), tg.encode(encoder)),
        (table, tg.count_encode("a")),
        (table, tg.quantize("city")),
        (table, tg.score(model, "city")),
        (table, tg.metrics.rmse("y", "city")),
        (table, tg.fit_folds("y", "b", folds="group", fold_by="a")),
        *((table, expr()) for expr, _ in FITS.values()),
    ]:
        with pytest.raises(pl.exceptions.PolarsError):
            frame.lazy().with_columns(expr.name.prefix("out_")).sink_parquet(path)
        assert path.read_bytes() == before


def test_an_output_that_the_model_lacks_is_told_before_there_is_a_query(table: pl.DataFrame) -> None:
    forest = table.taiga.fit_forest("y", "a", **small("fit_forest"))
    linear = table.taiga.fit_sparse_lr("flag", "list", epochs=2)
    for model, output in [(forest, "raw"), (forest, "staged"), (linear, "leaf"), (linear, "staged")]:
        with pytest.raises(ValueError, match=f"output='{output}'"):
            tg.predict(model, output=output)  # type: ignore[arg-type]


def test_the_methods_raise_the_exceptions_that_polars_has_for_it(table: pl.DataFrame) -> None:
    model = table.taiga.fit_gbdt("y", "a", "b", **small())
    encoder_of: Any = table.taiga.fit_target_encoder
    with pytest.raises(Schema, match="column `list`: its type is list"):
        table.taiga.fit_gbdt("y", "a", "list")
    with pytest.raises(Schema, match="column `list`: its type is list"):
        table.lazy().taiga.fit_forest("y", "a", "list")
    with pytest.raises(Schema, match="column `a`: its type is f64; sparse rows"):
        table.taiga.fit_sparse_lr("flag", "a")
    with pytest.raises(Schema, match="column `a`: its type is f64; a category"):
        encoder_of("a", "y")
    with pytest.raises(Duplicate, match="column `a`: this feature is given twice"):
        table.taiga.fit_gbdt("y", "a", "pair")
    with pytest.raises(Schema, match="column `a`: its type is str"):
        table.with_columns(pl.col("a").cast(pl.String)).taiga.predict(model)
    with pytest.raises(NotFound, match=r"missing: `b`"):
        table.taiga.predict(model, "a")
    with pytest.raises(NotFound, match="b"):
        table.drop("b").taiga.predict(model)
    # What values tell stays what it was.
    with pytest.raises(Compute, match="are null"):
        table.with_columns(y=pl.lit(None, dtype=pl.Float64)).taiga.fit_gbdt("y", "a")

"""Predictions and encodings inside `group_by().agg()` and `over`: what the loop over the groups gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import polars.selectors as cs
import polars_taiga as tg
import pytest
from polars.testing import assert_frame_equal

GROUPS = 4


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    """Groups of rows that are not side by side, and columns for each learner."""
    n = 240
    return pl.DataFrame(
        {
            "g": [i * 7 % 11 % GROUPS for i in range(n)],
            "a": [float(i * 37 % 101) for i in range(n)],
            "b": [i * 13 % 17 for i in range(n)],
            "city": [["oslo", "rome", "lima"][i * 5 % 7 % 3] for i in range(n)],
            "shop": [i % 4 for i in range(n)],
            "i": [[i % 5, 5 + i % 3] for i in range(n)],
            "v": [[1.0, float(i % 4)] for i in range(n)],
            "y": [float((i * 37 % 101) + 10 * (i % 4)) for i in range(n)],
            "flag": [(i * 37 % 101) > 50 for i in range(n)],
        }
    ).with_row_index("row")


Fit = Callable[[], pl.Expr]
LEARNERS: dict[str, tuple[Fit, list[str]]] = {
    "gbdt": (lambda: tg.fit_gbdt("y", "a", "b", "city", rounds=4, min_data_in_leaf=1), ["a", "b", "city"]),
    "forest": (lambda: tg.fit_forest("y", "a", "b", "city", trees=4), ["a", "b", "city"]),
    "sparse_lr": (lambda: tg.fit_sparse_lr("flag", "i", "v", dense="a", epochs=5), ["i", "v", "a"]),
}

learner = pytest.mark.parametrize("name", list(LEARNERS))


def by_loop(rows: pl.DataFrame, of: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
    """What `of` gives for each group alone, in the order of the rows."""
    parts = [of(part).insert_column(0, part["row"]) for part in rows.partition_by("g", maintain_order=True)]
    return pl.concat(parts).sort("row")


def exploded(lists: pl.DataFrame) -> pl.DataFrame:
    """The lists of all groups as rows in their order, without the groups' names."""
    names = [name for name in lists.columns if name != "g"]
    return lists.drop("g").explode(names).sort("row")


@learner
def test_a_fit_inside_is_the_loop_over_the_groups(rows: pl.DataFrame, name: str) -> None:
    fit, features = LEARNERS[name]
    expected = by_loop(rows, lambda part: part.select(tg.predict(tg.Model(part.select(fit()).item()))))
    inside = tg.predict(fit(), features)
    agg = rows.group_by("g", maintain_order=True).agg("row", inside)
    assert agg.columns == ["g", "row", "prediction"]
    assert_frame_equal(exploded(agg), expected)
    lazy = rows.lazy().group_by("g").agg("row", inside)
    assert lazy.collect_schema() == {"g": pl.Int64, "row": pl.List(pl.UInt32), "prediction": pl.List(pl.Float64)}
    assert_frame_equal(exploded(lazy.collect()), expected)
    assert_frame_equal(exploded(lazy.collect(**streaming())), expected)
    over = rows.select("row", inside.over("g"))
    assert_frame_equal(over, expected)
    assert_frame_equal(rows.lazy().with_columns(inside.over("g")).select("row", "prediction").collect(), expected)


@learner
def test_a_column_of_models_serves_by_its_first(rows: pl.DataFrame, name: str) -> None:
    fit, features = LEARNERS[name]
    models = rows.select("row", "g", model=fit().over("g"))
    joined = rows.join(models, on=["row", "g"], how="left").sort("row")
    expected = by_loop(rows, lambda part: part.select(tg.predict(tg.Model(part.select(fit()).item()))))
    for model in [pl.col("model").first(), pl.col("model"), "model"]:
        expr = tg.predict(model, features)
        agg = joined.group_by("g").agg("row", expr)
        assert_frame_equal(exploded(agg), expected)
        assert_frame_equal(joined.select("row", expr.over("g")), expected)
    assert_frame_equal(joined.lazy().select("row", tg.predict("model", features)).collect(), expected)


@learner
def test_a_model_that_is_a_value_serves_in_groups(rows: pl.DataFrame, name: str) -> None:
    fit, features = LEARNERS[name]
    model = tg.Model(rows.select(fit()).item())
    expected = rows.select("row", tg.predict(model))
    for expr in [
        tg.predict(model),
        tg.predict(model, features),
        tg.predict(model, cs.by_name(features)),
        tg.predict(model, pl.struct(features)),
        tg.predict(pl.lit(model.to_bytes()), features),
    ]:
        assert_frame_equal(exploded(rows.group_by("g").agg("row", expr)), expected)
        assert_frame_equal(rows.select("row", expr.over("g")), expected)
        assert_frame_equal(rows.with_columns(expr).select("row", "prediction"), expected)
        streamed = rows.lazy().select("row", expr).collect(**streaming())
        assert_frame_equal(streamed.sort("row"), expected)


def streaming() -> dict[str, Any]:
    """How this Polars is asked to stream."""
    import inspect

    known = inspect.signature(pl.LazyFrame.collect).parameters
    return {"engine": "streaming"} if "engine" in known else {"streaming": True}


def test_a_group_without_a_model_has_no_predictions(rows: pl.DataFrame) -> None:
    models = rows.group_by("g").agg(tg.fit_gbdt("y", "a", "b", rounds=4)).filter(pl.col("g") != 1)
    joined = rows.join(models, on="g", how="left")
    agg = joined.group_by("g").agg("row", tg.predict(pl.col("model").first(), "a", "b"))
    expected = joined.select("row", tg.predict("model", "a", "b")).sort("row")
    assert expected["prediction"].null_count() == (rows["g"] == 1).sum()
    assert_frame_equal(exploded(agg), expected)


def test_groups_that_overlap(rows: pl.DataFrame) -> None:
    model = rows.taiga.fit_gbdt("y", "a", "b", rounds=4)
    times = rows.with_columns(pl.col("row").cast(pl.Int64)).sort("row")
    got = times.rolling("row", period="3i").agg(
        tg.predict(model).alias("p"), of=tg.predict(pl.lit(model.to_bytes()), "a", "b")
    )
    alone = times.select(tg.predict(model)).to_series().to_list()
    assert got["p"].to_list() == [alone[max(0, i - 2) : i + 1] for i in range(rows.height)]
    assert got["of"].to_list() == got["p"].to_list()


def test_features_may_be_computed_sorted_and_filtered_in_groups(rows: pl.DataFrame) -> None:
    fit = tg.fit_gbdt("y", (pl.col("a") * 2).alias("a"), "b", rounds=4)
    expr = tg.predict(fit, (pl.col("a") * 2).alias("a").sort(), pl.col("b").sort()).alias("p")
    agg = rows.group_by("g", maintain_order=True).agg(expr)
    for g, got in agg.rows():
        part = rows.filter(pl.col("g") == g)
        model = tg.Model(part.select(fit).item())
        alone = part.select((pl.col("a") * 2).sort(), pl.col("b").sort()).select(tg.predict(model, "a", "b"))
        assert got == alone.to_series().to_list()


def test_one_row_of_each_group(rows: pl.DataFrame) -> None:
    model = rows.taiga.fit_gbdt("y", "a", "b", rounds=4)
    got = rows.group_by("g", maintain_order=True).agg(tg.predict(model, pl.col("a").mean(), pl.col("b").max()))
    means = rows.group_by("g", maintain_order=True).agg(pl.col("a").mean(), pl.col("b").max())
    assert_frame_equal(got, means.select("g", tg.predict(model)))


def test_the_key_may_be_a_feature(rows: pl.DataFrame) -> None:
    model = rows.taiga.fit_gbdt("y", "a", "g", rounds=4)
    expected = rows.select("row", tg.predict(model))
    assert_frame_equal(exploded(rows.group_by("g").agg("row", tg.predict(model))), expected)


ENCODED: dict[str, list[str]] = {"one column": ["city"], "several columns": ["city", "shop"]}


@pytest.mark.parametrize("case", list(ENCODED))
def test_encodings_in_groups_are_the_loop_over_the_groups(rows: pl.DataFrame, case: str) -> None:
    columns = ENCODED[case]
    fit = tg.fit_target_encoder(columns, "y", prior_weight=0)
    expected = by_loop(rows, lambda part: part.select(tg.encode(part.select(fit).item())))
    inside = tg.encode(fit, columns)
    agg = rows.group_by("g").agg("row", inside)
    assert agg.columns == ["g", "row", *columns]
    assert_frame_equal(exploded(agg), expected.select("row", *columns))
    assert_frame_equal(rows.select("row", inside.over("g")), expected.select("row", *columns))
    joined = rows.with_columns(encoder=fit.over("g"))
    for encoder in [pl.col("encoder").first(), pl.col("encoder")]:
        got = joined.group_by("g").agg("row", tg.encode(encoder, columns))
        assert_frame_equal(exploded(got), expected.select("row", *columns))
    whole = rows.select(fit).item()
    got = rows.group_by("g").agg("row", tg.encode(whole))
    assert_frame_equal(
        exploded(got).select("row", *columns), rows.select("row", tg.encode(whole)).select("row", *columns)
    )


def test_other_expressions_keep_their_names_in_groups(rows: pl.DataFrame) -> None:
    exprs = {
        "city": [
            tg.target_encode("city", "y", kind="loo"),
            tg.woe("city", pl.col("row") % 3 == 0),
            tg.count_encode("city"),
            tg.information_value("city", pl.col("row") % 3 == 0),
        ],
        "a": [tg.quantize("a", 8), tg.borders("a", 8), tg.min_max("a"), tg.histogram("a"), tg.histogram2d("a", "b")],
        "combination": [tg.combine("city", "shop")],
    }
    for name, several in exprs.items():
        for expr in several:
            got = rows.group_by("g", maintain_order=True).agg(expr)
            assert got.columns == ["g", name]
            for g, value in got.rows():
                alone = rows.filter(pl.col("g") == g).select(expr).to_series()
                assert value == (alone.to_list() if alone.len() > 1 else alone.to_list()[0])


def test_errors_in_groups_name_the_column(rows: pl.DataFrame) -> None:
    with pytest.raises(pl.exceptions.ComputeError, match="woe: column `shop`: the target is the same"):
        rows.group_by("g").agg(tg.woe("city", pl.col("shop") >= 0))
    with pytest.raises(pl.exceptions.ComputeError, match="target_encode: column `same`: it has one fold"):
        rows.with_columns(same="g").group_by("g").agg(tg.target_encode("city", "y", kind="kfold", folds="same"))

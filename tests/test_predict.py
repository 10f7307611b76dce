"""The five outputs of predict, and the columns that it finds."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta

import polars as pl
import polars_taiga as tg
import pytest
from polars.testing import assert_frame_equal, assert_series_equal

FEATURES = list("abcd")
POLARS = tuple(map(int, pl.__version__.split(".")[:2]))


def column(df: pl.DataFrame, model: tg.Model, output: str = "auto") -> pl.Series:
    """The predictions; their type is the announced one."""
    lf = df.lazy().select(tg.predict(model, output=output))
    out = lf.collect()
    assert out.schema == lf.collect_schema()
    return out["prediction"]


def test_regression(df: pl.DataFrame, regression: tg.Model) -> None:
    auto = column(df, regression)
    assert auto.dtype == pl.Float64
    assert auto.null_count() == 0
    assert_series_equal(auto, column(df, regression, "raw"), check_exact=True)
    assert ((auto - df["y"]) ** 2).mean() < 0.5 * df["y"].var()
    with pytest.raises(ValueError, match="is a regression and has no classes"):
        tg.predict(regression, output="class")


def test_two_classes(df: pl.DataFrame, binary: tg.Model) -> None:
    p = column(df, binary)
    assert p.dtype == pl.Float64
    assert p.is_between(0, 1).all()
    raw = column(df, binary, "raw")
    assert all(math.isclose(x, 1 / (1 + math.exp(-r)), rel_tol=1e-6) for x, r in zip(p, raw, strict=True))
    label = column(df, binary, "class")
    assert label.dtype == pl.Boolean
    assert_series_equal(label, p > 0.5, check_names=False)
    assert (label == df["flag"]).mean() > 0.8


def test_many_classes(df: pl.DataFrame, multiclass: tg.Model) -> None:
    p = column(df, multiclass)
    assert p.dtype == pl.Struct({"low": pl.Float64, "mid": pl.Float64, "top": pl.Float64})
    parts = p.struct.unnest()
    assert parts.select(pl.sum_horizontal(pl.all()).is_between(1 - 1e-9, 1 + 1e-9).all()).item()
    label = column(df, multiclass, "class")
    assert label.dtype == pl.String
    best = [max(row, key=row.__getitem__) for row in parts.to_dicts()]
    assert label.to_list() == best
    assert (label == df["kind"]).mean() > 0.7
    assert column(df, multiclass, "raw").dtype == p.dtype


@pytest.mark.parametrize(
    ("target", "loss", "classes", "dtype"),
    [
        (pl.col("flag"), "auto", [False, True], pl.Boolean),
        (pl.col("flag").cast(pl.Int8) * 7 - 2, "logloss", [-2, 5], pl.Int8),
        (pl.col("flag").cast(pl.Float32), "logloss", [0.0, 1.0], pl.Float32),
        (pl.when("flag").then(pl.lit("aa")).otherwise(pl.lit("zz")), "auto", ["aa", "zz"], pl.String),
        (
            pl.when("flag").then(pl.lit("zz")).otherwise(pl.lit("aa")).cast(pl.Categorical),
            "auto",
            ["aa", "zz"],
            pl.Categorical,
        ),
        (
            pl.when("flag").then(pl.lit("b")).otherwise(pl.lit("a")).cast(pl.Enum(["z", "b", "a"])),
            "auto",
            # In Polars 1 an Enum reaches a plugin as a Categorical.
            ["b", "a"] if POLARS >= (2, 0) else ["a", "b"],
            pl.Enum(["z", "b", "a"]) if POLARS >= (2, 0) else pl.Categorical,
        ),
        (pl.col("group"), "multiclass", [0, 1, 2, 3, 4], pl.Int64),
        (pl.col("group").cast(pl.UInt8), "multiclass", [0, 1, 2, 3, 4], pl.UInt8),
        (pl.col("group").cast(pl.Float64), "multiclass", [0.0, 1.0, 2.0, 3.0, 4.0], pl.Float64),
    ],
)
def test_labels_are_sorted_and_keep_their_type(
    df: pl.DataFrame, target: pl.Expr, loss: str, classes: list[object], dtype: pl.DataType
) -> None:
    model = tg.Model(df.select(tg.fit_gbdt(target.alias("t"), FEATURES, rounds=3, loss=loss)).item())
    assert model.classes == classes
    got = column(df, model, "class")
    assert got.dtype == dtype
    assert set(got.unique()) <= set(classes)


def test_numbers_are_a_regression_unless_the_loss_says_otherwise(df: pl.DataFrame) -> None:
    assert tg.Model(df.select(tg.fit_gbdt("group", FEATURES, rounds=2)).item()).loss == "rmse"
    assert tg.Model(df.select(tg.fit_gbdt("flag", FEATURES, rounds=2, loss="rmse")).item()).classes is None


def test_leaf_and_staged(df: pl.DataFrame, regression: tg.Model, multiclass: tg.Model) -> None:
    leaf = column(df, regression, "leaf")
    assert leaf.dtype == pl.List(pl.UInt32)
    assert leaf.list.len().unique().to_list() == [20]
    trees = regression.trees()
    leaves = trees.filter(pl.col("leaf").is_not_null()).select("tree", "leaf", "value")
    start = pl.DataFrame({"row": range(df.height), "leaf": leaf, "y": column(df, regression)}).explode("leaf")
    start = start.with_columns(tree=pl.int_range(pl.len()).over("row").cast(pl.UInt32))
    sums = start.join(leaves, on=["tree", "leaf"]).group_by("row", "y").agg(pl.col("value").sum())
    offset = (sums["y"] - sums["value"]).to_list()
    assert max(offset) - min(offset) < 1e-6  # what is left is the start value
    staged = column(df, regression, "staged")
    assert staged.dtype == pl.List(pl.Float64)
    assert_series_equal(staged.list.last(), column(df, regression), check_exact=True, check_names=False)
    assert staged.list.len().unique().to_list() == [20]
    many = column(df, multiclass, "staged")
    assert many.dtype == pl.Struct({k: pl.List(pl.Float64) for k in ["low", "mid", "top"]})
    last = many.struct.unnest().select(pl.all().list.last())
    assert_frame_equal(last, column(df, multiclass).struct.unnest())


def test_columns_are_found_by_name_in_any_order_and_others_ignored(df: pl.DataFrame, regression: tg.Model) -> None:
    expected = column(df, regression)
    for frame in [df.select(reversed(df.columns)), df.with_columns(kind2=pl.lit("x"), more=pl.lit(None))]:
        assert_series_equal(column(frame, regression), expected)
    named = df.select(tg.predict(regression, "d", "kind", "b", pl.col("a"), pl.col("y", "c")))["prediction"]
    assert_series_equal(named, expected)
    assert_series_equal(df.select(tg.predict(regression, pl.struct(pl.all())))["prediction"], expected)
    assert_series_equal(df.select(tg.predict(regression.to_bytes()))["prediction"], expected)


def test_missing_columns_are_all_named(df: pl.DataFrame, regression: tg.Model) -> None:
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="b"):
        df.drop("b", "d").select(tg.predict(regression))
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        df.drop(FEATURES).select(tg.predict(regression))
    with pytest.raises(pl.exceptions.ComputeError, match=r"predict: .*`b` \(numeric\), `d` \(numeric\)"):
        df.select(tg.predict(regression, "a", "c"))


def test_a_changed_type_is_named(df: pl.DataFrame, regression: tg.Model) -> None:
    for dtype in [pl.String, pl.Date, pl.Duration]:
        changed = df.with_columns(pl.col("a").fill_nan(None).cast(pl.Int32).cast(dtype))
        with pytest.raises(pl.exceptions.ComputeError, match=r"`a`"):
            changed.select(tg.predict(regression))


def test_any_number_serves_for_any_other(df: pl.DataFrame) -> None:
    ints = df.with_columns(pl.col("a").round().cast(pl.Int16), pl.col("d") > 0)
    model = ints.taiga.fit_gbdt("y", "a", "d", rounds=5)
    expected = column(ints, model)
    wide = getattr(pl, "Int128", pl.Int64)
    for a, d in [
        (pl.Float32, pl.Int8),
        (pl.Float64, pl.UInt64),
        (wide, pl.Float32),
        (pl.Decimal(20, 3), pl.Boolean),
    ]:
        assert_series_equal(column(ints.with_columns(pl.col("a").cast(a), pl.col("d").cast(d)), model), expected)


def test_every_accepted_type_fits_and_predicts() -> None:
    n = 200
    day = pl.date_range(date(2024, 1, 1), date(2024, 1, 1) + timedelta(days=n - 1), eager=True)
    x = pl.DataFrame({"x": range(n)})
    columns = {
        **{str(t): x["x"].cast(t) for t in [pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Int8, pl.Int16][:4]},
        **{str(t): (x["x"] - 100).cast(t) for t in [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Float32, pl.Float64]},
        "bool": x["x"] >= 100,
        "decimal": x["x"].cast(pl.Decimal(20, 3)),
        "date": day,
        "datetime_ms": day.cast(pl.Datetime("ms")),
        "datetime_ns": day.cast(pl.Datetime("ns")),
        "zoned": day.cast(pl.Datetime("us", "UTC")),
        "duration": pl.Series([timedelta(hours=i) for i in range(n)]),
        "time": pl.Series([time(i // 60, i % 60) for i in range(n)]),
        "null": pl.Series([None] * n),
    }
    for name in ["Float16", "Int128", "UInt128"]:
        if hasattr(pl, name):
            columns[name] = x["x"].cast(getattr(pl, name))
    df = pl.DataFrame(columns).with_columns(y=x["x"] >= 100)
    names = list(columns)
    model = df.taiga.fit_gbdt("y", names, rounds=2)
    assert list(model.features) == names
    assert model.features["zoned"] == "datetime[us]"
    for name in set(names) - {"null"}:
        alone = df.taiga.fit_gbdt("y", name, rounds=30)
        p = df.select(tg.predict(alone))["prediction"]
        assert ((p > 0.5) == df["y"]).all(), name
    assert df.select(tg.predict(df.taiga.fit_gbdt("y", "null", "bool", rounds=2))).height == n
    with pytest.raises(pl.exceptions.ComputeError, match="datetime"):
        df.with_columns(pl.col("datetime_ms").cast(pl.Datetime("us"))).select(tg.predict(model))


def test_model_expressions_announce_their_type(df: pl.DataFrame, multiclass: tg.Model, binary: tg.Model) -> None:
    struct = pl.Struct({"low": pl.Float64, "mid": pl.Float64, "top": pl.Float64})
    lit = pl.lit(multiclass.to_bytes())
    got = df.select(tg.predict(lit, FEATURES, dtype=struct))
    assert_frame_equal(got, df.select(tg.predict(multiclass)))
    got = df.select(tg.predict(lit, FEATURES, output="class", dtype=pl.String))
    assert_frame_equal(got, df.select(tg.predict(multiclass, output="class")))
    got = df.select(tg.predict(pl.lit(binary.to_bytes()), FEATURES, output="class", dtype=pl.Boolean))
    assert_frame_equal(got, df.select(tg.predict(binary, output="class")))
    with pytest.raises(pl.exceptions.ComputeError, match="planned for f64"):
        df.select(tg.predict(lit, FEATURES))
    with pytest.raises(ValueError, match="needs dtype="):
        tg.predict(lit, FEATURES, output="class")
    with pytest.raises(ValueError, match="name the features"):
        tg.predict(lit)
    with pytest.raises(ValueError, match="output='probability'"):
        tg.predict(binary, output="probability")  # type: ignore[arg-type]


@pytest.mark.skipif(POLARS < (1, 36), reason="older versions take some names for patterns everywhere")
def test_names_that_look_like_patterns(df: pl.DataFrame) -> None:
    odd = {"a": "^a.*$", "b": "*", "c": "ü ", "d": ""}
    renamed = df.rename(odd)
    model = renamed.taiga.fit_gbdt("y", pl.exclude("y", "flag", "kind", "group", "held", "w"), rounds=3)
    assert list(model.features) == list(odd.values())
    same = df.taiga.fit_gbdt("y", FEATURES, rounds=3)
    assert_series_equal(renamed.select(tg.predict(model))["prediction"], column(df, same))


def test_datetime_target_is_refused(df: pl.DataFrame) -> None:
    with pytest.raises(pl.exceptions.ComputeError, match="cast it"):
        df.select(tg.fit_gbdt(pl.lit(datetime(2024, 1, 1)).alias("t"), FEATURES))

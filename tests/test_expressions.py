"""Where the expressions may stand: select, with_columns, group_by, over, streams and sinks."""

from __future__ import annotations

import inspect
import math
from pathlib import Path

import polars as pl
import polars.selectors as cs
import polars_taiga as tg
import pytest
from polars.testing import assert_frame_equal, assert_series_equal

FEATURES = list("abcd")


def test_fit_is_one_binary_value_named_model(df: pl.DataFrame, regression: tg.Model) -> None:
    out = df.lazy().select(tg.fit_gbdt("y", FEATURES, rounds=20))
    assert out.collect_schema() == {"model": pl.Binary}
    assert out.collect().item() == regression.to_bytes()
    beside = df.select("y", m=tg.fit_gbdt("y", FEATURES, rounds=20))
    assert beside["m"].n_unique() == 1
    assert beside["m"][0] == regression.to_bytes()
    assert beside.height == df.height


def test_fit_in_with_columns_and_predict_in_the_same_query(df: pl.DataFrame, regression: tg.Model) -> None:
    fitted = df.lazy().with_columns(m=tg.fit_gbdt("y", FEATURES, rounds=20)).with_columns(p=tg.predict("m", FEATURES))
    expected = df.select(p=tg.predict(regression))
    assert_frame_equal(fitted.select("p").collect(), expected)


def test_group_by_gives_the_models_of_each_group_alone(df: pl.DataFrame) -> None:
    models = df.group_by("group").agg(tg.fit_gbdt("y", FEATURES, rounds=5, weight="w")).sort("group")
    assert models.schema == {"group": pl.Int64, "model": pl.Binary}
    for group, model in models.rows():
        alone = df.filter(pl.col("group") == group).select(tg.fit_gbdt("y", FEATURES, rounds=5, weight="w")).item()
        assert model == alone, group


def test_over_gives_every_row_its_groups_model(df: pl.DataFrame) -> None:
    over = df.select("group", tg.fit_gbdt("y", FEATURES, rounds=5).over("group"))
    models = df.group_by("group").agg(tg.fit_gbdt("y", FEATURES, rounds=5))
    assert_frame_equal(over.unique().sort("group"), models.sort("group"))


def test_one_model_a_row_predicts_as_each_model_alone(df: pl.DataFrame) -> None:
    models = df.group_by("group").agg(tg.fit_gbdt("y", FEATURES, rounds=5))
    joined = (
        df.join(models, on="group", how="left", maintain_order="left")
        if "maintain_order" in _join_parameters()
        else df.join(models, on="group", how="left")
    )
    got = joined.with_columns(p=tg.predict("model", FEATURES))
    for group, model in models.rows():
        part = got.filter(pl.col("group") == group)
        assert_series_equal(part["p"], part.select(p=tg.predict(model))["p"])


def _join_parameters() -> set[str]:
    import inspect

    return set(inspect.signature(pl.DataFrame.join).parameters)


def test_a_null_model_gives_a_null_prediction(df: pl.DataFrame, regression: tg.Model) -> None:
    some = pl.when(pl.col("held")).then(pl.lit(regression.to_bytes()))
    got = df.select("held", p=tg.predict(some, FEATURES), all=tg.predict(regression))
    assert got.filter("held").select((pl.col("p") == pl.col("all")).all()).item()
    assert got.filter(~pl.col("held"))["p"].null_count() == df.height - df["held"].sum()
    none = df.select(p=tg.predict(pl.lit(None, dtype=pl.Binary), FEATURES))
    assert none["p"].null_count() == df.height


def test_features_by_name_list_selector_expression_and_struct_are_the_same(df: pl.DataFrame) -> None:
    ways = [
        tg.fit_gbdt("y", "a", "b", "c", "d", rounds=5),
        tg.fit_gbdt("y", ["a", "b"], ["c", "d"], rounds=5),
        tg.fit_gbdt("y", pl.col("a", "b", "c", "d"), rounds=5),
        tg.fit_gbdt("y", cs.by_name(FEATURES), rounds=5),
        tg.fit_gbdt("y", pl.exclude("y", "flag", "kind", "group", "held", "w"), rounds=5),
        tg.fit_gbdt("y", pl.struct(FEATURES), rounds=5),
        tg.fit_gbdt("y", pl.col("a"), pl.col("b"), cs.by_name("c", "d"), rounds=5),
        pl.col("y").taiga.fit_gbdt(FEATURES, rounds=5),
    ]
    models = [df.select(way).item() for way in ways]
    assert all(m == models[0] for m in models)
    # Of expressions and of a struct's fields the same trees, in a model that knows that they are no columns.
    computed = [
        df.taiga.fit_gbdt("y", pl.col("a") * 1, pl.col("b"), cs.by_name("c", "d"), rounds=5),
        df.with_columns(s=pl.struct(FEATURES)).taiga.fit_gbdt("y", "s", rounds=5),
    ]
    assert [m.computed_features for m in computed] == [["a"], []]
    assert computed[1].structs == {"s": FEATURES}
    assert all(m.trees().equals(tg.Model(models[0]).trees()) for m in computed)


def test_a_null_struct_is_null_in_each_field(df: pl.DataFrame) -> None:
    s = pl.when(pl.col("held")).then(None).otherwise(pl.struct(FEATURES)).alias("s")
    flat = [pl.when(pl.col("held")).then(None).otherwise(pl.col(f)).alias(f) for f in FEATURES]
    by_struct = df.with_columns(s).taiga.fit_gbdt("y", "s", rounds=5)
    by_fields = df.taiga.fit_gbdt("y", flat, rounds=5)
    # One knows the struct, the other that its features were computed.
    assert (by_struct.structs, by_fields.computed_features) == ({"s": FEATURES}, FEATURES)
    assert by_struct.borders == by_fields.borders
    assert by_struct.trees().equals(by_fields.trees())


def test_target_by_expression_keeps_its_name(df: pl.DataFrame) -> None:
    model = tg.Model(df.select(tg.fit_gbdt(pl.col("y") > 0, FEATURES, rounds=3)).item())
    assert (model.target, model.classes) == ("y", [False, True])
    lagged = df.select(tg.fit_gbdt("y", pl.col("y").shift(1), "a", rounds=3)).item()
    assert list(tg.Model(lagged).features) == ["y", "a"]


def test_predict_streams_and_sinks(df: pl.DataFrame, regression: tg.Model, tmp_path: Path) -> None:
    big = pl.concat([df] * 100)
    big.write_parquet(tmp_path / "in.parquet", row_group_size=50_000)
    lf = pl.scan_parquet(tmp_path / "in.parquet").with_columns(p=tg.predict(regression))
    lf.select("y", "p").sink_parquet(tmp_path / "out.parquet")
    got = pl.read_parquet(tmp_path / "out.parquet")
    once = df.select("y", p=tg.predict(regression))
    assert_frame_equal(got, pl.concat([once] * 100), check_exact=True)
    # In memory, where the rows are dealt to threads by the plugin itself.
    assert_frame_equal(big.select("y", p=tg.predict(regression)), got, check_exact=True)


@pytest.mark.parametrize("rows", [0, 1])
def test_predict_for_no_row_and_one(df: pl.DataFrame, multiclass: tg.Model, rows: int) -> None:
    for output in ["auto", "raw", "class", "leaf", "staged"]:
        lf = df.lazy().head(rows).select(tg.predict(multiclass, output=output))
        assert lf.collect().height == rows
        assert lf.collect().schema == lf.collect_schema()


def test_namespaces(df: pl.DataFrame, regression: tg.Model) -> None:
    model = df.lazy().taiga.fit_gbdt("y", FEATURES, rounds=20)
    assert model == regression
    expected = df.with_columns(score=tg.predict(regression))
    assert_frame_equal(df.taiga.predict(model, name="score"), expected)
    assert_frame_equal(df.lazy().taiga.predict(model, name="score").collect(), expected)
    with_model = df.select(pl.lit(model.to_bytes()).taiga.predict(FEATURES).alias("score"))
    assert_frame_equal(with_model, expected.select("score"))


METHODS = [
    (of, name)
    for of in (pl.Expr, pl.LazyFrame, pl.DataFrame)
    for name in dir(of().taiga if of is not pl.Expr else pl.col("x").taiga)
    if not name.startswith("_") and callable(getattr(tg, name, None))
]
WHAT_FRAMES_HAVE = {"engine", "batches", "spill", "name"}


@pytest.mark.parametrize(("of", "name"), METHODS, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_methods_take_what_their_functions_take(of: type, name: str) -> None:
    """Proves that completion and type checkers see every parameter of a verb in the namespace too, in its order."""
    method, function = getattr((pl.col("x") if of is pl.Expr else of()).taiga, name), getattr(tg, name)
    of_method, of_function = (list(inspect.signature(f).parameters.values()) for f in (method, function))
    # The method has not what its expression stands for: one of several `cats`, or the first parameter but for these.
    of_expr = {"fit_gbdt_by": "target", "calibrate": "predicted", "encode": "cats", "combine": None}
    stands_for = of_expr.get(name, of_function[0].name) if of is pl.Expr else None
    wanted = [p for p in of_function if p.name != stands_for]
    assert sorted(p.name for p in of_method if p.name not in WHAT_FRAMES_HAVE) == sorted(p.name for p in wanted)
    defaults = {p.name: p.default for p in wanted}
    for parameter in of_method:
        # Of those that a method hands on as they are it shows that they have a default, which the function knows.
        if parameter.name not in WHAT_FRAMES_HAVE and parameter.default is not ...:
            assert parameter.default == defaults[parameter.name], parameter.name


def test_frames_return_none_where_an_error_makes_null() -> None:
    """Proves that `on_error="null"` of folds and of a search is None of a frame, as of a fit."""
    df = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 2.0, math.inf, 4.0]})
    space = {"depth": [1, 2]}
    for frame in (df, df.lazy()):
        assert frame.taiga.cross_validate("y", "x", folds=2, rounds=2, on_error="null") is None
        assert frame.taiga.search("y", "x", space=space, folds=2, rounds=2, on_error="null") is None
        with pytest.raises(pl.exceptions.ComputeError, match="`y`"):
            frame.taiga.cross_validate("y", "x", folds=2, rounds=2)
    fine = df.with_columns(y=pl.col("x"))
    for expr in (
        pl.col("y").taiga.cross_validate("x", folds=2, rounds=2),
        tg.cross_validate("y", "x", folds=2, rounds=2),
    ):
        assert_frame_equal(
            pl.DataFrame(fine.select(expr).item().to_list()),
            fine.taiga.cross_validate("y", "x", folds=2, rounds=2),
            check_dtypes=False,
        )
    searched = fine.with_columns(k=1).select(
        a=pl.col("y").taiga.search("x", space=space, folds=2, rounds=2),
        b=tg.search("y", "x", space=space, folds=2, rounds=2),
        c=pl.col("y").taiga.fit_gbdt_by("k", "x", rounds=2).struct.field("model").implode(),
    )
    assert searched["a"].to_list() == searched["b"].to_list()
    assert searched["c"].item().item() == fine.taiga.fit_gbdt("y", "x", rounds=2).to_bytes()


def test_sql_over_a_lazy_frame(df: pl.DataFrame, regression: tg.Model) -> None:
    context = pl.SQLContext(scored=df.lazy().with_columns(p=tg.predict(regression)))
    got = context.execute("SELECT AVG(p) AS p FROM scored", eager=True)
    assert got.item() == pytest.approx(df["y"].mean(), abs=0.2)


def test_weight_baseline_and_eval_take_expressions(df: pl.DataFrame) -> None:
    fit = df.select(
        tg.fit_gbdt(
            "y",
            FEATURES,
            rounds=30,
            weight=pl.col("w") * 2,
            baseline=pl.col("a") * 0.5,
            eval=pl.col("group") == 0,
            early_stopping=5,
        )
    ).item()
    model = tg.Model(fit)
    assert model.history.height >= model.rounds
    assert model.history["best"].sum() == 1
    assert model.history.columns == ["round", "rmse", "best"]


def test_quantize_and_borders(df: pl.DataFrame) -> None:
    out = df.select(tg.borders(cs.by_name(FEATURES), 16))
    assert out.schema == dict.fromkeys(FEATURES, pl.List(pl.Float64))
    assert out.height == 1
    borders = out["a"][0].to_list()
    assert borders == sorted(borders)
    assert 1 <= len(borders) <= 16
    codes = df.select(tg.quantize(cs.by_name(FEATURES), 16))
    assert codes.schema == dict.fromkeys(FEATURES, pl.UInt8)
    naive = [None if x is None or x != x else sum(b < x for b in borders) for x in df["a"]]
    assert codes["a"].to_list() == naive
    assert codes["b"].null_count() == df["b"].null_count()
    assert codes["c"].null_count() == df["c"].is_nan().sum()
    assert_series_equal(df.select(tg.quantize("a", borders=borders))["a"], codes["a"])
    assert_series_equal(df.select(tg.quantize("a", 16, borders=tg.borders("a", 16)))["a"], codes["a"])
    assert_series_equal(df.select(pl.col("a").taiga.quantize(16))["a"], codes["a"])


@pytest.mark.parametrize("method", ["quantile", "uniform", "greedy_logsum", "min_max_entropy"])
@pytest.mark.parametrize("bins", [2, 3, 256, 257, 1001])
def test_border_methods_and_the_type_of_codes(df: pl.DataFrame, method: str, bins: int) -> None:
    borders = df.select(tg.borders("y", bins, method=method)).item().to_list()
    assert 0 < len(borders) < bins
    codes = df.select(tg.quantize("y", bins, method=method))["y"]
    assert codes.dtype == (pl.UInt8 if bins <= 256 else pl.UInt16)
    assert codes.max() == len(borders)
    assert codes.n_unique() <= bins
    assert codes.to_list() == [sum(b < x for b in borders) for x in df["y"]]


def test_quantize_in_chunks_and_slices(df: pl.DataFrame) -> None:
    chunked = pl.concat([df[i : i + 100] for i in range(0, df.height, 100)], rechunk=False)
    for e in [tg.quantize("b", 32), tg.quantize("b", borders=[-1.0, 0.0, 1.0])]:
        assert_frame_equal(chunked.select(e), df.select(e))
    assert_frame_equal(df[500:900].select(tg.borders("b")), df[500:900].clone().rechunk().select(tg.borders("b")))

"""Tables at the edge: no rows, hardly any, one value, odd numbers. An error that reads, or a result; never a panic."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import polars as pl
import polars_taiga as tg
import pytest

NAN, INF = math.nan, math.inf
F = pl.Float64


@pytest.mark.parametrize(
    ("columns", "params"),
    [
        ({"c": list("abc")}, {}),
        ({"c": list("aaa")}, {}),
        ({"c": [None, None, None]}, {}),
        ({"c": ["", None, ""]}, {}),
        ({"c": list("abc"), "d": list("xyz")}, {}),
        ({"c": list("abc"), "d": list("xxx")}, {"feature_fraction": 0.5}),
        ({"c": list("abc")}, {"policy": "depthwise"}),
        ({"c": list("abc")}, {"policy": "leafwise", "cat_method": "partition", "one_hot_max_size": 1}),
        ({"c": [1.5, 1.5, 1.5]}, {}),
        ({"c": [NAN, None, NAN]}, {}),
        ({"c": [INF, INF, INF]}, {}),
    ],
)
def test_text_and_constants_without_anything_to_split_on(columns: dict[str, list[Any]], params: dict[str, Any]) -> None:
    df = pl.DataFrame(
        {**columns, "y": [0.0, 1.0, 2.0]}, schema_overrides={"c": pl.String} if columns["c"][:1] == [None] else {}
    )
    model = df.taiga.fit_gbdt("y", pl.exclude("y"), **params)
    assert len(df.select(tg.predict(model))["prediction"].drop_nulls()) == 3
    # Nothing about ids of one row each can be learned: the mean.
    assert df.with_columns(c=df["c"].shift(1)).select(tg.predict(model)).height == 3


@pytest.mark.parametrize("target", ["flag", "kind"])
def test_float_target_mean_value_with_classes(target: str) -> None:
    df = pl.DataFrame({"c": [f"k{i % 17}" for i in range(300)]}).with_columns(
        flag=pl.col("c").is_in([f"k{i}" for i in range(6)]),
        kind=pl.col("c").str.slice(1).cast(pl.Int64).floordiv(6).cast(pl.String),
    )
    model = df.taiga.fit_gbdt(target, "c", ctr=["float_target_mean_value"], rounds=30)
    classes = df.select(tg.predict(model, output="class"))["prediction"]
    assert (classes == df[target]).mean() > 0.95


EXPRESSIONS: dict[str, tuple[pl.Expr, Any]] = {
    "quantize": (tg.quantize("x"), pl.Series("x", [], pl.UInt8)),
    "quantize wide": (tg.quantize("x", 1000), pl.Series("x", [], pl.UInt16)),
    "quantize by borders": (tg.quantize("x", borders=[0.0, 1.0]), pl.Series("x", [], pl.UInt8)),
    "quantize integers": (tg.quantize("i"), pl.Series("i", [], pl.UInt8)),
    "borders": (tg.borders("x"), [[]]),
    "min_max": (tg.min_max("x"), [{"min": None, "max": None}]),
    "min_max of times": (tg.min_max("d"), [{"min": None, "max": None}]),
    "target_encode": (tg.target_encode("s", "x"), pl.Series("s", [], F)),
    "target_encode kfold": (tg.target_encode("s", "x", kind="kfold"), pl.Series("s", [], F)),
    "target_encode loo": (tg.target_encode("s", "x", kind="loo"), pl.Series("s", [], F)),
    "target_encode full": (tg.target_encode("s", "x", kind="full"), pl.Series("s", [], F)),
    "target_encode classes": (
        tg.target_encode("s", "s", classes=["a", "b"]),
        pl.Series("s", [], pl.Struct({"a": F, "b": F})),
    ),
    "target_encode in order": (tg.target_encode("s", "x", order_by="d"), pl.Series("s", [], F)),
    "target_encode in folds": (tg.target_encode("s", "x", kind="kfold", folds="i"), pl.Series("s", [], F)),
    "woe": (tg.woe("s", "b"), pl.Series("s", [], F)),
    "information_value": (tg.information_value("s", "b"), [None]),
    "count_encode": (tg.count_encode("s"), pl.Series("s", [], pl.UInt32)),
    "count_encode shares": (tg.count_encode("s", normalize=True), pl.Series("s", [], F)),
    "combine": (tg.combine("s", "i"), pl.Series("combination", [], pl.UInt32)),
}


def empty() -> pl.DataFrame:
    return pl.DataFrame(schema={"x": F, "i": pl.Int64, "d": pl.Date, "s": pl.String, "b": pl.Boolean})


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_of_no_rows(name: str) -> None:
    expr, want = EXPRESSIONS[name]
    for df in [empty(), empty().lazy().filter(pl.col("x") > 1).collect(), pl.concat([empty(), empty()], rechunk=False)]:
        schema = df.lazy().select(expr).collect_schema()
        for out in [df.select(expr), df.lazy().select(expr).collect(engine="streaming")]:
            assert out.schema == schema
            got = out.to_series()
            if isinstance(want, pl.Series):
                assert got.dtype == want.dtype
                assert len(got) == 0
            else:
                assert got.to_list() == want
    # An empty frame has no groups.
    assert empty().group_by("s").agg(expr.alias("out")).height == 0
    assert (
        empty().with_columns(expr.over("i").alias("out") if isinstance(want, pl.Series) else expr.alias("out")).height
        == 0
    )


@pytest.mark.parametrize("weights", [None, "x"])
def test_histograms_of_no_rows(weights: str | None) -> None:
    bins = empty().select(tg.histogram("x", 4, range=(0, 1), weights=weights)).item()
    assert bins.struct.field("weight" if weights else "count").to_list() == [0] * 4
    grid = empty().select(tg.histogram2d("x", "i", (2, 3), range=((0, 1), (0, 1)), weights=weights)).item()
    assert len(grid) == 6
    assert empty().select(tg.histogram("x", 4)).height == 1
    assert empty().group_by("s").agg(tg.histogram("x", 4)).height == 0


@pytest.mark.parametrize("make", [tg.fit_gbdt, tg.fit_forest])
def test_fits_and_predictions_of_no_rows(make: Callable[..., pl.Expr]) -> None:
    df = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "s": list("aabb"), "y": [1.0, 2.0, 3.0, 4.0], "k": list("uvuw")})
    # Polars asks once for what no group would be: only null can be told of no rows.
    assert df.clear().group_by("s").agg(make("y", "x", on_error="null")).schema["model"] == pl.Binary
    with pytest.raises(pl.exceptions.ComputeError, match=r"no rows.*on_error="):
        df.clear().group_by("s").agg(make("y", "x"))
    with pytest.raises(pl.exceptions.ComputeError, match="no rows"):
        df.clear().select(make("y", "x"))
    size = "rounds" if make is tg.fit_gbdt else "trees"
    for target in ["y", "k"]:
        model = tg.Model(df.select(make(target, "x", "s", **{size: 3})).item())
        outputs: list[Any] = ["auto", "leaf"] + (["class"] if target == "k" else [])
        for output in outputs:
            planned = df.lazy().select(tg.predict(model, output=output)).collect_schema()
            for out in [
                df.clear().select(tg.predict(model, output=output)),
                df.lazy().filter(pl.col("x") > 9).select(tg.predict(model, output=output)).collect(engine="streaming"),
            ]:
                assert out.schema == planned
                assert out.height == 0
    models = df.group_by("s").agg(make("y", "x", **{size: 2}))
    joined = df.clear().join(models, on="s").select(tg.predict("model", "x"))
    assert joined.schema == {"prediction": F}
    assert df.join(models.clear(), on="s", how="left").select(tg.predict("model", "x"))["prediction"].null_count() == 4


def test_lists_and_encoders_of_no_rows() -> None:
    df = pl.DataFrame({"l": [["a"], ["b"], [], None], "k": ["u", "v", "u", "v"], "y": [1.0, 2.0, 3.0, 4.0]})
    model = df.taiga.fit_sparse_lr("k", "l")
    assert df.clear().select(tg.predict(model)).schema == {"prediction": F}
    encoder = df.select(tg.fit_target_encoder("k", "y")).item()
    assert df.clear().select(tg.encode(encoder)).schema == {"k": F}
    many = df.lazy().with_columns(e=pl.lit(encoder)).filter(pl.col("y") > 9)
    assert many.select(tg.encode("e", "k")).collect().schema == {"k": F}
    encoders = df.clear().group_by("k").agg(tg.fit_target_encoder("k", "y", on_error="null").alias("e"))
    assert encoders.schema == {"k": pl.String, "e": pl.Binary}


VALUES: dict[str, list[Any]] = {
    "zeros": [0.0, -0.0, 0.0],
    "NaN": [NAN, NAN, NAN],
    "infinite": [INF, -INF, INF],
    "huge": [1e308, -1e308, 1e308],
    "tiny": [5e-324, 0.0, -5e-324],
    "nulls": [None, None, None],
    "mixed": [None, NAN, 1.0],
    "steps": [1.0, 2.0, 3.0],
}

STATISTICS: list[Callable[[str], pl.Expr]] = [
    lambda c: tg.quantize(c),
    lambda c: tg.borders(c),
    lambda c: tg.borders(c, 3, method="uniform"),
    lambda c: tg.borders(c, 3, method="greedy_logsum"),
    lambda c: tg.borders(c, 3, method="min_max_entropy"),
    lambda c: tg.min_max(c),
    lambda c: tg.histogram(c, 3),
    lambda c: tg.histogram(c),
    lambda c: tg.histogram2d(c, c, (2, 2)),
    lambda c: tg.target_encode("s", c),
    lambda c: tg.woe("s", c),
    lambda c: tg.count_encode("s"),
    lambda c: tg.fit_gbdt(c, "x", rounds=2),
    lambda c: tg.fit_gbdt("x", c, "t", rounds=2),
    lambda c: tg.fit_gbdt("t", c, rounds=2),
    lambda c: tg.fit_gbdt("x", "z", weight=c, rounds=2),
    lambda c: tg.fit_gbdt("x", "z", baseline=c, rounds=2),
    lambda c: tg.fit_gbdt("x", c, rounds=2, loss="poisson", policy="leafwise"),
    lambda c: tg.fit_gbdt("x", c, rounds=2, loss="quantile", policy="depthwise", row_sample="mvs"),
    lambda c: tg.fit_forest(c, "x", trees=2),
    lambda c: tg.fit_forest("x", c, "t", trees=2),
    lambda c: tg.fit_forest("t", c, trees=2, permutation_importance=True),
    lambda c: tg.fit_forest("x", c, trees=2, splitter="random", weight=c),
    lambda c: tg.fit_forest("x", c, trees=2, splitter="exact"),
    lambda c: tg.fit_sparse_lr("t", dense=c),
    lambda c: tg.fit_sparse_lr("t", "l", weight=c),
    lambda c: tg.fit_sparse_lr("t", "l", pl.concat_list(c), optimizer="ftrl"),
    lambda c: tg.fit_target_encoder("s", c),
    lambda c: tg.fit_target_encoder("s", "x", weight=c),
]


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
@pytest.mark.parametrize("values", VALUES)
def test_nothing_panics(values: str, rows: int) -> None:
    """Every expression over odd values and few rows gives a result or an error that reads."""
    df = pl.DataFrame(
        {
            "v": VALUES[values],
            "x": [1.0, 2.0, 2.0],
            "z": [1.0, 1.0, 1.0],
            "s": ["", "b", ""],
            "t": ["u", "u", ""],
            "l": [[0], [1], [7]],
        },
        schema_overrides={"v": F},
    ).head(rows)
    for make, categorical in itertools.product(STATISTICS, [False, True]):
        column = "s" if categorical else "v"
        expr = make(column)
        if rows == 0 and pl.__version__.startswith("1.0.") and "list.concat" in str(expr):
            continue  # which panics in Polars itself
        for frame in [df, df.with_columns(v=pl.lit(None, dtype=F))]:
            try:
                out = frame.select(expr.alias("out"))
            except pl.exceptions.PolarsError as error:
                text = str(error)
                assert not any(word in text for word in ["a bug in", "PANIC", "panicked"]), (expr, text)
            else:
                assert out.height <= max(rows, 1)


@pytest.mark.parametrize("scale", [1e100, 1e200, 1e-100])
def test_dense_columns_of_extreme_size(scale: float) -> None:
    """Columns that no coefficient can be found for are refused by name and row; they were given 0, converged."""
    df = pl.DataFrame({"x": [0.0, 1.0, 2.0, 3.0] * 10, "y": [False, False, True, True] * 10})
    big = df.with_columns(pl.col("x") * scale)
    if scale > 1:
        with pytest.raises(pl.exceptions.ComputeError, match=r"column `x`: the value 1e\d+ in row 1 is .*scale"):
            big.taiga.fit_sparse_lr("y", dense="x")
    else:
        with pytest.raises(pl.exceptions.ComputeError, match=r"column `x`: its largest value is 3e-100.*scale"):
            big.taiga.fit_sparse_lr("y", dense="x", l2=0.0)
        # A penalty holds such a coefficient at 0, rightly.
        assert big.taiga.fit_sparse_lr("y", dense="x").coefficients().height == 0


@pytest.mark.parametrize("optimizer", ["lbfgs", "sgd", "adagrad", "ftrl"])
def test_values_of_lists_of_extreme_size(optimizer: str) -> None:
    df = pl.DataFrame({"i": [[0], [0, 1], [1]] * 5, "v": [[1.0], [2.0, 1e30], [3.0]] * 5, "y": [True, False, True] * 5})
    with pytest.raises(pl.exceptions.ComputeError, match=r"column `v`: the value 1e30 in row 1 is beyond 1e18"):
        df.taiga.fit_sparse_lr("y", "i", "v", optimizer=optimizer)  # type: ignore[arg-type]


@pytest.mark.parametrize("exponent", [-20, -10, 0, 10, 17])
def test_the_scale_of_a_dense_column_does_not_matter(exponent: int) -> None:
    """Without a penalty a coefficient times its column is the same at every scale."""
    df = pl.DataFrame(
        {"x": [0.0, 1.0, 2.0, 3.0] * 10, "y": [i % 7 == 0 if i % 4 > 1 else i % 7 != 0 for i in range(40)]}
    )
    scaled = df.with_columns(pl.col("x") * 10.0**exponent)
    one, other = (d.taiga.fit_sparse_lr("y", dense="x", l2=0.0, tolerance=1e-8) for d in (df, scaled))
    got, want = other.coefficients()["coefficient"].item() * 10.0**exponent, one.coefficients()["coefficient"].item()
    assert got == pytest.approx(want, rel=1e-4)


@pytest.mark.parametrize(
    "fit",
    [
        lambda df: df.select(tg.fit_gbdt("y", "__taiga_x", "a", rounds=2)),
        lambda df: df.select(tg.fit_forest("y", "__taiga_x", "a", trees=2)),
        lambda df: df.select(tg.fit_gbdt("y", pl.exclude("y"), rounds=2)),
        lambda df: df.select(tg.fit_target_encoder("__taiga_x", "y")),
        lambda df: df.taiga.fit_gbdt("y", pl.exclude("y"), rounds=2),
        lambda df: df.rename({"__taiga_x": "__taiga_weight"}).select(tg.fit_gbdt("y", "__taiga_weight", "a", rounds=2)),
        lambda df: (
            df.rename({"__taiga_x": "__taiga_computed_0"})
            .lazy()
            .select(tg.fit_gbdt("y", pl.exclude("y")))
            .collect_schema()
        ),
    ],
)
def test_names_that_are_reserved_are_an_error(fit: Callable[[pl.DataFrame], object]) -> None:
    """Proves that no feature is taken for something else by its name, when the query is planned already."""
    df = pl.DataFrame({"__taiga_x": [1, 2, 3, 4], "a": [4.0, 3.0, 2.0, 1.0], "y": [1.0, 2.0, 1.0, 2.0]})
    with pytest.raises(
        pl.exceptions.PolarsError, match=r"column `__taiga_\w+`: names that begin with `__taiga_` are reserved"
    ):
        fit(df)


@pytest.mark.parametrize("target", [pl.struct("a", "y"), pl.struct("y", z="a")])
def test_a_target_of_several_is_no_feature(target: pl.Expr) -> None:
    """Proves that each of several targets is told among the features, under its own name alone."""
    df = pl.DataFrame({"a": [4.0, 3.0, 2.0, 1.0], "b": [1, 2, 1, 3], "y": [1.0, 2.0, 1.0, 2.0]})
    with pytest.raises(pl.exceptions.ComputeError, match=r"column `y`: the target is among the features"):
        df.select(tg.fit_gbdt(target, "y", "b", rounds=2))
    assert len(df.select(tg.fit_gbdt(target, "b", rounds=2))) == 1


def test_nan_is_no_fold() -> None:
    """Proves that folds and times that are not a number are an error, as null times are."""
    df = pl.DataFrame({"a": range(8), "y": [1.0, 2.0] * 4, "f": [0.0, 1.0, NAN, 0.0, 1.0, 0.0, 1.0, NAN]})
    with pytest.raises(pl.exceptions.ComputeError, match=r"column `f`: it is NaN in 2 of 8 rows"):
        df.taiga.cross_validate("y", "a", folds="f", rounds=2)
    with pytest.raises(pl.exceptions.ComputeError, match=r"column `f`: it is NaN in 2 of 8 rows"):
        df.taiga.cross_validate("y", "a", folds="time", fold_by="f", n_folds=2, rounds=2)


@pytest.mark.parametrize(
    "fit", [lambda df: df.taiga.fit_gbdt("y", "a", rounds=2), lambda df: df.taiga.fit_forest("y", "a", trees=2)]
)
def test_labels_with_the_character_nul_are_an_error(fit: Callable[[pl.DataFrame], object]) -> None:
    """Proves that no model has a class whose probability can't be given under its name."""
    df = pl.DataFrame({"a": range(8), "y": ["u", "v\0", "w", "u"] * 2})
    with pytest.raises(pl.exceptions.ComputeError, match=r"column `y`: its label .* has the character NUL"):
        fit(df)

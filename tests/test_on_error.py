"""`on_error=`: what becomes of a group whose rows can't be fitted, while the others are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import polars as pl
import polars_taiga as tg
import pytest

Compute = pl.exceptions.ComputeError
NAN = math.nan


def groups() -> pl.DataFrame:
    """A good group, one of a single row, one of one class, one without two values of a feature."""
    good = [("good", float(i), i > 10, "b" if i > 10 else "a", float(i)) for i in range(20)]
    few = [("few", 1.0, True, "a", 3.5)]
    alike = [("alike", float(i), False, "a", 2.0) for i in range(4)]
    flat = [("flat", 7.0, i % 4 == 0, "b" if i % 4 else "a", float(i)) for i in range(8)]
    return pl.DataFrame(
        [*good, *few, *alike, *flat], schema=["g", "x", "flag", "kind", "y"], orient="row"
    ).with_columns(tokens=pl.concat_list(pl.col("x").cast(pl.Int64)))


FITS: dict[str, Callable[..., pl.Expr]] = {
    "gbdt": lambda target, **p: tg.fit_gbdt(target, "x", rounds=5, **p),
    "forest": lambda target, **p: tg.fit_forest(target, "x", trees=5, **p),
    "sparse_lr": lambda target, **p: tg.fit_sparse_lr(target, "tokens", **p),
}


def by_group(fit: pl.Expr, df: pl.DataFrame | None = None) -> dict[str, bytes | None]:
    df = groups() if df is None else df
    return dict(df.group_by("g", maintain_order=True).agg(fit).rows())


def joined(df: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    """The rows of `df`, in their order, beside those of a table by group."""
    return df.with_row_index("__row").join(table, on="g").sort("__row").drop("__row")


def predicted(models: dict[str, bytes | None], df: pl.DataFrame | None = None, **params: Any) -> dict[str, list[Any]]:
    """Predictions by group, from a column of models, as group_by, join and predict give them."""
    df = groups() if df is None else df
    table = pl.DataFrame(
        {"g": list(models), "model": list(models.values())}, schema={"g": pl.String, "model": pl.Binary}
    )
    out = joined(df, table).select("g", p=tg.predict("model", "x", "tokens", **params))
    return dict(out.group_by("g", maintain_order=True).agg("p").rows())


@pytest.mark.parametrize("learner", FITS)
def test_raise_is_the_default_and_says_which_rows(learner: str) -> None:
    fit = FITS[learner]
    with pytest.raises(Compute, match=r"1 training row: .*\(a fit of 1 row, whose first `flag` is true; on_error="):
        by_group(fit("flag"), groups().filter(pl.col("g") == "few"))
    with pytest.raises(
        Compute, match=r'column `kind`: all 4 rows are of one class, "a": .*4 rows, whose first `kind` is "a"'
    ):
        by_group(fit("kind", on_error="raise"), groups().filter(pl.col("g") == "alike"))
    with pytest.raises(Compute, match="a fit of"):
        by_group(fit("flag"))


def test_the_first_target_is_shown_in_short() -> None:
    df = pl.DataFrame({"y": ["long " * 20] * 3, "x": [1, 2, 3]})
    with pytest.raises(Compute) as error:
        df.select(tg.fit_gbdt("y", "x"))
    assert 'whose first `y` is "long long' in str(error.value)
    assert "…" in str(error.value)


@pytest.mark.parametrize("target", ["flag", "kind"])
@pytest.mark.parametrize("learner", FITS)
def test_null_leaves_the_others(learner: str, target: str) -> None:
    fit = FITS[learner]
    models = by_group(fit(target, on_error="null"))
    assert [g for g, m in models.items() if m is None] == ["few", "alike"]
    # Those that can be fitted are what they are without the parameter: it is no part of a model.
    alone = groups().filter(pl.col("g") == "good").select(fit(target)).item()
    assert models["good"] == alone
    got = predicted(models)
    assert got["few"] == [None]
    assert got["alike"] == [None] * 4
    assert None not in got["good"] + got["flat"]


@pytest.mark.parametrize("learner", FITS)
def test_a_constant_is_the_share_of_the_classes(learner: str) -> None:
    fit = FITS[learner]
    got = predicted(by_group(fit("flag", on_error="constant")))
    assert got["few"] == pytest.approx([1], abs=1e-14)
    assert got["alike"] == pytest.approx([0] * 4, abs=1e-14)
    assert all(0 < p < 1 for p in got["flat"])
    # One label: its own probability, and the class is that label.
    models = by_group(fit("kind", on_error="constant"))
    got = predicted(models)
    assert got["few"] == pytest.approx([1], abs=1e-14)
    assert got["alike"] == pytest.approx([1] * 4, abs=1e-14)
    model = tg.Model(models["alike"] or b"")
    assert model.classes == ["a"]
    assert tg.Model.from_bytes(model.to_bytes()) == model
    assert predicted(models, output="class", dtype=pl.String)["alike"] == ["a"] * 4
    assert groups().select(tg.predict(model, output="class"))["prediction"].unique().to_list() == ["a"]
    assert groups().select(tg.predict(model)).schema == {"prediction": pl.Float64}
    assert model.to_json()
    assert repr(model)


@pytest.mark.parametrize("learner", ["gbdt", "forest"])
def test_a_constant_is_the_mean(learner: str) -> None:
    models = by_group(FITS[learner]("y", on_error="constant"))
    got = predicted(models)
    assert got["few"] == [3.5]
    assert got["flat"] == pytest.approx([3.5] * 8, rel=1e-6) if learner == "gbdt" else len(got["flat"]) == 8
    # Rows of one target are no fault: there is a mean to learn.
    assert got["alike"] == pytest.approx([2.0] * 4)
    model = tg.Model(models["few"] or b"")
    assert model.importance().to_dict(as_series=False) == {"feature": ["x"], "importance": [0.0]}
    assert model.trees().height == (0 if learner == "gbdt" else 1)
    with_null = groups().with_columns(x=pl.lit(None, dtype=pl.Float64))
    assert with_null.select(tg.predict(model))["prediction"].unique().to_list() == [3.5]


def test_a_constant_gbdt_has_no_trees_for_every_output() -> None:
    model = groups().filter(pl.col("g") == "few").taiga.fit_gbdt("y", "x", on_error="constant")
    assert model is not None
    assert model.rounds == 0
    df = pl.DataFrame({"x": [1.0, 2.0]})
    assert df.select(tg.predict(model, output="leaf"))["prediction"].to_list() == [[], []]
    assert df.select(tg.predict(model, output="staged"))["prediction"].to_list() == [[], []]
    assert df.select(tg.predict(model, output="raw"))["prediction"].to_list() == [3.5, 3.5]


@pytest.mark.parametrize("learner", FITS)
def test_where_no_row_counts_a_constant_is_null(learner: str) -> None:
    fit = FITS[learner]
    weightless = groups().with_columns(w=pl.when(pl.col("g") == "few").then(0.0).otherwise(1.0))
    models = by_group(fit("flag", weight="w", on_error="constant"), weightless)
    assert [g for g, m in models.items() if m is None] == ["few"]
    for on_error in ["null", "constant"]:
        assert groups().clear().select(fit("flag", on_error=on_error)).item() is None
    with pytest.raises(Compute, match="no rows"):
        groups().clear().select(fit("flag"))


@pytest.mark.parametrize("learner", ["gbdt", "sparse_lr"])
@pytest.mark.parametrize("marks", [True, False])
def test_held_out_rows_are_the_rows_own_too(learner: str, marks: bool) -> None:
    fit = FITS[learner]
    df = groups().filter(pl.col("g").is_in(["good", "alike"]))
    df = df.with_columns(e=pl.when(pl.col("g") == "good").then(pl.int_range(pl.len()) % 2 == 0).otherwise(marks))
    df = df.with_columns(flag=pl.int_range(pl.len()) % 3 == 0)
    p: dict[str, Any] = {"eval": "e", "early_stopping": 2}
    with pytest.raises(Compute, match="holds out"):
        by_group(fit("flag", **p), df)
    assert by_group(fit("flag", on_error="null", **p), df)["alike"] is None
    constant = by_group(fit("flag", on_error="constant", **p), df)["alike"]
    assert (constant is None) == marks
    # A metric that the held-out rows leave undefined.
    even = pl.int_range(pl.len()).over("g") % 2 == 0
    one = df.with_columns(e=even, flag=even | (pl.col("x") > 2))
    p = {"eval": "e", "metric": "auc"}
    with pytest.raises(Compute, match="auc"):
        by_group(fit("flag", **p), one)
    assert None not in by_group(fit("flag", on_error="constant", **p), one).values()


BAD_VALUES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "null target": ({"y": [None, 1.0]}, {}),
    "NaN target": ({"y": [NAN, 1.0]}, {}),
    "null in a single row": ({"y": pl.Series([None], dtype=pl.Float64), "x": [1.0], "w": [1.0], "e": [True]}, {}),
    "infinite target": ({"y": [math.inf, 1.0]}, {}),
    "outside the loss's domain": ({"y": [-1.0, 1.0]}, {"loss": "poisson"}),
    "negative weight": ({"w": [-1.0, 1.0]}, {"weight": "w"}),
    "null weight": ({"w": [None, 1.0]}, {"weight": "w"}),
    "null baseline": ({"w": [None, 1.0]}, {"baseline": "w"}),
    "null eval": ({"e": [None, True]}, {"eval": "e"}),
    "null label": ({"y": ["a", None]}, {}),
}


@pytest.mark.parametrize("case", BAD_VALUES)
def test_values_that_cannot_be_fitted_are_null_or_raised(case: str) -> None:
    columns, params = BAD_VALUES[case]
    df = pl.DataFrame({"y": [1.0, 2.0], "x": [1.0, 2.0], "w": [1.0, 1.0], "e": [True, False], **columns}, strict=False)
    assert df.select(tg.fit_gbdt("y", "x", on_error="null", **params)).item() is None
    for on_error in ["raise", "constant"]:
        with pytest.raises(Compute, match=r"a fit of \d row"):
            df.select(tg.fit_gbdt("y", "x", on_error=on_error, **params))  # type: ignore[arg-type]


def test_values_of_forests_and_lists() -> None:
    df = pl.DataFrame({"y": [-1.0, 2.0], "x": [1.0, 2.0], "k": ["a", "b"], "l": [[-1], [2]], "v": [[1.0], [NAN]]})
    assert df.select(tg.fit_forest("y", "x", criterion="poisson", on_error="null")).item() is None
    assert df.select(tg.fit_sparse_lr("k", "l", on_error="null")).item() is None
    assert (
        df.select(tg.fit_sparse_lr("k", pl.col("l").list.eval(pl.element().abs()), "v", on_error="null")).item() is None
    )
    dense = df.with_columns(x=pl.lit(NAN))
    assert dense.select(tg.fit_sparse_lr("k", dense="x", on_error="null")).item() is None
    with pytest.raises(Compute):
        dense.select(tg.fit_sparse_lr("k", dense="x", on_error="constant"))


CALLS: dict[str, tuple[pl.Expr, str]] = {
    "type of a feature": (tg.fit_gbdt("y", "l", on_error="null"), "`l`"),
    "type of a target": (tg.fit_gbdt(pl.col("x").cast(pl.Int32).cast(pl.Date).alias("l"), "x", on_error="null"), "`l`"),
    "unknown feature": (tg.fit_gbdt("y", "x", on_error="null", monotone={"z": 1}), "`z`"),
    "parameter": (tg.fit_gbdt("y", "x", on_error="constant", baseline=["x", "z"]), "baseline"),
    "metric": (tg.fit_gbdt("x", "z", on_error="constant", metric="auc", eval="e"), "metric"),
    "class weights": (tg.fit_forest("y", "x", on_error="null", class_weight="balanced"), "class_weight"),
    "list of texts": (tg.fit_sparse_lr("k", "t", on_error="constant", features=3), "features"),
}


@pytest.mark.parametrize("case", CALLS)
def test_what_is_wrong_with_the_call_is_raised(case: str) -> None:
    fit, says = CALLS[case]
    df = pl.DataFrame({"y": [1, 0], "x": [1.0, 2.0], "k": ["a", "b"], "l": [[1], [2]], "t": [["u"], ["v"]]})
    df = pl.concat([df, df]).with_columns(y=pl.col("y") + 1, z=pl.lit(2.5), e=pl.int_range(pl.len()) < 2)
    with pytest.raises(Compute, match=says):
        df.select(fit)


def test_the_choices() -> None:
    for fit in [tg.fit_gbdt, tg.fit_forest, tg.fit_sparse_lr]:
        with pytest.raises(ValueError, match="`on_error`: 'skip' is not one of 'raise', 'null', 'constant'"):
            fit("y", "x", on_error="skip")  # type: ignore[operator]
    with pytest.raises(ValueError, match="`on_error`: 'constant' is not one of 'raise', 'null'"):
        tg.fit_target_encoder("x", "y", on_error="constant")  # type: ignore[arg-type]


def test_the_methods_take_it() -> None:
    one = groups().filter(pl.col("g") == "few")
    for frame in [one, one.lazy()]:
        assert frame.taiga.fit_gbdt("y", "x", on_error="null") is None
        assert frame.taiga.fit_forest("y", "x", on_error="null") is None
        assert frame.taiga.fit_sparse_lr("flag", "tokens", on_error="null") is None
        assert isinstance(frame.taiga.fit_gbdt("y", "x", on_error="constant"), tg.Model)
        assert (
            frame.with_columns(y=pl.lit(None, dtype=pl.Float64)).taiga.fit_target_encoder("g", "y", on_error="null")
            is None
        )
    assert one.select(pl.col("y").taiga.fit_gbdt("x", on_error="null")).item() is None


def test_encoders() -> None:
    df = groups().with_columns(y=pl.when(pl.col("g") == "alike").then(None).otherwise("y"))
    with pytest.raises(Compute, match=r"`y`: 4 of 4 values are null.*a fit of 4 rows, whose first `y` is null"):
        by_group(tg.fit_target_encoder("kind", "y"), df)
    encoders = by_group(tg.fit_target_encoder("kind", "y", on_error="null"), df)
    assert [g for g, e in encoders.items() if e is None] == ["alike"]
    table = pl.DataFrame({"g": list(encoders), "e": list(encoders.values())})
    out = joined(df, table).select("g", v=tg.encode("e", "kind"))
    assert out.filter(g="alike")["v"].to_list() == [None] * 4
    assert out.filter(pl.col("g") != "alike")["v"].null_count() == 0
    zero = tg.fit_target_encoder("kind", "flag", weight=pl.lit(0.0), on_error="null")
    assert df.select(zero).item() is None
    assert df.clear().select(tg.fit_target_encoder("kind", "flag", on_error="null")).item() is None


def test_over_and_lazy_queries() -> None:
    df = groups().filter(pl.col("g").is_in(["good", "few"]))
    fit = tg.fit_gbdt("y", "x", rounds=3, on_error="null")
    out = df.lazy().with_columns(m=fit.over("g")).with_columns(p=tg.predict("m", "x")).collect()
    assert out.filter(g="few")["p"].to_list() == [None]
    assert out.filter(g="good")["p"].null_count() == 0
    streamed = df.lazy().group_by("g").agg(fit).collect(engine="streaming")
    assert streamed.filter(g="few")["model"].to_list() == [None]


def test_validation_and_search() -> None:
    """A group without folds is null in a query of many, and raises by itself; the others' values are those of a query
    of their own.
    """
    df = groups()
    # `flat` is of one class in some fold, `few` has fewer rows than folds, and `alike` one class.
    how: dict[str, Any] = {"folds": 2, "rounds": 3, "min_child_weight": 0}
    for make in [
        lambda **p: tg.cross_validate("flag", "x", metric="auc", models=True, **{**how, **p}),
        lambda **p: tg.search("flag", "x", space={"depth": [1, 2]}, **{**how, **p}),
    ]:
        with pytest.raises(Compute, match=r'a fit of 1 row, whose first `flag` is true; on_error="null"'):
            df.filter(g="few").select(make())
        found = df.group_by("g", maintain_order=True).agg(make(on_error="null")).rows()
        values = dict(found)
        assert values["few"] is None
        assert values["alike"] is None
        alone = df.filter(g="good").select(make())
        assert df.filter(g="good").select(make(on_error="null")).equals(alone)
        assert [values["good"]] == alone.to_series().to_list()
        assert df.filter(g="few").select(make(on_error="null")).schema == alone.schema
        with pytest.raises(ValueError, match="`on_error`: 'constant' is not one of 'raise', 'null'"):
            make(on_error="constant")
        # What is wrong with the call is wrong for every group.
        with pytest.raises(Compute, match=r"`tokens`: its type is .*, which tells no folds"):
            df.group_by("g").agg(make(on_error="null", folds="tokens"))


EVIDENCE: dict[str, Callable[..., pl.Expr]] = {
    "woe": lambda *args, **p: tg.woe(*args, **p),
    "information_value": lambda *args, **p: tg.information_value(*args, **p),
    "target_encode": lambda *args, **p: tg.target_encode(*args, **p),
}


@pytest.mark.parametrize("function", EVIDENCE)
def test_encodings_of_rows(function: str) -> None:
    """Rows that have no evidence and no encoding are null in their group, and others have theirs."""
    make = EVIDENCE[function]
    df = groups().with_columns(
        n=pl.when(pl.col("g") == "flat").then(2.0).otherwise(pl.col("flag").cast(pl.Float64)),
        null=pl.when(pl.col("g") == "alike").then(None).otherwise("flag"),
        w=pl.when(pl.col("g") == "few").then(0.0).otherwise(1.0),
    )
    one_class = {"few", "alike"} if function != "target_encode" else set()
    cases: list[tuple[str, dict[str, Any], set[str]]] = [
        ("flag", {}, one_class),
        ("null", {}, one_class | {"alike"}),
        ("flag", {"weight": "w"}, one_class | {"few"}),
        ("n", {}, one_class | {"flat"} if function != "target_encode" else set()),
    ]
    if function == "target_encode":
        fold = pl.when(pl.col("g") == "alike").then(0).otherwise(pl.int_range(pl.len()) % 2)
        cases.append(("flag", {"kind": "kfold", "folds": fold}, {"alike", "few"}))
        order = pl.when(pl.col("g") == "flat").then(None).otherwise("x")
        cases.append(("flag", {"order_by": order}, {"flat"}))
        labels = pl.when(pl.col("g") == "few").then(pl.lit("c")).otherwise("kind")
        cases.append(("labels", {"classes": ["a", "b"]}, {"few"}))
        df = df.with_columns(labels=labels)
    for target, params, wrong in cases:
        got = df.select("g", v=make("kind", target, on_error="null", **params).over("g"))
        assert set(got.filter(pl.col("v").is_null())["g"]) == wrong
        assert got.filter(pl.col("g").is_in(list(wrong)))["v"].null_count() == got["v"].null_count()
        good = df.filter(g="good").select(v=make("kind", target, **params))["v"]
        assert got.filter(g="good")["v"].unique().sort().equals(good.unique().sort())
        for group in wrong:
            with pytest.raises(Compute, match=r"\(a fit of \d+ rows?, whose first `\w+` is .*; on_error="):
                df.filter(g=group).select(make("kind", target, **params))
    for frame in [df.clear(), df]:
        assert frame.select(make("kind", "flag", on_error="null")).schema == df.select(make("kind", "flag")).schema
    with pytest.raises(ValueError, match="`on_error`: 'constant' is not one of 'raise', 'null'"):
        make("kind", "flag", on_error="constant")
    # The type of a target is wrong for every group.
    with pytest.raises(Compute, match="`tokens`"):
        df.select(make("kind", "tokens", on_error="null"))

"""`Model.predict`, several outputs in one walk, narrow numbers, first rounds, and what Python sees of signatures."""

from __future__ import annotations

import inspect

import polars as pl
import polars_taiga as tg
import pytest
from polars.testing import assert_frame_equal, assert_series_equal

FEATURES = list("abcd")
PARAMS: list[dict[str, object]] = [
    {"policy": "symmetric"},
    {"policy": "depthwise", "row_sample": "mvs", "row_fraction": 0.6},
    {"policy": "leafwise", "cat_method": "partition"},
    {"policy": "symmetric", "max_combination": 2, "permutations": 2, "ctr_priors": [0.0, 0.5, 1.0]},
    {"policy": "depthwise", "cat_method": "one_hot"},
]


@pytest.fixture(scope="module")
def table(df: pl.DataFrame) -> pl.DataFrame:
    """With two categorical columns and missing values."""
    row = pl.int_range(pl.len())
    return df.with_columns(
        city=pl.concat_str(pl.lit("c"), (row * 7919 % 23).cast(pl.String)),
        shop=pl.when(row % 11 > 0).then((row * 31 % 17).cast(pl.String)),
        held_out=row % 5 == 0,
    )


def test_predict_of_frames_and_series(df: pl.DataFrame, regression: tg.Model) -> None:
    expected = df.select(tg.predict(regression)).to_series()
    assert_series_equal(regression.predict(df), expected, check_exact=True)
    assert_series_equal(regression.predict(df.select(pl.struct(FEATURES)).to_series()), expected)
    lazy = regression.predict(df.lazy(), output="leaf")
    assert isinstance(lazy, pl.LazyFrame)
    assert_series_equal(lazy.collect().to_series(), regression.predict(df, output="leaf"))
    one = df.taiga.fit_gbdt("y", "a", rounds=3)
    assert_series_equal(one.predict(df["a"].alias("whatever")), one.predict(df))
    with pytest.raises(ValueError, match="has 4: give a DataFrame"):
        regression.predict(df["a"])
    with pytest.raises(TypeError, match="not dict"):
        regression.predict({"a": [1]})  # type: ignore[call-overload]
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        regression.predict(df.drop("b"))


@pytest.mark.parametrize("name", ["regression", "binary", "multiclass", "forest", "linear"])
def test_several_outputs_are_those_one_by_one(df: pl.DataFrame, name: str, request: pytest.FixtureRequest) -> None:
    fits = {
        "forest": lambda: df.taiga.fit_forest("kind", FEATURES, trees=5),
        "linear": lambda: df.with_columns(pl.col(FEATURES).fill_nan(0).fill_null(0)).taiga.fit_sparse_lr(
            "kind", dense=FEATURES
        ),
    }
    model: tg.Model = fits[name]() if name in fits else request.getfixturevalue(name)
    data = df.with_columns(pl.col(FEATURES).fill_nan(0).fill_null(0)) if name == "linear" else df
    outputs: list[str] = ["leaf", "staged", "raw", "class", "auto"]
    lacking = {"forest": {"raw", "staged"}, "linear": {"leaf", "staged"}, "regression": {"class"}}.get(name, set())
    outputs = [output for output in outputs if output not in lacking]
    lf = data.lazy().select(tg.predict(model, output=outputs))  # type: ignore[arg-type]
    together = lf.collect()
    assert together.schema == lf.collect_schema()
    each = pl.DataFrame([model.predict(data, output=o).alias(o) for o in outputs])  # type: ignore[call-overload]
    assert_frame_equal(together.unnest("prediction"), each, check_exact=True)
    assert model.predict(data, output=["auto"]).struct.fields == ["auto"]
    # A model for each row, whose types the user names.
    rows = data.with_columns(model=pl.lit(model.to_bytes()))
    dtype = pl.Struct({name: each[name].dtype for name in outputs})
    by_expression = rows.select(tg.predict("model", *FEATURES, output=outputs, dtype=dtype))  # type: ignore[arg-type]
    assert_frame_equal(by_expression, together, check_exact=True)


def test_narrow_numbers(df: pl.DataFrame, regression: tg.Model, multiclass: tg.Model) -> None:
    for model, output in [(regression, "auto"), (regression, "staged"), (multiclass, "raw"), (multiclass, "auto")]:
        wide = pl.DataFrame([model.predict(df, output=output)])
        narrow = pl.DataFrame([model.predict(df, output=output, dtype=pl.Float32)])
        shape = {pl.Float64: pl.Float32, pl.List(pl.Float64): pl.List(pl.Float32)}
        own = wide["prediction"].dtype
        if isinstance(own, pl.Struct):
            assert narrow["prediction"].dtype == pl.Struct({f.name: shape[f.dtype] for f in own.fields})
            wide, narrow = wide.unnest("prediction"), narrow.unnest("prediction")
        else:
            assert narrow["prediction"].dtype == shape[own]
        assert_frame_equal(narrow, wide.cast(narrow.schema), check_exact=True)  # type: ignore[arg-type]
    by_expression = df.with_columns(m=pl.lit(regression.to_bytes())).select(
        tg.predict("m", *FEATURES, dtype=pl.Float32)
    )
    assert_series_equal(by_expression.to_series(), regression.predict(df, dtype=pl.Float32))
    with pytest.raises(ValueError, match="dtype=Int64: the model says what it gives"):
        tg.predict(regression, dtype=pl.Int64)
    with pytest.raises(ValueError, match="output='leaf' has no floats"):
        tg.predict(regression, output="leaf", dtype=pl.Float32)


def test_bad_outputs(regression: tg.Model) -> None:
    for output, text in [
        ("margin", "output='margin' is not one of"),
        (["auto", "auto"], "stands twice"),
        ([], "asks for nothing"),
        (["auto", "class"], "is a regression and has no classes"),
    ]:
        with pytest.raises(ValueError, match=text):
            tg.predict(regression, output=output)  # type: ignore[arg-type]


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("target", ["y", "flag", "kind"])
def test_the_head_is_what_fewer_rounds_give(table: pl.DataFrame, target: str, params: dict[str, object]) -> None:
    """Down to the bytes, for columns, categories, their statistics and combinations; with the curve of a metric."""
    columns = [*FEATURES, "city", "shop"]
    model = table.taiga.fit_gbdt(target, columns, rounds=9, eval="held_out", **params)  # type: ignore[call-overload]
    for k in [1, 4, 8]:
        fewer = table.taiga.fit_gbdt(target, columns, rounds=k, eval="held_out", **params)  # type: ignore[call-overload]
        head = model.head(k)
        assert head == fewer, (k, head, fewer)
        assert_series_equal(model.predict(table, rounds=k), fewer.predict(table), check_exact=True)
    assert model.head(9) is not model
    assert model.head(9) == model == model.head(1000)


@pytest.mark.parametrize("splitter", ["histogram", "exact", "random"])
def test_the_head_of_a_forest(table: pl.DataFrame, splitter: str) -> None:
    columns = [*FEATURES, "city"] if splitter == "histogram" else FEATURES
    data = table.with_columns(pl.col("city").cast(pl.Categorical))
    for target in ["y", "kind"]:
        model = data.taiga.fit_forest(target, columns, trees=8, splitter=splitter, permutation_importance=True)
        for k in [1, 5]:
            fewer = data.taiga.fit_forest(target, columns, trees=k, splitter=splitter, oob=False)
            assert model.head(k) == fewer
            assert_series_equal(model.predict(data, rounds=k), fewer.predict(data), check_exact=True)
        assert model.head(5).oob_score is None
        assert model.head(8) == model


def test_slices_and_bad_rounds(df: pl.DataFrame, regression: tg.Model) -> None:
    n = regression.rounds
    assert regression[:3] == regression.head(3)
    assert regression[: -(n - 2)] == regression.head(2)
    assert regression[:] == regression
    for bad in [slice(1, 3), slice(None, None, 2)]:
        with pytest.raises(ValueError, match="begins with its first round"):
            regression[bad]
    with pytest.raises(TypeError, match="sliced by rounds"):
        regression[3]  # type: ignore[index]
    for bad_rounds in [0, -1]:
        with pytest.raises(ValueError, match="not at least 1"):
            regression.head(bad_rounds)
        with pytest.raises(ValueError, match="not at least 1"):
            tg.predict(regression, rounds=bad_rounds)
    for wrong in [True, 1.5, "3"]:
        with pytest.raises(TypeError, match="is not an integer"):
            tg.predict(regression, rounds=wrong)  # type: ignore[arg-type]
    clean = df.with_columns(pl.col(FEATURES).fill_nan(0).fill_null(0))
    linear = clean.taiga.fit_sparse_lr("flag", dense=FEATURES)
    with pytest.raises(ValueError, match="no rounds to choose from"):
        linear.head(1)
    with pytest.raises(pl.exceptions.ComputeError, match="no rounds to choose from"):
        clean.select(tg.predict(pl.lit(linear.to_bytes()), *FEATURES, rounds=1))


def test_a_model_a_row_of_its_first_rounds(df: pl.DataFrame) -> None:
    models = df.group_by("group").agg(tg.fit_gbdt("y", FEATURES, rounds=6))
    rows = df.join(models, on="group").sort("a", "y")
    got = rows.with_columns(tg.predict("model", *FEATURES, rounds=2))
    for (group,), part in got.group_by("group"):
        model = tg.Model(models.filter(pl.col("group") == group)["model"].item())
        assert_series_equal(part["prediction"], model.head(2).predict(part), check_exact=True)


def test_frames_take_every_argument_of_predict(df: pl.DataFrame, binary: tg.Model) -> None:
    own = df.taiga.predict(binary, name="p", output=["class", "auto"], dtype=pl.Float32, rounds=3, device="cpu")
    lazy = df.lazy().taiga.predict(binary, name="p", output=["class", "auto"], dtype=pl.Float32, rounds=3, device="cpu")
    assert_frame_equal(own, lazy.collect())
    assert_series_equal(own["p"], binary.predict(df, output=["class", "auto"], dtype=pl.Float32, rounds=3).alias("p"))


@pytest.mark.parametrize("loss", ["cox", "aft"])
@pytest.mark.parametrize("metric", [None, "concordance"])
def test_a_model_of_survival_measures_itself(df: pl.DataFrame, loss: str, metric: str | None) -> None:
    """Proves that `Model.score` takes what is said of events, and gives what `tg.score` gives."""
    row = pl.int_range(pl.len())
    times = df.with_columns(weeks=(pl.col("y") / pl.col("y").std()).exp(), died=row % 3 > 0).with_columns(
        low=pl.col("weeks") * 0.9, high=pl.when("died").then(pl.col("weeks") * 1.1).otherwise(float("inf"))
    )
    said: list[dict[str, str]] = [{"event": "died"}]
    if loss == "aft":
        said += [{"lower": "low", "upper": "high"}, {"upper": "high"}]
    for events in said:
        model = times.taiga.fit_gbdt("weeks", *FEATURES, loss=loss, rounds=5, **events)  # type: ignore[arg-type]
        found = model.score(times, metric=metric, **events)  # type: ignore[arg-type]
        expected = times.select(tg.score(model, "weeks", metric=metric, **events)).item()  # type: ignore[arg-type]
        assert found == expected
        assert found == model.score(times.lazy(), "weeks", *FEATURES, metric=metric, **events)  # type: ignore[arg-type]
    with pytest.raises(pl.exceptions.ComputeError, match="parameter `event`"):
        model.score(times, metric=metric)


def test_models_score_takes_what_score_takes() -> None:
    """Proves that `Model.score` has every keyword of `tg.score` but the one of queries, and says so."""
    wanted, own = (inspect.signature(function).parameters for function in (tg.score, tg.Model.score))
    keywords = {name for name, parameter in wanted.items() if parameter.kind == parameter.KEYWORD_ONLY}
    assert keywords - set(own) == {"on_error"}
    assert all(name in (tg.Model.score.__doc__ or "") for name in own if name != "self")


def test_completion_sees_every_keyword() -> None:
    """What `inspect` tells of each method is what its function takes."""
    expr, frame = pl.col("x").taiga, pl.DataFrame({"x": [1]}).taiga
    for function in [tg.fit_gbdt, tg.fit_forest, tg.fit_sparse_lr, tg.predict, tg.target_encode, tg.score]:
        wanted = {n for n, p in inspect.signature(function).parameters.items() if p.kind == p.KEYWORD_ONLY}
        assert len(wanted) > 3
        for namespace in [expr, frame]:
            method = getattr(namespace, function.__name__, None)
            if method is not None:
                seen = set(inspect.signature(method).parameters)
                assert wanted <= seen, (method, wanted - seen)
    for namespace in [expr, frame]:
        for name in dir(type(namespace)):
            # What a receipt is given by name is what the fit that it names takes.
            if not name.startswith("_") and name != "receipt":
                kinds = {p.kind for p in inspect.signature(getattr(namespace, name)).parameters.values()}
                assert inspect.Parameter.VAR_KEYWORD not in kinds, name

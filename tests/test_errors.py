"""Errors say all that is wrong, in the user's words, and nothing of the plugin's insides."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

LIGHTGBM = {
    "objective": "binary",
    "metric": "AUC",
    "boosting_type": "gbdt",
    "num_leaves": 31,
    "max_depth": -1,
    "learning_rate": 0.05,
    "feature_fraction": 0.9,
    "bagging_fraction": 0.8,
    "bagging_freq": 5,
    "lambda_l2": 1.0,
    "min_data_in_leaf": 20,
    "num_iterations": 50,
    "early_stopping_rounds": 10,
    "verbose": -1,
}
XGBOOST = {
    "objective": "multi:softprob",
    "eval_metric": "mlogloss",
    "num_class": 3,
    "booster": "gbtree",
    "tree_method": "hist",
    "max_depth": 6,
    "eta": 0.1,
    "subsample": 0.8,
    "colsample_bytree": 0.8,
    "gamma": 0.0,
    "lambda": 1.0,
    "alpha": 0.5,
    "nthread": 2,
    "verbosity": 0,
    "num_boost_round": 20,
}
CATBOOST = {
    "loss_function": "Logloss",
    "eval_metric": "AUC",
    "iterations": 20,
    "depth": 6,
    "l2_leaf_reg": 3,
    "grow_policy": "SymmetricTree",
    "bootstrap_type": "Bernoulli",
    "subsample": 0.66,
    "border_count": 128,
    "feature_border_type": "GreedyLogSum",
    "od_wait": 5,
    "random_seed": 7,
    "task_type": "CPU",
    "cat_features": ["s"],
    "auto_class_weights": "Balanced",
    "verbose": False,
}


def table() -> pl.DataFrame:
    """Two numeric features, one of text, and targets of two and three classes."""
    x = np.arange(300)
    return pl.DataFrame(
        {
            "a": x % 37 / 8,
            "b": x % 11,
            "s": [f"s{i % 5}" for i in x],
            "two": x % 37 > 17,
            "three": [("u", "v", "w")[i % 37 // 13] for i in x],
            "y": x % 37 / 4,
            "held": x % 4 == 0,
        }
    )


def problems(error: pytest.ExceptionInfo[Exception]) -> list[str]:
    """The lines of an error."""
    return str(error.value).split("\n- ")[1:]


def followed(params: dict[str, Any], error: pytest.ExceptionInfo[Exception]) -> dict[str, Any]:
    """Parameters as the lines of an error say, read as literally as a program can."""
    ours = {k: v for k, v in params.items() if f"`{k}`" not in str(error.value)}
    for line in problems(error):
        renamed = re.fullmatch(r"there is no parameter `(\w+)`; did you mean `(\w+)`\?", line)
        valued = re.fullmatch(r"there is no parameter `\w+`; did you mean `(\w+)=(.*)`\?", line)
        value = re.fullmatch(r"parameter `(\w+)`: .*; did you mean (\".*?\")\?", line)
        needs = re.fullmatch(r"parameter `(\w+)`: (needs|counts only under) (\w+)=(\"\w+\").*", line)
        if renamed:
            ours[renamed[2]] = params[renamed[1]]
        elif valued:
            ours[valued[1]] = eval(valued[2])
        elif value:
            ours[value[1]] = eval(value[2])
        elif needs:
            ours[needs[3]] = eval(needs[4])
            ours.setdefault(needs[1], params.get(needs[1]))
        else:
            assert "leave it out" in line or "progress=" in line or "eval=" in line, line
    return {k: v for k, v in ours.items() if v is not None}


@pytest.mark.parametrize(
    ("params", "target", "lines"), [(LIGHTGBM, "two", 14), (XGBOOST, "three", 13), (CATBOOST, "two", 15)]
)
def test_a_dictionary_of_another_library_takes_one_error(params: dict[str, Any], target: str, lines: int) -> None:
    with pytest.raises(TypeError) as error:
        tg.fit_gbdt(target, "a", "b", "s", **params)
    assert len(problems(error)) >= lines - 2, str(error.value)
    ours = followed(params, error)
    model = table().taiga.fit_gbdt(target, "a", "b", "s", eval="held", **ours)
    assert model.rounds > 0


def test_everything_wrong_with_a_call_is_told_at_once() -> None:
    df = table()
    with pytest.raises(TypeError) as error:
        tg.fit_gbdt(  # type: ignore[call-arg]
            *("y", "a", "a", "y"),
            eval=df,  # type: ignore[arg-type]
            weight=2.0,  # type: ignore[arg-type]
            rounds=0,
            roundds=3,
            l2=float("nan"),
            progress="yes",  # type: ignore[arg-type]
        )
    text = str(error.value)
    assert text.startswith("fit_gbdt: 8 things are wrong with this call:\n- ")
    for part in [
        "column `a`: this feature is given twice",
        "column `y`: the target is among the features",
        "`eval` is a column's name or an expression of the query's frame, not DataFrame",
        "`weight` is a column's name or an expression of the query's frame, not float",
        "`rounds`: 0 is not between",
        "`roundds`; did you mean `rounds`?",
        "`l2`: nan is not a finite number",
        "`progress`: 'yes' is not True, False or None",
    ]:
        assert part in text
    with pytest.raises(ValueError, match="2 things are wrong"):
        tg.fit_forest("y", "a", trees=0, depth=0)
    with pytest.raises(ValueError, match="2 things are wrong"):
        tg.fit_sparse_lr("two", "a", hash_bits=0, epochs=0)
    with pytest.raises(ValueError, match="target_encode: 2 things are wrong"):
        tg.target_encode("s", "y", kind="kfold", folds=1, seed=-1)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"eval_set": [(1, 2)]}, "held-out rows are rows of the same frame.*pl.concat"),
        ({"eval_set": [pl.DataFrame({"a": [1]})]}, "held-out rows are rows of the same frame.*pl.concat"),
        ({"features": ["a"]}, "features are given by position"),
        ({"X": pl.DataFrame({"a": [1]})}, "the frame is that of the query"),
        ({"xgb_model": b"TAIGA"}, "init_model= of `fit_gbdt` takes a model.*baseline=tg.predict"),
        ({"warm_start": True}, "init_model= of `fit_gbdt` takes a model.*baseline=tg.predict"),
        ({"tree_method": "hist"}, "leave it out: trees grow on histograms"),
        ({"bagging_freq": 1}, "leave it out: rows are drawn anew for every tree"),
        ({"verbosity": 1}, "progress=True"),
        ({"callbacks": [print]}, "callback= of `fit_gbdt` takes a function"),
        ({"snapshot_file": "fit.snapshot"}, "snapshot= of `fit_gbdt`, `fit_forest` and `fit_sparse_lr` takes a file"),
        ({"scale_pos_weight": 3}, "class_weight={positive label"),
    ],
)
def test_names_of_others_say_what_to_do(params: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"there is no parameter `{next(iter(params))}`: {message}"):
        tg.fit_gbdt("y", "a", **params)


@pytest.mark.parametrize("frame", [table(), table().lazy()])
def test_frames_and_arrays_are_no_columns(frame: Any) -> None:
    kind = type(frame).__name__
    with pytest.raises(TypeError, match=rf"`eval` is a column's name or an expression.*not {kind}.*pl.concat"):
        tg.fit_gbdt("y", "a", eval=frame)
    with pytest.raises(TypeError, match=f"a feature is a column's name or an expression.*not {kind}"):
        tg.fit_gbdt("y", frame)
    with pytest.raises(TypeError, match=rf"`target` is a column's name or an expression.*not {kind}.*df.select"):
        tg.fit_gbdt(frame, "a")
    with pytest.raises(TypeError, match="not Series: make it a column"):
        tg.fit_gbdt("y", table()["a"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"`weight`.*not ndarray: make it a column"):
        tg.fit_gbdt("y", "a", weight=np.ones(3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"the model.*or an expression|a model is bytes"):
        tg.predict(frame, "a")


def test_lists_of_numpy_and_series_are_lists() -> None:
    df = table().with_columns(pl.col("b").cast(pl.Int64))
    by_list = df.taiga.fit_gbdt("y", "a", "b", rounds=2, categorical=["b"], ctr_priors=[0.0, 1.0])
    by_array = df.taiga.fit_gbdt("y", "a", "b", rounds=2, categorical=pl.Series(["b"]), ctr_priors=np.array([0.0, 1.0]))
    assert by_list == by_array


def test_early_stopping_and_metric_ask_for_eval_before_there_is_a_query() -> None:
    for params in [{"early_stopping": 3}, {"metric": "mae"}]:
        with pytest.raises(ValueError, match="needs held-out rows to measure on: mark them with `eval`"):
            tg.fit_gbdt("y", "a", **params)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs held-out rows"):
        tg.fit_sparse_lr("two", "s", early_stopping=2)


@pytest.mark.filterwarnings("ignore::polars_taiga.TargetWarning")
@pytest.mark.parametrize("target", [pl.col("b") % 2, pl.col("y")])
def test_errors_of_a_numeric_target_name_the_loss_that_makes_it_classes(target: pl.Expr) -> None:
    df = table().with_columns(target=target)
    remedy = 'the target is numeric, so loss="auto" is a regression: loss="logloss" makes its values classes'
    for params in [{"metric": "auc", "eval": "held"}, {"class_weight": "balanced"}]:
        with pytest.raises(pl.exceptions.ComputeError, match=remedy):
            df.select(tg.fit_gbdt("target", "a", rounds=2, **params))  # type: ignore[arg-type]
    with pytest.raises(pl.exceptions.ComputeError, match='criterion="gini" makes its values classes'):
        df.select(tg.fit_forest("target", "a", trees=2, class_weight="balanced"))


def test_a_target_outside_the_domain_is_one_sentence() -> None:
    df = table().with_columns(y=pl.col("y") - 1)
    for loss, needs in [
        ("poisson", "zero or a positive number"),
        ("gamma", "a positive number"),
        ("cross_entropy", "probabilities"),
    ]:
        with pytest.raises(pl.exceptions.ComputeError) as error:
            df.select(tg.fit_gbdt("y", "a", loss=loss, rounds=2))  # type: ignore[arg-type]
        text = f'column `y`: the target is -1 in row 0: loss="{loss}" needs {needs}'
        assert text in str(error.value)
        assert str(error.value).count("needs") == 1


def failing() -> dict[str, Any]:
    """Expressions with a model or encoder inside that can't be computed, and frames for them."""
    df = table()
    model = df.taiga.fit_gbdt("y", "a", "b", rounds=2)
    encoder = df.taiga.fit_target_encoder("s", "y")
    return {
        "predict, type": (df.with_columns(b=pl.lit("u")), tg.predict(model)),
        "predict, missing": (df, tg.predict(model, "a")),
        "predict, length": (df, tg.predict(model, pl.col("a").head(3), "b")),
        "encode, type": (df.with_columns(s=pl.col("a")), tg.encode(encoder, "s")),
        "plan": (df, tg.predict(model).str.len_chars()),
    }


@pytest.mark.parametrize("case", ["predict, type", "predict, missing", "predict, length", "encode, type", "plan"])
def test_no_bytes_of_models_stand_in_errors(case: str) -> None:
    if case == "predict, length" and pl.__version__.startswith("1."):
        pytest.skip("Polars 1 checks lengths in groups only where it has rows to")
    df, expr = failing()[case]
    for query in [
        lambda: df.select(expr),
        lambda: df.lazy().with_columns(expr.alias("p")).select("p", "nope").collect(),
        lambda: df.lazy().with_columns(expr.alias("p")).collect(),
        lambda: df.group_by("held").agg(expr.alias("p")),
    ]:
        with pytest.raises(pl.exceptions.PolarsError) as error:
            query()
        assert "TAIGA" not in str(error.value)
        assert "\\x" not in str(error.value)


@pytest.mark.skipif(pl.__version__.startswith("1."), reason="Polars 1 shows no binary literal")
def test_a_literal_says_what_it_is() -> None:
    df = table()
    model = df.taiga.fit_gbdt("y", "a", "b", rounds=2)
    assert 'b"<gbdt:_2_trees,_2_features>.' in df.lazy().select(tg.predict(model)).explain()
    encoder = df.taiga.fit_target_encoder("s", "y")
    assert 'b"<encoder:_1_column>.' in df.lazy().select(tg.encode(encoder)).explain()
    # Names of any kind, and the values are those of the bytes without a label.
    odd = df.rename({"y": "two\nlines model_of_"}).taiga.fit_gbdt("two\nlines model_of_", "a", "b", rounds=2)
    by_column = df.with_columns(m=pl.lit(odd.to_bytes())).select(tg.predict("m", "a", "b"))
    for frame in [df.select(tg.predict(odd)), df.lazy().select(tg.predict(odd)).collect()]:
        assert frame.equals(by_column)


def test_methods_of_taiga_raise_their_own_text_alone() -> None:
    df = table()
    with pytest.raises(pl.exceptions.PolarsError) as error:
        df.taiga.fit_gbdt("s", "a", loss="mae")
    assert str(error.value).startswith("fit_gbdt: column `s`: its type is str")
    assert "\n" not in str(error.value)
    with pytest.raises(pl.exceptions.PolarsError) as error:
        df.lazy().taiga.fit_forest("s", "a", criterion="poisson")
    assert str(error.value).startswith("fit_forest: column `s`: its type is str")
    model = df.taiga.fit_gbdt("y", "a", "b", rounds=2)
    with pytest.raises(pl.exceptions.PolarsError) as error:
        df.with_columns(b=pl.lit("u")).taiga.predict(model)
    assert str(error.value).startswith("predict: column `b`: its type is str")
    assert "\n" not in str(error.value)
    # What is not ours is left as it is.
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        df.lazy().taiga.fit_gbdt("nope", "a")


def test_a_device_of_another_name() -> None:
    for device in ["gpu", "GPU", "gpu:0"]:
        with pytest.raises(ValueError, match='did you mean "cuda'):
            tg.fit_gbdt("y", "a", device=device)
        with pytest.raises(ValueError, match='did you mean "cuda"'):
            tg.min_max("a", device=device)


def test_a_struct_of_other_fields_is_shown_with_them() -> None:
    """Proves that an error tells the fields, their types and their order, of lists and of many fields."""
    df = pl.DataFrame({"x": range(99)}).with_columns(k=pl.Series(["A", "B", "C"] * 33), n=pl.int_range(99) % 30)

    def said(target: str, fields: str, kind: Any = pl.Float64, **options: Any) -> str:
        model = df.taiga.fit_gbdt(target, "x", rounds=1, loss="multiclass").to_bytes()
        dtype = pl.Struct(dict.fromkeys(fields, kind))
        with pytest.raises(pl.exceptions.ComputeError) as error:
            df.with_columns(m=pl.lit(model)).select(tg.predict("m", "x", dtype=dtype, **options))
        return str(error.value)

    text = "the model of `k` gives struct{A: f64, B: f64, C: f64}, and the query was planned for struct{"
    assert text + "C: f64, B: f64, A: f64}; say so with dtype=" in said("k", "CBA")
    assert text.replace("f64", "list[f64]") + "C: list[f64]" in said("k", "CBA", pl.List(pl.Float64), output="staged")
    assert ", 19: f64, … (30)}, and the query was planned for struct{C: f64}" in said("n", "C")


def test_several_labels_are_no_regression() -> None:
    """Proves that asking for their class says what they have, where the model is known to the plugin alone."""
    df = pl.DataFrame({"x": range(100)}).with_columns(a=pl.col("x") % 2 == 0, b=pl.col("x") > 40)
    model = df.taiga.fit_gbdt(pl.struct("a", "b"), "x", rounds=1, loss="multilabel").to_bytes()
    text = r'the model of `.*` has no classes but labels, any of which a row may have: output="auto" gives the probab'
    with pytest.raises(pl.exceptions.ComputeError, match=text):
        df.with_columns(m=pl.lit(model)).select(tg.predict("m", "x", output="class", dtype=pl.String))

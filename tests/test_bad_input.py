"""What can't be fitted: a clear error and nothing else (issue 2, item 7)."""

from __future__ import annotations

import math
import os
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs
import polars_taiga as tg
import pytest

Compute = pl.exceptions.ComputeError
NAN, INF = math.nan, math.inf


def table(**columns: Any) -> pl.DataFrame:
    """Ten rows of two good features and a good target, but for what is given."""
    good: dict[str, Any] = {"a": [float(i) for i in range(10)], "b": [i % 3 for i in range(10)], "y": list(range(10))}
    return pl.DataFrame({**good, **columns})


def fit(df: pl.DataFrame, target: Any = "y", *features: Any, **params: Any) -> tg.Model:
    """A small fit in both engines; the eager one's model."""
    expr = tg.fit_gbdt(target, *(features or ("a", "b")), **{"rounds": 2, **params})
    return tg.Model(df.select(expr).item())


def text(**values: Any) -> list[Any]:
    """Ten target values: whole numbers, but for those given as `_<row>=`."""
    return [values.get(f"_{i}", float(i % 2)) for i in range(10)]


def test_the_good_table_is_good() -> None:
    assert fit(table()).rounds == 2


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    # name: (columns, parameters, what the error says)
    "list feature": ({"a": [[1]] * 10}, {}, "column `a`: its type is list"),
    "binary feature": ({"a": [b"x"] * 10}, {}, "column `a`: its type is binary"),
    "null target": (
        {"y": text(_3=None)},
        {},
        r'column `y`: 1 of 10 values are null.*filter\(pl.col\("y"\).is_not_null',
    ),
    "NaN target": ({"y": text(_3=NAN, _5=NAN)}, {}, r"column `y`: 2 of 10 values are NaN.*is_not_nan"),
    "infinite target": ({"y": text(_3=-INF)}, {}, r"column `y`: 1 of 10 values are infinite.*is_finite"),
    "null label": ({"y": ["u", "v", None, "u", "v"] * 2}, {}, "column `y`: 2 of 10 values are null"),
    "NaN label": ({"y": text(_3=NAN)}, {"loss": "logloss"}, "column `y`: 1 of 10 values are NaN"),
    "one Boolean class": ({"y": [True] * 10}, {}, "column `y`: all 10 rows are of one class"),
    "one text class": ({"y": ["u"] * 10}, {}, "column `y`: all 10 rows are of one class"),
    "one integer class": ({"y": [3] * 10}, {"loss": "multiclass"}, "column `y`: all 10 rows are of one class"),
    "one float class": ({"y": [1.0] * 10}, {"loss": "logloss"}, "column `y`: all 10 rows are of one class"),
    "1.5 for log loss": ({"y": text(_3=1.5)}, {"loss": "logloss"}, "column `y`: 1.5 is no label"),
    "2 for log loss": ({"y": text(_3=2.0)}, {"loss": "logloss"}, "column `y`: 2 is no label"),
    "three labels for log loss": ({}, {"loss": "logloss"}, "column `y`: it has 10 classes"),
    "fractions as classes": ({"y": text(_3=1.5)}, {"loss": "multiclass"}, "column `y`: 1.5 is no class label"),
    "text for a regression": ({"y": ["u", "v"] * 5}, {"loss": "mae"}, 'column `y`.*loss="mae" can\'t use'),
    "date target": ({"y": [date(2024, 1, 1)] * 10}, {}, "column `y`: its type is date"),
    "negative for Poisson": ({"y": text(_3=-1.0)}, {"loss": "poisson"}, "column `y`"),
    "zero for gamma": ({"y": text(_3=0.0)}, {"loss": "gamma"}, "column `y`"),
    "negative for Tweedie": ({"y": text(_3=-1.0)}, {"loss": "tweedie"}, "column `y`"),
    "1.5 for cross entropy": ({"y": text(_3=1.5)}, {"loss": "cross_entropy"}, "column `y`"),
    "negative weight": ({"w": text(_3=-1.0)}, {"weight": "w"}, "column `w`"),
    "null weight": ({"w": text(_3=None)}, {"weight": "w"}, "column `w`: 1 of 10 values are null"),
    "NaN weight": ({"w": text(_3=NAN)}, {"weight": "w"}, "column `w`: 1 of 10 values are NaN"),
    "infinite weight": ({"w": text(_3=INF)}, {"weight": "w"}, "column `w`: 1 of 10 values are infinite"),
    "all weights zero": ({"w": [0.0] * 10}, {"weight": "w"}, "column `w`"),
    "text weight": ({"w": ["u"] * 10}, {"weight": "w"}, "column `w`: its type is str"),
    "NaN baseline": ({"w": text(_3=NAN)}, {"baseline": "w"}, "column `w`: 1 of 10 values are NaN"),
    "two baselines for one output": ({}, {"baseline": ["a", "b"]}, "baseline"),
    "numbers for eval": ({}, {"eval": "b"}, "column `b`.*Boolean"),
    "null in eval": ({"e": [True, False, None, True, False] * 2}, {"eval": "e"}, "column `e`.*null in 2 of 10"),
    "all held out": ({"e": [True] * 10}, {"eval": "e"}, "column `e`.*holds out all 10 rows"),
    "none held out": ({"e": [False] * 10}, {"eval": "e", "early_stopping": 3}, "column `e`.*holds out no row"),
    "metric of another loss": ({"e": [True, False] * 5}, {"eval": "e", "metric": "auc"}, "metric"),
    "monotone of an unknown feature": ({}, {"monotone": {"nope": 1}}, "nope"),
    "weight of an unknown feature": ({}, {"feature_weights": {"nope": 1}}, "`feature_weights`: .*`nope`"),
    "bins of an unknown feature": ({}, {"bins": {"nope": 9}}, "`bins`: .*`nope`"),
    "no weight of any feature": ({}, {"feature_weights": {"a": 0, "b": 0}}, "`feature_weights`: all features"),
    "interaction of an unknown feature": ({}, {"interaction": [["a", "nope"]]}, "nope"),
    "class weight of an unknown label": ({"y": [True, False] * 5}, {"class_weight": {"nope": 1.0}}, "nope"),
    "class weight of a regression": ({}, {"class_weight": "balanced"}, "class_weight"),
}


@pytest.mark.parametrize("case", CASES)
def test_columns_that_cannot_be_used(case: str) -> None:
    columns, params, message = CASES[case]
    df = table(**columns)
    with pytest.raises(Compute, match=f"(?s)fit_gbdt: .*{message}") as eager:
        fit(df, **params)
    assert "bug" not in str(eager.value)
    with pytest.raises(Compute, match=f"(?s)fit_gbdt: .*{message}"):
        df.lazy().select(tg.fit_gbdt("y", "a", "b", **{"rounds": 2, **params})).collect()


def test_no_features() -> None:
    with pytest.raises(ValueError, match="no features"):
        tg.fit_gbdt("y")
    with pytest.raises(ValueError, match="no features"):
        tg.fit_gbdt("y", [])
    with pytest.raises(Compute, match="no features"):
        fit(table(), "y", cs.date())


def test_a_feature_twice() -> None:
    with pytest.raises(ValueError, match="`a`: this feature is given twice"):
        fit(table(), "y", "a", "b", pl.col("a"))
    # By Polars, or where that lets such a struct be (Polars 1) by the fit.
    with pytest.raises((pl.exceptions.DuplicateError, Compute), match=r"['`]a['`]"):
        fit(table(), "y", "a", cs.float())
    with pytest.raises((pl.exceptions.DuplicateError, Compute), match="a"):
        fit(table(), "y", "a", pl.struct(cs.float()).alias("s"))
    with pytest.raises(ValueError, match="`a`: this feature is given twice"):
        fit(table(), "y", "a", pl.struct("b", "a"))
    with pytest.raises(Compute, match="`a`: this feature is given twice"):
        fit(table().with_columns(s=pl.struct(cs.float())), "y", "a", "s")


def test_the_target_among_the_features() -> None:
    with pytest.raises(ValueError, match="`y`: the target is among"):
        fit(table(), "y", "a", "y")
    with pytest.raises(Compute, match="`y`: the target is among"):
        fit(table(), "y", pl.all())
    with pytest.raises(Compute, match="`y`: the target is among"):
        fit(table(), pl.col("y"), cs.numeric())
    # A column of the target's name with other values is a feature like any other.
    assert list(fit(table(), "y", "a", pl.col("y").shift(1)).features) == ["a", "y"]


def test_lengths_that_differ() -> None:
    with pytest.raises(pl.exceptions.PolarsError, match=r"length|rows"):
        fit(table(), "y", "a", pl.col("b").head(3))
    with pytest.raises(pl.exceptions.PolarsError, match=r"length|rows"):
        table().lazy().select(tg.fit_gbdt("y", "a", pl.col("b").head(3))).collect()


def test_no_rows() -> None:
    for df in [table().clear(), table().clear().with_columns(pl.col("y") > 1)]:
        with pytest.raises(Compute, match="no rows"):
            fit(df)
        with pytest.raises(Compute, match="no rows"):
            df.lazy().select(tg.fit_gbdt("y", "a")).collect()


def test_one_row() -> None:
    with pytest.raises(Compute, match="1 training row"):
        fit(table().head(1))


def test_nothing_to_split_on() -> None:
    for df in [
        table(a=[1.5] * 10, b=[7] * 10),
        table(a=[None] * 10, b=pl.Series([None] * 10, dtype=pl.Int8)),
        table(a=[NAN] * 10, b=[None] * 10),
    ]:
        # Trees of one leaf: the mean.
        model = fit(df)
        assert model.trees()["leaf"].null_count() == 0
        assert df.select(tg.predict(model))["prediction"].to_numpy() == pytest.approx(df["y"].mean(), rel=1e-6)
    # One good feature is enough; the constant ones are kept by name.
    assert list(fit(table(b=[7] * 10)).features) == ["a", "b"]


@pytest.mark.parametrize("policy", ["symmetric", "depthwise", "leafwise"])
def test_infinite_and_extreme_features(policy: str) -> None:
    df = table(a=[-INF, -1e300, -1.0, -1e-300, 0.0, 1e-300, 1.0, 1e300, INF, NAN])
    model = fit(df, rounds=100, policy=policy, min_child_weight=0, l2=0, learning_rate=0.5)
    p = df.select(tg.predict(model))["prediction"]
    assert p.to_list() == pytest.approx(df["y"].to_list(), abs=0.1)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"round": 1}, TypeError, "`round`; did you mean `rounds`"),
        ({"trees": 1}, TypeError, "`trees`; did you mean `rounds`"),
        ({"n_estimators": 1}, TypeError, "`n_estimators`; did you mean `rounds`"),
        ({"max_dept": None}, TypeError, "max_dept"),
        ({"num_leaves": 31}, TypeError, "num_leaves"),
        ({"rounds": 0}, ValueError, "`rounds`: 0 is not between"),
        ({"rounds": 1.5}, ValueError, "`rounds`: 1.5"),
        ({"rounds": "many"}, ValueError, "`rounds`"),
        ({"rounds": -1}, ValueError, "`rounds`"),
        ({"learning_rate": 0}, ValueError, "`learning_rate`"),
        ({"learning_rate": NAN}, ValueError, "`learning_rate`: nan"),
        ({"depth": 17}, ValueError, "`depth`: 17"),
        ({"leaves": 8}, ValueError, "`leaves`"),
        ({"leaves": 1, "policy": "leafwise"}, ValueError, "`leaves`: 1"),
        ({"policy": "lossguide"}, ValueError, "`policy`"),
        ({"loss": "mse"}, ValueError, "`loss`"),
        ({"metric": "mape"}, ValueError, "`metric`"),
        ({"bins": 257}, ValueError, "`bins`: 257"),
        ({"bins": 1}, ValueError, "`bins`: 1 is not between 2 and 256"),
        ({"border_method": "median"}, ValueError, "`border_method`"),
        ({"l2": -1}, ValueError, "`l2`"),
        ({"min_gain": INF}, ValueError, "`min_gain`: inf"),
        ({"max_delta_step": 0}, ValueError, "`max_delta_step`: 0"),
        ({"max_delta_step": INF}, ValueError, "`max_delta_step`: inf"),
        ({"path_smooth": -0.5}, ValueError, "`path_smooth`: -0.5"),
        ({"extra_trees": 3}, (TypeError, ValueError), "`extra_trees`"),
        ({"random_strength": -1}, ValueError, "`random_strength`: -1"),
        ({"leaf_iterations": 0}, ValueError, "`leaf_iterations`: 0 is not between 1 and 100"),
        ({"leaf_iterations": 1.5}, (TypeError, ValueError), "`leaf_iterations`"),
        ({"leaf_iterations": 2, "loss": "mape"}, ValueError, '`leaf_iterations`: loss="mape"'),
        ({"leaf_estimation_iterations": 5}, (TypeError, ValueError), "did you mean `leaf_iterations"),
        ({"has_time": True}, (TypeError, ValueError), "order_by="),
        ({"leaf": "line"}, ValueError, "`leaf`"),
        ({"leaf": 3}, (TypeError, ValueError), "`leaf`"),
        ({"leaf": "linear", "linear_l2": -1}, ValueError, "`linear_l2`: -1"),
        ({"leaf": "linear", "leaf_iterations": 3}, ValueError, "`leaf`: .*`leaf_iterations`"),
        ({"linear_l2": 1}, ValueError, "`linear_l2`.*counts only"),
        ({"linear_tree": True}, (TypeError, ValueError), 'leaf="linear"'),
        ({"linear_lambda": 1}, (TypeError, ValueError), "did you mean `linear_l2"),
        ({"boosting": "dart", "drop_rate": 1.5}, ValueError, "`drop_rate`: 1.5"),
        ({"boosting": "dart", "skip_drop": -0.5}, ValueError, "`skip_drop`: -0.5"),
        ({"boosting": "dart", "max_drop": 0}, ValueError, "`max_drop`: 0"),
        ({"boosting": "dart", "normalize": "trees"}, ValueError, "`normalize`"),
        ({"boosting": "ordered", "drop_rate": 0.2}, ValueError, "`drop_rate`: counts only under boosting"),
        ({"boosting": "ordered", "leaf": "linear"}, ValueError, '`leaf`: .*boosting="ordered"'),
        ({"boosting": "ordered", "loss": "cox"}, ValueError, '`boosting`: "ordered".*loss="cox"'),
        ({"boosting_type": "Ordered"}, (TypeError, ValueError), 'boosting="ordered"'),
        ({"drop_rate": 0.2}, ValueError, "`drop_rate`: counts only under boosting"),
        ({"alpha": 1.0}, ValueError, "`alpha`"),
        ({"row_fraction": 0.5}, ValueError, "`row_fraction`"),
        ({"row_fraction": 1.5, "row_sample": "mvs"}, ValueError, "`row_fraction`"),
        ({"row_fraction": 0.5, "row_sample": "bayesian"}, ValueError, "`row_fraction`: needs"),
        ({"bagging_temperature": 0.5}, ValueError, "`bagging_temperature`: needs"),
        ({"bagging_temperature": -1, "row_sample": "bayesian"}, ValueError, "`bagging_temperature`: -1"),
        ({"bagging_temperature": 11, "row_sample": "bayesian"}, ValueError, "`bagging_temperature`: 11"),
        ({"feature_fraction": 0}, ValueError, "`feature_fraction`"),
        ({"monotone": {"a": 2}}, ValueError, "`monotone`: 2"),
        ({"monotone": [1, 0]}, ValueError, "`monotone`"),
        ({"bins": {"a": 1}}, ValueError, "`bins`: 1 for `a`"),
        ({"bins": {"a": "many"}}, TypeError, "`bins`: 'many' for `a`"),
        ({"bins": "many"}, ValueError, "`bins`: .many. is not a whole number from 2 to 256, or a dict"),
        ({"feature_weights": {"a": -2}}, ValueError, "`feature_weights`: -2 for `a`"),
        ({"feature_weights": {"a": NAN}}, ValueError, "`feature_weights`: nan for `a`"),
        ({"feature_weights": {"a": INF}}, ValueError, "`feature_weights`: inf for `a`"),
        ({"feature_weights": {"a": None}}, TypeError, "`feature_weights`: None for `a`"),
        ({"feature_weights": [1, 0]}, ValueError, "`feature_weights`"),
        ({"feature_contri": {"a": 2}}, (TypeError, ValueError), "did you mean `feature_weights"),
        ({"class_weight": {"u": -1.0}}, ValueError, "`class_weight`"),
        ({"seed": -1}, ValueError, "`seed`"),
        ({"n_threads": 0}, ValueError, "`n_threads`"),
        ({"device": "cuda:9999"}, ValueError, "`device`"),
        ({"device": "tpu"}, ValueError, "`device`"),
        ({"monotone": object()}, TypeError, "`monotone`"),
        ({"ctr": "borders"}, TypeError, r"`ctr`: it is a list of statistics, ctr=\['borders'\]"),
        ({"metric": [None]}, TypeError, "`metric`: None is neither a metric's name"),
        ({"metric": [["auc"]]}, TypeError, r"`metric`: \['auc'\] is neither a metric's name"),
        ({"depth": 10**400}, ValueError, "`depth`: the number is too large"),
        ({"depth": 10**5000}, ValueError, "`depth`: the number is too large"),
        ({"l2": 10**400}, ValueError, "`l2`: the number is too large"),
        ({"seed": 2**64}, ValueError, "`seed`: the number is not below 2"),
        ({"seed": -(2**64)}, ValueError, "`seed`: the number is below -2"),
        ({"verbose": 1.5}, TypeError, "`verbose`: 1.5 is no number"),
        ({"snapshot_every": 1.5}, TypeError, "`snapshot_every`: 1.5 is no number"),
    ],
)
def test_parameters(params: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tg.fit_gbdt("y", "a", **params)


def test_none_is_the_default_and_numpy_numbers_are_numbers() -> None:
    import numpy as np

    plain = fit(table())
    assert fit(table(), depth=None, metric=None, class_weight=None, row_sample=None) == plain
    assert fit(table(), rounds=np.int64(2), l2=np.float32(1), seed=np.uint8(0)) == plain


def test_numbers_of_numpy_say_how_often(tmp_path: Path) -> None:
    """Proves that `verbose`, `snapshot_every` and `batches` take NumPy's integers as Python's."""
    import numpy as np

    file = tmp_path / "fit.snapshot"
    few: dict[str, Any] = {"rounds": 4, "verbose": np.int64(2), "snapshot": file, "snapshot_every": np.int32(2)}
    assert fit(table(), **few) == fit(table(), rounds=4)
    assert file.exists()
    with pytest.raises(ValueError, match="`batches`: 0 rows are no batch"):
        table().taiga.fit_gbdt("y", "a", batches=np.int64(0))
    if hasattr(pl.LazyFrame, "collect_batches"):
        assert table().taiga.fit_gbdt("y", "a", "b", rounds=4, batches=np.int64(3)) == fit(table(), rounds=4)


def test_a_snapshot_without_a_folder_is_told_at_the_call(tmp_path: Path) -> None:
    """Proves that it is not the first rounds, trees or passes that find out."""
    file = tmp_path / "none" / "fit.snapshot"
    for call in (
        lambda: tg.fit_gbdt("y", "a", snapshot=file),
        lambda: tg.fit_forest("y", "a", snapshot=str(file)),
        lambda: tg.fit_sparse_lr("y", dense="a", snapshot=file),
    ):
        with pytest.raises(
            ValueError, match=r"parameter `snapshot`: there is no folder .*none, where the file is to be"
        ):
            call()
    one = tg.Collective(rank=1, world=2, address="127.0.0.1:29500", secret="a cedar")
    tg.fit_gbdt("y", "a", snapshot=file, collective=one)
    if os.name == "posix" and os.geteuid() != 0:
        (tmp_path / "none").mkdir(mode=0o500)
        with pytest.raises(ValueError, match=r"parameter `snapshot`: the folder .* can't be written to"):
            tg.fit_gbdt("y", "a", snapshot=file)


def test_one_metric_of_a_linear_model() -> None:
    """Proves that a list of metrics is refused by the parameter's name."""
    with pytest.raises(TypeError, match=r"`metric`: it is one here, and not \['auc', 'logloss'\]"):
        tg.fit_sparse_lr("y", dense="a", eval="b", metric=["auc", "logloss"])  # type: ignore[arg-type]


HINTS: list[tuple[Any, str, str]] = [
    (tg.fit_forest, "baseline", "it is an argument of `fit_gbdt` and of no other fit"),
    (tg.fit_forest, "base_margin", "it is an argument of `fit_gbdt` and of no other fit"),
    (tg.fit_sparse_lr, "baseline", "it is an argument of `fit_gbdt` and of no other fit"),
    (tg.fit_forest, "eval", "a forest is measured by the rows out of bag"),
    (tg.fit_forest, "eval_set", "a forest is measured by the rows out of bag"),
    (tg.fit_forest, "evals_result", "a forest is measured by the rows out of bag"),
    (tg.fit_forest, "tol", "leave it out: a forest has as many trees as trees= says"),
    (tg.fit_forest, "C", "leave it out: there is no such choice here"),
    (tg.fit_forest, "penalty", "leave it out: there is no such choice here"),
    (tg.fit_gbdt, "C", "leave it out: there is no such choice here"),
    (tg.fit_gbdt, "penalty", "l1= and l2= are the penalties"),
    (tg.fit_sparse_lr, "C", "the penalty is l2=1 / .C"),
    (tg.fit_sparse_lr, "tree_method", "leave it out: there are no trees"),
    (tg.fit_gbdt, "dtype", "it is an argument of tg.predict"),
    (tg.fit_gbdt, "space", "tg.search tries parameters"),
    (tg.fit_gbdt, "n_folds", "folds= of tg.cross_validate"),
    (tg.fit_gbdt, "verbosity", "progress=True .*`Model.history` has"),
    (tg.fit_gbdt, "evals_result", "leave it out: `Model.history` has"),
    (tg.fit_forest, "verbose", "progress=True shows a progress bar, progress=False none$"),
]


@pytest.mark.parametrize(("function", "name", "text"), HINTS)
def test_a_hint_recommends_what_the_function_has(function: Any, name: str, text: str) -> None:
    """Proves that names of others are answered by parameters of the learner that is asked, and of no other."""
    with pytest.raises(TypeError, match=f"^there is no parameter `{name}`: {text}"):
        function("y", "a", **{name: 1})


def test_class_weights_by_any_label() -> None:
    flags = table(y=[True, False] * 5)
    by_bool = fit(flags, class_weight={True: 2.0, False: 1.0})
    assert by_bool == fit(flags, class_weight={"true": 2, "false": 1})
    for first, second in [(True, False), (1, 2), (0.0, 1.0), ("u", "v")]:
        df = table(y=[first, second] * 5, w=[2.0, 1.0] * 5)
        weights = {first: 2.0, second: 1.0}
        by_label = fit(df, loss="logloss", class_weight=weights)
        assert by_label.classes == sorted(weights)
        predicted, plain, by_row = (
            df.select(tg.predict(m))["prediction"].to_list()
            for m in (by_label, fit(df, loss="logloss"), fit(df, loss="logloss", weight="w"))
        )
        assert predicted == pytest.approx(by_row, abs=1e-6)
        assert predicted != pytest.approx(plain, abs=1e-3)


def test_types_of_arguments() -> None:
    with pytest.raises(TypeError, match="target"):
        tg.fit_gbdt(3, "a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="feature"):
        tg.fit_gbdt("y", 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="weight"):
        tg.fit_gbdt("y", "a", weight=2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tg.borders("a", 1), ValueError, "`bins`: 1 is not between 2 and 65,535"),
        (lambda: tg.borders("a", 65_536), ValueError, "`bins`: 65536"),
        (lambda: tg.borders("a", device="gpu"), ValueError, "`device`"),
        (lambda: tg.quantize("a", borders=range(65_535)), ValueError, "`borders`: 65,535 are more"),
        (lambda: tg.borders("a", 2.5), TypeError, "2.5"),
        (lambda: tg.borders("a", method="mean"), ValueError, "`method`: 'mean'"),
        (lambda: table(a=["u"] * 10).select(tg.quantize("a")), Compute, "column `a`: its type is str"),
        (lambda: table().select(tg.quantize("a", borders=[2.0, 1.0])), Compute, "`borders` must ascend"),
        (lambda: table().select(tg.quantize("a", borders=[NAN])), Compute, "`borders` must ascend"),
        (
            lambda: table().select(tg.quantize("a", 2, borders=pl.lit(pl.Series([1.0, 2.0])).implode())),
            Compute,
            "`borders` has 2 values, and bins=2 leaves room for no more than 1",
        ),
    ],
)
def test_quantize(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_types_that_plugins_do_not_know_are_named() -> None:
    """Proves that no type of the main library is a panic here: arrays of no values, and types of other libraries."""
    try:
        arrays = pl.Series([[]] * 6, dtype=pl.Array(pl.Int8, 0))
    except pl.exceptions.ComputeError:
        pytest.skip("early versions of Polars make no arrays of no values")
    nothing = pl.DataFrame({"k": arrays, "x": range(6), "y": range(6)})
    for query in (tg.fit_gbdt("k", "x", rounds=1), tg.fit_gbdt("y", "k", rounds=1), tg.count_encode("k")):
        with pytest.raises(
            pl.exceptions.ComputeError, match="column `k`: its type is arrays of no values; cast it first"
        ):
            nothing.select(query)


def test_names_with_the_character_nul() -> None:
    """Proves that a name which Polars can't hand to a plugin is an error that says so, in a call and in a model."""
    df = pl.DataFrame({"a\0b": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]})
    for call in (
        lambda: tg.fit_gbdt("y", "a\0b"),
        lambda: tg.fit_gbdt("a\0b", "y"),
        lambda: tg.fit_gbdt("y", pl.col("y").alias("a\0b")),
        lambda: tg.histogram("a\0b"),
        lambda: df.taiga.fit_forest("y", "a\0b"),
    ):
        with pytest.raises(ValueError, match=r"column 'a\\x00b': .* has the character NUL in its name"):
            call()
    text = df.rename({"a\0b": "a"}).taiga.fit_gbdt("y", "a", rounds=1).to_json()
    with pytest.raises(ValueError, match=r"the feature \"a\\0b\" has the character NUL"):
        tg.Model.from_json(text.replace('"a"', '"a\\u0000b"'))


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("feature_weights", {"a": -1}, "-1 for `a` is not zero or a positive number"),
        ("feature_weights", {"a": math.nan}, "nan for `a` is not zero or a positive number"),
        ("feature_weights", {"a": "b"}, "'b' for `a` is not a number"),
        ("feature_weights", [("a", -1)], "-1 for `a` is not zero or a positive number"),
        ("bins", {"a": 1}, "1 for `a` is not between 2 and 256"),
        ("bins", {"a": 1.5}, "1.5 for `a` is not a whole number"),
        ("monotone", [("a", 3)], "3 is not -1, 0 or 1"),
    ],
)
def test_a_fault_of_a_feature_is_told_once(name: str, value: Any, text: str) -> None:
    """Proves that what is found wrong before the engine looks is all that is told of a parameter."""
    with pytest.raises((TypeError, ValueError)) as raised:
        tg.fit_gbdt("y", "a", **{name: value})
    assert str(raised.value) == f"parameter `{name}`: {text}"


def test_baselines_of_one_name() -> None:
    """Proves that columns of a baseline are told apart by their place, whatever they are called."""
    row = pl.int_range(60)
    frame = pl.select(x=row, k=(row % 3).cast(pl.String), z=(row % 7) / 7, o=pl.lit(0.0))
    others = [pl.col("z"), pl.col("z").alias("z (1)"), pl.col("z") * 2]
    of_names = ["z", "o", "p"]
    named = frame.taiga.fit_gbdt(
        "k", "x", rounds=3, baseline=[expr.alias(name) for expr, name in zip(others, of_names, strict=True)]
    )
    for baseline in (others, ["z", pl.col("z"), pl.col("z") * 2]):
        assert frame.taiga.fit_gbdt("k", "x", rounds=3, baseline=baseline) == named
    equal = frame.taiga.fit_gbdt("k", "x", rounds=3, baseline=["z", "z", "z"])
    assert equal != named


def test_a_constant_of_several_processes_is_refused_at_the_call() -> None:
    """Proves that a job does not find out on the day that its rows are at fault."""
    us = tg.Collective(rank=0, world=1, address="127.0.0.1:29512", secret="a")
    for fit in (tg.fit_gbdt, tg.fit_forest, tg.fit_sparse_lr):
        with pytest.raises(ValueError, match='`on_error`: "constant" is not fitted over several processes'):
            fit("y", "a", on_error="constant", collective=us)


def test_a_model_of_ours_is_not_imported() -> None:
    """Proves that whoever imports our own model is told what reads it."""
    model = pl.DataFrame({"x": range(50), "y": range(50)}).taiga.fit_gbdt("y", "x", rounds=2)
    for data in (model.to_bytes(), model.to_json().encode()):
        with pytest.raises(ValueError, match=r"of polars-taiga itself: tg\.Model\.load reads"):
            tg.import_model(data)


def test_what_is_no_model_to_begin_with_names_the_parameter() -> None:
    """Proves that bytes which are no model are told of the parameter that they were given for."""
    with pytest.raises(ValueError, match="parameter `init_model`: these bytes are not a polars-taiga model"):
        tg.fit_gbdt("y", "a", init_model=b"zzz")

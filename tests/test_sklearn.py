"""The scikit-learn estimators: its own checks, what it builds of them, and that they are the functions' models."""

from __future__ import annotations

import datetime as dt
import inspect
import pickle
import re
import subprocess
import sys
import uuid
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import polars.selectors as cs
import polars_taiga as tg
import pyarrow as pa
import pytest
import scipy.sparse as sp
import sklearn
from polars_taiga.sklearn import (
    ForestClassifier,
    ForestRegressor,
    GbdtClassifier,
    GbdtRanker,
    GbdtRegressor,
    SparseLogisticRegression,
    TargetEncoder,
)
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

# Older versions of Polars take some names for patterns everywhere.
KNOWS_NAMES = pl.DataFrame({"^a$": [1], "a": [2]}).select(cs.by_name("^a$")).columns == ["^a$"]
CLASSIFIERS = [GbdtClassifier, ForestClassifier, SparseLogisticRegression]
REGRESSORS = [GbdtRegressor, ForestRegressor]
NAMES = [f"x{i}" for i in range(4)]

# scikit-learn wants weights of 2 to be the same as rows that stand twice, to seven digits, and a class of weight 0.0001
# not to matter. A forest that draws rows or features can't have the first (scikit-learn's own are excepted there), and
# one without any limit not the second. An encoder's values of training rows are those of new rows only where every
# row's category is sure, which takes prior_weight="auto".
CHECKED = [
    GbdtClassifier(rounds=5),
    GbdtRegressor(rounds=5),
    GbdtRanker(rounds=5),
    ForestClassifier(trees=5, bootstrap=False, max_features="all", min_gain=1e-4),
    ForestRegressor(trees=1, bootstrap=False, max_features="all"),
    SparseLogisticRegression(),
    TargetEncoder(kind="kfold", prior_weight="auto"),
]


@parametrize_with_checks(CHECKED)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    """All of `check_estimator`, without a list of exceptions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def test_linear_leaves_on_weights_and_on_repeated_rows() -> None:
    """Proves that fits differ in nothing but leaves of fewer rows than columns and 1, which stay numbers: a row of
    weight 3 is one there.
    """
    rng = np.random.RandomState(0)
    rows, weight = rng.normal(size=(60, 3)), rng.randint(0, 5, size=60)
    y = rows[:, 0] - rows[:, 1] * (rows[:, 0] > 0) + rng.normal(size=60) / 5
    new = pl.DataFrame(rows, schema=["x0", "x1", "x2"])

    def fits(**params: Any) -> tuple[Any, Any]:
        est = GbdtRegressor(policy="leafwise", leaf="linear", **params)
        repeated = clone(est).fit(rows.repeat(weight, axis=0), y.repeat(weight))
        return repeated.model_, est.fit(rows, y, sample_weight=weight).model_

    repeated, weighted = fits(rounds=5, leaves=2)
    assert weighted.trees()["coefficients"].drop_nulls().list.len().max() == 1
    assert np.abs((repeated.predict(new) - weighted.predict(new)).to_numpy()).max() < 1e-7
    repeated, weighted = fits(rounds=2)
    ours, theirs = (model.trees().filter(pl.col("leaf").is_not_null()) for model in (weighted, repeated))
    assert ours.select("tree", "leaf", "depth").equals(theirs.select("tree", "leaf", "depth"))
    differ = ours["constant"].is_null() != theirs["constant"].is_null()
    assert differ.any()
    assert (ours.filter(differ)["count"] <= ours.filter(differ)["depth"]).all()
    assert ours.filter(differ)["constant"].null_count() == differ.sum()


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.round(np.random.default_rng(0).normal(size=(400, 4)) * 64) / 64


@pytest.fixture(scope="module")
def number(x: np.ndarray) -> np.ndarray:
    return x[:, 0] - 2 * (x[:, 1] > 0) + x[:, 2] * x[:, 3]


@pytest.fixture(scope="module")
def flag(number: np.ndarray) -> np.ndarray:
    return (number > 0).astype(int)


@pytest.fixture(scope="module")
def kind(number: np.ndarray) -> np.ndarray:
    return np.array(["low", "mid", "top"])[np.digitize(number, [-2.0, 0.5])]


def small(cls: Any, **params: Any) -> Any:
    """An estimator of few trees."""
    size = {SparseLogisticRegression: None, ForestClassifier: "trees", ForestRegressor: "trees"}.get(cls, "rounds")
    return cls(**({} if size is None else {size: 8}), **params)


def test_importing_the_package_does_not_import_scikit_learn() -> None:
    code = "import sys, polars_taiga; sys.exit('sklearn' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("cls", "function", "params"),
    [
        (GbdtClassifier, tg.fit_gbdt, tg.GbdtParams),
        (GbdtRegressor, tg.fit_gbdt, tg.GbdtParams),
        (GbdtRanker, tg.fit_gbdt, tg.GbdtParams),
        (ForestClassifier, tg.fit_forest, tg.ForestParams),
        (ForestRegressor, tg.fit_forest, tg.ForestParams),
        (SparseLogisticRegression, tg.fit_sparse_lr, tg.LinearParams),
    ],
)
def test_parameters_are_the_functions_own(cls: Any, function: Any, params: Any, x: np.ndarray, flag: Any) -> None:
    """Names and defaults; what an estimator lacks is about the other kind of target, or is another word in
    scikit-learn.
    """
    own = {name: p.default for name, p in inspect.signature(cls.__init__).parameters.items() if name != "self"}
    lacks = set(params.__annotations__) - set(own) - {"seed", "positive"}
    of_numbers = {"alpha", "huber_delta", "tweedie_power"}
    of_groups = {"rank_truncation", "rank_normalize", "rank_orders", "rank_decay", "rank_position_l2"}
    of_two = {"focal_gamma", "focal_alpha"}
    of_times = {"aft_distribution", "aft_scale"}
    expected = {
        GbdtClassifier: of_numbers | of_groups | of_times | {"target_borders"},
        GbdtRegressor: of_groups | of_two | of_times | {"class_weight"},
        GbdtRanker: of_numbers | of_two | of_times | {"class_weight", "multi_strategy"},
    }
    assert lacks == expected.get(cls, {"class_weight"} if is_regressor(cls()) else set())
    assert set(own) - set(params.__annotations__) == {"random_state", "progress"} | (
        {"indices", "values"} if cls is SparseLogisticRegression else set()
    )
    fitted = cls().fit(x, flag).model_.params
    for name, default in own.items():
        if default is not None and name in fitted and default != "auto":
            kept = tuple(fitted[name]) if isinstance(default, tuple) else fitted[name]
            assert kept == default, name
    for name in own:
        assert f"\n{name}" in cls.__doc__ or f", {name}" in cls.__doc__, name
    assert function.__doc__ is not None


def table(x: np.ndarray, **more: Any) -> pl.DataFrame:
    return pl.DataFrame(x, schema=NAMES).with_columns(pl.Series(name, values) for name, values in more.items())


def test_boosted_classes_are_fit_gbdts(x: np.ndarray, kind: np.ndarray, flag: np.ndarray) -> None:
    df = table(x, target=kind)
    est = GbdtClassifier(rounds=8, random_state=3).fit(x, kind)
    assert est.model_ == df.taiga.fit_gbdt("target", NAMES, rounds=8, seed=3, loss="multiclass")
    direct = df.select(tg.predict(est.model_)).unnest("prediction").to_numpy()
    assert np.array_equal(est.predict_proba(x), direct)
    assert np.array_equal(est.predict(x), df.select(tg.predict(est.model_, output="class")).to_series().to_numpy())
    raw = df.select(tg.predict(est.model_, output="raw")).unnest("prediction").to_numpy()
    assert np.array_equal(est.decision_function(x), raw)
    two = GbdtClassifier(rounds=8).fit(x, flag)
    model = table(x, target=flag).taiga.fit_gbdt("target", NAMES, rounds=8, loss="logloss")
    assert two.model_ == model
    assert np.array_equal(two.predict_proba(x)[:, 1], df.select(tg.predict(model)).to_series().to_numpy())
    assert np.array_equal(two.decision_function(x), df.select(tg.predict(model, output="raw")).to_series().to_numpy())


def test_boosted_numbers_are_fit_gbdts(x: np.ndarray, number: np.ndarray) -> None:
    weight = np.arange(len(x)) % 3 + 0.5
    est = GbdtRegressor(
        rounds=8, policy="leafwise", monotone={0: 1}, bins={0: 20}, feature_weights={1: 0.5}, loss="huber"
    )
    est.fit(x, number, sample_weight=weight)
    df = table(x, target=number, weight=weight)
    model = df.taiga.fit_gbdt(
        "target",
        NAMES,
        weight="weight",
        rounds=8,
        policy="leafwise",
        monotone={"x0": 1},
        bins={"x0": 20},
        feature_weights={"x1": 0.5},
        loss="huber",
    )
    assert est.model_ == model
    assert np.array_equal(est.predict(x), df.select(tg.predict(model)).to_series().to_numpy())
    gains = model.importance()["importance"].to_numpy()
    assert np.allclose(est.feature_importances_, gains / gains.sum())
    assert est.n_iter_ == 8


def test_lists_with_an_entry_for_each_column(x: np.ndarray, number: np.ndarray) -> None:
    """Proves that they are dicts by name, of arrays and of frames, of lists and of arrays."""
    lists: dict[str, Any] = {"monotone": [1, 0, -1, 0], "feature_weights": np.array([1.0, 0.5, 1.0, 0.0])}
    dicts: dict[str, Any] = {"monotone": {"x0": 1, "x2": -1}, "feature_weights": {"x1": 0.5, "x3": 0.0}}
    expected = GbdtRegressor(rounds=4, policy="depthwise", **dicts).fit(x, number).model_
    for data in (x, table(x)):
        assert clone(GbdtRegressor(rounds=4, policy="depthwise", **lists)).fit(data, number).model_ == expected
    with_array = GbdtRegressor(rounds=4, policy="depthwise", monotone=np.array(lists["monotone"]))
    without = GbdtRegressor(rounds=4, policy="depthwise", monotone={0: 1, 2: -1})
    assert with_array.fit(x, number).model_ == without.fit(x, number).model_
    assert (
        GbdtRegressor(rounds=1, monotone=[0] * 4).fit(x, number).model_ == GbdtRegressor(rounds=1).fit(x, number).model_
    )


@pytest.mark.parametrize("cls", [GbdtClassifier, GbdtRegressor, GbdtRanker, ForestClassifier, ForestRegressor])
def test_a_mask_of_categorical_columns(cls: Any, x: np.ndarray, flag: np.ndarray) -> None:
    """Proves that one entry for each column chooses columns, in any kind of list, and that a name alone is one."""
    codes = np.column_stack([np.arange(len(x)) * 7 % 5, x[:, 0], np.arange(len(x)) % 3])
    frame = pl.DataFrame(codes, schema=["ab", "b", "c"])

    def fitted(data: Any, categorical: Any) -> tg.Model:
        model: tg.Model = small(cls, categorical=categorical).fit(data, flag).model_
        return model

    expected = fitted(frame, ["ab", "c"])
    assert list(expected.features.values()) == ["categorical", "numeric", "categorical"]
    mask = [True, False, True]
    for given in (mask, np.array(mask), tuple(np.array(mask)), pl.Series(mask), pd.Series(mask)):
        assert fitted(frame, given) == expected
        assert fitted(codes, given) == fitted(codes, [0, 2])
    assert fitted(frame, [False] * 3) == fitted(frame, None) == fitted(frame, [])
    for one in ("ab", 0, np.int64(0)):
        assert fitted(frame, one) == fitted(frame, ["ab"]) == fitted(frame, [True, False, False])
    for wrong in ([True, False], [True] * 4):
        with pytest.raises(ValueError, match=f"`categorical`: it is a mask of {len(wrong)} entries, .*X has 3"):
            fitted(frame, wrong)
    for wrong in ([True, 0, 1], True, np.bool_(True), [[True, False, True]]):
        with pytest.raises(ValueError, match="`categorical`: True is no column"):
            fitted(frame, wrong)


@pytest.mark.skipif(not hasattr(pl.LazyFrame, "collect_batches"), reason="Polars has no collect_batches")
def test_masks_and_names_of_categorical_columns_in_batches(x: np.ndarray, number: np.ndarray) -> None:
    frame = pl.DataFrame({"ab": np.arange(len(x)) * 7 % 5, "b": x[:, 0]})
    expected = GbdtRegressor(rounds=3, categorical=["ab"]).fit(frame, number).model_
    for given in ("ab", 0, [True, False]):
        assert GbdtRegressor(rounds=3, categorical=given).fit(frame.lazy(), number, batches=True).model_ == expected


@pytest.mark.parametrize(
    "params",
    [{"monotone": {True: 1}}, {"bins": {True: 9}}, {"feature_weights": {True: 2.0}}, {"interaction": [[True, False]]}],
)
def test_a_boolean_is_no_position(params: dict[str, Any], x: np.ndarray, number: np.ndarray) -> None:
    (name,) = params
    with pytest.raises(ValueError, match=f"parameter `{name}`: True is no column; one is named, or numbered from 0 on"):
        GbdtRegressor(rounds=2, **params).fit(x, number)


def test_forests_are_fit_forests(x: np.ndarray, number: np.ndarray, kind: np.ndarray) -> None:
    numbers = ForestRegressor(trees=8, bins={1: 9}, random_state=5).fit(x, number)
    assert numbers.model_ == table(x, target=number).taiga.fit_forest(
        "target", NAMES, trees=8, bins={NAMES[1]: 9}, seed=5
    )
    classes = ForestClassifier(trees=8).fit(x, kind)
    assert classes.model_ == table(x, target=kind).taiga.fit_forest("target", NAMES, trees=8, criterion="gini")
    assert classes.oob_score_ == classes.model_.oob_score
    assert classes.feature_importances_.sum() == pytest.approx(1.0)
    with pytest.raises(AttributeError, match="out-of-bag"):
        ForestClassifier(trees=2, bootstrap=False).fit(x, kind).oob_score_  # noqa: B018


@pytest.mark.parametrize("target", ["flag", "kind"])
def test_a_linear_model_is_fit_sparse_lrs(target: str, x: np.ndarray, request: pytest.FixtureRequest) -> None:
    y = request.getfixturevalue(target)
    est = SparseLogisticRegression().fit(x, y)
    assert est.model_ == table(x, target=y).taiga.fit_sparse_lr("target", dense=NAMES)
    scores = x @ est.coef_.T + est.intercept_
    assert np.allclose(est.decision_function(x), scores[:, 0] if target == "flag" else scores)
    peer = LogisticRegression(tol=1e-8).fit(x, y)
    tight = SparseLogisticRegression(tolerance=1e-8).fit(x, y)
    assert np.allclose(tight.predict_proba(x), peer.predict_proba(x), atol=1e-4)
    if target == "flag":
        assert np.allclose(tight.coef_, peer.coef_, atol=1e-3)


@pytest.mark.parametrize("cls", [*CLASSIFIERS, *REGRESSORS])
def test_a_sparse_matrix_is_the_dense_one(cls: Any, x: np.ndarray, flag: np.ndarray) -> None:
    x = np.where(np.abs(x) < 1, 0.0, x)
    x[7] = 0.0  # a row without entries
    dense = small(cls).fit(x, flag)
    score = "predict_proba" if is_classifier(dense) else "predict"
    for kind in (sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix):
        sparse = small(cls).fit(kind(x), flag)
        if cls is not SparseLogisticRegression:  # its sparse features have numbers for names
            assert sparse.model_ == dense.model_
        for one, other in [(sparse, x), (dense, kind(x)), (sparse, kind(x))]:
            assert np.allclose(getattr(one, score)(other), getattr(dense, score)(x), rtol=1e-6)
    if cls is SparseLogisticRegression:
        assert np.allclose(sparse.coef_, dense.coef_, rtol=1e-5)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("cls", [*CLASSIFIERS, *REGRESSORS])
def test_a_sparse_matrix_with_duplicates_stays_as_it_is(cls: Any, kind: Any) -> None:
    """Proves that entries of one place count as their sum, and that no array of the matrix is written to."""
    rng = np.random.default_rng(5)
    by_row = kind in (sp.csr_matrix, sp.csr_array)
    lines, places = (60, 4) if by_row else (4, 60)
    parts = [
        rng.integers(1, 5, 180).astype(float),
        rng.integers(0, places, 180).astype(np.int32),
        np.linspace(0, 180, lines + 1).astype(np.int32),
    ]
    dense = np.zeros((lines, places))
    for line in range(lines):
        for entry in range(parts[2][line], parts[2][line + 1]):
            dense[line, parts[1][entry]] += parts[0][entry]
    dense = dense if by_row else dense.T
    y = (dense.sum(axis=1) > np.median(dense.sum(axis=1))).astype(int)
    kept = [part.copy() for part in parts]
    for part in parts:
        part.flags.writeable = False
    matrix = kind(tuple(parts), shape=(60, 4))
    est = small(cls).fit(matrix, y)
    assert est.model_ == small(cls).fit(kind(dense), y).model_
    assert np.array_equal(est.predict(matrix), est.predict(dense))
    for part, own, now in zip(kept, parts, (matrix.data, matrix.indices, matrix.indptr), strict=True):
        assert np.array_equal(own, part)
        assert np.array_equal(now, part)


def tables(x: np.ndarray, number: np.ndarray) -> dict[str, tuple[Any, Any]]:
    """One table in every kind of frame, with missing values, text, categories and categories of numbers."""
    rows = len(x)
    frame = pl.DataFrame(
        {
            "a": pl.Series(x[:, 0]).set(pl.Series(np.arange(rows) % 7 == 0), None),
            "b": pl.Series(np.arange(rows) % 5, dtype=pl.Int64),
            "text": pl.Series(np.array(["u", "v", "w"])[np.arange(rows) % 3].tolist()),
            "flag": pl.Series(x[:, 3] > 0),
        }
    ).with_columns(cat=pl.format("c{}", pl.col("b") % 4).cast(pl.Categorical))
    arrow = frame.to_arrow()
    labels = np.array(["no", "yes"])[(number > 0).astype(int)]
    pandas = frame.to_pandas()
    pandas["cat"] = pd.Categorical(frame["cat"].cast(pl.String).to_list())
    return {
        "polars": (frame, pl.Series(labels)),
        "lazy": (frame.lazy(), pl.Series(labels, dtype=pl.Enum(["yes", "no"]))),
        "pandas": (pandas, pd.Series(labels, index=np.arange(rows)[::-1])),
        "pandas categories": (pandas.sample(frac=1.0, random_state=0).sort_index(), pd.Categorical(labels)),
        "arrow": (arrow, pa.chunked_array([labels.tolist()])),
        "objects": (pandas.astype(object), labels.tolist()),
    }


@pytest.mark.parametrize("cls", [GbdtClassifier, ForestClassifier])
def test_every_kind_of_table_gives_the_same_bytes(cls: Any, x: np.ndarray, number: np.ndarray) -> None:
    fits = {name: small(cls, categorical=["b"]).fit(*both) for name, both in tables(x, number).items()}
    model = fits["polars"].model_
    assert model.features["cat"] == model.features["text"] != "numeric"
    proba = fits["polars"].predict_proba(tables(x, number)["polars"][0])
    for name, est in fits.items():
        assert est.model_ == model, name
        assert list(est.feature_names_in_) == ["a", "b", "text", "flag", "cat"]
        for other, (frame, _) in tables(x, number).items():
            assert np.array_equal(est.predict_proba(frame), proba), (name, other)


def test_categories_of_numbers(x: np.ndarray, number: np.ndarray) -> None:
    """Pandas' categories and Arrow's dictionaries of numbers are categories; floats are where they are named."""
    code = np.arange(len(x)) * 7 % 5
    plain = pl.DataFrame({"x": x[:, 0], "c": code})
    model = GbdtRegressor(rounds=5, categorical=["c"]).fit(plain, number).model_
    assert model != GbdtRegressor(rounds=5).fit(plain, number).model_
    pandas = pd.DataFrame({"x": x[:, 0], "c": pd.Categorical(code)})
    arrow = pa.table({"x": x[:, 0], "c": pa.array(code).dictionary_encode()})
    for frame in (pandas, arrow):
        est = GbdtRegressor(rounds=5).fit(frame, number)
        assert est.model_ == model
        # Columns that got a missing value are floats in pandas, and a number that is not whole is in no category.
        odd = pd.DataFrame({"x": [0.5, 0.5, 0.5], "c": [np.nan, 1.5, 3.0]})
        new = pl.DataFrame({"x": [0.5] * 3, "c": pl.Series([None, 77, 3], dtype=pl.Int64)})
        assert np.array_equal(est.predict(odd), new.select(tg.predict(model)).to_series().to_numpy())
    array = GbdtRegressor(rounds=5, categorical=[1]).fit(np.column_stack([x[:, 0], code]), number)
    assert (
        array.model_
        == GbdtRegressor(rounds=5, categorical=["x1"]).fit(plain.rename({"x": "x0", "c": "x1"}), number).model_
    )


@pytest.mark.parametrize("kind", [pl.DataFrame, pd.DataFrame])
def test_names_with_the_character_nul_are_refused(kind: Any) -> None:
    """Proves that a name which Polars can't hand to a plugin is an error that says so."""
    with pytest.raises(ValueError, match=r"column 'a\\x00b': its name has the character NUL"):
        GbdtRegressor(rounds=2).fit(kind({"a\0b": [1.0, 2.0, 3.0, 4.0]}), [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("odd", [0.5, np.inf, 2.0**63])
@pytest.mark.parametrize("cls", [GbdtRegressor, ForestRegressor])
def test_categories_that_are_no_whole_numbers(cls: Any, odd: float) -> None:
    """Proves that a fit refuses floats that are no categories, and takes whole ones, and that new rows may hold any."""
    values = np.array([1.0, 2.0, np.nan, 3.0] * 30)
    y = np.nan_to_num(values)
    wrong = np.where(np.arange(120) == 77, odd, values)
    for data in (wrong.reshape(-1, 1), pd.DataFrame({"a": wrong}), pl.DataFrame({"a": wrong.astype(np.float32)})):
        text = f"`categorical` names it, and it holds {re.escape(str(odd))}, which is no whole number"
        with pytest.raises(ValueError, match=text):
            small(cls, categorical=[0]).fit(data, y)
    est = small(cls, categorical=[0]).fit(values.reshape(-1, 1), y)
    assert len(np.unique(est.predict(wrong.reshape(-1, 1)))) >= 3
    if cls is GbdtRegressor and hasattr(pl.LazyFrame, "collect_batches"):
        with pytest.raises(ValueError, match="`categorical` names it"):
            small(cls, categorical=["a"]).fit(pl.LazyFrame({"a": wrong}), y, batches=True)


@pytest.mark.skipif(not KNOWS_NAMES, reason="this Polars takes some names for patterns everywhere")
@pytest.mark.parametrize("kind", [pl.DataFrame, pl.DataFrame.lazy, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_columns_named_like_patterns(kind: Any) -> None:
    """Proves that names change nothing: of categories, of numbers, of lists, of missing values, and of labels."""
    rows = np.arange(120)
    plain = pl.DataFrame(
        {"p": rows % 2 + 1.0, "a": rows // 2 % 2 + 1.0, "q": rows % 3, "t": np.array(["u", "v"])[rows % 2]}
    )
    plain = plain.with_columns(nothing=None)
    odd = {"p": "^a$", "q": "*", "t": "^.*$", "nothing": "^t.*$"}
    named, y = plain.rename(odd), np.array([1.0, 2, 3, 4])[rows % 4]
    asked: dict[str, Any] = {"categorical": [0], "bins": {1: 5}}
    boosted: dict[str, Any] = {"rounds": 4, "min_child_weight": 0, "monotone": {2: 1}, "feature_weights": {1: 0.5}}
    for est in (GbdtRegressor(**boosted, **asked), ForestRegressor(trees=4, **asked)):
        got = clone(est).fit(kind(named), y)
        assert list(got.model_.features) == [odd.get(name, name) for name in plain.columns]
        assert np.array_equal(got.predict(kind(named)), clone(est).fit(plain, y).predict(plain))
    eval_set = (kind(named.with_columns(pl.lit("v").alias("^.*$"))), y)
    held = GbdtRegressor(rounds=3, categorical=[0]).fit(
        kind(named), y, eval_set=eval_set, row_key=pl.DataFrame({"^k$": rows})
    )
    assert held.model_.history.height == 3
    some = plain.select("p", "a", "t").with_columns(p=pl.col("p") / 4)
    encoded = [
        TargetEncoder().fit(data, y).transform(data) for data in (some, kind(some.rename({"p": "^a$", "t": "^.*$"})))
    ]
    assert np.array_equal(*encoded)
    numbers = plain.select("p", "a", "q")
    linear = [
        SparseLogisticRegression().fit(data, y > 2).coef_ for data in (numbers, kind(numbers.rename({"p": "^a$"})))
    ]
    assert np.array_equal(*linear)
    for value, text in ((float("nan"), "contains NaN"), (float("inf"), "contains infinity")):
        wrong = numbers.with_columns(p=pl.when(pl.int_range(pl.len()) == 7).then(value).otherwise("p"))
        with pytest.raises(ValueError, match=rf"{text}.*\n?.*column '\^a\$'"):
            SparseLogisticRegression().fit(kind(wrong.rename({"p": "^a$"})), y > 2)


@pytest.mark.skipif(not KNOWS_NAMES, reason="this Polars takes some names for patterns everywhere")
def test_lists_and_labels_named_like_patterns(x: np.ndarray, kind: np.ndarray) -> None:
    lists = pl.DataFrame({"i": [[0, 7], [7], [0], [7, 9]] * 20, "v": [[1.0, 2.0], [1.0], [3.0], [1.0, 0.5]] * 20})
    both = [
        SparseLogisticRegression(indices=0, values=1, features=10).fit(data, [0, 1] * 40).predict_proba(data)
        for data in (lists, lists.rename({"i": "^v$", "v": "*"}))
    ]
    assert np.array_equal(*both)
    odd = {"low": "^low$", "mid": "^mid$", "top": "^top$"}
    est = GbdtClassifier(rounds=3).fit(x, [odd[label] for label in kind])
    same = GbdtClassifier(rounds=3).fit(x, kind)
    assert np.array_equal(est.predict_proba(x), same.predict_proba(x))
    assert np.array_equal(list(est.staged_predict_proba(x)), list(same.staged_predict_proba(x)))


def test_objects_in_pandas_are_those_in_arrays(number: np.ndarray) -> None:
    """Proves that a column of several types is what it is in an array, where Arrow has no type for it."""
    y = number[:40]
    for values in ([True, 1], [2**70, 1], ["a", b"b"], [1, 2.5], [None, "a"], [Decimal(1), Decimal("2.5")]):
        pandas = pd.DataFrame({"x0": np.arange(40.0), "x1": pd.Series(values * 20, dtype=object)})
        if isinstance(values[0], Decimal):
            array: Any = np.column_stack([np.arange(40.0), np.array(values * 20, dtype=float)])
        else:
            array = pandas.to_numpy(dtype=object)
        got, want = (GbdtRegressor(rounds=3).fit(data, y) for data in (pandas, array))
        assert np.array_equal(got.predict(pandas), want.predict(array)), values
    for values in ([1, "a"], [{}, 1], [dt.date(2020, 1, 1), "a"]):
        pandas = pd.DataFrame({"a": np.arange(40.0), "k": pd.Series(values * 20, dtype=object)})
        for est in (GbdtRegressor(rounds=2), ForestRegressor(trees=2), TargetEncoder()):
            with pytest.raises(TypeError, match="column 'k': an argument must be a string or a real number"):
                est.fit(pandas, y)
        with pytest.raises(TypeError, match="column 'x1': an argument must be a string or a real number"):
            GbdtRegressor(rounds=2).fit(pandas.to_numpy(), y)


def test_types_that_polars_has_not_are_named(number: np.ndarray) -> None:
    """Proves that the error names the column and its type, at a fit and at a prediction."""
    y = number[:40]
    columns = {
        r"period\[D\]": pd.period_range("2020", periods=40, freq="D"),
        "interval": pd.interval_range(0, 40),
        "complex128": np.arange(40) * 1j,
    }
    for dtype, values in columns.items():
        frame = pd.DataFrame({"a": y, "k": values})
        for est in (GbdtRegressor(rounds=2), ForestRegressor(trees=2), SparseLogisticRegression(), TargetEncoder()):
            with pytest.raises(TypeError, match=f"column 'k': its dtype is {dtype}.*, no type of Polars' own"):
                est.fit(frame, y > 0)
        with pytest.raises(TypeError, match=f"column 'k': its dtype is {dtype}"):
            GbdtRegressor(rounds=2).fit(pd.DataFrame({"a": y, "k": y}), y).predict(frame)
    with pytest.raises(TypeError, match="column 'k': its dtype is Object"):
        GbdtRegressor(rounds=2).fit(pl.DataFrame({"k": pl.Series([object()] * 40, dtype=pl.Object)}), y)


@pytest.mark.skipif(not hasattr(pl, "Float16"), reason="Polars has no Float16")
@pytest.mark.parametrize("kind", ["polars", "lazy", "numpy", "pandas", "arrow"])
def test_float16_is_a_float(kind: str, number: np.ndarray) -> None:
    """Proves that its values give the model of the same values as Float32, categories and missing ones too."""
    y = number[:60]
    wide = pl.DataFrame(
        {"x0": [1.0, 2.0, 3.0] * 20, "x1": [0.5, 2.0, None] * 20}, schema=dict.fromkeys(NAMES[:2], pl.Float32)
    )

    def narrow(frame: pl.DataFrame) -> Any:
        own = frame.cast(pl.Float16)
        return {
            "polars": own,
            "lazy": own.lazy(),
            "numpy": own.to_numpy(),
            "pandas": pd.DataFrame(own.to_numpy(), columns=own.columns),
            "arrow": own.to_arrow(),
        }[kind]

    new = pl.DataFrame({"x0": [1.5, 2.0, None], "x1": [0.5, None, 2.0]}, schema=wide.schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for est in (GbdtRegressor(rounds=3, categorical=[0]), ForestRegressor(trees=3, categorical=[0])):
            got, want = clone(est).fit(narrow(wide), y), clone(est).fit(wide, y)
            assert got.model_ == want.model_
            assert np.array_equal(got.predict(narrow(new)), want.predict(new))
        got, want = TargetEncoder().fit(narrow(wide), y), TargetEncoder().fit(wide, y)
        assert np.array_equal(got.transform(narrow(new)), want.transform(new))
        missing = narrow(
            wide.with_columns(x1=pl.when(pl.col("x0") == 1).then(float("nan")).otherwise(1.0).cast(pl.Float32))
        )
        with pytest.raises(ValueError, match="contains NaN"):
            SparseLogisticRegression().fit(missing, y > 0)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (pl.Series([True, False]), [False, True]),
        (pl.Series(["b", "a"]), ["a", "b"]),
        (pl.Series(["b", "a"], dtype=pl.Categorical), ["a", "b"]),
        (pd.Series([2, 1], dtype="Int64"), [1, 2]),
        (pd.Series(["b", "a"], dtype="string"), ["a", "b"]),
        (np.array([2.0, 1.0], dtype=np.float32), [1.0, 2.0]),
        (np.array([-1, 1], dtype=np.int8), [-1, 1]),
    ],
)
@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_labels_of_any_type(cls: Any, labels: Any, classes: list[Any], x: np.ndarray, flag: np.ndarray) -> None:
    """They come back as they went in, and probabilities stand in the order of `classes_`."""
    if isinstance(labels, pl.Series):
        y: Any = labels.gather(flag)
    else:
        y = labels.iloc[flag].reset_index(drop=True) if isinstance(labels, pd.Series) else labels[flag]
    est = small(cls, class_weight=dict(zip(classes, [1.0, 2.0], strict=True))).fit(x, y)
    assert est.classes_.tolist() == classes
    predicted = est.predict(x)
    assert predicted.dtype == est.classes_.dtype
    assert np.mean(predicted == np.asarray(list(y))) > 0.7
    assert np.array_equal(predicted, est.classes_[est.predict_proba(x).argmax(axis=1)])


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_a_class_without_weight_has_a_probability_of_zero(cls: Any, x: np.ndarray, kind: np.ndarray) -> None:
    """It stays one of `classes_`, and the model is that of the other rows."""
    est = small(cls).fit(x, kind, sample_weight=(kind != "mid") * 1.0)
    assert est.classes_.tolist() == ["low", "mid", "top"]
    proba = est.predict_proba(x)
    assert (proba[:, 1] == 0).all()
    assert np.allclose(proba.sum(axis=1), 1.0)
    rest = small(cls).fit(x[kind != "mid"], kind[kind != "mid"])
    assert np.allclose(rest.predict_proba(x), proba[:, [0, 2]])
    if hasattr(est, "decision_function"):
        assert np.array_equal(est.decision_function(x).argmax(axis=1), proba.argmax(axis=1))
    with pytest.raises(ValueError, match="two classes"):
        small(cls).fit(x, kind, sample_weight=(kind == "mid") * 1.0)


def test_rows_of_a_class_without_weight_may_have_an_order(x: np.ndarray, kind: np.ndarray) -> None:
    """They leave with what else is given of them."""
    city, time = pl.Series("city", np.arange(len(x)) * 7 % 11).cast(pl.String), -np.arange(len(x)) * 3 % 401
    frame = table(x, city=city)
    counts = kind != "mid"
    est = GbdtClassifier(rounds=4).fit(frame, kind, sample_weight=counts * 1.0, order_by=time, row_key=time)
    rest = GbdtClassifier(rounds=4).fit(
        frame.filter(pl.Series(counts)), kind[counts], order_by=time[counts], row_key=time[counts]
    )
    assert est.classes_.tolist() == ["low", "mid", "top"]
    assert np.array_equal(est.predict_proba(frame)[:, [0, 2]], rest.predict_proba(frame))


@pytest.mark.parametrize("cls", [*CLASSIFIERS, *REGRESSORS, GbdtRanker])
def test_keys_of_rows_are_those_of_the_function(cls: Any, x: np.ndarray, flag: np.ndarray) -> None:
    """The model is one of the set of the rows, in whatever form the keys come."""
    key, order = np.arange(len(x)) * 7919 % 100_003, np.random.default_rng(3).permutation(len(x))
    y = flag if is_classifier(cls()) else flag * 1.0
    est = small(cls).fit(x, y, row_key=key)
    shuffled = small(cls).fit(x[order], y[order], row_key=pd.Series(key[order]))
    assert est.model_ == shuffled.model_
    fit = {GbdtClassifier: "fit_gbdt", GbdtRegressor: "fit_gbdt", GbdtRanker: "fit_gbdt"}.get(cls, "fit_forest")
    if cls in (GbdtRegressor, ForestRegressor):
        direct = getattr(table(x, target=y, row_key=key).taiga, fit)
        model = direct("target", NAMES, row_key="row_key", **{"rounds" if "gbdt" in fit else "trees": 8})
        # A receipt tells which parameters were named.
        assert est.model_.trees().equals(model.trees())
        assert est.model_.params == model.params
    two = {"day": key // 1000, "name": [f"n{k}" for k in key]}
    pairs = [small(cls).fit(x[i], y[i], row_key=pl.DataFrame(two)[i]) for i in (np.arange(len(x)), order)]
    assert pairs[0].model_ == pairs[1].model_
    assert small(cls).fit(x, y, row_key=np.column_stack([key // 1000, key])).model_.receipt
    with pytest.raises(ValueError, match="row_key has 3 rows, and X has"):
        small(cls).fit(x, y, row_key=key[:3])
    with pytest.raises(ValueError, match="row_key"):
        small(cls).fit(x, y, row_key=key % 5)


def forms(name: str) -> tuple[pl.Series, list[Any]]:
    """60 values in no order, none twice, as Polars has them, and in other forms."""
    place = np.random.default_rng(6).permutation(60)
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=int(i)) for i in place]
    stamps = pd.to_datetime(pd.Series(days)) + pd.to_timedelta(place, "ns")
    values: list[Any] = {
        "days": days,
        "times": [dt.datetime(2020, 1, 1, 5) + dt.timedelta(hours=int(i)) for i in place],
        "times of a zone": [
            dt.datetime(2020, 1, 1, int(i % 24), tzinfo=dt.timezone.utc) + i // 24 * dt.timedelta(1) for i in place
        ],
        "nanoseconds": list(stamps),
        "nanoseconds of a zone": list(stamps.dt.tz_localize("UTC")),
        "durations": [dt.timedelta(hours=int(i)) for i in place],
        "decimals": [Decimal(int(i)) / 4 for i in place],
        "integers": place.tolist(),
        "numbers": [int(i) if i % 2 else i / 4 + 100 for i in place],
        "text": [f"t{i:02}" for i in place],
        "bytes": [bytes([int(i), 0]) for i in place],
    }[name]
    if name.startswith("nanoseconds"):
        column = pl.Series(stamps.to_numpy())
        column = column.dt.replace_time_zone("UTC") if "zone" in name else column
    else:
        column = pl.Series([float(v) for v in values] if name == "numbers" else values, strict=name != "decimals")
    objects = np.empty(60, dtype=object)
    objects[:] = values
    others = [values, tuple(values), objects, pd.Series(values), pd.Series(values).array, pd.Index(values)]
    if name == "days":
        others += [np.array(values, dtype="M8[D]"), pa.array(values), pa.chunked_array([values])]
    if name == "times":
        others += [np.array(values, dtype=f"M8[{unit}]") for unit in ("h", "s", "us")]
    if name == "durations":
        others += [np.array(values, dtype=f"m8[{unit}]") for unit in ("h", "s", "us")]
    if name == "integers":
        others += [pd.Series(values, dtype="Int16"), np.array(values, dtype=">i4"), np.array(values, dtype=np.float16)]
    if name == "text":
        others += [pd.Series(values, dtype="string"), pd.Series(values, dtype="category"), np.array(values)]
    return column, others


FORMS = ["days", "times", "times of a zone", "nanoseconds", "nanoseconds of a zone", "durations", "decimals"]
FORMS += ["integers", "numbers", "text", "bytes"]


@pytest.mark.parametrize("name", FORMS)
def test_an_order_in_any_form(name: str) -> None:
    """Proves that trees and the encoder take the rows in the order that Python sorts the values in."""
    column, others = forms(name)
    city, y = pl.DataFrame({"c": [["a", "b", "c"][i % 7 % 3] for i in range(60)]}), np.arange(60) * 7 % 60
    values = column.to_list()
    place = np.array([sorted(values).index(value) for value in values])
    if name.startswith("nanoseconds"):
        place = np.random.default_rng(6).permutation(60)
    assert sorted(place) == list(range(60))
    trees = GbdtRegressor(rounds=3).fit(city, y, order_by=place).predict(city)
    encoded = TargetEncoder().fit_transform(city, y, order_by=place)
    assert not np.array_equal(encoded, TargetEncoder().fit_transform(city, y, order_by=-place))
    for given in (column, *others):
        assert np.array_equal(GbdtRegressor(rounds=3).fit(city, y, order_by=given).predict(city), trees)
        assert np.array_equal(TargetEncoder().fit_transform(city, y, order_by=given), encoded)


@pytest.mark.parametrize("name", FORMS)
def test_keys_in_any_form(name: str, x: np.ndarray, number: np.ndarray) -> None:
    """Proves that rows are drawn by the keys of a Polars column, alone and beside others, and in any order of rows."""
    column, others = forms(name)
    order = np.random.default_rng(7).permutation(60)

    def fitted(key: Any, rows: Any = slice(None)) -> Any:
        est = GbdtRegressor(rounds=2, row_sample="bernoulli", row_fraction=0.5)
        return est.fit(x[:60][rows], number[:60][rows], row_key=key).predict(x)

    alone, beside = fitted(column), fitted(pl.DataFrame({"key": column, "place": np.arange(60)}))
    assert not np.array_equal(alone, beside)
    assert not np.array_equal(alone, fitted(column.reverse()))
    for given in others:
        assert np.array_equal(fitted(given), alone), type(given)
    assert np.array_equal(fitted([others[0][i] for i in order], order), alone)
    assert np.array_equal(fitted(pd.DataFrame({"key": others[3], 3: np.arange(60)})), beside)
    if name not in ("integers", "numbers", "text", "bytes"):  # NumPy makes one type of both there
        assert np.array_equal(fitted(list(zip(others[0], range(60), strict=True))), beside)


def test_what_is_given_of_rows_is_named_where_it_has_no_type(x: np.ndarray, number: np.ndarray) -> None:
    """Proves that the error says which argument it is, and what to give."""
    keys = [uuid.uuid4() for _ in x]
    grades = np.arange(len(x)) % 3
    text = "Polars has no type for its values, such as UUID.* or text, for example str"
    for wrong in (keys, np.array(keys, dtype=object), pl.Series(keys, dtype=pl.Object)):
        for name in ("order_by", "row_key"):
            with pytest.raises(TypeError, match=f"{name}: {text}"):
                GbdtRegressor(rounds=2).fit(x, number, **{name: wrong})
        for name in ("group", "position"):
            with pytest.raises(TypeError, match=f"{name}: {text}"):
                GbdtRanker(rounds=2).fit(x, grades, **{name: wrong})
        with pytest.raises(TypeError, match=f"row_key: {text}"):
            GbdtRegressor(rounds=2).fit(x, number, row_key=pl.DataFrame({"a": pl.Series(keys, dtype=pl.Object)}))
        with pytest.raises(TypeError, match=f"order_by: {text}"):
            TargetEncoder().fit_transform(table(x), number, order_by=wrong)
    assert GbdtRegressor(rounds=2).fit(x, number, row_key=[str(key) for key in keys]).n_iter_ == 2
    for given, kind, why in [
        ([dt.date(2020, 1, 1), "a"] * 200, TypeError, "order_by: Polars has no type for its values: .*Date"),
        (pd.Series([1, "a"] * 200), TypeError, "'order_by': an argument must be a string or a real number"),
        (pd.Series(pd.period_range("2020", periods=400, freq="D")), TypeError, r"'order_by': its dtype is period\[D\]"),
        (x, ValueError, r"order_by: it is of shape \(400, 4\)"),
        ("x0", ValueError, r"order_by: it is of shape \(\)"),
        ([None, *map(str, range(399))], ValueError, "`order_by` is null in 1 of 400 rows"),
        ([dt.date(2020, 1, 1)] * 3, ValueError, "order_by has 3 rows, and X has 400"),
    ]:
        with pytest.raises(kind, match=why):
            GbdtRegressor(rounds=2).fit(x, number, order_by=given)
    with pytest.raises(ValueError, match="order_by has 3 rows, and X has 400"):
        TargetEncoder().fit_transform(table(x), number, order_by=[1, 2, 3])
    with pytest.raises(ValueError, match="it is null in 1 of 400 rows, and a `row_key`"):
        GbdtRegressor(rounds=2).fit(x, number, row_key=[None, *map(str, range(399))])


def test_groups_and_positions_in_any_form(x: np.ndarray) -> None:
    day, place, grade = np.arange(len(x)) % 9, np.arange(len(x)) % 4, np.arange(len(x)) // 9 % 3
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=int(i)) for i in day]
    objects = np.array(place.tolist(), dtype=object)
    expected = GbdtRanker(rounds=3).fit(x, grade, day, position=place).predict(x)
    for groups in (
        days,
        np.array(days, dtype=object),
        pd.Series(days),
        pd.Series(pd.to_datetime(days)),
        pl.Series(days),
    ):
        for position in (objects, pd.Series(place, dtype="Int8"), pd.Series(place, dtype="category")):
            assert np.array_equal(GbdtRanker(rounds=3).fit(x, grade, groups, position=position).predict(x), expected)
        sets = (x[:90], grade[:90], groups[:90])
        held = GbdtRanker(rounds=3).fit(x, grade, groups, eval_set=sets, position=objects)
        assert held.model_.history.height == 3


@pytest.mark.parametrize("cls", [GbdtClassifier, GbdtRegressor, SparseLogisticRegression])
def test_keys_of_training_rows_beside_held_out_ones(cls: Any, x: np.ndarray, flag: np.ndarray) -> None:
    """Held-out rows have their places; several sets may have equal rows."""
    train, held = np.arange(250), np.arange(250, len(x))
    key, order = np.array([f"k{i:05}" for i in train]), np.random.default_rng(4).permutation(250)
    sets: Any = [(x[held], flag[held])] * (1 if cls is SparseLogisticRegression else 2)
    models = [
        small(cls).fit(x[rows], flag[rows], eval_set=sets, row_key=pl.Series(key[rows], dtype=pl.Categorical)).model_
        for rows in (train, train[order])
    ]
    assert models[0] == models[1]
    assert models[0].history.height > 0


@pytest.mark.parametrize("cls", [*CLASSIFIERS, *REGRESSORS, GbdtRanker])
def test_a_fit_goes_on_from_its_snapshot(
    cls: Any, x: np.ndarray, kind: np.ndarray, number: np.ndarray, tmp_path: Path
) -> None:
    """It is that of the rows and the parameters, and of a longer fit."""
    y = kind if is_classifier(cls()) else np.abs(number).round() if cls is GbdtRanker else number
    kept: dict[str, Any] = {"snapshot": tmp_path / "fit.snapshot", "snapshot_every": 3}
    assert small(cls).fit(x, y, **kept).model_ == small(cls).fit(x, y).model_
    assert kept["snapshot"].exists()
    if cls is not SparseLogisticRegression:
        longer = {"trees" if cls in (ForestClassifier, ForestRegressor) else "rounds": 12}
        assert cls(**longer).fit(x, y, **kept).model_ == cls(**longer).fit(x, y).model_
    with pytest.raises(ValueError, match="parameter `snapshot`: it is of a fit of other rows, or with"):
        small(cls).fit(x[:-1], y[:-1], **kept)


@pytest.mark.skipif(not hasattr(pl.LazyFrame, "collect_batches"), reason="Polars has no collect_batches")
@pytest.mark.parametrize("cls", [*CLASSIFIERS, *REGRESSORS, GbdtRanker])
def test_lazy_frames_are_read_in_batches(cls: Any, x: np.ndarray, kind: np.ndarray, number: np.ndarray) -> None:
    """To the model of the whole table, whatever is given beside it."""
    y = kind if is_classifier(cls()) else np.abs(number).round() if cls is GbdtRanker else number
    weight = (np.arange(len(x)) % 3 + 0.5) * (kind != "mid")
    frame = table(x, flag=pl.Series(np.arange(len(x)) % 2 == 0), nothing=pl.Series([None] * len(x)))
    if cls is SparseLogisticRegression:
        frame = table(x, flag=pl.Series(np.arange(len(x)) % 2 == 0))
    asked: dict[str, Any] = {} if cls is GbdtRanker else {"sample_weight": weight}
    whole = small(cls).fit(frame, y, **asked)
    for batches in (True, 37, "auto"):
        est = small(cls).fit(frame.lazy(), y, batches=batches, **asked)
        assert est.model_ == whole.model_
        assert est.feature_names_in_.tolist() == whole.feature_names_in_.tolist()
        assert np.array_equal(est.predict(frame), whole.predict(frame))
    with pytest.raises(TypeError, match="batches: X is a DataFrame, and a LazyFrame is"):
        small(cls).fit(frame, y, batches=True)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        small(cls).fit(frame.lazy(), y[:-1], batches=True)
    if "eval_set" in inspect.signature(cls.fit).parameters:
        with pytest.raises(ValueError, match="eval_set: rows to measure on are not read in batches"):
            small(cls).fit(frame.lazy(), y, eval_set=(frame, y), batches=True)


@pytest.mark.parametrize("cls", [GbdtClassifier, GbdtRegressor, SparseLogisticRegression])
def test_early_stopping_looks_at_the_eval_set(cls: Any, x: np.ndarray, flag: np.ndarray) -> None:
    y = np.where(np.arange(len(x)) % 5 == 0, 1 - flag, flag)
    train, held = slice(0, 250), slice(250, None)
    linear = cls is SparseLogisticRegression
    params = {"optimizer": "adagrad", "epochs": 60} if linear else {"rounds": 60, "learning_rate": 0.5}
    est = cls(early_stopping=3, **params).fit(x[train], y[train], eval_set=(x[held], y[held]))
    direct = {GbdtClassifier: "fit_gbdt", GbdtRegressor: "fit_gbdt"}.get(cls, "fit_sparse_lr")
    own = {"dense": NAMES} if direct == "fit_sparse_lr" else {"loss": "logloss" if cls is GbdtClassifier else "rmse"}
    df = table(x, target=y.astype(float) if cls is GbdtRegressor else y, eval=np.arange(len(x)) >= 250)
    features = () if "dense" in own else (NAMES,)
    model = getattr(df.taiga, direct)("target", *features, eval="eval", early_stopping=3, **own, **params)
    assert est.model_.history.equals(model.history)
    assert est.n_iter_ == model.rounds < 60
    assert est.n_iter_ == est.model_.history.filter("best")["round"].item() + 1
    weighted = clone(est).fit(x[train], y[train], eval_set=[(x[held], y[held], np.arange(150.0))])
    assert not weighted.model_.history.equals(model.history)
    for wrong in [(x, y, y, y), x]:
        with pytest.raises(ValueError, match="eval_set"):
            clone(est).fit(x, y, eval_set=wrong)
    with pytest.raises(ValueError, match="early_stopping needs held-out rows"):
        clone(est).fit(x, y)
    if cls is not GbdtRegressor:
        with pytest.raises(ValueError, match="labels that the y to train on has not"):
            clone(est).fit(x[train], y[train], eval_set=(x[held], y[held] + 1))


def test_an_eval_set_with_categories_of_another_frame(x: np.ndarray, number: np.ndarray) -> None:
    """Text and categories meet, and a column that is empty there has the fit's type."""
    one = pl.DataFrame({"c": pl.Series(["u", "v"] * 100, dtype=pl.Categorical), "t": ["p", "q"] * 100})
    for other in (pl.Series(["w", "u"] * 100), pl.Series(["w", "u"] * 100, dtype=pl.Enum(["u", "w"])), [None] * 200):
        held = pl.DataFrame({"c": other, "t": [None] * 200})
        est = GbdtRegressor(rounds=5).fit(one, number[:200], eval_set=(held, number[200:]))
        assert est.model_.history.height == 5
        assert np.isfinite(est.predict(held)).all()


def test_stages_are_the_predictions_after_each_round(x: np.ndarray, number: np.ndarray, kind: np.ndarray) -> None:
    numbers = GbdtRegressor(rounds=6).fit(x, number)
    stages = list(numbers.staged_predict(x))
    assert len(stages) == 6
    assert np.array_equal(stages[-1], numbers.predict(x))
    assert np.allclose(stages[2], GbdtRegressor(rounds=3).fit(x, number).predict(x))
    for y in (kind, kind == "low"):
        classes = GbdtClassifier(rounds=6).fit(x, y)
        stages = list(classes.staged_predict_proba(x))
        assert len(stages) == 6
        assert np.array_equal(stages[-1], classes.predict_proba(x))
        assert np.allclose(stages[2], GbdtClassifier(rounds=3).fit(x, y).predict_proba(x))
        assert np.array_equal(list(classes.staged_predict(x))[-1], classes.predict(x))


@pytest.mark.parametrize("cls", [*CLASSIFIERS, *REGRESSORS])
def test_clone_pickle_and_calibration(cls: Any, x: np.ndarray, flag: np.ndarray) -> None:
    est = small(cls).fit(x, flag)
    again = pickle.loads(pickle.dumps(est))
    assert again.model_ == est.model_
    assert np.array_equal(again.predict(x), est.predict(x))
    assert clone(est).get_params() == est.get_params()
    assert not hasattr(clone(est), "model_")
    assert clone(est).fit(x, flag).model_ == est.model_
    est.predict(x)[:] = 0  # what is given back may be written to
    if is_classifier(est):
        for wrapped in (clone(est), est.set_params(n_threads=1)):
            proba = CalibratedClassifierCV(wrapped, cv=2).fit(x, flag).predict_proba(x)
            assert np.allclose(proba.sum(axis=1), 1.0)


@pytest.mark.parametrize("container", ["numpy", "polars", "pandas", "sparse"])
def test_searching_in_two_processes(container: str, x: np.ndarray, flag: np.ndarray) -> None:
    """The scores of a search are those of one process, and of a loop by hand."""
    wrap = {"numpy": np.asarray, "polars": table, "pandas": pd.DataFrame, "sparse": sp.csr_array}[container]
    est = GbdtClassifier(rounds=5, n_threads=1)
    own: dict[str, Any] = {"param_grid": {"depth": [1, 3]}, "cv": 3, "scoring": "roc_auc"}
    searches = [GridSearchCV(est, n_jobs=jobs, **own).fit(wrap(x), flag) for jobs in (1, 2)]
    one, two = (search.cv_results_["mean_test_score"] for search in searches)
    assert np.array_equal(one, two)
    assert searches[0].best_estimator_.model_ == searches[1].best_estimator_.model_
    deep = clone(est).set_params(depth=3)
    assert np.mean(cross_val_score(deep, wrap(x), flag, cv=3, scoring="roc_auc", n_jobs=2)) == one[1]


@pytest.mark.parametrize("container", ["polars", "pandas"])
def test_a_pipeline_of_columns(container: str, x: np.ndarray, number: np.ndarray) -> None:
    """Encoded categories beside numbers, by names, into trees: the same as the expressions."""
    before = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9)
    if container == "polars" and before and not hasattr(pl.DataFrame, "__dataframe__"):
        pytest.skip("a ColumnTransformer before 1.9 finds columns by an interface that this Polars has no more")
    city = np.array(["Turku", "Oulu", "Inari", "Vaasa"])[np.arange(len(x)) * 7 % 4]
    df = table(x).with_columns(city=pl.Series(city))
    y = number + (np.arange(len(x)) * 7 % 4)
    frame = df if container == "polars" else df.to_pandas()
    columns = ColumnTransformer(
        [("city", TargetEncoder(random_state=1), ["city"])], remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform=container)
    pipe = make_pipeline(columns, GbdtRegressor(rounds=10)).fit(frame, y)
    train = df.with_columns(target=pl.Series(y)).select(tg.target_encode("city", "target", seed=1), *NAMES, "target")
    model = train.taiga.fit_gbdt("target", "city", NAMES, rounds=10)
    assert pipe[-1].model_ == model
    encoder = df.with_columns(target=pl.Series(y)).taiga.fit_target_encoder("city", "target")
    direct = df.with_columns(tg.encode(encoder)).select(tg.predict(model)).to_series().to_numpy()
    assert np.array_equal(pipe.predict(frame), direct)
    assert pipe.score(frame, y) > 0.5


@pytest.mark.parametrize("kind", ["ordered", "kfold", "loo", "full"])
def test_the_encoder_is_target_encode(kind: str, x: np.ndarray, number: np.ndarray, flag: np.ndarray) -> None:
    df = pl.DataFrame({"a": np.arange(len(x)) % 7, "b": [["u", "v", None][i % 3] for i in range(len(x))]})
    weight = np.arange(len(x)) % 4 + 1.0
    own = {"permutations": 3} if kind == "ordered" else {"folds": 4} if kind == "kfold" else {}
    for y in (number, flag, flag == 1):
        full = df.with_columns(target=pl.Series(y), w=pl.Series(weight))
        est = TargetEncoder(kind=kind, prior_weight=2.5, random_state=9, **own).set_output(transform="polars")  # type: ignore[arg-type]
        got = est.fit_transform(df, y, sample_weight=weight)
        want = full.select(
            tg.target_encode(["a", "b"], "target", kind=kind, prior_weight=2.5, seed=9, weight="w", **own)  # type: ignore[arg-type]
        )
        assert got.equals(want)
        encoder = full.taiga.fit_target_encoder(["a", "b"], "target", prior_weight=2.5, weight="w")
        assert est.encoder_ == encoder
        new = pl.DataFrame({"a": [3, 99], "b": ["v", "new"]})
        assert est.transform(new).equals(new.select(tg.encode(encoder)))
        array = est.set_output(transform="default").transform(new.to_pandas())
        assert np.array_equal(array, new.select(tg.encode(encoder)).to_numpy())
        assert est.get_feature_names_out().tolist() == ["a", "b"]


def test_the_encoder_of_labels(x: np.ndarray, kind: np.ndarray, number: np.ndarray) -> None:
    """Two labels make a column, three a column each; `classes` takes whole numbers apart too."""
    city = pl.DataFrame({"c": ["a", "b"] * 200, "d": [1, 2, 3, 4] * 100})
    two = TargetEncoder(kind="full").fit(city, kind == "top")
    named = TargetEncoder(kind="full").fit(city, np.where(kind == "top", "yes", "no"))
    assert np.array_equal(two.transform(city), named.transform(city))
    assert named.classes_.tolist() == ["no", "yes"]
    assert not hasattr(two, "classes_")
    est = TargetEncoder(kind="full", prior_weight=0).set_output(transform="polars")
    got = est.fit_transform(city, kind)
    names = [f"{c}_{k}" for c in "cd" for k in ("low", "mid", "top")]
    assert got.columns == names
    assert np.allclose(got["c_mid"].to_numpy()[0], np.mean(kind[::2] == "mid"))
    assert got.equals(est.transform(city))
    codes = np.digitize(number, [-2.0, 0.5])
    assert np.array_equal(TargetEncoder(kind="full", classes=[0, 1, 2], prior_weight=0).fit_transform(city, codes), got)
    times = np.arange(len(x))[::-1]
    ordered = TargetEncoder(prior=0.0).fit_transform(city, number, order_by=times)
    full = city.with_columns(y=pl.Series(number), time=pl.Series(times))
    want = full.select(tg.target_encode(["c", "d"], "y", prior=0.0, order_by="time"))
    assert np.array_equal(ordered, want.to_numpy())


def test_the_encoders_classes_are_whole() -> None:
    """Proves that no label is cut to a whole one; floats that are whole are the integers."""
    city = pl.DataFrame({"c": ["a", "a", "b", "b"]})
    expected = TargetEncoder(classes=[0, 1], prior_weight=0).fit(city, [0, 1, 1, 1]).transform(city)
    assert expected.tolist() == [[0.5, 0.5], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0]]
    for dtype in (np.float16, np.float32, np.float64, object):
        y = np.array([0.0, 1.0, 1.0, 1.0], dtype=dtype)
        for classes in ([0, 1], [0.0, 1.0], np.array([0, 1])):
            est = TargetEncoder(classes=classes, prior_weight=0)  # type: ignore[arg-type]
            assert np.array_equal(est.fit(city, y).transform(city), expected)
        with pytest.raises(ValueError, match=r"`classes`: y has values that are not whole.*such as 0\.5"):
            TargetEncoder(classes=[0, 1]).fit(city, y / 2)
    with pytest.raises(ValueError, match=r"`classes`: y has values .* too large, such as 1e\+19"):
        TargetEncoder(classes=[0, 1]).fit_transform(city, [0.0, 1.0, 1.0, 1e19])
    with pytest.raises(ValueError, match=r"`classes`: it has values that are not whole.*such as 0\.5"):
        TargetEncoder(classes=[0, 0.5]).fit(city, [0, 1, 1, 1])


@pytest.mark.parametrize("cls", CLASSIFIERS)
@pytest.mark.parametrize("dtype", [np.float16, np.float64, object])
def test_labels_that_are_not_whole_are_none(cls: Any, dtype: Any, x: np.ndarray, flag: np.ndarray) -> None:
    y = (flag + 0.5).astype(dtype)
    with pytest.raises(ValueError, match="Unknown label type"):
        small(cls).fit(x, y)
    if cls is not ForestClassifier:
        with pytest.raises(ValueError, match="labels that the y to train on has not"):
            small(cls).fit(x, flag * 1.0, eval_set=(x, y))


def test_the_encoder_takes_floats_for_categories() -> None:
    """Whole ones are the integers, so that a pandas column may get its first missing value later; others are text."""
    y = np.array([1.0, 2.0, 3.0, 6.0])
    whole = TargetEncoder(prior_weight=0).fit(pd.DataFrame({"a": [1, 1, 2, 2]}), y)
    assert whole.transform(pd.DataFrame({"a": [2.0, np.nan, 1.5, 1.0]})).ravel().tolist() == [4.5, 3.0, 3.0, 1.5]
    odd = TargetEncoder(prior_weight=0).fit(np.array([[0.5], [0.5], [2.0], [np.nan]]), y)
    assert odd.transform(np.array([[2], [7]])).ravel().tolist() == [3.0, 3.0]
    assert odd.transform(np.array([[0.5], [np.nan]])).ravel().tolist() == [1.5, 6.0]


def test_lists_of_words() -> None:
    """A column of lists is what a sparse matrix is, and may stand beside numbers."""
    words = [["good", "film"], ["bad"], ["good"], ["bad", "film"]] * 20
    df = pl.DataFrame({"length": np.arange(80.0) % 3, "words": words})
    y = ["yes", "no"] * 40
    est = SparseLogisticRegression(hash_bits=10).fit(df, y)
    model = df.with_columns(target=pl.Series(y)).taiga.fit_sparse_lr("target", "words", dense="length", hash_bits=10)
    assert est.model_ == model
    assert est.score(df, y) == 1.0
    assert not hasattr(est, "coef_")
    pairs = pl.DataFrame({"i": [[0, 7], [7], [0], [7, 9]] * 20, "v": [[1.0, 2.0], [1.0], [3.0], [1.0, 0.5]] * 20})
    named = SparseLogisticRegression(indices="i", values=1, features=10).fit(pairs, y)
    direct = pairs.with_columns(target=pl.Series(y)).taiga.fit_sparse_lr("target", "i", "v", features=10)
    assert named.model_ == direct
    with pytest.raises(ValueError, match="columns of lists are which"):
        SparseLogisticRegression().fit(pairs, y)


def test_random_state_is_the_seed(x: np.ndarray, number: np.ndarray) -> None:
    def fitted(state: Any) -> tg.Model:
        return ForestRegressor(trees=3, random_state=state).fit(x, number).model_

    assert fitted(np.int64(4)) == fitted(4) != fitted(5)
    assert fitted(np.random.RandomState(1)) == fitted(np.random.RandomState(1)) != fitted(np.random.RandomState(2))
    np.random.seed(3)
    one, two = fitted(None), fitted(None)
    np.random.seed(3)
    assert one == fitted(None)
    assert one != two


def test_what_is_wrong_is_said(x: np.ndarray, number: np.ndarray, flag: np.ndarray) -> None:
    frame = table(x)
    for est, args, kind, text in [
        (GbdtClassifier(loss="rmse"), (x, flag), ValueError, "`loss`.*GbdtRegressor"),
        (GbdtRegressor(loss="logloss"), (x, flag), ValueError, "`loss`.*GbdtClassifier"),
        (GbdtRegressor(loss="xendcg"), (x, flag), ValueError, "`loss`.*GbdtRanker"),
        (GbdtRanker(loss="rmse"), (x, flag), ValueError, "`loss`.*'rmse' does not rank"),
        (GbdtRanker(), (x, flag, [1, 2]), ValueError, "group has 2 rows, and X has 400"),
        (GbdtRanker(), (x, -flag), ValueError, "grades are whole numbers"),
        (ForestClassifier(criterion="poisson"), (x, flag), ValueError, "`criterion`.*ForestRegressor"),
        (ForestRegressor(criterion="gini"), (x, flag), ValueError, "`criterion`.*ForestClassifier"),
        (GbdtRegressor(rounds=0), (x, number), ValueError, "`rounds`"),
        (GbdtRegressor(depth="deep"), (x, number), ValueError, "`depth`"),
        (GbdtRegressor(monotone=[1, 0]), (x, number), ValueError, r"`monotone`: \[1, 0\] is neither .* X, which has 4"),
        (
            GbdtRegressor(monotone=[1, 0, 2, 0]),
            (x, number),
            ValueError,
            r"`monotone`: \[1, 0, 2, 0\] is neither a dict",
        ),
        (GbdtRegressor(monotone=[1, 0, 0.5, 0]), (x, number), ValueError, r"`monotone`: \[1, 0, 0.5, 0\] is neither"),
        (GbdtRegressor(monotone=1), (x, number), ValueError, "`monotone`: 1 is neither a dict of -1, 0 or 1 by column"),
        (GbdtRegressor(feature_weights=["x0"]), (x, number), ValueError, r"`feature_weights`: \['x0'\] is neither"),
        (GbdtRegressor(categorical=[4]), (x, number), ValueError, "`categorical`.*no column 4"),
        (GbdtRegressor(categorical=["q"]), (frame, number), ValueError, "`q`"),
        (GbdtRegressor(), (x, number[:-1]), ValueError, "inconsistent"),
        (GbdtRegressor(), (x, None), ValueError, "y is None"),
        (GbdtClassifier(), (x, pl.Series([None, "a"] * 200)), ValueError, "NaN"),
        (GbdtClassifier(), (x, pd.Series([pd.NA, "a"] * 200, dtype="string")), ValueError, "NaN"),
        (GbdtClassifier(), (x, number), ValueError, "Unknown label type"),
        (GbdtRegressor(), (x, number, -np.ones(400)), ValueError, "Negative"),
        (GbdtRegressor(), (x, number, np.zeros(400)), ValueError, "non-zero"),
        (GbdtRegressor(), (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), [1, 2]), ValueError, "'a' stands twice"),
        (GbdtRegressor(), (np.array([["a", {}], ["b", 1]], dtype=object), [1, 2]), TypeError, "'x1'.*'dict'"),
        (SparseLogisticRegression(), (frame.with_columns(x1=None), flag), ValueError, "NaN"),
        (SparseLogisticRegression(), (frame.with_columns(x1=pl.lit("a")), flag), ValueError, "x1"),
        (TargetEncoder(), (sp.csr_array(x), number), TypeError, "[Ss]parse"),
    ]:
        with pytest.raises(kind, match=text):
            est.fit(*args)
    est = GbdtRegressor(rounds=2).fit(frame, number)
    for other, text in [
        (frame.rename({"x2": "z"}), "unseen at fit time:\n- z\n.*now missing:\n- x2"),
        (frame.select(NAMES[::-1]), "same order"),
        (x[:, :3], "3 features, but GbdtRegressor is expecting 4"),
    ]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match=text):
                est.predict(other)
    with pytest.warns(UserWarning, match="valid feature names"):
        est.predict(x)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        GbdtRegressor(rounds=2).fit(x, number).predict(frame)


@pytest.mark.parametrize("lost", [[2], [0], [1, 2], [0, 3]])
def test_coefficients_are_in_the_order_of_the_classes(lost: list[int]) -> None:
    """Proves that a class whose rows all weigh 0 has a row of its own, so that scores are those of `coef_`."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.integers(0, 4, 400)  # noqa: N806
    own = SparseLogisticRegression().fit(X, y, sample_weight=~np.isin(y, lost) * 1.0)
    assert (own.coef_.shape, own.intercept_.shape) == ((4, 2), (4,))
    scores = X @ own.coef_.T + own.intercept_
    np.testing.assert_allclose(own.decision_function(X), scores, rtol=0, atol=1e-6)
    assert np.isneginf(own.intercept_).tolist() == [c in lost for c in range(4)]
    assert not own.coef_[lost].any()

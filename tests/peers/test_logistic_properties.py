"""Sparse logistic regression: scikit-learn's optimum by every road to it, and what must not change it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_class_weight

from .tables import predict

FEATURES = 12
ROWS = 400
OPTIMIZERS = ["lbfgs", "sgd", "adagrad", "ftrl"]
optimizers = pytest.mark.parametrize("optimizer", OPTIMIZERS)
TIGHT: dict[str, Any] = {"tolerance": 1e-8, "epochs": 1_000}


def table(rows: int = ROWS, seed: int = 0) -> pl.DataFrame:
    """Rows of a few of twelve features with values, the same dense as d0 … d11, two and three classes."""
    rng = np.random.default_rng(seed)
    dense = np.round(rng.normal(size=(rows, FEATURES)) * 8) / 8
    dense[rng.random(dense.shape) < 0.6] = 0
    score = dense @ np.linspace(-2, 2, FEATURES)
    kinds = np.array(["a", "b", "c"])[np.digitize(score + rng.logistic(size=rows) / 2, [-1, 1])]
    at = [np.flatnonzero(row).tolist() for row in dense]
    values = [row[i].tolist() for row, i in zip(dense, at, strict=True)]
    return pl.DataFrame(
        {
            "i": pl.Series(at, dtype=pl.List(pl.UInt32)),
            "v": pl.Series(values, dtype=pl.List(pl.Float64)),
            "y": score + rng.logistic(size=rows) > 0.5,
            "kind": kinds,
            "w": rng.integers(0, 4, rows).astype(float),
            "u": rng.uniform(0.5, 2, rows),
            **{f"d{j}": dense[:, j] for j in range(FEATURES)},
        }
    )


DENSE = [f"d{j}" for j in range(FEATURES)]


def x_of(df: pl.DataFrame) -> np.ndarray:
    array: np.ndarray = df.select(DENSE).to_numpy()
    return array


def coefficients(model: tg.Model) -> np.ndarray:
    """Coefficients of two classes as one array."""
    out = np.zeros(FEATURES)
    for feature, name, _, value in model.coefficients().iter_rows():
        out[feature if feature is not None else int(name[1:])] = value
    return out


def fit(df: pl.DataFrame, target: str = "y", **params: Any) -> tg.Model:
    return df.taiga.fit_sparse_lr(target, "i", "v", **{**TIGHT, "features": FEATURES, **params})


def peer_of(c: float, **params: Any) -> LogisticRegression:
    return LogisticRegression(C=c, tol=1e-10, max_iter=20_000, **params)


@pytest.mark.parametrize("c", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("target", ["y", "kind"])
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "no intercept"])
def test_probabilities_are_those_of_scikit_learn(c: float, target: str, intercept: bool) -> None:
    df = table()
    model = fit(df, target, l2=1 / (c * ROWS), fit_intercept=intercept)
    peer = peer_of(c, fit_intercept=intercept).fit(x_of(df), df[target].to_list())
    want = peer.predict_proba(x_of(df))
    np.testing.assert_allclose(predict(df, model), want[:, 1] if target == "y" else want, atol=2e-5)


@pytest.mark.parametrize("c", [0.05, 1.0])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 1.0])
def test_elastic_nets_are_those_of_scikit_learn(c: float, share: float) -> None:
    df = table()
    model = fit(df, l1=share / (c * ROWS), l2=(1 - share) / (c * ROWS))
    peer = peer_of(c, l1_ratio=share, solver="saga").fit(x_of(df), df["y"])
    np.testing.assert_allclose(coefficients(model), peer.coef_[0], atol=2e-4)
    assert ((coefficients(model) == 0) == (np.abs(peer.coef_[0]) < 1e-6)).all()
    assert model.intercepts[0] == pytest.approx(peer.intercept_[0], abs=2e-4)


@pytest.mark.parametrize("target", ["y", "kind"])
def test_no_penalty_is_that_of_scikit_learn(target: str) -> None:
    df = table()
    model = fit(df, target, l2=0.0)
    peer = peer_of(np.inf).fit(x_of(df), df[target].to_list())
    want = peer.predict_proba(x_of(df))
    np.testing.assert_allclose(predict(df, model), want[:, 1] if target == "y" else want, atol=2e-4)


@pytest.mark.parametrize("l1", [0.0, 0.01])
@pytest.mark.parametrize("l2", [0.0, 0.01, 1.0])
def test_at_the_optimum_no_derivative_is_left(l1: float, l2: float) -> None:
    """Of coefficients that are zero it is at most `l1`; of the intercept none at all."""
    df = table()
    model = fit(df, l1=l1, l2=l2)
    c, p, y = coefficients(model), predict(df, model), df["y"].to_numpy()
    gradient = x_of(df).T @ (p - y) / ROWS + l2 * c
    assert np.mean(p - y) == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(gradient[c != 0], -l1 * np.sign(c[c != 0]), atol=1e-5)
    assert (np.abs(gradient[c == 0]) <= l1 + 1e-5).all()


@pytest.mark.parametrize("target", ["y", "kind"])
def test_an_l1_beyond_every_derivative_leaves_the_shares_of_classes(target: str) -> None:
    df = table()
    model = fit(df, target, l1=100.0)
    assert model.coefficients().height == 0
    shares = df[target].value_counts().sort(target)["count"].to_numpy() / ROWS
    np.testing.assert_allclose(predict(df, model)[0], shares[1] if target == "y" else shares, atol=1e-6)


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_a_larger_penalty_gives_smaller_coefficients(penalty: str) -> None:
    df = table()
    sizes = [np.abs(coefficients(fit(df, **{"l2": 0.0, penalty: size}))).sum() for size in (1e-4, 1e-3, 1e-2, 1e-1)]
    assert sizes == sorted(sizes, reverse=True)


def test_an_l1_path_keeps_fewer_and_fewer_features() -> None:
    df = table()
    kept = [fit(df, l1=l1).coefficients().height for l1 in (1e-4, 1e-2, 5e-2, 1e-1, 1.0)]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] == FEATURES
    assert kept[-1] == 0


def test_several_classes_have_coefficients_that_sum_to_zero() -> None:
    """The penalty picks that one of all equal softmax models."""
    model = fit(table(), "kind", l2=0.01)
    sums = model.coefficients().group_by("feature").agg(pl.col("coefficient").sum())["coefficient"]
    np.testing.assert_allclose(sums, 0, atol=1e-5)


@optimizers
@pytest.mark.parametrize("target", ["y", "kind"])
def test_probabilities_sum_to_one_and_the_class_is_the_likeliest(optimizer: Any, target: str) -> None:
    df = table()
    model = df.taiga.fit_sparse_lr(target, "i", "v", optimizer=optimizer)
    p = predict(df, model)
    p = np.column_stack([1 - p, p]) if target == "y" else p
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    best = np.array(model.classes)[p.argmax(axis=1)]
    assert df.select(tg.predict(model, output="class")).to_series().to_list() == best.tolist()


@optimizers
def test_every_optimizer_comes_near_the_optimum(optimizer: Any) -> None:
    df = table(2_000)
    best = fit(df, l2=0.005)
    model = df.taiga.fit_sparse_lr(
        "y", "i", "v", optimizer=optimizer, l2=0.005, epochs=300 if optimizer != "lbfgs" else 100
    )
    assert np.corrcoef(predict(df, model), predict(df, best))[0, 1] > 0.995


@optimizers
def test_iris_is_learnt(optimizer: Any) -> None:
    bunch = load_iris()
    x = (bunch.data - bunch.data.mean(axis=0)) / bunch.data.std(axis=0)
    df = pl.DataFrame(x, schema=["a", "b", "c", "d"]).with_columns(
        kind=pl.Series([str(bunch.target_names[t]) for t in bunch.target])
    )
    epochs = 100 if optimizer == "lbfgs" else 200
    model = df.taiga.fit_sparse_lr("kind", dense=list("abcd"), optimizer=optimizer, epochs=epochs, l2=1e-3)
    assert (df.select(tg.predict(model, output="class")).to_series() == df["kind"]).mean() > 0.94


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_dense_columns_and_lists_are_the_same_features(optimizer: Any) -> None:
    df = table()
    params: dict[str, Any] = TIGHT if optimizer == "lbfgs" else {"optimizer": optimizer, "epochs": 20}
    a = df.taiga.fit_sparse_lr("y", "i", "v", **params)
    b = df.taiga.fit_sparse_lr("y", dense=DENSE, **params)
    np.testing.assert_allclose(predict(df, a), predict(df, b), atol=1e-4)


@pytest.mark.parametrize(
    ("optimizer", "lists"),
    [(o, lists) for o in OPTIMIZERS for lists in (True, False)],
)
def test_a_batch_larger_than_the_table_finds_the_same_optimum(optimizer: Any, lists: bool) -> None:
    """Two features that exclude each other: the optimum of each is that of scikit-learn."""
    df = pl.DataFrame({"i": [[0], [1]] * 10, "a": [1.0, 0.0] * 10, "b": [0.0, 1.0] * 10, "y": [True, False] * 10})
    where: dict[str, Any] = {"indices": "i"} if lists else {"dense": ["a", "b"]}
    params = TIGHT if optimizer == "lbfgs" else {"batch": 1024, "epochs": 2_000, "learning_rate": 0.2}
    model = df.taiga.fit_sparse_lr("y", optimizer=optimizer, l2=0.05, **where, **params)
    peer = peer_of(1 / (0.05 * 20)).fit(df.select("a", "b").to_numpy(), df["y"])
    np.testing.assert_allclose(model.coefficients()["coefficient"], peer.coef_[0], rtol=0.02)


def test_zeros_written_out_are_zeros_left_out() -> None:
    df = table()
    full = df.with_columns(i=pl.lit(list(range(FEATURES)), dtype=pl.List(pl.UInt32)), v=pl.concat_list(DENSE))
    np.testing.assert_allclose(coefficients(fit(df)), coefficients(fit(full)), atol=1e-5)


def test_the_order_of_features_in_a_row_does_not_matter() -> None:
    df = table()
    other = df.with_columns(pl.col("i", "v").list.reverse())
    np.testing.assert_allclose(coefficients(fit(df)), coefficients(fit(other)), atol=1e-6)


def test_other_numbers_for_the_features_change_no_prediction() -> None:
    df = table()
    other = df.with_columns(i=pl.col("i").list.eval(7 * (FEATURES - 1 - pl.element()) + 3).cast(pl.List(pl.UInt32)))
    a, b = fit(df), fit(other, features=None)
    np.testing.assert_allclose(predict(df, a), predict(other, b), atol=1e-6)


def test_the_order_of_rows_does_not_matter_to_the_optimum() -> None:
    df = table()
    np.testing.assert_allclose(coefficients(fit(df)), coefficients(fit(df.reverse())), atol=1e-5)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_scaling_a_feature_scales_its_coefficient_back_without_a_penalty(scale: float) -> None:
    df = table()
    a = df.taiga.fit_sparse_lr("y", dense=DENSE, l2=0.0, **TIGHT)
    b = df.with_columns(pl.col("d3") * scale).taiga.fit_sparse_lr("y", dense=DENSE, l2=0.0, **TIGHT)
    assert coefficients(b)[3] * scale == pytest.approx(coefficients(a)[3], rel=1e-3)
    np.testing.assert_allclose(predict(df, a), predict(df.with_columns(pl.col("d3") * scale), b), atol=1e-4)


def test_a_feature_given_twice_shares_its_weight() -> None:
    """Under l2 two equal features get half each; together more than one alone, as the penalty is less."""
    df = table()
    model = df.with_columns(e=pl.col("d11")).taiga.fit_sparse_lr("y", dense=[*DENSE, "e"], l2=0.01, **TIGHT)
    found = dict(model.coefficients().select("name", "coefficient").iter_rows())
    assert found["e"] == pytest.approx(found["d11"], abs=1e-5)


@pytest.mark.parametrize("target", ["y", "kind"])
@pytest.mark.parametrize("kind", ["list", "dense"])
def test_a_row_s_weight_is_how_often_it_stands(target: str, kind: str) -> None:
    df = table()
    repeated = df[np.repeat(np.arange(ROWS), df["w"].to_numpy().astype(int))]
    where: dict[str, Any] = {"indices": "i", "values": "v"} if kind == "list" else {"dense": DENSE}
    a = df.taiga.fit_sparse_lr(target, weight="w", **where, **TIGHT)
    b = repeated.taiga.fit_sparse_lr(target, **where, **TIGHT)
    np.testing.assert_allclose(predict(df, a), predict(df, b), atol=1e-5)


@optimizers
def test_what_a_row_of_weight_zero_says_does_not_matter(optimizer: Any) -> None:
    df = table()
    other = df.with_columns(y=pl.when(pl.col("w") > 0).then("y").otherwise(~pl.col("y")))
    a, b = (f.taiga.fit_sparse_lr("y", "i", "v", weight="w", optimizer=optimizer) for f in (df, other))
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@optimizers
@pytest.mark.parametrize("factor", [2.0**-90, 0.5, 2.0**90, 1e-30, 1e30])
def test_a_constant_factor_of_weights_does_not_matter(optimizer: Any, factor: float) -> None:
    df = table()
    a, b = (
        df.with_columns(pl.col("u") * c).taiga.fit_sparse_lr("y", "i", "v", weight="u", optimizer=optimizer, l2=0.01)
        for c in (1.0, factor)
    )
    np.testing.assert_allclose(predict(df, a), predict(df, b), atol=1e-4)


@pytest.mark.parametrize("target", ["y", "kind"])
def test_class_weights_are_row_weights(target: str) -> None:
    df = table()
    by_class: dict[Any, float] = {True: 4.0, False: 0.5} if target == "y" else {"a": 2.0, "b": 0.25, "c": 8.0}
    rows = df.with_columns(z=pl.col(target).replace_strict(by_class, return_dtype=pl.Float64))
    a = fit(df, target, class_weight=by_class, l2=0.01)
    b = fit(rows, target, weight="z", l2=0.01)
    np.testing.assert_allclose(predict(df, a), predict(df, b), atol=1e-6)


@pytest.mark.parametrize("target", ["y", "kind"])
def test_balanced_classes_are_those_of_scikit_learn(target: str) -> None:
    df = table()
    labels = df[target].unique().sort().to_list()
    by_hand = compute_class_weight("balanced", classes=np.array(labels), y=df[target].to_numpy())
    a = fit(df, target, class_weight="balanced", l2=0.01)
    b = fit(df, target, class_weight=dict(zip(labels, by_hand.tolist(), strict=True)), l2=0.01)
    np.testing.assert_allclose(predict(df, a), predict(df, b), atol=1e-6)
    peer = peer_of(1 / (0.01 * ROWS), class_weight="balanced").fit(x_of(df), df[target].to_list())
    want = peer.predict_proba(x_of(df))
    np.testing.assert_allclose(predict(df, a), want[:, 1] if target == "y" else want, atol=1e-4)


@pytest.mark.parametrize(
    "heavy",
    [
        1e10,
        1e39,
    ],
)
def test_class_weights_of_any_size_are_taken_as_ratios(heavy: float) -> None:
    df = table()
    model = df.taiga.fit_sparse_lr("y", "i", "v", class_weight={True: heavy, False: 1.0}, l2=0.01)
    assert (predict(df, model) > 0.99).all()


def test_one_pass_has_not_converged_and_enough_have() -> None:
    df = table()
    few, many = (df.taiga.fit_sparse_lr("y", "i", "v", epochs=e) for e in (1, 200))
    assert (few.converged, few.rounds) == (False, 1)
    assert many.converged
    assert many.rounds < 200


def test_a_smaller_tolerance_takes_more_passes_and_ends_lower() -> None:
    df = table()
    models = [df.taiga.fit_sparse_lr("y", "i", "v", tolerance=t, epochs=500) for t in (1e-1, 1e-3, 1e-8)]
    rounds, objectives = [m.rounds for m in models], [m.objective for m in models]
    assert rounds == sorted(rounds)
    assert objectives == sorted(objectives, reverse=True)


@pytest.mark.parametrize("l2", [0.0, 0.01])
def test_the_objective_is_its_definition(l2: float) -> None:
    df = table()
    model = fit(df, l2=l2, l1=0.002)
    c, p = coefficients(model), predict(df, model)
    loss = -np.log(np.where(df["y"].to_numpy(), p, 1 - p)).mean()
    assert model.objective == pytest.approx(loss + l2 / 2 * c @ c + 0.002 * np.abs(c).sum(), rel=1e-6)


def test_separable_classes_end_with_a_penalty() -> None:
    df = pl.DataFrame({"x": np.arange(20.0) - 9.5}).with_columns(y=pl.col("x") > 0)
    model = df.taiga.fit_sparse_lr("y", dense="x", l2=1e-4, **TIGHT)
    assert model.converged
    assert ((predict(df, model) > 0.5) == df["y"].to_numpy()).all()
    peer = LogisticRegression(C=1 / (1e-4 * 20), tol=1e-10, max_iter=10_000).fit(df.select("x").to_numpy(), df["y"])
    assert coefficients_of(model)["x"] == pytest.approx(peer.coef_[0, 0], rel=1e-3)


def coefficients_of(model: tg.Model) -> dict[str, float]:
    return dict(model.coefficients().select("name", "coefficient").iter_rows())


@pytest.mark.parametrize("size", [1e-20, 1e-5, 1e5, 1e17])
def test_features_of_any_size_are_fitted(size: float) -> None:
    """Without a penalty: the units of a feature do not matter."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    df = pl.DataFrame({"x": x * size, "y": x + rng.logistic(size=300) > 0})
    model = df.taiga.fit_sparse_lr("y", dense="x", l2=0.0, **TIGHT)
    plain = df.with_columns(pl.col("x") / size).taiga.fit_sparse_lr("y", dense="x", l2=0.0, **TIGHT)
    np.testing.assert_allclose(predict(df, model), predict(df.with_columns(pl.col("x") / size), plain), atol=1e-4)


def test_a_value_too_large_to_fit_on_is_an_error_or_spoils_no_other_feature() -> None:
    df = pl.DataFrame({"x": [-1.0, -0.5, 0.5, 1.0] * 4 + [1e100, -1.0, 0.5, 1.0], "z": [-2.0, 1.0, 2.0, 3.0] * 5})
    df = df.with_columns(y=pl.col("z") > 0)
    try:
        model = df.taiga.fit_sparse_lr("y", dense=["x", "z"], l2=0.0, epochs=50)
    except pl.exceptions.ComputeError as error:
        assert "`x`" in str(error)  # noqa: PT017
    else:
        assert ((predict(df, model) > 0.5) == df["y"].to_numpy()).all()


def test_large_values_among_small_ones_do_not_hinder_the_others() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, 2))
    df = pl.DataFrame({"a": x[:, 0] * 1e6, "b": x[:, 1], "y": x.sum(axis=1) + rng.logistic(size=500) / 2 > 0})
    model = df.taiga.fit_sparse_lr("y", dense=["a", "b"], l2=0.0, **TIGHT)
    peer = peer_of(np.inf).fit(x, df["y"])
    np.testing.assert_allclose(predict(df, model), peer.predict_proba(x)[:, 1], atol=1e-3)


def test_a_null_among_values_is_an_entry_that_is_not_there() -> None:
    df = table()
    holes = df.with_columns(
        i=pl.col("i").list.concat(pl.lit([3], dtype=pl.List(pl.UInt32))),
        v=pl.col("v").list.concat(pl.lit([None], dtype=pl.List(pl.Float64))),
    )
    np.testing.assert_allclose(coefficients(fit(df)), coefficients(fit(holes)), atol=1e-6)


@pytest.mark.parametrize(
    ("hole", "where"),
    [(None, "dense"), *((hole, where) for hole in (float("nan"), float("inf")) for where in ("values", "dense"))],
    ids=str,
)
def test_a_value_that_is_no_number_is_an_error_that_names_the_column(hole: Any, where: str) -> None:
    df = table(20)
    if where == "dense":
        df = df.with_columns(d2=pl.when(pl.int_range(pl.len()) == 3).then(hole).otherwise("d2"))
        with pytest.raises(pl.exceptions.ComputeError, match="`d2`"):
            df.taiga.fit_sparse_lr("y", dense=DENSE)
    else:
        df = df.with_columns(v=pl.concat_list(pl.lit(hole, dtype=pl.Float64)), i=pl.lit([1], dtype=pl.List(pl.UInt32)))
        with pytest.raises(pl.exceptions.ComputeError, match="`v`"):
            df.taiga.fit_sparse_lr("y", "i", "v")


def test_rows_without_features_are_predicted_by_the_intercept() -> None:
    df = table()
    model = fit(df)
    empty = pl.DataFrame({"i": [[], None], "v": [[], None]}, schema={"i": pl.List(pl.UInt32), "v": pl.List(pl.Float64)})
    np.testing.assert_allclose(predict(empty, model), 1 / (1 + np.exp(-model.intercepts[0])), rtol=1e-9)


def test_features_that_training_has_not_seen_add_nothing() -> None:
    df = table()
    model = fit(df, features=None)
    extra = df.with_columns(
        i=pl.col("i").list.concat(pl.lit([900], dtype=pl.List(pl.UInt32))), v=pl.col("v").list.concat([5.0])
    )
    np.testing.assert_array_equal(predict(extra, model), predict(df, model))


def test_a_feature_that_stands_twice_in_a_row_counts_twice() -> None:
    df = table()
    twice = df.with_columns(
        i=pl.col("i").list.concat("i"), v=(pl.col("v").list.concat("v")).list.eval(pl.element() / 2)
    )
    np.testing.assert_allclose(coefficients(fit(df)), coefficients(fit(twice)), atol=1e-5)


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["a", "b", "c"]), pl.String], ids=str)
@optimizers
def test_the_type_of_labels_does_not_matter(dtype: Any, optimizer: Any) -> None:
    df = table()
    a, b = (
        f.taiga.fit_sparse_lr("kind", "i", "v", optimizer=optimizer)
        for f in (df, df.with_columns(pl.col("kind").cast(dtype)))
    )
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


def test_integer_labels_are_classes() -> None:
    df = table().with_columns(code=pl.col("kind").replace_strict({"a": -7, "b": 0, "c": 500}))
    model = fit(df, "code", l2=0.01)
    assert model.classes == [-7, 0, 500]
    np.testing.assert_allclose(predict(df, model), predict(df, fit(df, "kind", l2=0.01)), atol=1e-9)


def test_swapping_two_classes_mirrors_coefficients() -> None:
    df = table()
    a, b = fit(df), fit(df.with_columns(~pl.col("y")))
    np.testing.assert_allclose(coefficients(a), -coefficients(b), atol=1e-5)
    assert a.intercepts[0] == pytest.approx(-b.intercepts[0], abs=1e-5)


def test_one_class_is_certain() -> None:
    df = table().with_columns(one=pl.lit("only"))
    model = df.taiga.fit_sparse_lr("one", "i", "v", on_error="constant")
    assert df.select(tg.predict(model, output="class")).to_series().to_list() == ["only"] * ROWS


@optimizers
def test_a_seed_and_threads_decide_nothing_else(optimizer: Any) -> None:
    df = table(1_500)
    fits = [
        df.taiga.fit_sparse_lr("y", "i", "v", optimizer=optimizer, seed=s, n_threads=t, epochs=3)
        for s, t in ((1, 1), (1, 2), (2, 2))
    ]
    assert fits[0] == fits[1]
    same = np.array_equal(predict(df, fits[1]), predict(df, fits[2]))
    assert same == (optimizer == "lbfgs")


@optimizers
def test_pickles_predict_the_same(optimizer: Any) -> None:
    df = table()
    model = df.taiga.fit_sparse_lr("kind", "i", "v", optimizer=optimizer)
    same = pickle.loads(pickle.dumps(model))
    assert same == model
    assert same.coefficients().equals(model.coefficients())
    np.testing.assert_array_equal(predict(df, same), predict(df, model))


@optimizers
@pytest.mark.parametrize("metric", ["logloss", "auc", "accuracy"])
def test_the_history_is_the_metric_of_scikit_learn(optimizer: Any, metric: Any) -> None:
    from sklearn import metrics

    df = table().with_columns(held=pl.int_range(pl.len()) % 3 == 0)
    model = df.taiga.fit_sparse_lr("y", "i", "v", optimizer=optimizer, eval="held", metric=metric, epochs=3)
    test = df.filter("held")
    p = predict(test, model)
    want = {
        "logloss": metrics.log_loss(test["y"], p), "auc": metrics.roc_auc_score(test["y"], p),
        "accuracy": metrics.accuracy_score(test["y"], p > 0.5),
    }[metric]  # fmt: skip
    assert model.history[metric][-1] == pytest.approx(want, rel=1e-5)


@optimizers
def test_held_out_rows_teach_nothing(optimizer: Any) -> None:
    df = table().with_columns(held=pl.int_range(pl.len()) % 3 == 0)
    other = df.with_columns(y=pl.when("held").then(~pl.col("y")).otherwise("y"))
    a, b = (f.taiga.fit_sparse_lr("y", "i", "v", optimizer=optimizer, eval="held", epochs=3) for f in (df, other))
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


def test_early_stopping_keeps_the_best_pass() -> None:
    df = table().with_columns(held=pl.int_range(pl.len()) % 3 == 0)
    model = df.taiga.fit_sparse_lr(
        "y", "i", "v", optimizer="sgd", eval="held", epochs=200, early_stopping=3, learning_rate=0.5
    )
    values = model.history["logloss"].to_numpy()
    best = int(np.argmin(values))
    assert model.rounds == best + 1
    assert len(values) == best + 4


def test_words_are_hashed_to_the_same_model_as_numbers() -> None:
    df = table()
    words = df.with_columns(i=pl.col("i").list.eval(pl.format("word {}", pl.element())))
    a = fit(df, l2=0.01)
    b = words.taiga.fit_sparse_lr("y", "i", "v", l2=0.01, **TIGHT)
    np.testing.assert_allclose(predict(df, a), predict(words, b), atol=1e-5)


def test_a_class_that_only_held_out_rows_have_is_next_to_impossible() -> None:
    df = table().with_columns(held=(pl.col("kind") == "c") | (pl.int_range(pl.len()) % 5 == 0))
    p = predict(df, df.taiga.fit_sparse_lr("kind", "i", "v", eval="held"))
    assert p[:, 2].max() < 1e-4
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)


def test_a_class_that_only_rows_of_weight_zero_have_is_not_there() -> None:
    df = table().with_columns(z=pl.when(pl.col("kind") == "c").then(0.0).otherwise(1.0))
    model = df.taiga.fit_sparse_lr("kind", "i", "v", weight="z")
    assert model.classes == ["a", "b"]


@pytest.mark.parametrize("l1", [0.005, 0.02])
def test_ftrl_comes_near_the_objective_of_the_optimum_with_zeros(l1: float) -> None:
    df = table(2_000)
    best = fit(df, l1=l1)
    model = df.taiga.fit_sparse_lr("y", "i", "v", optimizer="ftrl", l1=l1, l2=0.0, epochs=200, batch=50)
    c, p = coefficients(model), predict(df, model)
    loss = -np.log(np.where(df["y"].to_numpy(), p, 1 - p)).mean() + l1 * np.abs(c).sum()
    assert loss < best.objective + 0.01
    assert (c == 0).any() == (coefficients(best) == 0).any()

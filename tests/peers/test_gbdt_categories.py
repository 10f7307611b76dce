"""Categorical features: what each method can express, what their codes and types must not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from sklearn.metrics import roc_auc_score

from .tables import BRANCHING, EXACT, POLICIES, categories, inner_of, leaves_of, predict, rmse

policies = pytest.mark.parametrize("policy", POLICIES)
# Each method under each policy that has it.
METHODS = [(p, m) for p in POLICIES for m in ("ctr", "one_hot", "partition") if (p, m) != ("symmetric", "partition")]
methods = pytest.mark.parametrize(("policy", "method"), METHODS)
SUBSETS: dict[str, Any] = {"cat_method": "partition", "cat_smooth": 0.0, "cat_l2": 0.0, "one_hot_max_size": 1}
FEATURES = ["city", "kind", "shop", "x"]


@pytest.mark.parametrize("policy", BRANCHING)
def test_one_split_divides_categories_in_any_two_sets(policy: Any) -> None:
    df = pl.DataFrame({"c": [str(i) for i in range(8)] * 2, "y": [0.0, 1.0] * 8})
    model = df.taiga.fit_gbdt("y", "c", rounds=1, depth=1, policy=policy, **SUBSETS, **EXACT)
    assert inner_of(model).height == 1
    np.testing.assert_allclose(predict(df, model), df["y"], atol=1e-6)


@pytest.mark.parametrize("policy", BRANCHING)
def test_integers_named_as_categories_are_divided_the_same(policy: Any) -> None:
    df = pl.DataFrame({"c": [*range(-4, 4)] * 2, "y": [0.0, 1.0] * 8})
    model = df.taiga.fit_gbdt("y", "c", rounds=1, depth=1, policy=policy, categorical=["c"], **SUBSETS, **EXACT)
    np.testing.assert_allclose(predict(df, model), df["y"], atol=1e-6)
    numeric = df.taiga.fit_gbdt("y", "c", rounds=1, depth=1, policy=policy, **EXACT)
    assert rmse(predict(df, numeric), df["y"]) > 0.4


@methods
def test_null_is_a_category_that_can_be_told_from_the_others(policy: Any, method: Any) -> None:
    df = pl.DataFrame({"c": ["a", None] * 30, "y": [0.0, 1.0] * 30})
    model = df.taiga.fit_gbdt("y", "c", rounds=60, policy=policy, cat_method=method)
    np.testing.assert_allclose(predict(df, model), df["y"], atol=0.05)


@methods
def test_two_categories_are_told_apart(policy: Any, method: Any) -> None:
    df = pl.DataFrame({"c": [1, 1, 1, 1, 1, 1, 2, 2] * 3, "y": [1.0] * 6 + [0.0] * 2 + ([1.0] * 6 + [0.0] * 2) * 2})
    model = df.taiga.fit_gbdt("y", "c", rounds=1, policy=policy, cat_method=method, categorical=["c"], **EXACT)
    np.testing.assert_allclose(predict(df, model), df["y"], atol=1e-6)


@policies
def test_one_hot_questions_are_columns_of_zeros_and_ones(policy: Any) -> None:
    df = categories()
    levels = sorted(df["city"].unique())
    # In the order in which the categories first appear, as features stand.
    levels = df["city"].unique(maintain_order=True).to_list()
    columns = df.with_columns((pl.col("city") == level).cast(pl.Int8).alias(f"is {level}") for level in levels)
    params: dict[str, Any] = {"rounds": 10, "depth": 3, "policy": policy}
    a = df.taiga.fit_gbdt("y", "city", "x", cat_method="one_hot", **params)
    b = columns.taiga.fit_gbdt("y", *(f"is {level}" for level in levels), "x", **params)
    np.testing.assert_allclose(predict(df, a), predict(columns, b), atol=1e-5)


@methods
def test_other_names_for_the_categories_change_no_prediction(policy: Any, method: Any) -> None:
    df = categories()
    other = df.with_columns(
        city=pl.format("{}!", pl.col("city").str.reverse()), shop=99 - 7 * pl.col("shop"), kind=pl.col("kind") + "ü"
    )
    a, b = (
        frame.taiga.fit_gbdt("y", FEATURES, rounds=8, policy=policy, cat_method=method, categorical=["shop"])
        for frame in (df, other)
    )
    np.testing.assert_array_equal(predict(df, a), predict(other, b))


@methods
@pytest.mark.parametrize("dtype", ["categorical", "enum", "integer", "boolean"])
def test_the_type_of_a_category_changes_no_prediction(policy: Any, method: Any, dtype: str) -> None:
    df = categories().with_columns(kind=pl.col("kind").replace({"blue": "green"}))
    cast = {
        "categorical": pl.col("kind").cast(pl.Categorical),
        "enum": pl.col("kind").cast(pl.Enum(["red", "green", "grey"])),
        "integer": pl.col("kind").replace_strict({"red": 70_000, "green": -1}),
        "boolean": pl.col("kind") == "red",
    }[dtype]
    other = df.with_columns(kind=cast)
    named = ["kind"] if dtype in ("integer", "boolean") else []
    params: dict[str, Any] = {"rounds": 8, "policy": policy, "cat_method": method}
    a = df.taiga.fit_gbdt("y", "city", "kind", "x", **params)
    b = other.taiga.fit_gbdt("y", "city", "kind", "x", categorical=named, **params)
    np.testing.assert_array_equal(predict(df, a), predict(other, b))


@methods
def test_what_training_has_not_seen_is_one_and_the_same_category(policy: Any, method: Any) -> None:
    df = categories()
    model = df.taiga.fit_gbdt("y", FEATURES, rounds=8, policy=policy, cat_method=method, categorical=["shop"])
    strange = [
        df.with_columns(city=pl.lit(c, dtype=pl.String), shop=pl.lit(s, dtype=pl.Int64))
        for c, s in [("nowhere", 1_000), ("", -1), (None, None)]
    ]
    p, *others = (predict(frame, model) for frame in strange)
    assert np.isfinite(p).all()
    assert df["y"].min() - 1 < p.min()
    assert p.max() < df["y"].max() + 1
    for q in others:
        np.testing.assert_array_equal(p, q)


@methods
def test_a_constant_category_changes_no_prediction(policy: Any, method: Any) -> None:
    df = categories().with_columns(same=pl.lit("one"))
    a = df.taiga.fit_gbdt("y", "city", "x", rounds=8, policy=policy, cat_method=method)
    b = df.taiga.fit_gbdt("y", "same", "city", "x", rounds=8, policy=policy, cat_method=method)
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@methods
def test_categories_tell_more_than_their_numbers(policy: Any, method: Any) -> None:
    df = categories(1_000)
    codes = df.with_columns(pl.col("city", "kind").rank("dense").cast(pl.Int32))
    params: dict[str, Any] = {"rounds": 15, "depth": 3, "policy": policy}
    own = df.taiga.fit_gbdt("y", "city", "kind", cat_method=method, **params)
    numbers = codes.taiga.fit_gbdt("y", "city", "kind", **params)
    assert rmse(predict(df, own), df["y"]) < rmse(predict(codes, numbers), df["y"])


@pytest.mark.parametrize("policy", BRANCHING)
def test_a_subset_has_no_more_categories_than_max_cat_threshold(policy: Any) -> None:
    df = categories()
    model = df.taiga.fit_gbdt("y", "city", rounds=5, policy=policy, cat_method="partition", max_cat_threshold=2)
    for name in inner_of(model)["feature"].unique():
        asked = name[name.index("{") + 1 : name.rindex("}")].split(", ")
        assert len(asked) <= 2


@pytest.mark.parametrize("policy", BRANCHING)
def test_a_larger_cat_l2_shrinks_predictions(policy: Any) -> None:
    df = categories()
    spread = [
        predict(
            df,
            df.taiga.fit_gbdt("y", "city", rounds=5, policy=policy, cat_method="partition", cat_l2=l2),
        ).std()
        for l2 in (0.0, 100.0, 1e6)
    ]
    assert spread == sorted(spread, reverse=True)


@methods
def test_a_category_for_each_row_teaches_nothing_of_noise(policy: Any, method: Any) -> None:
    """With statistics of the rows before only, no row learns its own target; one question at a time can't."""
    rng = np.random.default_rng(0)
    df = pl.DataFrame({"id": [f"r{i % 700}" for i in range(1_000)], "y": rng.random(1_000) < 0.5})
    new = pl.DataFrame({"id": [f"r{i % 700}" for i in range(1_000)], "y": rng.random(1_000) < 0.5})
    model = df.taiga.fit_gbdt("y", "id", rounds=10, policy=policy, cat_method=method)
    # On other draws of the noise no method may be better than chance.
    assert roc_auc_score(new["y"], predict(new, model)) == pytest.approx(0.5, abs=0.06)
    if method == "ctr":
        p = predict(new, model)
        assert abs(p.mean() - df["y"].mean()) < 0.03


@methods
def test_held_out_categories_are_told_only_what_training_knows(policy: Any, method: Any) -> None:
    df = categories().with_columns(held=pl.int_range(pl.len()) % 4 == 0)
    other = df.with_columns(pl.when("held").then(-pl.col("y")).otherwise("y").alias("y"))
    a, b = (
        frame.taiga.fit_gbdt("y", FEATURES, rounds=5, policy=policy, cat_method=method, eval="held")
        for frame in (df, other)
    )
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@pytest.mark.parametrize(("policy", "method"), METHODS)
def test_targets_of_weight_zero_get_into_no_statistic_of_categories(policy: Any, method: Any) -> None:
    df = categories().with_columns(w=(pl.int_range(pl.len()) % 4 > 0).cast(pl.Float64))
    other = df.with_columns(pl.when(pl.col("w") == 0).then(-pl.col("y")).otherwise("y").alias("y"))
    a, b = (
        frame.taiga.fit_gbdt("y", FEATURES, rounds=5, policy=policy, cat_method=method, weight="w")
        for frame in (df, other)
    )
    np.testing.assert_array_equal(predict(df, a), predict(df, b))


@methods
@pytest.mark.parametrize("target", ["flag", "kind"])
def test_categories_serve_classes_too(policy: Any, method: Any, target: str) -> None:
    df = categories(900)
    features = ["city", "x"] if target == "kind" else FEATURES
    df = df.with_columns(kind=pl.col("y").qcut(3, labels=["a", "b", "c"]).cast(pl.String))
    model = df.taiga.fit_gbdt(target, features, rounds=20, policy=policy, cat_method=method)
    got = df.select(tg.predict(model, output="class")).to_series()
    assert (got == df[target]).mean() > 1.4 * df[target].value_counts()["count"].max() / df.height


CTRS = ["borders", "buckets", "binarized_target_mean_value", "float_target_mean_value", "counter"]


@pytest.mark.parametrize("ctr", CTRS)
@pytest.mark.parametrize("target", ["y", "flag"])
def test_each_statistic_alone_can_be_asked_for(ctr: Any, target: str) -> None:
    df = categories()
    model = df.taiga.fit_gbdt(target, FEATURES, rounds=5, ctr=[ctr])
    assert np.isfinite(predict(df, model)).all()


@policies
def test_a_category_for_each_row_of_few_rows_is_fitted(policy: Any) -> None:
    df = pl.DataFrame({"c": list("abc"), "y": [0.0, 1.0, 2.0]})
    model = df.taiga.fit_gbdt("y", "c", policy=policy, rounds=5)
    np.testing.assert_allclose(predict(df, model), 1.0, atol=1.0)


@pytest.mark.parametrize("policy", BRANCHING)
@pytest.mark.parametrize("levels", [254, 600])
def test_partition_tells_the_254_most_frequent_categories_apart(policy: Any, levels: int) -> None:
    """Categories as frequent as each other, each with a mean of its own: those that appear first are told apart, the
    others are one.
    """
    df = pl.DataFrame({"c": [f"c{i % levels}" for i in range(4 * levels)]}).with_columns(
        y=pl.col("c").str.slice(1).cast(pl.Float64) % 2, known=pl.col("c").str.slice(1).cast(pl.Int64) < 254
    )
    model = df.taiga.fit_gbdt(
        "y", "c", rounds=40, policy=policy, cat_method="partition", cat_smooth=0.0, cat_l2=0.0, max_cat_threshold=254,
        min_child_weight=0.0,
    )  # fmt: skip
    known, others = df.filter("known"), df.filter(~pl.col("known"))
    assert rmse(predict(known, model), known["y"]) < 0.1
    if levels > 254:
        assert len(set(predict(others, model))) == 1


@methods
def test_leaves_of_categorical_trees_count_the_rows_that_fall_into_them(policy: Any, method: Any) -> None:
    df = categories()
    model = df.taiga.fit_gbdt("y", FEATURES, rounds=3, policy=policy, cat_method=method)
    leaves = leaves_of(model)
    assert (leaves.group_by("tree").agg(pl.col("count").sum())["count"] == df.height).all()
    if method != "ctr":  # a training row's statistics are those of the rows before it
        fallen = df.select(tg.predict(model, output="leaf").list.get(0)).to_series().value_counts()
        counts = leaves.filter((pl.col("tree") == 0) & (pl.col("count") > 0)).select("leaf", "count")
        assert dict(counts.iter_rows()) == dict(fallen.iter_rows())


@pytest.mark.filterwarnings("ignore")
def test_subsets_are_as_accurate_as_those_of_lightgbm() -> None:
    from lightgbm import LGBMRegressor

    train, test = categories(2_000, 1), categories(1_000, 2)
    params: dict[str, Any] = {"rounds": 40, "policy": "leafwise", "cat_method": "partition"}
    ours = train.taiga.fit_gbdt("y", "city", "kind", "x", **params)
    frames = [d.select(pl.col("city", "kind").cast(pl.Categorical), "x").to_pandas() for d in (train, test)]
    for c in ("city", "kind"):
        frames[1][c] = frames[1][c].cat.set_categories(frames[0][c].cat.categories)
    peer = LGBMRegressor(n_estimators=40, reg_lambda=1, min_child_samples=1, min_child_weight=1, n_jobs=1, verbose=-1)
    peer.fit(frames[0], train["y"].to_numpy())
    assert rmse(predict(test, ours), test["y"]) < 1.05 * rmse(peer.predict(frames[1]), test["y"])


@pytest.mark.parametrize("values", [["a", "b"], ["b", "a"]], ids=["first a", "first b"])
def test_the_order_in_which_categories_appear_does_not_matter_to_accuracy(values: list[str]) -> None:
    df = pl.DataFrame({"c": values * 40}).with_columns(y=(pl.col("c") == "a").cast(pl.Float64))
    for policy in POLICIES:
        model = df.taiga.fit_gbdt("y", "c", rounds=1, policy=policy, **EXACT)
        np.testing.assert_allclose(predict(df, model), df["y"], atol=1e-6)

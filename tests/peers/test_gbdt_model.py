"""What a boosted model says of itself: stages, leaves, tables, importances, JSON, bytes."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

from .tables import POLICIES, categories, inner_of, leaves_of, names, numbers, predict, staged, start_of, trees_of, walk

policies = pytest.mark.parametrize("policy", POLICIES)
TARGETS = ["y", "flag", "kind", "positive"]
targets = pytest.mark.parametrize("target", TARGETS)


def fit(df: pl.DataFrame, target: str, policy: Any, **params: Any) -> tg.Model:
    loss: Any = "gamma" if target == "positive" else "auto"
    return df.taiga.fit_gbdt(target, names(df), **{"rounds": 6, "policy": policy, "loss": loss, **params})


@policies
@targets
def test_each_stage_is_the_model_of_so_many_rounds(policy: Any, target: str) -> None:
    df = numbers()
    stages = df.select(tg.predict(fit(df, target, policy), output="staged")).to_series()
    for rounds in (1, 3, 6):
        p = df.select(tg.predict(fit(df, target, policy, rounds=rounds))).to_series()
        if target == "kind":
            stage = stages.struct.unnest().select(pl.all().list.get(rounds - 1))
            assert stage.equals(p.struct.unnest())
        else:
            assert stages.list.get(rounds - 1).equals(p)


@policies
@targets
def test_raw_scores_are_the_start_and_the_leaves_values(policy: Any, target: str) -> None:
    df = numbers()
    model = fit(df, target, policy)
    raw = predict(df, model, "raw").reshape(df.height, -1)
    found = np.tile(start_of(model), (df.height, 1))
    leaves = df.select(tg.predict(model, output="leaf")).to_series().to_list()
    values = {(n["tree"], n["leaf"]): (n["output"], n["value"]) for n in leaves_of(model).to_dicts()}
    for row, numbers_of_leaves in enumerate(leaves):
        for tree, leaf in enumerate(numbers_of_leaves):
            output, value = values[tree, leaf]
            found[row, output] += value
    np.testing.assert_allclose(raw, found, rtol=1e-6, atol=1e-6)


@policies
@targets
def test_the_table_of_nodes_leads_each_row_to_its_leaf(policy: Any, target: str) -> None:
    df = numbers(120).with_columns(pl.when(pl.int_range(pl.len()) % 6 > 0).then("x0").alias("x0"))
    model = fit(df, target, policy)
    leaves = df.select(tg.predict(model, output="leaf")).to_series().to_list()
    trees = trees_of(model)
    for row, found in zip(df.to_dicts(), leaves, strict=True):
        assert found == [walk(nodes, row)["leaf"] for nodes in trees]


def by_json(model: tg.Model, df: pl.DataFrame) -> np.ndarray:
    """Raw scores by the model's JSON alone, as its description says."""
    text = json.loads(model.to_json())
    scores = np.tile(np.array(text["start"], dtype=float), (df.height, 1))

    def side(split: dict[str, Any], row: Any) -> str:
        x = row[split["feature"]]
        if x is None or x != x:
            return str(split["missing"])
        return "right" if x > float(split["border"]) else "left"

    def leaf(tree: dict[str, Any], row: Any) -> int:
        if tree["kind"] == "symmetric":
            return int("0" + "".join("1" if side(s, row) == "right" else "0" for s in tree["splits"]), 2)
        at = {"node": 0} if tree["nodes"] else {"leaf": 0}
        while "leaf" not in at:
            node = tree["nodes"][at["node"]]
            at = node[side(node, row)]
        return at["leaf"]

    for i, row in enumerate(df.select([f["name"] for f in text["features"]]).rows()):
        for tree in text["trees"]:
            scores[i, tree["output"]] += text["scale"] * tree["leaves"][leaf(tree, row)]["value"]
    return scores


@policies
@targets
def test_the_json_alone_gives_the_raw_scores(policy: Any, target: str) -> None:
    df = numbers(80).with_columns(pl.when(pl.int_range(pl.len()) % 6 > 0).then("x0").alias("x0"))
    model = fit(df, target, policy)
    np.testing.assert_allclose(
        by_json(model, df), predict(df, model, "raw").reshape(df.height, -1), rtol=1e-6, atol=1e-6
    )


@policies
@targets
def test_importances_are_sums_over_the_table_of_nodes(policy: Any, target: str) -> None:
    df = numbers(features=4)
    model = fit(df, target, policy)
    splits = inner_of(model)
    # A symmetric level's split counts once: its first node has the gain.
    once = splits.filter(pl.col("gain").is_not_null()) if policy == "symmetric" else splits
    of = {
        "gain": once.group_by("feature").agg(pl.col("gain").sum()),
        "split": once.group_by("feature").agg(pl.len().cast(pl.Float64)),
        "cover": splits.group_by("feature").agg(pl.col("weight").sum()),
    }
    for kind, table in of.items():
        want = dict(table.iter_rows())
        for feature, importance in model.importance(kind).iter_rows():  # type: ignore[arg-type]
            assert importance == pytest.approx(want.get(feature, 0.0), rel=1e-4), kind


@policies
def test_the_informative_features_matter_most(policy: Any) -> None:
    df = numbers(rows=1_000, features=8)
    model = df.taiga.fit_gbdt("y", names(df), rounds=30, depth=4, policy=policy)
    best = model.importance().sort("importance", descending=True)["feature"][:3]
    assert set(best) == {"x0", "x1", "x2"}


@policies
def test_a_feature_that_no_split_uses_has_importance_zero(policy: Any) -> None:
    df = numbers().with_columns(x9=pl.lit(1.0))
    model = df.taiga.fit_gbdt("y", names(df), rounds=5, policy=policy)
    for kind in ("gain", "split", "cover"):
        assert model.importance(kind).filter(feature="x9")["importance"].item() == 0  # type: ignore[arg-type]


@policies
@targets
def test_copies_and_pickles_predict_the_same(policy: Any, target: str) -> None:
    df = numbers()
    model = fit(df, target, policy)
    expected = df.select(tg.predict(model))
    for same in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), tg.Model(model.to_bytes())):
        assert same == model
        assert df.select(tg.predict(same)).equals(expected)


@policies
@targets
def test_fitting_again_gives_the_same_bytes(policy: Any, target: str) -> None:
    df = numbers()
    assert fit(df, target, policy) == fit(df, target, policy)


@policies
@targets
def test_one_row_at_a_time_is_predicted_as_all_together(policy: Any, target: str) -> None:
    df = numbers(40)
    model = fit(df, target, policy)
    alone = pl.concat([df[i : i + 1].select(tg.predict(model)) for i in range(df.height)])
    assert alone.equals(df.select(tg.predict(model)))


@targets
def test_no_rows_give_no_predictions_of_the_right_type(target: str) -> None:
    df = numbers()
    model = fit(df, target, "symmetric")
    for output in ("auto", "raw", "leaf", "staged"):
        full, empty = (frame.select(tg.predict(model, output=output)) for frame in (df, df.clear()))
        assert empty.height == 0
        assert empty.schema == full.schema


@policies
def test_the_last_stage_is_the_prediction(policy: Any) -> None:
    df = numbers()
    for target in ("y", "flag", "positive"):
        model = fit(df, target, policy)
        np.testing.assert_array_equal(staged(df, model)[-1], predict(df, model))


@policies
def test_a_model_of_one_round_is_not_so_many_starts(policy: Any) -> None:
    """Trees of one leaf add nothing: ten of them predict the start and not ten times it."""
    df = numbers()
    model = df.taiga.fit_gbdt("flag", names(df), rounds=10, policy=policy, min_gain=1e9)
    p = predict(df, model, "raw")
    share = df["flag"].mean()
    np.testing.assert_allclose(p, np.log(share / (1 - share)), rtol=1e-6)


@policies
def test_predictions_stay_within_the_training_targets(policy: Any) -> None:
    """Leaves are means of residuals, so no row at the rate 1 and no penalty leaves the range by one tree."""
    df = numbers()
    model = df.taiga.fit_gbdt("y", names(df), rounds=1, policy=policy, learning_rate=1.0)
    far = pl.DataFrame({name: [-1e300, 1e300, None] for name in names(df)})
    p = np.concatenate([predict(df, model), predict(far, model)])
    assert df["y"].min() <= p.min()
    assert p.max() <= df["y"].max()


@policies
def test_missing_features_in_prediction_are_an_error_and_others_are_ignored(policy: Any) -> None:
    df = numbers()
    model = fit(df, "y", policy)
    np.testing.assert_array_equal(
        predict(df.select(reversed(df.columns)).with_columns(more=1), model), predict(df, model)
    )
    with pytest.raises(pl.exceptions.PolarsError, match="x1"):
        df.drop("x1").select(tg.predict(model))


@pytest.mark.parametrize("method", ["ctr", "one_hot", "partition"])
def test_importances_of_categories_belong_to_their_columns(method: Any) -> None:
    df = categories().with_columns(same=pl.lit("a"))
    model = df.taiga.fit_gbdt("y", "city", "kind", "same", "x", rounds=10, policy="leafwise", cat_method=method)
    for kind in ("gain", "split", "cover"):
        table = model.importance(kind)  # type: ignore[arg-type]
        assert table["feature"].to_list() == ["city", "kind", "same", "x"]
        assert table["importance"][2] == 0
        assert table["importance"][0] > 0


@policies
def test_parameters_come_back_as_they_were_given(policy: Any) -> None:
    df = numbers()
    given: dict[str, Any] = {
        "rounds": 3, "learning_rate": 0.25, "l2": 2.5, "l1": 0.125, "bins": 17, "seed": 11, "min_gain": 0.5,
        "feature_fraction": 0.75, "monotone": {"x0": 1}, "min_data_in_leaf": 2,
    }  # fmt: skip
    model = df.taiga.fit_gbdt("y", names(df), policy=policy, **given)
    assert {k: model.params[k] for k in given} == given
    assert model.params["policy"] == policy


@policies
def test_borders_of_a_model_are_those_that_its_splits_use(policy: Any) -> None:
    df = numbers().with_columns(x9=pl.lit(1.0))
    model = fit(df, "y", policy)
    for feature, found in model.borders.items():
        assert found == inner_of(model).filter(feature=feature)["border"].unique().sort().to_list()


@policies
def test_a_level_of_a_symmetric_tree_has_one_gain_and_other_nodes_have_each_their_own(policy: Any) -> None:
    splits = inner_of(fit(numbers(), "y", policy))
    if policy == "symmetric":
        by_level = splits.group_by("tree", "depth").agg(pl.col("gain").is_not_null().sum(), pl.col("border").n_unique())
        assert set(by_level["gain"]) == {1}
        assert set(by_level["border"]) == {1}
    else:
        assert splits["gain"].null_count() == 0
    assert splits["gain"].drop_nulls().min() > 0


@pytest.mark.parametrize(
    ("policy", "depth", "allowed"),
    [("leafwise", 63, True), ("leafwise", 64, False), ("symmetric", 16, True), ("symmetric", 17, False),
     ("depthwise", 16, True), ("depthwise", 17, False)],
)  # fmt: skip
def test_the_deepest_trees_are_what_the_documentation_says(policy: Any, depth: int, allowed: bool) -> None:
    df = numbers(100)
    if allowed:
        assert leaves_of(fit(df, "y", policy, depth=depth, rounds=1))["depth"].max() <= depth
    else:
        with pytest.raises(ValueError, match="depth"):
            fit(df, "y", policy, depth=depth)

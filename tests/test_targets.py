"""Several targets: structs, lists and arrays, and labels of which a row may have several; one model each, and peers."""

from __future__ import annotations

from typing import Any

import catboost
import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.exceptions import ComputeError
from polars_taiga.sklearn import GbdtClassifier, GbdtRegressor
from sklearn.metrics import log_loss, mean_squared_error, r2_score, roc_auc_score, root_mean_squared_error
from sklearn.multioutput import MultiOutputRegressor

POLICIES = ["symmetric", "depthwise", "leafwise"]
FEATURES = ["a", "b", "c", "d"]
TARGETS = pl.struct("y", "z", "v")


@pytest.fixture(scope="module")
def several(df: pl.DataFrame) -> pl.DataFrame:
    """The shared table with two more targets, of other units, and labels."""
    rng = np.random.default_rng(4)
    z = 1_000 * (df["y"] - 2 * df["a"]).to_numpy() + 400 * rng.normal(size=df.height)
    v = 0.01 * (df["y"] * df["d"]).to_numpy() + 0.003 * rng.normal(size=df.height)
    return df.with_columns(
        z=pl.Series(z),
        v=pl.Series(v),
        one=pl.Series(z > 0),
        two=pl.Series(v > 0.01),
        tags=pl.concat_list(
            pl.when(pl.col("flag")).then(pl.lit("sun")), pl.when(pl.Series(z) > 0).then(pl.lit("rain"))
        ).list.drop_nulls(),
        numbers=pl.concat_list(pl.when(pl.col("flag")).then(10), pl.when(pl.Series(z) > 0).then(9)).list.drop_nulls(),
    )


def matrix(df: pl.DataFrame, model: Any, **more: Any) -> np.ndarray:
    return df.select(tg.predict(model, **more)).to_series().struct.unnest().to_numpy()


def test_a_prediction_is_a_struct_of_the_targets(several: pl.DataFrame) -> None:
    model = several.taiga.fit_gbdt(TARGETS, *FEATURES, rounds=30)
    assert model.targets == ["y", "z", "v"]
    assert "targets" not in model.params
    out = several.select(tg.predict(model))
    assert out.schema["prediction"] == pl.Struct({"y": pl.Float64, "z": pl.Float64, "v": pl.Float64})
    truth = several.select("y", "z", "v").to_numpy()
    assert r2_score(truth, matrix(several, model)) > 0.7
    # In a lazy query, from bytes, from a file, as JSON.
    again = tg.Model.from_json(model.to_json())
    assert matrix(several, again).tolist() == matrix(several, model).tolist()
    lazy = several.lazy().with_columns(p=tg.predict(model)).collect()
    assert lazy["p"].to_list() == out["prediction"].to_list()
    raw = matrix(several, model, output="raw")
    assert raw.tolist() == matrix(several, model).tolist()


def test_lists_and_arrays_are_targets_too(several: pl.DataFrame) -> None:
    model = several.taiga.fit_gbdt(TARGETS, *FEATURES, rounds=5)
    for made in [pl.concat_list("y", "z", "v"), pl.concat_list("y", "z", "v").list.to_array(3)]:
        listed = several.with_columns(t=made)
        other = listed.taiga.fit_gbdt("t", *FEATURES, rounds=5)
        assert other.targets == ["0", "1", "2"]
        assert matrix(listed, other).tolist() == matrix(several, model).tolist()
        assert listed.select(tg.score(other, "t")).item() == several.select(tg.score(model, TARGETS)).item()


@pytest.mark.parametrize("policy", POLICIES)
def test_one_tree_is_no_worse_than_a_model_each(several: pl.DataFrame, policy: str) -> None:
    train, test = several.filter(~pl.col("held")), several.filter("held")
    truth = test.select("y", "z", "v").to_numpy()
    more = {"policy": policy, "rounds": 150}
    together = matrix(test, train.taiga.fit_gbdt(TARGETS, *FEATURES, **more))
    each = np.column_stack(
        [test.select(tg.predict(train.taiga.fit_gbdt(y, *FEATURES, **more))).to_numpy() for y in "yzv"]
    )
    assert r2_score(truth, together) > r2_score(truth, each) - 0.03


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("loss", ["rmse", "multilabel", "mae"])
@pytest.mark.parametrize("count", [2, 3, 5, 18])
def test_equal_targets_are_predicted_as_one(several: pl.DataFrame, policy: str, loss: str, count: int) -> None:
    """To the bit: the statistics of each are those of one, and sums of equal scores order splits as one score does."""
    truth = "flag" if loss == "multilabel" else "y"
    same = several.select(*FEATURES, truth, *(pl.col(truth).alias(f"t{k}") for k in range(count)))
    more: dict[str, Any] = {"policy": policy, "rounds": 12, "min_data_in_leaf": 4}
    one = same.taiga.fit_gbdt(truth, *FEATURES, loss="logloss" if loss == "multilabel" else loss, **more)
    all_of_them = same.taiga.fit_gbdt(pl.struct(f"t{k}" for k in range(count)), *FEATURES, loss=loss, **more)
    expected = same.select(tg.predict(one)).to_series().to_list()
    for column in matrix(same, all_of_them).T.tolist():
        assert column == expected


def test_scores_are_scikit_learns_averages(several: pl.DataFrame) -> None:
    model = several.taiga.fit_gbdt(TARGETS, *FEATURES, rounds=20, weight="w")
    truth, p, w = several.select("y", "z", "v").to_numpy(), matrix(several, model), several["w"].to_numpy()

    def score(metric: str, **more: Any) -> float:
        return float(several.select(tg.score(model, TARGETS, metric=metric, **more)).item())

    assert score("rmse") == pytest.approx(root_mean_squared_error(truth, p), rel=1e-12)
    assert score("rmse", weight="w") == pytest.approx(root_mean_squared_error(truth, p, sample_weight=w), rel=1e-12)
    assert score("r2") == pytest.approx(r2_score(truth, p), rel=1e-12)
    labels = pl.struct("flag", "one", "two")
    model = several.taiga.fit_gbdt(labels, *FEATURES, rounds=20)
    y, p = several.select("flag", "one", "two").to_numpy(), matrix(several, model)
    assert several.select(tg.score(model, labels)).item() == pytest.approx(
        np.mean([log_loss(y[:, k], p[:, k]) for k in range(3)]), rel=1e-12
    )
    auc = several.select(tg.score(model, labels, metric="auc")).item()
    assert auc == pytest.approx(roc_auc_score(y, p, average="macro"), rel=1e-12)


def test_held_out_rows_stop_early(several: pl.DataFrame) -> None:
    model = several.taiga.fit_gbdt(TARGETS, *FEATURES, eval="held", early_stopping=5, rounds=2_000, learning_rate=0.3)
    assert model.rounds < 2_000
    held = several.filter("held")
    assert min(model.history["rmse"]) == pytest.approx(held.select(tg.score(model, TARGETS)).item(), rel=1e-6)


def test_labels_in_lists_are_those_of_a_struct(several: pl.DataFrame) -> None:
    flags = several.with_columns(rain=pl.col("tags").list.contains("rain"), sun=pl.col("tags").list.contains("sun"))
    a = several.taiga.fit_gbdt("tags", *FEATURES, rounds=12)
    b = flags.taiga.fit_gbdt(pl.struct("rain", "sun"), *FEATURES, rounds=12)
    assert (a.targets, a.loss) == (["rain", "sun"], "multilabel")
    assert matrix(several, a).tolist() == matrix(flags, b).tolist()
    c = several.taiga.fit_gbdt("numbers", *FEATURES, rounds=12, loss="multilabel")
    assert c.targets == ["9", "10"]
    assert matrix(several, c).tolist() == matrix(several, a).tolist()
    numbers = flags.with_columns(pl.col("rain", "sun").cast(pl.Int8))
    d = numbers.taiga.fit_gbdt(pl.struct("rain", "sun"), *FEATURES, rounds=12, loss="multilabel")
    assert matrix(several, d).tolist() == matrix(several, a).tolist()
    truth = flags.select("rain", "sun").to_numpy()
    assert a.score(several, metric="auc") == pytest.approx(roc_auc_score(truth, matrix(several, a)), rel=1e-12)
    # A label of held-out rows alone is none.
    rare = several.with_columns(tags=pl.when("held").then(pl.lit(["fog"])).otherwise("tags"))
    assert rare.taiga.fit_gbdt("tags", *FEATURES, rounds=2, eval="held").targets == ["rain", "sun"]


def test_shap_values_add_up_to_each_targets_score(several: pl.DataFrame) -> None:
    model = several.taiga.fit_gbdt(TARGETS, *FEATURES, rounds=8, policy="depthwise")
    rows = several.head(50)
    shap = rows.select(tg.predict(model, output="shap")).to_series().struct.unnest()
    raw = rows.select(tg.predict(model, output="raw")).to_series().struct.unnest()
    assert shap.columns == ["y", "z", "v"]
    for target in shap.columns:
        total = shap[target].struct.unnest().sum_horizontal()
        assert total.to_numpy() == pytest.approx(raw[target].to_numpy(), rel=1e-9)
    assert model.importance(kind="gain")["importance"].sum() > 0
    assert model.trees().height == 3 * model.trees().filter(pl.col("output") == 0).height


@pytest.mark.parametrize("method", ["ctr", "one_hot", "partition"])
@pytest.mark.parametrize("strategy", ["one_tree", "tree_each"])
def test_categories_of_every_method(several: pl.DataFrame, method: str, strategy: str) -> None:
    more: dict[str, Any] = {"cat_method": method, "multi_strategy": strategy, "policy": "depthwise", "rounds": 40}
    df = several.with_columns(k=pl.col("kind") + pl.col("group").cast(pl.String), g=pl.col("group").cast(pl.String))
    model = df.taiga.fit_gbdt(TARGETS, "k", "g", "a", **more)
    plain = df.taiga.fit_gbdt(TARGETS, "a", **{**more, "cat_method": "ctr"})
    assert (
        df.select(tg.score(model, TARGETS, metric="r2")).item()
        > df.select(tg.score(plain, TARGETS, metric="r2")).item() + 0.1
    )
    for threads in (1, 3):
        assert df.taiga.fit_gbdt(TARGETS, "k", "g", "a", n_threads=threads, **more).to_bytes() == model.to_bytes()


@settings(max_examples=15, deadline=None)
@given(
    count=st.integers(1, 6),
    policy=st.sampled_from(POLICIES),
    sample=st.sampled_from([None, "bernoulli", "goss", "mvs", "bayesian"]),
    loss=st.sampled_from(["rmse", "mae", "poisson", "cross_entropy"]),
    strategy=st.sampled_from(["one_tree", "tree_each"]),
    weighted=st.booleans(),
    cut=st.integers(1, 699),
)
def test_threads_and_chunks_change_no_byte(
    count: int, policy: str, sample: str | None, loss: str, strategy: str, weighted: bool, cut: int
) -> None:
    rng = np.random.default_rng(count)
    df = pl.DataFrame(rng.normal(size=(700, 3)), schema=["a", "b", "c"]).with_columns(
        pl.Series("w", rng.integers(0, 3, 700) + 0.5),
        *(pl.Series(f"y{k}", rng.uniform(size=700)) for k in range(count)),
    )
    more: dict[str, Any] = {
        "loss": loss,
        "policy": policy,
        "row_sample": sample,
        "multi_strategy": strategy,
        "rounds": 4,
    }
    fit = tg.fit_gbdt(
        pl.struct(f"y{k}" for k in range(count)), "a", "b", "c", weight="w" if weighted else None, n_threads=2, **more
    )
    chunked = pl.concat([df[:cut], df[cut:]], rechunk=False)
    assert df.select(fit).item() == chunked.select(fit).item()
    other = tg.fit_gbdt(
        pl.struct(f"y{k}" for k in range(count)), "a", "b", "c", weight="w" if weighted else None, n_threads=1, **more
    )
    assert df.select(other).item() == df.select(fit).item()


def test_as_good_as_xgboost_and_catboost(several: pl.DataFrame) -> None:
    """One tree for all targets, of the same depth and rate; the peers get targets of a common unit."""
    train, test = several.filter(~pl.col("held")), several.filter("held")
    y, truth = train.select("y", "z", "v").to_numpy(), test.select("y", "z", "v").to_numpy()
    mean, spread = y.mean(axis=0), y.std(axis=0)
    x, own = train.select(FEATURES).to_numpy(), test.select(FEATURES).to_numpy()
    params = {"multi_strategy": "multi_output_tree", "tree_method": "hist", "eta": 0.1, "max_depth": 5}
    booster = xgb.train(params, xgb.DMatrix(x, (y - mean) / spread), num_boost_round=150)
    boosted = booster.inplace_predict(own) * spread + mean
    cat = catboost.CatBoostRegressor(
        loss_function="MultiRMSE",
        iterations=150,
        learning_rate=0.1,
        depth=5,
        l2_leaf_reg=1.0,
        verbose=False,
        allow_writing_files=False,
    ).fit(x, (y - mean) / spread)
    theirs = {"depthwise": boosted, "symmetric": cat.predict(own) * spread + mean}
    for policy, p in theirs.items():
        model = train.taiga.fit_gbdt(TARGETS, *FEATURES, policy=policy, depth=5, rounds=150)
        assert r2_score(truth, matrix(test, model)) > r2_score(truth, p) - 0.01, policy


def test_scikit_learns_matrices(several: pl.DataFrame) -> None:
    x, y = several.select(FEATURES).to_numpy(), several.select("y", "z", "v").to_numpy()
    est = GbdtRegressor(rounds=30).fit(x, y)
    assert est.predict(x).shape == y.shape
    assert next(est.staged_predict(x)).shape == y.shape
    bundle = MultiOutputRegressor(GbdtRegressor(rounds=30)).fit(x, y)
    assert est.score(x, y) > bundle.score(x, y) - 0.05
    one = GbdtRegressor(rounds=5).fit(x, y[:, :1])
    assert one.predict(x).shape == (len(x),)
    labels = several.select(pl.col("flag", "one", "two").cast(pl.Int64)).to_numpy()
    clf = GbdtClassifier(rounds=30).fit(x, labels, eval_set=(x, labels))
    assert clf.predict_proba(x).shape == labels.shape
    assert ((clf.decision_function(x) > 0) == clf.predict(x)).all()
    assert clf.score(x, labels) > 0.5
    assert clf.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="indicator matrix"):
        GbdtClassifier(loss="multilabel").fit(x, labels[:, 0])
    with pytest.raises(ValueError, match="Unknown label type"):
        GbdtClassifier().fit(x, labels + 1)


def test_in_groups_and_constants(several: pl.DataFrame) -> None:
    models = several.group_by("group").agg(m=tg.fit_gbdt(TARGETS, *FEATURES, rounds=3), rows=pl.len())
    joined = several.join(models, on="group").with_columns(
        p=tg.predict("m", *FEATURES, dtype=pl.Struct(dict.fromkeys("yzv", pl.Float64)))
    )
    assert joined["p"].struct.field("z").is_not_null().all()
    lone = several.head(1).select(tg.fit_gbdt(TARGETS, *FEATURES, on_error="constant")).item()
    p = several.head(2).select(tg.predict(tg.Model(lone))).to_series()
    assert p[1] == several.select("y", "z", "v").row(0, named=True)


def test_what_is_wrong_is_told(several: pl.DataFrame) -> None:
    def fault(df: pl.DataFrame, target: Any, **more: Any) -> str:
        with pytest.raises((ComputeError, ValueError, pl.exceptions.PolarsError)) as error:
            df.select(tg.fit_gbdt(target, *FEATURES, rounds=2, **more))
        return str(error.value)

    missing = several.with_columns(z=pl.when(pl.int_range(pl.len()) == 7).then(None).otherwise("z"))
    assert "`z`" in fault(missing, TARGETS)
    short = several.with_columns(
        t=pl.when(pl.int_range(pl.len()) == 7).then(pl.concat_list("y")).otherwise(pl.concat_list("y", "z"))
    )
    assert "row 7" in fault(short, "t")
    assert "1 item" in fault(short, "t")
    nothing = several.with_columns(
        t=pl.concat_list("y", pl.when(pl.int_range(pl.len()) == 3).then(None).otherwise("z"))
    )
    assert "item 1 is null in row 3" in fault(nothing, "t")
    assert "is for one target" in fault(several, TARGETS, loss="lambdarank", group="group")
    quantiles = fault(several, TARGETS, loss="quantile", alpha=[0.1, 0.9])
    assert "`alpha`" in quantiles
    assert "one quantile each" in quantiles
    assert "a loss of your own is for one target" in fault(several, TARGETS, loss=tg.loss(lambda y, f: (y - f) ** 2))
    assert "several targets have no classes to weigh" in fault(several, TARGETS, class_weight="balanced")
    assert "monotone" in fault(several, TARGETS, monotone={"a": 1})
    assert "huber_delta" in fault(several, TARGETS, loss="huber")
    assert "several labels a row" in fault(several, "y", loss="multilabel")
    assert "kind" in fault(several, pl.struct("y", "kind"))
    assert "multilabel" in fault(several, "tags", loss="rmse")
    assert "baseline" in fault(several, TARGETS, baseline="w")
    with pytest.raises(ComputeError, match="its type is struct"):
        several.select(tg.fit_forest(TARGETS, *FEATURES))
    model = several.taiga.fit_gbdt(TARGETS, *FEATURES, rounds=2)
    with pytest.raises(ComputeError, match="has no field `v`"):
        several.select(tg.score(model, pl.struct("y", "z")))
    with pytest.raises(ComputeError, match="the model has 3 targets"):
        several.select(tg.score(model, "y"))
    with pytest.raises((ComputeError, ValueError), match="has no classes"):
        several.select(tg.predict(model, output="class"))


def test_squared_errors_are_the_sum(several: pl.DataFrame) -> None:
    """More rounds lower every target's error on the training rows."""
    few, many = (several.taiga.fit_gbdt(TARGETS, *FEATURES, rounds=n) for n in (5, 60))
    truth = several.select("y", "z", "v").to_numpy()
    for k in range(3):
        errors = [mean_squared_error(truth[:, k], matrix(several, model)[:, k]) for model in (few, many)]
        assert errors[1] < errors[0]

"""Metrics of predictions: against scikit-learn's, against the history of a fit, in groups; what can't be measured."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

FEATURES = list("abcd")


@pytest.fixture(scope="module")
def weighted(df: pl.DataFrame) -> pl.DataFrame:
    return df.with_columns(w=pl.int_range(pl.len()) % 5 * 0.75, p=pl.col("y").abs() + 1.0)


def test_default_metrics_are_those_of_the_loss(df: pl.DataFrame, weighted: pl.DataFrame) -> None:
    """By their definitions in NumPy, from the predictions, with and without weights."""
    y, flag, w = weighted["y"].to_numpy(), weighted["flag"].to_numpy(), weighted["w"].to_numpy()
    cases = {
        "rmse": ("y", lambda p, w: math.sqrt(np.average((p - y) ** 2, weights=w))),
        "mae": ("y", lambda p, w: np.average(np.abs(p - y), weights=w)),
        "poisson": ("p", lambda p, w: 2 * np.average(y_p * np.log(y_p / p) - y_p + p, weights=w)),
        "logloss": ("flag", lambda p, w: -np.average(np.log(np.where(flag, p, 1 - p)), weights=w)),
    }
    y_p = weighted["p"].to_numpy()
    for loss, (target, naive) in cases.items():
        model = weighted.taiga.fit_gbdt(target, FEATURES, rounds=7, loss=loss)
        p = model.predict(weighted).to_numpy()
        assert math.isclose(model.score(weighted), naive(p, None), rel_tol=1e-9), loss
        assert math.isclose(model.score(weighted, weight="w"), naive(p, w), rel_tol=1e-9), loss
        # The unit of weights and rows of weight 0 leave no trace.
        assert model.score(weighted, weight=pl.col("w") * 2.0**40) == model.score(weighted, weight="w")
        assert model.score(weighted.filter(pl.col("w") > 0), weight="w") == model.score(weighted, weight="w")


def test_classes_and_forests(df: pl.DataFrame, multiclass: tg.Model) -> None:
    p = multiclass.predict(df).struct.unnest()
    own = [row[kind] for row, kind in zip(p.to_dicts(), df["kind"], strict=True)]
    assert math.isclose(multiclass.score(df), -np.mean(np.log(own)), rel_tol=1e-12)
    right = (multiclass.predict(df, output="class") == df["kind"]).mean()
    assert multiclass.score(df, metric="accuracy") == right
    forest = df.taiga.fit_forest("kind", FEATURES, trees=10)
    assert forest.score(df) == (forest.predict(df, output="class") == df["kind"]).mean()
    regression = df.taiga.fit_forest("y", FEATURES, trees=10)
    residual = ((regression.predict(df) - df["y"]) ** 2).sum()
    assert math.isclose(regression.score(df), 1 - residual / ((df["y"] - df["y"].mean()) ** 2).sum(), rel_tol=1e-9)
    two = df.taiga.fit_forest("flag", FEATURES, trees=10)
    shares = two.predict(df)
    brier = math.sqrt(((shares - df["flag"].cast(pl.Float64)) ** 2).mean())
    assert math.isclose(two.score(df, metric="rmse"), brier, rel_tol=1e-12)
    ranks = shares.rank()
    ones = df["flag"].sum()
    zeros = df.height - ones
    auc = (ranks.filter(df["flag"]).sum() - ones * (ones + 1) / 2) / (ones * zeros)
    assert math.isclose(two.score(df, metric="auc"), auc, rel_tol=1e-12)


def test_a_fit_s_history_is_its_score(df: pl.DataFrame) -> None:
    """Measured on held-out rows round by round, and afterwards from the model: the same bits but for f32 scores."""
    lf = df.with_columns(held_out=pl.int_range(pl.len()) % 3 == 0)
    model = lf.taiga.fit_gbdt("y", FEATURES, rounds=6, eval="held_out", metric="r2")
    held_out = lf.filter("held_out")
    for k, value in enumerate(model.history["r2"], start=1):
        assert math.isclose(model.score(held_out, metric="r2", rounds=k), value, rel_tol=1e-5)
        assert model.head(k).score(held_out, metric="r2") == model.score(held_out, metric="r2", rounds=k)


def test_as_an_expression(df: pl.DataFrame, binary: tg.Model) -> None:
    whole = df.select(tg.score(binary, "flag", metric="auc")).item()
    assert whole == df.lazy().select(tg.score(binary.to_bytes(), "flag", FEATURES, metric="auc")).collect().item()
    assert whole == df.taiga.score(binary, "flag", metric="auc")
    by_group = df.group_by("group").agg(tg.score(binary, "flag", metric="logloss"))
    for group, value in by_group.rows():
        assert value == binary.score(df.filter(pl.col("group") == group), "flag")
    models = df.group_by("group").agg(tg.fit_gbdt("flag", FEATURES, rounds=3))
    joined = df.join(models, on="group", maintain_order="left") if pl.__version__ >= "1.2" else df.join(models, "group")
    each = joined.group_by("group").agg(pl.col("model").first().taiga.score("flag", *FEATURES, metric="accuracy"))
    assert each["score"].is_between(0.5, 1).all()
    assert dict(each.rows()) == dict(
        joined.group_by("group").agg(tg.score("model", "flag", *FEATURES, metric="accuracy")).rows()
    )
    chunked = pl.concat([df[:7], df[7:100], df[100:]], rechunk=False)
    assert chunked.select(tg.score(binary, "flag")).item() == df.select(tg.score(binary, "flag")).item()


def test_labels_are_found_whatever_their_type(df: pl.DataFrame) -> None:
    integers = df.with_columns(k=pl.col("group").cast(pl.Int64))
    model = integers.taiga.fit_gbdt("k", FEATURES, rounds=2, loss="multiclass")
    expected = model.score(integers)
    for dtype in [pl.Int8, pl.UInt32, pl.Float32]:
        assert model.score(integers.with_columns(pl.col("k").cast(dtype))) == expected
    text = df.taiga.fit_gbdt("kind", FEATURES, rounds=2)
    expected = text.score(df)
    for dtype in [pl.Categorical, pl.Enum(["top", "low", "mid", "none"])]:
        assert text.score(df.with_columns(pl.col("kind").cast(dtype))) == expected
    flag = df.taiga.fit_gbdt("flag", FEATURES, rounds=2, positive=False)
    assert flag.score(df, metric="accuracy") == (flag.predict(df, output="class") == df["flag"]).mean()


def test_what_can_not_be_measured_is_told(df: pl.DataFrame, binary: tg.Model, regression: tg.Model) -> None:
    with pytest.raises(ValueError, match=r'`metric`: "mse" is not "rmse", .*; did you mean "rmse"'):
        binary.score(df, metric="mse")  # type: ignore[arg-type]
    failing = [
        (lambda: regression.score(df, metric="auc"), '"auc" can\'t be measured'),
        (lambda: binary.score(df.filter("flag"), metric="auc"), "one class"),
        (lambda: binary.score(df[:0]), "no rows to measure"),
        (lambda: binary.score(df, weight=pl.lit(0.0)), "rows|zero"),
        (lambda: binary.score(df, weight=pl.col("a") * 0), "zero|NaN|null"),
        (lambda: binary.score(df, "kind"), "`kind`: its type is"),
        (lambda: regression.score(df.with_columns(y=pl.when(pl.col("y") > 0).then("y"))), "null"),
    ]
    for call, text in failing:
        with pytest.raises(pl.exceptions.PolarsError, match=text):
            call()
    text_model = df.taiga.fit_gbdt("kind", FEATURES, rounds=2)
    with pytest.raises(pl.exceptions.PolarsError, match='"new" is none of the model\'s classes'):
        text_model.score(df.with_columns(kind=pl.lit("new")))
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        regression.score(df.drop("y"))
    with pytest.raises(TypeError, match="not Series"):
        regression.score(df["y"])  # type: ignore[arg-type]
    one_class = df.with_columns(flag=pl.col("flag") | (pl.col("group") == 0))
    values = one_class.group_by("group").agg(tg.score(binary, "flag", metric="auc", on_error="null"))
    assert values.filter(pl.col("score").is_null())["group"].to_list() == [0]
    assert df[:0].taiga.score(binary, "flag", on_error="null") is None


def test_a_metric_of_survival_says_what_measures_classes(df: pl.DataFrame, binary: tg.Model) -> None:
    """Proves that the error says what the metric is of, and of a model of classes what there is for its probabilities;
    and that "rmse" is the root of Brier's score.
    """
    several = df.taiga.fit_gbdt("kind", FEATURES, rounds=2)
    regression = df.taiga.fit_gbdt("y", FEATURES, rounds=2)
    needs = r'`event`: metric="brier" is of survival and needs it, or `lower` and `upper`'
    for model, more in (
        (binary, r'; .* "logloss", "ece" or "rmse", the root of Brier\'s score$'),
        (several, r'; .* measured by "multiclass" or "ece"$'),
        (regression, "$"),
    ):
        with pytest.raises(pl.exceptions.ComputeError, match=needs + more):
            model.score(df, metric="brier")
    squares = (binary.predict(df) - df[binary.target].cast(pl.Float64)) ** 2
    assert binary.score(df, metric="rmse") == pytest.approx(squares.mean() ** 0.5, rel=1e-12)


def test_one_value_is_that_of_all_rows(weighted: pl.DataFrame) -> None:
    """Proves that literals for target, weight, group and times are as columns of that value, alone and in groups."""
    model = weighted.taiga.fit_gbdt("p", FEATURES, rounds=3)
    spread = weighted.with_columns(two=pl.lit(2.0), one=pl.lit(1), happened=pl.lit(True))
    pairs = [
        (tg.score(model, pl.lit(2.0)), tg.score(model, "two")),
        (tg.score(model, "p", weight=pl.lit(2.0)), tg.score(model, "p", weight="two")),
        (tg.score(model, pl.lit(2.0), weight="w"), tg.score(model, "two", weight="w")),
        (tg.score(model, "p", metric="ndcg", group=pl.lit(1)), tg.score(model, "p", metric="ndcg", group="one")),
        (
            tg.score(model, "p", metric="concordance", event=pl.lit(True)),
            tg.score(model, "p", metric="concordance", event="happened"),
        ),
    ]
    for literal, column in pairs:
        assert spread.select(literal).item() == spread.select(column).item()
        assert (
            spread.group_by("group", maintain_order=True)
            .agg(literal)
            .equals(spread.group_by("group", maintain_order=True).agg(column))
        )
    with pytest.raises(pl.exceptions.ComputeError, match="`w`: it has 2 rows and the target `p` has"):
        weighted.select(tg.score(model, "p", weight=pl.col("w").head(2)))
    with pytest.raises(pl.exceptions.ComputeError, match="`group`: it has 2 rows where others have"):
        weighted.select(tg.score(model, "p", metric="ndcg", group=pl.col("group").head(2)))
    assert weighted.head(0).select(tg.score(model, pl.lit(2.0), on_error="null")).item() is None

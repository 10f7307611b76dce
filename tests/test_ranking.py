"""Ranking: `group=`, its losses and metrics, against LightGBM and scikit-learn, in queries, and where it can't be."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from lightgbm import Dataset, train
from polars.exceptions import ComputeError
from polars_taiga.sklearn import GbdtRanker
from sklearn.metrics import ndcg_score

LOSSES = ["lambdarank", "pairwise", "xendcg", "yetirank"]


@pytest.fixture(scope="module")
def df() -> pl.DataFrame:
    """Queries of 1 to 40 documents with grades from 0 to 4, side by side."""
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 41, 150)
    query = np.repeat(np.arange(150), sizes)
    x = rng.normal(size=(len(query), 5))
    z = x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=len(query)) + rng.normal(size=150)[query]
    grade = np.digitize(z, [0.5, 1.5, 2.5, 3.5])
    return pl.DataFrame(x, schema=list("abcde")).with_columns(grade=pl.Series(grade), query=pl.Series(query))


def scores(df: pl.DataFrame, model: Any) -> np.ndarray:
    return df.select(tg.predict(model)).to_series().to_numpy()


def mean_ndcg(df: pl.DataFrame, s: np.ndarray) -> float:
    """Of each query, as scikit-learn has it; 1 where there is nothing to gain."""
    grade, query, values = df["grade"].to_numpy(), df["query"].to_numpy(), []
    for q in np.unique(query):
        own = query == q
        gains = 2.0 ** grade[own] - 1
        alone = own.sum() == 1
        values.append(1.0 if gains.max() == 0 or alone else ndcg_score(gains[None], s[own][None]))
    return float(np.mean(values))


@pytest.mark.parametrize("seed", range(4))
def test_lambdarank_grows_lightgbms_leaves(df: pl.DataFrame, seed: int) -> None:
    """One tree from scores that both are given, by the row's number alone: leaves are what derivatives say. Where two
    splits gain nearly the same, the trees differ in some rows.
    """
    few = df.head(240).with_columns(
        row=pl.int_range(240).cast(pl.Float64), score=pl.Series(np.random.default_rng(seed).normal(size=240))
    )
    params = {
        "objective": "lambdarank",
        "num_leaves": 240,
        "min_data_in_leaf": 1,
        "min_sum_hessian_in_leaf": 1e-12,
        "lambda_l2": 1.0,
        "learning_rate": 0.5,
        "max_bin": 255,
        "min_data_in_bin": 1,
        "verbose": -1,
        "num_threads": 1,
    }
    sizes = few.group_by("query", maintain_order=True).len()["len"].to_numpy()
    row, grade = few.select("row").to_numpy(), few["grade"].to_numpy()
    data = Dataset(row, grade, group=sizes, params=params, init_score=few["score"].to_numpy())
    theirs = train(params, data, 1).predict(row)
    model = few.taiga.fit_gbdt(
        "grade",
        "row",
        group="query",
        baseline="score",
        loss="lambdarank",
        policy="leafwise",
        leaves=256,
        min_child_weight=0,
        learning_rate=0.5,
        bins=256,
        border_method="quantile",
        rounds=1,
    )
    ours = scores(few, model)
    assert np.std(theirs) > 0.1
    assert np.mean(np.abs(ours - theirs) < 1e-4) > 0.95


@pytest.mark.parametrize("loss", LOSSES)
def test_held_out_ndcg_is_scikit_learns(df: pl.DataFrame, loss: str) -> None:
    marked = df.with_columns(out=pl.col("query") % 3 == 0)
    model = marked.taiga.fit_gbdt("grade", list("abcde"), group="query", eval="out", loss=loss, rounds=30)
    out = marked.filter("out")
    value = mean_ndcg(out, scores(out, model))
    assert model.history["ndcg"].to_list()[-1] == pytest.approx(value, abs=1e-9)
    assert value > mean_ndcg(out, np.zeros(out.height)) + 0.05
    assert value > mean_ndcg(out, np.random.default_rng(0).normal(size=out.height)) + 0.05


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_of_a_group_may_stand_anywhere(df: pl.DataFrame, loss: str) -> None:
    """The order of the queries' own rows is kept, since equal scores go by it; neither types nor chunks matter."""
    fit = tg.fit_gbdt("grade", list("abcde"), group="query", loss=loss, rounds=5)
    model = df.select(fit).item()
    named = df.with_columns(pl.format("query {}", "query").alias("query"))
    dated = df.with_columns(pl.lit(datetime.date(2026, 1, 1)).dt.offset_by(pl.format("{}d", "query")).alias("query"))
    enum = named.with_columns(pl.col("query").cast(pl.Categorical))
    for other in (named, dated, enum, pl.concat([df.head(100), df.slice(100, 7), df.slice(107)], rechunk=False)):
        assert other.select(fit).item() == model
    assert df.lazy().select(fit).collect(engine="streaming").item() == model
    scattered = df.with_columns(at=pl.int_range(pl.len()).over("query")).sort("at", "query", maintain_order=True)
    other = scattered.select(fit).item()
    both = np.corrcoef(scores(df, model), scores(df, other))[0, 1]
    assert both > 0.9


@pytest.mark.parametrize("loss", LOSSES)
def test_a_model_for_each_part_of_the_queries(df: pl.DataFrame, loss: str) -> None:
    parts = df.with_columns(part=pl.col("query") % 2)
    fit = tg.fit_gbdt("grade", list("abcde"), group="query", loss=loss, rounds=3)
    grouped = parts.group_by("part", maintain_order=True).agg(fit)
    for part, model in grouped.iter_rows():
        assert parts.filter(part=part).select(fit).item() == model


def test_the_parameters_count(df: pl.DataFrame) -> None:
    def fitted(loss: str, **params: Any) -> bytes:
        params = {"rounds": 3, **params}
        return df.select(tg.fit_gbdt("grade", list("abcde"), group="query", loss=loss, **params)).item()

    for loss, changed in [
        ("lambdarank", {"rank_truncation": 3}),
        ("lambdarank", {"rank_normalize": False}),
        ("pairwise", {"rank_truncation": 3}),
        ("yetirank", {"rank_orders": 2}),
        ("yetirank", {"rank_decay": 0.3}),
        ("yetirank", {"seed": 5}),
        ("xendcg", {"seed": 5}),
    ]:
        assert fitted(loss, **changed) != fitted(loss), (loss, changed)  # type: ignore[arg-type]


def test_errors_say_what_is_wrong(df: pl.DataFrame) -> None:
    def fault(frame: pl.DataFrame = df, error: type = ComputeError, **arguments: Any) -> str:
        arguments = {"loss": "lambdarank", "rounds": 2, **arguments}
        with pytest.raises(error) as raised:
            frame.select(tg.fit_gbdt("grade", list("abcde"), **arguments))
        return str(raised.value)

    assert "`group`" in fault()
    assert "lambdarank" in fault()
    held_out = df.with_columns(out=pl.int_range(pl.len()) % 2 == 0)
    assert "groups are held out as a whole" in fault(held_out, group="query", eval="out")
    assert "`group`" in fault(held_out, loss="rmse", metric="ndcg", eval="out")
    nulls = df.with_columns(query=pl.when(pl.col("query") != 3).then("query"))
    assert "the group is null in" in fault(nulls, group="query")
    assert "can't say which rows are of a group" in fault(df, group=pl.col("a"))
    assert "grades are whole numbers" in fault(df.with_columns(grade=-pl.col("grade")), group="query")
    assert "rank_decay" in fault(df, ValueError, group="query", rank_decay=0)
    assert "rank_truncation" in fault(df, ValueError, group="query", rank_truncation=0)
    assert "group=" in fault(df, TypeError, query_id="query")
    assert '"lambdarank"' in fault(df, ValueError, group="query", loss="rank:ndcg")


def test_the_estimator_is_the_expression(df: pl.DataFrame) -> None:
    x, grade, query = df.select(list("abcde")), df["grade"].to_numpy(), df["query"].to_numpy()
    est = GbdtRanker(rounds=10).fit(x, grade, group=query)
    direct = df.with_columns(pl.col("grade").cast(pl.Float64)).rename({"grade": "target", "query": "group"})
    params = {"loss": "lambdarank", "rounds": 10}
    assert est.model_ == direct.taiga.fit_gbdt("target", list("abcde"), group="group", **params)
    assert np.array_equal(est.predict(x), scores(df, est.model_))
    held_out = query % 3 == 0
    part = [(x.filter(keep), grade[keep], query[keep]) for keep in (~held_out, held_out)]
    stopped = GbdtRanker(rounds=200, early_stopping=5).fit(*part[0], eval_set=part[1])
    assert stopped.n_iter_ < 200
    assert stopped.model_.history["ndcg"].max() == pytest.approx(
        mean_ndcg(df.filter(held_out), stopped.predict(part[1][0]))
    )
    assert len(list(stopped.staged_predict(x))) == stopped.n_iter_

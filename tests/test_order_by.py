"""`order_by` in fits: statistics of categories are of the rows before a row in the order of a column."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.batches import needs_batches

Compute = pl.exceptions.ComputeError
FEATURES = ["city", "kind", "a"]
FIT: dict[str, Any] = {"rounds": 8, "seed": 3}


def table(rows: int = 900, seed: int = 0) -> pl.DataFrame:
    """Categories whose effects drift as time goes on, and times that are all different and in no order."""
    rng = np.random.default_rng(seed)
    city, kind, time = rng.integers(0, 40, rows), rng.integers(0, 9, rows), rng.permutation(rows)
    effect = rng.normal(size=40)[city] * (1 - 2 * time / rows) + rng.normal(size=9)[kind]
    return pl.DataFrame(
        {
            "city": [f"city {i}" for i in city],
            "kind": [f"kind {i}" for i in kind],
            "a": rng.normal(size=rows),
            "time": time,
            "day": time // 30,
            "g": rng.integers(0, 3, rows),
            "held": rng.random(rows) < 0.2,
            "w": rng.integers(0, 3, rows).astype(np.float64),
            "y": effect + 0.3 * rng.normal(size=rows),
        }
    ).with_columns(flag=pl.col("y") > 0)


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    """The table."""
    return table()


def fit(frame: pl.DataFrame, by: Any = "time", **params: Any) -> bytes:
    """The model's bytes."""
    return frame.taiga.fit_gbdt("y", FEATURES, order_by=by, **{**FIT, **params}).to_bytes()


def test_another_order_is_another_model(frame: pl.DataFrame) -> None:
    """Backwards and at random; where there are no statistics it is the same, but for the number of permutations."""
    models = {fit(frame), fit(frame, -pl.col("time")), frame.taiga.fit_gbdt("y", FEATURES, **FIT).to_bytes()}
    assert len(models) == 3
    ordered = frame.taiga.fit_gbdt("y", FEATURES, order_by="time", **FIT)
    assert ordered.params["permutations"] == 1
    assert fit(frame, permutations=1) == fit(frame)
    again = frame.taiga.fit_gbdt("y", FEATURES, order_by="time", **ordered.params)
    assert again.to_bytes() == ordered.to_bytes()
    assert frame.taiga.fit_gbdt("y", "a", order_by="time", permutations=1).to_bytes() == (
        frame.taiga.fit_gbdt("y", "a", permutations=1).to_bytes()
    )


def test_any_type_that_has_an_order(frame: pl.DataFrame) -> None:
    """Integers, floats, times, text and categories by their text, an Enum by its own order, structs."""
    want = fit(frame)
    begin = datetime(2024, 5, 1)
    padded = pl.col("time").cast(pl.String).str.zfill(4)
    names = frame.sort("time").select(padded).to_series()
    ways = {
        "small": pl.col("time").cast(pl.Int16),
        "unsigned": pl.col("time").cast(pl.UInt64),
        "float": pl.col("time") * 0.5 - 100,
        "float32": (pl.col("time") - 400).cast(pl.Float32),
        "datetime": pl.lit(begin) + pl.duration(minutes=pl.col("time")),
        "duration": pl.duration(hours=pl.col("time")),
        "text": padded,
        "category": padded.cast(pl.Categorical),
        "enum": padded.cast(pl.Enum(names)),
        "struct": pl.struct((pl.col("time") // 10).alias("tens"), "time"),
    }
    for name, way in ways.items():
        assert fit(frame, way) == want, name
    dates = frame.with_columns(d=pl.Series([begin.date() + timedelta(days=int(i)) for i in frame["time"]]))
    assert fit(dates, "d") == want
    assert fit(frame, pl.col("time") > 400) == fit(frame, (pl.col("time") > 400).cast(pl.Int8))
    # Equal values as they come.
    assert fit(frame, pl.lit(7)) == fit(frame, pl.int_range(pl.len())) == fit(frame, pl.col("time") * 0)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**20), rows=st.integers(3, 300), days=st.integers(1, 60))
def test_rows_with_keys_may_come_in_any_order(seed: int, rows: int, days: int) -> None:
    """Ties go by the keys; and without keys they go by the rows, so that sorted rows are a tie."""
    rng = np.random.default_rng(seed)
    df = table(rows, seed % 7).with_columns(day=pl.Series(rng.integers(0, days, rows))).with_row_index("id")
    one = fit(df, "day", row_key="id", rounds=3)
    assert fit(df.sample(fraction=1, shuffle=True, seed=seed), "day", row_key="id", rounds=3) == one
    in_order = df.sort("day", maintain_order=True)
    assert fit(in_order, "day", rounds=3) == fit(in_order, pl.lit(0), rounds=3)


def test_rows_may_lie_anywhere(frame: pl.DataFrame, tmp_path: Path) -> None:
    """Chunks, threads, the streaming engine, groups, rows of weight 0."""
    want = fit(frame)
    cut = pl.concat([frame[:1], frame[1:700], frame[700:]], rechunk=False)
    assert fit(cut, n_threads=2) == want == fit(cut, n_threads=1)
    frame.write_parquet(tmp_path / "rows.parquet")
    lazy = pl.scan_parquet(tmp_path / "rows.parquet")
    assert lazy.taiga.fit_gbdt("y", FEATURES, order_by="time", **FIT).to_bytes() == want
    call = tg.fit_gbdt("y", FEATURES, order_by="time", **FIT)
    by_group = frame.group_by("g", maintain_order=True).agg(model=call)
    for g, model in by_group.iter_rows():
        assert fit(frame.filter(g=g)) == model
    together = frame.taiga.fit_gbdt_by("g", "y", FEATURES, order_by="time", **FIT)
    assert together.rows() == by_group.rows()
    left = tg.Model(fit(frame.filter(pl.col("w") > 0), weight="w"))
    predicted = frame.select(a=tg.predict(left), b=tg.predict(tg.Model(fit(frame, weight="w"))))
    assert predicted["a"].equals(predicted["b"].alias("a"))


@needs_batches
def test_batches_change_no_byte(frame: pl.DataFrame) -> None:
    """The column is kept whole, as the target is."""
    got = frame.lazy().taiga.fit_gbdt("y", FEATURES, order_by="time", batches=100, **FIT)
    assert got.to_bytes() == fit(frame)


def test_folds_and_searches_take_it(frame: pl.DataFrame) -> None:
    """Each fold's model is that of its rows in their order."""
    # Numbers are coded once for all folds: here there are none.
    few = frame.select(tg.fit_folds("y", "city", "kind", folds="g", order_by="time", **FIT)).unnest("folds")
    rest = frame.filter(pl.col("g") != 0).taiga.fit_gbdt("y", "city", "kind", order_by="time", **FIT)
    assert few.filter(fold=0)["model"][0] == rest.to_bytes()
    scores = frame.taiga.cross_validate("y", FEATURES, folds="time", fold_by="time", n_folds=3, order_by="time", **FIT)
    assert scores.height == 3
    space = {"max_combination": [1, 2]}
    found = frame.taiga.search("y", FEATURES, space=space, folds=2, order_by="time", rounds=3)
    assert found is not None


def test_snapshots_tell_orders_apart(frame: pl.DataFrame, tmp_path: Path) -> None:
    """A fit goes on from its own snapshot; one of rows in another order is another fit."""
    file = tmp_path / "fit"
    frame.taiga.fit_gbdt("y", FEATURES, order_by="time", snapshot=file, snapshot_every=2, **{**FIT, "rounds": 5})
    longer = frame.taiga.fit_gbdt("y", FEATURES, order_by="time", snapshot=file, snapshot_every=2, **FIT)
    assert longer.to_bytes() == fit(frame)
    with pytest.raises(Compute, match="snapshot"):
        frame.taiga.fit_gbdt("y", FEATURES, order_by=-pl.col("time"), snapshot=file, **FIT)
    with pytest.raises(Compute, match='cat_method="ctr"'):
        frame.taiga.fit_gbdt("y", FEATURES, order_by="time", init_model=longer, **FIT)


def test_values_that_have_no_place(frame: pl.DataFrame) -> None:
    """Nulls and NaN, as everywhere; with `on_error` a group's model is null."""
    nulls = frame.with_columns(time=pl.when(pl.col("time") > 5).then("time"))
    with pytest.raises(Compute, match="column `time`: `order_by` is null in 6 of 900 rows"):
        fit(nulls)
    assert nulls.select(tg.fit_gbdt("y", FEATURES, order_by="time", on_error="null", **FIT)).item() is None
    with pytest.raises(Compute, match="column `time`: 6 of 900 values are NaN"):
        fit(nulls.with_columns(pl.col("time").cast(pl.Float64).fill_null(float("nan"))))


def test_estimators_take_it(frame: pl.DataFrame) -> None:
    """The order is of the training rows; held-out ones have no place in it."""
    from polars_taiga.sklearn import GbdtClassifier, GbdtRanker, GbdtRegressor

    x, held = frame.select(FEATURES), frame["held"]
    est = GbdtRegressor(rounds=8, random_state=3).fit(x, frame["y"], order_by=frame["time"])
    assert np.array_equal(est.predict(x), frame.select(tg.predict(tg.Model(fit(frame)))).to_series().to_numpy())
    train = (x.filter(~held), frame["flag"].filter(~held))
    test = (x.filter(held), frame["flag"].filter(held))
    times = frame["time"].filter(~held).to_numpy()
    stopped = GbdtClassifier(rounds=30, early_stopping=3).fit(*train, eval_set=test, order_by=times)
    behind = pl.concat([frame.filter(~held), frame.filter(held)])
    own = behind.taiga.fit_gbdt(
        "flag", FEATURES, eval="held", order_by="time", rounds=30, early_stopping=3, loss="logloss"
    )
    assert np.array_equal(stopped.predict_proba(x)[:, 1], frame.select(tg.predict(own)).to_series().to_numpy())
    ranks = GbdtRanker(rounds=3).fit(x, frame["day"], frame["g"], order_by=frame["time"])
    assert ranks.model_.params["permutations"] == 1
    with pytest.raises(ValueError, match="order_by has 3 rows"):
        GbdtRegressor().fit(x, frame["y"], order_by=[1, 2, 3])


@pytest.mark.parametrize("seed", range(4))
def test_statistics_are_catboosts_in_time(seed: int) -> None:
    """One question about one statistic of categories of three rows each, whose last row is seldom as the others: both
    leaves have the values of CatBoost's under `has_time`, to which rows come in the order of their times.
    """
    catboost = pytest.importorskip("catboost")
    rng = np.random.default_rng(seed)
    times, first = np.sort(rng.permutation(900).reshape(300, 3), axis=1), rng.random(300) < 0.5
    flags = np.stack([first, first ^ (rng.random(300) < 0.2), first ^ (rng.random(300) < 0.9)], axis=1)
    names = np.repeat([f"c{i}" for i in range(300)], 3)
    df = pl.DataFrame({"c": names, "time": times.ravel(), "y": flags.ravel(), "zero": np.zeros(900)})
    ordered = df.sort("time")
    peer = catboost.CatBoostClassifier(
        iterations=1, depth=1, learning_rate=1.0, l2_leaf_reg=1.0, verbose=0, thread_count=1, boosting_type="Plain",
        bootstrap_type="No", random_strength=0, leaf_estimation_iterations=1, leaf_estimation_method="Newton",
        boost_from_average=False, allow_writing_files=False, max_ctr_complexity=1, one_hot_max_size=2,
        score_function="L2", simple_ctr=["Borders:Prior=0.5/1:CtrBorderCount=15"], has_time=True, random_seed=seed,
    )  # fmt: skip
    theirs = peer.fit(ordered.select("c").to_pandas(), ordered["y"].to_numpy(), cat_features=[0]).get_leaf_values()

    def leaves(order_by: str | None) -> list[float]:
        model = df.taiga.fit_gbdt(
            "y", "c", baseline="zero", order_by=order_by, rounds=1, depth=1, learning_rate=1.0, l2=1.0,
            ctr=["borders"], ctr_priors=[0.5], max_combination=1,
        )  # fmt: skip
        return sorted(leaf["value"] for leaf in json.loads(model.to_json())["trees"][0]["leaves"])

    assert leaves("time") == pytest.approx(sorted(theirs), abs=1e-6)
    assert leaves(None) != pytest.approx(sorted(theirs), abs=1e-3)

"""Folds of a frame that is read in batches: the models and the values of those of the frame in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import polars_taiga as tg
import pytest

from tests.batches import changing, needs_batches, written
from tests.test_row_key import CATEGORIES, NUMBERS, table

WAYS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "numbers": (("y", *NUMBERS, *CATEGORIES), {"folds": 3, "metric": ["rmse", "mae"]}),
    "classes": (("class", *NUMBERS, *CATEGORIES), {"folds": 4, "weight": "w", "policy": "leafwise"}),
    "few bins": (("y", *NUMBERS), {"bins": {"a": 3}, "border_sample": 200, "policy": "depthwise"}),
    "by time": (("y", *NUMBERS, "city"), {"folds": "time", "fold_by": "time", "n_folds": 3}),
    "stopping": (("y", *NUMBERS), {"early_stopping": 2, "learning_rate": 0.7, "row_sample": "bernoulli"}),
    "only text": (("y", "city"), {"folds": 2}),
}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    """The table; some rows weigh nothing."""
    return table().with_columns(w=pl.when(pl.int_range(pl.len()) % 11 == 0).then(0.0).otherwise(pl.col("w")))


@pytest.fixture(scope="module")
def file(frame: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table in a file of several groups of rows."""
    return written(frame, tmp_path_factory.mktemp("folds"))


@needs_batches
@pytest.mark.parametrize("name", WAYS)
def test_a_validation_in_batches_is_that_of_the_frame(frame: pl.DataFrame, file: Path, name: str) -> None:
    """Sizes, rounds, metrics and models, to the last bit, in batches of any size and on any threads."""
    columns, params = WAYS[name]
    given: dict[str, Any] = {"rounds": 6, "models": True, **params}
    whole = frame.taiga.cross_validate(*columns, **given)
    for batches, n_threads in [(True, None), (137, 2), (10**9, 1)]:
        made = pl.scan_parquet(file).taiga.cross_validate(*columns, **given, batches=batches, n_threads=n_threads)
        assert made.equals(whole), batches
    assert frame.taiga.cross_validate(*columns, **given, batches=64).equals(whole)
    assert frame.lazy().taiga.cross_validate(*columns, **given, batches="auto").equals(whole)


@needs_batches
def test_models_of_folds_in_batches_predict_each_row(frame: pl.DataFrame, file: Path) -> None:
    """Beside the frame they are `cross_val_predict`, in a query that streams."""
    columns = ("y", *NUMBERS, *CATEGORIES)
    lazy = pl.scan_parquet(file)
    for params in ({"folds": 3}, {"folds": "time", "fold_by": "time", "n_folds": 2}):
        models = lazy.taiga.fit_folds(*columns, rounds=5, batches=200, **params)
        assert models.equals(frame.taiga.fit_folds(*columns, rounds=5, **params))
        query = pl.concat([lazy, models.lazy()], how="horizontal")
        predicted = query.select(p=tg.predict(pl.col("model"), *columns[1:])).collect()["p"]
        assert predicted.equals(frame.select(tg.cross_val_predict(*columns, rounds=5, **params)).to_series())


@needs_batches
@pytest.mark.parametrize("halving", [None, 2])
def test_a_search_in_batches_is_that_of_the_frame(frame: pl.DataFrame, file: Path, halving: int | None) -> None:
    """Also where trials have borders of their own."""
    space: dict[str, Any] = {"depth": [2, 4], "bins": [16, 200], "l2": (0.1, 10.0, "log")}
    given: dict[str, Any] = {"space": space, "trials": 6, "halving": halving, "rounds": 8, "folds": 3}
    columns = ("class", *NUMBERS, "city")
    whole = frame.taiga.search(*columns, **given)
    for batches in (True, 311):
        assert pl.scan_parquet(file).taiga.search(*columns, **given, batches=batches).equals(whole)


@needs_batches
@pytest.mark.parametrize(("changes", "at"), [("a", 3), ("a", 4), ("more", 4), ("fewer", 4), ("y", 2)])
def test_a_frame_that_changes_is_an_error(frame: pl.DataFrame, changes: str, at: int) -> None:
    """In any pass, that for the bins' values among them."""
    lazy, runs = changing(frame, at, changes)
    with pytest.raises(pl.exceptions.ComputeError, match="parameter `batches`: the frame gives "):
        lazy.taiga.cross_validate("y", "a", "city", rounds=2, folds=2, batches=100)
    assert runs() == at


@needs_batches
def test_what_is_not_done_in_batches_is_said(frame: pl.DataFrame) -> None:
    """By the name of the parameter, and the function."""
    calls: list[tuple[str, Any]] = [
        ("cross_validate", frame.lazy().taiga.cross_validate),
        ("fit_folds", frame.lazy().taiga.fit_folds),
        ("search", lambda *c, **p: frame.lazy().taiga.search(*c, **p, space={"depth": [2]})),
    ]
    for function, call in calls:
        for name, params in [("row_key", {"row_key": "id"}), ("leaf", {"leaf": "linear", "policy": "depthwise"})]:
            with pytest.raises(
                pl.exceptions.ComputeError, match=f"^{function}: parameter `{name}`: .*leave out `batches`"
            ):
                call("y", "a", rounds=2, batches=True, **params)
        with pytest.raises(ValueError, match="parameter `batches`: 0 rows are no batch"):
            call("y", "a", rounds=2, batches=0)
        with pytest.raises(pl.exceptions.ComputeError, match=f"{function}: .*fold"):
            call("y", "a", rounds=2, folds=5_000, batches=True)


@needs_batches
def test_every_type_has_a_value_for_each_bin() -> None:
    """What rows are measured by is of the column's own type."""
    rows = pl.int_range(700, eager=True)
    types = frame_of_types(rows)
    y = (rows * 37 % 101).cast(pl.Float64)
    columns = types.columns
    whole = types.with_columns(y=y).taiga.cross_validate("y", *columns, folds=3, rounds=12)
    made = types.with_columns(y=y).lazy().taiga.cross_validate("y", *columns, folds=3, rounds=12, batches=90)
    assert made.equals(whole)


def frame_of_types(rows: pl.Series) -> pl.DataFrame:
    """Columns of every type that is a number, with nulls and NaN."""
    base = pl.DataFrame({"i": rows * 7919 % 613 - 300})
    gap = pl.int_range(pl.len()) % 13 == 0
    return base.select(
        pl.when(gap).then(None).otherwise("i").alias("nulls"),
        pl.when(gap).then(float("nan")).otherwise(pl.col("i") / 7).alias("nan"),
        (pl.col("i") / 3).cast(pl.Float32).alias("f32"),
        (pl.col("i") % 100).cast(pl.Int8).alias("i8"),
        (pl.col("i") > 0).alias("flag"),
        pl.col("i").cast(pl.Date).alias("date"),
        (pl.col("i") * 1_000_003).cast(pl.Datetime("us")).alias("datetime"),
        (pl.col("i") * 999).cast(pl.Duration("ms")).alias("duration"),
        pl.col("i").cast(pl.Decimal(20, 3)).alias("decimal"),
        (pl.col("i").cast(pl.Float64) * 1e300).alias("large"),
        pl.lit(4.0).alias("same"),
        pl.lit(None, dtype=pl.Float64).alias("nothing"),
    )

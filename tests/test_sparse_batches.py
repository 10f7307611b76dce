"""Sparse logistic regression of frames that are read in batches: the bytes of the fit that has the table whole."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars_taiga import _batches, _fit, linear

from tests import test_row_key
from tests.batches import (
    changing,
    check_that_ctrl_c_ends,
    have_room_for_few_rows,
    needs_batches,
    note_columns_read,
    written,
)

# Columns, and parameters.
FITS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "words and counts": (("yes", "words", "counts"), {"weight": "w", "eval": "held", "early_stopping": 3}),
    "sgd": (("class", "words"), {"optimizer": "sgd", "dense": ["a", "c", "day"], "hash_bits": 12}),
    "structs": (("class", "pairs"), {"optimizer": "ftrl", "l1": 1e-5, "dense": "time"}),
    "structs of words": (("yes", "named"), {"weight": "w"}),
    "numbers": (("yes", "ids"), {"optimizer": "adagrad", "class_weight": "balanced"}),
    "wide numbers": (("yes", "wide", "counts"), {"epochs": 9}),
    "arrays": (("class", "array"), {"features": 100, "epochs": 9}),
    "categories": (("yes", pl.col("words").cast(pl.List(pl.Categorical)).alias("k")), {"epochs": 9}),
    "computed": (("yes", pl.col("words").list.head(2), pl.col("counts").list.head(2) + 1), {"epochs": 9}),
    "dense": (("class",), {"dense": ["a", pl.col("c") - pl.col("c").mean(), "time"], "weight": pl.lit(2.0)}),
}


def table(rows: int = test_row_key.ROWS, seed: int = 7) -> pl.DataFrame:
    """Lists of every type, with nulls, beside the columns of other tests."""
    rng = np.random.default_rng(seed)
    words = pl.col("words")
    nothing = pl.when(pl.int_range(pl.len()) % 13 == 4)
    ids = words.list.eval(pl.element().str.slice(1).cast(pl.UInt16))
    base = test_row_key.table(rows, seed)
    numbers = [rng.integers(0, 60, 3).tolist() for _ in range(rows)]
    pairs = [[{"f": len(w) * 7 + i, "x": 0.5 * i} for i, w in enumerate(row)] for row in base["words"].to_list()]
    named = [[{"f": w, "x": i} if i != 2 else None for i, w in enumerate(row)] for row in base["words"].to_list()]
    return base.with_columns(
        pl.Series("pairs", pairs, dtype=pl.List(pl.Struct({"f": pl.Int32, "x": pl.Float32}))),
        pl.Series("named", named, dtype=pl.List(pl.Struct({"f": pl.String, "x": pl.Int8}))),
        pl.Series("array", numbers, dtype=pl.Array(pl.Int16, 3)),
        ids=nothing.then(None).otherwise(ids),
        wide=ids.list.eval(pl.element().cast(pl.UInt64) * 2**50),
    )


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    """The table."""
    return table()


@pytest.fixture(scope="module")
def file(frame: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table in a file of several groups of rows."""
    return written(frame, tmp_path_factory.mktemp("batches"))


@needs_batches
@pytest.mark.parametrize("name", FITS)
def test_batches_change_no_byte(frame: pl.DataFrame, file: Path, tmp_path: Path, name: str) -> None:
    """Every kind of rows, of a frame in memory and of a file, in batches of any size, on any threads, in memory and in
    files of a folder, of which none is left.
    """
    columns, params = FITS[name]
    model = frame.taiga.fit_sparse_lr(*columns, **params)
    ways: list[dict[str, Any]] = [
        {"batches": True},
        {"batches": 137, "spill": tmp_path, "n_threads": 2},
        {"batches": 1_499, "spill": str(tmp_path), "n_threads": 1},
        {"batches": 10**9},
    ]
    for way in ways:
        made = pl.scan_parquet(file).taiga.fit_sparse_lr(*columns, **params, **way)
        assert made.to_bytes() == model.to_bytes(), way
        assert list(tmp_path.iterdir()) == []
    assert frame.taiga.fit_sparse_lr(*columns, **params, batches=64).to_bytes() == model.to_bytes()
    assert frame.lazy().taiga.fit_sparse_lr(*columns, **params, batches="auto").to_bytes() == model.to_bytes()


@needs_batches
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_random_fits(data: st.DataObject) -> None:
    """Configurations at random, of no rows and more, right and wrong: equal bytes, or the error of the fit that has the
    table whole.
    """
    draw = data.draw
    frame = table(draw(st.sampled_from([3, 17, 200, 1_200])), seed=draw(st.integers(0, 50)))
    frame = frame.head(draw(st.sampled_from([0, 1, 10**6])) if draw(st.integers(0, 9)) == 0 else frame.height)
    lists: list[tuple[Any, ...]] = [("words",), ("words", "counts"), ("pairs",), ("ids",), ("wide", "counts"), ()]
    # Lists of other lengths than their values; numbers that are negative in the last rows alone.
    lists += [("ids", "counts"), (pl.col("ids").cast(pl.List(pl.Int64)) - pl.int_range(pl.len()) // 190,)]
    own = draw(st.sampled_from(lists))
    params: dict[str, Any] = {
        "optimizer": draw(st.sampled_from(["lbfgs", "sgd", "adagrad", "ftrl"])),
        "epochs": draw(st.integers(1, 4)),
        "l1": draw(st.sampled_from([0.0, 1e-4])),
        "dense": draw(st.sampled_from([["a", "day"], ["c"], ["time", "b"]] + ([None] * 3 if own else []))),
        "hash_bits": draw(st.sampled_from([None, 10])),
        "features": draw(st.sampled_from([None, None, 25])),
        "weight": draw(st.sampled_from([None, "w", pl.col("w") + 1])),
        "eval": draw(st.sampled_from([None, "held"])),
        "seed": draw(st.integers(0, 3)),
        "n_threads": draw(st.integers(1, 3)),
        "on_error": draw(st.sampled_from(["raise", "null"])),
    }
    target = draw(st.sampled_from(["yes", "class"]))
    way = {"batches": draw(st.sampled_from([True, 1, 7, 100, 1_000]) if frame.height < 300 else st.just(251))}

    def made(**more: Any) -> bytes | str | None:
        try:
            model = frame.lazy().taiga.fit_sparse_lr(target, *own, **params, **more)
        except pl.exceptions.PolarsError as error:
            return f"{type(error).__name__}: {error}"
        return None if model is None else model.to_bytes()

    assert made(**way) == made()


@needs_batches
def test_rows_are_read_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First what stands beside the features, then all in batches, once."""
    read = note_columns_read(monkeypatch, ("yes", "w", "words", "counts", "a"))
    pl.scan_parquet(file).taiga.fit_sparse_lr("yes", "words", "counts", dense="a", weight="w", batches=True)
    assert read == [{"yes", "w"}, {"yes", "w", "words", "counts", "a"}]


@needs_batches
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("yes", "other values of column `yes`, or the same in another order"),
        ("w", "other values of column `w`, or the same in another order"),
        ("more", "more than the 1500 rows"),
        ("fewer", "1499 rows where it gave 1500"),
    ],
)
def test_a_frame_that_changes_is_an_error(frame: pl.DataFrame, changes: str, said: str) -> None:
    """A query that gives something else in the second pass: no model."""
    lazy, runs = changing(frame, 2, changes)
    with pytest.raises(
        pl.exceptions.ComputeError, match=f"parameter `batches`: the frame gives {said}.*write it to a file"
    ):
        lazy.taiga.fit_sparse_lr("yes", "words", weight="w", batches=100)
    assert runs() == 2


@needs_batches
def test_what_is_not_done_in_batches_is_said(frame: pl.DataFrame) -> None:
    """By the name of the parameter, before any row is read; what has room is fitted as ever under `"auto"`."""
    cases: list[tuple[str, dict[str, Any]]] = [
        ("row_key", {"row_key": "id"}),
        ("collective", {"collective": tg.Collective(rank=0, world=2, address="127.0.0.1:9", secret="s" * 16)}),
        ("on_error", {"on_error": "constant"}),
    ]

    def never(_: pl.DataFrame) -> pl.DataFrame:
        raise AssertionError("it is read")

    lazy = frame.lazy().map_batches(never, schema=frame.schema)
    for name, params in cases:
        with pytest.raises(pl.exceptions.ComputeError, match=f"^fit_sparse_lr: parameter `{name}`: .*leave out `batch"):
            lazy.taiga.fit_sparse_lr("yes", "words", batches=True, **params)
    with pytest.raises(pl.exceptions.ComputeError, match="parameter `hash_bits`: `ids` holds numbers"):
        lazy.taiga.fit_sparse_lr("yes", "ids", hash_bits=9, batches=True)
    auto = frame.lazy().taiga.fit_sparse_lr("yes", "words", row_key="id", batches="auto")
    assert auto == frame.taiga.fit_sparse_lr("yes", "words", row_key="id")
    with pytest.raises(ValueError, match=r"parameter `spill`: .*add batches=True"):
        lazy.taiga.fit_sparse_lr("yes", "words", spill="/tmp")
    with pytest.raises(TypeError, match=r"batches.*lf.taiga.fit_gbdt, fit_forest and fit_sparse_lr"):
        tg.fit_sparse_lr("yes", "words", batches=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"spill.*lf.taiga.fit_gbdt and fit_sparse_lr with batches=True"):
        tg.fit_sparse_lr("yes", "words", spill="/tmp")  # type: ignore[call-arg]


@needs_batches
def test_faults_of_rows_are_those_of_any_fit(frame: pl.DataFrame) -> None:
    """They name the row of the table, and those of dense columns come first."""
    wrong = frame.with_columns(
        ids=pl.when(pl.int_range(pl.len()) == 1_234).then([-5]).otherwise(pl.col("ids").cast(pl.List(pl.Int64)))
    )
    lazy = wrong.lazy()
    with pytest.raises(pl.exceptions.ComputeError, match="column `ids`: the feature number -5 in row 1234 is negative"):
        lazy.taiga.fit_sparse_lr("yes", "ids", dense="a", batches=100)
    with pytest.raises(pl.exceptions.ComputeError, match=r"column `b`: is null or NaN in \d+ of 1500 rows"):
        lazy.taiga.fit_sparse_lr("yes", "ids", dense="b", batches=100)
    with pytest.raises(pl.exceptions.ComputeError, match="column `yes`: the target is among the features"):
        lazy.taiga.fit_sparse_lr(pl.col("yes"), "words", dense=pl.col("^yes$"), batches=100)
    assert lazy.taiga.fit_sparse_lr("yes", "ids", on_error="null", batches=100) is None


@needs_batches
def test_auto_counts_lists(frame: pl.DataFrame, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As 512 bytes a row in each column of them."""
    lazy = pl.scan_parquet(file)

    def own(*lists: str, **params: Any) -> Any:
        roles = dict.fromkeys(["weight", "eval", "row_key"])
        names = (*lists, None, None)[:2]
        how: dict[str, Any] = {"training": _fit.Training(), "progress": None, "on_error": "raise", "metadata": None}
        call = linear.linear_call("yes", names, params.get("dense"), roles, {}, **how)
        return _batches._Fit(_batches.BatchesCall(call, "auto", None), lazy, "auto").own

    assert own("words").batch_rows() == (32 << 20) // 512
    assert own("words", "counts", dense=["a", "day"]).batch_rows() == (32 << 20) // (2 * 512 + 4 + 4)
    assert own("words").has_room(1_500)
    assert not own("words").has_room(10**13)

    have_room_for_few_rows(monkeypatch)
    whole = frame.taiga.fit_sparse_lr("yes", "words", row_key=None)
    assert lazy.taiga.fit_sparse_lr("yes", "words", batches="auto") == whole
    with pytest.raises(pl.exceptions.ComputeError, match=r"parameter `row_key`: .*leave out `batches`"):
        lazy.taiga.fit_sparse_lr("yes", "words", batches="auto", row_key="id")


@needs_batches
def test_progress_shows(frame: pl.DataFrame, capfd: pytest.CaptureFixture[str]) -> None:
    """Of the rows, which are read once, and of the passes of the optimizer."""
    frame.lazy().taiga.fit_sparse_lr("yes", "words", optimizer="sgd", epochs=2, batches=400, progress=True)
    told = [line.split(" in ")[0] for line in capfd.readouterr().err.splitlines()]
    assert told == ["fit_sparse_lr 1500/1500 rows read", "fit_sparse_lr 2/2 passes"]


@needs_batches
@pytest.mark.skipif(sys.platform != "linux", reason="Linux says which library a signal goes to")
def test_ctrl_c_ends_a_pass(tmp_path: Path) -> None:
    """By KeyboardInterrupt alone; no file is left."""
    fit = (
        'lazy.select(pl.concat_list("x"), y=pl.col("y") > 40)'
        '.taiga.fit_sparse_lr("y", "x", batches=batches, spill=folder, progress=False)'
    )
    check_that_ctrl_c_ends(fit, "pass", tmp_path)

"""Fits that read a frame in batches: the bytes of those that have it whole, whatever batches and wherever codes lie."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs
import polars_taiga as tg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars_taiga import _batches

from tests.batches import (
    HAS_BATCHES,
    changing,
    check_that_ctrl_c_ends,
    have_room_for_few_rows,
    needs_batches,
    note_columns_read,
    written,
)
from tests.test_row_key import CATEGORIES, FITS, NUMBERS, table

BOOSTED = [name for name, (fit, _, _) in FITS.items() if fit is tg.fit_gbdt]
FORESTS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "classes": (("class", *NUMBERS, *CATEGORIES), {"trees": 6, "weight": "w"}),
    "numbers": (("y", *NUMBERS), {"trees": 5, "permutation_importance": True, "bins": 256}),
    "few": (("y", "city", "a"), {"trees": 3, "bootstrap": False, "border_sample": 100}),
}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    """The table."""
    return table()


@pytest.fixture(scope="module")
def file(frame: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table in a file of several groups of rows."""
    return written(frame, tmp_path_factory.mktemp("batches"))


@needs_batches
@pytest.mark.parametrize("name", BOOSTED)
def test_batches_change_no_byte(frame: pl.DataFrame, file: Path, tmp_path: Path, name: str) -> None:
    """Every kind of fit, of a frame in memory and of a file, in batches of any size, on any threads, in memory and in
    files of a folder, of which none is left.
    """
    _, columns, params = FITS[name]
    model = frame.taiga.fit_gbdt(*columns, **params)
    ways: list[dict[str, Any]] = [
        {"batches": True},
        {"batches": 137, "spill": tmp_path, "n_threads": 2},
        {"batches": 1_499, "spill": str(tmp_path), "n_threads": 1},
        {"batches": 10**9},
    ]
    for way in ways:
        assert pl.scan_parquet(file).taiga.fit_gbdt(*columns, **params, **way).to_bytes() == model.to_bytes(), way
        assert list(tmp_path.iterdir()) == []
    assert frame.taiga.fit_gbdt(*columns, **params, batches=64).to_bytes() == model.to_bytes()


@needs_batches
@pytest.mark.parametrize("name", FORESTS)
def test_batches_change_no_byte_of_a_forest(frame: pl.DataFrame, file: Path, name: str) -> None:
    """Of a frame in memory and of a file, in batches of any size, on any threads."""
    columns, params = FORESTS[name]
    model = frame.taiga.fit_forest(*columns, **params)
    for batches, n_threads in [(True, None), (137, 2), (1_499, 1), (10**9, 2)]:
        made = pl.scan_parquet(file).taiga.fit_forest(*columns, **params, batches=batches, n_threads=n_threads)
        assert made == model, batches
    assert frame.taiga.fit_forest(*columns, **params, batches="auto") == model


@needs_batches
def test_a_forest_that_ranks_values_is_not_fitted_in_batches(frame: pl.DataFrame) -> None:
    for splitter in ("exact", "random"):
        with pytest.raises(
            pl.exceptions.ComputeError, match=f'^fit_forest: parameter `splitter`: "{splitter}".*leave out'
        ):
            frame.lazy().taiga.fit_forest("y", "a", splitter=splitter, batches=True)
    whole = frame.taiga.fit_forest("y", "a", splitter="exact", trees=3)
    assert frame.lazy().taiga.fit_forest("y", "a", splitter="exact", trees=3, batches="auto") == whole


@needs_batches
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_random_fits(data: st.DataObject) -> None:
    """Configurations at random, of no rows and more: equal bytes, or the error of the fit that has the table whole."""
    draw = data.draw
    frame = table(draw(st.sampled_from([3, 17, 200, 1_200])), seed=draw(st.integers(0, 50)))
    frame = frame.head(draw(st.sampled_from([0, 1, 10**6])) if draw(st.integers(0, 9)) == 0 else frame.height)
    params: dict[str, Any] = {
        "rounds": draw(st.integers(1, 5)),
        "policy": draw(st.sampled_from(["symmetric", "depthwise", "leafwise"])),
        "row_sample": draw(st.sampled_from(["none", "bernoulli", "goss", "mvs"])),
        "loss": draw(st.sampled_from(["rmse", "mae", "huber", "quantile", "expectile"])),
        "leaf": draw(st.sampled_from(["constant", "constant", "linear"])),
        "bins": draw(st.sampled_from([4, 64, 255, 256])),
        "border_sample": draw(st.sampled_from([50, 200_000])),
        "border_method": draw(st.sampled_from(["quantile", "greedy_logsum", "min_max_entropy"])),
        "cat_method": draw(st.sampled_from(["ctr", "one_hot"])),
        "permutations": draw(st.integers(1, 3)),
        "max_combination": draw(st.integers(1, 2)),
        "feature_fraction": draw(st.sampled_from([1.0, 0.5])),
        "weight": draw(st.sampled_from([None, "w", pl.col("w") + 1])),
        "eval": draw(st.sampled_from([None, "held", "set"])),
        "baseline": draw(st.sampled_from([None, "time"])),
        "seed": draw(st.integers(0, 3)),
        "n_threads": draw(st.integers(1, 3)),
        "on_error": draw(st.sampled_from(["raise", "null"])),
        "categorical": draw(st.sampled_from([[], cs.date()])),
    }
    if params["eval"] is not None:
        params["early_stopping"] = draw(st.sampled_from([None, 1, 3]))
    features = draw(st.lists(st.sampled_from(NUMBERS + CATEGORIES), min_size=1, max_size=6, unique=True))
    params["categorical"] = cs.integer() if draw(st.booleans()) and "c" in features else []
    if "big" in features:
        params["categorical"] = []
    way = {"batches": draw(st.sampled_from([True, 1, 7, 100, 1_000]) if frame.height < 300 else st.just(251))}

    def made(**more: Any) -> bytes | str | None:
        try:
            model = frame.lazy().taiga.fit_gbdt("y", *features, **params, **more)
        except pl.exceptions.PolarsError as error:
            return f"{type(error).__name__}: {error}"
        return None if model is None else model.to_bytes()

    assert made(**way) == made()


@needs_batches
def test_queries_are_those_of_the_whole_frame(frame: pl.DataFrame) -> None:
    """Features that read all rows, selectors, structs, literals, filters and sorts: as in any fit."""
    lazy = frame.lazy().filter(pl.col("w") > 0).sort("time")
    columns: tuple[Any, ...] = (
        pl.col("y") - pl.col("y").mean(),
        cs.by_name("a", "c"),
        (pl.col("b") - pl.col("b").mean()).alias("centred"),
        pl.struct("big", pl.col("city").alias("town")).alias("s"),
        pl.lit(1.5).alias("same"),
        pl.col("^day$"),
    )
    params: dict[str, Any] = {
        "rounds": 5,
        "weight": pl.lit(2.0),
        "eval": pl.int_range(pl.len()) % 5 == 0,
        "monotone": [(cs.by_name("a"), 1)],
        "feature_weights": {"a": 0.5},
    }
    whole = lazy.taiga.fit_gbdt(*columns, **params)
    model = lazy.taiga.fit_gbdt(*columns, **params, batches=333)
    assert model.to_bytes() == whole.to_bytes()
    assert model.computed_features == whole.computed_features


@needs_batches
def test_only_what_is_kept_is_read_beside_the_passes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With rounds two passes over the features, without two more for each hidden fifth; nothing else reads them."""
    read = note_columns_read(monkeypatch, (*NUMBERS, *CATEGORIES, "y"))
    lazy, features = pl.scan_parquet(file), ("a", "b", "city")
    lazy.taiga.fit_gbdt("y", *features, rounds=2, batches=True)
    assert read == [{"y", "city"}, {"y", *features}, {"y", *features}]
    read.clear()
    lazy.taiga.fit_gbdt("y", *features, batches=True)
    assert read == [{"y", "city"}, *[{"y", *features}] * (2 + 2 * 5)]


@needs_batches
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("y", "other values of column `y`, or the same in another order"),
        ("city", "other values of column `city`, or the same in another order"),
        ("a", "other values of column `a`, or the same in another order, than before"),
        ("more", "more than the 1500 rows"),
        ("fewer", "1499 rows where it gave 1500"),
    ],
)
def test_a_frame_that_changes_is_an_error(frame: pl.DataFrame, changes: str, said: str) -> None:
    """A query that gives something else in a later pass: no model."""
    # The rows come for what is kept, and for two passes.
    lazy, runs = changing(frame, 3, changes)
    with pytest.raises(
        pl.exceptions.ComputeError, match=f"parameter `batches`: the frame gives {said}.*write it to a file"
    ):
        lazy.taiga.fit_gbdt("y", "a", "city", rounds=2, batches=100)
    assert runs() == 3


@needs_batches
def test_what_is_not_done_in_batches_is_said(frame: pl.DataFrame, tmp_path: Path) -> None:
    """By the name of the parameter, before any row is read."""
    model = frame.taiga.fit_gbdt("y", "a", rounds=2)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("row_key", {"row_key": "id"}),
        ("init_model", {"init_model": model}),
        ("snapshot", {"snapshot": tmp_path / "state"}),
        ("collective", {"collective": tg.Collective(rank=0, world=2, address="127.0.0.1:9", secret="s" * 16)}),
        ("on_error", {"on_error": "constant"}),
    ]

    def never(_: pl.DataFrame) -> pl.DataFrame:
        raise AssertionError("it is read")

    lazy = frame.lazy().map_batches(never, schema=frame.schema)
    for name, params in cases:
        with pytest.raises(pl.exceptions.ComputeError, match=f"^fit_gbdt: parameter `{name}`: .*leave out `batches`"):
            lazy.taiga.fit_gbdt("y", "a", rounds=2, batches=True, **params)
    if tg.device_info()["devices"]:
        with pytest.raises(pl.exceptions.ComputeError, match=r"parameter `device`: .*leave out `batches`"):
            lazy.taiga.fit_gbdt("y", "a", rounds=2, batches=True, device="cuda")
    # What has room is fitted as ever.
    auto = frame.lazy().taiga.fit_gbdt("y", "a", rounds=2, row_key="id", batches="auto")
    assert auto.to_bytes() == frame.taiga.fit_gbdt("y", "a", rounds=2, row_key="id").to_bytes()


def test_wrong_arguments_are_told(frame: pl.DataFrame, tmp_path: Path) -> None:
    """With what was probably meant, and with whatever else is wrong with the call."""
    lazy = frame.lazy()
    for batches, kind in [
        ("always", ValueError),
        (0, ValueError),
        (-1, ValueError),
        (1.5, TypeError),
        ([3], TypeError),
    ]:
        with pytest.raises(kind, match="parameter `batches`: "):
            lazy.taiga.fit_gbdt("y", "a", batches=batches)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"parameter `spill`: .*add batches=True"):
        lazy.taiga.fit_gbdt("y", "a", spill=tmp_path)
    with pytest.raises(TypeError, match="parameter `spill`: int is no path of a folder"):
        lazy.taiga.fit_gbdt("y", "a", spill=3, batches=True)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"parameter `spill`: no file can be made in .*/nowhere: "):
        lazy.taiga.fit_gbdt("y", "a", spill=tmp_path / "nowhere", batches=True)
    with pytest.raises(TypeError, match=r"batches.*lf.taiga.fit_gbdt"):
        tg.fit_gbdt("y", "a", batches=True)  # type: ignore[call-arg]


@needs_batches
def test_errors_are_those_of_any_fit(frame: pl.DataFrame) -> None:
    """Of types, of values, of the query itself; and a target that comes again as a feature."""
    lazy = frame.lazy()
    with pytest.raises(pl.exceptions.SchemaError, match="column `words`: its type is"):
        lazy.taiga.fit_gbdt("y", "words", batches=True)
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="nothing"):
        lazy.taiga.fit_gbdt("y", "nothing", batches=True)
    with pytest.raises(pl.exceptions.ComputeError, match=r"column `b`: .*which a target can't be.*a fit of 1500 rows"):
        lazy.taiga.fit_gbdt("b", "a", batches=True)
    assert lazy.taiga.fit_gbdt("b", "a", batches=True, on_error="null") is None
    with pytest.raises(pl.exceptions.ComputeError, match="column `y`: the target is among the features"):
        lazy.taiga.fit_gbdt(pl.col("y"), cs.by_name("a", "y"), rounds=1, batches=100)
    several = pl.struct("y", z=pl.col("y") * 2)
    with pytest.raises(pl.exceptions.ComputeError, match="column `y`: the target is among the features"):
        lazy.taiga.fit_gbdt(several, cs.by_name("a", "y"), rounds=1, batches=100)

    def fails(rows: pl.DataFrame) -> pl.DataFrame:
        # What is kept comes without the features.
        if "a" in rows.columns:
            msg = "the disk is gone"
            raise OSError(msg)
        return rows

    broken = frame.lazy().select("y", "a").map_batches(fails, schema=frame.select("y", "a").schema)
    with pytest.raises((pl.exceptions.ComputeError, OSError), match="the disk is gone"):
        broken.taiga.fit_gbdt("y", "a", batches=True)


@needs_batches
def test_a_callback_ends_a_fit_and_raises(frame: pl.DataFrame, tmp_path: Path) -> None:
    """As in any fit; nothing is left of it."""
    model = frame.lazy().taiga.fit_gbdt("y", "a", rounds=9, batches=100, callback=lambda n, _: n == 2)
    assert model.rounds == 2

    def raises(_: int, __: Any) -> bool:
        raise KeyError("mine")

    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(KeyError, match="mine"):
            frame.lazy().taiga.fit_gbdt("y", "a", rounds=9, batches=100, callback=raises, spill=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert threading.active_count() <= before
    gc.collect()


@needs_batches
def test_auto_reads_in_batches_what_has_no_room(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rows and the width of the table; a frame in memory has room there."""
    sizes: list[int | None] = []
    batches = pl.LazyFrame.collect_batches

    def noted(self: pl.LazyFrame, **more: Any) -> Any:
        sizes.append(more["chunk_size"])
        return batches(self, **more)

    monkeypatch.setattr(pl.LazyFrame, "collect_batches", noted)
    lazy = pl.scan_parquet(file)
    whole = lazy.taiga.fit_gbdt("y", *NUMBERS, rounds=3, batches="auto")
    assert sizes == []
    own = _batches._Fit(
        _batches.BatchesCall(call_of("y", *NUMBERS, rounds=3), "auto", None),
        lazy,
        "auto",
    ).own
    assert own.has_room(1_500)
    assert not own.has_room(10**13)
    assert own.batch_rows() == 1 << 20
    wide = lazy.select("y", pl.col(NUMBERS), *(pl.col(NUMBERS).name.suffix(f" {i}") for i in range(9)))
    own = _batches._Fit(_batches.BatchesCall(call_of("y", cs.exclude("y"), rounds=3), "auto", None), wide, "auto").own
    # Bytes of a row: f32, f64, i16, dates of i32, u64, each ten times.
    assert own.batch_rows() == (32 << 20) // (10 * (4 + 8 + 2 + 4 + 8))

    have_room_for_few_rows(monkeypatch)
    assert lazy.taiga.fit_gbdt("y", *NUMBERS, rounds=3, batches="auto").to_bytes() == whole.to_bytes()
    assert len(sizes) == 2
    lazy.head(999).taiga.fit_gbdt("y", *NUMBERS, rounds=3, batches="auto")
    lazy.collect().taiga.fit_gbdt("y", *NUMBERS, rounds=3, batches="auto")
    assert len(sizes) == 2
    with pytest.raises(pl.exceptions.ComputeError, match=r"parameter `row_key`: .*leave out `batches`"):
        lazy.taiga.fit_gbdt("y", *NUMBERS, rounds=3, batches="auto", row_key="id")


def call_of(target: str, *features: Any, **params: Any) -> Any:
    """What a call of `fit_gbdt` asks for."""
    from polars_taiga import _fit, gbdt

    roles = dict.fromkeys(["weight", "baseline", "eval", "group", "position", "event", "lower", "upper", "row_key"])
    given = {"progress": None, "on_error": "raise", "metadata": None}
    return gbdt.fit_call(target, features, roles, params, training=_fit.Training(), **given)  # type: ignore[arg-type]


@pytest.mark.skipif(HAS_BATCHES, reason="this Polars has collect_batches")
def test_an_early_polars_is_told(frame: pl.DataFrame) -> None:
    """It has no batches; what has room is fitted under `"auto"`."""
    with pytest.raises(RuntimeError, match=f"collect_batches, which Polars {pl.__version__} does not have"):
        frame.lazy().taiga.fit_gbdt("y", "a", rounds=1, batches=True)
    auto = frame.lazy().taiga.fit_gbdt("y", "a", rounds=1, batches="auto")
    assert auto.to_bytes() == frame.taiga.fit_gbdt("y", "a", rounds=1).to_bytes()


@needs_batches
def test_fits_side_by_side(frame: pl.DataFrame) -> None:
    """Each has its own rows."""
    whole = [frame.head(n).taiga.fit_gbdt("y", *NUMBERS, rounds=3).to_bytes() for n in (700, 900, 1_100)]
    made: dict[int, bytes] = {}

    def fit(i: int, n: int) -> None:
        made[i] = frame.head(n).lazy().taiga.fit_gbdt("y", *NUMBERS, rounds=3, batches=50).to_bytes()

    threads = [threading.Thread(target=fit, args=(i, n)) for i, n in enumerate((700, 900, 1_100))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [made[i] for i in range(3)] == whole


@needs_batches
@pytest.mark.skipif(sys.platform != "linux", reason="Linux says which library a signal goes to")
@pytest.mark.parametrize("when", ["rounds", "pass"])
def test_ctrl_c_ends_it(tmp_path: Path, when: str) -> None:
    """In a round and in a pass, by KeyboardInterrupt alone; no file is left."""
    fit = 'lazy.taiga.fit_gbdt("y", "x", rounds=rounds, batches=batches, spill=folder, progress=False)'
    check_that_ctrl_c_ends(fit, when, tmp_path)


@needs_batches
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_killed_process_leaves_no_file(tmp_path: Path) -> None:
    """Its files have no names."""
    code = (
        "import os, signal, polars as pl, polars_taiga\n"
        "rows = pl.LazyFrame({'i': range(10_000)}).select(y=pl.col('i') % 97, x=pl.col('i') * 7919 % 10_007)\n"
        "die = lambda n, _: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"rows.taiga.fit_gbdt('y', 'x', rounds=9, batches=True, spill={str(tmp_path)!r}, callback=die)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert run.returncode == -9, run.stderr
    assert list(tmp_path.iterdir()) == []


@needs_batches
def test_progress_shows(frame: pl.DataFrame, capfd: pytest.CaptureFixture[str]) -> None:
    """Of each pass over the features, and of the rounds."""
    frame.lazy().taiga.fit_gbdt("y", "a", rounds=2, batches=400, progress=True)
    told = [line.split(" in ")[0] for line in capfd.readouterr().err.splitlines()]
    assert told == ["fit_gbdt 1500/1500 rows read"] * 2 + ["fit_gbdt 2/2 rounds"]
    frame.lazy().taiga.fit_gbdt("y", "a", rounds=2, batches=400, progress=False)
    assert capfd.readouterr().err == ""

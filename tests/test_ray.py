"""Fits by the workers of a Ray cluster: the bytes of one fit, whoever is lost meanwhile."""

from __future__ import annotations

import logging
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.test_collective import NUMBERS, table

# Whoever reaches this cluster is on this machine.
os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import polars_taiga as tg
import ray
from polars_taiga.ray import _OF_ANOTHER, _check_rows_alone, _Query, fit_forest, fit_gbdt

HERE: dict[str, Any] = {"interface": "127.0.0.1", "timeout": 60.0}
US = tg.Collective(rank=0, world=2, address="127.0.0.1:29500", secret="a secret of some length")
FEATURES = [*NUMBERS, "city"]
LONG: dict[str, Any] = {"rounds": 300, "learning_rate": 0.05, "weight": "w", "snapshot_every": 20}


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    """A cluster of this machine, with room for four workers, and two GPUs as far as Ray is told."""
    ray.init(
        "local",
        num_cpus=4,
        num_gpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=128 << 20,
        configure_logging=False,
        _node_ip_address="127.0.0.1",
    )
    yield
    # Behind all the fits and errors of this file the workers' CPUs are free again.
    until = time.monotonic() + 30
    while ray.available_resources().get("CPU") != 4:
        assert time.monotonic() < until
        time.sleep(0.1)
    ray.shutdown()


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    """The table."""
    return table()


@pytest.fixture(scope="module")
def folder(frame: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table in files of uneven sizes, some of several row groups."""
    folder = tmp_path_factory.mktemp("files")
    ends = [0, 1, 700, 701, 2_500, 3_000]
    for i in range(5):
        frame[ends[i] : ends[i + 1]].write_parquet(folder / f"{i}.parquet", row_group_size=256)
    return folder


def alone(frame: pl.DataFrame, **params: Any) -> bytes:
    """The model of one process."""
    params.pop("snapshot_every", None)
    return bytes(frame.taiga.fit_gbdt("y", *FEATURES, **params).to_bytes())


@pytest.mark.parametrize("data", ["files", "a query", "a Dataset", "a function"])
def test_rows_come_from_files_queries_and_datasets(frame: pl.DataFrame, folder: Path, data: str) -> None:
    """Whatever they lie in, and by however many workers they are read."""
    files = sorted(folder.glob("*.parquet"))
    kept = pl.col("c") > -15
    given: Any = {
        "files": [files[0], str(folder / "[1-4].parquet")],
        "a query": pl.scan_parquet(files).filter(kept).with_columns(a=pl.col("a") * 2),
        "a function": lambda rank, world: pl.scan_parquet(files[rank::world]),
    }
    if data == "a Dataset":
        import ray.data

        ray.data.DataContext.get_current().enable_progress_bars = False
        given[data] = ray.data.from_arrow([file.to_arrow() for file in map(pl.read_parquet, files)])
    rows = {
        "a query": frame.filter(kept).with_columns(a=pl.col("a") * 2),
        "a function": pl.concat([pl.read_parquet(files[rank::3]) for rank in range(3)]),
    }.get(data, frame)
    workers = 3
    model = fit_gbdt(given[data], "y", *FEATURES, workers=workers, rounds=8, **HERE)
    assert model.to_bytes() == alone(rows, rounds=8)


def test_a_dataset_is_read_before_the_workers_take_all_cpus(frame: pl.DataFrame) -> None:
    """Proves that four workers of one CPU each, of four in all, get the rows of a Ray Dataset, whose tasks need CPUs
    too; that blocks without rows, which may lack the columns, are left out; and that one without rows is named.
    """
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    nothing = pl.DataFrame().to_arrow()
    rows = frame[:3]
    given = ray.data.from_arrow([nothing, rows[:2].to_arrow(), nothing, rows[2:].to_arrow()])
    model = fit_gbdt(given, "y", *FEATURES, workers=4, rounds=3, **HERE)
    assert model.to_bytes() == alone(rows, rounds=3)
    for empty in (ray.data.from_items([]), ray.data.from_arrow(frame[:0].to_arrow())):
        with pytest.raises(ValueError, match="parameter `data`: the Dataset has no rows"):
            fit_gbdt(empty, "y", "a", workers=2, rounds=3, **HERE)
        assert fit_forest(empty, "y", "a", workers=2, trees=3, on_error="null", **HERE) is None


def test_a_forest_grows_in_the_workers(frame: pl.DataFrame, folder: Path, tmp_path: Path) -> None:
    """Its trees are dealt to them, and it has the bytes of one process's; what is wrong is told at the call."""
    made = fit_forest(str(folder), "y", *FEATURES, workers=3, trees=7, weight="w", **HERE)
    assert made.to_bytes() == frame.taiga.fit_forest("y", *FEATURES, trees=7, weight="w").to_bytes()
    file = tmp_path / "fit.snapshot"
    for trees, workers in [(10, 3), (14, 2)]:
        kept: dict[str, Any] = {"snapshot": file, "snapshot_every": 4}
        made = fit_forest(str(folder), "y", *FEATURES, workers=workers, trees=trees, **kept, **HERE)
        assert made.to_bytes() == frame.taiga.fit_forest("y", *FEATURES, trees=trees).to_bytes()
        with pytest.raises(pl.exceptions.ComputeError, match=r"`snapshot`: it has [0-9]+ trees, and this fit has 3"):
            frame.taiga.fit_forest("y", *FEATURES, trees=3, snapshot=file)
    with pytest.raises(ValueError, match="parameter `device`: with `gpus_per_worker`"):
        fit_forest(str(folder), "y", "a", workers=2, gpus_per_worker=1, device="cuda")
    with pytest.raises(TypeError, match="rounds"):
        fit_forest(str(folder), "y", "a", workers=2, rounds=3)  # type: ignore[call-arg]
    for name, value in (("progress", True), ("collective", US), ("on_error", "constant")):
        with pytest.raises(ValueError, match=f"parameter `{name}`"):
            fit_forest(str(folder), "y", "a", workers=2, **{name: value})  # type: ignore[call-overload]


class Victims:
    """Workers that leave their process's number in a folder, and are killed by it."""

    def __init__(self, folder: Path, frame: pl.DataFrame) -> None:
        """Of a table, which they read from a file."""
        self.folder, self.file = folder, folder / "table.parquet"
        frame.write_parquet(self.file)
        self.began: list[int] = []

    def rows(self) -> Callable[[int, int], pl.LazyFrame]:
        """What gives a worker its rows."""
        folder, file = self.folder, self.file

        def rows(rank: int, world: int) -> pl.LazyFrame:
            (folder / f"{rank}-{os.getpid()}").touch()
            return pl.scan_parquet(file).slice(3_000 * rank // world, 3_000 // world)

        return rows

    def processes(self, rank: int) -> list[int]:
        """Those that a worker has had."""
        return [int(file.name.split("-")[1]) for file in self.folder.glob(f"{rank}-*")]

    def kill(self, rank: int) -> None:
        """Kill it, if it runs."""
        for pid in self.processes(rank):
            if Path(f"/proc/{pid}").exists() or sys.platform != "linux":
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def victims(tmp_path: Path, frame: pl.DataFrame) -> Victims:
    """Workers that can be killed."""
    return Victims(tmp_path, frame)


def test_a_killed_worker_is_replaced(victims: Victims, frame: pl.DataFrame, caplog: pytest.LogCaptureFixture) -> None:
    """One of four, then rank 0 with its snapshots: the fit goes on, each round is told once, to the same bytes."""
    told: list[int] = []

    def killing(done: int, metrics: Any) -> None:
        assert not metrics
        told.append(done)
        for at, rank in ((110, 2), (210, 0)):
            if done == at:
                victims.kill(rank)

    with caplog.at_level(logging.WARNING):
        model = fit_gbdt(victims.rows(), "y", *FEATURES, workers=4, callback=killing, **LONG, **HERE)
    assert model.to_bytes() == alone(frame, **LONG)
    assert told == list(range(1, 301))
    assert [len(victims.processes(rank)) for rank in range(4)] == [2, 1, 2, 1]
    assert [record.getMessage()[:15] for record in caplog.records] == ["rank 2 was lost", "rank 0 was lost"]


def test_workers_may_be_lost_at_any_time(victims: Victims, frame: pl.DataFrame) -> None:
    """At random, in the midst of whatever they do."""
    dice, ended = random.Random(20), threading.Event()

    def killing() -> None:
        for _ in range(3):
            if ended.wait(0.2 + dice.random()):
                return
            rank = dice.randrange(4)
            victims.kill(rank)
            had = len(victims.processes(rank))
            while len(victims.processes(rank)) == had and not ended.wait(0.05):
                pass

    long = {**LONG, "rounds": 1_000}
    killer = threading.Thread(target=killing)
    killer.start()
    try:
        model = fit_gbdt(victims.rows(), "y", *FEATURES, workers=4, max_failures=10, **long, **HERE)
    finally:
        ended.set()
        killer.join()
    assert model.to_bytes() == alone(frame, **long)
    assert sum(len(victims.processes(rank)) for rank in range(4)) > 4


def test_rounds_that_were_not_told_begin_anew(victims: Victims, frame: pl.DataFrame) -> None:
    """A snapshot would change how many rounds are made."""
    told: list[int] = []

    def killing(done: int, metrics: Any) -> None:
        told.append(done)
        if done == 5 and len(victims.processes(1)) == 1:
            victims.kill(1)

    model = fit_gbdt(victims.rows(), "y", *NUMBERS, workers=2, learning_rate=0.5, callback=killing, **HERE)
    assert model == frame.taiga.fit_gbdt("y", *NUMBERS, learning_rate=0.5)
    assert told == list(range(1, len(told) + 1))
    assert len(victims.processes(1)) == 2


def test_a_limit_of_failures(victims: Victims) -> None:
    """Behind it the fit is an error that says who was lost."""

    def killing(done: int, metrics: Any) -> None:
        if done == 3:
            victims.kill(1)

    with pytest.raises(RuntimeError, match="lost 1 times, and `max_failures` is 0; the last time rank 1 was"):
        fit_gbdt(victims.rows(), "y", *NUMBERS, workers=2, max_failures=0, rounds=300, callback=killing, **HERE)


def test_another_call_goes_on_from_a_snapshot(victims: Victims, frame: pl.DataFrame) -> None:
    """In a file that the caller names, whatever becomes of the first call, by another number of workers."""
    file = victims.folder / "fit.snapshot"

    class GivenUpError(Exception):
        pass

    def giving_up(done: int, metrics: Any) -> None:
        if done == 150:
            raise GivenUpError

    told: list[int] = []
    with pytest.raises(GivenUpError):
        fit_gbdt(victims.file, "y", *FEATURES, workers=3, snapshot=file, callback=giving_up, **LONG, **HERE)
    model = fit_gbdt(
        victims.file,
        "y",
        *FEATURES,
        workers=2,
        snapshot=file,
        callback=lambda done, _: told.append(done),
        **LONG,
        **HERE,
    )
    assert told[0] == 141
    assert model.to_bytes() == alone(frame, **LONG)


def test_rounds_are_told_here(folder: Path, frame: pl.DataFrame, capfd: pytest.CaptureFixture[str]) -> None:
    """Lines, the bar's last word, a callback that ends the fit, what it raises: as in a fit of one process."""
    fit = {"rounds": 20, "eval": "held", "metric": ["rmse", "mae"]}
    model = fit_gbdt(folder, "y", *FEATURES, workers=2, verbose=10, progress=True, **fit, **HERE)
    lines = capfd.readouterr().err.splitlines()
    frame.taiga.fit_gbdt("y", *FEATURES, verbose=10, **fit)
    assert lines[:2] == capfd.readouterr().err.splitlines()
    assert lines[2].startswith("fit_gbdt 20/20 rounds in ")
    told: list[Any] = []
    seven = fit_gbdt(
        folder, "y", *FEATURES, workers=2, callback=lambda *now: told.append(now) or now[0] == 7, **fit, **HERE
    )
    assert told == [(row["round"] + 1, {k: row[k] for k in ("rmse", "mae")}) for row in model.history[:7].to_dicts()]
    assert seven.to_bytes() == alone(frame, callback=lambda done, _: done == 7, **fit)


def test_faults_are_told_as_they_are(folder: Path, frame: pl.DataFrame) -> None:
    """What is wrong with rows, columns and files is no loss of a worker; nothing is tried again."""
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="nowhere"):
        fit_gbdt(folder, "y", "nowhere", workers=2, rounds=3, **HERE)
    with pytest.raises(pl.exceptions.ComputeError, match="all 3000 rows are of one class"):
        fit_gbdt(folder, pl.col("a").is_null(), "b", workers=2, rounds=3, **HERE)
    with pytest.raises(FileNotFoundError, match="no Parquet file at"):
        fit_gbdt(folder / "*.none", "y", "a", workers=2, rounds=3, **HERE)

    def short(rank: int, world: int) -> Any:
        return pl.scan_parquet(folder / "3.parquet") if rank else 7

    with pytest.raises(TypeError, match="the function gives a int, not a LazyFrame"):
        fit_gbdt(short, "y", "a", workers=2, rounds=3, **HERE)
    with pytest.raises(ValueError, match="has no 'nowhere0'" if sys.platform == "linux" else "nowhere0"):
        fit_gbdt(folder, "y", "a", workers=2, rounds=3, interface="nowhere0")
    with pytest.raises(RuntimeError, match="did not start 2 of 2 workers, each of 3 CPUs, within 2 seconds"):
        fit_gbdt(folder, "y", "a", workers=2, cpus_per_worker=3, start_timeout=2, rounds=3, **HERE)


def test_a_fit_that_the_rows_are_at_fault_for_may_be_none(folder: Path, frame: pl.DataFrame) -> None:
    """Proves that `on_error="null"` gives None, as in one process, and the model where nothing is wrong."""
    one_class = pl.col("a").is_null()
    assert frame.taiga.fit_gbdt(one_class, "b", rounds=3, on_error="null") is None
    assert fit_gbdt(folder, one_class, "b", workers=2, rounds=3, on_error="null", **HERE) is None
    assert fit_forest(folder, one_class, "b", workers=2, trees=3, on_error="null", **HERE) is None
    model = fit_gbdt(folder, "y", "b", workers=2, rounds=3, on_error="null", **HERE)
    assert model is not None
    assert model.to_bytes() == frame.taiga.fit_gbdt("y", "b", rounds=3).to_bytes()


# What reads other rows than its own, and what of it does.
OF_OTHER_ROWS: dict[str, tuple[pl.Expr, str]] = {
    "centred": ((pl.col("a") - pl.col("a").mean()).alias("z"), 'col("a").mean()'),
    "the row's number": (pl.int_range(pl.len()) % 5 == 0, "len()"),
    "normed": (pl.col("w") / pl.col("w").sum(), 'col("w").sum()'),
    "ranked": (pl.col("d").rank(), "rank()"),
    "of a group": (pl.col("a").max().over("city"), "over"),
    "the row before": (pl.struct("c", pl.col("a").shift(1)), 'col("a").shift('),
    "held-in means": (pl.col("c") + tg.target_encode("city", "y"), "target_encode"),
}
can_tell = pytest.mark.skipif(not hasattr(pl.col("a").meta, "is_row_separable"), reason="this Polars can't tell")


@can_tell
@pytest.mark.parametrize("which", OF_OTHER_ROWS)
def test_an_expression_that_reads_other_rows_is_named(which: str) -> None:
    """Proves that it is an error before anything is started, since a worker would compute it over a part of the rows:
    as a feature, beside others, and in another role.
    """
    expr, inner = OF_OTHER_ROWS[which]
    for given, role in (
        ({"features": ["b", expr]}, "features"),
        ({"features": ["b"], "weight": expr}, "weight"),
        ({"features": ["b"], "eval": expr}, "eval"),
        ({"features": ["b"], "row_key": ["c", expr]}, "row_key"),
    ):
        roles: dict[str, Any] = dict(given)
        with pytest.raises(ValueError, match=rf"parameter `{role}`: `.*not known to be computed row by row") as error:
            fit_gbdt("nowhere", "y", *roles.pop("features"), workers=2, rounds=3, **roles)
        assert inner in str(error.value)
        assert "_taiga.abi3" not in str(error.value)


def test_expressions_of_a_row_alone_are_taken() -> None:
    """Proves that what each row has by itself is no error, selectors among it, and what lists hold."""
    model = pl.DataFrame({"x": range(20), "y": range(20)}).taiga.fit_gbdt("y", "x", rounds=1)
    a = pl.col("a")
    exprs = [
        *("a", a * 2 + pl.col("b"), pl.all(), pl.all().exclude("y"), pl.col("^a.*$"), pl.col("a", "b") * 2, pl.lit(1)),
        *(pl.when(a > 1).then(pl.col("b")).otherwise(0), a.is_in([1, 2]), a.is_in(pl.Series([1, 2])), a.fill_null(0)),
        *(a.cast(pl.String), a.str.to_datetime("%Y"), a.dt.year(), a.list.mean(), a.list.eval(pl.element().rank())),
        *(pl.struct("a", "b"), a.struct.field("x") + 1, a.replace({1: 2}), pl.concat_list("a", "b"), a.hash(1)),
        *(tg.predict(model, "x"), pl.max_horizontal("a", "b"), pl.format("{}", a), a + pl.lit(pl.Series([1, 2])).max()),
    ]
    _check_rows_alone({"target": "y", "features": exprs, "weight": None, "eval": a % 5 == 0, "row_key": ["a", "b"]})


def test_a_query_computes_what_reads_all_rows(folder: Path, frame: pl.DataFrame) -> None:
    """Proves that a column of `data` that does is that of the whole table, as the error says."""
    centred = (pl.col("a") - pl.col("a").mean()).alias("z")
    model = fit_gbdt(
        pl.scan_parquet(folder / "*.parquet").with_columns(centred), "y", "z", "b", workers=2, rounds=3, **HERE
    )
    assert model.to_bytes() == frame.with_columns(centred).taiga.fit_gbdt("y", "z", "b", rounds=3).to_bytes()


ORDERLESS: dict[str, Callable[[pl.LazyFrame], pl.LazyFrame]] = {
    "JOIN": lambda lf: lf.join(lf.select("city").unique(maintain_order=True), on="city"),
    "AGGREGATE": lambda lf: lf.group_by("city").agg(pl.all().first()),
    "UNIQUE": lambda lf: lf.unique("city"),
    "SORT BY": lambda lf: lf.sort("c"),
    "shuffle": lambda lf: lf.with_columns(y=pl.col("y").shuffle()),
    "OPAQUE_PYTHON": lambda lf: lf.map_batches(lambda df: df),
}


def test_a_query_without_an_order_is_an_error(folder: Path) -> None:
    """Each worker takes a part of what it gives: rows would be missing and others there twice."""
    scan = pl.scan_parquet(folder / "*.parquet")
    with pytest.raises(ValueError, match=r"the query has a JOIN.*`row_key`"):
        fit_gbdt(ORDERLESS["JOIN"](scan), "y", "a", workers=2, rounds=3, **HERE)
    for what, query in ORDERLESS.items():
        with pytest.raises(ValueError, match=f"the query has a {what}.*`row_key`"):
            _Query(query(scan)).check_order()
    ordered = scan.group_by("city", maintain_order=True).agg(pl.col("a").first()).unique(maintain_order=True)
    _Query(ordered).check_order()


@pytest.mark.skipif(bool(tg.device_info()["devices"]), reason="workers would fit on the GPUs")
def test_workers_fit_on_the_gpus_that_ray_gives_them(folder: Path) -> None:
    """They are told to, so where Ray is wrong about there being any that is the device's error, not a CPU's model."""
    with pytest.raises((ValueError, pl.exceptions.ComputeError), match="`device`"):
        fit_gbdt(folder, "y", "a", workers=2, gpus_per_worker=1, rounds=3, **HERE)
    told = "each of 1 CPUs and 2 GPUs, within 2 seconds.*it has 1 machines of 4 CPUs and 2 GPUs"
    with pytest.raises(RuntimeError, match=told):
        fit_gbdt(folder, "y", "a", workers=2, gpus_per_worker=2, start_timeout=2, rounds=3, **HERE)


def test_rows_with_keys_need_no_order(folder: Path, frame: pl.DataFrame) -> None:
    """The model of a join and of a column called JOIN, whose rows are the same ones each time."""
    keyed = frame.with_row_index("id")
    cities = keyed.select("city").unique().with_columns(size=pl.col("city").str.len_chars())
    query = keyed.lazy().join(cities.lazy(), on="city", maintain_order="left").rename({"a": "JOIN"})
    model = fit_gbdt(query, "y", "JOIN", "size", row_key="id", workers=2, rounds=5, **HERE)
    assert model == query.taiga.fit_gbdt("y", "JOIN", "size", row_key="id", rounds=5)
    renamed = pl.scan_parquet(folder / "*.parquet").rename({"a": "JOIN"})
    assert fit_gbdt(renamed, "y", "JOIN", workers=2, rounds=5, **HERE) == renamed.taiga.fit_gbdt("y", "JOIN", rounds=5)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"workers": 0}, "`workers`"),
        ({"workers": True}, "`workers`"),
        ({"cpus_per_worker": 0}, "`cpus_per_worker`"),
        ({"gpus_per_worker": -1}, "`gpus_per_worker`"),
        ({"gpus_per_worker": 1, "device": "cpu"}, "`device`"),
        ({"max_failures": -1}, "`max_failures`"),
        ({"interface": 7}, "`interface`"),
        ({"timeout": 0}, "`timeout`"),
        ({"start_timeout": 0}, "`start_timeout`"),
        ({"start_timeout": "long"}, "`start_timeout`"),
        ({"placement_strategy": "LOOSE"}, "`placement_strategy`"),
        ({"callback": 7}, "`callback`"),
        ({"snapshot_every": 0}, "`snapshot_every`"),
        ({"eta": 0.1}, "learning_rate"),
        ({"on_error": "constant"}, "`on_error`: 'constant' is not one of 'raise', 'null'"),
        ({"collective": US}, "`collective`: the workers are one"),
        ({"data": 7}, "`data`"),
        ({"data": []}, "`data`"),
        ({"data": pl.DataFrame({"y": [1]})}, "`data`"),
    ],
    ids=str,
)
def test_a_wrong_parameter_is_named(more: dict[str, Any], match: str) -> None:
    """Before anything is started."""
    given: dict[str, Any] = {"data": "nowhere", "workers": 2, **more}
    with pytest.raises((TypeError, ValueError), match=match):
        fit_gbdt(given.pop("data"), "y", "a", **given)


def test_a_worker_that_ends_while_it_greets_is_another_one(frame: pl.DataFrame) -> None:
    """What the others say then is no fault of theirs, so the fit begins again."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def ends() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=ends, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        us = tg.Collective(rank=1, world=2, address=address, secret="a secret of some length", timeout=20)
        with pytest.raises(pl.exceptions.ComputeError) as error:
            frame.select(tg.fit_gbdt("y", "a", rounds=2, collective=us))
        server.shutdown(socket.SHUT_RDWR)
    assert _OF_ANOTHER.search(str(error.value)), error.value


def test_ray_is_imported_by_whoever_wants_it() -> None:
    """Not with the package; and where it is missing an error says how it is installed."""
    script = """
import sys
import polars_taiga
assert "ray" not in sys.modules
sys.modules["ray"] = None
try:
    import polars_taiga.ray
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'polars-taiga[ray]'" in done.stdout

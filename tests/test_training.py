"""Fits that go on from a model or from a snapshot, and what is told of them meanwhile."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import polars_taiga as tg
import pytest
from polars_taiga import _callback

FEATURES = ("a", "b", "c", "d")
WAYS: list[dict[str, Any]] = [
    {},
    {"policy": "leafwise", "leaves": 11, "row_sample": "goss"},
    {"policy": "depthwise", "row_sample": "mvs", "feature_fraction": 0.7, "seed": 3},
    {"policy": "leafwise", "row_sample": "bayesian", "extra_trees": True, "path_smooth": 5.0, "max_delta_step": 0.5},
    {"random_strength": 2.0, "learning_rate": 0.2},
    {"leaf_iterations": 3, "loss": "log_cosh", "row_sample": "bernoulli"},
    {"feature_weights": {"a": 0.2, "b": 0.0}, "policy": "leafwise", "leaves": 9},
    {"leaf": "linear", "policy": "depthwise", "depth": 3, "eval": "held"},
    {"boosting": "dart", "drop_rate": 0.2, "skip_drop": 0.3, "row_sample": "goss"},
    {"loss": "mae", "row_sample": "bernoulli"},
    {"eval": "held", "early_stopping": 5, "metric": ["mae", "rmse"], "eval_train": True, "learning_rate": 0.5},
    {"weight": "w", "loss": "huber", "n_threads": 3},
]


@pytest.mark.parametrize("params", WAYS)
def test_60_rounds_and_40_more_are_100(df: pl.DataFrame, params: dict[str, Any]) -> None:
    """To the byte, whatever the parameters, the threads and the chunks."""
    whole = df.taiga.fit_gbdt("y", *FEATURES, rounds=100, **params)
    first = df.taiga.fit_gbdt("y", *FEATURES, rounds=60, **{**params, "n_threads": 1})
    chunked = pl.concat([df[:700], df[700:]], rechunk=False)
    rest = 100 - first.rounds
    model = chunked.taiga.fit_gbdt("y", *FEATURES, rounds=rest, init_model=first, **params)
    assert model.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("target", ["flag", "kind"])
def test_classes_and_categories_go_on(df: pl.DataFrame, target: str) -> None:
    """Categories that are split one by one or in subsets; ordered statistics are an error that says why."""
    table = df.with_columns(s=pl.format("s{}", (pl.col("group") * 7 + pl.int_range(pl.len()) % 3) % 9))
    for params in ({"cat_method": "one_hot"}, {"cat_method": "partition", "policy": "depthwise"}):
        columns: tuple[str, ...] = (*FEATURES, "s")
        whole = table.taiga.fit_gbdt(target, *columns, rounds=20, **params)  # type: ignore[arg-type]
        first = table.taiga.fit_gbdt(target, *columns, rounds=8, **params)  # type: ignore[arg-type]
        more = table.lazy().taiga.fit_gbdt(target, *columns, rounds=12, init_model=first.to_bytes(), **params)  # type: ignore[arg-type]
        assert more.to_bytes() == whole.to_bytes()
    first = table.taiga.fit_gbdt(target, *FEATURES, "s", rounds=3)
    with pytest.raises(
        pl.exceptions.ComputeError, match=r'parameter `init_model`: cat_method="ctr" orders rows.*snapshot'
    ):
        table.taiga.fit_gbdt(target, *FEATURES, "s", rounds=3, init_model=first)


def test_unseen_categories_are_numbered_behind_the_known_ones() -> None:
    """Each model's trees go on saying what they said of the categories that they knew."""
    old = pl.DataFrame({"s": ["u", "v", "w"] * 40}).with_columns(y=(pl.col("s") == "v").cast(pl.Float64))
    new = pl.DataFrame({"s": ["x", "v", "y", None] * 40}).with_columns(
        y=(pl.col("s") == "x").fill_null(False).cast(pl.Float64)
    )
    first = old.taiga.fit_gbdt("y", "s", rounds=5, cat_method="one_hot")
    both = new.taiga.fit_gbdt("y", "s", rounds=50, cat_method="one_hot", init_model=first)
    same = pl.concat([old, new]).select(pl.col("s"))
    head = same.select(both=tg.predict(both, rounds=5), first=tg.predict(first))
    assert head["both"].to_list() == head["first"].to_list()
    told = new.select("s", p=tg.predict(both)).unique().sort("p")
    assert told["s"][-1] == "x"


def test_a_model_for_each_group_goes_on(df: pl.DataFrame) -> None:
    """By an expression of each group's earlier model; null begins anew."""
    fit = tg.fit_gbdt("y", *FEATURES, rounds=4)
    models = df.filter(pl.col("group") > 0).group_by("group").agg(earlier=fit)
    # Rows in their order, which joins of old Polars keep and those of new ones need not.
    joined = df.with_row_index("row").join(models, on="group", how="left").sort("row")
    again = joined.group_by("group").agg(
        model=tg.fit_gbdt("y", *FEATURES, rounds=3, init_model=pl.col("earlier").first())
    )
    seven = df.group_by("group").agg(model=tg.fit_gbdt("y", *FEATURES, rounds=7))
    three = df.filter(pl.col("group") == 0).select(tg.fit_gbdt("y", *FEATURES, rounds=3)).item()
    want = dict(seven.iter_rows()) | {0: three}
    assert dict(again.iter_rows()) == want


def test_what_can_not_go_on_is_told(df: pl.DataFrame, regression: tg.Model) -> None:
    """Naming what differs."""
    for call, match in [
        ({"loss": "mae"}, 'fitted with loss="rmse", and this fit has "mae"'),
        ({"features": ("a", "b")}, "its feature|it has 4 features, and this fit has 2"),
        ({"features": ("b", "a", "c", "d")}, "its feature 1 is `a`, and this fit's is `b`"),
        ({"target": "flag"}, 'loss="rmse", and this fit has "logloss"'),
    ]:
        features, target = call.pop("features", FEATURES), call.pop("target", "y")
        with pytest.raises(pl.exceptions.ComputeError, match=f"parameter `init_model`: .*({match})"):
            df.taiga.fit_gbdt(target, *features, init_model=regression, **call)
    flag = df.taiga.fit_gbdt("flag", *FEATURES, positive=False, rounds=2)
    with pytest.raises(pl.exceptions.ComputeError, match=r"it has the classes .*, and the target has the classes "):
        df.taiga.fit_gbdt("flag", *FEATURES, init_model=flag)
    with pytest.raises(ValueError, match="these bytes are not a polars-taiga model"):
        tg.fit_gbdt("y", *FEATURES, init_model=b"PAR1")
    with pytest.raises(TypeError, match="parameter `init_model`: DataFrame is no Model"):
        tg.fit_gbdt("y", *FEATURES, init_model=df)  # type: ignore[arg-type]
    forest = df.taiga.fit_forest("y", *FEATURES, trees=2)
    with pytest.raises(pl.exceptions.ComputeError, match=r"parameter `init_model`: .*not a model of boosted trees"):
        df.taiga.fit_gbdt("y", *FEATURES, init_model=forest)
    with pytest.raises(pl.exceptions.ComputeError, match="parameter `init_model`: it is f64, not a model's bytes"):
        df.taiga.fit_gbdt("y", *FEATURES, init_model=pl.col("a"))


def test_estimators_go_on(df: pl.DataFrame) -> None:
    """By `fit(…, init_model=)`, with a callback."""
    from polars_taiga.sklearn import GbdtClassifier, GbdtRegressor

    X, seen = df.select(FEATURES), []  # noqa: N806
    for cls, y in ((GbdtRegressor, df["y"]), (GbdtClassifier, df["kind"])):
        first = cls(rounds=3).fit(X, y)
        more = cls(rounds=4).fit(X, y, init_model=first.model_, callback=lambda done, _: seen.append(done))
        assert more.model_.to_bytes() == cls(rounds=7).fit(X, y).model_.to_bytes()
    assert seen == [4, 5, 6, 7] * 2
    with pytest.raises(ZeroDivisionError):
        GbdtRegressor(rounds=3).fit(X, df["y"], callback=lambda *_: 1 / 0)


def test_a_callback_sees_every_round_and_may_end_the_fit(df: pl.DataFrame) -> None:
    """With what `Model.history` says afterwards."""
    seen: list[tuple[int, dict[str, float]]] = []

    def watch(done: int, metrics: Mapping[str, float]) -> bool:
        seen.append((done, dict(metrics)))
        return done == 6

    how: dict[str, Any] = {"eval": "held", "metric": ["rmse", "mae"], "eval_train": True}
    model = df.taiga.fit_gbdt("y", *FEATURES, rounds=50, callback=watch, **how)
    assert model.rounds == 6
    assert [done for done, _ in seen] == [1, 2, 3, 4, 5, 6]
    told = model.history.drop("round", "best")
    assert [metrics for _, metrics in seen] == told.to_dicts()
    # What the callback does is no part of the model, but for where it ends it.
    whole = df.taiga.fit_gbdt("y", *FEATURES, rounds=50, **how)
    assert model.predict(df).to_list() == df.select(tg.predict(whole, rounds=6)).to_series().to_list()


def test_an_exception_ends_the_fit_and_comes_back(df: pl.DataFrame) -> None:
    """As itself where the package runs the query, as an error that tells it elsewhere."""

    class OwnError(Exception):
        """One that nobody else raises."""

    def fail(done: int, metrics: Mapping[str, float]) -> None:
        if done == 3:
            msg = f"no more than {metrics}"
            raise OwnError(msg)

    with pytest.raises(OwnError, match=r"no more than {}"):
        df.taiga.fit_gbdt("y", *FEATURES, callback=fail)
    with pytest.raises(
        pl.exceptions.ComputeError, match="parameter `callback`: it raised OwnError after round 3: no more than"
    ):
        df.select(tg.fit_gbdt("y", *FEATURES, callback=fail))
    with pytest.raises(TypeError, match="parameter `callback`: int is no function"):
        tg.fit_gbdt("y", *FEATURES, callback=3)  # type: ignore[arg-type]


class MuteError(Exception):
    """One whose text can't be had."""

    def __str__(self) -> str:
        """Fail."""
        msg = "no text"
        raise RuntimeError(msg)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("ouch\0nul"), r"ValueError after round 2: ouch\\0nul"),
        (ValueError("\udc80"), r"ValueError after round 2: \\udc80"),
        (ValueError("a\n\nThis error occurred in the following expression: b"), "ValueError after round 2: a"),
        (ValueError(), "ValueError after round 2: "),
        (MuteError(), r"MuteError after round 2: its text can't be had \(RuntimeError\)"),
        (SystemExit(3), "SystemExit after round 2: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt after round 2: "),
    ],
)
def test_whatever_a_callback_raises_comes_back(df: pl.DataFrame, error: BaseException, told: str) -> None:
    """Proves that exceptions of any text come back as themselves, and those that are to end the process too."""

    def fail(done: int, _: object) -> None:
        if done == 2:
            raise error

    with pytest.raises(type(error)) as caught:
        df.taiga.fit_gbdt("y", *FEATURES, rounds=4, callback=fail)
    assert caught.value is error
    with pytest.raises(pl.exceptions.ComputeError, match=f"parameter `callback`: it raised {told}"):
        df.select(tg.fit_gbdt("y", *FEATURES, rounds=4, callback=fail))


def test_the_exception_of_a_query_within_a_callback_comes_back(df: pl.DataFrame) -> None:
    """Proves that Polars' plan in an exception's text does not hide whose exception it is."""
    inner, seen = df.taiga.fit_gbdt("y", "a", rounds=1), list[Exception]()

    def query(*_: object) -> None:
        try:
            df.select(tg.predict(inner, pl.col("a").cast(pl.String)))
        except pl.exceptions.PolarsError as error:
            seen.append(error)
            raise

    with pytest.raises(pl.exceptions.PolarsError) as caught:
        df.taiga.fit_gbdt("y", *FEATURES, rounds=4, callback=query)
    assert caught.value is seen[0]


def test_of_exceptions_that_begin_alike_each_fit_gets_its_own() -> None:
    """Proves that an exception whose text begins another one's is not taken for it where fits end side by side."""
    long, short = ValueError("no more than that"), ValueError("no more")

    def failing(error: ValueError) -> int:
        def fail(*_: object) -> None:
            raise error

        return _callback.register(fail)

    told = [_callback.call(failing(error), 1, [])[1] for error in (long, short)]
    assert [_callback.raised(f"fit_gbdt: parameter `callback`: {text}") for text in told] == [long, short]


def test_queries_within_callbacks_do_not_wait_for_ever() -> None:
    """A callback may fit and predict itself, on one thread of Polars and on several, also in groups side by side."""
    program = """
import polars as pl, polars_taiga as tg
df = pl.DataFrame({"x": range(200_000)}).with_columns(y=(pl.col("x") * 7919 % 1009).cast(pl.Float64), g=pl.col("x") % 5)
inner = df.taiga.fit_gbdt("y", "x", rounds=2)
def nested(done, metrics):
    assert df.select(tg.predict(inner, "x").sum()).item() > 0
    assert df.taiga.fit_gbdt("y", "x", rounds=2).to_bytes() == inner.to_bytes()
print(df.taiga.fit_gbdt("y", "x", rounds=3, callback=nested).rounds)
print(df.group_by("g").agg(tg.fit_gbdt("y", "x", rounds=2, callback=nested)).height)
print(df.group_by("g").agg(tg.fit_gbdt("y", "x", rounds=2, callback=nested, n_threads=2)).height)
"""
    for threads in ("1", "4"):
        env = {"POLARS_MAX_THREADS": threads, "PATH": "", "PYTHONPATH": ":".join(sys.path)}
        ran = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=300, check=False
        )
        assert ran.stdout.split() == ["3", "5", "5"], ran.stderr


def test_lines_of_rounds(capfd: pytest.CaptureFixture[str], df: pl.DataFrame) -> None:
    """Every so many rounds one, on standard error."""
    df.taiga.fit_gbdt("y", *FEATURES, rounds=7, eval="held", verbose=3, progress=False)
    lines = capfd.readouterr().err.splitlines()
    assert [line.rsplit(" ", 1)[0] for line in lines] == ["fit_gbdt rounds 3, rmse", "fit_gbdt rounds 6, rmse"]
    for quiet in (False, 0, -1):
        df.taiga.fit_gbdt("y", *FEATURES, rounds=3, verbose=quiet)
    assert capfd.readouterr().err == ""
    with pytest.raises(TypeError, match="parameter `verbose`: 'yes' is no number of rounds"):
        tg.fit_gbdt("y", *FEATURES, verbose="yes")  # type: ignore[arg-type]


def test_min_delta_stops_sooner(df: pl.DataFrame) -> None:
    """A round that is better by less than it does not count as better; the kept round is the last that does."""
    how: dict[str, Any] = {"eval": "held", "early_stopping": 4, "rounds": 300}
    far, near = (
        df.taiga.fit_gbdt("y", *FEATURES, **how),
        df.taiga.fit_gbdt("y", *FEATURES, early_stopping_min_delta=0.01, **how),
    )
    assert near.rounds < far.rounds
    values = near.history["rmse"].to_list()
    best, kept = values[0], 0
    for i, value in enumerate(values):
        if value < best - 0.01:
            best, kept = value, i
    assert (near.rounds, len(values)) == (kept + 1, kept + 5)
    assert tg.Model(near.to_bytes()).params["early_stopping_min_delta"] == 0.01
    with pytest.raises(ValueError, match=r"early_stopping_min_delta.*counts only beside"):
        tg.fit_gbdt("y", *FEATURES, eval="held", early_stopping_min_delta=0.01)


KILLED = """
import sys
import polars as pl, polars_taiga as tg
df = pl.DataFrame({"x": range(30_000)}).with_columns(
    y=(pl.col("x") * 7919 % 1009).cast(pl.Float64), s=pl.format("s{}", pl.col("x") % 50), held=pl.col("x") % 7 == 0
)
def tell(done, metrics):
    print(done, flush=True)
    sys.stdin.readline()
model = df.taiga.fit_gbdt(
    "y", "x", "s", rounds=200, eval="held", row_sample="bernoulli",
    snapshot=sys.argv[1] or None, snapshot_every=3, callback=tell,
)
model.save(sys.argv[2])
"""


def test_a_fit_that_is_killed_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    """Killed at 20 random moments; with ordered statistics of categories, a sample of rows and held-out rows."""
    whole, resumed, file = tmp_path / "whole", tmp_path / "resumed", tmp_path / "fit.snapshot"

    def to_the_end(snapshot: str, model: Path) -> int:
        run = [sys.executable, "-c", KILLED, snapshot, str(model)]
        done = subprocess.run(run, check=True, capture_output=True, stdin=subprocess.DEVNULL, text=True)
        return int(done.stdout.split()[0])

    assert to_the_end("", whole) == 1
    dice, began = random.Random(5), []
    for _ in range(20):
        run = [sys.executable, "-c", KILLED, str(file), str(resumed)]
        child = subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert child.stdin is not None
        assert child.stdout is not None
        began.append(int(child.stdout.readline()))
        # It goes through so many more rounds at most, and is killed while it does.
        child.stdin.write("\n" * dice.randint(2, 9))
        child.stdin.flush()
        time.sleep(dice.random() * 0.03)
        child.kill()
        child.communicate()
    began.append(to_the_end(str(file), resumed))
    assert began == sorted(began)
    assert 1 < began[-1] < 200
    assert resumed.read_bytes() == whole.read_bytes()


KILLED_ONCE_MORE = """
import sys
import polars as pl, polars_taiga as tg
rows = pl.int_range(20_000, eager=True)
df = pl.DataFrame({"x": rows, "z": rows * 7919 % 1013}).with_columns(
    y=(pl.col("x") * 31 % 1009).cast(pl.Float64), k=pl.col("z") % 3, held=pl.col("x") % 7 == 0,
    s=pl.format("s{}", pl.col("x") % 50), words=pl.concat_list(pl.col("x") % 997, pl.col("z") % 500),
    w=1.0 + pl.col("x") % 3,
)
way, snapshot, every, file = sys.argv[1:]
kept = {"snapshot": snapshot, "snapshot_every": int(every)} if snapshot else {}
more = {
    "forest": lambda: {"trees": 40, "weight": "w", "permutation_importance": True},
    "exact": lambda: {"trees": 24, "splitter": "exact", "criterion": "gini"},
    "lbfgs": lambda: {"epochs": 120, "tolerance": 0.0, "l2": 1e-9, "eval": "held", "early_stopping": 110},
    "lbfgs, l1": lambda: {"epochs": 60, "tolerance": 0.0, "l1": 1e-6},
    "sgd": lambda: {"epochs": 40, "optimizer": "sgd"},
    "adagrad": lambda: {"epochs": 40, "optimizer": "adagrad", "eval": "held", "batch": 64},
    "ftrl": lambda: {"epochs": 40, "optimizer": "ftrl", "batch": 64, "l1": 1e-6},
}[way]()
print("begins", flush=True)
if way == "forest":
    model = df.taiga.fit_forest("y", "x", "z", "s", **more, **kept)
elif way == "exact":
    model = df.taiga.fit_forest("k", "x", "z", **more, **kept)
else:
    model = df.taiga.fit_sparse_lr("k", "words", dense=pl.col("w"), **more, **kept)
model.save(file)
"""


@pytest.mark.parametrize("way", ["forest", "exact", "lbfgs", "lbfgs, l1", "sgd", "adagrad", "ftrl"])
def test_other_learners_that_are_killed_go_on_to_the_same_bytes(way: str, tmp_path: Path) -> None:
    """Killed at random moments behind a snapshot, however often that is taken."""
    whole, resumed, kept = tmp_path / "whole", tmp_path / "resumed", tmp_path / "fit.snapshot"
    run = [sys.executable, "-c", KILLED_ONCE_MORE, way]
    subprocess.run([*run, "", "1", str(whole)], check=True, capture_output=True)
    dice, killed = random.Random(way), 0
    for _ in range(6):
        seen = kept.stat().st_ino if kept.exists() else None
        child = subprocess.Popen(
            [*run, str(kept), str(dice.randint(1, 3)), str(resumed)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "begins\n"
        until = time.monotonic() + 60
        while child.poll() is None and time.monotonic() < until:
            if kept.exists() and kept.stat().st_ino != seen:
                time.sleep(dice.random() * 0.05)
                break
            time.sleep(0.001)
        killed += child.poll() is None
        child.kill()
        child.communicate()
    assert killed > 1
    assert not resumed.exists() or resumed.read_bytes() == whole.read_bytes()
    subprocess.run([*run, str(kept), "2", str(resumed)], check=True, capture_output=True)
    assert resumed.read_bytes() == whole.read_bytes()


def test_snapshots_of_other_learners_are_of_one_fit(df: pl.DataFrame, tmp_path: Path) -> None:
    """Of the rows, the parameters and the learner; a longer fit goes on from them, and each fit needs its own."""
    file = tmp_path / "fit.snapshot"
    words = df.with_columns(words=pl.concat_list("group", pl.col("group") + 20))
    calls: list[tuple[str, Callable[..., tg.Model], dict[str, Any], dict[str, Any]]] = [
        ("trees", lambda table, **p: table.taiga.fit_forest("y", *FEATURES, **p), {"trees": 7}, {"depth": 3}),
        ("passes", lambda table, **p: table.taiga.fit_sparse_lr("flag", "words", **p), {"epochs": 7}, {"l2": 2.0}),
    ]
    for noun, fit, length, other in calls:
        file.unlink(missing_ok=True)
        kept: dict[str, Any] = {"snapshot": file, "snapshot_every": 3}
        (name, most) = next(iter(length.items()))
        assert fit(words, **length, **kept).to_bytes() == fit(words, **length).to_bytes()
        assert file.exists()
        longer = {name: most + 4}
        assert fit(words, **longer, **kept).to_bytes() == fit(words, **longer).to_bytes()
        for table, params in ((words[1:], {}), (words, other)):
            with pytest.raises(
                pl.exceptions.ComputeError,
                match="parameter `snapshot`: it is of a fit of other rows, or with other parameters",
            ):
                fit(table, **length, **kept, **params)
        with pytest.raises(pl.exceptions.ComputeError, match=f"it has [0-9]+ {noun}, and this fit has 1"):
            fit(words, **{name: 1}, **kept)
        with pytest.raises(pl.exceptions.ComputeError, match=r"parameter `snapshot`: .* not a snapshot of a fit of"):
            words.taiga.fit_gbdt("y", *FEATURES, snapshot=file)
        file.write_bytes(file.read_bytes()[:-9])
        with pytest.raises(pl.exceptions.ComputeError, match="parameter `snapshot`: the value is cut"):
            fit(words, **length, **kept)
        with pytest.raises(ValueError, match="parameter `snapshot_every`: 0 is not between 1 and"):
            fit(words, snapshot=file, snapshot_every=0)


def test_a_snapshot_is_of_one_fit(df: pl.DataFrame, tmp_path: Path) -> None:
    """Of the rows and the parameters; a longer fit goes on from it."""
    file = tmp_path / "fit.snapshot"
    whole = df.taiga.fit_gbdt("y", *FEATURES, rounds=20)
    assert df.taiga.fit_gbdt("y", *FEATURES, rounds=20, snapshot=file, snapshot_every=6).to_bytes() == whole.to_bytes()
    seen: list[int] = []
    longer = df.taiga.fit_gbdt(
        "y", *FEATURES, rounds=25, snapshot=str(file), callback=lambda done, _: seen.append(done)
    )
    assert longer.to_bytes() == df.taiga.fit_gbdt("y", *FEATURES, rounds=25).to_bytes()
    assert seen[0] == 19
    for table, params in ((df[1:], {}), (df, {"l2": 2.0}), (df, {"init_model": whole})):
        with pytest.raises(
            pl.exceptions.ComputeError,
            match="parameter `snapshot`: it is of a fit of other rows, or with other parameters",
        ):
            table.taiga.fit_gbdt("y", *FEATURES, rounds=25, snapshot=file, **params)
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(pl.exceptions.ComputeError, match="parameter `snapshot`: the value is cut"):
        df.taiga.fit_gbdt("y", *FEATURES, snapshot=file)
    with pytest.raises(pl.exceptions.ComputeError, match=r"parameter `snapshot`: .* can't be (read|written)"):
        df.taiga.fit_gbdt("y", *FEATURES, snapshot=tmp_path, snapshot_every=1)
    with pytest.raises(ValueError, match="parameter `snapshot_every`: 0 is not between 1 and"):
        tg.fit_gbdt("y", *FEATURES, snapshot=file, snapshot_every=0)


def test_a_snapshot_is_one_file_however_its_path_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves that a fit which is under way has its file to itself, by another path and by a link too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    df = pl.DataFrame({"x": [float(i % 7) for i in range(60)], "y": [float(i % 5) for i in range(60)]})
    said: list[str] = []

    def callback(done: int, measured: dict[str, float]) -> None:
        for path in ("./s.snapshot", str(tmp_path / "s.snapshot"), "link/s.snapshot"):
            try:
                df.taiga.fit_gbdt("y", "x", rounds=1, snapshot=path)
            except pl.exceptions.ComputeError as error:
                said.append(str(error))

    df.taiga.fit_gbdt("y", "x", rounds=1, snapshot="s.snapshot", callback=callback)
    assert len(said) == 3
    assert all("another fit keeps its state in" in text for text in said), said

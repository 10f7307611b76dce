"""Fits of rows that have keys: the same bytes whatever order the rows come in; and receipts of what was fitted."""

from __future__ import annotations

import base64
import datetime
import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.collective_worker import fitted
from tests.test_collective import FITS as TOGETHER
from tests.test_collective import Workers, common, errors_of
from tests.test_collective import table as table_of_all_types

ROWS = 1_500
NUMBERS = ["a", "b", "c", "day", "big"]
CATEGORIES = ["city", "kind", "level"]


def table(rows: int = ROWS, seed: int = 7) -> pl.DataFrame:
    """Numbers of several types with nulls and NaN, categories, lists, targets, weights, groups and times."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    score = x[:, 0] + np.sin(2 * x[:, 1]) + 0.3 * rng.normal(size=rows)
    kind = np.where(score > 1, "high", np.where(score < -1, "low", "middle"))
    words = [[f"w{i}" for i in rng.integers(0, 30, rng.integers(0, 6))] for _ in range(rows)]
    return pl.DataFrame(
        {
            "id": rng.permutation(rows * 3)[:rows],
            "a": x[:, 0].astype(np.float32),
            "b": pl.Series(x[:, 1]).set(pl.Series(rng.random(rows) < 0.1), None),
            "c": pl.Series((x[:, 2] * 4).astype(np.int16)),
            "day": pl.Series(rng.integers(0, 400, rows)).cast(pl.Int32).cast(pl.Date),
            "big": pl.Series(rng.integers(0, 2**63, rows, dtype=np.uint64) * np.uint64(2)),
            "city": [f"city {i}" for i in rng.integers(0, 40, rows)],
            "kind": pl.Series(rng.choice(["oak", "fir", "elm"], rows)).cast(pl.Categorical),
            "level": pl.Series(kind).cast(pl.Enum(["low", "middle", "high"])),
            "words": words,
            "counts": [[float(len(word)) for word in row] for row in words],
            "y": score,
            "yes": score > 0,
            "class": kind,
            "time": np.exp(score),
            "seen": rng.random(rows) < 0.7,
            "w": rng.integers(0, 4, rows).astype(np.float64),
            "set": pl.Series([("first", "second", None, None)[i] for i in rng.integers(0, 4, rows)], dtype=pl.String),
            "held": rng.random(rows) < 0.25,
            "query": rng.integers(0, 60, rows),
            "relevance": np.clip(score.round(), 0, 3),
        }
    ).with_columns(b=pl.when(pl.int_range(pl.len()) % 11 == 5).then(float("nan")).otherwise("b"))


def shuffled(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The rows in another order, in chunks of uneven sizes."""
    rng = random.Random(seed)
    frame = frame.sample(fraction=1, shuffle=True, seed=seed)
    ends = sorted(rng.sample(range(frame.height), k=min(3, frame.height)))
    parts = [frame[a:b] for a, b in zip([0, *ends], [*ends, frame.height], strict=True)]
    return pl.concat([part for part in parts if part.height] or [frame], rechunk=False)


Fit = Callable[[pl.DataFrame], tg.Model]

FITS: dict[str, tuple[Callable[..., pl.Expr], tuple[Any, ...], dict[str, Any]]] = {
    "numbers": (tg.fit_gbdt, ("y", *NUMBERS), {"rounds": 6}),
    "categories": (tg.fit_gbdt, ("y", *NUMBERS, *CATEGORIES), {"rounds": 6, "weight": "w"}),
    "ordered": (tg.fit_gbdt, ("y", "a", *CATEGORIES), {"rounds": 5, "order_by": pl.col("c") % 7, "eval": "held"}),
    "steps": (tg.fit_gbdt, ("class", *NUMBERS, "city"), {"rounds": 3, "leaf_iterations": 3, "row_sample": "mvs"}),
    "in order": (tg.fit_gbdt, ("class", *NUMBERS, "city"), {"rounds": 3, "boosting": "ordered", "row_sample": "goss"}),
    "classes": (tg.fit_gbdt, ("class", *NUMBERS, "city"), {"rounds": 4, "policy": "leafwise", "max_combination": 1}),
    "subsets": (
        tg.fit_gbdt,
        ("yes", "a", *CATEGORIES),
        {"rounds": 5, "policy": "depthwise", "cat_method": "partition"},
    ),
    "goss": (tg.fit_gbdt, ("y", *NUMBERS), {"rounds": 6, "row_sample": "goss", "policy": "depthwise"}),
    "mvs": (tg.fit_gbdt, ("yes", *NUMBERS), {"rounds": 6, "row_sample": "mvs", "feature_fraction": 0.5}),
    "bernoulli": (tg.fit_gbdt, ("y", *NUMBERS), {"rounds": 6, "row_sample": "bernoulli", "loss": "mae"}),
    "quantiles": (tg.fit_gbdt, ("y", *NUMBERS), {"rounds": 4, "loss": "quantile", "alpha": [0.1, 0.9]}),
    "linear leaves": (tg.fit_gbdt, ("y", *NUMBERS, "city"), {"rounds": 5, "leaf": "linear", "weight": "w"}),
    "linear classes": (
        tg.fit_gbdt,
        ("class", *NUMBERS),
        {"rounds": 3, "leaf": "linear", "linear_l2": 0.5, "policy": "leafwise", "eval": "held"},
    ),
    "held out": (
        tg.fit_gbdt,
        ("yes", *NUMBERS, "city"),
        {"rounds": 30, "eval": "held", "metric": ["auc", "logloss"], "early_stopping": 3},
    ),
    "sets": (tg.fit_gbdt, ("y", *NUMBERS), {"rounds": 6, "eval": "set", "eval_train": True}),
    "untold rounds": (tg.fit_gbdt, ("y", *NUMBERS), {}),
    "ranking": (
        tg.fit_gbdt,
        ("relevance", *NUMBERS),
        {"rounds": 4, "loss": "yetirank", "group": "query", "position": pl.col("c").abs()},
    ),
    "survival": (tg.fit_gbdt, ("time", *NUMBERS), {"rounds": 4, "loss": "cox", "event": "seen", "group": "kind"}),
    "several targets": (
        tg.fit_gbdt,
        (pl.struct("y", "time").alias("both"), *NUMBERS),
        {"rounds": 4, "baseline": [pl.col("a") * 2, "c"]},
    ),
    "labels": (tg.fit_gbdt, ("words", *NUMBERS), {"rounds": 3}),
    "computed": (
        tg.fit_gbdt,
        ("y", pl.struct("a", "b").alias("s"), (pl.col("c") * 2).alias("c2"), pl.col("query")),
        {"rounds": 4, "categorical": ["query"]},
    ),
    "own loss": (tg.fit_gbdt, ("y", *NUMBERS), {"rounds": 4, "loss": tg.loss(lambda y, f: (y - f) ** 2 * (1 + y * y))}),
    "forest": (tg.fit_forest, ("class", *NUMBERS, *CATEGORIES), {"trees": 6, "weight": "w"}),
    "extra trees": (tg.fit_forest, ("y", *NUMBERS), {"trees": 5, "splitter": "random", "bootstrap": False}),
    "exact forest": (tg.fit_forest, ("y", *NUMBERS), {"trees": 4, "splitter": "exact", "permutation_importance": True}),
    "sparse": (tg.fit_sparse_lr, ("yes", "words", "counts"), {"weight": "w", "eval": "held"}),
    "sgd": (tg.fit_sparse_lr, ("class", "words"), {"optimizer": "sgd", "dense": ["a", "c"]}),
}


def fit_of(name: str, **more: Any) -> Fit:
    """The fit of a name, with keys."""
    fit, columns, params = FITS[name]
    return lambda frame: tg.Model(frame.select(fit(*columns, row_key="id", **{**params, **more})).item())


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    """The table."""
    return table()


@pytest.mark.parametrize("name", FITS)
def test_rows_may_come_in_any_order(frame: pl.DataFrame, name: str) -> None:
    """Shuffles, chunks, threads: equal bytes; without keys there are others. The receipt is that of rows at hand."""
    fit, columns, params = FITS[name]
    model = fit_of(name)(frame)
    receipt = tg.receipt(fit, *columns, row_key="id", **params)
    assert model.receipt == frame.select(receipt).item()
    for seed in range(3):
        other = shuffled(frame, seed)
        assert fit_of(name, n_threads=1 + seed)(other).to_bytes() == model.to_bytes()
        assert other.select(receipt).item() == model.receipt
    bare = frame.select(fit(*columns, **params)).item()
    assert tg.Model(bare).receipt is None
    assert bare != model.to_bytes()


def test_the_model_is_that_of_the_rows_in_the_keys_order(frame: pl.DataFrame) -> None:
    """But for its receipt: it is the ordinary fit of rows that someone else has sorted."""
    ordered = frame.sort(tg.row_key_order("id"))
    assert ordered.select(tg.row_key_order("id")).to_series().to_list() == list(range(ROWS))
    for name in ("categories", "forest", "sparse"):
        fit, columns, params = FITS[name]
        bare = tg.Model(ordered.select(fit(*columns, **params)).item())
        keyed = fit_of(name)(frame)
        assert keyed.to_json().replace(f',"receipt":"{keyed.receipt}"', "") == bare.to_json().replace(
            f'"version":{int.from_bytes(bare.to_bytes()[8:12], "little")}',
            f'"version":{int.from_bytes(keyed.to_bytes()[8:12], "little")}',
        )


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_random_fits(data: st.DataObject) -> None:
    """Configurations at random, of few rows and more: equal bytes of a table and of its shuffle."""
    draw = data.draw
    frame = table(draw(st.sampled_from([3, 17, 200, 1_200])), seed=draw(st.integers(0, 50)))
    params: dict[str, Any] = {
        "rounds": draw(st.integers(1, 5)),
        "policy": draw(st.sampled_from(["symmetric", "depthwise", "leafwise"])),
        "row_sample": draw(st.sampled_from(["none", "bernoulli", "goss", "mvs", "bayesian"])),
        "loss": draw(st.sampled_from(["rmse", "mae", "huber", "quantile", "expectile"])),
        "bins": draw(st.sampled_from([4, 64, 255])),
        "border_sample": draw(st.sampled_from([50, 200_000])),
        "border_method": draw(st.sampled_from(["quantile", "greedy_logsum"])),
        "cat_method": draw(st.sampled_from(["ctr", "one_hot"])),
        "permutations": draw(st.integers(1, 3)),
        "max_combination": draw(st.integers(1, 2)),
        "feature_fraction": draw(st.sampled_from([1.0, 0.5])),
        "extra_trees": draw(st.booleans()),
        "random_strength": draw(st.sampled_from([None, 1.0])),
        "path_smooth": draw(st.sampled_from([None, 3.0])),
        "max_delta_step": draw(st.sampled_from([None, 0.4])),
        "weight": draw(st.sampled_from([None, pl.col("w") + 1])),
        "eval": draw(st.sampled_from([None, "held"])),
        "seed": draw(st.integers(0, 3)),
        "on_error": "null",
    }
    if params["loss"] not in ("mae", "quantile"):
        params["leaf_iterations"] = draw(st.sampled_from([None, 3]))
    params["boosting"] = draw(st.sampled_from([None, "ordered"]))
    if params["cat_method"] == "ctr" and params["permutations"] != 2:
        params["order_by"] = draw(st.sampled_from([None, "c", "a"]))
    features = draw(st.lists(st.sampled_from(NUMBERS + CATEGORIES), min_size=1, max_size=6, unique=True))
    expr = tg.fit_gbdt("y", *features, row_key="id", **params)
    value = frame.select(expr).item()
    for seed in range(2):
        assert shuffled(frame, seed).select(expr).item() == value


def test_behind_a_streaming_join() -> None:
    """20 runs of a query whose join and group_by give rows in any order: one model."""
    frame = table(60_000)
    left, right = frame.select("id", *NUMBERS, "city"), frame.select("id", "y")
    query = (
        pl.concat([left[k::7].lazy() for k in range(7)])
        .join(right.lazy(), on="id")
        .group_by("id", maintain_order=False)
        .agg(pl.all().first())
        .select(tg.fit_gbdt("y", *NUMBERS, "city", rounds=3, row_key="id"))
    )
    models = {query.collect(engine="streaming").item() for _ in range(20)}
    assert len(models) == 1
    assert models == {frame.select(tg.fit_gbdt("y", *NUMBERS, "city", rounds=3, row_key="id")).item()}


def test_in_groups(frame: pl.DataFrame) -> None:
    """A model for each group, of the keys of its rows, which other groups may have too."""
    frame = frame.with_columns(id=pl.int_range(pl.len()).over("kind"))
    expr = tg.fit_gbdt("y", *NUMBERS, rounds=3, row_key="id")
    models = frame.group_by("kind").agg(model=expr).sort(pl.col("kind").cast(pl.String))["model"].to_list()
    again = shuffled(frame, 1).group_by("kind").agg(model=expr).sort(pl.col("kind").cast(pl.String))["model"].to_list()
    assert models == again
    one = frame.filter(pl.col("kind") == "elm").select(expr).item()
    assert one == models[0]
    rows = frame.with_columns(model=expr.over("kind"))
    assert set(rows["model"].to_list()) == set(models)


@pytest.mark.parametrize("folds", [{"folds": 3}, {"folds": "group", "n_folds": 3, "group": "query"}, {"folds": "city"}])
def test_folds(frame: pl.DataFrame, folds: dict[str, Any]) -> None:
    """Predictions come back in the order of the frame, and are each row's own whatever that is."""
    frame = frame.with_columns(city=pl.col("query") % 3)
    call = {"rounds": 4, "row_key": "id", **folds}
    predicted = frame.with_columns(p=tg.cross_val_predict("y", *NUMBERS, **call))
    fitted = frame.with_columns(tg.fit_folds("y", *NUMBERS, **call)).unnest("folds")
    by_hand = fitted.with_columns(q=tg.predict("model", *NUMBERS))
    assert by_hand["q"].equals(predicted["p"])
    assert tg.Model(fitted["model"][0]).receipt is None
    other = shuffled(frame, 3).with_columns(p=tg.cross_val_predict("y", *NUMBERS, **call))
    assert other.sort("id")["p"].equals(predicted.sort("id")["p"])
    measured = [
        f.taiga.cross_validate("y", *NUMBERS, metric=["rmse", "mae"], **call) for f in (frame, shuffled(frame, 4))
    ]
    assert measured[0].equals(measured[1])
    found = [f.taiga.search("y", *NUMBERS, space={"depth": [2, 4]}, **call) for f in (frame, shuffled(frame, 5))]
    assert found[0].equals(found[1])
    if isinstance(folds["folds"], int):
        rows = fitted.filter(pl.col("fold") == 1)
        assert rows["model"].n_unique() == 1


def test_folds_by_time_need_a_time(frame: pl.DataFrame) -> None:
    expr = tg.fit_folds("y", "a", folds="time", n_folds=3, row_key="id", rounds=2)
    with pytest.raises(pl.exceptions.ComputeError, match='parameter `fold_by`: folds="time" beside `row_key` needs'):
        frame.select(expr)
    expr = tg.fit_folds("y", "a", folds="time", n_folds=3, fold_by="day", row_key="id", rounds=2)
    one, other = (f.with_columns(expr).sort("id")["folds"] for f in (frame, shuffled(frame, 1)))
    assert one.equals(other)


def test_fits_that_go_on(frame: pl.DataFrame, tmp_path: Path) -> None:
    """`init_model` and `snapshot` beside keys: the rounds of one fit, whatever order the rows come in meanwhile."""
    whole = fit_of("goss")(frame)
    first = fit_of("goss", rounds=4)(shuffled(frame, 1))
    both = fit_of("goss", rounds=2, init_model=first)(shuffled(frame, 2))
    assert both.trees().equals(whole.trees())
    assert both.receipt not in (whole.receipt, first.receipt, None)
    assert both.receipt == frame.taiga.receipt(
        tg.fit_gbdt, "y", *NUMBERS, row_key="id", row_sample="goss", policy="depthwise", rounds=2, init_model=first
    )
    file = tmp_path / "state"
    kept = fit_of("goss", rounds=4, snapshot=file, snapshot_every=2)(frame)
    assert kept == first
    assert fit_of("goss", snapshot=file, snapshot_every=2)(shuffled(frame, 3)) == whole


KEYS: dict[str, pl.Expr] = {
    "Int8": pl.col("n").cast(pl.Int8),
    "Int16": pl.col("n").cast(pl.Int16),
    "Int32": pl.col("n").cast(pl.Int32),
    "Int64": pl.col("n"),
    # What Polars 1.0 has no such type for.
    **({"Int128": pl.col("n").cast(pl.Int128)} if hasattr(pl, "Int128") else {}),
    "UInt8": pl.col("n").cast(pl.UInt8),
    "UInt64": pl.col("n").cast(pl.UInt64),
    "Float32": pl.col("n").cast(pl.Float32),
    "Float64": pl.col("n").cast(pl.Float64),
    "Decimal": pl.col("n").cast(pl.Decimal(20, 3)),
    "halves": pl.col("n") / 2,
    "String": pl.col("n").cast(pl.String),
    "Categorical": pl.col("n").cast(pl.String).cast(pl.Categorical),
    "Enum": pl.col("n").cast(pl.String).cast(pl.Enum([str(i) for i in range(100)])),
    "Binary": pl.col("n").cast(pl.String).cast(pl.Binary),
    "Date": pl.col("n").cast(pl.Int32).cast(pl.Date),
    "Time": (pl.col("n") * 10**9).cast(pl.Time),
    "Datetime": pl.lit(datetime.datetime(2026, 11, 25)) + pl.duration(milliseconds=pl.col("n")),
    "Datetime in ns": (
        pl.lit(datetime.datetime(2026, 11, 25)) + pl.duration(milliseconds=pl.col("n"))
    ).dt.cast_time_unit("ns"),
    "Duration": pl.duration(milliseconds=pl.col("n")),
    "large": pl.col("n").cast(pl.UInt64) + 2**63,
    "pairs": pl.struct(pl.col("n") // 10, (pl.col("n") % 10).cast(pl.String).alias("last")),
}
SAME = [
    ("Int8", "Int16", "Int32", "Int64", *KEYS.keys() & {"Int128"}, "UInt8", "UInt64", "Float32", "Float64", "Decimal"),
    ("String", "Categorical", "Enum"),
    ("Datetime", "Datetime in ns"),
]


def test_types_of_keys() -> None:
    """Each orders the rows in its way; the same values are the same keys in any type, for the receipt too."""
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"n": range(90), "a": rng.normal(size=90), "y": rng.normal(size=90)})
    fits = {
        name: tg.fit_gbdt("y", "a", rounds=4, min_data_in_leaf=2, row_sample="bernoulli", row_key=key.alias("key"))
        for name, key in KEYS.items()
    }
    models = {name: frame.select(fit).item() for name, fit in fits.items()}
    for name, fit in fits.items():
        assert shuffled(frame, 1).select(fit).item() == models[name], name
    for names in SAME:
        assert len({models[name] for name in names}) == 1, names
    assert len(set(models.values())) == len(KEYS) - sum(len(names) - 1 for names in SAME)
    # Several columns, in this order.
    pair = tg.fit_gbdt("y", "a", rounds=4, min_data_in_leaf=2, row_sample="bernoulli", row_key=["tens", "ones"])
    split = frame.with_columns(tens=pl.col("n") // 10, ones=pl.col("n") % 10)
    assert split.select(pair).item() == shuffled(split, 1).select(pair).item()


N = pl.col("n")
BAD_KEYS: dict[str, tuple[Any, str]] = {
    "pairs": (
        N // 2,
        r"column `n`: a `row_key` is another in each row, but \d+ is that of 2 rows, and 44 other keys occur more than",
    ),
    "one": (pl.when(N != 7).then(N).otherwise(8).alias("k"), r"column `k`: .* but 8 is that of 2 rows"),
    "two columns": (
        [pl.lit(1).alias("i"), pl.when(N != 7).then(N.cast(pl.String)).otherwise(pl.lit("8")).alias("t")],
        r'columns `i`, `t`: .* but \(1, "8"\) is that of 2 rows',
    ),
    "null": (
        pl.when(N > 2).then(N).alias("k"),
        "column `k`: it is null in 3 of 90 rows, and a `row_key` tells rows apart",
    ),
    "NaN": (
        pl.when(N > 2).then(N.cast(float)).otherwise(float("nan")).alias("k"),
        "column `k`: it is NaN in 3 of 90 rows",
    ),
    "zeros": (
        pl.when(N > 1).then(N.cast(float)).when(N == 0).then(-0.0).otherwise(0.0).alias("k"),
        "0.0 is that of 2 rows",
    ),
}


@pytest.mark.parametrize("bad", BAD_KEYS)
def test_keys_that_tell_no_rows_apart(bad: str) -> None:
    """They are errors of the rows: of one group among many they are null where that is asked for."""
    key, text = BAD_KEYS[bad]
    frame = pl.DataFrame({"n": range(90), "a": range(90), "y": range(90)})
    for fit in (
        tg.fit_gbdt("y", "a", row_key=key, rounds=2),
        tg.fit_forest("y", "a", row_key=key),
        tg.fit_folds("y", "a", row_key=key, rounds=2),
        tg.cross_validate("y", "a", row_key=key, rounds=2),
        tg.receipt(tg.fit_gbdt, "y", "a", row_key=key, rounds=2),
        tg.row_key_order(key),
    ):
        with pytest.raises(pl.exceptions.ComputeError, match=text):
            frame.select(fit)
    assert frame.select(tg.fit_gbdt("y", "a", row_key=key, rounds=2, on_error="null")).item() is None


def test_what_is_no_key() -> None:
    frame = pl.DataFrame({"n": [[1], [2]], "a": [1, 2], "y": [1, 2]})
    with pytest.raises(pl.exceptions.SchemaError, match=r"column `n`: its type is list.i64.; a `row_key` is a number"):
        frame.taiga.fit_gbdt("y", "a", row_key="n")
    with pytest.raises(pl.exceptions.ComputeError, match="column `n`: its type is list"):
        frame.lazy().select(tg.fit_forest("y", "a", row_key="n")).collect_schema()
    with pytest.raises(TypeError, match="`row_key` is a column's name"):
        tg.fit_gbdt("y", "a", row_key=3)  # type: ignore[arg-type]


def test_a_key_is_no_feature_unless_it_is_named(frame: pl.DataFrame) -> None:
    model = frame.taiga.fit_gbdt("y", "a", row_key="id", rounds=2)
    assert list(model.features) == ["a"]
    both = frame.taiga.fit_gbdt("y", "a", "id", row_key=["id"], rounds=2)
    assert list(both.features) == ["a", "id"]
    assert frame.drop("id").with_columns(p=tg.predict(model)).height == ROWS


def test_out_of_bag_predictions_come_in_the_order_of_the_keys(frame: pl.DataFrame) -> None:
    first, other = (fit_of("forest")(f).oob_predictions for f in (frame, shuffled(frame, 2)))
    assert first.equals(other)
    placed = frame.with_columns(place=tg.row_key_order("id")).sort("place").hstack(first)
    share = placed.filter(pl.col("w") > 0, pl.col("high").is_not_null())
    assert share.select(
        (pl.col("class") == "high").cast(float).mean() < pl.col("high").filter(pl.col("class") == "high").mean()
    ).item()


# Receipts.


def test_receipts_travel(frame: pl.DataFrame) -> None:
    """With the bytes, JSON, pickles and metadata; not with a part of a model, nor with one of no keys."""
    for name in ("categories", "forest", "sparse"):
        model = fit_of(name, metadata={"by": "ann"})(frame)
        assert model.receipt is not None
        assert len(model.receipt) == 64
        assert tg.Model.from_bytes(model.to_bytes()) == model
        assert tg.Model.from_json(model.to_json()).receipt == model.receipt
        assert pickle.loads(pickle.dumps(model)).receipt == model.receipt
        assert model.with_metadata(None) == fit_of(name)(frame)
        assert model.with_metadata(None).receipt == model.receipt
        if name != "sparse":
            assert model.head(2).receipt is None
    bad = fit_of("numbers")(frame)
    with pytest.raises(ValueError, match="its receipt is not 64 hexadecimal digits"):
        tg.Model.from_json(bad.to_json().replace(str(bad.receipt), "ab"))


def changed(frame: pl.DataFrame, column: str, row: int) -> pl.DataFrame:
    """The table with one value changed."""
    other = {
        "id": pl.lit(10**6),
        "b": pl.lit(0.125),
        "c": pl.col("c") + 1,
        "day": pl.col("day") + pl.duration(days=1),
        "city": pl.lit("elsewhere"),
        "level": pl.when(pl.col("level") == "low")
        .then(pl.lit("high"))
        .otherwise(pl.lit("low"))
        .cast(frame["level"].dtype),
        "y": pl.col("y") * (1 + 2**-52),
        "w": pl.col("w") + 1,
        "held": ~pl.col("held"),
    }[column]
    return frame.with_columns(pl.when(pl.int_range(pl.len()) == row).then(other).otherwise(column).alias(column))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_receipts_tell_rows_and_parameters_apart(data: st.DataObject) -> None:
    """Equal for the same rows however they come; another where one value, one row, a parameter, or a name is."""
    draw = data.draw
    frame = table(draw(st.sampled_from([1, 2, 30, 400])), seed=draw(st.integers(0, 20)))
    columns, params = (
        ("y", "b", "c", "day", "city", "level"),
        {"weight": "w", "eval": "held", "row_key": "id", "rounds": 5},
    )

    def of(rows: pl.DataFrame, names: tuple[str, ...] = columns, **more: Any) -> str:
        return rows.taiga.receipt(tg.fit_gbdt, *names, **{**params, **more})

    receipt = of(frame)
    assert of(shuffled(frame, draw(st.integers(0, 99)))) == receipt
    # What says nothing of the model, or says the same, or is not read.
    assert of(frame, n_threads=1, device="cpu", metadata={"a": 1}, policy="symmetric") == receipt
    assert of(frame.with_columns(a=0)) == receipt
    assert of(frame.with_columns(pl.col("b").fill_nan(None), pl.col("id", "c").cast(pl.Int32))) == receipt
    column = draw(st.sampled_from(["id", "b", "c", "day", "city", "level", "y", "w", "held"]))
    others = {
        "value": of(changed(frame, column, draw(st.integers(0, frame.height - 1)))),
        "row": of(frame.slice(1)),
        "row more": of(pl.concat([frame, frame.head(1).with_columns(id=pl.lit(10**6))], how="vertical_relaxed")),
        "parameter": of(
            frame, **draw(st.sampled_from([{"rounds": 6}, {"seed": 1}, {"policy": "depthwise"}, {"loss": "mae"}]))
        ),
        "order": of(frame, ("y", "c", "b", "day", "city", "level")),
        "feature": of(frame, columns[:-1]),
        "name": of(frame.rename({"c": "cc"}), ("y", "b", "cc", "day", "city", "level")),
        "role": of(frame, weight=None),
        "version": of(frame, version="0.0.1"),
        "learner": frame.taiga.receipt(tg.fit_forest, *columns, weight="w", row_key="id", trees=5),
    }
    assert receipt not in others.values()
    assert len(set(others.values())) == len(others), others


# Fits, and what holds in them where it is not told.
UNTOLD: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (tg.fit_gbdt, {"rounds": 5}, {"learning_rate": 0.1, "depth": 6, "l2": 1.0, "min_child_weight": 0.0, "bins": 255}),
    (tg.fit_gbdt, {"rounds": 5}, {"boosting": "gbdt", "leaf": "constant", "leaf_iterations": 1, "extra_trees": False}),
    (tg.fit_gbdt, {"rounds": 5}, {"random_strength": 0.0, "path_smooth": 0.0, "eval_train": False}),
    (tg.fit_gbdt, {"rounds": 5}, {"feature_weights": {}, "multi_strategy": "tree_each"}),
    (tg.fit_gbdt, {"rounds": 5, "policy": "leafwise"}, {"leaves": 31, "min_child_weight": 1.0}),
    (tg.fit_gbdt, {"rounds": 5, "row_sample": "goss"}, {"row_fraction": 0.3}),
    (tg.fit_gbdt, {"rounds": 5, "row_sample": "bayesian"}, {"bagging_temperature": 1.0}),
    (tg.fit_gbdt, {"rounds": 5, "boosting": "dart"}, {"drop_rate": 0.1, "max_drop": 50, "skip_drop": 0.5}),
    (tg.fit_gbdt, {"rounds": 5, "loss": "focal"}, {"focal_gamma": 2.0}),
    (tg.fit_forest, {"trees": 3}, {"oob": True, "bins": 255, "min_data_in_leaf": 1}),
    (tg.fit_sparse_lr, {"dense": "a"}, {"epochs": 100, "tolerance": 1e-4, "l1": 0.0, "optimizer": "lbfgs"}),
    (tg.fit_sparse_lr, {"dense": "a", "optimizer": "sgd"}, {"epochs": 5, "batch": 32, "learning_rate": 0.1}),
]


@pytest.mark.parametrize(("fit", "bare", "untold"), UNTOLD)
def test_receipts_are_of_values_told_or_not(
    frame: pl.DataFrame, fit: Any, bare: dict[str, Any], untold: dict[str, Any]
) -> None:
    """A parameter that is told as it would be anyway changes no receipt, of rows at hand and of the model."""
    columns = ("yes",) if fit is tg.fit_sparse_lr else ("yes", "a", "b")
    receipt = frame.taiga.receipt(fit, *columns, row_key="id", **bare)
    for told in [*({name: value} for name, value in untold.items()), untold]:
        assert frame.taiga.receipt(fit, *columns, row_key="id", **bare, **told) == receipt, told
    model = tg.Model(frame.select(fit(*columns, row_key="id", **bare, **untold)).item())
    assert model.receipt == receipt
    assert frame.taiga.receipt(fit, *columns, row_key="id", **bare, seed=1) != receipt


def test_what_is_found_in_the_table_is_not_what_is_told(frame: pl.DataFrame) -> None:
    """Where `rounds` or `huber_delta` are not told a fit finds them, and is another than one that is told of any."""
    huber: dict[str, Any] = {"loss": "huber"}
    receipts = [
        frame.taiga.receipt(tg.fit_gbdt, "y", "b", row_key="id", **told)
        for told in ({}, {"rounds": 1000}, huber, {**huber, "huber_delta": 1.0}, {"learning_rate": 0.1})
    ]
    assert len(set(receipts)) == len(receipts)


def test_what_receipts_are_asked_of(frame: pl.DataFrame) -> None:
    with pytest.raises(TypeError, match="parameter `fit`"):
        tg.receipt(tg.fit_folds, "y", "a", row_key="id")
    with pytest.raises(ValueError, match="parameter `collective`"):
        tg.receipt(tg.fit_gbdt, "y", "a", row_key="id", collective=object())
    with pytest.raises(ValueError, match="parameter `row_key`: it names no column"):
        tg.receipt(tg.fit_gbdt, "y", "a", row_key=[])
    with pytest.raises(pl.exceptions.ComputeError, match="a receipt is one of rows that have keys"):
        frame.select(tg.receipt(tg.fit_gbdt, "y", "a", row_key=None))  # type: ignore[arg-type]
    # What is asked of one call is asked of no other.
    assert frame.taiga.fit_gbdt("y", "a", rounds=1).rounds == 1


# Several processes.


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    """Processes that end with the test."""
    all_ = Workers(tmp_path, keyed())
    yield all_
    all_.end()


def keyed() -> pl.DataFrame:
    """The table of tests/test_collective.py in another order, with keys."""
    frame = table_of_all_types()
    return frame.with_columns(id=pl.int_range(pl.len()) * 7919 % 3001).sample(fraction=1, shuffle=True, seed=4)


@pytest.fixture(scope="module")
def whole() -> list[bytes]:
    """The models of one process that has all rows in yet another order."""
    frame = shuffled(keyed(), 9)
    return [fitted(frame, {**fit, "row_key": "id"}, None).to_bytes() for fit in TOGETHER]


@pytest.mark.parametrize(
    "ends", [[3_000], [1_700, 3_000], [0, 900, 3_000], [1, 1, 2_999, 3_000]], ids=lambda ends: f"{len(ends)} processes"
)
def test_rows_may_be_dealt_to_processes_in_any_way(workers: Workers, whole: list[bytes], ends: list[int]) -> None:
    """Shuffled rows in real processes: every one gets the model of one process, its receipt included, fit after fit."""
    given = common(len(ends))
    fits = [{**fit, "row_key": "id"} for fit in TOGETHER]
    for rank, rows in enumerate(zip([0, *ends], ends, strict=False)):
        workers.start(rank, rows, fits, **given)
    for process in workers.started:
        process.wait(timeout=200)
    for rank in range(len(ends)):
        told = workers.told(rank)
        assert [one.get("error") for one in told] == [None] * len(fits)
        for fit, one, expected in zip(fits, told, whole, strict=True):
            assert base64.b64decode(one["model"]) == expected, fit


def test_keys_in_two_processes_are_an_error(tmp_path: Path) -> None:
    """It names the key and the ranks, in all of them; and so does a null."""
    frame = keyed()
    frame = frame.with_columns(id=pl.when(pl.int_range(pl.len()) == 2_900).then(frame["id"][10]).otherwise("id"))
    frame = frame.with_columns(some=pl.when(pl.int_range(pl.len()) != 5).then("id"))
    all_ = Workers(tmp_path, frame)
    fit = {"target": "y", "features": ["a"], "rounds": 2}
    try:
        for key, text in (
            ("id", "in the rows of ranks 0 and 2"),
            ("some", "column `some`: it is null in 1 of 1000 rows"),
        ):
            given = common(3)
            for rank in range(3):
                all_.start(rank, (1_000 * rank, 1_000 * rank + 1_000), [{**fit, "row_key": key}], **given)
            for error in errors_of(all_, 3):
                assert text in error, error
            all_.started.clear()
        assert f"{frame['id'][10]} is that of 2 rows" in errors_of_id(all_, fit)
    finally:
        all_.end()


def errors_of_id(workers: Workers, fit: dict[str, Any]) -> str:
    """What one process says of the same rows."""
    with pytest.raises(pl.exceptions.ComputeError) as error:
        fitted(pl.read_ipc(workers.file), {**fit, "row_key": "id"}, None)
    return str(error.value)


MOMENTS = {
    "2019-12-31 15:00:00 UTC": pl.Series(["2020-01-01"] * 2).str.to_datetime().dt.replace_time_zone("Asia/Tokyo"),
    "2020-01-01": pl.Series(["2020-01-01"] * 2).str.to_date(),
    "day 2147483647 since 1970": pl.Series([2**31 - 1] * 2, dtype=pl.Int32).cast(pl.Date),
    "9223372036854775807 ms since 1970": pl.Series([2**63 - 1] * 2).cast(pl.Datetime("ms")),
}


@pytest.mark.parametrize("shown", MOMENTS)
def test_keys_of_any_moment_are_named(shown: str) -> None:
    """Proves that errors show moments: those with a zone in UTC, those beyond the calendar by their numbers."""
    df = pl.DataFrame({"t": MOMENTS[shown], "x": [1.0, 2.0], "y": [1.0, 2.0], "b": [1, 1]})
    for query in (tg.row_key_order("t"), tg.fit_gbdt("y", "x", rounds=1, row_key="t")):
        with pytest.raises(pl.exceptions.ComputeError, match=f"column `t`: .* but {shown} is that of 2 rows"):
            df.select(query)
    with pytest.raises(pl.exceptions.ComputeError, match=rf"columns `t`, `b`: .* but \({shown}, 1\) is that of 2 rows"):
        df.select(tg.row_key_order("t", "b"))
    with pytest.raises(pl.exceptions.ComputeError, match=shown):
        df.select(tg.row_key_order(pl.struct("t", "b").alias("k")))
    with pytest.raises(pl.exceptions.ComputeError, match=f"where `t` is {shown}: column `y`"):
        df.with_columns(y=pl.lit(float("inf"))).taiga.fit_gbdt_by("t", "y", "x", rounds=1)
    assert df.select(tg.fit_gbdt("y", "x", rounds=1, row_key="t", on_error="null")).item() is None


def test_an_order_of_no_key_names_what_is_missing() -> None:
    """Proves that a call without a column is told in our words."""
    for none in ((), ([],)):
        with pytest.raises(ValueError, match="row_key_order: parameter `row_key`: it names no column"):
            tg.row_key_order(*none)

"""`fit_gbdt_by`: for each group what a fit to its rows alone gives, byte for byte."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from polars.testing import assert_frame_equal

PARAMS: list[dict[str, Any]] = [
    {"rounds": 5},
    {"rounds": 5, "policy": "depthwise", "depth": 4, "min_child_weight": 0},
    {"rounds": 4, "policy": "leafwise", "row_sample": "bernoulli", "n_threads": 3},
    {"rounds": 3, "leaf_iterations": 3, "loss": "log_cosh"},
    {"rounds": 3, "boosting": "ordered", "categorical": ["c"], "max_combination": 1},
    {"rounds": 3, "categorical": ["c"], "order_by": "a", "max_combination": 1},
    {},
]


def frame(rows: int = 600, groups: int = 17, seed: int = 0) -> pl.DataFrame:
    """Rows dealt to groups at random; some features are missing, some keys null."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    return pl.DataFrame(
        {
            "g": rng.integers(0, groups, rows),
            "a": x[:, 0],
            "b": pl.Series(x[:, 1]).cast(pl.Float32),
            "c": rng.integers(0, 5, rows),
            "y": x[:, 0] * x[:, 1] + 0.1 * x[:, 2],
        }
    ).with_columns(
        g=pl.when(pl.col("g") == 3).then(None).otherwise(pl.col("g")),
        b=pl.when(pl.col("c") == 2).then(None).otherwise(pl.col("b")),
    )


@pytest.mark.parametrize("params", PARAMS)
def test_models_are_those_of_group_by_and_of_each_group_alone(params: dict[str, Any]) -> None:
    """Proves the bytes, the keys and their order, a null key among them."""
    df = frame()
    ours = df.lazy().taiga.fit_gbdt_by("g", "y", "a", "b", "c", **params).collect()
    theirs = df.group_by("g", maintain_order=True).agg(model=tg.fit_gbdt("y", "a", "b", "c", **params))
    assert_frame_equal(ours, theirs)
    assert ours["g"].null_count() == 1
    for key, model in ours.iter_rows():
        alone = df.filter(pl.col("g").eq_missing(key)).select(tg.fit_gbdt("y", "a", "b", "c", **params)).item()
        assert alone == model


@pytest.mark.parametrize("rows", [100, 3000])
def test_rows_that_stand_by_group_are_not_moved(rows: int) -> None:
    """Proves the same bytes where the frame is sorted, in several chunks."""
    df = frame(rows).sort("g", maintain_order=True)
    parts = pl.concat([df[: rows // 3], df[rows // 3 :]], rechunk=False)
    ours = parts.taiga.fit_gbdt_by("g", "y", "a", "b", rounds=5)
    theirs = frame(rows).group_by("g").agg(model=tg.fit_gbdt("y", "a", "b", rounds=5))
    assert_frame_equal(ours, theirs, check_row_order=False)


def test_keys_of_every_type_and_several_of_them() -> None:
    """Proves the groups of text, categories, Booleans, dates and of several columns."""
    df = frame().with_columns(
        text=pl.col("g").cast(pl.String),
        category=pl.col("g").cast(pl.String).cast(pl.Categorical),
        boolean=pl.col("a") > 0,
        day=pl.lit(date(2026, 1, 1)) + pl.duration(days=pl.col("c")),
    )
    params: dict[str, Any] = {"rounds": 2, "min_child_weight": 0, "on_error": "null"}
    for by in (["text"], ["category"], ["boolean"], ["day"], ["boolean", "text"], ["day", "g", "boolean"]):
        ours = df.taiga.fit_gbdt_by(by, "y", "a", "b", **params)
        theirs = df.group_by(by, maintain_order=True).agg(model=tg.fit_gbdt("y", "a", "b", **params))
        assert_frame_equal(ours, theirs)


def test_what_stands_beside_the_target() -> None:
    """Proves weights, held-out rows, keys of rows, classes and computed columns as in a fit alone."""
    df = frame().with_columns(
        w=pl.col("a").abs() + 0.1, out=pl.col("c") == 4, id=pl.int_range(pl.len()).reverse(), z=pl.col("y") > 0
    )
    several: list[tuple[str, dict[str, Any]]] = [
        ("y", {"weight": "w"}),
        ("y", {"eval": "out", "early_stopping": 2}),
        ("y", {"row_key": "id"}),
        ("z", {"weight": pl.col("w") * 2}),
    ]
    for target, roles in several:
        features = ["a", (pl.col("b") * 2).alias("twice")]
        ours = df.taiga.fit_gbdt_by("g", target, *features, rounds=5, **roles)
        theirs = df.group_by("g", maintain_order=True).agg(model=tg.fit_gbdt(target, *features, rounds=5, **roles))
        assert_frame_equal(ours, theirs)


@pytest.mark.parametrize("kind", ["texts", "flags", "numbers", "list of flags"])
def test_several_targets_and_labels_have_the_loss_of_a_fit_alone(kind: str) -> None:
    """Proves that a loss that is left open is found by the type of the target, as in `group_by`."""
    flags = [pl.col("a") > 0, pl.col("c") > 2]
    target = {
        "texts": pl.concat_list(
            *(pl.when(flag).then(pl.lit(k)).otherwise(pl.lit("none")) for k, flag in zip("pq", flags, strict=True))
        ),
        "flags": pl.struct(*(flag.alias(k) for k, flag in zip("pq", flags, strict=True))),
        "numbers": pl.struct(pl.col("y").alias("p"), (pl.col("y") * pl.col("a")).alias("q")),
        "list of flags": pl.concat_list(*flags),
    }
    rows = frame(groups=4).with_columns(t=target[kind])
    by = rows.taiga.fit_gbdt_by("g", "t", "a", "b", rounds=3).sort("g")
    alone = rows.group_by("g").agg(model=tg.fit_gbdt("t", "a", "b", rounds=3)).sort("g")
    assert_frame_equal(by, alone)
    assert tg.Model.from_bytes(by["model"][0]).loss == ("rmse" if kind == "numbers" else "multilabel")


def test_one_group_and_no_rows() -> None:
    """Proves a frame of one group, a large one, and an empty one."""
    df = frame(20_000, 1).with_columns(g=pl.lit("only"))
    ours = df.taiga.fit_gbdt_by("g", "y", "a", "b", rounds=3)
    assert ours.rows() == [("only", df.select(tg.fit_gbdt("y", "a", "b", rounds=3)).item())]
    none = df.clear().taiga.fit_gbdt_by("g", "y", "a", "b", rounds=3)
    assert none.schema == {"g": pl.String, "model": pl.Binary}
    assert none.height == 0


def test_large_groups_among_small_ones() -> None:
    """Proves the bytes where one group has most rows."""
    df = frame(30_000, 40).with_columns(g=pl.when(pl.int_range(pl.len()) < 25_000).then(1).otherwise(pl.col("g")))
    ours = df.taiga.fit_gbdt_by("g", "y", "a", "b", rounds=3)
    theirs = df.group_by("g", maintain_order=True).agg(model=tg.fit_gbdt("y", "a", "b", rounds=3))
    assert_frame_equal(ours, theirs)


def test_a_group_that_fails_is_named() -> None:
    """Proves the error's text, and null and a constant in place of the model."""
    df = frame().with_columns(y=pl.when(pl.col("g") == 5).then(float("inf")).otherwise(pl.col("y")), h=pl.lit("é"))
    with pytest.raises(pl.exceptions.ComputeError, match=r"fit_gbdt_by: where `g` is 5 and `h` is .é.: column `y`"):
        df.taiga.fit_gbdt_by(["g", "h"], "y", "a", rounds=2)
    null = df.taiga.fit_gbdt_by("g", "y", "a", rounds=2, on_error="null")
    assert null.filter(pl.col("model").is_null())["g"].to_list() == [5]
    few = pl.DataFrame({"g": [1, 1, 2], "x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]})
    constant = few.taiga.fit_gbdt_by("g", "y", "x", rounds=2, min_child_weight=0, on_error="constant")
    theirs = few.group_by("g", maintain_order=True).agg(
        model=tg.fit_gbdt("y", "x", rounds=2, min_child_weight=0, on_error="constant")
    )
    assert_frame_equal(constant, theirs)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_first_group_that_fails_is_named(threads: int) -> None:
    """Proves that of several at fault, a large one among them, it is the first, whatever the threads."""
    df = frame(30_000, 40).with_columns(
        g=pl.when(pl.int_range(pl.len()) >= 5_000).then(100).otherwise(pl.col("g").fill_null(3))
    )
    df = df.with_columns(y=pl.when(pl.col("g").is_in([7, 9, 100])).then(None).otherwise(pl.col("y")))
    first = df.filter(pl.col("g").is_in([7, 9, 100]))["g"][0]
    with pytest.raises(pl.exceptions.ComputeError, match=f"where `g` is {first}: column `y`"):
        df.taiga.fit_gbdt_by("g", "y", "a", "b", "c", rounds=2, n_threads=threads)


def test_keys_of_a_group_that_are_at_fault() -> None:
    """Proves that null and repeated keys of one group make its model null, as those of a `group_by`."""
    df = frame().with_columns(g=pl.col("g").fill_null(3), id=pl.int_range(pl.len()))
    df = df.with_columns(id=pl.when(pl.col("g") == 5).then(None).when(pl.col("g") == 8).then(1).otherwise(pl.col("id")))
    ours = df.taiga.fit_gbdt_by("g", "y", "a", rounds=2, row_key="id", on_error="null")
    fit = tg.fit_gbdt("y", "a", rounds=2, row_key="id", on_error="null")
    assert_frame_equal(ours, df.group_by("g", maintain_order=True).agg(model=fit))
    assert sorted(ours.filter(pl.col("model").is_null())["g"].to_list()) == [5, 8]
    with pytest.raises(pl.exceptions.ComputeError, match=r"where `g` is \d+: column `id`"):
        df.taiga.fit_gbdt_by("g", "y", "a", rounds=2, row_key="id")


def test_what_is_computed_under_a_constant_targets_name_is_a_feature() -> None:
    """Proves that in a group whose target never changes a feature may have its name and its values, as a lag may."""
    df = pl.DataFrame({"g": [0] * 10 + [1] * 10, "y": [float(i % 4) for i in range(10)] + [0.0] * 10})
    square = pl.col("y") * pl.col("y")
    models = df.group_by("g", maintain_order=True).agg(m=tg.fit_gbdt("y", square, rounds=2))
    assert models["m"].null_count() == 0
    with pytest.raises(pl.exceptions.ComputeError, match="the target is among the features"):
        df.select(tg.fit_gbdt("y", pl.col("y") + 0.0, rounds=2))


def test_a_literal_is_the_key_of_all_rows() -> None:
    """Proves that one key for all rows gives the one model, as in a `group_by`."""
    df = frame()
    ours = df.select(tg.fit_gbdt_by(pl.lit(7).alias("k"), "y", "a", rounds=2)).unnest("models")
    assert ours["k"].to_list() == [7]
    assert ours["model"].item() == df.taiga.fit_gbdt("y", "a", rounds=2).to_bytes()


def test_what_is_wrong_with_the_call() -> None:
    """Proves the errors for keys and parameters."""
    df = frame().with_columns(model=pl.lit(1), f=pl.col("a"))
    with pytest.raises(pl.exceptions.SchemaError, match="column `f`: its type is f64"):
        df.taiga.fit_gbdt_by("f", "y", "a", rounds=2)
    with pytest.raises(pl.exceptions.DuplicateError, match="column `model`"):
        df.taiga.fit_gbdt_by("model", "y", "a", rounds=2)
    with pytest.raises(ValueError, match="names no column"):
        tg.fit_gbdt_by([], "y", "a")
    with pytest.raises(TypeError, match="roundz"):
        tg.fit_gbdt_by("g", "y", "a", roundz=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="callback"):
        tg.fit_gbdt_by("g", "y", "a", callback=print)  # type: ignore[call-arg]

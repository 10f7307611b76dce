"""What holds for any table: predictions are what the trees' table says, and constraints are kept."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

CELLS = st.one_of(
    st.none(),
    st.just(float("nan")),
    st.sampled_from([0.0, -0.0, 1.0, float("inf"), -float("inf"), 1e300, -1e300, 5e-324]),
    st.floats(-4, 4, width=32),
)
POLICIES = ["symmetric", "depthwise", "leafwise"]


def naive(model: tg.Model, df: pl.DataFrame, start: float) -> list[float]:
    """Raw scores by walking the table of nodes, row after row."""
    trees = [part.to_dicts() for part in model.trees().partition_by("tree", maintain_order=True)]
    out = []
    for row in df.to_dicts():
        score = start
        for nodes in trees:
            by_number = {n["node"]: n for n in nodes}
            node = by_number[0]
            while node["leaf"] is None:
                x = row[node["feature"]]
                missing = x is None or x != x
                left = node["missing_left"] if missing else not x > node["border"]
                node = by_number[node["left"] if left else node["right"]]
            score += node["value"]
        out.append(score)
    return out


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, st.floats(-100, 100, width=32)), min_size=2, max_size=60),
    policy=st.sampled_from(POLICIES),
    narrow=st.booleans(),
)
def test_predictions_are_what_the_trees_say(rows: list[Any], policy: Any, narrow: bool) -> None:
    width = pl.Float32 if narrow else pl.Float64
    df = pl.DataFrame(rows, schema={"a": width, "b": width, "y": pl.Float64}, orient="row")
    model = df.taiga.fit_gbdt("y", "a", "b", rounds=5, depth=3, policy=policy, min_child_weight=0, l2=0.5)
    got = df.select(tg.predict(model))["prediction"].to_numpy()
    assert np.isfinite(got).all()
    assert df["y"].min() - 1e-3 <= got.min()
    assert got.max() <= df["y"].max() + 1e-3
    want = naive(model, df, json.loads(model.to_json())["start"][0])
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("sign", [1, -1])
def test_monotone(policy: Any, sign: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4_000, 2))
    df = pl.DataFrame({"a": x[:, 0], "b": x[:, 1]}).with_columns(
        y=pl.Series(sign * x[:, 0] + 3 * np.sin(5 * x[:, 0]) + x[:, 0] * x[:, 1] + rng.normal(size=4_000))
    )
    model = df.taiga.fit_gbdt("y", "a", "b", rounds=60, policy=policy, monotone={"a": sign})
    grid = (
        pl.select(a=pl.linear_space(-4, 4, 300))
        if hasattr(pl, "linear_space")
        else pl.DataFrame({"a": np.linspace(-4, 4, 300)})
    )
    for b in [None, -2.0, -0.3, 0.0, 0.7, 2.5]:
        p = grid.select("a", b=pl.lit(b, dtype=pl.Float64)).select(tg.predict(model))["prediction"]
        assert ((p.diff() * sign).drop_nulls() >= 0).all()
    free = df.taiga.fit_gbdt("y", "a", "b", rounds=60, policy=policy)
    p = grid.select("a", b=pl.lit(0.0)).select(tg.predict(free))["prediction"]
    assert ((p.diff() * sign).drop_nulls() < 0).any()


@pytest.mark.parametrize("policy", POLICIES)
def test_interaction(policy: Any) -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(3_000, 3))
    df = pl.DataFrame(x, schema=["a", "b", "c"]).with_columns(y=pl.col("a") * pl.col("b") + pl.col("b") * pl.col("c"))
    model = df.taiga.fit_gbdt("y", "a", "b", "c", rounds=30, policy=policy, interaction=[["a", "b"], ["c"]])
    for nodes in model.trees().partition_by("tree"):
        used = set(nodes["feature"].drop_nulls())
        paths = used if policy == "symmetric" else set()
        assert not ("c" in paths and paths & {"a", "b"})
        parent = {child: n for n in nodes.to_dicts() if n["leaf"] is None for child in (n["left"], n["right"])}
        for leaf in nodes.filter(pl.col("leaf").is_not_null())["node"]:
            path, at = set(), leaf
            while at in parent:
                path.add(parent[at]["feature"])
                at = parent[at]["node"]
            assert path <= {"a", "b"} or path <= {"c"}


def test_weights_count_rows() -> None:
    """A row of weight 3 is three rows; with `quantile` leaves, too."""
    rng = np.random.default_rng(5)
    df = pl.DataFrame({"a": rng.integers(0, 8, 400).astype(float), "y": rng.normal(size=400)}).with_columns(
        w=pl.Series(rng.integers(1, 4, 400))
    )
    repeated = df.select(pl.all().repeat_by("w").explode())
    for loss in ["rmse", "mae"]:
        weighted = df.taiga.fit_gbdt("y", "a", weight="w", rounds=10, loss=loss)
        plain = repeated.taiga.fit_gbdt("y", "a", rounds=10, loss=loss)
        a, b = (df.select(tg.predict(m))["prediction"].to_numpy() for m in (weighted, plain))
        # Rounding of gradients is random by row, so the two are close and not the same.
        np.testing.assert_allclose(a, b, atol=0.02)


@settings(max_examples=50, deadline=None)
@given(
    values=st.lists(CELLS, min_size=1, max_size=80),
    bins=st.integers(2, 13),
    method=st.sampled_from(["quantile", "uniform", "greedy_logsum", "min_max_entropy"]),
    narrow=st.booleans(),
)
def test_codes_count_borders(values: list[Any], bins: int, method: Any, narrow: bool) -> None:
    df = pl.DataFrame({"x": values}, schema={"x": pl.Float32 if narrow else pl.Float64})
    borders = df.select(tg.borders("x", bins, method=method)).item().to_list()
    assert len(borders) < bins
    assert borders == sorted(set(borders))
    codes = df.select(tg.quantize("x", bins, method=method))["x"].to_list()
    assert codes == [None if x is None or x != x else sum(b < x for b in borders) for x in df["x"]]

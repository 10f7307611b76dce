"""Small tables, and the few steps that most of these tests share."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg

POLICIES = ["symmetric", "depthwise", "leafwise"]
BRANCHING = ["depthwise", "leafwise"]
FREE: dict[str, Any] = {"l2": 0.0, "min_child_weight": 0.0}
"""No regularisation: a leaf is the mean of its rows."""
EXACT: dict[str, Any] = {**FREE, "learning_rate": 1.0}
"""The same, a tree's values taken whole."""


def numbers(rows: int = 400, features: int = 3, seed: int = 0, levels: int | None = 40) -> pl.DataFrame:
    """Features x0, x1, … of some levels (or all different), `y` that depends on the first three, `flag` and `kind`."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, max(features, 3)))
    if levels is not None:
        x = np.round(x * levels / 6) / (levels / 6)
    y = x[:, 0] + 2 * (x[:, 1] > 0.3) + x[:, 0] * x[:, 2] + rng.normal(size=rows) / 3
    kind = np.array(["low", "mid", "top"])[np.digitize(y, [0, 1.5])]
    return pl.DataFrame({f"x{i}": x[:, i] for i in range(features)}).with_columns(
        y=pl.Series(y), flag=pl.Series(y > 0.7), kind=pl.Series(kind), positive=pl.Series(np.exp(y / 3))
    )


def categories(rows: int = 600, seed: int = 0) -> pl.DataFrame:
    """Two text columns, an integer one and a number; `y` and `flag` depend on all."""
    rng = np.random.default_rng(seed)
    city, kind, shop = rng.integers(0, 12, rows), rng.integers(0, 3, rows), rng.integers(0, 6, rows)
    x = np.round(rng.normal(size=rows) * 8) / 8
    y = (
        np.sin(city * 5.0)
        + 0.6 * ((city + kind) % 3)
        + 0.5 * (kind == 1)
        + (shop == 2)
        + x / 3
        + rng.normal(size=rows) / 5
    )
    return pl.DataFrame(
        {
            "city": [f"city {c}" for c in city],
            "kind": [["red", "green", "blue"][k] for k in kind],
            "shop": shop,
            "x": x,
            "y": y,
            "flag": y > 0.8,
        }
    )


def predict(df: pl.DataFrame, model: tg.Model, output: Any = "auto") -> np.ndarray:
    """Predictions as an array; of several classes a column each."""
    series = df.select(tg.predict(model, output=output)).to_series()
    frame = series.struct.unnest() if series.dtype == pl.Struct else None
    values: np.ndarray = series.to_numpy() if frame is None else frame.to_numpy()
    return values


def staged(df: pl.DataFrame, model: tg.Model) -> np.ndarray:
    """Predictions after each round, `[round][row]`."""
    stages: np.ndarray = np.array(df.select(tg.predict(model, output="staged")).to_series().to_list()).T
    return stages


def names(df: pl.DataFrame) -> list[str]:
    """The features x0, x1, … of a table."""
    return [c for c in df.columns if c.startswith("x")]


def start_of(model: tg.Model) -> list[float]:
    """The scores before the first tree."""
    start: list[float] = json.loads(model.to_json())["start"]
    return start


def trees_of(model: tg.Model) -> list[dict[int, dict[str, Any]]]:
    """Each tree's nodes by their numbers."""
    parts = model.trees().partition_by("tree", maintain_order=True)
    return [{n["node"]: n for n in part.to_dicts()} for part in parts]


def leaves_of(model: tg.Model) -> pl.DataFrame:
    """The leaves of all trees."""
    return model.trees().filter(pl.col("leaf").is_not_null())


def inner_of(model: tg.Model) -> pl.DataFrame:
    """The splits of all trees."""
    return model.trees().filter(pl.col("leaf").is_null())


def paths_of(model: tg.Model) -> list[set[str]]:
    """For each leaf of each tree the features on its way."""
    paths: list[set[str]] = []
    for nodes in trees_of(model):
        open_nodes: list[tuple[int, set[str]]] = [(0, set())]
        while open_nodes:
            number, seen = open_nodes.pop()
            node = nodes[number]
            if node["leaf"] is not None:
                paths.append(seen)
            else:
                open_nodes += [(node[side], seen | {node["feature"]}) for side in ("left", "right")]
    return paths


def walk(nodes: dict[int, dict[str, Any]], row: dict[str, Any]) -> dict[str, Any]:
    """The leaf of a row of numbers, by the table of nodes."""
    node = nodes[0]
    while node["leaf"] is None:
        x = row[node["feature"]]
        left = node["missing_left"] if x is None or x != x else not x > node["border"]
        node = nodes[node["left" if left else "right"]]
    return node


def rmse(a: Any, b: Any) -> float:
    """The root of the mean squared difference."""
    return float(np.sqrt(np.mean((np.asarray(a) - np.asarray(b)) ** 2)))

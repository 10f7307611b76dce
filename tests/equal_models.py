"""Models made equal to a peer's: its trees read into ours by `tg.Model.from_json`, ours written as `shap` takes them.

Between them stands one kind of tree: a dictionary of arrays, with an entry for each node, as `shap.TreeExplainer`
reads it. A value that is at most a node's threshold goes left, a missing one to `children_default`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg

Tree = dict[str, np.ndarray]
"""`children_left`, `children_right`, `children_default` (-1 in leaves), `features`, `thresholds`, `values` (a
column for each output) and `node_sample_weight`, the number of training rows; where a node asks for categories
`members`, those that go right: what `shap` does not know, and `boosted` does."""

HESSIAN_UNITS = 2.0**20
"""So much of a hessian counts as a row where a peer weighs branches by hessians: our counts are whole numbers."""


def tree_of(nodes: Sequence[dict[str, Any]]) -> Tree:
    """Makes a tree of nodes: `count`, and `left`, `right`, `missing_left`, `feature`, `border`; of a leaf `value`."""
    leaf = ["value" in n for n in nodes]
    width = max(np.size(n["value"]) for n in nodes if "value" in n)

    def ints(of: Callable[[dict[str, Any]], int], other: int) -> np.ndarray:
        return np.array([other if is_leaf else of(n) for n, is_leaf in zip(nodes, leaf, strict=True)], dtype=np.int32)

    return {
        "children_left": ints(lambda n: n["left"], -1),
        "children_right": ints(lambda n: n["right"], -1),
        "children_default": ints(lambda n: n["left" if n["missing_left"] else "right"], -1),
        "features": ints(lambda n: n["feature"], -2),
        "thresholds": np.array([n.get("border", 0.0) for n in nodes], dtype=np.float64),
        "values": np.array([np.reshape(n.get("value", [0.0] * width), width) for n in nodes], dtype=np.float64),
        "node_sample_weight": np.array([n["count"] for n in nodes], dtype=np.float64),
        "members": np.array([frozenset(n.get("members", ())) for n in nodes], dtype=object),
    }


def start_of(model: tg.Model) -> list[float]:
    """The scores before the first tree, one for each output."""
    data = json.loads(model.to_json())
    classes = len(data["labels"] or [])
    start: list[float] = data["start"] if "start" in data else [0.0] * (classes if classes > 2 else 1)
    return start


def of_taiga(model: tg.Model) -> list[Tree]:
    """Our trees; those of a forest share its mean, those of several classes have a column for each class."""
    outputs = len(start_of(model))
    parts = model.trees().partition_by("tree", maintain_order=True)
    trees = []
    for part in parts:
        nodes = [{k: v for k, v in n.items() if v is not None} for n in part.to_dicts()]
        for n in nodes:
            if "feature" in n:
                n["feature"] = list(model.features).index(n["feature"])
            elif model.learner == "forest":
                # Two classes have the second one's values.
                n["value"] = np.reshape(n["value"], -1)[-outputs:] / len(parts)
            elif outputs > 1:
                n["value"] = np.eye(outputs)[n["output"]] * n["value"]
        trees.append(tree_of(nodes))
    return trees


def of_xgboost(booster: Any) -> list[Tree]:
    """XGBoost's trees by its own dump; x < t for numbers of 32 bits is x <= the number before t."""
    trees = []
    for text in booster.get_dump(dump_format="json", with_stats=True):
        nodes: list[dict[str, Any]] = []

        def add(node: dict[str, Any], nodes: list[dict[str, Any]] = nodes) -> int:
            at, own = len(nodes), {"count": node["cover"]}
            nodes.append(own)
            if "leaf" in node:
                own["value"] = np.float32(node["leaf"])
                return at
            children = {child["nodeid"]: add(child, nodes) for child in node["children"]}
            asked = node["split_condition"]
            own["feature"] = int(node["split"].removeprefix("f"))
            if isinstance(asked, list):
                own |= {"left": children[node["no"]], "right": children[node["yes"]], "members": asked}
                own["missing_left"] = node["missing"] == node["no"]
            else:
                own |= {"left": children[node["yes"]], "right": children[node["no"]]}
                own["missing_left"] = node["missing"] == node["yes"]
                own["border"] = float(np.nextafter(np.float32(asked), np.float32(-np.inf)))
            return at

        add(json.loads(text))
        trees.append(tree_of(nodes))
    return trees


def of_lightgbm(booster: Any) -> list[Tree]:
    """LightGBM's trees by its own dump."""
    trees = []
    for info in booster.dump_model()["tree_info"]:
        nodes: list[dict[str, Any]] = []

        def add(node: dict[str, Any], nodes: list[dict[str, Any]] = nodes) -> int:
            at = len(nodes)
            if "leaf_value" in node:
                nodes.append({"value": node["leaf_value"], "count": node.get("leaf_count", 0)})
                return at
            own = {"count": node["internal_count"], "feature": node["split_feature"]}
            nodes.append(own)
            left, right = add(node["left_child"], nodes), add(node["right_child"], nodes)
            if node["decision_type"] == "==":
                own |= {"left": right, "right": left, "missing_left": True}
                own["members"] = [int(category) for category in node["threshold"].split("||")]
            else:
                assert node["missing_type"] == "NaN"
                own |= {"left": left, "right": right, "border": node["threshold"], "missing_left": node["default_left"]}
            return at

        add(info["tree_structure"])
        trees.append(tree_of(nodes))
    return trees


def of_scikit_learn(forest: Any) -> list[Tree]:
    """scikit-learn's trees with their shares of the forest's mean."""
    trees = []
    for tree in (estimator.tree_ for estimator in forest.estimators_):
        inner = tree.children_left >= 0
        goes_left = tree.missing_go_to_left.astype(bool)
        trees.append(
            {
                "children_left": tree.children_left.astype(np.int32),
                "children_right": tree.children_right.astype(np.int32),
                "children_default": np.where(goes_left, tree.children_left, tree.children_right).astype(np.int32),
                "features": tree.feature.astype(np.int32),
                "thresholds": np.where(inner, tree.threshold, 0.0),
                "values": tree.value[:, 0, :] / len(forest.estimators_),
                "node_sample_weight": tree.weighted_n_node_samples.astype(np.float64),
            }
        )
    return trees


def with_traces(trees: Sequence[Tree]) -> list[Tree]:
    """Leaves that no row took have 1e-30 of one, which `shap` can divide by: where all are empty, they share evenly."""
    filled = [tree | {"node_sample_weight": tree["node_sample_weight"].copy()} for tree in trees]
    for tree in filled:
        weight, left, right = (tree[name] for name in ("node_sample_weight", "children_left", "children_right"))
        weight[(left < 0) & (weight == 0)] = 1e-30
        for at in reversed(range(len(weight))):
            if left[at] >= 0:
                weight[at] = weight[left[at]] + weight[right[at]]
    return filled


def for_shap(trees: Sequence[Tree], start: Any = 0.0) -> dict[str, Any]:
    """Makes a dictionary that `shap.TreeExplainer` takes, of copies: it writes into what it is given."""
    copies = [{name: array.copy() for name, array in tree.items() if name != "members"} for tree in trees]
    return {"trees": copies, "base_offset": np.array(start, dtype=np.float64).reshape(-1), "input_dtype": np.float64}


Feature = dict[str, Any]


def _features(trees: Sequence[Tree], names: Sequence[str], categories: dict[str, int]) -> list[Feature]:
    """Features with the borders that the trees ask for, or with categories c0, c1, …"""
    borders: dict[int, set[float]] = {}
    for tree in trees:
        for feature, border in zip(tree["features"].tolist(), tree["thresholds"].tolist(), strict=True):
            borders.setdefault(feature, set()).add(border)

    def feature(i: int, name: str) -> Feature:
        if name in categories:
            known = [f"c{code}" for code in range(categories[name])]
            return {"name": name, "type": "categorical", "borders": [], "categories": known}
        return {"name": name, "type": "numeric", "borders": sorted(b for b in borders.get(i, ()) if b != np.inf)}

    return [feature(i, name) for i, name in enumerate(names)]


def _branching(
    tree: Tree, leaf: Callable[[int], dict[str, Any]], one_of: Callable[[int, frozenset[int]], int]
) -> dict[str, Any]:
    """A tree's nodes and leaves in our words; nodes stand before those below them.

    `one_of`: the number of the feature that is 1 for the categories given of the column given.
    """
    order, inner, leaves = [0], [], []
    while order:
        at = order.pop()
        (inner if tree["children_left"][at] >= 0 else leaves).append(at)
        if tree["children_left"][at] >= 0:
            order += [int(tree["children_right"][at]), int(tree["children_left"][at])]
    place = {at: {"node": i} for i, at in enumerate(inner)} | {at: {"leaf": i} for i, at in enumerate(leaves)}

    def node(at: int) -> dict[str, Any]:
        left, right = tree["children_left"][at], tree["children_right"][at]
        members = tree["members"][at] if "members" in tree else frozenset()
        feature, border = int(tree["features"][at]), float(tree["thresholds"][at])
        return {
            "feature": one_of(feature, members) if members else feature,
            "border": 0.5 if members else "inf" if border == np.inf else border,
            "missing": "left" if tree["children_default"][at] == left else "right",
            "gain": 1.0,
            "left": place[left],
            "right": place[right],
        }

    return {"nodes": [node(at) for at in inner], "leaves": [leaf(at) for at in leaves]}


def boosted(
    trees: Sequence[Tree],
    names: Sequence[str],
    start: Sequence[float] = (0.0,),
    unit: float = 1.0,
    categories: dict[str, int] | None = None,
) -> tg.Model:
    """Makes our model of a peer's trees, tree i of output i modulo outputs; one output is a number's.

    Leaves are of 32 bits: the values given must be exact in these. `unit`: how many rows a node's weight of 1 is.
    `categories`: how many there are of a column.
    """
    outputs = len(start)
    derived: dict[tuple[int, frozenset[int]], int] = {}

    def one_of(feature: int, members: frozenset[int]) -> int:
        return derived.setdefault((feature, members), len(names) + len(derived))

    def tree(i: int, t: Tree) -> dict[str, Any]:
        def leaf(at: int) -> dict[str, Any]:
            value, count = float(t["values"][at, 0]), round(float(t["node_sample_weight"][at]) * unit)
            assert np.float32(value) == value
            return {"value": value, "weight": float(count), "count": count}

        return {"kind": "branching", "round": i // outputs, "output": i % outputs, **_branching(t, leaf, one_of)}

    ours, features = [tree(i, t) for i, t in enumerate(trees)], _features(trees, names, categories or {})
    sets = [{"kind": "one_of", "feature": feature, "categories": sorted(members)} for feature, members in derived]
    return _gbdt(ours, features, start, sets)


def _gbdt(
    trees: list[dict[str, Any]], features: list[Feature], start: Sequence[float], derived: Sequence[dict[str, Any]] = ()
) -> tg.Model:
    several = len(start) > 1
    data = {
        "format": "polars-taiga gbdt",
        "version": 2,
        "loss": "multiclass" if several else "rmse",
        "target": "y",
        "rows": 1,
        "labels": list(range(len(start))) if several else None,
        "start": list(start),
        "scale": 1.0,
        "features": features,
        "derived": list(derived),
        "tables": [],
        "trees": trees,
        "history": None,
        "params": {"trees": len(trees) // len(start)},
    }
    return tg.Model.from_json(json.dumps(data))


def symmetric(data: dict[str, Any], names: Sequence[str]) -> tg.Model:
    """Makes our model of CatBoost's symmetric trees, its model as JSON. Its last split is our first level."""
    start = data["scale_and_bias"][1]
    outputs = len(start)
    features: list[Feature] = [{"name": n, "type": "numeric", "borders": []} for n in names]
    for own in data["features_info"]["float_features"]:
        features[own["flat_feature_index"]]["borders"] = own["borders"]
    trees = []
    for i, tree in enumerate(data["oblivious_trees"]):
        splits = [
            {"feature": s["float_feature_index"], "border": s["border"], "missing": "left", "gain": 1.0}
            for s in reversed(tree["splits"] or [])
        ]
        values = np.reshape(tree["leaf_values"], (-1, outputs))
        for output in range(outputs):
            leaves = [
                {"value": float(v), "weight": float(w), "count": round(w)}
                for v, w in zip(values[:, output], tree["leaf_weights"], strict=True)
            ]
            trees.append({"kind": "symmetric", "splits": splits, "round": i, "output": output, "leaves": leaves})
    return _gbdt(trees, features, start)


def forest(trees: Sequence[Tree], names: Sequence[str], classes: int | None = None) -> tg.Model:
    """Makes our forest of a peer's trees, whose values are shares of its mean. Weights are whole numbers of rows."""

    def tree(t: Tree) -> dict[str, Any]:
        def leaf(at: int) -> dict[str, Any]:
            value, count = t["values"][at] * len(trees), round(t["node_sample_weight"][at])
            sums = [count] if classes is None else np.rint(value * count).astype(int).tolist()
            return {"value": value.tolist(), "weight": float(count), "count": count, "sums": sums}

        return _branching(t, leaf, lambda feature, members: feature)

    data = {
        "format": "polars-taiga forest",
        "version": 1,
        "criterion": "squared_error" if classes is None else "gini",
        "target": "y",
        "rows": 1,
        "labels": None if classes is None else list(range(classes)),
        "unit": 1.0,
        "features": _features(trees, names, {}),
        "trees": [tree(t) for t in trees],
        "oob": None,
        "params": {"trees": len(trees)},
    }
    return tg.Model.from_json(json.dumps(data))


def score(model: tg.Model, frame: pl.DataFrame) -> np.ndarray:
    """Raw scores (a forest's predictions), `[row][output]`."""
    output: Any = "auto" if model.learner == "forest" else "raw"
    series = frame.select(tg.predict(model, output=output)).to_series()
    values = series.struct.unnest().to_numpy() if series.dtype == pl.Struct else series.to_numpy()[:, None]
    return np.asarray(values)


def contributions(model: tg.Model, frame: pl.DataFrame, **options: Any) -> np.ndarray:
    """Shapley values, `[row][feature, or the base value][output]`."""
    return _explained(model, frame, "shap", **options)


def interactions(model: tg.Model, frame: pl.DataFrame, **options: Any) -> np.ndarray:
    """Interactions, `[row][feature][feature][output]`."""
    values = _explained(model, frame, "shap_interactions", **options)
    m = len(model.features)
    return values.reshape(len(values), m, m, -1)


def _explained(model: tg.Model, frame: pl.DataFrame, output: Any, **options: Any) -> np.ndarray:
    """The numbers of nested structs, in their order, those of a class behind one another."""
    series = frame.select(tg.predict(model, output=output, **options)).to_series()
    depth = {"shap": 1, "shap_interactions": 2}[output]

    def flat(series: pl.Series) -> list[pl.Series]:
        if series.dtype != pl.Struct:
            return [series]
        return [leaf for field in series.struct.unnest().get_columns() for leaf in flat(field)]

    dtype: Any = series.dtype
    levels = 0
    while dtype == pl.Struct:
        levels, dtype = levels + 1, dtype.fields[0].dtype
    classes = len(series.struct.fields) if levels > depth else 1
    table = np.array([leaf.to_numpy() for leaf in flat(series)])
    return np.moveaxis(table.reshape(classes, -1, frame.height), 0, -1).swapaxes(0, 1)

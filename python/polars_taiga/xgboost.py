"""Models as boosters of XGBoost; this needs the package `xgboost`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from polars_taiga._ensemble import Above, Ensemble, Tree, numbers_of, rounded_down
from polars_taiga._node_sums import MOST, Seen, means, seen_by, sums, with_traces
from polars_taiga._optional import needed

if TYPE_CHECKING:
    from polars_taiga.model import Model

__all__ = ["to_xgboost"]

# What a leaf and the root have in the place of what they have not.
_NO_CHILD, _NO_PARENT = -1, 2**31 - 1

# The share of a tree's rows that a leaf without any has, for what divides by it.
_TRACE = 2.0**-40


def to_xgboost(model: Model) -> Any:
    """Make a booster of XGBoost; see `Model.to_xgboost`."""
    xgboost = needed("to_xgboost", "xgboost", "xgboost")
    np = needed("to_xgboost", "numpy", "xgboost")
    found = numbers_of("to_xgboost", "XGBoost", model)
    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps(_model(np, model, found)).encode()))
    return booster


def _model(np: Any, model: Model, found: Ensemble) -> dict[str, Any]:
    """The file of a booster."""
    # Of a forest's two shares the second is what is predicted.
    chosen = [1] if found.is_mean and found.outputs == 2 else list(range(found.outputs))
    scale = 1.0 / len(found.trees) if found.is_mean else found.scale
    trees: list[dict[str, Any]] = []
    info: list[int] = []
    for number, (tree, of) in enumerate(zip(found.trees, seen_by(model, len(chosen)), strict=True)):
        for place, output in enumerate(tree.outputs):
            if output in chosen:
                start = found.start[output] if number < found.outputs else 0.0
                values = [leaf[place] * scale + start for leaf in tree.leaves]
                trees.append(_tree(np, tree, of, values, len(trees), len(found.columns)))
                info.append(chosen.index(output))
    rounds = len(trees) // len(chosen)
    objective, base, classes = _objective(found, len(chosen))
    names = [c.name for c in found.columns]
    are_plain = not any(sign in name for name in names for sign in "[]<")
    return {
        "learner": {
            "attributes": {},
            "feature_names": names if are_plain else [],
            "feature_types": ["float"] * len(names) if are_plain else [],
            "gradient_booster": {
                "model": {
                    "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
                    "iteration_indptr": [len(chosen) * i for i in range(rounds + 1)],
                    "tree_info": info,
                    "trees": trees,
                },
                "name": "gbtree",
            },
            "learner_model_param": {
                "base_score": base,
                "boost_from_average": "0",
                "num_class": str(classes),
                "num_feature": str(len(names)),
                "num_target": "1" if classes else str(len(chosen)),
            },
            "objective": objective,
        },
        "version": [2, 0, 0],
    }


def _objective(found: Ensemble, outputs: int) -> tuple[dict[str, Any], str, int]:
    """The objective whose link is the model's, the base score that adds nothing, and a softmax's number of classes."""
    if found.link == "softmax":
        of_classes = {"num_class": str(outputs)}
        return {"name": "multi:softprob", "softmax_multiclass_param": of_classes}, "0E0", outputs
    if found.link == "exp":
        return {"name": "count:poisson", "poisson_regression_param": {"max_delta_step": "0.7"}}, "1E0", 0
    of_one = {"scale_pos_weight": "1"}
    if found.link == "sigmoid":
        return {"name": "binary:logistic", "reg_loss_param": of_one}, "5E-1", 0
    return {"name": "reg:squarederror", "reg_loss_param": of_one}, "0E0", 0


def _tree(np: Any, tree: Tree, seen: Seen, values: list[float], number: int, features: int) -> dict[str, Any]:
    """A tree. Nodes are numbered level by level: XGBoost takes the one behind a left child for the right one."""
    order, children, parents = [0 if tree.nodes else ~0], [], [_NO_PARENT]
    for i, child in enumerate(order):
        children.append(len(order) if child >= 0 else _NO_CHILD)
        if child >= 0:
            order += [tree.nodes[child].left, tree.nodes[child].right]
            parents += [i, i]
    tests = [tree.nodes[child].test if child >= 0 else None for child in order]
    own = [test if isinstance(test, Above) else None for test in tests]
    # What is below a split's number goes left: that is the next one above a border, or a border below all numbers.
    below = rounded_down(np, [0.0 if test is None else test.border for test in own])
    above = np.where(np.isneginf(below), below, np.nextafter(below, np.float32(np.inf)))
    inner = means(tree, values, seen.weights)
    weights = np.array([inner[child] if child >= 0 else values[~child] for child in order], np.float64)
    weights = weights.astype(np.float32)
    is_leaf = np.array([child < 0 for child in order])
    of_leaves = with_traces(tree, seen.weights, _TRACE * (sum(seen.weights) or 1.0))
    of_nodes = sums(tree, of_leaves)
    return {
        "base_weights": weights.tolist(),
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
        "default_left": [int(test is not None and test.missing_left) for test in own],
        "id": number,
        "left_children": children,
        "loss_changes": [seen.gains[child] if child >= 0 else 0.0 for child in order],
        "parents": parents,
        "right_children": [_NO_CHILD if child == _NO_CHILD else child + 1 for child in children],
        "split_conditions": np.where(is_leaf, weights, above).tolist(),
        "split_indices": [0 if test is None else test.column for test in own],
        "split_type": [0] * len(order),
        "sum_hessian": [min(of_nodes[child] if child >= 0 else of_leaves[~child], MOST) for child in order],
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(features),
            "num_nodes": str(len(order)),
            "size_leaf_vector": "1",
        },
    }

"""Models as boosters of LightGBM; this needs the package `lightgbm`."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from polars_taiga._ensemble import Above, Ensemble, Tree, numbers_of
from polars_taiga._node_sums import Seen, means, seen_by, sums, with_traces
from polars_taiga._optional import needed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polars_taiga.model import Model

__all__ = ["to_lightgbm"]

# Bits of `decision_type`: missing values go left, and NaN is missing.
_LEFT, _NAN = 2, 8

# What a tree's counts may add up to, and what they do where they are no numbers of rows: LightGBM's have 31 bits.
_MOST_COUNTS, _SCALED_COUNTS = 2**31 - 1, 2**30


def to_lightgbm(model: Model) -> Any:
    """Make a booster of LightGBM; see `Model.to_lightgbm`."""
    lightgbm = needed("to_lightgbm", "lightgbm", "lightgbm")
    found = numbers_of("to_lightgbm", "LightGBM", model, linear_leaves=True)
    return lightgbm.Booster(model_str=_text(model, found))


def _text(model: Model, found: Ensemble) -> str:
    """The file of a booster."""
    # Of a forest's two shares the second is what is predicted.
    chosen = [1] if found.is_mean and found.outputs == 2 else list(range(found.outputs))
    seen = seen_by(model, len(chosen))
    trees = [
        _tree(tree, of, place, found.start[output], found.scale, is_first=number < found.outputs)
        for number, (tree, of) in enumerate(zip(found.trees, seen, strict=True))
        for place, output in enumerate(tree.outputs)
        if output in chosen
    ]
    blocks = [f"Tree={i}\n{tree}\n\n" for i, tree in enumerate(trees)]
    objective = _objective(found, len(chosen))
    lines = [
        "tree",
        "version=v4",
        f"num_class={len(chosen)}",
        f"num_tree_per_iteration={len(chosen)}",
        "label_index=0",
        f"max_feature_idx={len(found.columns) - 1}",
        *([f"objective={objective}"] if objective else []),
        *(["average_output"] if found.is_mean else []),
        f"feature_names={' '.join(_names([c.name for c in found.columns]))}",
        f"feature_infos={' '.join(['[-inf:inf]'] * len(found.columns))}",
        f"tree_sizes={' '.join(str(len(block.encode())) for block in blocks)}",
    ]
    return "\n".join(lines) + "\n\n" + "".join(blocks) + "end of trees\n\nparameters:\nend of parameters\n"


def _names(names: Sequence[str]) -> list[str]:
    """Names as LightGBM has them: without white space and what JSON needs, and each once."""
    plain = [re.sub(r"[\s\[\]{}\",:]", "_", name) for name in names]
    return plain if len(set(plain)) == len(plain) and all(plain) else [f"Column_{i}" for i in range(len(plain))]


def _objective(found: Ensemble, outputs: int) -> str | None:
    """The objective whose link is the model's; none for numbers that are predictions as they are."""
    if found.link == "sigmoid":
        of_one = "binary sigmoid:1" if found.labels is not None else "cross_entropy"
        return of_one if outputs == 1 else f"multiclassova num_class:{outputs} sigmoid:1"
    if found.link == "softmax":
        return f"multiclass num_class:{outputs}"
    if found.link == "exp":
        if outputs > 1:
            msg = (
                "to_lightgbm: LightGBM takes the exponential of one score alone, and this model has several; "
                "to_treelite, to_xgboost and to_onnx keep it"
            )
            raise ValueError(msg)
        return "poisson"
    return None if found.is_mean or outputs > 1 else "regression"


def _counts(tree: Tree, counts: Sequence[float]) -> list[int]:
    """Counts of leaves as LightGBM has them: integers, none of them zero where it explains. They are numbers of rows,
    but in a tree with a leaf that no row came to, or that knows weights alone, these times a power of two: beside them
    what such a leaf has is next to nothing.
    """
    total = sum(counts)
    if total <= _MOST_COUNTS and all(count >= 1 and count.is_integer() for count in counts):
        return [int(count) for count in counts]
    exponent = math.floor(math.log2(_SCALED_COUNTS) - math.log2(total)) if total > 0 else 0
    scaled = [float(round(math.ldexp(count, exponent))) for count in counts]
    return [int(count) for count in with_traces(tree, scaled, 1.0)]


def _tree(tree: Tree, seen: Seen, place: int, start: float, scale: float, *, is_first: bool) -> str:
    """A tree's lines. The first one of an output has where its scores start in its leaves, as LightGBM's own."""
    leaves = [leaf[place] * scale + (start if is_first else 0.0) for leaf in tree.leaves]
    tests = [node.test for node in tree.nodes]
    own = [test for test in tests if isinstance(test, Above)]
    counts = _counts(tree, seen.counts)
    of_linear: dict[str, list[float]] = {}
    if tree.linear:
        functions = [tree.linear.get(i) for i in range(len(leaves))]
        begin = start if is_first else 0.0
        terms = [term for function in functions if function is not None for term in function.terms]
        of_linear = {
            "leaf_const": [
                value if of is None else of.constant * scale + begin
                for value, of in zip(leaves, functions, strict=True)
            ],
            "num_features": [0 if function is None else len(function.terms) for function in functions],
            "leaf_features": [column for column, _ in terms],
            "leaf_coeff": [coefficient * scale for _, coefficient in terms],
        }
    lines: dict[str, Sequence[float]] = {
        "num_leaves": [len(leaves)],
        "num_cat": [0],
        "split_feature": [test.column for test in own],
        "split_gain": seen.gains,
        "threshold": [test.border for test in own],
        "decision_type": [_NAN + _LEFT * test.missing_left for test in own],
        "left_child": [node.left for node in tree.nodes],
        "right_child": [node.right for node in tree.nodes],
        "leaf_value": leaves,
        "leaf_weight": seen.weights,
        "leaf_count": counts,
        "internal_value": means(tree, leaves, seen.weights),
        "internal_weight": sums(tree, seen.weights),
        "internal_count": [int(count) for count in sums(tree, counts)],
        "is_linear": [int(bool(tree.linear))],
        **of_linear,
        "shrinkage": [1],
    }
    return "\n".join(f"{name}={_joined(values)}" for name, values in lines.items()) + "\n"


def _joined(values: Iterable[float]) -> str:
    return " ".join(map(repr, values))

"""What trees know by node of the rows that they were fitted to, for the forms of other libraries that have it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_taiga._ensemble import Tree
    from polars_taiga.model import Model

# Numbers of f32: one that is next to none but above zero, and the largest.
_LEAST, MOST = 2.0**-126, (2 - 2.0**-23) * 2.0**127

# Over how many levels what an empty node has is halved.
_MOST_LEVELS = 16


@dataclass(frozen=True)
class Seen:
    """What a tree knows of the training rows: its nodes' gains, and of each leaf the rows and what they weigh.

    A gain is what a node adds to its column's importance; that of a symmetric tree's level is at the first node, and
    zero at the others. What rows weigh is their hessians, of a forest their number: what the importance `cover` sums.
    """

    gains: list[float]
    counts: list[float]
    weights: list[float]


def seen_by(model: Model, copies: int) -> list[Seen]:
    """What each tree knows of the training rows; nodes and leaves are those of `Ensemble.trees`. `copies`: how often a
    forest's tree is written, each with its part of the gain.
    """
    trees = json.loads(model.to_json())["trees"]
    is_forest = model.learner == "forest"
    found = []
    for tree in trees:
        counts = [float(leaf["count"]) for leaf in tree["leaves"]]
        weights = counts if is_forest and any(counts) else [float(leaf["weight"]) for leaf in tree["leaves"]]
        found.append(Seen(_gains(tree), counts if any(counts) else weights, weights))
    if not is_forest:
        return found
    # Of a forest a split has its share of what its tree's gain, and importance is the mean of these shares.
    totals = [sum(seen.gains) for seen in found]
    has_gained = [total > _LEAST * len(seen.gains) for total, seen in zip(totals, found, strict=True)]
    parts = copies * sum(has_gained)
    return [
        replace(seen, gains=[g / total / parts or _LEAST for g in seen.gains]) if gained else seen
        for seen, total, gained in zip(found, totals, has_gained, strict=True)
    ]


def _gains(tree: dict[str, Any]) -> list[float]:
    """The gains of a tree's nodes. LightGBM counts splits that gain something: those of nothing gain next to it."""
    is_symmetric = tree.get("kind") == "symmetric"
    splits = tree["splits" if is_symmetric else "nodes"]
    gains = [min(float(split["gain"]), MOST) or _LEAST for split in splits]
    return [g if i == 0 else 0.0 for n, g in enumerate(gains) for i in range(1 << n)] if is_symmetric else gains


def sums(tree: Tree, of_leaves: Sequence[float]) -> list[float]:
    """Of each node the sum over the leaves below."""
    found = [0.0] * len(tree.nodes)
    for i in reversed(range(len(found))):
        node = tree.nodes[i]
        found[i] = sum(found[child] if child >= 0 else of_leaves[~child] for child in (node.left, node.right))
    return found


def means(tree: Tree, values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Of each node the mean over the leaves below by their weights; where these are zero, that of its two sides."""
    below, found = sums(tree, weights), [0.0] * len(tree.nodes)

    def of(child: int, nodes: Sequence[float], leaves: Sequence[float]) -> float:
        return nodes[child] if child >= 0 else leaves[~child]

    for i, node in reversed(list(enumerate(tree.nodes))):
        share = of(node.left, below, weights) / below[i] if below[i] > 0 else 0.5
        found[i] = share * of(node.left, found, values) + (1 - share) * of(node.right, found, values)
    return found


def with_traces(tree: Tree, of_leaves: Sequence[float], trace: float) -> list[float]:
    """What leaves have, and those that have nothing a few of a `trace`: peers divide by what a node has. As in
    `tg.predict` each side of a node that no row came to has half of it.
    """
    found, below = list(of_leaves), sums(tree, of_leaves)
    heights = [1] * len(tree.nodes)
    for i, node in reversed(list(enumerate(tree.nodes))):
        heights[i] = 1 + max(heights[child] if child >= 0 else 0 for child in (node.left, node.right))
    # What nodes have that no row came to; 0 of others.
    parts = [0.0] * len(tree.nodes)

    def of_empty(height: int) -> float:
        return trace * 2.0 ** min(height, _MOST_LEVELS)

    if tree.nodes and below[0] <= 0:
        parts[0] = of_empty(heights[0])
    for i, node in enumerate(tree.nodes):
        for child in (node.left, node.right):
            if (below[child] if child >= 0 else found[~child]) > 0:
                continue
            part = max(parts[i] / 2, trace) if parts[i] > 0 else of_empty(heights[child] if child >= 0 else 0)
            if child >= 0:
                parts[child] = part
            else:
                found[~child] = part
    return found

"""Models as those of Treelite; this needs the package `treelite`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polars_taiga._ensemble import Above, Ensemble, Tree, numbers_of
from polars_taiga._optional import needed

if TYPE_CHECKING:
    from polars_taiga.model import Model

__all__ = ["to_treelite"]


def to_treelite(model: Model) -> Any:
    """Make a model of Treelite; see `Model.to_treelite`."""
    builder = needed("to_treelite", "treelite.model_builder", "treelite")
    found = numbers_of("to_treelite", "Treelite", model)
    outputs, trees = found.outputs, found.trees
    is_of_classes = found.labels is not None and outputs > 1
    classes, targets = (outputs, 1) if is_of_classes else (1, outputs)
    has_vectors = found.is_mean and outputs > 1
    annotation = builder.TreeAnnotation(
        num_tree=len(trees),
        target_id=[0 if is_of_classes else tree.outputs[0] for tree in trees],
        class_id=[-1 if has_vectors else tree.outputs[0] if is_of_classes else 0 for tree in trees],
    )
    written = builder.ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=builder.Metadata(
            num_feature=len(found.columns),
            task_type="kMultiClf" if is_of_classes else "kRegressor" if found.labels is None else "kBinaryClf",
            average_tree_output=found.is_mean,
            num_target=targets,
            num_class=[classes] * targets,
            leaf_vector_shape=(1, classes if has_vectors else 1),
        ),
        tree_annotation=annotation,
        postprocessor=builder.PostProcessorFunc(name=_postprocessor(found, is_of_classes)),
        base_scores=list(found.start),
    )
    for tree in trees:
        _write(written, tree, found.scale)
    return written.commit()


def _postprocessor(found: Ensemble, is_of_classes: bool) -> str:
    """What Treelite calls a link."""
    if found.link == "sigmoid":
        return "multiclass_ova" if is_of_classes else "sigmoid"
    if found.link == "identity":
        return "identity_multiclass" if is_of_classes else "identity"
    return {"exp": "exponential", "softmax": "softmax"}[found.link]


def _write(builder: Any, tree: Tree, scale: float) -> None:
    """Write a tree; leaf `i` is the node behind all splits."""

    def key(child: int) -> int:
        return child if child >= 0 else len(tree.nodes) + ~child

    builder.start_tree()
    for i, node in enumerate(tree.nodes):
        test = node.test
        assert isinstance(test, Above)
        builder.start_node(i)
        builder.numerical_test(
            feature_id=test.column,
            threshold=test.border,
            default_left=test.missing_left,
            opname="<=",
            left_child_key=key(node.left),
            right_child_key=key(node.right),
        )
        builder.end_node()
    for i, leaf in enumerate(tree.leaves):
        builder.start_node(len(tree.nodes) + i)
        values = [value * scale for value in leaf]
        builder.leaf(values if len(values) > 1 else values[0])
        builder.end_node()
    builder.end_tree()

"""Models as ONNX graphs, for runtimes that know neither Polars nor this package; this needs the package `onnx`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from polars_taiga._ensemble import (
    Above,
    Among,
    Ensemble,
    Linear,
    RankAbove,
    Source,
    Statistic,
    ensemble_of,
    rounded_down,
)
from polars_taiga._files import write_whole
from polars_taiga._optional import needed
from polars_taiga._taiga import __version__

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from polars.datatypes import DataType, DataTypeClass

    from polars_taiga._ensemble import Link, Node, Test
    from polars_taiga.model import Model

__all__ = ["NULL_INTEGER", "NULL_TEXT", "to_onnx"]

NULL_TEXT = ""
"""What stands for null in an ONNX input of text, which has none."""

NULL_INTEGER = -(2**63)
"""What stands for null in an ONNX input of integers that are categories."""

# Names of outputs, and what every inner name begins with.
_OUTPUTS = ("prediction", "label", "probabilities")
_INNER = "taiga/"

# The operator sets and the file format of ONNX 1.11 (2022), and of ONNX 1.16 (2024), the first with TreeEnsemble.
_REACH = {"": 15, "ai.onnx.ml": 3, "ir": 8}
_ENSEMBLE = {"": 21, "ai.onnx.ml": 5, "ir": 10}

# f32 tells integers apart up to here, and codes are kept in it.
_MOST_CODES = 1 << 24

_OF_ML = ("LabelEncoder", "TreeEnsemble", "TreeEnsembleRegressor")

# Modes of nodes of TreeEnsemble.
_LEQ, _EQ, _MEMBER = 0, 4, 6


_Read: TypeAlias = tuple[int, int, float, bool, tuple[int, ...]]
"""A split: the place that it reads, its mode, its number, whether missing values answer yes, and its set's members."""


_Child: TypeAlias = tuple[int, bool]
"""The place of a node or of a leaf, and whether it is a leaf."""


class _Graph:
    """An ONNX graph that is being written, in numbers of one type."""

    def __init__(self, numbers: type, opset: int) -> None:
        self.helper = needed("to_onnx", "onnx.helper", "onnx")
        self.numpy_helper = needed("to_onnx", "onnx.numpy_helper", "onnx")
        self.types = needed("to_onnx", "onnx", "onnx").TensorProto
        self.np = needed("to_onnx", "numpy", "onnx")
        self.is_wide, self.opset = numbers is pl.Float64, opset
        self.number = self.types.DOUBLE if self.is_wide else self.types.FLOAT
        self.dtype = self.np.float64 if self.is_wide else self.np.float32
        self.names = 0
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def name(self) -> str:
        self.names += 1
        return f"{_INNER}{self.names}"

    def add(self, op: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """An operator of one output, whose name this returns."""
        out = output if output is not None else self.name()
        domain = "ai.onnx.ml" if op in _OF_ML else ""
        self.nodes.append(self.helper.make_node(op, list(inputs), [out], domain=domain, **attributes))
        return out

    def constant(self, values: Any, dtype: Any = None) -> str:
        """A tensor that stands in the file; of numbers unless `dtype` says otherwise."""
        array = self.np.asarray(values, self.dtype if dtype is None else dtype)
        if isinstance(values, list) and values and isinstance(values[0], str):
            array = self.np.asarray(values, object)
        name = self.name()
        self.initializers.append(self.numpy_helper.from_array(array, name))
        return name

    def input(self, name: str, element: int, width: int) -> str:
        self.inputs.append(self.helper.make_tensor_value_info(name, element, ["rows", width]))
        return name

    def output(self, name: str, element: int, width: int | None) -> None:
        shape = ["rows"] if width is None else ["rows", width]
        self.outputs.append(self.helper.make_tensor_value_info(name, element, shape))

    def as_number(self, value: str) -> str:
        return self.add("Cast", value, to=self.number)

    def bytes(self, name: str, of: dict[str, str]) -> bytes:
        graph = self.helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.initializers)
        sets = _ENSEMBLE if self.opset == 5 else _REACH
        imports = [self.helper.make_opsetid(domain, sets[domain]) for domain in ("", "ai.onnx.ml")]
        model = self.helper.make_model(
            graph,
            opset_imports=imports,
            ir_version=sets["ir"],
            producer_name="polars-taiga",
            producer_version=__version__,
        )
        self.helper.set_model_props(model, of)
        data: bytes = model.SerializeToString(deterministic=True)
        return data


def to_onnx(
    model: Model,
    path: str | os.PathLike[str] | None = None,
    *,
    dtype: DataType | DataTypeClass | None = None,
    columns: bool | None = None,
) -> bytes:
    """Write a model as an ONNX graph; see `Model.to_onnx`."""
    needed("to_onnx", "onnx", "onnx")
    found = ensemble_of("to_onnx", model)
    numbers = _number_type(dtype, found)
    by_column = _has_categories(found) if columns is None else columns
    if _has_categories(found) and not by_column:
        of = next(c.name for c in found.columns if c.is_category)
        msg = f"to_onnx: columns=False: column `{of}` has categories, and one matrix of numbers has no room for them"
        raise ValueError(msg)
    _check_names(found, by_column)
    graph = _Graph(numbers, 5 if numbers is pl.Float64 or _has_sets(found) else 3)
    if isinstance(found, Linear):
        fields = None if len(found.labels) <= 2 else [str(label) for label in found.labels]
        scores = _linear_scores(graph, found, by_column)
    else:
        fields = found.fields
        scores = _tree_scores(graph, found, by_column)
    _write_outputs(graph, scores, found.link, found.labels, outputs=_width(found))
    of_columns = [{"name": c.name, "type": c.dtype if c.kind is None else c.kind} for c in found.columns]
    props = {"taiga.target": found.target, "taiga.features": json.dumps(of_columns, ensure_ascii=False)}
    if fields is not None:
        props["taiga.fields"] = json.dumps(fields, ensure_ascii=False)
    data = graph.bytes(found.target or "model", props)
    if path is not None:
        write_whole(Path(path).resolve(), data)
    return data


def _width(found: Ensemble | Linear) -> int:
    return len(found.intercepts) if isinstance(found, Linear) else found.outputs


def _has_categories(found: Ensemble | Linear) -> bool:
    return any(c.is_category for c in found.columns)


def _has_sets(found: Ensemble | Linear) -> bool:
    """Whether a split asks about more than one category."""
    return isinstance(found, Ensemble) and any(
        isinstance(test, Among) and len(_smaller(found.columns[test.column], test)[0]) > 1 for test in found.tests()
    )


def _number_type(dtype: object, found: Ensemble | Linear) -> type:
    """What numbers of the graph are: what was asked for, or what holds the columns' and the scores."""
    if dtype is not None and dtype not in (pl.Float32, pl.Float64):
        msg = f"to_onnx: dtype={dtype!r} is neither pl.Float32 nor pl.Float64"
        raise ValueError(msg)
    if dtype == pl.Float64:
        return pl.Float64
    of = next((c for c in found.columns if c.is_temporal), None)
    most = _largest(found)
    if dtype is None:
        return pl.Float64 if of is not None or most > _F32_MAX else pl.Float32
    if of is not None:
        msg = (
            f"to_onnx: dtype=Float32: `{of.name}` is {of.dtype}, whose ticks Float32 does not tell apart: Float64 does"
        )
        raise ValueError(msg)
    if most > _F32_MAX:
        msg = f"to_onnx: dtype=Float32: the scores have numbers of {most:.3g}, beyond what Float32 holds: Float64 does"
        raise ValueError(msg)
    return pl.Float32


_F32_MAX = 3.4028234663852886e38


def _largest(found: Ensemble | Linear) -> float:
    """The largest absolute number that scores are made of."""
    if isinstance(found, Linear):
        return max((abs(x) for row in [found.intercepts, *found.weights] for x in row), default=0.0)
    leaves = (abs(x) for tree in found.trees for leaf in tree.leaves for x in leaf)
    return max(max(leaves, default=0.0) * found.scale, *(abs(x) for x in found.start))


def _check_names(found: Ensemble | Linear, by_column: bool) -> None:
    for column in found.columns if by_column else ():
        if column.name in _OUTPUTS or column.name.startswith(_INNER) or not column.name:
            msg = f"to_onnx: column {column.name!r} is called as a part of the graph is: fit it by another name"
            raise ValueError(msg)
        categories = column.categories or ()
        stand_in = NULL_TEXT if column.kind == "text" else NULL_INTEGER
        if None in categories and stand_in in categories:
            what = "the empty text" if stand_in == NULL_TEXT else str(stand_in)
            msg = f"to_onnx: `{column.name}` has both null and {what}, which stands for null, as categories"
            raise ValueError(msg)


def _smaller(column: Source, test: Among) -> tuple[tuple[int, ...], bool]:
    """A set of categories and whether it goes right: those of the test or all others, whichever are fewer. What is
    unknown is -1.
    """
    right = {*test.codes, *((-1,) if test.others_right else ())}
    left = set(range(-1, len(column.categories or ()))) - right
    return (tuple(sorted(right)), True) if len(right) <= len(left) else (tuple(sorted(left)), False)


def _keys(graph: _Graph, column: Source) -> tuple[str, list[Any]]:
    """The attribute of LabelEncoder that holds the categories of a column, and they."""
    categories = list(column.categories or ())
    if column.kind == "text":
        return "keys_strings", [NULL_TEXT if c is None else c for c in categories]
    return "keys_int64s", [NULL_INTEGER if c is None else int(c) for c in categories]


def _one(name: str, value: Any) -> dict[str, Any]:
    """One attribute."""
    return {name: value}


class _Columns:
    """The columns of a model as inputs of its graph, and what splits read: a matrix of numbers, codes and ranks."""

    def __init__(self, graph: _Graph, columns: Sequence[Source], used: set[int], by_column: bool) -> None:
        self.graph, self.columns, self.by_column = graph, columns, by_column
        self.matrix: list[str] = []
        self.place: dict[tuple[str, int], int] = {}
        self.names: dict[int, str] = {}
        self.codes_of: dict[int, str] = {}
        if not by_column:
            self.matrix = [graph.input("features", graph.number, len(columns))]
            self.place = {("column", i): i for i in range(len(columns))}
            return
        for i in sorted(used) or range(len(columns)):
            column = columns[i]
            element = graph.number
            if column.is_category:
                element = graph.types.INT64 if column.kind in ("integers", "Booleans") else graph.types.STRING
            self.names[i] = graph.input(column.name, element, 1)

    def number(self, column: int) -> int:
        """The place of a column of numbers in the matrix."""
        return self._placed(("column", column), lambda: self.names[column])

    def code(self, column: int) -> int:
        """The place of a column's codes, from 1 on; 0 is what is unknown."""

        def make() -> str:
            name, keys = _keys(self.graph, self.columns[column])
            if len(keys) >= _MOST_CODES:
                msg = (
                    f"to_onnx: `{self.columns[column].name}` has {len(keys):,} categories, more than Float32 can number"
                )
                raise ValueError(msg)
            return self._looked_up(self.names[column], name, keys, [float(i + 1) for i in range(len(keys))], 0.0)

        return self._placed(("code", column), make)

    def rank(self, number: int, statistic: Statistic) -> int:
        """The place of the ranks of a statistic."""

        def make() -> str:
            *ranks, unknown = (float(r) for r in statistic.ranks)
            if statistic.keys is None:
                name, keys = _keys(self.graph, self.columns[statistic.columns[0]])
                return self._looked_up(self.names[statistic.columns[0]], name, keys, ranks, unknown)
            return self._looked_up(self._combined(statistic), "keys_int64s", list(statistic.keys), ranks, unknown)

        return self._placed(("rank", number), make)

    def all(self) -> str:
        """Everything that was asked for, side by side."""
        if len(self.matrix) == 1:
            return self.matrix[0]
        if not self.matrix:
            # No split reads anything; what a number is taken from does not matter, but there is one for each row.
            first = next(iter(self.names.values()))
            flags = self.graph.add("Equal", first, first) if self._is_number(first) else self._of_rows(first)
            return self.graph.as_number(flags)
        return self.graph.add("Concat", *self.matrix, axis=1)

    def _is_number(self, name: str) -> bool:
        return not any(c.is_category for c in self.columns if c.name == name)

    def _of_rows(self, name: str) -> str:
        shape = self.graph.add("Shape", name)
        return self.graph.add("ConstantOfShape", shape)

    def _placed(self, key: tuple[str, int], make: Any) -> int:
        if key not in self.place:
            self.matrix.append(make())
            self.place[key] = len(self.matrix) - 1
        return self.place[key]

    def _looked_up(self, name: str, attribute: str, keys: list[Any], values: list[float], default: float) -> str:
        if not keys:
            keys, values = ([NULL_TEXT] if attribute == "keys_strings" else [NULL_INTEGER]), [default]
        found = self.graph.add(
            "LabelEncoder",
            name,
            values_floats=values,
            default_float=default,
            **_one(attribute, keys),
        )
        return self.graph.as_number(found) if self.graph.is_wide else found

    def _codes(self, column: int) -> str:
        """Codes as integers from 0 on, -1 for what is unknown."""
        if column not in self.codes_of:
            name, keys = _keys(self.graph, self.columns[column])
            codes = list(range(len(keys)))
            self.codes_of[column] = self.graph.add(
                "LabelEncoder",
                self.names[column],
                values_int64s=codes,
                default_int64=-1,
                **_one(name, keys),
            )
        return self.codes_of[column]

    def _combined(self, statistic: Statistic) -> str:
        """The key of each row's combination; -1 where one of its categories is unknown."""
        graph, np = self.graph, self.graph.np
        key, least = "", ""
        if max(statistic.keys or (0,), default=0) > 2**62:
            names = ", ".join(f"`{self.columns[c].name}`" for c in statistic.columns)
            msg = f"to_onnx: the categories of {names} have more combinations than 64 bits can number"
            raise ValueError(msg)
        for column, cardinality in zip(statistic.columns, statistic.cardinalities, strict=True):
            codes = self._codes(column)
            if not key:
                key = least = codes
                continue
            wider = graph.add("Mul", key, graph.constant([cardinality], np.int64))
            key, least = graph.add("Add", wider, codes), graph.add("Min", least, codes)
        unknown = graph.constant([-1], np.int64)
        return graph.add("Where", graph.add("Less", least, graph.constant([0], np.int64)), unknown, key)


def _used(found: Ensemble) -> set[int]:
    """The columns that splits read."""
    used: set[int] = set()
    for test in found.tests():
        used.update(found.statistics[test.statistic].columns if isinstance(test, RankAbove) else (test.column,))
    return used


def _tree_scores(graph: _Graph, found: Ensemble, by_column: bool) -> str:
    columns = _Columns(graph, found.columns, _used(found), by_column)
    reads: list[_Read] = []
    for tree in found.trees:
        reads.extend(_read(columns, found, node.test) for node in tree.nodes)
    matrix = columns.all()
    return _Trees(graph, found, reads).write(matrix)


def _read(columns: _Columns, found: Ensemble, test: Test) -> _Read:
    """What a runtime does at a split. What is below a border answers yes and goes left; a set answers yes, and `_Trees`
    knows which side that is.
    """
    if isinstance(test, Above):
        return columns.number(test.column), _LEQ, test.border, test.missing_left, ()
    if isinstance(test, RankAbove):
        return columns.rank(test.statistic, found.statistics[test.statistic]), _LEQ, test.rank + 0.5, False, ()
    members = tuple(code + 1 for code in _smaller(found.columns[test.column], test)[0])
    if len(members) <= 1:
        # An empty set is a number that no code is.
        return columns.code(test.column), _EQ, float(members[0] if members else -1), False, ()
    return columns.code(test.column), _MEMBER, 0.0, False, members


class _Trees:
    """The trees as the attributes of TreeEnsembleRegressor (opset 3) or TreeEnsemble (opset 5)."""

    def __init__(self, graph: _Graph, found: Ensemble, reads: list[_Read]) -> None:
        self.graph, self.found, self.reads = graph, found, reads

    def write(self, matrix: str) -> str:
        return self._write_ensemble(matrix) if self.graph.opset == 5 else self._write_regressor(matrix)

    def _borders(self) -> Any:
        """The numbers of all splits."""
        borders = [read[2] for read in self.reads]
        return self.graph.np.array(borders, "float64") if self.graph.is_wide else rounded_down(self.graph.np, borders)

    def _yes_is_right(self, test: Test) -> bool:
        return isinstance(test, Among) and _smaller(self.found.columns[test.column], test)[1]

    def _start(self, scores: str) -> str:
        """Add where scores start. (As `base_values` some runtimes would round it into the first tree's sums.)"""
        if not any(self.found.start):
            return scores
        return self.graph.add("Add", scores, self.graph.constant([self.found.start]))

    def _write_regressor(self, matrix: str) -> str:
        names = {_LEQ: "BRANCH_LEQ", _EQ: "BRANCH_EQ"}
        borders, of_node = self._borders().tolist(), 0
        nodes: dict[str, Any] = {
            key: []
            for key in (
                *("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values"),
                *("nodes_truenodeids", "nodes_falsenodeids", "nodes_missing_value_tracks_true"),
                *("target_treeids", "target_nodeids", "target_ids", "target_weights"),
            )
        }

        def node(*values: Any) -> None:
            for key, value in zip(nodes, values, strict=False):
                nodes[key].append(value)

        for t, tree in enumerate(self.found.trees):
            # Leaf `i` stands behind the nodes.
            def place(child: int, nodes: list[Node] = tree.nodes) -> int:
                return child if child >= 0 else len(nodes) + ~child

            for i, split in enumerate(tree.nodes):
                column, mode, _, missing, _ = self.reads[of_node]
                yes, no = place(split.left), place(split.right)
                if self._yes_is_right(split.test):
                    yes, no = no, yes
                node(t, i, column, names[mode], borders[of_node], yes, no, int(missing))
                of_node += 1
            for i, leaf in enumerate(tree.leaves):
                at = len(tree.nodes) + i
                node(t, at, 0, "LEAF", 0.0, 0, 0, 0)
                for output, value in zip(tree.outputs, leaf, strict=True):
                    nodes["target_treeids"].append(t)
                    nodes["target_nodeids"].append(at)
                    nodes["target_ids"].append(output)
                    nodes["target_weights"].append(value * self.found.scale)
        scores = self.graph.add(
            "TreeEnsembleRegressor",
            matrix,
            n_targets=self.found.outputs,
            aggregate_function="AVERAGE" if self.found.is_mean else "SUM",
            post_transform="NONE",
            **nodes,
        )
        return self._start(scores)

    def _write_ensemble(self, matrix: str) -> str:
        graph, of_node = self.graph, 0
        tensor = graph.helper.make_tensor
        features: list[int] = []
        modes: list[int] = []
        missing: list[int] = []
        members: list[float] = []
        yes: list[_Child] = []
        no: list[_Child] = []
        borders: list[float] = []
        roots: list[int] = []
        targets: list[int] = []
        weights: list[float] = []
        all_borders = self._borders().tolist()

        def split(
            column: int, mode: int, border: float, tracks: bool, left: tuple[int, bool], right: tuple[int, bool]
        ) -> None:
            features.append(column)
            modes.append(mode)
            borders.append(border)
            missing.append(int(tracks))
            yes.append(left)
            no.append(right)

        for tree in self.found.trees:
            width = len(tree.outputs)
            # A leaf has one output: one of several is as many trees, each with an output of its own.
            for output in range(width):
                first_node, first_leaf, at = len(features), len(targets), of_node
                roots.append(first_node)

                def place(child: int, first: int = first_node, leaf: int = first_leaf) -> _Child:
                    return (first + child, False) if child >= 0 else (leaf + ~child, True)

                for one in tree.nodes:
                    column, mode, _, tracks, own = self.reads[at]
                    left, right = place(one.left), place(one.right)
                    if self._yes_is_right(one.test):
                        left, right = right, left
                    split(column, mode, all_borders[at], tracks, left, right)
                    if mode == _MEMBER:
                        members.extend([*map(float, own), float("nan")])
                    at += 1
                if not tree.nodes:
                    split(0, _LEQ, 0.0, False, place(-1), place(-1))
                targets.extend([tree.outputs[output]] * len(tree.leaves))
                weights.extend(leaf[output] * self.found.scale for leaf in tree.leaves)
            of_node += len(tree.nodes)
        if self.found.is_mean:
            # Trees with several outputs stand there several times, so the mean is taken of what each output has.
            weights = [w / len(self.found.trees) for w in weights]
        sets = {"membership_values": tensor("members", graph.number, [len(members)], members)} if members else {}
        scores = graph.add(
            "TreeEnsemble",
            matrix,
            n_targets=self.found.outputs,
            aggregate_function=1,
            post_transform=0,
            tree_roots=roots,
            nodes_featureids=features,
            nodes_modes=tensor("modes", graph.types.UINT8, [len(modes)], modes),
            nodes_splits=tensor("splits", graph.number, [len(borders)], borders),
            nodes_missing_value_tracks_true=missing,
            nodes_truenodeids=[i for i, _ in yes],
            nodes_trueleafs=[int(leaf) for _, leaf in yes],
            nodes_falsenodeids=[i for i, _ in no],
            nodes_falseleafs=[int(leaf) for _, leaf in no],
            leaf_targetids=targets,
            leaf_weights=tensor("weights", graph.number, [len(weights)], weights),
            **sets,
        )
        return self._start(scores)


def _linear_scores(graph: _Graph, found: Linear, by_column: bool) -> str:
    columns = _Columns(graph, found.columns, set(range(len(found.columns))), by_column)
    for i in range(len(found.columns)):
        columns.number(i)
    products = graph.add("MatMul", columns.all(), graph.constant(found.weights))
    return graph.add("Add", products, graph.constant([found.intercepts]))


def _write_outputs(graph: _Graph, scores: str, link: Link, labels: Sequence[Any] | None, outputs: int) -> None:
    """Make predictions of raw scores, `[rows, outputs]`, and write them as the graph's outputs."""
    predicted = _linked(graph, scores, link, outputs)
    if labels is None:
        if outputs == 1:
            graph.add("Squeeze", predicted, graph.constant([1], graph.np.int64), output="prediction")
        else:
            graph.add("Identity", predicted, output="prediction")
        graph.output("prediction", graph.number, None if outputs == 1 else outputs)
        return
    if outputs == 1:
        # The log odds of the second class.
        most = 0.0 if len(labels) > 1 else float("inf")
        index = graph.add("Cast", graph.add("Greater", scores, graph.constant([most])), to=graph.types.INT64)
        index = graph.add("Squeeze", index, graph.constant([1], graph.np.int64))
        if len(labels) > 1:
            predicted = graph.add("Concat", graph.add("Sub", graph.constant([1.0]), predicted), predicted, axis=1)
    else:
        index = graph.add("ArgMax", scores, axis=1, keepdims=0)
    values = _label_values(graph, labels)
    graph.add("Gather", graph.constant(*values), index, output="label")
    graph.add("Identity", predicted, output="probabilities")
    of_type = graph.helper.np_dtype_to_tensor_dtype(graph.np.dtype(values[1]))
    graph.output("label", of_type, None)
    graph.output("probabilities", graph.number, len(labels))


def _label_values(graph: _Graph, labels: Sequence[Any]) -> tuple[list[Any], Any]:
    """Labels as a tensor's elements, and their type: Booleans, integers and floats as they are, all others as text."""
    np = graph.np
    for kind, dtype in ((bool, np.bool_), (int, np.int64), (float, np.float64)):
        if all(isinstance(label, kind) for label in labels):
            if dtype is np.int64 and not all(-(2**63) <= label < 2**63 for label in labels):
                break
            return list(labels), dtype
    return [str(label) for label in labels], object


def _linked(graph: _Graph, scores: str, link: Link, outputs: int) -> str:
    if link == "sigmoid":
        return graph.add("Sigmoid", scores)
    if link == "exp":
        return graph.add("Exp", scores)
    if link == "softmax":
        return graph.add("Softmax", scores, axis=1)
    if link == "ascending":
        found = graph.name()
        number = graph.constant([outputs], graph.np.int64)
        node = graph.helper.make_node("TopK", [scores, number], [found, f"{found}/places"], axis=1, largest=0, sorted=1)
        graph.nodes.append(node)
        return found
    if link == "mean_variance":
        mean = graph.add("Gather", scores, graph.constant([0], graph.np.int64), axis=1)
        sigma = graph.add("Gather", scores, graph.constant([1], graph.np.int64), axis=1)
        variance = graph.add("Exp", graph.add("Mul", sigma, graph.constant([2.0])))
        return graph.add("Concat", mean, variance, axis=1)
    return scores

"""A model's trees as plain Python values: what everything that writes a model in another form reads."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from polars_taiga.model import Model

Link = Literal["identity", "sigmoid", "exp", "softmax", "ascending", "mean_variance"]
"""How raw scores become a prediction: each by itself (`identity`, `sigmoid`, `exp`), all by `softmax`, sorted
(`ascending`), or as a mean and the logarithm of a standard deviation (`mean_variance`).
"""

Labels: TypeAlias = "Sequence[bool | int | float | Decimal | str]"

# Of the losses whose scores are not predictions as they are.
_LINKS: dict[str, Link] = {
    **dict.fromkeys(("logloss", "cross_entropy", "focal", "ova", "multilabel"), "sigmoid"),
    **dict.fromkeys(("poisson", "gamma", "tweedie", "cox", "aft"), "exp"),
    "multiclass": "softmax",
    "gaussian": "mean_variance",
}
_OWN_LINKS: dict[str, Link] = {"identity": "identity", "log": "exp", "logit": "sigmoid"}


@dataclass(frozen=True)
class Source:
    """A column that the model reads. `categories`: those of one that is asked about by them, in the order of codes."""

    name: str
    dtype: str
    categories: list[str | None] | list[int | None] | list[bool | None] | None
    kind: Literal["text", "integers", "Booleans"] | None

    @property
    def is_category(self) -> bool:
        """Whether it has categories, though no split may ask about any."""
        return self.categories is not None or self.dtype == "categorical"

    @property
    def is_temporal(self) -> bool:
        """Whether its numbers are ticks of a calendar or a clock."""
        return not self.is_category and self.dtype != "numeric"


@dataclass(frozen=True)
class Above:
    """A split of a column's numbers: right where the value is above the border, left else; missing, `missing_left`."""

    column: int
    border: float
    missing_left: bool


@dataclass(frozen=True)
class Among:
    """A split of a column's categories: right where it is one of these codes, the unknown where `others_right`."""

    column: int
    codes: tuple[int, ...]
    others_right: bool


@dataclass(frozen=True)
class Statistic:
    """A statistic of categories. `keys`: of several columns the combinations that are known, else the codes are meant.
    `ranks`: of each key (code) the number of the borders that its value is above; the last is that of all unknown.
    """

    columns: tuple[int, ...]
    cardinalities: tuple[int, ...]
    keys: tuple[int, ...] | None
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class RankAbove:
    """A split of a statistic of categories: right where its rank is above this one, left else."""

    statistic: int
    rank: int


Test: TypeAlias = Above | Among | RankAbove


@dataclass(frozen=True)
class Node:
    """A split. Children from 0 on are nodes, `~i` is leaf `i`. Children stand behind their parents."""

    test: Test
    left: int
    right: int


@dataclass(frozen=True)
class Function:
    """A linear function of columns' numbers: `constant` and each column's number times its coefficient, in order."""

    constant: float
    terms: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Tree:
    """A tree: its nodes, the first of which is the root (none: leaf 0), and each leaf's values of `outputs`. `linear`:
    the functions that some leaves of one output are where they are finite.
    """

    nodes: list[Node]
    leaves: list[list[float]]
    outputs: list[int]
    linear: dict[int, Function] = field(default_factory=dict)


@dataclass(frozen=True)
class Ensemble:
    """A model of trees. The raw score of output `k` is `start[k] + scale * sum`, where `sum` adds what the trees have
    for it; of a forest, whose `scale` is 1 and `start` 0, the mean over the trees.
    """

    target: str
    columns: list[Source]
    statistics: list[Statistic]
    trees: list[Tree]
    start: list[float]
    scale: float
    is_mean: bool
    link: Link
    labels: Labels | None
    fields: list[str] | None
    loss: str
    of_column: dict[str, int] = field(repr=False)

    @property
    def outputs(self) -> int:
        """The number of raw scores."""
        return len(self.start)

    def tests(self) -> list[Test]:
        """Those of all nodes."""
        return [node.test for tree in self.trees for node in tree.nodes]


@dataclass(frozen=True)
class Linear:
    """A linear model: raw score `k` is `intercepts[k]` and the sum of each column times its `weights[column][k]`."""

    target: str
    columns: list[Source]
    weights: list[list[float]]
    intercepts: list[float]
    labels: Labels

    @property
    def link(self) -> Link:
        """How its scores become probabilities."""
        return "sigmoid" if len(self.intercepts) == 1 else "softmax"


def _number(value: float | str) -> float:
    """A number of a model's JSON, which has infinities as strings."""
    return float(value)


def _link(model: Model, loss: str, outputs: int) -> Link:
    if loss == "custom":
        return _OWN_LINKS[json.loads(model._inner.params())["custom_loss"].get("link", "identity")]
    if loss == "quantile" and outputs > 1:
        return "ascending"
    return _LINKS.get(loss, "identity")


def _source(model: Model, feature: dict[str, Any]) -> Source:
    found = model._inner.categories(feature["name"]) if "categories" in feature else None
    kind, categories = found if found is not None else (None, None)
    return Source(feature["name"], feature["type"], categories, kind)


def _statistic(derived: dict[str, Any], tables: list[dict[str, Any]], cardinality: list[int]) -> Statistic:
    """A statistic, its borders compared as the engine compares them: multiplied out, in f64."""
    table = tables[derived["table"]]
    counts, prior, unit = table["n"], _number(derived["prior"]), _number(derived["unit"])
    borders = [_number(b) for b in derived["borders"]]
    most, is_counter = max(counts, default=0), derived["statistic"] == "counter"
    sums = [0] * len(counts) if is_counter else table["sums"][derived["sums"]]

    def rank(count: int, total: int) -> int:
        above, below = (count + prior, most + 1.0) if is_counter else (total * unit + prior, count + 1.0)
        return sum(above > border * below for border in borders)

    ranks = tuple(rank(n, s) for n, s in zip([*counts, 0], [*sums, 0], strict=True))
    columns = tuple(table["features"])
    keys = None if len(columns) == 1 else tuple(table["keys"])
    return Statistic(columns, tuple(cardinality[c] for c in columns), keys, ranks)


def _boosted(model: Model, data: dict[str, Any]) -> Ensemble:
    columns = [_source(model, feature) for feature in data["features"]]
    cardinality = [len(c.categories or ()) for c in columns]
    statistics: list[Statistic] = []
    # What each derived feature is, by its place: a set of a column's categories, or a statistic and its borders.
    derived: list[tuple[int, tuple[int, ...]] | tuple[int, list[float]]] = []
    is_set: list[bool] = []
    for one in data["derived"]:
        is_set.append(one["kind"] == "one_of")
        if is_set[-1]:
            derived.append((one["feature"], tuple(one["categories"])))
        else:
            derived.append((len(statistics), [_number(b) for b in one["borders"]]))
            statistics.append(_statistic(one, data["tables"], cardinality))

    def test(split: dict[str, Any]) -> Test:
        feature, border = split["feature"], _number(split["border"])
        if feature < len(columns):
            return Above(feature, border, split["missing"] == "left")
        place, of = derived[feature - len(columns)]
        if is_set[feature - len(columns)]:
            # A border above 1 separates nothing from a set.
            return Among(place, tuple(of) if border < 1 else (), False)
        return RankAbove(place, of.index(border) if border in of else len(of))

    outputs = len(data["start"])
    trees = []
    for tree in data["trees"]:
        leaves = [[_number(leaf["value"])] for leaf in tree["leaves"]]
        if tree["kind"] == "symmetric":
            nodes = _written_out([test(split) for split in tree["splits"]])
        else:
            nodes = [Node(test(n), _child(n["left"]), _child(n["right"])) for n in tree["nodes"]]
        linear = {i: _function(leaf["linear"]) for i, leaf in enumerate(tree["leaves"]) if "linear" in leaf}
        trees.append(Tree(nodes, leaves, [tree["output"]], linear))
    return Ensemble(
        target=model.target,
        columns=columns,
        statistics=statistics,
        trees=trees,
        start=[_number(s) for s in data["start"]],
        scale=_number(data["scale"]),
        is_mean=False,
        link=_link(model, data["loss"], outputs),
        labels=model.classes,
        fields=model._inner.fields(False),
        loss=data["loss"],
        of_column={c.name: i for i, c in enumerate(columns)},
    )


def _function(linear: dict[str, Any]) -> Function:
    coefficients = [_number(c) for c in linear["coefficients"]]
    return Function(_number(linear["constant"]), tuple(zip(linear["features"], coefficients, strict=True)))


def _written_out(tests: list[Test]) -> list[Node]:
    """A symmetric tree, whose levels ask one question each, as a branching one: level by level, from left to right."""
    depth = len(tests)
    nodes: list[Node] = []
    for level, test in enumerate(tests):
        first, below = (1 << level) - 1, (1 << (level + 1)) - 1
        for i in range(1 << level):
            children = (2 * i, 2 * i + 1)
            left, right = (~c if level + 1 == depth else below + c for c in children)
            assert len(nodes) == first + i
            nodes.append(Node(test, left, right))
    return nodes


def _child(child: dict[str, int]) -> int:
    return child["node"] if "node" in child else ~child["leaf"]


def _forest(model: Model, data: dict[str, Any]) -> Ensemble:
    columns = [_source(model, feature) for feature in data["features"]]

    def test(node: dict[str, Any]) -> Test:
        if "border" in node:
            return Above(node["feature"], _number(node["border"]), node["missing"] == "left")
        return Among(node["feature"], tuple(node["right_categories"]), node["others"] == "right")

    labels = model.classes
    outputs = 1 if labels is None else len(labels)
    trees = [
        Tree(
            [Node(test(n), _child(n["left"]), _child(n["right"])) for n in tree["nodes"]],
            [[_number(v) for v in leaf["value"]] for leaf in tree["leaves"]],
            list(range(outputs)),
        )
        for tree in data["trees"]
    ]
    return Ensemble(
        target=model.target,
        columns=columns,
        statistics=[],
        trees=trees,
        start=[0.0] * outputs,
        scale=1.0,
        is_mean=True,
        link="identity",
        labels=labels,
        fields=model._inner.fields(False),
        loss=data["criterion"],
        of_column={c.name: i for i, c in enumerate(columns)},
    )


def _linear(function: str, model: Model, data: dict[str, Any]) -> Linear:
    if (sparse := data["sparse"]) is not None:
        column = sparse["features"]
        hashed = " of strings, which are hashed" if model.params.get("hash_bits") else ""
        msg = (
            f"{function}: the model of `{model.target}` reads the lists of `{column}`{hashed}, which only tg.predict "
            "can; a model of dense= columns alone can be written"
        )
        raise ValueError(msg)
    labels = model.classes or []
    outputs = len(data["intercepts"])
    columns = [Source(d["name"], d["type"], None, None) for d in data["dense"]]
    weights = {c.name: [0.0] * outputs for c in columns}
    for one in data["coefficients"]:
        weights[one["feature"]][0 if outputs == 1 else one["class"]] = _number(one["value"])
    return Linear(model.target, columns, list(weights.values()), [_number(i) for i in data["intercepts"]], labels)


def ensemble_of(function: str, model: Model, *, linear_leaves: bool = False) -> Ensemble | Linear:
    """Read a model for `function`, whose name errors begin with. `linear_leaves`: whether it writes such.

    Raises
    ------
    ValueError
        For a model of lists of features, which has no columns, for one that knows categories by hashes, and for leaves
        that are linear functions.
    """
    data = json.loads(model.to_json())
    if model.learner == "sparse_lr":
        return _linear(function, model, data)
    for feature in data["features"]:
        if feature.get("categories_are") == "text, integers or Booleans":
            msg = (
                f"{function}: the model of `{model.target}` knows the categories of `{feature['name']}` by a hash of "
                "their text, as CatBoost does, which only tg.predict can; where no statistic combines columns, "
                "import_model(…, categories=) gives them names"
            )
            raise ValueError(msg)
    found = _forest(model, data) if model.learner == "forest" else _boosted(model, data)
    if not linear_leaves and any(tree.linear for tree in found.trees):
        msg = (
            f"{function}: the model of `{model.target}` has leaves that are linear functions, which that form of "
            "models does not know; to_lightgbm and to_sql write them"
        )
        raise ValueError(msg)
    return found


def trees_of(function: str, model: Model, *, linear_leaves: bool = False) -> Ensemble:
    """`ensemble_of` for what writes trees alone."""
    found = ensemble_of(function, model, linear_leaves=linear_leaves)
    if isinstance(found, Linear):
        msg = f"{function}: the model of `{model.target}` is linear and has no trees"
        raise ValueError(msg)
    return found


def numbers_of(function: str, of: str, model: Model, *, linear_leaves: bool = False) -> Ensemble:
    """`trees_of` for forms of models that know numbers alone.

    Raises
    ------
    ValueError
        For columns with categories, and for links that such forms have no name for.
    """
    found = trees_of(function, model, linear_leaves=linear_leaves)
    for column in found.columns:
        if column.is_category:
            msg = f"{function}: `{column.name}` has categories, whose labels {of} does not know; to_onnx keeps them"
            raise ValueError(msg)
    if found.link in ("ascending", "mean_variance"):
        what = "quantiles that ascend" if found.link == "ascending" else "a mean and a variance"
        msg = f"{function}: the model of `{found.target}` predicts {what}, which {of} does not know; to_onnx keeps it"
        raise ValueError(msg)
    return found


def rounded_down(np: Any, borders: Sequence[float]) -> Any:
    """Borders as f32, each the largest not above it: `x <= border` says of every f32 what it says of it in f64."""
    exact = np.array(borders, np.float64)
    with np.errstate(over="ignore"):
        near = exact.astype(np.float32)
    above = near.astype(np.float64) > exact
    near[above] = np.nextafter(near[above], np.float32(-np.inf))
    return near

"""Pictures of single trees: branching ones as trees, symmetric ones as the tables that they are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_taiga import _scores
from polars_taiga.plot import _chart, _rows

if TYPE_CHECKING:
    from altair import LayerChart

    from polars_taiga.model import Model

__all__ = ["tree"]

_MEMBER = re.compile(r".* in \{.*\}", re.DOTALL)


def tree(model: Model, tree: int = 0, *, depth: int | None = None, label: object = None) -> LayerChart:
    """Draw a tree: what its splits ask, how many training rows came by, and the values of its leaves.

    A branching tree grows from left to right, the share of the rows in the width of its branches; at most 2,047 nodes
    get into the chart, at most 63 unless `depth` says more. A symmetric tree asks the same of all nodes of a level, so
    it is a table of its leaves by the answers to its first questions (down) and to its last ones (across): at most
    1,024 cells, at most 256 unless `depth` says more. (Kohavi, "The power of decision tables", 1995.)

    Parameters
    ----------
    model
        Boosted trees or a forest.
    tree
        The number of the tree, as in `Model.trees`.
    depth
        How many levels of splits are drawn, 1 to 10; default 5, of symmetric trees 8. A node at which the rest is cut
        off shows the mean of the leaves below it, by the rows that came there.
    label
        Of a forest of classes: the class whose share is shown; default the last.

    Returns
    -------
    altair.LayerChart
        Values are blue below the middle one and orange above it: of boosted trees in units of the raw score, the
        learning rate included, of a forest in its prediction's. A leaf that is a linear function says its formula, and
        has the colour of its plain value.

    Raises
    ------
    ImportError
        Without Altair.
    ValueError
        For a model without trees, a tree or a class that it does not have, and a `depth` out of range.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=2.0 * pl.col("x"))
    >>> model = df.taiga.fit_gbdt("y", "x", rounds=3, depth=2, policy="depthwise")
    >>> tg.plot.tree(model, 2).to_dict()["title"]["text"]
    'Tree 2 of 3 for y'
    """
    _chart.altair()
    model = _rows.checked_model(model)
    nodes = model.trees()
    count = nodes["tree"].n_unique()
    if isinstance(tree, bool) or not isinstance(tree, int) or not 0 <= tree < count:
        msg = f"parameter `tree`: {tree!r} is not one of the {count} trees, from 0"
        raise ValueError(msg)
    symmetric = model.learner == "gbdt" and model.params["policy"] == "symmetric"
    depth = _chart.at_least("depth", (8 if symmetric else 5) if depth is None else depth, 1, 10)
    nodes = _valued(model, nodes.filter(pl.col("tree") == tree), label)
    found, cut = _cut(nodes.sort("node").to_dicts(), depth)

    names = _scores.class_names(model)
    if model.learner == "forest":
        unit = f"share of {_class(model, label)}" if names else f"mean {model.target}"
    else:
        unit = _scores.score_title(model, names[nodes["output"][0]] if model._inner.outputs() > 1 else None)
    of_output = names[nodes["output"][0]] if model.learner == "gbdt" and model._inner.outputs() > 1 else None
    title = f"Tree {tree} of {count} for {_rows.title_of(model, () if of_output is None else [of_output])}"
    if of_output is not None and model.targets is None:
        title += f" = {of_output}"
    cut_text = f"; below level {depth} cut off, the mean of what is there is shown" if cut else ""
    if symmetric and found[0]["left"] is not None:
        picture: LayerChart = _table(found, title, unit, cut_text)
    else:
        picture = _branching(found, title, unit, cut_text)
    return picture


def _class(model: Model, label: object) -> str:
    return _scores.class_names(model)[-1] if label is None else _scores.class_text(model, label)


def _valued(model: Model, nodes: pl.DataFrame, label: object) -> pl.DataFrame:
    """Nodes with one value: of a forest of classes the share of one; and the formulas of linear leaves."""
    if model.learner != "forest":
        if label is not None:
            msg = "parameter `label`: it is for forests; a boosted tree adds to the score of one class"
            raise ValueError(msg)
        nodes = nodes.with_columns(right_categories=pl.lit(None, dtype=pl.List(pl.String)))
        return nodes.with_columns(formula=_formulas(nodes)) if "coefficients" in nodes.columns else nodes
    at = _scores.class_names(model).index(_class(model, label)) if model.classes is not None else 0
    return nodes.with_columns(pl.col("value").list.get(at, null_on_oob=True))


def _formulas(nodes: pl.DataFrame) -> pl.Series:
    """What leaves are linear functions of, as text; null where they are none."""

    def formula(constant: float | None, features: list[str] | None, coefficients: list[float] | None) -> str | None:
        if constant is None or features is None or coefficients is None:
            return None
        terms = [
            f"{'−' if by < 0 else '+'} {_chart.number(abs(by))}·{name}"
            for name, by in zip(features, coefficients, strict=True)
            if by != 0
        ]
        return " ".join([_chart.number(constant), *terms])

    rows = nodes.select("constant", "linear_features", "coefficients").rows()
    return pl.Series([formula(*row) for row in rows], dtype=pl.String)


def _cut(nodes: list[dict[str, Any]], depth: int) -> tuple[list[dict[str, Any]], bool]:
    """Make leaves of the nodes at a depth, with the mean of the leaves below them, and drop those."""
    by_number = {node["node"]: node for node in nodes}
    for node in sorted(nodes, key=lambda node: -node["depth"]):
        if node["left"] is None:
            node["mean"] = node["value"]
            continue
        pair = [by_number[node["left"]], by_number[node["right"]]]
        rows = sum(child["count"] for child in pair)
        shares = [child["count"] / rows if rows else 0.5 for child in pair]
        node["mean"] = sum(share * child["mean"] for share, child in zip(shares, pair, strict=True))
    kept = [node for node in nodes if node["depth"] <= depth]
    cut = False
    for node in kept:
        node["cut"] = node["left"] is not None and node["depth"] == depth
        if node["cut"]:
            cut, node["left"], node["right"] = True, None, None
    return kept, cut


def _question(node: dict[str, Any]) -> str:
    """What a split asks: a column, a statistic, or a column and its categories."""
    categories = node["right_categories"]
    if categories is not None:
        return f"{node['feature']} in {{{', '.join('null' if c is None else c for c in categories)}}}"
    return str(node["feature"])


def _answers(node: dict[str, Any]) -> tuple[str, str]:
    """What is so on the left and on the right; missing values belong to one of them."""
    if node["right_categories"] is not None or (node["border"] == 0.5 and _MEMBER.fullmatch(node["feature"])):
        left, right = "no", "yes"
    else:
        border = _chart.number(node["border"])
        left, right = f"≤ {border}", f"> {border}"
    return (f"{left}, null", right) if node["missing_left"] else (left, f"{right}, null")


def _colour(values: list[float], unit: str) -> Any:
    """Blue below the middle value, orange above it."""
    alt = _chart.altair()
    low, high = min(values), max(values)
    middle = 0.0 if low < 0 < high else low / 2 + high / 2
    reach = max(high - middle, middle - low) or 1.0
    scale = alt.Scale(domain=[middle - reach, middle, middle + reach], range=["#6BAED6", "#F2F2F2", "#F4A261"])
    legend = alt.Legend(gradientLength=120, titleLimit=200)
    return alt.Color("value:Q", title=[*_lines(unit, 26)], scale=scale, legend=legend)


def _lines(text: str, length: int) -> list[str]:
    """Break a text at spaces."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= length:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _place(nodes: list[dict[str, Any]]) -> int:
    """Give each node its height: leaves one below the other, splits between theirs. The number of leaves."""
    by_number = {node["node"]: node for node in nodes}
    leaves = 0
    waiting = [(nodes[0], False)]
    while waiting:
        node, done = waiting.pop()
        if node["left"] is None:
            node["y"] = float(leaves)
            leaves += 1
        elif done:
            node["y"] = (by_number[node["left"]]["y"] + by_number[node["right"]]["y"]) / 2
        else:
            # The left child comes out first, so it is above.
            waiting += [(node, True), (by_number[node["right"]], False), (by_number[node["left"]], False)]
    return leaves


# Of a branching tree, in units of a level: how wide a node is.
_WIDE = 0.62


def _branching(nodes: list[dict[str, Any]], title: str, unit: str, cut: str) -> Any:
    alt = _chart.altair()
    leaves = _place(nodes)
    by_number = {node["node"]: node for node in nodes}
    rows = max(nodes[0]["count"], 1)
    boxes, links = [], []
    for node in nodes:
        split = node["left"] is not None
        formula = node.get("formula")
        value = _chart.number(node["mean"]) if formula is None else _chart.shorten(formula, 20)
        top = _chart.shorten(_question(node), 20) if split else ("… " if node["cut"] else "") + value
        x, y = float(node["depth"]), node["y"]
        box = {"x": x, "x2": x + _WIDE, "y": y - 0.36, "y2": y + 0.36, "middle": x + _WIDE / 2}
        box |= {"upper": y - 0.15, "lower": y + 0.17, "text": top, "rows": f"{node['count']:,} rows"}
        box |= {
            "value": node["mean"],
            "split": split,
            "question": _question(node) if split else "",
            "gain": node["gain"],
        }
        if "formula" in node:
            box["formula"] = formula or ""
        boxes.append(box)
        for child, answer in zip((node["left"], node["right"]), _answers(node) if split else (), strict=False):
            below = by_number[child]
            ends = {"x": x + _WIDE, "y": y, "x2": x + 1.0, "y2": below["y"]}
            links.append({**ends, "share": below["count"] / rows, "answer": answer, "up": below["y"] < y})
    height, levels = 40 * leaves, max(node["depth"] for node in nodes)
    x_scale = alt.Scale(domain=[-0.03, levels + _WIDE + 0.03], nice=False, zero=False)
    y_scale = alt.Scale(domain=[leaves - 0.5, -0.5], nice=False, zero=False)

    def along(field: str) -> Any:
        return alt.X(f"{field}:Q", scale=x_scale, axis=None)

    def across(field: str) -> Any:
        return alt.Y(f"{field}:Q", scale=y_scale, axis=None)

    link = alt.Chart(_chart.data(pl.DataFrame(links, infer_schema_length=None))) if links else None
    box = alt.Chart(_chart.data(pl.DataFrame(boxes, infer_schema_length=None, schema_overrides={"gain": pl.Float64})))
    layers = []
    if link is not None:
        layers.append(
            link.mark_rule(color="#B0B0B0").encode(
                x=along("x"), x2="x2:Q", y=across("y"), y2="y2:Q", strokeWidth=_stroke()
            )
        )
        # Beside the branch's end, on the side from which it does not come.
        for up, baseline, dy in (("datum.up", "bottom", -3), ("!datum.up", "top", 4)):
            answers = link.transform_filter(up).mark_text(
                align="right", baseline=baseline, dx=-6, dy=dy, fontSize=10, color="#444444"
            )
            layers.append(answers.encode(x=along("x2"), y=across("y2"), text="answer:N"))
    tooltip = [alt.Tooltip("question:N", title="asks"), "rows:N", "value:Q", "gain:Q"]
    if "formula" in nodes[0]:
        tooltip.append("formula:N")
    edges = {"x": along("x"), "x2": "x2:Q", "y": across("y"), "y2": "y2:Q", "tooltip": tooltip}
    frame = box.mark_rect(stroke="#666666", strokeWidth=0.8, cornerRadius=4)
    layers.append(
        frame.transform_filter("!datum.split").encode(color=_colour([n["mean"] for n in nodes], unit), **edges)
    )
    layers.append(frame.transform_filter("datum.split").encode(color=alt.value("white"), **edges))
    for field, at, bold in (("text", "upper", "bold"), ("rows", "lower", "normal")):
        text = box.mark_text(fontSize=10, fontWeight=bold, color="#222222")
        layers.append(text.encode(x=along("middle"), y=across(at), text=f"{field}:N"))
    subtitle = f"{nodes[0]['count']:,} rows{cut}"
    picture = alt.layer(*layers).properties(view=alt.ViewBackground(strokeOpacity=0))
    return _chart.finish(picture, title, subtitle, width=190 * levels + 130, height=max(height, 60))


def _stroke() -> Any:
    alt = _chart.altair()
    return alt.StrokeWidth("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.7, 9]), legend=None)


def _table(nodes: list[dict[str, Any]], title: str, unit: str, cut: str) -> Any:
    """Draw a symmetric tree: its questions as lines of text, its leaves as a table by the answers to them."""
    alt = _chart.altair()
    by_number = {node["node"]: node for node in nodes}
    questions, first = [], nodes[0]
    while first["left"] is not None:
        questions.append(first)
        first = by_number[first["left"]]
    down = len(questions) // 2
    cells: list[dict[str, Any]] = []
    waiting: list[tuple[dict[str, Any], tuple[str, ...]]] = [(nodes[0], ())]
    while waiting:
        node, path = waiting.pop()
        if node["left"] is not None:
            waiting += [(by_number[node["right"]], (*path, "y")), (by_number[node["left"]], (*path, "n"))]
            continue
        value = node["mean"] if node["count"] else None
        cells.append(
            {
                "down": " ".join(path[:down]),
                "across": " ".join(path[down:]),
                "value": value,
                "text": _chart.number(value) if node["count"] else "",
                "rows": f"{node['count']:,}",
                **({"formula": node["formula"] or ""} if "formula" in node else {}),
            }
        )
    texts = [f"{i + 1}:  {_asked(question)}" for i, question in enumerate(questions)]
    rows_axis = sorted({cell["down"] for cell in cells})
    columns = sorted({cell["across"] for cell in cells})
    across = [str(i + 1) for i in range(down, len(questions))]
    frame = pl.DataFrame(cells, schema_overrides={"value": pl.Float64}, infer_schema_length=None)
    base = alt.Chart(_chart.data(frame)).encode(
        x=alt.X(
            "across:N", sort=columns, title=f"answers to {', '.join(across)}", axis=alt.Axis(orient="top", labelAngle=0)
        ),
        y=alt.Y("down:N", sort=rows_axis, title=_heading(down), axis=alt.Axis(labels=down > 0, ticks=down > 0)),
        tooltip=["down:N", "across:N", "value:Q", "rows:N", *(["formula:N"] if "formula" in nodes[0] else [])],
    )
    values = [cell["value"] for cell in cells if cell["value"] is not None]
    color = _colour(values or [0.0], unit)
    filled = alt.condition("datum.value === null", alt.value("white"), color)
    layers = [base.mark_rect(stroke="#DDDDDD", invalid=None).encode(color=filled)]
    wide = len(columns) <= 16
    if wide:
        value = base.mark_text(fontSize=10, fontWeight="bold", dy=-6, color="#222222").encode(text="text:N")
        count = base.mark_text(fontSize=9, dy=7, color="#555555").encode(text="rows:N")
        layers += [value, count]
    subtitle = [f"{nodes[0]['count']:,} rows{cut}. Each cell is a leaf: its value and its rows; y: yes, n: no.", *texts]
    size = {"width": alt.Step(62), "height": alt.Step(32)} if wide else {"width": alt.Step(20), "height": alt.Step(20)}
    return _chart.finish(alt.layer(*layers), title, subtitle, **size)


def _asked(node: dict[str, Any]) -> str:
    """A whole question, to which the left child answers no."""
    _, right = _answers({**node, "missing_left": True})
    text = _chart.shorten(_question(node), 70) + ("" if right == "yes" else f" {right}")
    return text if node["missing_left"] else f"{text}, or null"


def _heading(down: int) -> str:
    return f"answers to {', '.join(str(i + 1) for i in range(down))}" if down else ""

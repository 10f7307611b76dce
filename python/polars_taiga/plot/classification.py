"""Pictures of how well classes are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_taiga.plot import _chart, _rows

if TYPE_CHECKING:
    from altair import LayerChart

    from polars_taiga._plugin import IntoColumn
    from polars_taiga.model import Model

__all__ = ["precision_recall", "roc"]


def _counts(rows: pl.DataFrame) -> pl.DataFrame:
    """The weights of the positives (`tp`) and the negatives (`fp`) that score at least each score, descending."""
    of = pl.col("weight")
    return (
        rows.group_by("score")
        .agg(tp=of.filter("positive").sum(), fp=of.filter(~pl.col("positive")).sum())
        .sort("score", descending=True)
        .with_columns(pl.col("tp", "fp").cum_sum())
    )


def _roc(rows: pl.DataFrame) -> tuple[pl.DataFrame, float]:
    """The curve from (0, 0) to (1, 1), and the area under it."""
    counts = _counts(rows)
    start = pl.DataFrame({"score": [None], "tp": [0.0], "fp": [0.0]}, schema=counts.schema)
    curve = pl.concat([start, counts]).select(
        x=pl.col("fp") / pl.col("fp").last(), y=pl.col("tp") / pl.col("tp").last(), score="score"
    )
    return curve, float(curve.select((pl.col("x").diff() * (pl.col("y") + pl.col("y").shift(1)) / 2).sum()).item())


def _precision_recall(rows: pl.DataFrame) -> tuple[pl.DataFrame, float]:
    """The curve from a recall of 0, where the precision is 1, to a recall of 1, and the average precision."""
    counts = _counts(rows)
    curve = counts.select(
        x=pl.col("tp") / pl.col("tp").last(), y=pl.col("tp") / (pl.col("tp") + pl.col("fp")), score="score"
    )
    curve = pl.concat([pl.DataFrame({"x": [0.0], "y": [1.0], "score": [None]}, schema=curve.schema), curve])
    return curve, float(curve.select((pl.col("x").diff() * pl.col("y")).sum()).item())


def _thin(curve: pl.DataFrame, points: int) -> pl.DataFrame:
    """Keep so many points of a curve, equally far apart along it, and both ends."""
    if curve.height <= points:
        return curve
    steps = (pl.col("x").diff().abs() + pl.col("y").diff().abs()).fill_null(0.0).cum_sum()
    place = (steps / steps.last() * (points - 2)).floor()
    ends = pl.int_range(pl.len()).is_in([0, curve.height - 1])
    return curve.filter((place != place.shift(1)).fill_null(True) | ends)


def _curves(
    kind: Any,
    model: Model | Mapping[str, Model],
    frame: object,
    target: IntoColumn | None,
    weights: IntoColumn | None,
    label: object,
    points: int,
) -> tuple[pl.DataFrame, list[str], str, list[float]]:
    """The curves of all models and classes as one frame, their titles, what is predicted, the classes' shares."""
    points = _chart.at_least("points", points, 10, 5_000)
    drawn, titles, shares, what = [], [], [], ""
    for name, one in _rows.models(model).items():
        against = _rows.one_against_rest(one, _rows.scored(one, frame, target, weights), label)
        what = f"{one.target} = {next(iter(against))}" if len(against) == 1 else f"each class of {one.target}"
        for of_class, rows in against.items():
            curve, area = kind(rows)
            shown = [name] * bool(name) + [of_class] * (len(against) > 1)
            titles.append(f"{', '.join(shown)} ({area:.3f})" if shown else f"{area:.3f}")
            shares.append(float(rows.select(pl.col("weight").filter("positive").sum() / pl.col("weight").sum()).item()))
            drawn.append(_thin(curve, points).with_columns(series=pl.lit(titles[-1])))
    _chart.few("curves", len(drawn), "choose by `label`")
    return pl.concat(drawn), titles, what, shares


def _tooltip(x: str, y: str) -> list[Any]:
    alt = _chart.altair()
    fields = [("x:Q", x), ("y:Q", y), ("score:Q", "at least this probability")]
    return [alt.Tooltip(field, title=title, format=".4f") for field, title in fields]


def roc(
    model: Model | Mapping[str, Model],
    frame: pl.DataFrame | pl.LazyFrame,
    target: IntoColumn | None = None,
    *,
    weights: IntoColumn | None = None,
    label: object = None,
    points: int = 500,
) -> LayerChart:
    """Draw the ROC curve: the share of the positive rows found over that of the negative ones taken for positive.

    Exact for any number of rows; at most `points` points of each curve, equally far apart along it, get into the
    chart. The area under the curve is of all of it.

    Parameters
    ----------
    model
        A model of classes, or a dictionary of models by name, a curve each.
    frame
        Rows to judge by, with the model's columns; preferably not those of the fit. Columns that expressions made at
        the fit (`Model.computed_features`) stand in it by their names.
    target
        The class of each row, by name or expression; default the column that the model was fitted on. Rows where it
        is null are left out.
    weights
        A weight for each row, finite and not negative; default 1 each.
    label
        The positive class, or a list of them; default the second of two, each of several against the others.
    points
        How many points of a curve are drawn at most, 10 to 5,000.

    Returns
    -------
    altair.LayerChart
        Lines, and the diagonal of a model that knows nothing.

    Raises
    ------
    ImportError
        Without Altair.
    ValueError
        For a regression, labels that the model does not know, rows of one class, weights that can't be used, and more
        curves than can be told apart (10).

    Notes
    -----
    Rows of equal score are one step, a slope (scikit-learn's `roc_curve`).

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") % 60 > 30)
    >>> model = df.taiga.fit_gbdt("y", "x", rounds=3)
    >>> tg.plot.roc(model, df).to_dict()["title"]["text"]
    'ROC curve of y = true'
    """
    alt = _chart.altair()
    curves, titles, what, _ = _curves(_roc, model, frame, target, weights, label, points)
    legend = "area under the curve"
    axes = {"x": "false positive rate", "y": "true positive rate"}
    lines = (
        alt.Chart(_chart.data(curves.with_row_index("order")))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("x:Q", title=axes["x"], scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("y:Q", title=axes["y"], scale=alt.Scale(domain=[0, 1])),
            order="order:Q",
            color=_chart.colours(titles, legend),
            tooltip=_tooltip(axes["x"], axes["y"]),
        )
    )
    ends = alt.Data(values=[{"x": 0, "y": 0}, {"x": 1, "y": 1}])
    diagonal = alt.Chart(ends).mark_line(color=_chart.GREY, strokeDash=[4, 4], strokeWidth=1).encode(x="x:Q", y="y:Q")
    subtitle = f"{legend} {titles[0]}" if len(titles) == 1 else ""
    picture: LayerChart = _chart.finish(diagonal + lines, f"ROC curve of {what}", subtitle, width=320, height=320)
    return picture


def precision_recall(
    model: Model | Mapping[str, Model],
    frame: pl.DataFrame | pl.LazyFrame,
    target: IntoColumn | None = None,
    *,
    weights: IntoColumn | None = None,
    label: object = None,
    points: int = 500,
) -> LayerChart:
    """Draw precision over recall: how many of the rows taken for positive are, over how many of the positive are found.

    Exact for any number of rows; at most `points` points of each curve, equally far apart along it, get into the
    chart. The average precision (the area under the steps) is of all of it.

    Parameters
    ----------
    model, frame, target, weights, label, points
        As in `roc`.

    Returns
    -------
    altair.LayerChart
        Steps, and a dashed line for each at the share of the positive rows, the precision of a model that knows
        nothing.

    Raises
    ------
    ImportError, ValueError
        As `roc`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") % 60 > 30)
    >>> model = df.taiga.fit_gbdt("y", "x", rounds=3)
    >>> tg.plot.precision_recall(model, df).to_dict()["title"]["text"]
    'Precision and recall of y = true'
    """
    alt = _chart.altair()
    curves, titles, what, shares = _curves(_precision_recall, model, frame, target, weights, label, points)
    legend = "average precision"
    color = _chart.colours(titles, legend)
    lines = (
        alt.Chart(_chart.data(curves.with_row_index("order")))
        .mark_line(strokeWidth=2, interpolate="step-before")
        .encode(
            x=alt.X("x:Q", title="recall", scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("y:Q", title="precision", scale=alt.Scale(domain=[0, 1])),
            order="order:Q",
            color=color,
            tooltip=_tooltip("recall", "precision"),
        )
    )
    knowing_nothing = pl.DataFrame({"y": shares, "series": titles}).unique("y", maintain_order=True)
    base = (
        alt.Chart(_chart.data(knowing_nothing))
        .mark_rule(strokeDash=[4, 4], strokeWidth=1)
        .encode(y="y:Q", color=color if knowing_nothing.height > 1 else alt.value(_chart.GREY))
    )
    subtitle = f"{legend} {titles[0]}" if len(titles) == 1 else ""
    picture: LayerChart = _chart.finish(
        base + lines, f"Precision and recall of {what}", subtitle, width=320, height=320
    )
    return picture

"""Pictures of what a fit learned by, and of when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from polars_taiga import _scores
from polars_taiga.plot import _chart, _rows

if TYPE_CHECKING:
    from altair import Chart, LayerChart, VConcatChart

    from polars_taiga._plugin import IntoColumn
    from polars_taiga.model import Model

__all__ = ["history", "importance"]

_KINDS = {
    "gain": "total gain of its splits",
    "impurity": "share of what splits lower the impurity by",
    "split": "number of its splits",
    "cover": "weight of the rows that met its splits",
    "permutation": "how much worse when it is shuffled",
    "loss_change": "how much the loss grows without it",
}
_IN_UNIT = ("rmse", "mae", "quantile", "huber")


def _of_shap(model: Model, frame: object, rows: int) -> pl.DataFrame:
    """The mean size of the Shapley values, by class."""
    found = []
    for label, values in _rows._shap(model, _rows.feature_rows(model, frame, rows)).items():
        means = values.drop("base_value").select(pl.all().abs().mean())
        found.append(
            means.unpivot(variable_name="feature", value_name="importance").with_columns(series=pl.lit(label or ""))
        )
    return pl.concat(found)


def importance(
    model: Model,
    frame: pl.DataFrame | pl.LazyFrame | None = None,
    target: IntoColumn | None = None,
    *,
    kind: Literal["gain", "impurity", "split", "cover", "permutation", "loss_change", "shap"] | None = None,
    features: int = 20,
    rows: int = 100_000,
) -> Chart:
    """Draw how much each feature matters, the most important first, as bars.

    A bar for each of `features` features at most (of Shapley values and several classes, one for each class), and one
    for all others together, get into the chart.

    Parameters
    ----------
    model
        The fitted model.
    frame
        For `"shap"`, and for the other kinds of `Model.importance` that are measured on rows: rows with the model's
        columns.
    target
        For kinds that need it: the target of each row; default the column that the model was fitted on.
    kind
        As in `Model.importance`, or `"shap"`: the mean size of the Shapley values, in the unit of the raw score, of
        several classes on top of each other. Default `"shap"` with a frame, else `"gain"`.
    features
        How many are drawn, 1 to 200.
    rows
        Of how many rows Shapley values are taken at most: a sample.

    Returns
    -------
    altair.Chart
        Horizontal bars.

    Raises
    ------
    ImportError
        Without Altair.
    ValueError
        For what the model does not have, as `Model.importance`; for `"shap"` without a frame; and for more classes
        than can be told apart (10).

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100), "z": [0, 1] * 50}).with_columns(y=2.0 * pl.col("x"))
    >>> model = df.taiga.fit_gbdt("y", "x", "z", rounds=3)
    >>> [bar["feature"] for bar in tg.plot.importance(model).to_dict()["data"]["values"]]
    ['x', 'z']
    """
    alt = _chart.altair()
    model = _rows.checked_model(model)
    features = _chart.at_least("features", features, 1, 200)
    kind = kind or ("gain" if frame is None else "shap")
    if kind == "shap":
        if frame is None:
            msg = 'parameter `frame`: kind="shap" is measured on rows'
            raise ValueError(msg)
        found = _of_shap(model, frame, _chart.at_least("rows", rows, 1, 10**9))
        several = len(_scores.class_names(model)) > (2 if model.targets is None else 1)
        unit = "" if several else f", {_scores.score_title(model)}"
        what = f"mean size of its Shapley values{unit}"
    else:
        measure: Any = model.importance
        on_rows = frame is not None and kind in ("permutation", "loss_change")
        given = {"data": frame, "target": target} if on_rows else {}
        found = measure(kind, **given).with_columns(series=pl.lit(""))
        what = _KINDS.get(kind, kind)
    series = found["series"].unique(maintain_order=True).to_list()
    _chart.few("classes", len(series), 'choose another `kind` than "shap"')

    order = found.group_by("feature", maintain_order=True).agg(pl.col("importance").sum())
    order = order.sort("importance", descending=True, maintain_order=True)
    kept = order["feature"].head(features).to_list()
    shown = found.filter(pl.col("feature").is_in(kept))
    rest = order.height - len(kept)
    if rest:
        others = f"{rest} others"
        kept.append(others)
        pooled = found.filter(~pl.col("feature").is_in(kept)).group_by("series", maintain_order=True)
        pooled_rows = pooled.agg(pl.lit(others).alias("feature"), pl.col("importance").sum())
        shown = pl.concat([shown, pooled_rows.select(shown.columns)])
    numbered = pl.DataFrame({"feature": kept}).with_row_index("rank")
    shown = shown.join(numbered, on="feature").sort("rank", "series", maintain_order=True).drop("rank")

    # Gains go into the billions.
    large = shown.select(pl.col("importance").abs().max()).item() >= 1e6
    axis = alt.Axis(tickCount=6, format="~s") if large else alt.Axis(tickCount=6)
    chart = (
        alt.Chart(_chart.data(shown))
        .mark_bar()
        .encode(
            x=alt.X("importance:Q", title=what, stack="zero", axis=axis),
            y=alt.Y("feature:N", sort=kept, title=None, axis=alt.Axis(labelLimit=220)),
            color=_chart.colours(series, _rows.each_of(model)) if len(series) > 1 else alt.value(_chart.BLUE),
            tooltip=["feature:N", *(["series:N"] if len(series) > 1 else []), "importance:Q"],
        )
    )
    title = f"Importance of features for {_rows.title_of(model)}"
    picture: Chart = _chart.finish(chart, title, width=420, height=alt.Step(20))
    return picture


def _metric_title(metric: str, model: Model) -> str:
    """The title of a metric's axis, with the target where it is in its unit."""
    return f"{metric}, {_rows.title_of(model)}" if metric in _IN_UNIT and model.classes is None else metric


def _curves(model: Model) -> list[tuple[str, str, str]]:
    """The columns of a model's history: each with the name of the rows and the metric."""
    history = model._inner.history()
    curves = [] if history is None else history[0]
    return [(metric if rows is None else f"{rows}_{metric}", rows or "", metric) for rows, metric, _ in curves]


def _thin(rounds: pl.DataFrame, most: int) -> pl.DataFrame:
    """Keep so many rounds, equally far apart, the best and the last."""
    step = -(-rounds.height // most)
    index = pl.int_range(pl.len())
    return rounds.filter((index % step == 0) | pl.col("best") | (index == pl.len() - 1))


def history(model: Model | Mapping[str, Model], *, points: int = 500) -> LayerChart | VConcatChart:
    """Draw the metric of the held-out rows after each round, the best round marked.

    At most `points` rounds of each curve, equally far apart, and the best and the last, get into the chart.

    Parameters
    ----------
    model
        A model that was fitted with `eval`, or a dictionary of models by name, a curve each, and one for each set of
        rows that was measured. Where they were measured by several metrics, each has its own panel below the others.
    points
        How many rounds of a curve are drawn, 10 to 5,000.

    Returns
    -------
    altair.LayerChart
        Lines with a dot at the best round; of several metrics an `altair.VConcatChart` of these.

    Raises
    ------
    ImportError
        Without Altair.
    ValueError
        For a model without a history, and for more models or sets than can be told apart (10).

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=2.0 * pl.col("x"), held=pl.col("x") % 4 == 0)
    >>> model = df.taiga.fit_gbdt("y", "x", rounds=5, eval="held")
    >>> tg.plot.history(model).to_dict()["title"]["text"]
    'Held-out rows of y'
    """
    alt = _chart.altair()
    points = _chart.at_least("points", points, 10, 5_000)
    by_name = _rows.models(model)
    _chart.few("models", len(by_name), "draw fewer")
    curves: dict[str, list[pl.DataFrame]] = {}
    drawn: dict[str, None] = {}
    target = ""
    for name, one in by_name.items():
        rounds = one.history
        if rounds.height == 0:
            msg = f"the model of {_rows.named(one)}{f', {name!r},' if name else ''} has no history: fit it with eval="
            raise ValueError(msg)
        target = _rows.title_of(one)
        for column, rows, metric in _curves(one):
            series = ", ".join(filter(None, [name, rows]))
            drawn.setdefault(series, None)
            curve = rounds.select("round", rounds[column].alias("value"), "best", series=pl.lit(series))
            curves.setdefault(_metric_title(metric, one), []).append(_thin(curve, points))
    _chart.few("curves", len(drawn), "draw fewer models, or of fewer sets")
    panels = [_panel(metric, pl.concat(of_metric), list(drawn)) for metric, of_metric in curves.items()]
    title = f"Held-out rows of {target}"
    if len(panels) == 1:
        picture: LayerChart = _chart.finish(panels[0], title, _best(next(iter(curves.values()))))
        return picture
    several: VConcatChart = _chart.finish(alt.vconcat(*panels), title)
    return several


def _best(curves: list[pl.DataFrame]) -> list[str]:
    """Say the best value of each curve, a line each."""
    lines = []
    for curve in curves:
        for name, number, value in curve.filter("best").select("series", "round", "value").rows():
            lines.append(f"{name}: " * bool(name) + f"best {_chart.number(value)} in round {number}")
    return lines


def _panel(metric: str, curves: pl.DataFrame, names: list[str]) -> Any:
    alt = _chart.altair()
    base = alt.Chart(_chart.data(curves)).encode(
        x=alt.X("round:Q", title="round", axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("value:Q", title=metric, scale=alt.Scale(zero=False)),
        color=_chart.colours(names, "model"),
        tooltip=[*(["series:N"] if len(names) > 1 else []), "round:Q", alt.Tooltip("value:Q", title=metric)],
    )
    best = base.transform_filter("datum.best")
    marked = best.mark_point(filled=True, size=70, opacity=1)
    return (base.mark_line(strokeWidth=2) + marked).properties(width=460, height=240)

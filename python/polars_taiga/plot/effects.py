"""Pictures of what one column does to predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from polars_taiga._names import unnamed
from polars_taiga.plot import _chart, _rows
from polars_taiga.plot._axes import axis_values, frequent, is_ordered, panels, x_of
from polars_taiga.plot._cells import cells, dot_size
from polars_taiga.plot.partial import partial_dependence

if TYPE_CHECKING:
    from altair import Chart, FacetChart, LayerChart

    from polars_taiga.model import Model

__all__ = ["dependence"]

_CATEGORIES, _PANELS = 20, 6


def _partner(model: Model, sample: pl.DataFrame, feature: str) -> str | None:
    """The column that does most together with this one, on some hundred rows."""
    names = _rows.explained_columns(model)
    if len(names) == 1:
        return None
    fit = max(50_000_000 // (len(names) ** 2 * model._inner.outputs()), 1)
    some = sample.sample(min(sample.height, 500, fit), seed=0)
    sums = dict.fromkeys(names, 0.0)
    for means in _rows._shap_interactions(model, some).values():
        for name, value in means.row(names.index(feature), named=True).items():
            sums[name] += value
    del sums[feature]
    best = max(sums, key=lambda name: sums[name])
    return best if sums[best] > 0 else None


def dependence(
    model: Model,
    frame: pl.DataFrame | pl.LazyFrame,
    feature: str,
    *,
    kind: Literal["shap", "partial"] = "shap",
    color: str | None = "auto",
    label: object = None,
    rows: int | None = None,
    curves: int = 50,
    seed: int = 0,
) -> Chart | LayerChart | FacetChart:
    """Draw what a column does to predictions, over its values: Shapley values of rows, or partial dependence.

    Rows that would lie on each other are one dot at their means: at most 100 by 60 dots for each class and each
    colour that is a category, or 41 points of `curves` lines and their mean, get into the chart.

    Parameters
    ----------
    model, frame, label, seed
        As in `shap_summary`.
    feature
        The column. Of categories the 20 most frequent are drawn, and the others together.
    kind
        `"shap"`: the column's Shapley value in each row. `"partial"`: the prediction when the column is given each of
        some values, as `tg.plot.partial_dependence` draws it.
    color
        For `"shap"`: the column that dots are coloured by; `"auto"`, the default, takes the one with which this one
        interacts most; None takes none. (A column named `auto` can't be asked for.)
    rows
        How many rows are looked at at most, a sample; default 100,000, and 1,000 for `"partial"`.
    curves
        How many rows are drawn for `"partial"`, 0 to 200.

    Returns
    -------
    altair.Chart
        Dots; for `"partial"` an `altair.LayerChart` of lines. Of several classes each has its panel.

    Raises
    ------
    ImportError
        Without Altair.
    ValueError
        For a column or a class that is not the model's.

    References
    ----------
    J. Friedman, "Greedy function approximation", 2001; A. Goldstein et al., "Peeking inside the black box", 2015;
    `shap.plots.scatter`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100), "z": [0, 1] * 50}).with_columns(y=2.0 * pl.col("x") * pl.col("z"))
    >>> model = df.taiga.fit_gbdt("y", "x", "z", rounds=3)
    >>> tg.plot.dependence(model, df, "x").to_dict()["encoding"]["color"]["title"]
    'z'
    >>> lines = tg.plot.dependence(model, df, "x", kind="partial", curves=10)
    """
    _chart.altair()
    model = _rows.checked_model(model)
    if kind not in ("shap", "partial"):
        msg = f"parameter `kind`: {kind!r} is not 'shap' or 'partial'"
        raise ValueError(msg)
    _chart.choose(_rows.explained_columns(model), feature, "feature")
    if kind == "partial":
        some = 1_000 if rows is None else rows
        return partial_dependence(model, frame, feature, label=label, rows=some, curves=curves, seed=seed)
    drawn = _rows.outputs(model, label, _PANELS)
    most = _chart.at_least("rows", 100_000 if rows is None else rows, 1, 10**9)
    sample = _rows.feature_rows(model, frame, most, seed)
    if isinstance(sample.schema[feature], pl.List | pl.Array | pl.Struct):
        msg = f"parameter `feature`: {feature!r} has lists, which no axis can show"
        raise ValueError(msg)
    values = unnamed(sample[feature]).drop_nulls()
    if values.is_empty() or (values.dtype.is_float() and not values.is_finite().any()):
        what = "null" if values.is_empty() else "null or not finite"
        msg = f"parameter `feature`: {feature!r} is {what} in every row"
        raise ValueError(msg)
    picture: Chart = _draw_shap(model, sample, feature, drawn, color)
    return picture


def _draw_shap(model: Model, sample: pl.DataFrame, feature: str, drawn: list[str | None], color: str | None) -> Any:
    alt = _chart.altair()
    by = _partner(model, sample, feature) if color == "auto" else color
    x, axis = axis_values(sample[feature])
    categories: list[str] = []
    if axis == "N":
        x, categories = frequent(x, _CATEGORIES)
    colours: dict[str, pl.Series] = {}
    colour: Any = alt.value(_chart.BLUE)
    if by is not None:
        _chart.choose(_rows.explained_columns(model), by, "color")
        colours["colour"], colour = _colour(sample[by], by)
    grouped = by is not None and colours["colour"].dtype == pl.String
    values = _rows._shap(model, sample)
    parts, absent = [], ""
    for name in drawn:
        part = pl.DataFrame({"x": x, "y": values[name][feature], **colours})
        there = pl.col("x").is_not_null() & (pl.lit(True) if axis == "N" else pl.col("x").is_finite())
        missing = part.filter(~there.fill_null(False))
        if missing.height and len(drawn) == 1:
            mean = missing.select(pl.col("y").mean()).item()
            absent = f"; {missing.height:,} without a value: mean {_chart.number(mean)}"
        part = part.filter(there)
        dots = cells(part, 100, 60, "colour" if by and not grouped else None, ["colour"] if grouped else None)
        parts.append(dots.with_columns(series=pl.lit(name or "")))
    dots = pl.concat(parts)
    unit = _rows.unit_of(model, drawn)
    tooltip = ["x", "y", *colours, "rows"]
    chart = (
        alt.Chart(_chart.data(dots))
        .mark_circle(opacity=0.75, invalid=None)
        .encode(
            x=x_of(feature, axis, categories),
            y=alt.Y("y:Q", title=["Shapley value:", unit], axis=alt.Axis(labelOverlap=True)),
            color=colour,
            size=dot_size(dots),
            tooltip=[
                f"{name}:{axis if name == 'x' else 'N' if name == 'colour' and grouped else 'Q'}" for name in tooltip
            ],
        )
    )
    title = f"What {feature} does to {_rows.title_of(model, drawn)}"
    return panels(chart, drawn, title, f"{sample.height:,} rows{absent}", categories)


def _colour(values: pl.Series, name: str) -> tuple[pl.Series, Any]:
    """The column that dots are coloured by, and how: numbers from their 5th to their 95th percentile."""
    alt, values = _chart.altair(), unnamed(values)
    if not is_ordered(values.dtype):
        texts, names = frequent(values.cast(pl.String), len(_chart.COLOURS) - 2)
        texts, names = texts.fill_null("(missing)"), [*names, *(["(missing)"] if texts.null_count() else [])]
        scale = alt.Scale(domain=names, range=list(_chart.COLOURS[: len(names)]))
        return texts, alt.Color("colour:N", title=name, scale=scale, legend=alt.Legend(symbolOpacity=1))
    numbers = values.to_physical().cast(pl.Float64)
    numbers = numbers.set(~numbers.is_finite().fill_null(False), None)
    low, high = numbers.quantile(0.05), numbers.quantile(0.95)
    if low is None or high is None or low == high:
        low, high = numbers.min(), numbers.max()
    low, high = (0.0, 1.0) if low is None or high is None else (low, high)
    middle = low / 2 + high / 2
    scale = alt.Scale(domain=[low, middle, high], range=list(_chart.LOW_TO_HIGH), clamp=True)
    color = alt.Color("colour:Q", title=name, scale=scale, legend=alt.Legend(gradientLength=140))
    return numbers, alt.condition("datum.colour === null", alt.value(_chart.GREY), color)

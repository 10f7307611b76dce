"""Pictures of Shapley values: of many rows, of one, and of pairs of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_taiga import _scores
from polars_taiga._names import unnamed
from polars_taiga.plot import _chart, _rows
from polars_taiga.predict import predict_by_name

if TYPE_CHECKING:
    from altair import Chart, LayerChart

    from polars_taiga.model import Model

__all__ = ["interactions", "shap_summary", "shap_waterfall"]

# Of a swarm: places along the axis, and dots above each other at its widest place.
_PLACES, _DOTS = 120, 9
_PANELS = 6


def _ranks(values: pl.Series) -> pl.Series:
    """Where each value stands among the column's, from 0 to 1; null of what has no order, and of missing values."""
    values, dtype = unnamed(values), values.dtype
    if not (dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean):
        return pl.Series([None] * len(values), dtype=pl.Float64)
    numbers = values.to_physical().cast(pl.Float64).fill_nan(None)
    present = len(numbers) - numbers.null_count()
    ranks: pl.Series = (numbers.rank("average") - 1) / max(present - 1, 1)
    return ranks


def _swarm(rows: pl.DataFrame, low: float, high: float) -> pl.DataFrame:
    """Make dots of rows `x` (a Shapley value) and `value` (a rank): their `x`, `value`, `offset` and number of `rows`.

    Rows at a place along the axis are stacked by rank, in as many dots as their share of the widest place says.
    """
    place = ((pl.col("x") - low) / max(high - low, 5e-324) * _PLACES).clip(0, _PLACES - 1).floor()
    rows = rows.with_columns(place=place).with_columns(count=pl.len().over("place"))
    widest = max(int(rows.select(pl.col("count").max()).item()), _DOTS)
    above = (pl.col("count") * _DOTS / widest).ceil()
    order = (pl.col("value").fill_null(2.0).rank("ordinal").over("place") - 1) * pl.col("above") / pl.col("count")
    dots = rows.with_columns(above=above).with_columns(dot=order.floor())
    gathered = dots.group_by("place", "dot").agg(
        pl.col("x").mean(), pl.col("value").mean(), pl.col("above").first(), rows=pl.len()
    )
    offset = (pl.col("dot") - (pl.col("above") - 1) / 2) / _DOTS
    return gathered.sort("place", "dot").select("x", "value", offset=offset, rows="rows")


def _number(value: Any) -> float:
    return 0.0 if value is None else float(value)


def shap_summary(
    model: Model,
    frame: pl.DataFrame | pl.LazyFrame,
    *,
    features: int = 12,
    rows: int = 100_000,
    label: object = None,
    seed: int = 0,
) -> Chart:
    """Draw the Shapley values of many rows, a swarm for each feature, coloured by the feature's value.

    Rows are gathered into dots before they are drawn: 120 places along the axis with at most 9 dots above each other,
    so at most 1,080 dots of each feature (and class) get into the chart, of a million rows as of a thousand.

    Parameters
    ----------
    model
        The fitted model.
    frame
        Rows with the model's columns. Columns that expressions made at the fit (`Model.computed_features`) stand in it
        by their names.
    features
        How many are drawn, 1 to 50: those with the largest mean size of Shapley values.
    rows
        Of how many rows Shapley values are taken at most: a sample.
    label
        Of more than two classes, the one to explain; default all, a panel each, up to 6.
    seed
        Of the sample.

    Returns
    -------
    altair.Chart
        Dots from blue (the feature's lowest value) to orange (its highest), by rank; grey are missing values and
        categories. The axis is in the unit of the raw score, a forest's in that of its prediction.

    Raises
    ------
    ImportError
        Without Altair.
    ValueError
        For a class that is not the model's, and where there are too many to draw.

    References
    ----------
    S. M. Lundberg et al., "From local explanations to global understanding with explainable AI for trees", 2020
    (`shap.plots.beeswarm`).

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100), "z": [0, 1] * 50}).with_columns(y=2.0 * pl.col("x") + pl.col("z"))
    >>> model = df.taiga.fit_gbdt("y", "x", "z", rounds=3)
    >>> tg.plot.shap_summary(model, df).to_dict()["mark"]["type"]
    'circle'
    """
    alt = _chart.altair()
    model = _rows.checked_model(model)
    features = _chart.at_least("features", features, 1, 50)
    drawn = _rows.outputs(model, label, _PANELS)
    sample = _rows.feature_rows(model, frame, _chart.at_least("rows", rows, 1, 10**9), seed)
    values = {name: of for name, of in _rows._shap(model, sample).items() if name in drawn}
    names = _rows.explained_columns(model)
    sizes = {name: sum(_number(unnamed(of[name]).abs().mean()) for of in values.values()) for name in names}
    kept = sorted(names, key=lambda name: -sizes[name])[:features]
    ranks = {name: _ranks(sample[name]) for name in kept}
    low = min(_number(of[name].min()) for of in values.values() for name in kept)
    high = max(_number(of[name].max()) for of in values.values() for name in kept)
    dots = pl.concat(
        _swarm(pl.DataFrame({"x": of[name], "value": ranks[name]}), low, high).with_columns(
            feature=pl.lit(name), series=pl.lit(of_class or "")
        )
        for of_class, of in values.items()
        for name in kept
    )

    unit = _rows.unit_of(model, drawn)
    color = alt.Color(
        "value:Q",
        title="value",
        scale=alt.Scale(domain=[0, 0.5, 1], range=list(_chart.LOW_TO_HIGH)),
        legend=alt.Legend(values=[0, 1], labelExpr="datum.value < 0.5 ? 'low' : 'high'", gradientLength=120),
    )
    chart = (
        alt.Chart(_chart.data(dots))
        .mark_circle(size=9, opacity=1, invalid=None)
        .encode(
            x=alt.X("x:Q", title=f"Shapley value: {unit}", axis=alt.Axis(tickCount=6)),
            y=alt.Y("feature:N", sort=kept, title=None, axis=alt.Axis(grid=True, labelLimit=180)),
            yOffset=alt.YOffset("offset:Q", scale=alt.Scale(domain=[-0.6, 0.6])),
            color=alt.condition("datum.value === null", alt.value(_chart.GREY), color),
            tooltip=["feature:N", alt.Tooltip("x:Q", title="Shapley value"), "rows:Q"],
        )
    )
    width = 460
    if len(drawn) > 1:
        chart = chart.encode(facet=alt.Facet("series:N", columns=2, title=None, sort=drawn))
        width = 300
    shown = f"{sample.height:,} rows" + (f", {len(kept)} of {len(names)} features" if len(kept) < len(names) else "")
    title = f"What moves {_rows.title_of(model, drawn)}"
    picture: Chart = _chart.finish(chart, title, shown, width=width, height=alt.Step(34))
    return picture


def _steps(shares: list[tuple[str, float]], base: float, features: int) -> pl.DataFrame:
    """The bars of a waterfall: from where to where each column moves the score; the least ones together."""
    order = sorted(shares, key=lambda share: -abs(share[1]))
    kept, rest = order[:features], order[features:]
    if len(rest) == 1:
        kept, rest = order, []
    if rest:
        kept = [*kept, (f"{len(rest)} other columns", sum(value for _, value in rest))]
    bars, at = [], base
    for name, value in kept:
        text = _chart.number(value, sign=True)
        bars.append({"name": name, "start": at, "end": at + value, "value": value, "text": text})
        at += value
    return pl.DataFrame(bars, schema_overrides={"start": pl.Float64, "end": pl.Float64, "value": pl.Float64})


def shap_waterfall(
    model: Model,
    frame: pl.DataFrame | pl.LazyFrame,
    row: int = 0,
    *,
    features: int = 12,
    label: object = None,
) -> LayerChart:
    """Draw how one row comes to its prediction: from the mean, by each column's Shapley value, the largest first.

    A bar for each of `features` columns, and one for all others together, get into the chart.

    Parameters
    ----------
    model
        The fitted model.
    frame
        Rows with the model's columns, as in `shap_summary`. (A linear model compares with them.)
    row
        Which of them, from 0; from the end where it is negative.
    features
        How many columns are drawn by themselves, 1 to 50.
    label
        Of more than two classes, the one to explain; default the likeliest.

    Returns
    -------
    altair.LayerChart
        Orange bars raise the score, blue ones lower it. Where the score is not in the target's unit, the prediction
        stands below the title.

    Raises
    ------
    ImportError
        Without Altair.
    ValueError
        For a row or a class that is not there.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100), "z": [0, 1] * 50}).with_columns(y=2.0 * pl.col("x") + pl.col("z"))
    >>> model = df.taiga.fit_gbdt("y", "x", "z", rounds=3)
    >>> tg.plot.shap_waterfall(model, df, 99).to_dict()["title"]["text"]
    'How row 99 comes to its y'
    """
    alt = _chart.altair()
    model = _rows.checked_model(model)
    features = _chart.at_least("features", features, 1, 50)
    every = _rows.feature_rows(model, frame, 10**9)
    if isinstance(row, bool) or not isinstance(row, int) or not -every.height <= row < every.height:
        msg = f"parameter `row`: {row!r} is not one of the {every.height} rows"
        raise ValueError(msg)
    one = every[row : row + 1] if row != -1 else every[-1:]
    predicted = one.select(predict_by_name(model)).to_series()
    chosen: Any = label
    names = _scores.class_names(model)
    if model._inner.outputs() > 1 and label is None:
        chosen = names[_scores.first_choice(model, predicted.struct.unnest().row(0))]
    of_class = _rows.outputs(model, chosen, 1)[0]
    values = _rows._shap(model, one, every)[of_class].row(0, named=True)
    base = values.pop("base_value")
    shares_of = [(f"{_chart.shorten(name, 30)} = {_chart.show(one[name][0])}", value) for name, value in values.items()]
    bars = _steps(shares_of, base, features)
    total = base + sum(values.values())
    probability = predicted.item() if of_class is None else predicted.struct.unnest().row(0)[names.index(of_class)]

    names = bars["name"].to_list()
    order = [f"mean {_chart.number(base)}", *names, f"result {_chart.number(total)}"]
    ends = pl.DataFrame({"name": [order[0], order[-1]], "x": [base, total]})
    scale = alt.Scale(zero=False, nice=True, padding=42)
    x = alt.X("start:Q", title=_scores.score_title(model, of_class), scale=scale, axis=alt.Axis(tickCount=6))
    y = alt.Y("name:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=alt.Axis(labelLimit=280))
    colour = alt.condition("datum.value > 0", alt.value(_chart.ORANGE), alt.value(_chart.BLUE))
    base_chart = alt.Chart(_chart.data(bars)).encode(y=y)
    drawn = base_chart.mark_bar(height={"band": 0.7}).encode(
        x=x, x2="end:Q", color=colour, tooltip=["name:N", alt.Tooltip("value:Q", title="Shapley value")]
    )
    up = base_chart.transform_filter("datum.value > 0").mark_text(align="left", dx=4, color="#333333")
    down = base_chart.transform_filter("datum.value <= 0").mark_text(align="right", dx=-4, color="#333333")
    text = [mark.encode(x=alt.X("end:Q", scale=scale), text="text:N") for mark in (up, down)]
    points = (
        alt.Chart(_chart.data(ends))
        .mark_tick(color="#333333", thickness=3, height=18)
        .encode(x=alt.X("x:Q", scale=scale), y=y)
    )
    subtitle = (
        ""
        if _scores.in_unit_of_target(model)
        else f"{_scores.probability_title(model, of_class)}: {_chart.number(probability)}"
    )
    title = f"How row {row} comes to its {_rows.title_of(model, [of_class])}"
    picture: LayerChart = _chart.finish(
        drawn + text[0] + text[1] + points, title, subtitle, width=460, height=alt.Step(24)
    )
    return picture


def interactions(
    model: Model,
    frame: pl.DataFrame | pl.LazyFrame,
    *,
    features: int = 12,
    rows: int = 2_000,
    label: object = None,
    seed: int = 0,
) -> LayerChart:
    """Draw what columns give by themselves and with each other: the mean size of Shapley interactions, as a heat map.

    A cell for each pair of `features` columns, at most 2,500, gets into the chart.

    Parameters
    ----------
    model, frame, label, seed
        As in `shap_summary`; of several classes, the mean over them.
    features
        How many columns are drawn, 1 to 50: those with the largest sums.
    rows
        Of how many rows interactions are taken at most: a sample; fewer where the model has so many columns that
        their pairs would not fit into 400 MB.

    Returns
    -------
    altair.LayerChart
        On the diagonal what a column does by itself. What two do together stands half in each of their two cells.

    Raises
    ------
    ImportError, ValueError
        As `shap_summary`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100), "z": [0, 1] * 50}).with_columns(y=2.0 * pl.col("x") * pl.col("z"))
    >>> model = df.taiga.fit_gbdt("y", "x", "z", rounds=3)
    >>> tg.plot.interactions(model, df).to_dict()["title"]["text"]
    'What columns do together for y'
    """
    alt = _chart.altair()
    model = _rows.checked_model(model)
    features = _chart.at_least("features", features, 1, 50)
    names = _rows.explained_columns(model)
    outputs = model._inner.outputs()
    fit = max(50_000_000 // (len(names) ** 2 * outputs), 1)
    sample = _rows.feature_rows(model, frame, min(_chart.at_least("rows", rows, 1, 10**9), fit), seed)
    drawn = _rows.outputs(model, label, 10**9)
    found = [of for name, of in _rows._shap_interactions(model, sample).items() if name in drawn]
    by_column = {name: [unnamed(of[name]) for of in found] for name in names}
    mean = pl.DataFrame({name: sum(of[1:], of[0]) / len(found) for name, of in by_column.items()})
    sums = dict(zip(names, mean.sum_horizontal(), strict=True))
    kept = sorted(names, key=lambda name: -sums[name])[:features]
    at = {name: i for i, name in enumerate(names) if name in kept}
    pairs = [(row, column, mean[column][at[row]]) for column in at for row in at]
    cells = pl.DataFrame(pairs, {"row": pl.String, "column": pl.String, "value": pl.Float64}, orient="row")
    most = cells.select(pl.col("value").max()).item()
    cells = cells.with_columns(
        text=pl.Series([_chart.number(float(f"{value:.2g}")) for value in cells["value"]], dtype=pl.String),
        dark=pl.col("value").clip(0.0).sqrt() > 0.6 * most**0.5,
    )

    base = alt.Chart(_chart.data(cells)).encode(
        x=alt.X("column:N", sort=kept, title=None, axis=alt.Axis(labelAngle=-40, labelLimit=160)),
        y=alt.Y("row:N", sort=kept, title=None, axis=alt.Axis(labelLimit=160)),
        tooltip=["row:N", "column:N", "value:Q"],
    )
    unit = _rows.unit_of(model, drawn)
    color = alt.Color(
        "value:Q",
        title=["mean size", _chart.shorten(unit, 28)],
        scale=alt.Scale(type="sqrt", scheme="blues", domainMin=0),
        legend=alt.Legend(gradientLength=160),
    )
    chart = base.mark_rect().encode(color=color)
    if len(kept) <= 15:
        ink = alt.condition("datum.dark", alt.value("white"), alt.value("#222222"))
        chart = chart + base.mark_text(fontSize=9).encode(text="text:N", color=ink)
    else:
        chart = alt.layer(chart)
    subtitle = f"{sample.height:,} rows; halves of what two share in each of their cells"
    title = f"What columns do together for {_rows.title_of(model, drawn)}"
    picture: LayerChart = _chart.finish(chart, title, subtitle, width=alt.Step(40), height=alt.Step(26))
    return picture

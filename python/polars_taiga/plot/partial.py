"""Pictures of partial dependence: of a column as lines, of two as a map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_taiga import _scores
from polars_taiga._grid import is_missing
from polars_taiga.dependence import partial_dependence as table_of
from polars_taiga.plot import _chart, _rows
from polars_taiga.plot._axes import axis_values, panels, x_of

if TYPE_CHECKING:
    from altair import Chart, FacetChart, LayerChart

    from polars_taiga._grid import Grid
    from polars_taiga.model import Model

__all__ = ["partial_dependence"]

# Points of a column of categories and of others, by the number of columns.
_POINTS = {1: (20, 40), 2: (12, 20)}
_PANELS = 6


def partial_dependence(
    model: Model,
    frame: pl.DataFrame | pl.LazyFrame | None = None,
    features: str | Sequence[str] = (),
    *,
    grid: Grid | None = None,
    centered: bool = False,
    label: object = None,
    rows: int = 1_000,
    curves: int = 50,
    seed: int = 0,
) -> LayerChart | Chart | FacetChart:
    """Draw partial dependence: what a model predicts in the mean where columns are given each of some values.

    Of a column 41 points of `curves` thin lines, each a row, and of their mean, the thick one, get into the chart; of
    two columns 21 by 21 cells, coloured by the mean; for each class, with other points than `grid` asks for.

    Parameters
    ----------
    model
        The fitted model.
    frame
        Rows with the model's columns, as in `shap_summary`; None (default) for the training rows' part in the model,
        which has no single rows.
    features
        The column, or two of them.
    grid, centered
        As in `tg.partial_dependence`; default 40 points of a column, of two 20 each, and of categories the 20 (of two
        columns 12) most frequent.
    label
        Of more than two classes, the one to draw; default all, a panel each, up to 6.
    rows
        How many rows are looked at at most, a sample.
    curves
        How many of them are drawn, 0 to 200.
    seed
        Of the sample.

    Returns
    -------
    altair.LayerChart
        Lines over the column's values, or points where it is categories; of two columns an `altair.Chart` of
        rectangles. Several classes have panels. With a frame in the unit of predictions, without in that of the raw
        score.

    Raises
    ------
    ImportError
        Without Altair.
    ValueError
        As `tg.partial_dependence`, for columns of lists, and for a class that is not the model's.

    References
    ----------
    J. Friedman, "Greedy function approximation", 2001; A. Goldstein et al., "Peeking inside the black box", 2015;
    scikit-learn's `PartialDependenceDisplay`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100), "z": [0, 1] * 50}).with_columns(y=2.0 * pl.col("x") * pl.col("z"))
    >>> model = df.taiga.fit_gbdt("y", "x", "z", rounds=3)
    >>> lines = tg.plot.partial_dependence(model, df, "x", curves=10, centered=True)
    >>> tg.plot.partial_dependence(model, features=["x", "z"]).to_dict()["mark"]["type"]
    'rect'
    """
    _chart.altair()
    model = _rows.checked_model(model)
    rows, curves = _chart.at_least("rows", rows, 1, 10**9), _chart.at_least("curves", curves, 0, 200)
    drawn = _rows.outputs(model, label, _PANELS)
    names = [features] if isinstance(features, str) else list(features)
    for name in names:
        if model.features.get(name, "").startswith("list"):
            msg = f"parameter `features`: {name!r} has lists, which no axis can show"
            raise ValueError(msg)
    if grid is None and len(names) in _POINTS:
        of_categories, of_others = _POINTS[len(names)]
        kinds = {name: model.features.get(name) for name in names}
        grid = {name: of_categories if kind == "categorical" else of_others for name, kind in kinds.items()}
    individual = frame is not None and len(names) == 1
    sample = None if frame is None else rows
    table = table_of(model, frame, names, grid=grid, centered=centered, individual=individual, sample=sample, seed=seed)
    series = pl.repeat("", table.height, eager=True) if drawn == [None] else table["class"]
    is_drawn = series.is_in([name or "" for name in drawn])
    # Under names of ours: a column may have any.
    cells = pl.DataFrame(
        [series.alias("series"), table["prediction"].alias("y"), *([table["row"]] if individual else [])]
    )
    cells, values = cells.filter(is_drawn), [table[name].filter(is_drawn) for name in names]
    unit = _unit(model, drawn, frame is None, centered)
    of_rows = f"{min(rows, frame.height):,}" if isinstance(frame, pl.DataFrame) else f"at most {rows:,}"
    subtitle = "mean over the training rows" if frame is None else f"mean of {of_rows} rows"
    picture: LayerChart | Chart | FacetChart
    if len(names) == 2:
        picture = _draw_map(model, cells, values, drawn, subtitle, unit)
    else:
        picture = _draw_lines(model, cells, values[0], drawn, curves, unit)
    return picture


def _unit(model: Model, drawn: list[str | None], by_trees: bool, centered: bool) -> str | list[str]:
    """What the vertical axis, or the colour, is in."""
    if by_trees:
        unit = _rows.unit_of(model, drawn)
    elif len(drawn) == 1:
        unit = _scores.probability_title(model, drawn[0])
    else:
        unit = f"{'predicted' if model.classes is None else 'probability of each'} {_rows.each_of(model)}"
    return ["less its value at the first point:", unit] if centered else unit


def _draw_lines(
    model: Model, cells: pl.DataFrame, values: pl.Series, drawn: list[str | None], curves: int, unit: str | list[str]
) -> Any:
    alt = _chart.altair()
    feature = values.name
    x, axis = axis_values(values)
    long = cells.with_columns(x.alias("x"), is_missing(values).alias("absent"))
    subtitle = "mean over the training rows"
    if "row" in cells.columns:
        numbers = cells["row"].unique().sort()
        shown = numbers.gather_every(-(-len(numbers) // curves)) if curves else numbers.clear()
        few = long.filter(pl.col("row").is_in(shown.to_list()))
        subtitle = f"thick: mean of {len(numbers):,} rows" + (f"; thin: {len(shown)} of them" if len(shown) else "")
    else:
        few = long.clear().with_columns(row=pl.lit(None, pl.UInt32))
    mean = long.group_by("series", "x", "absent", maintain_order=True).agg(pl.col("y").mean())
    categories: list[str] = []
    if axis == "N":
        mean, few = (part.with_columns(pl.col("x").fill_null("(missing)")) for part in (mean, few))
        categories = mean["x"].unique(maintain_order=True).to_list()
    elif len(drawn) == 1 and (missing := mean.filter("absent")).height:
        subtitle += f"; without a value: mean {_chart.number(missing['y'][0])}"
    mean = mean.with_columns(row=pl.lit(None, dtype=pl.UInt32))
    # One table, so that panels deal it.
    both = pl.concat([part.select("row", "x", "series", "y", "absent") for part in (few, mean)])
    both = (both if axis == "N" else both.filter(~pl.col("absent"))).drop("absent")
    if both.is_empty():
        msg = f"parameter `features`: no split asks about {feature!r}, so there is nothing to draw without a frame"
        raise ValueError(msg)
    base = alt.Chart(_chart.data(both)).encode(
        x=x_of(feature, axis, categories), y=alt.Y("y:Q", title=unit, scale=alt.Scale(zero=False))
    )
    rows = base.transform_filter("datum.row !== null")
    rows = rows.mark_line(color=_chart.GREY, opacity=0.35, strokeWidth=0.8).encode(detail="row:N")
    mean_of = base.transform_filter("datum.row === null")
    if axis == "N":
        mean_line = mean_of.mark_point(color=_chart.ORANGE, filled=True, size=90, opacity=1)
    else:
        mean_line = mean_of.mark_line(color=_chart.ORANGE, strokeWidth=3)
    chart = alt.layer(rows, mean_line, data=base.data)
    return panels(chart, drawn, f"{_rows.title_of(model, drawn)} by {feature}", subtitle, categories)


def _ends(values: pl.Series, side: str) -> list[pl.Series]:
    """The ends of each number's cell: halfway to the next ones, the first and the last number where there are none."""
    at = values.unique().sort()
    if len(at) == 1:
        return [(values - 0.5).alias(side), (values + 0.5).alias(f"{side}2")]
    middle = at.head(-1) / 2 + at.tail(-1) / 2
    place = at.search_sorted(values)
    low, high = pl.concat([at.head(1), middle]), pl.concat([middle, at.tail(1)])
    return [low.gather(place).alias(side), high.gather(place).alias(f"{side}2")]


def _draw_map(
    model: Model,
    cells: pl.DataFrame,
    values: list[pl.Series],
    drawn: list[str | None],
    subtitle: str,
    unit: str | list[str],
) -> Any:
    alt = _chart.altair()
    cells, kinds = cells.rename({"y": "value"}), dict[str, str]()
    for side, column in zip("xy", values, strict=True):
        found, kinds[side] = axis_values(column)
        cells = cells.with_columns((found.fill_null("(missing)") if kinds[side] == "N" else found).alias(side))
    there = [pl.col(side).is_not_nan() & pl.col(side).is_not_null() for side, axis in kinds.items() if axis != "N"]
    found_all, cells = cells.height, cells.filter(there)
    if cells.is_empty():
        names = " or ".join(repr(column.name) for column in values)
        msg = f"parameter `features`: no split asks about {names}, so there is nothing to draw without a frame"
        raise ValueError(msg)
    for side, axis in kinds.items():
        if axis != "N":
            cells = cells.with_columns(_ends(cells[side], side))
    domain = cells.select(low=pl.col("value").min(), high=pl.col("value").max()).row(0)
    scale = alt.Scale(domain=[domain[0], domain[0] / 2 + domain[1] / 2, domain[1]], range=list(_chart.LOW_TO_HIGH))

    def channel(kind: Any, side: str, name: str) -> Any:
        if kinds[side] == "N":
            order = cells[side].unique(maintain_order=True).to_list()
            axis = alt.Axis(labelLimit=140, labelAngle=-40 if side == "x" else 0)
            return kind(f"{side}:N", title=name, sort=order if side == "x" else order[::-1], axis=axis)
        scale = alt.Scale(type="utc", nice=False) if kinds[side] == "T" else alt.Scale(zero=False, nice=False)
        return kind(f"{side}:{kinds[side]}", title=name, scale=scale)

    # Cells reach a little under the next ones: else what is behind would shine through between them.
    chart = (
        alt.Chart(_chart.data(cells))
        .mark_rect(x2Offset=0.6, y2Offset=-0.6)
        .encode(
            x=channel(alt.X, "x", values[0].name),
            y=channel(alt.Y, "y", values[1].name),
            color=alt.Color("value:Q", title=unit, scale=scale, legend=alt.Legend(gradientLength=140)),
            **{f"{side}2": f"{side}2" for side, axis in kinds.items() if axis != "N"},
        )
    )
    subtitle += "; without missing values" if cells.height < found_all else ""
    title = f"{_rows.title_of(model, drawn)} by {values[0].name} and {values[1].name}"
    return panels(chart, drawn, title, subtitle, [])

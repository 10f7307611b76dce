"""Pictures of predictions beside what came true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import polars as pl

from polars_taiga import _plugin
from polars_taiga.plot import _chart, _rows
from polars_taiga.plot._cells import cells, dot_size

if TYPE_CHECKING:
    from altair import LayerChart

    from polars_taiga._plugin import IntoColumn
    from polars_taiga.model import Model

__all__ = ["calibration", "residuals"]

# The half width of a 95% interval in standard errors.
_Z = 1.959963984540054


def _edges(scores: pl.Series, bins: int, strategy: str) -> list[float]:
    """The inner edges of the bins: of equal width from 0 to 1, or of equally many rows."""
    if strategy == "uniform":
        return [i / bins for i in range(1, bins)]
    found = [scores.quantile(i / bins, interpolation="linear") for i in range(1, bins)]
    return [edge for edge in found if edge is not None]


def _binned(rows: pl.DataFrame, bins: int, strategy: str) -> pl.DataFrame:
    """For each bin of the score with rows: the weighted means of score and outcome, its 95% interval, and the rows.

    Shares have Wilson's interval, means the normal one; of weighted rows by the effective number of rows.
    """
    edges = pl.Series(_edges(rows["score"], bins, strategy), dtype=pl.Float64)
    of_bin = rows.with_columns(bin=edges.search_sorted(rows["score"], side="left"))
    w, y = pl.col("weight"), pl.col("actual")
    total = w.sum()
    mean = (w * y).sum() / total
    found = of_bin.group_by("bin").agg(
        predicted=(w * pl.col("score")).sum() / total,
        actual=mean,
        spread=(w * (y - mean) ** 2).sum() / total,
        n=total**2 / (w**2).sum(),
        rows=pl.len(),
        share=pl.lit(rows["actual"].is_in([0.0, 1.0]).all()),
    )
    p, n = pl.col("actual"), pl.col("n")
    middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = (p * (1 - p) / n + _Z**2 / (4 * n**2)).clip(0.0).sqrt() * _Z / (1 + _Z**2 / n)
    normal = _Z * (pl.col("spread") / n).sqrt()
    return (
        found.sort("bin")
        .with_columns(
            lower=pl.when("share").then(pl.min_horizontal(p, middle - half).clip(0.0, 1.0)).otherwise(p - normal),
            upper=pl.when("share").then(pl.max_horizontal(p, middle + half).clip(0.0, 1.0)).otherwise(p + normal),
        )
        .select("predicted", "actual", "lower", "upper", "rows")
    )


def _to_calibrate(model: Model, rows: pl.DataFrame, label: object) -> dict[str, pl.DataFrame]:
    """The columns `score`, `actual` and `weight` for each class to draw, or of a regression."""
    if model.classes is None:
        if label is not None:
            msg = f"parameter `label`: the model of `{model.target}` is a regression and has no classes"
            raise ValueError(msg)
        actual = pl.col("target").cast(pl.Float64)
        return {"": rows.select(score="prediction", actual=actual, weight="weight")}
    return {
        name: found.select("score", pl.col("positive").cast(pl.Float64).alias("actual"), "weight")
        for name, found in _rows.one_against_rest(model, rows, label).items()
    }


def calibration(
    model: Model | Mapping[str, Model],
    frame: pl.DataFrame | pl.LazyFrame,
    target: IntoColumn | None = None,
    *,
    bins: int = 10,
    strategy: Literal["uniform", "quantile"] | None = None,
    weights: IntoColumn | None = None,
    label: object = None,
) -> LayerChart:
    """Draw how often it came true over how probable it was said to be; of a regression, the mean over the prediction.

    At most `bins` points of each curve get into the chart, with their 95% intervals: Wilson's of a share, the normal
    one of a mean, of weighted rows by the effective number of rows.

    Parameters
    ----------
    model, frame, target, weights, label
        As in `roc`; a regression too.
    bins
        How many bins predictions are dealt to, 2 to 200.
    strategy
        Bins of equal width between 0 and 1 (`"uniform"`, the default for probabilities) or of equally many rows
        (`"quantile"`, all there is for other predictions). A prediction on an edge is in the bin below it.

    Returns
    -------
    altair.LayerChart
        Points at the mean prediction of their bins, and the diagonal of predictions that come true. Below one curve
        stands its Brier score, of a regression the mean of what is predicted and of what came true.

    Raises
    ------
    ImportError, ValueError
        As `roc`.

    Notes
    -----
    Bins and points are those of scikit-learn's `calibration_curve`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") % 60 > 30)
    >>> model = df.taiga.fit_gbdt("y", "x", rounds=3)
    >>> tg.plot.calibration(model, df, bins=5).to_dict()["title"]["text"]
    'Calibration of y = true'
    """
    alt = _chart.altair()
    bins = _chart.at_least("bins", bins, 2, 200)
    if strategy not in (None, "uniform", "quantile"):
        msg = f"parameter `strategy`: {strategy!r} is not 'uniform' or 'quantile'"
        raise ValueError(msg)
    drawn, titles, what, subtitle, shares = [], [], "", "", True
    for name, one in _rows.models(model).items():
        shares = one.classes is not None or one.loss == "cross_entropy"
        how = strategy or ("uniform" if shares else "quantile")
        if how == "uniform" and not shares:
            msg = f"parameter `strategy`: predictions of `{one.target}` are not between 0 and 1; take 'quantile'"
            raise ValueError(msg)
        against = _to_calibrate(one, _rows.scored(one, frame, target, weights), label)
        for of_class, rows in against.items():
            shown = [name] * bool(name) + [of_class] * (len(against) > 1)
            titles.append(", ".join(shown))
            drawn.append(_binned(rows, bins, how).with_columns(series=pl.lit(titles[-1])))
            what = f"{one.target} = {of_class}" if of_class else one.target
            subtitle = _summary(rows, shares)
        if len(against) > 1:
            what = f"each class of {one.target}"
    _chart.few("curves", len(drawn), "choose by `label`")
    curves = pl.concat(drawn)

    ends = curves.select(
        low=pl.min_horizontal("predicted", "actual").min(), high=pl.max_horizontal("predicted", "actual").max()
    )
    low, high = (0.0, 1.0) if shares else ends.row(0)
    scale = alt.Scale(domain=[low, high]) if shares else alt.Scale(zero=False)
    x_title, y_title = (
        ("mean predicted probability", "share of rows")
        if shares
        else (
            f"mean predicted {what}",
            f"mean {what}",
        )
    )
    base = alt.Chart(_chart.data(curves)).encode(
        x=alt.X("predicted:Q", title=x_title, scale=scale, axis=alt.Axis(labelOverlap=True)),
        color=_chart.colours(titles, "model" if isinstance(model, Mapping) else what.rsplit(" ", 1)[-1]),
        tooltip=[*(["series:N"] if len(titles) > 1 else []), "predicted:Q", "actual:Q", "rows:Q"],
    )
    y = alt.Y("actual:Q", title=y_title, scale=scale)
    intervals = base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(
        y=alt.Y("lower:Q", title=y_title, scale=scale), y2="upper:Q"
    )
    points = base.mark_line(strokeWidth=1.5, point=alt.OverlayMarkDef(size=45, filled=True, opacity=1)).encode(y=y)
    corners = alt.Data(values=[{"predicted": low, "actual": low}, {"predicted": high, "actual": high}])
    diagonal = (
        alt.Chart(corners)
        .mark_line(color=_chart.GREY, strokeDash=[4, 4], strokeWidth=1)
        .encode(x=alt.X("predicted:Q", scale=scale), y=alt.Y("actual:Q", scale=scale))
    )
    subtitle = subtitle if len(drawn) == 1 else ""
    picture: LayerChart = _chart.finish(
        diagonal + intervals + points, f"Calibration of {what}", subtitle, width=320, height=320
    )
    return picture


def _summary(rows: pl.DataFrame, shares: bool) -> str:
    w = pl.col("weight")
    if shares:
        brier = rows.select((w * (pl.col("score") - pl.col("actual")) ** 2).sum() / w.sum()).item()
        return f"Brier score {brier:.4f}, {rows.height:,} rows"
    means = rows.select(((w * pl.col(name)).sum() / w.sum()).alias(name) for name in ("score", "actual")).row(0)
    return f"mean prediction {_chart.number(means[0])}, mean {_chart.number(means[1])}, {rows.height:,} rows"


def _quantiles(rows: pl.DataFrame, x: str, bins: int) -> pl.DataFrame:
    """The 10th, 50th and 90th percentile of `y` in bins of equally many rows by `x`, at the bin's median x."""
    rank = pl.col(x).rank("average") - 0.5
    return (
        rows.group_by(bin=(rank * bins / pl.len()).floor())
        .agg(
            pl.col(x).median().alias("x"),
            *(pl.col("y").quantile(q, interpolation="linear").alias(f"q{round(100 * q)}") for q in (0.1, 0.5, 0.9)),
        )
        .sort("x")
        .drop("bin")
    )


def residuals(
    model: Model,
    frame: pl.DataFrame | pl.LazyFrame,
    target: IntoColumn | None = None,
    *,
    x: IntoColumn | None = None,
    weights: IntoColumn | None = None,
) -> LayerChart:
    """Draw target minus prediction of a regression over the prediction, or over a column.

    Rows that would lie on each other are one dot: at most 80 by 60 dots, at the means of their rows and as large as
    these are many, and the percentiles of 20 bins of equally many rows (of 30 rows at least) get
    into the chart.

    Parameters
    ----------
    model
        A model of a regression.
    frame, target, weights
        As in `roc`. The percentiles are of rows, whatever their weights.
    x
        Numbers to draw over, by name or expression; default the prediction.

    Returns
    -------
    altair.LayerChart
        Dots, the median as a line in a band from the 10th to the 90th percentile. Below the title stand the root of
        the mean square, the mean size and the mean of the residuals, weighted.

    Raises
    ------
    ImportError
        Without Altair.
    ValueError
        For a model of classes, and as `roc`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=2.0 * pl.col("x"))
    >>> model = df.taiga.fit_gbdt("y", "x", rounds=3)
    >>> tg.plot.residuals(model, df).to_dict()["title"]["text"]
    'Residuals of y'
    """
    alt = _chart.altair()
    model = _rows.checked_model(model)
    if model.classes is not None:
        msg = f"the model of `{model.target}` has classes, not residuals: draw its calibration"
        raise ValueError(msg)
    extra = {} if x is None else {"x": _rows.of_frame(x, "x").cast(pl.Float64)}
    rows = _rows.scored(model, frame, target, weights, **extra)
    rows = rows.select(
        (pl.col("prediction") if x is None else pl.col("x")).alias("x"),
        (pl.col("target").cast(pl.Float64) - pl.col("prediction")).alias("y"),
        "weight",
    ).filter(pl.col("x").is_finite())
    if rows.height == 0:
        msg = "parameter `x`: it is null or not finite in every row"
        raise ValueError(msg)

    title = f"predicted {model.target}" if x is None else x
    if not isinstance(title, str):
        title = next(iter(_plugin.names_of([title])), "x")
    dots, lines = cells(rows, 80, 60), _quantiles(rows, "x", min(max(rows.height // 30, 1), 20))
    over = alt.X("x:Q", title=title, scale=alt.Scale(zero=False, nice=False), axis=alt.Axis(labelOverlap=True))
    side = f"{model.target} − prediction"
    points = (
        alt.Chart(_chart.data(dots))
        .mark_circle(color=_chart.BLUE, opacity=0.45)
        .encode(
            x=over,
            y=alt.Y("y:Q", title=side),
            size=dot_size(dots),
            tooltip=[alt.Tooltip("x:Q", title=title), alt.Tooltip("y:Q", title=side), "rows:Q"],
        )
    )
    base = alt.Chart(_chart.data(lines)).encode(x=over)
    band = base.mark_area(color=_chart.ORANGE, opacity=0.2).encode(y=alt.Y("q10:Q", title=side), y2="q90:Q")
    median = base.mark_line(color=_chart.ORANGE, strokeWidth=2).encode(y=alt.Y("q50:Q", title=side))
    zero = alt.Chart(alt.Data(values=[{"y": 0}])).mark_rule(color="#333333", strokeDash=[4, 4]).encode(y="y:Q")
    subtitle = [_errors(rows), "line: median; band: from the 10th to the 90th percentile"]
    picture: LayerChart = _chart.finish(
        points + band + median + zero, f"Residuals of {model.target}", subtitle, width=460, height=300
    )
    return picture


def _errors(rows: pl.DataFrame) -> str:
    w, y = pl.col("weight"), pl.col("y")
    found = rows.select(
        rmse=((w * y**2).sum() / w.sum()).sqrt(), mae=(w * y.abs()).sum() / w.sum(), bias=(w * y).sum() / w.sum()
    ).row(0)
    rmse, mae, bias = (_chart.number(value) for value in found)
    return f"RMSE {rmse}, mean size {mae}, mean {bias}, {rows.height:,} rows"

"""Partial dependence: what a model predicts in the mean where one or two columns are given each of some values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import polars as pl
import polars.selectors as cs

from polars_taiga import _plugin
from polars_taiga._grid import Grid, asked_points, data_points, model_points, type_of
from polars_taiga._names import unnamed
from polars_taiga._scores import in_unit_of_target, listed
from polars_taiga.device import checked_several
from polars_taiga.model import Model
from polars_taiga.predict import columns_by_name, predict_by_name, predict_known

if TYPE_CHECKING:
    from polars_taiga._plugin import IntoColumn

__all__ = ["partial_dependence"]

# Rows and cells of a block that is predicted at a time.
_ROWS, _CELLS = 1 << 19, 1 << 24

# Columns of the result besides the features.
_PREDICTION, _CLASS, _ROW = "prediction", "class", "row"


class _Rows(NamedTuple):
    """The rows that are looked at: the model's columns, their weights, and their numbers in the data."""

    frame: pl.DataFrame
    weight: pl.Series | None
    numbers: pl.Series
    features: pl.DataFrame
    """The columns whose dependence is asked for, of all rows of the data."""


def partial_dependence(
    model: Model | bytes,
    data: pl.DataFrame | pl.LazyFrame | None = None,
    features: str | Sequence[str] = (),
    *,
    grid: Grid | None = None,
    missing: bool | None = None,
    output: Literal["auto", "raw"] | None = None,
    individual: bool = False,
    centered: bool = False,
    weight: IntoColumn | None = None,
    sample: int | None = None,
    seed: int = 0,
    device: str = "auto",
) -> pl.DataFrame:
    """Compute what a model predicts in the mean where one or two columns are given each of some values.

    With `data`, each of its rows is predicted with each value in the place of its own, and the mean over the rows is
    taken [1]_ (scikit-learn's `method="brute"`). Without, what is known are the trees: splits on these columns are
    answered, and both branches of the others are taken in proportion to the training rows that took them (its
    `method="recursion"`, section 8.2 of [1]_), which takes milliseconds; a linear model's other columns give what they
    give in the mean of its training rows. Both differ where columns depend on each other.

    Parameters
    ----------
    model
        A fitted model of any learner.
    data
        Rows with the model's columns (those that expressions made at the fit, `Model.computed_features`, by their
        names); None (default) for the training rows' part in the model.
    features
        The column, or two of them: their values are combined.
    grid
        The values: how many, or a list or Series of them; of two columns a dictionary of these by name. Default 40, of
        two columns 20 each, and every category. A number of points gives of numbers and temporal columns all distinct
        values where there are no more of them, else the values in the data at evenly spaced ranks, from the least to
        the largest; of categories the most frequent. Without data: a point between any two borders that splits use,
        and one on either side, or of more those at evenly spaced ranks; the categories that the model knows (of a
        number the first in order). Lists, and a linear model without data, need their values given.
    missing
        Whether a missing value, null, is the last point; default where the data has any. A column that no split asks
        about has no other without data.
    output
        What is averaged: `"auto"`, predictions, a probability for each class; or `"raw"`, scores before the link.
        Default `"auto"` with data, and `"raw"` without it, where nothing else has a mean, but for a forest, which has
        predictions alone.
    individual
        Whether each row has its own curve (individual conditional expectation [2]_) instead of the mean. Needs data.
    centered
        Whether every curve is given from its first point on: less its value there [2]_.
    weight
        What each row of the data counts for in the mean: finite, not negative, not all zero.
    sample
        Look at this many rows of the data, drawn at random; default all.
    seed
        Of the sample.
    device
        As in `predict`; without data it is the CPU.

    Returns
    -------
    DataFrame
        Curves one after another, the first column's values slowest: a column for each of `features`, in its own type,
        and `prediction` (Float64). Where a model gives several numbers a row there stands before
        them `class`, as text: the label of more than two classes, the name of one of several targets, quantiles, or
        of `"mean"` and `"variance"`; of individual curves `row`, the row's number in the data from 0 (UInt32).

        The same rows give the same bytes, whatever the threads and chunks; blocks of at most half a million rows are
        predicted at a time.

    Raises
    ------
    ValueError
        For columns that the model has not, one that is a name of the result's own columns, values that do not fit,
        data of no rows, weights that are none; without data for what needs it, and where a split asks about one of
        the columns together with another (statistics of combinations of categories).
    TypeError
        For a model, data or a grid of another type.
    polars.exceptions.ColumnNotFoundError, polars.exceptions.SchemaError
        For columns that the data lacks or has in another type.
    polars.exceptions.ComputeError
        For a model that does not know its training rows' part, where there is no data.

    References
    ----------
    .. [1] J. H. Friedman, "Greedy function approximation: a gradient boosting machine", 2001.
    .. [2] A. Goldstein, A. Kapelner, J. Bleich, E. Pitkin, "Peeking inside the black box: visualizing statistical
       learning with plots of individual conditional expectation", 2015.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": [1, 2, 3, 4] * 25, "z": ["a", "b"] * 50}).with_columns(y=3.0 * pl.col("x"))
    >>> model = df.taiga.fit_gbdt("y", "x", "z", rounds=1, depth=1, learning_rate=1.0, l2=0.0)
    >>> tg.partial_dependence(model, df, "x")
    shape: (4, 2)
    ┌─────┬────────────┐
    │ x   ┆ prediction │
    │ --- ┆ ---        │
    │ i64 ┆ f64        │
    ╞═════╪════════════╡
    │ 1   ┆ 4.5        │
    │ 2   ┆ 4.5        │
    │ 3   ┆ 10.5       │
    │ 4   ┆ 10.5       │
    └─────┴────────────┘

    By the trees alone, between the borders of their splits:

    >>> model.partial_dependence(features="x")["x"].to_list()
    [1.25, 3.75]

    Two columns, and a curve for each of ten rows from its first point on:

    >>> tg.partial_dependence(model, df, ["x", "z"], grid={"x": [1, 4]}).rows()
    [(1, 'a', 4.5), (1, 'b', 4.5), (4, 'a', 10.5), (4, 'b', 10.5)]
    >>> curves = tg.partial_dependence(model, df, "x", individual=True, centered=True, sample=10)
    >>> curves.columns, curves.height, curves["prediction"].max()
    (['row', 'x', 'prediction'], 40, 6.0)
    """
    own = _checked_model(model)
    names = _checked_features(own, features)
    asked, checked_device = asked_points(names, grid), checked_several(device)
    _check_result_names(own, names, individual)
    if data is None:
        of_rows = {"individual": individual, "weight": weight is not None, "sample": sample is not None}
        if any(of_rows.values()):
            parameter = next(name for name, is_given in of_rows.items() if is_given)
            msg = f"parameter `{parameter}`: it is of the rows of data, and there is none"
            raise ValueError(msg)
        _check_output_by_trees(own, output)
        points = _combine([model_points(own, name, asked[name], missing, len(names)) for name in names])
        curves = _by_training_rows(own, points, checked_device)
    else:
        kind = _checked_output(own, output)
        rows = _read(own, names, data, weight, individual, sample, seed)
        points = _combine([data_points(own, rows.features, name, asked[name], missing, len(names)) for name in names])
        if individual:
            return _individual(own, rows, points, kind, checked_device, centered)
        curves = _means(own, rows, points, kind, checked_device)
    return _tidy(points, curves, centered)


def _checked_model(model: object) -> Model:
    if isinstance(model, Model):
        return model
    if isinstance(model, bytes | bytearray | memoryview):
        return Model.from_bytes(bytes(model))
    msg = f"partial_dependence: a model is a tg.Model or its bytes, not {type(model).__name__}"
    raise TypeError(msg)


def _checked_features(model: Model, features: object) -> list[str]:
    """The one column or two, which are the model's."""
    names = [features] if isinstance(features, str) else list(features) if isinstance(features, Sequence) else None
    if names is None or not all(isinstance(name, str) for name in names):
        msg = f"parameter `features`: a column's name or a list of two, not {features!r:.80}"
        raise TypeError(msg)
    known = model._inner.explained_columns()
    if len(names) not in (1, 2):
        msg = f"parameter `features`: {len(names)} columns; it takes one or two of {listed(known)}"
        raise ValueError(msg)
    for name in names:
        if name not in known:
            msg = f"parameter `features`: {name!r} is not one of the model's columns: {listed(known)}"
            raise ValueError(msg)
    if names[0] == names[-1] and len(names) == 2:
        msg = f"parameter `features`: {names[0]!r} stands twice"
        raise ValueError(msg)
    return names


def _check_result_names(model: Model, features: list[str], individual: bool) -> None:
    own = [_PREDICTION, *([_CLASS] if model._inner.outputs() > 1 else []), *([_ROW] if individual else [])]
    for name in features:
        if name in own:
            msg = f"parameter `features`: the result has a column {name!r} of its own: fit the model by another name"
            raise ValueError(msg)


def _checked_output(model: Model, output: object) -> Literal["auto", "raw"]:
    if output not in (None, "auto", "raw"):
        msg = f"parameter `output`: {output!r} is not 'auto' or 'raw'"
        raise ValueError(msg)
    if output == "raw" and model.learner == "forest":
        msg = f"parameter `output`: the model of `{model.target}` is a forest, which has no raw scores"
        raise ValueError(msg)
    return "raw" if output == "raw" else "auto"


def _check_output_by_trees(model: Model, output: object) -> None:
    """Check that the mean of what is asked for follows from the model alone."""
    if _checked_output(model, output) == "auto" and output is not None and not in_unit_of_target(model):
        msg = (
            "parameter `output`: without data means are of raw scores, from which those of predictions do not follow: "
            'output="raw", or give data'
        )
        raise ValueError(msg)


def _at_least_one(name: str, value: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        msg = f"parameter `{name}`: {value!r} is not an integer"
        raise TypeError(msg)
    if (number := int(value.__index__())) < 1:
        msg = f"parameter `{name}`: {number} is not at least 1"
        raise ValueError(msg)
    return number


def _read(
    model: Model,
    features: list[str],
    data: object,
    weight: IntoColumn | None,
    individual: bool,
    sample: int | None,
    seed: int,
) -> _Rows:
    """Read what is needed of the data, all of it or a sample."""
    if not isinstance(data, pl.DataFrame | pl.LazyFrame):
        kind = type(data)
        library = kind.__module__.split(".")[0]
        name = kind.__name__ if library == "builtins" else f"{library}.{kind.__name__}"
        msg = f"parameter `data`: rows come in a DataFrame or a LazyFrame, not in {name}"
        raise TypeError(msg)
    if individual and weight is not None:
        msg = "parameter `weight`: it weighs rows in their mean; individual curves have none"
        raise ValueError(msg)
    most = None if sample is None else _at_least_one("sample", sample)
    exprs, name = columns_by_name(model), "weight"
    while name in model.features:
        name += "_"
    if weight is not None:
        exprs.append(_plugin.as_expr(weight, "`weight`").cast(pl.Float64).alias(name))
    with _plugin.errors():
        frame = data.lazy().select(exprs).collect()
    if frame.is_empty():
        msg = "parameter `data`: no rows"
        raise ValueError(msg)
    _check_lists(model, features, set(frame.columns))
    whole = frame.select(cs.by_name(*features))
    numbers = pl.int_range(frame.height, dtype=pl.UInt32, eager=True).alias(_ROW)
    if most is not None and most < frame.height:
        numbers = numbers.sample(most, seed=seed).sort()
        frame = frame[numbers]
    if weight is None:
        return _Rows(frame, None, numbers, whole)
    weights = frame[name].rechunk()
    bad = int((~(weights.is_finite() & (weights >= 0))).fill_null(True).sum())
    if bad or weights.sum() == 0:
        found = f"{bad} of {frame.height} weights are null, negative or not finite" if bad else "all weights are 0"
        msg = f"parameter `weight`: {found}"
        raise ValueError(msg)
    return _Rows(frame.drop(name), weights, numbers, whole)


def _check_lists(model: Model, features: list[str], columns: set[str]) -> None:
    """Check that no column of lists is given others whose values stand in a column beside it."""
    values = set(model.features).difference(model._inner.explained_columns()) & columns
    for name in features:
        if values and model.features[name].startswith("list"):
            msg = f"parameter `features`: {name!r} has lists whose values are in {values.pop()!r}: one has none alone"
            raise ValueError(msg)


def _combine(points: list[pl.Series]) -> pl.DataFrame:
    """Every value of the first column with every one of the second."""
    frame = points[0].to_frame()
    for more in points[1:]:
        at = pl.int_range(frame.height * len(more), eager=True)
        frame = frame[at // len(more)].with_columns(unnamed(more).gather(at % len(more)).alias(more.name))
    return frame


def _classes(model: Model, kind: Literal["auto", "raw"]) -> Sequence[str | None]:
    """The names of what is predicted, where that is several numbers, as the labels of classes; else one of None."""
    return model._inner.fields(kind == "raw") or [None]


def _outputs(frame: pl.DataFrame, prediction: pl.Expr) -> list[pl.Series]:
    """Predictions of a frame's rows, each class by itself, in one chunk."""
    with _plugin.errors():
        found = frame.select(prediction).to_series()
    of_classes = found.struct.unnest().get_columns() if found.dtype == pl.Struct else [found]
    return [one.rechunk() for one in of_classes]


def _predicted(
    model: Model, rows: pl.DataFrame, points: pl.DataFrame, kind: Literal["auto", "raw"], device: str
) -> Iterator[tuple[int, int, list[pl.Series]]]:
    """Predict rows with each point in the place of their own values, some at a time.

    It gives the first of some consecutive rows, the point's number, and these rows' predictions by class. How many rows
    are taken together follows from the table's size alone, and so do the bytes of what is summed.
    """
    prediction = predict_by_name(model, output=kind, device=device)
    most = max(min(_ROWS, _CELLS // rows.width), 1)
    for start in range(0, rows.height, most):
        part = rows.slice(start, most)
        together = most // part.height
        for first in range(0, points.height, together):
            some = points.slice(first, together)
            if some.height == 1:
                given = part.with_columns(column.new_from_index(0, part.height) for column in some)
            else:
                at = pl.int_range(some.height * part.height, eager=True)
                given = part[at % part.height].with_columns(some[at // part.height])
            found = _outputs(given, prediction)
            for i in range(some.height):
                yield start, first + i, [of_class.slice(i * part.height, part.height) for of_class in found]


def _means(
    model: Model, rows: _Rows, points: pl.DataFrame, kind: Literal["auto", "raw"], device: str
) -> dict[str | None, pl.Series]:
    """The mean over the rows at each point, by class."""
    names = _classes(model, kind)
    sums = [[0.0] * points.height for _ in names]
    for start, point, found in _predicted(model, rows.frame, points, kind, device):
        for of_class, values in zip(sums, found, strict=True):
            weighed = values if rows.weight is None else values * rows.weight.slice(start, len(values))
            of_class[point] += float(weighed.sum())
    total = rows.frame.height if rows.weight is None else float(rows.weight.sum())
    series = [pl.Series(_PREDICTION, of_class, dtype=pl.Float64) / total for of_class in sums]
    return dict(zip(names, series, strict=True))


def _by_training_rows(model: Model, points: pl.DataFrame, device: str) -> dict[str | None, pl.Series]:
    """The mean over the training rows at each point, by class."""
    _check_lists(model, points.columns, set(model.features))
    others = {name: kind for name, kind in model.features.items() if name not in points.columns}
    is_linear = model.learner == "sparse_lr"
    blanks = []
    for name, kind in others.items():
        blank: object = ([] if kind.startswith("list") else 0) if is_linear else None
        blanks.append(pl.Series(name, [blank], dtype=type_of(model, name)).new_from_index(0, points.height))
    found = _outputs(points.with_columns(blanks), predict_known(model, points.columns, device))
    return dict(zip(_classes(model, "raw"), (one.alias(_PREDICTION) for one in found), strict=True))


def _tidy(points: pl.DataFrame, curves: dict[str | None, pl.Series], centered: bool) -> pl.DataFrame:
    """One curve after another."""
    parts = []
    for name, values in curves.items():
        part = points.with_columns(values - values[0] if centered else values)
        parts.append(part if name is None else part.select(pl.lit(name).alias(_CLASS), pl.all()))
    return pl.concat(parts)


def _individual(
    model: Model, rows: _Rows, points: pl.DataFrame, kind: Literal["auto", "raw"], device: str, centered: bool
) -> pl.DataFrame:
    """A curve for each row, by class."""
    names = _classes(model, kind)
    by_point: list[list[list[pl.Series]]] = [[[] for _ in range(points.height)] for _ in names]
    for _, point, found in _predicted(model, rows.frame, points, kind, device):
        for of_class, values in zip(by_point, found, strict=True):
            of_class[point].append(values)
    n, k = rows.frame.height, points.height
    at = pl.int_range(n * k, eager=True)
    left = points[at % k].select(rows.numbers.gather(at // k), pl.all())
    curves: dict[str | None, pl.Series] = {}
    for name, of_class in zip(names, by_point, strict=True):
        values = pl.concat(itertools.chain.from_iterable(of_class)).alias(_PREDICTION)
        if centered:
            values = values - values.gather(at % n)
        curves[name] = values.gather((at % k) * n + at // k)
    return _tidy(left, curves, False)

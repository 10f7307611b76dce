"""Intervals and sets that hold the truth with a chosen probability: conformal prediction in a query."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

import polars as pl

from polars_taiga import _fit, _plugin
from polars_taiga._elementwise import by_value, one_value
from polars_taiga._signature import shows
from polars_taiga.device import first
from polars_taiga.gbdt import GbdtParams, fit_gbdt
from polars_taiga.metrics import mae
from polars_taiga.predict import predict
from polars_taiga.validation import fit_folds

if TYPE_CHECKING:
    from polars_taiga._plugin import IntoColumn, IntoColumns

__all__ = ["conformal", "interval"]

Method: TypeAlias = Literal["split", "cv+", "cqr", "aps", "lac"]
"""How intervals or sets are made."""

_SETS = ("aps", "lac")


class IntervalParams(TypedDict, total=False):
    """The keyword arguments of `interval`; what each means: see there."""

    method: Method
    alpha: float
    folds: int
    by: IntoColumn | None
    classes: Sequence[object] | pl.Enum | None
    device: str


class ConformalParams(IntervalParams, total=False):
    """The keyword arguments of `conformal` beside those of `fit_gbdt`; what each means: see there."""

    calibration: float | IntoColumn
    weight: IntoColumn | None


@shows(GbdtParams)
def conformal(
    target: IntoColumn,
    *features: IntoColumns,
    alpha: float = 0.1,
    method: Method = "split",
    calibration: float | IntoColumn = 0.25,
    folds: int = 5,
    by: IntoColumn | None = None,
    classes: Sequence[object] | pl.Enum | None = None,
    weight: IntoColumn | None = None,
    **params: Any,
) -> pl.Expr:
    """Fit boosted trees and what their intervals need: one struct, for `tg.interval`.

    Of rows that come from where these came, in any order, `interval` misses the target in at most a share of `alpha`,
    whatever the trees are worth and however the target is distributed (of `"cv+"` a share of `2 * alpha` is proved, and
    `alpha` is seen). The struct's fields are Binary and Float64, so it is written to files, joined, and has the same
    bytes for the same rows. The expression's name is `conformal`.

    Parameters
    ----------
    target, features, weight
        As in `fit_gbdt`; `features` are named. `weight` weighs in the fit; rows of weight 0 do not calibrate.
    alpha
        The share of rows that may be missed, between 0 and 1.
    method
        `"split"`
            A model of some rows; the interval is its prediction, and on both sides the distance to the target that
            other rows keep [1]_. One fit, symmetric, of one width everywhere.
        `"cv+"`
            A model for each fold, all rows both fit and calibrate [2]_.
        `"cqr"`
            Two quantiles, moved by one amount: the width follows the row [3]_.
        `"aps"`
            Sets of classes: the likeliest ones, until together they are likely enough; the last one is in by a
            draw of the row's own [4]_.
        `"lac"`
            Sets of classes: those that are likely enough. The smallest on average [5]_.
    calibration
        Which rows calibrate and are not fitted: their share (drawn by `seed`), or a Boolean column; with
        Polars 1 in `group_by().agg()` a column. Not of `"cv+"`.
    folds
        Of `"cv+"`: how many.
    by
        A column of groups, each of which is calibrated by itself (Mondrian [6]_): the share holds in each of them, for
        one model. (`group_by().agg(tg.conformal(…))` gives each its own model.) Not of `"cv+"`.
    classes
        Of `"aps"` and `"lac"`: the labels of the target, or its type if that is an Enum.
    params
        Those of `fit_gbdt`. `"cqr"` sets `loss` and its `alpha`.

    Raises
    ------
    TypeError, ValueError
        For a parameter of another type, out of its range, or of another method; and as `fit_gbdt`.
    polars.exceptions.ComputeError
        As `fit_gbdt`; for a target that is null, NaN or none of `classes` in rows that calibrate.

    References
    ----------
    .. [1] H. Papadopoulos et al., "Inductive confidence machines for regression", 2002.
    .. [2] R. F. Barber, E. J. Candès, A. Ramdas, R. J. Tibshirani, "Predictive inference with the jackknife+", 2021.
    .. [3] Y. Romano, E. Patterson, E. J. Candès, "Conformalized quantile regression", 2019.
    .. [4] Y. Romano, M. Sesia, E. J. Candès, "Classification with valid and adaptive coverage", 2020.
    .. [5] M. Sadinle, J. Lei, L. Wasserman, "Least ambiguous set-valued classifiers with bounded error levels", 2019.
    .. [6] V. Vovk, A. Gammerman, G. Shafer, "Algorithmic learning in a random world", 2005.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(1000)}).with_columns(y=pl.col("x") + (pl.col("x") * 37) % 101)
    >>> fitted = df.select(tg.conformal("y", "x", alpha=0.1, rounds=20)).item()
    >>> held = df.with_columns(tg.interval(fitted, "x")).unnest("interval")
    >>> 0.85 < held.select(pl.col("y").is_between("lower", "upper").mean()).item() <= 1
    True
    """
    problems = _fit.Problems("conformal")
    label: list[Any] = []
    with problems.collect():
        label = _ordered(classes)
    with problems.collect():
        _check_alpha(alpha)
    with problems.collect():
        _check_method(method)
    with problems.collect():
        _check_of_method(method, by, label, classes is not None)
    with problems.collect():
        if isinstance(folds, bool) or not isinstance(folds, int) or not 2 <= folds <= 100:
            msg = f"parameter `folds`: {folds!r} is not a whole number between 2 and 100"
            raise ValueError(msg)
    with problems.collect():
        if not features:
            msg = "conformal: name the features: tg.conformal('y', 'a', 'b')"
            raise ValueError(msg)
    own: dict[str, Any] = dict(params)
    with problems.collect():
        if method == "cqr" and "loss" in own:
            msg = 'parameter `loss`: method="cqr" fits quantiles, so it has no other loss'
            raise ValueError(msg)
    y = pl.lit(0.0)
    with problems.collect():
        y = _plugin.as_expr(target, "the target")
    seed = own.get("seed", 0)
    mask, heavy = pl.lit(True), None
    with problems.collect():
        heavy = None if weight is None else _plugin.as_expr(weight, "`weight`")
    if method != "cv+":
        with problems.collect():
            mask = _calibrates(calibration, y, seed if isinstance(seed, int) else 0)
    group = None
    with problems.collect():
        group = None if by is None else _plugin.as_expr(by, "`by`").cast(pl.String)
    problems.raise_found()

    # A row of weight 0 is as if it were not there: those that calibrate are not fitted.
    used = mask if heavy is None else mask & (heavy > 0)
    device = first(own.get("device", "auto"))
    if method == "cv+":
        return _cv_plus_fit(target, y, features, folds, heavy, used, own, device)
    kept = pl.when(mask).then(0.0).otherwise(1.0 if heavy is None else heavy)
    if method == "cqr":
        own |= {"loss": "quantile", "alpha": _levels(alpha)}
    if method in _SETS and len(label) == 2:
        own["positive"] = label[1]
    model = fit_gbdt(target, *features, weight=kept, **own)
    # What `mae` says of a null or a NaN is an error that names the column; null is a label that is none of these.
    seen = pl.when(pl.any_horizontal(y == pl.lit(one) for one in label)).then(0.0).otherwise(None) if label else y
    checked = mae(seen, seen, weight=used.cast(pl.Float64))
    columns = pl.struct(_plugin.as_exprs(features, "a feature"))

    # In one step, so that the model is fitted once: Polars may fit one that stands twice in an expression twice.
    def calibrated(inputs: list[pl.Series]) -> dict[str, object]:
        fitted = bytes(inputs[0][0])
        frame = inputs[1].struct.unnest()
        predicted = predict(fitted, *frame.columns, device=device)
        rows = frame.with_columns(
            inputs[2].alias("__y") if len(inputs[2]) == frame.height else pl.lit(inputs[2][0]).alias("__y")
        )
        if method in _SETS:
            scores = _class_scores(predicted, label, method)
            score = pl.coalesce(pl.when(pl.col("__y") == pl.lit(c)).then(scores[i]) for i, c in enumerate(label))
        elif method == "cqr":
            low, high = _quantiles(predicted, alpha)
            score = pl.max_horizontal(low - pl.col("__y"), pl.col("__y") - high)
        else:
            score = (predicted - pl.col("__y")).abs()
        held = inputs[3]
        kept_scores = rows.select(score.alias("score")).to_series().filter(held)
        if group is None:
            return {"model": fitted, "offset": _rank_value(kept_scores, alpha)}
        return {"model": fitted, "offsets": _group_offsets(inputs[5].filter(held), kept_scores, alpha)}

    fields = {"model": pl.Binary} | ({"offset": pl.Float64} if group is None else {"offsets": pl.Binary})
    read = [model, columns, y, used, checked, *([] if group is None else [group])]
    return one_value(read, calibrated, pl.Struct(fields)).alias("conformal")


def interval(
    conformal: Mapping[str, Any] | pl.Expr | str,
    *features: IntoColumns,
    method: Method = "split",
    alpha: float = 0.1,
    folds: int = 5,
    by: IntoColumn | None = None,
    classes: Sequence[object] | pl.Enum | None = None,
    device: str = "auto",
) -> pl.Expr:
    """Predict an interval for each row, or a set of classes, by what `tg.conformal` gave. Elementwise, so it streams.

    A struct of `lower` and `upper` (Float64; infinite where too few rows calibrated for `alpha`), or a list of labels
    in their own order, which may be empty. Null where the conformal is. The expression's name is `interval`.

    Parameters
    ----------
    conformal
        The struct that `conformal` gives: a dictionary, as `item()` has it, or a column or an expression of them
        (after a join with those that `group_by` fitted, say).
    features
        As in `predict`, and named.
    method, alpha, folds, classes
        As given to `conformal`.
    by
        The column of the groups; a group that did not calibrate has infinite intervals and sets of all classes.
    device
        As in `predict`.

    Raises
    ------
    TypeError, ValueError
        For parameters of another type or out of their range, for a dictionary that `conformal` did not give by this
        method.
    polars.exceptions.StructFieldNotFoundError
        For a column that `conformal` did not give by this method.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"g": ["a", "b"] * 200, "x": range(400)}).with_columns(y=3.0 * pl.col("x"))
    >>> fitted = df.group_by("g").agg(tg.conformal("y", "x", rounds=5))
    >>> df.join(fitted, on="g").select(tg.interval("conformal", "x")).schema
    Schema([('interval', Struct({'lower': Float64, 'upper': Float64}))])
    """
    _check_alpha(alpha)
    _check_method(method)
    label = _ordered(classes)
    _check_of_method(method, by, label, classes is not None)
    if not features:
        msg = "interval: name the features: tg.interval(conformal, 'a', 'b')"
        raise ValueError(msg)
    names = [f"model_{i}" for i in range(folds)] if method == "cv+" else ["model"]
    names += ["residuals"] if method == "cv+" else ["offset" if by is None else "offsets"]
    part = _parts(conformal, names)
    if method == "cv+":
        predicted = [predict(part[name], *features, device=device).alias(name) for name in names[:-1]]
        both = pl.struct(part["residuals"].alias("value"), *predicted)
        bounds = pl.Struct({"lower": pl.Float64, "upper": pl.Float64})
        return by_value(both, lambda value, frame: _cv_plus_bounds(value, frame, alpha), bounds).alias("interval")
    offset = part[names[-1]]
    if by is not None:
        group = _plugin.as_expr(by, "`by`").cast(pl.String)
        both = pl.struct(offset.alias("value"), group.alias("group"))
        offset = by_value(both, _offset_of_group, pl.Float64)
    if method in _SETS:
        scores = _class_scores(
            predict(part["model"], *features, dtype=_own_dtype(part["model"], label), device=device), label, method
        )
        # A set of everything where nothing calibrated.
        held = [pl.when(score <= offset).then(pl.lit(one)) for score, one in zip(scores, label, strict=True)]
        sets = pl.concat_list(held).list.drop_nulls()
        return pl.when(scores[0].is_not_null() & offset.is_not_null()).then(sets).alias("interval")
    if method == "cqr":
        dtype = None if isinstance(part["model"], bytes) else _quantile_dtype(alpha)
        low, high = _quantiles(predict(part["model"], *features, dtype=dtype, device=device), alpha)
        # Moved towards each other they may cross: then the interval is the point between.
        middle, cross = (low + high) / 2, offset < -(high - low) / 2
        return pl.struct(
            lower=pl.when(cross).then(middle).otherwise(low - offset),
            upper=pl.when(cross).then(middle).otherwise(high + offset),
        ).alias("interval")
    predicted_one = predict(part["model"], *features, device=device)
    return pl.struct(lower=predicted_one - offset, upper=predicted_one + offset).alias("interval")


def _check_alpha(alpha: object) -> None:
    if isinstance(alpha, bool) or not isinstance(alpha, int | float):
        msg = f"parameter `alpha`: {alpha!r} is no number"
        raise TypeError(msg)
    if not 0 < alpha < 1:
        msg = f"parameter `alpha`: {alpha} is not between 0 and 1"
        raise ValueError(msg)


def _check_method(method: object) -> None:
    if method not in get_args(Method):
        msg = f"parameter `method`: {method!r} is not one of {', '.join(map(repr, get_args(Method)))}"
        raise ValueError(msg)


def _check_of_method(method: str, by: object, classes: list[object], given: bool) -> None:
    """Raise for parameters that a method lacks or does not have."""
    if method == "cv+" and by is not None:
        msg = 'parameter `by`: not of method="cv+", whose rows share the models of all folds; "split" and "cqr" have it'
        raise ValueError(msg)
    if method in _SETS and (len(classes) < 2 or len(set(map(_fit.label, classes))) < len(classes)):
        msg = f"parameter `classes`: method={method!r} needs the labels of the target, two or more, each once"
        raise ValueError(msg)
    if method not in _SETS and given:
        msg = f'parameter `classes`: it is for method="aps" and "lac", not {method!r}'
        raise ValueError(msg)


def _ordered(classes: Sequence[object] | pl.Enum | None) -> list[Any]:
    """The labels in the order in which a model has them."""
    if isinstance(classes, pl.Enum):
        return classes.categories.to_list()
    if isinstance(classes, str):
        msg = f"parameter `classes`: {classes!r} is no list of labels"
        raise TypeError(msg)
    try:
        labels: list[Any] = [] if classes is None else list(classes)
        return sorted(labels)
    except TypeError:
        msg = f"parameter `classes`: {classes!r} is no list of labels of one type"
        raise TypeError(msg) from None


def _calibrates(calibration: object, y: pl.Expr, seed: int) -> pl.Expr:
    """Which rows calibrate, never null."""
    if isinstance(calibration, str | pl.Expr):
        return _plugin.as_expr(calibration, "`calibration`").fill_null(False)
    if isinstance(calibration, bool) or not isinstance(calibration, int | float):
        msg = f"parameter `calibration`: {calibration!r} is neither a share nor a Boolean column"
        raise TypeError(msg)
    if not 0 < calibration < 1:
        msg = f"parameter `calibration`: {calibration} is not between 0 and 1"
        raise ValueError(msg)
    # Counted by a column: of what reads none, Polars 1 has no name in groups.
    number = (y.is_null().cast(pl.UInt64) * 0 + 1).cum_sum() + pl.lit(seed % 2**31 * 2**32, dtype=pl.UInt64)
    drawn = number.map_batches(_mixed, return_dtype=pl.UInt64, is_elementwise=True)
    return drawn.rank("ordinal") <= (y.len() * calibration).ceil()


def _mixed(bits: pl.Series) -> pl.Series:
    """Hash each UInt64 (the finalizer of splitmix64; products wrap)."""
    number = pl.col("bits") + pl.lit(0x9E3779B97F4A7C15, dtype=pl.UInt64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        number = (number ^ (number // pl.lit(1 << shift, dtype=pl.UInt64))) * pl.lit(factor, dtype=pl.UInt64)
        bits = bits.alias("bits").to_frame().select(number.alias("bits")).to_series()
        number = pl.col("bits")
    return bits


def _rank(count: int, alpha: float) -> int:
    """Which of `count` scores in their order is the offset, from 1 on; beyond `count` where there are too few."""
    # Rounded first: 1 - alpha has an error of its own.
    return math.ceil(round((count + 1) * (1 - alpha), 9))


def _rank_value(scores: pl.Series, alpha: float) -> float:
    """The offset of these scores."""
    rank = _rank(len(scores), alpha)
    return float(scores.sort()[rank - 1]) if rank <= len(scores) else math.inf


def _group_offsets(group: pl.Series, score: pl.Series, alpha: float) -> bytes:
    """The offset of each group as JSON; infinity is null there."""
    found = pl.DataFrame([group.alias("group"), score.alias("score")]).group_by("group").agg("score").sort("group")
    offsets = [(group, _rank_value(pl.Series(scores, dtype=pl.Float64), alpha)) for group, scores in found.iter_rows()]
    return json.dumps([[group, None if math.isinf(offset) else offset] for group, offset in offsets]).encode()


def _offset_of_group(value: bytes, frame: pl.DataFrame) -> pl.Series:
    pairs = json.loads(value)
    known = {group: math.inf if offset is None else float(offset) for group, offset in pairs}
    return pl.Series([known.get(group, math.inf) for group in frame["group"]], dtype=pl.Float64)


def _levels(alpha: float) -> list[float]:
    return [alpha / 2, 1 - alpha / 2]


def _quantile_dtype(alpha: float) -> pl.Struct:
    return pl.Struct({str(level): pl.Float64 for level in _levels(alpha)})


def _quantiles(predicted: pl.Expr, alpha: float) -> list[pl.Expr]:
    return [predicted.struct.field(str(level)) for level in _levels(alpha)]


def _class_dtype(classes: list[object]) -> Any:
    return None if len(classes) == 2 else pl.Struct({_fit.label(one): pl.Float64 for one in classes})


def _own_dtype(model: object, classes: list[object]) -> Any:
    return None if isinstance(model, bytes) else _class_dtype(classes)


def _class_scores(predicted: pl.Expr, classes: list[object], method: str) -> list[pl.Expr]:
    """How unlikely each class would be, by row."""
    names = [_fit.label(one) for one in classes]

    # As an expression its size would grow with the square of the classes.
    def scores(column: pl.Series) -> pl.Series:
        if len(names) == 2:
            chances = {names[0]: 1 - column, names[1]: column}
        else:
            chances = {name: column.struct.field(name) for name in names}
        frame = pl.DataFrame([chance.alias(name) for name, chance in chances.items()])
        made = (
            frame.select((1 - pl.col(name)).alias(name) for name in frame.columns)
            if method == "lac"
            else _adaptive(frame)
        )
        return made.to_struct(column.name)

    made = predicted.map_batches(scores, return_dtype=pl.Struct(dict.fromkeys(names, pl.Float64)), is_elementwise=True)
    return [made.struct.field(name) for name in names]


def _adaptive(chances: pl.DataFrame) -> pl.DataFrame:
    """The chances of the classes that come first, and a share of a class's own by a draw of the row's."""
    bits = pl.Series([0], dtype=pl.UInt64).new_from_index(0, chances.height)
    for chance in chances.iter_columns():
        # A row's draw is a hash of its chances, so that it is the same wherever the row is.
        whole = (chance.fill_nan(None).fill_null(0.0).clip(0.0, 1.0) * 2.0**53).cast(pl.UInt64)
        bits = _mixed(bits + whole)
    draw = (bits // (1 << 11)).cast(pl.Float64) / 2.0**53
    out = []
    for i, chance in enumerate(chances.iter_columns()):
        score = draw * chance
        for j, other in enumerate(chances.iter_columns()):
            if i != j:
                before = other >= chance if j < i else other > chance
                score = score + other * before.cast(pl.Float64)
        out.append(score.alias(chance.name))
    return pl.DataFrame(out)


def _parts(conformal: Mapping[str, Any] | pl.Expr | str, names: list[str]) -> dict[str, Any]:
    """The fields of a conformal: models as bytes where they are known, all else as expressions."""
    if isinstance(conformal, str | pl.Expr):
        expr = _plugin.as_expr(conformal, "the conformal")
        return {name: expr.struct.field(name) for name in names}
    if not isinstance(conformal, Mapping):
        msg = f"interval: a conformal is a dictionary, a column or an expression, not {type(conformal).__name__}"  # type: ignore[unreachable]
        raise TypeError(msg)
    if set(conformal) != set(names):
        msg = f"interval: this conformal has the fields {', '.join(conformal)}, not {', '.join(names)}: give `method`, "
        msg += "`folds` and `by` as to tg.conformal"
        raise ValueError(msg)
    return {
        name: bytes(value)
        if name.startswith("model")
        else pl.lit(value, dtype=pl.Float64 if name == "offset" else pl.Binary)
        for name, value in conformal.items()
    }


def _cv_plus_fit(
    target: IntoColumn,
    y: pl.Expr,
    features: tuple[IntoColumns, ...],
    folds: int,
    weight: pl.Expr | None,
    used: pl.Expr,
    params: dict[str, Any],
    device: str,
) -> pl.Expr:
    """A model for each fold, and how far off each is in the rows that it has not seen."""
    fitted = fit_folds(target, *features, folds=folds, weight=weight, **params)
    checked = mae(y.filter(used), y.filter(used)) if weight is not None else mae(y, y)
    columns = pl.struct(_plugin.as_exprs(features, "a feature"))

    # In one step, as above.
    def calibrated(inputs: list[pl.Series]) -> dict[str, object]:
        rows = inputs[0].struct.unnest().rename({"fold": "__fold", "model": "__model"})
        frame = inputs[1].struct.unnest()
        predicted = frame.with_columns(rows).select(predict("__model", *frame.columns, device=device)).to_series()
        fold = rows["__fold"]
        # The models are large: each is taken from one row of its fold.
        firsts = [(fold == i).arg_max() or 0 for i in range(folds)]
        models = {f"model_{i}": rows["__model"][at] for i, at in enumerate(firsts)}
        return models | {"residuals": _packed(fold, (inputs[2] - predicted).abs(), inputs[3], folds)}

    names = [*(f"model_{i}" for i in range(folds)), "residuals"]
    read = [fitted, columns, y, used, checked]
    return one_value(read, calibrated, pl.Struct(dict.fromkeys(names, pl.Binary))).alias("conformal")


def _packed(fold: pl.Series, residual: pl.Series, used: pl.Series, folds: int) -> bytes:
    """The residuals of each fold in their order: how many, then all of them, as little-endian floats."""
    # Of no weights `used` is one value for all rows.
    used = used if len(used) == len(fold) else used.new_from_index(0, len(fold))
    frame = pl.DataFrame([fold.alias("fold"), residual.alias("residual")]).filter(used).sort("fold", "residual")
    counts = [float(frame.filter(pl.col("fold") == i).height) for i in range(folds)]
    numbers = [float(folds), *counts, *frame["residual"].to_list()]
    return struct.pack(f"<{len(numbers)}d", *numbers)


def _unpacked(value: bytes) -> list[pl.Series]:
    numbers = struct.unpack(f"<{len(value) // 8}d", value)
    folds = int(numbers[0])
    at, out = 1 + folds, []
    for count in numbers[1 : 1 + folds]:
        out.append(pl.Series(numbers[at : at + int(count)], dtype=pl.Float64))
        at += int(count)
    return out


# Halvings of the range between the folds' predictions: what is left is a 10^12th of it, on the side that covers.
_HALVINGS = 40


def _cv_plus_bounds(value: bytes, frame: pl.DataFrame, alpha: float) -> pl.Series:
    """The bounds of rows, from each fold's prediction and residuals [Barber et al. 2021, eq. 11].

    The upper bound is the rank-th of all predictions of a residual's fold plus the residual; found by halving, since
    how many of these are below a number is the sum of what each fold's sorted residuals say. The lower one is
    the same of negated predictions.
    """
    residuals = _unpacked(value)
    pooled = pl.concat(residuals).sort()
    rank = _rank(len(pooled), alpha)
    centres = [frame[f"model_{i}"] for i in range(len(residuals))]
    if rank > len(pooled):
        known = centres[0].is_not_null()
        out = pl.DataFrame({"known": known}).select(
            lower=pl.when("known").then(-math.inf), upper=pl.when("known").then(math.inf)
        )
        return out.to_struct("interval")
    most = pooled[rank - 1]

    def bound(sides: list[pl.Series]) -> pl.Series:
        lows = pl.DataFrame([s.alias(str(i)) for i, s in enumerate(sides)])
        low, high = lows.min_horizontal() + most, lows.max_horizontal() + most
        for _ in range(_HALVINGS):
            middle = low + (high - low) / 2
            below = pl.Series([0], dtype=pl.Int64).new_from_index(0, len(middle))
            for side, known in zip(sides, residuals, strict=True):
                below = below + known.search_sorted(middle - side, side="right").cast(pl.Int64)
            frame = pl.DataFrame({"low": low, "high": high, "middle": middle, "enough": below >= rank})
            frame = frame.with_columns(
                low=pl.when("enough").then("low").otherwise("middle"),
                high=pl.when("enough").then("middle").otherwise("high"),
            )
            low, high = frame["low"], frame["high"]
        return pl.Series(high)

    upper, lower = bound(centres), -bound([-c for c in centres])
    return pl.DataFrame({"lower": lower, "upper": upper}).to_struct("interval")

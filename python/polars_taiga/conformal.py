"""Intervals and sets that hold the truth with a chosen probability: conformal prediction in a query."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

import polars as pl
import polars.selectors as cs

from polars_taiga import _fit, _plugin
from polars_taiga._elementwise import by_value, one_value
from polars_taiga._signature import shows
from polars_taiga.device import first
from polars_taiga.gbdt import GbdtParams, Loss, fit_gbdt
from polars_taiga.loss import CustomLoss
from polars_taiga.model import Model
from polars_taiga.predict import predict
from polars_taiga.row_key import row_key_order
from polars_taiga.validation import fit_folds

if TYPE_CHECKING:
    from polars_taiga._fit import OnError
    from polars_taiga._plugin import IntoColumn, IntoColumns

__all__ = ["conformal", "interval"]

Method: TypeAlias = Literal["split", "cv+", "cqr", "aps", "lac"]
"""How intervals or sets are made."""

_SETS = ("aps", "lac")
# What stands beside features, none of which may have a name that begins so.
_TARGET, _FOLD, _MODEL = "__taiga_target", "__taiga_fold", "__taiga_model"
# Of these an interval is made by the number itself, which a column does not tell before it is read.
_NEED_ALPHA = ("cqr", "cv+")
_DEFAULT_ALPHA = 0.1
# Why no interval is put around what a loss predicts.
_NO_NUMBER = {
    "gaussian": "predicts a mean and a variance",
    **dict.fromkeys(("multiclass", "ova", "multilabel"), "predicts probabilities of several labels"),
    **dict.fromkeys(("lambdarank", "pairwise", "xendcg", "yetirank"), "ranks rows by scores that are on no scale"),
    "cox": "predicts hazards, and the target is a time",
    "aft": "is of times that may be censored",
}
# Losses of classes, and those of them that predict each class's probability, of two labels too.
_OF_CLASSES = ("auto", "logloss", "focal", "multiclass", "ova")
_OF_SEVERAL = ("multiclass", "ova")
_ARGUMENT = "it is an argument of `fit_gbdt`"
_BASELINE = f"predictions don't know it, and intervals are made of these; {_ARGUMENT}"
_CENSORED = f"of a censored time it is not known how far off a prediction is, which intervals are made of; {_ARGUMENT}"
# Arguments of `fit_gbdt`, and others' names of them, that intervals are not made by.
_OF_OTHER_FITS = {
    **dict.fromkeys(("baseline", "base_margin", "init_score"), _BASELINE),
    **dict.fromkeys(("event", "lower", "upper"), _CENSORED),
}


class _SharedParams(TypedDict, total=False):
    """The keyword arguments that both functions have."""

    method: Method
    folds: int
    by: IntoColumn | None
    classes: Sequence[object] | pl.Enum | None


class IntervalParams(_SharedParams, total=False):
    """The keyword arguments of `interval`; what each means: see there."""

    alpha: float | None
    device: str


class ConformalParams(_SharedParams, total=False):
    """The keyword arguments of `conformal` beside those of `fit_gbdt`; what each means: see there."""

    alpha: float
    calibration: float | IntoColumn
    weight: IntoColumn | None
    on_error: OnError


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
    on_error: OnError = "raise",
    **params: Any,
) -> pl.Expr:
    """Fit boosted trees and what their intervals need: one struct, for `tg.interval`.

    Of rows that come from where these came, in any order, `interval` misses the target in at most a share of `alpha`,
    whatever the trees are worth and however the target is distributed (of `"cv+"` a share of `2 * alpha` is proved, and
    `alpha` is seen). The struct's fields are Binary, Float64 and String, so it is written to files, joined, and has the
    same bytes for the same rows; `method`, `alpha` and `classes` are among them, and `interval` checks that it is given
    the same. The expression's name is `conformal`.

    Parameters
    ----------
    target, features, weight
        As in `fit_gbdt`; `features` are named. `weight` weighs in the fit; rows of weight 0 do not calibrate (their
        target is checked all the same).
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
        Which rows calibrate and are not fitted: their share (drawn by `seed`, and beside `row_key` from the set of the
        keys; among all rows, those of weight 0 too), or a Boolean column without nulls; with Polars 1 in
        `group_by().agg()` a column. `"cv+"` does not read it.
    folds
        How many `"cv+"` has; the others do not read it.
    by
        A column of groups, each of which is calibrated by itself (Mondrian [6]_): the share holds in each of them, for
        one model. (`group_by().agg(tg.conformal(…))` gives each its own model.) Not of `"cv+"`.
    classes
        Of `"aps"` and `"lac"`, which need them: the labels of the target, or its type if that is an Enum.
    on_error
        What becomes of the rows of a query that can't be fitted or don't calibrate: `"raise"` (default), or `"null"`,
        which makes the conformal null, and so what `interval` makes of it. `"constant"` (not of `"cv+"`) fits as in
        `fit_gbdt`, and makes null what is still no conformal: no row calibrates, none is left to fit, or a label of
        three or more has no row. (Keys that are null or occur twice are always an error where rows are drawn by them.)
    params
        Those of `fit_gbdt` but for `baseline`, which predictions don't know, and `event`, `lower` and `upper`: how far
        off a prediction is of a censored time nobody knows. `"cqr"` sets `loss` and its `alpha`. `"split"` and `"cv+"`
        take losses that predict a number on the target's scale: neither `"gaussian"`, `"multiclass"`, `"ova"` and
        `"multilabel"`, nor those of ranking and survival. `"aps"` and `"lac"` take `"logloss"` and `"focal"` of two
        labels, `"multiclass"` and `"ova"` of more.

    Raises
    ------
    TypeError, ValueError
        For a parameter of another type or out of its range; for `by`, `classes` and a `loss` that the method does not
        have; and as `fit_gbdt`.
    polars.exceptions.ComputeError
        As `fit_gbdt`; for a target of another type than numbers by `"split"`, `"cv+"` and `"cqr"`; unless `on_error`
        says otherwise for a target that is null or NaN, or none of `classes`, and where no row calibrates or none is
        left to fit.

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
        _check_folds(folds)
    with problems.collect():
        if not features:
            msg = "conformal: name the features: tg.conformal('y', 'a', 'b')"
            raise ValueError(msg)
    own: dict[str, Any] = dict(params)
    with problems.collect():
        if method == "cqr" and "loss" in own:
            msg = 'parameter `loss`: method="cqr" fits quantiles, so it has no other loss'
            raise ValueError(msg)
    with problems.collect():
        _check_loss_of_method(method, label, own.get("loss"))
    with problems.collect():
        _check_loss_of_numbers(label, own.get("loss"))
    for name, why in _OF_OTHER_FITS.items():
        if own.pop(name, None) is not None:
            problems.found.append((True, f"conformal: there is no parameter `{name}`: {why}"))
    with problems.collect():
        _fit.checked_on_error(on_error, ("raise", "null") if method == "cv+" else get_args(_fit.OnError))
    y = pl.lit(0.0)
    with problems.collect():
        y = _plugin.as_expr(target, "the target")
    seed = own.get("seed", 0)
    mask, heavy = pl.lit(True), None
    with problems.collect():
        heavy = None if weight is None else _plugin.as_expr(weight, "`weight`")
    if method != "cv+":
        with problems.collect():
            mask = _calibrates(calibration, y, seed if isinstance(seed, int) else 0, own.get("row_key"))
    group = None
    with problems.collect():
        group = None if by is None else _plugin.as_expr(by, "`by`")
    problems.raise_found()

    # A row of weight 0 is as if it were not there: those that calibrate are not fitted.
    numbers = None if heavy is None else _plugin.numbers(heavy, "conformal", "a weight")
    counts = None if numbers is None else numbers > 0
    mask = _checked(mask, y, counts, group, method, label, null=on_error == "null")
    # A row at fault is null here, whatever it weighs.
    used = mask if counts is None else mask & (counts | mask.is_null())
    device = first(own.get("device", "auto"))
    if method == "cv+":
        own["on_error"] = on_error
        return _cv_plus_fit(target, y, features, folds, alpha, heavy, used, own, device)
    # Rows at fault, which make it null, are not fitted either.
    left_out = mask.fill_null(True) if on_error == "null" else mask
    if numbers is None:
        kept = pl.when(left_out).then(0.0).otherwise(1.0)
    else:
        # What is wrong with a weight the fit says, of rows that calibrate too.
        kept = pl.when(left_out & (numbers >= 0) & (numbers < math.inf)).then(0.0).otherwise(numbers)
    some = [_some_of_both(mask, counts)] if on_error == "raise" else []
    # Read by the fit, which would say less; Polars 1 has no names in groups for what both go into.
    if some and not pl.__version__.startswith("1."):
        kept *= some.pop()
    if method == "cqr":
        own |= {"loss": "quantile", "alpha": _levels(alpha)}
    if method in _SETS and len(label) == 2:
        own["positive"] = label[1]
        # A third label is a fault of the rows, and not of this parameter.
        target = pl.when(mask.is_not_null()).then(y) if on_error == "null" else target
    # What the fit says of a weight is about the column that was given.
    name = "calibration" if heavy is None else _plugin.name_of(heavy) or "weight"
    model = fit_gbdt(target, *features, weight=kept.alias(name), on_error=on_error, **own)
    if method in _SETS:
        model = _of_all_labels(model, label, null=on_error != "raise")
    columns = pl.struct(_plugin.as_exprs(features, "a feature"))

    # In one step, so that the model is fitted once: Polars may fit one that stands twice in an expression twice.
    def calibrated(inputs: list[pl.Series]) -> dict[str, object] | None:
        frame = inputs[1].struct.unnest()
        fitted, held = inputs[0][0], _long(inputs[3], frame.height)
        if fitted is None or (on_error != "raise" and not _calibrate(held)):
            return None
        predicted = predict(fitted, cs.by_name(*frame.columns), device=device)
        rows = frame.with_columns(_long(inputs[2], frame.height).alias(_TARGET))
        if method in _SETS:
            scores = _class_scores(predicted, label, method)
            score = pl.coalesce(pl.when(pl.col(_TARGET) == pl.lit(c)).then(scores[i]) for i, c in enumerate(label))
        elif method == "cqr":
            low, high = _quantiles(predicted)
            score = pl.max_horizontal(low - pl.col(_TARGET), pl.col(_TARGET) - high)
        else:
            score = (predicted - pl.col(_TARGET)).abs()
        kept_scores = rows.select(score.alias("score")).to_series().filter(held)
        if group is None:
            return {"model": fitted, "offset": _rank_value(kept_scores, alpha), **made}
        # By a name that Polars' methods of a Series don't read as a pattern.
        groups = _long(inputs[4], frame.height).alias("group").filter(held)
        return {"model": fitted, "offsets": _group_offsets(groups, kept_scores, alpha), **made}

    made = _made(method, alpha, label)
    fields = {name: _TYPES[name] for name in ("model", "offset" if group is None else "offsets", *made)}
    read = [model, columns, y, used, *([] if group is None else [group]), *some]
    return one_value(read, calibrated, pl.Struct(fields)).alias("conformal")


def interval(
    conformal: Mapping[str, Any] | pl.Expr | str,
    *features: IntoColumns,
    method: Method = "split",
    alpha: float | None = None,
    folds: int = 5,
    by: IntoColumn | None = None,
    classes: Sequence[object] | pl.Enum | None = None,
    device: str = "auto",
) -> pl.Expr:
    """Predict an interval for each row, or a set of classes, by what `tg.conformal` gave. Elementwise, so it streams.

    A struct of `lower` and `upper` (Float64; infinite where too few rows calibrated for `alpha`), or a list of labels
    in their own order, which may be empty; of the type that Polars gives to `classes`: whole numbers are Int64, the
    labels of an Enum String. Null where the conformal is. The expression's name is `interval`.

    Parameters
    ----------
    conformal
        The struct that `conformal` gives: a dictionary, as `item()` has it, or a column or an expression of them
        (after a join with those that `group_by` fitted, say).
    features
        As in `predict`, and named.
    method, folds, classes
        As given to `conformal`, which is checked.
    alpha
        As given to `conformal`, which is checked, and by default that; of `"cv+"` another one may be chosen. Of a
        column and by `"cqr"` or `"cv+"` the default is 0.1, and an error where that is not the column's.
    by
        The column of the groups, of the type that `conformal` saw (integers of any width, text of any type); a group
        that did not calibrate has infinite intervals and sets of all classes.
    device
        As in `predict`.

    Raises
    ------
    TypeError, ValueError
        For parameters of another type or out of their range, for a dictionary that `conformal` did not give by this
        method, `alpha` and `classes`, or that is damaged.
    polars.exceptions.StructFieldNotFoundError
        For a column whose structs lack the fields of this method.
    polars.exceptions.ComputeError
        For a column that `conformal` gave by another method, `alpha` or `classes`, or that is damaged; for `by` of
        another type than in `conformal`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"g": ["a", "b"] * 200, "x": range(400)}).with_columns(y=3.0 * pl.col("x"))
    >>> fitted = df.group_by("g").agg(tg.conformal("y", "x", rounds=5))
    >>> df.join(fitted, on="g").select(tg.interval("conformal", "x")).schema
    Schema([('interval', Struct({'lower': Float64, 'upper': Float64}))])
    """
    if alpha is not None:
        _check_alpha(alpha)
    _check_method(method)
    label = _ordered(classes)
    _check_of_method(method, by, label, classes is not None)
    _check_folds(folds)
    if not features:
        msg = "interval: name the features: tg.interval(conformal, 'a', 'b')"
        raise ValueError(msg)
    names = [f"model_{i}" for i in range(folds)] if method == "cv+" else ["model"]
    names += ["residuals"] if method == "cv+" else ["offset" if by is None else "offsets"]
    made = _made(method, _DEFAULT_ALPHA if alpha is None else alpha, label)
    if alpha is None and (isinstance(conformal, Mapping) or method not in _NEED_ALPHA):
        del made["alpha"]
    elif alpha is not None and method == "cv+":
        # Residuals are of any.
        del made["alpha"]
    part = _parts(conformal, names, made)
    if alpha is None:
        alpha = _alpha_of(conformal)
    if method == "cv+":
        predicted = [predict(part[name], *features, device=device).alias(name) for name in names[:-1]]
        both = pl.struct(part["residuals"].alias("value"), *predicted)
        bounds = pl.Struct({"lower": pl.Float64, "upper": pl.Float64})
        return by_value(both, lambda value, frame: _cv_plus_bounds(value, frame, alpha), bounds).alias("interval")
    offset = part[names[-1]]
    if by is not None:
        group = _plugin.as_expr(by, "`by`")
        name = _plugin.name_of(group) or "by"
        both = pl.struct(offset.alias("value"), group.alias("group"))
        offset = by_value(both, lambda value, frame: _offset_of_group(value, frame, name, method), pl.Float64)
    if method in _SETS:
        scores = _class_scores(
            predict(part["model"], *features, dtype=_own_dtype(part["model"], label), device=device), label, method
        )
        return _sets(scores, offset, label).alias("interval")
    if method == "cqr":
        dtype = None if isinstance(part["model"], bytes) else _quantile_dtype(alpha)
        low, high = _quantiles(predict(part["model"], *features, dtype=dtype, device=device))
        # Moved towards each other they may cross: then the interval is the point between.
        middle, cross = (low + high) / 2, offset < -(high - low) / 2
        lower = pl.when(cross).then(middle).otherwise(low - offset)
        upper = pl.when(cross).then(middle).otherwise(high + offset)
    else:
        predicted_one = predict(part["model"], *features, device=device)
        lower, upper = predicted_one - offset, predicted_one + offset
    both = pl.struct(lower=lower, upper=upper)
    # A struct of nulls is none that is null.
    return (both if isinstance(conformal, Mapping) else pl.when(offset.is_not_null()).then(both)).alias("interval")


def _check_alpha(alpha: object) -> None:
    if isinstance(alpha, bool) or not isinstance(alpha, int | float):
        msg = f"parameter `alpha`: {alpha!r} is no number"
        raise TypeError(msg)
    if not 0 < alpha < 1:
        msg = f"parameter `alpha`: {alpha} is not between 0 and 1"
        raise ValueError(msg)


def _check_folds(folds: object) -> None:
    if isinstance(folds, bool) or not isinstance(folds, int) or not 2 <= folds <= 100:
        msg = f"parameter `folds`: {folds!r} is not a whole number between 2 and 100"
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
    if method in _SETS and (len(classes) < 2 or len(set(map(_text, classes))) < len(classes)):
        msg = f"parameter `classes`: method={method!r} needs the labels of the target, two or more, each once"
        raise ValueError(msg)
    if method not in _SETS and given:
        msg = f'parameter `classes`: it is for method="aps" and "lac", not {method!r}'
        raise ValueError(msg)


def _check_loss_of_method(method: str, label: list[object], loss: object) -> None:
    """Raise for a loss whose predictions this method can't hold; which losses there are the fit knows."""
    if isinstance(loss, CustomLoss):
        name, loss = "a loss of one's own", ""
    elif isinstance(loss, str) and loss in get_args(Loss):
        name = repr(loss)
    else:
        return
    if method in _SETS and loss not in _OF_CLASSES:
        msg = f"parameter `loss`: {name} has no probabilities of classes, which method={method!r} makes sets of"
        raise ValueError(msg)
    if method in _SETS and len(label) == 2 and loss in _OF_SEVERAL:
        msg = f'parameter `loss`: {name} is for three labels or more here; of two it is "logloss" or "focal"'
        raise ValueError(msg)
    if method in ("split", "cv+") and loss in _NO_NUMBER:
        msg = f"parameter `loss`: {name} {_NO_NUMBER[loss]}, which no interval is put around"
        raise ValueError(msg)


def _check_loss_of_numbers(label: list[object], loss: object) -> None:
    """Raise for labels that the fit takes for numbers."""
    numbers = all(isinstance(one, int | float | Decimal) and not isinstance(one, bool) for one in label)
    if label and numbers and loss in (None, "auto"):
        own = "logloss" if len(label) == 2 else "multiclass"
        msg = f'parameter `classes`: numbers are labels under loss="{own}": give it too, or cast the target to text'
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


def _calibrates(calibration: object, y: pl.Expr, seed: int, row_key: IntoColumns | None) -> pl.Expr:
    """Which rows calibrate, unchecked."""
    if isinstance(calibration, str | pl.Expr):
        return _plugin.as_expr(calibration, "`calibration`")
    if isinstance(calibration, bool) or not isinstance(calibration, int | float):
        msg = f"parameter `calibration`: {calibration!r} is neither a share nor a Boolean column"
        raise TypeError(msg)
    if not 0 < calibration < 1:
        msg = f"parameter `calibration`: {calibration} is not between 0 and 1"
        raise ValueError(msg)
    # Counted by a column: of what reads none, Polars 1 has no name in groups.
    place = (y.is_null().cast(pl.UInt64) * 0 + 1).cum_sum()
    if row_key is not None:
        # Rows with keys are drawn in the order of these, whatever order they come in.
        place = row_key_order(row_key).cast(pl.UInt64) + 1
    number = place + pl.lit(seed % 2**31 * 2**32, dtype=pl.UInt64)
    drawn = number.map_batches(_mixed, return_dtype=pl.UInt64, is_elementwise=True)
    return (drawn.rank("ordinal") <= (y.len() * calibration).ceil()).alias("calibration")


def _checked(
    mask: pl.Expr,
    y: pl.Expr,
    counts: pl.Expr | None,
    group: pl.Expr | None,
    method: str,
    label: list[Any],
    *,
    null: bool,
) -> pl.Expr:
    """Which rows calibrate, once what they hold is known to be right; the fit reads it, so nothing else fails first.

    With `null` rows at fault are not an error but null. Types are an error always.
    """
    parts = {"mask": mask, "y": y, "counts": counts, "group": group}
    names = {part: None if expr is None else _plugin.name_of(expr) for part, expr in parts.items()}

    def called(column: pl.Series) -> pl.Series:
        frame = column.struct.unnest()
        mask, y = frame["mask"], frame["y"]
        if mask.dtype != pl.Boolean:
            at = f"parameter `calibration`: column `{names['mask'] or 'calibration'}`"
            msg = f"conformal: {at}: its type is {mask.dtype}, and it is a share or a Boolean column"
            raise pl.exceptions.ComputeError(msg)
        if mask.null_count() > 0 and not null:
            at = f"parameter `calibration`: column `{names['mask'] or 'calibration'}`"
            msg = f"conformal: {at}: it is null in {mask.null_count()} of {len(mask)} rows, and says which calibrate"
            raise pl.exceptions.ComputeError(msg)
        weighs = None if counts is None else frame["counts"].fill_null(False)
        used = mask if weighs is None else mask & weighs
        at = f"conformal: column `{names['y'] or 'target'}`"
        if method not in _SETS and not (y.dtype.is_numeric() or y.dtype in (pl.Boolean, pl.Null)):
            msg = f"{at}: its type is {y.dtype}; the target of method={method!r} is a number: cast it first, or have "
            msg += 'sets of classes by method="aps" or "lac"'
            raise pl.exceptions.ComputeError(msg)
        missing = (y.is_null() | y.is_nan()) if y.dtype.is_float() else y.is_null()
        wrong = missing & used
        if wrong.any() and not null:
            msg = f"{at}: in rows that calibrate it is null or NaN, which a target can't be; leave those rows out first"
            raise pl.exceptions.ComputeError(msg)
        if method in _SETS:
            # Of two labels the fit is told which is the second, and looks at those of rows that weigh nothing too.
            weighs = None if len(label) == 2 else weighs
            known = y if weighs is None else y.filter(weighs)
            others = [one for one in known.drop_nulls().unique().to_list() if one not in label]
            if others and null:
                strange = pl.Series([one is not None and one not in label for one in y.to_list()], dtype=pl.Boolean)
                wrong |= strange if weighs is None else strange & weighs
            elif others:
                msg = f"{at}: it is {others[0]!r} in some row, which is none of `classes`"
                raise pl.exceptions.ComputeError(msg)
        if group is not None:
            _as_text(frame["group"], "conformal", names["group"] or "by")
        return mask.set(wrong.fill_null(False), None).alias(column.name) if null else mask.alias(column.name)

    both = pl.struct(expr.alias(part) for part, expr in parts.items() if expr is not None)
    return both.map_batches(called, return_dtype=pl.Boolean, is_elementwise=True)


def _of_all_labels(model: pl.Expr, label: list[Any], *, null: bool) -> pl.Expr:
    """The model, or an error where no fitted row is of a label; with `null` null there."""

    def called(column: pl.Series) -> pl.Series:
        models: list[bytes | None] = column.to_list()
        for i, one in enumerate(models):
            missing = [] if one is None else _no_row_of(one, label)
            if missing and not null:
                msg = f"conformal: parameter `classes`: of the rows that are fitted none is of {missing[0]!r}"
                raise pl.exceptions.ComputeError(msg)
            models[i] = None if missing else one
        return pl.Series(column.name, models, dtype=pl.Binary)

    return model.map_batches(called, return_dtype=pl.Binary, is_elementwise=True)


def _no_row_of(model: bytes, label: list[Any]) -> list[Any]:
    """Those labels of which no fitted row is."""
    classes = Model(model).classes
    if classes is None:
        msg = "conformal: parameter `classes`: the target is fitted as numbers, not classes, by this `loss`"
        raise pl.exceptions.ComputeError(msg)
    known = {_text(one) for one in classes}
    return [one for one in label if _text(one) not in known]


def _calibrate(held: pl.Series) -> bool:
    """Whether rows calibrate, and none is at fault."""
    return held.null_count() == 0 and bool(held.any())


def _some_of_both(mask: pl.Expr, counts: pl.Expr | None) -> pl.Expr:
    """1.0, or an error where no row calibrates or none is left to fit."""
    # Not a branch of `when`: there Polars may compute the mask of some rows alone, with null in the others.
    held = mask if counts is None else mask.filter(counts)

    def called(column: pl.Series) -> pl.Series:
        # Of no rows, and of weights of zero, it is null, and the fit says what is wrong.
        for share in column.to_list():
            if share in (0, 1):
                what = "all rows calibrate, and none is left to fit" if share == 1 else "no row calibrates"
                msg = f"conformal: parameter `calibration`: {what}"
                raise pl.exceptions.ComputeError(msg)
        return pl.Series(column.name, [1.0] * len(column), dtype=pl.Float64)

    return held.cast(pl.Float64).mean().map_batches(called, return_dtype=pl.Float64, is_elementwise=True)


def _long(column: pl.Series, rows: int) -> pl.Series:
    """A column of so many rows: of a literal its one value is all rows'."""
    return column if len(column) == rows else column.new_from_index(0, rows)


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
    return max(math.ceil(round((count + 1) * (1 - alpha), 9)), 1)


def _rank_value(scores: pl.Series, alpha: float) -> float:
    """The offset of these scores."""
    rank = _rank(len(scores), alpha)
    return float(scores.sort()[rank - 1]) if rank <= len(scores) else math.inf


_OFFSETS, _RESIDUALS = b"CO", b"CR"
"""The kinds of sealed bytes."""


def _group_offsets(group: pl.Series, score: pl.Series, alpha: float) -> bytes:
    """The offset of each group and the type of the groups as JSON, sealed; infinity is null there."""
    text = _as_text(group, "conformal", group.name)
    found = pl.DataFrame([text.alias("group"), score.alias("score")]).group_by("group").agg("score").sort("group")
    offsets = [(group, _rank_value(pl.Series(scores, dtype=pl.Float64), alpha)) for group, scores in found.iter_rows()]
    pairs = [[group, None if math.isinf(offset) else offset] for group, offset in offsets]
    return _plugin.sealed(_OFFSETS, json.dumps({"type": _type_of(group), "offsets": pairs}).encode())


# The days since 1970 that have a text, and in what parts a Datetime counts them.
_FIRST_DAY, _LAST_DAY = -96_465_292, 95_026_236
_PARTS_OF_A_DAY = {"ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


def _check_calendar(group: pl.Series, function: str, name: str) -> None:
    """Raise for dates that have no text, which Polars would panic of."""
    if group.dtype == pl.Date:
        days = group.to_physical()
    elif isinstance(group.dtype, pl.Datetime):
        days = group.to_physical() // _PARTS_OF_A_DAY[group.dtype.time_unit]
    else:
        return
    beyond = int(((days < _FIRST_DAY) | (days > _LAST_DAY)).sum())
    if beyond > 0:
        msg = f"{function}: parameter `by`: column `{name}`: it is beyond the calendar, years -262143 to 262142, in "
        msg += f"{beyond} of {len(group)} rows"
        raise pl.exceptions.ComputeError(msg)


def _as_text(group: pl.Series, function: str, name: str) -> pl.Series:
    """Groups as text, by which they are told apart."""
    _check_calendar(group, function, name)
    if group.dtype.is_float():
        # -0.0 is 0.0, as Polars groups them.
        group = group.set(group.fill_null(1.0) == 0.0, 0.0)
    try:
        text: pl.Series = group.cast(pl.String)
    except pl.exceptions.PolarsError:
        msg = f"{function}: parameter `by`: column `{name}`: its type is {group.dtype}, which has no text to tell "
        msg += "groups by"
        raise pl.exceptions.ComputeError(msg) from None
    return text


def _type_of(group: pl.Series) -> str:
    """The type of groups as text; all types of text are one."""
    return "String" if group.dtype in (pl.String, pl.Categorical, pl.Enum) else str(group.dtype)


def _same_type(one: str, other: str) -> bool:
    """Whether groups of these types have the same text; integers of all widths have, and where all are null."""
    return one == other or "Null" in (one, other) or all(kind.startswith(("Int", "UInt")) for kind in (one, other))


def _parsed_offsets(value: bytes, method: str) -> tuple[str | None, dict[str | None, float]]:
    """The type of the groups (of what earlier versions made it is not known) and their offsets, all of it checked."""
    try:
        found = json.loads(_plugin.unsealed(_OFFSETS, value))
        kind, pairs = (found["type"], found["offsets"]) if isinstance(found, dict) else (None, found)
        known = {group: math.inf if offset is None else offset for group, offset in pairs}
        good = len(known) == len(pairs) and isinstance(kind, str | None)
        good = good and all(isinstance(group, str | None) for group in known)
    except json.JSONDecodeError:
        msg = "interval: this conformal is damaged: its `offsets` are no JSON"
        raise ValueError(msg) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        msg = f"interval: this conformal is damaged: its `offsets`: {error}"
        raise ValueError(msg) from None
    if not good:
        msg = "interval: this conformal is damaged: its `offsets` are no pairs of a group and a number"
        raise ValueError(msg)
    for offset in known.values():
        _check_offset(offset, "offsets", method)
    return kind, {group: float(offset) for group, offset in known.items()}


def _check_offset(offset: object, name: str, method: str) -> None:
    """Raise for what is no distance: of `"cqr"` it may be negative, nowhere it is NaN or less than any number."""
    good = isinstance(offset, int | float) and not isinstance(offset, bool) and offset > -math.inf
    # No float has all the digits that JSON may.
    good = good and (isinstance(offset, float) or offset < 2**1000)  # type: ignore[operator]
    if not good or (method != "cqr" and offset < 0):  # type: ignore[operator]
        msg = f"interval: this conformal is damaged: its `{name}` has {offset!r}"
        raise ValueError(msg)


@_plugin.compute_errors("interval")
def _offset_of_group(value: bytes, frame: pl.DataFrame, name: str, method: str) -> pl.Series:
    kind, known = _parsed_offsets(value, method)
    group = frame["group"]
    if kind is not None and not _same_type(kind, _type_of(group)):
        msg = f"parameter `by`: column `{name}`: its type is {group.dtype}, and tg.conformal saw {kind}: cast it"
        raise ValueError(msg)
    text = _as_text(group, "interval", name)
    return pl.Series([known.get(group, math.inf) for group in text], dtype=pl.Float64)


def _levels(alpha: float) -> list[float]:
    return [alpha / 2, 1 - alpha / 2]


def _quantile_dtype(alpha: float) -> pl.Struct:
    return pl.Struct({str(level): pl.Float64 for level in _levels(alpha)})


def _quantiles(predicted: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """The lower and the upper one, by their place: their names are numbers as a model writes them."""
    return predicted.struct[0], predicted.struct[1]


def _class_dtype(classes: list[object]) -> Any:
    return None if len(classes) == 2 else pl.Struct({_text(one): pl.Float64 for one in classes})


def _text(label: object) -> str:
    """A label as a model writes it; a Decimal without the zeros that its type may add."""
    return format(label.normalize(), "f") if isinstance(label, Decimal) else _fit.label(label)


def _own_dtype(model: object, classes: list[object]) -> Any:
    return None if isinstance(model, bytes) else _class_dtype(classes)


def _class_scores(predicted: pl.Expr, classes: list[object], method: str) -> list[pl.Expr]:
    """How unlikely each class would be, by row."""
    names = [_text(one) for one in classes]

    # By number: Polars may read a label as a pattern of names.
    numbers = [str(i) for i in range(len(names))]

    # As an expression its size would grow with the square of the classes.
    def scores(column: pl.Series) -> pl.Series:
        if len(names) == 2:
            chances = [1 - column, column]
        else:
            fields = column.struct.unnest()
            chances = [fields[name] for name in names]
        frame = pl.DataFrame([chance.alias(number) for number, chance in zip(numbers, chances, strict=True)])
        made = frame.select((1 - pl.col(n)).alias(n) for n in numbers) if method == "lac" else _adaptive(frame)
        return made.to_struct(column.name)

    dtype = pl.Struct(dict.fromkeys(numbers, pl.Float64))
    made = predicted.map_batches(scores, return_dtype=dtype, is_elementwise=True)
    return [made.struct.field(number) for number in numbers]


def _sets(scores: list[pl.Expr], offset: pl.Expr, label: list[Any]) -> pl.Expr:
    """The labels whose score is not above the offset, in their order; all of them where nothing calibrated.

    In one function: of a `when` whose branches are literals the streaming engine of Polars 2 may give the rows of a
    group in another order.
    """
    dtype = pl.List(pl.Series(label, strict=False).dtype)

    def sets(column: pl.Series) -> pl.Series:
        held = [pl.when(pl.col(str(i)) <= pl.col("offset")).then(pl.lit(one)) for i, one in enumerate(label)]
        known = pl.col("0").is_not_null() & pl.col("offset").is_not_null()
        found = column.struct.unnest().select(pl.when(known).then(pl.concat_list(held).list.drop_nulls()).alias("set"))
        made: pl.Series = found.to_series().cast(dtype)
        return made.alias(column.name)

    both = pl.struct(*(score.alias(str(i)) for i, score in enumerate(scores)), offset.alias("offset"))
    return both.map_batches(sets, return_dtype=dtype, is_elementwise=True)


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


_TYPES: dict[str, Any] = {
    "model": pl.Binary,
    "offset": pl.Float64,
    "offsets": pl.Binary,
    "residuals": pl.Binary,
    "method": pl.String,
    "alpha": pl.Float64,
    "classes": pl.String,
}
"""The fields of a conformal; those of `"cv+"` are `model_0`, `model_1`, … instead of `model`."""


def _type_of_field(name: str) -> Any:
    return _TYPES["model" if name.startswith("model_") else name]


def _made(method: str, alpha: float, classes: list[Any]) -> dict[str, Any]:
    """What a conformal says of how it was made."""
    made: dict[str, Any] = {"method": method, "alpha": float(alpha)}
    if method in _SETS:
        made["classes"] = json.dumps([_text(one) for one in classes])
    return made


def _alpha_of(conformal: object) -> float:
    """What a dictionary was made by; of a column, and of what earlier versions made, the default."""
    found = conformal.get("alpha") if isinstance(conformal, Mapping) else None
    if found is None:
        return _DEFAULT_ALPHA
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < 1:
        msg = f"interval: this conformal is damaged: its `alpha` is {found!r}"
        raise ValueError(msg)
    return found


def _check_made(found: Mapping[str, list[Any]], made: Mapping[str, Any]) -> None:
    """Raise where conformals, whose fields have these values, were made otherwise; null is not known."""
    # First of all the method, of which the others follow.
    for name, ours in made.items():
        for theirs in found.get(name, ()):
            if theirs is not None and theirs != ours:
                # Classes are text already.
                one, other = (ours, theirs) if name == "classes" else (repr(ours), repr(theirs))
                msg = f"interval: parameter `{name}`: it is {one}, and this conformal was made by {name}={other}"
                raise ValueError(msg)


def _check_fields(found: Sequence[str], names: list[str]) -> None:
    """Raise where the models of a conformal are others than so many."""
    ours, theirs = (sum(name.startswith("model_") for name in several) for several in (names, found))
    if ours != theirs and "residuals" in names and "residuals" in found:
        msg = f"interval: parameter `folds`: it is {ours}, and this conformal was made by folds={theirs}"
        raise ValueError(msg)


def _no_fields(found: Sequence[str], names: list[str]) -> str:
    msg = f"interval: this conformal has the fields {', '.join(found)}, not {', '.join(names)}: give `method`, "
    return msg + "`folds` and `by` as to tg.conformal"


def _parts(conformal: Mapping[str, Any] | pl.Expr | str, names: list[str], made: dict[str, Any]) -> dict[str, Any]:
    """The fields of a conformal: models as bytes where they are known, all else as expressions."""
    if isinstance(conformal, str | pl.Expr):
        expr = _plugin.as_expr(conformal, "the conformal")
        dtype = pl.Struct({name: _type_of_field(name) for name in names})
        # The models go through the check too, so that nothing else fails first.
        expr = expr.map_batches(
            lambda column: _checked_parts(column, names, made), return_dtype=dtype, is_elementwise=True
        )
        return {name: expr.struct.field(name) for name in names}
    if not isinstance(conformal, Mapping):
        msg = f"interval: a conformal is a dictionary, a column or an expression, not {type(conformal).__name__}"  # type: ignore[unreachable]
        raise TypeError(msg)
    _check_made({name: [value] for name, value in conformal.items()}, made)
    _check_fields([str(name) for name in conformal], names)
    if not set(names) <= set(conformal) <= {*names, "method", "alpha", "classes"}:
        raise ValueError(_no_fields([str(name) for name in conformal], names))
    for name in names:
        value = conformal[name]
        if name == "offset":
            _check_offset(value, name, made["method"])
        elif not isinstance(value, bytes | bytearray | memoryview):
            msg = f"interval: this conformal is damaged: its `{name}` is no bytes but {type(value).__name__}"
            raise ValueError(msg)
        elif name == "offsets":
            _parsed_offsets(bytes(value), made["method"])
        elif name == "residuals":
            _unpacked(bytes(value), len(names) - 1)
    return {
        name: bytes(conformal[name])
        if name.startswith("model")
        else pl.lit(float(conformal[name]) if name == "offset" else bytes(conformal[name]), dtype=_TYPES[name])
        for name in names
    }


def _check_order(frame: pl.DataFrame, made: dict[str, Any]) -> None:
    """Raise for labels of an Enum that stand in another order than its own: of a column their types are told before."""
    label = json.loads(made.get("classes", "[]"))
    # Of two labels one probability is predicted, of either order.
    if len(label) < 3 or frame["model"].null_count() == frame.height:
        return
    try:
        theirs = list(map(_text, Model(frame["model"][frame["model"].is_not_null().arg_max() or 0]).classes or []))
    except ValueError:
        # What is wrong with a model `predict` says.
        return
    if theirs != label and sorted(theirs) == sorted(label):
        msg = f"parameter `classes`: it is {label}, and the labels of this conformal are in another order, an Enum's: "
        msg += f"give pl.Enum({theirs})"
        raise ValueError(msg)


@_plugin.compute_errors("interval")
def _checked_parts(column: pl.Series, names: list[str], made: dict[str, Any]) -> pl.Series:
    """The fields of a column of conformals that `names` are, once all is known to be as it was made."""
    if column.dtype == pl.Null:
        # Nothing says of what type it is, and null it is of each.
        dtype = pl.Struct({name: _type_of_field(name) for name in names})
        nothing: pl.Series = pl.Series(column.name, [None], dtype=dtype).new_from_index(0, len(column))
        return nothing
    if not isinstance(column.dtype, pl.Struct):
        msg = f"column `{column.name}`: its type is {column.dtype}; a conformal is a struct, as of tg.conformal"
        raise ValueError(msg)
    frame = column.struct.unnest()
    _check_made({name: frame[name].unique().to_list() for name in made if name in frame.columns}, made)
    _check_fields(frame.columns, names)
    if not set(names) <= set(frame.columns):
        raise pl.exceptions.StructFieldNotFoundError(_no_fields(frame.columns, names))
    for name in names:
        if frame[name].dtype != _type_of_field(name):
            msg = f"this conformal is damaged: the type of its `{name}` is {frame[name].dtype}"
            raise ValueError(msg)
    _check_order(frame, made)
    if "offset" in names:
        for offset in frame["offset"].filter(frame["model"].is_not_null()).unique().to_list():
            _check_offset(offset, "offset", made["method"])
    return frame.select(names).to_struct(column.name)


def _cv_plus_fit(
    target: IntoColumn,
    y: pl.Expr,
    features: tuple[IntoColumns, ...],
    folds: int,
    alpha: float,
    weight: pl.Expr | None,
    used: pl.Expr,
    params: dict[str, Any],
    device: str,
) -> pl.Expr:
    """A model for each fold, and how far off each is in the rows that it has not seen."""
    fitted = fit_folds(target, *features, folds=folds, weight=weight, **params)
    columns = pl.struct(_plugin.as_exprs(features, "a feature"))

    # In one step, as above.
    def calibrated(inputs: list[pl.Series]) -> dict[str, object] | None:
        rows = inputs[0].struct.unnest().rename({"fold": _FOLD, "model": _MODEL})
        frame = inputs[1].struct.unnest()
        held = _long(inputs[3], frame.height)
        if rows[_MODEL].null_count() > 0 or (params["on_error"] != "raise" and not _calibrate(held)):
            return None
        predicted = (
            frame.with_columns(rows).select(predict(_MODEL, cs.by_name(*frame.columns), device=device)).to_series()
        )
        fold = rows[_FOLD]
        # The models are large: each is taken from one row of its fold.
        firsts = [(fold == i).arg_max() or 0 for i in range(folds)]
        models = {f"model_{i}": rows[_MODEL][at] for i, at in enumerate(firsts)}
        residuals = _packed(fold, (inputs[2].alias(_TARGET) - predicted).abs(), held, folds)
        return {**models, "residuals": residuals, **made}

    made = _made("cv+", alpha, [])
    names = [*(f"model_{i}" for i in range(folds)), "residuals", *made]
    dtype = pl.Struct({name: _type_of_field(name) for name in names})
    return one_value([fitted, columns, y, used], calibrated, dtype).alias("conformal")


def _packed(fold: pl.Series, residual: pl.Series, used: pl.Series, folds: int) -> bytes:
    """The residuals of each fold in their order, sealed: how many, then all of them, as little-endian floats."""
    frame = pl.DataFrame([fold.alias("fold"), residual.alias("residual")])
    frame = frame.filter(used).sort("fold", "residual")
    counts = [float(frame.filter(pl.col("fold") == i).height) for i in range(folds)]
    numbers = [float(folds), *counts, *frame["residual"].to_list()]
    return _plugin.sealed(_RESIDUALS, struct.pack(f"<{len(numbers)}d", *numbers))


def _unpacked(value: bytes, folds: int) -> list[pl.Series]:
    """The residuals of each fold, all of it checked."""
    try:
        packed = _plugin.unsealed(_RESIDUALS, value)
        if len(packed) % 8 != 0 or len(packed) < 8:
            msg = "they are no floats"
            raise ValueError(msg)
        numbers = struct.unpack(f"<{len(packed) // 8}d", packed)
        counts, rest = numbers[1 : 1 + folds], numbers[1 + folds :]
        if numbers[0] != folds:
            msg = f"they are of {numbers[0]:g} folds, not {folds}"
            raise ValueError(msg)
        if len(counts) < folds or not all(0 <= c <= len(rest) and c.is_integer() for c in counts):
            msg = "a fold's number of rows is none"
            raise ValueError(msg)
        if sum(counts) != len(rest):
            msg = f"they are {len(rest)} and {sum(counts):g} are counted"
            raise ValueError(msg)
        out, at = [], 0
        for count in map(int, counts):
            own = rest[at : at + count]
            residuals = pl.Series(own, dtype=pl.Float64)
            # NaN is sorted behind all numbers.
            if own and not (own[0] >= 0 and residuals.is_sorted() and not math.isnan(own[-1])):
                msg = "they are no distances in their order"
                raise ValueError(msg)
            out.append(residuals)
            at += count
    except ValueError as error:
        msg = f"interval: this conformal is damaged: its `residuals`: {error}"
        raise ValueError(msg) from None
    return out


# Halvings of the range between the folds' predictions: what is left is a 10^12th of it, on the side that covers.
_HALVINGS = 40


@_plugin.compute_errors("interval")
def _cv_plus_bounds(value: bytes, frame: pl.DataFrame, alpha: float) -> pl.Series:
    """The bounds of rows, from each fold's prediction and residuals [Barber et al. 2021, eq. 11].

    The upper bound is the rank-th of all predictions of a residual's fold plus the residual; found by halving, since
    how many of these are below a number is the sum of what each fold's sorted residuals say. The lower one is
    the same of negated predictions.
    """
    residuals = _unpacked(value, sum(name.startswith("model_") for name in frame.columns))
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

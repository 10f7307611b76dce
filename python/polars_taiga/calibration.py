"""Calibration of probabilities: what a predicted one is worth, fitted and applied as expressions."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import polars as pl

from polars_taiga import _fit, _plugin
from polars_taiga._elementwise import by_value, one_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from polars_taiga._plugin import IntoColumn

__all__ = ["calibrate", "fit_calibration"]

CalibrationMethod: TypeAlias = Literal["isotonic", "platt", "beta"]
"""The shape of the curve."""


def fit_calibration(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    method: CalibrationMethod = "isotonic",
    weight: IntoColumn | None = None,
    on_error: Literal["raise", "null"] = "raise",
) -> pl.Expr:
    """Fit the curve from predicted probabilities to those that were seen: one Binary value, for `tg.calibrate`.

    The predictions must be of rows that their model has not seen: `tg.cross_val_predict`, or held-out rows. It sits in
    `select` and `group_by().agg()`. Sums are exact, so the rows may come in any order and the bytes are the same. The
    expression's name is `calibration`. The bytes hold their length and a checksum.

    Parameters
    ----------
    target
        Two classes: Boolean, or the numbers 0 and 1. A number between says how much of the row is of the second one.
    predicted
        The probability of the second one.
    method
        `"isotonic"`
            The ascending steps that are nearest (weighted pool adjacent violators [1]_), straight lines between: for
            many rows. As scikit-learn's `IsotonicRegression`.
        `"platt"`
            A logistic curve of the log odds, two numbers [2]_, with Platt's targets.
        `"beta"`
            A logistic curve of `log(p)` and `-log(1 - p)`, three numbers, which can leave them as they are [3]_.
    weight
        What each row counts for: finite and not negative, of any size. A factor common to all of them changes nothing
        (a last digit, where it is no power of two) but Platt's targets, which are of how much there is of both classes.
        Rows of weight 0 count for nothing, and are checked all the same.
    on_error
        What becomes of the rows of a query that have no curve: `"raise"` (default), or `"null"`, which makes the
        calibration null, and so what `calibrate` makes of it.

    Raises
    ------
    TypeError, ValueError
        For no column, and a method or an `on_error` that there is not.
    polars.exceptions.ComputeError
        For a column of another type than numbers; unless `on_error` says otherwise for no rows, nulls, NaN, targets and
        probabilities outside of 0 to 1, weights that are none, one class alone.

    References
    ----------
    .. [1] B. Zadrozny, C. Elkan, "Transforming classifier scores into accurate multiclass probability estimates", 2002.
    .. [2] J. Platt, "Probabilistic outputs for support vector machines", 1999.
    .. [3] M. Kull, T. Silva Filho, P. Flach, "Beta calibration", 2017.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"p": [0.1, 0.2, 0.6, 0.8], "y": [False, True, False, True]})
    >>> curve = df.select(tg.fit_calibration("y", "p")).item()
    >>> df.select(tg.calibrate(curve, "p")).to_series().to_list()
    [0.0, 0.5, 0.5, 1.0]
    """
    if method not in get_args(CalibrationMethod):
        msg = f"parameter `method`: {method!r} is not one of {', '.join(map(repr, get_args(CalibrationMethod)))}"
        raise ValueError(msg)
    null = _fit.checked_on_error(on_error, ("raise", "null")) == "null"
    y, p = _plugin.as_expr(target, "the target"), _plugin.as_expr(predicted, "`predicted`")
    y = y.map_batches(_truths_of(_plugin.name_of(y), null=null), return_dtype=pl.Float64, is_elementwise=True)
    p = _plugin.numbers(p, "fit_calibration", "a probability")
    w = None
    if weight is not None:
        w = _plugin.numbers(_plugin.as_expr(weight, "`weight`"), "fit_calibration", "a weight")
    # They read the same columns, and say what is wrong with them.
    checked = [_measured(y, p, w, on_error), _of_two_classes(y, w, null=null)]
    read = [y, p, pl.lit(1.0) if w is None else w]

    def fitted(columns: list[pl.Series]) -> bytes | None:
        measured, of_two = columns[3], columns[4]
        if measured.null_count() > 0 or not of_two.all():
            return None
        return _fitted(columns[0], columns[1], columns[2], method)

    return one_value([*read, *checked], fitted, pl.Binary).alias("calibration")


def _truths_of(name: str | None, *, null: bool) -> Callable[[pl.Series], pl.Series]:
    """A function that reads a target: how much of each row is of the second class; with `null` null where it is none
    of two.
    """

    def truths(column: pl.Series) -> pl.Series:
        at = f"fit_calibration: column `{name or column.name}`"
        if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
            msg = f"{at}: its type is {column.dtype}; a target is a Boolean, or the numbers 0 and 1: compare it with "
            msg += "the label whose probability is predicted"
            raise pl.exceptions.ComputeError(msg)
        # By a name that Polars' methods of a Series don't read as a pattern.
        truths: pl.Series = column.alias("y").cast(pl.Float64)
        of_none = truths.is_not_nan() & ((truths < 0) | (truths > 1))
        if null:
            return truths.set(of_none.fill_null(False), None).alias(column.name)
        wrong = truths.filter(of_none)
        if len(wrong) > 0:
            msg = f"{at}: it is {wrong[0]}, which is none of two classes: they are a Boolean, or the numbers 0 and 1"
            raise pl.exceptions.ComputeError(msg)
        return truths.alias(column.name)

    return truths


def _measured(y: pl.Expr, p: pl.Expr, w: pl.Expr | None, on_error: str) -> pl.Expr:
    """The log loss, whose errors (under `on_error="null"` null) are about the rows: in the name of what was called."""
    roles = {"target": y, "predicted": p, "weight": w}
    parts = [_fit.part(role, column) for role, column in roles.items() if column is not None]
    kwargs = {"function": "fit_calibration", "metric": '"logloss"', "positive": None, "on_error": on_error}
    return _plugin.scalar("metric", [pl.struct(parts)], kwargs)


def _of_two_classes(y: pl.Expr, w: pl.Expr | None, *, null: bool) -> pl.Expr:
    """True, or an error where all rows that weigh something are of one class; with `null` False there."""
    name = _plugin.name_of(y)
    counts = pl.lit(True) if w is None else w > 0
    both = pl.struct(((y < 1) & counts).any().alias("first"), ((y > 0) & counts).any().alias("second"))

    def called(column: pl.Series) -> pl.Series:
        good = []
        for found in column.to_list():
            # Of no rows, and of weights of zero, there is something else to say.
            good.append(found is None or found["first"] == found["second"])
            if not good[-1] and not null:
                only = "second" if found["second"] else "first"
                msg = f"fit_calibration: column `{name or 'target'}`: all rows are of one class, the {only}, which "
                msg += "is no curve's"
                raise pl.exceptions.ComputeError(msg)
        return pl.Series(column.name, good, dtype=pl.Boolean)

    return both.map_batches(called, return_dtype=pl.Boolean, is_elementwise=True)


def calibrate(calibration: bytes | pl.Expr | str, predicted: IntoColumn) -> pl.Expr:
    """Apply a curve of `tg.fit_calibration` to probabilities. Elementwise, so it streams.

    Null and NaN stay, and a null curve gives null. The expression keeps the name of `predicted`.

    Parameters
    ----------
    calibration
        What `fit_calibration` gives: bytes, or a column or an expression with one for each row.
    predicted
        Probabilities.

    Raises
    ------
    TypeError, ValueError
        For bytes that are no calibration or are damaged, and what is no column.
    polars.exceptions.ComputeError
        For bytes in a column that are no calibration or are damaged; for a column of another type than numbers, and
        probabilities outside of 0 to 1.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(400)}).with_columns(y=pl.col("x") % 200 > 120)
    >>> curve = df.select(tg.fit_calibration("y", tg.cross_val_predict("y", "x", rounds=20), method="beta")).item()
    >>> model = df.taiga.fit_gbdt("y", "x", rounds=20)
    >>> df.lazy().select(tg.calibrate(curve, tg.predict(model))).collect_schema()
    Schema([('prediction', Float64)])
    """
    p = _probabilities(_plugin.as_expr(predicted, "`predicted`"))
    if isinstance(calibration, bytes | bytearray | memoryview):
        _parsed(bytes(calibration))
        curve = pl.lit(bytes(calibration), dtype=pl.Binary)
    else:
        curve = _curves(_plugin.as_expr(calibration, "the calibration"))
    name = p.meta.output_name(raise_if_undetermined=False)
    # Where the name is not known, it is that of the struct's first field.
    out = by_value(pl.struct(p if name is None else p.alias("p"), curve.alias("value")), _applied, pl.Float64)
    return out if name is None else out.alias(name)


def _curves(curve: pl.Expr) -> pl.Expr:
    """A column of curves, an error where it is of another type than these."""
    name = _plugin.name_of(curve)

    def called(column: pl.Series) -> pl.Series:
        if column.dtype not in (pl.Binary, pl.Null):
            msg = f"calibrate: column `{name or column.name}`: its type is {column.dtype}; a calibration is Binary, as "
            msg += "tg.fit_calibration gives it"
            raise pl.exceptions.ComputeError(msg)
        curves: pl.Series = column.cast(pl.Binary)
        return curves

    return curve.map_batches(called, return_dtype=pl.Binary, is_elementwise=True)


def _probabilities(p: pl.Expr) -> pl.Expr:
    """A column as Float64, an error where a number is none between 0 and 1; null and NaN stay."""
    name = _plugin.name_of(p)

    def called(column: pl.Series) -> pl.Series:
        # By a name that Polars' methods of a Series don't read as a pattern.
        found = column.alias("p")
        wrong = found.filter(found.is_not_nan() & ((found < 0) | (found > 1)))
        if len(wrong) > 0:
            msg = f"calibrate: column `{name or column.name}`: it is {wrong[0]}: a probability is between 0 and 1"
            raise pl.exceptions.ComputeError(msg)
        return column

    numbers = _plugin.numbers(p, "calibrate", "a probability")
    return numbers.map_batches(called, return_dtype=pl.Float64, is_elementwise=True)


def _fitted(y: pl.Series, p: pl.Series, w: pl.Series, method: str) -> bytes:
    """The curve as JSON, sealed; of a literal one value is all rows'."""
    rows = max(len(y), len(p), len(w))
    y, p, w = (s if len(s) == rows else s.new_from_index(0, rows) for s in (y, p, w))
    frame = pl.DataFrame([y.alias("y"), p.alias("p"), w.alias("w")]).filter(pl.col("w") > 0)
    frame, exponent = _of_even_weights(frame)
    # By distinct probability; the order of rows plays no part, since sums are exact.
    points = [
        (p, math.fsum(w), math.fsum(a * b for a, b in zip(w, y, strict=True)))
        for p, w, y in frame.group_by("p").agg("w", "y").sort("p").iter_rows()
    ]
    total, positive = math.fsum(w for _, w, _ in points), math.fsum(s for _, _, s in points)
    found: dict[str, Any] = {"method": method}
    if method == "isotonic":
        found["p"], found["value"] = _isotonic(points)
    else:
        targets = _platts_targets(positive, total - positive, exponent) if method == "platt" else (1.0, 0.0)
        found["coefficients"] = _logistic(points, method, targets)
    return _plugin.sealed(_KIND, json.dumps(found).encode())


_KIND = b"CC"


def _of_even_weights(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The rows with weights by a power of two such that the largest is about 1, and its exponent: so no sum and no
    product of weights leaves what a float holds. A weight too small for that counts as the least that is not.
    """
    largest = frame["w"].max()
    exponent = math.frexp(largest)[1] - 1 if isinstance(largest, float) else 0
    # In two steps: the power itself may be none that a float holds.
    half = -exponent // 2
    even = pl.col("w") * 2.0**half * 2.0 ** (-exponent - half)
    return frame.with_columns(w=pl.max_horizontal(even, pl.lit(sys.float_info.min))), exponent


def _platts_targets(positive: float, negative: float, exponent: int) -> tuple[float, float]:
    """The probabilities that stand for the second class and for the first, by sums that are of `2^exponent` each."""
    if exponent > 0:
        one = math.ldexp(1.0, -exponent)
    else:
        one, positive, negative = 1.0, math.ldexp(positive, exponent), math.ldexp(negative, exponent)
    return (positive + one) / (positive + 2 * one), one / (negative + 2 * one)


def _isotonic(points: list[tuple[float, float, float]]) -> tuple[list[float], list[float]]:
    """The ends of the steps that pool adjacent violators makes, and their heights."""
    blocks: list[list[float]] = []  # first and last p, weight, sum
    for p, weight, total in points:
        blocks.append([p, p, weight, total])
        # Heights are compared, not products, which of small weights are 0.
        while len(blocks) > 1 and blocks[-2][3] / blocks[-2][2] >= blocks[-1][3] / blocks[-1][2]:
            _, last, more, add = blocks.pop()
            blocks[-1] = [blocks[-1][0], last, blocks[-1][2] + more, blocks[-1][3] + add]
    at: list[float] = []
    value: list[float] = []
    for start, end, weight, total in blocks:
        for p in (start, end) if end > start else (start,):
            at.append(p)
            value.append(total / weight)
    return at, value


_LEAST = 1e-12


def _terms(p: float, method: str) -> list[float]:
    """What the coefficients multiply: of Platt the log odds, of beta both logarithms; and 1."""
    p = min(max(p, _LEAST), 1 - _LEAST)
    low, high = math.log(p), -math.log1p(-p)
    return [low + high, 1.0] if method == "platt" else [low, high, 1.0]


def _logistic(points: list[tuple[float, float, float]], method: str, targets: tuple[float, float]) -> list[float]:
    """The likeliest coefficients, by Newton's method; those of beta are not negative.

    `targets` is what stands for the second class and for the first.
    """
    yes, no = targets
    points = [(p, w, s * yes + (w - s) * no) for p, w, s in points]
    terms = [_terms(p, method) for p, _, _ in points]
    free = list(range(len(terms[0])))
    coefficients = _newton(terms, points, free)
    if method == "beta" and min(coefficients[:2]) < 0:
        free.remove(0 if coefficients[0] < coefficients[1] else 1)
        coefficients = _newton(terms, points, free)
        if any(c < 0 for c in coefficients[:2]):
            coefficients = _newton(terms, points, [2])
    return coefficients


def _newton(terms: list[list[float]], points: list[tuple[float, float, float]], free: list[int]) -> list[float]:
    """Least log loss over the coefficients that are free, the others 0; steps are halved until they help."""
    found = [0.0] * len(terms[0])
    rows = [[t[i] for i in free] for t in terms]
    total = math.fsum(w for _, w, _ in points)

    def scores(c: list[float]) -> list[float]:
        return [math.fsum(a * b for a, b in zip(c, row, strict=True)) for row in rows]

    def loss(z: list[float]) -> float:
        return math.fsum(
            w * (max(v, 0.0) + math.log1p(math.exp(-abs(v)))) - s * v for v, (_, w, s) in zip(z, points, strict=True)
        )

    now = [0.0] * len(free)
    z = scores(now)
    least = loss(z)
    for _ in range(50):
        q = [_logit_inverse(v) for v in z]
        gradient = [
            math.fsum((s - w * c) * row[i] for c, row, (_, w, s) in zip(q, rows, points, strict=True))
            for i in range(len(free))
        ]
        # A trace of ridge, for terms that are one another's multiples.
        hessian = [
            [
                math.fsum(w * c * (1 - c) * row[i] * row[j] for c, row, (_, w, _) in zip(q, rows, points, strict=True))
                + (1e-9 * total if i == j else 0.0)
                for j in range(len(free))
            ]
            for i in range(len(free))
        ]
        step, size = _solved(hessian, gradient), 1.0
        while size > 1e-6:
            new = [a + size * b for a, b in zip(now, step, strict=True)]
            z_new = scores(new)
            if (at := loss(z_new)) < least:
                break
            size /= 2
        else:
            break
        gained, now, z, least = least - at, new, z_new, at
        if gained <= 1e-13 * total:
            break
    for place, value in zip(free, now, strict=True):
        found[place] = value
    return found


def _logit_inverse(z: float) -> float:
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve a small positive definite system by elimination."""
    n = len(right)
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    for i in range(n):
        for j in range(i + 1, n):
            factor = rows[j][i] / rows[i][i]
            rows[j] = [b - factor * a for a, b in zip(rows[i], rows[j], strict=True)]
    out = [0.0] * n
    for i in reversed(range(n)):
        out[i] = (rows[i][n] - math.fsum(rows[i][j] * out[j] for j in range(i + 1, n))) / rows[i][i]
    return out


def _parsed(value: bytes) -> dict[str, Any]:
    """A curve, every part of it checked."""
    try:
        payload = _plugin.unsealed(_KIND, value)
    except ValueError as error:
        msg = f"calibrate: these bytes are no calibration: {error}"
        raise ValueError(msg) from None
    try:
        found = json.loads(payload)
        if found["method"] == "isotonic":
            at, values = found["p"], found["value"]
            good = len(at) == len(values) > 0 and at == sorted(at) and values == sorted(values)
            numbers = [*at, *values]
        else:
            numbers = found["coefficients"]
            good = len(numbers) == {"platt": 2, "beta": 3}[found["method"]]
        good = good and all(type(x) in (int, float) and math.isfinite(x) for x in numbers)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        good = False
    if not good:
        msg = "calibrate: these bytes are no calibration"
        raise ValueError(msg)
    return dict(found)


@_plugin.compute_errors("calibrate")
def _applied(value: bytes, frame: pl.DataFrame) -> pl.Series:
    """The curve at the first field of a struct that is not the curve."""
    curve = _parsed(value)
    name = next(column for column in frame.columns if column not in ("value", "__row"))
    p = frame[name].alias("p").to_frame()
    column = pl.col("p")
    if curve["method"] == "isotonic":
        at, values = (pl.Series(curve[part], dtype=pl.Float64) for part in ("p", "value"))
        # Between two points a straight line; beyond them the nearest one's value.
        right = at.search_sorted(p["p"].fill_null(0.0).fill_nan(0.0), side="left").clip(0, len(at) - 1)
        left = (right.cast(pl.Int64) - 1).clip(0, None)
        found = p.with_columns(x0=at.gather(left), x1=at.gather(right), y0=values.gather(left), y1=values.gather(right))
        share = (column - pl.col("x0")) / (pl.col("x1") - pl.col("x0"))
        line = pl.col("y0") + share * (pl.col("y1") - pl.col("y0"))
        beyond = (column >= pl.col("x1")) | (pl.col("x1") == pl.col("x0"))
        out = pl.when(beyond).then("y1").when(column <= pl.col("x0")).then("y0").otherwise(line)
    else:
        c = curve["coefficients"]
        inside = column.clip(_LEAST, 1 - _LEAST)
        low, high = inside.log(), -(-inside).log1p()
        z = c[0] * (low + high) + c[1] if curve["method"] == "platt" else c[0] * low + c[1] * high + c[2]
        out = 1 / (1 + (-z).exp())
    return _where_known(p if curve["method"] != "isotonic" else found, out)


def _where_known(frame: pl.DataFrame, out: pl.Expr) -> pl.Series:
    """The curve, but null of null and NaN of NaN."""
    p = pl.col("p")
    known = pl.when(p.is_null()).then(None).when(p.is_nan()).then(p).otherwise(out)
    return frame.select(known.alias("out")).to_series()

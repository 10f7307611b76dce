"""Encodings of categories: statistics of a target, counts, combinations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

import polars as pl
import polars.selectors as cs

from polars_taiga import _plugin, _taiga
from polars_taiga._fit import Problems, checked_on_error, each, marked, part, plain
from polars_taiga._fit import computed as computed_error
from polars_taiga._fit import label as label_text
from polars_taiga.device import checked, checked_several, cpu_alone
from polars_taiga.encoder import Encoder

if TYPE_CHECKING:
    from polars.datatypes import DataType, DataTypeClass

    from polars_taiga._plugin import IntoColumn, IntoColumns

__all__ = [
    "EncodingKind",
    "combine",
    "count_encode",
    "encode",
    "fit_target_encoder",
    "information_value",
    "target_encode",
    "woe",
]

EncodingKind = Literal["ordered", "kfold", "loo", "full"]
IntoCategories: TypeAlias = "str | pl.Expr | Iterable[str | pl.Expr]"
"""A column's name, an expression, a selector, or a list of names."""


class EncoderParams(TypedDict, total=False):
    """The keyword arguments of `fit_target_encoder` but for `on_error`; what each means: see `target_encode`."""

    prior: float | None
    prior_weight: float | Literal["auto"]
    weight: IntoColumn | None
    classes: Sequence[Any] | None
    device: str


class TargetEncodeParams(EncoderParams, total=False):
    """The keyword arguments of `target_encode`; what each means: see there."""

    kind: EncodingKind
    permutations: int
    order_by: IntoColumn | None
    folds: int | IntoColumn
    seed: int
    on_error: Literal["raise", "null"]


def _classes(classes: Iterable[object] | None) -> list[str] | None:
    """The labels of classes, written out."""
    if classes is None:
        return None
    if isinstance(classes, str):
        msg = f"parameter `classes`: {classes!r} is not a list of labels"
        raise TypeError(msg)
    labels = [label_text(plain("classes", label)) for label in classes]
    for i, label in enumerate(labels):
        if label in labels[:i]:
            msg = f"parameter `classes`: {label!r} stands twice"
            raise ValueError(msg)
    if not labels:
        msg = "parameter `classes`: there are none"
        raise ValueError(msg)
    return labels


def _target_params(function: str, **params: object) -> str:
    """The parameters as JSON, checked by the engine."""
    problems, values = Problems(function), {}
    for name, value in params.items():
        if value is not None:
            with problems.collect():
                values[name] = plain(name, value)
    text = json.dumps(values)
    problems.found.extend(_taiga.target_problems(text))
    problems.raise_found()
    return text


def target_encode(
    cat: IntoCategories,
    target: IntoColumn,
    *,
    kind: EncodingKind = "ordered",
    prior: float | None = None,
    prior_weight: float | Literal["auto"] = 1.0,
    permutations: int = 1,
    order_by: IntoColumn | None = None,
    folds: int | IntoColumn = 5,
    seed: int = 0,
    weight: IntoColumn | None = None,
    classes: Sequence[Any] | None = None,
    on_error: Literal["raise", "null"] = "raise",
    device: str = "auto",
) -> pl.Expr:
    """Each category as the mean of a target, for the rows that a model is trained on.

    `(sum of target * weight + prior * prior_weight) / (sum of weight + prior_weight)` over the rows
    of the category that count; which do is the `kind`. The result has the category's name. With
    several categories (a selector, a list of names) it is a column for each, and all share one
    permutation or one set of folds. The same rows in the same order give the same bytes, whatever
    the number of threads and the chunks. For other rows than the training rows: `fit_target_encoder`.

    Parameters
    ----------
    cat
        String, Categorical, Enum, integer or Boolean. Null is a category of its own.
    target
        Numbers or Boolean: one Float64 a row. A target of several classes (see `classes`): a struct
        with a field for each class, the mean of "is it this class". Neither null nor NaN nor infinite.
    kind
        `"ordered"`
            The rows before this one in a random order, or in `order_by` (CatBoost's). No row sees
            its own target, directly or through others, but for the `prior` where that is the mean.
        `"kfold"`
            The rows of the other folds (as scikit-learn's `TargetEncoder.fit_transform`). The prior
            is the mean over those, too.
        `"loo"`
            All rows but this one; but for the `prior`, as above.
        `"full"`
            All rows: what new rows would get. On the training rows it leaks the target.
    prior
        What the values are drawn towards; default the target's mean. That is of all rows: a row of a rare
        category, and under `order_by` an early one, has its own and later targets in it, by its share of
        the rows. Give a number, such as last year's mean, where that may not be.
    prior_weight
        How many rows (how much weight) the prior counts for, not negative. `"auto"`: by empirical
        Bayes for each category, from the target's variance within it and over all rows
        (scikit-learn's `smooth="auto"`).
    permutations
        For `"ordered"`: how many random orders to average over.
    order_by
        For `"ordered"`: a column to order by (a time, say) instead of at random; equal values in
        the order of the rows. No nulls.
    folds
        For `"kfold"`: how many random folds, at least 2; or an integer column with each row's fold.
    seed
        The seed of orders and folds.
    weight
        A weight for each row: finite, not negative, not all zero. It says how many rows a row stands
        for, so `prior_weight` is in its unit and `"auto"` knows it too. The target of a row of weight
        0 counts nowhere.
    classes
        The labels of a String or Categorical target, which a query must know before it sees the
        rows. An Enum knows its own (not in early versions of Polars 1). With them, integers and
        Booleans are classes, too.
    on_error
        What becomes of rows that can't be encoded (all weigh 0, all are of one fold, or a target, a weight, an order
        or a fold can't be used): `"raise"` (default) ends the query with an error that names the fault, the number of
        rows and the first target among them; `"null"` makes their values null, of a group in `over` say.
    device
        As in `min_max`; several GPUs are an error of an ordered encoding, which runs through all rows.

    Raises
    ------
    ValueError
        For a parameter that can't have its value.
    polars.exceptions.ComputeError
        When the query is planned: for columns of types that can't be used; when it runs: for values
        that can't. Both name the column; or where the process can't have the memory for it, before it is taken.
    KeyboardInterrupt
        After Ctrl-C, as in `fit_gbdt`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"city": ["a", "b", "a", "a"], "day": [1, 2, 3, 4], "y": [0, 1, 1, 1]})
    >>> df.select(tg.target_encode("city", "y", order_by="day", prior=0.5))["city"].to_list()
    [0.5, 0.5, 0.25, 0.5]
    """
    if kind not in get_args(EncodingKind):
        msg = f"parameter `kind`: {kind!r} is not one of {', '.join(map(repr, get_args(EncodingKind)))}"
        raise ValueError(msg)
    fold_column = None if isinstance(folds, int) else _fold_column(folds)
    for name, given, own in [
        ("order_by", order_by is not None, "ordered"),
        ("permutations", permutations != 1, "ordered"),
        ("folds", fold_column is not None or folds != 5, "kfold"),
    ]:
        if given and kind != own:
            msg = f'parameter `{name}`: it counts only under kind="{own}", not {kind!r}'
            raise ValueError(msg)
    if order_by is not None and permutations != 1:
        msg = "parameter `permutations`: there is only one order with `order_by`"
        raise ValueError(msg)
    params = _target_params(
        "target_encode",
        kind=kind,
        prior=prior,
        prior_weight=prior_weight,
        permutations=permutations,
        folds=folds if fold_column is None else None,
        seed=seed,
    )
    args = [each("target_encode", "a category", cat), _plugin.as_expr(target, "the target")]
    if weight is not None:
        args.append(_plugin.as_expr(weight, "weight"))
    if order_by is not None:
        args.append(pl.struct(_plugin.as_expr(order_by, "order_by")).alias("order_by"))
    if fold_column is not None:
        args.append(fold_column)
    kwargs = {
        "params": params,
        "classes": _classes(classes),
        "weight": weight is not None,
        "order_by": order_by is not None,
        "folds": fold_column is not None,
        "on_error": checked_on_error(on_error, ("raise", "null")),
        "device": checked(device) if kind == "ordered" else checked_several(device),
    }
    return _plugin.per_column("target_encode", args, kwargs)


def _fold_column(folds: object) -> pl.Expr | None:
    """A column of folds; None for a number of them, of NumPy, say."""
    return None if hasattr(folds, "item") and not isinstance(folds, pl.Expr) else _plugin.as_expr(folds, "folds")


def fit_target_encoder(
    cat: IntoColumns,
    target: IntoColumn,
    *,
    prior: float | None = None,
    prior_weight: float | Literal["auto"] = 1.0,
    weight: IntoColumn | None = None,
    classes: Sequence[Any] | None = None,
    on_error: Literal["raise", "null"] = "raise",
    device: str = "auto",
) -> pl.Expr:
    """Fit an encoder for rows to come: one `Binary` value, which `encode` applies.

    The value of each category is that of `target_encode(kind="full")`. An encoder keeps labels, so
    what was fitted on strings serves Categorical and Enum columns and the other way round. It sits
    in `select`, `group_by().agg()` (an encoder for each group) and `over`; its name is `encoder`.

    Parameters
    ----------
    cat
        The columns to encode: names, expressions, selectors, lists of these.
    target, prior, prior_weight, weight, classes, device
        As in `target_encode`.
    on_error
        What becomes of the fit where its rows are at fault (there are none, or all weigh 0, or a target or a
        weight can't be fitted): `"raise"` (default) ends the query with an error that names the fault, the
        number of rows and the first target among them; `"null"` gives a null encoder, under which values are
        null. One row, one class and one category are no fault.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> train = pl.DataFrame({"city": ["a", "a", "b"], "y": [1.0, 2.0, 9.0]})
    >>> encoder = train.select(tg.fit_target_encoder("city", "y", prior_weight=0)).item()
    >>> pl.DataFrame({"city": ["b", "a", "c"]}).select(tg.encode(encoder))["city"].to_list()
    [9.0, 1.5, 4.0]
    """
    columns = [field for column in _plugin.as_exprs([cat], "a category") for field in _plugin.fields_of(column)]
    if not columns:
        msg = "fit_target_encoder: there are no columns to encode"
        raise ValueError(msg)
    kwargs = {
        "params": _target_params("fit_target_encoder", kind="full", prior=prior, prior_weight=prior_weight),
        "classes": _classes(classes),
        "on_error": checked_on_error(on_error, ("raise", "null")),
        "device": checked_several(device),
    }
    parts = [*marked(columns), part("target", target)]
    if weight is not None:
        parts.append(part("weight", weight))
    return _plugin.scalar("fit_target_encoder", [pl.struct(parts)], kwargs).alias("encoder")


def encode(
    encoder: bytes | Encoder | pl.Expr | str,
    *cats: IntoCategories,
    dtype: DataType | DataTypeClass | None = None,
    device: str = "auto",
) -> pl.Expr:
    """Apply a fitted target encoder to every row. Elementwise, so it streams.

    What the encoder has not seen gets the prior, null too unless it was among the categories. The
    result has the column's name; several columns give a column each.

    Parameters
    ----------
    encoder
        `bytes`, an `Encoder`, or a Binary expression or column name with one encoder for each row (after a join
        with encoders fitted by `group_by`, say). Where it is null the values are null.
    cats
        The columns, found in the encoder by their names: names, an expression, or a selector.
        Without them: all columns of the encoder. An encoder that is an expression needs them, and
        so does one with columns that were expressions at its fit: give them again, one by one.
    dtype
        For an encoder that is an expression, of a target with several classes: the struct that it
        gives, `pl.Struct({"a": pl.Float64, "b": pl.Float64})`.
    device
        `"cuda"` looks up integers of up to 64 bits and Strings on the GPU (other types' few categories on the
        CPU), which pays for many rows at a time: in a query that streams they come a few at a time. `"auto"` is
        the CPU. The values are the same.

    Raises
    ------
    ValueError
        For bytes that are no encoder, and without the columns where some were computed at the fit.
    polars.exceptions.ColumnNotFoundError
        When the query is planned: for a column of the encoder that the frame lacks.
    polars.exceptions.ComputeError
        Likewise, for columns that the encoder does not know, or of another type; for an encoder that
        is an expression when the query runs.
    KeyboardInterrupt
        After Ctrl-C, as in `fit_gbdt`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"g": [1, 1, 2, 2], "x": ["u", "v", "u", "v"], "y": [1.0, 2.0, 3.0, 4.0]})
    >>> encoders = df.group_by("g").agg(tg.fit_target_encoder("x", "y", prior_weight=0))
    >>> df.join(encoders, on="g", maintain_order="left").select(tg.encode("encoder", "x"))["x"].to_list()
    [1.0, 2.0, 3.0, 4.0]
    """
    classes: list[str] | None = None
    wanted: str | None = None
    if isinstance(encoder, bytes | bytearray | memoryview):
        encoder = Encoder.from_bytes(bytes(encoder))
    if isinstance(encoder, Encoder):
        classes, wanted = encoder.classes, encoder._inner.wanted()
        computed = encoder.computed_features
        if dtype is not None:
            msg = "encode: leave dtype out; the encoder says what it gives"
            raise ValueError(msg)
        if computed and not cats:
            raise ValueError(computed_error("encode", "one by one, as in tg.encode(encoder", computed, computed[:1]))
        expr = encoder._literal()
        column = each("encode", "a category", *cats) if cats else cs.by_name(*encoder.features)
    else:
        if not cats:
            msg = "encode: with an encoder that is an expression name the columns: tg.encode('encoder', 'a')"
            raise ValueError(msg)
        expr = _plugin.as_expr(encoder, "the encoder")
        column = each("encode", "a category", *cats)
        if isinstance(dtype, pl.Struct) and all(field.dtype == pl.Float64 for field in dtype.fields):
            classes = [field.name for field in dtype.fields]
        elif dtype is not None and dtype != pl.Float64:
            msg = f"encode: dtype={dtype} is neither Float64 nor a struct of Float64 with a field for each class"
            raise ValueError(msg)
    kwargs = {"classes": classes, "wanted": wanted, "device": checked_several(device)}
    return _plugin.elementwise_per_column("encode", [column, expr], kwargs)


def _evidence_args(
    function: str, cat: IntoCategories, target: IntoColumn, smoothing: float, weight: IntoColumn | None, on_error: str
) -> tuple[list[pl.Expr], dict[str, Any]]:
    smoothing = plain("smoothing", smoothing)  # type: ignore[assignment]
    if isinstance(smoothing, bool) or not isinstance(smoothing, int | float):
        msg = f"parameter `smoothing`: {smoothing!r} is not a number"
        raise TypeError(msg)
    if smoothing < 0:
        msg = f"parameter `smoothing`: {smoothing} is not zero or a positive number"
        raise ValueError(msg)
    args = [each(function, "a category", cat), _plugin.as_expr(target, "the target")]
    if weight is not None:
        args.append(_plugin.as_expr(weight, "weight"))
    on_error = checked_on_error(on_error, ("raise", "null"))
    return args, {"smoothing": float(smoothing), "weight": weight is not None, "on_error": on_error}


def woe(
    cat: IntoCategories,
    target: IntoColumn,
    *,
    smoothing: float = 0.5,
    weight: IntoColumn | None = None,
    on_error: Literal["raise", "null"] = "raise",
    device: str = "auto",
) -> pl.Expr:
    """Weight of evidence of each row's category for a Boolean target.

    `ln(p / q)`, where `p = (events + s) / (E + 2 s)` is the category's share of the rows whose
    target is true, `q = (non-events + s) / (N + 2 s)` of the others, `E` and `N` count those of all
    rows, and `s` is the smoothing. It is a statistic of all rows: on the training rows it leaks the
    target as `target_encode(kind="full")` does.

    Parameters
    ----------
    cat
        String, Categorical, Enum, integer or Boolean; null is a category of its own. Several
        columns by a selector or a list of names.
    target
        Boolean, or numbers 0 and 1; both must occur.
    smoothing
        What is added to each count, not negative. With 0 a category with only one kind of rows is
        plus or minus infinity.
    weight
        A weight for each row: not negative, not all zero.
    on_error
        What becomes of rows without evidence (the target is the same in all, all weigh 0, or a target or a weight can't
        be used): `"raise"` (default) ends the query with an error that names the fault, the number of rows and the
        first target among them; `"null"` makes their values null, of a group in `over` say.
    device
        `"auto"` or `"cpu"`: it is computed on the CPU, and `"cuda"` is an error.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": ["a", "a", "b", "b"], "y": [True, False, False, False]})
    >>> df.select(tg.woe("x", "y").round(3))["x"].to_list()
    [0.693, 0.693, -0.916, -0.916]
    """
    cpu_alone("woe", device)
    args, kwargs = _evidence_args("woe", cat, target, smoothing, weight, on_error)
    return _plugin.per_column("woe", args, kwargs)


def information_value(
    cat: IntoCategories,
    target: IntoColumn,
    *,
    smoothing: float = 0.5,
    weight: IntoColumn | None = None,
    on_error: Literal["raise", "null"] = "raise",
    device: str = "auto",
) -> pl.Expr:
    """How much a column's categories say about a Boolean target: `sum((p - q) * ln(p / q))`.

    One Float64 for each column, null for no rows; `p`, `q` and the parameters are those of `woe`. By
    custom below 0.02 is useless, 0.1 to 0.3 medium, above 0.5 suspicious.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": ["a", "a", "b", "b"], "y": [True, False, False, False]})
    >>> round(df.select(tg.information_value("x", "y")).item(), 3)
    0.604
    """
    cpu_alone("information_value", device)
    args, kwargs = _evidence_args("information_value", cat, target, smoothing, weight, on_error)
    return _plugin.scalar("information_value", args, kwargs)


def count_encode(cat: IntoCategories, *, normalize: bool = False, device: str = "auto") -> pl.Expr:
    """How many rows have this row's category: UInt32, or with `normalize` their share, Float64.

    Parameters
    ----------
    cat
        String, Categorical, Enum, integer or Boolean; null is a category of its own. Several
        columns by a selector or a list of names.
    normalize
        Divide by the number of rows.
    device
        `"auto"` or `"cpu"`: it is computed on the CPU, and `"cuda"` is an error.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> pl.DataFrame({"x": ["a", None, "a"]}).select(tg.count_encode("x"))["x"].to_list()
    [2, 1, 2]
    """
    cpu_alone("count_encode", device)
    if not isinstance(normalize, bool):
        msg = f"parameter `normalize`: {normalize!r} is not True or False"  # type: ignore[unreachable]
        raise TypeError(msg)
    return _plugin.per_column("count_encode", [each("count_encode", "a category", cat)], {"normalize": normalize})


def combine(*cats: IntoColumns, device: str = "auto") -> pl.Expr:
    """Several categories as one: a UInt32, the same for rows with the same values in all of them.

    Dense, numbered from 0 by first appearance; null is a value like any other. The expression's
    name is `combination` unless you give it another.

    Parameters
    ----------
    cats
        Names, expressions, selectors, or lists of these: String, Categorical, Enum, integer or
        Boolean columns.
    device
        As in `min_max`, but for several GPUs. Categories are numbered on the CPU.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"a": ["u", "u", "v", "u"], "b": [1, 2, 1, 1]})
    >>> df.select(tg.combine("a", "b"))["combination"].to_list()
    [0, 1, 2, 0]
    """
    columns = _plugin.as_exprs(cats, "a category")
    if not columns:
        msg = "combine: there are no columns"
        raise ValueError(msg)
    return _plugin.whole("combine", columns, {"device": checked(device)}).alias("combination")

"""Predicting with fitted models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, get_args

import polars as pl
import polars.selectors as cs

from polars_taiga import _fit, _plugin
from polars_taiga.device import checked
from polars_taiga.model import Model

if TYPE_CHECKING:
    from polars.datatypes import DataType, DataTypeClass

    from polars_taiga._plugin import IntoColumns

__all__ = ["Output", "predict"]

Output = Literal["auto", "raw", "class", "leaf", "staged"]

# By name: early versions of Polars do not have all of them.
_LABELS = [
    "Boolean",
    *("Int8", "Int16", "Int32", "Int64", "Int128"),
    *("UInt8", "UInt16", "UInt32", "UInt64", "UInt128"),
    *("Float16", "Float32", "Float64"),
    "String",
]


def _label_type(dtype: Any) -> str | None:
    """A type of labels as the plugin reads it; none for any other type."""
    if isinstance(dtype, pl.Enum):
        return json.dumps({"Enum": dtype.categories.to_list()})
    if isinstance(dtype, pl.Decimal):
        return json.dumps(
            {"Decimal": {"precision": 38 if dtype.precision is None else dtype.precision, "scale": dtype.scale}}
        )
    if dtype == pl.Categorical:
        categories: Any = getattr(dtype, "categories", None)
        named = ("", "", 32)
        # Of a class, and of Polars 1, they are the categories that all columns share.
        if callable(getattr(categories, "namespace", None)):
            bits = {pl.UInt8: 8, pl.UInt16: 16}.get(categories.physical(), 32)
            named = (categories.name(), categories.namespace(), bits)
        return json.dumps({"Categorical": dict(zip(("name", "namespace", "bits"), named, strict=True))})
    known = [name for name in _LABELS if hasattr(pl, name) and dtype == getattr(pl, name)]
    return json.dumps(known[0]) if known else None


_LACKS = {
    ("forest", "raw"): 'a forest, which has no raw scores; its output="auto" is a mean over trees',
    ("forest", "staged"): "a forest, not of boosted trees, and has no stages",
    ("sparse_lr", "leaf"): "linear, which has no leaves",
    ("sparse_lr", "staged"): "linear, not of boosted trees, and has no stages",
}


def _spec_of_model(model: Model, output: Output) -> dict[str, Any]:
    """What the plugin must know of the model before it sees it."""
    names = model._inner.class_names() if model._inner.outputs() > 1 else None
    if output == "class" and model.classes is None:
        msg = f'predict: output="class": the model of `{model.target}` is a regression and has no classes'
        raise ValueError(msg)
    learner = model._inner.learner()
    lacks = _LACKS.get((learner, output))
    if lacks is not None:
        msg = f"predict: output={output!r}: the model of `{model.target}` is {lacks}"
        raise ValueError(msg)
    wanted, _, _ = model._inner.wanted()
    return {"output": output, "classes": names, "label": model._inner.label_type(), "wanted": wanted}


def _spec_of_dtype(output: Output, dtype: DataType | DataTypeClass | None) -> dict[str, Any]:
    """The same from the type that the user names, for a model that is an expression."""
    spec: dict[str, Any] = {"output": output, "classes": None, "label": None, "wanted": None}
    if output == "class":
        spec["label"] = _label_type(dtype)
        if spec["label"] is None:
            given = "" if dtype is None else f"; {dtype} is none"
            msg = (
                'predict: output="class" of a model that is an expression needs dtype=, the type of the labels: '
                "pl.String, pl.Boolean, an integer or a float type, pl.Decimal(…), pl.Categorical, or pl.Enum([…]) "
                f"with its categories{given}"
            )
            raise ValueError(msg)
        return spec
    item: Any = {"leaf": pl.List(pl.UInt32), "staged": pl.List(pl.Float64)}.get(output, pl.Float64)
    if dtype is None or dtype == item:
        return spec
    if output != "leaf" and isinstance(dtype, pl.Struct) and all(f.dtype == item for f in dtype.fields):
        spec["classes"] = [f.name for f in dtype.fields]
        return spec
    msg = f"predict: dtype={dtype} is not what output={output!r} gives: {item}"
    msg += "" if output == "leaf" else f", or a struct of {item} with a field for each class"
    raise ValueError(msg)


def _own_columns(model: Model) -> list[pl.Expr]:
    """The columns that a model names; of missing ones Polars tells when the query is planned."""
    # By selector: in `pl.col` a name like "^x$" would be a pattern.
    _, names, optional = model._inner.wanted()
    own: list[pl.Expr] = [cs.by_name(*names)] if names else []
    return own if optional is None else [*own, cs.by_name(optional, require_all=False)]


def predict(
    model: bytes | Model | pl.Expr | str,
    *features: IntoColumns,
    output: Output = "auto",
    dtype: DataType | DataTypeClass | None = None,
    device: str = "auto",
) -> pl.Expr:
    """Apply a fitted model to every row. Elementwise, so it streams.

    The expression's name is `prediction` unless you give it another.

    Parameters
    ----------
    model
        `bytes`, a `Model`, or a Binary expression or column name with one model for each row
        (after a join with models fitted by `group_by`, say; each is parsed once). Where it is
        null the prediction is null.
    features
        The columns that the model was fitted on, found by name, in any order; others are
        ignored. Names, expressions, selectors, or a struct. Without them: the columns that the
        model names. A model that is an expression needs them, and so does one with features that
        were expressions at its fit (`Model.computed_features`): they are given again.
    output
        `"auto"`
            The value of a regression (Float64), the probability of the second of two classes
            (Float64), or a struct of the probabilities of more classes, named by their labels.
        `"raw"`
            The score before the link: margins, log odds, logarithms of a mean.
        `"class"`
            The likeliest class, in the type of the target column that the model was fitted on. (Polars 1 has an
            Enum come from a plugin as a Categorical.)
        `"leaf"`
            The leaf of every tree, `List(UInt32)`.
        `"staged"`
            `"auto"` after each round, `List(Float64)`; a struct of such lists, one a class, where
            there are more than two.
    dtype
        For a model that is an expression: the type of the result, where that is not the
        `Float64` (or list) that a regression and two classes give: `pl.Struct({"a": pl.Float64,
        "b": pl.Float64, "c": pl.Float64})` for three classes, the target's type for `output="class"` (or what labels
        are kept as: `pl.String` for every text, `pl.Int64` for integers, `pl.Float64`).
    device
        As in `min_max`. A GPU gains on many rows at a time: on a collected frame rather than in a
        streaming query, which calls with about 100,000.

    Raises
    ------
    ValueError
        For bytes that are no model, for an `output` that the model can't give, and without the features
        where some were computed by expressions at the fit.
    polars.exceptions.ColumnNotFoundError
        When the query is planned: for a column that the model names and the frame lacks.
    polars.exceptions.ComputeError
        Likewise, for features that are missing among those given here, and for columns of another
        type than the fitted one; for a model that is an expression when the query runs; and where the process can't
        have the memory for the predictions, before it is taken. (The method `.taiga.predict` of a DataFrame raises
        ColumnNotFoundError, SchemaError and MemoryError.)
    KeyboardInterrupt
        After Ctrl-C, as in `fit_gbdt`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"g": ["a", "b"] * 50, "x": range(100)}).with_columns(y=2.0 * pl.col("x"))
    >>> models = df.group_by("g").agg(tg.fit_gbdt("y", "x", trees=5))
    >>> df.join(models, on="g").select(tg.predict("model", "x")).schema
    Schema([('prediction', Float64)])
    """
    if output not in get_args(Output):
        msg = f"predict: output={output!r} is not one of {', '.join(map(repr, get_args(Output)))}"
        raise ValueError(msg)
    if isinstance(model, str | pl.Expr):
        if not features:
            msg = "predict: with a model that is an expression name the features: tg.predict(pl.col('model'), 'a', 'b')"
            raise ValueError(msg)
        spec = _spec_of_dtype(output, dtype)
        model_expr = _plugin.as_expr(model, "the model")
        columns = _plugin.as_exprs(features, "a feature")
    else:
        if isinstance(model, bytes | bytearray | memoryview):
            model = Model.from_bytes(bytes(model))
        elif not isinstance(model, Model):
            msg = f"predict: a model is bytes, a tg.Model or an expression, not {type(model).__name__}"  # type: ignore[unreachable]
            raise TypeError(msg)
        spec = _spec_of_model(model, output)
        if dtype is not None:
            msg = "predict: leave dtype out; the model says what it gives"
            raise ValueError(msg)
        if not features and (computed := model.computed_features):
            raise ValueError(_fit.computed("predict", "tg.predict(model", computed, list(model.features)))
        model_expr = _plugin.labelled(f"model of `{model.target}`", model.to_bytes())
        columns = _plugin.as_exprs(features, "a feature") if features else _own_columns(model)
    spec["device"] = checked(device)
    return _plugin.elementwise("predict", [model_expr, *columns], spec).alias("prediction")

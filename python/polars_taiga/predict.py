"""Predicting with fitted models."""

from __future__ import annotations

import hashlib
import io
import json
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast, get_args

import polars as pl
import polars.selectors as cs

from polars_taiga import _fit, _plugin
from polars_taiga.device import checked_several
from polars_taiga.model import Model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars.datatypes import DataType, DataTypeClass
    from typing_extensions import Unpack

    from polars_taiga._plugin import IntoColumns

__all__ = ["Output", "PredictParams", "predict"]

Output = Literal["auto", "raw", "class", "leaf", "staged", "shap", "shap_interactions"]

# What explains, and the field of output="shap" beside the columns'.
_EXPLAINS = ("shap", "shap_interactions")
_BASE = "base_value"


class PredictParams(TypedDict, total=False):
    """The keyword arguments of `predict`; what each means: see there."""

    output: Output | Sequence[Output]
    dtype: DataType | DataTypeClass | None
    rounds: int | None
    device: str
    background: pl.DataFrame | pl.LazyFrame | None


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


def _checked_outputs(function: str, output: object) -> list[Output]:
    """The outputs that are asked for: one, or several, each once."""
    several = list(output) if isinstance(output, list | tuple) else [output]
    for i, one in enumerate(several):
        if one not in get_args(Output):
            names = ", ".join(map(repr, get_args(Output)))
            msg = f"{function}: output={one!r} is not one of {names}, or a list of these"
            raise ValueError(msg)
        if one in several[:i]:
            msg = f"{function}: output={one!r} stands twice in the list"
            raise ValueError(msg)
    if not several:
        msg = f"{function}: output=[] asks for nothing"
        raise ValueError(msg)
    return cast("list[Output]", several)


def checked_rounds(function: str, rounds: object) -> int | None:
    """A number of rounds from 1 on, or none."""
    if rounds is None:
        return None
    if isinstance(rounds, bool) or not hasattr(rounds, "__index__"):
        msg = f"{function}: rounds={rounds!r} is not an integer"
        raise TypeError(msg)
    number = int(rounds.__index__())
    if not 1 <= number < 2**63:
        msg = f"{function}: rounds={number} is not at least 1"
        raise ValueError(msg)
    return number


def check_has_rounds(function: str, model: Model) -> None:
    """Raise for a model that keeps no rounds to choose from."""
    if model.learner == "sparse_lr":
        msg = (
            f"{function}: the model of `{model.target}` is linear and keeps the result of its last pass alone: "
            "there are no rounds to choose from"
        )
        raise ValueError(msg)


def _spec_of_model(model: Model, output: Output, dtype: DataType | DataTypeClass | None) -> dict[str, Any]:
    """What the plugin must know of an output of a model before it sees it."""
    names = model._inner.fields(output not in ("auto", "staged"))
    if output == "class" and model.classes is None:
        what = "is a regression and has no classes"
        if model.loss == "multilabel":
            what = 'has no classes but labels, any of which a row may have: output="auto" gives the probability of each'
        msg = f'predict: output="class": the model of `{model.target}` {what}'
        raise ValueError(msg)
    learner = model._inner.learner()
    lacks = _LACKS.get((learner, output))
    if lacks is not None:
        msg = f"predict: output={output!r}: the model of `{model.target}` is {lacks}"
        raise ValueError(msg)
    columns = model._inner.explained_columns() if output in _EXPLAINS else None
    if output == "shap" and _BASE in (columns or []):
        msg = f"predict: output='shap' gives the base value the name {_BASE!r}, which a feature has: fit it by another"
        raise ValueError(msg)
    label, narrow = model._inner.label_type(), dtype == pl.Float32
    return {"output": output, "classes": names, "columns": columns, "label": label, "narrow": narrow}


def _check_number_type(dtype: DataType | DataTypeClass | None, outputs: list[Output]) -> None:
    """Raise for a type that the numbers of a known model can't have."""
    if dtype is not None and dtype not in (pl.Float32, pl.Float64):
        msg = (
            f"predict: dtype={dtype}: the model says what it gives; dtype= is pl.Float32 or pl.Float64 for its numbers"
        )
        raise ValueError(msg)
    if dtype is not None and not set(outputs) & {"auto", "raw", "staged"}:
        msg = f'predict: dtype={dtype}: output={outputs[0]!r} has no floats; "auto", "raw" and "staged" have'
        raise ValueError(msg)


def _float_of(dtype: Any, output: Output) -> Any:
    """Of a number, or of a list of them for `"staged"`, whether it is pl.Float32 or pl.Float64; none of other types."""
    inner = dtype.inner if output == "staged" and isinstance(dtype, pl.List) else None if output == "staged" else dtype
    return next((t for t in (pl.Float32, pl.Float64) if inner == t), None)


def _explained(dtype: DataType | DataTypeClass | None, output: Output) -> tuple[list[str] | None, list[str]] | None:
    """The classes and the columns of a type that `output` may give, if it is one."""
    item = pl.Float64 if output == "shap" else None
    if not isinstance(dtype, pl.Struct) or not dtype.fields:
        return None
    names = [field.name for field in dtype.fields]
    line = pl.Struct(dict.fromkeys(names, pl.Float64))
    if item is not None and all(field.dtype == item for field in dtype.fields):
        return (None, names[:-1]) if names[-1] == _BASE else None
    if item is None and all(field.dtype == line for field in dtype.fields):
        return None, names
    of_classes = {_explained(field.dtype, output) and str(field.dtype) for field in dtype.fields}
    inner = _explained(dtype.fields[0].dtype, output)
    if inner is None or inner[0] is not None or len(of_classes) != 1:
        return None
    return names, inner[1]


def _spec_of_dtype(output: Output, dtype: DataType | DataTypeClass | None) -> dict[str, Any]:
    """The same from the type that the user names, for a model that is an expression."""
    spec: dict[str, Any] = {"output": output, "classes": None, "columns": None, "label": None, "narrow": False}
    if output in _EXPLAINS:
        found = _explained(dtype, output)
        if found is None:
            of = "pl.Float64" if output == "shap" else "a struct of pl.Float64 with the same fields"
            base = f", and {_BASE!r} behind them" if output == "shap" else ""
            given = "" if dtype is None else f"; {dtype} is none"
            msg = (
                f"predict: output={output!r} of a model that is an expression needs dtype=, a struct of {of} for each "
                f"column of the model in its order{base} (of more than two classes, a struct of these){given}"
            )
            raise ValueError(msg)
        spec["classes"], spec["columns"] = found
        return spec
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
    if output != "leaf" and (own := _float_of(dtype, output)) is not None:
        spec["narrow"] = own == pl.Float32
        return spec
    if output != "leaf" and isinstance(dtype, pl.Struct) and dtype.fields:
        floats = [_float_of(f.dtype, output) for f in dtype.fields]
        if floats[0] is not None and all(f == floats[0] for f in floats):
            spec |= {"classes": [f.name for f in dtype.fields], "narrow": floats[0] == pl.Float32}
            return spec
    msg = f"predict: dtype={dtype} is not what output={output!r} gives: {item}"
    msg += "" if output == "leaf" else f", or a struct of {item} with a field for each class (or of Float32)"
    raise ValueError(msg)


def _specs_of_dtype(
    outputs: list[Output], dtype: DataType | DataTypeClass | None, *, together: bool
) -> list[dict[str, Any]]:
    """The same of several outputs, whose types are the fields of a struct."""
    types: dict[str, Any]
    if not together:
        return [_spec_of_dtype(outputs[0], dtype)]
    if dtype in (pl.Float32, pl.Float64):
        types = {"auto": dtype, "raw": dtype, "staged": pl.List(dtype)}
        return [_spec_of_dtype(output, types.get(output)) for output in outputs]
    if dtype is not None and not isinstance(dtype, pl.Struct):
        msg = f"predict: dtype={dtype}: of several outputs it is a struct with a field for each: {', '.join(outputs)}"
        raise ValueError(msg)
    types = {} if dtype is None else {f.name: f.dtype for f in dtype.fields}
    for name in types:
        if name not in outputs:
            msg = f"predict: dtype={dtype}: its field {name!r} is none of the outputs: {', '.join(outputs)}"
            raise ValueError(msg)
    return [_spec_of_dtype(output, types.get(output)) for output in outputs]


def _own_columns(model: Model) -> list[pl.Expr]:
    """The columns that a model names; of missing ones Polars tells when the query is planned."""
    # By selector: in `pl.col` a name like "^x$" would be a pattern.
    _, names, optional = model._inner.wanted()
    structs = model.structs
    fields = {name for names in structs.values() for name in names}
    names = [*(name for name in names if name not in fields), *structs]
    own: list[pl.Expr] = [cs.by_name(*names)] if names else []
    return own if optional is None else [*own, cs.by_name(optional, require_all=False)]


def target_by_name(model: Model) -> pl.Expr:
    """The model's target by its name; of several that were a struct of columns, these columns."""
    several = model.targets or []
    return pl.struct(cs.by_name(*several)) if model.target in several else cs.by_name(model.target)


def columns_by_name(model: Model) -> list[pl.Expr]:
    """The model's columns by their names; those too that expressions made at the fit, and fields of structs."""
    return [cs.by_name(*model.features)] if model.computed_features or model.structs else _own_columns(model)


def predict_by_name(model: Model, **params: Unpack[PredictParams]) -> pl.Expr:
    """`predict` from the model's columns as they lie in the frame."""
    return predict(model, *columns_by_name(model), **params)


def predict_known(model: Model, features: list[str], device: str) -> pl.Expr:
    """The mean over the training rows of the raw score (of a forest the prediction) where only these columns are known.

    The others are read too, and what stands in them does not matter.
    """
    spec = {
        "output": "known",
        "classes": model._inner.fields(True),
        "columns": features,
        "label": None,
        "narrow": False,
    }
    kwargs = {
        "outputs": [spec],
        "together": False,
        "rounds": None,
        "device": checked_several(device),
        "wanted": model._inner.wanted()[0],
        "background": None,
    }
    return _plugin.elementwise("predict", [model._literal(), *columns_by_name(model)], kwargs).alias("prediction")


def _rows_to_compare(background: pl.DataFrame | pl.LazyFrame, columns: list[pl.Expr]) -> tuple[pl.Expr, str]:
    """The rows of a background as a literal of one list, and what tells it from others."""
    if not isinstance(background, pl.DataFrame | pl.LazyFrame):
        msg = f"predict: background is a DataFrame or a LazyFrame, not {type(background).__name__}"  # type: ignore[unreachable]
        raise TypeError(msg)
    frame = background.lazy().select(columns).collect()
    if frame.height == 0:
        msg = "predict: background has no rows"
        raise ValueError(msg)
    file = io.BytesIO()
    frame.write_ipc(file)
    digest = hashlib.sha256(file.getbuffer()).hexdigest()
    return pl.lit(pl.Series("background", [frame.to_struct("background")])), digest


def known(model: object) -> Model | None:
    """A model that is a value; none of one that is an expression."""
    if isinstance(model, str | pl.Expr):
        return None
    if isinstance(model, bytes | bytearray | memoryview):
        return Model.from_bytes(bytes(model))
    if isinstance(model, Model):
        return model
    msg = f"predict: a model is bytes, a tg.Model or an expression, not {type(model).__name__}"
    raise TypeError(msg)


def inputs_of(
    function: str,
    model: bytes | Model | pl.Expr | str,
    own: Model | None,
    features: tuple[IntoColumns, ...],
    between: str = "",
) -> tuple[pl.Expr, list[pl.Expr]]:
    """The model of a call and its columns as expressions; `between`: what a call has between them, for errors."""
    columns, call = _plugin.as_exprs(features, "a feature"), f"tg.{function}("
    if own is None:
        if not features:
            example = f"{call}pl.col('model'){between}, 'a', 'b')"
            msg = f"{function}: with a model that is an expression name the features: {example}"
            raise ValueError(msg)
        return _plugin.as_expr(model, "the model"), columns
    if not features and (computed := own.computed_features):
        raise ValueError(_fit.computed(function, f"{call}model{between}", computed, list(own.features)))
    return own._literal(), columns if features else _own_columns(own)


def predict(
    model: bytes | Model | pl.Expr | str,
    *features: IntoColumns,
    output: Output | Sequence[Output] = "auto",
    dtype: DataType | DataTypeClass | None = None,
    rounds: int | None = None,
    device: str = "auto",
    background: pl.DataFrame | pl.LazyFrame | None = None,
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
        were expressions at its fit (`Model.computed_features`): they are given again. Fields of a column of structs
        (`Model.structs`) are read from it.
    output
        `"auto"`
            The value of a regression (Float64), the probability of the second of two classes (Float64), or a struct of
            the probabilities of more classes, named by their labels (under `loss="multiclass"` and `"ova"` of two
            classes too, here and below); of several quantiles a struct with a field for each, named by its number,
            which ascend; of `loss="gaussian"` `mean` and `variance`; of several targets or labels a struct with a field
            for each.
        `"raw"`
            The score before the link: margins, log odds, logarithms of a mean; several quantiles as they are, not
            ascending everywhere; a `mean` and `log_sigma`, the logarithm of the standard deviation.
        `"class"`
            The likeliest class, in the type of the target column that the model was fitted on. (Polars 1 has an
            Enum come from a plugin as a Categorical.)
        `"leaf"`
            The leaf of every tree, `List(UInt32)`.
        `"staged"`
            `"auto"` after each round, `List(Float64)`; a struct of such lists, one a class, where
            there are more than two, or one a quantile.
        `"shap"`
            How much each column moved the row's `"raw"` score away from the mean: a struct of a Float64 for each
            column that the model was fitted on, under its name, and `base_value`; of more than two classes, a struct
            of such structs. They are exact Shapley values [1]_ and sum to the raw score. What a split asks about a
            column's categories or statistics of theirs is the column's; a statistic of a combination of columns is
            dealt to them in equal parts, which is Shapley's rule for what they do together only. A forest's values
            sum to its prediction, a probability or a mean. For a linear model they are `coefficient * (value -
            mean)`; of a column of lists, the sum over its features.
        `"shap_interactions"`
            What each column gives by itself and with each other one: a struct, by column, of structs, by column, of
            Float64. Half of what two columns share stands in both places; a column's row sums to its Shapley value.

        A list of these gives a struct with a field for each, under its name, in one walk of the rows through the
        model: `output=["auto", "class", "leaf"]`.
    dtype
        `pl.Float32` makes the numbers of `"auto"`, `"raw"` and `"staged"` narrow: the nearest ones to those that are
        computed, in Float64.

        For a model that is an expression: the type of the result, where that is not the
        `Float64` (or list) that a regression and two classes give: `pl.Struct({"a": pl.Float64,
        "b": pl.Float64, "c": pl.Float64})` for three classes, the target's type for `output="class"` (or what labels
        are kept as: `pl.String` for every text, `pl.Int64` for integers, `pl.Float64`). Of several outputs: a struct of
        such types, `pl.Struct({"class": pl.String})`; those left out are as by default.
    rounds
        Only so many rounds of boosting, from the first one on (of a forest: trees), count: the predictions of
        `Model.head(rounds)`. A model of fewer gives what it has. A sparse logistic regression has none to choose from.
    device
        As in `min_max`. A GPU gains on many rows at a time: on a collected frame rather than in a
        streaming query, which calls with about 100,000. Several GPUs (`"cuda:0,1"`, `"cuda:all"`) have a share of the
        rows each, or of a streaming query's calls.
    background
        For `"shap"` and `"shap_interactions"`: rows to compare with (interventional Shapley values [2]_), of the
        columns that the model names. What is not known of a row is then taken from each of them in turn, so time
        grows with the distinct ways that they take through the trees; some hundreds do. Without it, what is not known
        follows the training rows: of trees the numbers in which they took each branch, of a linear model their mean.

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

    References
    ----------
    .. [1] S. M. Lundberg, G. G. Erion, S.-I. Lee, "Consistent individualized feature attribution for tree ensembles",
       2018.
    .. [2] S. M. Lundberg et al., "From local explanations to global understanding with explainable AI for trees", 2020.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"g": ["a", "b"] * 50, "x": range(100)}).with_columns(y=2.0 * pl.col("x"))
    >>> models = df.group_by("g").agg(tg.fit_gbdt("y", "x", rounds=5))
    >>> df.join(models, on="g").select(tg.predict("model", "x")).schema
    Schema([('prediction', Float64)])

    How much each column moved a prediction:

    >>> df = df.with_columns(z=pl.col("x") % 7, y=3.0 * pl.col("x") + pl.col("x") % 7)
    >>> model = df.taiga.fit_gbdt("y", "x", "z", rounds=50, learning_rate=0.3)
    >>> parts = df.select(tg.predict(model, output="shap")).unnest("prediction")
    >>> parts.columns
    ['x', 'z', 'base_value']
    >>> raw = df.select(tg.predict(model, output="raw")).to_series()
    >>> bool((parts.sum_horizontal() - raw).abs().max() < 1e-10)
    True

    Several outputs at once, of the first two rounds:

    >>> model = df.taiga.fit_gbdt(pl.col("y") > 90, "x", rounds=5)
    >>> df.select(tg.predict(model, output=["class", "leaf"], rounds=2)).tail(1).item()
    {'class': True, 'leaf': [1, 1]}
    """
    outputs, own = _checked_outputs("predict", output), known(model)
    together = not isinstance(output, str)
    if own is None:
        model_expr, columns = inputs_of("predict", model, own, features)
        specs, wanted = _specs_of_dtype(outputs, dtype, together=together), None
    else:
        specs = [_spec_of_model(own, one, dtype) for one in outputs]
        _check_number_type(dtype, outputs)
        model_expr, columns = inputs_of("predict", model, own, features)
        wanted = own._inner.wanted()[0]
        if rounds is not None:
            check_has_rounds("predict", own)
    kwargs = {
        "outputs": specs,
        "together": together,
        "rounds": checked_rounds("predict", rounds),
        "device": checked_several(device),
        "wanted": wanted,
        "background": None,
    }
    inputs = [model_expr]
    if background is not None:
        if not set(outputs) & set(_EXPLAINS):
            msg = f"predict: background= is for output='shap' and 'shap_interactions', not {outputs[0]!r}"
            raise ValueError(msg)
        literal, kwargs["background"] = _rows_to_compare(background, columns)
        inputs.append(literal)
    return _plugin.elementwise("predict", [*inputs, *columns], kwargs).alias("prediction")

"""The table functions of `tg.sql`: what each makes of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_taiga._names import by_name
from polars_taiga.encoding import EncoderParams, TargetEncodeParams, target_encode
from polars_taiga.predict import columns_by_name, predict_by_name, target_by_name
from polars_taiga.score import score
from polars_taiga.statistics import histogram

if TYPE_CHECKING:
    from polars_taiga._sql_text import Text
    from polars_taiga.model import Model


@dataclass(frozen=True)
class Argument:
    """An argument: a model, a frame, a value, or a STRUCT of options (a dictionary); and its tokens."""

    value: Any
    first: int
    last: int


@dataclass
class Arguments:
    """The arguments of a call, which a function takes one after the other."""

    text: Text
    usage: str
    given: list[Argument]
    first: int
    last: int
    taken: int = 0

    def model(self) -> Model:
        """The next one, a model."""
        from polars_taiga.model import Model

        found: Model = self._next(Model, "MODEL name").value
        return found

    def table(self) -> pl.LazyFrame:
        """The next one, a table."""
        found: pl.LazyFrame = self._next(pl.LazyFrame, "TABLE name or (query)").value
        return found

    def names(self) -> list[str]:
        """The next one, a column's name or a list of some."""
        found = self._next(str | list, "a column's name").value
        return [found] if isinstance(found, str) else list(found)

    def name(self) -> str:
        """The next one, a column's name."""
        found: str = self._next(str, "a column's name").value
        return found

    def integer(self, default: int) -> int:
        """The next one, an integer, if there is one."""
        if self.taken == len(self.given) or isinstance(self.given[self.taken].value, dict):
            return default
        found: int = self._next(int, "an integer").value
        return found

    def options(self, *known: str) -> dict[str, Any]:
        """The last one, a STRUCT of some of these options, if there is one."""
        options: dict[str, Any] = {}
        if self.taken < len(self.given):
            struct = self._next(dict, "STRUCT(value AS option, …)").value
            for name, argument in struct.items():
                if name not in known:
                    near = get_close_matches(name, known, 1)
                    hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
                    raise self.text.error(f"no option {name}{hint}", argument.first, argument.last)
                options[name] = argument.value
        if self.taken < len(self.given):
            extra = self.given[self.taken]
            raise self.text.error(f"one argument too many: {self.usage}", extra.first, extra.last)
        return options

    def _next(self, kind: Any, what: str) -> Argument:
        if self.taken == len(self.given):
            raise self.text.error(f"{what} is missing: {self.usage}", self.last)
        argument = self.given[self.taken]
        if not isinstance(argument.value, kind) or isinstance(argument.value, bool):
            raise self.text.error(f"expected {what}: {self.usage}", argument.first, argument.last)
        self.taken += 1
        return argument


# Options that may name columns.
_COLUMNS = ("weight", "weights", "group", "event", "lower", "upper", "order_by", "folds")


def _with_columns(options: dict[str, Any], table: pl.LazyFrame) -> dict[str, Any]:
    """Options with columns in the place of the names of a table's."""
    if not options.keys() & set(_COLUMNS):
        return options
    known = set(table.collect_schema().names())
    names = {name for name, value in options.items() if name in _COLUMNS and isinstance(value, str) and value in known}
    return {name: by_name(value) if name in names else value for name, value in options.items()}


# The Shapley values of a row, on their way.
_SHAP = "_taiga_shap"


def _check_free(table: pl.LazyFrame, names: Iterable[str]) -> None:
    """Raise for a column that a table has already."""
    own = set(table.collect_schema().names())
    for name in names:
        if name in own:
            msg = f"the table has a column `{name}` already, which would be lost: SELECT the others, or rename it"
            raise ValueError(msg)


def _with(table: pl.LazyFrame, columns: dict[str, pl.Expr]) -> pl.LazyFrame:
    """A table with columns besides its own."""
    _check_free(table, columns)
    return table.with_columns(**columns)


def _predictions(model: Model, options: dict[str, Any]) -> dict[str, pl.Expr]:
    """The columns of a model's predictions."""
    columns = {"prediction": predict_by_name(model, **options)}
    if model.classes is not None:
        columns[f"predicted_{model.target}"] = predict_by_name(model, output="class", **options)
    return columns


def _predict(call: Arguments) -> pl.LazyFrame:
    model, table, options = call.model(), call.table(), call.options("rounds", "device")
    return _with(table, _predictions(model, options))


def _fields(struct: pl.Expr, names: list[str]) -> dict[str, pl.Expr]:
    """The fields of a struct, by numbers: in `struct.field` a name like "^x$" would be a pattern."""
    numbered = struct.struct.rename_fields([str(i) for i in range(len(names))])
    return {name: numbered.struct.field(str(i)) for i, name in enumerate(names)}


def _attributions(parts: dict[str, pl.Expr], top: int) -> pl.Expr:
    """Shapley values as a list of features and what each gives, those that give most first."""
    each = [pl.struct(feature=pl.lit(name), attribution=value) for name, value in parts.items()]
    size = pl.element().struct.field("attribution").abs()
    return pl.concat_list(each).list.eval(pl.element().sort_by(size, descending=True, maintain_order=True).head(top))


def _explain_predict(call: Arguments) -> pl.LazyFrame:
    model, table = call.model(), call.table()
    options = call.options("top_k_features", "rounds", "device")
    top = options.pop("top_k_features", 5)
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        msg = f"top_k_features is {top!r}, not an integer of at least 1"
        raise ValueError(msg)
    # What follows reads the values several times; they are computed once, as a column that is left out again.
    shap, explained = predict_by_name(model, output="shap", **options).alias(_SHAP), pl.col(_SHAP)
    shape: Any = table.select(shap).collect_schema()[_SHAP]
    if isinstance(shape.fields[0].dtype, pl.Struct):
        if model.classes is None:
            msg = f"the model of `{model.target}` predicts several numbers, and this explains one"
            raise ValueError(msg)
        # Of several classes the likeliest is explained.
        predicted = predict_by_name(model, output="class", **options).cast(pl.String)
        of_classes = _fields(explained, [one.name for one in shape.fields])
        explained = pl.coalesce(pl.when(predicted == name).then(of) for name, of in of_classes.items())
        shape = shape.fields[0].dtype
    parts = _fields(explained, [one.name for one in shape.fields])
    base = parts.pop("base_value")
    columns = {
        **_predictions(model, options),
        "top_feature_attributions": _attributions(parts, top),
        "baseline_prediction_value": base,
        "prediction_value": pl.sum_horizontal(base, *parts.values()),
    }
    _check_free(table, [*columns, _SHAP])
    return table.with_columns(shap).with_columns(**columns).drop(_SHAP)


def _metrics(model: Model) -> list[str | None]:
    """What a model is measured by unless it is told; None for its own metric."""
    if model.classes is not None:
        return ["logloss" if len(model.classes) == 2 else "multiclass", "auc", "accuracy", "f1"]
    plain = ("rmse", "mae", "huber", "mape", "log_cosh", "squared_error", "poisson", "gamma", "tweedie")
    if model.targets is None and model.loss in plain:
        return ["rmse", "mae", "r2"]
    return [None]


def _evaluate(call: Arguments) -> pl.LazyFrame:
    model, table = call.model(), call.table()
    options = call.options("metric", "weight", "group", "event", "lower", "upper", "rounds", "device")
    asked = options.pop("metric", None)
    metrics = _metrics(model) if asked is None else asked if isinstance(asked, list) else [asked]
    columns, options = columns_by_name(model), _with_columns(options, table)
    return table.select(
        score(model, target_by_name(model), *columns, metric=metric, **options).alias(metric or model.loss)
        for metric in metrics
    )


def _weights(call: Arguments) -> pl.LazyFrame:
    model = call.model()
    call.options()
    found = model.coefficients()
    names = (model.classes or [])[-len(model.intercepts) :]
    intercepts = pl.DataFrame(
        {
            "name": ["__INTERCEPT__"] * len(names),
            "class": [str(n).lower() if isinstance(n, bool) else str(n) for n in names],
            "coefficient": model.intercepts,
        }
    )
    return pl.concat([found, intercepts], how="diagonal").lazy()


def _feature_importance(call: Arguments) -> pl.LazyFrame:
    model = call.model()
    call.options()
    if model.learner == "sparse_lr":
        msg = "a linear model has no trees, whose splits these are: ML.WEIGHTS has its coefficients"
        raise ValueError(msg)
    kinds = {"weight": "split", "gain": "gain", "cover": "cover"}
    of_kind = {f"importance_{name}": model.importance(kind)["importance"] for name, kind in kinds.items()}  # type: ignore[arg-type]
    return pl.DataFrame({"feature": list(model.features), **of_kind}).lazy()


def _histogram(call: Arguments) -> pl.LazyFrame:
    table, column, bins = call.table(), call.name(), call.integer(10)
    options = call.options("range", "weights", "density", "device")
    if isinstance(ends := options.get("range"), list):
        options["range"] = tuple(ends)
    options = _with_columns(options, table)
    return table.select(histogram(by_name(column), bins, **options).alias("bins").explode()).unnest("bins")


def _target_encode(call: Arguments) -> pl.LazyFrame:
    table, columns, target = call.table(), call.names(), call.name()
    options = call.options(*TargetEncodeParams.__annotations__, *EncoderParams.__annotations__)
    options = _with_columns(options, table)
    return _with(table, {f"{c}_encoded": target_encode(by_name(c), by_name(target), **options) for c in columns})


FUNCTIONS: dict[str, tuple[str, Callable[[Arguments], pl.LazyFrame]]] = {
    "ML.PREDICT": ("ML.PREDICT(MODEL m, TABLE t or (query)[, STRUCT(10 AS rounds)])", _predict),
    "ML.EXPLAIN_PREDICT": (
        "ML.EXPLAIN_PREDICT(MODEL m, TABLE t or (query)[, STRUCT(5 AS top_k_features)])",
        _explain_predict,
    ),
    "ML.EVALUATE": ("ML.EVALUATE(MODEL m, TABLE t or (query)[, STRUCT(['auc', 'f1'] AS metric)])", _evaluate),
    "ML.WEIGHTS": ("ML.WEIGHTS(MODEL m)", _weights),
    "ML.FEATURE_IMPORTANCE": ("ML.FEATURE_IMPORTANCE(MODEL m)", _feature_importance),
    "HISTOGRAM": ("HISTOGRAM(TABLE t or (query), 'column'[, bins][, STRUCT(TRUE AS density)])", _histogram),
    "TARGET_ENCODE": (
        "TARGET_ENCODE(TABLE t or (query), 'category', 'target'[, STRUCT('kfold' AS kind)])",
        _target_encode,
    ),
}
"""Each function's usage, and what makes its table."""

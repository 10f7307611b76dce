"""A model as a function of Arrow arrays, which engines beside Polars call batch after batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_taiga import _plugin
from polars_taiga._optional import needed
from polars_taiga.model import Model
from polars_taiga.predict import predict_by_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from polars_taiga.predict import Output

# Of each type of the model's columns: Polars' type for it. Text stands for categories of which no split reads any.
_NUMBER = pl.Float64()
_TYPES: dict[str, pl.DataType] = {
    "numeric": _NUMBER,
    "categorical": pl.String(),
    "text": pl.String(),
    "text, integers or Booleans": pl.String(),
    "integers": pl.Int64(),
    "Booleans": pl.Boolean(),
    "date": pl.Date(),
    "time": pl.Time(),
    **{f"datetime[{unit}]": pl.Datetime(unit) for unit in ("ms", "us", "ns")},
    "list of integers": pl.List(pl.Int64()),
    "list of numbers": pl.List(pl.Float64()),
    "list of strings": pl.List(pl.String()),
}


@dataclass(frozen=True)
class ArrowFunction:
    """Columns in the order of `names` to predictions; types are those that Polars has for them."""

    names: list[str]
    types: list[pl.DataType]
    result: pl.DataType
    call: Callable[..., Any]


def arrow_function(function: str, model: Model | bytes, output: Output, options: dict[str, Any]) -> ArrowFunction:
    """Make a function of a model for `function`, whose name errors begin with.

    Raises
    ------
    ValueError
        For a column or a prediction of a type that other engines have none for.
    """
    pyarrow = needed(function, "pyarrow", function.split(".")[0])
    found = model if isinstance(model, Model) else Model(model)
    names, types = list(found.features), []
    for name, kind in found.features.items():
        known = found._inner.categories(name) if kind == "categorical" else None
        dtype = _TYPES.get(kind if known is None else known[0])
        if dtype is None:
            msg = f"{function}: column `{name}` is {kind}, which is no type of other engines"
            raise ValueError(msg)
        types.append(dtype)
    structs = found.structs
    expr = predict_by_name(found, output=output, **options)
    empty = pl.DataFrame(schema=dict(zip(names, types, strict=True)))

    def predicted(frame: pl.DataFrame) -> pl.Series:
        for struct, fields in structs.items():
            frame = frame.with_columns(pl.struct(fields).alias(struct))
        with _plugin.errors():
            series = frame.select(expr).to_series()
        return series.cast(pl.String) if isinstance(series.dtype, pl.Enum | pl.Categorical) else series

    result = predicted(empty).dtype
    arrow = arrow_type(pyarrow, result, function)

    def call(*columns: Any) -> Any:
        frame = pl.from_arrow(pyarrow.Table.from_arrays(list(columns), names))
        assert isinstance(frame, pl.DataFrame)
        if frame.dtypes != types:
            frame = frame.cast(dict(zip(names, types, strict=True)))
        return predicted(frame).to_arrow().cast(arrow)

    return ArrowFunction(names, types, result, call)


def arrow_type(pyarrow: Any, dtype: pl.DataType, function: str) -> Any:
    """Arrow's type for a type of Polars, of those that all engines know."""
    if isinstance(dtype, pl.List):
        return pyarrow.list_(arrow_type(pyarrow, dtype.inner, function))  # type: ignore[arg-type]
    if isinstance(dtype, pl.Struct):
        fields = [(f.name, arrow_type(pyarrow, f.dtype, function)) for f in dtype.fields]  # type: ignore[arg-type]
        return pyarrow.struct(fields)
    if dtype == pl.String:
        return pyarrow.string()
    known = (pl.Boolean, pl.Float32, pl.Float64, pl.Date, pl.Datetime, pl.Time)
    if dtype in known or dtype.is_integer():
        return pl.Series([], dtype=dtype).to_arrow().type
    msg = f"{function}: the predictions are {dtype}, which is no type of other engines"
    raise ValueError(msg)

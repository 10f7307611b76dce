"""What the functions that fit models share: their parameters, and the struct that the plugin reads."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl

from polars_taiga import _plugin

if TYPE_CHECKING:
    from polars_taiga._plugin import IntoColumn, IntoColumns


def label(label: object) -> str:
    """A class label as the model writes it."""
    if isinstance(label, bool):
        return "true" if label else "false"
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def plain(name: str, value: object) -> object:
    """A value as JSON has it; numbers of NumPy become Python's."""
    if isinstance(value, Mapping):
        key = label if name == "class_weight" else str
        return {key(plain(name, k)): plain(name, v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(name, v) for v in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            msg = f"parameter `{name}`: {value} is not a finite number"
            raise ValueError(msg)
        return value
    if isinstance(value, Decimal):
        return plain(name, float(value))
    if hasattr(value, "item"):
        return plain(name, value.item())
    msg = f"parameter `{name}`: can't be of type {type(value).__name__}"
    raise TypeError(msg)


def params_json(params: Mapping[str, object], known: type, check: Callable[[str], None]) -> str:
    """The parameters as JSON, checked by the engine; `None` stands for the default."""
    text = json.dumps({k: plain(k, v) for k, v in params.items() if v is not None or k not in known.__annotations__})
    check(text)
    return text


def marked(exprs: list[pl.Expr]) -> list[pl.Expr]:
    """The expressions, those that are not columns under their own names in structs that tell so (`Parts` in
    src/plugin/fit.rs): `predict` does not look for them in a frame.
    """
    out: list[pl.Expr] = []
    for i, expr in enumerate(exprs):
        if _plugin.is_bare(expr):
            out.append(expr)
        else:
            # A selector may give no column, and a struct must have a field.
            filler = [pl.lit(None).alias("__taiga_")] if expr.meta.has_multiple_outputs() else []
            out.append(pl.struct([*filler, expr]).alias(f"__taiga_computed_{i}"))
    return out


def part(role: str, columns: IntoColumns, *, mark: bool = False) -> pl.Expr:
    """The columns of one role as a field of the struct that the plugin reads."""
    exprs = _plugin.as_exprs([columns], f"`{role}`")
    return pl.struct(marked(exprs) if mark else exprs).alias(f"__taiga_{role}")


def features(function: str, target: IntoColumn, columns: tuple[IntoColumns, ...]) -> list[pl.Expr]:
    """The features of a fit, a struct as its fields; none twice, and the target not among them, as far as names
    tell.
    """
    exprs = [field for expr in _plugin.as_exprs(columns, "a feature") for field in _plugin.fields_of(expr)]
    seen: set[str] = set()
    for name in _plugin.names_of(exprs):
        if name in seen:
            msg = f"{function}: column `{name}`: this feature is given twice"
            raise ValueError(msg)
        seen.add(name)
    if isinstance(target, str) and target in _plugin.bare_names(exprs):
        msg = f"{function}: column `{target}`: the target is among the features"
        raise ValueError(msg)
    return exprs


def expr(
    function: str, columns: list[pl.Expr], roles: Mapping[str, IntoColumns | None], params: str, progress: bool | None
) -> pl.Expr:
    """The expression of a fit: one struct of everything that it reads (`Parts` in src/plugin/fit.rs)."""
    own = ("indices", "values")
    parts = [part(role, column, mark=role in own) for role, column in roles.items() if column is not None]
    kwargs = {"params": params, "progress": progress}
    return _plugin.scalar(function, [pl.struct([*marked(columns), *parts])], kwargs).alias("model")


def computed(function: str, call: str, names: list[str], columns: list[str]) -> str:
    """An error for `columns` of which those called `names` are not in a frame; `call`: `tg.predict(model`, say."""
    shown = ", ".join(f"`{name}`" for name in names[:6]) + (", …" if len(names) > 6 else "")
    were = "were computed by expressions" if len(names) > 1 else "was computed by an expression"
    again = [f"<the expression of `{name}`>" if name in names else repr(name) for name in columns[:6]]
    more = ", …" if len(columns) > 6 else ""
    return (
        f"{function}: {shown} {were} at the fit (or taken from a struct), so that a column of that name is "
        f"something else. Give the columns as at the fit: {call}, {', '.join(again)}{more})"
    )

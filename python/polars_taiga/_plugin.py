"""How the expressions of this package become Polars expressions."""

from __future__ import annotations

import inspect
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
from polars.plugins import register_plugin_function

from polars_taiga import _callback, _interrupt, _taiga

IntoColumn: TypeAlias = str | pl.Expr
"""A column's name, or an expression."""

IntoColumns: TypeAlias = str | pl.Expr | Iterable[str | pl.Expr]
"""A column's name, an expression, a selector, or several of them."""

_PLUGIN = Path(__file__).parent
# New in Polars 2: the same call written twice is computed once.
_DETERMINISTIC: dict[str, Any] = (
    {"is_deterministic": True} if "is_deterministic" in inspect.signature(register_plugin_function).parameters else {}
)


def _call(function: str, args: Sequence[pl.Expr], kwargs: dict[str, Any], **options: bool) -> pl.Expr:
    # Group by group Polars drops the inputs' names unless it is told otherwise.
    return register_plugin_function(
        plugin_path=_PLUGIN,
        function_name=function,
        args=list(args),
        kwargs=kwargs,
        pass_name_to_apply=True,
        **options,
        **_DETERMINISTIC,
    )


def elementwise(function: str, args: Sequence[pl.Expr], kwargs: dict[str, Any]) -> pl.Expr:
    """An expression whose rows depend on their own row alone; selectors expand inside the call."""
    return _call(function, args, kwargs, is_elementwise=True, input_wildcard_expansion=True)


def elementwise_per_column(function: str, args: Sequence[pl.Expr], kwargs: dict[str, Any]) -> pl.Expr:
    """As `elementwise`; with a selector, an expression for each column."""
    return _call(function, args, kwargs, is_elementwise=True)


def whole(function: str, args: Sequence[pl.Expr], kwargs: dict[str, Any]) -> pl.Expr:
    """An expression that reads whole columns and makes one; selectors expand inside the call."""
    return _call(function, args, kwargs, input_wildcard_expansion=True)


def per_column(function: str, args: Sequence[pl.Expr], kwargs: dict[str, Any]) -> pl.Expr:
    """An expression that reads a whole column; with a selector, one for each column."""
    return _call(function, args, kwargs)


def scalar(function: str, args: Sequence[pl.Expr], kwargs: dict[str, Any]) -> pl.Expr:
    """An expression that makes one value of whole columns."""
    return _call(function, args, kwargs, returns_scalar=True, changes_length=True)


def scalar_of_columns(function: str, args: Sequence[pl.Expr], kwargs: dict[str, Any]) -> pl.Expr:
    """As `scalar`; selectors expand inside the call."""
    return _call(function, args, kwargs, returns_scalar=True, changes_length=True, input_wildcard_expansion=True)


def groups(function: str, args: Sequence[pl.Expr], kwargs: dict[str, Any]) -> pl.Expr:
    """An expression that makes a row of each group of the rows of whole columns."""
    return _call(function, args, kwargs, changes_length=True, input_wildcard_expansion=True)


# What Polars puts before the text of a plugin's error, and after it where it knows the expression or the plan.
_FAILED = re.compile(
    r"the plugin failed with message: (\w+: .*?)"
    r"(\n\n(This error occurred in the following expression|Resolved plan until failure):.*)?",
    re.DOTALL,
)
_INTERRUPTED = re.compile(r"\w+: interrupted")


def error_of(text: str) -> BaseException:
    """The exception that an error of the plugin is, of which this is the text."""
    if _INTERRUPTED.fullmatch(text) and _interrupt.raises():
        return KeyboardInterrupt()
    if (raised := _callback.raised(text)) is not None:
        return raised
    name = _taiga.error_class(text) or "ComputeError"
    kind: type[Exception] = MemoryError if name == "MemoryError" else getattr(pl.exceptions, name)
    return kind(text)


@contextmanager
def errors() -> Iterator[None]:
    """Raise errors of expressions that run here as what they are: their own text, and Ctrl-C.

    Polars makes a ComputeError of every error of a plugin, where its own would be a SchemaError,
    ColumnNotFoundError or DuplicateError, and Python's a MemoryError.
    """
    try:
        yield
    except pl.exceptions.ComputeError as error:
        failed = _FAILED.fullmatch(str(error))
        if failed is None:
            raise
        raise error_of(failed[1]) from None


@contextmanager
def compute_errors(function: str) -> Iterator[None]:
    """Raise errors of a function in Python that Polars calls as a ComputeError; Polars' own stay what they are.

    Polars makes a new exception of the same class from the text alone, which not every class can be made of.
    """
    try:
        yield
    except (pl.exceptions.PolarsError, MemoryError):
        raise
    except ValueError as error:
        text = str(error)
        msg = text if text.startswith(f"{function}: ") else f"{function}: {text}"
        raise pl.exceptions.ComputeError(msg) from error
    except Exception as error:
        msg = f"{function}: {type(error).__name__}: {error}"
        raise pl.exceptions.ComputeError(msg) from error


def numbers(expr: pl.Expr, function: str, role: str, hint: str = "cast it first") -> pl.Expr:
    """A column as Float64; of another type than numbers an error that names it, where Polars would read text."""
    name = name_of(expr)

    def called(column: pl.Series) -> pl.Series:
        dtype = column.dtype
        if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
            msg = f"{function}: column `{name or column.name}`: its type is {dtype}; {role} is a number: {hint}"
            raise pl.exceptions.ComputeError(msg)
        out: pl.Series = column.cast(pl.Float64)
        return out

    return expr.map_batches(called, return_dtype=pl.Float64, is_elementwise=True)


# As models begin: what kind of value it is, the version of its format, the length of what follows.
_SEAL = struct.Struct("<6s2sIQ")
_CHECKSUM = struct.Struct("<I")
_MAGIC = b"TAIGA\0"
_VERSION = 1


def sealed(kind: bytes, payload: bytes) -> bytes:
    """Bytes of a kind (two letters) with their length and a checksum, so that damage is seen."""
    value = _SEAL.pack(_MAGIC, kind, _VERSION, len(payload)) + payload
    return value + _CHECKSUM.pack(zlib.crc32(value))


def unsealed(kind: bytes, value: bytes) -> bytes:
    """What `sealed` was given; bytes without a seal, which earlier versions made, as they are.

    Raises
    ------
    ValueError
        For a seal of another kind or version, a length or a checksum that does not fit.
    """
    if not value.startswith(_MAGIC):
        return value
    most = len(value) - _CHECKSUM.size
    if most < _SEAL.size:
        msg = "the value is cut off"
        raise ValueError(msg)
    _, own, version, length = _SEAL.unpack_from(value)
    if own != kind:
        msg = "the value is of another kind"
        raise ValueError(msg)
    if length != most - _SEAL.size:
        msg = "the value is damaged: its length does not fit"
        raise ValueError(msg)
    if _CHECKSUM.unpack_from(value, most)[0] != zlib.crc32(value[:most]):
        msg = "the value is damaged: its checksum does not fit"
        raise ValueError(msg)
    if version != _VERSION:
        msg = f"the value is of format {version}, which a later version of polars-taiga made"
        raise ValueError(msg)
    return value[_SEAL.size : most]


def labelled(what: str, value: bytes) -> pl.Expr:
    """A model or encoder as a literal that begins with a line which says what it is, `<gbdt:_100_trees,_28_features>`.

    Polars prints the first bytes of a literal (48 of them, 60 in other versions) in its messages, its plans and the
    text of an expression; so the line is filled up, and has no
    spaces, which Polars would escape. The plugin leaves the line out.

    It stands in a list, which Polars shares where it copies a plan; bytes alone it copies, a dozen times a query.
    """
    label = f"<{what}>".replace(" ", "_").encode().ljust(_LABEL, b".")
    return pl.lit([label + b"\n" + value], dtype=pl.List(pl.Binary)).list.first()


_LABEL = 120


def as_expr(column: object, role: str) -> pl.Expr:
    """A name or an expression as an expression."""
    if isinstance(column, str | pl.Expr):
        name = column if isinstance(column, str) else name_of(column)
        if name is not None and "\0" in name:
            # Polars panics where it hands such a column on.
            msg = f"column {name!r}: {role} has the character NUL in its name: give it another by .alias()"
            raise ValueError(msg)
        return pl.col(column) if isinstance(column, str) else column
    msg = f"{role} is a column's name or an expression of the query's frame, not {type(column).__name__}"
    if isinstance(column, pl.DataFrame | pl.LazyFrame):
        msg += ": the frame is that of the query, df.select(…)"
    elif _is_data(column):
        msg += ": make it a column of the frame, df.with_columns(name=…)"
    raise TypeError(msg)


def _is_data(value: object) -> bool:
    """Whether this is data outside the query's frame: a frame, a series, an array."""
    return isinstance(value, pl.DataFrame | pl.LazyFrame | pl.Series) or hasattr(value, "__array__")


def as_exprs(columns: Iterable[IntoColumns], role: str) -> list[pl.Expr]:
    """Names, expressions, selectors and lists of them as a flat list of expressions."""
    out: list[pl.Expr] = []
    for column in columns:
        if isinstance(column, str | pl.Expr) or not isinstance(column, Iterable) or _is_data(column):
            out.append(as_expr(column, role))
        else:
            out.extend(as_exprs(column, role))
    return out


def name_of(expr: pl.Expr) -> str | None:
    """The name of an expression that gives one column, if it is known."""
    found = names_of([expr])
    return found[0] if found else None


def names_of(exprs: Iterable[pl.Expr]) -> list[str]:
    """The names of those expressions that give one column whose name is known."""
    out: list[str] = []
    for expr in exprs:
        if not expr.meta.has_multiple_outputs():
            name = expr.meta.output_name(raise_if_undetermined=False)
            out.extend([] if name is None else [name])
    return out


def _can_take_apart(expr: pl.Expr) -> bool:
    """Whether an expression may be a struct; Polars 1 panics where it takes apart what selects columns."""
    text = str(expr)
    selects = pl.__version__.startswith("1.") and (expr.meta.has_multiple_outputs() or "nth(" in text)
    return "as_struct(" in text and not selects


def fields_of(expr: pl.Expr) -> list[pl.Expr]:
    """The fields of `pl.struct(...)`, and of those that are such structs again; any other expression as it is."""
    if not _can_take_apart(expr):
        return [expr]
    fields = expr.meta.pop()[::-1]
    if fields and expr.meta == pl.struct(fields):
        return [own for field in fields for own in fields_of(field)]
    # What a struct itself is called plays no part.
    if len(fields) == 1 and (name := expr.meta.output_name(raise_if_undetermined=False)) is not None:
        inner = fields_of(fields[0])
        if expr.meta == fields[0].alias(name) and (len(inner) > 1 or inner[0] is not fields[0]):
            return inner
    return [expr]


def is_bare(expr: pl.Expr) -> bool:
    """Whether an expression only selects columns, one or several, and leaves them their names."""
    if expr.meta.is_column_selection():
        return True
    name = None if expr.meta.has_multiple_outputs() else expr.meta.output_name(raise_if_undetermined=False)
    return name is not None and expr.meta == pl.col(name).alias(name)


def bare_names(exprs: Iterable[pl.Expr]) -> set[str]:
    """The columns that are given as they are, under their own names."""
    return {name for expr in exprs for name in names_of([expr]) if expr.meta == pl.col(name)}

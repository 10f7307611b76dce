"""What the functions that fit models share: their parameters, and the struct that the plugin reads."""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import polars as pl
import polars.selectors as cs

from polars_taiga import _callback, _plugin
from polars_taiga._metadata import metadata_json
from polars_taiga._names import is_pattern
from polars_taiga.collective import Collective

if TYPE_CHECKING:
    from polars_taiga._metadata import Metadata
    from polars_taiga._plugin import IntoColumn, IntoColumns
    from polars_taiga._selected import Selected


OnError: TypeAlias = Literal["raise", "null", "constant"]
"""What becomes of a fit whose rows are at fault."""


def checked_on_error(on_error: object, allowed: tuple[str, ...] = get_args(OnError)) -> str:
    """One of `allowed`, or an error."""
    if on_error in allowed:
        return str(on_error)
    msg = f"parameter `on_error`: {on_error!r} is not one of {', '.join(map(repr, allowed))}"
    raise ValueError(msg)


def label(label: object) -> str:
    """A class label as the model writes it."""
    if isinstance(label, bool):
        return "true" if label else "false"
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


class Problems:
    """Everything that is wrong with a call, to be told at once."""

    def __init__(self, function: str) -> None:
        """Of a call of this function."""
        self.function = function
        self.found: list[tuple[bool, str]] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Note the error that the body ends by, instead of raising it."""
        try:
            yield
        except (TypeError, ValueError) as error:
            self.found.append((isinstance(error, TypeError), str(error)))

    def raise_found(self) -> None:
        """Raise what was found: a `TypeError` if any of it is a wrong name or type of argument, else a `ValueError`."""
        if not self.found:
            return
        texts = [text for _, text in self.found]
        several = f"{self.function}: {len(texts)} things are wrong with this call:\n- " + "\n- ".join(texts)
        msg = texts[0] if len(texts) == 1 else several
        raise (TypeError if any(of_type for of_type, _ in self.found) else ValueError)(msg)


def plain(name: str, value: object) -> object:
    """A value as JSON has it; numbers of NumPy become Python's, arrays and series lists."""
    if isinstance(value, Mapping):
        key = label if name == "class_weight" else str
        return {key(plain(name, k)): plain(name, v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(name, v) for v in value]
    if isinstance(value, int) and abs(value) >= 2**1024:
        msg = f"parameter `{name}`: the number is {'too large' if value > 0 else 'too small'}"
        raise ValueError(msg)
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            msg = f"parameter `{name}`: {value} is not a finite number"
            raise ValueError(msg)
        return value
    if isinstance(value, Decimal):
        return plain(name, float(value))
    if isinstance(value, pl.Series):
        return plain(name, value.to_list())
    if hasattr(value, "tolist"):
        return plain(name, value.tolist())
    msg = f"parameter `{name}`: can't be of type {type(value).__name__}"
    raise TypeError(msg)


def whole(value: object) -> int | None:
    """A whole number, of NumPy too, as Python's; none for what is none, a bool among that."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def params_json(
    problems: Problems,
    params: Mapping[str, object],
    known: type,
    check: Callable[[str], list[tuple[bool, str]]],
) -> str:
    """The parameters as JSON, checked by the engine; `None` stands for the default."""
    names, values = known.__annotations__, {}
    for name, value in params.items():
        if name not in names:
            # The name is what is wrong, but the value may say what was meant.
            try:
                values[name] = plain(name, value)
            except (TypeError, ValueError):
                values[name] = None
        elif value is not None:
            with problems.collect():
                values[name] = _sized(name, plain(name, value), names[name])
    text = json.dumps(values)
    problems.found.extend(check(text))
    return text


def _sized(name: str, value: object, hint: object) -> object:
    """A value of which whole numbers have 64 bits, where its type says that it is one."""
    is_whole = "int" in (written := str(getattr(hint, "__forward_arg__", hint))) and "float" not in written
    if is_whole and isinstance(value, int) and not -(2**63) <= value < 2**64:
        msg = f"parameter `{name}`: the number is {'not below 2^64' if value > 0 else 'below -2^63'}"
        raise ValueError(msg)
    return value


_asked: ContextVar[Mapping[str, object]] = ContextVar("_asked", default=MappingProxyType({}))
"""What is asked of fits beside their model: keywords of the plugin."""


@contextmanager
def asking(**kwargs: object) -> Iterator[None]:
    """Ask this of the fits that are called meanwhile."""
    token = _asked.set(kwargs)
    try:
        yield
    finally:
        _asked.reset(token)


_HINTS = {
    "eval": (
        ": held-out rows are rows of the same frame, where it is true; a second frame comes in by "
        "pl.concat([train.with_columns(held_out=False), test.with_columns(held_out=True)])"
    ),
}


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
    try:
        exprs = _plugin.as_exprs([columns], f"`{role}`")
    except TypeError as error:
        raise TypeError(f"{error}{_HINTS.get(role, '')}") from None
    if not exprs:
        msg = f"parameter `{role}`: it names no column"
        raise ValueError(msg)
    # Targets are known by their names.
    own = marked(exprs) if mark else exprs if role == "target" else _told_apart(exprs)
    return pl.struct(own).alias(f"__taiga_{role}")


def _told_apart(exprs: list[pl.Expr]) -> list[pl.Expr]:
    """The expressions, those under names of their own that have the name of one before them: place tells columns of a
    role apart, and a struct's fields have names.
    """
    seen, out = set(_plugin.names_of(exprs)), []
    known: set[str] = set()
    for i, expr in enumerate(exprs):
        name = _plugin.name_of(expr)
        if name in known:
            own = next(text for k in range(i, i + len(seen) + 1) if (text := f"{name} ({k})") not in seen)
            seen.add(own)
            out.append(expr.alias(own))
        else:
            out.append(expr)
        known.update([] if name is None else [name])
    return out


def each(function: str, role: str, *columns: object) -> pl.Expr:
    """Names, an expression or a selector as the one expression that Polars expands, column by column; `role`: what they
    are to `function`.
    """
    flat: list[object] = []
    for column in columns:
        flat.extend([column] if isinstance(column, str | pl.Expr) or not isinstance(column, Iterable) else column)
    if len(flat) == 1:
        return _plugin.as_expr(flat[0], role)
    names: list[str] = []
    for column in flat:
        known = {column} if isinstance(column, str) else None
        if isinstance(column, pl.Expr):
            known = _plugin.bare_names([column])
        if not known:
            msg = f"{function}: of several columns each is a name or pl.col(name): call once for each other expression"
            raise TypeError(msg)
        names.extend(known)
    if not names:
        msg = f"{function}: there are no columns"
        raise ValueError(msg)
    return cs.by_name(*names) if any(map(is_pattern, names)) else pl.col(names)


def features(problems: Problems, target: IntoColumn, columns: tuple[IntoColumns, ...]) -> list[pl.Expr]:
    """The features of a fit, a struct as its fields; none twice, and the target not among them, as far as names
    tell.
    """
    exprs: list[pl.Expr] = []
    with problems.collect():
        exprs = [field for expr in _plugin.as_exprs(columns, "a feature") for field in _plugin.fields_of(expr)]
    seen: set[str] = set()
    for name in _plugin.names_of(exprs):
        if name in seen:
            text = f"{problems.function}: column `{name}`: this feature is given twice"
            problems.found.append((False, text))
        seen.add(name)
    if isinstance(target, str) and target in _plugin.bare_names(exprs):
        text = f"{problems.function}: column `{target}`: the target is among the features"
        problems.found.append((False, text))
    return exprs


@dataclass(frozen=True)
class Call:
    """What a fit reads, and what is said of it (`FitKwargs` in src/plugin/fit.rs)."""

    problems: Problems
    columns: list[pl.Expr]
    parts: list[pl.Expr]
    selected: list[pl.Expr]
    models: list[pl.Expr]
    kwargs: dict[str, object]

    def inputs(self) -> list[pl.Expr]:
        """One struct of everything (`Parts` in src/plugin/fit.rs), behind it the model whose trees come first."""
        return [pl.struct([*self.columns, *self.parts, *self.selected]), *self.models]

    def expr(self) -> pl.Expr:
        """The expression of the fit, which makes one model."""
        return _plugin.scalar(self.problems.function, self.inputs(), self.kwargs).alias("model")


def call(
    problems: Problems,
    columns: list[pl.Expr],
    roles: Mapping[str, IntoColumns | None],
    params: str,
    *,
    selected: Selected | None = None,
    progress: object,
    on_error: OnError,
    metadata: Metadata | None,
    training: Training | None = None,
) -> Call:
    """A fit of these columns, those of the roles and what is selected; what is wrong with it is raised."""
    own = ("indices", "values")
    parts: list[pl.Expr] = []
    for role, column in roles.items():
        if column is not None or role == "target":
            with problems.collect():
                parts.append(part(role, column, mark=role in own))  # type: ignore[arg-type]
    if progress is not None and not isinstance(progress, bool):
        problems.found.append((True, f"parameter `progress`: {progress!r} is not True, False or None"))
    with problems.collect():
        checked_on_error(on_error)
    if on_error == "constant" and training is not None and training.collective is not None:
        told = 'parameter `on_error`: "constant" is not fitted over several processes: "raise" and "null" are'
        problems.found.append((False, told))
    text = None
    with problems.collect():
        text = metadata_json(metadata)
    given = Training() if training is None else training
    how = given.kwargs(problems)
    how.update(_asked.get())
    problems.raise_found()
    kwargs: dict[str, object] = {"params": params, "progress": progress, "on_error": on_error, "metadata": text, **how}
    if selected is not None:
        kwargs["selections"] = selected.selections
    seen = [] if selected is None else selected.parts()
    return Call(problems, marked(columns), parts, seen, given.models(), kwargs)


@dataclass(frozen=True)
class Training:
    """What a fit begins with, and who is told of its rounds."""

    init_model: object = None
    snapshot: object = None
    snapshot_every: object = 100
    callback: object = None
    verbose: object = False
    collective: object = None

    def kwargs(self, problems: Problems) -> dict[str, object]:
        """The keywords of the plugin, those that say something."""
        found: dict[str, object] = {}
        with problems.collect():
            found["verbose"] = self._verbose()
        if self.callback is not None:
            with problems.collect():
                found["callback"] = _callback.register(self.callback)
        with problems.collect():
            found["snapshot"] = self._snapshot()
        with problems.collect():
            self.models()
        if self.collective is not None:
            with problems.collect():
                found["collective"] = self._collective()
        return {name: value for name, value in found.items() if value is not None}

    def _verbose(self) -> int | None:
        every = int(self.verbose) if isinstance(self.verbose, bool) else whole(self.verbose)
        if every is None:
            msg = f"parameter `verbose`: {self.verbose!r} is no number of rounds, of every how many a line is written"
            raise TypeError(msg)
        # Of LightGBM's users -1 is silence.
        return min(every, 2**31) if every > 0 else None

    def _collective(self) -> dict[str, object]:
        if not isinstance(self.collective, Collective):
            msg = f"parameter `collective`: {type(self.collective).__name__} is no Collective"
            raise TypeError(msg)
        return self.collective._kwargs()

    def _snapshot(self) -> tuple[str, int] | None:
        every = whole(self.snapshot_every)
        if every is None:
            msg = f"parameter `snapshot_every`: {self.snapshot_every!r} is no number of rounds, trees or passes"
            raise TypeError(msg)
        if not 1 <= every <= _MOST_ROUNDS:
            msg = f"parameter `snapshot_every`: {every} is not between 1 and 1,000,000"
            raise ValueError(msg)
        if self.snapshot is None:
            return None
        if not isinstance(self.snapshot, str | os.PathLike):
            msg = f"parameter `snapshot`: {type(self.snapshot).__name__} is no path of a file"
            raise TypeError(msg)
        # Wherever the query runs, it is this file.
        path = os.path.abspath(os.fspath(self.snapshot))
        # Of a collective's processes one writes the file.
        if not isinstance(self.collective, Collective) or self.collective.rank == 0:
            _check_can_write(path)
        return path, every

    def models(self) -> list[pl.Expr]:
        """The model whose trees come first, as an expression, where there is one."""
        from polars_taiga.model import Model

        model = self.init_model
        if model is None:
            return []
        if isinstance(model, bytes | bytearray | memoryview):
            try:
                model = Model(bytes(model))
            except ValueError as error:
                msg = f"parameter `init_model`: {str(error).removeprefix('model: ')}"
                raise ValueError(msg) from None
        if isinstance(model, Model):
            return [model._literal()]
        if isinstance(model, str | pl.Expr):
            return [_plugin.as_expr(model, "`init_model`")]
        msg = f"parameter `init_model`: {type(model).__name__} is no Model, bytes of one, or column of such"
        raise TypeError(msg)


_MOST_ROUNDS = 1_000_000


def _check_can_write(path: str) -> None:
    """That a snapshot can be written there, which is found out before the first rounds are."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        msg = f"parameter `snapshot`: there is no folder {folder}, where the file is to be"
    elif not os.access(folder, os.W_OK | os.X_OK):
        msg = f"parameter `snapshot`: the folder {folder}, where the file is to be, can't be written to"
    else:
        return
    raise ValueError(msg)


def computed(function: str, call: str, names: list[str], columns: list[str]) -> str:
    """An error for `columns` of which those called `names` are not in a frame; `call`: `tg.predict(model`, say."""
    shown = ", ".join(f"`{name}`" for name in names[:6]) + (", …" if len(names) > 6 else "")
    were = "were computed by expressions" if len(names) > 1 else "was computed by an expression"
    again = [f"<the expression of `{name}`>" if name in names else repr(name) for name in columns[:6]]
    more = ", …" if len(columns) > 6 else ""
    return (
        f"{function}: {shown} {were} at the fit, so that a column of that name is "
        f"something else. Give the columns as at the fit: {call}, {', '.join(again)}{more})"
    )

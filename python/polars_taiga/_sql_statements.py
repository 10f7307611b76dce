"""The statements of `tg.sql`: each function is replaced by a lazy frame, and the rest is Polars' own SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_taiga import _plugin
from polars_taiga._sql_functions import FUNCTIONS, Argument, Arguments
from polars_taiga._sql_text import Text, told
from polars_taiga.forest import fit_forest
from polars_taiga.gbdt import fit_gbdt
from polars_taiga.linear import fit_sparse_lr
from polars_taiga.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["frame_of"]

# BigQuery's names of what fits a model, and whether it is one of classes; None where the target decides.
_TYPES: dict[str, tuple[Callable[..., pl.Expr], bool | None]] = {
    "gbdt": (fit_gbdt, None),
    "forest": (fit_forest, None),
    "sparse_lr": (fit_sparse_lr, None),
    "boosted_tree_classifier": (fit_gbdt, True),
    "boosted_tree_regressor": (fit_gbdt, False),
    "random_forest_classifier": (fit_forest, True),
    "random_forest_regressor": (fit_forest, False),
    "logistic_reg": (fit_sparse_lr, None),
}

# Options that name columns which are no features.
_ROLES = ("weight", "baseline", "eval", "group", "position", "event", "lower", "upper", "order_by", "row_key")


def frame_of(query: str, models: Mapping[str, Model | bytes], tables: dict[str, pl.LazyFrame]) -> pl.LazyFrame:
    """The lazy frame of a text of statements; see `tg.sql`."""
    text = Text(query)
    statements = _statements(text)
    if not statements:
        msg = "sql: the query is empty"
        raise ValueError(msg)
    catalog = _Catalog(text, models, tables)
    *before, (first, last) = statements
    for begin, end in before:
        if not catalog.is_create(begin):
            raise text.error(
                "only the last of several statements may be a query: this one's result would be lost", begin
            )
        catalog.create(begin, end)
    return catalog.create(first, last) if catalog.is_create(first) else catalog.select(first, last)


def _statements(text: Text) -> list[tuple[int, int]]:
    """The tokens of each statement, from the first to behind the last."""
    ends = [i for i in range(len(text.tokens)) if text.is_at(i, ";")]
    starts = [0, *(end + 1 for end in ends)]
    return [(first, last) for first, last in zip(starts, [*ends, len(text.tokens)], strict=True) if first < last]


class _Catalog:
    """The models and tables that statements name."""

    def __init__(self, text: Text, models: Mapping[str, Model | bytes], tables: dict[str, pl.LazyFrame]) -> None:
        self.text, self.models, self.tables = text, models, tables
        # Frames of functions, by the names that stand for them.
        self.made: dict[str, pl.LazyFrame] = {}

    def select(self, first: int, last: int) -> pl.LazyFrame:
        """The frame of a query, whose columns are checked."""
        return self._run(self._in_place(first, self._rewritten(first, last, {})), first, last)

    def _in_place(self, first: int, statement: str) -> str:
        """A rewritten statement behind white space, so that places in what Polars reads are those of our text."""
        return self.text.blank(self.text.tokens[first].start) + statement

    def _run(self, statement: str, first: int, last: int, *, in_place: bool = True) -> pl.LazyFrame:
        """The frame of Polars' SQL; what is wrong in it is told where it stands in our text."""
        context: Any = pl.SQLContext(frames={**self.tables, **self.made}, eager=False)
        try:
            with _plugin.errors():
                frame: pl.LazyFrame = context.execute(statement, eager=False)
                frame.collect_schema()
        except pl.exceptions.PolarsError as error:
            raise type(error)(self._pointed(told(error), first, last, in_place)) from None
        return frame

    def _pointed(self, message: str, first: int, last: int, in_place: bool) -> str:
        """A message of Polars, which may name a place or a word of the statement."""
        place = re.search(r" at Line: (\d+), Column:? (\d+)", message)
        if place is not None and in_place:
            line, column = int(place[1]), int(place[2])
            lines = self.text.text.split("\n")
            start = sum(len(one) + 1 for one in lines[: line - 1]) + column - 1
            end = next((t.end for t in self.text.tokens if t.start <= start < t.end), start + 1)
            return self.text.pointed(message.replace(place[0], ""), start, end)
        said = message.split("; valid columns")[0]
        # Early versions of Polars say no more than the name.
        for word in [*re.findall(r"[\"'`]([^\"'`]+)[\"'`]", said), said.split("\n")[0]]:
            tokens = [(i, self.text.tokens[i].text) for i in range(first, last)]
            # A function is told of in small letters, however it is written; before a column of its name it counts.
            called = [i for i, t in tokens if t.lower() == word.lower() and self.text.is_at(i + 1, "(")]
            if places := [*(called if "function" in said else []), *(i for i, t in tokens if t == word), *called]:
                return self.text.pointed(message, *self.text.at(places[0]))
        return self.text.pointed(message, *self.text.at(first, last - 1))

    def _rewritten(self, first: int, last: int, known: dict[str, str]) -> str:
        """The text of tokens in which the name of a frame stands for each function. `known`: common table expressions,
        `name AS (…)`, by name.
        """
        text, known = self.text, dict(known)
        parts: list[str] = []
        at, i = text.tokens[first].start, first
        while i < last:
            if text.is_at(i, "WITH") and i + 2 < last and text.tokens[i + 1].is_name and text.is_at(i + 2, "AS", "("):
                parts.append(text.text[at : text.tokens[i + 1].start])
                i = self._read_common(i + 1, known, parts)
                at = text.tokens[i - 1].end
            elif (call := self._call_at(i)) is not None:
                name, opening = call
                closing = text.closing(opening)
                parts.append(text.text[at : text.tokens[i].start])
                at = text.tokens[closing].end
                frame = self._called(name, i, opening, closing, known)
                parts.append(self._named(frame, text.text[text.tokens[i].start : at]))
                i = closing + 1
            elif text.is_at(i, "(") and (closing := text.closing(i)) > i + 1:
                parts.append(text.text[at : text.tokens[i].end])
                parts.append(self._rewritten(i + 1, closing, known))
                at = text.tokens[closing - 1].end
                i = closing
            else:
                i += 1
        parts.append(text.text[at : text.tokens[last - 1].end] if last > first else "")
        return "".join(parts)

    def _read_common(self, i: int, known: dict[str, str], parts: list[str]) -> int:
        """Rewrite the common table expressions that begin at token `i`, and return the place behind them."""
        text, at = self.text, self.text.tokens[i].start
        while True:
            if text.tokens[i].text in self.tables and not _common_tables_hide():
                msg = (
                    f"under Polars {pl.__version__} the table `{text.tokens[i].text}` hides this: give it another name"
                )
                raise text.error(msg, i)
            start = i
            name = text.tokens[i].text
            i = text.closing(i + 1) + 1 if text.is_at(i + 1, "(") else i + 1
            i = text.expect(i, "AS")
            opening = text.expect(i, "(") - 1
            closing = text.closing(opening)
            body = self._rewritten(opening + 1, closing, known) if closing > opening + 1 else ""
            head = text.text[text.tokens[start].start : text.tokens[opening].end]
            tail = text.text[text.tokens[closing - 1].end : text.tokens[closing].end]
            parts.append(text.text[at : text.tokens[start].start] + head + body + tail)
            known[name] = head + body + ")"
            at, i = text.tokens[closing].end, closing + 1
            if not text.is_at(i, ","):
                return i
            i += 1
            text.name(i, "a table")

    def _named(self, frame: pl.LazyFrame, instead: str) -> str:
        """A name for a frame, filled up to the lines and columns of the text that it stands for."""
        name = next(
            n for n in (f"_taiga_{k}" for k in range(len(self.made) + len(self.tables) + 1)) if self._is_free(n)
        )
        self.made[name] = frame
        return name + re.sub(r"[^\n]", " ", instead)[len(name) :]

    def _is_free(self, name: str) -> bool:
        return name not in self.made and name not in self.tables

    def _call_at(self, i: int) -> tuple[str, int] | None:
        """The function that token `i` begins a call of, and the token that opens its parenthesis."""
        text = self.text
        if text.is_at(i, "ML") and text.is_at(i + 1, ".") and text.is_at(i + 3, "("):
            name, opening = f"ML.{text.tokens[i + 2].text.upper()}", i + 3
        elif text.is_at(i, "HISTOGRAM", "TARGET_ENCODE") and text.is_at(i + 1, "(") and text.is_at(i + 2, "TABLE", "("):
            name, opening = text.tokens[i].text.upper(), i + 1
        else:
            return None
        if name not in FUNCTIONS:
            near = get_close_matches(name, FUNCTIONS, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(FUNCTIONS)}"
            raise text.error(f"there is no function {name}{hint}", i, opening - 1)
        if text.clause(i) not in ("FROM", "JOIN") or not text.is_at(i - 1, "FROM", "JOIN", ","):
            raise text.error(f"{name} gives a table, and stands behind FROM or JOIN", i, opening - 1)
        return name, opening

    def _called(self, name: str, first: int, opening: int, closing: int, known: dict[str, str]) -> pl.LazyFrame:
        """The frame of a function's call."""
        usage, function = FUNCTIONS[name]
        given: list[Argument] = []
        i = opening + 1
        while i < closing:
            argument, i = self._argument(i, closing, known)
            given.append(argument)
            if i < closing:
                i = self.text.expect(i, ",", ")")
        with self.text.errors_at(first, closing):
            frame = function(Arguments(self.text, usage, given, first, closing))
            frame.collect_schema()
        return frame

    def _argument(self, i: int, closing: int, known: dict[str, str]) -> tuple[Argument, int]:
        text, first = self.text, i
        if text.is_at(i, "MODEL"):
            name, behind = text.name(i + 1, "a model")
            return Argument(self._model(name, i + 1, behind - 1), first, behind - 1), behind
        if text.is_at(i, "TABLE"):
            name, behind = text.name(i + 1, "a table")
            return Argument(self._table(name, i + 1, behind - 1, known), first, behind - 1), behind
        if text.is_at(i, "("):
            end = text.closing(i)
            if end == i + 1:
                raise text.error("a query is missing", i, end)
            return Argument(self._subquery(i + 1, end, known), first, end), end + 1
        if text.is_at(i, "STRUCT") and text.is_at(i + 1, "("):
            return self._struct(i + 1, first)
        value, behind = text.value(i)
        return Argument(value, first, min(behind - 1, closing)), behind

    def _struct(self, opening: int, first: int) -> tuple[Argument, int]:
        """Options: `(value AS name, …)`, each with the tokens that it is of."""
        text, closing = self.text, self.text.closing(opening)
        options: dict[str, Argument] = {}
        i = opening + 1
        while i < closing:
            start = i
            value, i = text.value(i)
            i = text.expect(i, "AS")
            name, behind = text.name(i, "an option")
            if name in options:
                raise text.error(f"option {name} stands twice", i)
            options[name] = Argument(value, start, behind - 1)
            i = text.expect(behind, ",", ")") if behind < closing else behind
        return Argument(options, first, closing), closing + 1

    def _model(self, name: str, first: int, last: int) -> Model:
        if name not in self.models:
            near = get_close_matches(name, self.models, 1)
            others = ", ".join(f"`{n}`" for n in self.models) or "none are given by models="
            hint = f"did you mean `{near[0]}`?" if near else f"there are: {others}"
            raise self.text.error(f"there is no model `{name}`; {hint}", first, last)
        found = self.models[name]
        with self.text.errors_at(first, last):
            return found if isinstance(found, Model) else Model(found)

    def _table(self, name: str, first: int, last: int, known: dict[str, str]) -> pl.LazyFrame:
        if name in known:
            statement = f'WITH {", ".join(known.values())} SELECT * FROM "{name}"'
            return self._run(statement, first, last + 1, in_place=False)
        if name not in self.tables:
            near = get_close_matches(name, [*known, *self.tables], 1)
            others = ", ".join(f"`{n}`" for n in [*known, *self.tables]) or "none are given"
            hint = f"did you mean `{near[0]}`?" if near else f"there are: {others}"
            raise self.text.error(f"there is no table `{name}`; {hint}", first, last)
        return self.tables[name]

    def _subquery(self, first: int, last: int, known: dict[str, str]) -> pl.LazyFrame:
        statement = self._rewritten(first, last, known)
        if not known:
            return self._run(self._in_place(first, statement), first, last)
        if self.text.is_at(first, "WITH"):
            head = self.text.tokens[first]
            statement = ", " + statement[head.end - head.start :].lstrip()
        return self._run(f"WITH {', '.join(known.values())} {statement}", first, last, in_place=False)

    def is_create(self, first: int) -> bool:
        """Whether a statement makes a model."""
        text = self.text
        return text.is_at(first, "CREATE") and (
            text.is_at(first + 1, "MODEL") or (text.is_at(first + 1, "OR") and text.is_at(first + 3, "MODEL"))
        )

    def create(self, first: int, last: int) -> pl.LazyFrame:
        """Fit the model of a statement, keep it under its name, and return a table of it."""
        text, i = self.text, first + 1
        replaces = text.is_at(i, "OR")
        i = text.expect(text.expect(i + 1, "REPLACE") if replaces else i, "MODEL")
        if has_if := text.is_at(i, "IF"):
            i = text.expect(text.expect(i + 1, "NOT"), "EXISTS")
        at = i
        name, i = text.name(i, "a model")
        if not isinstance(self.models, MutableMapping):
            raise text.error("the model can't be kept: models= is no dictionary", at)
        if name in self.models and has_if:
            return self._row(name, self._model(name, at, i - 1))
        if name in self.models and not replaces:
            raise text.error(f"there is a model `{name}` already: CREATE OR REPLACE MODEL makes another", at, i - 1)
        options: dict[str, Argument] = {}
        if text.is_at(i, "OPTIONS"):
            options, i = self._assignments(text.expect(i + 1, "(") - 1)
        i = text.expect(i, "AS")
        if i >= last:
            raise text.error("a query is missing", i)
        frame = self._run(self._in_place(i, self._rewritten(i, last, {})), i, last)
        model = self._fitted(frame, options, first, i - 1)
        self.models[name] = model
        return self._row(name, model)

    @staticmethod
    def _row(name: str, model: Model) -> pl.LazyFrame:
        return pl.LazyFrame(
            {"name": [name], "model": [model.to_bytes()]}, schema={"name": pl.String, "model": pl.Binary}
        )

    def _assignments(self, opening: int) -> tuple[dict[str, Argument], int]:
        """Options: `(name = value, …)`."""
        text, closing = self.text, self.text.closing(opening)
        options: dict[str, Argument] = {}
        i = opening + 1
        while i < closing:
            start = i
            name, i = text.name(i, "an option")
            value, behind = text.value(text.expect(i, "="))
            if name.lower() in options:
                raise text.error(f"option {name} stands twice", start)
            options[name.lower()] = Argument(value, start, behind - 1)
            i = text.expect(behind, ",", ")") if behind < closing else behind
        return options, closing + 1

    def _fitted(self, frame: pl.LazyFrame, options: dict[str, Argument], first: int, last: int) -> Model:
        text, names = self.text, frame.collect_schema().names()
        kind = options.pop("model_type", Argument("gbdt", first, last))
        if str(kind.value).lower() not in _TYPES:
            known = ", ".join(repr(t) for t in _TYPES)
            raise text.error(f"model_type is none of {known}", kind.first, kind.last)
        fit, of_classes = _TYPES[str(kind.value).lower()]
        target = self._target(options, names, first, last)
        values = {name: argument.value for name, argument in options.items()}
        roles = {str(c) for r in _ROLES for c in _as_list(values.get(r)) if r in values}
        features = [n for n in names if n != target and n not in roles]
        if not features:
            raise text.error(f"there is no column beside `{target}` to learn from", last)
        if of_classes is not None and "loss" not in values and "criterion" not in values:
            values.update(_objective(frame, target, fit, of_classes))
        call: Callable[..., pl.Expr] = fit
        if isinstance(before := values.get("init_model"), str):
            values["init_model"] = self._model(before, options["init_model"].first, options["init_model"].last)
        if fit is fit_sparse_lr:
            self._divide(frame, features, values, options, first, last)
            features = []
        try:
            with _plugin.errors():
                found: bytes = frame.select(call(target, *features, **values)).collect().item()
        except (ValueError, TypeError, pl.exceptions.PolarsError) as error:
            # At the option that the message names, if it names one.
            named = [o for n, o in options.items() if f"`{n}`" in str(error) or f"'{n}'" in str(error)]
            span = (named[0].first, named[0].last) if len(named) == 1 else (first, last)
            raise type(error)(text.pointed(str(error), *text.at(*span))) from None
        return Model(found)

    def _divide(
        self,
        frame: pl.LazyFrame,
        features: list[str],
        values: dict[str, Any],
        options: dict[str, Argument],
        first: int,
        last: int,
    ) -> None:
        """Put the features of a linear model into `values`, as its indices, their values and dense columns."""
        schema = frame.collect_schema()
        for role in ("indices", "values", "dense"):
            for name in map(str, _as_list(values.get(role)) if values.get(role) is not None else []):
                if name not in features:
                    at = options[role]
                    raise self.text.error(f"{role} names no column to learn from: `{name}`", at.first, at.last)
        named = [str(values[role]) for role in ("indices", "values") if values.get(role) is not None]
        dense = [str(n) for n in _as_list(values.get("dense")) if values.get("dense") is not None]
        rest = [n for n in features if n not in named and n not in dense]
        lists = [n for n in rest if isinstance(schema[n], pl.List | pl.Array)]
        free = [role for role in ("indices", "values") if values.get(role) is None]
        if len(lists) > len(free):
            columns = ", ".join(f"`{n}`" for n in lists)
            msg = f"a linear model has one column of lists, and one of their values: {columns} are more than that"
            raise self.text.error(msg, first, last)
        values.update(zip(free, lists, strict=False))
        values["dense"] = [n for n in features if n not in named and n not in lists] or None

    def _target(self, options: dict[str, Argument], names: list[str], first: int, last: int) -> str:
        """The column to learn, by any of the options that name it; else `label`, as in BigQuery."""
        given = [options.pop(key) for key in ("target", "input_label_cols") if key in options]
        if len(given) > 1:
            raise self.text.error("target and input_label_cols are the same option", given[1].first, given[1].last)
        argument = given[0] if given else Argument("label", first, last)
        columns = _as_list(argument.value)
        if len(columns) != 1 or columns[0] not in names:
            told = f"`{columns[0]}`" if len(columns) == 1 else f"{len(columns)} columns"
            hint = "" if given else " (OPTIONS(target = 'column') names another)"
            msg = f"the target is a column of the query, not {told}{hint}; there are: {', '.join(names)}"
            raise self.text.error(msg, argument.first, argument.last)
        return str(columns[0])


@cache
def _common_tables_hide() -> bool:
    """Whether a common table expression comes before a table of its name; early versions of Polars read the table."""
    context: Any = pl.SQLContext(frames={"t": pl.LazyFrame({"a": [1]})}, eager=False)
    found: int = context.execute("WITH t AS (SELECT a + 1 AS a FROM t) SELECT a FROM t", eager=False).collect().item()
    return found == 2


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _objective(frame: pl.LazyFrame, target: str, fit: object, of_classes: bool) -> dict[str, str]:
    """What makes a fit one of classes, or one of numbers, whatever the target's type."""
    if fit is fit_forest:
        return {"criterion": "gini" if of_classes else "squared_error"}
    if not of_classes:
        return {"loss": "rmse"}
    with _plugin.errors():
        classes = frame.select(pl.col(target).drop_nulls().n_unique()).collect().item()
    return {"loss": "logloss" if classes <= 2 else "multiclass"}

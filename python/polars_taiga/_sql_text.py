"""The text of SQL statements: tokens, places in it, and errors that point there."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import polars as pl

from polars_taiga import _plugin
from polars_taiga._optional import needed

if TYPE_CHECKING:
    from collections.abc import Iterator


_CLAUSES = ("SELECT", "FROM", "JOIN", "ON", "USING", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "QUALIFY", "WINDOW")


def told(error: Exception) -> str:
    """What an error says, without the plan that Polars may add."""
    return re.split(r"\n\n(?:Resolved plan|This error occurred|Error originated)", str(error))[0]


@dataclass(frozen=True)
class Token:
    """A word, a name, a literal or a sign, and where it stands: `text[start:end]`."""

    kind: str
    text: str
    start: int
    end: int

    def says(self, *words: str) -> bool:
        """Whether it is one of these words, in large letters, or signs; a name in quotes is none."""
        return self.kind not in ("IDENTIFIER", "STRING") and self.text.upper() in words

    @property
    def is_name(self) -> bool:
        """Whether it may name a table, a column or a model."""
        return self.kind == "IDENTIFIER" or (
            self.kind != "STRING" and (self.text[:1].isalpha() or self.text[:1] == "_")
        )


class Text:
    """Statements, cut into tokens."""

    def __init__(self, text: str) -> None:
        """Cut this text."""
        tokens = needed("sql", "sqlglot.tokens", "sql")

        class Tokenizer(tokens.Tokenizer):  # type: ignore[misc, name-defined]
            IDENTIFIERS = ('"', "`")

        self.text = text
        try:
            found = Tokenizer().tokenize(text)
        except needed("sql", "sqlglot.errors", "sql").TokenError as error:
            self._raise_unfinished(str(error))
        self.tokens = [Token(t.token_type.name, t.text, t.start, t.end + 1) for t in found]

    def _raise_unfinished(self, error: str) -> NoReturn:
        """Point at the last quote or comment that opens and is not closed, as far as it can be told."""
        opened = max(self.text.rfind(sign) for sign in ("'", '"', "`", "/*"))
        raise ValueError(self.pointed("this is not closed", max(opened, 0), len(self.text))) from ValueError(error)

    def pointed(self, message: str, start: int, end: int) -> str:
        """A message with the line that it is about, and carets below `text[start:end]` as far as that line goes."""
        first = self.text.rfind("\n", 0, start) + 1
        last = self.text.find("\n", start)
        line = self.text[first : len(self.text) if last < 0 else last]
        number, column = self.text.count("\n", 0, start) + 1, start - first
        below = re.sub(r"[^\t]", " ", line[:column]) + "^" * max(1, min(end - start, len(line) - column))
        return f"sql: {message}\nline {number}, column {column + 1}:\n  {line}\n  {below}"

    def at(self, first: int, last: int | None = None) -> tuple[int, int]:
        """Where tokens `first` to `last` (inclusive; else the first alone) stand; behind all, the end of the text."""
        if first >= len(self.tokens):
            end = self.tokens[-1].end if self.tokens else 0
            return end, end + 1
        return self.tokens[first].start, self.tokens[min(first if last is None else last, len(self.tokens) - 1)].end

    def error(self, message: str, first: int, last: int | None = None) -> ValueError:
        """An error that points at tokens."""
        return ValueError(self.pointed(message, *self.at(first, last)))

    @contextmanager
    def errors_at(self, first: int, last: int | None = None) -> Iterator[None]:
        """Let errors of what is made of these tokens point at them."""
        try:
            with _plugin.errors():
                yield
        except (ValueError, TypeError, pl.exceptions.PolarsError) as error:
            if str(error).startswith("sql: "):
                raise
            raise type(error)(self.pointed(told(error), *self.at(first, last))) from None

    def is_at(self, i: int, *words: str) -> bool:
        """Whether token `i` is one of these words or signs."""
        return i < len(self.tokens) and self.tokens[i].says(*words)

    def expect(self, i: int, *words: str) -> int:
        """Return the place behind token `i`, which must be one of these words or signs."""
        if self.is_at(i, *words):
            return i + 1
        raise self.error(f"expected {' or '.join(words)}{self._instead(i)}", i)

    def name(self, i: int, of: str) -> tuple[str, int]:
        """A name, with dots perhaps, and the place behind it."""
        parts: list[str] = []
        while i < len(self.tokens) and self.tokens[i].is_name:
            parts.append(self.tokens[i].text)
            i += 1
            if not self.is_at(i, "."):
                return ".".join(parts), i
            i += 1
        raise self.error(f"expected the name of {of}{self._instead(i)}", i)

    def _instead(self, i: int) -> str:
        return f", not {self.tokens[i].text!r}" if i < len(self.tokens) else ", and the text ends"

    def blank(self, end: int) -> str:
        """White space as long as the text before a place, line by line."""
        return re.sub(r"[^\n]", " ", self.text[:end])

    def clause(self, i: int) -> str:
        """The word that begins the clause in which token `i` stands."""
        depth = 0
        for j in range(i - 1, -1, -1):
            depth += self.is_at(j, ")") - self.is_at(j, "(")
            if depth < 0:
                break
            if depth == 0 and self.is_at(j, *_CLAUSES):
                return self.tokens[j].text.upper()
        return ""

    def closing(self, i: int) -> int:
        """The token that closes the parenthesis which token `i` opens."""
        depth, opened = 0, i
        for j in range(i, len(self.tokens)):
            depth += self.is_at(j, "(") - self.is_at(j, ")")
            if depth == 0:
                return j
        raise self.error("this parenthesis is not closed", opened)

    def value(self, i: int) -> tuple[Any, int]:
        """A literal, a list, a STRUCT (as a dictionary), or a name as its text; and the place behind it."""
        token = self.tokens[i] if i < len(self.tokens) else None
        if token is None or token.says(")", ","):
            raise self.error(f"expected a value{self._instead(i)}", i)
        if token.says("ARRAY") and self.is_at(i + 1, "["):
            return self.value(i + 1)
        if token.says("STRUCT") and self.is_at(i + 1, "("):
            return self._struct(i + 1)
        if token.says("["):
            return self._list(i + 1)
        if token.says("-", "+") and i + 1 < len(self.tokens) and self.tokens[i + 1].kind == "NUMBER":
            value, behind = self.value(i + 1)
            return (-value if token.says("-") else value), behind
        if token.kind == "NUMBER":
            return (int(token.text) if token.text.isdigit() else float(token.text)), i + 1
        for word, value in (("TRUE", True), ("FALSE", False), ("NULL", None)):
            if token.says(word):
                return value, i + 1
        if token.kind == "STRING" or token.is_name:
            return token.text, i + 1
        raise self.error(f"expected a value, not {token.text!r}", i)

    def _struct(self, opening: int) -> tuple[dict[str, Any], int]:
        """The values of `(value AS name, …)` by their names; `opening`: its parenthesis."""
        closing, i = self.closing(opening), opening + 1
        values: dict[str, Any] = {}
        while i < closing:
            value, i = self.value(i)
            at = self.expect(i, "AS")
            name, i = self.name(at, "a field")
            if name in values:
                raise self.error(f"field {name} stands twice", at)
            values[name] = value
            i = self.expect(i, ",", ")") if i < closing else i
        return values, closing + 1

    def _list(self, i: int) -> tuple[list[Any], int]:
        """The values of a list, from behind its bracket on."""
        values: list[Any] = []
        while not self.is_at(i, "]"):
            value, i = self.value(i)
            values.append(value)
            if not self.is_at(i, "]"):
                i = self.expect(i, ",", "]")
        return values, i + 1

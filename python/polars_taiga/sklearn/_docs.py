"""The parameters' part of an estimator's docstring, from the function that the estimator calls."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from textwrap import indent
from typing import Any, TypeVar

__all__ = ["documented"]

T = TypeVar("T", bound=type)

_RANDOM_STATE = """
The seed of every random choice; default 0. An integer is the `seed` of `{function}`; a `RandomState` gives one, a
number below 2^31, at each fit, and None is NumPy's global `RandomState`."""


def _entries(doc: str, section: str) -> list[tuple[list[str], str]]:
    """The entries of a section of a numpydoc docstring: the names that each is about, and its text, indented."""
    body = re.split(r"\n\n[A-Z]\w+\n-{3,}\n", doc.split(f"\n{section}\n{'-' * len(section)}\n")[1])[0]
    parts = re.split(r"(?m)^(?=\w)", body)
    return [([n.strip() for n in p.split("\n")[0].split(",")], p.partition("\n")[2].rstrip()) for p in parts if p]


def documented(function: Callable[..., Any], **own: str) -> Callable[[T], T]:
    """Fill `{parameters}` in a class's docstring with what `function`'s says of the parameters of `__init__`.

    A parameter is described in one place, and both docstrings tell the same of it; `own` has the text of those that
    mean something else to the class.
    """

    def fill(cls: T) -> T:
        doc, source = cls.__doc__, inspect.getdoc(function)
        if doc is None or source is None:  # python -OO
            return cls
        texts = {"random_state": _RANDOM_STATE.format(function=function.__name__), **own}
        told = {name: text for names, text in _entries(source, "Parameters") for name in names}
        entries: list[tuple[list[str], str]] = []
        for name in list(inspect.signature(cls.__init__).parameters)[1:]:  # type: ignore[misc]
            text = inspect.cleandoc(texts.get(name) or told[name])
            if entries and entries[-1][1] == text:  # "As in `fit_gbdt`.", say, of several
                entries[-1][0].append(name)
            else:
                entries.append(([name], text))
        written = [f"{', '.join(names)}\n{indent(text, '    ')}" for names, text in entries]
        cls.__doc__ = inspect.cleandoc(doc).replace("{parameters}", "\n".join(written))
        return cls

    return fill

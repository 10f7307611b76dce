"""Metrics as the engine reads them: a name, and what it takes behind an @."""

from __future__ import annotations

from typing import Literal, TypeAlias

OnError: TypeAlias = Literal["raise", "null"]
"""What becomes of rows that can't be measured."""

Label: TypeAlias = bool | int | float | str
"""A class label."""


def with_parameter(name: str, at: object) -> str:
    """A metric's name with what it takes behind an @, if that is told."""
    return name if at is None else f"{name}@{at}"


def number(name: str, value: object) -> str:
    """A parameter's number as text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        msg = f"parameter `{name}`: {value!r} is not a number"
        raise TypeError(msg)
    return repr(value)

"""Metrics as the engine reads them: a name, and what it takes behind an @."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Literal, TypeAlias

OnError: TypeAlias = Literal["raise", "null"]
"""What becomes of rows that can't be measured."""

Label: TypeAlias = bool | int | float | str
"""A class label."""


def with_word(function: str, metric: str, average: object, words: tuple[str, ...]) -> str:
    """A metric's name with how classes are averaged behind an @, if that is told."""
    if average is None:
        return metric
    if not isinstance(average, str) or average not in words:
        msg = f"metrics.{function}: parameter `average`: {average!r} is not one of {', '.join(map(repr, words))}"
        raise ValueError(msg)
    return f"{metric}@{average}"


def with_places(function: str, metric: str, k: object) -> str:
    """A metric's name with how many places count behind an @."""
    return with_number(
        function, metric, "k", k, lambda x: x == int(x) and 1 <= x < 2**32, "a number of places from 1 on"
    )


def with_number(function: str, metric: str, name: str, value: object, ok: Callable[[float], bool], what: str) -> str:
    """A metric's name with the number of the parameter `name` behind an @; `what` those are that are `ok`."""
    if isinstance(value, bool) or not isinstance(value, Real):
        msg = f"metrics.{function}: parameter `{name}`: {value!r} is not {what}"
        raise TypeError(msg)
    number = int(value) if isinstance(value, Integral) else float(value)
    if not math.isfinite(number) or not ok(number):
        msg = f"metrics.{function}: parameter `{name}`: {number} is not {what}"
        raise ValueError(msg)
    return f"{metric}@{number!r}"


def inside(low: float, high: float) -> Callable[[float], bool]:
    """Whether a number lies between two others."""
    return lambda x: low < x < high

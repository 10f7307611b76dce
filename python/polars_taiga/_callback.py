"""Functions that fits call after each round."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeAlias

Callback: TypeAlias = Callable[[int, Mapping[str, float]], "bool | None"]
"""What is called after each round with its number, from 1 on, and the metrics by their names in `Model.history`; true
ends the fit.
"""

_FUNCTIONS: dict[int, Callback] = {}
_RAISED: deque[tuple[str, Exception]] = deque(maxlen=16)
_LOCK = threading.Lock()


def register(function: object) -> int:
    """The number of a function, by which the plugin calls it: an expression can be written as text, a function can't.

    It is kept as long as the process lives, since nobody knows when the last query with it has run.
    """
    if not callable(function):
        msg = f"parameter `callback`: {type(function).__name__} is no function of a round and its metrics"
        raise TypeError(msg)
    with _LOCK:
        known = next((number for number, other in _FUNCTIONS.items() if other is function), None)
        number = len(_FUNCTIONS) if known is None else known
        _FUNCTIONS[number] = function
    return number


def call(number: int, done: int, measured: list[tuple[str | None, str, float]]) -> tuple[bool, str | None]:
    """Call a function after a round; whether it ends the fit, and what it raised, as text."""
    from polars_taiga.model import curve_name

    function = _FUNCTIONS.get(number)
    if function is None:
        return True, "the function is not in this process: a query that goes to another one has none"
    try:
        return bool(function(done, {curve_name(rows, metric): value for rows, metric, value in measured})), None
    except Exception as error:
        text = f"it raised {type(error).__name__} after round {done}: {error}"
        _RAISED.append((text, error))
        return True, text


def raised(text: str) -> Exception | None:
    """The exception of a function that an error's text is about."""
    return next((error for own, error in reversed(_RAISED) if f"parameter `callback`: {own}" in text), None)

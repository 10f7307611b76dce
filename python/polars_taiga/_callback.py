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
_RAISED: deque[tuple[str, BaseException]] = deque(maxlen=16)
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
    # `SystemExit` and `KeyboardInterrupt` too: they are to come back as themselves, as others are.
    except BaseException as error:
        text = _told(f"it raised {type(error).__name__} after round {done}: {_said(error)}")
        # Of a query's error Polars has the plan behind a blank line, and what lies behind the first one is not kept.
        _RAISED.append((text.partition("\n\n")[0], error))
        return True, text


def _said(error: BaseException) -> str:
    """What an exception says, which a class of its own may fail to."""
    try:
        return str(error)
    except Exception as failed:
        return f"its text can't be had ({type(failed).__name__})"


def _told(text: str) -> str:
    """A text as it comes back in the plugin's error: in UTF-8, which surrogates are not in, and without a NUL."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def raised(text: str) -> BaseException | None:
    """The exception of a function that an error's text is about: of several the one that said most, the last of these.

    None where it ended another rank's fit: this one's error says so.
    """
    before, _, said = text.partition("parameter `callback`: ")
    if before.endswith(" has ended: "):
        return None
    # Of a copy: other fits' functions raise meanwhile.
    found = [(own, error) for own, error in reversed(list(_RAISED)) if said.startswith(own)]
    return max(found, key=lambda one: len(one[0]), default=(None, None))[1]

"""Signatures that completion sees."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def shows(params: type) -> Callable[[Function], Function]:
    """Write the keys of a TypedDict into the signature of a function that takes them as `**params`.

    Type checkers read `Unpack[…]` by themselves; what looks at the function when it is there (a notebook's completion,
    `help`) sees these: each a keyword with its type, and `...` for a default that the function itself knows.

    Parameters
    ----------
    params
        A TypedDict, none of whose keys must be given.

    Examples
    --------
    >>> import inspect
    >>> import polars_taiga as tg
    >>> "learning_rate" in inspect.signature(tg.fit_gbdt).parameters
    True
    """
    keys = getattr(params, "__annotations__", {})

    def show(function: Function) -> Function:
        own = inspect.signature(function)
        kept = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=..., annotation=_text(hint))
            for name, hint in keys.items()
            if name not in own.parameters
        ]
        function.__signature__ = own.replace(parameters=[*kept, *more])  # type: ignore[attr-defined]
        return function

    return show


def _text(hint: object) -> str:
    """A type as it was written."""
    return str(getattr(hint, "__forward_arg__", hint))

"""Parameters of fits that name features: by names, and by selectors, which are known when the query is planned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from polars_taiga import _plugin

if TYPE_CHECKING:
    from polars_taiga._fit import Problems


_MOST_BINS = 256

Number = TypeVar("Number", int, float)


class Selected:
    """What is selected in the parameters of one call, and what each is for (src/plugin/selections.rs)."""

    def __init__(self) -> None:
        """Of nothing yet."""
        self.exprs: list[pl.Expr] = []
        self.selections: list[dict[str, object]] = []

    def out_of(self, problems: Problems, params: Mapping[str, object]) -> dict[str, object]:
        """Take the selectors out of `params`; what is left is names."""
        ways: dict[str, Callable[[str, Any], object]] = {
            "categorical": self._names,
            "monotone": self._directions,
            "feature_weights": self._weights,
            "bins": self._bins,
            "interaction": self._groups,
        }
        out = dict(params)
        if isinstance(out.get("categorical"), str):
            out["categorical"] = [out["categorical"]]
        for parameter, way in ways.items():
            # What is wrong with a number is told of the feature that has it.
            by_feature = parameter in ("feature_weights", "bins") and isinstance(out.get(parameter), Mapping)
            if by_feature or _selects(out.get(parameter)):
                # A value at fault is left out of what the engine checks, which would tell of it again.
                given, out[parameter] = out[parameter], None
                with problems.collect():
                    out[parameter] = way(parameter, given)
        return out

    def parts(self) -> list[pl.Expr]:
        """The selected columns as fields of the struct that the plugin reads."""
        # A selector may give no column, and a struct must have a field.
        return [
            pl.struct([pl.lit(None).alias("__taiga_"), expr]).alias(f"__taiga_selected_{i}")
            for i, expr in enumerate(self.exprs)
        ]

    def _names(self, parameter: str, columns: Any, **of: object) -> list[str]:
        """The names among the columns of a parameter; its selectors are noted, with what they are `of`."""
        names: list[str] = []
        for item in [columns] if isinstance(columns, str | pl.Expr) or not isinstance(columns, Iterable) else columns:
            if isinstance(item, str):
                names.append(item)
            elif not isinstance(item, pl.Expr):
                msg = f"parameter `{parameter}`: {item!r} is neither a feature's name nor a selector"
                raise TypeError(msg)
            elif not _plugin.is_bare(item):
                msg = f"parameter `{parameter}`: {item} computes something; name the feature, or select it"
                raise ValueError(msg)
            elif known := _plugin.bare_names([item]):
                names.extend(known)
            else:
                self.exprs.append(item)
                self.selections.append(
                    {"parameter": parameter, "direction": None, "weight": None, "bins": None, "group": None, **of}
                )
        return names

    def _directions(self, parameter: str, value: Any) -> dict[str, int]:
        """Directions by name."""
        return self._by_name(parameter, value, "direction", _direction)

    def _weights(self, parameter: str, value: Any) -> dict[str, float]:
        """Weights by name."""
        return self._by_name(parameter, value, "weight", _weight)

    def _bins(self, parameter: str, value: Any) -> dict[str, int]:
        """Numbers of bins by name."""
        return self._by_name(parameter, value, "bins", _number_of_bins)

    def _by_name(
        self, parameter: str, value: Any, field: str, read: Callable[[str, object, Any], Number]
    ) -> dict[str, Number]:
        """What columns are given, by name; `field`: where a selection has it, and what it is; `read`: checks it."""
        out: dict[str, Number] = {}
        for columns, given in _pairs(parameter, value, field):
            number = read(parameter, columns, given)
            for name in self._names(parameter, columns, **{field: number}):
                if out.setdefault(name, number) != number:
                    msg = f"parameter `{parameter}`: column `{name}` is given both {out[name]} and {number}"
                    raise ValueError(msg)
        return out

    def _groups(self, parameter: str, value: Any) -> list[list[str]]:
        """Groups of names."""
        if isinstance(value, str | pl.Expr) or not isinstance(value, Iterable):
            msg = f"parameter `{parameter}`: it is a list of groups, not one: [{value}]"
            raise TypeError(msg)
        return [self._names(parameter, group, group=i) for i, group in enumerate(value)]


def _pairs(parameter: str, value: Any, what: str) -> list[tuple[Any, Any]]:
    """The pairs of columns and what they are given, of a mapping or of a list."""
    pairs = list(value.items() if isinstance(value, Mapping) else value)
    for pair in pairs:
        if isinstance(pair, str | pl.Expr) or not isinstance(pair, Sequence) or len(pair) != 2:
            msg = f"parameter `{parameter}`: {pair!r} is not a pair of features and their {what}"
            raise TypeError(msg)
    return pairs


def _direction(parameter: str, _: object, given: Any) -> int:
    """A direction of a pair."""
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        msg = f"parameter `{parameter}`: {given!r} is not -1, 0 or 1"
        raise TypeError(msg)
    if int(given) not in (-1, 0, 1):
        msg = f"parameter `{parameter}`: {given} is not -1, 0 or 1"
        raise ValueError(msg)
    return int(given)


def _weight(parameter: str, columns: object, given: Any) -> float:
    """A weight of a pair."""
    if isinstance(given, bool | str) or not hasattr(given, "__float__"):
        msg = f"parameter `{parameter}`: {given!r} for {_shown(columns)} is not a number"
        raise TypeError(msg)
    if not (math.isfinite(given) and given >= 0):
        msg = f"parameter `{parameter}`: {given} for {_shown(columns)} is not zero or a positive number"
        raise ValueError(msg)
    return float(given)


def _number_of_bins(parameter: str, columns: object, given: Any) -> int:
    """A number of bins of a pair."""
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        msg = f"parameter `{parameter}`: {given!r} for {_shown(columns)} is not a whole number"
        raise TypeError(msg)
    if not 2 <= int(given) <= _MOST_BINS:
        msg = f"parameter `{parameter}`: {given} for {_shown(columns)} is not between 2 and {_MOST_BINS}"
        raise ValueError(msg)
    return int(given)


def _shown(columns: object) -> str:
    """The columns of a pair, as messages show them."""
    return f"`{columns}`" if isinstance(columns, str) else str(columns)


def _selects(value: object) -> bool:
    """Whether there is an expression in a value, or pairs are where a dict may be."""
    if isinstance(value, pl.Expr):
        return True
    if isinstance(value, Mapping):
        return any(_selects(key) for key in value)
    return isinstance(value, list | tuple) and any(isinstance(item, tuple) or _selects(item) for item in value)

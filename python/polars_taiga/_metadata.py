"""What a user says of a model: JSON values by name."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | tuple[Json, ...] | Mapping[str, Json] | None"
"""A JSON value."""

Metadata: TypeAlias = Mapping[str, Json]
"""JSON values by name."""


def _check(where: str, value: object, depth: int = 0) -> None:
    """Raise for what JSON can't hold as it is."""
    if depth > 64:
        msg = f"{where}: is nested too deeply"
        raise ValueError(msg)
    if isinstance(value, Mapping):
        for name, own in value.items():
            if not isinstance(name, str):
                msg = f"{where}: the name {name!r} is not a string"
                raise TypeError(msg)
            _check(f"{where}[{name!r}]", own, depth + 1)
    elif isinstance(value, list | tuple):
        for i, own in enumerate(value):
            _check(f"{where}[{i}]", own, depth + 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            msg = f"{where}: {value} is not a finite number"
            raise ValueError(msg)
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            msg = f"{where}: {value} does not fit into 64 bits; write it as a string"
            raise ValueError(msg)
    elif not (value is None or isinstance(value, str)):
        msg = f"{where}: {type(value).__name__} is no JSON value: a string, number, Boolean, None, list or dictionary"
        raise TypeError(msg)


def _plain(value: object) -> object:
    """A JSON value with dictionaries where there were other mappings."""
    if isinstance(value, Mapping):
        return {name: _plain(own) for name, own in value.items()}
    return [_plain(own) for own in value] if isinstance(value, list | tuple) else value


def metadata_json(metadata: object) -> str | None:
    """The text of metadata; none where there are none."""
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        msg = f"metadata: a dictionary of JSON values, not {type(metadata).__name__}"
        raise TypeError(msg)
    _check("metadata", metadata)
    text = json.dumps(_plain(metadata), ensure_ascii=False)
    if len(text.encode("utf-8", "surrogatepass")) > 1 << 20:
        msg = "metadata: takes more than a mebibyte of JSON"
        raise ValueError(msg)
    return text if metadata else None

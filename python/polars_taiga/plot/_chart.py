"""What all pictures share: Altair, colours, texts of numbers, frames as a chart's data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from polars_taiga._names import unnamed
from polars_taiga._scores import listed

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8C8C8C"

# The colours of Okabe and Ito ("Color Universal Design", 2002) without their yellow, which is pale on white, and two
# of Paul Tol's: readers who see red and green alike can tell them apart.
COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255", "#999933", "#8C8C8C")

# From low to high, through a grey that is as light as neither end.
LOW_TO_HIGH = (BLUE, "#C8C8C8", ORANGE)


def altair() -> Any:
    """Import Altair, or say how to install it."""
    try:
        import altair
    except ImportError:
        msg = "tg.plot draws with Altair, which is not installed: pip install altair"
        raise ImportError(msg) from None
    return altair


def data(frame: pl.DataFrame) -> Any:
    """Make a frame a chart's data: rows as dictionaries, NaN and infinite numbers as null, which JSON can hold."""
    finite = [_finite(column) for column in frame.get_columns() if column.dtype.is_float()]
    return altair().Data(values=frame.with_columns(finite).to_dicts())


def _finite(values: pl.Series) -> pl.Series:
    """Numbers, null where they are not finite."""
    own = pl.col("value")
    return unnamed(values).to_frame().select(pl.when(own.is_finite()).then(own)).to_series().alias(values.name)


def finish(chart: Any, title: str, subtitle: str | Sequence[str] = "", **size: Any) -> Any:
    """Give a chart its title, and its size in pixels."""
    lines = [subtitle] if isinstance(subtitle, str) else list(subtitle)
    text = altair().Title(title, anchor="start", frame="group", subtitle=[line for line in lines if line])
    return chart.properties(title=text, **size)


def number(value: float | None, sign: bool = False) -> str:
    """Write a number in at most about seven characters: four digits, thousands with commas."""
    if value is None or value != value:
        return "null"
    if value == 0:
        return "0"
    size = abs(value)
    text = f"{size:,.0f}" if 1000 <= size < 1e9 else f"{size:.4g}" if size >= 1 or size < 1e-4 else f"{size:.3g}"
    return ("−" if value < 0 else "+" if sign else "") + text


def shorten(text: str, length: int) -> str:
    """Cut a text in its middle, so that columns whose names begin alike can still be told apart."""
    if len(text) <= length:
        return text
    end = length // 3
    return f"{text[: length - end - 1]}…{text[-end:]}"


def show(value: object, length: int = 18) -> str:
    """Write a cell of a frame for a label."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return shorten("null" if value is None else str(value), length)
    return number(value)


def choose(names: Sequence[str], column: str | None, parameter: str = "column") -> str:
    """Take the column that is asked for, or the only one."""
    if column is None and len(names) == 1:
        return names[0]
    if column is None:
        msg = f"parameter `{parameter}`: which of {listed(names)}?"
        raise ValueError(msg)
    if column not in names:
        msg = f"parameter `{parameter}`: {column!r} is not one of {listed(names)}"
        raise ValueError(msg)
    return column


def at_least(name: str, value: int, least: int, most: int) -> int:
    """Check a parameter that counts something."""
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"parameter `{name}`: {value!r} is not an integer"
        raise TypeError(msg)
    if not least <= value <= most:
        msg = f"parameter `{name}`: {value} is not between {least:,} and {most:,}"
        raise ValueError(msg)
    return value


def few(what: str, found: int, remedy: str) -> None:
    """Refuse more of something than there are colours."""
    if found > len(COLOURS):
        msg = f"{found} {what}; at most {len(COLOURS)} can be told apart: {remedy}"
        raise ValueError(msg)


def colours(titles: Sequence[str], legend: str | None) -> Any:
    """Colour the field `series`: a colour for each of these, in this order; no legend for one."""
    alt = altair()
    scale = alt.Scale(domain=list(titles), range=list(COLOURS[: len(titles)]))
    shown = alt.Legend(title=legend, labelLimit=280, symbolOpacity=1) if len(titles) > 1 else None
    return alt.Color("series:N", scale=scale, legend=shown, sort=list(titles))

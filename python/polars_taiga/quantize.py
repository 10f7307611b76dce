"""From values to borders, and to the code of each value among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import polars as pl

from polars_taiga import _plugin
from polars_taiga.device import checked, checked_several

if TYPE_CHECKING:
    from polars_taiga._plugin import IntoColumn

__all__ = ["BorderMethod", "borders", "quantize"]

BorderMethod = Literal["quantile", "uniform", "greedy_logsum", "min_max_entropy"]


_MOST = 65_535
"""The most bins: 16 bits hold their codes and the missing values'."""


def _kwargs(bins: int, method: str, sample: int, seed: int, device: str) -> dict[str, int | str]:
    for name, value, least, most in [
        ("bins", bins, 2, _MOST),
        ("sample", sample, 2, 2**63 - 1),
        ("seed", seed, 0, 2**63 - 1),
    ]:
        if isinstance(value, bool) or not isinstance(value, int):
            msg = f"parameter `{name}`: {value!r} is not an integer"
            raise TypeError(msg)
        if not least <= value <= most:
            msg = f"parameter `{name}`: {value} is not between {least:,} and {most:,}"
            raise ValueError(msg)
    if method not in get_args(BorderMethod):
        msg = f"parameter `method`: {method!r} is not one of {', '.join(map(repr, get_args(BorderMethod)))}"
        raise ValueError(msg)
    return {"bins": bins, "method": method, "sample": sample, "seed": seed, "device": device}


def borders(
    expr: IntoColumn,
    bins: int = 255,
    *,
    method: BorderMethod = "quantile",
    sample: int = 200_000,
    seed: int = 0,
    device: str = "auto",
) -> pl.Expr:
    """The borders between the bins of a column: one ascending `List(Float64)`.

    Parameters
    ----------
    expr
        A column of numbers or of a temporal type (then borders are in its physical unit); several
        by a selector. Null and NaN are ignored.
    bins
        The largest number of bins, 2 to 65,535: k bins have k - 1 borders between them. All distinct values are kept
        apart when they fit. There are no borders for fewer than two distinct values. (CatBoost's `border_count` is one
        fewer.)
    method
        `"quantile"`
            As many rows in each bin as ties allow (as LightGBM).
        `"uniform"`
            Equal steps between the smallest and the largest finite value.
        `"greedy_logsum"`
            Greedy splits that raise the sum of log(rows of the bin) most (CatBoost's default).
        `"min_max_entropy"`
            Greedy splits of the bin with the largest rows * log(rows).
    sample
        The number of rows that borders are fitted on, drawn by `seed`.
    seed
        The seed of the sample.
    device
        Where values are sorted: `"cpu"`, `"cuda"` or `"cuda:N"` (an NVIDIA GPU, an error where there is none), or
        `"auto"`, the default: a GPU where there is one with the memory and the sample is so large (about 20,000,000
        values) that it gains. The borders are the same, to the last bit.

    Raises
    ------
    TypeError, ValueError
        For a parameter that can't have its value.
    polars.exceptions.ComputeError
        When the query is planned: for a column of another type; when it runs: for a device that is not there, or where
        it or this process can't have the memory.
    KeyboardInterrupt
        After Ctrl-C, as in `fit_gbdt`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> pl.DataFrame({"x": [1.0, 2.0, 4.0, None]}).select(tg.borders("x")).item().to_list()
    [1.5, 3.0]
    """
    return _plugin.scalar(
        "borders", [_plugin.as_expr(expr, "a column")], _kwargs(bins, method, sample, seed, checked(device))
    )


def quantize(
    expr: IntoColumn,
    bins: int = 255,
    *,
    method: BorderMethod = "quantile",
    borders: Sequence[float] | pl.Series | pl.Expr | None = None,
    sample: int = 200_000,
    seed: int = 0,
    device: str = "auto",
) -> pl.Expr:
    """The bin of each value: the number of borders below it, `border < x`; null where it is missing.

    A bin is (border, next border], as trees split: `x > border` goes on. (Those of `histogram` are [lower, upper).)

    UInt8 for up to 256 bins, UInt16 for more.

    Parameters
    ----------
    expr
        As in `borders`.
    bins, method, sample, seed
        As in `borders`, where the borders are to be fitted here.
    borders
        Given borders instead: ascending numbers, or an expression of one list such as
        `tg.borders(...)` (then `bins` is how many bins there may be, one more than borders, which decides the type).
    device
        Where borders are fitted and codes made, as in `borders`; with `"auto"` codes are made on the CPU: a column has
        to go to a GPU first.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> pl.DataFrame({"x": [1.0, 2.0, 4.0, None]}).select(tg.quantize("x", borders=[1.5, 3.0]))["x"].to_list()
    [0, 1, 2, None]
    """
    args = [_plugin.as_expr(expr, "a column")]
    if isinstance(borders, pl.Expr):
        args.append(borders)
    elif borders is not None:
        values = pl.Series(borders, dtype=pl.Float64)
        if len(values) >= _MOST:
            msg = f"parameter `borders`: {len(values):,} are more than {_MOST - 1:,}"
            raise ValueError(msg)
        bins = max(2, len(values) + 1)
        args.append(pl.lit(pl.Series([values], dtype=pl.List(pl.Float64))))
    # Borders run through all rows in one order, which several GPUs do not share; codes among them are each row's own.
    placed = checked(device) if borders is None else checked_several(device)
    return _plugin.per_column("quantize", args, _kwargs(bins, method, sample, seed, placed))

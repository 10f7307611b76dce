"""Metrics of predicted numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from polars_taiga.custom_metric import measured
from polars_taiga.metrics._spec import inside, with_number

if TYPE_CHECKING:
    import polars as pl

    from polars_taiga._plugin import IntoColumn
    from polars_taiga.metrics._spec import OnError

__all__ = [
    "expectile",
    "gamma_deviance",
    "huber",
    "log_cosh",
    "mae",
    "mape",
    "pinball",
    "poisson_deviance",
    "r2",
    "rmse",
    "rmsle",
    "tweedie_deviance",
]


def rmse(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the root of the mean squared error.

    Parameters
    ----------
    target, predicted
        Columns of numbers.
    weight
        What each row counts for: finite, not negative, not all zero; a factor common to all changes nothing but the
        last digits, and none of them if it is a power of two.
    on_error
        What becomes of rows that can't be measured: `"raise"` (default) ends the query, `"null"` gives null.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [3.0, 1.0, 4.0], "p": [2.5, 1.0, 5.0]})
    >>> round(df.select(tg.metrics.rmse("y", "p")).item(), 6)
    0.645497
    """
    return measured("rmse", "rmse", target, predicted, weight=weight, on_error=on_error)


def mae(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the mean absolute error.

    Parameters
    ----------
    target, predicted
        Columns of numbers.
    weight
        What each row counts for: finite, not negative, not all zero; a factor common to all changes nothing but the
        last digits, and none of them if it is a power of two.
    on_error
        What becomes of rows that can't be measured: `"raise"` (default) ends the query, `"null"` gives null.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [3.0, 1.0, 4.0], "p": [2.5, 1.0, 5.0]})
    >>> df.select(tg.metrics.mae("y", "p")).item()
    0.5
    """
    return measured("mae", "mae", target, predicted, weight=weight, on_error=on_error)


def r2(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the share of the targets' variance that is predicted; of equal targets 1 where all are hit, else 0.

    Parameters
    ----------
    target, predicted
        Columns of numbers.
    weight
        What each row counts for: finite, not negative, not all zero; a factor common to all changes nothing but the
        last digits, and none of them if it is a power of two.
    on_error
        What becomes of rows that can't be measured: `"raise"` (default) ends the query, `"null"` gives null.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [3.0, 1.0, 4.0], "p": [2.5, 1.0, 5.0]})
    >>> round(df.select(tg.metrics.r2("y", "p")).item(), 6)
    0.732143
    """
    return measured("r2", "r2", target, predicted, weight=weight, on_error=on_error)


def mape(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    floor: float = 2.0**-52,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the mean of the absolute errors as shares of the targets.

    Parameters
    ----------
    target, predicted
        Columns of numbers.
    floor
        The least that a target's size counts as where it divides; the default is scikit-learn's. (The metric `"mape"`
        of a fit takes 1, as its loss does.)
    weight
        What each row counts for: finite, not negative, not all zero; a factor common to all changes nothing but the
        last digits, and none of them if it is a power of two.
    on_error
        What becomes of rows that can't be measured: `"raise"` (default) ends the query, `"null"` gives null.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [3.0, 1.0, 4.0], "p": [2.5, 1.0, 5.0]})
    >>> round(df.select(tg.metrics.mape("y", "p")).item(), 6)
    0.138889
    """
    metric = with_number("mape", "mape", "floor", floor, inside(0, math.inf), "a positive number")
    return measured("mape", metric, target, predicted, weight=weight, on_error=on_error)


def rmsle(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the root of the mean squared error of the logarithms, `ln(1 + x)`.

    Parameters
    ----------
    target, predicted
        Columns of numbers above -1.
    weight
        What each row counts for: finite, not negative, not all zero; a factor common to all changes nothing but the
        last digits, and none of them if it is a power of two.
    on_error
        What becomes of rows that can't be measured: `"raise"` (default) ends the query, `"null"` gives null.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [3.0, 1.0, 4.0], "p": [2.5, 1.0, 5.0]})
    >>> round(df.select(tg.metrics.rmsle("y", "p")).item(), 6)
    0.130476
    """
    return measured("rmsle", "rmsle", target, predicted, weight=weight, on_error=on_error)


def pinball(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    alpha: float = 0.5,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the mean pinball loss of a quantile.

    Parameters
    ----------
    target, predicted
        Columns of numbers.
    alpha
        The quantile's level, inside (0, 1).
    weight
        What each row counts for: finite, not negative, not all zero; a factor common to all changes nothing but the
        last digits, and none of them if it is a power of two.
    on_error
        What becomes of rows that can't be measured: `"raise"` (default) ends the query, `"null"` gives null.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [3.0, 1.0, 4.0], "p": [2.5, 1.0, 5.0]})
    >>> df.select(tg.metrics.pinball("y", "p", alpha=0.5)).item()
    0.25
    """
    metric = with_number("pinball", "quantile", "alpha", alpha, inside(0, 1), "a level inside (0, 1)")
    return measured("pinball", metric, target, predicted, weight=weight, on_error=on_error)


def expectile(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    alpha: float = 0.5,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the mean squared error that counts `alpha` below the target and `1 - alpha` above it.

    Parameters
    ----------
    target, predicted
        Columns of numbers.
    alpha
        The expectile's level, inside (0, 1).
    weight
        What each row counts for: finite, not negative, not all zero; a factor common to all changes nothing but the
        last digits, and none of them if it is a power of two.
    on_error
        What becomes of rows that can't be measured: `"raise"` (default) ends the query, `"null"` gives null.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [3.0, 1.0, 4.0], "p": [2.5, 1.0, 5.0]})
    >>> round(df.select(tg.metrics.expectile("y", "p", alpha=0.5)).item(), 6)
    0.208333
    """
    metric = with_number("expectile", "expectile", "alpha", alpha, inside(0, 1), "a level inside (0, 1)")
    return measured("expectile", metric, target, predicted, weight=weight, on_error=on_error)


def huber(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    delta: float = 1.0,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the mean of Huber's loss: half the squared error up to `delta`, and growing with the error beyond.

    Parameters
    ----------
    target, predicted
        Columns of numbers.
    delta
        Where it turns from squared to absolute.
    weight
        What each row counts for: finite, not negative, not all zero; a factor common to all changes nothing but the
        last digits, and none of them if it is a power of two.
    on_error
        What becomes of rows that can't be measured: `"raise"` (default) ends the query, `"null"` gives null.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [3.0, 1.0, 4.0], "p": [2.5, 1.0, 5.0]})
    >>> round(df.select(tg.metrics.huber("y", "p")).item(), 6)
    0.208333
    """
    metric = with_number("huber", "huber", "delta", delta, inside(0, math.inf), "a positive number")
    return measured("huber", metric, target, predicted, weight=weight, on_error=on_error)


def log_cosh(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the mean of the logarithms of the errors' hyperbolic cosines.

    Parameters
    ----------
    target, predicted
        Columns of numbers.
    weight
        What each row counts for: finite, not negative, not all zero; a factor common to all changes nothing but the
        last digits, and none of them if it is a power of two.
    on_error
        What becomes of rows that can't be measured: `"raise"` (default) ends the query, `"null"` gives null.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [3.0, 1.0, 4.0], "p": [2.5, 1.0, 5.0]})
    >>> round(df.select(tg.metrics.log_cosh("y", "p")).item(), 6)
    0.184632
    """
    return measured("log_cosh", "log_cosh", target, predicted, weight=weight, on_error=on_error)


def poisson_deviance(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the mean Poisson deviance.

    Parameters
    ----------
    target, predicted
        Columns of numbers: targets from 0 on, predictions above 0.
    weight
        What each row counts for: finite, not negative, not all zero; a factor common to all changes nothing but the
        last digits, and none of them if it is a power of two.
    on_error
        What becomes of rows that can't be measured: `"raise"` (default) ends the query, `"null"` gives null.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [3.0, 1.0, 4.0], "p": [2.5, 1.0, 5.0]})
    >>> round(df.select(tg.metrics.poisson_deviance("y", "p")).item(), 6)
    0.102927
    """
    return measured("poisson_deviance", "poisson", target, predicted, weight=weight, on_error=on_error)


def gamma_deviance(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the mean gamma deviance.

    Parameters
    ----------
    target, predicted
        Columns of numbers above 0.
    weight
        What each row counts for: finite, not negative, not all zero; a factor common to all changes nothing but the
        last digits, and none of them if it is a power of two.
    on_error
        What becomes of rows that can't be measured: `"raise"` (default) ends the query, `"null"` gives null.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [3.0, 1.0, 4.0], "p": [2.5, 1.0, 5.0]})
    >>> round(df.select(tg.metrics.gamma_deviance("y", "p")).item(), 6)
    0.027215
    """
    return measured("gamma_deviance", "gamma", target, predicted, weight=weight, on_error=on_error)


def tweedie_deviance(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    power: float = 1.5,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the mean Tweedie deviance of a power of the variance between Poisson's (1) and gamma's (2).

    Parameters
    ----------
    target, predicted
        Columns of numbers: targets from 0 on, predictions above 0.
    power
        The power, inside (1, 2).
    weight
        What each row counts for: finite, not negative, not all zero; a factor common to all changes nothing but the
        last digits, and none of them if it is a power of two.
    on_error
        What becomes of rows that can't be measured: `"raise"` (default) ends the query, `"null"` gives null.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [3.0, 1.0, 4.0], "p": [2.5, 1.0, 5.0]})
    >>> round(df.select(tg.metrics.tweedie_deviance("y", "p", power=1.5)).item(), 6)
    0.052435
    """
    metric = with_number("tweedie_deviance", "tweedie", "power", power, inside(1, 2), "a power inside (1, 2)")
    return measured("tweedie_deviance", metric, target, predicted, weight=weight, on_error=on_error)

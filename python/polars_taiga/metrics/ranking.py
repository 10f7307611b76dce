"""Metrics of the order of groups of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polars_taiga.custom_metric import measured
from polars_taiga.metrics._spec import with_places

if TYPE_CHECKING:
    import polars as pl

    from polars_taiga._plugin import IntoColumn
    from polars_taiga.metrics._spec import OnError

__all__ = [
    "map",
    "mrr",
    "ndcg",
    "precision_at_k",
]


def ndcg(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    group: IntoColumn,
    k: int | None = None,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the normalised discounted cumulated gain, of gains `2^target - 1`.

    It is the mean over groups, each weighed by the mean weight of its rows. Rows of equal predictions count as the
    mean of all their orders.

    Parameters
    ----------
    target
        Numbers; those above 0 are relevant.
    predicted
        Numbers; the highest stands first.
    group
        Which rows are ranked together: an integer, text, category or date.
    k
        How many of a group's first places count. Default: all.
    weight, on_error
        As in `rmse`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"q": [1, 1, 1, 2, 2], "y": [0, 2, 1, 1, 0], "p": [0.5, 0.9, 0.1, 0.3, 0.7]})
    >>> round(df.select(tg.metrics.ndcg("y", "p", group="q", k=2)).item(), 6)
    0.728582
    """
    metric = "ndcg" if k is None else with_places("ndcg", "ndcg", k)
    return measured("ndcg", metric, target, predicted, weight=weight, on_error=on_error, group=group)


def map(  # noqa: A001
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    group: IntoColumn,
    k: int | None = None,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the mean average precision of relevant rows.

    It is the mean over groups, each weighed by the mean weight of its rows. Rows of equal predictions count as the
    mean of all their orders.

    Parameters
    ----------
    target
        Numbers; those above 0 are relevant.
    predicted
        Numbers; the highest stands first.
    group
        Which rows are ranked together: an integer, text, category or date.
    k
        How many of a group's first places count. Default: all.
    weight, on_error
        As in `rmse`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"q": [1, 1, 1, 2, 2], "y": [0, 2, 1, 1, 0], "p": [0.5, 0.9, 0.1, 0.3, 0.7]})
    >>> round(df.select(tg.metrics.map("y", "p", group="q")).item(), 6)
    0.666667
    """
    metric = "map" if k is None else with_places("map", "map", k)
    return measured("map", metric, target, predicted, weight=weight, on_error=on_error, group=group)


def mrr(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    group: IntoColumn,
    k: int | None = None,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the mean reciprocal rank of the first relevant row; 0 for a group without one.

    It is the mean over groups, each weighed by the mean weight of its rows. Rows of equal predictions count as the
    mean of all their orders.

    Parameters
    ----------
    target
        Numbers; those above 0 are relevant.
    predicted
        Numbers; the highest stands first.
    group
        Which rows are ranked together: an integer, text, category or date.
    k
        How many of a group's first places count. Default: all.
    weight, on_error
        As in `rmse`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"q": [1, 1, 1, 2, 2], "y": [0, 2, 1, 1, 0], "p": [0.5, 0.9, 0.1, 0.3, 0.7]})
    >>> df.select(tg.metrics.mrr("y", "p", group="q")).item()
    0.75
    """
    metric = "mrr" if k is None else with_places("mrr", "mrr", k)
    return measured("mrr", metric, target, predicted, weight=weight, on_error=on_error, group=group)


def precision_at_k(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    group: IntoColumn,
    k: int,
    weight: IntoColumn | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the share of relevant rows among the first `k` places.

    It is the mean over groups, each weighed by the mean weight of its rows. Rows of equal predictions count as the
    mean of all their orders.

    Parameters
    ----------
    target
        Numbers; those above 0 are relevant.
    predicted
        Numbers; the highest stands first.
    group
        Which rows are ranked together: an integer, text, category or date.
    k
        How many of a group's first places count.
    weight, on_error
        As in `rmse`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"q": [1, 1, 1, 2, 2], "y": [0, 2, 1, 1, 0], "p": [0.5, 0.9, 0.1, 0.3, 0.7]})
    >>> df.select(tg.metrics.precision_at_k("y", "p", group="q", k=2)).item()
    0.5
    """
    return measured(
        "precision_at_k",
        with_places("precision_at_k", "precision", k),
        target,
        predicted,
        weight=weight,
        on_error=on_error,
        group=group,
    )

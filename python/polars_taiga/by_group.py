"""Fitting a model for each group of a frame's rows, in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_taiga import _fit, _plugin
from polars_taiga._signature import shows
from polars_taiga.gbdt import GbdtParams, fit_call

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from polars_taiga._fit import OnError
    from polars_taiga._metadata import Metadata
    from polars_taiga._plugin import IntoColumn, IntoColumns

__all__ = ["ByGroupParams", "fit_gbdt_by"]


class ByGroupParams(GbdtParams, total=False):
    """The keyword arguments of `fit_gbdt_by`; what each means: see `fit_gbdt`."""

    weight: IntoColumn | None
    baseline: IntoColumns | None
    eval: IntoColumn | None
    group: IntoColumn | None
    position: IntoColumn | None
    event: IntoColumn | None
    lower: IntoColumn | None
    upper: IntoColumn | None
    order_by: IntoColumn | None
    row_key: IntoColumns | None
    on_error: OnError
    progress: bool | None
    metadata: Metadata | None


@shows(GbdtParams)
def fit_gbdt_by(
    by: IntoColumns,
    target: IntoColumn,
    *features: IntoColumns,
    weight: IntoColumn | None = None,
    baseline: IntoColumns | None = None,
    eval: IntoColumn | None = None,
    group: IntoColumn | None = None,
    position: IntoColumn | None = None,
    event: IntoColumn | None = None,
    lower: IntoColumn | None = None,
    upper: IntoColumn | None = None,
    order_by: IntoColumn | None = None,
    row_key: IntoColumns | None = None,
    on_error: OnError = "raise",
    progress: bool | None = None,
    metadata: Metadata | None = None,
    **params: Unpack[GbdtParams],
) -> pl.Expr:
    """Fit gradient-boosted trees to each group of rows; the expression gives structs of the keys and the model.

    What `group_by(by, maintain_order=True).agg(model=fit_gbdt(...))` gives, byte for byte, in one call for all
    groups. Polars calls a fit in a `group_by` once for each group, which costs more than the fit where groups have
    few rows, and which leaves a GPU with one of them at a time; here the groups are dealt to all threads, and on a
    GPU the trees of many groups grow in one launch (docs/groups.md).

    The groups stand in the order of their first rows; null is a key as any other. The rows of a group need not stand
    side by side, and keep their order: where they do stand so, nothing is copied. The expression's name is `models`;
    `Expr.struct.unnest` or `LazyFrame.unnest` make columns of it, as `lf.taiga.fit_gbdt_by` does.

    Parameters
    ----------
    by
        The columns whose values tell the groups apart: integers, text, Booleans, dates or times. None may be
        called `model`.
    target, features, weight, baseline, eval, group, position, event, lower, upper, order_by, row_key, metadata
        As in `fit_gbdt`. Features that are chosen by a selector have to leave the keys out.
    on_error
        What becomes of a group whose rows can't be fitted: `"raise"`, the default: the query ends by an error that
        names its keys. `"null"`: its model is null. `"constant"`: as in `fit_gbdt`.
    progress
        Whether a bar counts the groups; by default where the fit is long and standard error is a terminal.
    **params
        As in `fit_gbdt`. `device="auto"` takes a GPU where there are so many groups that it gains; trees grow together
        there by levels (`policy="symmetric"` or `"depthwise"`), to a depth of 8, on up to 2,048 rows of numeric
        features, for one output, on all rows; other fits are made one after the other.

    Raises
    ------
    TypeError, ValueError
        As `fit_gbdt`.
    polars.exceptions.ComputeError
        For what is wrong with a group's rows, with the values of its keys.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"shop": [0, 1] * 50, "x": range(100)}).with_columns(y=pl.col("x") * (1 + pl.col("shop")))
    >>> models = df.lazy().select(tg.fit_gbdt_by("shop", "y", "x", rounds=10)).unnest("models").collect()
    >>> models["shop"].to_list(), models.schema["model"]
    ([0, 1], Binary)
    """
    roles = {
        "weight": weight,
        "baseline": baseline,
        "eval": eval,
        "group": group,
        "position": position,
        "event": event,
        "lower": lower,
        "upper": upper,
        "order_by": order_by,
        "row_key": row_key,
    }
    keys = _plugin.as_exprs([by], "`by`")
    if not keys:
        msg = "fit_gbdt_by: parameter `by`: it names no column"
        raise ValueError(msg)
    call = fit_call(
        target,
        features,
        roles,
        params,
        training=_fit.Training(),
        progress=progress,
        on_error=on_error,
        metadata=metadata,
        function="fit_gbdt_by",
    )
    return _plugin.groups("fit_gbdt_by", [*call.inputs(), pl.struct(keys)], call.kwargs).alias("models")

"""How good a model's predictions are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

import polars as pl
import polars.selectors as cs

from polars_taiga import _plugin
from polars_taiga._fit import checked_on_error
from polars_taiga.custom_metric import CustomMetric, as_json, columns_of
from polars_taiga.device import checked_several
from polars_taiga.predict import check_has_rounds, checked_rounds, inputs_of, known

if TYPE_CHECKING:
    from polars_taiga._plugin import IntoColumn, IntoColumns
    from polars_taiga.gbdt import Metric
    from polars_taiga.model import Model

__all__ = ["MeasureParams", "ScoreParams", "score"]


class MeasureParams(TypedDict, total=False):
    """The keyword arguments of `score` but for `on_error`; what each means: see there."""

    metric: Metric | str | CustomMetric | None
    weight: IntoColumn | None
    group: IntoColumn | None
    event: IntoColumn | None
    lower: IntoColumn | None
    upper: IntoColumn | None
    rounds: int | None
    device: str


class ScoreParams(MeasureParams, total=False):
    """The keyword arguments of `score`; what each means: see there."""

    on_error: Literal["raise", "null"]


def score(
    model: bytes | Model | pl.Expr | str,
    target: IntoColumn,
    *features: IntoColumns,
    metric: Metric | str | CustomMetric | None = None,
    weight: IntoColumn | None = None,
    group: IntoColumn | None = None,
    event: IntoColumn | None = None,
    lower: IntoColumn | None = None,
    upper: IntoColumn | None = None,
    rounds: int | None = None,
    on_error: Literal["raise", "null"] = "raise",
    device: str = "auto",
) -> pl.Expr:
    """Measure a model's predictions of the rows against a target: one Float64.

    It sits in `select`, `group_by().agg()` (a value for each group) and `over`; rows are predicted and measured in
    one call, by the code that measures held-out rows at a fit (`fit_gbdt`'s `metric`), so the value is the same
    whatever the threads, the chunks and the device. The expression's name is `score`.

    Parameters
    ----------
    model
        As in `predict`; of an expression, one model for all rows: `pl.col("model").first()` in a group.
    target
        Numbers for a regression, as at the fit; for a classifier its labels, in any type that holds them. A label that
        the model does not know is an error. Neither null nor NaN nor infinite. Of several targets or labels a column as
        at the fit, a struct by its fields' names; the value is the mean of each target's.
    features
        As in `predict`.
    metric
        One of those of `fit_gbdt`, as `"rmse"`, `"r2"`, `"logloss"`, `"auc"`, `"f1"`, `"multiclass"` (the log loss of
        several classes), `"poisson"` (a mean deviance) or `"ndcg@5"`, or one of your own that `tg.metric` makes; where
        the name says no parameter, it is that of the fit (`docs/metrics.md`). Default: the metric of the loss's own
        name (`Model.loss`), so `rmse` for a plain regression, `logloss` or `multiclass` for classes; of a forest
        `accuracy` or `r2`.
    weight
        What each row counts for: finite, not negative, not all zero. (As of a target, one value is that of all rows.)
    group
        Which rows are ranked together, for `"ndcg"`, `"map"`, `"mrr"` and `"precision"`.
    event, lower, upper
        As in `fit_gbdt`: when the events of rows happened, for the metrics of survival, `"concordance"`,
        `"cox_nloglik"`, `"aft_nloglik"` and `"brier"`; the others do not read it.
    rounds
        As in `predict`.
    on_error
        What becomes of rows that can't be measured (there are none, all weigh 0, `auc` of one class, a target that is
        missing): `"raise"` (default) ends the query, `"null"` gives null.
    device
        As in `predict`.

    Raises
    ------
    ValueError
        For bytes that are no model, and a metric or `on_error` that there is not.
    polars.exceptions.ComputeError
        As in `predict`; for a target that is not of the model's classes; for a metric that its predictions can't be
        measured by, and where it has no value.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"g": ["a", "b"] * 50, "x": range(100)}).with_columns(y=pl.col("x") >= 50)
    >>> model = df.taiga.fit_gbdt("y", "x", rounds=20)
    >>> df.select(tg.score(model, "y", metric="accuracy")).item()
    1.0
    >>> df.group_by("g", maintain_order=True).agg(tg.score(model, "y", metric="auc"))["score"].to_list()
    [1.0, 1.0]
    """
    own = known(model)
    measure = None if metric is None else as_json("score", metric)
    if own is not None and rounds is not None:
        check_has_rounds("score", own)
    model_expr, columns = inputs_of("score", model, own, features, between=", target")
    # In structs, so that a selector is one input (`role` in src/plugin/predict/score.rs).
    roles = [pl.struct(_plugin.as_expr(target, "the target")).alias("target")]
    if weight is not None:
        roles.append(pl.struct(_plugin.as_expr(weight, "`weight`")).alias("weight"))
    if group is not None:
        roles.append(pl.struct(_plugin.as_expr(group, "`group`")).alias("group"))
    if read := columns_of(metric):
        roles.append(pl.struct(cs.by_name(*read)).alias("of_metric"))
    given = {"event": event, "lower": lower, "upper": upper}
    times = {role: column for role, column in given.items() if column is not None}
    roles += [pl.struct(_plugin.as_expr(column, f"`{role}`")).alias(role) for role, column in times.items()]
    kwargs = {
        "metric": measure,
        "weight": weight is not None,
        "group": group is not None,
        "of_metric": bool(read),
        "times": list(times),
        "on_error": checked_on_error(on_error, ("raise", "null")),
        "rounds": checked_rounds("score", rounds),
        "device": checked_several(device),
        "wanted": None if own is None else own._inner.wanted()[0],
    }
    return _plugin.scalar_of_columns("score", [model_expr, *roles, *columns], kwargs).alias("score")

"""How much each feature matters to a model, measured on rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict, cast, get_args

import polars as pl

from polars_taiga import _plugin
from polars_taiga._fit import checked_on_error
from polars_taiga.custom_metric import CustomMetric, as_json, columns_of
from polars_taiga.device import checked_several
from polars_taiga.predict import (
    _rows_to_compare,
    check_has_rounds,
    checked_rounds,
    inputs_of,
    known,
    target_by_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polars_taiga._plugin import IntoColumn, IntoColumns
    from polars_taiga.gbdt import Metric
    from polars_taiga.model import Model

__all__ = ["ImportanceKind", "ImportanceParams", "importance"]

ImportanceKind = Literal["shap", "permutation", "loss_change"]


class ImportanceParams(TypedDict, total=False):
    """The keyword arguments of `importance`; what each means: see there."""

    kind: ImportanceKind
    weight: IntoColumn | None
    group: IntoColumn | None
    event: IntoColumn | None
    lower: IntoColumn | None
    upper: IntoColumn | None
    metric: Metric | str | CustomMetric | None
    repeats: int
    seed: int
    background: pl.DataFrame | pl.LazyFrame | None
    rounds: int | None
    on_error: Literal["raise", "null"]
    device: str


def _check(kind: object, target: object, metric: object, background: object, roles: Mapping[str, object]) -> None:
    """Raise for what does not go together."""
    if kind not in get_args(ImportanceKind):
        msg = f"importance: kind={kind!r} is not one of {', '.join(map(repr, get_args(ImportanceKind)))}"
        raise ValueError(msg)
    if metric is not None:
        as_json("importance", metric)
        if columns_of(metric):
            msg = "importance: metric= reads columns beside the target; take one that reads target and prediction alone"
            raise ValueError(msg)
    if target is None and kind != "shap":
        msg = f"importance: kind={kind!r} needs the target that predictions are measured against"
        raise ValueError(msg)
    if metric is not None and kind != "permutation":
        by = "the Shapley values alone" if kind == "shap" else "the model's own loss"
        msg = f"importance: metric= is for kind='permutation'; kind={kind!r} goes by {by}"
        raise ValueError(msg)
    if kind == "shap" and (told := next((role for role, column in roles.items() if column is not None), None)):
        msg = f"importance: {told}= is for kind='permutation' and 'loss_change', which measure predictions"
        raise ValueError(msg)
    if background is not None and kind == "permutation":
        msg = "importance: background= is for kind='shap' and 'loss_change', which take Shapley values"
        raise ValueError(msg)


def _checked_integer(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        msg = f"parameter `{name}`: {value!r} is not an integer"
        raise TypeError(msg)
    number = int(value.__index__())
    if not least <= number <= most:
        msg = f"parameter `{name}`: {number} is not between {least:,} and {most:,}"
        raise ValueError(msg)
    return number


def importance(
    model: bytes | Model | pl.Expr | str,
    target: IntoColumn | None = None,
    *features: IntoColumns,
    kind: ImportanceKind = "shap",
    weight: IntoColumn | None = None,
    group: IntoColumn | None = None,
    event: IntoColumn | None = None,
    lower: IntoColumn | None = None,
    upper: IntoColumn | None = None,
    metric: Metric | str | CustomMetric | None = None,
    repeats: int = 5,
    seed: int = 0,
    background: pl.DataFrame | pl.LazyFrame | None = None,
    rounds: int | None = None,
    on_error: Literal["raise", "null"] = "raise",
    device: str = "auto",
) -> pl.Expr:
    """Measure how much each feature matters to a model's predictions of the rows.

    One list, `List(Struct({feature: String, importance: Float64}))`, the most important feature first, equal ones in
    the order of fitting. It sits in `select`, `group_by().agg()` (a list for each group) and `over`, and the value is
    the same whatever the threads and the chunks. The expression's name is `importance`.

    Parameters
    ----------
    model
        As in `predict`; of an expression, one model for all rows: `pl.col("model").first()` in a group.
    target
        As in `score`; `"shap"` does without one.
    features
        As in `predict`.
    kind
        `"shap"` (default)
            The mean size of the feature's Shapley values, in units of the raw score (of a forest: of the prediction);
            of more than two classes the sum of the classes' means, the length of the bar that `shap`'s summary plot
            stacks of them. It says what predictions are made of, right or wrong.
        `"permutation"`
            How much worse a metric is when the feature's values are shuffled among the rows [1]_: the mean over
            `repeats`, in the metric's unit. Positive where the model needs the feature, whichever way the metric
            points; about 0, and by chance below it, where it does not. On rows that the model was not fitted on it
            says what helps there. All features are shuffled alike, so a feature's value does not depend on others;
            two features that tell the same stand in for each other, and both come out small.
        `"loss_change"`
            How much the mean loss grows where the feature's Shapley values are taken from the raw scores: CatBoost's
            `LossFunctionChange` [2]_, from one walk of the rows. The loss is the model's own, as `score` measures it
            by default; of a forest the root of the mean squared error, and of its shares of classes Brier's score. Of
            losses that rank, by how much `"ndcg"` falls. Not of several targets.
    weight
        What each row counts for: finite, not negative, not all zero. Rows of weight 0 are as if they were not there.
    group, event, lower, upper
        For `"permutation"` and `"loss_change"`, of losses and metrics that read them: as in `score`.
    metric
        For `"permutation"`: as in `score`.
    repeats
        For `"permutation"`: how often each feature is shuffled, 1 to 10,000.
    seed
        For `"permutation"`: the seed of the shuffles.
    background
        For `"shap"` and `"loss_change"`: as in `predict`.
    rounds
        As in `predict`.
    on_error
        What becomes of rows that can't be measured (see `score`): `"raise"` (default) ends the query, `"null"` gives
        null.
    device
        As in `predict`.

    Raises
    ------
    ValueError
        For bytes that are no model; for a kind, metric or `on_error` that there is not; for a kind without what it
        needs, or with what it has no use for.
    polars.exceptions.ComputeError
        As in `score`, and as in `predict` for `output="shap"`.
    KeyboardInterrupt
        After Ctrl-C, as in `fit_gbdt`.

    References
    ----------
    .. [1] L. Breiman, "Random forests", Machine Learning 45, 2001; as scikit-learn's `permutation_importance`.
    .. [2] CatBoost documentation, "Feature importance".

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"g": ["a", "b"] * 50, "x": range(100)}).with_columns(z=pl.col("x") % 7)
    >>> df = df.with_columns(y=3.0 * pl.col("x") + pl.col("z"))
    >>> model = df.taiga.fit_gbdt("y", "x", "z", rounds=20)
    >>> lists = df.group_by("g", maintain_order=True).agg(tg.importance(model, "y", kind="permutation"))
    >>> lists.select(pl.col("importance").list.first().struct.field("feature"))["feature"].to_list()
    ['x', 'x']
    >>> lines = df.lazy().select(tg.importance(model)).explode("importance").unnest("importance")
    >>> lines.collect()["feature"].to_list()
    ['x', 'z']
    """
    times = {"event": event, "lower": lower, "upper": upper}
    _check(kind, target, metric, background, {"group": group, **times})
    own = known(model)
    if own is not None and rounds is not None:
        check_has_rounds("importance", own)
    model_expr, columns = inputs_of("importance", model, own, features, between=", target")
    # In structs, so that a selector is one input (`role` in src/plugin/predict/measured.rs).
    inputs = [model_expr]
    asked = kind != "shap"
    if target is not None and asked:
        inputs.append(pl.struct(_plugin.as_expr(target, "the target")).alias("target"))
    if weight is not None:
        inputs.append(pl.struct(_plugin.as_expr(weight, "`weight`")).alias("weight"))
    if group is not None:
        inputs.append(pl.struct(_plugin.as_expr(group, "`group`")).alias("group"))
    told = {role: column for role, column in times.items() if column is not None}
    inputs += [pl.struct(_plugin.as_expr(column, f"`{role}`")).alias(role) for role, column in told.items()]
    digest = None
    if background is not None:
        literal, digest = _rows_to_compare(background, columns)
        inputs.append(literal)
    kwargs = {
        "kind": kind,
        "target": asked,
        "weight": weight is not None,
        "group": group is not None,
        "times": list(told),
        "metric": None if metric is None else as_json("importance", metric),
        "repeats": _checked_integer("repeats", repeats, 1, 10_000),
        "seed": _checked_integer("seed", seed, 0, 2**63 - 1),
        "on_error": checked_on_error(on_error, ("raise", "null")),
        "rounds": checked_rounds("importance", rounds),
        "background": digest,
        "device": checked_several(device),
        "wanted": None if own is None else own._inner.wanted()[0],
    }
    return _plugin.scalar_of_columns("importance", [*inputs, *columns], kwargs).alias("importance")


def measured(
    model: Model,
    kind: str,
    data: pl.DataFrame | pl.LazyFrame,
    target: IntoColumn | None,
    *features: IntoColumns,
    weight: IntoColumn | None,
    metric: Metric | str | CustomMetric | None,
    repeats: int,
    seed: int,
    background: pl.DataFrame | pl.LazyFrame | None,
    rounds: int | None,
    device: str,
    group: IntoColumn | None = None,
    event: IntoColumn | None = None,
    lower: IntoColumn | None = None,
    upper: IntoColumn | None = None,
) -> pl.DataFrame:
    """Measure each feature's importance on the rows of a frame; see `Model.importance`."""
    if kind in ("gain", "impurity", "split", "cover"):
        msg = f"importance: kind={kind!r} is of the model itself and has no use for data="
        raise ValueError(msg)
    if not isinstance(data, pl.DataFrame | pl.LazyFrame):
        found = type(data).__name__  # type: ignore[unreachable]
        msg = f"importance: the data are a DataFrame or LazyFrame with the features among its columns, not {found}"
        raise TypeError(msg)
    expr = importance(
        model,
        target_by_name(model) if target is None else target,
        *features,
        kind=cast("ImportanceKind", kind),
        weight=weight,
        group=group,
        event=event,
        lower=lower,
        upper=upper,
        metric=metric,
        repeats=repeats,
        seed=seed,
        background=background,
        rounds=rounds,
        device=device,
    )
    with _plugin.errors():
        lines = data.lazy().select(expr).collect().item()
    values = dict(lines.struct.unnest().iter_rows())
    names = model._inner.explained_columns()
    return pl.DataFrame(
        {"feature": names, "importance": [values[name] for name in names]},
        schema={"feature": pl.String, "importance": pl.Float64},
    )

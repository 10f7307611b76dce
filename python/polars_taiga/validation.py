"""Cross-validation inside a query: models that have not seen the rows that they predict, and what they are worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_taiga import _fit, _plugin
from polars_taiga._signature import shows
from polars_taiga.custom_metric import CustomMetric, as_json
from polars_taiga.device import first
from polars_taiga.gbdt import GbdtCall, GbdtParams, Metrics
from polars_taiga.predict import predict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars.datatypes import DataType, DataTypeClass
    from typing_extensions import Unpack

    from polars_taiga._metadata import Metadata
    from polars_taiga._plugin import IntoColumn, IntoColumns
    from polars_taiga.predict import Output

__all__ = ["FoldsParams", "cross_val_predict", "cross_validate", "fit_folds"]

Folds: TypeAlias = "int | str | pl.Expr"
"""How rows are divided: a number of parts, `"group"`, `"time"`, or a column."""


class FoldsParams(GbdtParams, total=False):
    """The keyword arguments of the functions of this file: how rows are divided, and `fit_gbdt`'s."""

    folds: Folds
    n_folds: int
    fold_by: IntoColumn | None
    weight: IntoColumn | None
    group: IntoColumn | None
    position: IntoColumn | None
    event: IntoColumn | None
    lower: IntoColumn | None
    upper: IntoColumn | None
    order_by: IntoColumn | None
    row_key: IntoColumns | None
    progress: bool | None


class ValidateParams(FoldsParams, total=False):
    """The keyword arguments of `cross_validate`."""

    models: bool


class Division:
    """How the rows of a call are divided into folds (`DivisionKwargs` in src/plugin/folds.rs)."""

    def __init__(
        self,
        problems: _fit.Problems,
        folds: object,
        n_folds: object,
        fold_by: IntoColumn | None,
        group: IntoColumn | None,
        seed: object,
    ) -> None:
        """Of what the call says; what is wrong with it is noted."""
        self.by, self.parts, self.column = "parts", 5, fold_by
        number = _fit.whole(seed)
        self.seed = number if number is not None and 0 <= number < 2**64 else 0
        with problems.collect():
            if n_folds is not None:
                self.parts = _whole("n_folds", n_folds)
            if isinstance(folds, pl.Series) or getattr(folds, "ndim", None):
                msg = "parameter `folds`: values that stand in no column; add them to the frame, and name their column"
                raise TypeError(msg)
            if isinstance(folds, pl.Expr):
                self.by, self.column = "column", folds
            elif folds == "group":
                self.by, self.column = "group", group if fold_by is None else fold_by
                if self.column is None:
                    msg = 'parameter `fold_by`: folds="group" needs the column that tells the groups'
                    raise ValueError(msg)
            elif folds == "time":
                self.by = "time"
            elif isinstance(folds, str):
                self.by, self.column = "column", folds
            else:
                self.parts, self.column = _whole("folds", folds), None
            by_name = isinstance(folds, str) and folds in ("group", "time")
            if fold_by is not None and not by_name:
                msg = f'parameter `fold_by`: it is for folds="group" and "time", not {folds!r}'
                raise ValueError(msg)
            if n_folds is not None and not by_name:
                hint = f": folds={n_folds} makes so many" if isinstance(folds, int) else ""
                msg = f'parameter `n_folds`: it is for folds="group" and "time", not {folds!r}{hint}'
                raise ValueError(msg)

    def kwargs(self) -> dict[str, object]:
        """As the plugin reads it."""
        return {"by": self.by, "parts": self.parts, "seed": self.seed}


def _whole(name: str, value: object) -> int:
    """A number of folds."""
    count = _fit.whole(value)
    if count is None:
        msg = f'parameter `{name}`: {value!r} is no number of folds, nor a column, "group" or "time"'
        raise TypeError(msg)
    if not 2 <= count <= 10_000:
        msg = f"parameter `{name}`: {count} is not between 2 and 10,000"
        raise ValueError(msg)
    return count


_HELD_OUT = "each fold is held out from its model; `folds` says what they are"
_BASELINE = "predictions don't know it, and folds are measured by these; it is an argument of `fit_gbdt`"
_ARGUMENT = "it is an argument of `fit_gbdt`, of a single fit"
# Arguments of one fit, and others' names of them, which the engine takes for `fit_gbdt`'s.
_OF_ONE_FIT = {
    **dict.fromkeys(("eval", "eval_set", "eval_sets", "evals", "valid_sets", "validation_data"), _HELD_OUT),
    **dict.fromkeys(("validation_fraction", "eval_fraction"), _HELD_OUT),
    **dict.fromkeys(("baseline", "base_margin", "init_score"), _BASELINE),
    **dict.fromkeys(("init_model", "snapshot", "snapshot_every", "callback", "callbacks"), _ARGUMENT),
    **dict.fromkeys(("collective", "verbose"), _ARGUMENT),
}


class FoldsCall:
    """What a call of one of these functions says: its inputs, and what the plugin is told."""

    def __init__(
        self,
        function: str,
        target: IntoColumn,
        features: tuple[IntoColumns, ...],
        params: Mapping[str, Any],
        *,
        on_error: Any = "raise",
        metadata: Metadata | None = None,
    ) -> None:
        """Of `params`, those of `FoldsParams`."""
        own = dict(params)
        roles = {
            role: own.pop(role, None)
            for role in ("weight", "group", "position", "event", "lower", "upper", "order_by", "row_key")
        }
        folds, fold_by = own.pop("folds", 5), own.pop("fold_by", None)
        n_folds, self.progress = own.pop("n_folds", None), own.pop("progress", None)
        told = [name for name in own if name in _OF_ONE_FIT]
        for name in told:
            own.pop(name)
        # Each fold is held out.
        self.call = GbdtCall(function, target, features, own, held_out=True)
        self.division = Division(self.call.problems, folds, n_folds, fold_by, roles["group"], own.get("seed", 0))
        for name in told:
            self.call.problems.found.append((True, f"there is no parameter `{name}`: {_OF_ONE_FIT[name]}"))
        self.roles = {"target": target, **roles, "fold": self.division.column, **self.call.roles}
        self.metadata, self.on_error = metadata, on_error
        with self.call.problems.collect():
            _fit.checked_on_error(on_error, ("raise", "null"))
        self.named = self.call.named(own)

    def fit(self, params: str) -> tuple[_fit.Call, dict[str, Any]]:
        """What the fits read, and what the plugin is told besides."""
        fit = _fit.call(
            self.call.problems,
            self.call.columns,
            self.roles,
            params,
            selected=self.call.selected,
            progress=self.progress,
            on_error=self.on_error,
            metadata=self.metadata,
        )
        return fit, {"division": self.division.kwargs()}

    def measured(self, metric: Metrics | None, fields: tuple[str, ...] = ()) -> dict[str, list[str]]:
        """The metrics that are measured, and the fields that they come in, which are none of `fields`."""
        several = list(metric) if isinstance(metric, list | tuple) else [] if metric is None else [metric]
        names = [one.name if isinstance(one, CustomMetric) else str(one) for one in several] or ["score"]
        metrics: list[str] = []
        with self.call.problems.collect():
            # Those of the engine's own have been found with the other parameters.
            told = any("named twice" in text for _, text in self.call.problems.found)
            if len(set(names)) < len(names) and not told:
                msg = f"parameter `metric`: {', '.join(names)}: one of them is named twice"
                raise ValueError(msg)
            for name in names:
                if name in fields:
                    msg = f"parameter `metric`: {name!r} is the name of another field: give the metric one of its own"
                    raise ValueError(msg)
            # What is wrong with one has been noted with the other parameters.
            if not self.call.problems.found:
                metrics = [as_json(self.call.problems.function, one) for one in several]
        return {"metrics": metrics, "names": names}


@shows(FoldsParams)
def fit_folds(
    target: IntoColumn,
    *features: IntoColumns,
    on_error: Literal["raise", "null"] = "raise",
    metadata: Metadata | None = None,
    **params: Unpack[FoldsParams],
) -> pl.Expr:
    """Fit boosted trees to the rows of all folds but one, for each fold: by row, the model that has not seen it.

    A struct of as many rows as the frame: `fold` (UInt32) and `model` (Binary, what `fit_gbdt` gives), both null in
    rows that are in no fold. `tg.predict` takes the models as they stand, so `cross_val_predict` is nothing but that.
    The expression's name is `folds`.

    All folds share one coding of the numeric columns, whose borders come from all rows; of targets and of the
    categories of text columns a model knows its own rows alone. But for the borders each model is `fit_gbdt` of its
    rows, byte for byte, whatever the threads, the chunks and the device. Fits that can't keep all threads busy run side
    by side. (Stone, "Cross-validatory choice and assessment of statistical predictions", 1974.)

    Parameters
    ----------
    target, features
        As in `fit_gbdt`.
    folds
        How rows are divided; default 5. A number: so many parts at random (by `seed`), each with its share of each
        class; of losses and metrics that rank the rows of a `group`, so many parts of whole groups. A column or an
        expression: rows of one value are one fold, numbered in the order of the values; null is in no fold, and trained
        on in all. `"group"`: `n_folds` parts of about equal size, none of which divides a group of `fold_by` (or of
        `group`). `"time"`: `n_folds + 1` blocks of rows in the order of `fold_by` (of the frame, unless given); each
        but the first is predicted by the model of all blocks before it, and rows of one time stay together.
        (scikit-learn: `StratifiedKFold` or `KFold`, `PredefinedSplit`, `GroupKFold`, `TimeSeriesSplit`.)
    n_folds
        How many folds `"group"` and `"time"` make; default 5. An error beside any other `folds`.
    fold_by
        The column of the groups or of the times.
    weight, group, position, event, lower, upper, order_by
        As in `fit_gbdt`. Where a loss or a metric ranks the rows of a `group`, folds that divide one are an error.
    row_key
        As in `fit_gbdt`: which fold a row is in, and the models, then depend on the set of the rows alone. Each row
        gets its own model, in the order of the frame. `folds="time"` needs `fold_by`. The models have no receipt.
    on_error
        What becomes of the rows of a query that can't be divided (there are fewer than folds; `folds` is a column that
        has one value) or fitted, as in `fit_gbdt`: `"raise"` (default) or `"null"`.
    progress
        As in `fit_gbdt`; the rounds of all folds together.
    metadata
        What is to be said of each model.
    params
        Those of `fit_gbdt`. Under `early_stopping` the rows of a fold are held out from its fit, which ends by them
        (and by `metric`); so what is measured on them is a little too good. Without `rounds` each fit finds its own.

    Raises
    ------
    TypeError, ValueError
        As in `fit_gbdt`, and for folds that there can't be.
    polars.exceptions.ComputeError
        As in `fit_gbdt`, saying in which fold; for more folds than rows, groups or times.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") >= 50)
    >>> models = df.select(tg.fit_folds("y", "x", folds=4, rounds=10)).unnest("folds")
    >>> models.group_by("fold").agg(pl.len(), pl.col("model").n_unique()).sort("fold").rows()
    [(0, 25, 1), (1, 25, 1), (2, 25, 1), (3, 25, 1)]
    """
    fit, more = folds_call(target, features, params, on_error=on_error, metadata=metadata)
    return _plugin.whole("fit_folds", fit.inputs(), {"fit": fit.kwargs, **more}).alias("folds")


def folds_call(
    target: IntoColumn,
    features: tuple[IntoColumns, ...],
    params: Mapping[str, Any],
    *,
    on_error: Any,
    metadata: Metadata | None,
) -> tuple[_fit.Call, dict[str, Any]]:
    """What `fit_folds` reads, and what the plugin is told besides; what is wrong with it is raised."""
    own = FoldsCall("fit_folds", target, features, params, on_error=on_error, metadata=metadata)
    return own.fit(own.call.json(own.named))


@shows(FoldsParams)
def cross_val_predict(
    target: IntoColumn,
    *features: IntoColumns,
    output: Output | Sequence[Output] = "auto",
    dtype: DataType | DataTypeClass | None = None,
    on_error: Literal["raise", "null"] = "raise",
    **params: Unpack[FoldsParams],
) -> pl.Expr:
    """Predict each row by boosted trees that have not seen it, for `with_columns`.

    `tg.predict` with the models of `fit_folds`: features of a second model (stacking), residuals, thresholds, pictures
    of what a model is worth, on all rows. Null in rows that are in no fold. The expression's name is `prediction`.

    Parameters
    ----------
    target, features, on_error
        As in `fit_folds`.
    output, dtype
        As in `predict` of a model that is an expression: of more than two classes, of labels, of several targets and of
        several quantiles `dtype` says what is predicted, `pl.Struct({"a": pl.Float64, "b": pl.Float64, "c":
        pl.Float64})` say. Of `loss="gaussian"` it is known: a struct of `mean` and `variance`.
    params
        Those of `fit_folds`: `folds`, `n_folds`, `fold_by`, `weight`, and `fit_gbdt`'s.

    Raises
    ------
    TypeError, ValueError
        As in `fit_folds` and `predict`.
    polars.exceptions.ComputeError
        As in `fit_folds` and `predict`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(400)}).with_columns(y=pl.col("x") >= 200)
    >>> df = df.with_columns(p=tg.cross_val_predict("y", "x", folds=4, rounds=10))
    >>> df.select(tg.metrics.auc("y", "p")).item() > 0.95
    True

    A time series: each row by a model of the past alone.

    >>> df.select(tg.cross_val_predict("x", pl.col("x") % 7, folds="time", n_folds=3).is_null().sum()).item()
    100
    """
    models = fit_folds(target, *features, on_error=on_error, **params).struct.field("model")
    device = first(params.get("device", "auto"))
    if dtype is None and output == "auto" and params.get("loss") == "gaussian":
        dtype = pl.Struct({"mean": pl.Float64, "variance": pl.Float64})
    return predict(models, *features, output=output, dtype=dtype, device=device)


@shows(ValidateParams)
def cross_validate(
    target: IntoColumn,
    *features: IntoColumns,
    models: bool = False,
    on_error: Literal["raise", "null"] = "raise",
    **params: Unpack[FoldsParams],
) -> pl.Expr:
    """Measure boosted trees on rows that they have not seen, fold by fold: one list of structs, one for each fold.

    Each has `fold`, `train_rows`, `test_rows` and `rounds` (UInt32), a Float64 for each metric, and the `model` if
    asked for. `df.taiga.cross_validate` gives it as a DataFrame. The models are those of `fit_folds`, the values those
    that `tg.score` gives on a fold's rows. The expression's name is `cross_validation`.

    Parameters
    ----------
    target, features
        As in `fit_gbdt`.
    models
        Whether the models come along, as a field `model`.
    on_error
        What becomes of the rows of a query that can't be fitted or measured: `"raise"` (default), or `"null"`, which
        makes the list null.
    params
        Those of `fit_folds`: `folds`, `n_folds`, `fold_by`, `weight` (which weighs in the metric too), and
        `fit_gbdt`'s. `metric` is one or several, as in `score`, and fields are named so; default: that of the loss,
        named `score`. One of your own has none of the other fields' names. Under `early_stopping` the first of them
        ends the fits.

    Raises
    ------
    TypeError, ValueError
        As in `fit_folds`; for a metric that there is not.
    polars.exceptions.ComputeError
        As in `fit_folds` and `score`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(400)}).with_columns(y=pl.col("x") >= 200)
    >>> folds = df.taiga.cross_validate("y", "x", folds=4, rounds=10, metric=["auc", "accuracy"])
    >>> folds.select("fold", "train_rows", "test_rows", "rounds").rows()[0]
    (0, 300, 100, 10)
    >>> folds["auc"].mean() > 0.95
    True
    """
    fit, more = validation_call(target, features, params, models=models, on_error=on_error)
    return _plugin.scalar("cross_validate", fit.inputs(), {"fit": fit.kwargs, **more}).alias("cross_validation")


_FIELDS = ("fold", "train_rows", "test_rows", "rounds", "model")


def validation_call(
    target: IntoColumn,
    features: tuple[IntoColumns, ...],
    params: Mapping[str, Any],
    *,
    models: bool,
    on_error: Any = "raise",
) -> tuple[_fit.Call, dict[str, Any]]:
    """What `cross_validate` reads, and what the plugin is told besides; what is wrong with it is raised."""
    own = FoldsCall("cross_validate", target, features, params, on_error=on_error)
    text = own.call.json(own.named)
    with own.call.problems.collect():
        if not isinstance(models, bool):
            msg = f"parameter `models`: {models!r} is not True or False"  # type: ignore[unreachable]
            raise TypeError(msg)
    measured = own.measured(params.get("metric"), _FIELDS if models else _FIELDS[:-1])
    fit, more = own.fit(text)
    return fit, {**more, "measured": measured, "models": models}

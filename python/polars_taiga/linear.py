"""Fitting sparse logistic regression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from polars_taiga import _fit, _taiga
from polars_taiga._signature import shows

if TYPE_CHECKING:
    from os import PathLike

    import polars as pl
    from typing_extensions import Unpack

    from polars_taiga._fit import OnError
    from polars_taiga._metadata import Metadata
    from polars_taiga._plugin import IntoColumn, IntoColumns
    from polars_taiga.collective import Collective

__all__ = ["LinearParams", "fit_sparse_lr"]


ClassMetric = Literal[
    "logloss",
    "auc",
    "average_precision",
    "accuracy",
    "balanced_accuracy",
    "f1",
    "mcc",
    "ece",
    "multiclass",
]


class LinearParams(TypedDict, total=False):
    """The parameters of `fit_sparse_lr`; what each means, its default and its name elsewhere: see there."""

    features: int | None
    hash_bits: int | None
    optimizer: Literal["lbfgs", "sgd", "adagrad", "ftrl"]
    epochs: int | None
    batch: int | None
    learning_rate: float | None
    l1: float
    l2: float | None
    fit_intercept: bool
    tolerance: float | None
    class_weight: Literal["none", "balanced"] | Mapping[Any, float] | None
    positive: bool | int | float | str | None
    metric: ClassMetric | None
    early_stopping: int | None
    seed: int
    n_threads: int | None
    device: str


@shows(LinearParams)
def fit_sparse_lr(
    target: IntoColumn,
    indices: IntoColumn | None = None,
    values: IntoColumn | None = None,
    *,
    dense: IntoColumns | None = None,
    weight: IntoColumn | None = None,
    eval: IntoColumn | None = None,
    row_key: IntoColumns | None = None,
    on_error: OnError = "raise",
    snapshot: str | PathLike[str] | None = None,
    snapshot_every: int = 1,
    collective: Collective | None = None,
    progress: bool | None = None,
    metadata: Metadata | None = None,
    **params: Unpack[LinearParams],
) -> pl.Expr:
    """Fit a logistic regression on rows that are lists of features; the expression gives the model, one `Binary` value.

    A row names the few features that it has, of very many: Arrow's lists are the rows of a sparse
    matrix, and are read as they are. It sits in `select`, `with_columns`, `group_by().agg()` (a model
    for each group) and `over`. The same rows in the same order with the same parameters give the same
    bytes, whatever the number of threads, the chunks, and the integer type of the feature numbers.

    What is lowered, over the training rows with weights w and coefficients c (intercepts not among
    them)::

        sum(w * loss) / sum(w)  +  l2 / 2 * sum(c²)  +  l1 * sum(|c|)      loss = -log(probability of the row's class)

    Two classes have one score a row, the log odds of the second one; more have one each, and softmax.

    The expression's name is `model` unless you give it another.

    Parameters
    ----------
    target
        The class: a column's name, or an expression. Boolean, String, Categorical, Enum or integer;
        labels are sorted, those of an Enum stand in its order. Neither null nor NaN.
    indices
        The features of each row: List or Array of integers from 0 on, or of strings, which are hashed
        into `2 ** hash_bits` numbers; or of structs of two fields, a feature and its value. A null or
        empty list is a row without features, a null inside a list is not there, and of a feature that
        stands twice the values are added.
    values
        The value of each of `indices`: List or Array of numbers, as long as theirs. Without it each
        is 1. An entry whose value is null is not there; NaN and infinite values are errors, as are those
        beyond 1e18.
    dense
        Numeric columns beside the lists, each a feature by its name: without null, NaN and infinite
        values, or any beyond 1e18. They are not scaled: bring them to similar ranges.
    weight
        A weight for each row: finite, not negative, not all zero. A row of weight 0 is as if it were
        not there (`rows=` in the model's text counts it all the same). A factor common to all weights that is
        a power of two changes nothing but the default of `l2`, any other moves them by their rounding besides.
    eval
        A Boolean column or expression: rows on which it is true are held out. The metric is
        measured on them after each pass, and they train nothing.
    row_key
        As in `fit_gbdt`.
    on_error
        As in `fit_gbdt`. The constant is a model of intercepts alone, under `fit_intercept=False` too.
    snapshot
        A file that keeps the state of the fit, so that one that was ended goes on from there to the same bytes, as in
        `fit_gbdt`; but for `epochs`, parameters are the same. It takes, for each coefficient, 12 bytes under `"sgd"`,
        `"adagrad"` and `"ftrl"`; under `"lbfgs"` 16 and 8 for each pass before, of ten at most, and 8 for each score of
        each row.
    snapshot_every
        Every how many passes the file is written; default 1. It is not behind the last one.
    collective
        As in `fit_gbdt`: the processes that make this fit together, each with its part of the rows, whose gradients are
        added up, and over which it computes expressions: give columns, and expressions of a row alone. Under
        `"lbfgs"` alone: the other optimizers take one batch of rows after the other.
    progress
        Show a progress bar on standard error. By default only on a terminal, in long fits.
    metadata
        What is to be said of the model: JSON values by name, kept in its bytes (`Model.metadata`).
    features
        The number of features: `indices` lie below it, or the fit is an error before it begins.
        Default one more than the largest.
    hash_bits
        For strings: 1 to 30, default 20. (Hashing: Weinberger and others, 2009, without signs.)
    optimizer
        `"lbfgs"` (default; with `l1` OWL-QN: Andrew and Gao, 2007): all rows at once, to the optimum.
        `"sgd"`, `"adagrad"` (Duchi, Hazan and Singer, 2011), `"ftrl"` (McMahan and others, 2013): in
        batches of rows. Under `"lbfgs"` and `"ftrl"` `l1` makes coefficients exactly zero.
    epochs
        Passes over the rows: for `"lbfgs"` at most so many iterations, default 100; else default 5.
    batch
        Rows of a batch, not for `"lbfgs"`; default 1024, and 32 for `"sgd"`.
    learning_rate
        The step size, not for `"lbfgs"`; default 0.1.
    l1
        See above; default 0. (scikit-learn's `C` with an l1 penalty: `l1 = 1 / (C * sum(w))`.)
    l2
        See above; default `1 / sum(w)`, which is scikit-learn's `C=1`, and 0 where `l1` is given. (`l2 = 1 /
        (C * sum(w))`; `SGDClassifier(alpha=…)`: `l2 = alpha`.)
    fit_intercept
        Whether there is an intercept, which no penalty touches; default True.
    tolerance
        `"lbfgs"` ends when the gradient's length is at most this share of its first one; default 1e-4.
    class_weight, positive, seed, n_threads
        As in `fit_gbdt`.
    device
        `"auto"` (default: a GPU where there is one and the work is large enough to gain), `"cpu"`, `"cuda"` or
        `"cuda:1"`: the same model on each. Several GPUs (`"cuda:0,1"`, `"cuda:all"`) share the rows under `"lbfgs"`.
        Rows that the GPU's memory can't hold pass through it in blocks; where even those do not fit, `"auto"` is the
        CPU.
    metric
        What is measured on the held-out rows: `"logloss"` (default) for two classes, `"multiclass"` (default) for more,
        and for either `"auc"`, `"average_precision"`, `"accuracy"`, `"balanced_accuracy"`, `"f1"`, `"mcc"` or `"ece"`,
        as in `fit_gbdt`.
    early_stopping
        Stop after this many passes without a better metric, and keep the best. Needs `eval`.

    Raises
    ------
    TypeError
        For a parameter that does not exist, with what was probably meant; all that is wrong with a call
        is told at once.
    ValueError
        For a parameter that can't have its value, and where there is nothing to fit on.
    polars.exceptions.ComputeError
        When the query is planned: for types that can't be used, and parameters that do not go with the
        columns; when it runs: for values that can't be used, naming the column and the row.
    MemoryError
        Where the process can't have what it needs, as in `fit_gbdt`.
    KeyboardInterrupt
        After Ctrl-C, as in `fit_gbdt`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"words": [["good", "film"], ["bad"], ["good"], ["bad", "film"]], "liked": [True, False] * 2})
    >>> model = df.taiga.fit_sparse_lr("liked", "words")
    >>> df.select(tg.predict(model, output="class")).to_series().to_list()
    [True, False, True, False]
    >>> numbers = pl.DataFrame({"i": [[0, 7], [7], [0], [7, 9]], "liked": [True, False] * 2})
    >>> numbers.taiga.fit_sparse_lr("liked", "i").coefficients().columns
    ['feature', 'name', 'class', 'coefficient']
    """
    roles = {"weight": weight, "eval": eval, "row_key": row_key}
    training = _fit.Training(snapshot=snapshot, snapshot_every=snapshot_every, collective=collective)
    return linear_call(
        target,
        (indices, values),
        dense,
        roles,
        params,
        training=training,
        progress=progress,
        on_error=on_error,
        metadata=metadata,
    ).expr()


def linear_call(
    target: IntoColumn,
    lists: tuple[IntoColumn | None, IntoColumn | None],
    dense: IntoColumns | None,
    roles: Mapping[str, IntoColumns | None],
    params: Mapping[str, object],
    *,
    training: _fit.Training,
    progress: bool | None,
    on_error: OnError,
    metadata: Metadata | None,
) -> _fit.Call:
    """What a fit reads, and what is said of it; what is wrong with it is raised. `lists`: `indices` and `values`."""
    problems = _fit.Problems("fit_sparse_lr")
    columns = [] if dense is None else _fit.features(problems, target, (dense,))
    if lists[0] is None and (lists[1] is not None or not columns) and not problems.found:
        text = "fit_sparse_lr: there are no features; name the column of lists, `indices`, or columns, `dense`"
        problems.found.append((False, text))
    held_out = roles["eval"] is not None
    several = params.get("metric")
    if isinstance(several, list | tuple):
        problems.found.append((True, f"parameter `metric`: it is one here, and not {list(several)!r}"))
        params = {**params, "metric": None}
    text = _fit.params_json(problems, params, LinearParams, lambda json: _taiga.linear_problems(json, held_out))
    return _fit.call(
        problems,
        columns,
        {"target": target, "indices": lists[0], "values": lists[1], **roles},
        text,
        progress=progress,
        on_error=on_error,
        metadata=metadata,
        training=training,
    )

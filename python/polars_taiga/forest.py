"""Fitting random forests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from polars_taiga import _fit, _taiga
from polars_taiga._selected import Selected
from polars_taiga._signature import shows

if TYPE_CHECKING:
    from os import PathLike

    import polars as pl
    from typing_extensions import Unpack

    from polars_taiga._fit import OnError
    from polars_taiga._metadata import Metadata
    from polars_taiga._plugin import IntoColumn, IntoColumns
    from polars_taiga.collective import Collective

__all__ = ["ForestParams", "fit_forest"]


class ForestParams(TypedDict, total=False):
    """The parameters of `fit_forest`; what each means, its default and its name elsewhere: see there."""

    trees: int
    criterion: Literal["auto", "gini", "entropy", "squared_error", "poisson"]
    splitter: Literal["histogram", "exact", "random"]
    depth: int | None
    leaves: int | None
    max_features: Literal["sqrt", "log2", "all"] | int | float | None
    bootstrap: bool | float
    bins: int | Mapping[str, int] | Sequence[tuple[IntoColumns, int]]
    border_method: Literal["quantile", "uniform", "greedy_logsum", "min_max_entropy"]
    border_sample: int
    min_data_in_leaf: int
    min_gain: float
    categorical: IntoColumns
    class_weight: Literal["none", "balanced"] | Mapping[Any, float] | None
    positive: bool | int | float | str | None
    oob: bool | None
    permutation_importance: bool
    seed: int
    n_threads: int | None
    device: str


@shows(ForestParams)
def fit_forest(
    target: IntoColumn,
    *features: IntoColumns,
    weight: IntoColumn | None = None,
    row_key: IntoColumns | None = None,
    on_error: OnError = "raise",
    snapshot: str | PathLike[str] | None = None,
    snapshot_every: int = 100,
    collective: Collective | None = None,
    progress: bool | None = None,
    metadata: Metadata | None = None,
    **params: Unpack[ForestParams],
) -> pl.Expr:
    """Fit a random forest; the expression gives the model, one `Binary` value.

    Each tree grows on a bootstrap sample of the rows and looks, at every node, at some features
    only; predictions are means over the trees (Breiman, "Random forests", 2001). It sits in
    `select`, `with_columns`, `group_by().agg()` (a model for each group) and `over`. The same rows
    in the same order with the same parameters give the same bytes, whatever the number of threads
    and the chunks of the columns.

    The expression's name is `model` unless you give it another.

    Parameters
    ----------
    target
        What to predict: a column's name, or an expression. Boolean, String, Categorical and Enum
        columns are classes; numbers are a regression, or classes with `criterion="gini"` or
        `"entropy"`. Labels are sorted, those of an Enum stand in its order. Neither null nor NaN nor infinite.
    features
        Names, expressions, selectors, lists of these, or one struct of them: integers, floats,
        Boolean, Decimal and temporal types; String, Categorical and Enum columns, and those that
        `categorical` names, are categories: the 254 most frequent of a column (ties: the first to
        appear) are told apart, the others and unseen ones are one. Null and NaN are the same: missing;
        every split learns the side they go to.
    weight
        A weight for each row: finite, not negative, not all zero. A row of weight 0 is as if it were
        not there (`rows=` in the model's text counts it all the same). A factor common to all weights that is a power
        of two changes nothing, any other moves them by their rounding alone; weights below 2^-31 of the
        largest (2^-30 with more than a billion draws) count as that. (scikit-learn: `sample_weight`.)
    row_key
        As in `fit_gbdt`. `Model.oob_predictions` then come in the order of the keys (`tg.row_key_order`).
    on_error
        As in `fit_gbdt`. The constant is a tree of one leaf: the mean, or the shares of the classes,
        which are 0 and 1 where rows are of one class.
    snapshot
        A file that keeps the trees that are done, so that a fit that was ended grows the others, to the same bytes: as
        in `fit_gbdt`, with parameters that are the same but for `trees`. It is about as large as the model, each time
        that it is written.
    snapshot_every
        After how many trees each the file is written; default 100. Threads wait for the last of them, so let it be
        several times as many as there are threads, and processes of a `collective`.
    collective
        As in `fit_gbdt`: the processes that make this fit together, each with its part of the rows, over which it
        computes expressions: give columns, and expressions of a row alone. Each then has the codes of all rows (two
        bytes a value under `"histogram"`, four under the others), grows a share of the trees, and gets the forest of
        all.
    progress
        Show a progress bar on standard error. By default only on a terminal, in long fits.
    metadata
        What is to be said of the model: JSON values by name, kept in its bytes (`Model.metadata`).
    trees
        The number of trees, 1 to 1,000,000; default 100. (scikit-learn: `n_estimators`.)
    criterion
        What a split lessens: `"gini"` or `"entropy"` for classes, `"squared_error"` or `"poisson"`
        (half the Poisson deviance; targets not negative) for numbers. Default `"auto"`: gini, or
        squared_error.
    splitter
        Where a split may be. `"histogram"` (default): at one of the borders between the `bins` of each feature.
        `"exact"`: between any two distinct values. `"random"`: at one random threshold a feature
        between the node's least and greatest value (extremely randomised trees: Geurts, Ernst and
        Wehenkel, 2006).
    depth
        The largest depth; default without limit. (scikit-learn: `max_depth`.)
    leaves
        The largest number of leaves of a tree, those with the largest gains first; default without
        limit. (scikit-learn: `max_leaf_nodes`.)
    max_features
        How many features a node looks at: `"sqrt"` (of their number; the default for classes),
        `"log2"`, `"all"` (the default for numbers), a share (a float in (0, 1]) or a number (an
        int). More are drawn while all so far are constant in the node. (scikit-learn: the same name.)
    bootstrap
        True (default): as many rows as there are, drawn with replacement. A float: that share of
        them. False: all rows as they are. (scikit-learn: `bootstrap`, `max_samples`.)
    bins, border_method, border_sample
        As in `fit_gbdt`, for the histogram splitter: `bins` of some features by name or selector too; `border_method`
        is `"quantile"` unless told.
    min_data_in_leaf
        The smallest number of rows, counted as often as they were drawn, in a child; default 1.
        (scikit-learn: `min_samples_leaf`, which counts a row once.)
    min_gain
        The smallest decrease of impurity, weighted by the node's share of the rows; default 0.
        (scikit-learn: `min_impurity_decrease`.)
    categorical
        Integer and Boolean features that are categories and not numbers: a name, a selector, or a list of these, as in
        `fit_gbdt`.
    class_weight, positive
        As in `fit_gbdt`.
    oob
        Whether every row is predicted by the trees that did not draw it, for `Model.oob_score` and
        `Model.oob_predictions`, which the model then carries; default: wherever there is a bootstrap.
    permutation_importance
        Whether to measure, tree by tree on the rows that it did not draw, how much worse it predicts
        when a feature's values are shuffled (`Model.importance("permutation")`); default False.
    seed
        The seed of every random choice, a non-negative integer; default 0.
    n_threads
        Threads; default as many as Polars has. Never changes the model.
    device
        As in `fit_gbdt`; several GPUs have the whole table and a share of the trees each. A GPU grows the same
        forest under every criterion, splitter, weight and limit, of at most 255 classes and 4,096 features;
        `"cuda"` is an error for others, and `"auto"` the CPU. It predicts out of bag too;
        `permutation_importance` is measured on the CPU. What a GPU has not the memory for is done by the CPU
        under `"auto"`.

    Raises
    ------
    TypeError
        For a parameter that does not exist, with what was probably meant; all that is wrong with a call
        is told at once.
    ValueError
        For a parameter that can't have its value, no features, or a name given twice.
    polars.exceptions.ComputeError
        When the query is planned: for types that can't be used, and parameters that do not go with the
        columns; when it runs: for values that can't be used, naming the column.
    MemoryError
        Where the process can't have what it needs, as in `fit_gbdt`.
    KeyboardInterrupt
        After Ctrl-C, as in `fit_gbdt`.

    Warns
    -----
    TargetWarning
        As in `fit_gbdt`, where no criterion says what an integer target of 0 and 1 alone is.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") >= 50)
    >>> model = df.select(tg.fit_forest("y", "x", trees=20)).item()
    >>> df.with_columns(p=tg.predict(model)).filter(pl.col("p") > 0.5).height
    50
    """
    roles = {"weight": weight, "row_key": row_key}
    training = _fit.Training(snapshot=snapshot, snapshot_every=snapshot_every, collective=collective)
    return forest_call(
        target, features, roles, params, training=training, progress=progress, on_error=on_error, metadata=metadata
    ).expr()


def forest_call(
    target: IntoColumn,
    features: tuple[IntoColumns, ...],
    roles: dict[str, IntoColumns | None],
    params: Mapping[str, object],
    *,
    training: _fit.Training,
    progress: bool | None,
    on_error: OnError,
    metadata: Metadata | None,
) -> _fit.Call:
    """What a fit of a forest reads, and what is said of it; what is wrong with it is raised."""
    problems = _fit.Problems("fit_forest")
    columns = _fit.features(problems, target, features)
    if not columns and not problems.found:
        text = "fit_forest: there are no features; name at least one column besides the target"
        problems.found.append((False, text))
    selected = Selected()
    named = selected.out_of(problems, params)
    text = _fit.params_json(problems, named, ForestParams, _taiga.forest_problems)
    return _fit.call(
        problems,
        columns,
        {"target": target, **roles},
        text,
        selected=selected,
        progress=progress,
        on_error=on_error,
        metadata=metadata,
        training=training,
    )

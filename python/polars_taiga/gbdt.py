"""Fitting gradient-boosted trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

import polars as pl
import polars.selectors as cs

from polars_taiga import _fit, _taiga
from polars_taiga._selected import Selected
from polars_taiga._signature import shows
from polars_taiga.custom_metric import CustomMetric, columns_of
from polars_taiga.loss import CustomLoss

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Unpack

    from polars_taiga._callback import Callback
    from polars_taiga._fit import OnError
    from polars_taiga._metadata import Metadata
    from polars_taiga._plugin import IntoColumn, IntoColumns
    from polars_taiga.collective import Collective
    from polars_taiga.model import Model

__all__ = ["GbdtParams", "fit_gbdt"]

Loss = Literal[
    "auto",
    "rmse",
    "logloss",
    "cross_entropy",
    "focal",
    "multiclass",
    "ova",
    "multilabel",
    "mae",
    "quantile",
    "huber",
    "expectile",
    "mape",
    "log_cosh",
    "poisson",
    "gamma",
    "tweedie",
    "gaussian",
    "lambdarank",
    "pairwise",
    "xendcg",
    "yetirank",
    "cox",
    "aft",
]
Metric = Literal[
    "rmse",
    "mae",
    "r2",
    "quantile",
    "huber",
    "expectile",
    "mape",
    "rmsle",
    "log_cosh",
    "logloss",
    "cross_entropy",
    "focal",
    "auc",
    "average_precision",
    "accuracy",
    "balanced_accuracy",
    "f1",
    "mcc",
    "ece",
    "multiclass",
    "ova",
    "poisson",
    "gamma",
    "tweedie",
    "gaussian",
    "ndcg",
    "map",
    "mrr",
    "precision",
    "concordance",
    "cox_nloglik",
    "aft_nloglik",
    "brier",
    "custom",
]
Metrics: TypeAlias = Metric | str | CustomMetric | Sequence[Metric | str | CustomMetric]
"""A metric by its name, with what it takes behind an `@` (`"ndcg@5"`), or several of them."""


Ctr = Literal["borders", "buckets", "binarized_target_mean_value", "float_target_mean_value", "counter"]


class GbdtParams(TypedDict, total=False):
    """The parameters of `fit_gbdt`; what each means, its default and its name elsewhere: see there."""

    loss: Loss | CustomLoss
    multi_strategy: Literal["one_tree", "tree_each"] | None
    alpha: float | Sequence[float]
    huber_delta: float | None
    tweedie_power: float
    focal_gamma: float | None
    focal_alpha: float | None
    rank_truncation: int | None
    rank_normalize: bool
    rank_orders: int
    rank_decay: float
    rank_position_l2: float | None
    aft_distribution: Literal["normal", "logistic", "extreme"] | None
    aft_scale: float | None
    rounds: int | None
    learning_rate: float | None
    boosting: Literal["gbdt", "dart", "ordered"] | None
    drop_rate: float | None
    max_drop: int | None
    skip_drop: float | None
    uniform_drop: bool
    one_drop: bool
    normalize: Literal["paper", "tree", "forest"] | None
    policy: Literal["symmetric", "depthwise", "leafwise"]
    depth: int | None
    leaves: int | None
    bins: int | Mapping[str, int] | Sequence[tuple[IntoColumns, int]]
    border_method: Literal["quantile", "uniform", "greedy_logsum", "min_max_entropy"]
    border_sample: int
    l2: float
    l1: float
    min_child_weight: float | None
    min_data_in_leaf: int
    min_gain: float
    max_delta_step: float | None
    path_smooth: float | None
    leaf_iterations: int | None
    extra_trees: bool
    random_strength: float | None
    leaf: Literal["constant", "linear"] | None
    linear_l2: float | None
    row_sample: Literal["none", "bernoulli", "goss", "mvs", "bayesian"] | None
    row_fraction: float | None
    bagging_temperature: float | None
    feature_fraction: float
    feature_fraction_level: float
    feature_fraction_node: float
    feature_weights: Mapping[str, float] | Sequence[tuple[IntoColumns, float]] | None
    monotone: Mapping[str, int] | Sequence[tuple[IntoColumns, int]]
    interaction: Sequence[IntoColumns]
    categorical: IntoColumns
    cat_method: Literal["ctr", "one_hot", "partition"]
    one_hot_max_size: int
    ctr: Sequence[Ctr] | None
    ctr_priors: Sequence[float]
    ctr_borders: int
    target_borders: int
    permutations: int
    max_combination: int
    ctr_table_limit: int
    cat_smooth: float
    cat_l2: float
    max_cat_threshold: int
    class_weight: Literal["none", "balanced"] | Mapping[Any, float] | None
    positive: bool | int | float | str | None
    metric: Metrics | None
    eval_train: bool
    early_stopping: int | None
    early_stopping_min_delta: float | None
    seed: int
    n_threads: int | None
    bundle: bool
    device: str


@shows(GbdtParams)
def fit_gbdt(
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
    init_model: Model | bytes | IntoColumn | None = None,
    snapshot: str | PathLike[str] | None = None,
    snapshot_every: int = 100,
    callback: Callback | None = None,
    collective: Collective | None = None,
    verbose: bool | int = False,
    progress: bool | None = None,
    metadata: Metadata | None = None,
    **params: Unpack[GbdtParams],
) -> pl.Expr:
    """Fit gradient-boosted trees; the expression gives the model, one `Binary` value.

    It sits in `select`, `with_columns`, `group_by().agg()` (a model for each group) and `over`.
    The same rows in the same order with the same parameters give the same bytes, whatever the
    number of threads and the chunks of the columns. Columns are not copied; only where their
    chunks end at different rows, Polars first makes one copy of them.

    The expression's name is `model` unless you give it another.

    Parameters
    ----------
    target
        What to predict: a column's name, or an expression. Numbers for a regression. For a
        classification a Boolean, String, Categorical or Enum column, or an integer one with
        `loss="logloss"`, `"multiclass"`, `"focal"` or `"ova"`. Labels are sorted, those of an Enum stand in its order,
        and the second of two is the one whose probability is predicted (see `positive`); there are 10,000 at the most.
        Neither null nor NaN nor infinite.
        Or several targets, which share their trees unless `multi_strategy` says otherwise: a struct of numbers, or
        lists or arrays of as many numbers in each row. A prediction is then a struct with a field for each, of lists
        named `"0"`, `"1"`, …. A struct (an array, lists) of Booleans, or lists of text, are labels of which a row may
        have several, as under `loss="multilabel"`; lists of integers are with that loss. The labels of the training
        rows are those that are learned, sorted, each with a probability of its own; others are passed over.
    features
        Names, expressions, selectors, lists of these, or one struct of them: integers, floats,
        Boolean, Decimal and temporal types. Where no feature has two values the trees are single
        leaves, and predictions the mean. Null and NaN are the same: missing. Missing values
        have a bin of their own, and every split learns the side they go to. Datetimes are instants: those of a column
        with a time zone by UTC, and those of one without as if they were UTC, at the fit and at predictions alike.
        String, Categorical and Enum columns are categories as they are, and so are the integer and
        Boolean columns that `categorical` names; null is a category of its own, and `predict` takes
        what it has not seen for a category without any rows.
    weight
        A weight for each row: finite, not negative, not all zero. A row of weight 0 is as if it were
        not there: the model is that of the table without it (`rows=` in the model's text counts it all the same, and
        its values are checked all the same: its target may not be null).
        Weights of any size will do, class weights included, and a factor common to all of them that is a power of two
        changes nothing but what is in units of weights: hessians, and so `l2`, `l1`, `min_child_weight`, `min_gain`,
        `cat_smooth` and `cat_l2`. Scale those along (or leave them at 0) for the same trees; `l2` under
        `row_sample="mvs"` stays as it is there. Any other factor moves the weights by their rounding besides, which may
        decide between splits that gain about the same. Weights below 2^-126 of the largest count as about that.
    baseline
        Raw scores to start from, a column for each output (XGBoost's `base_margin`, LightGBM's
        `init_score`). `predict` does not know them: add them to its `output="raw"`.
    eval
        A Boolean column or expression: rows on which it is true are held out. The metric is
        measured on them after each round, and they train nothing. Of a `group` all rows are held out or none.
        Or a String, Categorical or Enum column of the names of held-out sets, null where a row trains: each set is
        measured by itself (`Model.history` has a column for each), and the first in the order of their names, of an
        Enum in that of its type, decides over early stopping.
    group
        A column or expression that says which rows are ranked together, such as a query's number: an integer, text,
        category or date, without nulls. Rows of a group need not stand side by side. For the losses and metrics of
        ranking; the others do not read it. (XGBoost: `qid`; LightGBM: `group`, in sizes; CatBoost: `group_id`.) Under
        `loss="cox"` and `"aft"` the strata (R: `strata()`): those at risk at a time are rows of one stratum, and so are
        the pairs that `"concordance"` counts. A stratum may have held-out rows and others.
    position
        A column or expression that says at which position each row was shown to whoever clicked on it or did not: an
        integer, text or category, without nulls, for a ranking loss beside `group`. Where the target is clicks, rows
        at the top have more of them whatever they are. So each position gets a factor, a part of its rows' scores
        while the model is fitted and of no prediction, which makes a Newton step with each round (LightGBM: `position`
        in its `Dataset`). `Model.position_factors` has what was found. Positions that are known to be examined with
        probability p are told by `baseline=pl.col("p").log()` instead.
    event
        Whether the event happened at the target's time (True) or had not until then (False: the row is censored on the
        right): a Boolean column, or numbers 0 and 1, without nulls. For the losses and metrics of survival; an error
        where none of these reads it. (lifelines: `event_col`; XGBoost: the sign of the label, or its bounds.)
    lower, upper
        In place of `event`: the least and the largest time that the event may have happened at, each the target unless
        given; the target lies between them. Equal where it was seen; infinity above where it had not happened until
        `lower`, 0 below where it had happened before `upper`. `"cox"` knows times alone that were seen or are
        still to come. (XGBoost: `label_lower_bound`, `label_upper_bound`; CatBoost: two targets, -1 for infinity.)
    order_by
        A column or expression to take the rows by, such as a time, where `cat_method="ctr"` makes statistics of
        categories: a row's are then those of the rows before it in the ascending order of this column, equal values in
        the order of the rows (with a `row_key`, of the keys), and not before it in random permutations. Whoever
        predicts the future knows no more at the fit than there is to know then. No nulls; any type that has an order;
        text, and categories that are no Enum, by their text. There is one order, so `permutations` other than 1 (and
        than the default) are an error; where no column has statistics it changes nothing; under another `cat_method`
        it is an error. It is also the order of `boosting="ordered"`, under any `cat_method`. (CatBoost:
        `has_time=True`, of rows that are sorted; `tg.target_encode` has the same parameter.)
    row_key
        A column, or several, whose values are others in each row: a number, a Boolean, temporal, text or Binary. The
        model is then one of the set of its rows: a shuffle, a streaming join or `group_by` before the fit, and rows
        dealt to the processes of `collective` in another way, give the same bytes, and it has a `Model.receipt`
        (docs/row_key.md). The rows are read in an order that the keys alone decide, which takes one copy of the
        columns. A key that is null, NaN or occurs twice is an error. The columns are no features unless they are named
        as such.
    on_error
        What becomes of the fit where its rows are at fault: of one group among many, say, which would
        end the whole query. `"raise"` (default): the query ends, with an error that names the fault, the
        number of rows, and the first target among them. `"null"`: the model is null, and so is what
        `predict` makes of it. `"constant"`: rows that are too few (none or one to train on, none held out
        where some are needed) or too alike (one class; held-out rows that leave the metric undefined) get
        a model that predicts the same for every row, the mean, or what the loss makes of the
        training rows (with a `baseline`: 0), or the shares of their classes; a class without rows has a
        probability of 1e-15, and where there is a single label, that label has 1 - 1e-15;
        where no training row counts for anything, null. Values that can't be fitted (a target, weight or
        `eval` that is null, a negative weight, a target outside the loss's domain, numbers beyond what
        floats hold) are errors under `"constant"` too. Whatever else is wrong (parameters, types, missing
        columns, memory, a device, Ctrl-C) is an error always. Never part of the model. (In a `group_by`
        of a frame without rows Polars asks once for a fit of no rows: `"raise"` raises there too.)
    init_model
        A model of `fit_gbdt` whose trees come first: a `Model`, its bytes, or a column or expression of these, of which
        null begins anew. `rounds` are then further rounds, and the random choices of each are those of its number. So
        60 rounds and 40 more are, on the same rows and with the same parameters, the bytes of a fit of 100, early
        stopping included: the model's rounds are measured on the held-out rows as well, and if one of them was the
        best, those after it are cut off. Its start values stay. Rows and parameters may be others (a smaller
        `learning_rate`, say), but not the loss, the features and their types, the classes. With other rows the borders
        of the model's splits are kept, and new trees choose from these and, as far as `bins` has room, from those of
        the rows at hand. With `cat_method="ctr"`, where columns have more than `one_hot_max_size` categories, it is an
        error: each row has a score under each permutation then, which a model does not carry; a `snapshot` does.
        (XGBoost: `xgb_model`; LightGBM, CatBoost: the same name.)
    snapshot
        A file that keeps the state of the fit, so that one that was ended, even by a power failure, goes on from there
        to the same bytes: the same call reads the file if it is there. It is replaced as a whole, as `Model.save` does,
        and stays when the fit is done. With a digest of all that was read of the rows and of the parameters, but for
        `rounds` (a longer fit goes on from it too): with others it is an error, and whoever wants to begin anew deletes
        it. It is about as large as the model and 4 bytes for each score of each row (under `"ctr"`, of each
        permutation). Its folder must be there: that is looked at when the function is called. Of one fit: those of
        groups have no file each. (CatBoost: `snapshot_file`.)
    snapshot_every
        Every how many rounds the file is written; default 100.
    callback
        A function that is called after each round: `callback(round, metrics)`, the round from 1 on (with `init_model`,
        from behind its last), and the metrics of the measured rows by their names in `Model.history`. If it returns
        true the fit ends with the rounds there are. What it raises ends the query with an error that tells it; from
        `df.taiga.fit_gbdt` and the estimators, that very exception (`SystemExit` and `KeyboardInterrupt` too). It runs
        in a thread of the query; a query within it is fine. Where `device="auto"` begins again on the CPU, rounds are
        told again. Never part of the model.
    collective
        The processes that make this fit together, each with its part of the rows (`Collective`, docs/distributed.md):
        every one gets the model, which has the bytes of one fit of all rows. Each computes expressions over its own
        rows: give columns, and expressions of a row alone, not `pl.col("a") - pl.col("a").mean()`. They fit on their
        CPUs, or with `device="cuda"` in all of them each on GPUs of its machine; `"auto"` is the CPU. `on_error` is
        `"raise"` or `"null"`. All give the same `init_model`, and a `snapshot` each, of which only rank 0's file is
        read and written. Not in a `group_by`. A `callback` that ends the fit in one ends it in all.
    verbose
        Every how many rounds a line with the metrics is written to standard error, `True` each. Default: none. For
        logs, where no bar can be drawn.
    progress
        Show a progress bar on standard error. By default only on a terminal, in long fits.
    metadata
        What is to be said of the model: JSON values by name, kept in its bytes (`Model.metadata`).
    loss
        Default `"auto"`: `"rmse"` for numbers, `"logloss"` for two classes, `"multiclass"`
        (softmax) for more. Besides, for numbers: `"mae"`, `"quantile"`, `"huber"`, `"expectile"`,
        `"mape"`, `"log_cosh"`, `"poisson"`, `"gamma"`, `"tweedie"`, `"gaussian"`, and `"cross_entropy"` for
        probabilities; for two classes `"focal"`, for two or more `"ova"`. (XGBoost, LightGBM: `objective`;
        CatBoost: `loss_function`.) Or a loss of your own, which `tg.loss` makes.
        `"expectile"` is squared error that counts `alpha` below the target and `1 - alpha` above it (Newey and
        Powell 1987). `"mape"` is absolute error in shares of the target, of 1 where that is nearer to 0, as in
        LightGBM: rows weigh so much less, and leaves are refitted as weighted medians. `"log_cosh"` is squared error
        for residuals well below 1 in the target's unit, and absolute error beyond.
        `"multilabel"` is the log loss of each of several labels (CatBoost's `MultiLogloss`): for a target that says of
        each whether a row has it, or lists those it has. Several targets of other kinds have `"rmse"`, `"mae"`,
        `"quantile"`, `"huber"` (with `huber_delta`), `"expectile"`, `"log_cosh"`, `"poisson"`, `"gamma"`,
        `"tweedie"` or `"cross_entropy"`, each target its own.
        `"focal"` is the log loss of which rows that are predicted well have a smaller part (Lin et al. 2017).
        `"ova"` fits the log loss of each class against all others by itself; the probabilities of the classes
        then don't sum to 1, as LightGBM's `multiclassova` and CatBoost's `MultiClassOneVsAll` have it.
        `"gaussian"` predicts a mean and a variance, by the likelihood of a normal distribution (natural gradients, as
        NGBoost of Duan et al. 2020 and CatBoost's `RMSEWithUncertainty`): a struct of `mean` and `variance`, and raw
        scores of the mean and of the logarithm of the standard deviation.
        To rank the rows of each `group`, a larger target before a smaller one; scores then mean nothing but an
        order: `"lambdarank"` for grades from 0 to 30 (pairs weighed by NDCG: Burges 2010, as LightGBM's and XGBoost's
        `rank:ndcg`), `"xendcg"` for grades (cross entropy with the grades, Bruch 2021: LightGBM's `rank_xendcg`),
        `"pairwise"` (all pairs alike: RankNet, Burges et al. 2005; XGBoost's `rank:pairwise`, CatBoost's
        `PairLogit`) and `"yetirank"` (neighbours in noisy orders, Gulin et al. 2011, as CatBoost's) for any numbers.
        For times until an event, of which some are censored (`event`, or `lower` and `upper`): `"cox"` predicts a
        ratio of hazards, and raw scores its logarithm (Cox's partial likelihood, ties by Efron; XGBoost's
        `survival:cox`, ties by Breslow; CatBoost's `Cox`); `"aft"` predicts a time, and raw scores its logarithm
        (accelerated failure time; `survival:aft`, `SurvivalAft`). All rows that train are at risk in the partial
        likelihood, whatever `row_sample` draws.
        `"mae"`, `"mape"` and `"quantile"` have no derivative at the target. So where at least the square root
        of the number of rows share one target (it was capped, or is often zero), theirs are spread
        evenly, to either side by 1/1024 of the targets' mean distance from the start value;
        predictions are off by no more for it. Without this, splits that gain nothing are repeated.
    multi_strategy
        Which trees several targets get. `"one_tree"`, the default: one for all of them in each round, whose leaves have
        a value for each (XGBoost's `multi_output_tree`, CatBoost's `MultiRMSE`; Zhang and Jung, "GBDT-MO", 2020). A
        split gains what it gains all targets together, each in units of the mean square of its first gradients, so
        that a target's unit is nothing to the others; `min_child_weight` is about the mean of their hessians, and
        `min_gain` about gains in those units. `monotone` does not go with it.
        `"tree_each"`: a tree for each in each round, as if each were fitted by itself. Losses
        with several scores of one target (`"multiclass"`, `"ova"`, several quantiles, `"gaussian"`) have
        `"tree_each"` unless told otherwise; but of a fit that finds its `rounds` too several classes under
        `"multiclass"` have `"one_tree"`, unless there is `monotone` or features times classes are more than 16,384
        (`docs/defaults.md`).
    alpha
        The quantile that `loss="quantile"` estimates, or the expectile that `loss="expectile"` does, inside (0, 1);
        default 0.5, the median or the mean. A list of ascending numbers, of `loss="quantile"` alone: several
        quantiles in one model, of which each round fits a tree for each. A prediction is then a struct with a field
        for each, named by its number as Python writes it (`"0.05"`, `"0.5"`), and ascends: the raw scores of a row are
        sorted, which never makes them worse (Chernozhukov, Fernández-Val and Galichon, "Quantile and Probability
        Curves Without Crossing", 2010). The metric `"quantile"` is their mean.
    huber_delta
        Where `loss="huber"` turns from squared to absolute, in units of the target. Default: the distance from the
        median that nine of ten training rows are within, by weight (Friedman 2001, section 4.4; scikit-learn's
        `alpha=0.9`, H2O's `huber_alpha`, of the first residuals); `Model.params` tells it.
    tweedie_power
        The variance power of `loss="tweedie"`, inside (1, 2); default 1.5.
    focal_gamma
        By which power of the probability of the other class a row of `loss="focal"` counts, 0 to 100; default 2.
        0 is the log loss.
    focal_alpha
        What rows of the second class count under `loss="focal"`, inside (0, 1), those of the first counting the
        rest of 1. Default: all count 1. (Lin et al. take 0.25; CatBoost: the same names.)
    rank_truncation
        Of a group's rows in the order of their scores, how many are held against all below them: default 30 under
        `loss="lambdarank"`, whose NDCG is that of so many places, and 1,000 under `"pairwise"`. (LightGBM:
        `lambdarank_truncation_level`; XGBoost: `lambdarank_num_pair_per_sample`.)
    rank_normalize
        Whether `"lambdarank"` and `"pairwise"` weigh groups with much to gain down, and `"lambdarank"` pairs by the
        distance of their scores; default True. (LightGBM: `lambdarank_norm`.)
    rank_orders
        The orders of each group that `loss="yetirank"` draws for a tree; default 10. (CatBoost: `permutations`.)
    rank_decay
        What a pair of neighbours counts less than the one before it under `loss="yetirank"`, inside (0, 1]; default
        0.85. (CatBoost: `decay`.)
    rank_position_l2
        Where rows have a `position`: what draws its factor to 0, for each unit of its rows' weight; default 0, none.
        (LightGBM: `lambdarank_position_bias_regularization`.)
    aft_distribution
        The distribution of `(ln time - score) / aft_scale` under `loss="aft"`: `"normal"` (default; times are then
        log-normal), `"logistic"` (log-logistic) or `"extreme"` (the smallest extreme value; Weibull). A prediction is
        the median of the first two, and the quantile `1 - 1/e` of the third. (XGBoost: `aft_loss_distribution`;
        CatBoost: `dist`.)
    aft_scale
        The scale of that distribution, in units of the logarithm of time, 1e-6 to 1e6; default 1. (XGBoost:
        `aft_loss_distribution_scale`; CatBoost: `scale`.)
    rounds
        Rounds of boosting, 1 to 1,000,000. A round fits a tree, and of several classes one for each of them (see
        `multi_strategy`). Default: as many as the table is worth. A fifth of the training rows is hidden (of each
        class, drawn by `seed`; about 5,000 rows at most), rounds are made without them until their loss has not fallen
        for `3 / learning_rate` of these, after `60 / learning_rate` at the latest, and then with all rows as many as
        were best, in proportion to the rows. (Of fewer than 10,000 rows one fifth after another is hidden until 2,000
        have been (a row counts once for each output), and the geometric mean of the numbers taken. Where the hidden
        rows are less than a fiftieth, the trees without them stay.) `Model.params` tells the number, and a fit that is
        given it, and of fewer than 5,000 rows `learning_rate=model.params["learning_rate"]` too, makes the same model
        (of several classes it is given `multi_strategy` besides). With `early_stopping` the rows of `eval` decide
        instead. 100 for fewer than 50 rows, a loss of one's own, the losses of ranking and of survival, and with
        `init_model` or `snapshot`.
        (`docs/defaults.md`; XGBoost: `n_estimators`; LightGBM: `num_iterations`; CatBoost: `iterations`.)
    learning_rate
        What each leaf's value is multiplied by, positive; default 0.1. Where `rounds` are not given either, less on
        tables of fewer than 5,000 training rows: `0.1 * (rows / 5000) ** 0.25`. (XGBoost: `eta`.)
    boosting
        What becomes of earlier trees while one is fitted. Default `"gbdt"`: they stay. `"dart"`: a round is fitted to
        what some of the rounds before leave, without the others, which count less from then on (Rashmi and
        Gilad-Bachrach, "DART", 2015). A model's first rounds are then not what they were when they were fitted;
        `early_stopping` keeps the best round as it was. (LightGBM: the same; XGBoost: `booster`.) `"ordered"`: rows
        have gradients at scores made without them, of leaves that were valued by the rows before them in a random
        permutation, and a split is as good as what the values that some rows give its children are for the rows behind
        these (Prokhorenkova et al., "CatBoost: unbiased boosting with categorical features", 2018). The model's leaves
        have the values that all rows give them. For small tables: several times the work and the memory of `"gbdt"`, on
        the CPU alone. Errors beside it: losses whose rows depend on each other (of ranking, `"cox"`), `monotone`,
        `leaf="linear"`, `init_model` and `snapshot`. (CatBoost: `boosting_type="Ordered"`. `docs/regularization.md`.)
    drop_rate
        The share of the rounds before that `"dart"` leaves out of a round, 0 to 1; default 0.1. (XGBoost:
        `rate_drop`; LightGBM: the same.)
    max_drop
        The most rounds that `"dart"` leaves out at a time; default 50. (LightGBM: the same.)
    skip_drop
        The share of the rounds that `"dart"` leaves nothing out of, 0 to 1; default 0.5. (LightGBM, XGBoost: the same.)
    uniform_drop
        Whether `"dart"` leaves all rounds out as often as each other; default False: in proportion to what they count.
        (LightGBM: the same; XGBoost: `sample_type`.)
    one_drop
        Whether `"dart"` leaves at least one round out of each that is not skipped; default False. (XGBoost: the same.)
    normalize
        What rounds count after `k` of them have been left out. `"paper"` (default): the new one `1 / (k + 1)`, the
        others `k / (k + 1)` of what they did (LightGBM). `"tree"`: `learning_rate` in place of the 1 below (XGBoost;
        LightGBM's `xgboost_dart_mode`). `"forest"`: all `1 / (1 + learning_rate)`. (XGBoost: `normalize_type`.)
    policy
        How a tree grows. Default `"symmetric"`: one split for all nodes of a level (CatBoost's
        oblivious trees). `"depthwise"`: a split for every node, level by level (XGBoost).
        `"leafwise"`: the leaf with the largest gain first (LightGBM).
    depth
        The largest depth, 1 to 16; default 6. Under `"leafwise"` 1 to 63, default 63: no tree is
        deeper, however many `leaves` it may have. (XGBoost, LightGBM: `max_depth`.)
    leaves
        The largest number of leaves under `"leafwise"`; default 31. (LightGBM: `num_leaves`;
        XGBoost: `max_leaves`.)
    bins
        The largest number of bins a feature, 2 to 256; default 255. Fewer are faster. Missing values have one more of
        their own (of 256 it takes one). (XGBoost, LightGBM: `max_bin`; CatBoost: `border_count` + 1.)
        `{"name": 32}`: that of some features, the others 255; with selectors a list of pairs,
        `[("age", 16), (cs.starts_with("raw_"), 64)]`. Numbers alone have bins: categories are an error. (LightGBM:
        `max_bin_by_feature`; CatBoost: `per_float_feature_quantization`.)
    border_method
        How borders are chosen: `"min_max_entropy"` (default; CatBoost's `feature_border_type`
        MinEntropy, solved greedily), `"greedy_logsum"` (CatBoost's default), `"quantile"` (as
        LightGBM) or `"uniform"`.
    border_sample
        Rows that borders are fitted on, a seeded sample; default 200,000. (LightGBM:
        `bin_construct_sample_cnt`.)
    l2
        L2 regularisation of leaf values, in units of hessians (of weights), not negative; default 1.
        (XGBoost, LightGBM: `lambda`; CatBoost: `l2_leaf_reg`.)
    l1
        L1 regularisation of leaf values, not negative; default 0. (XGBoost: `alpha`; LightGBM:
        `lambda_l1`.)
    min_child_weight
        The smallest sum of hessians in a child; default 1, and 0 under `"symmetric"`, where a split
        serves a whole level (as in CatBoost). It holds where `min_data_in_leaf` does.
        (LightGBM: `min_sum_hessian_in_leaf`.)
    min_data_in_leaf
        The smallest number of rows in a child; default 0: no rule.
        Where columns have statistics of categories (the default for text) it holds under the permutation that a tree
        grows under, and leaves have their values and counts under the first: a leaf may have fewer rows there, or
        none. `permutations=1` (`order_by` too) keeps it in the leaves, and so does a `cat_method` without statistics.
        Under `"symmetric"` one node forbids a split for its whole level if it would get a child that
        breaks this rule or `min_child_weight`, unless all its rows go to one side: every leaf that
        has rows then keeps both rules. Trees are then less deep and fit less closely: ask for less than
        under the other policies, or for a smaller `depth`. (CatBoost refuses the rule there.)
    min_gain
        The smallest gain of a split; default 0. (XGBoost: `gamma`; LightGBM:
        `min_gain_to_split`.)
    max_delta_step
        The largest absolute value of a leaf before `learning_rate`, positive, in units of raw scores; default no
        limit. Splits are scored by the values that leaves get, but where a tree's leaves are refitted (`"mae"`,
        `"quantile"`) or serve several outputs. (XGBoost: the same; LightGBM: `max_delta_step`; where XGBoost
        limits the values of `"count:poisson"` to 0.7, say so here.)
    path_smooth
        Draws the values of nodes with few rows to their parents': of `n` rows, a node's own value counts
        `n / path_smooth` times its parent's, from the root down; default 0: it is its own. Splits are scored by
        these values, but where a tree's leaves serve several outputs; leaves that are refitted (`"mae"`,
        `"quantile"`) are not smoothed. (LightGBM: the same.)
    leaf_iterations
        The Newton steps that make a leaf's value, 1 to 100; default 1. After a tree has grown, the derivatives are
        found anew at the scores that the values so far lead to (before `learning_rate`), of the rows and weights that
        the tree grew from, and each leaf takes a further step by them. So values come nearer to those that lower the
        loss most, which one step misses where the loss is no parabola (`"logloss"`, `"poisson"`, `"cox"`); `l2` holds
        back each step and not their sum, so that under `"rmse"` a leaf comes to the mean of its rows. Outputs that
        share a tree take their steps together; those that have a tree each (classes, unless `multi_strategy` says
        otherwise) each from where the others were when the round began. An error for `"mae"`, `"mape"` and
        `"quantile"`, whose leaves are quantiles. (CatBoost: `leaf_estimation_iterations` with
        `leaf_estimation_method="Newton"` and no `leaf_estimation_backtracking`.)
    extra_trees
        Whether a node may be divided at one border alone of each feature, drawn at random for each node (under
        `"symmetric"` for each level), of the subsets of categories of `cat_method="partition"` at one length;
        default False. The best of these features is taken, so that trees differ more and fit less closely (Geurts
        et al., "Extremely randomized trees", 2006). (LightGBM: the same.)
    random_strength
        How much noise is on the scores by which features are compared, drawn for each feature and node (under
        `"symmetric"` each level), in units of what a split gains by chance; default 0: none. It falls as rounds
        come together. (CatBoost: the same, 1 by default, where noise is drawn for each border as well.)
    leaf
        What leaves are. Default `"constant"`: numbers. `"linear"`: linear functions of the numeric columns on the path
        to the leaf, 16 at the most, fitted by Newton's step to its rows when the tree has grown (Shi et al., "Gradient
        Boosting With Piece-Wise Linear Regression Trees", 2018); the first round has numbers. A row with a missing
        value of one of these columns gets the leaf's number. For targets that rise and fall with columns smoothly, and
        beyond the range of what was seen. Errors beside it: losses whose leaves are refitted (`"mae"`, `"quantile"`),
        `monotone`, `max_delta_step`, `path_smooth`, `leaf_iterations`, `boosting="dart"` and `"ordered"`. Such a model
        has no Shapley values. (LightGBM: `linear_tree`. `docs/linear_leaves.md`.)
    linear_l2
        L2 regularisation of the coefficients of `leaf="linear"`, in units of hessians, not negative; default 0. It
        depends on the units of the columns; constants know nothing of it. `l2` holds the functions back besides, but
        under losses whose hessian is 1. (LightGBM: `linear_lambda`.)
    row_sample
        How rows are drawn for each tree. Default none. `"bernoulli"`: each with probability
        `row_fraction`. `"goss"`: those with the largest gradients and a random part of the others
        (LightGBM). `"mvs"`: minimal variance sampling (CatBoost). `"bayesian"`: the Bayesian
        bootstrap (Rubin 1981; CatBoost's `bootstrap_type="Bayesian"`): all rows, each with a weight
        drawn anew for every tree, which counts in its splits and in its leaves.
    row_fraction
        The share of rows drawn, inside (0, 1]; default 0.8, and 0.3 for `"goss"`. (XGBoost,
        CatBoost: `subsample`; LightGBM: `bagging_fraction`.)
    bagging_temperature
        How far the weights of `row_sample="bayesian"` lie apart, 0 to 10: each is (-ln u) to this power, u
        uniform in (0, 1]. 0: all are 1; default 1: exponential, with a mean of 1; rows of a weight too small
        for a float are not drawn. (CatBoost: the same.)
    feature_fraction
        The share of features drawn for each tree, inside (0, 1]; default 1. (XGBoost:
        `colsample_bytree`.)
    feature_fraction_level
        The share of the tree's features drawn for each level; default 1. (XGBoost:
        `colsample_bylevel`; CatBoost: `rsm`.)
    feature_fraction_node
        The share of the level's features drawn for each node, not under `"symmetric"`; default 1.
        (XGBoost: `colsample_bynode`; LightGBM: `feature_fraction_bynode`.)
    feature_weights
        `{"name": 0.5}`: what the gain of a split on a feature counts when splits are compared, 0 or more, next to the
        weights of the others; 1 for those that are not named, which is the default for all. 0: nothing is split on
        it; all of them 0 is an error. With selectors a list of pairs: `[("age", 2), (cs.starts_with("raw_"), 0.1)]`.
        What is made of several columns (statistics of combined categories) counts as the column of the least weight.
        Only ratios matter: weights that are all the same change nothing. Under `"leafwise"` leaves are
        divided in the order of weighted gains; `min_gain` and the gains that a model tells are without weights.
        With `random_strength` noise is on the scores that weighted gains give. (LightGBM: `feature_contri`, by
        position; CatBoost: `feature_weights`, where a combination has the product of its columns' weights. XGBoost's
        `feature_weights` are something else: the chances by which features are drawn.)
    monotone
        `{"name": 1}`: predictions never fall where the feature rises; -1: never rise. With selectors a list
        of pairs: `[("age", 1), (cs.starts_with("price_"), -1)]`. (XGBoost, LightGBM, CatBoost:
        `monotone_constraints`.)
    interaction
        Groups of features that may meet on one path, each names, a selector, or a list of these:
        `[["a", "b"], cs.starts_with("geo_")]`; default: all may. A feature in no group stands alone: whatever
        splits on it splits on nothing else on the same path. (XGBoost, LightGBM: `interaction_constraints`.)
    categorical
        Integer and Boolean features that are categories and not numbers: a name, a selector (`cs.integer()`), or a
        list of these. (LightGBM: `categorical_feature`; CatBoost: `cat_features`.)
        In this and the three parameters before, and in `bins`, a selector selects among the columns of the frame;
        those that are no features of the fit do not count. A feature that an expression computes is called by its
        name. The model is that of the names, to the byte.
    cat_method
        How categories are split. Default `"ctr"`: by statistics of the target, each row's from the
        rows before it in a random permutation, so that no target leaks into its own features
        (CatBoost). `"one_hot"`: by one question for each category. `"partition"`: by the best
        subset of the categories of a node, sorted by their gradients (LightGBM); not under
        `"symmetric"`. It tells the 254 most frequent categories of a column apart (ties: the first to
        appear); all others go left with the unseen ones at every split. (LightGBM leaves out the rarest
        1% and what `max_bin` has no room for.) `"ctr"` and `"one_hot"` have no such limit.
    one_hot_max_size
        Columns with at most so many categories are split by one question for each, whatever
        `cat_method`; default 2. (CatBoost: the same name; LightGBM: `max_cat_to_onehot`.)
    ctr
        The statistics: `"borders"` (share of rows above a class), `"buckets"` (share of a class),
        `"binarized_target_mean_value"`, `"float_target_mean_value"` (mean target, scaled to its
        range; of classes the mean of their places from 0 to 1), `"counter"` (how frequent a category
        is). Default borders and counter for classes, float_target_mean_value and counter for numbers.
        (CatBoost: `simple_ctr`.)
    ctr_priors
        Each statistic is `(sum + prior) / (rows + 1)`, once for each of these; default 0, 0.5, 1.
        Counters take the first alone.
    ctr_borders
        The largest number of borders of a statistic, 1 to 255; default 15.
    target_borders
        The number of borders that cut a numeric target into classes for `"borders"`, `"buckets"` and
        `"binarized_target_mean_value"`; default 1.
    permutations
        The number of permutations for statistics, and for `boosting="ordered"`, 1 to 64; default 3. With several, each
        tree grows under one of them but the first, every permutation keeps scores of its own, and leaves have
        their values under the first (CatBoost's learning and averaging permutations). With `order_by` there is one
        order and none of these: 1 is what `Model.params` tells then.
    max_combination
        The largest number of columns whose categories are combined while a tree grows, 1 to 8;
        default 2, and 1 is none. (CatBoost: `max_ctr_complexity`.)
    ctr_table_limit
        The largest number of entries in the tables of statistics that a model carries; beyond it
        the fit is an error. Default 16,777,216.
    cat_smooth, cat_l2, max_cat_threshold
        For `"partition"`: what is added to the hessians by which categories are sorted (default 10),
        to `l2` (default 10), and the largest number of categories on the smaller side (default
        32). (LightGBM: the same names.)
    class_weight
        `"balanced"`: rows of a class weigh `rows / (classes * rows of the class)`, where rows are counted, those of
        weight 0 not, and `weight` plays no other part; or a dict of a weight for each label. Either is a factor of the
        row's `weight`. Default: all weigh 1. Held-out rows have it too: what is measured on them (`Model.history`,
        `callback`, `early_stopping`) is weighed by it, and `tg.score`, `tg.cross_validate` and `tg.metrics` know
        nothing of it. (CatBoost: `auto_class_weights`, `class_weights`; scikit-learn: the same name.)
    positive
        Of two classes, the label whose probability is predicted, in its own type; it is then the last of
        `Model.classes`. Default: the last one as they stand, see `target`. (scikit-learn: `pos_label`.)
    metric
        What is measured on the held-out rows, or a list of that, `["auc", "logloss"]`, of which the first decides over
        early stopping: of numbers `"rmse"`, `"mae"`, `"r2"`, `"quantile"`, `"huber"`, `"expectile"`, `"mape"`,
        `"rmsle"`, `"log_cosh"`, `"poisson"`, `"gamma"`, `"tweedie"`, `"gaussian"` (the mean negative log likelihood);
        of classes `"logloss"`, `"cross_entropy"`, `"focal"`, `"auc"`, `"average_precision"`, `"accuracy"`,
        `"balanced_accuracy"`, `"f1"`, `"mcc"`, `"ece"` (the expected calibration error), `"multiclass"`, `"ova"` (the
        log losses of each class, in the mean); and of groups `"ndcg"`, `"map"`, `"mrr"`, `"precision"` (means
        over groups, each weighed by the mean weight of its rows; rows of equal scores count as the mean of all their
        orders; a target above 0 is relevant), and of survival `"concordance"` (Harrell's), `"cox_nloglik"` (per event,
        the held-out rows at risk among themselves), `"aft_nloglik"` and `"brier"` (integrated; docs/survival.md);
        default the loss itself, and `"ndcg"` where the loss ranks (of grades from 0 on; name another for
        others). Those of a single number are of the mean under `loss="gaussian"`. Some take a parameter behind
        an `@`: `"ndcg@5"`, `"quantile@0.9"`, `"ece@20"`, `"auc@weighted"` (`docs/metrics.md`). Or a metric of
        your own, which `tg.metric` makes. (XGBoost, CatBoost: `eval_metric`.)
    eval_train
        Whether the rows that are trained on are measured as well, after each round; default False. `Model.history` has
        them as `train`. They decide over nothing while rows are held out.
    early_stopping
        Stop after this many rounds without a better metric, and keep the best length. Needs
        `eval`. Default: never. (XGBoost, LightGBM: `early_stopping_rounds`; CatBoost: `od_wait`.)
    early_stopping_min_delta
        By more than how much the metric must be better than the best so far to count as better under `early_stopping`,
        in the metric's own unit, not negative; default 0. (LightGBM: the same name; XGBoost: `min_delta`.)
    seed
        The seed of every random choice, a non-negative integer; default 0: of which rows are hidden while
        rounds are found, of samples of rows and features, of the orders that categories' statistics
        follow. Where nothing is drawn the model is the same under every seed.
    n_threads
        Threads; default as many as Polars has. Never changes the model. (XGBoost: `nthread`.)
    bundle
        Whether columns that are mostly one value are stored by their other values alone, and those
        that exclude each other bundled into one; default True. Saves time and memory, and never
        changes the model. (LightGBM: `enable_bundle`.)
    device
        `"cpu"`; `"cuda"` or `"cuda:N"` (an NVIDIA GPU, an error where there is none); `"cuda:0,1"` or
        `"cuda:all"` (several of this machine, each with a share of the rows); or `"auto"`, the
        default: a GPU where there is one and the table is so large that it gains, else the CPU.
        A GPU that runs out of memory is an error where it is named; under `"auto"` the CPU then fits
        from the start, and `device_info()["fits"]` says so. Never changes the model.

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
        Where the process can't have what it needs, before it is taken; with both figures, and what would need less.
        (In a query it is a ComputeError with the same text.)
    KeyboardInterrupt
        After Ctrl-C, within a round. (A query that writes a file, of another thread, or under another signal
        handler than Python's own fails with a ComputeError, "interrupted".)

    Warns
    -----
    TargetWarning
        When the query runs, once for each target's name: where an integer target is 0 or 1 alone, and neither
        `loss="logloss"` nor another loss says what it is.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") >= 50)
    >>> model = df.select(tg.fit_gbdt("y", "x", rounds=10)).item()
    >>> df.with_columns(p=tg.predict(model)).filter(pl.col("p") > 0.5).height
    50
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
    training = _fit.Training(init_model, snapshot, snapshot_every, callback, verbose, collective)
    return fit_call(
        target, features, roles, params, training=training, progress=progress, on_error=on_error, metadata=metadata
    ).expr()


def fit_call(
    target: IntoColumn,
    features: tuple[IntoColumns, ...],
    roles: Mapping[str, IntoColumns | None],
    params: Mapping[str, Any],
    *,
    training: _fit.Training,
    progress: bool | None,
    on_error: OnError,
    metadata: Metadata | None,
    function: str = "fit_gbdt",
) -> _fit.Call:
    """What a call of `function` asks for: the columns of `roles` beside the target, the learner's `params`."""
    own = GbdtCall(function, target, features, params, held_out=roles["eval"] is not None)
    return _fit.call(
        own.problems,
        own.columns,
        {"target": target, **roles, **own.roles},
        own.json(own.named(params)),
        selected=own.selected,
        progress=progress,
        on_error=on_error,
        metadata=metadata,
        training=training,
    )


class GbdtCall:
    """What a call of a function that fits boosted trees says, and what is wrong with it."""

    def __init__(
        self,
        function: str,
        target: IntoColumn,
        features: tuple[IntoColumns, ...],
        params: Mapping[str, Any],
        *,
        held_out: bool,
    ) -> None:
        """Of `function`; `held_out`: whether there are rows to measure on."""
        self.problems = _fit.Problems(function)
        self.columns = _fit.features(self.problems, target, features)
        if not self.columns and not self.problems.found:
            text = f"{function}: there are no features; name at least one column besides the target"
            self.problems.found.append((False, text))
        self.held_out = held_out
        self.selected = Selected()
        # What a loss and metrics of one's own read.
        self.roles: dict[str, IntoColumns | None] = {}
        own = params.get("loss")
        if isinstance(own, CustomLoss) and own.columns:
            self.roles["loss_columns"] = cs.by_name(*own.columns)
        if held_out or params.get("eval_train"):
            read = columns_of(params.get("metric"))
            self.roles["metric_columns"] = cs.by_name(*read) if read else None

    def named(self, params: Mapping[str, Any]) -> dict[str, object]:
        """The engine's parameters: what is written by functions as formulas, selectors noted and left out."""
        own, metrics = params.get("loss"), params.get("metric")
        if isinstance(own, CustomLoss):
            # The engine's parameters are two: that the loss is one's own, and its formulas.
            params = {**params, "loss": "custom", "custom_loss": own._formulas()}
        if isinstance(metrics, CustomMetric):
            params = {**params, "metric": metrics._formulas()}
        elif isinstance(metrics, list | tuple):
            wrong = [one for one in metrics if one is None or isinstance(one, list | tuple)]
            for one in wrong[:1]:
                text = f"parameter `metric`: {one!r} is neither a metric's name nor one that tg.metric makes"
                self.problems.found.append((True, text))
            several = [one._formulas() if isinstance(one, CustomMetric) else one for one in metrics]
            params = {**params, "metric": None if wrong else several}
        if isinstance(params.get("ctr"), str):
            text = f"parameter `ctr`: it is a list of statistics, ctr=[{params['ctr']!r}]"
            self.problems.found.append((True, text))
            params = {**params, "ctr": None}
        return self.selected.out_of(self.problems, params)

    def json(self, named: Mapping[str, object]) -> str:
        """They as JSON; what is wrong with them is noted."""
        return _fit.params_json(self.problems, named, GbdtParams, self._problems)

    def _problems(self, text: str) -> list[tuple[bool, str]]:
        return _taiga.gbdt_problems(text, self.held_out)

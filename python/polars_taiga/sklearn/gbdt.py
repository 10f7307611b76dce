"""Gradient-boosted trees as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import polars.selectors as cs
from sklearn.utils.validation import check_is_fitted

from polars_taiga.gbdt import fit_gbdt
from polars_taiga.sklearn._base import Classifier, Learner, Regressor, shares
from polars_taiga.sklearn._docs import documented

if TYPE_CHECKING:
    from os import PathLike

    import numpy as np

    from polars_taiga._callback import Callback
    from polars_taiga.collective import Collective
    from polars_taiga.gbdt import Ctr, Loss, Metrics
    from polars_taiga.loss import CustomLoss
    from polars_taiga.model import Model

__all__ = ["GbdtClassifier", "GbdtRegressor"]

_OF_CLASSES = ("logloss", "multiclass", "focal", "ova", "multilabel")
SURVIVAL = ("cox", "aft")
RANKING = ("lambdarank", "pairwise", "xendcg", "yetirank")
EARLY_STOPPING = """
Stop after this many rounds without a better metric, and keep the best length. Needs `eval_set` at the fit. Default:
never. (XGBoost, LightGBM: `early_stopping_rounds`; CatBoost: `od_wait`; scikit-learn: `n_iter_no_change`.)
"""


class Gbdt(Learner):
    """What all of them have."""

    loss: str | CustomLoss
    # `valid_10` would stand before `valid_2`.
    _most_sets = 10

    _matrices: ClassVar[bool] = True

    def _fitted(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any,
        eval_set: Any,
        given: Mapping[str, Any],
        batches: Any,
        **training: Any,
    ) -> None:
        """Fit the model; `given`: columns of the training rows, by their roles, or None; `training`: what the fit
        begins with, who makes it, and who is told of it.
        """
        self._check_held_out(eval_set)
        collective = training.get("collective")
        table, features, roles = self._table(
            X, y, sample_weight, eval_set, given=given, batches=batches, collective=collective
        )
        target = roles.pop("target")
        params = {**self._params(), "loss": self._loss()}
        # By a selector: in `pl.col` a name like "^x$" would be a pattern.
        self._fit_by(fit_gbdt, table, target, cs.by_name(*features), batches=batches, **roles, **training, **params)

    def _loss(self) -> str | CustomLoss:
        """The loss that the parameter stands for."""
        raise NotImplementedError

    @property
    def feature_importances_(self) -> Any:
        """The share of each feature in the total gain; `model_.importance` knows other kinds."""
        check_is_fitted(self)
        return shares(self.model_.importance("gain")["importance"].to_numpy())

    @property
    def n_iter_(self) -> int:
        """The number of rounds that the model keeps."""
        check_is_fitted(self)
        return self.model_.rounds

    def _stages(self, X: Any) -> Iterator[list[Any]]:  # noqa: N803
        """Give what `output="auto"` gives after each round."""
        matrices = self._predicted(X, "staged")
        for k in range(self.model_.rounds):
            yield [matrix[:, k] for matrix in matrices]


@documented(
    fit_gbdt,
    loss="""
    Default `"auto"`: `"logloss"` for two classes, `"multiclass"` (softmax) for more, and `"multilabel"` for an
    indicator matrix. Besides: `"focal"` for two, and `"ova"`, each class against the others, whose probabilities don't
    sum to 1; `fit_gbdt` says more of them.
    """,
    early_stopping=EARLY_STOPPING,
)
class GbdtClassifier(Classifier, Gbdt):
    """Gradient-boosted trees for classes: `tg.fit_gbdt` as a scikit-learn estimator.

    `bins`, `feature_weights`, `monotone`, `interaction` and `categorical` take columns by their names or, as those of
    an array have none, by their positions; `monotone` and `feature_weights` may be lists with an entry for each column,
    as scikit-learn's `monotonic_cst`, and `categorical` a mask, as its `categorical_features`. pandas' categories and
    Arrow's dictionaries of numbers are categorical by themselves.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : Model
        The fitted model, a `polars_taiga.Model`: `tg.predict(est.model_)` is an expression with it.
    classes_ : ndarray of shape (n_classes,)
        The labels of `y`, sorted.
    feature_importances_ : ndarray of shape (n_features,)
        The share of each feature in the total gain; `model_.importance` knows other kinds.
    n_iter_ : int
        The number of rounds that the model keeps.
    n_features_in_ : int
        The number of columns at the fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where all are text. (The model calls those of an array x0, x1, ….)

    Examples
    --------
    >>> import polars as pl
    >>> from polars_taiga.sklearn import GbdtClassifier
    >>> X = pl.DataFrame({"x": range(100), "city": ["Turku", "Oulu"] * 50})
    >>> y = ["low"] * 50 + ["top"] * 50
    >>> GbdtClassifier(rounds=10).fit(X, y).score(X, y)
    1.0
    """

    def __init__(
        self,
        *,
        loss: Literal["auto", "logloss", "multiclass", "focal", "ova", "multilabel"] = "auto",
        multi_strategy: Literal["one_tree", "tree_each"] | None = None,
        focal_gamma: float | None = None,
        focal_alpha: float | None = None,
        rounds: int | None = None,
        learning_rate: float | None = None,
        boosting: Literal["gbdt", "dart", "ordered"] | None = None,
        drop_rate: float | None = None,
        max_drop: int | None = None,
        skip_drop: float | None = None,
        uniform_drop: bool = False,
        one_drop: bool = False,
        normalize: Literal["paper", "tree", "forest"] | None = None,
        policy: Literal["symmetric", "depthwise", "leafwise"] = "symmetric",
        depth: int | None = None,
        leaves: int | None = None,
        bins: int | Mapping[str | int, int] = 255,
        border_method: Literal["quantile", "uniform", "greedy_logsum", "min_max_entropy"] = "min_max_entropy",
        border_sample: int = 200_000,
        l2: float = 1.0,
        l1: float = 0.0,
        min_child_weight: float | None = None,
        min_data_in_leaf: int = 0,
        min_gain: float = 0.0,
        max_delta_step: float | None = None,
        path_smooth: float | None = None,
        leaf_iterations: int | None = None,
        extra_trees: bool = False,
        random_strength: float | None = None,
        leaf: Literal["constant", "linear"] | None = None,
        linear_l2: float | None = None,
        row_sample: Literal["none", "bernoulli", "goss", "mvs", "bayesian"] | None = None,
        row_fraction: float | None = None,
        bagging_temperature: float | None = None,
        feature_fraction: float = 1.0,
        feature_fraction_level: float = 1.0,
        feature_fraction_node: float = 1.0,
        feature_weights: Mapping[str | int, float] | Sequence[float] | None = None,
        monotone: Mapping[str | int, int] | Sequence[int] | None = None,
        interaction: Sequence[Sequence[str | int]] | None = None,
        categorical: str | int | Sequence[str | int] | None = None,
        cat_method: Literal["ctr", "one_hot", "partition"] = "ctr",
        one_hot_max_size: int = 2,
        ctr: Sequence[Ctr] | None = None,
        ctr_priors: Sequence[float] = (0.0, 0.5, 1.0),
        ctr_borders: int = 15,
        permutations: int = 3,
        max_combination: int = 2,
        ctr_table_limit: int = 16_777_216,
        cat_smooth: float = 10.0,
        cat_l2: float = 10.0,
        max_cat_threshold: int = 32,
        class_weight: Literal["none", "balanced"] | Mapping[Any, float] | None = None,
        metric: Metrics | None = None,
        eval_train: bool = False,
        early_stopping: int | None = None,
        early_stopping_min_delta: float | None = None,
        random_state: int | np.random.RandomState | None = 0,
        n_threads: int | None = None,
        bundle: bool = True,
        device: str = "auto",
        progress: bool | None = None,
    ) -> None:
        """Of these parameters, which `fit` checks."""
        self._keep(locals())

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        eval_set: Any = None,
        *,
        order_by: Any = None,
        row_key: Any = None,
        collective: Collective | None = None,
        batches: bool | int | Literal["auto"] = False,
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: int = 100,
        init_model: Model | bytes | None = None,
        callback: Callback | None = None,
    ) -> GbdtClassifier:
        """Fit the model.

        Parameters
        ----------
        X
            A frame of Polars, pandas, Arrow or what else narwhals knows; an array of shape (n_samples, n_features);
            or a sparse matrix of scipy's, whose absent entries are zeros. Text and categories are categories.
        y
            The labels: text, categories, Booleans or whole numbers; or an indicator matrix of shape
            (n_samples, n_labels), 1 where a row has a label and 0 where not.
        sample_weight
            A weight for each row, not negative, not all zero.
        eval_set
            Rows to measure `metric` on after each round, which train nothing: `(X, y)` or `(X, y, sample_weight)`,
            or a list of up to ten such tuples, the sets `valid_0`, `valid_1`, …, of which the first decides.
            `early_stopping` needs it; `model_.history` has what was measured.
        order_by
            A value of each row of `X`, such as its time: statistics of categories are then of the rows before a row in
            the order of these, as `tg.fit_gbdt` says.
        row_key
            A key of each row of `X`, another one for each: the model is then one of the set of the rows, as
            `tg.fit_gbdt` says. Values, or a frame or a matrix of several columns. Rows of `eval_set` have their places
            in it for keys.
        collective
            The processes that make this fit together, each with its part of the rows, as `tg.fit_gbdt` takes it.
            `classes_` are those of all rows. Labels that are whole
            numbers then need a `loss` that is named.
        batches
            Whether `X`, a `LazyFrame`, is read in batches, as `LazyFrame.taiga.fit_gbdt` does: `True`, `"auto"`, or a
            number of rows. It is never in memory as a whole then; `y` and whatever else is given of the rows is. Its
            rows are counted by a query of their own. Not beside `eval_set`, `row_key` and `collective`.
        snapshot
            A file that keeps the state of the fit, which the same call goes on from after a failure, as `tg.fit_gbdt`
            says.
        snapshot_every
            After how many rounds it is written; default 100.
        init_model
            A model whose trees come first, as `tg.fit_gbdt` takes it; `rounds` are then further ones.
        callback
            A function that is called after each round, as `tg.fit_gbdt` does; true ends the fit.

        Returns
        -------
        GbdtClassifier
            The estimator itself.

        Raises
        ------
        ValueError, TypeError
            For parameters and tables that can't be used; where Polars has an error, its text.
        """
        given = {"order_by": order_by, "row_key": row_key}
        training: dict[str, Any] = {"init_model": init_model, "callback": callback, "collective": collective}
        training |= {"snapshot": snapshot, "snapshot_every": snapshot_every}
        self._fitted(X, y, sample_weight, eval_set, given, batches, **training)
        return self

    def _loss(self) -> str | CustomLoss:
        if self.loss not in ("auto", *_OF_CLASSES):
            known = ", ".join(map(repr, ("auto", *_OF_CLASSES)))
            msg = f"parameter `loss`: {self.loss!r} is none of {known}; see GbdtRegressor"
            raise ValueError(msg)
        if self._labelled or self.loss == "multilabel":
            if not self._labelled or self.loss not in ("auto", "multilabel"):
                what = "is" if self._labelled else "is not"
                msg = f"parameter `loss`: {self.loss!r}, and y {what} an indicator matrix of several labels"
                raise ValueError(msg)
            return "multilabel"
        if self._together and self.loss == "auto":
            if self.classes_.dtype.kind in "iuf":
                if len(self.classes_) == 0:
                    msg = "y has no rows: with `collective` it needs the others' type of labels, as np.array([], str)"
                    raise ValueError(msg)
                msg = (
                    'parameter `loss`: "auto" counts the labels, of which a process has some, and whole numbers are '
                    'numbers to others: with collective name "logloss" or "multiclass"'
                )
                raise ValueError(msg)
            return "auto"
        # Integers would be numbers to `auto`.
        return self.loss if self.loss != "auto" else _OF_CLASSES[self._counted > 2]

    def decision_function(self, X: Any) -> Any:  # noqa: N803
        """Compute the scores before the link.

        Parameters
        ----------
        X
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            The log odds of the second of two classes, or a score for each of more; the log odds of each label.
        """
        return self._scores(self._predicted(X, "raw"))

    def staged_predict_proba(self, X: Any) -> Iterator[Any]:  # noqa: N803
        """Predict probabilities after each round.

        Parameters
        ----------
        X
            As in `predict`.

        Yields
        ------
        ndarray of shape (n_samples, n_classes)
        """
        for stage in self._stages(X):
            yield self._probabilities(stage)

    def staged_predict(self, X: Any) -> Iterator[Any]:  # noqa: N803
        """Predict the likeliest class after each round.

        Parameters
        ----------
        X
            As in `predict`.

        Yields
        ------
        ndarray of shape (n_samples,)
        """
        for probabilities in self.staged_predict_proba(X):
            yield self._likeliest(probabilities)


@documented(
    fit_gbdt,
    loss="""
    Default `"auto"`: `"rmse"`. Besides: `"mae"`, `"quantile"`, `"huber"`, `"expectile"`, `"mape"`, `"log_cosh"`,
    `"poisson"`, `"gamma"`, `"tweedie"`, `"gaussian"`, and `"cross_entropy"` for probabilities; or what `tg.loss` makes.
    `fit_gbdt` says more of them.
    """,
    early_stopping=EARLY_STOPPING,
)
class GbdtRegressor(Regressor, Gbdt):
    """Gradient-boosted trees for numbers: `tg.fit_gbdt` as a scikit-learn estimator.

    `bins`, `feature_weights`, `monotone`, `interaction` and `categorical` take columns by their names or, as those of
    an array have none, by their positions; `monotone` and `feature_weights` may be lists with an entry for each column,
    as scikit-learn's `monotonic_cst`, and `categorical` a mask, as its `categorical_features`. pandas' categories and
    Arrow's dictionaries of numbers are categorical by themselves.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : Model
        The fitted model, a `polars_taiga.Model`: `tg.predict(est.model_)` is an expression with it.
    feature_importances_ : ndarray of shape (n_features,)
        The share of each feature in the total gain; `model_.importance` knows other kinds.
    n_iter_ : int
        The number of rounds that the model keeps.
    n_features_in_ : int
        The number of columns at the fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where all are text. (The model calls those of an array x0, x1, ….)

    Examples
    --------
    >>> import numpy as np
    >>> from polars_taiga.sklearn import GbdtRegressor
    >>> X = np.arange(100.0).reshape(-1, 1)
    >>> y = 2 * X[:, 0]
    >>> bool(GbdtRegressor(rounds=50).fit(X, y).score(X, y) > 0.99)
    True
    """

    def __init__(
        self,
        *,
        loss: Loss | CustomLoss = "auto",
        multi_strategy: Literal["one_tree", "tree_each"] | None = None,
        alpha: float | Sequence[float] = 0.5,
        huber_delta: float | None = None,
        tweedie_power: float = 1.5,
        rounds: int | None = None,
        learning_rate: float | None = None,
        boosting: Literal["gbdt", "dart", "ordered"] | None = None,
        drop_rate: float | None = None,
        max_drop: int | None = None,
        skip_drop: float | None = None,
        uniform_drop: bool = False,
        one_drop: bool = False,
        normalize: Literal["paper", "tree", "forest"] | None = None,
        policy: Literal["symmetric", "depthwise", "leafwise"] = "symmetric",
        depth: int | None = None,
        leaves: int | None = None,
        bins: int | Mapping[str | int, int] = 255,
        border_method: Literal["quantile", "uniform", "greedy_logsum", "min_max_entropy"] = "min_max_entropy",
        border_sample: int = 200_000,
        l2: float = 1.0,
        l1: float = 0.0,
        min_child_weight: float | None = None,
        min_data_in_leaf: int = 0,
        min_gain: float = 0.0,
        max_delta_step: float | None = None,
        path_smooth: float | None = None,
        leaf_iterations: int | None = None,
        extra_trees: bool = False,
        random_strength: float | None = None,
        leaf: Literal["constant", "linear"] | None = None,
        linear_l2: float | None = None,
        row_sample: Literal["none", "bernoulli", "goss", "mvs", "bayesian"] | None = None,
        row_fraction: float | None = None,
        bagging_temperature: float | None = None,
        feature_fraction: float = 1.0,
        feature_fraction_level: float = 1.0,
        feature_fraction_node: float = 1.0,
        feature_weights: Mapping[str | int, float] | Sequence[float] | None = None,
        monotone: Mapping[str | int, int] | Sequence[int] | None = None,
        interaction: Sequence[Sequence[str | int]] | None = None,
        categorical: str | int | Sequence[str | int] | None = None,
        cat_method: Literal["ctr", "one_hot", "partition"] = "ctr",
        one_hot_max_size: int = 2,
        ctr: Sequence[Ctr] | None = None,
        ctr_priors: Sequence[float] = (0.0, 0.5, 1.0),
        ctr_borders: int = 15,
        target_borders: int = 1,
        permutations: int = 3,
        max_combination: int = 2,
        ctr_table_limit: int = 16_777_216,
        cat_smooth: float = 10.0,
        cat_l2: float = 10.0,
        max_cat_threshold: int = 32,
        metric: Metrics | None = None,
        eval_train: bool = False,
        early_stopping: int | None = None,
        early_stopping_min_delta: float | None = None,
        random_state: int | np.random.RandomState | None = 0,
        n_threads: int | None = None,
        bundle: bool = True,
        device: str = "auto",
        progress: bool | None = None,
    ) -> None:
        """Of these parameters, which `fit` checks."""
        self._keep(locals())

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        eval_set: Any = None,
        *,
        order_by: Any = None,
        row_key: Any = None,
        collective: Collective | None = None,
        batches: bool | int | Literal["auto"] = False,
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: int = 100,
        init_model: Model | bytes | None = None,
        callback: Callback | None = None,
    ) -> GbdtRegressor:
        """Fit the model.

        Parameters
        ----------
        X
            A frame of Polars, pandas, Arrow or what else narwhals knows; an array of shape (n_samples, n_features);
            or a sparse matrix of scipy's, whose absent entries are zeros. Text and categories are categories.
        y
            The numbers to predict; several of each row in a matrix of shape (n_samples, n_targets).
        sample_weight
            A weight for each row, not negative, not all zero.
        eval_set
            Rows to measure `metric` on after each round, which train nothing: `(X, y)` or `(X, y, sample_weight)`,
            or a list of up to ten such tuples, the sets `valid_0`, `valid_1`, …, of which the first decides.
            `early_stopping` needs it; `model_.history` has what was measured.
        order_by
            A value of each row of `X`, such as its time: statistics of categories are then of the rows before a row in
            the order of these, as `tg.fit_gbdt` says.
        row_key
            A key of each row of `X`, another one for each: the model is then one of the set of the rows, as
            `tg.fit_gbdt` says. Values, or a frame or a matrix of several columns. Rows of `eval_set` have their places
            in it for keys.
        collective
            The processes that make this fit together, each with its part of the rows, as `tg.fit_gbdt` takes it.
        batches
            Whether `X`, a `LazyFrame`, is read in batches, as `LazyFrame.taiga.fit_gbdt` does: `True`, `"auto"`, or a
            number of rows. It is never in memory as a whole then; `y` and whatever else is given of the rows is. Its
            rows are counted by a query of their own. Not beside `eval_set`, `row_key` and `collective`.
        snapshot
            A file that keeps the state of the fit, which the same call goes on from after a failure, as `tg.fit_gbdt`
            says.
        snapshot_every
            After how many rounds it is written; default 100.
        init_model
            A model whose trees come first, as `tg.fit_gbdt` takes it; `rounds` are then further ones.
        callback
            A function that is called after each round, as `tg.fit_gbdt` does; true ends the fit.

        Returns
        -------
        GbdtRegressor
            The estimator itself.

        Raises
        ------
        ValueError, TypeError
            For parameters and tables that can't be used; where Polars has an error, its text.
        """
        given = {"order_by": order_by, "row_key": row_key}
        training: dict[str, Any] = {"init_model": init_model, "callback": callback, "collective": collective}
        training |= {"snapshot": snapshot, "snapshot_every": snapshot_every}
        self._fitted(X, y, sample_weight, eval_set, given, batches, **training)
        return self

    def _params(self) -> dict[str, Any]:
        """The keyword arguments of the function that fits."""
        # scikit-learn's checks give any regressor one that has it; as there, it is nothing to a loss that reads none.
        reads = self.metric is not None or self.loss in ("quantile", "expectile")
        return {**super()._params(), "alpha": self.alpha if reads else None}

    def _loss(self) -> str | CustomLoss:
        if self.loss in _OF_CLASSES:
            msg = f"parameter `loss`: {self.loss!r} is for classes; see GbdtClassifier"
            raise ValueError(msg)
        if self.loss in RANKING:
            msg = f"parameter `loss`: {self.loss!r} is for ranking; see GbdtRanker"
            raise ValueError(msg)
        if self.loss in SURVIVAL:
            msg = f"parameter `loss`: {self.loss!r} reads when events happened, which `y` does not say; see tg.fit_gbdt"
            raise ValueError(msg)
        return self.loss

    def staged_predict(self, X: Any) -> Iterator[Any]:  # noqa: N803
        """Predict the target after each round.

        Parameters
        ----------
        X
            As in `predict`.

        Yields
        ------
        ndarray of shape (n_samples,)
        """
        for stage in self._stages(X):
            yield self._numbers(stage)

"""Gradient-boosted trees that rank, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import polars as pl

from polars_taiga.gbdt import fit_gbdt
from polars_taiga.sklearn import _data
from polars_taiga.sklearn._docs import documented
from polars_taiga.sklearn.gbdt import EARLY_STOPPING, RANKING, Gbdt

if TYPE_CHECKING:
    from os import PathLike

    from polars_taiga._callback import Callback
    from polars_taiga.collective import Collective
    from polars_taiga.gbdt import Ctr, Metrics
    from polars_taiga.loss import CustomLoss
    from polars_taiga.model import Model

__all__ = ["GbdtRanker"]


@documented(
    fit_gbdt,
    loss="""
Default `"lambdarank"`: pairs weighed by NDCG, for grades from 0 to 30, as `"xendcg"`; `"pairwise"` and `"yetirank"` are
for any numbers. See `tg.fit_gbdt`.
""",
    early_stopping=EARLY_STOPPING,
)
class GbdtRanker(Gbdt):
    """Gradient-boosted trees that rank the rows of groups: `tg.fit_gbdt` as a scikit-learn estimator.

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
    >>> from polars_taiga.sklearn import GbdtRanker
    >>> X = np.arange(100.0).reshape(-1, 1)
    >>> grade, query = np.arange(100) // 25, np.arange(100) % 10
    >>> scores = GbdtRanker(rounds=20).fit(X, grade, group=query).predict(X)
    >>> bool(scores[99] > scores[0])
    True
    """

    _grouped: ClassVar[bool] = True
    _matrices: ClassVar[bool] = False

    def __init__(
        self,
        *,
        loss: Literal["lambdarank", "pairwise", "xendcg", "yetirank"] = "lambdarank",
        rank_truncation: int | None = None,
        rank_normalize: bool = True,
        rank_orders: int = 10,
        rank_decay: float = 0.85,
        rank_position_l2: float | None = None,
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
        group: Any = None,
        eval_set: Any = None,
        position: Any = None,
        *,
        order_by: Any = None,
        row_key: Any = None,
        collective: Collective | None = None,
        batches: bool | int | Literal["auto"] = False,
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: int = 100,
        init_model: Model | bytes | None = None,
        callback: Callback | None = None,
    ) -> GbdtRanker:
        """Fit the model.

        Parameters
        ----------
        X
            A frame of Polars, pandas, Arrow or what else narwhals knows; an array of shape (n_samples, n_features);
            or a sparse matrix of scipy's, whose absent entries are zeros. Text and categories are categories.
        y
            The grades, or numbers of which larger ones stand first.
        group
            The group of each row, such as its query's number: integers or text. Rows of a group need not stand side by
            side. Default: all rows are one group.
        eval_set
            Groups to measure `metric` on after each round, which train nothing: `(X, y, group)`, or a list of up to
            ten such tuples, the sets `valid_0`, `valid_1`, …, of which the first decides. `early_stopping` needs it;
            `model_.history` has what was measured.
        position
            The position at which each row of `X` was shown, where `y` is clicks: integers or text. See `tg.fit_gbdt`;
            `model_.position_factors` has what was found.
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
        GbdtRanker
            The estimator itself.

        Raises
        ------
        ValueError, TypeError
            For parameters and tables that can't be used; where Polars has an error, its text.
        """
        given = {"position": position, "order_by": order_by, "row_key": row_key}
        training: dict[str, Any] = {"init_model": init_model, "callback": callback, "collective": collective}
        training |= {"snapshot": snapshot, "snapshot_every": snapshot_every}
        self._fitted(X, y, group, eval_set, given, batches, **training)
        return self

    def _loss(self) -> str | CustomLoss:
        if self.loss not in RANKING:
            msg = f"parameter `loss`: {self.loss!r} does not rank; {', '.join(map(repr, RANKING))} do"
            raise ValueError(msg)
        return self.loss

    def _target(self, y: Any, *, reset: bool, weights: pl.Series | None = None) -> pl.Series:
        return pl.Series(_data.as_target(y, type(self).__name__).astype(np.float64))

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Predict a score for each row, by which the rows of a group stand from the highest to the lowest.

        Parameters
        ----------
        X
            A table of any kind that `fit` takes, with the same columns.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._predicted(X, "auto")[0]

    def staged_predict(self, X: Any) -> Iterator[Any]:  # noqa: N803
        """Predict the scores after each round.

        Parameters
        ----------
        X
            As in `predict`.

        Yields
        ------
        ndarray of shape (n_samples,)
        """
        for stage in self._stages(X):
            yield stage[0]

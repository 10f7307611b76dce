"""Random forests as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import polars.selectors as cs
from sklearn.utils.validation import check_is_fitted

from polars_taiga.forest import fit_forest
from polars_taiga.sklearn._base import Classifier, Learner, Regressor, shares
from polars_taiga.sklearn._docs import documented

if TYPE_CHECKING:
    from os import PathLike

    import numpy as np

    from polars_taiga.collective import Collective

__all__ = ["ForestClassifier", "ForestRegressor"]

_OF_CLASSES = ("gini", "entropy")


class _Forest(Learner):
    """What both have."""

    criterion: str

    def _fitted(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any,
        row_key: Any,
        collective: Collective | None,
        batches: Any,
        **kept: Any,
    ) -> None:
        """Fit the model; `kept`: where the state of the fit is kept, and how often."""
        given = {"row_key": row_key}
        table, features, roles = self._table(X, y, sample_weight, given=given, batches=batches, collective=collective)
        target = roles.pop("target")
        params = {**self._params(), "criterion": self._criterion()}
        # By a selector: in `pl.col` a name like "^x$" would be a pattern.
        how: dict[str, Any] = {**roles, **params}
        how.update(batches=batches, collective=collective, **kept)
        self._fit_by(fit_forest, table, target, cs.by_name(*features), **how)

    def _criterion(self) -> str:
        """The criterion that the parameter stands for."""
        raise NotImplementedError

    @property
    def feature_importances_(self) -> Any:
        """The share of each feature in what splits lower the impurity by."""
        check_is_fitted(self)
        return shares(self.model_.importance("impurity")["importance"].to_numpy())

    @property
    def oob_score_(self) -> float:
        """The accuracy, or R² for numbers, of the out-of-bag predictions."""
        check_is_fitted(self)
        score = self.model_.oob_score
        if score is None:
            msg = "oob_score_: this forest has no out-of-bag predictions; they need bootstrap and oob=True or None"
            raise AttributeError(msg)
        return score


@documented(fit_forest)
class ForestClassifier(Classifier, _Forest):
    """A random forest for classes: `tg.fit_forest` as a scikit-learn estimator.

    `bins` and `categorical` take columns by their names or, as those of an array have none, by their positions;
    `categorical` may be a mask with an entry for each column, as scikit-learn's `categorical_features`. pandas'
    categories and Arrow's dictionaries of numbers are categorical by themselves.

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
        The share of each feature in what splits lower the impurity by; `model_.importance` knows other kinds.
    oob_score_ : float
        The accuracy of the out-of-bag predictions, where they were made.
    n_features_in_ : int
        The number of columns at the fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where all are text. (The model calls those of an array x0, x1, ….)

    Examples
    --------
    >>> import polars as pl
    >>> from polars_taiga.sklearn import ForestClassifier
    >>> X = pl.DataFrame({"x": range(100), "city": ["Turku", "Oulu"] * 50})
    >>> y = ["low"] * 50 + ["top"] * 50
    >>> ForestClassifier(trees=20).fit(X, y).predict(X).tolist() == y
    True
    """

    def __init__(
        self,
        *,
        trees: int = 100,
        criterion: Literal["auto", "gini", "entropy"] = "auto",
        splitter: Literal["histogram", "exact", "random"] = "histogram",
        depth: int | None = None,
        leaves: int | None = None,
        max_features: Literal["sqrt", "log2", "all"] | int | float | None = None,
        bootstrap: bool | float = True,
        bins: int | Mapping[str | int, int] = 255,
        border_method: Literal["quantile", "uniform", "greedy_logsum", "min_max_entropy"] = "quantile",
        border_sample: int = 200_000,
        min_data_in_leaf: int = 1,
        min_gain: float = 0.0,
        categorical: str | int | Sequence[str | int] | None = None,
        class_weight: Literal["none", "balanced"] | Mapping[Any, float] | None = None,
        oob: bool | None = None,
        permutation_importance: bool = False,
        random_state: int | np.random.RandomState | None = 0,
        n_threads: int | None = None,
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
        *,
        row_key: Any = None,
        collective: Collective | None = None,
        batches: bool | int | Literal["auto"] = False,
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: int = 100,
    ) -> ForestClassifier:
        """Fit the model.

        Parameters
        ----------
        X
            A frame of Polars, pandas, Arrow or what else narwhals knows; an array of shape (n_samples, n_features);
            or a sparse matrix of scipy's, whose absent entries are zeros. Text and categories are categories.
        y
            The labels: text, categories, Booleans or whole numbers.
        sample_weight
            A weight for each row, not negative, not all zero.
        row_key
            A key of each row of `X`, another one for each: the model is then one of the set of the rows, as
            `tg.fit_gbdt` says. Values, or a frame or a matrix of several columns.
        collective
            The processes that make this fit together, each with its part of the rows, as `tg.fit_gbdt` takes it.
            `classes_` are those of all rows.
        batches
            Whether `X`, a `LazyFrame`, is read in batches, as `LazyFrame.taiga.fit_forest` does: `True`, `"auto"`, or a
            number of rows. It is never in memory as a whole then; `y` and whatever else is given of the rows is. Its
            rows are counted by a query of their own. Not beside `row_key` and `collective`.
        snapshot
            A file that keeps the state of the fit, which the same call goes on from after a failure, as `tg.fit_forest`
            says.
        snapshot_every
            After how many trees it is written; default 100.

        Returns
        -------
        ForestClassifier
            The estimator itself.

        Raises
        ------
        ValueError, TypeError
            For parameters and tables that can't be used; where Polars has an error, its text.
        """
        kept = {"snapshot": snapshot, "snapshot_every": snapshot_every}
        self._fitted(X, y, sample_weight, row_key, collective, batches, **kept)
        return self

    def _criterion(self) -> str:
        if self.criterion not in ("auto", *_OF_CLASSES):
            msg = f"parameter `criterion`: {self.criterion!r} is none of 'auto', 'gini', 'entropy'; see ForestRegressor"
            raise ValueError(msg)
        # Integers would be numbers to `auto`.
        return self.criterion if self.criterion != "auto" else "gini"


@documented(fit_forest)
class ForestRegressor(Regressor, _Forest):
    """A random forest for numbers: `tg.fit_forest` as a scikit-learn estimator.

    `bins` and `categorical` take columns by their names or, as those of an array have none, by their positions;
    `categorical` may be a mask with an entry for each column, as scikit-learn's `categorical_features`. pandas'
    categories and Arrow's dictionaries of numbers are categorical by themselves.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : Model
        The fitted model, a `polars_taiga.Model`: `tg.predict(est.model_)` is an expression with it.
    feature_importances_ : ndarray of shape (n_features,)
        The share of each feature in what splits lower the impurity by; `model_.importance` knows other kinds.
    oob_score_ : float
        The R² of the out-of-bag predictions, where they were made.
    n_features_in_ : int
        The number of columns at the fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where all are text. (The model calls those of an array x0, x1, ….)

    Examples
    --------
    >>> import numpy as np
    >>> from polars_taiga.sklearn import ForestRegressor
    >>> X = np.arange(100.0).reshape(-1, 1)
    >>> y = 2 * X[:, 0]
    >>> bool(ForestRegressor(trees=50).fit(X, y).score(X, y) > 0.99)
    True
    """

    def __init__(
        self,
        *,
        trees: int = 100,
        criterion: Literal["auto", "squared_error", "poisson"] = "auto",
        splitter: Literal["histogram", "exact", "random"] = "histogram",
        depth: int | None = None,
        leaves: int | None = None,
        max_features: Literal["sqrt", "log2", "all"] | int | float | None = None,
        bootstrap: bool | float = True,
        bins: int | Mapping[str | int, int] = 255,
        border_method: Literal["quantile", "uniform", "greedy_logsum", "min_max_entropy"] = "quantile",
        border_sample: int = 200_000,
        min_data_in_leaf: int = 1,
        min_gain: float = 0.0,
        categorical: str | int | Sequence[str | int] | None = None,
        oob: bool | None = None,
        permutation_importance: bool = False,
        random_state: int | np.random.RandomState | None = 0,
        n_threads: int | None = None,
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
        *,
        row_key: Any = None,
        collective: Collective | None = None,
        batches: bool | int | Literal["auto"] = False,
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: int = 100,
    ) -> ForestRegressor:
        """Fit the model.

        Parameters
        ----------
        X
            A frame of Polars, pandas, Arrow or what else narwhals knows; an array of shape (n_samples, n_features);
            or a sparse matrix of scipy's, whose absent entries are zeros. Text and categories are categories.
        y
            The numbers to predict.
        sample_weight
            A weight for each row, not negative, not all zero.
        row_key
            A key of each row of `X`, another one for each: the model is then one of the set of the rows, as
            `tg.fit_gbdt` says. Values, or a frame or a matrix of several columns.
        collective
            The processes that make this fit together, each with its part of the rows, as `tg.fit_gbdt` takes it.
        batches
            Whether `X`, a `LazyFrame`, is read in batches, as `LazyFrame.taiga.fit_forest` does: `True`, `"auto"`, or a
            number of rows. It is never in memory as a whole then; `y` and whatever else is given of the rows is. Its
            rows are counted by a query of their own. Not beside `row_key` and `collective`.
        snapshot
            A file that keeps the state of the fit, which the same call goes on from after a failure, as `tg.fit_forest`
            says.
        snapshot_every
            After how many trees it is written; default 100.

        Returns
        -------
        ForestRegressor
            The estimator itself.

        Raises
        ------
        ValueError, TypeError
            For parameters and tables that can't be used; where Polars has an error, its text.
        """
        kept = {"snapshot": snapshot, "snapshot_every": snapshot_every}
        self._fitted(X, y, sample_weight, row_key, collective, batches, **kept)
        return self

    def _criterion(self) -> str:
        if self.criterion in _OF_CLASSES:
            msg = f"parameter `criterion`: {self.criterion!r} is for classes; see ForestClassifier"
            raise ValueError(msg)
        return self.criterion

"""Sparse logistic regression as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import polars as pl
import polars.selectors as cs
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from polars_taiga._names import by_name
from polars_taiga.linear import ClassMetric, fit_sparse_lr
from polars_taiga.sklearn import _data
from polars_taiga.sklearn._base import Classifier, Learner
from polars_taiga.sklearn._docs import documented

if TYPE_CHECKING:
    from os import PathLike

    from polars_taiga.collective import Collective

__all__ = ["SparseLogisticRegression"]


@documented(
    fit_sparse_lr,
    indices="""
    The column of lists, by its name or position: lists of feature numbers, of text, or of structs of a feature and its
    value. Default: the only column of lists, if there is one. Not for arrays and sparse matrices.
    """,
    values="The column of the values of each of `indices`, by its name or position. Default: each is 1.",
    features="""
    The number of features that `indices` name, which lie below it; default one more than the largest. Of a sparse
    matrix it is always the number of columns.
    """,
    early_stopping="""
    Stop after this many passes without a better metric, and keep the best. Needs `eval_set` at the fit.
    """,
)
class SparseLogisticRegression(Classifier, Learner):
    """Logistic regression on sparse rows: `tg.fit_sparse_lr` as a scikit-learn estimator.

    A sparse matrix is fitted as it is, row by row, with as many columns as it has. The numeric columns of an array or
    a frame are the function's `dense`, and a frame's column of lists its `indices`. A model that was fitted on
    the one takes the other for its predictions, lists excepted.

    What is lowered, over the training rows with weights w and coefficients c (intercepts not among them)::

        sum(w * loss) / sum(w)  +  l2 / 2 * sum(c²)  +  l1 * sum(|c|)

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : Model
        The fitted model, a `polars_taiga.Model`.
    classes_ : ndarray of shape (n_classes,)
        The labels of `y`, sorted.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The coefficients, one row for two classes. Where a column holds lists it is not there: `model_.coefficients()`
        has them. Zeros for a class whose rows all weigh 0.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercepts; minus infinity for a class whose rows all weigh 0.
    n_iter_ : int
        The number of passes over the rows that the model keeps.
    n_features_in_ : int
        The number of columns at the fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where all are text. (The model calls those of a dense array x0, x1, ….)

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from polars_taiga.sklearn import SparseLogisticRegression
    >>> X = csr_array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [3.0, 0.0, 0.0], [0.0, 2.0, 1.0]])
    >>> est = SparseLogisticRegression().fit(X, ["a", "b", "a", "b"])
    >>> est.predict(X).tolist()
    ['a', 'b', 'a', 'b']
    >>> est.coef_.shape
    (1, 3)
    """

    _sparse: ClassVar[str | bool] = "csr"
    _missing: ClassVar[bool] = False

    indices: str | int | None
    values: str | int | None
    features: int | None

    def __init__(
        self,
        *,
        indices: str | int | None = None,
        values: str | int | None = None,
        features: int | None = None,
        hash_bits: int | None = None,
        optimizer: Literal["lbfgs", "sgd", "adagrad", "ftrl"] = "lbfgs",
        epochs: int | None = None,
        batch: int | None = None,
        learning_rate: float | None = None,
        l1: float = 0.0,
        l2: float | None = None,
        fit_intercept: bool = True,
        tolerance: float | None = None,
        class_weight: Literal["none", "balanced"] | Mapping[Any, float] | None = None,
        metric: ClassMetric | None = None,
        early_stopping: int | None = None,
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
        eval_set: Any = None,
        *,
        row_key: Any = None,
        collective: Collective | None = None,
        batches: bool | int | Literal["auto"] = False,
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: int = 1,
    ) -> SparseLogisticRegression:
        """Fit the model.

        Parameters
        ----------
        X
            A sparse matrix of scipy's of shape (n_samples, n_features); an array; or a frame of Polars, pandas, Arrow
            or what else narwhals knows, whose columns are numbers, one of them lists perhaps. No missing values.
        y
            The labels: text, categories, Booleans or whole numbers.
        sample_weight
            A weight for each row, not negative, not all zero.
        eval_set
            Rows to measure `metric` on after each pass, which train nothing: `(X, y)` or `(X, y, sample_weight)`,
            or a list of one such tuple. `early_stopping` needs it; `model_.history` has what was measured.
        row_key
            A key of each row of `X`, another one for each: the model is then one of the set of the rows, as
            `tg.fit_gbdt` says. Values, or a frame or a matrix of several columns. Rows of `eval_set` have their places
            in it for keys.
        collective
            The processes that make this fit together, each with its part of the rows, as `tg.fit_gbdt` takes it.
            `classes_` are those of all rows. `optimizer` is `"lbfgs"`.
        batches
            Whether `X`, a `LazyFrame`, is read in batches, as `LazyFrame.taiga.fit_sparse_lr` does: `True`, `"auto"` or
            a number of rows. It is never in memory as a whole then; `y` and whatever else is given of the rows is. Its
            rows are counted by a query of their own. Not beside `eval_set`, `row_key` and `collective`.
        snapshot
            A file that keeps the state of the fit, which the same call goes on from after a failure, as
            `tg.fit_sparse_lr` says.
        snapshot_every
            After how many passes it is written; default 1.

        Returns
        -------
        SparseLogisticRegression
            The estimator itself.

        Raises
        ------
        ValueError, TypeError
            For parameters and tables that can't be used; where Polars has an error, its text.
        """
        self._check_held_out(eval_set)
        given = {"row_key": row_key}
        table, columns, roles = self._table(
            X, y, sample_weight, eval_set, given=given, batches=batches, collective=collective
        )
        target = roles.pop("target")
        params = self._params()
        # By a selector: in `pl.col` a name like "^x$" would be a pattern.
        lists = {role: by_name(name) for role, name in self._lists.items() if name is not None}
        for role in ("indices", "values"):
            del params[role]
        if self._on_lists:
            params["features"] = self.n_features_in_
        dense = [name for name in columns if name not in self._lists.values()]
        own = {**lists, **({"dense": cs.by_name(*dense)} if dense else {})}
        how: dict[str, Any] = {**own, **roles, **params, "snapshot": snapshot, "snapshot_every": snapshot_every}
        self._fit_by(fit_sparse_lr, table, target, batches=batches, collective=collective, **how)
        self.intercept_ = self._of_classes(np.asarray(self.model_.intercepts), -np.inf)
        self._set_coefficients()
        return self

    def decision_function(self, X: Any) -> Any:  # noqa: N803
        """Compute the scores before the link.

        Parameters
        ----------
        X
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            The log odds of the second of two classes, or a score for each of more.
        """
        return self._scores(self._predicted(X, "raw"))

    @property
    def n_iter_(self) -> int:
        """The number of passes over the rows that the model keeps."""
        check_is_fitted(self)
        return self.model_.rounds

    def _frame(self, X: Any, *, reset: bool, few: bool = False) -> pl.DataFrame:  # noqa: N803
        """The features as a Polars frame: lists for a fit on a sparse matrix, else the columns."""
        read = self._read(X, reset=reset, few=few)
        sparse = sp.issparse(read.data)
        if reset:
            self._on_lists = sparse
            self._lists = {"indices": "indices", "values": "values"} if sparse else self._roles(read.data.schema)
        if self._on_lists:
            return _data.sparse_rows(read.data if sparse else sp.csr_array(self._matrix(read.data)))
        frame: pl.DataFrame = _data.dense_columns(read.data, self._columns) if sparse else read.data
        return frame.with_columns(cs.boolean().cast(pl.UInt8))

    def _query(self, X: pl.LazyFrame) -> pl.LazyFrame:  # noqa: N803
        """The features of a fit that come in batches."""
        query = super()._query(X)
        self._on_lists, self._lists = False, self._roles(X.collect_schema())
        return query.with_columns(cs.boolean().cast(pl.UInt8))

    def _matrix(self, frame: pl.DataFrame) -> Any:
        """A frame of numbers as a matrix."""
        for name, dtype in frame.schema.items():
            if not dtype.is_numeric() and dtype != pl.Boolean:
                msg = f"column {name!r}: it is {dtype} and not a number"
                raise ValueError(msg)
        return frame.cast(pl.Float64).to_numpy()

    def _roles(self, schema: Mapping[str, pl.DataType]) -> dict[str, Any]:
        """The columns of lists of a frame: those that the parameters name, or the only one."""
        roles = {"indices": self._one("indices"), "values": self._one("values")}
        lists = [name for name, dtype in schema.items() if dtype in (pl.List, pl.Array)]
        if roles["indices"] is None and len(lists) == 1:
            roles["indices"] = lists[0]
        if unknown := [name for name in lists if name not in roles.values()]:
            msg = f"column {unknown[0]!r} holds lists: say by `indices` and `values` which columns of lists are which"
            raise ValueError(msg)
        return roles

    def _one(self, parameter: str) -> str | None:
        """The name of the column that a parameter names."""
        given = getattr(self, parameter)
        name: str | None = None if given is None else self._named(parameter, None)
        if name is not None and name not in self._columns:
            msg = f"parameter `{parameter}`: X has no column {name!r}"
            raise ValueError(msg)
        return name

    def _of_classes(self, own: Any, absent: float) -> Any:
        """What the model has of its scores as what `classes_` have of theirs, as in `decision_function`."""
        if len(self.classes_) == 2:
            return own
        # Of two classes the model has one score.
        of_each = own if len(own) > 1 else np.concatenate([np.zeros_like(own), own])
        out = np.full((len(self.classes_), *own.shape[1:]), absent)
        out[self._places()] = of_each
        return out

    def _set_coefficients(self) -> None:
        """Set `coef_`, where each column of the table is one feature."""
        self.__dict__.pop("coef_", None)
        if not self._on_lists and self._lists["indices"] is not None:
            return
        table = self.model_.coefficients()
        labels = [str(label).lower() if isinstance(label, bool) else str(label) for label in self.model_.classes or []]
        rows = {label: i for i, label in enumerate(labels)} if len(labels) > 2 else {labels[-1]: 0}
        places = {name: j for j, name in enumerate(self._columns)}
        at = table["feature"] if self._on_lists else table["name"].replace_strict(places, return_dtype=pl.Int64)
        own = np.zeros((len(rows), self.n_features_in_))
        own[[rows[label] for label in table["class"]], at.to_numpy()] = table["coefficient"].to_numpy()
        self.coef_ = self._of_classes(own, 0.0)

"""Target encoding as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import polars as pl
import polars.selectors as cs
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from polars_taiga.encoder import Encoder
from polars_taiga.encoding import encode, fit_target_encoder, target_encode
from polars_taiga.sklearn import _data, _rows
from polars_taiga.sklearn._base import Estimator, free, plain_errors
from polars_taiga.sklearn._docs import documented

if TYPE_CHECKING:
    from polars_taiga.encoding import EncodingKind

__all__ = ["TargetEncoder"]


@documented(
    target_encode,
    folds='For `"kfold"`: how many random folds, at least 2.',
    classes="""
    The labels by whose shares to encode, a column each, also of whole numbers and Booleans. Default: those of `y` where
    it is text.
    """,
)
class TargetEncoder(OneToOneFeatureMixin, TransformerMixin, Estimator):
    """Each category as the mean of the target: `tg.target_encode` as a scikit-learn transformer.

    `fit_transform` gives the rows that a model is trained on values without their own targets, by `tg.target_encode`;
    `transform` gives new rows those of all training rows, by `tg.encode`. So `fit(X, y).transform(X)` is not
    `fit_transform(X, y)`, as with scikit-learn's own `TargetEncoder`; in a `Pipeline` each comes where it belongs.

    Every column is encoded; a `ColumnTransformer` chooses some. Numbers with a fractional part are categories too, by
    their text.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    encoder_ : tg.Encoder
        The fitted encoder: `tg.encode(est.encoder_)` is an expression with it.
    classes_ : ndarray of shape (n_classes,)
        The labels of a target of text, sorted, or what `classes` gave; not there for numbers and Booleans. Two labels
        of a text make one column, the share of the second; more, and those that `classes` gave, a column each.
    n_features_in_ : int
        The number of columns at the fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where all are text. (The encoder calls those of an array x0, x1, ….)

    Examples
    --------
    >>> import polars as pl
    >>> from polars_taiga.sklearn import TargetEncoder
    >>> X = pl.DataFrame({"city": ["a", "b", "a", "a"]})
    >>> encoder = TargetEncoder(prior_weight=0).set_output(transform="polars").fit(X, [1.0, 5.0, 2.0, 3.0])
    >>> encoder.transform(X)["city"].to_list()
    [2.0, 5.0, 2.0, 2.0]
    """

    _sparse: ClassVar[str | bool] = False
    _categorical_only: ClassVar[bool] = True
    _least_rows: ClassVar[int] = 1

    encoder_: Encoder
    classes_: Any
    classes: Sequence[Any] | None

    def __init__(
        self,
        *,
        kind: EncodingKind = "ordered",
        prior: float | None = None,
        prior_weight: float | Literal["auto"] = 1.0,
        permutations: int = 1,
        folds: int = 5,
        random_state: int | np.random.RandomState | None = 0,
        classes: Sequence[Any] | None = None,
        device: str = "auto",
    ) -> None:
        """Of these parameters, which `fit` checks."""
        self._keep(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TargetEncoder:  # noqa: N803
        """Fit the encoder for rows to come.

        Parameters
        ----------
        X
            A frame of Polars, pandas, Arrow or what else narwhals knows, or an array of shape (n_samples, n_features):
            text, categories, whole numbers, Booleans.
        y
            The target: numbers or Booleans, or labels.
        sample_weight
            A weight for each row, not negative, not all zero.

        Returns
        -------
        TargetEncoder
            The estimator itself.

        Raises
        ------
        ValueError, TypeError
            For parameters and tables that can't be used; where Polars has an error, its text.
        """
        self._fitted(X, y, sample_weight)
        return self

    def fit_transform(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        order_by: Any = None,
    ) -> Any:
        """Fit the encoder, and encode the same rows by `kind`, so that no row's own target is in its values, but
        for the mean that is the `prior` unless that is given.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        order_by
            For `kind="ordered"`: what to order the rows by instead of at random, a value for each, times say.

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, n_features * n_classes)
            Or the frame that `set_output` asks for.
        """
        table, roles, classes = self._fitted(X, y, sample_weight)
        keywords: dict[str, Any] = {name: getattr(self, name) for name in ("kind", "prior", "prior_weight", "device")}
        # These two count under one kind only, and are an error under the others.
        keywords.update(permutations=self.permutations) if self.kind == "ordered" else None
        keywords.update(folds=self.folds) if self.kind == "kfold" else None
        if order_by is not None:
            name = free("order_by", table.columns)
            table = table.with_columns(_rows.as_column("order_by", order_by, table.height).alias(name))
            keywords["order_by"] = name
        if "weight" in roles:
            keywords["weight"] = roles["weight"]
        with plain_errors():
            return self._values(
                table.select(
                    target_encode(
                        cs.by_name(*self._columns), roles["target"], classes=classes, seed=self._seed(), **keywords
                    )
                )
            )

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Encode new rows: what the encoder has not seen gets the prior.

        Parameters
        ----------
        X
            A table of any kind that `fit` takes, with the same columns.

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, n_features * n_classes)
            Or the frame that `set_output` asks for.
        """
        check_is_fitted(self)
        frame = self._categories_of(X, reset=False)
        with plain_errors():
            return self._values(frame.select(encode(self.encoder_)))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Give the names of the columns: those of the table, with `_<class>` behind them where each class has one.

        Parameters
        ----------
        input_features
            The table's names, which must be those of the fit; needed for a table without names only.

        Returns
        -------
        ndarray of str
        """
        names = super().get_feature_names_out(input_features)
        if not self._by_class:
            return names
        return np.asarray([f"{name}_{label}" for name in names for label in self.classes_], dtype=object)

    def _fitted(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any,
    ) -> tuple[pl.DataFrame, dict[str, str], list[Any] | None]:
        """Fit; the table, the columns of its roles by name, and the classes as the engine is told."""
        frame = self._categories_of(X, reset=True)
        target, classes = self._target(y)
        check_consistent_length(target, frame)
        weights = _data.as_weights(sample_weight, frame.height)
        own = {"target": target, **({} if weights is None else {"weight": weights})}
        roles = {role: free(role, frame.columns) for role in own}
        table = frame.with_columns(own[role].alias(name) for role, name in roles.items())
        with plain_errors():
            fit = fit_target_encoder(
                cs.by_name(*frame.columns),
                roles["target"],
                weight=roles.get("weight"),
                classes=classes,
                prior=self.prior,
                prior_weight=self.prior_weight,
                device=self.device,
            )
            self.encoder_ = Encoder(table.select(fit).item())
        return table, roles, classes

    def _target(self, y: Any) -> tuple[pl.Series, list[Any] | None]:
        """The target, and its classes where it is to be taken apart by them."""
        values = _data.as_target(y, type(self).__name__)
        self.__dict__.pop("classes_", None)
        labels = values.dtype.kind in "OUS"
        if values.dtype.kind == "O" and not all(isinstance(v, str | bytes) for v in values.tolist()):
            values, labels = values.astype(np.float64), False
        self._by_class = False
        if not labels and self.classes is None:
            return pl.Series(values if values.dtype.kind in "biu" else values.astype(np.float64)), None
        known, codes = np.unique(values, return_inverse=True)
        self.classes_ = known if self.classes is None else np.asarray(self.classes)
        if self.classes is None and len(known) == 2:
            return pl.Series(codes == 1), None
        self._by_class = True
        for what, numbers in [("y has", known), ("it has", self.classes_)]:
            if numbers.dtype.kind == "f" and not _data.is_whole(pl.Series(numbers.astype(np.float64))):
                odd = next(number for number in numbers.tolist() if number % 1 != 0 or abs(number) >= 2.0**62)
                msg = f"parameter `classes`: {what} values that are not whole, or too large, such as {odd}"
                raise ValueError(msg)
        series = _data.labels(known).gather(codes)
        return series, _data.labels(self.classes_).to_list()

    def _categories_of(self, X: Any, *, reset: bool) -> pl.DataFrame:  # noqa: N803
        """The table with floats as categories: whole numbers as integers, others by their text."""
        frame: pl.DataFrame = self._read(X, reset=reset).data
        if reset:
            floats = [name for name, dtype in frame.schema.items() if dtype in _data.FLOATS]
            self._texts = [name for name in floats if not _data.is_whole(frame[name])]
        numbers = cs.by_name(*self._texts) & cs.numeric()
        texts = frame.with_columns(numbers.cast(pl.Float64).fill_nan(None).cast(pl.String)) if self._texts else frame
        rest = [name for name in frame.columns if name not in self._texts]
        return _data.categories_as_integers(texts, texts.schema, rest)

    def _values(self, encoded: pl.DataFrame) -> Any:
        """The columns as an array, those of classes side by side."""
        if self._by_class:
            return np.hstack([column.struct.unnest().to_numpy() for column in encoded])
        return encoded.to_numpy()

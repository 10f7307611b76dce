"""What the estimators share: their tables, names, tags and seeds, labels, and how a fit is put together."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from polars_taiga import _plugin
from polars_taiga._names import by_name
from polars_taiga.device import first
from polars_taiga.model import Model
from polars_taiga.namespaces import TaigaLazyFrame
from polars_taiga.predict import predict
from polars_taiga.sklearn import _data, _rows

if TYPE_CHECKING:
    from polars_taiga.collective import Collective

__all__ = ["Classifier", "Estimator", "Learner", "Regressor", "free", "plain_errors", "shares"]

# What parameters that may be lists with an entry for each column hold, a dict of it, and what stands for nothing.
_EACH: dict[str, tuple[str, str, float]] = {
    "monotone": ("-1, 0 or 1", '{"x0": 1}', 0),
    "feature_weights": ("numbers from 0 on", '{"x0": 2.0}', 1),
}


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what Polars raises as a ValueError of the same text, which scikit-learn's users expect."""
    try:
        with _plugin.errors():
            yield
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error)) from error


def shares(importances: Any) -> Any:
    """Importances as shares that add up to one, unless all are zero."""
    total = importances.sum()
    return importances / total if total > 0 else importances.copy()


class Estimator(BaseEstimator):
    """An estimator that reads tables of any kind."""

    # What a table may be: the format of a sparse one (False: it may not), and whether values may be missing.
    _sparse: ClassVar[str | bool] = "csc"
    _missing: ClassVar[bool] = True
    _categorical_only: ClassVar[bool] = False
    _least_rows: ClassVar[int] = 2

    random_state: Any

    def _keep(self, given: Mapping[str, Any]) -> None:
        """Keep the arguments of `__init__`, its `locals()`, as they came, each under its name."""
        self.__dict__.update({name: value for name, value in given.items() if name != "self"})

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn 1.6 and newer ask about the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = bool(self._sparse)
        tags.input_tags.allow_nan = self._missing
        tags.input_tags.categorical = self._categorical_only
        return tags

    def _more_tags(self) -> dict[str, Any]:
        """What scikit-learn 1.5 asks."""
        types = ["2darray", *(["sparse"] if self._sparse else []), *(["categorical"] * self._categorical_only)]
        return {"allow_nan": self._missing, "X_types": types, "requires_y": True}

    def _seed(self) -> int:
        """The seed that `random_state` stands for."""
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _read(self, X: Any, *, reset: bool, few: bool = False) -> _data.Table:  # noqa: N803
        """The table, its columns named as at the fit; with `reset` this is the fit.

        Numbers that are categories are integers then, and a column of nulls alone has a type. `few`: it may have few
        rows, or none.
        """
        who = type(self).__name__
        read = _data.table(X, sparse=self._sparse, finite=not self._missing, who=who, least=0 if few else 1)
        rows, count = read.data.shape
        self._check_columns(read.names, count, reset=reset)
        if reset:
            if rows < self._least_rows and not few:
                msg = f"Found array with {rows} sample(s) while a minimum of {self._least_rows} is required by {who}."
                raise ValueError(msg)
            self._columns = read.names or _data.numbered(count)
            self._categories = list(dict.fromkeys([*self._categorical(), *read.categories]))
        if sp.issparse(read.data):
            return read
        frame = read.data.clone()
        frame.columns = self._columns
        if reset:
            for name in self._categories:
                if name in frame.columns:
                    _data.checked_whole(frame[name])
            self._dtypes = {n: pl.Float64() if t == pl.Null else t for n, t in frame.schema.items()}
        nothing = [name for name, dtype in frame.schema.items() if dtype == pl.Null]
        frame = frame.with_columns(pl.Series(n, [None] * rows, dtype=self._dtypes[n]) for n in nothing)
        return read._replace(data=_data.categories_as_integers(frame, frame.schema, self._categories))

    def _query(self, X: pl.LazyFrame) -> pl.LazyFrame:  # noqa: N803
        """The features of a fit that come in batches: a query, which is not run, its columns as `_read` has them."""
        schema = X.collect_schema()
        _data.check_types(schema)
        _data.check_names(schema.items())
        self._columns = schema.names()
        self._check_columns(self._columns, len(self._columns), reset=True)
        self._categories = list(dict.fromkeys(self._categorical()))
        self._dtypes = {n: pl.Float64() if t == pl.Null else t for n, t in schema.items()}
        nothing = [name for name, dtype in schema.items() if dtype == pl.Null]
        known = X.with_columns(
            *(by_name(name).cast(pl.Float64) for name in nothing),
            *(
                by_name(name).map_batches(_data.checked_whole, return_dtype=schema[name], is_elementwise=True)
                for name in self._categories
                if schema.get(name) in _data.FLOATS
            ),
        )
        return _data.categories_as_integers(known, schema, self._categories)

    def _named(self, parameter: str, default: Any) -> Any:
        """A parameter about columns, those that it gives by position by their names."""

        def named(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {named(key): sign for key, sign in value.items()}
            if isinstance(value, bool | np.bool_):
                msg = f"parameter `{parameter}`: {value} is no column; one is named, or numbered from 0 on"
                raise ValueError(msg)
            if isinstance(value, int | np.integer):
                if not 0 <= value < len(self._columns):
                    msg = f"parameter `{parameter}`: there is no column {value}; X has {len(self._columns)}, from 0 on"
                    raise ValueError(msg)
                return self._columns[int(value)]
            return value if isinstance(value, str) else [named(item) for item in value]

        given = getattr(self, parameter, None)
        if parameter in _EACH and given is not None and not isinstance(given, Mapping):
            return self._of_each(parameter, given)
        return default if given is None else named(given)

    def _categorical(self) -> list[str]:
        """The columns that `categorical` names, or chooses by a mask."""
        given = getattr(self, "categorical", None)
        entries = [] if given is None or isinstance(given, str | Integral | np.bool_) else list(given)
        if not entries or not all(isinstance(entry, bool | np.bool_) for entry in entries):
            named = self._named("categorical", [])
            return [named] if isinstance(named, str) else named
        if len(entries) != len(self._columns):
            msg = (
                f"parameter `categorical`: it is a mask of {len(entries)} entries, which has one for each column of X, "
                f"and X has {len(self._columns)}"
            )
            raise ValueError(msg)
        return [name for name, chosen in zip(self._columns, entries, strict=True) if chosen]

    def _of_each(self, parameter: str, given: Any) -> dict[str, Any]:
        """What a list with an entry for each column says, by the columns' names."""
        are, example, nothing = _EACH[parameter]
        listed = given.tolist() if isinstance(given, np.ndarray) else given
        entries = list(listed) if isinstance(listed, Sequence) and not isinstance(listed, str) else [None]
        kinds = Integral if parameter == "monotone" else Real
        if (
            (entries and len(entries) != len(self._columns))
            or any(isinstance(entry, bool) or not isinstance(entry, kinds) for entry in entries)
            or (parameter == "monotone" and not set(entries) <= {-1, 0, 1})
        ):
            msg = (
                f"parameter `{parameter}`: {given!r} is neither a dict of {are} by column, as {example}, nor a list of "
                f"these, one for each column of X, which has {len(self._columns)}"
            )
            raise ValueError(msg)
        named = dict(zip(self._columns, entries, strict=False))
        return {name: entry for name, entry in named.items() if entry != nothing}

    def _check_columns(self, names: list[str] | None, count: int, *, reset: bool) -> None:
        """Keep the names and number of columns at a fit, or hold them against the fit's, in scikit-learn's words.

        (Its own function for this knows the frames of some libraries only, depending on both versions.)
        """
        who = type(self).__name__
        if reset:
            self.n_features_in_ = count
            if names is not None:
                self.feature_names_in_ = np.asarray(names, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return
        fitted = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        if names is not None and fitted is not None and names != fitted:
            raise ValueError(_other_names(fitted, names))
        if names is not None and fitted is None:
            warnings.warn(f"X has feature names, but {who} was fitted without feature names", stacklevel=4)
        if names is None and fitted is not None:
            warnings.warn(f"X does not have valid feature names, but {who} was fitted with feature names", stacklevel=4)
        if count != self.n_features_in_:
            msg = f"X has {count} features, but {who} is expecting {self.n_features_in_} features as input."
            raise ValueError(msg)


def _other_names(fitted: list[str], names: list[str]) -> str:
    """The error for columns of other names, or in another order, than at the fit."""

    def listed(some: set[str]) -> str:
        return "".join(f"- {name}\n" for name in sorted(some)[:5]) + ("- ...\n" if len(some) > 5 else "")

    text = "The feature names should match those that were passed during fit.\n"
    if unseen := set(names) - set(fitted):
        text += f"Feature names unseen at fit time:\n{listed(unseen)}"
    if missing := set(fitted) - set(names):
        text += f"Feature names seen at fit time, yet now missing:\n{listed(missing)}"
    if not unseen and not missing:
        text += "Feature names must be in the same order as they were in fit.\n"
    return text


class Learner(Estimator):
    """An estimator with a model."""

    model_: Model
    device: str
    progress: bool | None

    # Whether all rows of some class weigh nothing.
    _lost_classes = False
    # Whether other processes make the fit too.
    _together = False

    # Whether rows have groups.
    _grouped: ClassVar[bool] = False
    # How many sets `eval_set` may hold.
    _most_sets: ClassVar[int] = 1

    # Whether a target may be a matrix: several numbers, or several labels, in each row.
    _matrices: ClassVar[bool] = False

    # The parameters that name columns.
    _about_columns: ClassVar[tuple[str, ...]] = ("feature_weights", "monotone", "interaction")

    def _params(self) -> dict[str, Any]:
        """The keyword arguments of the function that fits."""
        params = self.get_params(deep=False)
        del params["random_state"]
        params.update({name: self._named(name, None) for name in self._about_columns if name in params})
        if isinstance(params.get("bins"), Mapping):
            params["bins"] = self._named("bins", None)
        if "categorical" in params:
            params["categorical"] = self._categories or None
        return {**params, "seed": self._seed()}

    def _target(self, y: Any, *, reset: bool, weights: pl.Series | None = None) -> pl.Series:
        raise NotImplementedError

    def _frame(self, X: Any, *, reset: bool, few: bool = False) -> pl.DataFrame:  # noqa: N803
        """The features as a Polars frame."""
        data = self._read(X, reset=reset, few=few).data
        return _data.dense_columns(data, self._columns) if sp.issparse(data) else data

    def _table(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any,
        eval_set: Any = None,
        *,
        given: Mapping[str, Any] | None = None,
        batches: Any = False,
        collective: Collective | None = None,
    ) -> tuple[pl.DataFrame | pl.LazyFrame, list[str], dict[str, Any]]:
        """The whole table of a fit, the names of its features, and the columns of its roles by name.

        Where rows have groups, these stand in the place of weights. `given`: columns of the training rows, which stand
        first in the table, by their roles, or None. With `batches` it is a query.
        """
        grouped, self._together = self._grouped, collective is not None
        keys = (given or {}).get("row_key")
        if self._together and keys is not None and eval_set is not None:
            msg = "row_key: the rows of eval_set have no keys, by which a collective deals rows to its processes"
            raise ValueError(msg)
        if batches is not False:
            frames: list[pl.DataFrame | pl.LazyFrame] = [self._in_batches(X, eval_set)]
            features = X.collect_schema().names()
        else:
            # Of several processes one may have few rows, or none.
            frame = self._frame(X, reset=True, few=self._together)
            frames, features = [frame], frame.columns
        parts = [(y, sample_weight)]
        if eval_set is not None:
            for held_out, labels, beside in _held_out(
                eval_set, "group" if grouped else "sample_weight", self._most_sets
            ):
                frames.append(self._frame(held_out, reset=False, few=self._together))
                parts.append((labels, beside))
        heights = [_data.height(f) if isinstance(f, pl.LazyFrame) else f.height for f in frames]
        more = _given_columns(given or {}, heights[0])
        weighted = not grouped and any(weight is not None for _, weight in parts)
        names: dict[str, str] = {}
        tables = []
        for i, (table, (target, beside), rows) in enumerate(zip(frames, parts, heights, strict=True)):
            own = self._own_columns((i, len(parts)), target, beside, rows, weighted=weighted)
            own.update(more if i == 0 else _of_held_out(more, rows))
            if keys is not None and len(parts) > 1:
                own.update(_places(i, rows))
            names = {role: free(role, features) for role in own}
            # Rows of weight 0 count for nothing, but the engine counts their labels where a loss is named.
            weight = names["weight"] if self._lost_classes and i == 0 else None
            tables.append(_beside(table, pl.DataFrame([own[role].alias(names[role]) for role in own]), weight))
        if eval_set is None:
            del names["eval"]
        roles: dict[str, Any] = {role: name for role, name in names.items() if not role.startswith("row_key")}
        if keys is not None:
            roles["row_key"] = [name for role, name in names.items() if role.startswith("row_key")]
        return _stacked(tables), features, roles

    def _own_columns(
        self, part: tuple[int, int], target: Any, beside: Any, rows: int, *, weighted: bool
    ) -> dict[str, pl.Series]:
        """What stands beside the features of a part of a table, of so many parts, by role. `weighted`: some have
        weights.
        """
        (number, count), grouped = part, self._grouped
        weights = None if grouped else _data.as_weights(beside, rows, few=self._together)
        values = self._target(target, reset=number == 0, weights=weights)
        if len(values) != rows:
            msg = f"Found input variables with inconsistent numbers of samples: {[len(values), rows]}"
            raise ValueError(msg)
        # Several sets have names.
        mark = number == 1 if count <= 2 else f"valid_{number - 1}" if number else None
        dtype = pl.Boolean if isinstance(mark, bool) else pl.String
        own = {"target": values, "eval": pl.repeat(mark, rows, dtype=dtype, eager=True)}
        if grouped:
            own["group"] = _rows.as_groups(beside, rows, number if count > 1 else None)
        if weighted:
            own["weight"] = pl.repeat(1.0, rows, eager=True) if weights is None else weights
        return own

    def _in_batches(self, X: Any, eval_set: Any) -> pl.LazyFrame:  # noqa: N803
        """The features of a fit that come in batches."""
        if not isinstance(X, pl.LazyFrame):
            msg = f"batches: X is a {type(X).__name__}, and a LazyFrame is what is read in batches"
            raise TypeError(msg)
        if eval_set is not None:
            msg = "eval_set: rows to measure on are not read in batches; see LazyFrame.taiga.fit_gbdt(…, eval=)"
            raise ValueError(msg)
        return self._query(X)

    def _check_held_out(self, eval_set: Any) -> None:
        """Raise where `early_stopping` has nothing to look at."""
        if eval_set is None and getattr(self, "early_stopping", None) is not None:
            msg = "early_stopping needs held-out rows: fit(X, y, eval_set=(X_held_out, y_held_out))"
            raise ValueError(msg)

    def _fit_by(
        self,
        fit: Any,
        table: pl.DataFrame | pl.LazyFrame,
        target: str,
        *features: Any,
        batches: Any = False,
        collective: Collective | None = None,
        **keywords: Any,
    ) -> None:
        """Fit the model by one of the package's functions, or the method of that name of a query."""
        with plain_errors():
            if isinstance(table, pl.LazyFrame):
                own: Any = getattr(TaigaLazyFrame(table), fit.__name__)
                self.model_ = own(target, *features, batches=batches, collective=collective, **keywords)
            else:
                self.model_ = Model(table.select(fit(target, *features, collective=collective, **keywords)).item())
        self._know_all_classes()

    def _know_all_classes(self) -> None:
        """Take over the classes that other processes have."""

    def _predicted(self, X: Any, output: Any) -> list[Any]:  # noqa: N803
        """What `tg.predict` gives for each row: an array, or one for each of the model's classes."""
        check_is_fitted(self)
        frame = self._frame(X, reset=False)
        with plain_errors():
            values = frame.select(predict(self.model_, output=output, device=first(self.device))).to_series()
        columns = values.struct.unnest().get_columns() if isinstance(values.dtype, pl.Struct) else [values]
        if output == "staged":
            # By the name of a class like "^x$" Polars would find no values.
            flat = [column.alias("").explode() for column in columns]
            return [numbers.to_numpy(writable=True).reshape(frame.height, -1) for numbers in flat]
        return [column.to_numpy(writable=True) for column in columns]


def _held_out(eval_set: Any, beside: str, most: int) -> list[tuple[Any, Any, Any]]:
    """Of each set of `eval_set` the table, the target and what stands beside (None: nothing)."""
    sets = eval_set if isinstance(eval_set, list) and eval_set else [eval_set]
    if len(sets) > most or not all(isinstance(one, tuple) and len(one) in (2, 3) for one in sets):
        several = "one such tuple" if most == 1 else f"1 to {most} such tuples"
        msg = f"eval_set: it is a tuple (X, y) or (X, y, {beside}), or a list of {several}"
        raise ValueError(msg)
    return [(*one, None) if len(one) == 2 else one for one in sets]


def free(role: str, taken: Sequence[str]) -> str:
    """The role's own name, or as near to it as is free."""
    while role in taken:
        role += "_"
    return role


def _given_columns(given: Mapping[str, Any], rows: int) -> dict[str, pl.Series]:
    """The columns that are given of so many training rows, by roles; of a key of several columns each has its own."""
    columns: dict[str, pl.Series] = {}
    for role, values in given.items():
        if values is not None and role == "row_key":
            keys = _rows.as_keys(values, rows)
            columns.update({role if len(keys) == 1 else f"{role}_{i}": key for i, key in enumerate(keys)})
        elif values is not None:
            columns[role] = _rows.as_column(role, values, rows)
    return columns


def _of_held_out(given: Mapping[str, pl.Series], rows: int) -> dict[str, pl.Series]:
    """The same columns of held-out rows, of which nobody reads them: a value of the training rows, or of their type."""
    value = {role: _rows.least(column) if "row_key" in role else column.head(1) for role, column in given.items()}
    some = {role: column if len(column) else _rows.any_value(column.dtype) for role, column in value.items()}
    return {role: column.new_from_index(0, rows) for role, column in some.items()}


def _places(number: int, rows: int) -> dict[str, pl.Series]:
    """What tells held-out rows, which have no keys of their own, from others: their set, and their places in it."""
    places = pl.int_range(rows, eager=True) if number else pl.repeat(0, rows, dtype=pl.Int64, eager=True)
    return {"row_key_set": pl.repeat(number, rows, dtype=pl.Int64, eager=True), "row_key_place": places}


def _beside(
    frame: pl.DataFrame | pl.LazyFrame, columns: pl.DataFrame, weight: str | None
) -> pl.DataFrame | pl.LazyFrame:
    """The frame with more columns, of which there are as many rows; those rows that weigh something, if `weight` is
    the column that says so.
    """
    if isinstance(frame, pl.LazyFrame):
        table = pl.concat([frame, columns.lazy()], how="horizontal")
        return table if weight is None else table.filter(pl.col(weight) > 0)
    whole = frame.with_columns(columns.get_columns())
    return whole if weight is None else whole.filter(pl.col(weight) > 0)


def _stacked(frames: list[Any]) -> Any:
    """The frames, one below the other; categories of two types as text."""
    if len(frames) == 1:
        return frames[0]
    texts = (pl.Categorical, pl.Enum, pl.String)
    names = [name for name in frames[0].columns if all(frame[name].dtype in texts for frame in frames)]
    text = [by_name(name).cast(pl.String) for name in names]
    return pl.concat([frame.with_columns(text) for frame in frames], how="vertical_relaxed")


class Regressor(RegressorMixin):
    """A learner of numbers."""

    _matrices: ClassVar[bool]

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn 1.6 and newer ask about the estimator."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._matrices
        return tags

    def _more_tags(self) -> dict[str, Any]:
        """What scikit-learn 1.5 asks."""
        return {**super()._more_tags(), "multioutput": self._matrices}

    def _target(self, y: Any, *, reset: bool, weights: pl.Series | None = None) -> pl.Series:
        return _data.as_series(_data.as_target(y, type(self).__name__, matrices=self._matrices).astype(np.float64))

    def predict(self: Any, X: Any) -> Any:  # noqa: N803
        """Predict the target of each row.

        Parameters
        ----------
        X
            A table of any kind that `fit` takes, with the same columns.

        Returns
        -------
        ndarray of shape (n_samples,), (n_samples, n_targets) or (n_samples, n_quantiles)
            Several quantiles in ascending order; of a mean with its variance the mean.
        """
        return self._numbers(self._predicted(X, "auto"))

    def _numbers(self: Any, columns: list[Any]) -> Any:
        """What `predict` makes of the numbers that the model predicts."""
        several = len(columns) > 1 and (self.model_.loss == "quantile" or self.model_.targets is not None)
        return np.column_stack(columns) if several else columns[0]


class Classifier(ClassifierMixin):
    """A learner of labels."""

    classes_: Any
    model_: Model

    _matrices: ClassVar[bool]

    # Whether a row may have several labels, of which `y` is the indicator matrix.
    _labelled = False

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn 1.6 and newer ask about the estimator."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = tags.classifier_tags.multi_label = self._matrices
        return tags

    def _more_tags(self) -> dict[str, Any]:
        """What scikit-learn 1.5 asks."""
        return {**super()._more_tags(), "multilabel": self._matrices}

    def _indicators(self, labels: Any, *, reset: bool) -> pl.Series:
        """Read the indicator matrix of several labels a row."""
        who = type(self).__name__
        if not np.isin(labels, (0, 1)).all():
            msg = f"{who}: Unknown label type: y is a matrix of other values than 0 and 1, so it is no indicator matrix"
            raise ValueError(msg)
        if reset:
            self.classes_, self._counted, self._lost_classes = np.arange(labels.shape[1]), labels.shape[1], False
        elif labels.shape[1] != len(self.classes_):
            msg = f"eval_set: its y has {labels.shape[1]} labels, and the y to train on has {len(self.classes_)}"
            raise ValueError(msg)
        return _data.as_series(labels.astype(np.uint8))

    def _target(self, y: Any, *, reset: bool, weights: pl.Series | None = None) -> pl.Series:
        """The labels in a type that the engine knows: Boolean, integers or text."""
        who = type(self).__name__
        labels = _data.as_target(y, who, matrices=self._matrices)
        if reset:
            self._labelled = labels.ndim == 2
        if labels.ndim == 2 or self._labelled:
            matrix = labels if labels.ndim == 2 else labels.reshape(-1, 1)
            return self._indicators(matrix, reset=reset)
        if reset:
            check_classification_targets(labels)
        try:
            classes, codes = np.unique(labels, return_inverse=True)
        except TypeError:
            msg = f"{who}: Unknown label type: y mixes labels of types that can't be sorted"
            raise ValueError(msg) from None
        if reset:
            self.classes_ = classes
            counted = codes if weights is None or len(weights) != len(codes) else codes[weights.to_numpy() > 0]
            self._counted = len(np.unique(counted))
            # Of several processes none knows the others' labels.
            self._lost_classes = self._counted < len(classes) and not self._together
            if self._counted < 2 and not self._together:
                msg = f"{who} needs rows of at least two classes; all that count are of one class"
                raise ValueError(msg)
        elif not self._together and len(unseen := np.setdiff1d(classes, self.classes_)) > 0:
            msg = f"eval_set: its y has labels that the y to train on has not: {unseen.tolist()[:5]}"
            raise ValueError(msg)
        return _data.labels(classes).gather(codes)

    def _know_all_classes(self) -> None:
        """Take over the classes that other processes have."""
        if self._together and not self._labelled:
            self.classes_ = _data.as_classes(self.model_.classes or [], self.classes_)

    def _places(self) -> list[int]:
        """Where the model's classes stand in `classes_`: a class whose rows all weigh 0 is none of the model's."""
        own = _data.labels(self.classes_).to_list()
        return [own.index(label) for label in self.model_.classes or []]

    def _spread(self, columns: list[Any], absent: float) -> Any:
        """The columns of the model's classes as columns of `classes_`, `absent` for those without any."""
        out = np.full((len(columns[0]), len(self.classes_)), absent)
        out[:, self._places()] = np.column_stack(columns)
        return out

    def _probabilities(self, columns: list[Any]) -> Any:
        """What `output="auto"` or a stage of it gives as probabilities of each of `classes_`."""
        if self._labelled:
            return np.column_stack(columns)
        return self._spread(columns if len(columns) > 1 else [1.0 - columns[0], columns[0]], 0.0)

    def _scores(self, columns: list[Any]) -> Any:
        """What `output="raw"` gives as a decision function: log odds for two classes, a score for each of more."""
        if self._labelled:
            return np.column_stack(columns)
        if len(self.classes_) == 2:
            return columns[0] if len(columns) == 1 else columns[1] - columns[0]
        return self._spread(columns if len(columns) > 1 else [0.0 * columns[0], columns[0]], -np.inf)

    def predict_proba(self: Any, X: Any) -> Any:  # noqa: N803
        """Predict the probability of each class.

        Parameters
        ----------
        X
            A table of any kind that `fit` takes, with the same columns.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`; the probability of each label.
        """
        return self._probabilities(self._predicted(X, "auto"))

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Predict the likeliest class of each row.

        Parameters
        ----------
        X
            A table of any kind that `fit` takes, with the same columns.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_labels)
            In the type of `classes_`; where a row may have several labels, 1 for those more likely than not.
        """
        return self._likeliest(self.predict_proba(X))

    def _likeliest(self, probabilities: Any) -> Any:
        """The class, or the labels, that these probabilities speak for."""
        if self._labelled:
            return (probabilities > 0.5).astype(np.int64)
        return self.classes_[np.argmax(probabilities, axis=1)]

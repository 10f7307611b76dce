"""From the tables, targets and weights that scikit-learn's users have to Polars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from typing import Any, NamedTuple, TypeVar

import narwhals as nw
import numpy as np
import polars as pl
import scipy.sparse as sp
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from polars_taiga._names import by_name, names_with_nul

__all__ = [
    "FLOATS",
    "NO_TYPE",
    "STRANGE",
    "Table",
    "as_frame",
    "as_target",
    "as_weights",
    "categories_as_integers",
    "check_types",
    "dense_columns",
    "is_missing",
    "labels",
    "sparse_rows",
    "table",
]

AnyFrame = TypeVar("AnyFrame", pl.DataFrame, pl.LazyFrame)

_NOT_SEEN = -(2**63)
"""The category of a number that is none of a column's whole numbers: no fit has seen it."""

# Early versions of Polars lack the first of these, and the last of those.
FLOATS = (*([pl.Float16] if hasattr(pl, "Float16") else []), pl.Float32, pl.Float64)
STRANGE: tuple[Any, ...] = (pl.Object, *([pl.BaseExtension] if hasattr(pl, "BaseExtension") else []))
"""Types of what Polars has no type of its own for: Python's objects, and types of Arrow's that others made."""

# What pyarrow, NumPy and Polars raise for values that they have no type for.
NO_TYPE = (TypeError, ValueError, NotImplementedError, OverflowError, pl.exceptions.PolarsError)


class Table(NamedTuple):
    """A table as it came in: its columns, what they are called, and which integers among them are categories."""

    data: pl.DataFrame | Any
    """A Polars frame, or one of scipy's sparse arrays."""
    names: list[str] | None
    """The columns' names; none for arrays, and for frames whose columns are not called by text."""
    categories: list[str]
    """Integer and Boolean columns whose type, in pandas or Arrow, says that they are categories."""


def numbered(count: int) -> list[str]:
    """The names of columns that have none: x0, x1, …"""
    return [f"x{i}" for i in range(count)]


def table(X: Any, *, sparse: str | bool, finite: bool, who: str, least: int = 1) -> Table:  # noqa: N803
    """A table of any kind as a Polars frame, or as it is where it is sparse.

    Parameters
    ----------
    X
        A frame of Polars (lazy ones are collected), pandas, Arrow or another library that narwhals knows or that
        gives an Arrow stream; an array, or what NumPy makes one of; one of scipy's sparse matrices.
    sparse
        The format to bring a sparse matrix to, `"csr"` or `"csc"`; False: it is an error.
    finite
        Whether NaN and infinite values in an array are errors.
    who
        The estimator's name, for messages.
    least
        How many rows there must be, 0 or 1.
    """
    if isinstance(X, pl.LazyFrame):
        X = X.collect()  # noqa: N806
    if not sp.issparse(X) and _is_frame(X):
        return _from_frame(X, finite=finite, who=who, least=least)
    finite_name = "ensure_all_finite" if "ensure_all_finite" in check_array.__kwdefaults__ else "force_all_finite"
    how: dict[str, Any] = {finite_name: finite, "ensure_min_samples": least}
    array: Any = check_array(X, accept_sparse=sparse, dtype=None, estimator=who, input_name="X", **how)
    if sp.issparse(array):
        return Table(array, None, [])
    return Table(_from_array(array, numbered(array.shape[1])), None, [])


def _is_frame(X: Any) -> bool:  # noqa: N803
    """Whether this is a table with columns of their own types."""
    return bool(nw.dependencies.is_into_dataframe(X)) or (hasattr(X, "__arrow_c_stream__") and hasattr(X, "schema"))


def _from_frame(X: Any, *, finite: bool, who: str, least: int) -> Table:  # noqa: N803
    """A frame of any library as a frame of Polars."""
    given = list(X.columns if hasattr(X, "columns") and not hasattr(X, "column_names") else X.schema.names)
    kinds = {type(name).__qualname__ for name in given}
    if "str" in kinds and len(kinds) > 1:
        msg = (
            "Feature names are only supported if all input features have string names, but your input has "
            f"{sorted(kinds)} as feature name / column name types. If you want feature names to be stored and "
            "validated, you must convert them all to strings, by using X.columns = X.columns.astype(str) for example."
        )
        raise TypeError(msg)
    names = given if kinds == {"str"} else None
    columns = given if names is not None else numbered(len(given))
    if len(set(columns)) < len(columns):
        twice = next(name for i, name in enumerate(columns) if name in columns[:i])
        msg = f"{who}: column {twice!r} stands twice in X"
        raise ValueError(msg)
    check_names((name, None) for name in columns)
    frame, categories = as_frame(X, columns)
    for count, needed, what in [(frame.height, least, "sample"), (frame.width, 1, "feature")]:
        if count < needed:
            msg = f"Found array with 0 {what}(s) (shape={frame.shape}) while a minimum of 1 is required by {who}."
            raise ValueError(msg)
    check_types(frame.schema)
    if finite:
        _check_finite(frame, who)
    return Table(frame, names, categories)


def _strange(name: str, dtype: Any) -> TypeError:
    """The error for a column of a type that Polars has not."""
    return TypeError(f"column {name!r}: its dtype is {dtype}, no type of Polars' own: make it numbers, times or text")


def check_names(columns: Iterable[tuple[str, Any]]) -> None:
    """Raise for a name, of these and their types, that Polars can't hand on."""
    for name in names_with_nul(columns):
        msg = f"column {name!r}: its name has the character NUL: give it another"
        raise ValueError(msg)


def check_types(schema: Mapping[str, pl.DataType | type[pl.DataType]]) -> None:
    """Raise for a column of Python's objects, or of a type of Arrow's that Polars does not know."""
    for name, dtype in schema.items():
        if isinstance(dtype, STRANGE):
            raise _strange(name, dtype)


def as_frame(X: Any, columns: list[str]) -> tuple[pl.DataFrame, list[str]]:  # noqa: N803
    """The frame under these names, and which of its columns of numbers were categories."""
    if isinstance(X, pl.DataFrame):
        return X, []
    if nw.dependencies.is_pandas_like_dataframe(X):
        return _from_pandas(X, columns)
    types = {field.name: field.type for field in X.schema} if hasattr(X, "set_column") else {}
    coded = [name for name, type_ in types.items() if hasattr(type_, "index_type") and not _of_text(type_.value_type)]
    for name in coded:  # Arrow's dictionaries of numbers, which Polars reads as the numbers, if at all
        at = columns.index(name)
        X = X.set_column(at, name, X.column(at).cast(types[name].value_type))  # noqa: N806
    known = nw.dependencies.is_into_dataframe(X)
    frame = nw.from_native(X, eager_only=True).to_polars() if known else pl.DataFrame(X)
    odd = [name for name in coded if frame[name].dtype in FLOATS and not is_whole(frame[name])]
    return frame.with_columns(by_name(n).cast(pl.String) for n in odd), [name for name in coded if name not in odd]


def _of_text(type_: Any) -> bool:
    """Whether an Arrow type is one of text."""
    return "string" in str(type_) or "utf8" in str(type_)


def _from_pandas(X: Any, columns: list[str]) -> tuple[pl.DataFrame, list[str]]:  # noqa: N803
    """A pandas frame, or one of a library with its interface: categories of numbers and sparse columns by hand."""
    X = X.set_axis(columns, axis=1) if list(X.columns) != columns else X  # noqa: N806
    own: dict[str, pl.Series] = {}
    categories = []
    for name, dtype in zip(columns, X.dtypes, strict=True):
        if hasattr(dtype, "ordered") and hasattr(dtype, "categories"):
            values = np.asarray(dtype.categories)
            if values.dtype.kind == "f" and np.all(values == np.floor(values)):
                values = values.astype(np.int64)
            if values.dtype.kind in "biu":
                categories.append(name)
                known = pl.Series(values)
            else:
                known = pl.Series(values.astype(str).tolist(), dtype=pl.String).cast(pl.Categorical)
            codes = pl.Series(np.asarray(X[name].cat.codes).astype(np.int64))
            own[name] = known.gather(codes.set(codes < 0, None)).alias(name)
        elif hasattr(dtype, "fill_value"):
            own[name] = pl.Series(name, X[name].sparse.to_dense().to_numpy())
        elif hasattr(dtype, "freq") or hasattr(dtype, "closed"):
            # Periods and intervals, which some versions of Polars would read as the numbers behind them.
            raise _strange(name, dtype)
    rest = [name for name in columns if name not in own]
    frame = _by_narwhals(X[rest]) if rest else pl.DataFrame()
    return pl.DataFrame([own[name] if name in own else frame[name] for name in columns]), categories


def _by_narwhals(X: Any) -> pl.DataFrame:  # noqa: N803
    """A pandas frame as a frame of Polars; columns that Arrow has no type for as those of an array."""
    try:
        frame: pl.DataFrame = nw.from_native(X, eager_only=True).to_polars()
    except NO_TYPE as error:
        names = list(X.columns)
        if len(names) > 1:
            return pl.DataFrame([_by_narwhals(X[[name]]).to_series() for name in names])
        if (array := X.to_numpy()).dtype.kind in "Of":
            return _from_array(array, names)
        raise _strange(names[0], X.dtypes.iloc[0]) from error
    return frame


def _check_finite(frame: pl.DataFrame, who: str) -> None:
    """Raise for a null, NaN or infinite number, in scikit-learn's words."""
    for name in frame.columns:
        column = frame[name].alias("")  # by a name like "^x$" Polars would find no values
        floating = column.dtype in FLOATS
        if column.null_count() or (floating and column.is_nan().any()):
            msg = f"Input X contains NaN.\n{who}: column {name!r} has missing values"
            raise ValueError(msg)
        if floating and column.is_infinite().any():
            msg = f"Input X contains infinity or a value too large for {column.dtype}: column {name!r}, {who}"
            raise ValueError(msg)


def _from_array(array: Any, names: Sequence[str]) -> pl.DataFrame:
    """A matrix as a frame of columns of these names."""
    if array.dtype.kind in "OUS":
        return pl.DataFrame([_column(name, array[:, j]) for j, name in enumerate(names)])
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        array = array.astype(np.float32 if array.dtype.itemsize == 2 else np.float64)
    columns = np.asfortranarray(array, dtype=array.dtype.newbyteorder("="))
    return pl.DataFrame([pl.Series(name, columns[:, j]) for j, name in enumerate(names)])


def is_missing(value: Any) -> bool:
    """Whether this is None, NaN, or pandas' NA or NaT."""
    nan = isinstance(value, float | np.floating) and bool(np.isnan(value))
    return value is None or nan or type(value).__name__ in ("NAType", "NaTType")


def _column(name: str, values: Any) -> pl.Series:
    """A column of a matrix of objects or texts: numbers, or texts; None and NaN are missing."""
    known = [None if is_missing(v) else v for v in values.tolist()]
    if all(v is None or isinstance(v, int | float | np.number | np.bool_) for v in known):
        return pl.Series(name, [np.nan if v is None else float(v) for v in known], dtype=pl.Float64)
    odd = next((v for v in known if not (v is None or isinstance(v, str | bytes))), None)
    if odd is None:
        return pl.Series(name, [v.decode() if isinstance(v, bytes) else v for v in known], dtype=pl.String)
    msg = (
        f"column {name!r}: an argument must be a string or a real number, all of a column the same, "
        f"not {type(odd).__name__!r}"
    )
    raise TypeError(msg)


def _without_duplicates(matrix: Any) -> Any:
    """A compressed matrix whose entries are in order, one for each place; its arrays may be the caller's, and stay."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def dense_columns(matrix: Any, names: Sequence[str]) -> pl.DataFrame:
    """A sparse matrix as dense columns; what does not stand in it is 0."""
    matrix = _without_duplicates(sp.csc_array(matrix))
    columns = []
    for j, name in enumerate(names):
        own = slice(matrix.indptr[j], matrix.indptr[j + 1])
        column = np.zeros(matrix.shape[0], dtype=matrix.dtype)
        column[matrix.indices[own]] = matrix.data[own]
        columns.append(pl.Series(name, column))
    return pl.DataFrame(columns)


def sparse_rows(matrix: Any) -> pl.DataFrame:
    """A sparse matrix as rows of lists: `indices`, List(UInt32), and `values`, List(Float64).

    A row without entries has one null, which is no entry.
    """
    matrix = _without_duplicates(sp.csr_array(matrix))
    entries = np.diff(matrix.indptr)
    rows = np.repeat(np.arange(len(entries)), np.maximum(entries, 1))
    stands = np.ones(len(rows), dtype=bool)
    stands[np.concatenate([[0], np.cumsum(np.maximum(entries, 1))])[:-1][entries == 0]] = False
    indices, values = np.zeros(len(rows), dtype=np.uint32), np.zeros(len(rows))
    indices[stands], values[stands] = matrix.indices, matrix.data
    flat = pl.DataFrame({"row": pl.Series(rows).set_sorted(), "indices": indices, "values": values})
    if not stands.all():
        flat = flat.with_columns(pl.when(pl.Series(stands)).then(pl.col("indices", "values")))
    return flat.group_by("row", maintain_order=True).agg("indices", "values").drop("row")


def is_whole(column: pl.Series) -> bool:
    """Whether all numbers of a column are whole and small enough for integers."""
    # By a name like "^x$" Polars would find no values; and the floor of a Float16 is itself to it.
    known = column.alias("").cast(pl.Float64).fill_nan(None).drop_nulls()
    return bool((known.is_finite() & (known == known.floor()) & (known.abs() < 2.0**62)).all())


def checked_whole(column: pl.Series) -> pl.Series:
    """A column of categories to fit on, as it is: of floats each is a whole number.

    Raises
    ------
    ValueError
        For another number, which would be no category of its own.
    """
    if column.dtype in FLOATS and not is_whole(column):
        known = column.alias("").cast(pl.Float64).fill_nan(None).drop_nulls()
        odd = next(x for x in known.to_list() if not is_whole(pl.Series([x])))
        what = f"`categorical` names it, and it holds {odd}, which is no whole number"
        msg = f"column `{column.name}`: {what}: make text of it first"
        raise ValueError(msg)
    return column


def categories_as_integers(
    frame: AnyFrame, schema: Mapping[str, pl.DataType | type[pl.DataType]], names: Sequence[str]
) -> AnyFrame:
    """The frame of this schema with those of `names` that are floats as integers, NaN as null.

    A number that is not whole becomes one that no column has.
    """
    # The floor of a Float16 is itself to Polars.
    floats = [(name, by_name(name).cast(pl.Float64)) for name in names if schema.get(name) in FLOATS]
    whole = [
        pl.when(number.is_nan() | number.is_null())
        .then(None)
        .when(number.is_finite() & (number == number.floor()) & (number.abs() < 2.0**62))
        .then(number.cast(pl.Int64, strict=False))
        .otherwise(pl.lit(_NOT_SEEN, dtype=pl.Int64))
        .alias(name)
        for name, number in floats
    ]
    return frame.with_columns(whole)


def as_target(y: Any, who: str, *, matrices: bool = False) -> Any:
    """A target as an array of one dimension, without missing values.

    Parameters
    ----------
    y
        A series of Polars, pandas, Arrow or another library; an array, or what NumPy makes one of.
    who
        The estimator's name, for messages.
    matrices
        Whether a matrix of several columns stays one.
    """
    if y is None:
        msg = f"{who} requires y to be passed, but the target y is None."
        raise ValueError(msg)
    array = y.toarray() if sp.issparse(y) else _frame_values(y)
    if not (matrices and array.ndim == 2 and array.shape[1] > 1):
        array = column_or_1d(array, warn=True)
    missing = array.dtype.kind == "O" and any(map(is_missing, array.ravel().tolist()))
    if missing or (array.dtype.kind == "f" and np.isnan(array).any()):
        msg = f"Input y contains NaN.\n{who} takes no missing targets"
        raise ValueError(msg)
    if array.dtype.kind == "f" and np.isinf(array).any():
        msg = f"Input y contains infinity or a value too large for {array.dtype!r}.\n{who}"
        raise ValueError(msg)
    return array


def _frame_values(y: Any) -> Any:
    """The values of a frame, a series or an array."""
    return nw.from_native(y, eager_only=True).to_numpy() if nw.dependencies.is_into_dataframe(y) else _values(y)


def _values(y: Any) -> Any:
    """The values of a series or array."""
    if isinstance(y, pl.DataFrame):
        return y.to_numpy()
    if not isinstance(y, pl.Series) and hasattr(y, "__arrow_c_stream__") and not hasattr(y, "shape"):
        y = pl.Series(y)
    if nw.dependencies.is_into_series(y):
        series = nw.from_native(y, series_only=True)
        return series.cast(nw.Float64).to_numpy() if series.dtype == nw.Decimal else series.to_numpy()
    return np.asarray(y)


def as_series(array: Any) -> pl.Series:
    """An array as a series, each row of a matrix as an array; early versions of Polars need rows for it."""
    some = array if len(array) or array.ndim == 1 else np.zeros((1, array.shape[1]), array.dtype)
    return pl.Series(some).head(len(array))


def as_weights(weights: Any, rows: int, *, few: bool = False) -> pl.Series | None:
    """The weights of `rows` rows, Float64; None for none. `few`: all may be zero, and there may be no rows."""
    if weights is None:
        return None
    values = weights if np.isscalar(weights) else _values(weights)
    if few and rows == 0 and np.size(values) == 0:
        return pl.Series(dtype=pl.Float64)
    # New versions of scikit-learn look for themselves whether all are zero.
    own = {name: True for name in signature(_check_sample_weight).parameters if name == "allow_all_zero_weights"}
    # An array of the rows' number of rows is all that is asked of it.
    checked: Any = _check_sample_weight(values, np.empty((rows, 1)), dtype=np.float64, **own)
    if (checked < 0).any():
        msg = "Negative values in data passed to `sample_weight`."
        raise ValueError(msg)
    if not few and not checked.any():
        msg = "Sample weights must contain at least one non-zero number."
        raise ValueError(msg)
    return pl.Series(checked)


def as_classes(labels: Sequence[Any], like: Any) -> Any:
    """A model's labels as classes of the type of those that a part of the rows has: the reverse of `labels`."""
    kind = like.dtype.kind
    if kind == "O":
        known = {str(label): label for label in like.tolist()}
        out = np.empty(len(labels), dtype=object)
        out[:] = [known.get(label, label) for label in labels]
        return out
    if kind == "S":
        return np.asarray([label.encode() for label in labels])
    wide = np.asarray(labels)
    narrow = wide if kind == "U" else wide.astype(like.dtype)
    # Another part's labels may be beyond the type of these.
    return narrow if np.array_equal(narrow, wide) else wide


def labels(classes: Any) -> pl.Series:
    """Labels as the engine knows them: whole floats as integers, bytes as text."""
    if classes.dtype.kind == "b":
        return pl.Series(classes)
    if classes.dtype.kind in "iuf":
        return pl.Series(classes if classes.dtype == np.uint64 else classes.astype(np.int64))
    return pl.Series([v.decode() if isinstance(v, bytes) else str(v) for v in classes.tolist()], dtype=pl.String)


def height(query: pl.LazyFrame) -> int:
    """The number of rows of a query, which is run for it."""
    rows = query.select(pl.len())
    # Early versions of Polars know of one engine alone.
    streams = hasattr(pl.LazyFrame, "collect_batches")
    return int((rows.collect(engine="streaming") if streams else rows.collect()).item())

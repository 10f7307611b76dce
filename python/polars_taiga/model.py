"""A fitted model as a Python value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, overload

import polars as pl

from polars_taiga import _plugin, _taiga
from polars_taiga._metadata import metadata_json
from polars_taiga._persisted import Persisted
from polars_taiga.custom_metric import CustomMetric
from polars_taiga.loss import CustomLoss

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

    from polars.datatypes import DataType, DataTypeClass

    from polars_taiga._grid import Grid
    from polars_taiga._metadata import Metadata
    from polars_taiga._plugin import IntoColumn, IntoColumns
    from polars_taiga.explanation import Explanation
    from polars_taiga.gbdt import Metric
    from polars_taiga.predict import Output

__all__ = ["Model"]


# The columns of `Model.trees`, before names stand in the place of their indices.
_BOOSTED_NODES: dict[str, type[pl.DataType] | pl.DataType] = {
    "tree": pl.UInt32,
    "round": pl.UInt32,
    "output": pl.UInt32,
    "node": pl.UInt32,
    "depth": pl.UInt32,
    "left": pl.UInt32,
    "right": pl.UInt32,
    "feature": pl.UInt32,
    "border": pl.Float64,
    "missing_left": pl.Boolean,
    "gain": pl.Float64,
    "value": pl.Float64,
    "leaf": pl.UInt32,
    "weight": pl.Float64,
    "count": pl.UInt64,
}
# Besides, of models some of whose leaves are linear functions.
_LINEAR_LEAVES: dict[str, type[pl.DataType] | pl.DataType] = {
    "constant": pl.Float64,
    "linear_features": pl.List(pl.UInt32),
    "coefficients": pl.List(pl.Float64),
}
_FOREST_NODES: dict[str, type[pl.DataType] | pl.DataType] = {
    "tree": pl.UInt32,
    "node": pl.UInt32,
    "depth": pl.UInt32,
    "left": pl.UInt32,
    "right": pl.UInt32,
    "feature": pl.UInt32,
    "border": pl.Float64,
    "right_categories": pl.List(pl.UInt32),
    "missing_left": pl.Boolean,
    "gain": pl.Float64,
    "value": pl.List(pl.Float64),
    "leaf": pl.UInt32,
    "weight": pl.Float64,
    "count": pl.UInt64,
}

# What a model knows of its columns' importance without rows.
_OWN_IMPORTANCES: dict[str, tuple[str, ...]] = {
    "gbdt": ("gain", "split", "cover"),
    "forest": ("gain", "impurity", "split", "cover", "permutation"),
    "sparse_lr": (),
}


def _named(indices: pl.Series, names: Sequence[str | None]) -> pl.Series:
    """Replace indices by names. Rows share the text of a name, which may be long and stand in many of them."""
    known = pl.lit(pl.Series(names, dtype=pl.String))
    return pl.DataFrame([indices]).select(known.gather(pl.col(indices.name)).alias(indices.name)).to_series()


def _named_lists(indices: pl.Series, names: Sequence[str | None]) -> pl.Series:
    """Replace the indices in lists by names, likewise. (`list.eval` would copy the names for each list.)"""
    name = indices.name
    lists = pl.DataFrame([indices]).with_row_index("row")
    flat = lists.filter(pl.col(name).list.len() > 0).explode(name)
    named = flat.with_columns(_named(flat[name], names)).group_by("row", maintain_order=True).agg(name)
    nothing = pl.lit(pl.Series([[]], dtype=pl.List(pl.String)))
    empty = lists.select("row", pl.when(pl.col(name).is_not_null()).then(nothing).alias("empty"))
    both = empty.join(named, on="row", how="left").sort("row")
    return both.select(pl.coalesce(name, "empty").alias(name)).to_series()


def curve_name(name: str | None, metric: str) -> str:
    """The column of a metric of a set."""
    return metric if name is None else f"{name}_{metric}"


class Model(Persisted):
    """A fitted model: what it was fitted with, what it learned, and its bytes.

    The bytes are what `fit_gbdt`, `fit_forest` and `fit_sparse_lr` give and what a file written by `save`
    holds. Equal models have equal bytes. A model can't be changed; it can be hashed, compared and
    pickled. What a learner's models do not have (a forest's coefficients, say) is a `ValueError`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") >= 50)
    >>> model = df.taiga.fit_gbdt("y", "x", rounds=3)
    >>> model.features
    {'x': 'numeric'}
    >>> model.classes
    [False, True]
    >>> tg.Model.from_bytes(model.to_bytes()) == model
    True
    """

    __slots__ = ()
    _inner: _taiga.Model
    _noun = "a model"
    _plugin_class = _taiga.Model

    def _label(self) -> str:
        columns = f"{len(self.features):,} feature" + ("" if len(self.features) == 1 else "s")
        number = self._inner.trees()
        trees = (
            f"{number:,} tree" + ("" if number == 1 else "s")
            if self.learner != "sparse_lr"
            else self.params["optimizer"]
        )
        return f"{self.learner}: {trees}, {columns}"

    @overload
    def predict(
        self,
        data: pl.DataFrame | pl.Series,
        *features: IntoColumns,
        output: Output | Sequence[Output] = "auto",
        dtype: DataType | DataTypeClass | None = None,
        rounds: int | None = None,
        device: str = "auto",
    ) -> pl.Series: ...

    @overload
    def predict(
        self,
        data: pl.LazyFrame,
        *features: IntoColumns,
        output: Output | Sequence[Output] = "auto",
        dtype: DataType | DataTypeClass | None = None,
        rounds: int | None = None,
        device: str = "auto",
    ) -> pl.LazyFrame: ...

    def predict(
        self,
        data: pl.DataFrame | pl.LazyFrame | pl.Series,
        *features: IntoColumns,
        output: Output | Sequence[Output] = "auto",
        dtype: DataType | DataTypeClass | None = None,
        rounds: int | None = None,
        device: str = "auto",
    ) -> pl.Series | pl.LazyFrame:
        """Predict the rows of some data by `tg.predict`.

        Parameters
        ----------
        data
            A DataFrame; a LazyFrame; a Series, which is the model's one feature, whatever its name, or a struct of its
            features.
        features, output, dtype, rounds, device
            As in `tg.predict`.

        Returns
        -------
        Series or LazyFrame
            A Series `prediction`, one value a row; of a LazyFrame a query of that one column, not yet run.

        Raises
        ------
        ValueError
            As `tg.predict`.
        TypeError
            For data of another type.
        polars.exceptions.ColumnNotFoundError, polars.exceptions.SchemaError
            For columns that are missing or of another type.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") >= 50)
        >>> model = df.taiga.fit_gbdt("y", "x", rounds=20)
        >>> model.predict(pl.Series([3, 80]), output="class").to_list()
        [False, True]
        >>> model.predict(df.lazy().tail(1), output=["class", "auto"], dtype=pl.Float32).collect_schema()
        Schema([('prediction', Struct({'class': Boolean, 'auto': Float32}))])
        """
        from polars_taiga.predict import predict

        data = self._frame_of(data)
        expr = predict(self, *features, output=output, dtype=dtype, rounds=rounds, device=device)
        if isinstance(data, pl.LazyFrame):
            return data.select(expr)
        with _plugin.errors():
            return data.select(expr).to_series()

    def score(
        self,
        data: pl.DataFrame | pl.LazyFrame,
        target: IntoColumn | None = None,
        *features: IntoColumns,
        metric: Metric | str | CustomMetric | None = None,
        weight: IntoColumn | None = None,
        group: IntoColumn | None = None,
        event: IntoColumn | None = None,
        lower: IntoColumn | None = None,
        upper: IntoColumn | None = None,
        rounds: int | None = None,
        device: str = "auto",
    ) -> float:
        """Measure predictions of the rows of a frame by `tg.score`, running the query of a lazy one.

        Parameters
        ----------
        data
            The rows.
        target
            The column to measure against; default the one of the fitted target's name.
        features, metric, weight, group, event, lower, upper, rounds, device
            As in `tg.score`: without a metric the one of the loss itself, of a forest accuracy or R². Those of ranking
            need `group`, those of survival `event`, or `lower` and `upper`.

        Raises
        ------
        ValueError
            As `tg.score`.
        TypeError
            For data of another type.
        polars.exceptions.ComputeError
            Where the rows can't be measured so.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=2.0 * pl.col("x"))
        >>> model = df.taiga.fit_forest("y", "x", trees=20)
        >>> model.score(df) > 0.99
        True
        """
        from polars_taiga.predict import target_by_name
        from polars_taiga.score import score

        if not isinstance(data, pl.DataFrame | pl.LazyFrame):
            kind = type(data).__name__  # type: ignore[unreachable]
            msg = f"score: the data are a DataFrame or LazyFrame with the target among its columns, not {kind}"
            raise TypeError(msg)
        wanted = target_by_name(self) if target is None else target
        expr = score(
            self,
            wanted,
            *features,
            metric=metric,
            weight=weight,
            group=group,
            event=event,
            lower=lower,
            upper=upper,
            rounds=rounds,
            device=device,
        )
        with _plugin.errors():
            return float(data.lazy().select(expr).collect().item())

    def explain(
        self,
        row: pl.DataFrame | pl.LazyFrame | Mapping[str, Any],
        *features: IntoColumns,
        label: object = None,
        background: pl.DataFrame | None = None,
    ) -> Explanation:
        """Explain how one row comes to its prediction: the base value, each feature's contribution, the result.

        Contributions are exact Shapley values, those of `tg.predict(output="shap")`.

        Parameters
        ----------
        row
            A DataFrame or LazyFrame of one row, or a dictionary of a row's values by column.
        features, background
            As in `tg.predict`.
        label
            Of more than two classes, the one to explain; default the likeliest.

        Returns
        -------
        Explanation
            It prints as a table; its numbers are `base_value`, `contributions` (a DataFrame), `score`, `prediction`.

        Raises
        ------
        ValueError
            For other than one row, and a class that is not there.
        TypeError
            For a row of another type.
        polars.exceptions.ColumnNotFoundError, polars.exceptions.SchemaError
            For columns that are missing or of another type.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"x": range(100), "z": [0, 1] * 50}).with_columns(y=2.0 * pl.col("x"))
        >>> model = df.taiga.fit_gbdt("y", "x", "z", rounds=3, depth=1, learning_rate=1.0, l2=0.0)
        >>> model.explain({"x": 99, "z": 1})
        y
          base value   99
          x = 99      +84
          z = 1        +0
          result      183
        """
        from polars_taiga.explanation import explain

        return explain(self, row, *features, label=label, background=background)

    def partial_dependence(
        self,
        data: pl.DataFrame | pl.LazyFrame | None = None,
        features: str | Sequence[str] = (),
        *,
        grid: Grid | None = None,
        missing: bool | None = None,
        output: Literal["auto", "raw"] | None = None,
        individual: bool = False,
        centered: bool = False,
        weight: IntoColumn | None = None,
        sample: int | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> pl.DataFrame:
        """Compute what it predicts in the mean where one or two columns are given each of some values.

        Parameters, result and errors are those of `tg.partial_dependence`: by the rows of `data`, or without them by
        the training rows' part in the model.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"x": range(100), "z": [0, 1] * 50}).with_columns(y=2.0 * pl.col("x"))
        >>> model = df.taiga.fit_gbdt("y", "x", "z", rounds=1, depth=1, learning_rate=1.0, l2=0.0)
        >>> model.partial_dependence(df, "x", grid=[10, 90]).rows()
        [(10, 49.0), (90, 149.0)]
        >>> model.partial_dependence(features="x", grid=[10, 90]).rows()
        [(10.0, 49.0), (90.0, 149.0)]
        """
        from polars_taiga.dependence import partial_dependence

        return partial_dependence(
            self,
            data,
            features,
            grid=grid,
            missing=missing,
            output=output,
            individual=individual,
            centered=centered,
            weight=weight,
            sample=sample,
            seed=seed,
            device=device,
        )

    def _frame_of(self, data: object) -> pl.DataFrame | pl.LazyFrame:
        """Data as a frame: of a series its fields, or itself as the model's one feature."""
        if isinstance(data, pl.DataFrame | pl.LazyFrame):
            return data
        if not isinstance(data, pl.Series):
            msg = f"the data are a Polars DataFrame, LazyFrame or Series, not {type(data).__name__}"
            raise TypeError(msg)
        if data.dtype == pl.Struct:
            return data.struct.unnest()
        if len(self.features) != 1:
            msg = f"a Series is the one feature of a model, and this one has {len(self.features)}: give a DataFrame"
            raise ValueError(msg)
        return data.alias(next(iter(self.features))).to_frame()

    def head(self, rounds: int) -> Model:
        """Make the model of the first rounds of boosting (of a forest: trees).

        It is what a fit of so many rounds gives, down to the bytes, with these exceptions: early stopping may have
        ended such a fit sooner; and a forest's is that of a fit with `oob=False` and no permutation importance, which
        are of all trees. Borders, categories and statistics that later rounds alone use are left out, and `history`
        ends with the last round. `tg.predict(model, rounds=k)` predicts by it without making it.

        Parameters
        ----------
        rounds
            How many, at least 1. With as many as the model has, or more, it is the model itself.

        Raises
        ------
        ValueError
            For less than 1, and for a sparse logistic regression, which keeps the result of its last pass alone.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=2.0 * pl.col("x"))
        >>> model = df.taiga.fit_gbdt("y", "x", rounds=10)
        >>> model.head(4) == df.taiga.fit_gbdt("y", "x", rounds=4)
        True
        >>> model[:4].rounds
        4
        """
        from polars_taiga.predict import check_has_rounds, checked_rounds

        if rounds is None:
            msg = "head: rounds=None is not an integer"  # type: ignore[unreachable]
            raise TypeError(msg)
        check_has_rounds("head", self)
        number = checked_rounds("head", rounds)
        return Model(self._inner.head(number or 1))

    def __getitem__(self, rounds: slice) -> Model:
        """The model of a slice of its rounds that begins with the first one, as `head`: `model[:10]`, `model[:-5]`."""
        if not isinstance(rounds, slice):
            msg = f"a model is sliced by rounds, model[:{rounds!r}]; trees() has the single ones"  # type: ignore[unreachable]
            raise TypeError(msg)
        start, stop, step = rounds.indices(self.rounds)
        if start != 0 or step != 1:
            msg = "a slice of a model begins with its first round and leaves none out: model[:10]"
            raise ValueError(msg)
        return self.head(stop)

    def to_json(self) -> str:
        """Write the whole model as JSON: parameters, features, borders, trees. `docs/model.schema.json` is its schema.

        Returns
        -------
        str
            A text that `Model.from_json` makes an equal model of, with the same bytes.

        Examples
        --------
        >>> import json
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> model = pl.DataFrame({"x": range(100), "y": range(100)}).taiga.fit_gbdt("y", "x", rounds=3)
        >>> text = model.to_json()
        >>> json.loads(text)["format"], tg.Model.from_json(text) == model
        ('polars-taiga gbdt', True)
        """
        return self._inner.to_json()

    def to_onnx(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        dtype: DataType | DataTypeClass | None = None,
        columns: bool | None = None,
    ) -> bytes:
        """Write the model as an ONNX graph, which runtimes of many languages run. This needs the package `onnx`
        (`polars-taiga[onnx]`).

        Everything is in the graph: links (probabilities, exponentials, quantiles that ascend), labels, missing values,
        which go where the model has them, and categories with all statistics of theirs.

        Parameters
        ----------
        path
            A file to write it to, whole or not at all.
        dtype
            `pl.Float32`: numbers are read and summed so, as most runtimes do. Borders are rounded such that every
            Float32 takes the way that `tg.predict` sends it; scores differ in the seventh digit. `pl.Float64`: the
            scores are those of `tg.predict`. Default: `Float32` unless a column is temporal or scores are beyond it.
        columns
            Whether each column that splits read is an input of its own, `[rows, 1]`, under its name. Else there is
            one, `features`, `[rows, columns]`, in the order of `Model.features`. Default: where a column has
            categories. These are text, or integers (Booleans too); null is `""`, or -2^63. Temporal columns are ticks.

        Returns
        -------
        bytes
            The graph. Outputs: `prediction`, `[rows]`, or `[rows, fields]` in the order of the fields of `tg.predict`;
            of a classifier `label`, `[rows]` (those that are neither Booleans, integers nor floats as text), and
            `probabilities`, `[rows, classes]`. It is of `ai.onnx.ml` 3 (ONNX 1.11), with sets of several categories
            and in Float64 of 5 (ONNX 1.16; ONNX Runtime 1.21).

        Raises
        ------
        ImportError
            Without the package `onnx`.
        ValueError
            For a sparse logistic regression of lists; where `dtype=pl.Float32` or `columns=False` can't hold what is
            there; for columns called as a part of the graph, and for one that has both null and what stands for it
            (`""`, of integers -2^63) as categories; for leaves that are linear functions.
        OSError
            Where the file can't be written.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") >= 50)
        >>> model = df.taiga.fit_gbdt("y", "x", rounds=20)
        >>> import onnxruntime
        >>> session = onnxruntime.InferenceSession(model.to_onnx())
        >>> rows = pl.DataFrame({"x": [3, 80]}, schema={"x": pl.Float32})
        >>> session.run(["label"], {"features": rows.to_numpy()})[0].tolist()
        [False, True]
        """
        from polars_taiga.onnx import to_onnx

        return to_onnx(self, path, dtype=dtype, columns=columns)

    def to_sql(
        self,
        dialect: str,
        table: str,
        *,
        keep: str | Sequence[str] = (),
        columns: Mapping[str, str] | None = None,
        max_length: int = 1_000_000,
    ) -> str:
        """Write a small model as a SELECT statement, for databases that run nothing else: trees are CASE expressions.
        This needs the package `sqlglot` (`polars-taiga[sql]`).

        Parameters
        ----------
        dialect
            A database's name, as sqlglot knows them: `"duckdb"`, `"sqlite"`, `"postgres"`, `"bigquery"`, ….
        table
            The table to predict, as it is written in SQL.
        keep
            Columns of the table to give beside the predictions: names, each once, or one name.
        columns
            How to compute a column of the model's, in SQL; default is the table's column of that name. Needed for
            temporal columns, whose ticks they are: `{"seen": "epoch_us(seen)"}`.
        max_length
            The most characters that the statement may have.

        Returns
        -------
        str
            A statement that gives `prediction`, or `prediction_<field>` for each field that `tg.predict` has, and
            `predicted_<target>` of a classifier, the class. Numbers are doubles, computed as `tg.predict` computes them
            but for the database's `EXP`; null and NaN are missing.

        Raises
        ------
        ImportError
            Without the package `sqlglot`.
        ValueError
            For a model whose statement is longer than `max_length`; for a sparse logistic regression of lists; for a
            dialect that there is not, what is no table's name, and temporal columns that `columns` does not have; for
            columns to keep that stand there twice or are called as the predictions.
        TypeError
            For names that are no strings.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=2.0 * pl.col("x"))
        >>> model = df.taiga.fit_gbdt("y", "x", rounds=2, depth=1)
        >>> query = model.to_sql("duckdb", "df", keep=["x"])
        >>> import duckdb
        >>> abs(duckdb.sql(query).fetchall()[7][1] - model.predict(df)[7]) < 1e-12
        True
        """
        from polars_taiga.case_sql import to_sql

        return to_sql(self, dialect, table, keep=keep, columns=columns, max_length=max_length)

    def to_treelite(self) -> Any:
        """Make a model of Treelite, for its compilers and servers. This needs the package `treelite`
        (`polars-taiga[treelite]`).

        Links, missing values and several outputs are kept; a forest of two classes gives both shares. Columns are those
        of `Model.features`, in this order, and numbers are doubles: `treelite.gtil.predict` gives what `tg.predict`
        does (softmax in f32).

        Returns
        -------
        treelite.Model
            Of trees with several outputs, one a tree; classes are Treelite's classes, targets its targets.

        Raises
        ------
        ImportError
            Without the package `treelite`.
        ValueError
            For what Treelite does not know: categories with labels, several quantiles, a mean with its variance, linear
            models, leaves that are linear functions.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=2.0 * pl.col("x"))
        >>> model = df.taiga.fit_gbdt("y", "x", rounds=20)
        >>> model.to_treelite().num_tree
        20
        """
        from polars_taiga.treelite import to_treelite

        return to_treelite(self)

    def to_lightgbm(self) -> Any:
        """Make a booster of LightGBM, which predicts the same, for what reads its files. This needs the package
        `lightgbm`.

        Links, missing values and several outputs are kept; of a forest of two classes the second's share, as in
        `tg.predict`. Columns are those of `Model.features`, in this order.

        Returns
        -------
        lightgbm.Booster
            `num_iteration` counts rounds (trees of a forest). White space in names becomes an underscore.

        Raises
        ------
        ImportError
            Without the package `lightgbm`.
        ValueError
            For what LightGBM does not know: categories with labels, several quantiles, several targets of a log link, a
            mean with its variance, linear models.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=2.0 * pl.col("x"))
        >>> model = df.taiga.fit_gbdt("y", "x", rounds=20)
        >>> booster = model.to_lightgbm()
        >>> bool(abs(booster.predict([[7.0]])[0] - model.predict(df)[7]) < 1e-12)
        True
        """
        from polars_taiga.lightgbm import to_lightgbm

        return to_lightgbm(self)

    def to_xgboost(self) -> Any:
        """Make a booster of XGBoost, for what reads its files. This needs the package `xgboost` or `xgboost-cpu`.

        XGBoost reads and sums Float32: of Float32 columns every split decides as in `tg.predict`, and predictions
        differ in the seventh digit.

        Links, missing values and several outputs are kept; of a forest of two classes the second's share, as in
        `tg.predict`. Columns are those of `Model.features`, in this order.

        Returns
        -------
        xgboost.Booster
            `iteration_range` counts rounds (trees of a forest; its shares are those of all its trees).

        Raises
        ------
        ImportError
            Without the package `xgboost`.
        ValueError
            For what XGBoost does not know: categories with labels, several quantiles, a mean with its variance, linear
            models, leaves that are linear functions.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=2.0 * pl.col("x"))
        >>> model = df.taiga.fit_gbdt("y", "x", rounds=20)
        >>> booster = model.to_xgboost()
        >>> booster.num_boosted_rounds(), booster.feature_names
        (20, ['x'])
        """
        from polars_taiga.xgboost import to_xgboost

        return to_xgboost(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """Read a file: one that `save` wrote, a text of `to_json`, or a model of another library.

        Of other libraries: XGBoost's `.json` and `.ubj`, LightGBM's `.txt`, CatBoost's `.json` and `.cbm`; what the
        file is its first bytes say. `tg.import_model` does the same with names, categories and labels that the file
        does not tell.

        Raises
        ------
        ValueError
            For what can't be read, and of other libraries' models what can't be kept exactly: the text says what it is.
        OSError
            Where there is no such file.
        """
        from pathlib import Path

        data = Path(path).read_bytes()
        if not data.lstrip()[:4].startswith((b"{", b"tree", b"CBM1", b"binf")):
            return cls(data)
        # In JSON a quotation mark within a text, as a feature's name, has a backslash before it. UBJSON and cbm have
        # names as they are: they do not begin as JSON does.
        if re.match(rb'\s*\{\s*"', data) and re.search(rb'"format"\s*:\s*"polars-taiga ', data):
            return cls.from_json(data.decode())
        from polars_taiga.importing import import_model

        return import_model(data)

    @classmethod
    def from_json(cls, text: str) -> Model:
        """The model of a JSON text: the inverse of `to_json`, with the same bytes as the model that wrote it.

        (Of a forest that asks about categories it is the same model in other bytes: its sets have bits that the text
        does not tell, because no category has them.)

        Numbers may be edited; what comes out is a valid model, checked as `from_bytes` checks it, or an error. Texts
        that earlier versions wrote of forests lack the leaves' `sums` and can't be read. Of targets beyond 1e150 the
        splits' gains are beyond what JSON's numbers hold: the model that is read predicts the same without them.

        Raises
        ------
        ValueError
            For anything but the whole JSON of a valid model that this version can read; the text tells what is wrong.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=2.0 * pl.col("x"))
        >>> model = df.taiga.fit_gbdt("y", "x", rounds=3)
        >>> tg.Model.from_json(model.to_json()) == model
        True
        """
        if not isinstance(text, str):
            msg = f"from_json: a model's JSON is a string, not {type(text).__name__}"  # type: ignore[unreachable]
            raise TypeError(msg)
        return cls(_taiga.Model.from_json(text).to_bytes())

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that it was fitted with."""
        params: dict[str, Any] = json.loads(self._inner.params())
        if (formulas := params.pop("custom_loss", None)) is not None:
            params["loss"] = CustomLoss._of(formulas)
        metric = params.get("metric")
        if isinstance(metric, dict):
            params["metric"] = CustomMetric._of(metric)
        elif isinstance(metric, list):
            params["metric"] = [CustomMetric._of(one) if isinstance(one, dict) else one for one in metric]
        params.pop("position_factors", None)
        params.pop("targets", None)
        return params

    @property
    def position_factors(self) -> pl.DataFrame:
        """What each `position` of the training rows adds to a score in the fit: `position`, ascending, and `factor`.

        Differences between factors say something, a factor alone does not: a position whose factor is that of the first
        less 0.7 halves the odds of a click there. They are those after the last round that the model keeps. No rows
        for a model without positions, and for the `head` of a model.

        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"list": range(0, 600), "rank": 1}).with_columns(click=pl.col("list") % 3 != 0)
        >>> seen = pl.concat([df, df.with_columns(rank=2, click=pl.col("list") % 3 == 0)])
        >>> seen = seen.with_columns(pl.col("click").cast(pl.Float64), x=pl.col("list") % 7)
        >>> model = seen.taiga.fit_gbdt("click", "x", group="list", position="rank", loss="lambdarank", rounds=50)
        >>> model.position_factors["position"].to_list()
        [1, 2]
        >>> first, second = model.position_factors["factor"]
        >>> first > second
        True
        """
        found = json.loads(self._inner.params()).get("position_factors") or {"labels": [], "factors": []}
        factors = pl.Series(found["factors"], dtype=pl.Float64)
        return pl.DataFrame({"position": pl.Series(found["labels"], dtype=None), "factor": factors})

    @property
    def targets(self) -> list[str] | None:
        """The names of several targets, or of labels of which a row may have several: the fields of a prediction. None
        for one target.
        """
        names: list[str] | None = json.loads(self._inner.params()).get("targets")
        return names

    @property
    def metadata(self) -> dict[str, Any]:
        """What was said of the model by `metadata=` of the fit or by `with_metadata`: JSON values by name, a part of
        its bytes. Empty where nothing was. It is a copy: changing it changes no model.
        """
        text = self._inner.metadata()
        values: dict[str, Any] = {} if text is None else json.loads(text)
        return values

    def with_metadata(self, metadata: Metadata | None) -> Model:
        """Make the same model with other metadata in the place of those it has.

        Parameters
        ----------
        metadata
            JSON values by name: strings, finite numbers (integers of at most 64 bits), Booleans, None, lists and
            dictionaries of these, a mebibyte in all; the order of names is not kept, and tuples become lists.
            `None` or an empty dictionary: none, and the bytes are those of a model that never had any.

        Raises
        ------
        TypeError, ValueError
            For what is no JSON value, naming its place.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=2.0 * pl.col("x"))
        >>> model = df.taiga.fit_gbdt("y", "x", rounds=3, metadata={"data": "2026-11", "by": ["ann"]})
        >>> model.metadata
        {'by': ['ann'], 'data': '2026-11'}
        >>> model.with_metadata({**model.metadata, "checked": True}).metadata["checked"]
        True
        >>> model.with_metadata(None) == df.taiga.fit_gbdt("y", "x", rounds=3)
        True
        """
        return Model(self._inner.with_metadata(metadata_json(metadata)))

    @property
    def receipt(self) -> str | None:
        """Of which rows it was fitted, as 64 hexadecimal digits: SHA-256 of all that a fit with `row_key` read of
        them, in an order that is their own, of the parameters and of the version. `tg.receipt` computes it of rows at
        hand. `None` of a fit without `row_key`, of those of folds, and of a part of a model (`head`). A part of the
        bytes: what it proves and what not is in docs/row_key.md.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"id": range(100), "x": range(100)}).with_columns(y=pl.col("x") % 7)
        >>> model = df.taiga.fit_gbdt("y", "x", rounds=3, row_key="id")
        >>> again = df.sample(fraction=1, shuffle=True).taiga.fit_gbdt("y", "x", rounds=3, row_key="id")
        >>> model.receipt == again.receipt == df.taiga.receipt(tg.fit_gbdt, "y", "x", rounds=3, row_key="id")
        True
        """
        return self._inner.receipt()

    @property
    def learner(self) -> Literal["gbdt", "forest", "sparse_lr"]:
        """What fitted it: `"gbdt"`, `"forest"` or `"sparse_lr"`."""
        return self._inner.learner()

    @property
    def loss(self) -> str:
        """The loss, or a forest's criterion; what `"auto"` came to. Of a loss of one's own what `tg.loss` shows."""
        name = self._inner.loss()
        return repr(self.params["loss"]) if name == "custom" else name

    @property
    def target(self) -> str:
        """The target's name."""
        return self._inner.target()

    @property
    def features(self) -> dict[str, str]:
        """Name and type of each column that it reads, in the order of fitting. `numeric` stands for any
        number; a temporal type is itself; of sparse rows these are the columns of lists.
        """
        return dict(self._inner.features())

    @property
    def computed_features(self) -> list[str]:
        """Of `features`, those that were not columns under these names at the fit but results of expressions:
        `predict` needs them given again.
        """
        fields = {name for names in self.structs.values() for name in names}
        return [name for name in self._inner.computed_features() if name not in fields]

    @property
    def structs(self) -> dict[str, list[str]]:
        """The columns of structs that it reads, by name, and which of `features` are their fields.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"s": [{"a": i, "b": i % 3} for i in range(100)], "y": range(100)})
        >>> model = df.taiga.fit_gbdt("y", "s", rounds=5)
        >>> model.structs
        {'s': ['a', 'b']}
        >>> df.select(tg.predict(model)).height
        100
        """
        return dict(self._inner.structs())

    @property
    def borders(self) -> dict[str, list[float]]:
        """The borders of each feature that splits use, ascending: a split sends `x > border` right. Those
        that were made for the fit and that no split uses are not kept; none of a feature that no split uses.
        """
        return dict(zip(self.features, self._inner.borders(), strict=True))

    @property
    def classes(self) -> list[bool] | list[int] | list[float] | list[Decimal] | list[str] | None:
        """The class labels; `None` for a regression. Sorted, or in the order of their Enum; of two, the last is
        the one whose probability is predicted, `positive` where that was given.
        """
        return self._inner.classes()

    @property
    def rounds(self) -> int:
        """The number of rounds of boosting that are kept (a round is a tree for each output: of several classes, one a
        class); of a forest its trees, of a sparse logistic regression the passes over the rows.
        """
        return self._inner.rounds()

    @property
    def history(self) -> pl.DataFrame:
        """The metrics of the measured rows: `round` (from 0), each metric by its name, and whether the round is `best`.

        Of held-out sets with names, and of the training rows (`eval_train=True`), the name stands before the metric:
        `north_auc`, `train_auc`. `best` is by the first metric of the first set. No rows where nothing was measured.
        (Of a sparse logistic regression a round is a pass over the rows; a forest has `oob_score` and
        `oob_predictions`.)
        """
        history = self._inner.history()
        if history is None:
            return pl.DataFrame(schema={"round": pl.UInt32, "metric": pl.Float64, "best": pl.Boolean})
        curves, best = history
        columns = {curve_name(name, metric): pl.Series(values, dtype=pl.Float64) for name, metric, values in curves}
        rounds = pl.Series(range(len(curves[0][2])), dtype=pl.UInt32)
        return pl.DataFrame({"round": rounds, **columns}).with_columns(best=pl.col("round") == best)

    def trees(self) -> pl.DataFrame:
        """Every node and leaf of every tree, one row each.

        Symmetric trees are written out as branching ones. `left`, `right`, `feature`, `border`,
        `missing_left` and `gain` are null in leaves; `value` (in units of the score, the learning
        rate included) and `leaf` in inner nodes. `weight` is the sum of hessians and `count` the
        number of the training rows that came by. The split of a symmetric tree's level gains for all its
        nodes together: `gain` stands once, at the first of them, and is null in the others, so that sums
        over rows are right.

        Where leaves are linear functions (`leaf="linear"`, LightGBM's `linear_tree`), three columns more have the
        `constant`, the `linear_features` and their `coefficients`; `value` is then that of rows where the function is
        not finite, because a value is missing.

        Of a forest's trees, `gain` is by how much a split lowers the impurity, `right_categories` the
        categories that go right (of a split on categories `missing_left` is whether those that the model
        does not know go left; null is a category of its own), `value` a list (the shares of the classes,
        or the mean), and `weight` and `count` are of rows as often as they were drawn.
        """
        nodes, features, categories = self._inner.nodes()
        schema = _FOREST_NODES if self.learner == "forest" else _BOOSTED_NODES
        is_linear = "coefficients" in nodes
        frame = pl.DataFrame(nodes, schema={**schema, **_LINEAR_LEAVES} if is_linear else schema)
        if is_linear:
            frame = frame.with_columns(_named_lists(frame["linear_features"], features))
        if self.learner == "forest":
            frame = frame.with_columns(_named_lists(frame["right_categories"], categories))
        return frame.with_columns(_named(frame["feature"], features))

    def importance(
        self,
        kind: Literal["gain", "impurity", "split", "cover", "permutation", "shap", "loss_change"] = "gain",
        data: pl.DataFrame | pl.LazyFrame | None = None,
        target: IntoColumn | None = None,
        *features: IntoColumns,
        weight: IntoColumn | None = None,
        group: IntoColumn | None = None,
        event: IntoColumn | None = None,
        lower: IntoColumn | None = None,
        upper: IntoColumn | None = None,
        metric: Metric | str | CustomMetric | None = None,
        repeats: int = 5,
        seed: int = 0,
        background: pl.DataFrame | pl.LazyFrame | None = None,
        rounds: int | None = None,
        device: str = "auto",
    ) -> pl.DataFrame:
        """Measure how much each feature matters, by the model itself or on the rows of a frame.

        Parameters
        ----------
        kind
            Of the model itself, which trees have:

            `"gain"` (default)
                The total gain of its splits, in units of the weights and, for losses that are in units of the target,
                of its square. Of a forest (also `"impurity"`) the feature's share of what splits lower the impurity
                by, the mean over the trees (scikit-learn's `feature_importances_`).
            `"split"`
                The number of its splits.
            `"cover"`
                The sum of hessians of the rows that met its splits, of a forest the number of rows drawn.
            `"permutation"` without `data`
                Of a forest fitted with `permutation_importance=True`: how much worse trees predict the rows that they
                did not draw when the feature is shuffled.

            Measured on `data`, for every learner: `"shap"`, `"permutation"` and `"loss_change"` of `tg.importance`.
        data
            The rows; the query of a lazy frame is run.
        target
            The column to measure against; default the one of the fitted target's name. `"shap"` does without.
        features, weight, group, event, lower, upper, metric, repeats, seed, background, rounds, device
            As in `tg.importance`; they are for what is measured on `data`.

        Returns
        -------
        DataFrame
            `feature` and `importance`, a Float64, in the order of fitting. (A column of lists is one feature.)

        Raises
        ------
        ValueError
            For a kind that the model does not have, or that needs `data` or has no use for them.
        TypeError
            For data of another type.
        polars.exceptions.ColumnNotFoundError, polars.exceptions.SchemaError
            For columns that are missing or of another type.
        polars.exceptions.ComputeError
            Where the rows can't be measured so.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"x": range(100), "z": [0, 1] * 50}).with_columns(y=2.0 * pl.col("x"))
        >>> model = df.taiga.fit_gbdt("y", "x", "z", rounds=1, depth=1, learning_rate=1.0, l2=0.0)
        >>> model.importance("shap", df)
        shape: (2, 2)
        ┌─────────┬────────────┐
        │ feature ┆ importance │
        │ ---     ┆ ---        │
        │ str     ┆ f64        │
        ╞═════════╪════════════╡
        │ x       ┆ 50.0       │
        │ z       ┆ 0.0        │
        └─────────┴────────────┘
        >>> model.importance("permutation", df, metric="mae")["importance"].to_list()[1]
        0.0
        """
        if data is None:
            of_rows = {"target": target, "weight": weight, "metric": metric, "background": background, "rounds": rounds}
            of_rows |= {"group": group, "event": event, "lower": lower, "upper": upper}
            if given := [name for name, value in of_rows.items() if value is not None]:
                msg = f"importance: {given[0]}= is for what is measured on rows: give them by data="
                raise ValueError(msg)
        else:
            from polars_taiga.importance import measured

            return measured(
                self,
                kind,
                data,
                target,
                *features,
                weight=weight,
                group=group,
                event=event,
                lower=lower,
                upper=upper,
                metric=metric,
                repeats=repeats,
                seed=seed,
                background=background,
                rounds=rounds,
                device=device,
            )
        if kind in ("shap", "loss_change") or (kind == "permutation" and self.learner != "forest"):
            msg = f"importance: kind={kind!r} is measured on rows: give them by data="
            raise ValueError(msg)
        if self.learner == "sparse_lr" and kind in ("gain", "impurity", "split", "cover"):
            msg = f"importance: kind={kind!r}: a linear model has no trees; coefficients() lists what it consists of"
            raise ValueError(msg)
        own = _OWN_IMPORTANCES[self.learner]
        if kind not in own:
            known = ", ".join(map(repr, own)) + ", or, measured on rows that data= gives, " if own else ""
            msg = f"importance: kind={kind!r} is not one of {known}'shap', 'permutation', 'loss_change'"
            raise ValueError(msg)
        return pl.DataFrame(
            {"feature": list(self.features), "importance": self._inner.importance(kind)},
            schema={"feature": pl.String, "importance": pl.Float64},
        )

    @property
    def oob_score(self) -> float | None:
        """Of a forest: accuracy (R² for a regression) of the out-of-bag predictions (scikit-learn's
        `oob_score_`); `None` where it was not measured.
        """
        oob = self._inner.out_of_bag()
        return None if oob is None else oob[0]

    @property
    def oob_predictions(self) -> pl.DataFrame:
        """Of a forest: for each training row the mean over the trees that did not draw it, null where there
        is none and for rows of weight 0: a column for each class, or `prediction`. No columns where it was
        not asked for. In the order of the rows; of a fit with `row_key` in that of the keys (`tg.row_key_order`).
        """
        oob = self._inner.out_of_bag()
        if oob is None:
            return pl.DataFrame()
        names = self._inner.class_names() or ["prediction"]
        return pl.DataFrame([pl.Series(n, p, dtype=pl.Float64) for n, p in zip(names, oob[2], strict=True)]).fill_nan(
            None
        )

    def coefficients(self, words: Sequence[str] | pl.Series | None = None) -> pl.DataFrame:
        """List the coefficients of a sparse logistic regression that are not zero, one row each.

        Parameters
        ----------
        words
            Of a model of strings, which knows of each no more than the number that it is hashed to: strings to look
            for, a list or a Series of them, or of lists of them (the column of the fit).

        Returns
        -------
        DataFrame
            `feature`: the feature's number (null for a dense column); `name`: the dense column's name (else
            null); `class`: the label whose score it adds to, as text, of two classes the second; and the
            `coefficient`. With `words` also `words`, a list of those that are hashed to the feature, each once, in the
            order given: several are a collision, and share the coefficient; none means that others were there at the
            fit. The intercepts are `intercepts`.

        Raises
        ------
        ValueError
            For a model that is no sparse logistic regression; for `words` where its features are not strings.
        TypeError
            For `words` that are not strings.

        Examples
        --------
        >>> import polars as pl
        >>> import polars_taiga as tg
        >>> df = pl.DataFrame({"words": [["good", "film"], ["bad"], ["good"], ["bad"]], "liked": [True, False] * 2})
        >>> model = df.taiga.fit_sparse_lr("liked", "words")
        >>> table = model.coefficients(words=df["words"]).sort("coefficient")
        >>> table["words"].to_list()
        [['bad'], ['film'], ['good']]
        """
        numbers, columns, classes, values, names = self._inner.coefficients()
        frame = pl.DataFrame(
            {"feature": numbers, "name": columns, "class": classes, "coefficient": values},
            schema={"feature": pl.UInt64, "name": pl.UInt32, "class": pl.UInt32, "coefficient": pl.Float64},
        )
        labels = self._inner.class_names() or []
        frame = frame.with_columns(_named(frame["name"], names), _named(frame["class"], labels))
        if words is None:
            return frame
        behind = self._behind(words)
        found = [[] if number is None else behind.get(number, []) for number in numbers]
        return frame.with_columns(pl.Series("words", found, dtype=pl.List(pl.String)))

    def _behind(self, words: Sequence[str] | pl.Series) -> dict[int, list[str]]:
        """The words behind each feature that one of them is hashed to."""
        if isinstance(words, str) or not isinstance(words, Iterable):
            msg = f"parameter `words`: {words!r} is not a list of strings"
            raise TypeError(msg)
        if isinstance(words, pl.Series):
            words = words.explode() if isinstance(words.dtype, pl.List | pl.Array) else words
            known = (pl.String, pl.Categorical, pl.Enum, pl.Null)
            if words.dtype not in known:
                msg = f"parameter `words`: the Series is of {words.dtype}, not of strings or lists of them"
                raise TypeError(msg)
            words = words.cast(pl.String).drop_nulls()
        own = list(dict.fromkeys(words))
        for word in own:
            if not isinstance(word, str):
                msg = f"parameter `words`: {word!r} is not a string"
                raise TypeError(msg)
        buckets = self._inner.buckets(own)
        if buckets is None:
            msg = f"parameter `words`: the features of the model of `{self.target}` are not strings"
            raise ValueError(msg)
        behind: dict[int, list[str]] = {}
        for word, bucket in zip(own, buckets, strict=True):
            behind.setdefault(bucket, []).append(word)
        return behind

    @property
    def intercepts(self) -> list[float]:
        """Of a sparse logistic regression: one number for two classes, else one a class."""
        return self._inner.intercepts()

    @property
    def converged(self) -> bool:
        """Of a sparse logistic regression: whether `"lbfgs"` reached its tolerance."""
        return self._inner.convergence()[0]

    @property
    def objective(self) -> float:
        """Of a sparse logistic regression: what `"lbfgs"` brought the objective to on the training rows; NaN
        under other optimizers.
        """
        return self._inner.convergence()[1]

    def __repr__(self) -> str:
        """One line: what it predicts, from what, and how large it is."""
        features = list(self.features)
        shown = ", ".join(features[:6]) + (f", … ({len(features)})" if len(features) > 6 else "")
        text = f"Model(target={self.target!r}, "
        if self.learner == "gbdt":
            loss = self.loss if self._inner.loss() == "custom" else repr(self.loss)
            text += f"loss={loss}, policy={self.params['policy']!r}, rounds={self.rounds}"
        elif self.learner == "forest":
            text += f"forest, criterion={self.loss!r}, trees={self.rounds}"
            text += "" if self.oob_score is None else f", out-of-bag score={self.oob_score:.4f}"
        else:
            text += f"sparse_lr, optimizer={self.params['optimizer']!r}, passes={self.rounds}"
        if (classes := self.classes) is not None:
            text += f", classes={classes if len(classes) <= 6 else f'{len(classes)} labels'}"
        if (history := self._inner.history()) is not None:
            curves, best = history
            name, metric, values = curves[0]
            if best < len(values):
                text += f", best {curve_name(name, metric)}={values[best]:.6g} at round {best}"
        return f"{text}, features=[{shown}], rows={self._inner.rows():,}, {len(self.to_bytes()) / 1000:,.1f} kB)"

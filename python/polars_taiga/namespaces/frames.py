"""The namespace `.taiga` of lazy and eager frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import polars as pl

from polars_taiga import _plugin
from polars_taiga._batches import BatchesCall
from polars_taiga._fit import Training, whole
from polars_taiga._names import names_with_nul
from polars_taiga._signature import shows
from polars_taiga._taiga import __version__
from polars_taiga.by_group import ByGroupParams, fit_gbdt_by
from polars_taiga.encoder import Encoder
from polars_taiga.encoding import (
    EncoderParams,
    fit_target_encoder,
)
from polars_taiga.forest import ForestParams, forest_call
from polars_taiga.gbdt import GbdtParams, fit_call
from polars_taiga.linear import LinearParams, linear_call
from polars_taiga.model import Model
from polars_taiga.predict import PredictParams, predict
from polars_taiga.row_key import receipt
from polars_taiga.score import MeasureParams, score
from polars_taiga.search import as_frame, search, search_call
from polars_taiga.validation import (
    FoldsParams,
    ValidateParams,
    cross_validate,
    fit_folds,
    folds_call,
    validation_call,
)

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Unpack

    from polars_taiga._batches import Batches
    from polars_taiga._callback import Callback
    from polars_taiga._fit import Call, OnError
    from polars_taiga._metadata import Metadata
    from polars_taiga._plugin import IntoColumn, IntoColumns
    from polars_taiga.collective import Collective
    from polars_taiga.search import Space

__all__ = ["TaigaDataFrame", "TaigaLazyFrame"]


Engine: TypeAlias = "Literal['auto', 'in-memory', 'streaming', 'gpu'] | pl.GPUEngine"
"""What runs a query, as `LazyFrame.collect` takes it."""


def _plain(batches: Batches) -> Batches:
    """A number of rows of NumPy as Python's, anything else as it is."""
    number = whole(batches)
    return batches if number is None else number


def _collected(frame: pl.LazyFrame, expr: pl.Expr, engine: Engine) -> pl.Series:
    """What an expression over a frame gives."""
    with _plugin.errors():
        query = frame.select(expr)
        # Early versions of Polars know of one engine alone.
        return (query.collect() if engine == "auto" else query.collect(engine=engine)).to_series()


class _Fits:
    """What lazy and eager frames have in common."""

    def _column(self, expr: pl.Expr, engine: Engine) -> pl.Series:
        """What an expression over the frame gives, collected by `engine`."""
        raise NotImplementedError

    def _value(self, expr: pl.Expr, engine: Engine) -> Any:
        """The one value that an expression over the frame gives."""
        return self._column(expr, engine).item()

    def _lazy(self) -> pl.LazyFrame:
        """The frame as a query."""
        raise NotImplementedError

    def _check_names(self, columns: Iterable[IntoColumns]) -> None:
        """Check the names of the columns that expressions and selectors give, where those of the frame are known."""

    def _may_be_in_batches(self, batches: bool | int | str) -> bool:
        """Whether `batches` may come to a fit in batches."""
        return batches is not False

    def _fitted(self, expr: pl.Expr, engine: Engine) -> Model | None:
        value = self._value(expr, engine)
        return None if value is None else Model(value)

    def _fitted_in(self, given: BatchesCall, engine: Engine) -> Model | None:
        """The model of a fit that may be one in batches."""
        self._check_names(given.call.inputs()[:1])
        may = self._may_be_in_batches(given.batches)
        done, value = given.fit(self._lazy(), engine) if may else (False, None)
        if done:
            return None if value is None else Model(value)
        return self._fitted(given.call.expr(), engine)

    def _of_folds(
        self, call: tuple[Call, dict[str, Any]], expr: pl.Expr, batches: Batches, engine: Engine
    ) -> pl.Series:
        """What an expression of folds gives, or the same call of a frame that is read in batches."""
        self._check_names(call[0].inputs()[:1])
        given = BatchesCall(call[0], _plain(batches), None, call[1])
        may = self._may_be_in_batches(given.batches)
        done, value = given.fit(self._lazy(), engine) if may else (False, None)
        return pl.Series([value] if value is None else value) if done else self._column(expr, engine)

    @shows(FoldsParams)
    def fit_folds(
        self,
        target: IntoColumn,
        *features: IntoColumns,
        on_error: Literal["raise", "null"] = "raise",
        metadata: Metadata | None = None,
        batches: Batches = False,
        engine: Engine = "auto",
        **params: Unpack[FoldsParams],
    ) -> pl.DataFrame:
        """Fit the models of all folds by `tg.fit_folds`: collect the query of a lazy frame, and return `fold` and
        `model` of each of its rows, in their order. `engine`: as in `LazyFrame.collect`, what the query is run by.
        `batches`: whether the query is run in batches, as in `cross_validate`; beside the frame
        (`pl.concat([lf, models.lazy()], how="horizontal")`) `tg.predict(pl.col("model"), …)` is `tg.cross_val_predict`.
        """
        call = folds_call(target, features, params, on_error=on_error, metadata=metadata)
        own = fit_folds(target, *features, on_error=on_error, metadata=metadata, **params)
        return self._of_folds(call, own, batches, engine).struct.unnest()

    @overload
    def cross_validate(
        self,
        target: IntoColumn,
        *features: IntoColumns,
        models: bool = False,
        on_error: Literal["raise"] = "raise",
        batches: Batches = False,
        engine: Engine = "auto",
        **params: Unpack[FoldsParams],
    ) -> pl.DataFrame: ...

    @overload
    def cross_validate(
        self,
        target: IntoColumn,
        *features: IntoColumns,
        models: bool = False,
        on_error: Literal["null"],
        batches: Batches = False,
        engine: Engine = "auto",
        **params: Unpack[FoldsParams],
    ) -> pl.DataFrame | None: ...

    @shows(ValidateParams)
    def cross_validate(
        self,
        target: IntoColumn,
        *features: IntoColumns,
        models: bool = False,
        on_error: Literal["raise", "null"] = "raise",
        batches: Batches = False,
        engine: Engine = "auto",
        **params: Unpack[FoldsParams],
    ) -> pl.DataFrame | None:
        """Validate by `tg.cross_validate`: collect the query of a lazy frame, and return a row for each fold, or None
        where `on_error="null"` makes it null. `engine`: as in `LazyFrame.collect`, what the query is run by.

        With `batches=True` the table is never in memory as a whole, and what comes is the same
        (docs/larger_than_memory.md). The query is run in batches, as in `fit_gbdt`, and four times: for the target and
        whatever else stands beside the numeric features, for the borders, for the codes, of which all folds share one
        byte a value, and for a value of each bin, by which a fold's rows are measured. It has to give the same rows in
        the same order each time. `row_key` and `leaf="linear"` are errors.
        """
        call = validation_call(target, features, params, models=models, on_error=on_error)
        own = cross_validate(target, *features, models=models, on_error=on_error, **params)
        folds = self._of_folds(call, own, batches, engine).item()
        return None if folds is None else pl.DataFrame(folds.struct.unnest())

    @overload
    def search(
        self,
        target: IntoColumn,
        *features: IntoColumns,
        space: Space,
        trials: int | None = None,
        halving: int | None = None,
        on_error: Literal["raise"] = "raise",
        batches: Batches = False,
        engine: Engine = "auto",
        **params: Unpack[FoldsParams],
    ) -> pl.DataFrame: ...

    @overload
    def search(
        self,
        target: IntoColumn,
        *features: IntoColumns,
        space: Space,
        trials: int | None = None,
        halving: int | None = None,
        on_error: Literal["null"],
        batches: Batches = False,
        engine: Engine = "auto",
        **params: Unpack[FoldsParams],
    ) -> pl.DataFrame | None: ...

    @shows(FoldsParams)
    def search(
        self,
        target: IntoColumn,
        *features: IntoColumns,
        space: Space,
        trials: int | None = None,
        halving: int | None = None,
        on_error: Literal["raise", "null"] = "raise",
        batches: Batches = False,
        engine: Engine = "auto",
        **params: Unpack[FoldsParams],
    ) -> pl.DataFrame | None:
        """Search by `tg.search`: collect the query of a lazy frame, and return a row for each trial, with a column for
        each parameter, the best first, or None where `on_error="null"` makes it null. `engine`: as in
        `LazyFrame.collect`, what the query is run by. `batches`: whether the query is run in batches, as in
        `cross_validate`; the last three times for each of the trials' `bins`, `border_method`, `border_sample` and
        `seed`.
        """
        how: dict[str, Any] = {"space": space, "trials": trials, "halving": halving, "on_error": on_error}
        call = search_call(target, features, params, **how)
        own = search(target, *features, **how, **params)
        found = self._of_folds(call, own, batches, engine).item()
        return None if found is None else as_frame(found.struct.unnest())

    @overload
    def fit_gbdt(
        self,
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
        on_error: Literal["raise"] = "raise",
        init_model: Model | bytes | IntoColumn | None = None,
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: int = 100,
        callback: Callback | None = None,
        collective: Collective | None = None,
        verbose: bool | int = False,
        progress: bool | None = None,
        metadata: Metadata | None = None,
        batches: Batches = False,
        spill: str | PathLike[str] | None = None,
        engine: Engine = "auto",
        **params: Unpack[GbdtParams],
    ) -> Model: ...

    @overload
    def fit_gbdt(
        self,
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
        on_error: OnError,
        init_model: Model | bytes | IntoColumn | None = None,
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: int = 100,
        callback: Callback | None = None,
        collective: Collective | None = None,
        verbose: bool | int = False,
        progress: bool | None = None,
        metadata: Metadata | None = None,
        batches: Batches = False,
        spill: str | PathLike[str] | None = None,
        engine: Engine = "auto",
        **params: Unpack[GbdtParams],
    ) -> Model | None: ...

    @shows(GbdtParams)
    def fit_gbdt(
        self,
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
        batches: Batches = False,
        spill: str | PathLike[str] | None = None,
        engine: Engine = "auto",
        **params: Unpack[GbdtParams],
    ) -> Model | None:
        """Fit by `tg.fit_gbdt`: collect the query of a lazy frame, and return the model; `None` where `on_error`
        makes it null. `engine`: as in `LazyFrame.collect`, what the query is run by.

        With `batches=True` the table is never in memory as a whole, and the model has the same bytes
        (docs/larger_than_memory.md). The query is run in batches of about 32 MB (of `batches` rows, if it is a number),
        by the streaming engine unless `engine` names another: once for the target and whatever else stands beside the
        features, and for categories, all of which a fit keeps whole; once for a sample of the numeric features, which
        borders are found by (with `leaf="linear"` their values are kept, 4 or 8 bytes each); and once for their codes,
        a byte a value, which the fit keeps. Without `rounds` the latter two are made twice. It has to give the same
        rows in the same order each time: other rows are an error. The fit is on the CPU; a GPU named by `device`,
        `row_key`, `init_model`, `snapshot`, `collective` and `on_error="constant"` are errors. `batches="auto"`: of
        lazy frames, if twice the size of the numeric features, and what a fit keeps, have no room in the memory that
        the process can still have.

        `spill` is a folder for what a fit in batches keeps of each row: codes, scores and more in mapped files, which
        the system writes out where memory is short. They have no names, and are gone when the fit is over, however it
        ends. Their place on the disk is taken beforehand: if there is none, it is an error.
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
        training = Training(init_model, snapshot, snapshot_every, callback, verbose, collective)
        call = fit_call(
            target, features, roles, params, training=training, progress=progress, on_error=on_error, metadata=metadata
        )
        return self._fitted_in(BatchesCall(call, _plain(batches), spill), engine)

    @overload
    def fit_forest(
        self,
        target: IntoColumn,
        *features: IntoColumns,
        weight: IntoColumn | None = None,
        row_key: IntoColumns | None = None,
        on_error: Literal["raise"] = "raise",
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: int = 100,
        collective: Collective | None = None,
        progress: bool | None = None,
        metadata: Metadata | None = None,
        batches: Batches = False,
        engine: Engine = "auto",
        **params: Unpack[ForestParams],
    ) -> Model: ...

    @overload
    def fit_forest(
        self,
        target: IntoColumn,
        *features: IntoColumns,
        weight: IntoColumn | None = None,
        row_key: IntoColumns | None = None,
        on_error: OnError,
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: int = 100,
        collective: Collective | None = None,
        progress: bool | None = None,
        metadata: Metadata | None = None,
        batches: Batches = False,
        engine: Engine = "auto",
        **params: Unpack[ForestParams],
    ) -> Model | None: ...

    @shows(ForestParams)
    def fit_forest(
        self,
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
        batches: Batches = False,
        engine: Engine = "auto",
        **params: Unpack[ForestParams],
    ) -> Model | None:
        """Fit by `tg.fit_forest`: collect the query of a lazy frame, and return the model; `None` where `on_error`
        makes it null. `engine`: as in `LazyFrame.collect`, what the query is run by. `batches`: whether the query is
        run in batches, as in `fit_gbdt`; a forest keeps two bytes of each numeric value, and splitters that rank values
        are an error.
        """
        roles = {"weight": weight, "row_key": row_key}
        training = Training(snapshot=snapshot, snapshot_every=snapshot_every, collective=collective)
        call = forest_call(
            target, features, roles, params, training=training, progress=progress, on_error=on_error, metadata=metadata
        )
        return self._fitted_in(BatchesCall(call, _plain(batches), None), engine)

    @overload
    def fit_sparse_lr(
        self,
        target: IntoColumn,
        indices: IntoColumn | None = None,
        values: IntoColumn | None = None,
        *,
        dense: IntoColumns | None = None,
        weight: IntoColumn | None = None,
        eval: IntoColumn | None = None,
        row_key: IntoColumns | None = None,
        on_error: Literal["raise"] = "raise",
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: int = 1,
        collective: Collective | None = None,
        progress: bool | None = None,
        metadata: Metadata | None = None,
        batches: Batches = False,
        spill: str | PathLike[str] | None = None,
        engine: Engine = "auto",
        **params: Unpack[LinearParams],
    ) -> Model: ...

    @overload
    def fit_sparse_lr(
        self,
        target: IntoColumn,
        indices: IntoColumn | None = None,
        values: IntoColumn | None = None,
        *,
        dense: IntoColumns | None = None,
        weight: IntoColumn | None = None,
        eval: IntoColumn | None = None,
        row_key: IntoColumns | None = None,
        on_error: OnError,
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: int = 1,
        collective: Collective | None = None,
        progress: bool | None = None,
        metadata: Metadata | None = None,
        batches: Batches = False,
        spill: str | PathLike[str] | None = None,
        engine: Engine = "auto",
        **params: Unpack[LinearParams],
    ) -> Model | None: ...

    @shows(LinearParams)
    def fit_sparse_lr(
        self,
        target: IntoColumn,
        indices: IntoColumn | None = None,
        values: IntoColumn | None = None,
        *,
        dense: IntoColumns | None = None,
        weight: IntoColumn | None = None,
        eval: IntoColumn | None = None,
        row_key: IntoColumns | None = None,
        on_error: OnError = "raise",
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: int = 1,
        collective: Collective | None = None,
        progress: bool | None = None,
        metadata: Metadata | None = None,
        batches: Batches = False,
        spill: str | PathLike[str] | None = None,
        engine: Engine = "auto",
        **params: Unpack[LinearParams],
    ) -> Model | None:
        """Fit by `tg.fit_sparse_lr`: collect the query of a lazy frame, and return the model; `None` where `on_error`
        makes it null. `engine`: as in `LazyFrame.collect`, what the query is run by.

        With `batches=True` the table is never in memory as a whole, and the model has the same bytes
        (docs/larger_than_memory.md). The query is run in batches, as in `fit_gbdt`, and twice: once for the target and
        whatever else stands beside the features, and once for `indices`, `values` and `dense`, of which the fit keeps
        4 bytes a feature, 4 a value, 8 a row, and 4 or 8 a dense value. It has to give the same rows in the same order
        both times. The device is any; `row_key`, `collective` and `on_error="constant"` are errors.
        `batches="auto"`: as in `fit_gbdt`, where lists count as 512 bytes a row. `spill` is a folder for what is kept,
        in mapped files, as in `fit_gbdt`.
        """
        roles = {"weight": weight, "eval": eval, "row_key": row_key}
        training = Training(snapshot=snapshot, snapshot_every=snapshot_every, collective=collective)
        call = linear_call(
            target,
            (indices, values),
            dense,
            roles,
            params,
            training=training,
            progress=progress,
            on_error=on_error,
            metadata=metadata,
        )
        return self._fitted_in(BatchesCall(call, _plain(batches), spill), engine)

    @overload
    def fit_target_encoder(
        self,
        cat: IntoColumns,
        target: IntoColumn,
        *,
        on_error: Literal["raise"] = "raise",
        engine: Engine = "auto",
        **params: Unpack[EncoderParams],
    ) -> Encoder: ...

    @overload
    def fit_target_encoder(
        self,
        cat: IntoColumns,
        target: IntoColumn,
        *,
        on_error: Literal["raise", "null"],
        engine: Engine = "auto",
        **params: Unpack[EncoderParams],
    ) -> Encoder | None: ...

    @shows(EncoderParams)
    def fit_target_encoder(
        self,
        cat: IntoColumns,
        target: IntoColumn,
        *,
        on_error: Literal["raise", "null"] = "raise",
        engine: Engine = "auto",
        **params: Unpack[EncoderParams],
    ) -> Encoder | None:
        """Fit by `tg.fit_target_encoder`: collect the query of a lazy frame, and return the encoder; `None` where
        `on_error` makes it null. `engine`: as in `LazyFrame.collect`, what the query is run by.
        """
        expr = fit_target_encoder(cat, target, on_error=on_error, **params)
        self._check_names([cat, target])
        value = self._value(expr, engine)
        return None if value is None else Encoder(value)

    @overload
    def score(
        self,
        model: bytes | Model | pl.Expr | str,
        target: IntoColumn,
        *features: IntoColumns,
        on_error: Literal["raise"] = "raise",
        engine: Engine = "auto",
        **params: Unpack[MeasureParams],
    ) -> float: ...

    @overload
    def score(
        self,
        model: bytes | Model | pl.Expr | str,
        target: IntoColumn,
        *features: IntoColumns,
        on_error: Literal["raise", "null"],
        engine: Engine = "auto",
        **params: Unpack[MeasureParams],
    ) -> float | None: ...

    @shows(MeasureParams)
    def score(
        self,
        model: bytes | Model | pl.Expr | str,
        target: IntoColumn,
        *features: IntoColumns,
        on_error: Literal["raise", "null"] = "raise",
        engine: Engine = "auto",
        **params: Unpack[MeasureParams],
    ) -> float | None:
        """Measure a model by `tg.score`: collect the query of a lazy frame, and return the value; `None` where
        `on_error` makes it null. `engine`: as in `LazyFrame.collect`, what the query is run by.
        """
        expr = score(model, target, *features, on_error=on_error, **params)
        self._check_names([target, *features])
        value: float | None = self._value(expr, engine)
        return value

    def receipt(
        self,
        fit: Callable[..., pl.Expr],
        *columns: IntoColumns,
        row_key: IntoColumns,
        version: str = __version__,
        engine: Engine = "auto",
        **params: Any,
    ) -> str:
        """Compute a receipt by `tg.receipt`: collect the query of a lazy frame, and return the text. `engine`: as in
        `LazyFrame.collect`, what the query is run by.
        """
        expr = receipt(fit, *columns, row_key=row_key, version=version, **params)
        self._check_names([*columns, row_key])
        value: str = self._value(expr, engine)
        return value


@pl.api.register_lazyframe_namespace("taiga")
class TaigaLazyFrame(_Fits):
    """`lf.taiga`: fit on this query's result, which collects it, or add predictions to the query, which does not."""

    def __init__(self, frame: pl.LazyFrame) -> None:
        """Of this frame."""
        self._frame = frame

    def _column(self, expr: pl.Expr, engine: Engine) -> pl.Series:
        return _collected(self._frame, expr, engine)

    def _lazy(self) -> pl.LazyFrame:
        return self._frame

    @shows(PredictParams)
    def predict(
        self,
        model: bytes | Model | pl.Expr | str,
        *features: IntoColumns,
        name: str = "prediction",
        **params: Unpack[PredictParams],
    ) -> pl.LazyFrame:
        """The frame with the predictions of `tg.predict` as a column more."""
        return self._frame.with_columns(predict(model, *features, **params).alias(name))

    @shows(ByGroupParams)
    def fit_gbdt_by(
        self, by: IntoColumns, target: IntoColumn, *features: IntoColumns, **params: Unpack[ByGroupParams]
    ) -> pl.LazyFrame:
        """The keys of each group of rows, and the `model` that `tg.fit_gbdt_by` fits to it."""
        return self._frame.select(fit_gbdt_by(by, target, *features, **params)).unnest("models")


@pl.api.register_dataframe_namespace("taiga")
class TaigaDataFrame(_Fits):
    """`df.taiga`: fit on this frame, or add predictions to it."""

    def __init__(self, frame: pl.DataFrame) -> None:
        """Of this frame."""
        self._frame = frame

    def _column(self, expr: pl.Expr, engine: Engine) -> pl.Series:
        if engine != "auto":
            return _collected(self._frame.lazy(), expr, engine)
        with _plugin.errors():
            return self._frame.select(expr).to_series()

    def _lazy(self) -> pl.LazyFrame:
        return self._frame.lazy()

    def _check_names(self, columns: Iterable[IntoColumns]) -> None:
        # Polars panics where it hands a column of such a name on.
        if next(names_with_nul(self._frame.schema.items()), None) is None:
            return
        known: Mapping[str, Any] = {}
        # What else is wrong with them the query tells.
        with suppress(pl.exceptions.PolarsError):
            exprs = _plugin.as_exprs(columns, "a column")
            structs = [pl.struct(expr).alias(str(i)) for i, expr in enumerate(exprs)]
            known = self._frame.clear().lazy().select(structs).collect_schema()
        for name in names_with_nul(known.items()):
            msg = f"column {name!r}: it has the character NUL in its name, by which Polars can't hand it on: rename it"
            raise ValueError(msg)

    def _may_be_in_batches(self, batches: bool | int | str) -> bool:
        # What is in memory has room there.
        return batches is not False and batches != "auto"

    @shows(PredictParams)
    def predict(
        self,
        model: bytes | Model | pl.Expr | str,
        *features: IntoColumns,
        name: str = "prediction",
        **params: Unpack[PredictParams],
    ) -> pl.DataFrame:
        """The frame with the predictions of `tg.predict` as a column more."""
        expr = predict(model, *features, **params).alias(name)
        self._check_names(features)
        with _plugin.errors():
            return self._frame.with_columns(expr)

    @shows(ByGroupParams)
    def fit_gbdt_by(
        self, by: IntoColumns, target: IntoColumn, *features: IntoColumns, **params: Unpack[ByGroupParams]
    ) -> pl.DataFrame:
        """The keys of each group of rows, and the `model` that `tg.fit_gbdt_by` fits to it."""
        expr = fit_gbdt_by(by, target, *features, **params)
        self._check_names([by, target, *features])
        with _plugin.errors():
            return self._frame.select(expr).unnest("models")

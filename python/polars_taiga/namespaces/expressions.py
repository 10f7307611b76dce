"""The namespace `.taiga` of expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from polars_taiga._signature import shows
from polars_taiga.by_group import ByGroupParams, fit_gbdt_by
from polars_taiga.calibration import calibrate, fit_calibration
from polars_taiga.conformal import ConformalParams, IntervalParams, conformal, interval
from polars_taiga.encoder import Encoder
from polars_taiga.encoding import (
    EncoderParams,
    TargetEncodeParams,
    combine,
    count_encode,
    encode,
    fit_target_encoder,
    information_value,
    target_encode,
    woe,
)
from polars_taiga.forest import ForestParams, fit_forest
from polars_taiga.gbdt import GbdtParams, fit_gbdt
from polars_taiga.importance import ImportanceParams, importance
from polars_taiga.linear import LinearParams, fit_sparse_lr
from polars_taiga.model import Model
from polars_taiga.predict import PredictParams, predict
from polars_taiga.quantize import borders, quantize
from polars_taiga.score import ScoreParams, score
from polars_taiga.search import search
from polars_taiga.statistics import histogram, histogram2d, min_max
from polars_taiga.validation import (
    FoldsParams,
    ValidateParams,
    cross_val_predict,
    cross_validate,
    fit_folds,
)

if TYPE_CHECKING:
    from os import PathLike

    from polars.datatypes import DataType, DataTypeClass
    from typing_extensions import Unpack

    from polars_taiga._callback import Callback
    from polars_taiga._fit import OnError
    from polars_taiga._metadata import Metadata
    from polars_taiga._plugin import IntoColumn, IntoColumns
    from polars_taiga.calibration import CalibrationMethod
    from polars_taiga.collective import Collective
    from polars_taiga.predict import Output
    from polars_taiga.quantize import BorderMethod
    from polars_taiga.search import Space
    from polars_taiga.statistics import Bins, Range

__all__ = ["TaigaExpr"]


@pl.api.register_expr_namespace("taiga")
class TaigaExpr:
    """`expr.taiga`: the expression is the target, the model, or the column of values or categories."""

    def __init__(self, expr: pl.Expr) -> None:
        """Of this expression."""
        self._expr = expr

    @shows(GbdtParams)
    def fit_gbdt(
        self,
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
        """`tg.fit_gbdt` with this expression as the target."""
        return fit_gbdt(
            self._expr,
            *features,
            weight=weight,
            baseline=baseline,
            eval=eval,
            group=group,
            position=position,
            event=event,
            lower=lower,
            upper=upper,
            order_by=order_by,
            row_key=row_key,
            on_error=on_error,
            init_model=init_model,
            snapshot=snapshot,
            snapshot_every=snapshot_every,
            callback=callback,
            collective=collective,
            verbose=verbose,
            progress=progress,
            metadata=metadata,
            **params,
        )

    @shows(ByGroupParams)
    def fit_gbdt_by(self, by: IntoColumns, *features: IntoColumns, **params: Unpack[ByGroupParams]) -> pl.Expr:
        """`tg.fit_gbdt_by` with this expression as the target."""
        return fit_gbdt_by(by, self._expr, *features, **params)

    @shows(FoldsParams)
    def fit_folds(
        self,
        *features: IntoColumns,
        on_error: Literal["raise", "null"] = "raise",
        metadata: Metadata | None = None,
        **params: Unpack[FoldsParams],
    ) -> pl.Expr:
        """`tg.fit_folds` with this expression as the target."""
        return fit_folds(self._expr, *features, on_error=on_error, metadata=metadata, **params)

    @shows(ValidateParams)
    def cross_validate(
        self,
        *features: IntoColumns,
        models: bool = False,
        on_error: Literal["raise", "null"] = "raise",
        **params: Unpack[FoldsParams],
    ) -> pl.Expr:
        """`tg.cross_validate` with this expression as the target."""
        return cross_validate(self._expr, *features, models=models, on_error=on_error, **params)

    @shows(FoldsParams)
    def search(
        self,
        *features: IntoColumns,
        space: Space,
        trials: int | None = None,
        halving: int | None = None,
        on_error: Literal["raise", "null"] = "raise",
        **params: Unpack[FoldsParams],
    ) -> pl.Expr:
        """`tg.search` with this expression as the target."""
        return search(self._expr, *features, space=space, trials=trials, halving=halving, on_error=on_error, **params)

    @shows(FoldsParams)
    def cross_val_predict(
        self,
        *features: IntoColumns,
        output: Output | Sequence[Output] = "auto",
        dtype: DataType | DataTypeClass | None = None,
        on_error: Literal["raise", "null"] = "raise",
        **params: Unpack[FoldsParams],
    ) -> pl.Expr:
        """`tg.cross_val_predict` with this expression as the target."""
        return cross_val_predict(self._expr, *features, output=output, dtype=dtype, on_error=on_error, **params)

    @shows(GbdtParams)
    @shows(ConformalParams)
    def conformal(self, *features: IntoColumns, **params: Any) -> pl.Expr:
        """`tg.conformal` with this expression as the target."""
        return conformal(self._expr, *features, **params)

    @shows(IntervalParams)
    def interval(self, *features: IntoColumns, **params: Unpack[IntervalParams]) -> pl.Expr:
        """`tg.interval` with this expression as the conformal."""
        return interval(self._expr, *features, **params)

    def fit_calibration(
        self,
        predicted: IntoColumn,
        *,
        method: CalibrationMethod = "isotonic",
        weight: IntoColumn | None = None,
        on_error: Literal["raise", "null"] = "raise",
    ) -> pl.Expr:
        """`tg.fit_calibration` with this expression as the target."""
        return fit_calibration(self._expr, predicted, method=method, weight=weight, on_error=on_error)

    def calibrate(self, calibration: bytes | IntoColumn) -> pl.Expr:
        """`tg.calibrate` of this expression."""
        return calibrate(calibration, self._expr)

    @shows(ForestParams)
    def fit_forest(
        self,
        *features: IntoColumns,
        weight: IntoColumn | None = None,
        row_key: IntoColumns | None = None,
        on_error: OnError = "raise",
        snapshot: str | PathLike[str] | None = None,
        snapshot_every: int = 100,
        collective: Collective | None = None,
        progress: bool | None = None,
        metadata: Metadata | None = None,
        **params: Unpack[ForestParams],
    ) -> pl.Expr:
        """`tg.fit_forest` with this expression as the target."""
        return fit_forest(
            self._expr,
            *features,
            weight=weight,
            row_key=row_key,
            on_error=on_error,
            snapshot=snapshot,
            snapshot_every=snapshot_every,
            collective=collective,
            progress=progress,
            metadata=metadata,
            **params,
        )

    @shows(LinearParams)
    def fit_sparse_lr(
        self,
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
        **params: Unpack[LinearParams],
    ) -> pl.Expr:
        """`tg.fit_sparse_lr` with this expression as the target."""
        return fit_sparse_lr(
            self._expr,
            indices,
            values,
            dense=dense,
            weight=weight,
            eval=eval,
            row_key=row_key,
            on_error=on_error,
            snapshot=snapshot,
            snapshot_every=snapshot_every,
            collective=collective,
            progress=progress,
            metadata=metadata,
            **params,
        )

    @shows(PredictParams)
    def predict(self, *features: IntoColumns, **params: Unpack[PredictParams]) -> pl.Expr:
        """`tg.predict` with this expression as the model."""
        return predict(self._expr, *features, **params)

    @shows(ScoreParams)
    def score(self, target: IntoColumn, *features: IntoColumns, **params: Unpack[ScoreParams]) -> pl.Expr:
        """`tg.score` with this expression as the model."""
        return score(self._expr, target, *features, **params)

    @shows(ImportanceParams)
    def importance(
        self, target: IntoColumn | None = None, *features: IntoColumns, **params: Unpack[ImportanceParams]
    ) -> pl.Expr:
        """`tg.importance` with this expression as the model."""
        return importance(self._expr, target, *features, **params)

    def borders(
        self,
        bins: int = 255,
        *,
        method: BorderMethod = "quantile",
        sample: int = 200_000,
        seed: int = 0,
        device: str = "auto",
    ) -> pl.Expr:
        """`tg.borders` of this expression."""
        return borders(self._expr, bins, method=method, sample=sample, seed=seed, device=device)

    def quantize(
        self,
        bins: int = 255,
        *,
        method: BorderMethod = "quantile",
        borders: Sequence[float] | pl.Series | pl.Expr | None = None,
        sample: int = 200_000,
        seed: int = 0,
        device: str = "auto",
    ) -> pl.Expr:
        """`tg.quantize` of this expression."""
        return quantize(self._expr, bins, method=method, borders=borders, sample=sample, seed=seed, device=device)

    def min_max(self, *, device: str = "auto") -> pl.Expr:
        """`tg.min_max` of this expression."""
        return min_max(self._expr, device=device)

    def histogram(
        self,
        bins: Bins | None = None,
        *,
        range: Range | None = None,
        weights: IntoColumn | None = None,
        density: bool = False,
        device: str = "auto",
    ) -> pl.Expr:
        """`tg.histogram` of this expression."""
        return histogram(self._expr, bins, range=range, weights=weights, density=density, device=device)

    def histogram2d(
        self,
        y: IntoColumn,
        bins: int | tuple[Bins | None, Bins | None] | None = None,
        *,
        range: tuple[Range | None, Range | None] | None = None,
        weights: IntoColumn | None = None,
        density: bool = False,
        device: str = "auto",
    ) -> pl.Expr:
        """`tg.histogram2d` with this expression as x."""
        return histogram2d(self._expr, y, bins, range=range, weights=weights, density=density, device=device)

    @shows(TargetEncodeParams)
    def target_encode(self, target: IntoColumn, **params: Unpack[TargetEncodeParams]) -> pl.Expr:
        """`tg.target_encode` of this expression."""
        return target_encode(self._expr, target, **params)

    @shows(EncoderParams)
    def fit_target_encoder(
        self, target: IntoColumn, *, on_error: Literal["raise", "null"] = "raise", **params: Unpack[EncoderParams]
    ) -> pl.Expr:
        """`tg.fit_target_encoder` of this expression."""
        return fit_target_encoder(self._expr, target, on_error=on_error, **params)

    def encode(
        self,
        encoder: bytes | Encoder | pl.Expr | str,
        *,
        dtype: DataType | DataTypeClass | None = None,
        device: str = "auto",
    ) -> pl.Expr:
        """`tg.encode` of this expression."""
        return encode(encoder, self._expr, dtype=dtype, device=device)

    def woe(
        self,
        target: IntoColumn,
        *,
        smoothing: float = 0.5,
        weight: IntoColumn | None = None,
        on_error: Literal["raise", "null"] = "raise",
        device: str = "auto",
    ) -> pl.Expr:
        """`tg.woe` of this expression."""
        return woe(self._expr, target, smoothing=smoothing, weight=weight, on_error=on_error, device=device)

    def information_value(
        self,
        target: IntoColumn,
        *,
        smoothing: float = 0.5,
        weight: IntoColumn | None = None,
        on_error: Literal["raise", "null"] = "raise",
        device: str = "auto",
    ) -> pl.Expr:
        """`tg.information_value` of this expression."""
        return information_value(
            self._expr, target, smoothing=smoothing, weight=weight, on_error=on_error, device=device
        )

    def count_encode(self, *, normalize: bool = False, device: str = "auto") -> pl.Expr:
        """`tg.count_encode` of this expression."""
        return count_encode(self._expr, normalize=normalize, device=device)

    def combine(self, *cats: IntoColumns, device: str = "auto") -> pl.Expr:
        """`tg.combine` of this expression and others."""
        return combine(self._expr, *cats, device=device)

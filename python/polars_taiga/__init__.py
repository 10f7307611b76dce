"""Tree ensembles, sparse linear models, encodings and histograms as Polars expressions, inside lazy queries.

```python
import polars as pl
import polars_taiga as tg

lf = pl.LazyFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 2.0, 3.0, 4.0]})
model = lf.select(tg.fit_gbdt("y", "x", rounds=10, min_child_weight=0)).collect().item()
lf.with_columns(p=tg.predict(model)).collect()
```
"""

from __future__ import annotations

from polars_taiga import datafusion, duckdb, metrics, plot

# Imported for the namespaces `.taiga` that it registers.
from polars_taiga import namespaces as namespaces
from polars_taiga._taiga import __version__
from polars_taiga._warn import TargetWarning
from polars_taiga.by_group import fit_gbdt_by
from polars_taiga.calibration import calibrate, fit_calibration
from polars_taiga.collective import Collective
from polars_taiga.conformal import conformal, interval
from polars_taiga.custom_metric import CustomMetric, mean, metric
from polars_taiga.dependence import partial_dependence
from polars_taiga.device import (
    CacheInfo,
    DeviceInfo,
    DevicesInfo,
    clear_device_cache,
    device_info,
    limit_device_cache,
)
from polars_taiga.encoder import Encoder
from polars_taiga.encoding import (
    combine,
    count_encode,
    encode,
    fit_target_encoder,
    information_value,
    target_encode,
    woe,
)
from polars_taiga.explanation import Explanation
from polars_taiga.forest import ForestParams, fit_forest
from polars_taiga.gbdt import GbdtParams, fit_gbdt
from polars_taiga.importance import importance
from polars_taiga.importing import import_model
from polars_taiga.linear import LinearParams, fit_sparse_lr
from polars_taiga.loss import CustomLoss, Symbol, loss, when
from polars_taiga.model import Model
from polars_taiga.predict import predict
from polars_taiga.quantize import borders, quantize
from polars_taiga.row_key import receipt, row_key_order
from polars_taiga.scan import scan_model
from polars_taiga.score import score
from polars_taiga.search import search
from polars_taiga.sql import sql
from polars_taiga.statistics import histogram, histogram2d, min_max
from polars_taiga.validation import FoldsParams, cross_val_predict, cross_validate, fit_folds

__all__ = [
    "CacheInfo",
    "Collective",
    "CustomLoss",
    "CustomMetric",
    "DeviceInfo",
    "DevicesInfo",
    "Encoder",
    "Explanation",
    "FoldsParams",
    "ForestParams",
    "GbdtParams",
    "LinearParams",
    "Model",
    "Symbol",
    "TargetWarning",
    "__version__",
    "borders",
    "calibrate",
    "clear_device_cache",
    "combine",
    "conformal",
    "count_encode",
    "cross_val_predict",
    "cross_validate",
    "datafusion",
    "device_info",
    "duckdb",
    "encode",
    "fit_calibration",
    "fit_folds",
    "fit_forest",
    "fit_gbdt",
    "fit_gbdt_by",
    "fit_sparse_lr",
    "fit_target_encoder",
    "histogram",
    "histogram2d",
    "import_model",
    "importance",
    "information_value",
    "interval",
    "limit_device_cache",
    "loss",
    "mean",
    "metric",
    "metrics",
    "min_max",
    "partial_dependence",
    "plot",
    "predict",
    "quantize",
    "receipt",
    "row_key_order",
    "scan_model",
    "score",
    "search",
    "sql",
    "target_encode",
    "when",
    "woe",
]

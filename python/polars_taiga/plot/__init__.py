"""Pictures of columns, models and predictions, by Altair, which is imported only here and only when used.

Each function takes a model and a frame (where it needs them) and gives an Altair chart: show it in a notebook,
`save` it, change or layer it as any chart. Rows never get into a chart: what is drawn is computed before, and each
docstring says how much data that is at most.
"""

from __future__ import annotations

from polars_taiga.plot.classification import precision_recall, roc
from polars_taiga.plot.columns import histogram
from polars_taiga.plot.effects import dependence
from polars_taiga.plot.explanations import interactions, shap_summary, shap_waterfall
from polars_taiga.plot.learning import history, importance
from polars_taiga.plot.partial import partial_dependence
from polars_taiga.plot.predictions import calibration, residuals
from polars_taiga.plot.trees import tree

__all__ = [
    "calibration",
    "dependence",
    "histogram",
    "history",
    "importance",
    "interactions",
    "partial_dependence",
    "precision_recall",
    "residuals",
    "roc",
    "shap_summary",
    "shap_waterfall",
    "tree",
]

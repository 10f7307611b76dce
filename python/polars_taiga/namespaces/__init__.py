"""The namespace `.taiga` of expressions and frames, registered where this is imported."""

from polars_taiga.namespaces.expressions import TaigaExpr
from polars_taiga.namespaces.frames import TaigaDataFrame, TaigaLazyFrame

__all__ = ["TaigaDataFrame", "TaigaExpr", "TaigaLazyFrame"]

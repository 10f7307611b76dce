"""The learners and the encoder as scikit-learn estimators; this needs scikit-learn and narwhals.

```python
from polars_taiga.sklearn import GbdtClassifier

GbdtClassifier(rounds=200).fit(X, y).predict_proba(X)
```
"""

from __future__ import annotations

try:
    import narwhals as _narwhals  # noqa: F401
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    msg = f"polars_taiga.sklearn needs scikit-learn and narwhals: pip install 'polars-taiga[sklearn]' ({error})"
    raise ImportError(msg) from None

from polars_taiga.sklearn.encoder import TargetEncoder
from polars_taiga.sklearn.forest import ForestClassifier, ForestRegressor
from polars_taiga.sklearn.gbdt import GbdtClassifier, GbdtRegressor
from polars_taiga.sklearn.linear import SparseLogisticRegression
from polars_taiga.sklearn.ranker import GbdtRanker

__all__ = [
    "ForestClassifier",
    "ForestRegressor",
    "GbdtClassifier",
    "GbdtRanker",
    "GbdtRegressor",
    "SparseLogisticRegression",
    "TargetEncoder",
]

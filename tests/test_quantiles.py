"""Several quantiles of one target: what their fields are called."""

from __future__ import annotations

import polars as pl
import polars_taiga as tg


def test_fields_have_the_names_that_python_writes() -> None:
    """Proves that levels of any size are called as Python writes them."""
    levels = [1e-300, 1e-5, 2.5e-5, 9.999e-5, 1e-4, 0.1, 0.30000000000000004, 0.99999]
    df = pl.DataFrame({"x": range(60), "y": [float(i % 7) for i in range(60)]})
    model = df.taiga.fit_gbdt("y", "x", loss="quantile", alpha=levels, rounds=1)
    assert df.select(tg.predict(model)).to_series().struct.fields == [str(level) for level in levels]

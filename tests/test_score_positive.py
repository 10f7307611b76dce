"""`positive=` of `tg.metrics`: a label that there is not, or of another type than the target's, is told by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import polars_taiga as tg
import pytest
from polars.exceptions import ComputeError

SHARES: list[Callable[..., pl.Expr]] = [
    tg.metrics.logloss,
    tg.metrics.auc,
    tg.metrics.average_precision,
    tg.metrics.ece,
]
CALLS: list[Callable[..., pl.Expr]] = [
    tg.metrics.accuracy,
    tg.metrics.balanced_accuracy,
    tg.metrics.f1,
    tg.metrics.mcc,
]
VALUES: dict[str, tuple[list[Any], Any, Any]] = {
    "text": (["u", "v"], "v", "V"),
    "integers": ([3, 7], 7, 8),
    "floats": ([0.5, 1.5], 1.5, 1.0),
}


@pytest.mark.parametrize("metric", SHARES + CALLS)
@pytest.mark.parametrize("kind", VALUES)
def test_a_label_that_no_row_has_is_told(kind: str, metric: Callable[..., pl.Expr]) -> None:
    """Proves that a slip in `positive` is an error with the labels that there are, or null where rows at fault are."""
    (no, yes), positive, slip = VALUES[kind]
    df = pl.DataFrame({"y": [no, yes] * 10, "p": [0.2, 0.7, 0.4, 0.3] * 5})
    assert df.select(metric("y", "p", positive=positive)).item() >= 0
    text = rf"`positive`: .{slip}. is none of the labels of column `y` \({no}, {yes}\)"
    with pytest.raises(ComputeError, match=text):
        df.select(metric("y", "p", positive=slip))
    assert df.select(metric("y", "p", positive=slip, on_error="null")).item() is None
    other = 1 if kind == "text" else "v"
    with pytest.raises(ComputeError, match=r"column `y`: its type is .*, and `positive` is"):
        df.lazy().select(metric("y", "p", positive=other)).collect_schema()


@pytest.mark.parametrize("metric", CALLS)
def test_predicted_labels_may_have_it(metric: Callable[..., pl.Expr]) -> None:
    """Proves that a label which predictions alone have is one, and that rows of one other label may lack it."""
    df = pl.DataFrame({"y": ["u", "u", "w"], "p": ["v", "u", "u"]})
    assert df.select(tg.metrics.accuracy("y", "p", positive="v")).item() == pytest.approx(2 / 3)
    with pytest.raises(ComputeError, match=r'`positive`: "x" is none of the labels of column `y` \(u, v, w\)'):
        df.select(metric("y", "p", positive="x"))
    alone = pl.DataFrame({"y": ["u", "u"], "p": ["u", "u"]})
    assert alone.select(tg.metrics.accuracy("y", "p", positive="v")).item() == 1.0


@pytest.mark.skipif(pl.__version__.startswith("1."), reason="in Polars 1 an Enum reaches a plugin as a Categorical")
def test_what_a_type_knows_need_not_be_there() -> None:
    """Proves that an Enum tells a slip by its type, and lets a label be that no row has."""
    enum = pl.Enum(["u", "v", "w"])
    df = pl.DataFrame({"y": pl.Series(["u", "v"] * 5, dtype=enum), "p": [0.2, 0.7] * 5})
    assert df.select(tg.metrics.accuracy("y", "p", positive="w")).item() == 0.5
    with pytest.raises(ComputeError, match=r'`positive`: "V" is none of the labels of column `y` \(u, v, w\)'):
        df.lazy().select(tg.metrics.accuracy("y", "p", positive="V")).collect_schema()


def test_rows_of_one_label_may_lack_the_other() -> None:
    """Proves that groups of a single label are measured, whichever of the two `positive` is."""
    text = pl.DataFrame({"y": ["u", "v"] * 5, "p": [0.2, 0.7] * 5})
    by_label = text.group_by("y", maintain_order=True).agg(
        tg.metrics.logloss(pl.col("y"), "p", positive="v").alias("m")
    )
    assert by_label["m"].null_count() == 0

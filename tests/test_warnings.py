"""A target of 0 and 1 that becomes a regression says so, once, with what to write instead."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from typing import Any

import polars as pl
import polars_taiga as tg
import pytest


def table(name: str, dtype: Any = pl.Int64) -> pl.DataFrame:
    """A target of 0 and 1 of its own name: the warning comes once for each."""
    rows = pl.int_range(200)
    return pl.select(x=rows % 17, g=rows % 7, **{name: (rows % 17 > 8).cast(dtype)})


def warned(query: Any) -> list[warnings.WarningMessage]:
    """The warnings of a query, all of them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        query()
    return [w for w in caught if issubclass(w.category, tg.TargetWarning)]


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt8, pl.Int32, pl.Int64, pl.UInt64])
def test_an_integer_target_of_0_and_1_warns_once(dtype: Any) -> None:
    df = table(f"once_{dtype}", dtype)
    fit = tg.fit_gbdt(f"once_{dtype}", "x", rounds=2)
    (warning,) = warned(lambda: df.select(fit))
    text = str(warning.message)
    assert text.startswith(f"fit_gbdt: the target `once_{dtype}` is an integer that is 0 or 1 alone")
    assert 'loss="logloss"' in text
    assert "cast(pl.Boolean)" in text
    assert 'loss="rmse"' in text
    # The line that runs the query, which is the lambda's.
    assert warning.filename == __file__
    assert warned(lambda: df.select(fit)) == []


def test_a_forest_names_the_criterion() -> None:
    df = table("forest")
    (warning,) = warned(lambda: df.lazy().select(tg.fit_forest("forest", "x", trees=2)).collect())
    assert 'criterion="gini"' in str(warning.message)
    assert 'criterion="squared_error"' in str(warning.message)


def test_groups_warn_once() -> None:
    df = table("groups")
    assert len(warned(lambda: df.group_by("g").agg(tg.fit_gbdt("groups", "x", rounds=2, min_child_weight=0)))) == 1


def test_methods_of_frames_warn_at_the_callers_line() -> None:
    (warning,) = warned(lambda: table("method").lazy().taiga.fit_gbdt("method", "x", rounds=2))
    assert warning.filename == __file__


@pytest.mark.parametrize(
    "fit",
    [
        lambda: tg.fit_gbdt("quiet", "x", rounds=2, loss="rmse"),
        lambda: tg.fit_gbdt("quiet", "x", rounds=2, loss="logloss"),
        lambda: tg.fit_gbdt(pl.col("quiet").cast(pl.Boolean), "x", rounds=2),
        lambda: tg.fit_gbdt(pl.col("quiet").cast(pl.Float64), "x", rounds=2),
        lambda: tg.fit_gbdt(pl.col("quiet") * 2, "x", rounds=2),
        lambda: tg.fit_forest("quiet", "x", trees=2, criterion="squared_error"),
        lambda: tg.fit_forest("quiet", "x", trees=2, criterion="gini"),
        lambda: tg.fit_sparse_lr("quiet", dense="x"),
    ],
)
def test_whoever_says_what_it_is_meets_no_warning(fit: Any) -> None:
    assert warned(lambda: table("quiet").select(fit())) == []


def test_a_filter_that_makes_it_an_error_ends_the_query() -> None:
    df = table("strict")
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error", tg.TargetWarning)
            with pytest.raises(pl.exceptions.ComputeError, match=r"TargetWarning: .*`strict`.*logloss"):
                df.select(tg.fit_gbdt("strict", "x", rounds=2))
    assert len(warned(lambda: df.select(tg.fit_gbdt("strict", "x", rounds=2)))) == 1


def test_a_query_of_another_thread_warns_too() -> None:
    df = table("thread")

    def run() -> None:
        thread = threading.Thread(target=lambda: df.lazy().select(tg.fit_gbdt("thread", "x", rounds=2)).collect())
        thread.start()
        thread.join()

    assert len(warned(run)) == 1


def test_it_is_shown_by_default_and_can_be_turned_off() -> None:
    script = (
        "import polars as pl, polars_taiga as tg\n"
        "df = pl.select(x=pl.int_range(50) % 7, y=pl.int_range(50) % 2)\n"
        "df.group_by('x').agg(tg.fit_gbdt('y', 'x', rounds=2, min_child_weight=0))\n"
        "df.select(tg.fit_gbdt('y', 'x', rounds=2))\n"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert shown.stderr.count("TargetWarning: fit_gbdt: the target `y`") == 1
    off = subprocess.run([sys.executable, "-W", "ignore::UserWarning", "-c", script], capture_output=True, text=True)
    assert "TargetWarning" not in off.stderr

"""What runs a call: `engine=` of the fits of frames, `device=` of the encodings."""

from __future__ import annotations

from typing import Any

import polars as pl
import polars_taiga as tg
import pytest


@pytest.fixture
def df() -> pl.DataFrame:
    return pl.DataFrame({"x": list(range(40)), "c": ["a", "b", "c", "b"] * 10, "y": [True, False, False, False] * 10})


def test_fits_collect_by_the_engine_that_is_named(df: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    engines: list[Any] = []
    collect = pl.LazyFrame.collect

    def noting(self: pl.LazyFrame, *args: Any, **kwargs: Any) -> Any:
        engines.append(kwargs.get("engine", "auto"))
        return collect(self, *args, **kwargs)

    lf = df.lazy()
    fits: list[Any] = [
        lambda **how: lf.taiga.fit_gbdt("y", "x", rounds=2, **how),
        lambda **how: lf.taiga.fit_forest("y", "x", trees=2, **how),
        lambda **how: lf.taiga.fit_sparse_lr("y", dense="x", **how),
        lambda **how: lf.taiga.fit_target_encoder("c", "y", **how),
    ]
    for fit in fits:
        plain = fit()
        monkeypatch.setattr(pl.LazyFrame, "collect", noting)
        for engine in ("in-memory", "streaming"):
            assert fit(engine=engine) == plain
            assert engines[-1] == engine
        monkeypatch.undo()
    assert df.taiga.fit_gbdt("y", "x", rounds=2, engine="in-memory") == fits[0]()


def test_some_encodings_are_computed_on_the_cpu(df: pl.DataFrame) -> None:
    calls: list[Any] = [
        lambda **on: tg.woe("c", "y", **on),
        lambda **on: tg.information_value("c", "y", **on),
        lambda **on: tg.count_encode("c", **on),
        lambda **on: pl.col("c").taiga.woe("y", **on),
        lambda **on: pl.col("c").taiga.information_value("y", **on),
        lambda **on: pl.col("c").taiga.count_encode(**on),
    ]
    for call in calls:
        assert df.select(call(device="cpu")).equals(df.select(call()))
        with pytest.raises(ValueError, match=r"parameter `device`: .* is computed on the CPU alone, not on 'cuda:0'"):
            call(device="cuda:0")
        with pytest.raises(ValueError, match='did you mean "cuda"'):
            call(device="gpu")

"""The parameter `device`: what it refuses, and that every device gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

GPUS = [device["device"] for device in tg.device_info()["devices"]]


def frame(rows: int = 20_000) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((3, rows))
    c = rng.integers(0, 40, rows)
    y = x[0] + np.sin(c) + 0.3 * rng.standard_normal(rows)
    df = pl.DataFrame(
        {"a": x[0], "b": x[1].astype(np.float32), "c": pl.Series(c).cast(pl.String), "d": x[2] * 100, "y": y}
    )
    return df.with_columns(
        b=pl.when(pl.int_range(pl.len()) % 11 == 0).then(None).otherwise("b"), d=pl.col("d").cast(pl.Int64)
    )


MODEL = frame(2000).select(tg.fit_gbdt("y", "a", "b", "c", "d", trees=5)).item()
FOREST = frame(2000).select(tg.fit_forest("y", "a", "b", "c", "d", trees=5)).item()

CALLS: dict[str, Callable[..., pl.Expr]] = {
    "min_max": lambda **p: tg.min_max("b", **p),
    "histogram": lambda **p: tg.histogram("d", bins=40, **p),
    "histogram2d": lambda **p: tg.histogram2d("a", "d", bins=(7, 9), **p),
    "borders": lambda **p: tg.borders("b", 40, **p),
    "borders of a sample": lambda **p: tg.borders("a", 40, method="greedy_logsum", sample=3000, seed=5, **p),
    "quantize": lambda **p: tg.quantize("b", 40, **p),
    "quantize by given borders": lambda **p: tg.quantize("d", borders=[-50, 0.5, 50], **p),
    "quantize to 16 bits": lambda **p: tg.quantize("d", 1000, method="uniform", **p),
    "target_encode ordered": lambda **p: tg.target_encode("c", "y", seed=5, **p),
    "target_encode kfold": lambda **p: tg.target_encode("c", "y", kind="kfold", **p),
    "target_encode full": lambda **p: tg.target_encode("c", pl.col("y") > 0, kind="full", prior_weight="auto", **p),
    "fit_target_encoder": lambda **p: tg.fit_target_encoder("c", "y", **p),
    "combine": lambda **p: tg.combine("c", "d", **p),
    "fit_gbdt": lambda **p: tg.fit_gbdt("y", "a", "b", "c", "d", trees=8, **p),
    "fit_gbdt depthwise": lambda **p: tg.fit_gbdt("y", "a", "b", "d", trees=8, policy="depthwise", **p),
    "fit_forest": lambda **p: tg.fit_forest(pl.col("y") > 0, "a", "b", "c", "d", trees=8, **p),
    "fit_forest exact": lambda **p: tg.fit_forest("y", "a", "b", "d", trees=8, splitter="exact", **p),
    "fit_forest random": lambda **p: tg.fit_forest(
        "c", "a", "b", "d", trees=8, splitter="random", criterion="entropy", **p
    ),
    "fit_sparse_lr": lambda **p: tg.fit_sparse_lr(
        pl.col("y") > 0, pl.concat_list(pl.col("d") % 50 + 200), dense="a", **p
    ),
    "fit_sparse_lr ftrl": lambda **p: tg.fit_sparse_lr("c", pl.concat_list("c"), dense="a", optimizer="ftrl", **p),
    "predict": lambda **p: tg.predict(MODEL, **p),
    "predict leaf": lambda **p: tg.predict(MODEL, output="leaf", **p),
    "predict staged": lambda **p: tg.predict(MODEL, output="staged", **p),
    "predict forest": lambda **p: tg.predict(FOREST, **p),
}


@pytest.mark.parametrize("call", CALLS)
def test_auto_and_cpu_give_the_same(call: str) -> None:
    df = frame()
    auto, cpu = (df.select(CALLS[call](device=device)) for device in ("auto", "cpu"))
    assert auto.equals(cpu)
    assert df.select(CALLS[call]()).equals(cpu)


@pytest.mark.parametrize("call", CALLS)
def test_devices_that_are_not_there_are_errors(call: str) -> None:
    with pytest.raises((ValueError, pl.exceptions.ComputeError), match="`device`"):
        frame(100).select(CALLS[call](device="cuda:9999"))
    if not GPUS:
        with pytest.raises((ValueError, pl.exceptions.ComputeError), match="`device`"):
            frame(100).select(CALLS[call](device="cuda"))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "", "CPU"])
def test_other_words_are_errors(call: str, device: str) -> None:
    with pytest.raises(ValueError, match="`device`"):
        CALLS[call](device=device)


@pytest.mark.parametrize("device", [None, 1, True])
def test_other_types_are_errors(device: Any) -> None:
    with pytest.raises(TypeError, match="`device`"):
        tg.min_max("b", device=device)


def test_device_info_says_what_there_is() -> None:
    info = tg.device_info()
    assert set(info) == {"driver", "devices", "unavailable", "fits"}
    assert info["devices"] or info["unavailable"]
    for device in info["devices"]:
        assert device["device"].startswith("cuda:")
        assert 0 < device["free_memory"] <= device["total_memory"]


def test_device_info_says_what_fits_were_done_on() -> None:
    for device in ("cpu", "auto"):
        frame(100).select(tg.fit_gbdt("y", "a", trees=1, device=device))
        function, chosen = tg.device_info()["fits"][0]
        assert function == "fit_gbdt"
        assert chosen.startswith("cpu")
        assert ("estimated" in chosen) == (device == "auto" and chosen != "cpu")
    assert len(tg.device_info()["fits"]) <= 16


@pytest.mark.skipif(not GPUS, reason="no GPU")
@pytest.mark.parametrize("call", CALLS)
def test_a_gpu_gives_the_bytes_of_the_cpu(call: str) -> None:
    df = frame()
    gpu, cpu = (df.select(CALLS[call](device=device)) for device in ("cuda", "cpu"))
    assert gpu.equals(cpu)


def test_the_cache_can_be_limited_and_cleared() -> None:
    tg.limit_device_cache(1 << 20)
    tg.limit_device_cache(None)
    tg.clear_device_cache()
    for limit in (-1, 2**63):
        with pytest.raises(ValueError, match="`limit`"):
            tg.limit_device_cache(limit)
    for limit in ("1", True, 1.5):
        with pytest.raises(TypeError, match="`limit`"):
            tg.limit_device_cache(limit)  # type: ignore[arg-type]


@pytest.mark.skipif(not GPUS, reason="no GPU")
def test_a_column_is_uploaded_once() -> None:
    def cache() -> Any:
        return tg.device_info()["devices"][0]["cache"]

    df = frame()
    tg.clear_device_cache()
    before = cache()
    df.select(tg.min_max("a", device="cuda"), h=tg.histogram("a", device="cuda"))
    after = cache()
    assert (after["hits"] - before["hits"], after["misses"] - before["misses"]) == (1, 1)
    assert after["columns"] == 1
    # The same buffer's slice is another column; other values at the same place never are.
    assert df.select(tg.min_max(pl.col("a") + 1, device="cuda")).equals(df.select(tg.min_max(pl.col("a") + 1)))
    tg.limit_device_cache(0)
    assert cache()["columns"] == 0
    df.select(tg.min_max("a", device="cuda"))
    assert cache()["columns"] == 0
    tg.limit_device_cache(None)

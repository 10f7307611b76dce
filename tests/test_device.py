"""The parameter `device`: what it refuses, and that every device gives the same bytes."""

from __future__ import annotations

import re
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


MODEL = frame(2000).select(tg.fit_gbdt("y", "a", "b", "c", "d", rounds=5)).item()
LINEAR = (
    frame(2000).select(tg.fit_sparse_lr(pl.col("y") > 0, pl.concat_list("c").alias("l"), dense="a", epochs=5)).item()
)
FOREST = frame(2000).select(tg.fit_forest("y", "a", "b", "c", "d", trees=5)).item()
ENCODER = frame(1500).select(tg.fit_target_encoder(["c", "d"], "y")).item()

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
    "target_encode integers": lambda **p: tg.target_encode("d", "y", kind="loo", **p),
    "encode texts": lambda **p: tg.encode(ENCODER, "c", **p),
    "encode integers": lambda **p: tg.encode(ENCODER, "d", **p),
    "fit_target_encoder": lambda **p: tg.fit_target_encoder("c", "y", **p),
    "combine": lambda **p: tg.combine("c", "d", **p),
    "fit_gbdt linear leaves": lambda **p: tg.fit_gbdt(
        "y", "a", "b", "d", rounds=6, leaf="linear", policy="leafwise", **p
    ),
    "fit_gbdt": lambda **p: tg.fit_gbdt("y", "a", "b", "c", "d", rounds=8, **p),
    "fit_gbdt of several targets": lambda **p: tg.fit_gbdt(
        pl.struct("y", "a"), "b", "c", "d", rounds=8, row_sample="goss", **p
    ),
    "fit_gbdt of labels": lambda **p: tg.fit_gbdt(
        pl.struct(u=pl.col("y") > 0, v=pl.col("a") > 1), "b", "c", "d", rounds=8, policy="leafwise", **p
    ),
    "fit_gbdt of classes in one tree": lambda **p: tg.fit_gbdt(
        "c", "a", "b", "y", rounds=4, multi_strategy="one_tree", policy="depthwise", **p
    ),
    "fit_gbdt depthwise": lambda **p: tg.fit_gbdt("y", "a", "b", "d", rounds=8, policy="depthwise", **p),
    "fit_folds": lambda **p: tg.fit_folds("y", "a", "b", "c", "d", folds=3, rounds=8, **p),
    "cross_val_predict": lambda **p: tg.cross_val_predict("y", "a", "b", "c", "d", folds=3, rounds=8, **p),
    "cross_validate": lambda **p: tg.cross_validate("y", "a", "b", "d", folds="c", rounds=8, metric="mae", **p),
    "search": lambda **p: tg.search("y", "a", "b", "d", space={"depth": [2, 4]}, folds=2, rounds=8, **p),
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
    "predict shap": lambda **p: tg.predict(MODEL, output="shap", **p),
    "predict shap_interactions": lambda **p: tg.predict(MODEL, output="shap_interactions", **p),
    "predict linear": lambda **p: tg.predict(LINEAR, "a", pl.concat_list("c").alias("l"), **p),
    "predict linear shap": lambda **p: tg.predict(LINEAR, "a", pl.concat_list("c").alias("l"), output="shap", **p),
    "predict forest": lambda **p: tg.predict(FOREST, **p),
    "predict forest shap": lambda **p: tg.predict(FOREST, output="shap", **p),
    "predict forest shap_interactions": lambda **p: tg.predict(
        FOREST, output="shap_interactions", background=frame(20), **p
    ),
}


needs_gpu = pytest.mark.skipif(not GPUS, reason="no GPU")


@pytest.mark.parametrize("call", CALLS)
def test_auto_is_the_default(call: str) -> None:
    unsaid, auto, cpu = CALLS[call](), CALLS[call](device="auto"), CALLS[call](device="cpu")
    fits = ("fit_gbdt", "fit_forest", "fit_sparse_lr", "fit_folds", "cross_val_predict", "cross_validate", "search")
    if call.split()[0] not in fits:
        assert unsaid.meta.eq(auto)
        assert not unsaid.meta.eq(cpu)
        return
    # Their parameters are those that were given; so what they were fitted on, and why.
    chosen = []
    for expr in (unsaid, auto, cpu):
        frame(1000).select(expr)
        chosen.append(tg.device_info()["fits"][0][1])
    assert chosen[0] == chosen[1]
    assert chosen[0].startswith("cpu: ")
    assert chosen[2] == "cpu"


@needs_gpu
def test_auto_takes_the_gpu_where_it_gains_and_gives_the_bytes_of_the_cpu() -> None:
    # One thread of the CPU takes twice as long as a GPU, by the estimate that decides.
    df = frame(400_000)
    models = []
    for device in ("auto", "cpu"):
        models.append(df.select(tg.fit_gbdt("y", "a", "b", "d", rounds=300, n_threads=1, device=device)).item())
        function, chosen = tg.device_info()["fits"][0]
        assert function == "fit_gbdt"
        assert chosen.startswith("cuda" if device == "auto" else "cpu"), chosen
    assert models[0] == models[1]


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


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("device", ["cuda:0,0", "cuda:0,", "cuda:,1", "cuda:0,x", "cuda:all,0", "cuda:0 1"])
def test_lists_that_name_no_gpus_are_errors(call: str, device: str) -> None:
    with pytest.raises(ValueError, match="`device`"):
        CALLS[call](device=device)


# What several GPUs do not share: borders, and codes among those that are to be fitted; what runs through all rows in
# one order; and fits by batches.
ALONE = {
    *("borders", "borders of a sample", "quantize", "quantize to 16 bits", "combine"),
    *("target_encode ordered", "fit_sparse_lr ftrl"),
}
SHARED = CALLS.keys() - ALONE


@pytest.mark.parametrize("call", [call for call in CALLS if call not in SHARED])
@pytest.mark.parametrize(("device", "one"), [("cuda:1,0", "cuda:1"), ("cuda:all", "cuda")])
def test_what_one_gpu_does_says_so_where_several_are_named(call: str, device: str, one: str) -> None:
    with pytest.raises((ValueError, pl.exceptions.ComputeError), match=f'`device`.*"{device}".*several GPUs.*"{one}"'):
        frame(100).select(CALLS[call](device=device))


def test_one_of_several_gpus_that_is_not_there_is_an_error() -> None:
    with pytest.raises((ValueError, pl.exceptions.ComputeError), match=r"`device`.*cuda"):
        frame(100).select(tg.fit_gbdt("y", "a", rounds=1, device="cuda:0,9999"))


@needs_gpu
def test_all_gpus_give_the_bytes_of_the_cpu() -> None:
    df = frame()
    for call in SHARED:
        gpus, cpu = (df.select(CALLS[call](device=device)) for device in ("cuda:all", "cpu"))
        assert gpus.equals(cpu), call
        several = ",".join(device.removeprefix("cuda:") for device in GPUS)
        assert df.select(CALLS[call](device=f"cuda:{several}")).equals(cpu), call


@needs_gpu
def test_an_estimator_of_several_gpus_predicts_on_the_first() -> None:
    df = frame(2000)
    features = df.select("a", "d")
    model = tg.sklearn.GbdtRegressor(rounds=3, device="cuda:all").fit(features, df["y"])
    cpu = tg.sklearn.GbdtRegressor(rounds=3, device="cpu").fit(features, df["y"])
    assert (model.predict(features) == cpu.predict(features)).all()


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
    reasons = r"cpu: (an estimated [\d.]+ s on the CPU|this build .* has no CUDA).*"
    for device, says in [("cpu", "cpu"), ("auto", reasons)]:
        frame(100).select(tg.fit_gbdt("y", "a", rounds=1, device=device))
        function, chosen = tg.device_info()["fits"][0]
        assert function == "fit_gbdt"
        assert re.fullmatch(says, chosen), chosen
    for _ in range(20):
        frame(100).select(tg.fit_gbdt("y", "a", rounds=1))
    assert len(tg.device_info()["fits"]) <= 16


@needs_gpu
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


@needs_gpu
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
    # The same values are the same column wherever they are; others are another one.
    copied = pl.DataFrame({"z": df["a"].to_numpy().copy()})
    assert copied.select(tg.min_max("z", device="cuda")).equals(df.select(z=tg.min_max("a", device="cpu")))
    assert (cache()["hits"] - after["hits"], cache()["columns"]) == (1, 1)
    other = tg.min_max(pl.col("a") + 1, device="cuda"), tg.min_max(pl.col("a") + 1, device="cpu")
    assert df.select(other[0]).equals(df.select(other[1]))
    assert cache()["columns"] == 2
    tg.limit_device_cache(0)
    assert cache()["columns"] == 0
    df.select(tg.min_max("a", device="cuda"))
    assert cache()["columns"] == 0
    tg.limit_device_cache(None)


# By the column `x`, which is written to between two uses; `z` and `y` stay as they are.
WRITTEN: dict[str, Callable[..., pl.Expr]] = {
    "min_max": lambda _, **p: tg.min_max("x", **p),
    "histogram": lambda _, **p: tg.histogram("x", bins=40, **p),
    "histogram with weights": lambda _, **p: tg.histogram("z", bins=40, weights="x", **p),
    "histogram2d": lambda _, **p: tg.histogram2d("x", "z", bins=(7, 9), **p),
    "borders": lambda _, **p: tg.borders("x", 40, **p),
    "quantize": lambda _, **p: tg.quantize("x", 40, **p),
    "fit_gbdt": lambda _, **p: tg.fit_gbdt("y", "x", "z", rounds=4, **p),
    "fit_sparse_lr": lambda _, **p: tg.fit_sparse_lr(pl.col("y") > 1, dense=["x", "z"], epochs=5, **p),
    "predict": lambda model, **p: tg.predict(model, **p),
}


@needs_gpu
@pytest.mark.parametrize("rows", [1_000, 1_200_000])
@pytest.mark.parametrize("call", WRITTEN)
def test_an_array_that_was_written_to_is_another_column(call: str, rows: int) -> None:
    """A Series shares a NumPy array's memory, which may be written to while copies of it stay on the GPU."""
    rng = np.random.default_rng(rows)
    x, z = rng.random(rows), rng.random(rows)
    df = pl.DataFrame({"x": x, "z": z, "y": x + z * z})
    model = df.select(tg.fit_gbdt("y", "x", "z", rounds=4, device="cpu")).item()

    def same(what: str) -> pl.DataFrame:
        gpu, cpu = (df.select(WRITTEN[call](model, device=device)) for device in ("cuda", "cpu"))
        assert gpu.equals(cpu), what
        return gpu

    x[0] = 0.25
    assert df["x"][0] == 0.25, "the array is shared, or this test says nothing"
    before = same("at first")
    assert same("a second time").equals(before)
    for row in (0, rows // 2, rows - 1):
        x[row] = 1.5
        same(f"row {row} written to")
    x[:] = 1.0 - x * x
    assert not same("all rows written to").equals(before)
    x.fill(5.0)
    if "fit" not in call:
        assert not same("constant").equals(before)

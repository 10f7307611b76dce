"""Where the work is done: `device_info`, and the parameter `device`."""

from __future__ import annotations

import re
from typing import TypedDict

from polars_taiga import _taiga

__all__ = ["CacheInfo", "DeviceInfo", "DevicesInfo", "clear_device_cache", "device_info", "limit_device_cache"]


class CacheInfo(TypedDict):
    """The columns that stay on a GPU for the next expression; bytes of its memory."""

    columns: int
    bytes: int
    limit: int
    hits: int
    misses: int


class DeviceInfo(TypedDict):
    """A GPU; memory in bytes."""

    device: str
    name: str
    capability: tuple[int, int]
    total_memory: int
    free_memory: int
    cache: CacheInfo


class DevicesInfo(TypedDict):
    """The GPUs of this machine."""

    driver: str | None
    devices: list[DeviceInfo]
    unavailable: str | None
    fits: list[tuple[str, str]]


def device_info() -> DevicesInfo:
    """What GPUs there are, as found now; the first call opens the NVIDIA driver.

    Returns
    -------
    dict
        `driver`: the newest CUDA that the driver supports, None where there is no driver.
        `devices`: for each GPU the name that the parameter `device` takes, the model, the compute
        capability, its memory in bytes, all and free, and `cache`: the columns that stay on it for the next
        expression (see `limit_device_cache`), how often one was there and how often not. `unavailable`:
        why there is no GPU to use, or why one of them can't be used; None where all can. `fits`: the fits last begun in
        this process, the last one first (16 at most): the function, and the device that it took,
        with the estimate that decided where the device was `"auto"`; and the borders for which that took a GPU
        into account. A fit under `"auto"` for which a GPU turned out to have no memory has been done by the CPU
        from the start, and stands here as `"cpu: again from the start: ..."` with what was needed and what was
        free. (A model itself never says where it was fitted: its bytes are the same everywhere.)

    Examples
    --------
    >>> import polars_taiga as tg
    >>> info = tg.device_info()
    >>> bool(info["devices"]) or info["unavailable"] is not None
    True
    >>> import polars as pl
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") >= 50)
    >>> model = df.select(tg.fit_gbdt("y", "x", rounds=3)).item()
    >>> tg.device_info()["fits"][0][0]
    'fit_gbdt'
    """
    driver, devices, unavailable, fits = _taiga.device_info()
    gpus = [
        DeviceInfo(
            device=f"cuda:{number}",
            name=name,
            capability=capability,
            total_memory=total,
            free_memory=free,
            cache=CacheInfo(columns=cache[0], bytes=cache[1], limit=cache[2], hits=cache[3], misses=cache[4]),
        )
        for number, name, capability, total, free, cache in devices
    ]
    return DevicesInfo(driver=driver, devices=gpus, unavailable=unavailable, fits=fits)


def limit_device_cache(limit: int | None) -> None:
    """Say how many bytes of columns may stay on each GPU, so that the next expression that uses the same column
    does not upload it again.

    A column is known by its bytes: each use hashes all of them, at the speed of host memory, and one that was written
    to is another column. Those used last stay, each for a minute, and all go where a computation needs the memory;
    host memory is not kept. The environment variable `TAIGA_CUDA_CACHE` (bytes) says the same from the start.

    Parameters
    ----------
    limit
        Bytes for each GPU; 0 turns it off. None, the default: a quarter of the GPU's memory.

    Examples
    --------
    >>> import polars_taiga as tg
    >>> tg.limit_device_cache(2 << 30)
    >>> tg.limit_device_cache(None)
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
        msg = f"parameter `limit`: {limit!r} is not a number of bytes"
        raise TypeError(msg)
    if limit is not None and not 0 <= limit < 2**63:
        msg = f"parameter `limit`: {limit} is not a number of bytes"
        raise ValueError(msg)
    _taiga.device_cache(limit, clear=False)


def clear_device_cache() -> None:
    """Free the columns that stay on GPUs.

    Examples
    --------
    >>> import polars_taiga as tg
    >>> tg.clear_device_cache()
    """
    _taiga.device_cache(None, clear=True)


def cpu_alone(function: str, device: object) -> None:
    """Raise for a `device` that is none, and for a GPU: the function is computed on the CPU alone."""
    if checked(device).startswith("cuda"):
        msg = f'parameter `device`: {function} is computed on the CPU alone, not on {device!r}; leave it at "auto"'
        raise ValueError(msg)


# Several GPUs.
SEVERAL = r"cuda:([0-9]{1,4}(,[0-9]{1,4})+|all)"


def first(device: str) -> str:
    """The device for work that several GPUs do not share: the first of them."""
    if not isinstance(device, str) or not re.fullmatch(SEVERAL, device):
        return device
    return "cuda" if device == "cuda:all" else device.split(",")[0]


def checked_several(device: object) -> str:
    """The parameter `device` of what several GPUs may share."""
    if not isinstance(device, str) or not re.fullmatch(SEVERAL, device):
        return checked(device)
    numbers = device.removeprefix("cuda:").split(",")
    if len(set(numbers)) < len(numbers):
        msg = f'parameter `device`: "{device}" names a GPU twice'
        raise ValueError(msg)
    return device


def checked(device: object) -> str:
    """The parameter `device` of what one GPU does."""
    if not isinstance(device, str):
        msg = f"parameter `device`: {device!r} is not a string"
        raise TypeError(msg)
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,4})?", device):
        if re.fullmatch(SEVERAL, device):
            shared = (
                'fits of trees, of forests and of sparse logistic regression by "lbfgs", predictions, statistics, and '
                "encodings that are not ordered"
            )
            msg = f'parameter `device`: "{device}" names several GPUs, which share {shared}; write "{first(device)}"'
            raise ValueError(msg)
        msg = f'parameter `device`: {device!r} is not "auto", "cpu", "cuda" or "cuda:N"'
        if re.fullmatch(r"(gpu|nvidia)(:[0-9]+)?", device, re.IGNORECASE):
            msg += '; did you mean "cuda"?'
        raise ValueError(msg)
    return device

"""Where the work is done: `device_info`, and the parameter `device`."""

from __future__ import annotations

import re
from typing import TypedDict

from polars_taiga import _taiga

__all__ = ["DeviceInfo", "DevicesInfo", "device_info"]


class DeviceInfo(TypedDict):
    """A GPU; memory in bytes."""

    device: str
    name: str
    capability: tuple[int, int]
    total_memory: int
    free_memory: int


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
        capability, and its memory in bytes, all and free. `unavailable`: why there is no GPU to
        use, or why one of them can't be used; None where all can. `fits`: the fits last begun in
        this process, the last one first (16 at most): the function, and the device that it took,
        with the estimate that decided where the device was `"auto"`. (A model itself never says
        where it was fitted: its bytes are the same everywhere.)

    Examples
    --------
    >>> import polars_taiga as tg
    >>> info = tg.device_info()
    >>> bool(info["devices"]) or info["unavailable"] is not None
    True
    >>> import polars as pl
    >>> df = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") >= 50)
    >>> model = df.select(tg.fit_gbdt("y", "x", trees=3)).item()
    >>> tg.device_info()["fits"][0][0]
    'fit_gbdt'
    """
    driver, devices, unavailable, fits = _taiga.device_info()
    gpus = [
        DeviceInfo(device=f"cuda:{number}", name=name, capability=capability, total_memory=total, free_memory=free)
        for number, name, capability, total, free in devices
    ]
    return DevicesInfo(driver=driver, devices=gpus, unavailable=unavailable, fits=fits)


def checked(device: object) -> str:
    """The parameter `device` of every function that has one."""
    if not isinstance(device, str):
        msg = f"parameter `device`: {device!r} is not a string"
        raise TypeError(msg)
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,4})?", device):
        msg = f'parameter `device`: {device!r} is not "auto", "cpu", "cuda" or "cuda:N"'
        raise ValueError(msg)
    return device

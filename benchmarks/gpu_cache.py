"""What it costs to find a column again on a GPU; `python3 benchmarks/gpu_cache.py`, polars-taiga with CUDA installed.

Extremes and a histogram of 10^8 f32 from a Polars frame: the first use, which uploads and hashes; later uses, which
hash and find the column; and with the cache off, which uploads each time without a hash. Beside them the host's own
speed on the same bytes: a copy by NumPy on one thread, and Polars' sum, which reads them on all its threads.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import polars as pl
import polars_taiga as tg

N = 100_000_000
REPEATS = 9


def median(work: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    """Median milliseconds that a caller waits, behind two runs that do not count; `before` each, off the clock."""
    times = []
    for _ in range(REPEATS + 2):
        before()
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[2:])


def line(what: str, ms: float, size: int) -> None:
    print(f"{what:50} {ms:8.2f} ms {size / ms / 1e6:7.1f} GB/s", flush=True)


def hits() -> int:
    return tg.device_info()["devices"][0]["cache"]["hits"]


def main() -> None:
    devices = tg.device_info()["devices"]
    if not devices:
        raise SystemExit(f"not measured: {tg.device_info()['unavailable']}")
    values = np.random.default_rng(1).random(N, dtype=np.float32)
    frame, target = pl.DataFrame({"x": values}), np.empty_like(values)
    size = values.nbytes
    print(f"{devices[0]['name']}; {N} f32, {size / 1e6:.0f} MB; {pl.thread_pool_size()} threads; median of {REPEATS}")
    line("the host: a copy, one thread (bytes read)", median(lambda: np.copyto(target, values)), size)
    line("the host: Polars' sum, all threads", median(lambda: frame.select(pl.col("x").sum())), size)
    ways: dict[str, Callable[[], pl.DataFrame]] = {
        "min_max": lambda: frame.select(tg.min_max("x", device="cuda")),
        "histogram, 256 bins": lambda: frame.select(tg.histogram("x", 256, device="cuda")),
    }
    for name, work in ways.items():
        tg.limit_device_cache(None)
        line(f"{name}: first use, uploaded and hashed", median(work, tg.clear_device_cache), size)
        work()
        before = hits()
        ms = median(work)
        if hits() - before != REPEATS + 2:
            raise SystemExit(f"{name}: {hits() - before} of {REPEATS + 2} uses found the column")
        line(f"{name}: found by its hash", ms, size)
        # What `TAIGA_CUDA_CACHE=0` does from the start.
        tg.limit_device_cache(0)
        line(f"{name}: without a cache, uploaded", median(work), size)
    tg.limit_device_cache(None)
    work = ways["min_max"]
    work()
    # Of as many rows, and never there: hashed to no avail, and uploaded.
    ms = median(work, lambda: np.add(values, np.float32(1), out=values))
    line("min_max: of a column that was written to", ms, size)
    found = frame.select(tg.min_max("x", device="cuda")).item()
    if (found["min"], found["max"]) != (values.min(), values.max()):
        raise SystemExit(f"{found} of a column from {values.min()} to {values.max()}")


if __name__ == "__main__":
    main()

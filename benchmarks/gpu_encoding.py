"""Ordered target encoding of 100M rows with torch and cupy, for src/engine/benches/cuda_encoding.rs.

The same steps: keys of (category, random place), a stable sort, sums before each row inside its category,
values scattered back. Needs torch and cupy, nothing of this project.
"""

import cupy
import torch
from gpu_clock import median

N, CATEGORIES = 100_000_000, 1_000_000


def with_torch(codes: torch.Tensor, flags: torch.Tensor) -> torch.Tensor:
    places = torch.randint(0, 1 << 31, (N,), device="cuda")
    order = torch.argsort(codes.long() << 31 | places, stable=True)
    key, y = codes[order], flags[order].long()
    before = torch.cumsum(y, 0) - y
    index = torch.arange(N, device="cuda")
    first = torch.ones(N, dtype=torch.bool, device="cuda")
    first[1:] = key[1:] != key[:-1]
    start = torch.cummax(torch.where(first, index, 0), 0).values
    value = (before - before[start] + 0.5) / (index - start + 1.0)
    out = torch.empty(N, dtype=torch.float64, device="cuda")
    out[order] = value.double()
    return out


def with_cupy(codes: cupy.ndarray, flags: cupy.ndarray) -> cupy.ndarray:
    places = cupy.random.randint(0, 1 << 31, N, dtype=cupy.int64)
    order = cupy.argsort(codes.astype(cupy.int64) << 31 | places)
    key, y = codes[order], flags[order].astype(cupy.int64)
    before = cupy.cumsum(y) - y
    start = cupy.searchsorted(key, key)
    value = (before - before[start] + 0.5) / (cupy.arange(N) - start + 1.0)
    out = cupy.empty(N, dtype=cupy.float64)
    out[order] = value
    return out


def main() -> None:
    print(f"torch {torch.__version__}, cupy {cupy.__version__}, {torch.cuda.get_device_name()}")
    print(f"{N} rows, {CATEGORIES} categories")
    torch.manual_seed(0)
    codes = torch.randint(0, CATEGORIES, (N,), device="cuda", dtype=torch.int32)
    flags = torch.randint(0, 2, (N,), device="cuda", dtype=torch.uint8)
    print(f"torch: {median(lambda: with_torch(codes, flags)):.1f} ms", flush=True)
    torch.cuda.empty_cache()
    cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream).use()
    as_cupy = cupy.from_dlpack(codes), cupy.from_dlpack(flags)
    print(f"cupy: {median(lambda: with_cupy(*as_cupy)):.1f} ms", flush=True)


if __name__ == "__main__":
    main()

"""Sparse products of cupy and torch on a GPU: what a pass of logistic regression would take with them.

`python3 benchmarks/gpu_sparse_lr.py [rows] [repeats]`: 10 to 110 of a million features a row, values of 1 in f32 (CSR matrices have
values). A pass is the product with a vector of coefficients (scores) and that of the transposed with one of residuals (gradient);
its limit here is the time that the bytes of numbers and values take to be read twice at the speed of a device copy in the same run.
Ours is `cargo bench -p taiga-engine --features cuda --bench cuda_linear`. Needs nothing of this project.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import cupy as cp
import cupyx.scipy.sparse
import torch

FEATURES = 1_000_000


def milliseconds(work: Callable[[], object], repeats: int) -> float:
    """The median by the device's events, after two rounds to warm up."""
    times = []
    for _ in range(repeats + 2):
        start, end = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(cp.cuda.get_elapsed_time(start, end))
    return sorted(times[2:])[repeats // 2]


def main() -> None:
    """Prints a line for each library."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    random = cp.random.default_rng(1)
    offsets = cp.zeros(rows + 1, cp.int64)
    offsets[1:] = cp.cumsum(random.integers(10, 111, rows))
    entries = int(offsets[-1])
    numbers = random.integers(0, FEATURES, entries, dtype=cp.int32)
    values = cp.ones(entries, cp.float32)
    source, target = cp.zeros(1 << 30, cp.uint8), cp.empty(1 << 30, cp.uint8)

    def copy() -> None:
        cp.copyto(target, source)

    speed = 2 * (1 << 30) / milliseconds(copy, repeats) / 1e6
    limit = 2 * 8 * entries / speed / 1e6
    print(f"{rows} rows, {entries} entries; a copy {speed:.0f} GB/s; numbers and values read twice {limit:.3f} ms")
    coefficients, residuals = random.standard_normal(FEATURES, cp.float32), random.standard_normal(rows, cp.float32)

    def show(name: str, scores: Callable[[], object], gradient: Callable[[], object]) -> None:
        first, second = milliseconds(scores, repeats), milliseconds(gradient, repeats)
        share = 100 * limit / (first + second)
        print(f"{name}: scores {first:.3f} ms, gradient {second:.3f} ms, a pass {first + second:.3f} ms: {share:.1f} %", flush=True)

    offsets32 = offsets.astype(cp.int32)
    matrix = cupyx.scipy.sparse.csr_matrix((values, numbers, offsets32), shape=(rows, FEATURES))
    show("cupy csr", lambda: matrix @ coefficients, lambda: matrix.T @ residuals)
    try:
        by_feature = matrix.T.tocsr()
        show("cupy csr, and a transposed copy", lambda: matrix @ coefficients, lambda: by_feature @ residuals)
        del by_feature
    except Exception as e:  # noqa: BLE001 - what cuSPARSE can't do is part of the answer
        print(f"cupy, a transposed copy: {type(e).__name__}: {e}")
    torch_of = torch.from_dlpack
    csr = torch.sparse_csr_tensor(torch_of(offsets32), torch_of(numbers), torch_of(values), (rows, FEATURES), check_invariants=False)
    csc = torch.sparse_csc_tensor(torch_of(offsets32), torch_of(numbers), torch_of(values), (FEATURES, rows), check_invariants=False)
    w, r = torch_of(coefficients)[:, None], torch_of(residuals)[:, None]
    stream = torch.cuda.ExternalStream(cp.cuda.get_current_stream().ptr)
    with torch.cuda.stream(stream):
        try:
            show("torch sparse_csr", lambda: csr @ w, lambda: csc @ r)
        except Exception as e:  # noqa: BLE001
            print(f"torch: {type(e).__name__}: {e}")


if __name__ == "__main__":
    main()

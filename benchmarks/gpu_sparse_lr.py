"""Sparse products of cupy and torch on a GPU: what a pass of logistic regression would take with them.

`python3 benchmarks/gpu_sparse_lr.py [rows] [repeats]`: 10 to 110 of a million features a row, values of 1 in f32 (CSR
matrices have values). A pass is the product with a vector of coefficients (scores) and that of the transposed with
one of residuals (gradient); its limit here is the time that the bytes of numbers and values take to be read twice at
the speed of a device copy in the same run. Ours is `cargo bench -p taiga-engine --features cuda --bench cuda_linear`.
Needs nothing of this project.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import cupy as cp
import cupyx.scipy.sparse
import torch

FEATURES = 1_000_000


def milliseconds(work: Callable[[], object], repeats: int) -> float:
    """The median by the host's clock, from an idle device to an idle device, after two rounds to warm up."""
    times = []
    for _ in range(repeats + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
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
        parts = f"scores {first:.3f} ms, gradient {second:.3f} ms"
        print(f"{name}: {parts}, a pass {first + second:.3f} ms: {share:.1f} %", flush=True)

    offsets32 = offsets.astype(cp.int32)
    matrix = cupyx.scipy.sparse.csr_matrix((values, numbers, offsets32), shape=(rows, FEATURES))
    show("cupy csr", lambda: matrix @ coefficients, lambda: matrix.T @ residuals)
    by_feature = matrix.T.tocsr()
    show("cupy csr, and a transposed copy", lambda: matrix @ coefficients, lambda: by_feature @ residuals)

    def tensor(of: cupyx.scipy.sparse.csr_matrix) -> torch.Tensor:
        parts = [torch.from_dlpack(part) for part in (of.indptr, of.indices, of.data)]
        return torch.sparse_csr_tensor(*parts, of.shape, check_invariants=False)

    csr, csc = tensor(matrix), tensor(by_feature)
    w, r = torch.from_dlpack(coefficients), torch.from_dlpack(residuals)
    show("torch sparse_csr, and a transposed copy", lambda: csr @ w, lambda: csc @ r)


if __name__ == "__main__":
    main()

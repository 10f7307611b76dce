"""torch's and cupy's way to 254 quantile borders of 10^8 values on a GPU, for src/engine/benches/cuda_borders.rs.

Needs torch and cupy, nothing of this project: `python3 benchmarks/gpu_borders.py`. Both sort, count the distinct values, and cut
where the rows are; neither keeps heavy values apart or cuts between distinct values. All values are on the device.
"""

import statistics
from functools import partial

import cupy
import torch

N = 100_000_000
REPEATS = 7


def median(work) -> float:
    """Milliseconds by the device's clock."""
    times = []
    for _ in range(REPEATS + 2):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[2:])


def main() -> None:
    print(f"torch {torch.__version__}, cupy {cupy.__version__}, {torch.cuda.get_device_name()}; {N} values")
    torch.manual_seed(0)
    # cupy works on torch's stream, so that torch's events see it.
    cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream).use()
    places = torch.linspace(0, N - 1, 256, dtype=torch.float64).round().long()[1:-1].cuda()
    for name, dtype in [("f32", torch.float32), ("f64", torch.float64)]:
        values = torch.rand(N, device="cuda", dtype=dtype)
        as_cupy = cupy.from_dlpack(values)
        print(f"{name}: torch.sort {median(partial(torch.sort, values)):.2f} ms", end=", ")
        print(f"torch.unique with counts {median(partial(torch.unique, values, return_counts=True)):.2f} ms", end=", ")
        print(f"torch.sort and 254 places {median(lambda v=values: torch.sort(v).values[places].cpu()):.2f} ms", end=", ")
        print(f"cupy.sort {median(partial(cupy.sort, as_cupy)):.2f} ms", end=", ")
        print(f"cupy.unique with counts {median(partial(cupy.unique, as_cupy, return_counts=True)):.2f} ms", end=", ")
        quantiles = cupy.linspace(0, 1, 256)[1:-1]
        print(f"cupy.quantile {median(partial(cupy.quantile, as_cupy, quantiles)):.2f} ms", flush=True)
        host = values.cpu()
        print(f"{name}: torch, from host memory (pageable), {median(lambda h=host: torch.sort(h.cuda()).values[places].cpu()):.1f} ms")


if __name__ == "__main__":
    main()

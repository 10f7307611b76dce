"""torch's and cupy's extremes and histograms of 2^28 f32 on a GPU, for src/engine/benches/cuda_stats.rs.

Needs torch and cupy, nothing of this project: `python3 benchmarks/gpu_histogram.py`.
"""

from functools import partial

import cupy
import torch
from gpu_clock import median

N = 1 << 28


def main() -> None:
    print(f"torch {torch.__version__}, cupy {cupy.__version__}, {torch.cuda.get_device_name()}; {N} f32")
    torch.manual_seed(0)
    uniform = torch.rand(N, device="cuda")
    shapes = {
        "uniform": lambda: uniform,
        "constant": lambda: torch.full((N,), 0.37, device="cuda"),
        "sorted": lambda: torch.arange(N, device="cuda", dtype=torch.float32) / N,
        "skewed": lambda: torch.where(torch.rand(N, device="cuda") < 0.908, 0.5, uniform),
    }
    target = torch.empty_like(uniform)
    print(f"copy {median(lambda: target.copy_(uniform)):.3f} ms")
    # cupy works on torch's stream, so that torch's events see it.
    cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream).use()
    for name, make in shapes.items():
        values = make()
        print(f"{name}: torch.aminmax {median(partial(torch.aminmax, values)):.3f} ms")
        as_cupy = cupy.from_dlpack(values)
        for bins in (16, 64, 256, 1024, 4096):
            given = median(partial(torch.histc, values, bins, 0.0, 1.0))
            own = median(partial(torch.histc, values, bins))
            peer = median(partial(cupy.histogram, as_cupy, bins, (0.0, 1.0)))
            print(f"{name}: {bins} bins: torch.histc {given:.3f} ms, with its range {own:.3f} ms", end=", ")
            print(f"cupy.histogram {peer:.3f} ms", flush=True)


if __name__ == "__main__":
    main()

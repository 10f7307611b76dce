"""torch's and cupy's way to 254 quantile borders of 10^8 values on a GPU, for src/engine/benches/cuda_borders.rs.

Needs torch and cupy, nothing of this project: `python3 benchmarks/gpu_borders.py`. Places among sorted values are not
borders yet: neither library keeps heavy values apart or cuts between distinct values.
"""

from functools import partial

import cupy
import torch
from gpu_clock import median

N = 100_000_000


def main() -> None:
    print(f"torch {torch.__version__}, cupy {cupy.__version__}, {torch.cuda.get_device_name()}; {N} values")
    torch.manual_seed(0)
    # cupy works on torch's stream, so that torch's events see it.
    cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream).use()
    places = torch.linspace(0, N - 1, 256, dtype=torch.float64).round().long()[1:-1].cuda()
    for name, dtype in [("f32", torch.float32), ("f64", torch.float64)]:
        values = torch.rand(N, device="cuda", dtype=dtype)
        host, as_cupy = values.cpu(), cupy.from_dlpack(values)
        quantiles = cupy.linspace(0, 1, 256)[1:-1]
        ways = {
            "torch.sort": partial(torch.sort, values),
            "torch.sort and 254 places": lambda v=values: torch.sort(v).values[places].cpu(),
            "the same from pageable host memory": lambda h=host: torch.sort(h.cuda()).values[places].cpu(),
            "torch.unique with counts": partial(torch.unique, values, return_counts=True),
            "cupy.sort": partial(cupy.sort, as_cupy),
            "cupy.quantile": partial(cupy.quantile, as_cupy, quantiles),
            "cupy.unique with counts": partial(cupy.unique, as_cupy, return_counts=True),
        }
        for way, work in ways.items():
            print(f"{name}: {way} {median(work):.2f} ms", flush=True)


if __name__ == "__main__":
    main()

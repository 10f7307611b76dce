"""The clock of the scripts that measure torch and cupy: nothing of this project, but torch."""

import statistics

import torch


def median(work, repeats: int = 7) -> float:
    """Milliseconds by the device's clock, after two runs that are not counted."""
    times = []
    for _ in range(repeats + 2):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[2:])

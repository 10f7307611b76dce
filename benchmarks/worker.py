"""One measurement in a process of its own: `python -m benchmarks.worker '<job as JSON>'`.

So that a library's threads, caches and memory touch no other's. The answer is the last line of
the output, as JSON. `benchmarks.harness.measure` starts it.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.data import TARGET
from benchmarks.libraries import ENTRIES, Settings, fitter

FloatArray = npt.NDArray[np.float64]


def auc(target: FloatArray, score: FloatArray) -> float:
    """The area under the ROC curve, by ranks, ties counted half."""
    rank = pl.Series(score).rank("average").to_numpy()
    positive = target > 0.5
    n, m = int(positive.sum()), int((~positive).sum())
    return float((rank[positive].sum() - n * (n + 1) / 2) / (n * m))


def logloss(target: FloatArray, probability: FloatArray) -> float:
    """The mean negative log-likelihood; probabilities are kept 1e-15 away from 0 and 1."""
    p = np.clip(probability, 1e-15, 1 - 1e-15)
    return float(-np.mean(target * np.log(p) + (1 - target) * np.log1p(-p)))


def metrics(task: str, target: pl.Series, prediction: npt.ArrayLike) -> dict[str, float]:
    """AUC and log loss, or RMSE."""
    y = target.cast(pl.Float64).to_numpy()
    p = np.asarray(prediction, dtype=np.float64)
    if task == "binary":
        return {"auc": auc(y, p), "logloss": logloss(y, p)}
    return {"rmse": float(np.sqrt(np.mean((y - p) ** 2)))}


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}: memory is measured on Linux only")


class PeakMemory:
    """The peak of resident memory between entering and leaving, above what was there at entering.

    The kernel's own high-water mark where it may be reset, samples every 2 ms where not.
    """

    def __enter__(self) -> PeakMemory:
        gc.collect()
        self._stop = threading.Event()
        self._sampled = 0
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self.method = "VmHWM"
        except OSError:
            self.method = "sampled"
        self.before = _status("VmRSS")
        if self.method == "VmHWM" and _status("VmHWM") > self.before + (8 << 20):
            self.method = "sampled"  # The reset was accepted and ignored.
        self._thread = threading.Thread(target=self._sample, daemon=True)
        if self.method == "sampled":
            self._thread.start()
        return self

    def _sample(self) -> None:
        while not self._stop.wait(0.002):
            self._sampled = max(self._sampled, _status("VmRSS"))

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        peak = max(_status("VmHWM") if self.method == "VmHWM" else self._sampled, _status("VmRSS"))
        self.above = peak - self.before


def train(job: dict[str, Any]) -> dict[str, Any]:
    """Fits at least once, and again while that is quick; the metrics of held-out rows beside."""
    settings = Settings(**job["settings"])
    frame, test = pl.read_ipc(job["train"]), pl.read_ipc(job["test"])
    fit = fitter(ENTRIES[job["entry"]], settings)
    seconds: list[float] = []
    while not seconds or (sum(seconds) < job.get("fill_seconds", 1.0) and len(seconds) < 7):
        start = time.perf_counter()
        predict = fit(frame)
        seconds.append(time.perf_counter() - start)
    return {"first_s": seconds[0], "best_s": min(seconds)} | metrics(settings.task, test[TARGET], predict(test))


def predict(job: dict[str, Any]) -> dict[str, Any]:
    """Fits on the first rows only, then scores the whole frame a few times."""
    settings = Settings(**job["settings"])
    frame = pl.read_ipc(job["train"])
    predict = fitter(ENTRIES[job["entry"]], settings)(frame.head(job["fit_rows"]))
    rows = frame.drop(TARGET)
    seconds = []
    for _ in range(job["repeats"]):
        start = time.perf_counter()
        out = predict(rows)
        seconds.append(time.perf_counter() - start)
    return {"first_s": seconds[0], "best_s": min(seconds)} | metrics(settings.task, frame[TARGET], out)


def memory(job: dict[str, Any]) -> dict[str, Any]:
    """The peak of resident memory while fitting, above the process with the frame loaded.

    A fit on a few rows goes first, so that code, thread stacks and allocator arenas, which do not
    grow with the data, are there already.
    """
    settings = Settings(**job["settings"])
    frame = pl.read_ipc(job["train"])
    fit = fitter(ENTRIES[job["entry"]], settings)
    fit(frame.head(1000))
    with PeakMemory() as peak:
        fit(frame)
    return {"peak_bytes": peak.above, "frame_bytes": int(frame.estimated_size()), "method": peak.method}


def main() -> None:
    job = json.loads(sys.argv[1])
    answer = {"train": train, "predict": predict, "memory": memory}[job["job"]](job)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()

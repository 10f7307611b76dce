"""Starts workers, keeps their results as JSON lines, and prints tables."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.data import ROOT
from benchmarks.libraries import ENTRIES, Entry

RESULTS = ROOT / "build" / "benchmarks"
_PACKAGES = {"taiga": "polars-taiga", "xgboost": "xgboost-cpu", "sklearn": "scikit-learn"}


def measure(job: dict[str, Any], threads: int) -> dict[str, Any]:
    """Runs a job in a fresh process limited to `threads`; its answer, or `{"error": …}`."""
    env = os.environ | {name: str(threads) for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS")}
    command = [sys.executable, "-m", "benchmarks.worker", json.dumps(job)]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or f"ended with status {done.returncode}").strip().splitlines()
        return {"error": lines[-1] if lines else f"ended with status {done.returncode}"}
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def version(library: str) -> str:
    """The installed version of a library, or `-`."""
    for package in (_PACKAGES.get(library, library), library):
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "-"


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = re.search(r"model name\s*: (.*)", info)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": model.group(1) if model else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "polars": version("polars"),
        "commit": commit.stdout.strip() or "-",
    }


def select(pattern: str | None) -> list[Entry]:
    """The entries whose names contain one of the comma-separated words; all without a pattern."""
    if not pattern:
        return list(ENTRIES.values())
    words = [word.strip() for word in pattern.split(",")]
    chosen = [entry for entry in ENTRIES.values() if any(word in entry.name for word in words)]
    if not chosen:
        raise SystemExit(f"--only {pattern}: none of {', '.join(ENTRIES)}")
    return chosen


class Results:
    """A file of JSON lines; the first line of a run describes the machine."""

    def __init__(self, path: Path) -> None:
        if (load := os.getloadavg()[0]) > 0.5:
            progress(
                f"The machine is busy (load {load:.1f}): times will mislead, those of OpenMP libraries most of all."
            )
        self.path = path
        self.lines: list[dict[str, Any]] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": machine()}) + "\n")

    def add(self, line: dict[str, Any]) -> None:
        """Keeps a result at once, so that a run that is broken off leaves what it had."""
        self.lines.append(line)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table, padded so that it reads well as plain text too."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(lines)


def number(value: float | None, digits: int = 3) -> str:
    """A number for a table; `-` for none."""
    return "-" if value is None else f"{value:.{digits}f}"


def progress(text: str) -> None:
    """A line to stderr, so that stdout holds the tables only."""
    print(text, file=sys.stderr, flush=True)

"""What would need more memory than the process may have is an error with both figures, and the process goes on.

Each case runs in a process of its own, whose addresses are limited (`RLIMIT_AS`) to what it has after the import and up
to a gigabyte and a half more. There an allocation that fails ends the process, unless it was asked for before.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux counts a process's addresses")

SCRIPT = Path(__file__).with_name("memory_limit_cases.py")
CASES = [
    "gbdt_classes",
    "gbdt_permutations",
    "gbdt_histograms",
    "gbdt_statistics",
    "gbdt_borders",
    "lr_hashed_classes",
    "lr_held_out",
    "forest_classes",
    "forest_exact",
    "predictions",
    "encodings",
    "encode",
    "many_rows",
    "models",
    "again",
    "groups",
]


@pytest.mark.parametrize("case", CASES)
def test_what_does_not_fit_is_an_error_and_the_process_goes_on(case: str) -> None:
    done = subprocess.run([sys.executable, SCRIPT, case], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-4000:]}"


def test_all_cases_are_run() -> None:
    text = SCRIPT.read_text()
    assert text.count("() -> None:") == len(CASES) + 1, "each function but works() is a case"

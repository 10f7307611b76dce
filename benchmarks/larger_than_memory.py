"""Tables larger than memory: `python -m benchmarks.larger_than_memory [--rows 100000000] [--limit-mb 5000] [--only taiga]`.

Writes a table of `--rows` by 28 f32 columns and an f32 target to Parquet files in pieces, 11.6 GB for 100,000,000 rows, and fits it
in processes of their own that a control group holds to `--limit-mb` (version 1 or 2, by hand, which root may; the kernel ends what takes
more, and reads what was mapped from files again where it has given it up): `fit_gbdt(batches=True)` with codes in memory, the same with
`spill` under `--spill-limit-mb`, and XGBoost's `ExtMemQuantileDMatrix`. Each says its time and the most that the group held. Before
that, `--sample-rows` of the table are fitted both ways, and must give the same bytes. The files go when it is done, unless `--keep`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.data import BLOCK, ROOT, TARGET, synthetic
from benchmarks.harness import RESULTS, Results, progress, table, version

FEATURES = 28
# Rows of a file, and of a group of rows in it.
PIECE = 32 * BLOCK
GROUP = 4 * BLOCK


def write(folder: Path, rows: int) -> int:
    """Writes the table in files that no two are in memory at a time; its size in bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, rows, PIECE)):
        path = folder / f"{number:05}.parquet"
        if not path.exists():
            piece = synthetic(min(PIECE, rows - first), FEATURES, "regression", first_row=first)
            part = path.with_suffix(".part")
            piece.write_parquet(part, compression="uncompressed", row_group_size=GROUP)
            part.rename(path)
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))

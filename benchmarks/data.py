"""The tables that the benchmarks run on: a deterministic synthetic one of any size, and three real ones."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

Task = Literal["binary", "regression"]

ROOT = Path(__file__).resolve().parent.parent
REAL = ROOT.parent / "shared" / "data"
CACHE = ROOT / "build" / "benchmarks" / "data"
TARGET = "y"
BLOCK = 65_536


def synthetic(rows: int, features: int = 28, task: Task = "binary", seed: int = 0, first_row: int = 0) -> pl.DataFrame:
    """A table of `features` f32 columns `f0`, `f1`, … and a target `y`.

    Eight columns carry most of the signal, with bends, steps and products; of the others every
    second one adds a little, the rest is noise. Columns are normal, log-normal, rounded to
    eighths, or leaning on their neighbour, so that borders meet more than one kind of
    distribution. The target is Boolean (drawn from a logistic model) or f32 (with logistic noise).

    Rows are made in blocks from a generator keyed by (seed, block): the same arguments give the
    same values on every machine, and `first_row` (a multiple of 65,536) starts further down the
    same endless table.
    """
    if features < 8:
        raise ValueError(f"features={features}: the signal needs at least 8")
    if first_row % BLOCK:
        raise ValueError(f"first_row={first_row} is not a multiple of {BLOCK}")
    columns = np.empty((features, rows), dtype=np.float32)
    target = np.empty(rows, dtype=np.bool_ if task == "binary" else np.float32)
    weak = np.random.default_rng([seed, 7]).normal(size=features) * (np.arange(features) % 2) * 0.6 / np.sqrt(features)

    def make(start: int) -> None:
        stop = min(start + BLOCK, rows)
        rng = np.random.default_rng([seed, 1 + (first_row + start) // BLOCK])
        # Whole blocks are drawn, so that a row's values do not depend on where the table ends; only its rows are kept.
        z = np.empty((features, stop - start), np.float32)
        for values in z:
            values[:] = rng.standard_normal(BLOCK, dtype=np.float32)[: stop - start]
        noise = rng.random(BLOCK)[: stop - start]
        z[3::7] = (z[3::7] + z[2::7][: len(z[3::7])]) * np.float32(0.7071)
        score = (
            np.sin(2 * z[0])
            + z[1] * z[2]
            + 0.8 * np.abs(z[3])
            + np.where(z[4] > 0.5, 1.0, -0.4)
            + 0.5 * z[5] * (z[0] > 0)
            - 0.3 * z[6] ** 2
            + 0.4 * np.maximum(z[7], z[5])
            + weak @ z
            - 0.43
        )
        if task == "binary":
            target[start:stop] = noise < 1 / (1 + np.exp(-score))
        else:
            # Logistic noise: the logit of the uniform draw.
            target[start:stop] = score + 0.5 * np.log(noise / (1 - noise) + 1e-12)
        z[1::4] = np.exp(z[1::4])
        z[2::4] = np.round(z[2::4] * 8) / 8
        columns[:, start:stop] = z

    # A few at a time, since each has some copies of its block.
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as threads:
        list(threads.map(make, range(0, rows, BLOCK)))
    frame = pl.DataFrame({f"f{i}": column for i, column in enumerate(columns)})
    return frame.with_columns(pl.Series(TARGET, target))


def synthetic_files(
    rows: int, features: int, test_rows: int, task: Task = "binary", seed: int = 0, write: bool = True
) -> tuple[Path, Path]:
    """Arrow files of a training and a held-out part of one synthetic table, made once and kept."""
    CACHE.mkdir(parents=True, exist_ok=True)
    stem = f"{task}-{rows}x{features}-seed{seed}"
    train, test = CACHE / f"{stem}.arrow", CACHE / f"{stem}-test{test_rows}.arrow"
    if write and not train.exists():
        synthetic(rows, features, task, seed).write_ipc(train)
    if write and not test.exists():
        first_row = -(-rows // BLOCK) * BLOCK
        synthetic(test_rows, features, task, seed, first_row).write_ipc(test)
    return train, test


def real(name: str) -> tuple[pl.DataFrame, Task]:
    """A real table by name (`adult`, `housing`, `weather`): its numeric columns and the target `y`."""
    path = REAL / f"{name}.csv"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: the repository ships no data; `--tables synthetic` needs none")
    frame = pl.read_csv(path, null_values=["NA"], infer_schema_length=None, try_parse_dates=True)
    numeric = pl.selectors.numeric()
    if name == "adult":
        return frame.select(numeric, (pl.col("income") == ">50K").alias(TARGET)), "binary"
    target = {"housing": "median_house_value", "weather": "visib"}[name]
    return frame.select(numeric).drop(target).with_columns(frame[target].alias(TARGET)), "regression"


def split_files(name: str, seed: int, test_share: float = 0.25) -> tuple[Path, Path, Task]:
    """Arrow files of a random split of a real table."""
    frame, task = real(name)
    CACHE.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng([seed, 11]).permutation(frame.height)
    cut = int(frame.height * test_share)
    train, test = CACHE / f"{name}-seed{seed}.arrow", CACHE / f"{name}-seed{seed}-test.arrow"
    frame[np.sort(order[cut:])].write_ipc(train)
    frame[np.sort(order[:cut])].write_ipc(test)
    return train, test, task

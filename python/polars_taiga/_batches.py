"""Fits that read a frame in batches, so that no more of it stands in memory than a fit keeps."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_taiga import _plugin, _taiga
from polars_taiga._names import by_name

if TYPE_CHECKING:
    from polars_taiga._fit import Call

Batches: TypeAlias = "bool | int | Literal['auto']"
"""Whether a frame is read in batches; a number: of so many rows each."""

_MOST_ROWS = 2**31
_HAS_BATCHES = hasattr(pl.LazyFrame, "collect_batches")
# The column of the query that is one struct of all that a fit reads.
_INPUT = "__taiga_input"


class BatchesCall:
    """What a call says of batches."""

    def __init__(self, call: Call, batches: object, spill: object, folds: dict[str, Any] | None = None) -> None:
        """Of this fit; what is wrong is noted in the problems of the call, which are raised. `folds`: what is to be
        done with folds, where it is fits of these.
        """
        self.call, self.folds = call, folds
        self.batches: bool | int | str = False
        self.spill: str | None = None
        with call.problems.collect():
            self.batches = _checked(batches)
        with call.problems.collect():
            self.spill = _folder(spill)
            if self.spill is not None and batches is False:
                msg = "parameter `spill`: it is where a fit in batches keeps its rows; add batches=True"
                raise ValueError(msg)
        call.problems.raise_found()

    def fit(self, frame: pl.LazyFrame, engine: Any) -> tuple[bool, Any]:
        """Fit in batches; the model's bytes, `None` where `on_error` makes it null; of folds the column of what comes
        of them. The first is false where `batches="auto"` finds that the frame need not be read so.
        """
        if self.batches is False:
            return False, None
        with _plugin.errors():
            return _Fit(self, frame, engine).made()


class _Fit:
    """One fit in batches (src/plugin/batches.rs)."""

    def __init__(self, given: BatchesCall, frame: pl.LazyFrame, engine: Any) -> None:
        """Check it by the types of what it reads."""
        call, self.batches, self.folds = given.call, given.batches, given.folds
        self.call = call
        self.frame, self.engine = frame, engine
        self.own = _taiga.BatchedFit(given.spill)
        everything = pl.struct([*call.columns, *call.parts, *call.selected]).alias(_INPUT)
        schema = frame.select(everything).collect_schema()
        auto = self.batches == "auto"
        kwargs = {"number": self.own.number, "learner": call.problems.function, "fit": call.kwargs, "auto": auto}
        if self.folds is not None:
            # The plugin reads no object twice.
            kwargs["folds"] = copy.deepcopy({"fit": call.kwargs, **self.folds})
        # That there is a model is what is wrong; which one is nothing to the error.
        models = [pl.lit(None, dtype=pl.Binary) for _ in call.models]
        begin = _plugin.whole("batches_begin", [pl.col(_INPUT), *models], kwargs)
        whole = pl.DataFrame(schema=schema).select(begin).to_series().to_list()
        # Computed features are told by their place, others by their names; roles by theirs.
        known = {f"__taiga_computed_{i}": expr for i, expr in enumerate(call.columns)}
        known.update({part.meta.output_name(): part for part in call.parts})
        named = {name: known.get(name, by_name(name)) for name in whole if not name.startswith("__taiga_selected_")}
        self.kept = pl.struct(list(named.values())).alias(_INPUT)
        self.read = pl.struct([*call.columns, *call.parts]).alias(_INPUT)

    def made(self) -> tuple[bool, Any]:
        """The model's bytes, or what comes of folds, if the frame is to be read in batches."""
        if self.batches != "auto":
            _check_polars()
        rows = self.collected(self.frame.select(self.kept))
        if self.batches == "auto":
            if self.own.has_room(rows.height):
                return False, None
            _check_polars()
        self.take(rows)
        height = rows.height
        del rows
        model, error = self.own.fit(self.passes)
        if error is not None:
            raise _plugin.error_of(error)
        return True, model if self.folds is None else self.given(height)

    def given(self, rows: int) -> pl.Series:
        """What has come of folds: of `fit_folds` a value for each of so many rows, else one."""
        by_row = _plugin.whole("batches_give", [pl.col("row")], {"number": self.own.number})
        one = self.call.problems.function != "fit_folds"
        return pl.select(row=pl.int_range(1 if one else rows)).select(by_row).to_series()

    def collected(self, query: pl.LazyFrame) -> pl.DataFrame:
        """What a query gives."""
        if self.engine != "auto":
            return query.collect(engine=self.engine)
        # Early versions of Polars know of one engine alone, and have no batches either.
        return query.collect(engine="streaming") if _HAS_BATCHES else query.collect()

    def take(self, rows: pl.DataFrame) -> None:
        """Hand over some rows."""
        rows.select(_plugin.scalar("batches_take", [pl.col(_INPUT)], {"number": self.own.number}))

    def passes(self) -> Iterator[None]:
        """One pass over the frame, a step for each batch that is handed over."""
        size = self.own.batch_rows() if self.batches is True or self.batches == "auto" else int(self.batches)
        query = self.frame.select(self.read)
        with _plugin.errors():
            for rows in query.collect_batches(chunk_size=size, maintain_order=True, engine=self.engine):
                for start in range(0, rows.height, size):
                    self.take(rows.slice(start, size))
                    yield


def _checked(batches: object) -> bool | int | str:
    if isinstance(batches, bool):
        return batches
    if batches == "auto":
        return "auto"
    if isinstance(batches, int):
        if 1 <= batches <= _MOST_ROWS:
            return batches
        msg = f"parameter `batches`: {batches} rows are no batch; it is a number from 1 to 2,147,483,648"
        raise ValueError(msg)
    msg = f'parameter `batches`: {batches!r} is none of True, False, "auto" and a number of rows'
    raise ValueError(msg) if isinstance(batches, str) else TypeError(msg)


def _check_polars() -> None:
    if not _HAS_BATCHES:
        msg = (
            f"parameter `batches`: it needs LazyFrame.collect_batches, which Polars {pl.__version__} does not have; a "
            "later one has it"
        )
        raise RuntimeError(msg)


def _folder(spill: object) -> str | None:
    if spill is None:
        return None
    if not isinstance(spill, str | os.PathLike):
        msg = f"parameter `spill`: {type(spill).__name__} is no path of a folder"
        raise TypeError(msg)
    return os.path.abspath(os.fspath(spill))

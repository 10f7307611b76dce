"""Fits of boosted trees and of forests by the workers of a Ray cluster, each with its part of the rows; this needs Ray.

```python
from polars_taiga.ray import fit_gbdt

model = fit_gbdt("/data/2026/*.parquet", "y", "a", "b", workers=8, cpus_per_worker=16, rounds=500)
```
"""

from __future__ import annotations

import glob
import importlib
import ipaddress
import logging
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import polars as pl

import polars_taiga as tg
from polars_taiga import _plugin
from polars_taiga._fit import checked_on_error
from polars_taiga._signature import shows
from polars_taiga.forest import ForestParams
from polars_taiga.gbdt import GbdtParams

try:
    # Without its types, which would be checked with every file of this package.
    ray: Any = importlib.import_module("ray")
except ImportError as error:
    msg = f"polars_taiga.ray needs Ray: pip install 'polars-taiga[ray]' ({error})"
    raise ImportError(msg) from None

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from polars_taiga._callback import Callback
    from polars_taiga._metadata import Metadata
    from polars_taiga._plugin import IntoColumn, IntoColumns
    from polars_taiga.model import Model

__all__ = ["fit_forest", "fit_gbdt"]

Part: TypeAlias = Callable[[int, int], pl.LazyFrame]
"""What gives a worker its rows: a function of its rank and of the number of workers, which runs in the worker."""

Strategy = Literal["SPREAD", "PACK", "STRICT_SPREAD", "STRICT_PACK"]

_LOG = logging.getLogger("polars_taiga.ray")

# Seconds that the others may take to notice that one is lost, before they are ended; and that news are waited for.
_NOTICE, _POLL = 10.0, 1.0
# Parts of so many rows begin where a block does: rows that begin inside one are sent to the process where it begins.
_LARGE, _BLOCK = 1 << 16, 1 << 10

# What a process of a fit says that ended because of another one, or of the network.
_OF_ANOTHER = re.compile(
    r"parameter `collective`: .*(has ended|have ended|nothing was heard from|has not told in time|did not come to"
    r"|could not be reached|something listens there already|a connection fails"
    r"|closes the connection before it has said who it is)",
    re.DOTALL,
)

# What in a plan may give its rows in another order, or other rows, each time it is run.
_UNORDERED = re.compile(
    r"JOIN|MERGE.SORTED|SORT BY|OPAQUE_PYTHON|(?:AGGREGATE|UNIQUE)(?!\[maintain_order: true)"
    r"|\.(?:shuffle|sample(?:_n|_frac)?|unique|mode)\("
)


@overload
def fit_gbdt(
    data: pl.LazyFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Part | Any,
    target: IntoColumn,
    *features: IntoColumns,
    workers: int,
    cpus_per_worker: int = 1,
    gpus_per_worker: int = 0,
    max_failures: int = 3,
    interface: str | None = None,
    timeout: float = 300.0,
    start_timeout: float = 600.0,
    placement_strategy: Strategy = "SPREAD",
    weight: IntoColumn | None = None,
    baseline: IntoColumns | None = None,
    eval: IntoColumn | None = None,
    group: IntoColumn | None = None,
    position: IntoColumn | None = None,
    event: IntoColumn | None = None,
    lower: IntoColumn | None = None,
    upper: IntoColumn | None = None,
    order_by: IntoColumn | None = None,
    row_key: IntoColumns | None = None,
    on_error: Literal["raise"] = "raise",
    init_model: Model | bytes | None = None,
    snapshot: str | os.PathLike[str] | None = None,
    snapshot_every: int = 100,
    callback: Callback | None = None,
    verbose: bool | int = False,
    progress: bool | None = None,
    metadata: Metadata | None = None,
    **params: Unpack[GbdtParams],
) -> Model: ...


@overload
def fit_gbdt(
    data: pl.LazyFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Part | Any,
    target: IntoColumn,
    *features: IntoColumns,
    workers: int,
    cpus_per_worker: int = 1,
    gpus_per_worker: int = 0,
    max_failures: int = 3,
    interface: str | None = None,
    timeout: float = 300.0,
    start_timeout: float = 600.0,
    placement_strategy: Strategy = "SPREAD",
    weight: IntoColumn | None = None,
    baseline: IntoColumns | None = None,
    eval: IntoColumn | None = None,
    group: IntoColumn | None = None,
    position: IntoColumn | None = None,
    event: IntoColumn | None = None,
    lower: IntoColumn | None = None,
    upper: IntoColumn | None = None,
    order_by: IntoColumn | None = None,
    row_key: IntoColumns | None = None,
    on_error: Literal["null"],
    init_model: Model | bytes | None = None,
    snapshot: str | os.PathLike[str] | None = None,
    snapshot_every: int = 100,
    callback: Callback | None = None,
    verbose: bool | int = False,
    progress: bool | None = None,
    metadata: Metadata | None = None,
    **params: Unpack[GbdtParams],
) -> Model | None: ...


@shows(GbdtParams)
def fit_gbdt(
    data: pl.LazyFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Part | Any,
    target: IntoColumn,
    *features: IntoColumns,
    workers: int,
    cpus_per_worker: int = 1,
    gpus_per_worker: int = 0,
    max_failures: int = 3,
    interface: str | None = None,
    timeout: float = 300.0,
    start_timeout: float = 600.0,
    placement_strategy: Strategy = "SPREAD",
    weight: IntoColumn | None = None,
    baseline: IntoColumns | None = None,
    eval: IntoColumn | None = None,
    group: IntoColumn | None = None,
    position: IntoColumn | None = None,
    event: IntoColumn | None = None,
    lower: IntoColumn | None = None,
    upper: IntoColumn | None = None,
    order_by: IntoColumn | None = None,
    row_key: IntoColumns | None = None,
    on_error: Literal["raise", "null"] = "raise",
    init_model: Model | bytes | None = None,
    snapshot: str | os.PathLike[str] | None = None,
    snapshot_every: int = 100,
    callback: Callback | None = None,
    verbose: bool | int = False,
    progress: bool | None = None,
    metadata: Metadata | None = None,
    **params: Unpack[GbdtParams],
) -> Model | None:
    """Fit gradient-boosted trees by workers of a Ray cluster; wait for the model and return it.

    Ray starts `workers` actors, each of which scans its part of the rows lazily, and they make one fit
    (`tg.Collective`): the model has the bytes of `df.taiga.fit_gbdt` of the whole table in one process, whatever the
    number of workers. Rows go neither through this process nor through Ray, but for those of a Ray Dataset.

    A worker that is lost (its process is killed, its machine is gone) is started again, on another machine if need be;
    all then go on from the last snapshot, to the same bytes.

    The cluster is that of `ray.init`, or what Ray finds or starts where nobody has called it. On every machine the same
    version of polars-taiga is installed.

    Parameters
    ----------
    data
        The rows, which are dealt to the workers in order, to each as many as to another:

        - Parquet files that every worker's machine can read: a path, a folder, a pattern, or a list of these, read one
          after the other.
        - A `LazyFrame` that gives the same rows in the same order wherever it runs: a scan, with filters and columns
          computed row by row. Every worker runs it as far as its part goes. A query with a join, a `group_by`, a sort
          or the like promises no order; it is an error without `row_key`.
        - A Ray Dataset, whose blocks are read in their order.
        - A function of a worker's rank and the number of workers that gives its rows as a `LazyFrame`. It runs in the
          worker; rank 0's rows come first.
    target, features, params
        As in `tg.fit_gbdt`. A worker computes expressions over its own rows: one that is not computed row by row (a
        mean, a rank, a row's number) is an error where Polars can tell, which it can't of selectors and of functions
        in Python. Make it a column of `data`, a query, which a worker runs over all rows.
    weight, baseline, eval, group, position, event, lower, upper, order_by, row_key, init_model, metadata
        As in `tg.fit_gbdt`.
    on_error
        As in `tg.fit_gbdt`, `"raise"` or `"null"`: None is returned where the rows are at fault.
    workers
        The number of workers, each a process.
    cpus_per_worker
        Threads of a worker, for which it gets as many of Ray's CPUs. A worker a machine with all its cores has the
        least to send.
    gpus_per_worker
        GPUs of a worker, on which it then fits: Ray shows it no others. The model is the same.
    max_failures
        How often workers may be lost before that is an error. 0: no snapshots are taken on account of it.
    interface
        The network between the workers: the name of an interface that each machine has (`"eth1"`; Linux), or, where all
        workers are on one machine, an address of it (`"127.0.0.1"`). By default the address that Ray uses.
    timeout
        Seconds that one worker waits for another at each step, as in `tg.Collective`. Whoever ends is noticed at once.
    start_timeout
        Seconds that the cluster may take to start the workers: to add machines, say.
    placement_strategy
        How Ray places the workers: `"SPREAD"` over the machines as far as there are, `"PACK"`, or either strictly.
    snapshot
        A file on storage that every machine sees, which keeps the state of the fit, so that another call goes on from
        it too. By default, where `rounds` are given and `max_failures` is not 0, rank 0 keeps a file of its own, of
        which Ray's object store on this machine gets a copy (4 bytes a row and score). Without `rounds` a fit that
        lost a worker begins anew.
    snapshot_every
        Every how many rounds that is written; default 100.
    callback
        As in `tg.fit_gbdt`; it runs in this process, and the workers wait for it. What it raises ends the fit and is
        raised here. Rounds that are made again after a failure are not told again.
    verbose, progress
        As in `tg.fit_gbdt`, on this process's standard error.

    Returns
    -------
    Model
        The model of all rows; None where `on_error` makes it null.

    Raises
    ------
    ValueError, TypeError
        Where a parameter is wrong, before anything is started.
    RuntimeError
        Where workers were lost more often than `max_failures`, or the cluster did not start them.
    polars.exceptions.PolarsError
        What is wrong with the rows or the columns, as `df.taiga.fit_gbdt` says it.

    Examples
    --------
    >>> import polars as pl, ray
    >>> from polars_taiga.ray import fit_gbdt
    >>> frame = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") % 7)
    >>> _ = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)  # doctest: +SKIP
    >>> model = fit_gbdt(frame.lazy(), "y", "x", workers=2, rounds=5)  # doctest: +SKIP
    >>> model == frame.taiga.fit_gbdt("y", "x", rounds=5)  # doctest: +SKIP
    True
    """
    roles: dict[str, Any] = {
        "weight": weight,
        "baseline": baseline,
        "eval": eval,
        "group": group,
        "position": position,
        "event": event,
        "lower": lower,
        "upper": upper,
        "order_by": order_by,
        "row_key": row_key,
        "init_model": init_model,
        "metadata": metadata,
    }
    own = _Own(
        workers=workers,
        cpus=cpus_per_worker,
        gpus=gpus_per_worker,
        max_failures=max_failures,
        interface=interface,
        timeout=timeout,
        start_timeout=start_timeout,
        strategy=placement_strategy,
        snapshot=None if snapshot is None else os.path.abspath(os.fspath(snapshot)),
        snapshot_every=snapshot_every,
    )
    given = own.check(params, on_error)
    function: object = callback
    if function is not None and not callable(function):
        msg = f"parameter `callback`: {type(function).__name__} is no function of a round and its metrics"
        raise TypeError(msg)
    # What is wrong with the call is told before anything is started.
    tg.fit_gbdt(
        target,
        *features,
        snapshot=snapshot,
        snapshot_every=snapshot_every,
        verbose=verbose,
        progress=progress,
        **roles,
        **given,
    )
    telling = _Telling(callback, int(verbose), progress, params.get("rounds"))
    return _fitted("fit_gbdt", data, target, features, roles, given, own, telling)


@overload
def fit_forest(
    data: pl.LazyFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Part | Any,
    target: IntoColumn,
    *features: IntoColumns,
    workers: int,
    cpus_per_worker: int = 1,
    gpus_per_worker: int = 0,
    max_failures: int = 3,
    interface: str | None = None,
    timeout: float = 300.0,
    start_timeout: float = 600.0,
    placement_strategy: Strategy = "SPREAD",
    weight: IntoColumn | None = None,
    row_key: IntoColumns | None = None,
    on_error: Literal["raise"] = "raise",
    snapshot: str | os.PathLike[str] | None = None,
    snapshot_every: int = 100,
    metadata: Metadata | None = None,
    **params: Unpack[ForestParams],
) -> Model: ...


@overload
def fit_forest(
    data: pl.LazyFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Part | Any,
    target: IntoColumn,
    *features: IntoColumns,
    workers: int,
    cpus_per_worker: int = 1,
    gpus_per_worker: int = 0,
    max_failures: int = 3,
    interface: str | None = None,
    timeout: float = 300.0,
    start_timeout: float = 600.0,
    placement_strategy: Strategy = "SPREAD",
    weight: IntoColumn | None = None,
    row_key: IntoColumns | None = None,
    on_error: Literal["null"],
    snapshot: str | os.PathLike[str] | None = None,
    snapshot_every: int = 100,
    metadata: Metadata | None = None,
    **params: Unpack[ForestParams],
) -> Model | None: ...


@shows(ForestParams)
def fit_forest(
    data: pl.LazyFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Part | Any,
    target: IntoColumn,
    *features: IntoColumns,
    workers: int,
    cpus_per_worker: int = 1,
    gpus_per_worker: int = 0,
    max_failures: int = 3,
    interface: str | None = None,
    timeout: float = 300.0,
    start_timeout: float = 600.0,
    placement_strategy: Strategy = "SPREAD",
    weight: IntoColumn | None = None,
    row_key: IntoColumns | None = None,
    on_error: Literal["raise", "null"] = "raise",
    snapshot: str | os.PathLike[str] | None = None,
    snapshot_every: int = 100,
    metadata: Metadata | None = None,
    **params: Unpack[ForestParams],
) -> Model | None:
    """Fit a random forest by workers of a Ray cluster; wait for the model and return it.

    As `fit_gbdt` does: the model has the bytes of `df.taiga.fit_forest` of the whole table in one process. Each worker
    reads its part of the rows, gets the codes of all, and grows a share of the trees (docs/distributed.md). Where a
    worker is lost another is started in its place, and the trees are grown anew, but for those that a `snapshot` has.

    Parameters
    ----------
    data, workers, cpus_per_worker, gpus_per_worker, interface, timeout, start_timeout, placement_strategy
        As in `fit_gbdt`.
    target, features, weight, row_key, metadata, params
        As in `tg.fit_forest`; of expressions, as in `fit_gbdt`. There is no bar: `progress=True` is an error.
    on_error
        As in `fit_gbdt`.
    max_failures
        How often workers may be lost before that is an error.
    snapshot
        A file on storage that every machine sees, which keeps the trees that are done, so that the fit goes on with
        them where a worker is lost, and another call does. Default: none.
    snapshot_every
        After how many trees each that is written; default 100.

    Returns
    -------
    Model
        The model of all rows; None where `on_error` makes it null.

    Raises
    ------
    ValueError, TypeError
        Where a parameter is wrong, before anything is started.
    RuntimeError
        Where workers were lost more often than `max_failures`, or the cluster did not start them.
    polars.exceptions.PolarsError
        What is wrong with the rows or the columns, as `df.taiga.fit_forest` says it.

    Examples
    --------
    >>> import polars as pl, ray
    >>> from polars_taiga.ray import fit_forest
    >>> frame = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") % 7)
    >>> _ = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)  # doctest: +SKIP
    >>> model = fit_forest(frame.lazy(), "y", "x", workers=2, trees=20)  # doctest: +SKIP
    >>> model == frame.taiga.fit_forest("y", "x", trees=20)  # doctest: +SKIP
    True
    """
    roles: dict[str, Any] = {"weight": weight, "row_key": row_key, "metadata": metadata}
    own = _Own(
        workers=workers,
        cpus=cpus_per_worker,
        gpus=gpus_per_worker,
        max_failures=max_failures,
        interface=interface,
        timeout=timeout,
        start_timeout=start_timeout,
        strategy=placement_strategy,
        snapshot=None if snapshot is None else os.path.abspath(os.fspath(snapshot)),
        snapshot_every=snapshot_every,
    )
    given = own.check(params, on_error)
    # What is wrong with the call is told before anything is started.
    tg.fit_forest(target, *features, snapshot=snapshot, snapshot_every=snapshot_every, **roles, **given)
    if given.pop("progress", None):
        msg = "parameter `progress`: there is no bar of a forest that workers grow; leave it out"
        raise ValueError(msg)
    return _fitted("fit_forest", data, target, features, roles, given, own, _Telling(None, 0, False, None))


def _fitted(
    function: Literal["fit_gbdt", "fit_forest"],
    data: object,
    target: object,
    features: tuple[Any, ...],
    roles: Mapping[str, Any],
    params: Mapping[str, Any],
    own: _Own,
    telling: _Telling,
) -> Model | None:
    """The model that workers make by one of the package's functions; none where `on_error` makes it null."""
    columns = {role: column for role, column in roles.items() if role not in ("init_model", "metadata")}
    _check_rows_alone({"target": target, "features": features, **columns})
    given = {k: v for k, v in roles.items() if v is not None}
    device = {"device": "cuda:all"} if own.gpus > 0 else {}
    call = _Call(function, target, features, {**given, **params, **device})
    table = _table(data)
    if not ray.is_initialized():
        ray.init()
    parts = None
    if _is_dataset(table):
        # Before the workers have all the CPUs: a Dataset is read by tasks of its own.
        parts = _dealt_blocks(table, own.workers)
        if not parts:
            if params["on_error"] == "null":
                return None
            msg = "parameter `data`: the Dataset has no rows: there is nothing to fit"
            raise ValueError(msg)
    with _workers(own) as group, telling:
        model = _Job(own, call, table, telling, group, parts).run()
    return None if model is None else tg.Model(model)


def _check_rows_alone(columns: Mapping[str, Any]) -> None:
    """Check that expressions read no row but their own, since a worker has a part of the rows.

    Raises
    ------
    ValueError
        Naming the parameter, the expression and what of it reads other rows.
    """
    for role, given in columns.items():
        for expr in [] if given is None else _plugin.as_exprs([given], f"`{role}`"):
            found = _of_other_rows(expr)
            if found is not None:
                whole, inner = (re.sub(r"\.[^\s.]*/\S*?:(?=\w+\()", ".", str(part)) for part in (expr, found))
                of = "it" if inner == whole else f"`{inner}`"
                msg = (
                    f"parameter `{role}`: `{whole}`: {of} is not known to be computed row by row, and each worker has "
                    "a part of the rows alone: make it a column of `data`, a query that each runs over all of them"
                )
                raise ValueError(msg)


def _of_other_rows(expr: pl.Expr) -> pl.Expr | None:
    """What in an expression may read other rows than its own, as far as Polars can tell.

    Polars says it of the outermost step alone, and nothing of selectors.
    """
    meta = expr.meta
    # New in a later version of Polars than the oldest that there may be.
    if not hasattr(meta, "is_row_separable") or meta.is_literal():
        return None
    # What `list.eval` and the like compute: of a row's list.
    if set(meta.root_names()) <= {""} and ("element()" in str(expr) or "" in meta.root_names()):
        return None
    several = meta.has_multiple_outputs()
    if pl.__version__.startswith("1.") and (several or "nth(" in str(expr)):
        # It panics where it takes apart what selects columns.
        return None
    # The innermost comes first, so that it is what a text names.
    inner = next((found for found in map(_of_other_rows, meta.pop()) if found is not None), None)
    if inner is None and not several:
        with suppress(pl.exceptions.PolarsError):
            return None if meta.is_row_separable() or _is_constant(expr) else expr
    return inner


def _is_constant(expr: pl.Expr) -> bool:
    """Whether an expression is made of literals alone."""
    parts = expr.meta.pop()
    return expr.meta.is_literal() or (len(parts) > 0 and all(map(_is_constant, parts)))


@dataclass(frozen=True)
class _Own:
    """What the caller says of the workers."""

    workers: int
    cpus: int
    gpus: int
    max_failures: int
    interface: str | None
    timeout: float
    start_timeout: float
    strategy: str
    snapshot: str | None = None
    snapshot_every: int = 100

    def check(self, params: Mapping[str, Any], on_error: object) -> dict[str, Any]:
        """Check what is not checked elsewhere; errors name the parameter.

        `params`: of the fit. What comes are those of each worker, `on_error` among them.
        """
        given = {**params, "on_error": checked_on_error(on_error, ("raise", "null"))}
        if given.pop("collective", None) is not None:
            msg = "parameter `collective`: the workers are one that is made of them; leave it out"
            raise ValueError(msg)
        counts: list[tuple[str, object, int]] = [
            ("workers", self.workers, 1),
            ("cpus_per_worker", self.cpus, 1),
            ("gpus_per_worker", self.gpus, 0),
            ("max_failures", self.max_failures, 0),
        ]
        for name, value, least in counts:
            if isinstance(value, bool) or not isinstance(value, int):
                msg = f"parameter `{name}`: {value!r} is no number of them"
                raise TypeError(msg)
            if value < least:
                msg = f"parameter `{name}`: {value} is less than {least}"
                raise ValueError(msg)
        interface: object = self.interface
        if interface is not None and not isinstance(interface, str):
            msg = f"parameter `interface`: {interface!r} is neither an interface's name nor an address"
            raise TypeError(msg)
        if isinstance(self.start_timeout, bool) or not isinstance(self.start_timeout, int | float):
            msg = f"parameter `start_timeout`: {self.start_timeout!r} is no number of seconds"
            raise TypeError(msg)
        if not self.start_timeout > 0:
            msg = f"parameter `start_timeout`: {self.start_timeout} is not more than 0 seconds"
            raise ValueError(msg)
        if self.strategy not in (known := ("SPREAD", "PACK", "STRICT_SPREAD", "STRICT_PACK")):
            msg = f"parameter `placement_strategy`: {self.strategy!r} is not one of {', '.join(map(repr, known))}"
            raise ValueError(msg)
        if self.gpus > 0 and "device" in params:
            msg = "parameter `device`: with `gpus_per_worker` workers fit on the GPUs that Ray gives them; leave it out"
            raise ValueError(msg)
        # The rest is the collective's.
        tg.Collective(rank=0, world=self.workers, address="127.0.0.1:1", secret="-", timeout=self.timeout)
        return given


@dataclass(frozen=True)
class _Call:
    """The fit, but for its rows and who makes it."""

    function: Literal["fit_gbdt", "fit_forest"]
    target: Any
    features: tuple[Any, ...]
    params: dict[str, Any]


# The rows, on their way to the workers.


@dataclass(frozen=True)
class _Files:
    """Parquet files, one after the other."""

    paths: list[str]

    def frame(self) -> pl.LazyFrame:
        """Scan them; run by a worker."""
        found: list[str] = []
        for path in self.paths:
            if os.path.isdir(path):
                found.extend(sorted(str(file) for file in Path(path).rglob("*.parquet")))
            else:
                found.extend(sorted(glob.glob(path)) if glob.has_magic(path) and "://" not in path else [path])
        if not found:
            msg = f"parameter `data`: {socket.gethostname()} has no Parquet file at {', '.join(self.paths)}"
            raise FileNotFoundError(msg)
        return pl.scan_parquet(found)


@dataclass(frozen=True)
class _Query:
    """A query that gives the same rows in the same order wherever it runs."""

    query: pl.LazyFrame

    def frame(self) -> pl.LazyFrame:
        """The query; run by a worker."""
        return self.query

    def check_order(self) -> None:
        """Check that its rows have an order; run by a worker, since the files may be there alone.

        Raises
        ------
        ValueError
            Naming what in its plan has none.
        """
        plan = re.sub(r'"[^"]*"', '""', self.query.explain(optimized=False))
        if (found := _UNORDERED.search(plan)) is not None:
            msg = (
                f"parameter `data`: the query has a {found[0].strip('.(')}, behind which rows may come in any order "
                "in each worker, which takes a part of them: give `row_key`, or write the rows to Parquet files"
            )
            raise ValueError(msg)


@dataclass(frozen=True)
class _Range:
    """Consecutive rows of files or of a query."""

    table: _Files | _Query
    first: int
    count: int

    def frame(self) -> pl.LazyFrame:
        """These rows."""
        return self.table.frame().slice(self.first, self.count)


@dataclass(frozen=True)
class _Blocks:
    """Consecutive rows of blocks that lie in Ray's object store."""

    blocks: list[Any]
    first: int
    count: int

    def frame(self) -> pl.LazyFrame:
        """These rows."""
        tables = [pl.from_arrow(block) for block in ray.get(self.blocks)]
        frames = [table if isinstance(table, pl.DataFrame) else table.to_frame() for table in tables]
        return pl.concat(frames, rechunk=False).slice(self.first, self.count).lazy()


@dataclass(frozen=True)
class _PartOf:
    """What a function of one's own gives."""

    function: Part
    rank: int
    world: int
    count: int | None = None

    def frame(self) -> pl.LazyFrame:
        """These rows."""
        frame: object = self.function(self.rank, self.world)
        if isinstance(frame, pl.DataFrame):
            frame = frame.lazy()
        if not isinstance(frame, pl.LazyFrame):
            msg = f"parameter `data`: the function gives a {type(frame).__name__}, not a LazyFrame"
            raise TypeError(msg)
        return frame


_Dealt: TypeAlias = _Range | _Blocks | _PartOf


def _table(data: object) -> Any:
    """What was given as `data`: files, a query, a Dataset, or a function."""
    if isinstance(data, pl.LazyFrame):
        return _Query(data)
    if isinstance(data, pl.DataFrame):
        msg = (
            "parameter `data`: a DataFrame is in one process, which can fit it: df.taiga.fit_gbdt; df.lazy() is one "
            "that every worker gets"
        )
        raise TypeError(msg)
    if isinstance(data, str | os.PathLike):
        return _Files([os.fspath(data)])
    if _is_dataset(data) or callable(data):
        return data
    if isinstance(data, Sequence) and data and all(isinstance(path, str | os.PathLike) for path in data):
        return _Files([os.fspath(path) for path in data])
    msg = (
        f"parameter `data`: {type(data).__name__} is no LazyFrame, path or list of paths, Ray Dataset, or function of "
        "a rank and the number of workers"
    )
    raise TypeError(msg)


def _is_dataset(data: object) -> bool:
    """Whether this is a Ray Dataset."""
    return type(data).__module__.split(".")[:2] == ["ray", "data"]


def _ends(total: int, world: int) -> list[int]:
    """Where the parts of `world` workers begin and end in a table of `total` rows."""
    step = _BLOCK if total >= world * _LARGE else 1
    return [total * rank // world // step * step for rank in range(world)] + [total]


def _dealt_blocks(dataset: Any, world: int) -> list[_Dealt]:
    """The parts of a Ray Dataset; none of one without rows."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        blocks = dataset.to_arrow_refs()
    finally:
        options.preserve_order = before
    # They wait for no CPU, of which others may have all.
    height_of = ray.remote(num_cpus=0)(_height)
    heights: list[int] = ray.get([height_of.remote(block) for block in blocks])
    with_rows = [i for i, height in enumerate(heights) if height]
    if not with_rows:
        return []
    starts = [sum(heights[:i]) for i in range(len(heights) + 1)]
    ends = _ends(starts[-1], world)
    parts: list[_Dealt] = []
    for rank in range(world):
        first, end = ends[rank], ends[rank + 1]
        own = [i for i in with_rows if starts[i] < end and starts[i + 1] > first]
        # A worker without rows reads the types of the columns off some block that has them.
        own = own or with_rows[:1]
        parts.append(_Blocks([blocks[i] for i in own], max(first - starts[own[0]], 0), end - first))
    return parts


def _height(block: Any) -> int:
    """The rows of a block; run by Ray."""
    return int(block.num_rows)


# The worker.


class _Worker:
    """A process of the fit: an actor of Ray, whose methods run side by side."""

    def __init__(self) -> None:
        """With a folder for the snapshots of rank 0."""
        self._folder = Path(tempfile.mkdtemp(prefix="taiga-"))
        self._kept: Path | None = None
        self._seen: object = None
        self._condition = threading.Condition()
        self._rounds: list[tuple[int, dict[str, float]]] = []
        self._answer: bool | None = None
        self._fits = False

    def version(self) -> str:
        """Of this package and of Polars."""
        return f"polars-taiga {tg.__version__}, Polars {pl.__version__}"

    def listens_at(self, interface: str | None) -> str | Exception:
        """An address at which rank 0 can listen."""
        try:
            host = _address_of(interface)
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as free:
                free.bind((host, 0))
                port = free.getsockname()[1]
        except Exception as error:
            return error
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def height(self, table: _Files | _Query, keyed: bool) -> int | Exception:
        """The rows of a table; `keyed`: whether their order is nothing."""
        try:
            if isinstance(table, _Query) and not keyed:
                table.check_order()
            return int(table.frame().select(pl.len()).collect().item())
        except Exception as error:
            return error

    def fit(
        self,
        rank: int,
        part: _Dealt,
        call: _Call,
        collective: dict[str, Any],
        kept: tuple[str | None, int] | None,
        tells: str | None,
        saved: bytes | None,
    ) -> bytes | Exception | None:
        """Fit with the others. Rank 0 gives the model, if there is one, the others nothing; all the error that ends it.

        `kept`: the file of snapshots, none for one's own, and how often; `tells`: whether rounds are told, and with
        `"and waits"` an answer waited for; `saved`: the last snapshot that another worker took.
        """
        self._fits = True
        try:
            more: dict[str, Any] = {}
            if kept is not None:
                file = self._folder / "snapshot" if kept[0] is None else Path(kept[0])
                if saved is not None and not file.exists():
                    file.write_bytes(saved)
                more = {"snapshot": file, "snapshot_every": kept[1]}
                self._kept = file if rank == 0 and kept[0] is None else None
            if tells is not None:
                with self._condition:
                    self._rounds.clear()
                more["callback"] = self._waiting if tells == "and waits" else self._telling
            us = tg.Collective(rank=rank, **collective)
            function = tg.fit_gbdt if call.function == "fit_gbdt" else tg.fit_forest
            fit = function(call.target, *call.features, progress=False, collective=us, **more, **call.params)
            with _plugin.errors():
                model, rows = part.frame().select(fit, pl.len().alias("rows")).collect().row(0)
            if part.count is not None and rows != part.count:
                msg = f"parameter `data`: rank {rank} read {rows} rows where {part.count} were counted"
                raise ValueError(msg)
        except Exception as error:
            return error
        finally:
            with self._condition:
                self._fits = False
                self._condition.notify_all()
        return bytes(model) if rank == 0 and model is not None else None

    def _telling(self, done: int, metrics: Mapping[str, float]) -> bool:
        with self._condition:
            self._rounds.append((done, dict(metrics)))
            self._condition.notify_all()
        return False

    def _waiting(self, done: int, metrics: Mapping[str, float]) -> bool:
        with self._condition:
            self._answer = None
            self._rounds.append((done, dict(metrics)))
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._answer is not None)
            return bool(self._answer)

    def answer(self, ends: bool) -> None:
        """Say whether the round that was told ends the fit."""
        with self._condition:
            self._answer = ends
            self._condition.notify_all()

    def news(self, seconds: float) -> tuple[list[tuple[int, dict[str, float]]], bytes | None]:
        """The rounds since, and a new snapshot, once there is either, or behind the fit, or after so many seconds."""
        until = time.monotonic() + seconds
        with self._condition:
            while True:
                saved = self._snapshot()
                left = until - time.monotonic() if self._fits else 0
                if self._rounds or saved is not None or left <= 0:
                    break
                self._condition.wait(min(left, 0.05))
            rounds, self._rounds = self._rounds, []
        return rounds, saved

    def _snapshot(self) -> bytes | None:
        """The file, where it is another than before."""
        if self._kept is None:
            return None
        try:
            state = self._kept.stat()
            if (now := (state.st_ino, state.st_mtime_ns, state.st_size)) == self._seen:
                return None
            read = self._kept.read_bytes()
        except FileNotFoundError:
            return None
        self._seen = now
        return read

    def clear(self) -> None:
        """Delete the files."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _address_of(interface: str | None) -> str:
    """The address of this machine on a network."""
    if interface is None:
        return str(ray.util.get_node_ip_address())
    with suppress(ValueError):
        return str(ipaddress.ip_address(interface))
    if sys.platform != "linux":
        msg = f"parameter `interface`: {interface!r} is no address, and interfaces have names on Linux alone"
        raise ValueError(msg)
    import fcntl

    name = interface.encode()[:15].ljust(40, b"\0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_:
        try:
            # SIOCGIFADDR: a name of 16 bytes, behind it a `sockaddr_in`, whose address begins at its byte 4.
            found = fcntl.ioctl(any_.fileno(), 0x8915, name)
        except OSError:
            names = ", ".join(name for _, name in socket.if_nameindex())
            msg = f"parameter `interface`: {socket.gethostname()} has no {interface!r} of IPv4; it has {names}"
            raise ValueError(msg) from None
    return socket.inet_ntoa(found[20:24])


# The driver.


class _LostError(Exception):
    """Workers are lost, or could not reach each other: what the fit is begun again for."""


@dataclass
class _Group:
    """The workers that Ray has started, and where."""

    own: _Own
    places: Any
    actors: dict[int, Any] = field(default_factory=dict)

    def start(self) -> None:
        """Start those that are not there.

        Raises
        ------
        RuntimeError
            Where the cluster has no room for them.
        """
        until = time.monotonic() + self.own.start_timeout
        strategy = importlib.import_module("ray.util.scheduling_strategies").PlacementGroupSchedulingStrategy
        made = ray.remote(_Worker)
        for rank in range(self.own.workers):
            if rank not in self.actors:
                self.actors[rank] = made.options(
                    num_cpus=self.own.cpus,
                    num_gpus=self.own.gpus,
                    max_concurrency=4,
                    max_restarts=0,
                    runtime_env={"env_vars": {"POLARS_MAX_THREADS": str(self.own.cpus)}},
                    scheduling_strategy=strategy(self.places, placement_group_bundle_index=rank),
                ).remote()
        asked = {self.actors[rank].version.remote(): rank for rank in range(self.own.workers)}
        here = f"polars-taiga {tg.__version__}, Polars {pl.__version__}"
        pending = list(asked)
        while pending:
            came, pending = ray.wait(pending, timeout=max(until - time.monotonic(), 0))
            if not came:
                for ref in pending:
                    self.end(asked[ref])
                each = f"{self.own.cpus} CPUs" + (f" and {self.own.gpus} GPUs" if self.own.gpus else "")
                msg = (
                    f"the cluster did not start {len(pending)} of {self.own.workers} workers, each of {each}, within "
                    f"{self.own.start_timeout} seconds (`start_timeout`); it has {_has()}"
                )
                raise RuntimeError(msg)
            there = self.get(asked[came[0]], came[0])
            if there != here:
                msg = f"a worker has {there}, and this process {here}: install the same on all machines"
                raise RuntimeError(msg)

    def get(self, rank: int, ref: Any) -> Any:
        """What a worker's method gave.

        Raises
        ------
        _LostError
            Where the worker is lost.
        """
        try:
            return ray.get(ref)
        except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError, ray.exceptions.OutOfMemoryError) as error:
            self.end(rank)
            text = str(error).strip().splitlines()
            raise _LostError(f"rank {rank} was lost: {text[0] if text else type(error).__name__}") from error

    def told(self, rank: int, ref: Any) -> Any:
        """As `get`; an error that the method gave is raised."""
        value = self.get(rank, ref)
        if isinstance(value, Exception):
            raise value
        return value

    def end(self, rank: int) -> None:
        """End one worker."""
        actor = self.actors.pop(rank, None)
        if actor is not None:
            with suppress(Exception):
                ray.kill(actor)


def _has() -> str:
    """What the cluster has, as text."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cpus, gpus = (", ".join(f"{node.get(kind, 0):g}" for node in nodes) for kind in ("CPU", "GPU"))
    return f"{len(nodes)} machines of {cpus} CPUs and {gpus} GPUs"


@contextmanager
def _workers(own: _Own) -> Iterator[_Group]:
    """Room for workers, who are ended and whose room is given back behind the body."""
    bundles = [{"CPU": own.cpus, **({"GPU": own.gpus} if own.gpus > 0 else {})} for _ in range(own.workers)]
    util = importlib.import_module("ray.util")
    places = util.placement_group(bundles, strategy=own.strategy)
    group = _Group(own, places)
    try:
        yield group
    finally:
        with suppress(Exception):
            ray.wait(
                [actor.clear.remote() for actor in group.actors.values()], num_returns=len(group.actors), timeout=5
            )
        for rank in list(group.actors):
            group.end(rank)
        util.remove_placement_group(places)


@dataclass
class _Job:
    """A fit, begun again where workers are lost."""

    own: _Own
    call: _Call
    table: Any
    telling: _Telling
    group: _Group
    parts: list[_Dealt] | None = None
    saved: Any = None

    def run(self) -> bytes | None:
        """The model's bytes; none where `on_error` makes it null.

        Raises
        ------
        RuntimeError
            Where workers were lost too often.
        """
        for failures in range(self.own.max_failures + 1):
            try:
                self.group.start()
                if self.parts is None:
                    self.parts = self._deal()
                return self._fit(self.parts)
            except _LostError as lost:
                if failures == self.own.max_failures:
                    most = self.own.max_failures
                    msg = f"workers were lost {failures + 1} times, and `max_failures` is {most}; the last time {lost}"
                    raise RuntimeError(msg) from lost.__cause__
                _LOG.warning("%s; the fit goes on (%d of %d failures)", lost, failures + 1, self.own.max_failures)
        raise AssertionError

    def _deal(self) -> list[_Dealt]:
        """The workers' parts of the rows."""
        world = self.own.workers
        if not isinstance(self.table, _Files | _Query):
            return [_PartOf(self.table, rank, world) for rank in range(world)]
        keyed = "row_key" in self.call.params
        # That all machines have the same files costs a look at their ends; a query is run, once.
        asked = range(world if isinstance(self.table, _Files) else 1)
        refs = [self.group.actors[rank].height.remote(self.table, keyed) for rank in asked]
        heights = [self.group.told(rank, refs[rank]) for rank in asked]
        for rank, height in enumerate(heights):
            if height != heights[0]:
                msg = (
                    f"parameter `data`: rank {rank} finds {height} rows in the files, and rank 0 {heights[0]}: have "
                    "all machines the same ones?"
                )
                raise ValueError(msg)
        ends = _ends(heights[0], world)
        return [_Range(self.table, ends[rank], ends[rank + 1] - ends[rank]) for rank in range(world)]

    def _kept(self) -> tuple[str | None, int] | None:
        """The file that keeps the state of the fit: the caller's, rank 0's own (no name), or none."""
        if self.own.snapshot is not None:
            return self.own.snapshot, self.own.snapshot_every
        # How many rounds a fit makes that was not told depends on whether there are snapshots.
        told = self.call.params.get("rounds") is not None
        return (None, self.own.snapshot_every) if told and self.own.max_failures > 0 else None

    def _fit(self, parts: list[_Dealt]) -> bytes | None:
        """Make the fit with the workers there are.

        Raises
        ------
        _LostError
            Where one of them is lost.
        """
        zero, kept = self.group.actors[0], self._kept()
        us = {
            "world": self.own.workers,
            "address": self.group.told(0, zero.listens_at.remote(self.own.interface)),
            "secret": secrets.token_hex(32),
            "timeout": self.own.timeout,
        }
        refs = {}
        for rank in range(self.own.workers):
            tells, saved = (self.telling.how(), self.saved) if rank == 0 else (None, None)
            call = self.group.actors[rank].fit.remote(rank, parts[rank], self.call, us, kept, tells, saved)
            refs[call] = rank
        news = zero.news.remote(_POLL) if kept is not None or self.telling.how() is not None else None
        given: dict[int, Any] = {}
        until: float | None = None
        while len(given) < self.own.workers:
            pending = [ref for ref, rank in refs.items() if rank not in given]
            for ref in ray.wait(pending if news is None else [*pending, news], timeout=_POLL)[0]:
                try:
                    value = self.group.get(refs.get(ref, 0), ref)
                except _LostError as lost:
                    value = lost
                if ref in refs:
                    given[refs[ref]] = value
                elif isinstance(value, _LostError):
                    # Rank 0's fit says the same.
                    news = None
                else:
                    self._hear(zero, value)
                    news = zero.news.remote(_POLL)
            self._raise_own(given)
            if until is None and any(isinstance(value, Exception) for value in given.values()):
                until = time.monotonic() + _NOTICE
            if until is not None and time.monotonic() > until:
                # They are in the midst of something, or wait for the one that never came to them.
                for rank in set(refs.values()) - set(given):
                    self.group.end(rank)
                    given[rank] = _LostError(f"rank {rank} did not notice it")
        with suppress(_LostError):
            while news is not None:
                value = self.group.get(0, news)
                self._hear(zero, value)
                news = None if value == ([], None) else zero.news.remote(0)
        errors = {rank: value for rank, value in sorted(given.items()) if isinstance(value, Exception)}
        if not errors:
            model: bytes | None = given[0]
            return model
        lost_ = [error for error in errors.values() if isinstance(error, _LostError)]
        if lost_:
            raise _LostError("; ".join(map(str, lost_))) from next((e.__cause__ for e in lost_ if e.__cause__), None)
        rank, error = next(iter(errors.items()))
        raise _LostError(f"rank {rank} ended with: {error}") from error

    def _hear(self, zero: Any, value: tuple[list[tuple[int, dict[str, float]]], bytes | None]) -> None:
        """Hand on what rank 0 tells."""
        rounds, saved = value
        if saved is not None:
            # In this machine's part of the store, so that the machine of rank 0 may be lost.
            self.saved = ray.put(saved)
        for done, metrics in rounds:
            ends = self.telling.round(done, metrics)
            if self.telling.how() == "and waits":
                zero.answer.remote(ends)

    @staticmethod
    def _raise_own(given: Mapping[int, object]) -> None:
        """Raise an error that a worker has by itself: not for another one, nor for the network."""
        for _, value in sorted(given.items()):
            if (
                isinstance(value, Exception)
                and not isinstance(value, _LostError)
                and not _OF_ANOTHER.search(str(value))
            ):
                raise value


class _Telling:
    """What this process tells of the rounds: to a function, by lines, by a bar."""

    def __init__(self, callback: Callback | None, verbose: int, progress: bool | None, rounds: int | None) -> None:
        """As the caller wants it; `rounds`: how many there will be, if that is known."""
        self._callback, self._verbose, self._rounds = callback, verbose, rounds
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._progress = self._terminal if progress is None else progress
        self._told, self._started, self._drawn = 0, time.monotonic(), 0.0

    def how(self) -> str | None:
        """Whether rounds are told at all, and waited for."""
        if self._callback is not None:
            return "and waits"
        return "told" if self._verbose > 0 or self._progress else None

    def round(self, done: int, metrics: Mapping[str, float]) -> bool:
        """Tell of a round, once; whether the fit ends with it."""
        if done <= self._told:
            return False
        self._told = done
        if self._verbose > 0 and done % self._verbose == 0:
            self._wipe()
            measured = "".join(f", {name} {value}" for name, value in metrics.items())
            print(f"fit_gbdt rounds {done}{measured}", file=sys.stderr, flush=True)
        self._draw()
        return self._callback is not None and bool(self._callback(done, metrics))

    def _draw(self) -> None:
        now = time.monotonic()
        # As the bar of one process: where a fit takes long, and some times a second.
        if self._progress and self._terminal and now - self._started > 2 and now - self._drawn > 0.1:
            self._drawn = now
            of = "" if self._rounds is None else f"/{self._rounds}"
            print(
                f"\r\x1b[Kfit_gbdt {self._told}{of} rounds, {now - self._started:.0f} s",
                end="",
                file=sys.stderr,
                flush=True,
            )

    def _wipe(self) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._drawn = 0.0

    def __enter__(self) -> _Telling:
        """Begin."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Take the bar away; where there is no terminal, say that it is done."""
        self._wipe()
        if kind is None and self._progress and not self._terminal:
            seconds = time.monotonic() - self._started
            of = "" if self._rounds is None else f"/{self._rounds}"
            print(f"fit_gbdt {self._told}{of} rounds in {seconds:.1f} s", file=sys.stderr, flush=True)

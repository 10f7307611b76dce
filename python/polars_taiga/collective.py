"""Processes that make one fit together, each with its part of the rows."""

from __future__ import annotations

import math
import operator
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real

from polars_taiga import _taiga

__all__ = ["Collective"]


def _whole(name: str, value: object) -> int:
    """A whole number from 0 on that the plugin can hold, of NumPy too, as Python's."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        msg = f"parameter `{name}`: {type(value).__name__} is not int"
        raise TypeError(msg)
    if number.bit_length() > 63:
        msg = f"parameter `{name}`: the number is too {'large' if number > 0 else 'small'}"
        raise ValueError(msg)
    if number < 0:
        msg = f"parameter `{name}`: {number} is negative"
        raise ValueError(msg)
    return number


def _seconds(value: object) -> float:
    """A number of seconds, of NumPy too, as Python's."""
    if isinstance(value, bool) or not isinstance(value, Real):
        msg = f"parameter `timeout`: {type(value).__name__} is no number of seconds"
        raise TypeError(msg)
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    # As what the plugin has of it, -1 and NaN are 0.
    if not 0.001 <= seconds <= 1e7:
        msg = f"parameter `timeout`: {seconds:.12g} is not a number of seconds from 0.001 to 10,000,000"
        raise ValueError(msg)
    return seconds


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        msg = f"parameter `{name}`: {type(value).__name__} is not str"
        raise TypeError(msg)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        # The secret is not shown, nor any of its characters.
        msg = f"parameter `{name}`: character {error.start} is a surrogate, as Python reads a byte that is no UTF-8"
        raise ValueError(msg) from None


@dataclass(frozen=True, kw_only=True)
class Collective:
    """Says who this process is among several that make a fit together, each with its part of the rows.

    All run the same program: `fit_gbdt(..., collective=)`, `fit_forest` or `fit_sparse_lr`, with the same parameters,
    each on its rows. The table is that of all rows, those of rank 0 first, and each process gets the model of all of
    it: the bytes of one fit of the concatenated tables, whatever the number of processes and however rows are dealt to
    them; some may have none. Expressions are computed by each process over its own rows, so they are to be of a row
    alone (`pl.col("x") - pl.col("x").mean()` has another mean in each). A fit connects the processes (TCP) and
    disconnects them; fits are made one after the other, and the expression of one is run once. What each sends is in
    docs/distributed.md.

    The secret is checked on both sides of each connection before anything else is read (HMAC-SHA-256 of what both
    draw); it is never sent. Nothing is encrypted: the network between the processes is to be one's own.

    Parameters
    ----------
    rank
        This process's number: 0, 1, …, in the order of the table's rows.
    world
        The number of processes; the same in all.
    address
        `"host:port"` where rank 0 listens and the others find it. They listen at ports that their systems choose.
    secret
        A text that all processes know and nobody else, as `openssl rand -hex 16` makes one.
    timeout
        Seconds that another process is waited for: to come, and at each step of a fit. Default 300. One that ends is
        noticed at once, and is an error in all others that names its rank.
    job
        A name that tells this job from others that might meet at the same address; the same in all processes.

    Examples
    --------
    Two processes on this machine, here two threads:

    >>> import polars as pl, polars_taiga as tg
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> whole = pl.DataFrame({"x": range(100)}).with_columns(y=pl.col("x") % 7)
    >>> def fit(rank: int) -> tg.Model:
    ...     us = tg.Collective(rank=rank, world=2, address="127.0.0.1:29517", secret="a cedar", timeout=30)
    ...     return whole[50 * rank : 50 * rank + 50].taiga.fit_gbdt("y", "x", rounds=5, collective=us)
    >>> with ThreadPoolExecutor(2) as threads:
    ...     models = list(threads.map(fit, range(2)))
    >>> models[0].to_bytes() == models[1].to_bytes() == whole.taiga.fit_gbdt("y", "x", rounds=5).to_bytes()
    True
    """

    rank: int
    world: int
    address: str
    secret: str = field(repr=False)
    timeout: float = 300.0
    job: str = ""

    def __post_init__(self) -> None:
        """Check what was given, and make numbers of NumPy Python's.

        Raises
        ------
        TypeError, ValueError
            Naming the parameter that is wrong.
        """
        for name in ("rank", "world"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        for name in ("address", "secret", "job"):
            _check_text(name, getattr(self, name))
        object.__setattr__(self, "timeout", _seconds(self.timeout))
        problem = _taiga.collective_problem(self.rank, self.world, self.address, self.secret, self.timeout)
        if problem is not None:
            raise ValueError(problem)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Collective:
        """Read who this process is from the variables that what has started it has set.

        | | first of | or of `torchrun` | or of Slurm |
        |---|---|---|---|
        | `rank` | `TAIGA_RANK` | `RANK` | `SLURM_PROCID` |
        | `world` | `TAIGA_WORLD` | `WORLD_SIZE` | `SLURM_NTASKS` |
        | `address` | `TAIGA_ADDRESS` | `MASTER_ADDR` and `MASTER_PORT` | – |
        | `secret` | `TAIGA_SECRET` | – | – |
        | `timeout` | `TAIGA_TIMEOUT` | – | – |
        | `job` | `TAIGA_JOB` | `TORCHELASTIC_RUN_ID` | `SLURM_JOB_ID` |

        Where `torchrun` itself listens at `MASTER_PORT` (`TORCHELASTIC_USE_AGENT_STORE`), rank 0 listens at the next
        port.

        Parameters
        ----------
        environ
            The variables; those of this process by default.

        Returns
        -------
        Collective
            With what they say.

        Raises
        ------
        ValueError
            Naming the variable that is missing or says something else than it should. `rank`, `world` and the port are
            whole numbers.

        Examples
        --------
        >>> import polars_taiga as tg
        >>> variables = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
        >>> tg.Collective.from_env({**variables, "TAIGA_SECRET": "a cedar"})
        Collective(rank=1, world=4, address='10.0.0.1:29500', timeout=300.0, job='')
        """
        given = os.environ if environ is None else environ

        def first(what: str, names: tuple[str, ...], default: str | None = None) -> tuple[str, str]:
            for name in names:
                if name in given:
                    return name, given[name]
            if default is not None:
                return "", default
            msg = f"parameter `collective`: no variable says this process's {what}: set {' or '.join(names)}"
            raise ValueError(msg)

        def whole(named: tuple[str, str]) -> int:
            # `int` reads more than that, as "1_0".
            if re.fullmatch(r"\s*[+-]?[0-9]{1,40}\s*", named[1]) is None:
                msg = f"parameter `collective`: {named[0]} is {named[1]!r}, not a whole number"
                raise ValueError(msg)
            return int(named[1])

        def number(named: tuple[str, str]) -> float:
            try:
                return float(named[1])
            except ValueError:
                msg = f"parameter `collective`: {named[0]} is {named[1]!r}, not a number"
                raise ValueError(msg) from None

        def where() -> tuple[str, str]:
            if "TAIGA_ADDRESS" in given:
                return "TAIGA_ADDRESS", given["TAIGA_ADDRESS"]
            _, host = first("address", ("TAIGA_ADDRESS", "MASTER_ADDR"))
            port = whole(first("port", ("MASTER_PORT",)))
            taken = given.get("TORCHELASTIC_USE_AGENT_STORE", "").lower() == "true"
            return "MASTER_ADDR and MASTER_PORT", f"{host}:{port + taken}"

        said = {
            "address": where(),
            "rank": first("rank", ("TAIGA_RANK", "RANK", "SLURM_PROCID")),
            "world": first("number of processes", ("TAIGA_WORLD", "WORLD_SIZE", "SLURM_NTASKS")),
            "secret": first("secret", ("TAIGA_SECRET",)),
            "timeout": first("time-out", ("TAIGA_TIMEOUT",), "300"),
            "job": first("job", ("TAIGA_JOB", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"), ""),
        }
        try:
            return cls(
                rank=whole(said["rank"]),
                world=whole(said["world"]),
                address=said["address"][1],
                secret=said["secret"][1],
                timeout=number(said["timeout"]),
                job=said["job"][1],
            )
        except ValueError as error:
            about = re.match(r"parameter `(\w+)`", text := str(error))
            if about is None or about[1] not in said:
                raise
            msg = f"{text} (from {said[about[1]][0]})"
            raise ValueError(msg) from None

    def _kwargs(self) -> dict[str, object]:
        """What the plugin reads."""
        return {
            "rank": self.rank,
            "world": self.world,
            "address": self.address,
            "secret": self.secret,
            "job": self.job,
            "timeout": self.timeout,
            # Tells the expression from others: it is run once.
            "fit": secrets.randbits(63),
        }

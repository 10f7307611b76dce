"""Processes that make one fit together, each with its part of the rows."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from polars_taiga import _taiga

__all__ = ["Collective"]


@dataclass(frozen=True, kw_only=True)
class Collective:
    """Says who this process is among several that make a fit together, each with its part of the rows.

    All run the same program: `fit_gbdt(..., collective=)`, `fit_forest` or `fit_sparse_lr`, with the same parameters,
    each on its rows. The table is that of all rows, those of rank 0 first, and each process gets the model of all of
    it: the bytes of one fit of the concatenated tables, whatever the number of processes and however rows are dealt to
    them; some may have none. A fit connects the processes (TCP) and disconnects them; fits are made one after the
    other, and the expression of one is run once. What each sends is in docs/distributed.md.

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
        """Check what was given.

        Raises
        ------
        TypeError, ValueError
            Naming the parameter that is wrong.
        """
        for name, of in (("rank", int), ("world", int), ("address", str), ("secret", str), ("job", str)):
            value = getattr(self, name)
            if not isinstance(value, of) or isinstance(value, bool):
                msg = f"parameter `{name}`: {type(value).__name__} is not {of.__name__}"
                raise TypeError(msg)
        if isinstance(self.timeout, bool) or not isinstance(self.timeout, int | float):
            msg = f"parameter `timeout`: {type(self.timeout).__name__} is no number of seconds"
            raise TypeError(msg)
        for name in ("rank", "world"):
            if getattr(self, name) < 0:
                msg = f"parameter `{name}`: {getattr(self, name)} is negative"
                raise ValueError(msg)
        # As what the plugin has of it, -1 and NaN are 0.
        if not 0.001 <= self.timeout <= 1e7:
            msg = f"parameter `timeout`: {self.timeout} is not a number of seconds from 0.001 to 10,000,000"
            raise ValueError(msg)
        problem = _taiga.collective_problem(self.rank, self.world, self.address, self.secret, float(self.timeout))
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
            Naming the variable that is missing or says something else than it should.

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

        def number(named: tuple[str, str]) -> float:
            try:
                return float(named[1])
            except ValueError:
                msg = f"parameter `collective`: {named[0]} is {named[1]!r}, not a number"
                raise ValueError(msg) from None

        address = given.get("TAIGA_ADDRESS")
        if address is None:
            _, host = first("address", ("TAIGA_ADDRESS", "MASTER_ADDR"))
            port = number(first("port", ("MASTER_PORT",)))
            taken = given.get("TORCHELASTIC_USE_AGENT_STORE", "").lower() == "true"
            address = f"{host}:{int(port) + taken}"
        return cls(
            rank=int(number(first("rank", ("TAIGA_RANK", "RANK", "SLURM_PROCID")))),
            world=int(number(first("number of processes", ("TAIGA_WORLD", "WORLD_SIZE", "SLURM_NTASKS")))),
            address=address,
            secret=first("secret", ("TAIGA_SECRET",))[1],
            timeout=number(first("time-out", ("TAIGA_TIMEOUT",), "300")),
            job=first("job", ("TAIGA_JOB", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"), "")[1],
        )

    def _kwargs(self) -> dict[str, object]:
        """What the plugin reads."""
        return {
            "rank": self.rank,
            "world": self.world,
            "address": self.address,
            "secret": self.secret,
            "job": self.job,
            "timeout": float(self.timeout),
            # Tells the expression from others: it is run once.
            "fit": secrets.randbits(63),
        }

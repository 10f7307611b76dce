"""One process of a fit in several: `python -m tests.collective_worker`, with what it is to do as JSON on its input.

It reads its rows of a table, makes the fits that it is told one after the other, and writes their models, or the error
that ends them, beside the table; on its output a line tells when each begins.
"""

from __future__ import annotations

import base64
import json
import socket
import sys
from pathlib import Path
from typing import Any

import polars as pl
import polars_taiga as tg


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def fitted(rows: pl.DataFrame, fit: dict[str, Any], us: tg.Collective | None) -> tg.Model:
    """The model of some rows; `fit` has the roles and parameters, features by their names, and the function."""
    params = dict(fit)
    function = getattr(rows.taiga, params.pop("function", "fit_gbdt"))
    target, features = params.pop("target"), params.pop("features")
    model = function(target, *features, collective=us, **params)
    assert model is not None
    return model


def main() -> None:
    """Do what the input says."""
    told = json.loads(sys.stdin.read())
    first, end = told["rows"]
    rows = pl.read_ipc(told["table"])[first:end]
    us = tg.Collective.from_env() if told.get("from_env") else tg.Collective(**told["collective"])
    out: list[dict[str, str]] = []
    for fit in told["fits"]:
        print("begins", flush=True)
        try:
            model = fitted(rows, fit, us)
            out.append({"model": base64.b64encode(model.to_bytes()).decode()})
        except KeyboardInterrupt:
            out.append({"error": "KeyboardInterrupt"})
            break
        except Exception as error:
            out.append({"error": f"{type(error).__name__}: {error}"})
            break
    Path(told["out"]).write_text(json.dumps(out))


if __name__ == "__main__":
    main()

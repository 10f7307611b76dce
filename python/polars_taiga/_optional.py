"""Packages that some functions need and most people do without."""

from __future__ import annotations

import importlib
from typing import Any


def needed(function: str, module: str, extra: str) -> Any:
    """Import a module of an extra of this package (without its types), or raise an ImportError that names the extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        msg = f"{function} needs the package {package}: pip install 'polars-taiga[{extra}]' ({error})"
        raise ImportError(msg) from None

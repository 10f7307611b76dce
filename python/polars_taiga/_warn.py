"""Warnings that the plugin gives while a query runs."""

from __future__ import annotations

import sys
import threading
import warnings
from types import FrameType

_OURS = {"polars", "polars_taiga"}


class TargetWarning(UserWarning):
    """A target that is probably not what the fit takes it for."""


def package(frame: FrameType) -> str:
    """The package whose code a frame runs."""
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]


def _caller() -> FrameType | None:
    """Where the main thread has called Polars; the plugin's own threads have no Python frames."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and package(frame) in _OURS:
        frame = frame.f_back
    return frame


def warn(text: str) -> None:
    """Warn of a target, at the line that runs the query."""
    frame = _caller()
    if frame is None:
        warnings.warn(text, TargetWarning, stacklevel=1)
        return
    warnings.warn_explicit(
        text,
        TargetWarning,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__", "__main__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )

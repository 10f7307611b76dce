"""What becomes of Ctrl-C during a call of the plugin."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Literal

from polars_taiga._warn import package


def raises() -> bool:
    """Whether Ctrl-C raises `KeyboardInterrupt` in this program, which then has no handler of its own."""
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def verdict() -> Literal["return", "tell", "error"]:
    """How the query ends of which Ctrl-C has ended a call; asked by the plugin, from a thread of Polars.

    `"return"`: the query is the main thread's and the only one. Python looks for signals as soon as it returns, and
    raises `KeyboardInterrupt` before anybody sees its result. `"tell"`: it is another thread's, or the program has a
    handler of its own; Python is told, so that the main thread's handler runs, and the query fails. `"error"`: it
    fails, because a file would be written, or it can't be told whose it is.
    """
    frames = sys._current_frames()
    here, main = threading.get_ident(), threading.main_thread().ident
    frame = sys._getframe().f_back if here == main else frames.get(main or 0)
    if frame is None or package(frame) != "polars" or not raises():
        return "tell"
    if any(package(other) == "polars" for ident, other in frames.items() if ident not in (here, main)):
        return "error"
    while frame is not None and package(frame) == "polars":
        if frame.f_code.co_name.startswith(("sink_", "write_")):
            return "error"
        frame = frame.f_back
    return "return"

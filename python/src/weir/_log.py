"""libweir's log lines in Python's logging, as the logger "weir".

libweir's threads write lines into a pipe, which a thread of Python reads. No thread of libweir ever
calls Python: it would wait for the GIL, which a training loop may hold for long, and may run while
the interpreter ends. The pipe does not block: lines are lost if Python reads none of PIPE_BYTES.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any, Optional

from ._library import ffi

__all__ = ["pipe"]

log = logging.getLogger("weir")

PIPE_BYTES = 1 << 16  # what Linux holds of a pipe that nobody reads

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}


class _Pipe:
    """The write end, for libweir, and the thread at the other one."""

    def __init__(self) -> None:
        self.source, end = os.pipe()
        os.set_blocking(end, False)
        self.end: Any = ffi.new("int *", end)
        threading.Thread(target=_read, args=(self.source,), name="weir-log", daemon=True).start()


_pipe: Optional[_Pipe] = None
_lock = threading.Lock()


def pipe() -> Any:
    """The address of the descriptor to write to, for weir_log_to_fd. It lasts with the process."""
    global _pipe
    with _lock:
        if _pipe is None:
            _pipe = _Pipe()
        return _pipe.end


def _read(source: int) -> None:
    rest = b""
    while True:
        *lines, rest = (rest + os.read(source, PIPE_BYTES)).split(b"\n")
        for line in lines:
            level, _, text = line.decode("utf-8", "replace").partition(": ")
            log.log(LEVELS[level], "%s", text)


def _forget_in_child() -> None:
    """The lines and the thread belong to the parent."""
    global _pipe, _lock
    _lock = threading.Lock()
    if _pipe is not None:
        os.close(_pipe.source)
        os.close(_pipe.end[0])
        _pipe = None


os.register_at_fork(after_in_child=_forget_in_child)

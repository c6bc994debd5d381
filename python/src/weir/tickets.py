"""Operations in flight."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict, Optional

import numpy as np
from numpy.typing import NDArray

from . import errors
from ._handle import SLICE_MS, Handle
from ._library import error_of, lib, new_error

if TYPE_CHECKING:
    from .job import Job

__all__ = ["PullTicket", "PushTicket", "Ticket"]

Floats = NDArray[np.float32]


class Ticket:
    """An operation in flight. Waiting for it once is enough; not waiting is allowed.

    PushTicket and PullTicket have a wait() each.
    """

    _what = ""

    def __init__(self, job: "Job", handle: Handle, number: int) -> None:
        self._job = job  # keeps the job open
        self._handle = handle
        self._number = number
        self._done = False
        self._failure: Optional[errors.Error] = None

    def _settle(self, timeout: Optional[float]) -> None:
        if self._done and not self._failure:
            return
        deadline = None if timeout is None else time.monotonic() + timeout
        late: Optional[errors.Error] = None
        while not self._done:
            left_ms = (
                SLICE_MS
                if deadline is None
                else max(0, min(SLICE_MS, int((deadline - time.monotonic()) * 1000)))
            )
            err = new_error()
            with self._handle as client:
                status = lib.weir_wait(client, self._number, left_ms, err)
            if status == lib.WEIR_E_TIMEOUT:
                late = error_of(status, err)
                if deadline is not None and time.monotonic() >= deadline:
                    raise errors.TimedOutError(
                        f"a {self._what} is not complete after {timeout:g} s; it goes on"
                    )
                self._handle.look_after()
                continue
            # The operation itself had ended with a timeout: its ticket is forgotten.
            self._failure = (
                late
                if status == lib.WEIR_E_NOT_FOUND and late
                else error_of(status, err)
                if status
                else None
            )
            self._finish()
        if self._failure:
            raise self._failure

    def _finish(self) -> None:
        self._done = True
        self._handle.borrowed.pop(self._number, None)

    def done(self) -> bool:
        """Whether the operation has ended, well or not. Does not wait."""
        try:
            self._settle(0)
        except errors.TimedOutError:
            return self._done
        except errors.Error:
            return True
        return True

    def __del__(self) -> None:
        if not self._done:
            self._handle.dropped.append(self._number)


class PushTicket(Ticket):
    """A push in flight."""

    _what = "push"

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until the servers have acknowledged the push.

        Raises TimedOutError after `timeout` seconds (None: no limit); the push goes on.
        """
        self._settle(timeout)


class PullTicket(Ticket):
    """A pull in flight."""

    _what = "pull"

    def __init__(
        self, job: "Job", handle: Handle, number: int, values: "Dict[Any, Floats]"
    ) -> None:
        super().__init__(job, handle, number)
        self._values = values

    def wait(self, timeout: Optional[float] = None) -> "Dict[Any, Floats]":
        """The values, by the keys of the pull's mapping. Waits as PushTicket.wait."""
        self._settle(timeout)
        return self._values

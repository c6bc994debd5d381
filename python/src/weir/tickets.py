"""Operations in flight."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Dict, Optional

import numpy as np
from numpy.typing import NDArray

from . import errors
from ._handle import SLICE_MS, Handle
from ._library import error_of, lib, scratch

if TYPE_CHECKING:
    from .job import Job

__all__ = ["PullTicket", "PushTicket", "Ticket"]

Floats = NDArray[np.float32]


class Dropped(weakref.ref):  # type: ignore[type-arg]
    """Goes to the handle's list when its ticket is collected before it is done. No Python code runs
    then: a signal handler would run in it, and its exception, such as Ctrl-C's, would be lost.
    """

    __slots__ = ("key", "number")

    number: int
    key: int


class Ticket:
    """An operation in flight. Waiting for it once is enough; not waiting is allowed.

    PushTicket and PullTicket have a wait() each.
    """

    _what = ""

    __slots__ = (
        "__weakref__",
        "_done",
        "_failure",
        "_handle",
        "_job",
        "_key",
        "_late",
        "_number",
        "_turn",
        "_values",
    )

    def __init__(self, job: "Job", handle: Handle, number: int, key: int, values: Any) -> None:
        self._job = job  # keeps the job open
        self._handle = handle
        self._number = number
        self._key = key
        self._values = values
        self._turn = threading.Lock()  # one thread at a time asks for the ticket
        self._done = False
        self._failure: Optional[errors.Error] = None
        self._late: Optional[errors.Error] = None
        drop = Dropped(self, handle.dropped.append)
        drop.number, drop.key = number, key
        handle.tickets[key] = drop

    def _ask(self, client: Any, wait_ms: int) -> bool:
        """Whether the operation has ended. Waits for it a while. client: of a handle in use."""
        with self._turn:
            if self._done:
                return True
            err = scratch.err
            status = lib.weir_wait(client, self._number, wait_ms, err)
            if status == lib.WEIR_E_TIMEOUT:
                self._late = error_of(status, err)
                return False
            if status:
                self._failure = error_of(status, err)
                # Its ticket is forgotten: the operation itself had ended with a timeout.
                if self._late and status == lib.WEIR_E_NOT_FOUND:
                    self._failure = self._late
            self._done = True
            self._handle.borrowed.pop(self._key, None)
            self._handle.tickets.pop(self._key, None)
            return True

    def _settle(self, timeout: Optional[float]) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._done:
            wait_ms = SLICE_MS
            if deadline is not None:
                wait_ms = max(0, min(SLICE_MS, int((deadline - time.monotonic()) * 1000)))
            with self._handle as client:
                if self._ask(client, wait_ms):
                    break
            if deadline is not None and time.monotonic() >= deadline:
                raise errors.TimedOutError(
                    f"a {self._what} is not complete after {timeout:g} s; it goes on"
                )
            self._handle.look_after()
        if self._failure:
            raise self._failure

    def done(self) -> bool:
        """Whether the operation has ended, well or not. Does not wait."""
        try:
            self._settle(0)
        except errors.TimedOutError:
            return self._done
        except errors.Error:
            return True
        return True


class PushTicket(Ticket):
    """A push in flight."""

    __slots__ = ()
    _what = "push"

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until the servers have acknowledged the push.

        Raises TimedOutError after `timeout` seconds (None: no limit); the push goes on.
        """
        self._settle(timeout)


class PullTicket(Ticket):
    """A pull in flight."""

    __slots__ = ()
    _what = "pull"

    def wait(self, timeout: Optional[float] = None) -> "Dict[Any, Floats]":
        """The values, by the keys of the pull's mapping. Waits as PushTicket.wait."""
        self._settle(timeout)
        return self._values

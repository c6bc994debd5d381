"""A client of libweir with everything that it borrows.

The handle closes its client when the job is closed, collected, or the process exits. A call and a
close exclude each other. In a forked child the handle is dead: the threads and connections of the
client belong to the parent. The child gives up its copies of the connections, so that the servers
see when the parent is killed.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, Type

from . import errors
from ._library import check, lib, new_error

# A wait is cut into slices, so that Python handles Ctrl-C and a close between two of them.
SLICE_MS = 100

_handles: "weakref.WeakSet[Handle]" = weakref.WeakSet()


class Handle:
    """Use it as ``with handle as client``."""

    def __init__(self, client: Any) -> None:
        self._begin()
        self.client: Optional[Any] = client
        self.why = "the job was closed"
        self.kind: Type[errors.Error] = errors.ClosedError  # of calls after the end
        self.users = 0
        self.look_after: Callable[[], None] = lambda: None  # raises if the servers have ended
        # What operations in flight read and write. A call adds it before it begins, so that an
        # exception by Ctrl-C frees nothing.
        self.borrowed: Dict[int, Any] = {}
        self.dropped: List[Tuple[int, int]] = []  # (ticket, key of borrowed) nobody waits for
        self.scanners: Set[Any] = set()  # they end before the client
        _handles.add(self)

    def _begin(self) -> None:
        self.lock = threading.Lock()
        self.idle = threading.Condition(self.lock)  # its last user has left a closed handle

    def __enter__(self) -> Any:
        with self.lock:
            if self.client is None:
                raise self.kind(f"{self.why}; connect again")
            self.users += 1
            return self.client

    def __exit__(self, *exc: object) -> None:
        with self.lock:
            self.users -= 1
            if self.client is None and not self.users:
                self.idle.notify_all()

    def take(self, why: str) -> Optional[Any]:
        """The client for its last call, once no other thread uses it. None: it is closed."""
        with self.idle:
            client, self.client = self.client, None
            if client is not None:
                self.why = why
            while self.users:
                self.idle.wait()
            while client is not None and self.scanners:
                lib.weir_scan_close(self.scanners.pop())
            return client

    def end_scan(self, scanner: Any) -> None:
        """Closes a scanner, unless the handle has."""
        with self.idle:
            if scanner in self.scanners:
                self.scanners.remove(scanner)
                lib.weir_scan_close(scanner)

    def close(self, quietly: bool = False) -> None:
        """Waits for operations in flight and leaves the job."""
        client = self.take("the job was closed")
        if client is None:
            return
        try:
            self.look_after()
        except errors.Error:
            lib.weir_abandon(client)
            self.borrowed.clear()
            if quietly:
                return
            raise
        err = new_error()
        status = lib.weir_close(client, err)
        self.borrowed.clear()
        if not quietly:
            check(status, err)

    def abandon(self, kind: Type[errors.Error] = errors.ClosedError) -> None:
        """Frees the client without a word to the job. kind: what later calls raise."""
        client = self.take("the job has gone back to a checkpoint, its next generation")
        if client is not None:
            self.kind = kind
            lib.weir_abandon(client)
            self.borrowed.clear()

    def reap(self) -> None:
        """Returns what finished operations have borrowed that nobody waits for."""
        waiting, self.dropped = self.dropped, []
        with self as client:
            for ticket, key in waiting:
                if lib.weir_wait(client, ticket, 0, new_error()) == lib.WEIR_E_TIMEOUT:
                    self.dropped.append((ticket, key))
                else:
                    self.borrowed.pop(key, None)


def _forget_in_child() -> None:
    for handle in list(_handles):
        handle._begin()
        handle.users = 0
        client, handle.client = handle.client, None
        if client is not None:
            lib.weir_forked(client)
        handle.scanners.clear()
        handle.why = (
            f"the job was connected in process {os.getppid()}, and this process is a fork of it"
        )


os.register_at_fork(after_in_child=_forget_in_child)

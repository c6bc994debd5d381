"""Servers on this machine, as children of this process.

`weir up --foreground` starts the servers, and etcd if there are replicas, and restarts those that
die. It ends them when its end of a pipe closes: at `Servers.stop`, and when this process ends,
however it ends.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
import weakref
from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Type

from . import errors
from ._library import program
from ._program import run_program
from ._progress import Progress
from .connection import connect
from .job import Job

__all__ = ["Servers", "local"]

TICK_S = 0.2  # between two looks at the clock of a progress bar
STOP_S = 30.0  # servers drain for at most 10 s; etcd ends after them
_pipes: "weakref.WeakSet[_Children]" = weakref.WeakSet()


class _Children:
    """A running `weir up` and the write end of its pipe."""

    def __init__(self, job_file: str, log_file: str, arguments: List[str]) -> None:
        self.owner = os.getpid()
        self.log_file = log_file
        watched, self.alive = os.pipe()
        try:
            with open(log_file, "ab") as log:
                self.process = subprocess.Popen(
                    [
                        program("weir"),
                        "up",
                        job_file,
                        "--foreground",
                        "--watch-fd",
                        str(watched),
                        *arguments,
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    pass_fds=[watched],
                    start_new_session=True,  # Ctrl-C reaches this process alone
                )
        except OSError:
            os.close(self.alive)
            raise
        finally:
            os.close(watched)
        _pipes.add(self)

    def forget(self) -> None:
        """In a forked child: gives up the copy of the pipe."""
        if self.alive >= 0:
            os.close(self.alive)
            self.alive = -1

    def check(self) -> None:
        """Raises LostError if the servers have ended."""
        if self.owner == os.getpid() and self.process.poll() is not None:
            raise errors.LostError(f"the servers have ended: {self.last_words()}")

    def stop(self) -> None:
        if self.owner != os.getpid():
            return
        self.forget()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()

    def last_words(self) -> str:
        with open(self.log_file, encoding="utf-8", errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
        return lines[-1] if lines else "it said nothing"

    def address(self, timeout: float, progress: Optional[Progress]) -> str:
        """The ledger's address, once the servers answer: the last line that `weir up` prints."""
        assert self.process.stdout
        deadline, text = time.monotonic() + timeout, b""
        fd = self.process.stdout.fileno()
        while b"\n" not in text:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([fd], [], [], max(0.0, min(left, TICK_S)))
            if not ready and left > TICK_S:
                if progress:
                    progress.waits()
                continue
            if not ready:
                raise errors.TimedOutError(
                    f"the servers did not answer within {timeout:g} s: {self.last_words()}"
                )
            got = os.read(fd, 4096)
            if not got:
                raise errors.Error(f"the servers did not start: {self.last_words()}")
            text += got
        return text.splitlines()[-1].decode()


def _in_child() -> None:
    for children in list(_pipes):
        children.forget()


os.register_at_fork(after_in_child=_in_child)


def _end(children: _Children, temporary: Optional[str]) -> None:
    children.stop()
    if temporary and children.owner == os.getpid():
        shutil.rmtree(temporary, ignore_errors=True)


class Servers:
    """Servers that `local` started. Stop them, or use ``with``.

    ledger: their address. folder: their logs, checkpoints and sockets.
    """

    def __init__(
        self, folder: str, temporary: bool, job_file: str, timeout: float, progress: bool
    ) -> None:
        self.folder = folder
        self._temporary = folder if temporary else None
        self._job_file = job_file
        self._timeout = timeout
        self._progress = progress
        self._running: List[_Children] = []  # one; jobs look at it, and restore replaces it
        self._jobs: "weakref.WeakSet[Job]" = weakref.WeakSet()
        self._start([])

    def _start(self, arguments: List[str]) -> None:
        children = _Children(self._job_file, os.path.join(self.folder, "servers.log"), arguments)
        self._running[:] = [children]
        self._finalizer = weakref.finalize(self, _end, children, self._temporary)
        progress = Progress("servers start") if self._progress else None
        try:
            self.ledger = children.address(self._timeout, progress)
        except BaseException:
            self.stop()
            raise
        finally:
            if progress:
                progress.close()

    def __repr__(self) -> str:
        return f"<weir.Servers {self.ledger}>"

    def __enter__(self) -> "Servers":
        return self

    def __exit__(
        self,
        cls: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.stop()

    def connect(self, **options: Any) -> Job:
        """Connects to these servers. options: those of `weir.connect`."""
        job = connect(self.ledger, **options)
        running = self._running
        job._handle.look_after = lambda: running[0].check()
        self._jobs.add(job)
        return job

    def stop(self) -> None:
        """Ends the servers, and deletes their folder if `local` made it."""
        self._finalizer()

    def restore(self, checkpoint: str = "latest") -> None:
        """Goes back to a checkpoint: restarts the servers as the job's next generation.

        Open connections end: their next call raises GenerationError, which `Job.units` handles, and
        `Job.reopen` connects them to the next generation. checkpoint: its name, or "latest".
        """
        for job in list(self._jobs):
            job._handle.abandon(errors.GenerationError)
        self._finalizer.detach()
        self._running[0].stop()
        run_program("restore", self._job_file, "--from", checkpoint)
        self._start(["--resume"])


def _merge(into: Dict[str, Any], settings: Mapping[str, Any]) -> None:
    for key, value in settings.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def local(
    *,
    servers: int = 1,
    workers: int = 1,
    passes: int = 0,
    replicas: int = 1,
    partitions: Optional[int] = None,
    name: str = "local",
    folder: Optional[str] = None,
    settings: Optional[Mapping[str, Any]] = None,
    timeout: float = 30.0,
    progress: bool = False,
) -> Servers:
    """Starts servers on this machine, which end with this process.

    workers: trainers that will connect. passes: trips over the data; 0: the first trainer says.
    replicas: copies of each partition; with 2 or 3 an etcd is started, too (Debian's etcd-server).
    folder: for logs, checkpoints and sockets; None: a temporary one, deleted at the end.
    settings: other keys of a job file, such as ``{"cluster": {"log": "disk"}}``.
    timeout: seconds until the servers answer.
    progress: shows that it waits, by tqdm if that is installed.
    """
    temporary = folder is None
    place = tempfile.mkdtemp(prefix="weir-") if folder is None else os.path.abspath(folder)
    os.makedirs(place, exist_ok=True)
    job: Dict[str, Any] = {
        "job": name,
        "run_dir": os.path.join(place, "run"),
        "cluster": {"servers": servers, "workers": workers, "replicas": replicas},
    }
    if passes:
        job["train"] = {"passes": passes}
    if partitions is not None:
        job["cluster"]["partitions"] = partitions
    _merge(job, settings or {})
    job_file = os.path.join(place, "job.yaml")
    with open(job_file, "w", encoding="utf-8") as out:
        json.dump(job, out, indent=2)  # JSON is YAML
    return Servers(place, temporary, job_file, timeout, progress)

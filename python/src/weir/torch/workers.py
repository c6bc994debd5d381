"""Processes that read a dataset's rows ahead.

Each one is a fork of the trainer. It reads rows and does nothing else: it has no connection to the
job (weir._handle). It ends when its pipe closes.

A task is a small tuple, so sending one never waits. A result travels as a pickle, followed by the
memory of its arrays and tensors.
"""

from __future__ import annotations

import gc
import io
import os
import pickle
import signal
import time
import traceback
import warnings
import weakref
from multiprocessing.connection import Connection, Pipe
from typing import Any, Callable, Dict, List, NoReturn, Optional, Set, Tuple

import numpy as np
import torch

from .. import errors

__all__ = ["Workers"]

STOP_S = 5.0
POLL_S = 0.005

Task = Tuple[Any, ...]
Read = Callable[[Task], Any]


class _Pickler(pickle.Pickler):
    """Moves the memory of tensors as it moves that of arrays: apart from the pickle."""

    def reducer_override(self, obj: Any) -> Any:
        plain = isinstance(obj, torch.Tensor) and type(obj) is torch.Tensor
        if plain and obj.layout == torch.strided and obj.dtype != torch.bfloat16:
            return torch.from_numpy, (obj.detach().contiguous().numpy(),)
        return NotImplemented


def _send(to: "Connection[Any, Any]", x: Any) -> None:
    buffers: List[pickle.PickleBuffer] = []
    text = io.BytesIO()
    _Pickler(text, 5, buffer_callback=buffers.append).dump(x)
    raw = [b.raw() for b in buffers]
    to.send_bytes(pickle.dumps((text.getvalue(), [b.nbytes for b in raw])))
    for b in raw:
        if b.nbytes:
            to.send_bytes(b)


def _receive(source: "Connection[Any, Any]") -> Any:
    text, sizes = pickle.loads(source.recv_bytes())
    buffers = [np.empty(n, np.uint8) for n in sizes]
    for b in buffers:
        if b.size:
            source.recv_bytes_into(b)
    return pickle.loads(text, buffers=buffers)


def _serve(read: Read, tasks: "Connection[Any, Any]", results: "Connection[Any, Any]") -> None:
    while True:
        try:
            task = tasks.recv()
        except EOFError:
            return
        try:
            answer = (True, read(task))
        except Exception as e:
            answer = (False, f"{type(e).__name__}: {e}\n{traceback.format_exc()}")
        try:
            _send(results, answer)
        except BrokenPipeError:
            return


class _Worker:
    def __init__(self, read: Read, others: "List[_Worker]") -> None:
        theirs, self.tasks = Pipe(duplex=False)
        self.results, answers = Pipe(duplex=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads: see above
            self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                gc.disable()
                for end in [self.tasks, self.results]:
                    end.close()
                for other in others:
                    other.tasks.close()
                    other.results.close()
                torch.set_num_threads(1)  # threads of OpenMP do not survive a fork
                _serve(read, theirs, answers)
                code = 0
            finally:
                os._exit(code)
        theirs.close()
        answers.close()
        self.waiting: List[Task] = []  # tasks without a result, in order


def _stop(workers: List[_Worker], owner: int) -> None:
    if os.getpid() != owner:
        return
    for w in workers:
        w.tasks.close()
        w.results.close()
    deadline = time.monotonic() + STOP_S
    for w in workers:
        try:
            while not os.waitpid(w.pid, os.WNOHANG)[0]:
                if time.monotonic() > deadline:
                    os.kill(w.pid, signal.SIGKILL)
                time.sleep(POLL_S)
        except ChildProcessError:
            continue  # the program waits for all of its children
    workers.clear()


class Workers:
    """`count` processes that answer tasks by `read`. 0: this process reads.

    No two tasks are equal.
    """

    def __init__(self, count: int, read: Read) -> None:
        self._read = read
        self._workers: List[_Worker] = []
        self._results: Dict[Task, Any] = {}
        self._dropped: Set[Task] = set()
        self._finalizer = weakref.finalize(self, _stop, self._workers, os.getpid())
        for _ in range(count):
            self._workers.append(_Worker(read, self._workers))

    def stop(self) -> None:
        """Ends the processes."""
        self._finalizer()

    def begin(self, task: Task) -> None:
        """Hands a task to the least busy process."""
        if self._workers:
            w = min(self._workers, key=lambda w: len(w.waiting))
            try:
                w.tasks.send(task)
            except OSError:
                self._died(w)
            w.waiting.append(task)

    def drop(self, task: Task) -> None:
        """Nobody will ask for the result."""
        if self._results.pop(task, None) is None and self._workers:
            self._dropped.add(task)

    def ready(self, task: Task) -> bool:
        """Whether `result` need not wait. Does not wait."""
        w = self._holder(task)
        while w is not None and task not in self._results and w.results.poll():
            self._take(w)
        return not self._workers or task in self._results

    def result(self, task: Task) -> Any:
        """The result of a task, once. Raises Error with the process's own traceback."""
        if not self._workers:
            return self._read(task)
        while task not in self._results:
            w = self._holder(task)
            assert w is not None, "the task was begun"
            self._take(w)
        good, answer = self._results.pop(task)
        if not good:
            raise errors.Error(f"the dataset cannot be read: {answer}")
        return answer

    def _holder(self, task: Task) -> Optional[_Worker]:
        return next((w for w in self._workers if task in w.waiting), None)

    def _take(self, w: _Worker) -> None:
        try:
            answer = _receive(w.results)
        except (EOFError, OSError):
            self._died(w)
        task = w.waiting.pop(0)
        if task in self._dropped:
            self._dropped.remove(task)
        else:
            self._results[task] = answer

    def _died(self, w: _Worker) -> NoReturn:
        raise errors.Error(
            f"the process {w.pid} that reads the dataset has ended; the system's log says why "
            "if it was killed (memory)"
        )

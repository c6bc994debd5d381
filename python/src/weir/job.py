"""A connection to a job: tables, pulls, pushes, work units."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import socket
import subprocess
import time
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Type, Union

import numpy as np
from numpy.typing import NDArray

from . import errors
from ._arrays import array_of, floats_of, keys_of, output
from ._handle import SLICE_MS, Handle
from ._library import check, error_of, ffi, lib, new_error, program, text_of
from .tables import TableSpec, make_spec, read_spec

__all__ = ["Batch", "Clock", "Evaluation", "Job", "PullTicket", "PushTicket", "Security", "Stats", "Table", "Unit", "connect"]

log = logging.getLogger("weir")

ROLES = {"trainer": 0, "evaluator": 1, "observer": 2}
Floats = NDArray[np.float32]


class Security(NamedTuple):
    """Paths of PEM files for mutual TLS: give all three. `job` is the job that certificates name."""

    certificate: str
    key: str
    ca: str
    job: str = ""


class Clock(NamedTuple):
    """A table in one partition: pushes (or closed steps) that brought it rows, and its last rate."""

    steps: int
    lr: float


class Stats(NamedTuple):
    """What this client has done. Bytes are those of frames on the wire."""

    bytes_pushed: int
    bytes_pulled: int
    parts_pushed: int
    duplicates: int
    pushes_in_flight: int
    pulls_in_flight: int
    batches_dropped: int
    reads_returned: int
    residual_norm: float


class _Ticket:
    """An operation in flight. Waiting for it once is enough; not waiting is allowed."""

    def __init__(self, job: "Job", handle: Handle, number: int) -> None:
        self._job = job  # keeps the job open
        self._handle = handle
        self._number = number
        self._done = False
        self._failure: Optional[errors.Error] = None

    def _settle(self, timeout: Optional[float]) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        late: Optional[errors.Error] = None
        while not self._done:
            left_ms = SLICE_MS if deadline is None else max(0, min(SLICE_MS, int((deadline - time.monotonic()) * 1000)))
            err = new_error()
            with self._handle as client:
                status = lib.weir_wait(client, self._number, left_ms, err)
            if status == lib.WEIR_E_TIMEOUT:
                late = error_of(status, err)
                if deadline is not None and time.monotonic() >= deadline:
                    raise late
                continue
            # The operation itself had ended with a timeout: its ticket is forgotten.
            self._failure = late if status == lib.WEIR_E_NOT_FOUND and late else error_of(status, err) if status else None
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


class PushTicket(_Ticket):
    """A push in flight."""

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until the servers have acknowledged the push.

        Raises TimedOutError after `timeout` seconds (None: no limit); the push goes on.
        """
        self._settle(timeout)


class PullTicket(_Ticket):
    """A pull in flight."""

    def __init__(self, job: "Job", handle: Handle, number: int, values: "Dict[Any, Floats]") -> None:
        super().__init__(job, handle, number)
        self._values = values

    def wait(self, timeout: Optional[float] = None) -> "Dict[Any, Floats]":
        """The values, by the keys of the pull's mapping. Waits as PushTicket.wait."""
        self._settle(timeout)
        return self._values


class Table:
    """A table of a job. `Job.table` and `Job.find` make them."""

    def __init__(self, job: "Job", number: int, width: int, elements: int, spec: TableSpec, make: Callable[["Job"], int]) -> None:
        self.job = job
        self.id = number
        self.name = spec.name
        self.width = width  #: embedding tables: elements of a row; dense tables: 0
        self.elements = elements  #: dense tables: all elements; embedding tables: 0
        self.spec = spec
        self._make = make

    def __repr__(self) -> str:
        shape = f"elements={self.elements}" if self.elements else f"width={self.width}"
        return f"<weir.Table {self.name} {shape}>"

    def pull(self, keys: Any = None, *, batch: "Optional[Batch]" = None, out: Any = None) -> Floats:
        """Values of the table.

        keys: embedding tables: integers of any shape. Dense tables: None for the whole table, or
        rising numbers of chunks.
        batch: the batch that will use the values; None reads the present state.
        out: float32 memory of the result's shape, to write into.

        Returns float32: keys.shape + (width,), or (elements,) of a dense table, where only named
        chunks are written.
        """
        outs = None if out is None else {self: out}
        return self.job.pull({self: keys}, batch=batch, out=outs)[self]

    def assign(self, keys: Any, values: Any) -> None:
        """Sets rows, in a job that does not train. Dense tables: keys None, (elements,) values."""
        k, v, _ = self._rows(keys, values, "assign")
        err = new_error()
        with self.job._handle as client:
            keys_at = ffi.NULL if k is None else ffi.from_buffer("uint64_t[]", k)
            check(lib.weir_assign(client, self.id, keys_at, 0 if k is None else k.size, ffi.from_buffer("float[]", v), err), err)

    def clocks(self) -> List[Clock]:
        """The table's clock in each partition."""
        with self.job._handle as client:
            clocks = ffi.new("weir_table_clock[]", lib.weir_partitions(client))
            err = new_error()
            check(lib.weir_clocks(client, self.id, clocks, err), err)
        return [Clock(int(c.steps), float(c.lr)) for c in clocks]

    def _rows(self, keys: Any, values: Any, verb: str) -> "Tuple[Optional[NDArray[np.uint64]], Floats, Tuple[int, ...]]":
        what = f"{verb} of table {self.name}: values"
        if self.elements:
            chunks = None if keys is None else keys_of(keys, f"{verb} of table {self.name}: chunks")
            return chunks, floats_of(values, (self.elements,), what), (self.elements,)
        if keys is None:
            raise errors.InvalidError(f"{verb} of table {self.name}: an embedding table needs keys")
        raw = array_of(keys, f"{verb} of table {self.name}: keys")
        shape = raw.shape + (self.width,)
        return keys_of(raw, f"{verb} of table {self.name}: keys"), floats_of(values, shape, what), shape


class Batch:
    """A batch of a leased unit. `Unit.batches` makes them."""

    def __init__(self, unit: "Unit", index: int) -> None:
        self.unit = unit
        self.index = index
        self._c = ffi.new("weir_batch *", {"pass": unit.pass_, "unit": unit.number, "batch": index, "attempt": unit.attempt})

    def __repr__(self) -> str:
        return f"<weir.Batch pass {self.unit.pass_} unit {self.unit.number} batch {self.index}>"

    def pull(self, wanted: Mapping[Any, Any], *, out: Optional[Mapping[Any, Any]] = None) -> "Dict[Any, Floats]":
        """As Job.pull, for this batch."""
        return self.unit.job.pull(wanted, batch=self, out=out)

    def push(self, gradients: Mapping[Any, Any], **options: Any) -> PushTicket:
        """As Job.push, for this batch."""
        return self.unit.job.push(self, gradients, **options)

    def leave_out(self) -> None:
        """Completes the batch without a push."""
        err = new_error()
        with self.unit.job._handle as client:
            check(lib.weir_leave_out(client, self._c, err), err)

    def push_residuals(self) -> None:
        """Pushes in full the gradients that error feedback has kept back, as the batch's push."""
        err = new_error()
        with self.unit.job._handle as client:
            check(lib.weir_push_residuals(client, self._c, err), err)


class Unit:
    """A leased work unit: some batches of one pass.

    Use it as a context manager. Leaving the block commits the unit. If the job takes this worker
    for dead, or goes back to a checkpoint, the block ends early without an exception, and
    `Job.units` goes on with another unit. Any other exception gives the unit back, and the job
    reports it; Ctrl-C gives nothing back: the lease ends with the connection.

    pass_, number, attempt identify the unit. data_unit is its index in the dataset. watermark is
    the first batch to execute. place is the unit's position in the pass: let the order of rows be a
    function of (pass_, place). end: begin at most this many batches (0: no limit). local_steps:
    batches of a round (0: no local steps). content: hash of the examples as first reported.
    """

    def __init__(self, job: "Job", handle: Handle, c: Any) -> None:
        self.job = job
        self._handle = handle
        self._c = c
        self.pass_ = int(getattr(c, "pass"))
        self.number = int(c.unit)
        self.attempt = int(c.attempt)
        self.data_unit = int(c.data_unit)
        self.watermark = int(c.watermark)
        self.place = int(c.place)
        self.end = int(c.end)
        self.local_steps = int(c.local_steps)
        self.content = int(c.content)
        self.over = False  #: committed, failed, or lost to another worker
        self._tickets: List["weakref.ref[PushTicket]"] = []

    def __repr__(self) -> str:
        return f"<weir.Unit pass {self.pass_} unit {self.number} attempt {self.attempt}>"

    def batches(self, count: int) -> Iterator[Batch]:
        """The batches that are left of `count`, or of the unit's part of them."""
        count = min(count, self.end) if self.end else count
        err = new_error()
        with self._handle as client:
            check(lib.weir_unit_begin(client, self._c, count, err), err)
        for index in range(self.watermark, count):
            yield Batch(self, index)

    def declare_content(self, content: int) -> None:
        """Declares a hash of the unit's examples, never 0, before its first push.

        Raises InvalidError if an earlier attempt or pass had other examples.
        """
        err = new_error()
        with self._handle as client:
            check(lib.weir_unit_content(client, self._c, content, err), err)

    def commit(self) -> None:
        """Waits until all pushes of the unit are stable, then commits it."""
        for ref in self._tickets:
            ticket = ref()
            if ticket is not None:
                ticket.wait()
        err = new_error()
        with self._handle as client:
            status = lib.weir_unit_commit(client, self._c, err)
        check(status, err)
        self.over = True

    def fail(self, why: str) -> None:
        """Gives the unit back, for example because a file is broken. It counts as an attempt."""
        err = new_error()
        with self._handle as client:
            status = lib.weir_unit_fail(client, self._c, why.encode(), err)
        self.over = True
        check(status, err)

    def __enter__(self) -> "Unit":
        return self

    def __exit__(self, cls: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> bool:
        if self.over:
            return False
        if error is None:
            try:
                self.commit()
                return False
            except (errors.StaleError, errors.GenerationError) as lost:
                error = lost
        if isinstance(error, (errors.StaleError, errors.GenerationError)):
            self.over = True
            self.job._lost = error
            return True
        if isinstance(error, Exception) and not isinstance(error, (errors.LostError, errors.ClosedError)):
            try:
                self.fail(f"{type(error).__name__}: {error}")
            except errors.Error as e:
                log.warning("%r could not be given back: %s", self, e)
        self.over = True
        return False


class Evaluation:
    """A complete pass, for the evaluator to judge. `Job.evaluations` makes them."""

    def __init__(self, job: "Job", pass_: int, last: bool) -> None:
        self.job = job
        self.pass_ = pass_
        self.last = last  #: no pass follows

    def verdict(
        self, *, auc: float = float("nan"), logloss: float = float("nan"), not_numbers: int = 0, language: bool = False, stop: bool = False
    ) -> None:
        """Gives the verdict. The next pass opens unless `stop` is set."""
        verdict = ffi.new("weir_evaluation *")
        setattr(verdict, "pass", self.pass_)
        verdict.auc, verdict.logloss, verdict.not_numbers = auc, logloss, not_numbers
        verdict.language, verdict.stop = language, stop
        err = new_error()
        with self.job._handle as client:
            check(lib.weir_pass_evaluated(client, verdict, err), err)


class Job:
    """A connection to a job, as one worker. `connect` makes it; close it, or use ``with``.

    Several threads may use one job. In a forked child every call raises ClosedError.
    """

    def __init__(self, ledger: str, options: Any, keep: List[Any]) -> None:
        self.ledger = ledger
        self._options = options
        self._keep = keep  # strings and arrays that the options point to
        self._tables: Dict[str, Table] = {}
        self._lost: Optional[errors.Error] = None
        self._open()

    def _open(self) -> None:
        out, err = ffi.new("weir_client **"), new_error()
        check(lib.weir_open(out, self._options, err), err)
        self._handle = Handle(out[0])
        self._finalizer = weakref.finalize(self, Handle.close, self._handle, True)

    def __repr__(self) -> str:
        return f"<weir.Job {self.ledger} as {text_of(self._options.name)}>"

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, cls: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except errors.Error as e:
            log.warning("%r was closed after an exception: %s", self, e)

    def close(self) -> None:
        """Waits for operations in flight (at most 10 s) and leaves the job.

        Raises the error of a push that was not acknowledged. Closing twice is allowed.
        """
        self._finalizer.detach()
        self._handle.close()

    @property
    def closed(self) -> bool:
        return self._handle.client is None

    @property
    def name(self) -> str:
        """The name of this worker."""
        return text_of(self._options.name)

    @property
    def partitions(self) -> int:
        with self._handle as client:
            return int(lib.weir_partitions(client))

    @property
    def passes(self) -> int:
        with self._handle as client:
            return int(lib.weir_passes(client))

    @property
    def generation(self) -> int:
        """Grows whenever the job goes back to a checkpoint."""
        with self._handle as client:
            return int(lib.weir_generation(client))

    @property
    def incarnation(self) -> int:
        with self._handle as client:
            return int(lib.weir_incarnation(client))

    # --- Tables

    def table(
        self,
        name: str,
        *,
        width: int = 0,
        elements: int = 0,
        optimizer: Any = "adam",
        mode: Any = "async",
        push: Any = "fp32",
        pull: Any = "fp32",
        admission: Any = "none",
        eviction: Any = None,
        init: Any = "zero",
        seed: int = 0,
    ) -> Table:
        """Creates the table, or finds it if it exists with the same description.

        Give width for an embedding table, elements for a dense one. The other arguments are
        classes of weir.tables, dicts with the job file's keys, or words: ``optimizer="sgd"``,
        ``push={"codec": "int8"}``, ``init={"kind": "uniform", "a": 0.05}``. A dense table's init
        may be a list, whose `elements` follow each other.

        Raises ExistsError, which names the difference, if the table exists with another
        description.
        """

        def make(job: "Job") -> int:
            spec, segments = make_spec(name, width, elements, optimizer, mode, push, pull, admission, eviction or {}, init, seed)
            number, err = ffi.new("uint32_t *"), new_error()
            with job._handle as client:
                check(lib.weir_table_register(client, spec, number, err), err)
            del segments
            return int(number[0])

        number = make(self)
        return self._adopt(name, number, make)

    def find(self, name: str) -> Table:
        """A table that exists. Raises NotFoundError."""

        def look(job: "Job") -> int:
            spec, number, err = ffi.new("weir_table_spec *"), ffi.new("uint32_t *"), new_error()
            with job._handle as client:
                check(lib.weir_table_find(client, name.encode(), spec, number, err), err)
            return int(number[0])

        return self._adopt(name, look(self), look)

    def _adopt(self, name: str, number: int, make: Callable[["Job"], int]) -> Table:
        spec, again, err = ffi.new("weir_table_spec *"), ffi.new("uint32_t *"), new_error()
        with self._handle as client:
            check(lib.weir_table_find(client, name.encode(), spec, again, err), err)
        table = self._tables.get(name)
        if table is None:
            dense = int(spec.kind) == int(lib.WEIR_DENSE)
            table = Table(self, number, 0 if dense else int(spec.width), int(spec.elements) if dense else 0, read_spec(spec), make)
            self._tables[name] = table
        return table

    def _table(self, key: Any) -> Table:
        if isinstance(key, Table):
            if key.job is not self:
                raise errors.InvalidError(f"table {key.name} belongs to another connection; take it from this one")
            return key
        table = self._tables.get(key)
        if table is None:
            raise errors.NotFoundError(f"no table {key!r} in this connection: call job.table or job.find first")
        return table

    # --- Pull and push

    def pull(self, wanted: Mapping[Any, Any], *, batch: Optional[Batch] = None, out: Optional[Mapping[Any, Any]] = None) -> "Dict[Any, Floats]":
        """Pulls rows of several tables at once, and waits.

        wanted: {table or its name: keys}, as for Table.pull. batch and out likewise.
        Returns {the same keys: float32 values}.
        """
        return self.pull_ahead(wanted, batch=batch, out=out).wait()

    def pull_ahead(self, wanted: Mapping[Any, Any], *, batch: Optional[Batch] = None, out: Optional[Mapping[Any, Any]] = None) -> PullTicket:
        """Starts a pull. The ticket's wait() returns what `pull` returns.

        Do not change the keys until then.
        """
        handle = self._handle_of(batch)
        handle.reap()
        items = ffi.new("weir_pull_item[]", len(wanted))
        borrowed: List[Any] = [items]
        values: Dict[Any, Floats] = {}
        for item, (name, keys) in zip(items, wanted.items()):
            table = self._table(name)
            what = f"pull of table {table.name}"
            item.table = table.id
            if table.elements:
                shape: Tuple[int, ...] = (table.elements,)
            else:
                if keys is None:
                    raise errors.InvalidError(f"{what}: an embedding table needs keys")
                keys = array_of(keys, f"{what}: keys")
                shape = keys.shape + (table.width,)
            if keys is not None:
                flat = keys_of(keys, f"{what}: keys")
                item.keys, item.rows = ffi.from_buffer("uint64_t[]", flat), flat.size
                borrowed.append(flat)
            to = output(shape, out.get(name) if out else None, f"{what}: out")
            item.values = ffi.from_buffer("float[]", to)
            borrowed.append(to)
            values[name] = to
        ticket, err = ffi.new("weir_ticket *"), new_error()
        with handle as client:
            at = batch._c if batch is not None else ffi.NULL
            check(lib.weir_pull(client, at, items, len(items), ffi.NULL, ffi.NULL, ticket, err), err)
            handle.borrowed[ticket[0]] = borrowed
        return PullTicket(self, handle, ticket[0], values)

    def push(
        self,
        batch: Batch,
        gradients: Mapping[Any, Any],
        *,
        copy: bool = True,
        place: int = 0,
        weight: float = 0,
    ) -> PushTicket:
        """Pushes the gradients of a batch: all tables in one call, once for each batch.

        gradients: {table or its name: part}. Embedding tables: (keys, values) or (keys, values,
        scores): distinct integers, float32 (rows, width), float32 (rows,). Dense tables: float32
        (elements,), or (chunks, values) for the numbered chunks alone.
        copy: False borrows keys and values until the ticket is done; do not change them before.
        place: the batch's position in the whole training, from 1, for schedules; 0: derived.
        weight: of the batch in the mean of its step, for synchronous tables; 0: 1.

        Blocks while the servers have no room for more. The ticket is done when every part is
        acknowledged; the unit's commit waits for it, too, and reports its error.

        Raises NotFiniteError for NaN and infinities; the batch then counts as left out.
        Raises InvalidError for duplicate keys (`sum_duplicates` joins them).
        """
        handle = self._handle_of(batch)
        handle.reap()
        items = ffi.new("weir_push_item[]", len(gradients))
        borrowed: List[Any] = [items]
        for item, (name, part) in zip(items, gradients.items()):
            self._fill_push(item, self._table(name), part, copy, borrowed)
        options = ffi.new("weir_push_options *", {"copy": copy, "place": place, "weight": weight})
        ticket, err = ffi.new("weir_ticket *"), new_error()
        with handle as client:
            check(lib.weir_push(client, batch._c, items, len(items), options, ffi.NULL, ffi.NULL, ticket, err), err)
            handle.borrowed[ticket[0]] = borrowed
        pushed = PushTicket(self, handle, ticket[0])
        batch.unit._tickets = [r for r in batch.unit._tickets if r() is not None]
        batch.unit._tickets.append(weakref.ref(pushed))
        return pushed

    def _fill_push(self, item: Any, table: Table, part: Any, copy: bool, borrowed: List[Any]) -> None:
        item.table = table.id
        keys, values, scores = None, part, None
        if isinstance(part, tuple):
            if len(part) not in (2, 3):
                raise errors.InvalidError(f"push of table {table.name}: a tuple of {len(part)}; expected (keys, values)")
            keys, values, scores = (*part, None)[:3]
        elif not table.elements:
            raise errors.InvalidError(f"push of table {table.name}: a {type(part).__name__}; expected (keys, values)")
        flat, rows, _ = table._rows(keys, values, "push")
        if flat is not None:
            if copy:  # libweir copies the values alone
                flat = flat.copy()
            item.keys, item.rows = ffi.from_buffer("uint64_t[]", flat), flat.size
        item.values = ffi.from_buffer("float[]", rows)
        borrowed.append(flat)
        if not copy:
            borrowed.append(rows)
        if scores is not None and flat is not None:
            given = floats_of(scores, (flat.size,), f"push of table {table.name}: scores")
            item.scores = ffi.from_buffer("float[]", given)
            borrowed.append(given)

    def _handle_of(self, batch: Optional[Batch]) -> Handle:
        if batch is None:
            return self._handle
        if batch.unit.job is not self:
            raise errors.InvalidError(f"{batch!r} belongs to another connection")
        return batch.unit._handle

    # --- Work

    def units(self, *, on_rejoin: Optional[Callable[[errors.Error], None]] = None) -> Iterator[Unit]:
        """Leases work units until the job is finished. Use each one in a ``with`` block.

        If the job took this worker for dead, it joins again; if the job has gone back to a
        checkpoint, it connects to the new generation. on_rejoin is then called with the
        StaleError or the GenerationError: drop values and moments that you keep yourself.
        """
        while True:
            try:
                if self._lost:
                    lost, self._lost = self._lost, None
                    self._recover(lost, on_rejoin)
                unit = self._lease()
            except (errors.StaleError, errors.GenerationError) as lost:
                self._lost = lost
                continue
            if unit is None:
                return
            yield unit
            if not unit.over and self._lost is None:
                raise errors.StateError(f"{unit!r} was left open: use `with unit:`, or call commit() or fail()")

    def lease(self, timeout: Optional[float] = None) -> Optional[Unit]:
        """The next unit; None: the job is finished. Raises TimedOutError, StaleError, ..."""
        return self._lease(timeout)

    def _next_work(self, timeout: Optional[float]) -> Any:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            c, err = ffi.new("weir_unit *"), new_error()
            left_ms = SLICE_MS if deadline is None else max(0, min(SLICE_MS, int((deadline - time.monotonic()) * 1000)))
            with self._handle as client:
                status = lib.weir_unit_lease(client, c, left_ms, err)
            if status != lib.WEIR_E_TIMEOUT or (deadline is not None and time.monotonic() >= deadline):
                check(status, err)
                return c

    def _lease(self, timeout: Optional[float] = None) -> Optional[Unit]:
        handle = self._handle
        c = self._next_work(timeout)
        return Unit(self, handle, c) if c.state == lib.WEIR_UNIT_LEASED else None

    def evaluations(self) -> Iterator[Evaluation]:
        """The passes as they are completed, for an evaluator. Give each one its verdict."""
        while True:
            c = self._next_work(None)
            if c.state != lib.WEIR_UNIT_EVALUATE:
                return
            yield Evaluation(self, int(getattr(c, "pass")), bool(c.last_pass))

    def rejoin(self) -> None:
        """Joins as a new incarnation, after a StaleError outside `units`."""
        err = new_error()
        with self._handle as client:
            check(lib.weir_rejoin(client, err), err)

    def reopen(self) -> None:
        """Connects to the job's present generation, after a GenerationError outside `units`.

        Tables stay valid: they are registered again.
        """
        self._finalizer.detach()
        self._handle.abandon()
        self._open()
        for table in self._tables.values():
            table.id = table._make(self)

    def _recover(self, lost: errors.Error, on_rejoin: Optional[Callable[[errors.Error], None]]) -> None:
        log.warning("worker %s joins again: %s", self.name, lost)
        if isinstance(lost, errors.GenerationError):
            self.reopen()
        else:
            self.rejoin()
        if on_rejoin:
            on_rejoin(lost)

    def progress(self, *, rows: int = 0, batches: int = 1, loss_sum: float = 0, **more: Union[int, float]) -> None:
        """Reports progress since the last call: rows, batches, the sum of the rows' losses.

        more: other fields of weir_report, such as learning_rate or gradient_norm.
        """
        fields = {"rows": rows, "batches": batches, "loss_sum": float(loss_sum), **more}
        try:
            report = ffi.new("weir_report *", fields)
        except (KeyError, TypeError, OverflowError) as e:
            raise errors.InvalidError(f"progress: {e}") from None
        with self._handle as client:
            lib.weir_progress(client, report)

    def waits_for_data(self, waits: bool) -> None:
        """Declares whether the trainer waits for its own data."""
        with self._handle as client:
            lib.weir_waits_for_data(client, waits)

    def stop_waiting(self) -> None:
        """Ends pulls that wait for their step, with CancelledError: this trainer is to leave."""
        with self._handle as client:
            lib.weir_stop_waiting(client)

    # --- The job as a whole

    def stats(self) -> Stats:
        """What this client has done so far."""
        out = ffi.new("weir_stats *")
        with self._handle as client:
            lib.weir_get_stats(client, out)
        return Stats(*(getattr(out, name) for name in Stats._fields))

    def status(self) -> Dict[str, Any]:
        """The job's status, as `weir status --json` prints it."""
        return json.loads(run_program("status", "--at", self.ledger, "--json"))

    def checkpoint(self) -> Dict[str, Any]:
        """Writes a checkpoint, waits for it, and returns its description."""
        return json.loads(run_program("checkpoint", "--at", self.ledger, "--json"))


def run_program(verb: str, *arguments: str) -> str:
    """The output of `weir VERB ARGUMENTS`. Raises Error with the last line of its messages."""
    done = subprocess.run([program("weir"), verb, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise errors.Error(lines[-1] if lines else f"weir {verb} ended with status {done.returncode}")
    return done.stdout


def _dataset_number(dataset: Union[int, str, bytes]) -> int:
    if isinstance(dataset, int):
        return dataset
    raw = dataset.encode() if isinstance(dataset, str) else dataset
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little")


def _default_name() -> str:
    rank = os.environ.get("RANK")
    return f"rank-{rank}" if rank else f"python-{socket.gethostname().split('.')[0]}-{os.getpid()}"


def connect(
    ledger: Optional[str] = None,
    *,
    name: Optional[str] = None,
    role: str = "trainer",
    units: int = 0,
    rows: int = 0,
    unit_batches: int = 0,
    dataset: Union[int, str, bytes] = 0,
    settings: Optional[Mapping[str, Any]] = None,
    accept: Iterable[str] = (),
    timeout: float = 4.0,
    security: Optional[Security] = None,
    insecure: bool = False,
) -> Job:
    """Connects to a job.

    ledger: the address of a server: ``"unix:/path"`` or ``"HOST:PORT"``, or several separated by
    commas. None: the environment's WEIR_LEDGER.
    name: this worker's name; each live worker has its own. None: WEIR_NAME, else rank-RANK, else
    one made from host and process.
    role: trainer, evaluator (pulls and judges passes) or observer (pulls).
    units: trainers: work units of a pass. rows: examples of a pass (0: unknown). unit_batches:
    batches of a unit, approximately; the ledger then leases parts of units towards a pass's end.
    dataset: what identifies the data, a number or a text; all trainers give the same.
    settings: what determines results, {key: value}. A trainer with another value is refused unless
    `accept` names the key.
    timeout: seconds until the job must answer.

    Raises UnavailableError, ExistsError (the name is taken), InvalidError, ...
    """
    ledger = ledger or os.environ.get("WEIR_LEDGER", "")
    name = name or os.environ.get("WEIR_NAME") or _default_name()
    if role not in ROLES:
        raise errors.InvalidError(f"role is {role!r}; expected one of {', '.join(ROLES)}")
    options = ffi.new("weir_options *")
    keep: List[Any] = []

    def text(value: str) -> Any:
        keep.append(ffi.new("char[]", value.encode()))
        return keep[-1]

    options.ledger, options.name, options.role = text(ledger), text(name), ROLES[role]
    try:
        options.dataset_fingerprint = _dataset_number(dataset)
        options.dataset_units, options.dataset_rows, options.dataset_unit_batches = units, rows, unit_batches
        options.connect_timeout_ms = int(timeout * 1000)
    except (OverflowError, TypeError) as e:
        raise errors.InvalidError(f"connect: {e}") from None
    if settings:
        options.fingerprint = text("\n".join(f"{k}={v}" for k, v in settings.items()))
    accepted = ffi.new("char *[]", [text(k) for k in accept])
    keep.append(accepted)
    options.accept, options.accept_count = accepted, len(accepted)
    if security:
        options.security.certificate, options.security.key = text(security.certificate), text(security.key)
        options.security.ca = text(security.ca)
        options.security.job = text(security.job) if security.job else ffi.NULL
    options.security.insecure = insecure
    return Job(ledger, options, keep)

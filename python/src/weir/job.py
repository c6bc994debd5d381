"""A connection to a job, as one worker."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
import time
import weakref
from types import TracebackType
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Tuple,
    Type,
    Union,
    cast,
)

import numpy as np
from numpy.typing import NDArray

from . import errors
from ._arrays import F32, FLOATS, floats_at, floats_of, keys_at
from ._handle import SLICE_MS, Handle
from ._library import check, error_of, ffi, lib, new, new_error, scratch, text_of
from ._program import run_program
from .specs import TableSpec, make_spec, read_spec
from .status import Stats, Status, read_status
from .table import Table
from .tickets import PullTicket, PushTicket
from .work import Batch, Evaluation, Unit

__all__ = ["Job"]

log = logging.getLogger("weir")

Floats = NDArray[np.float32]
PULL_ITEMS, PUSH_ITEMS = ffi.typeof("weir_pull_item[]"), ffi.typeof("weir_push_item[]")


def dataset_number(dataset: Union[int, str, bytes]) -> int:
    """What identifies the data, as libweir's number."""
    if isinstance(dataset, int):
        return dataset
    raw = dataset.encode() if isinstance(dataset, str) else dataset
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little")


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings as the lines that libweir takes."""
    return "".join(f"{k}={v}\n" for k, v in settings.items())


class Job:
    """A connection to a job, as one worker. `connect` makes it; close it, or use ``with``.

    Several threads may use one job. In a forked child every call raises ClosedError.
    """

    def __init__(
        self, ledger: str, options: Any, keep: List[Any], undescribed: bool = False
    ) -> None:
        self.ledger = ledger
        self._undescribed = undescribed  # a trainer whose data are unknown; it only observes yet
        self._options = options
        self._keep = keep  # strings and arrays that the options point to
        self._tables: Dict[str, Table] = {}
        self._lost: Optional[errors.Error] = None
        self._ahead: Optional[Unit] = None  # leased before its turn
        self._usual_push: Dict[bool, Any] = {}
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

    def __exit__(
        self,
        cls: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
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
        """Whether the job is closed."""
        return self._handle.client is None

    @property
    def name(self) -> str:
        """The name of this worker."""
        return text_of(self._options.name)

    @property
    def partitions(self) -> int:
        """Shares of the model."""
        with self._handle as client:
            return int(lib.weir_partitions(client))

    @property
    def passes(self) -> int:
        """Trips over the data. 0: no trainer has said yet."""
        with self._handle as client:
            return int(lib.weir_passes(client))

    @property
    def generation(self) -> int:
        """Grows whenever the job goes back to a checkpoint."""
        with self._handle as client:
            return int(lib.weir_generation(client))

    @property
    def incarnation(self) -> int:
        """Grows whenever this worker joins."""
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
        classes of weir.specs, dicts with the job file's keys, or words: ``optimizer="sgd"``,
        ``push={"codec": "int8"}``, ``init={"kind": "uniform", "a": 0.05}``. A dense table's init
        may be a list, whose `elements` follow each other.

        Raises ExistsError, which names the difference, if the table exists with another
        description.
        """

        def make(job: "Job") -> int:
            spec, segments = make_spec(
                name,
                width,
                elements,
                optimizer,
                mode,
                push,
                pull,
                admission,
                eviction or {},
                init,
                seed,
            )
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
            spec, number, err = new("weir_table_spec"), ffi.new("uint32_t *"), new_error()
            with job._handle as client:
                check(lib.weir_table_find(client, name.encode(), spec, number, err), err)
            return int(number[0])

        return self._adopt(name, look(self), look)

    def _adopt(self, name: str, number: int, make: Callable[["Job"], int]) -> Table:
        spec, again, err = new("weir_table_spec"), ffi.new("uint32_t *"), new_error()
        with self._handle as client:
            check(lib.weir_table_find(client, name.encode(), spec, again, err), err)
        table = self._tables.get(name)
        if table is None:
            dense = int(spec.kind) == int(lib.WEIR_DENSE)
            table = Table(
                self,
                number,
                0 if dense else int(spec.width),
                int(spec.elements) if dense else 0,
                read_spec(spec),
                bool(spec.push.feedback or spec.push.rows > 0),
                make,
            )
            self._tables[name] = table
        return table

    def _table(self, key: Any) -> Table:
        if isinstance(key, Table):
            if key.job is not self:
                raise errors.InvalidError(
                    f"table {key.name} belongs to another connection; take it from this one"
                )
            return key
        table = self._tables.get(key)
        if table is None:
            raise errors.NotFoundError(
                f"no table {key!r} in this connection: call job.table or job.find first"
            )
        return table

    # --- Pull and push

    def pull(
        self,
        wanted: Mapping[Any, Any],
        *,
        batch: Optional[Batch] = None,
        out: Optional[Mapping[Any, Any]] = None,
        timeout: Optional[float] = None,
    ) -> "Dict[Any, Floats]":
        """Pulls rows of several tables at once, and waits.

        wanted: {table or its name: keys}, as for Table.pull. batch, out and timeout likewise.
        Returns {the same keys: float32 values}.
        """
        got = self._pull(wanted, batch, out, timeout is None)
        return got.wait(timeout) if isinstance(got, PullTicket) else got

    def pull_ahead(
        self,
        wanted: Mapping[Any, Any],
        *,
        batch: Optional[Batch] = None,
        out: Optional[Mapping[Any, Any]] = None,
    ) -> PullTicket:
        """Starts a pull. The ticket's wait() returns what `pull` returns.

        Do not change the keys until then.
        """
        return cast(PullTicket, self._pull(wanted, batch, out, False))

    def _pull(
        self,
        wanted: Mapping[Any, Any],
        batch: Optional[Batch],
        out: Optional[Mapping[Any, Any]],
        wait: bool,
    ) -> "Union[PullTicket, Dict[Any, Floats]]":
        """The values, if `wait` is set and they come soon; else a ticket."""
        handle = self._handle_of(batch)
        if handle.dropped:
            handle.reap()
        parts: List[Tuple[Any, ...]] = []  # also keeps what the items point to
        values: Dict[Any, Floats] = {}
        for name, keys in wanted.items():
            table = name if type(name) is Table and name.job is self else self._table(name)
            shape: Tuple[int, ...]
            if keys is not None:
                at, rows, shape = keys_at(keys, "pull", table.name)
            elif table.elements:
                at, rows, shape = ffi.NULL, 0, ()
            else:
                raise errors.InvalidError(
                    f"pull of table {table.name}: an embedding table needs keys"
                )
            shape = (table.elements,) if table.elements else (*shape, table.width)
            to = out.get(name) if out else None
            if to is None:
                to = np.empty(shape, F32)
            else:
                to = floats_of(to, shape, f"pull of table {table.name}: out", writable=True)
            values[name] = to
            parts.append((table.id, at, rows, ffi.from_buffer(FLOATS, to)))
        items = ffi.new(PULL_ITEMS, parts)
        key, ticket, err = id(items), scratch.ticket, scratch.err
        with handle as client:
            handle.borrowed[key] = items, parts
            at = batch._c if batch is not None else ffi.NULL
            status = lib.weir_pull(client, at, items, len(parts), ffi.NULL, ffi.NULL, ticket, err)
            if status:
                del handle.borrowed[key]
                raise error_of(status, err)
            if not wait:
                return PullTicket(self, handle, ticket[0], key, values)
            try:
                status = lib.weir_wait(client, ticket[0], SLICE_MS, err)
            except BaseException:  # Ctrl-C: the handle lends the memory until the pull has ended
                PullTicket(self, handle, ticket[0], key, values)
                raise
            if status == lib.WEIR_E_TIMEOUT:
                late = PullTicket(self, handle, ticket[0], key, values)
                late._late = error_of(status, err)
                return late
            del handle.borrowed[key]
            if status:
                raise error_of(status, err)
            return values

    def push(
        self,
        batch: Batch,
        gradients: Mapping[Any, Any],
        *,
        copy: bool = True,
        place: int = 0,
        weight: float = 1,
    ) -> PushTicket:
        """Pushes the gradients of a batch: all tables in one call, once for each batch.

        gradients: {table or its name: part}. Embedding tables: (keys, values) or (keys, values,
        scores): distinct integers, float32 (rows, width), float32 (rows,). Dense tables: float32
        (elements,), or (chunks, values) for the numbered chunks alone.
        copy: False borrows keys and values until the ticket is done; do not change them before.
        place: the batch's position in the whole training, from 1, for schedules; 0: derived.
        weight: of the batch in the mean of its step, for synchronous tables: its number of examples.

        Blocks while the servers have no room for more. The ticket is done when every part is
        acknowledged; the unit's commit waits for it, too, and reports its error.

        Raises NotFiniteError for NaN and infinities; the batch then counts as left out.
        Raises InvalidError for duplicate keys (`sum_duplicates` joins them).
        """
        handle = self._handle_of(batch)
        if handle.dropped:
            handle.reap()
        parts: List[Tuple[Any, ...]] = []  # also keeps what the items point to
        for name, part in gradients.items():
            table = name if type(name) is Table and name.job is self else self._table(name)
            parts.append(self._push_item(table, part))
        items = ffi.new(PUSH_ITEMS, parts)
        options = self._push_options(copy, place, weight)
        key, ticket, err, null = id(items), scratch.ticket, scratch.err, ffi.NULL
        with handle as client:
            handle.borrowed[key] = items if copy else (items, parts)
            status = lib.weir_push(
                client, batch._c, items, len(parts), options, null, null, ticket, err
            )
            if status:
                del handle.borrowed[key]
                raise error_of(status, err)
            batch.unit._last = pushed = PushTicket(self, handle, ticket[0], key, None)
        return pushed

    def _push_options(self, copy: bool, place: int, weight: float) -> Any:
        usual = not place and weight == 1
        options = self._usual_push.get(copy) if usual else None
        if options is None:
            options = new("weir_push_options")
            options.copy, options.place, options.weight = copy, place, weight
            if usual:
                self._usual_push[copy] = options
        return options

    def _push_item(self, table: Table, part: Any) -> Tuple[Any, ...]:
        """The fields of a weir_push_item, whose memory lives as long as they do."""
        keys, values, scores = None, part, None
        if type(part) is tuple:
            if len(part) not in (2, 3):
                raise errors.InvalidError(
                    f"push of table {table.name}: a tuple of {len(part)}; expected (keys, values)"
                )
            keys, values, scores = part if len(part) == 3 else (*part, None)
        shape: Tuple[int, ...]
        if keys is not None:
            at, rows, shape = keys_at(keys, "push", table.name)
        elif table.elements:
            at, rows, shape = ffi.NULL, 0, ()
        else:
            raise errors.InvalidError(
                f"push of table {table.name}: a {type(part).__name__}; expected (keys, values)"
            )
        wanted = (table.elements,) if table.elements else (*shape, table.width)
        item = (table.id, at, rows, floats_at(values, wanted, "push", table.name))
        if scores is None:
            return item
        return (*item, ffi.NULL, floats_at(scores, shape, "push", table.name, "scores"))

    def _handle_of(self, batch: Optional[Batch]) -> Handle:
        if batch is None:
            return self._handle
        if batch.unit.job is not self:
            raise errors.InvalidError(f"{batch!r} belongs to another connection")
        return batch.unit._handle

    # --- Work

    def units(
        self, *, on_rejoin: Optional[Callable[[errors.Error], None]] = None
    ) -> Iterator[Unit]:
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
                raise errors.StateError(
                    f"{unit!r} was left open: use `with unit:`, or call commit() or fail()"
                )

    def lease(self, timeout: Optional[float] = None) -> Optional[Unit]:
        """The next unit; None: the job is finished. Raises TimedOutError, StaleError, ..."""
        return self._lease(timeout)

    def _next_work(self, timeout: Optional[float]) -> Any:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            c, err = ffi.new("weir_unit *"), new_error()
            left_ms = (
                SLICE_MS
                if deadline is None
                else max(0, min(SLICE_MS, int((deadline - time.monotonic()) * 1000)))
            )
            with self._handle as client:
                status = lib.weir_unit_lease(client, c, left_ms, err)
            if status != lib.WEIR_E_TIMEOUT or (
                deadline is not None and time.monotonic() >= deadline
            ):
                check(status, err)
                return c
            self._handle.look_after()

    def _lease(self, timeout: Optional[float] = None) -> Optional[Unit]:
        if self._undescribed:
            raise errors.StateError(
                "the job does not know this trainer's data: give connect units=, or call describe_data"
            )
        if self._ahead is not None:
            unit, self._ahead = self._ahead, None
            return unit
        handle = self._handle
        c = self._next_work(timeout)
        return Unit(self, handle, c) if c.state == lib.WEIR_UNIT_LEASED else None

    def evaluations(self) -> Iterator[Evaluation]:
        """The passes as they are completed, for an evaluator. Give each one its verdict.

        The next pass waits for the verdict only in jobs whose job file has validation data, and
        train.early_stop or train.keep_best. In others training goes on meanwhile: values are those
        of a moment in the next pass, a slow evaluator misses passes, and a verdict to stop ends the
        pass that is open.
        """
        while True:
            c = self._next_work(None)
            if c.state != lib.WEIR_UNIT_EVALUATE:
                return
            yield Evaluation(self, int(getattr(c, "pass")), bool(c.last_pass))

    def _lease_ahead(self) -> bool:
        """Whether there is another unit. `lease` returns it next."""
        try:
            self._ahead = self._lease(0)
        except errors.TimedOutError:
            return False
        return self._ahead is not None

    def rejoin(self) -> None:
        """Joins as a new incarnation, after a StaleError outside `units`."""
        self._ahead = None
        err = new_error()
        with self._handle as client:
            check(lib.weir_rejoin(client, err), err)

    def reopen(self) -> None:
        """Connects to the job's present generation, after a GenerationError outside `units`.

        Tables stay valid: they are registered again.
        """
        self._ahead = None
        self._finalizer.detach()
        self._handle.abandon()
        look_after = self._handle.look_after
        self._open()
        self._handle.look_after = look_after
        for table in self._tables.values():
            table.id = table._make(self)

    def _recover(
        self, lost: errors.Error, on_rejoin: Optional[Callable[[errors.Error], None]]
    ) -> None:
        log.warning("worker %s joins again: %s", self.name, lost)
        if isinstance(lost, errors.GenerationError):
            self.reopen()
        else:
            self.rejoin()
        if on_rejoin:
            on_rejoin(lost)

    def describe_data(
        self,
        *,
        units: int,
        rows: int = 0,
        unit_batches: int = 0,
        passes: int = 0,
        dataset: Union[int, str, bytes] = 0,
        settings: Optional[Mapping[str, Any]] = None,
    ) -> None:
        """Says what data this trainer reads, where `connect` did not, and joins the job with it.

        The arguments are those of `connect`; settings are added to those given there. passes: 0
        keeps what was given there. Tables stay valid.

        Raises StateError if the data are described already, and whatever `connect` raises.
        """
        if not self._undescribed:
            raise errors.StateError("the job's data were described when it was connected")
        o = self._options
        known = "" if o.fingerprint == ffi.NULL else text_of(o.fingerprint)
        try:
            o.dataset_fingerprint = dataset_number(dataset)
            o.dataset_units, o.dataset_rows, o.dataset_unit_batches = units, rows, unit_batches
            o.passes = passes or o.passes
        except (OverflowError, TypeError) as e:
            raise errors.InvalidError(f"describe_data: {e}") from None
        if settings:
            self._keep.append(ffi.new("char[]", (known + settings_text(settings)).encode()))
            o.fingerprint = self._keep[-1]
        o.role = lib.WEIR_TRAINER
        self.close()
        self._open()
        self._undescribed = False
        for table in self._tables.values():
            table.id = table._make(self)

    def _beside(self, name: str) -> "Job":
        """Another connection to the job, as an observer of this name."""
        options = ffi.new("weir_options *", self._options[0])
        keep = [ffi.new("char[]", name.encode()), self._keep]
        options.name, options.role = keep[0], lib.WEIR_OBSERVER
        options.log = ffi.NULL  # it says what this connection says, or waits for its turn
        return Job(self.ledger, options, keep)

    def progress(
        self, *, rows: int = 0, batches: int = 1, loss_sum: float = 0, **more: Union[int, float]
    ) -> None:
        """Reports progress since the last call: rows, batches, the sum of the rows' losses.

        more: other fields of weir_report, such as learning_rate or gradient_norm.
        """
        report = new("weir_report")
        fields = {"rows": rows, "batches": batches, "loss_sum": float(loss_sum), **more}
        try:
            for field, value in fields.items():
                setattr(report, field, value)
        except (AttributeError, TypeError, OverflowError) as e:
            raise errors.InvalidError(f"progress: {e}") from None
        with self._handle as client:
            check(lib.weir_progress(client, report), new_error())

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
        out = new("weir_stats")
        with self._handle as client:
            check(lib.weir_get_stats(client, out), new_error())
        return Stats(*(getattr(out, name) for name in Stats._fields))

    def status(self) -> Status:
        """The state of the job, from its ledger and all servers."""
        out, err = new("weir_job"), new_error()
        with self._handle as client:
            check(lib.weir_job_read(client, out, err), err)
        return read_status(out)

    def tables(self) -> List[TableSpec]:
        """The tables of the job."""
        count, err = ffi.new("size_t *"), new_error()
        with self._handle as client:
            check(lib.weir_tables(client, ffi.NULL, ffi.NULL, 0, count, err), err)
            specs = ffi.new("weir_table_spec[]", count[0] or 1)
            lib.weir_table_spec_init(specs, ffi.sizeof("weir_table_spec"))
            check(lib.weir_tables(client, specs, ffi.NULL, count[0], count, err), err)
        return [read_spec(specs[i]) for i in range(min(len(specs), count[0]))]

    def checkpoint(self) -> Dict[str, Any]:
        """Writes a checkpoint and waits for it. Returns its name, bytes and wall_s (seconds)."""
        return json.loads(self._run_verb("checkpoint", "--json"))

    def export(self, path: str, *tables: Union[str, Table]) -> None:
        """Writes tables to a safetensors file; without `tables` all of them.

        An embedding table becomes NAME.keys (rows) and NAME.values (rows, width), a dense one NAME
        (elements).
        """
        names = [t.name if isinstance(t, Table) else t for t in tables]
        self._run_verb("export", "--out", path, *(w for n in names for w in ("--table", n)))

    def _run_verb(self, verb: str, *arguments: str) -> str:
        """Runs a verb of `weir` on this job, with this connection's certificates."""
        given = self._options.security
        security = {
            key: text_of(getattr(given, key))
            for key in ("certificate", "key", "ca")
            if getattr(given, key)
        }
        job: Dict[str, Any] = {"job": text_of(given.job) if given.job else "python"}
        if security:
            job["security"] = security
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump(job, file)  # JSON is YAML
            file.flush()
            return run_program(verb, file.name, "--at", self.ledger, *arguments)

"""The loader: leased units of a dataset, batch by batch."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Any, Callable, Deque, Dict, Iterator, List, Mapping, Optional, Type, Union

import torch
from torch.utils.data import IterableDataset, default_collate

from .. import errors
from .._progress import Progress
from .._residuals import is_perhaps_last, keeps_residuals, push_residuals
from ..job import Job
from ..table import Table
from ..tickets import PullTicket, PushTicket
from ..work import Batch, Unit
from .embedding import _Rows
from .fingerprint import fingerprint
from .reader import Columns, Reader, check_iterable, column_of
from .session import LOST, Piece, Session, Step, identity, new_values
from .sizes import Sizes
from .workers import Task, Workers

__all__ = ["DataLoader"]

AHEAD_OF_WORKERS = 2  # steps that each process reads ahead
UNITS_HELD = 2  # one in hand, and the next

def _to(x: Any, device: torch.device) -> Any:
    """A batch with its tensors on a device."""
    if isinstance(x, torch.Tensor):
        return (x.pin_memory() if device.type == "cuda" else x).to(device, non_blocking=True)
    if isinstance(x, dict):
        return {k: _to(v, device) for k, v in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(_to(v, device) for v in x))
    return type(x)(_to(v, device) for v in x) if isinstance(x, (list, tuple)) else x


class _Held:
    """A leased unit."""

    def __init__(self, unit: Unit, batches: Iterator[Batch]) -> None:
        self.unit = unit
        self.batches = batches
        self.open = 0  # handed out, and not finished
        self.all_out = False
        self.tickets: List[PushTicket] = []


class _Plan:
    """A step to come."""

    def __init__(self, held: _Held, batch: Batch, task: Task) -> None:
        self.held = held
        self.batch = batch
        self.task = task
        self.step: Optional[Step] = None  # once its rows are read
        self.data: List[Any] = []
        self.values: Dict[Table, Any] = {}
        self.ticket: Optional[PullTicket] = None


class DataLoader:
    """Batches of a dataset's leased units, for one trainer of a job.

    Iterating it yields micro-batches, as torch.utils.data.DataLoader, until the job is finished:
    all passes. Which rows a batch has is a function of (seed, pass, place), so a unit that another
    trainer had begun goes on with the same batches. The loader leases and commits units, joins
    again if the job took this worker for dead, and follows the job to a new generation; batches
    that it had read before are dropped then. A step that the loop leaves without
    `Optimizer.step` is left out.

    dataset: has a length, and items by index. An IterableDataset is refused unless
    exactly_once=False: its batches are then whatever comes next, so a unit that is executed again
    has others; give `length`, the rows of a pass of all trainers together.
    job: a trainer's connection. If `connect` got no units, the loader describes the data.
    batch_size: rows of a micro-batch. accumulate: micro-batches of an optimizer step; the last
    step of the data may have fewer. `step_due` tells when to call `Optimizer.step`.
    num_workers: processes that read rows; 0: this process reads.
    passes: trips over the data; 0: as the job says.
    unit_batches: steps of a unit. shuffle, seed: the order of the rows.
    rows: {embedding: column}: rows to pull ahead. A column is an index or a key of a batch, a
    function of it, or a list of those; it is int64. Equal ids of a step are pulled once.
    ahead: steps whose values are pulled ahead; each adds one push of staleness. 0: a step's pull
    waits for the push of the step before, as synchronous tables need it. None: 0 with a synchronous
    table, otherwise 1.
    collate: makes a batch of items. None: dataset[indexes], int64 (batch_size,), is the batch.
    device: where to move batches. None: nowhere.
    version: a text that stands for the dataset's content, in place of 64 of its items.
    progress: shows how far the training of all trainers is, by tqdm if that is installed, and the
    loss that `Optimizer.step` is given.

    Raises InvalidError, and Error with a process's traceback if the dataset fails.
    """

    def __init__(
        self,
        dataset: Any,
        job: Job,
        batch_size: int = 1,
        num_workers: int = 0,
        *,
        accumulate: int = 1,
        passes: int = 0,
        unit_batches: int = 16,
        shuffle: bool = True,
        seed: int = 0,
        rows: Optional[Mapping[_Rows, Columns]] = None,
        ahead: Optional[int] = None,
        collate: Optional[Callable[[Any], Any]] = default_collate,
        device: Optional[Union[str, torch.device]] = None,
        version: Optional[str] = None,
        exactly_once: bool = True,
        length: Optional[int] = None,
        progress: bool = False,
    ) -> None:
        addressed = (
            hasattr(dataset, "__getitem__")
            and hasattr(dataset, "__len__")
            and not isinstance(dataset, IterableDataset)
        )
        if not addressed:
            check_iterable(dataset, exactly_once, length, num_workers, collate)
        sized: Any = dataset
        size = len(sized) if addressed else length
        self._sizes = Sizes(
            size or 0, batch_size, accumulate, unit_batches, shuffle, seed, addressed
        )
        self.job = job
        self.num_workers = num_workers
        self._ahead_given = ahead
        self._ahead = 0  # steps; `__iter__` sets it
        self.device = torch.device(device) if device is not None else None
        self._rows = [(m, c if isinstance(c, list) else [c]) for m, c in (rows or {}).items()]
        self._describe(dataset, version, passes)
        self._session = Session.of(job)
        self._session.loader = self
        self._shows = progress
        self._reader = Reader(dataset, self._sizes, collate, self._rows)
        self._workers: Optional[Workers] = None
        self._queue: Deque[_Plan] = deque()
        self._held: List[_Held] = []
        self._current: Optional[_Plan] = None
        self._lost: Optional[errors.Error] = None
        self._pushed: Optional[PushTicket] = None  # the newest
        self._tasks = 0
        self._finished = False
        self._closed = False

    def _describe(self, dataset: Any, version: Optional[str], passes: int) -> None:
        s, job = self._sizes, self.job
        if job._undescribed:
            job.describe_data(
                units=s.units,
                rows=s.length,
                unit_batches=s.unit_batches,
                passes=passes,
                dataset=fingerprint(
                    dataset, s.length, version if s.addressed else version or "iterable"
                ),
                settings={
                    "batch_size": s.batch_size,
                    "accumulate": s.accumulate,
                    "unit_batches": s.unit_batches,
                    "shuffle": s.shuffle,
                    "seed": s.seed,
                },
            )
            return
        units = int(job._options.dataset_units)
        if units != s.units:
            raise errors.InvalidError(
                f"the loader makes {s.units} units, and connect was given units={units}: "
                "leave units out there"
            )

    def _steps_ahead(self) -> int:
        synchronous = [t.name for t in self.job._tables.values() if t.spec.mode == "sync"]
        given = self._ahead_given
        if given and synchronous:
            raise errors.InvalidError(
                f"table {synchronous[0]} is synchronous: its values of a step exist after the step "
                f"before, and ahead={given} asks for them sooner; leave ahead out"
            )
        return given if given is not None else 0 if synchronous else 1

    # --- For the loop

    @property
    def step_due(self) -> bool:
        """Whether the micro-batch in hand is the last of its step: call `Optimizer.step`."""
        step = self._session.step
        return step is not None and step.micro == step.micro_batches

    def batches_of(self, unit: Unit) -> int:
        """Steps of a unit, or of the leased part of it."""
        return unit.end_of(self._sizes.batches(unit.place))

    @property
    def pass_steps(self) -> int:
        """Optimizer steps of a pass, of all trainers together: for schedules."""
        return self._sizes.pass_steps

    @property
    def pass_(self) -> int:
        """The pass of the step in hand, from 0. Raises StateError between steps."""
        return self._session.training_step("DataLoader.pass_").batch.unit.pass_

    def __iter__(self) -> Iterator[Any]:
        if self._closed and not self._finished:
            raise errors.ClosedError("the loader is closed, and the job goes on: make another one")
        self._ahead = self._steps_ahead()
        try:
            while True:
                self._finish()
                plan = self._take()
                if plan is None or plan.step is None:
                    return
                self._show(plan.step.place)
                while plan.step.micro < len(plan.data):
                    plan.step.micro += 1
                    yield plan.data[plan.step.micro - 1]
        finally:
            if self._finished:
                self.close()

    def __enter__(self) -> "DataLoader":
        return self

    def __exit__(
        self,
        cls: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        """After an exception, gives the unit in hand back, and the job reports the exception."""
        if isinstance(error, Exception) and self._current is not None:
            self._give_back(self._current.held, f"{type(error).__name__}: {error}")
        self.close()

    def _show(self, place: int) -> None:
        """Shows that the step at this place begins."""
        if self._shows and self._session.progress is None:
            self._session.progress = Progress(self.job.name, self.job.passes * self.pass_steps)
        if self._session.progress:
            self._session.progress.at(place - 1)

    def close(self) -> None:
        """Ends the processes. Units in hand go to other trainers when the job is closed."""
        if self._session.progress:
            self._session.progress.close(done=self._finished)
            self._session.progress = None
        if self._workers:
            self._workers.stop()
            self._workers = None
        self._queue.clear()
        self._closed = True

    # --- Steps

    def _take(self) -> Optional[_Plan]:
        """The next step, with its values. None: the job is finished."""
        while True:
            try:
                if self._lost:
                    lost, self._lost = self._lost, None
                    dense = self._session.dense
                    self.job._recover(lost, dense._rejoined if dense else None)
                self._fill()
                if not self._queue:
                    return None
                plan = self._queue.popleft()
                self._begin(plan)
                for later in list(self._queue)[: self._ahead]:
                    if later.step is None and self._running().ready(later.task):
                        self._pull(later)
                return plan
            except LOST as lost:
                self._lose(lost)

    def _running(self) -> Workers:
        if self._workers is None:
            self._workers = Workers(self.num_workers, self._reader)
        return self._workers

    def _fill(self) -> None:
        depth = max(1 + self._ahead, AHEAD_OF_WORKERS * self.num_workers)
        while len(self._queue) < depth:
            plan = self._next_plan()
            if plan is None:
                return
            self._running().begin(plan.task)
            self._queue.append(plan)

    def _next_plan(self) -> Optional[_Plan]:
        while True:
            held = self._held[-1] if self._held else None
            if held and not held.all_out:
                batch = next(held.batches, None)
                if batch is not None:
                    held.open += 1
                    self._tasks += 1
                    unit = held.unit
                    task = (self._tasks, unit.pass_, unit.place, batch.index)
                    return _Plan(held, batch, task)
                held.all_out = True
                self._commit()
                continue
            unit = self._lease()
            if unit is None:
                return None
            count, keeps = self._sizes.batches(unit.place), keeps_residuals(self.job)
            self._held.append(_Held(unit, unit.batches(count, residuals=keeps)))

    def _lease(self) -> Optional[Unit]:
        if self._finished:
            return None
        waits = not self._queue
        if waits:
            self._commit(wait=True)
        elif len(self._held) >= UNITS_HELD:
            return None
        try:
            unit = self.job.lease(None if waits else 0)
        except errors.TimedOutError:
            return None
        self._finished = unit is None
        return unit

    def _commit(self, wait: bool = False) -> None:
        """Commits units whose steps are over. wait: also those with pushes in flight."""
        for held in list(self._held):
            if not held.all_out or held.open:
                return
            if not wait and not all(t.done() for t in held.tickets):
                return
            held.tickets.clear()
            if len(self._held) == 1 and is_perhaps_last(held.unit) and not self.job._lease_ahead():
                push_residuals(held.unit)
            held.unit.commit()
            self._held.remove(held)

    def _pull(self, plan: _Plan) -> None:
        """Takes what was read of a step, and starts to pull its values."""
        workers = self._running()
        waits = not workers.ready(plan.task)
        try:
            if waits:
                self.job.waits_for_data(True)
            rows, data, distinct = workers.result(plan.task)
            if waits:
                self.job.waits_for_data(False)
        except Exception as e:
            self._give_back(plan.held, f"{type(e).__name__}: {e}".splitlines()[0])
            raise
        plan.data = [_to(b, self.device) for b in data] if self.device else data
        place = self._sizes.position(plan.held.unit, plan.batch.index)
        plan.step = Step(plan.batch, place, rows, len(data))
        wanted: Dict[Table, Any] = {}
        for module, _ in self._rows:
            _, table = module._bound()
            keys = distinct[module.table_name][0]
            if table not in wanted:
                wanted[table] = keys
                plan.values[table] = new_values((keys.size, table.width))
        self._note_places(plan, distinct)
        if self._session.dense:
            dense = self._session.dense._wanted()
            wanted.update({table: None for table in dense})
            plan.values.update(dense)
        if wanted:
            if not self._ahead and self._pushed is not None:
                _wait(self._pushed)
            plan.ticket = plan.batch.pull_ahead(wanted, out=plan.values)
            for table, keys in wanted.items():
                if keys is not None:
                    plan.step.pieces[table] = [Piece(keys, plan.values[table])]

    def _note_places(self, plan: _Plan, distinct: Dict[str, Any]) -> None:
        """Notes where the rows of the batches' ids are, as Reader._unique has ordered them."""
        assert plan.step is not None
        began = {name: 0 for name in distinct}
        for batch in plan.data:
            for module, columns in self._rows:
                for column in columns:
                    ids, first = column_of(batch, column), began[module.table_name]
                    began[module.table_name] += ids.numel()
                    at = torch.from_numpy(
                        distinct[module.table_name][1][first : first + ids.numel()]
                    )
                    plan.step.lookups[(module, *identity(ids))] = at.to(ids.device)

    def _begin(self, plan: _Plan) -> None:
        if plan.step is None:
            self._pull(plan)
        assert plan.step is not None
        values = plan.ticket.wait() if plan.ticket else {}
        if self._session.dense:
            self._session.dense._begin(plan.step, values)
        self._session.step, self._current = plan.step, plan

    def _finish(self) -> None:
        """Ends the step in hand."""
        plan, self._current = self._current, None
        if plan is None or plan.step is None:
            return
        self._session.step = None
        step = plan.step
        try:
            if step.void:
                raise step.void
            if not step.over and self._session.dense:
                self._session.dense._end(step)
            if not step.over:
                step.batch.leave_out()
            plan.held.open -= 1
            if step.ticket:
                self._pushed = step.ticket
                plan.held.tickets.append(step.ticket)
            self._commit()
        except LOST as lost:
            self._lose(lost)

    def _lose(self, lost: errors.Error) -> None:
        """Drops everything of the former incarnation or generation."""
        self._lost = lost
        for plan in self._queue:
            self._running().drop(plan.task)
        self._queue.clear()
        for held in self._held:
            held.unit.over = True
        self._held.clear()
        self._current, self._session.step, self._pushed = None, None, None

    def _give_back(self, held: _Held, why: str) -> None:
        if not held.unit.over:
            try:
                held.unit.fail(why)
            except errors.Error:
                held.unit.over = True  # the lease ends with the connection


def _wait(ticket: PushTicket) -> None:
    try:
        ticket.wait()
    except LOST:
        raise
    except errors.Error:
        pass  # the unit's commit reports it

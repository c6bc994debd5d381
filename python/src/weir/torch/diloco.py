"""Rounds of local steps: DiLoCo and local SGD.

A worker takes steps on its own copy of a model. The last batch of a round pushes the difference as
if it were a gradient, and the servers' optimizer, the outer one, applies it. This is DiLoCo (arXiv
2311.08105); with fragments, overlap and merge it is its streaming form (arXiv 2501.18512). The
rounds are those of weir-worker (worker/train/loop/local_sgd.h), so both train alike:

- A round is ``unit.local_steps`` batches, or fewer at the unit's end.
- The model's trainable parameters are one dense table, cut into fragments. The round's batch number
  (f + 1) H / P pushes fragment f of P, and the unit's last batch pushes all.
- A fragment is pulled again when its push is acknowledged, and taken in `overlap` batches later.
- A unit begins with everything pulled. Only the inner optimizer's state carries over.
"""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np
import torch
from numpy.typing import NDArray

from .. import errors
from .._library import lib
from .._residuals import is_perhaps_last, keeps_residuals, push_residuals
from ..specs import Mode, Optimizer
from ..work import Batch, Unit
from .dense import initialise
from .optimizer import bind
from .session import Pushes, Session, Step

if TYPE_CHECKING:
    from ..job import Job
    from ..tickets import PullTicket, PushTicket

__all__ = ["DiLoCo", "LocalSGD"]

log = logging.getLogger("weir")


class _Fragment:
    """A run of the table's chunks, which are pushed by one batch of a round."""

    def __init__(self, first: int, end: int, elements: int) -> None:
        self.chunks = np.arange(first, end, dtype=np.uint64)
        self.first, self.end = first * lib.WEIR_CHUNK, min(end * lib.WEIR_CHUNK, elements)
        self.forget()

    def forget(self) -> None:
        self.pushed_by = -1  #: the batch that pushed it; -1: it is taken in
        self.push: "Optional[PushTicket]" = None
        self.pull: "Optional[PullTicket]" = None


class _Weights:
    """A model's trainable parameters as one flat vector of float32 in the host's memory."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._places: List[Tuple[int, torch.nn.Parameter]] = []
        self.elements = 0
        for name, p in model.named_parameters():
            if not p.requires_grad:
                continue
            if p.dtype != torch.float32:
                raise errors.InvalidError(
                    f"parameter {name} has dtype {p.dtype}; expected float32: keep the weights in "
                    "float32 and compute under torch.autocast"
                )
            self._places.append((self.elements, p))
            self.elements += p.numel()
        if not self.elements:
            raise errors.InvalidError("the model has no parameter that requires a gradient")

    def _parts(self, first: int, end: int) -> Iterator[Tuple[torch.nn.Parameter, slice, slice]]:
        """Parameters in [first, end): each with its own elements, and their place behind first."""
        for at, p in self._places:
            begin, stop = max(first, at), min(end, at + p.numel())
            if begin < stop:
                yield p, slice(begin - at, stop - at), slice(begin - first, stop - first)

    def read(self, first: int, end: int) -> torch.Tensor:
        """(end - first,) elements, a copy."""
        out = torch.empty(end - first)
        for p, own, there in self._parts(first, end):
            out[there] = p.detach().reshape(-1)[own].cpu()
        return out

    def take_in(self, first: int, end: int, values: torch.Tensor, merge: float) -> None:
        """own = merge * values + (1 - merge) * own, for the elements [first, end)."""
        for p, own, there in self._parts(first, end):
            with torch.no_grad():
                new = values[there].to(p.device)
                flat = p.detach().reshape(-1)
                flat[own] = new if merge == 1 else torch.lerp(flat[own], new, merge)
                if flat.data_ptr() != p.data_ptr():  # reshape had to copy
                    p.copy_(flat.view(p.shape))


def _to_host(value: Any) -> Any:
    """A deep copy, with all tensors in the host's memory."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return {k: _to_host(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_to_host(v) for v in value)
    return copy.deepcopy(value)


class _Start(NamedTuple):
    """What a round begins with, beside the weights."""

    state: Dict[Any, Any]
    buffers: List[torch.Tensor]


class DiLoCo:
    """Trains `model` in rounds of local steps. The training loop keeps its own optimizer.

    ::

        loader = DataLoader(dataset, job, batch_size=8, unit_batches=50)
        rounds = DiLoCo(job, model, inner, every=50, push="int4", pull="int4")
        for x, y in loader:
            inner.zero_grad()
            loss(model(x), y).backward()
            inner.step()
        rounds.finish()

    Without the loader, `units` and `batches` say what to train::

        for unit in rounds.units():
            with unit:
                for batch in rounds.batches(unit, 50):
                    ...

    job: a trainer's connection. Its units have at least `every` batches: a round ends with its unit.
    model: its trainable parameters are float32, on any device. The first process's values are the
    job's initial ones. With the loader, rows of weir.torch embeddings are pushed with each batch;
    if rounds are synchronous, these tables must be asynchronous.
    inner: any optimizer of the model's parameters. Each process keeps its state.
    every: batches of a round. fragments: parts of the table, whose pushes are spread over a round.
    overlap: batches that the worker goes on for while a push's result is on its way.
    merge: the share of that result that it takes in.
    outer: the servers' optimizer of the table. A round is one step of it.
    push, pull: codes of differences and of weights, as for `Job.table`.
    rounds: when the pushes of rounds take effect: sync, async or ssp. by_speed: slow workers'
    rounds are shorter.
    name: of the table.

    If the job takes this worker for dead, or goes back to a checkpoint, the unfinished round is
    undone: weights, buffers and the inner optimizer's state are those of the round's start. The
    same happens if a unit is left before its last batch, and to a round with a NaN or an infinity,
    which pushes a difference of zero.

    Raises InvalidError for parameters of another dtype and for rounds that do not fit, ExistsError
    if the table exists with another description.
    """

    def __init__(
        self,
        job: "Job",
        model: torch.nn.Module,
        inner: torch.optim.Optimizer,
        every: int = 50,
        fragments: int = 1,
        overlap: int = 0,
        outer: Any = Optimizer("nesterov", lr=0.7, momentum=0.9),
        push: Any = "fp32",
        pull: Any = "fp32",
        *,
        merge: float = 1.0,
        rounds: str = "sync",
        by_speed: bool = False,
        name: str = "dense",
    ) -> None:
        self.job, self.model, self.inner = job, model, inner
        self._weights = _Weights(model)
        self._check(every, fragments, overlap, merge)
        self._overlap, self._merge = overlap, merge
        self.table = job.table(
            name,
            elements=self._weights.elements,
            optimizer=outer,
            mode=Mode("local", steps=every, rounds=rounds, fragments=fragments, by_speed=by_speed),
            push=push,
            pull=pull,
        )
        chunks = -(-self._weights.elements // lib.WEIR_CHUNK)
        bounds = [f * chunks // fragments for f in range(fragments + 1)]
        self._fragments = [
            _Fragment(first, end, self._weights.elements) for first, end in zip(bounds, bounds[1:])
        ]
        self._incoming: NDArray[np.float32] = np.empty(self._weights.elements, np.float32)
        self._global = self._weights.read(0, self._weights.elements)
        self._unit: Optional[Unit] = None
        self._count = 0  # batches of the unit
        self._finished = True  # the unit's last batch has pushed
        self.rounds = 0  #: rounds that this process has pushed, of fragment 0
        self.undone = 0  #: rounds that it has undone
        self._initialise()
        self._start = self._note_start()
        bind(model, job, create=True)
        Session.of(job).dense = _OfLoader(self)

    def _check(self, every: int, fragments: int, overlap: int, merge: float) -> None:
        chunks = -(-self._weights.elements // lib.WEIR_CHUNK)
        if every < 1:
            raise errors.InvalidError(f"every is {every}; expected at least 1 batch")
        if not 1 <= fragments <= min(every, chunks):
            raise errors.InvalidError(
                f"fragments is {fragments}; expected 1 to {min(every, chunks)}: the model has "
                f"{chunks} chunks of {lib.WEIR_CHUNK} elements, and a round {every} batches"
            )
        if not 0 <= overlap < every // fragments:
            raise errors.InvalidError(
                f"overlap is {overlap}; expected less than every / fragments: {every // fragments}"
            )
        unit_batches = int(self.job._options.dataset_unit_batches)
        if 0 < unit_batches < every:
            raise errors.InvalidError(
                f"every is {every}, and units have {unit_batches} batches; expected at most as "
                "many, since a round ends with its unit: raise unit_batches"
            )
        if not 0 < merge <= 1:
            raise errors.InvalidError(f"merge is {merge}; expected a share above 0, up to 1")

    def _initialise(self) -> None:
        initialise(
            self.job,
            f"{self.table.name}-initial",
            lambda: self.table.assign(None, self._global.numpy()),
        )

    # --- The user's loop

    def units(self) -> Iterator[Unit]:
        """The units of `Job.units`. Use each one in a ``with`` block."""
        return self.job.units(on_rejoin=self.rejoined)

    def batches(self, unit: Unit, count: int) -> Iterator[Batch]:
        """The batches of `Unit.batches`: takes in weights before each, and pushes after it.

        After the last one it pushes what coding has kept back.
        """
        for batch in unit.batches(count, residuals=keeps_residuals(self.job)):
            self.begin(batch, unit.end_of(count))
            yield batch
            self.end(batch)
        if is_perhaps_last(unit) and not self.job._lease_ahead():
            push_residuals(unit)

    def finish(self) -> None:
        """Pulls the table's present weights into the model."""
        self._global.copy_(torch.from_numpy(self.table.pull()))
        self._weights.take_in(0, self._weights.elements, self._global, 1)

    def begin(self, batch: Batch, count: int) -> None:
        """Before a batch of a unit with `count` batches: takes in the weights that are due.

        `batches` calls it. Loops with another source of batches call it themselves.
        """
        if self._unit is not batch.unit:
            if not self._finished:
                self._undo()
            self._unit, self._count, self._finished = batch.unit, count, False
            self._pull_all(batch)
            self._start = self._note_start()
            return
        for fragment in self._fragments:
            if fragment.push is not None and fragment.pull is None and fragment.push.done():
                self._pull(fragment, batch)
        for f, fragment in enumerate(self._fragments):
            if self._is_due(f, batch):
                self._take_in(fragment, batch)
        if len(self._fragments) == 1 and batch.index % self._steps(batch.unit) == 0:
            self._start = self._note_start()

    def end(self, batch: Batch, also: Optional[Pushes] = None, place: int = 0) -> "PushTicket":
        """After the steps of a batch: pushes the fragments whose turn it is.

        also: pushes of other tables, as `Job.push` takes them. place: as there.
        """
        turn = [x for f, x in enumerate(self._fragments) if self._is_pushed(f, batch.index)]
        parts = [self._global[x.first : x.end] - self._weights.read(x.first, x.end) for x in turn]
        if not all(bool(torch.isfinite(part).all()) for part in parts):
            log.warning("%r: the round has a NaN or an infinity, and is undone", batch)
            self._undo_steps()
            parts = [torch.zeros_like(part) for part in parts]
        pushed: Pushes = dict(also or {})
        if turn:
            delta = np.zeros(self._weights.elements, np.float32)
            for x, part in zip(turn, parts):
                delta[x.first : x.end] = part.numpy()
            pushed[self.table] = (np.concatenate([x.chunks for x in turn]), delta)
        ticket = self.job.push(batch, pushed, place=place)
        for x in turn:
            x.pushed_by, x.push, x.pull = batch.index, ticket, None
        self.rounds += self._fragments[0] in turn
        self._finished = batch.index + 1 == self._count
        return ticket

    # --- Rounds

    @staticmethod
    def _steps(unit: Unit) -> int:
        return unit.local_steps or 1

    def _is_pushed(self, f: int, index: int) -> bool:
        assert self._unit
        steps = self._steps(self._unit)
        at = max(1, (f + 1) * steps // len(self._fragments))
        return index + 1 == self._count or index % steps + 1 == at

    def _next_push(self, batch: Batch) -> Batch:
        """The first batch from this one on that pushes: pulls of synchronous rounds name it."""
        for index in range(batch.index, self._count - 1):
            if any(self._is_pushed(f, index) for f in range(len(self._fragments))):
                return Batch(batch.unit, index)
        return Batch(batch.unit, self._count - 1)

    def _is_due(self, f: int, batch: Batch) -> bool:
        """Whether the fragment must be taken in: also before its next push in a short round."""
        x = self._fragments[f]
        apart = self._steps(batch.unit) // len(self._fragments)
        overlap = min(self._overlap, max(apart - 1, 0))
        return x.pushed_by >= 0 and (
            batch.index > x.pushed_by + overlap or self._is_pushed(f, batch.index)
        )

    # --- Pulls

    def _pull(self, x: _Fragment, batch: Batch) -> None:
        x.pull = self.job.pull_ahead(
            {self.table: x.chunks},
            batch=self._next_push(batch),
            out={self.table: self._incoming},
        )

    def _take_in(self, x: _Fragment, batch: Batch) -> None:
        if x.push is not None:
            x.push.wait()
        if x.pull is None:
            self._pull(x, batch)
        assert x.pull
        x.pull.wait()
        self._global[x.first : x.end] = torch.from_numpy(self._incoming[x.first : x.end])
        self._weights.take_in(x.first, x.end, self._global[x.first : x.end], self._merge)
        x.forget()

    def _pull_all(self, batch: Batch) -> None:
        self._forget()
        self.job.pull(
            {self.table: None}, batch=self._next_push(batch), out={self.table: self._incoming}
        )
        self._global.copy_(torch.from_numpy(self._incoming))
        self._weights.take_in(0, self._weights.elements, self._global, 1)

    def _forget(self) -> None:
        """Waits for what is under way, whose results count no more."""
        for x in self._fragments:
            try:
                if x.pull is not None:
                    x.pull.wait()
            except errors.Error as e:
                log.debug("a pull of table %s ended: %s", self.table.name, e)
            x.forget()

    # --- Undoing

    def _note_start(self) -> _Start:
        return _Start(
            _to_host(self.inner.state_dict()["state"]), [_to_host(b) for b in self.model.buffers()]
        )

    def _undo_steps(self) -> None:
        """Weights, buffers and the inner optimizer's state as at the round's start.

        Rates stay: they follow the schedule of the loop.
        """
        self.undone += 1
        self._weights.take_in(0, self._weights.elements, self._global, 1)
        present = self.inner.state_dict()
        present["state"] = copy.deepcopy(self._start.state)
        self.inner.load_state_dict(present)
        with torch.no_grad():
            for buffer, value in zip(self.model.buffers(), self._start.buffers):
                buffer.copy_(value)

    def _undo(self) -> None:
        self._forget()
        self._undo_steps()
        self._unit, self._finished = None, True

    def rejoined(self, lost: errors.Error) -> None:
        """After this worker has joined again: undoes the unfinished round. `units` calls it."""
        self._undo()
        if isinstance(lost, errors.GenerationError):
            self._initialise()


class _OfLoader:
    """Rounds as weir.torch.DataLoader sees them: a step of the loader is a batch of a round."""

    def __init__(self, rounds: DiLoCo) -> None:
        self._rounds = rounds

    def _wanted(self) -> Pushes:
        """The rounds pull for themselves."""
        return {}

    def _begin(self, step: Step, values: Pushes) -> None:
        unit = step.batch.unit
        loader = Session.of(self._rounds.job).loader
        self._rounds.begin(step.batch, loader.batches_of(unit))

    def _end(self, step: Step) -> None:
        step.ticket = self._rounds.end(step.batch, step.gradients(), step.place)
        step.over = True

    def _rejoined(self, lost: errors.Error) -> None:
        self._rounds.rejoined(lost)


class LocalSGD(DiLoCo):
    """Rounds that end with the mean of the workers' weights: DiLoCo with outer SGD at rate 1."""

    def __init__(
        self,
        job: "Job",
        model: torch.nn.Module,
        inner: torch.optim.Optimizer,
        every: int = 50,
        **options: Any,
    ) -> None:
        super().__init__(job, model, inner, every, **{"outer": Optimizer("sgd", lr=1), **options})

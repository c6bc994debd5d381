"""Work: leased units, their batches, and passes to judge."""

from __future__ import annotations

import logging
import math
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, Optional, Type

import numpy as np
from numpy.typing import NDArray

from . import errors
from ._handle import Handle
from ._library import check, ffi, lib, new, new_error
from .tickets import PullTicket, PushTicket

if TYPE_CHECKING:
    from .job import Job

__all__ = ["Batch", "Evaluation", "Unit"]

log = logging.getLogger("weir")

Floats = NDArray[np.float32]
BATCH = ffi.typeof("weir_batch *")


class Batch:
    """A batch of a leased unit. `Unit.batches` makes them."""

    def __init__(self, unit: "Unit", index: int) -> None:
        self.unit = unit
        self.index = index
        self._c = ffi.new(BATCH, (unit.pass_, unit.number, index, unit.attempt))

    def __repr__(self) -> str:
        return f"<weir.Batch pass {self.unit.pass_} unit {self.unit.number} batch {self.index}>"

    def pull(
        self,
        wanted: Mapping[Any, Any],
        *,
        out: Optional[Mapping[Any, Any]] = None,
        timeout: Optional[float] = None,
    ) -> "Dict[Any, Floats]":
        """As Job.pull, for this batch."""
        return self.unit.job.pull(wanted, batch=self, out=out, timeout=timeout)

    def pull_ahead(
        self, wanted: Mapping[Any, Any], *, out: Optional[Mapping[Any, Any]] = None
    ) -> PullTicket:
        """As Job.pull_ahead, for this batch."""
        return self.unit.job.pull_ahead(wanted, batch=self, out=out)

    def push(
        self,
        gradients: Mapping[Any, Any],
        *,
        copy: bool = True,
        place: int = 0,
        weight: float = 1,
    ) -> PushTicket:
        """As Job.push, for this batch."""
        return self.unit.job.push(self, gradients, copy=copy, place=place, weight=weight)

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
        self._last: Optional[PushTicket] = None
        self._residuals: Optional[Batch] = None  # the batch for weir._residuals

    def __repr__(self) -> str:
        return f"<weir.Unit pass {self.pass_} unit {self.number} attempt {self.attempt}>"

    def end_of(self, count: int) -> int:
        """The end of this unit's batches: `count`, or less for a part of a unit."""
        return max(min(count, self.end) if self.end else count, self.watermark)

    def batches(self, count: int, *, residuals: bool = False) -> Iterator[Batch]:
        """The batches that are left of `count`, or of the unit's part of them: perhaps none.

        residuals: counts one more, for `Batch.push_residuals`. All trainers do, or none.
        """
        count = self.end_of(count)
        err = new_error()
        with self._handle as client:
            check(lib.weir_unit_begin(client, self._c, count + residuals, err), err)
        self._residuals = Batch(self, count) if residuals else None
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
        if self._last is not None:
            try:
                self._last.wait()  # Ctrl-C can end this wait, but not the next one
            except errors.Error:
                pass  # the commit reports it
            self._last = None
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

    def __exit__(
        self,
        cls: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> bool:
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
        if isinstance(error, Exception) and not isinstance(
            error, (errors.LostError, errors.ClosedError)
        ):
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
        self,
        *,
        auc: float = float("nan"),
        logloss: float = float("nan"),
        not_numbers: int = 0,
        language: bool = False,
        stop: bool = False,
        figures: Optional[Mapping[str, float]] = None,
    ) -> None:
        """Gives the verdict. The next pass opens unless `stop` is set.

        Without figures the pass counts as not validated. Raises InvalidError for an AUC alone: the
        job keeps it beside the loss. figures: further ones by name, such as {"gauc": 0.61,
        "ndcg@10": 0.43}, which `weir status`, metrics and TensorBoard show; those that are not
        finite are left out.
        """
        if auc == auc and logloss != logloss and not not_numbers:
            raise errors.InvalidError(
                f"the verdict on pass {self.pass_} has auc={auc:g} and no logloss: give both, or neither"
            )
        verdict = new("weir_evaluation")
        setattr(verdict, "pass", self.pass_)
        verdict.auc, verdict.logloss, verdict.not_numbers = auc, logloss, not_numbers
        verdict.language, verdict.stop = language, stop
        finite = {name: value for name, value in (figures or {}).items() if math.isfinite(value)}
        names = [ffi.new("char[]", name.encode()) for name in finite]  # which outlive the call
        kept = ffi.new("weir_figure[]", list(zip(names, finite.values())))
        verdict.figures, verdict.figures_count = kept, len(finite)
        err = new_error()
        with self.job._handle as client:
            check(lib.weir_pass_evaluated(client, verdict, err), err)

"""What error feedback and row selection keep back, pushed before a trainer leaves.

It is as in weir-worker (worker/train/loop/units.h): every unit counts one batch more than it has.
A trainer that finds no other unit in the last pass pushes in that batch what it has kept back, in
full; otherwise it stays empty.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from . import errors
from .work import Unit

if TYPE_CHECKING:
    from .job import Job

log = logging.getLogger("weir")


def keeps_residuals(job: "Job") -> bool:
    """Whether a push to a table of this connection may keep something back."""
    return any(t.keeps_residuals for t in job._tables.values())


def is_perhaps_last(unit: Unit) -> bool:
    """Whether residuals are due with this unit, if no other one can be had."""
    return unit._residuals is not None and unit.pass_ + 1 == unit.job.passes


def push_residuals(unit: Unit) -> None:
    """Pushes everything that is kept back, and waits for it."""
    batch = unit._residuals
    assert batch is not None
    tables = unit.job._tables.values()
    synchronous = [t for t in tables if t.keeps_residuals and t.spec.mode == "sync"]
    try:
        for table in synchronous[:1]:  # a pull brings the batch into the step
            table.pull(np.zeros(1, np.uint64), batch=batch)
    except errors.StateError as e:
        log.debug("%r takes part in no step: %s", batch, e)
    try:
        batch.push_residuals()
    except errors.DroppedError as e:
        log.debug("%r: %s", batch, e)
    except errors.LimitError as e:
        log.warning("what was kept back is too much for one push, and stays here: %s", e)

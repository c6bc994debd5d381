"""The state of a job, and what one client has done."""

from __future__ import annotations

from typing import Any, NamedTuple

from ._library import ffi, text_of

__all__ = ["Stats", "Status"]


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


class Status(NamedTuple):
    """The state of a job, as weir/weir.h explains it (weir_job).

    state: new, running, finished, failed. audit: open, exact, wrong: whether every part of every
    push was applied exactly once, as far as the job has come.
    """

    state: str
    pass_: int
    passes: int
    units: int
    committed: int
    trainers: int
    servers: int
    servers_answered: int
    tables: int
    partitions: int
    audit: str
    generation: int
    rows: int
    batches: int
    loss: float
    rows_per_s: float
    evaluated_batches: int
    auc: float
    logloss: float
    workers_lost: int
    units_given_up: int
    batches_dropped: int
    parts_expected: int
    parts_skipped: int
    parts_applied: int
    parts_dropped: int
    parts_missing: int
    parts_double: int
    checkpoint: str
    failure: str


def _plain(value: Any) -> Any:
    return text_of(value) if isinstance(value, ffi.CData) else value


def read_status(job: Any) -> Status:
    """A weir_job as a Status."""
    words = {
        "state": ffi.typeof("weir_job_state").elements[job.state][len("WEIR_JOB_") :].lower(),
        "audit": ffi.typeof("weir_audit").elements[job.audit][len("WEIR_AUDIT_") :].lower(),
    }
    return Status(
        *(words.get(name) or _plain(getattr(job, name.rstrip("_"))) for name in Status._fields)
    )

"""Opening a connection to a job."""

from __future__ import annotations

import os
import socket
from typing import Any, Iterable, List, Mapping, NamedTuple, Optional, Union

from . import errors
from ._library import ffi, lib, new
from ._log import pipe
from .job import Job, dataset_number, settings_text

__all__ = ["Security", "connect"]

ROLES = {"trainer": 0, "evaluator": 1, "observer": 2}


class Security(NamedTuple):
    """Paths of PEM files for mutual TLS: give all three. `job` is the job that certificates name."""

    certificate: str
    key: str
    ca: str
    job: str = ""


def _default_name() -> str:
    rank = os.environ.get("RANK")
    return f"rank-{rank}" if rank else f"python-{socket.gethostname().split('.')[0]}-{os.getpid()}"


def _launched_security() -> Optional[Security]:
    files = [os.environ.get(name, "") for name in ("WEIR_CERTIFICATE", "WEIR_KEY", "WEIR_CA")]
    return Security(*files) if any(files) else None  # libweir refuses one without the others


def connect(
    ledger: Optional[str] = None,
    *,
    name: Optional[str] = None,
    role: str = "trainer",
    units: int = 0,
    rows: int = 0,
    unit_batches: int = 0,
    passes: int = 0,
    dataset: Union[int, str, bytes] = 0,
    settings: Optional[Mapping[str, Any]] = None,
    accept: Iterable[str] = (),
    timeout: float = 4.0,
    security: Optional[Security] = None,
    insecure: bool = False,
) -> Job:
    """Connects to a job.

    ledger: the address of a server: ``"unix:/path"`` or ``"HOST:PORT"``, or several separated by
    commas. None: the environment's WEIR_LEDGER, and unless `security` is given its certificates
    (WEIR_CERTIFICATE, WEIR_KEY, WEIR_CA) and `insecure` (WEIR_INSECURE).
    name: this worker's name; each live worker has its own. None: WEIR_NAME, else rank-RANK, else
    one made from host and process.
    role: trainer, evaluator (pulls and judges passes) or observer (pulls).
    units: trainers: work units of a pass. 0: `Job.describe_data` says it later, as
    weir.torch.DataLoader does. rows: examples of a pass (0: unknown). unit_batches:
    batches of a unit, approximately; the ledger then leases parts of units towards a pass's end.
    passes: trips over the data, where the servers do not say; all trainers give the same. 0: as the
    job says, or 1.
    dataset: what identifies the data, a number or a text; all trainers give the same.
    settings: what determines results, {key: value}. A trainer with another value is refused unless
    `accept` names the key.
    timeout: seconds until the job must answer.
    security: certificates for mutual TLS. insecure: without them, allows plain text to other
    machines, which others may read and change.

    Raises UnavailableError, ExistsError (the name is taken), InvalidError, ...
    """
    if not ledger:
        ledger = os.environ.get("WEIR_LEDGER", "")
        security = security or _launched_security()
        insecure = insecure or os.environ.get("WEIR_INSECURE") == "true"
    name = name or os.environ.get("WEIR_NAME") or _default_name()
    if role not in ROLES:
        raise errors.InvalidError(f"role is {role!r}; expected one of {', '.join(ROLES)}")
    options = new("weir_options")
    keep: List[Any] = []

    def text(value: str) -> Any:
        keep.append(ffi.new("char[]", value.encode()))
        return keep[-1]

    undescribed = role == "trainer" and units == 0
    options.ledger, options.name = text(ledger), text(name)
    options.role = ROLES["observer" if undescribed else role]
    options.log, options.log_arg = lib.weir_log_to_fd, pipe()
    try:
        options.dataset_fingerprint = dataset_number(dataset)
        options.dataset_units, options.dataset_rows, options.dataset_unit_batches = (
            units,
            rows,
            unit_batches,
        )
        options.passes = passes
        options.connect_timeout_ms = int(timeout * 1000)
    except (OverflowError, TypeError) as e:
        raise errors.InvalidError(f"connect: {e}") from None
    if settings:
        options.fingerprint = text(settings_text(settings))
    accepted = ffi.new("char *[]", [text(k) for k in accept])
    keep.append(accepted)
    options.accept, options.accept_count = accepted, len(accepted)
    if security:
        options.security.certificate, options.security.key = (
            text(security.certificate),
            text(security.key),
        )
        options.security.ca = text(security.ca)
        options.security.job = text(security.job) if security.job else ffi.NULL
    options.security.insecure = insecure
    return Job(ledger, options, keep, undescribed)

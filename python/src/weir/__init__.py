"""Weir: a parameter server for training.

A program connects to a job's servers, registers tables, leases work units, and for each batch pulls
rows, computes, and pushes gradients. Servers apply every batch exactly once, whichever process
dies. docs/PYTHON.md begins with a complete program.
"""

from . import errors, specs
from ._library import ffi, lib
from .errors import *  # noqa: F401,F403
from .columns import ColumnRows, Columns
from .connection import Security, connect
from .job import Job
from .rows import sum_duplicates
from .scan import Scan
from .servers import Servers, local
from .specs import (
    Admission,
    Eviction,
    Init,
    Mode,
    Optimizer,
    Pull,
    Push,
    Schedule,
    TableSpec,
)
from .status import Stats, Status
from .table import Clock, Table
from .tickets import PullTicket, PushTicket, Ticket
from .work import Batch, Evaluation, Unit

__all__ = [
    "CHUNK",
    "Batch",
    "Clock",
    "ColumnRows",
    "Columns",
    "Evaluation",
    "Job",
    "PullTicket",
    "PushTicket",
    "Scan",
    "Security",
    "Servers",
    "Stats",
    "Status",
    "Table",
    "Ticket",
    "Unit",
    "connect",
    "errors",
    "local",
    "specs",
    "sum_duplicates",
]
__all__ += errors.__all__
__all__ += specs.__all__

CHUNK: int = lib.WEIR_CHUNK
"""Elements of a chunk of a dense table."""

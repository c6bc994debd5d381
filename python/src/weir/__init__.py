"""Weir: a parameter server for training.

A program connects to a job's servers, registers tables, leases work units, and for each batch pulls
rows, computes, and pushes gradients. Servers apply every batch exactly once, whichever process
dies. docs/PYTHON.md begins with a complete program.
"""

from . import errors, tables
from ._library import ffi, lib
from .errors import *  # noqa: F401,F403
from .job import *  # noqa: F401,F403
from .local import Servers, local
from .rows import sum_duplicates
from .tables import Admission, Eviction, Init, Mode, Optimizer, Pull, Push, Schedule, TableSpec

CHUNK: int = lib.WEIR_CHUNK
"""Elements of a chunk of a dense table."""

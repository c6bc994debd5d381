"""A table of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from . import errors
from ._arrays import floats_at, keys_at
from ._library import check, ffi, lib, new_error
from .scan import Scan
from .specs import TableSpec

if TYPE_CHECKING:
    from .job import Job
    from .work import Batch

__all__ = ["Clock", "Table"]

Floats = NDArray[np.float32]


class Clock(NamedTuple):
    """A table in one partition: pushes (or closed steps) that brought it rows, and its last rate."""

    steps: int
    lr: float


class Table:
    """A table of a job. `Job.table` and `Job.find` make them."""

    def __init__(
        self,
        job: "Job",
        number: int,
        width: int,
        elements: int,
        spec: TableSpec,
        keeps_residuals: bool,
        make: Callable[["Job"], int],
    ) -> None:
        self.job = job
        self.id = number
        self.name = spec.name
        self.width = width  #: embedding tables: elements of a row; dense tables: 0
        self.elements = elements  #: dense tables: all elements; embedding tables: 0
        self.spec = spec
        self.keeps_residuals = keeps_residuals  #: a push may keep a part back, for a later one
        self._make = make

    def __repr__(self) -> str:
        shape = f"elements={self.elements}" if self.elements else f"width={self.width}"
        return f"<weir.Table {self.name} {shape}>"

    def pull(
        self,
        keys: Any = None,
        *,
        batch: "Optional[Batch]" = None,
        out: Any = None,
        timeout: Optional[float] = None,
    ) -> Floats:
        """Values of the table.

        keys: embedding tables: integers of any shape. Dense tables: None for the whole table, or
        rising numbers of chunks.
        batch: the batch that will use the values; None reads the present state.
        out: float32 memory of the result's shape, to write into.
        timeout: seconds, then TimedOutError; None: no limit. A server that does not answer may
        come back, so a pull waits for it.

        Returns float32: keys.shape + (width,), or (elements,) of a dense table, where only named
        chunks are written.
        """
        outs = None if out is None else {self: out}
        return self.job.pull({self: keys}, batch=batch, out=outs, timeout=timeout)[self]

    def assign(self, keys: Any, values: Any) -> None:
        """Sets rows, in a job that does not train. Dense tables: keys None, (elements,) values."""
        who = f"assign of table {self.name}"
        at, rows, shape = ffi.NULL, 0, (self.elements,)
        if not self.elements:
            if keys is None:
                raise errors.InvalidError(f"{who}: an embedding table needs keys")
            at, rows, shape = keys_at(keys, "assign", self.name)
            shape = (*shape, self.width)
        elif keys is not None:
            raise errors.InvalidError(f"{who}: a dense table is set as a whole; keys must be None")
        floats, err = floats_at(values, shape, "assign", self.name), new_error()
        with self.job._handle as client:
            check(lib.weir_assign(client, self.id, at, rows, floats, err), err)

    def scan(self, slots: bool = False) -> Scan:
        """The rows that servers store: pushed or assigned ones. See `Scan`.

        slots: optimizer slots follow each row's values.
        """
        return Scan(self, slots)

    def clocks(self) -> List[Clock]:
        """The table's clock in each partition."""
        with self.job._handle as client:
            clocks = ffi.new("weir_table_clock[]", lib.weir_partitions(client))
            err = new_error()
            check(lib.weir_clocks(client, self.id, clocks, err), err)
        return [Clock(int(c.steps), float(c.lr)) for c in clocks]

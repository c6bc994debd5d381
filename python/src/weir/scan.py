"""The stored rows of a table, as numpy arrays or as an Arrow C stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generator, Tuple

import numpy as np
from numpy.typing import NDArray

from ._arrow import stream_capsule
from ._library import check, ffi, lib, new, new_error

if TYPE_CHECKING:
    from .table import Table

__all__ = ["Scan"]

Rows = Tuple["NDArray[np.uint64]", "NDArray[np.float32]"]


class Scan:
    """The rows that servers store. Each iteration reads them anew.

    Iterating gives pairs (keys, values): uint64 (rows,) and float32 (rows, elements), in no
    particular order. Of a dense table each pair is a chunk: its number, and (1, elements).

    As an Arrow C stream (PyCapsule protocol) it has the columns `key` (uint64) and `values`
    (fixed-size list of float32): ``pyarrow.table(table.scan())``, ``polars.DataFrame(...)``. A
    dense table has chunks of different sizes, so its values are a list there.

    Raises MovedError if a server restarts, or a partition moves, before the end: scan again.
    """

    def __init__(self, table: "Table", slots: bool) -> None:
        self.table = table
        self.slots = slots

    def __iter__(self) -> Generator[Rows, None, None]:
        handle = self.table.job._handle
        out, err = ffi.new("weir_scanner **"), new_error()
        with handle as client:
            check(lib.weir_scan_open(out, client, self.table.id, self.slots, err), err)
            scanner = out[0]
            handle.scanners.add(scanner)
        try:
            while True:
                with handle:
                    rows = self._next(scanner)
                if rows is None:
                    return
                yield rows
        finally:
            handle.end_scan(scanner)

    def _next(self, scanner: Any) -> Any:
        got, err = new("weir_scan_rows"), new_error()
        check(lib.weir_scan_next(scanner, got, err), err)
        if not got.rows:
            return None
        shape = (got.rows, got.elements)
        keys = np.frombuffer(ffi.buffer(got.keys, 8 * got.rows), np.uint64).copy()
        values = np.frombuffer(ffi.buffer(got.values, 4 * shape[0] * shape[1]), np.float32)
        return keys, values.reshape(shape).copy()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """A capsule "arrow_array_stream". The requested schema is not used, as Arrow allows."""
        return stream_capsule(iter(self), None if self.table.elements else self.table.width)

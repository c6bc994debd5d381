"""Rows of any Arrow C stream as keys and floats, read as a job's data are."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from . import errors
from ._arrow import stream_of_capsule
from ._library import check, ffi, lib, new, new_error, text_of

__all__ = ["ColumnRows", "Columns"]


class ColumnRows(NamedTuple):
    """The rows of a batch of the stream. Fields, numbers and labels are in the order of columns."""

    keys: "NDArray[np.uint64]"
    """(nnz,) of all bags, one after the other."""
    offsets: "NDArray[np.uint32]"
    """(rows * fields + 1,) bag i is keys[offsets[i]:offsets[i + 1]], of row i // fields."""
    values: "Optional[NDArray[np.float32]]"
    """(nnz,) of pooling mean; None: all 1."""
    dense: "NDArray[np.float32]"
    """(rows, numbers), transformed."""
    labels: "NDArray[np.float32]"
    """(rows, labels); NaN: missing, where a label may be."""
    weights: "Optional[NDArray[np.float32]]"
    """(rows,); None: all 1."""
    groups: "Optional[NDArray[np.uint64]]"
    """(rows,) 0: none; None: no row has one."""


class Columns:
    """The rows of a table, as the keys and floats that a job's worker reads.

    source: an object with ``__arrow_c_stream__``: a table or RecordBatchReader of pyarrow, a
        DataFrame of polars, a relation of DuckDB, `Table.scan()`. It is read once.
    columns: `data.columns` of a job (docs/DATA.md), as dictionaries: ``{"name": "user", "kind":
        "categorical"}``. Numbers to scale need mean and std, or min and max.
    hash_buckets, positive_above: the keys of that name of a job's `data`.

    Iterating gives `ColumnRows`, a batch of the stream each. Bad rows are left out, and counted.
    Raises InvalidError if the description is wrong or does not suit the stream; the message has the
    column. Raises IoError if the stream fails.
    """

    def __init__(
        self,
        source: Any,
        columns: List[Dict[str, Any]],
        *,
        hash_buckets: Optional[int] = None,
        positive_above: Optional[float] = None,
    ) -> None:
        data: Dict[str, Any] = {"columns": columns}
        if hash_buckets is not None:
            data["hash_buckets"] = hash_buckets
        if positive_above is not None:
            data["positive_above"] = positive_above
        if not hasattr(source, "__arrow_c_stream__"):
            raise errors.InvalidError(
                f"the source is of type {type(source).__name__}; expected an object with"
                " __arrow_c_stream__, as tables of pyarrow and DataFrames of polars have it"
            )
        capsule = source.__arrow_c_stream__()
        stream = ffi.cast("struct ArrowArrayStream *", stream_of_capsule(capsule))
        out, err = ffi.new("weir_columns **"), new_error()
        text = json.dumps(data, ensure_ascii=False).encode()
        check(lib.weir_columns_open(out, text, stream, err), err)
        self._columns = ffi.gc(out[0], lib.weir_columns_close)
        self.bad_rows = 0
        """Rows of the batches so far that could not be read."""
        self.first_bad = ""
        """The first of them: "row 17: column 'price': ..."."""

    def __iter__(self) -> Iterator[ColumnRows]:
        return self

    def __next__(self) -> ColumnRows:
        got, err = new("weir_columns_rows"), new_error()
        check(lib.weir_columns_next(self._columns, got, err), err)
        self.bad_rows, self.first_bad = int(got.bad_rows), text_of(got.first_bad)
        if not got.rows:
            raise StopIteration
        return _rows_of(got)


def _copy(at: Any, dtype: Any, shape: Any) -> Any:
    """A copy of an array of the library; None for NULL."""
    if at == ffi.NULL:
        return None
    count = int(np.prod(shape))
    size = np.dtype(dtype).itemsize
    return np.frombuffer(ffi.buffer(at, count * size), dtype, count).reshape(shape).copy()


def _rows_of(got: Any) -> ColumnRows:
    rows, bags = int(got.rows), int(got.rows) * int(got.fields)
    nnz = int(got.keys_count)
    offsets = _copy(got.offsets, np.uint32, (bags + 1,))
    return ColumnRows(
        keys=_copy(got.keys, np.uint64, (nnz,)),
        offsets=np.arange(bags + 1, dtype=np.uint32) if offsets is None else offsets,
        values=_copy(got.values, np.float32, (nnz,)),
        dense=np.empty((rows, 0), np.float32)
        if not got.dense_dim
        else _copy(got.dense, np.float32, (rows, int(got.dense_dim))),
        labels=_copy(got.labels, np.float32, (rows, int(got.tasks))),
        weights=_copy(got.weights, np.float32, (rows,)),
        groups=_copy(got.groups, np.uint64, (rows,)),
    )

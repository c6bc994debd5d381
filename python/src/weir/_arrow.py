"""The Arrow C stream interface: over batches of rows, and of others' streams, without a library of Arrow.

https://arrow.apache.org/docs/format/CStreamInterface.html describes the structs. Buffers are the
batches' own numpy arrays. They live in `_alive`, by the number in private_data, until the consumer
calls `release`.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p, py_object
from typing import Any, Dict, Generator, List, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

STREAM_NAME = b"arrow_array_stream"

Rows = Tuple["NDArray[np.uint64]", "NDArray[np.float32]"]


class _Schema(Structure):
    pass


_Schema._fields_ = [
    ("format", c_char_p),
    ("name", c_char_p),
    ("metadata", c_char_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(_Schema))),
    ("dictionary", c_void_p),
    ("release", c_void_p),
    ("private_data", c_void_p),
]


class _Array(Structure):
    pass


_Array._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(_Array))),
    ("dictionary", c_void_p),
    ("release", c_void_p),
    ("private_data", c_void_p),
]


class _Stream(Structure):
    _fields_ = [
        ("get_schema", c_void_p),
        ("get_next", c_void_p),
        ("get_last_error", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    ]


_alive: Dict[int, Any] = {}
_numbers = itertools.count(1)


def _keep(thing: Any) -> int:
    number = next(_numbers)
    _alive[number] = thing
    return number


class _Source:
    """What a stream reads. elements: floats of a row; None: rows differ."""

    def __init__(
        self, rows: Generator[Rows, None, None], first: Optional[Rows], elements: Optional[int]
    ) -> None:
        self.rows: Any = rows
        self.batches = itertools.chain([] if first is None else [first], rows)
        self.elements = elements
        self.error = b""


# --- Callbacks. The consumer may call them on any thread; ctypes takes the GIL.

_RELEASE = CFUNCTYPE(None, c_void_p)


def _address(callback: Any) -> Optional[int]:
    return ctypes.cast(callback, c_void_p).value


@_RELEASE
def _release_schema(at: int) -> None:
    _release(_Schema.from_address(at))


@_RELEASE
def _release_array(at: int) -> None:
    _release(_Array.from_address(at))


def _release(node: Any) -> None:
    for i in range(node.n_children):
        child = node.children[i].contents
        if child.release:
            _RELEASE(child.release)(ctypes.addressof(child))
    _alive.pop(node.private_data, None)
    node.release = None


@_RELEASE
def _release_stream(at: int) -> None:
    stream = _Stream.from_address(at)
    source = _alive.pop(stream.private_data, None)
    if source is not None:
        source.rows.close()
    stream.release = None


@CFUNCTYPE(c_int, c_void_p, c_void_p)
def _get_schema(at: int, out: int) -> int:
    source = _alive[_Stream.from_address(at).private_data]
    _fill_schema(_Schema.from_address(out), source.elements)
    return 0


@CFUNCTYPE(c_int, c_void_p, c_void_p)
def _get_next(at: int, out: int) -> int:
    source = _alive[_Stream.from_address(at).private_data]
    array = _Array.from_address(out)
    try:
        rows = next(source.batches, None)
    except Exception as e:  # the consumer reads it by get_last_error
        source.error = str(e).encode()
        return errno.EIO
    if rows is None:
        ctypes.memset(out, 0, ctypes.sizeof(_Array))
    else:
        _fill_rows(array, rows, source.elements)
    return 0


@CFUNCTYPE(c_void_p, c_void_p)
def _get_last_error(at: int) -> Optional[int]:
    source = _alive[_Stream.from_address(at).private_data]
    return ctypes.cast(c_char_p(source.error), c_void_p).value if source.error else None


# --- Schemas and arrays


def _schema(to: _Schema, fmt: str, name: str, children: List[_Schema]) -> None:
    pointers = (POINTER(_Schema) * len(children))(*[ctypes.pointer(c) for c in children])
    texts = [ctypes.create_string_buffer(text.encode()) for text in (fmt, name)]
    to.format, to.name = (ctypes.cast(text, c_char_p) for text in texts)
    to.metadata, to.flags = None, 0
    to.n_children = len(children)
    to.children = ctypes.cast(pointers, POINTER(POINTER(_Schema)))
    to.dictionary = None
    to.release = _address(_release_schema)
    to.private_data = _keep((pointers, children, texts))


def _fill_schema(to: _Schema, elements: Optional[int]) -> None:
    item, key, values = _Schema(), _Schema(), _Schema()
    _schema(item, "f", "item", [])
    _schema(key, "L", "key", [])
    _schema(values, "+l" if elements is None else f"+w:{elements}", "values", [item])
    _schema(to, "+s", "", [key, values])


def _array(to: _Array, length: int, buffers: List[Any], children: List[_Array]) -> None:
    at = (c_void_p * len(buffers))(*[None if b is None else b.ctypes.data for b in buffers])
    pointers = (POINTER(_Array) * len(children))(*[ctypes.pointer(c) for c in children])
    to.length, to.null_count, to.offset = length, 0, 0
    to.n_buffers, to.buffers = len(buffers), ctypes.cast(at, POINTER(c_void_p))
    to.n_children, to.children = len(children), ctypes.cast(pointers, POINTER(POINTER(_Array)))
    to.dictionary = None
    to.release = _address(_release_array)
    to.private_data = _keep((at, pointers, buffers, children))


def _fill_rows(to: _Array, rows: Rows, elements: Optional[int]) -> None:
    keys, floats = rows
    item, key, values = _Array(), _Array(), _Array()
    _array(item, floats.size, [None, floats], [])
    _array(key, keys.size, [None, keys], [])
    if elements is None:
        offsets = np.arange(keys.size + 1, dtype=np.int32) * np.int32(floats.shape[1])
        _array(values, keys.size, [None, offsets], [item])
    else:
        _array(values, keys.size, [None], [item])
    _array(to, keys.size, [None], [key, values])


# --- The capsule

_api = ctypes.pythonapi
_new_capsule = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", _api))
_stream_pointer = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", _api))
_capsule_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _api))


@ctypes.PYFUNCTYPE(None, c_void_p)
def _destroy_capsule(capsule: int) -> None:
    at = _capsule_pointer(capsule, STREAM_NAME)
    stream = _Stream.from_address(at)
    if stream.release:
        _RELEASE(stream.release)(at)
    _alive.pop(-at, None)


def stream_of_capsule(capsule: Any) -> int:
    """The address of the stream in a PyCapsule, which must outlive its use or be moved from."""
    return _stream_pointer(capsule, STREAM_NAME)


def stream_capsule(batches: Generator[Rows, None, None], width: Optional[int]) -> Any:
    """A PyCapsule "arrow_array_stream" of the batches.

    width: elements of a row if no batch tells; None: rows differ.
    """
    first = next(batches, None)
    elements = width if first is None or width is None else first[1].shape[1]
    stream = _Stream()
    stream.get_schema, stream.get_next = _address(_get_schema), _address(_get_next)
    stream.get_last_error, stream.release = _address(_get_last_error), _address(_release_stream)
    stream.private_data = _keep(_Source(batches, first, elements))
    at = ctypes.addressof(stream)
    _alive[-at] = stream
    return _new_capsule(at, STREAM_NAME, _address(_destroy_capsule))

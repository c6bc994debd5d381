"""Arrays of the caller as memory for libweir, without a copy where the dtype and the layout fit."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np
from numpy.typing import NDArray

from . import errors
from ._library import ffi

F32, I64, U64 = np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.uint64)
KEYS, FLOATS = ffi.typeof("uint64_t[]"), ffi.typeof("float[]")
CPU_DEVICES = (1, 3)  # DLPack: host memory, and pinned host memory


def array_of(x: Any, what: str) -> "NDArray[Any]":
    """x as a numpy array: an array, a buffer, a sequence, or an object with __dlpack__."""
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "__dlpack__"):
        return _of_dlpack(x, what)
    try:
        return np.asarray(x)
    except (TypeError, ValueError) as e:
        raise errors.InvalidError(f"{what}: {type(x).__name__} is no array: {e}") from None


def _of_dlpack(x: Any, what: str) -> "NDArray[Any]":
    device = x.__dlpack_device__()[0]
    if device not in CPU_DEVICES:
        raise errors.InvalidError(
            f"{what} is in the memory of a device (DLPack type {int(device)}); copy it to the CPU first"
        )
    try:
        return np.from_dlpack(x)
    except Exception as e:
        hint = "; detach it first" if getattr(x, "requires_grad", False) else ""
        raise errors.InvalidError(
            f"{what}: {type(x).__name__} gives no DLPack array: {e}{hint}"
        ) from None


def keys_of(x: Any, what: str) -> "NDArray[np.uint64]":
    """Keys as a contiguous array of 64-bit integers. Negative keys are their two's complement."""
    a = array_of(x, what)
    if a.dtype != U64 and a.dtype.kind not in "iu" and a.size:
        raise errors.InvalidError(
            f"{what} have dtype {a.dtype}; expected integers, such as int64 or uint64"
        )
    if a.dtype != U64:
        a = (
            a.view(np.uint64)
            if a.dtype == I64 and a.flags.c_contiguous
            else a.astype(np.int64).view(np.uint64)
        )
    return a if a.flags.c_contiguous else np.ascontiguousarray(a)


def floats_of(
    x: Any, shape: Tuple[int, ...], what: str, writable: bool = False
) -> "NDArray[np.float32]":
    """x as it is: float32, contiguous, of this shape. No conversion hides a copy."""
    a = array_of(x, what)
    if a.dtype != F32:
        raise errors.InvalidError(
            f"{what} has dtype {a.dtype}; expected float32: convert with .astype('float32')"
        )
    if a.shape != shape:
        raise errors.InvalidError(f"{what} has shape {a.shape}; expected {shape}")
    if not a.flags.c_contiguous:
        raise errors.InvalidError(f"{what} is not contiguous; copy it with numpy.ascontiguousarray")
    if writable and isinstance(x, np.ndarray) and not a.flags.writeable:
        raise errors.InvalidError(f"{what} is read-only; the values must be written there")
    return a


def keys_at(x: Any, verb: str, table: str) -> Tuple[Any, int, Tuple[int, ...]]:
    """Memory of keys, their number and shape. The memory keeps its array alive."""
    if type(x) is np.ndarray and x.dtype is U64:
        try:
            return ffi.from_buffer(KEYS, x), x.size, x.shape
        except (BufferError, ValueError):
            pass  # not contiguous
    what = f"{verb} of table {table}: keys"
    raw = array_of(x, what)
    return ffi.from_buffer(KEYS, keys_of(raw, what)), raw.size, raw.shape


def floats_at(x: Any, shape: Tuple[int, ...], verb: str, table: str, which: str = "values") -> Any:
    """Memory of float32 values of this shape. It keeps its array alive."""
    if type(x) is np.ndarray and x.dtype is F32 and x.shape == shape:
        try:
            return ffi.from_buffer(FLOATS, x)
        except (BufferError, ValueError):
            pass  # not contiguous
    return ffi.from_buffer(FLOATS, floats_of(x, shape, f"{verb} of table {table}: {which}"))

"""Rows with duplicate keys."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np
from numpy.typing import NDArray

from . import errors
from ._arrays import array_of, floats_of, keys_of

__all__ = ["sum_duplicates"]


def sum_duplicates(keys: Any, values: Any) -> "Tuple[NDArray[np.uint64], NDArray[np.float32]]":
    """Joins rows of the same key by their sum, as a push needs them.

    keys: integers of any shape. values: float32, keys.shape + (width,).
    Returns distinct keys (n,), rising, and their sums (n, width).
    """
    raw = array_of(keys, "keys")
    v = array_of(values, "values")
    if v.ndim != raw.ndim + 1:
        raise errors.InvalidError(f"values have shape {v.shape}; expected {raw.shape} + (width,)")
    v = floats_of(v, raw.shape + v.shape[-1:], "values").reshape(-1, v.shape[-1])
    distinct, of_row = np.unique(keys_of(raw, "keys").ravel(), return_inverse=True)
    sums = np.zeros((distinct.size, v.shape[1]), np.float32)
    np.add.at(sums, of_row.ravel(), v)
    return distinct, sums

"""Keys of features that share one table.

A key is a 64-bit integer. `features` of an embedding says how ids become keys:

- None: the id is the key.
- a list of sizes: feature f has ids from 0 to sizes[f] - 1, and its keys follow those of the
  features before it: key = sizes[0] + ... + sizes[f - 1] + id.
- a number n of features: key = hash(id + 0x9e3779b97f4a7c15 * (f + 1)), modulo 2^64, with Weir's
  64-bit hash. Ids may be any int64. ``weir key --format libffm F ID`` prints the same key.

With features, the last dimension of the ids is the feature.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Union

import numpy as np
from numpy.typing import NDArray

from .. import errors

__all__ = ["Features", "feature_keys"]

Features = Union[None, int, Sequence[int]]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xD6E8FEB86659FD93)  # common/base/hash.h
HALF = np.uint64(32)


def _hash(x: "NDArray[np.uint64]") -> "NDArray[np.uint64]":
    for _ in range(2):
        x = (x ^ (x >> HALF)) * MIX
    return x ^ (x >> HALF)


def feature_keys(ids: Any, features: Features, what: str = "ids") -> "NDArray[np.uint64]":
    """The keys of ids: int64 of any shape, or (..., features). Returns uint64 of the same shape.

    Raises InvalidError for another dtype, another number of features, or an id out of range.
    """
    a = np.asarray(ids)
    if a.dtype != np.int64 and a.dtype != np.uint64:
        raise errors.InvalidError(f"{what} have dtype {a.dtype}; expected int64")
    if features is None:
        return np.ascontiguousarray(a).view(np.uint64)
    count = features if isinstance(features, int) else len(features)
    if not a.ndim or a.shape[-1] != count:
        raise errors.InvalidError(
            f"{what} have shape {a.shape}; expected (..., {count}): one id a feature"
        )
    if isinstance(features, int):
        salts = GOLDEN * np.arange(1, count + 1, dtype=np.uint64)
        return _hash(np.ascontiguousarray(a).view(np.uint64) + salts)
    sizes = np.asarray(features, a.dtype)
    outside = (a < 0) | (a >= sizes)
    if outside.any():
        where = tuple(int(i) for i in np.argwhere(outside)[0])
        raise errors.InvalidError(
            f"{what}: id {a[where]} of feature {where[-1]} is outside 0 to {sizes[where[-1]] - 1}"
        )
    return (a + (np.cumsum(sizes) - sizes)).view(np.uint64)


def check_features(features: Features, what: str) -> Optional[str]:
    """What is wrong with `features`. None: nothing."""
    sizes = [features] if isinstance(features, int) else list(features or [1])
    if not sizes or any(not isinstance(n, (int, np.integer)) or n < 1 for n in sizes):
        return f"{what}: features is {features!r}; expected a count, or a list of sizes, above 0"
    return None

"""The order of a dataset's rows in a pass.

A permutation of 0 to n - 1 as a function of (seed, pass, position), without a table: a Feistel
network of four rounds over the next even number of bits. A result of n or more goes through the
network again until it is below n (cycle walking), fewer than four times on average. Every
trainer, on every machine and with every release of numpy, computes the same order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .keys import GOLDEN, _hash

__all__ = ["shuffled"]

ROUNDS = 4


def _permute(x: "NDArray[np.uint64]", half: int, salt: int) -> "NDArray[np.uint64]":
    bits, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = x >> bits, x & mask
    for r in range(ROUNDS):
        key = np.uint64((salt + r * int(GOLDEN)) % (1 << 64))
        left, right = right, left ^ (_hash(right + key) & mask)
    return (left << bits) | right


def shuffled(first: int, count: int, n: int, seed: int, pass_: int) -> "NDArray[np.int64]":
    """Rows at the positions first to first + count - 1 of pass `pass_`. Returns int64 (count,)."""
    half = max(1, ((n - 1).bit_length() + 1) // 2)
    start = np.array([(seed * 0x2545F4914F6CDD1D + pass_) % (1 << 64)], np.uint64)
    salt = int(_hash(start)[0])
    x = _permute(np.arange(first, first + count, dtype=np.uint64), half, salt)
    outside = np.flatnonzero(x >= np.uint64(n))
    while outside.size:
        x[outside] = _permute(x[outside], half, salt)
        outside = outside[x[outside] >= np.uint64(n)]
    return x.view(np.int64)

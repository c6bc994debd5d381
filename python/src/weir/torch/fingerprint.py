"""What identifies a dataset: its class, its length, and the contents of 64 of its items."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any, Optional

import numpy as np
import torch

from .. import errors

__all__ = ["fingerprint"]

SAMPLES = 64


def _feed(to: Any, x: Any) -> None:
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu()
        x = (str(x.dtype), x.view(torch.uint8).numpy() if x.dtype == torch.bfloat16 else x.numpy())
    if isinstance(x, np.ndarray):
        to.update(f"{x.dtype}{x.shape}".encode())
        to.update(np.ascontiguousarray(x).tobytes())
    elif isinstance(x, dict):
        for key, value in x.items():
            _feed(to, key)
            _feed(to, value)
    elif isinstance(x, (list, tuple)):
        to.update(f"({len(x)}".encode())
        for value in x:
            _feed(to, value)
    elif isinstance(x, (str, bytes, int, float, bool, type(None), np.generic)):
        to.update(f"{type(x).__name__}:{x!r};".encode())
    else:
        to.update(pickle.dumps(x, 4))


def _of_item(dataset: Any, index: int) -> bytes:
    out = hashlib.blake2b(digest_size=16)
    try:
        _feed(out, dataset[index])
    except (pickle.PicklingError, TypeError, AttributeError) as e:
        raise errors.InvalidError(
            f"item {index} of {type(dataset).__name__} cannot be hashed ({e}): "
            "give the dataset a version="
        ) from None
    return out.digest()


def fingerprint(dataset: Any, n: int, version: Optional[str]) -> str:
    """Identifies a dataset of n items with indexes from 0.

    version: a text of the caller's that stands for the items. None: items at 64 even distances.
    Raises InvalidError if an item differs when it is read again, as random augmentation does.
    """
    name = f"{type(dataset).__module__}.{type(dataset).__qualname__}:{n}"
    if version is not None:
        return f"{name}:{version}"
    out = hashlib.blake2b(digest_size=16)
    for index in sorted({i * n // SAMPLES for i in range(SAMPLES)}):
        out.update(_of_item(dataset, index))
    if _of_item(dataset, 0) != _of_item(dataset, 0):
        raise errors.InvalidError(
            f"an item of {type(dataset).__name__} differs each time that it is read: "
            "give the dataset a version="
        )
    return f"{name}:{out.hexdigest()}"

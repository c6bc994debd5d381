"""Reads the rows of a step from a dataset."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np
import torch

from .. import errors
from .embedding import _Rows
from .order import shuffled
from .sizes import Sizes
from .workers import Task

Column = Union[int, str, Callable[[Any], Any]]
Columns = Union[Column, List[Column]]


def column_of(batch: Any, column: Column) -> torch.Tensor:
    return column(batch) if callable(column) else batch[column]


class Reader:
    """Reads steps. Runs in the loader's processes."""

    def __init__(
        self, dataset: Any, sizes: Sizes, collate: Any, rows: List[Tuple[_Rows, List[Column]]]
    ) -> None:
        self.dataset = dataset
        self.sizes = sizes
        self.collate = collate
        self.rows = rows
        self.iterator: Optional[Iterator[Any]] = None

    def __call__(self, task: Task) -> Tuple[int, List[Any], Dict[str, Any]]:
        """Rows of the step, its micro-batches, {table: (distinct keys, indexes of the ids)}.

        The indexes follow each other as `_places` gives them.
        """
        _, pass_, place, index = task
        first, count = self.sizes.step(place, index)
        batches, size = [], self.sizes.batch_size
        for at in range(first, first + count, size):
            batches.append(self._batch(pass_, at, min(size, first + count - at)))
        return count, batches, self._unique(batches)

    def _batch(self, pass_: int, first: int, count: int) -> Any:
        s = self.sizes
        if not s.addressed:
            return self.collate([self._next() for _ in range(count)])
        if s.shuffle:
            indexes = shuffled(first, count, s.length, s.seed, pass_)
        else:
            indexes = np.arange(first, first + count)
        if self.collate is None:
            return self.dataset[torch.from_numpy(indexes)]
        if hasattr(self.dataset, "__getitems__"):
            return self.collate(self.dataset.__getitems__(indexes.tolist()))
        return self.collate([self.dataset[i] for i in indexes.tolist()])

    def _next(self) -> Any:
        """The next item of an iterable, which begins again at its end."""
        for _ in range(2):
            if self.iterator is None:
                self.iterator = iter(self.dataset)
            try:
                return next(self.iterator)
            except StopIteration:
                self.iterator = None
        raise errors.InvalidError("the iterable has no item")

    def _unique(self, batches: List[Any]) -> Dict[str, Any]:
        keys: Dict[str, List[Any]] = {}
        for batch in batches:
            for module, columns in self.rows:
                for column in columns:
                    ids = column_of(batch, column)
                    keys.setdefault(module.table_name, []).append(module.keys(ids).ravel())
        out = {}
        for table, parts in keys.items():
            distinct, at = np.unique(np.concatenate(parts), return_inverse=True)
            out[table] = (distinct, at)
        return out


def check_iterable(
    dataset: Any, exactly_once: bool, length: Optional[int], num_workers: int, collate: Any
) -> None:
    name = type(dataset).__name__
    if exactly_once:
        raise errors.InvalidError(
            f"{name} has no items by index, so a batch could not be read again: give the loader a "
            "dataset with __len__ and __getitem__, or exactly_once=False"
        )
    if length is None:
        raise errors.InvalidError(f"{name} has no length: give length=, the rows of a pass")
    if num_workers > 1:
        raise errors.InvalidError(
            f"{name} is one iterator, and num_workers is {num_workers}: expected at most 1"
        )
    if collate is None:
        raise errors.InvalidError(f"{name} has no items by index: collate=None needs them")

"""How a dataset is cut into units, steps and micro-batches."""

from __future__ import annotations

from typing import Tuple

from .. import errors
from ..work import Unit

UNITS_MAX = 1 << 22  # in a pass


class Sizes:
    """How a dataset is cut into units, steps and micro-batches."""

    def __init__(
        self,
        length: int,
        batch_size: int,
        accumulate: int,
        unit_batches: int,
        shuffle: bool,
        seed: int,
        addressed: bool,
    ) -> None:
        for what, n in (
            ("the dataset's length", length),
            ("batch_size", batch_size),
            ("accumulate", accumulate),
            ("unit_batches", unit_batches),
        ):
            if not isinstance(n, int) or n < 1:
                raise errors.InvalidError(f"{what} is {n!r}; expected an integer of at least 1")
        self.length = length
        self.batch_size = batch_size
        self.accumulate = accumulate
        self.unit_batches = unit_batches
        self.shuffle = shuffle
        self.seed = seed
        self.addressed = addressed
        self.step_rows = batch_size * accumulate
        self.unit_rows = self.step_rows * unit_batches
        self.units = -(-length // self.unit_rows)
        if self.units > UNITS_MAX:
            raise errors.LimitError(
                f"the dataset has {self.units} units; at most {UNITS_MAX}: raise unit_batches"
            )

    def batches(self, place: int) -> int:
        """Steps of the unit at this place."""
        rows = min(self.unit_rows, self.length - place * self.unit_rows)
        return -(-rows // self.step_rows)

    @property
    def pass_steps(self) -> int:
        """Steps of a pass. Each one is a step of the tables' schedules."""
        return (self.units - 1) * self.unit_batches + self.batches(self.units - 1)

    def position(self, unit: Unit, index: int) -> int:
        """Of a unit's step in the whole training, from 1."""
        return unit.pass_ * self.pass_steps + unit.place * self.unit_batches + index + 1

    def step(self, place: int, index: int) -> Tuple[int, int]:
        """First position and number of rows of a step."""
        first = place * self.unit_rows + index * self.step_rows
        return first, min(self.step_rows, self.length - first)

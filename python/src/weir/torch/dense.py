"""A model's dense parameters and buffers as views of flat memory.

All trainable parameters follow each other in one dense table, in the order of
`Module.parameters`. Floating-point buffers, such as the running means of batch normalisation, form
another, TABLE-buffers: a trainer pushes how much its batch has changed them, which servers add.
"""

from __future__ import annotations

import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import nn

from .. import errors
from ..job import Job
from ..specs import Init, Optimizer
from ..table import Table
from .session import new_values, to_host

__all__ = ["Flat", "dense_tables"]

ADD = Optimizer("sgd", lr=1)
RETRY_S = 0.05

Named = Sequence[Tuple[str, torch.Tensor]]

# Not an attribute of the model: copies of a model have tensors of their own.
_flats: "weakref.WeakKeyDictionary[nn.Module, Dict[str, Flat]]" = weakref.WeakKeyDictionary()


class Flat:
    """Tensors as views of one vector, and the table that it stands for."""

    def __init__(self, name: str, tensors: Named) -> None:
        self.name = name
        self.tensors = [t for _, t in tensors]
        for what, t in tensors:
            if t.dtype != torch.float32:
                raise errors.InvalidError(
                    f"{what} has dtype {t.dtype}; expected torch.float32 (autocast chooses others)"
                )
            if t.device != self.tensors[0].device:
                raise errors.InvalidError(
                    f"{what} is on {t.device}, {tensors[0][0]} on {self.tensors[0].device}; "
                    "expected one device"
                )
        self.elements = sum(t.numel() for t in self.tensors)
        self.values = torch.empty(self.elements, device=self.tensors[0].device)
        for t, view in zip(self.tensors, self.views(self.values)):
            view.copy_(t.detach())
            t.data = view
        self.table: Optional[Table] = None
        self.loaded: Any = None  # what the servers gave last; its memory outlives copies from it

    def intact(self, tensors: Named) -> bool:
        """Whether these tensors are still the vector's views."""
        return [id(t) for _, t in tensors] == [id(t) for t in self.tensors] and all(
            t.data_ptr() == view.data_ptr()
            for t, view in zip(self.tensors, self.views(self.values))
        )

    def views(self, flat: torch.Tensor) -> List[torch.Tensor]:
        """A flat vector (elements) as tensors of the parameters' shapes."""
        out, at = [], 0
        for t in self.tensors:
            out.append(flat[at : at + t.numel()].view(t.shape))
            at += t.numel()
        return out

    def create(
        self, job: Job, undecayed: Callable[[str], bool], names: List[str], **more: Any
    ) -> None:
        """Finds or makes the table. The first trainer's values are the initial ones."""
        init = [
            Init("zero", elements=t.numel(), undecayed=undecayed(name))
            for name, t in zip(names, self.tensors)
        ]
        table = job.table(self.name, elements=self.elements, init=init, **more)
        self.table = table
        initialise(job, f"{self.name}-initial", lambda: table.assign(None, to_host(self.values)))

    def find(self, job: Job) -> None:
        """Finds the table and takes its values."""
        self.table = job.find(self.name)
        if self.table.elements != self.elements:
            raise errors.InvalidError(
                f"the model has {self.elements} elements; "
                f"table {self.name} has {self.table.elements}"
            )
        self.load(self.table.pull(out=self.room()))

    def room(self) -> Any:
        """Memory for a pull: float32 (elements,)."""
        return new_values((self.elements,))

    def load(self, values: Any) -> None:
        """Takes pulled values."""
        self.loaded = values
        with torch.no_grad():
            self.values.copy_(torch.from_numpy(values), non_blocking=True)

    def change(self) -> Any:
        """What to push so that the servers add what has changed since `load`."""
        return self.loaded - to_host(self.values)


def initialise(job: Job, marker: str, assign: Callable[[], None]) -> None:
    """Calls `assign` in one process of the job, before any trainer goes on.

    A worker's name serves as lock, since a name belongs to one live worker. The marker is a table,
    which checkpoints keep.
    """

    def marked() -> bool:
        try:
            job.find(marker)
            return True
        except errors.NotFoundError:
            return False

    while not marked():
        try:
            lock = job._beside(marker)
        except errors.ExistsError:
            time.sleep(RETRY_S)
            continue
        with lock:
            if not marked():
                assign()
                job.table(marker, elements=1, optimizer=ADD)


def trained(model: nn.Module) -> Named:
    """The parameters that servers hold."""
    return [(n, p) for n, p in model.named_parameters() if p.requires_grad]


def averaged(model: nn.Module) -> Named:
    """The buffers that servers hold."""
    return [(n, b) for n, b in model.named_buffers() if b.is_floating_point()]


def dense_tables(model: nn.Module, table: str) -> Tuple[Optional[Flat], Optional[Flat]]:
    """Parameters and buffers of a model as flat vectors, made once. None: it has none."""
    known = _flats.setdefault(model, {})

    def flat(name: str, tensors: Named) -> Optional[Flat]:
        if not tensors:
            return None
        if name not in known or not known[name].intact(tensors):
            known[name] = Flat(name, tensors)
        return known[name]

    return flat(table, trained(model)), flat(f"{table}-buffers", averaged(model))

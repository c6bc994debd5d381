"""What loader, embeddings and optimizer of one connection share: the step in hand.

A step is one batch of a leased unit: the micro-batches that one call of the optimizer's `step`
completes. It is over when its gradients are pushed, when it is left out, or when it is void: the
job took this worker for dead or went back to a checkpoint. A void step goes on without effect
until the loader takes the next one, so that the caller's loop needs no handler.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Protocol, Tuple

import numpy as np
import torch
from numpy.typing import NDArray

from .. import errors
from .._progress import Progress
from ..job import Job
from ..table import Table
from ..tickets import PushTicket
from ..work import Batch

__all__ = ["LOST", "Dense", "Piece", "Session", "Step"]

LOST = (errors.StaleError, errors.GenerationError)

Pushes = Dict[Table, Any]


class Piece:
    """Rows of a table in this process: distinct keys and their values, rising.

    keys uint64 (n,); leaf float32 (n, width), on the device that computes.
    """

    def __init__(self, keys: "NDArray[np.uint64]", values: Any, grad: bool = True) -> None:
        self.keys = keys
        self.leaf = torch.from_numpy(values)
        self.leaf.requires_grad_(grad)

    def to(self, device: torch.device) -> torch.Tensor:
        """The leaf, moved once. Its memory is pinned where a device exists."""
        if self.leaf.device != device:
            self._host = self.leaf  # lives until the copy is done
            moved = self.leaf.detach().to(device, non_blocking=True)
            self.leaf = moved.requires_grad_(self.leaf.requires_grad)
        return self.leaf

    def places(self, keys: "NDArray[np.uint64]") -> "Optional[NDArray[np.int64]]":
        """The index of each key. None: a key is not here."""
        if not self.keys.size:
            return None if keys.size else np.zeros(keys.shape, np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return at if (self.keys[at] == keys).all() else None


def to_host(x: torch.Tensor) -> "NDArray[np.float32]":
    """A tensor's values in host memory: its own on the CPU, else pinned memory."""
    x = x.detach()
    if x.device.type != "cpu":
        x = torch.empty(x.shape, dtype=x.dtype, pin_memory=True).copy_(x)
    return x.contiguous().numpy()


def identity(ids: torch.Tensor) -> Tuple[int, int, int]:
    """Tells a batch's tensor from others, and from itself once it has been changed."""
    return ids.data_ptr(), ids.numel(), ids._version


class Step:
    """A batch of a unit. The loader makes it.

    place: its position in the whole training, from 1; schedules go by it.
    lookups: {(module, `identity` of ids): index of each id in the first piece of its table}.
    """

    def __init__(self, batch: Batch, place: int, rows: int, micro_batches: int) -> None:
        self.batch = batch
        self.place = place
        self.rows = rows
        self.micro_batches = micro_batches
        self.micro = 0  # micro-batches handed out
        self.pieces: Dict[Table, List[Piece]] = {}
        self.lookups: Dict[Any, torch.Tensor] = {}
        self.over = False
        self.void: Optional[errors.Error] = None
        self.ticket: Optional[PushTicket] = None

    def lose(self, error: errors.Error) -> None:
        """The job no longer counts this step."""
        self.void, self.over = self.void or error, True

    def leaves(self) -> List[torch.Tensor]:
        """Rows that gradients go to."""
        return [piece.leaf for pieces in self.pieces.values() for piece in pieces]

    def gradients(self) -> Pushes:
        """The rows' gradients as a push takes them: distinct keys, rows of one key summed."""
        out: Pushes = {}
        for table, pieces in self.pieces.items():
            used = [(p.keys, p.leaf.grad) for p in pieces if p.leaf.grad is not None]
            if len(used) == 1:
                out[table] = (used[0][0], to_host(used[0][1]))
            elif used:
                keys, of_row = np.unique(np.concatenate([k for k, _ in used]), return_inverse=True)
                sums = torch.zeros(keys.size, table.width)
                grads = torch.cat([torch.from_numpy(to_host(g)) for _, g in used])
                out[table] = (keys, sums.index_add_(0, torch.from_numpy(of_row), grads).numpy())
        return out


class Dense(Protocol):
    """The optimizer, or rounds of local steps, as the loader sees them."""

    def _wanted(self) -> Dict[Table, Any]:
        """What to pull for a step."""
        ...

    def _begin(self, step: Step, values: Dict[Table, Any]) -> None:
        """A step begins with these values."""
        ...

    def _end(self, step: Step) -> None:
        """The loop is done with a step, and has not pushed it."""
        ...

    def _rejoined(self, lost: errors.Error) -> None:
        """This worker has joined again."""
        ...


class Session:
    """The state that modules of one connection share."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.step: Optional[Step] = None
        self.dense: Optional[Dense] = None
        self.loader: Any = None
        self.progress: Optional[Progress] = None  # what the loader shows

    @staticmethod
    def of(job: Job) -> "Session":
        """The session of a job."""
        return vars(job).setdefault("_torch_session", Session(job))

    def training_step(self, what: str) -> Step:
        """The step in hand. Raises StateError if there is no open one."""
        step = self.step
        if step is None:
            raise errors.StateError(
                f"{what} needs a batch in hand: call it in a loop over weir.torch.DataLoader, "
                "or look rows up under torch.no_grad()"
            )
        if step.over and not step.void:
            raise errors.StateError(
                f"{what}: {step.batch!r} is complete; its optimizer step has been taken"
            )
        return step

    def pull(
        self, table: Table, keys: "NDArray[np.uint64]", batch: Optional[Batch]
    ) -> "NDArray[np.float32]":
        """Values of distinct keys, in memory that a device can read."""
        out = new_values((keys.size, table.width))
        return self.job.pull({table: keys}, batch=batch, out={table: out})[table]


def new_values(shape: Tuple[int, ...]) -> "NDArray[np.float32]":
    """Memory for values: pinned where CUDA works, so that copies to the device are asynchronous."""
    return torch.empty(shape, pin_memory=torch.cuda.is_available()).numpy()

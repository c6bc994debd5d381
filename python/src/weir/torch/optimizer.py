"""The optimizer: gradients go to the servers, which take the step."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch
from torch import nn

from .. import errors
from ..job import Job
from ..table import Table
from ..tickets import PushTicket
from .dense import ADD, averaged, dense_tables, trained
from .embedding import _Rows
from .session import LOST, Session, Step, to_host

__all__ = ["Module", "Optimizer", "load_from"]

GRADIENT_BUFFERS = 2  # one is being filled while the other is being pushed


def bind(model: nn.Module, job: Job, create: bool) -> None:
    for module in model.modules():
        if isinstance(module, _Rows):
            module.bind(job, create)


def load_from(model: nn.Module, job: Job, table: str = "dense") -> None:
    """Takes a model's parameters and buffers from a job's servers, and connects its embeddings.

    For evaluators and observers, after training or during it. table: that of the `Optimizer`.
    Raises NotFoundError before a trainer has made the tables, InvalidError if the model differs.
    """
    bind(model, job, create=False)
    for flat in dense_tables(model, table):
        if flat:
            flat.find(job)


class Module(nn.Module):
    """A torch.nn.Module with the method `load_from`. weir.torch works with any module."""

    def load_from(self, job: Job, table: str = "dense") -> None:
        """As weir.torch.load_from."""
        load_from(self, job, table)


class Optimizer(torch.optim.Optimizer):
    """Pushes a step's gradients: rows of all embeddings and dense parameters, in one push.

    model: its weir.torch embeddings are connected, its trainable parameters become views of one
    flat vector, which is one dense table. All are float32 and on one device. The first trainer's
    values are the job's initial ones. Frozen parameters stay with the process. Floating-point
    buffers follow the servers, too.
    job: a trainer's connection.
    table: the dense table's name. optimizer, mode, push, pull: as of `Job.table`, for that table;
    embeddings have their own. undecayed: of which parameters, by name, weight decay keeps off.

    The learning rate and its schedule belong to the tables; schedulers of PyTorch have no effect.
    Clipping, torch.cuda.amp.GradScaler and accumulation work as always: clip `parameters()`, which
    has dense parameters and the rows of the step in hand.

    Raises InvalidError, ExistsError if the job's tables differ.
    """

    def __init__(
        self,
        model: nn.Module,
        job: Job,
        *,
        table: str = "dense",
        optimizer: Any = "adam",
        mode: Any = "async",
        push: Any = "fp32",
        pull: Any = "fp32",
        undecayed: Callable[[str], bool] = lambda name: False,
    ) -> None:
        self._session = Session.of(job)
        bind(model, job, create=True)
        self._dense, self._buffers = dense_tables(model, table)
        names = [name for name, _ in trained(model)]
        if self._dense:
            self._dense.create(
                job, undecayed, names, optimizer=optimizer, mode=mode, push=push, pull=pull
            )
        if self._buffers:
            every = [name for name, _ in averaged(model)]
            self._buffers.create(job, lambda name: True, every, optimizer=ADD)
        self._filling = 0  # the gradient buffer that backward fills
        self._pushed: List[Optional[PushTicket]] = [None] * GRADIENT_BUFFERS
        dense = self._dense
        self._gradients: List[torch.Tensor] = []
        self._views: List[List[torch.Tensor]] = []
        if dense:
            self._gradients = [torch.zeros_like(dense.values) for _ in range(GRADIENT_BUFFERS)]
            self._views = [dense.views(g) for g in self._gradients]
        parameters: List[Any] = list(dense.tensors) if dense else []
        super().__init__([{"params": parameters}, {"params": []}], {})
        self._session.dense = self
        self._point()

    # --- The loader's side

    def _wanted(self) -> Dict[Table, Any]:
        """What to pull for a step: {table: memory for its values}."""
        return {f.table: f.room() for f in (self._dense, self._buffers) if f and f.table}

    def _begin(self, step: Step, values: Dict[Table, Any]) -> None:
        """A step begins with these values."""
        for flat in (self._dense, self._buffers):
            if flat and flat.table in values:
                flat.load(values[flat.table])

    def _end(self, step: Step) -> None:
        """The loader leaves the step out."""

    def _rejoined(self, lost: errors.Error) -> None:
        """Nothing stays here between steps."""

    # --- The caller's side

    @property
    def param_groups(self) -> List[Dict[str, Any]]:  # pyright: ignore
        """Dense parameters, then the rows of the step in hand."""
        groups: List[Dict[str, Any]] = self.__dict__["_groups"]
        if len(groups) > 1:
            groups[1]["params"] = self._session.step.leaves() if self._session.step else []
        return groups

    @param_groups.setter
    def param_groups(self, groups: List[Dict[str, Any]]) -> None:  # pyright: ignore
        self.__dict__["_groups"] = groups

    def parameters(self) -> Iterator[torch.Tensor]:
        """All of `param_groups`, for torch.nn.utils.clip_grad_norm_."""
        for group in self.param_groups:
            yield from group["params"]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears gradients. Dense ones stay views of the flat vector."""
        del set_to_none
        for g in self._gradients[self._filling :][:1]:
            g.zero_()
        self._point()
        for leaf in self.param_groups[1]["params"]:
            leaf.grad = None

    def step(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, closure: Any = None, *, loss: Any = None
    ) -> Any:
        """Pushes the gradients of the step in hand, as one batch of the unit.

        loss: the mean loss of the step's examples, a number or a tensor; the job reports it.
        closure: as PyTorch's: computes the loss again. Returns its loss.

        If the loop does not call it for a step, as GradScaler does after an overflow, the batch
        is left out. If the job no longer counts the step, nothing happens.

        Raises StateError outside a step or before its last micro-batch, NotFiniteError for NaN or
        infinite gradients; the batch is then left out.
        """
        step = self._session.training_step("Optimizer.step")
        if closure is not None:
            with torch.enable_grad():
                closed = closure()
            loss = closed if loss is None else loss
        else:
            closed = None
        if step.micro < step.micro_batches:
            raise errors.StateError(
                f"Optimizer.step after micro-batch {step.micro} of {step.micro_batches}: "
                "call it where the loader's step_due is true"
            )
        if not step.void:
            self._push(step, loss)
        return closed

    def _push(self, step: Step, loss: Any) -> None:
        try:
            ticket = step.batch.push(
                self._collect(step), copy=False, place=step.place, weight=step.rows
            )
        except LOST as lost:
            step.lose(lost)
            return
        except errors.NotFiniteError:
            step.over = True
            raise
        step.over, step.ticket = True, ticket
        self._swap(ticket)
        if isinstance(loss, torch.Tensor):
            loss = loss.detach()
        mean = math.nan if loss is None else float(loss)
        self._session.job.progress(rows=step.rows, loss_sum=mean * step.rows)
        if self._session.progress and loss is not None:
            self._session.progress.loss(mean)

    def _collect(self, step: Step) -> Dict[Table, Any]:
        pushes = step.gradients()
        if self._dense and self._dense.table:
            flat = self._gradients[self._filling]
            for p, view in zip(self._dense.tensors, self._views[self._filling]):
                if p.grad is None:
                    view.zero_()
                elif p.grad.data_ptr() != view.data_ptr():
                    view.copy_(p.grad)
            pushes[self._dense.table] = to_host(flat)
        if self._buffers and self._buffers.table and self._buffers.loaded is not None:
            pushes[self._buffers.table] = self._buffers.change()
        return pushes

    def _swap(self, ticket: PushTicket) -> None:
        """Turns to the other gradient buffer, once its push is done."""
        if not self._gradients:
            return
        self._pushed[self._filling] = ticket
        self._filling = (self._filling + 1) % GRADIENT_BUFFERS
        other = self._pushed[self._filling]
        if other is not None:
            try:
                other.wait()
            except errors.Error:
                pass  # the unit's commit reports it
            self._pushed[self._filling] = None
        self._gradients[self._filling].zero_()
        self._point()

    def _point(self) -> None:
        if self._dense:
            for p, view in zip(self._dense.tensors, self._views[self._filling]):
                p.grad = view

    def state_dict(self) -> Dict[str, Any]:
        """Raises UnsupportedError: the servers have the state, and `Job.checkpoint` saves it."""
        raise errors.UnsupportedError(
            "the optimizer's state is on the servers: job.checkpoint() saves it"
        )

    def load_state_dict(self, state_dict: Any) -> None:
        """Raises UnsupportedError: `Servers.restore` or `weir restore` brings the state back."""
        raise errors.UnsupportedError(
            "the optimizer's state is on the servers: restore a checkpoint of the job"
        )

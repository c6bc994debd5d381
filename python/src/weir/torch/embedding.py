"""Embeddings whose rows live on the job's servers."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from .. import errors
from ..job import Job
from ..table import Table
from .keys import Features, check_features, feature_keys
from .session import LOST, Piece, Session, Step, identity

__all__ = ["Embedding", "EmbeddingBag"]


class _Rows(nn.Module):
    """A module over a table's rows. It has no parameter: `state_dict` holds no rows."""

    def __init__(self, table: str, dim: int, features: Features = None, **description: Any) -> None:
        super().__init__()
        wrong = check_features(features, f"embedding {table}")
        if wrong:
            raise errors.InvalidError(wrong)
        self.table_name = table
        self.dim = dim
        self.features = features
        self.description: Dict[str, Any] = {"init": {"kind": "normal", "a": 1.0}, **description}
        self._session: Optional[Session] = None
        self._table: Optional[Table] = None

    def extra_repr(self) -> str:
        features = "" if self.features is None else f", features={self.features}"
        return f"{self.table_name!r}, {self.dim}{features}"

    def __getstate__(self) -> Dict[str, Any]:
        """Copies and pickles have no job."""
        return {**self.__dict__, "_session": None, "_table": None}

    def bind(self, job: Job, create: bool = False) -> Table:
        """Connects the module to a job's table. `Optimizer` and `load_from` call it.

        create: make the table if the job lacks it.
        Raises NotFoundError, ExistsError (the job's table differs), InvalidError (its width does).
        """
        if create:
            table = job.table(self.table_name, width=self.dim, **self.description)
        else:
            table = job.find(self.table_name)
        if table.width != self.dim:
            raise errors.InvalidError(
                f"embedding {self.table_name} has dim {self.dim}; the job's table has {table.width}"
            )
        self._session, self._table = Session.of(job), table
        return table

    def keys(self, ids: Any) -> "NDArray[np.uint64]":
        """The keys of ids, as weir.torch.keys explains.

        ids: int64 of any shape. Returns uint64 of the same shape.
        """
        if isinstance(ids, torch.Tensor):
            ids = ids.detach().cpu().numpy()
        return feature_keys(ids, self.features, f"ids of embedding {self.table_name}")

    def _bound(self) -> Tuple[Session, Table]:
        if self._session is None or self._table is None:
            raise errors.StateError(
                f"embedding {self.table_name} has no job: make weir.torch.Optimizer(model, job), "
                "or call load_from(job)"
            )
        return self._session, self._table

    def _lookup(self, ids: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """Rows (n, dim) and the index of each id among them, of the ids' shape."""
        if ids.dtype != torch.int64:
            raise errors.InvalidError(
                f"ids of embedding {self.table_name} have dtype {ids.dtype}; expected torch.int64"
            )
        session, table = self._bound()
        if not torch.is_grad_enabled():
            distinct, at = np.unique(self.keys(ids), return_inverse=True)
            piece = Piece(distinct, session.pull(table, distinct, None), grad=False)
            return piece.to(ids.device), _index(at, ids)
        step = session.training_step(f"embedding {self.table_name}")
        pieces = step.pieces.setdefault(table, [])
        known = step.lookups.get((self, *identity(ids)))
        if known is not None and pieces and ids.is_contiguous():
            return pieces[0].to(ids.device), known.view(ids.shape)
        keys = self.keys(ids)
        for piece in pieces:
            at = piece.places(keys)
            if at is not None:
                return piece.to(ids.device), _index(at, ids)
        distinct, at = np.unique(keys, return_inverse=True)
        piece = Piece(distinct, self._pull(session, table, distinct, step))
        pieces.append(piece)
        return piece.to(ids.device), _index(at, ids)

    def _pull(
        self, session: Session, table: Table, keys: "NDArray[np.uint64]", step: Step
    ) -> "NDArray[np.float32]":
        try:
            if not step.void:
                return session.pull(table, keys, step.batch)
        except LOST as lost:
            step.lose(lost)
        return np.zeros((keys.size, table.width), np.float32)  # the step has no effect


def _index(at: "NDArray[np.int64]", ids: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(at).view(ids.shape).to(ids.device)


class Embedding(_Rows):
    """Rows of a table by id, as torch.nn.Embedding.

    table: the table's name. Modules that name one table share it.
    dim: columns, float32.
    features: how ids become keys; weir.torch.keys explains it. None: the id is the key.
    description: arguments of `Job.table`: optimizer, mode, push, pull, admission, eviction, init,
    seed. The default init is normal with standard deviation 1, as PyTorch's.

    Forward: ids int64 of any shape (with features: the last dimension is the feature), on any
    device. Returns float32, ids.shape + (dim,). With gradients enabled it needs a batch in hand of
    `DataLoader`; rows that the loader has pulled ahead are used, others are pulled at once. Under
    torch.no_grad() it reads the present rows.

    Raises InvalidError for another dtype or shape, StateError without a job or a batch.
    """

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows, at = self._lookup(ids)
        return F.embedding(at, rows)


class EmbeddingBag(_Rows):
    """Pooled rows of a table, as torch.nn.EmbeddingBag.

    mode: sum, mean or max. The other arguments are those of `Embedding`.

    Forward: ids int64 (bags, n), or (n,) with offsets int64 (bags,) where each bag begins.
    per_sample_weights: float32 of the ids' shape, for sum. Returns float32 (bags, dim).

    Raises what `Embedding` raises.
    """

    def __init__(
        self,
        table: str,
        dim: int,
        features: Features = None,
        mode: str = "sum",
        **description: Any,
    ) -> None:
        super().__init__(table, dim, features, **description)
        if mode not in ("sum", "mean", "max"):
            raise errors.InvalidError(
                f"embedding {table}: mode is {mode!r}; expected sum, mean or max"
            )
        self.mode = mode

    def forward(
        self,
        ids: torch.Tensor,
        offsets: Optional[torch.Tensor] = None,
        per_sample_weights: Optional[torch.Tensor] = None,
    ) -> torch.Tensor:
        if ids.dim() != (2 if offsets is None else 1):
            raise errors.InvalidError(
                f"ids of embedding {self.table_name} have shape {tuple(ids.shape)}; "
                f"expected {'(bags, n)' if offsets is None else '(n,) with offsets'}"
            )
        if per_sample_weights is not None and self.mode != "sum":
            raise errors.InvalidError(
                f"embedding {self.table_name}: per_sample_weights need mode sum, not {self.mode}"
            )
        rows, at = self._lookup(ids)
        return F.embedding_bag(
            at, rows, offsets, mode=self.mode, per_sample_weights=per_sample_weights
        )

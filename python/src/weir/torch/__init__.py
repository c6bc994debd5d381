"""PyTorch in front, Weir's servers behind.

A model's embeddings and dense parameters live on a job's servers. The training loop stays the
caller's::

    model = Model()  # with weir.torch.Embedding or EmbeddingBag inside
    with weir.connect(ledger) as job:
        loader = DataLoader(dataset, job, batch_size=512, num_workers=2, rows={model.items: 0})
        optimizer = Optimizer(model, job, optimizer={"kind": "adam", "lr": 1e-3})
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step(loss=loss)

The loader leases work units, so every batch counts exactly once, whichever process dies. Needs
PyTorch 1.13 or newer. Models on a GPU work through pinned memory; that path is not tested.
"""

from .data import DataLoader
from .diloco import DiLoCo, LocalSGD
from .embedding import Embedding, EmbeddingBag
from .evaluator import auc, binary_scores, evaluate
from .keys import feature_keys
from .optimizer import Module, Optimizer, load_from

__all__ = [
    "DataLoader",
    "DiLoCo",
    "Embedding",
    "EmbeddingBag",
    "LocalSGD",
    "Module",
    "Optimizer",
    "auc",
    "binary_scores",
    "evaluate",
    "feature_keys",
    "load_from",
]

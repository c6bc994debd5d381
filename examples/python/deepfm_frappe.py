"""DeepFM of one's own on the Frappe log: embeddings on Weir's servers, the loop in PyTorch.

    weir launch examples/python/clicks.yaml -- python3 examples/python/deepfm_frappe.py FRAPPE.libfm

Each line has ten ids of one id space. A tenth of the lines, by their place, tests. Each worker
prints the test AUC at its end.
"""

import sys

import torch
import torch.nn.functional as F
import weir
from torch import nn
from weir.torch import DataLoader, Embedding, Optimizer, binary_scores

FIELDS, DIM, BATCH = 10, 16, 512
ADAM = {"kind": "adam", "lr": 2e-3}


class DeepFM(nn.Module):
    """Guo et al. 2017: a factorisation machine and a network over the same embeddings."""

    def __init__(self):
        super().__init__()
        init = {"kind": "normal", "a": 0.01}
        self.rows = Embedding("rows", DIM, optimizer=ADAM, init=init)
        self.linear = Embedding("linear", 1, optimizer=ADAM, init="zero")
        self.deep = nn.Sequential(
            nn.Linear(FIELDS * DIM, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, ids):  # int64 (B, FIELDS) -> logits (B,)
        v = self.rows(ids)  # (B, FIELDS, DIM)
        pairs = (v.sum(1).square() - v.square().sum(1)).sum(1) / 2
        return self.linear(ids).sum((1, 2)) + pairs + self.deep(v.flatten(1)).squeeze(1)


def read(path):
    """Ids int64 (n, FIELDS) and labels float32 (n,)."""
    with open(path) as f:
        lines = [line.split() for line in f]
    ids = [[int(word.split(":")[0]) for word in line[1:]] for line in lines]
    return torch.tensor(ids), torch.tensor([float(line[0] == "1") for line in lines])


def main(path):
    torch.set_num_threads(1)
    ids, labels = read(path)
    tests = torch.arange(len(labels)) % 10 == 9
    train = torch.utils.data.TensorDataset(ids[~tests], labels[~tests])
    model = DeepFM()
    with weir.connect() as job:
        both = {model.rows: 0, model.linear: 0}
        loader = DataLoader(train, job, BATCH, rows=both)
        optimizer = Optimizer(model, job, optimizer=ADAM)
        for x, y in loader:
            loss = F.binary_cross_entropy_with_logits(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step(loss=loss)
        model.eval()
        weir.torch.load_from(model, job)
        print(f"test AUC {binary_scores(model, [(ids[tests], labels[tests])])['auc']:.4f}")


if __name__ == "__main__":
    main(sys.argv[1])

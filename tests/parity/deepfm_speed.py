#!/usr/bin/env python3
"""Speed twin of tests/claims/foundation 7: DeepFM in one PyTorch process on Criteo-like data: 13
numeric features, 26 power-law categories over 1 M ids, dim 16, MLP 400-400-400, batch 4096,
SparseAdam for embeddings and Adam for the rest. Prints one JSON line: {"torch", "threads",
"samples_per_s", "spread"} (median of the repetitions; spread = (max - min) / median).

    deepfm_speed.py [--threads 2] [--batches 20] [--repetitions 5]
"""
import argparse
import json
import time

import numpy as np
import torch
from torch import nn

FIELDS, DENSE, DIM, HIDDEN, BATCH, IDS = 26, 13, 16, (400, 400, 400), 4096, 1_000_000


class DeepFM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(IDS, DIM, sparse=True)
        self.first = nn.Embedding(IDS, 1, sparse=True)
        nn.init.normal_(self.embedding.weight, std=0.01)
        self.numeric = nn.Linear(DENSE, 1)
        width, layers = FIELDS * DIM + DENSE, []
        for out in HIDDEN:
            layers += [nn.Linear(width, out), nn.ReLU()]
            width = out
        self.tower = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, ids, dense):
        x = self.embedding(ids)
        pairs = 0.5 * (x.sum(dim=1) ** 2 - (x**2).sum(dim=1)).sum(dim=1)
        deep = self.tower(torch.cat([x.flatten(1), dense], dim=1)).squeeze(1)
        return self.first(ids).sum(dim=(1, 2)) + self.numeric(dense).squeeze(1) + pairs + deep


def batches(count):
    """Power-law ids, each field in its own range."""
    random = np.random.default_rng(1)
    per_field = IDS // FIELDS
    made = []
    for _ in range(count):
        rank = np.minimum(random.zipf(1.1, size=(BATCH, FIELDS)) - 1, per_field - 1)
        ids = torch.from_numpy((rank + np.arange(FIELDS) * per_field).astype(np.int64))
        dense = torch.from_numpy(random.standard_normal((BATCH, DENSE)).astype(np.float32))
        made.append((ids, dense, torch.from_numpy(random.integers(0, 2, BATCH).astype(np.float32))))
    return made


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--batches", type=int, default=20)
    a.add_argument("--repetitions", type=int, default=5)
    a = a.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model, loss, data = DeepFM(), nn.BCEWithLogitsLoss(), batches(a.batches)
    looked_up = [model.embedding.weight, model.first.weight]
    sparse = torch.optim.SparseAdam(looked_up, lr=1e-3)
    dense = torch.optim.Adam([p for p in model.parameters() if all(p is not q for q in looked_up)], lr=1e-3)
    rates = []
    for repetition in range(a.repetitions + 1):
        start = time.perf_counter()
        for ids, numeric, labels in data:
            sparse.zero_grad()
            dense.zero_grad()
            loss(model(ids, numeric), labels).backward()
            sparse.step()
            dense.step()
        if repetition > 0:  # the first one warms up
            rates.append(len(data) * BATCH / (time.perf_counter() - start))
    median = float(np.median(rates))
    print(json.dumps({"torch": torch.__version__, "threads": a.threads, "samples_per_s": median, "spread": (max(rates) - min(rates)) / median}))


if __name__ == "__main__":
    main()

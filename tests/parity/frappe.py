#!/usr/bin/env python3
"""PyTorch twins of Weir's click models on the Frappe log: same split, same hyper-parameters, one process.

    tests/parity/frappe.py --data FILE --model deepfm [--seeds 5] [--epochs 30] [--json]

Split: zlib crc32 of each line without its newline, modulo 10: 0-7 train, 8 validation, 9 test. The test AUC is that of the epoch with the
best validation AUC; training stops after `--patience` epochs without improvement. Prints one line per seed and the mean.
"""
import argparse
import json
import time
import zlib

import numpy as np
import torch
from torch import nn

FIELDS = 10
SETTINGS = {  # learning rate, L2 of embeddings as weight decay
    "lr": (2e-2, 1e-5),
    "fm": (1e-2, 3e-5),
    "deepfm": (1e-3, 1e-2),
    "dcnv2": (1e-3, 1e-2),
}


def load(path):
    parts = {"train": [], "valid": [], "test": []}
    with open(path, "rb") as f:
        for line in f:
            line = line.rstrip(b"\n")
            if not line:
                continue
            bucket = zlib.crc32(line) % 10
            name = "train" if bucket < 8 else "valid" if bucket == 8 else "test"
            words = line.split()
            parts[name].append([1 if float(words[0]) > 0 else 0] + [int(w.split(b":")[0]) for w in words[1:]])
    return {k: np.asarray(v, dtype=np.int64) for k, v in parts.items()}


def auc(labels, scores):
    """Exact area under the ROC curve, ties counted half (Mann-Whitney)."""
    order = np.argsort(scores, kind="mergesort")
    _, inverse, counts = np.unique(scores[order], return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = np.empty(len(scores))
    ranks[order] = (ends - (counts - 1) / 2.0)[inverse]
    positive = labels == 1
    p, n = positive.sum(), (~positive).sum()
    return (ranks[positive].sum() - p * (p + 1) / 2.0) / (p * n)


class Click(nn.Module):
    def __init__(self, kind, ids, dim=16, hidden=(400, 400), dropout=0.5):
        super().__init__()
        self.kind = kind
        self.bias = nn.Parameter(torch.zeros(1))
        if kind in ("lr", "fm", "deepfm"):
            self.linear = nn.Embedding(ids, 1)
            nn.init.zeros_(self.linear.weight)
        if kind != "lr":
            self.embedding = nn.Embedding(ids, dim)
            nn.init.normal_(self.embedding.weight, std=0.01)
        width = FIELDS * dim
        if kind in ("deepfm", "dcnv2"):
            layers, n = [], width
            for h in hidden:
                layers += [nn.Linear(n, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Dropout(dropout)]
                n = h
            self.deep = nn.Sequential(*layers)
            self.out = nn.Linear(n + (width if kind == "dcnv2" else 0), 1)
        if kind == "dcnv2":
            self.cross = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])

    def forward(self, ids):
        z = self.bias.expand(ids.shape[0])
        if self.kind in ("lr", "fm", "deepfm"):
            z = z + self.linear(ids).sum(dim=(1, 2))
        if self.kind == "lr":
            return z
        e = self.embedding(ids)
        if self.kind in ("fm", "deepfm"):
            z = z + 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1)).sum(1)
        if self.kind == "fm":
            return z
        x = e.flatten(1)
        if self.kind == "deepfm":
            return z + self.out(self.deep(x)).squeeze(1)
        c = x
        for layer in self.cross:
            c = x * layer(c) + c
        return z + self.out(torch.cat([self.deep(x), c], dim=1)).squeeze(1)

    def groups(self, decay):
        tables = [p for n, p in self.named_parameters() if n.startswith(("embedding", "linear"))]
        rest = [p for n, p in self.named_parameters() if not n.startswith(("embedding", "linear"))]
        return [{"params": tables, "weight_decay": decay}, {"params": rest, "weight_decay": 0.0}]


@torch.no_grad()
def score(model, ids):
    model.eval()
    return torch.cat([model(b) for b in ids.split(8192)]).double().numpy()


def run(parts, kind, seed, epochs, batch, patience):
    torch.manual_seed(seed)
    lr, decay = SETTINGS[kind]
    ids = {k: torch.from_numpy(v[:, 1:]) for k, v in parts.items()}
    labels = torch.from_numpy(parts["train"][:, 0]).float()
    model = Click(kind, int(max(v[:, 1:].max() for v in parts.values())) + 1)
    optimizer = torch.optim.Adam(model.groups(decay), lr=lr)
    best, since = (0.0, 0.0, 0), 0
    for epoch in range(epochs):
        model.train()
        for rows in torch.randperm(len(labels)).split(batch):
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(model(ids["train"][rows]), labels[rows]).backward()
            optimizer.step()
        valid = auc(parts["valid"][:, 0], score(model, ids["valid"]))
        if valid > best[0]:
            best, since = (valid, auc(parts["test"][:, 0], score(model, ids["test"])), epoch + 1), 0
        else:
            since += 1
            if since >= patience:
                break
    return best


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", required=True)
    p.add_argument("--model", choices=sorted(SETTINGS), required=True)
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--epochs", type=int, default=40)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--patience", type=int, default=5)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--json", action="store_true")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    parts = load(a.data)
    results = []
    for seed in range(1, a.seeds + 1):
        start = time.time()
        valid, test, epoch = run(parts, a.model, seed, a.epochs, a.batch, a.patience)
        results.append(test)
        if not a.json:
            print(f"{a.model} seed {seed}: best epoch {epoch}, valid AUC {valid:.4f}, test AUC {test:.4f}, {time.time() - start:.0f} s", flush=True)
    mean, std = float(np.mean(results)), float(np.std(results))
    if a.json:
        print(json.dumps({"model": a.model, "torch": torch.__version__, "test_auc": results, "mean": mean, "std": std}))
    else:
        print(f"{a.model}: mean test AUC {mean:.4f} (std {std:.4f}) over {len(results)} seeds, torch {torch.__version__}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""PyTorch twins of Weir's click models on the Frappe log: what claim 2 compares with.

Same split (zlib crc32 of the line without its newline, mod 10: 0-7 train, 8 validation, 9 test), batch, optimizer, initial values and
stopping rule as config/frappe-*.yaml; the checkpoint that is best by validation AUC is tested. Prints one JSON line:
{"model", "seeds", "test_auc": [...], "mean", "std"}. Needs torch and numpy; not part of `make test`.

    click_twins.py --data FILE.libfm --model lr|fm|deepfm|dcn_v2 [--seeds 5] [--epochs 40] [--patience 3]
"""
import argparse
import json
import zlib

import numpy as np
import torch
from torch import nn

DIM, HIDDEN, DROPOUT, BATCH = 16, (400, 400), 0.5, 512
# Learning rate, weight decay of embeddings, weight decay of first-order weights.
SETTINGS = {"lr": (2e-2, 0.0, 1e-5), "fm": (1e-2, 3e-5, 3e-5), "deepfm": (1e-3, 1e-2, 0.0), "dcn_v2": (1e-3, 1e-2, 0.0)}


def read(path):
    """parts: {"train" | "valid" | "test": (ids (n, fields) int64, labels (n) float32)}, vocabulary size."""
    rows = {"train": [], "valid": [], "test": []}
    vocabulary = {}
    with open(path, "rb") as file:
        for line in file:
            line = line.rstrip(b"\n")
            bucket = zlib.crc32(line) % 10
            label, *features = line.split()
            ids = [vocabulary.setdefault((f, feature.split(b":")[0]), len(vocabulary)) for f, feature in enumerate(features)]
            rows["train" if bucket < 8 else "valid" if bucket == 8 else "test"].append((float(label) > 0, ids))
    parts = {}
    for name, part in rows.items():
        parts[name] = (torch.tensor([ids for _, ids in part]), torch.tensor([label for label, _ in part], dtype=torch.float32))
    return parts, len(vocabulary)


class Linear(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.weight = nn.Embedding(vocabulary, 1)
        nn.init.zeros_(self.weight.weight)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, ids):
        return self.weight(ids).sum(dim=(1, 2)) + self.bias


def mlp(width):
    layers = []
    for out in HIDDEN:
        layers += [nn.Linear(width, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Dropout(DROPOUT)]
        width = out
    return nn.Sequential(*layers)


def second_order(x):
    return 0.5 * (x.sum(dim=1) ** 2 - (x**2).sum(dim=1)).sum(dim=1)


class Model(nn.Module):
    def __init__(self, kind, vocabulary, fields):
        super().__init__()
        self.kind = kind
        width = fields * DIM
        if kind != "dcn_v2":
            self.linear = Linear(vocabulary)
        if kind != "lr":
            self.embedding = nn.Embedding(vocabulary, DIM)
            nn.init.normal_(self.embedding.weight, std=0.01)
        if kind in ("deepfm", "dcn_v2"):
            self.tower = mlp(width)
        if kind == "deepfm":
            self.head = nn.Linear(HIDDEN[-1], 1, bias=False)
        if kind == "dcn_v2":
            self.cross = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
            self.head = nn.Linear(HIDDEN[-1] + width, 1)

    def forward(self, ids):
        if self.kind == "lr":
            return self.linear(ids)
        x = self.embedding(ids)
        if self.kind == "fm":
            return self.linear(ids) + second_order(x)
        flat = x.flatten(1)
        if self.kind == "deepfm":
            return self.linear(ids) + second_order(x) + self.head(self.tower(flat)).squeeze(1)
        crossed = flat
        for layer in self.cross:
            crossed = flat * layer(crossed) + crossed
        return self.head(torch.cat([self.tower(flat), crossed], dim=1)).squeeze(1)


def auc(labels, scores):
    """Mann-Whitney with mid-ranks for ties."""
    labels, scores = np.asarray(labels), np.asarray(scores, dtype=np.float64)
    values, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positive = labels > 0.5
    n = positive.sum()
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(labels) - n)))


def evaluate(model, part):
    model.eval()
    with torch.no_grad():
        return auc(part[1], torch.cat([model(ids) for ids in part[0].split(4096)]))


def optimizer_of(model):
    lr, embedding_decay, linear_decay = SETTINGS[model.kind]
    groups = {"embedding": [], "linear": [], "dense": []}
    for name, p in model.named_parameters():
        groups["embedding" if name.startswith("embedding") else "linear" if name == "linear.weight.weight" else "dense"].append(p)
    decay = {"embedding": embedding_decay, "linear": linear_decay, "dense": 0.0}
    return torch.optim.Adam([{"params": p, "weight_decay": decay[g]} for g, p in groups.items() if p], lr=lr)


def train(kind, parts, vocabulary, seed, epochs, patience):
    torch.manual_seed(seed)
    model = Model(kind, vocabulary, parts["train"][0].shape[1])
    optimizer, loss = optimizer_of(model), nn.BCEWithLogitsLoss()
    best, tested, since = 0.0, 0.0, 0
    for _ in range(epochs):
        model.train()
        for rows in torch.randperm(len(parts["train"][1])).split(BATCH):
            optimizer.zero_grad()
            loss(model(parts["train"][0][rows]), parts["train"][1][rows]).backward()
            optimizer.step()
        valid = evaluate(model, parts["valid"])
        if valid > best:
            best, tested, since = valid, evaluate(model, parts["test"]), 0
        else:
            since += 1
            if since >= patience:
                break
    return tested


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--data", required=True)
    a.add_argument("--model", choices=SETTINGS, required=True)
    a.add_argument("--seeds", type=int, default=5)
    a.add_argument("--epochs", type=int, default=40)
    a.add_argument("--patience", type=int, default=3)
    a = a.parse_args()
    torch.set_num_threads(2)
    parts, vocabulary = read(a.data)
    scores = [train(a.model, parts, vocabulary, seed, a.epochs, a.patience) for seed in range(1, a.seeds + 1)]
    print(json.dumps({"model": a.model, "seeds": a.seeds, "test_auc": scores, "mean": float(np.mean(scores)), "std": float(np.std(scores))}))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""PyTorch twins of Weir's click models on the Frappe log: same split, same hyper-parameters, one
process.

    tests/parity/frappe.py --data FILE --job config/frappe-deepfm.yaml [--seeds 5] [--json]

Model, rates, L2, schedule, batch, passes and patience are read from the job file. L2 is Adam's
weight decay, which changes every row at every step, as `decay: full` does in Weir. Split: zlib
crc32 of each line without its newline, modulo 10: 0-7 train, 8 validation, 9 test. The test AUC is
that of the epoch with the best validation AUC; training stops after `--patience` epochs without
improvement. Prints one line per seed and the mean.
"""
import argparse
import json
import math
import re
import time
import zlib

import numpy as np
import torch
from torch import nn

FIELDS = 10
NUMBER = r"([0-9][0-9.e+-]*)"
SETTINGS = {  # name: key in the job files of config/, and its default
    "kind": (r"^model: .*?\bkind: (\w+)", None),
    "dim": (rf"^model: .*\bdim: {NUMBER}", "0"),
    "cross_layers": (rf"^model: .*\bcross_layers: {NUMBER}", "0"),
    "experts": (rf"^model: .*\bexperts: {NUMBER}", "0"),
    "rank": (rf"^model: .*\brank: {NUMBER}", "0"),
    "hidden": (r"^model: .*\bhidden: \[([0-9, ]*)\]", ""),
    "cin": (r"^model: .*\bcin: \[([0-9, ]*)\]", ""),
    "dropout": (rf"^model: .*\bdropout: {NUMBER}", "0"),
    "init_std": (rf"^model: .*\binit_std: {NUMBER}", "0"),
    "embedding_l2": (rf"^model: .*\bl2: {{.*\bembedding: {NUMBER}", "0"),
    "linear_l2": (rf"^model: .*\bl2: {{.*\blinear: {NUMBER}", "0"),
    "embedding_lr": (rf"^  embedding: .*\blr: {NUMBER}", None),
    "dense_lr": (rf"^  dense: .*\blr: {NUMBER}", None),
    "embedding_schedule": (r"^  embedding: .*\bschedule: {kind: (\w+)}", "constant"),
    "dense_schedule": (r"^  dense: .*\bschedule: {kind: (\w+)}", "constant"),
    "batch": (rf"^  batch: {NUMBER}", None),
    "passes": (rf"^  passes: {NUMBER}", None),
    "patience": (rf"^  early_stop: .*\bpatience: {NUMBER}", None),
}


def settings(path):
    with open(path) as f:
        text = f.read()
    found = {}
    for name, (pattern, default) in SETTINGS.items():
        match = re.search(pattern, text, re.MULTILINE)
        if not match and default is None:
            raise SystemExit(f"{path}: {name} is not where this script looks for it")
        found[name] = match.group(1) if match else default
    for name in found:
        if name in ("hidden", "cin"):
            found[name] = [int(w) for w in found[name].split(",")] if found[name] else []
        elif name in ("dim", "cross_layers", "experts", "rank", "batch", "passes", "patience"):
            found[name] = int(found[name])
        elif not name.endswith(("kind", "schedule")):
            found[name] = float(found[name])
    if found["embedding_schedule"] != found["dense_schedule"] or found["dense_schedule"] not in ("constant", "cosine"):
        raise SystemExit(f"{path}: this script knows constant and cosine schedules, the same for both tables")
    return found


def load(path):
    parts = {"train": [], "valid": [], "test": []}
    with open(path, "rb") as f:
        for line in f:
            line = line.rstrip(b"\r\n")  # as Weir: CR LF ends a line, too
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


class Cin(nn.Module):
    """The compressed interaction network of xDeepFM: all products of a layer's maps and the fields, then a linear map of them."""

    def __init__(self, widths):
        super().__init__()
        self.layers, before = nn.ModuleList(), FIELDS
        for width in widths:
            self.layers.append(nn.Linear(before * FIELDS, width, bias=False))
            before = width

    def forward(self, e):
        x0 = e.transpose(1, 2)  # (rows, dim, fields)
        x, out = x0, []
        for layer in self.layers:
            x = layer((x.unsqueeze(3) * x0.unsqueeze(2)).flatten(2))
            out.append(x.sum(1))
        return torch.cat(out, dim=1)


class MixedCross(nn.Module):
    """A cross layer of DCN-v2 with a mixture of low-rank experts."""

    def __init__(self, width, experts, rank):
        super().__init__()
        self.v, self.u = (nn.Parameter(torch.empty(experts, *shape)) for shape in ((width, rank), (rank, width)))
        self.c = nn.Parameter(torch.empty(experts, rank, rank))
        self.gate = nn.Linear(width, experts, bias=False)
        self.bias = nn.Parameter(torch.zeros(width))
        for weight, fan_in in ((self.v, width), (self.c, rank), (self.u, rank * experts)):
            nn.init.uniform_(weight, -(fan_in**-0.5), fan_in**-0.5)

    def forward(self, x0, x):
        low = torch.tanh(torch.einsum("bn,enr->ber", x, self.v))
        mid = torch.tanh(torch.einsum("ber,ers->bes", low, self.c))
        out = torch.einsum("ber,ern->ben", mid, self.u) + self.bias
        return x0 * (out * self.gate(x).softmax(1).unsqueeze(2)).sum(1) + x


class Click(nn.Module):
    def __init__(self, s, ids):
        super().__init__()
        self.kind, dim = s["kind"], s["dim"]
        self.bias = nn.Parameter(torch.zeros(1))
        if self.kind in ("lr", "fm", "deepfm", "xdeepfm"):
            self.linear = nn.Embedding(ids, 1)
            nn.init.zeros_(self.linear.weight)
        if self.kind != "lr":
            self.embedding = nn.Embedding(ids, dim)
            nn.init.normal_(self.embedding.weight, std=s["init_std"])
        width = FIELDS * dim
        if self.kind in ("deepfm", "dcn_v2", "dcn_mix", "xdeepfm"):
            layers, n = [], width
            for h in s["hidden"]:
                layers += [nn.Linear(n, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Dropout(s["dropout"])]
                n = h
            self.deep = nn.Sequential(*layers)
            self.out = nn.Linear(n + {"dcn_v2": width, "dcn_mix": width, "xdeepfm": sum(s["cin"])}.get(self.kind, 0), 1)
        if self.kind == "dcn_v2":
            self.cross = nn.ModuleList([nn.Linear(width, width) for _ in range(s["cross_layers"])])
        if self.kind == "dcn_mix":
            self.cross = nn.ModuleList([MixedCross(width, s["experts"], s["rank"]) for _ in range(s["cross_layers"])])
        if self.kind == "xdeepfm":
            self.cin = Cin(s["cin"])

    def forward(self, ids):
        z = self.bias.expand(ids.shape[0])
        if self.kind in ("lr", "fm", "deepfm", "xdeepfm"):
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
        if self.kind == "xdeepfm":
            return z + self.out(torch.cat([self.deep(x), self.cin(e)], dim=1)).squeeze(1)
        c = x
        for layer in self.cross:
            c = layer(x, c) if self.kind == "dcn_mix" else x * layer(c) + c
        return z + self.out(torch.cat([self.deep(x), c], dim=1)).squeeze(1)

    def groups(self, s):
        def of(*tables):
            return [p for n, p in self.named_parameters() if (n.split(".")[0] if n.startswith(("embedding", "linear")) else "") in tables]
        return [
            {"params": of("embedding"), "lr": s["embedding_lr"], "weight_decay": s["embedding_l2"]},
            {"params": of("linear"), "lr": s["embedding_lr"], "weight_decay": s["linear_l2"]},
            {"params": of(""), "lr": s["dense_lr"], "weight_decay": 0.0},
        ]


@torch.no_grad()
def score(model, ids):
    model.eval()
    return torch.cat([model(b) for b in ids.split(8192)]).double().numpy()


def run(parts, s, seed):
    torch.manual_seed(seed)
    ids = {k: torch.from_numpy(v[:, 1:]) for k, v in parts.items()}
    labels = torch.from_numpy(parts["train"][:, 0]).float()
    model = Click(s, int(max(v[:, 1:].max() for v in parts.values())) + 1)
    optimizer = torch.optim.Adam([g for g in model.groups(s) if g["params"]])
    total = s["passes"] * math.ceil(len(labels) / s["batch"])
    factor = (lambda i: (1 + math.cos(math.pi * i / total)) / 2) if s["dense_schedule"] == "cosine" else lambda i: 1.0
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    best, since = (0.0, 0.0, 0), 0
    for epoch in range(s["passes"]):
        model.train()
        for rows in torch.randperm(len(labels)).split(s["batch"]):
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(model(ids["train"][rows]), labels[rows]).backward()
            optimizer.step()
            schedule.step()
        valid = auc(parts["valid"][:, 0], score(model, ids["valid"]))
        if valid > best[0]:
            best, since = (valid, auc(parts["test"][:, 0], score(model, ids["test"])), epoch + 1), 0
        else:
            since += 1
            if since >= s["patience"]:
                break
    return best


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", required=True)
    p.add_argument("--job", required=True)
    p.add_argument("--seeds", type=int, default=5)
    # Small batches gain little from threads, which wait long on a busy machine.
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--json", action="store_true")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    parts, s = load(a.data), settings(a.job)
    results = []
    for seed in range(1, a.seeds + 1):
        start = time.time()
        valid, test, epoch = run(parts, s, seed)
        results.append(test)
        if not a.json:
            print(f"{s['kind']} seed {seed}: best epoch {epoch}, valid AUC {valid:.4f}, test AUC {test:.4f}, {time.time() - start:.0f} s", flush=True)
    mean, std = float(np.mean(results)), float(np.std(results))
    if a.json:
        print(json.dumps({"model": s["kind"], "torch": torch.__version__, "test_auc": results, "mean": mean, "std": std}))
    else:
        print(f"{s['kind']}: mean test AUC {mean:.4f} (std {std:.4f}) over {len(results)} seeds, torch {torch.__version__}")


if __name__ == "__main__":
    main()

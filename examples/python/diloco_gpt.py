"""Trains a small GPT on the bytes of a text by DiLoCo: four workers that rarely talk.

    weir launch examples/python/diloco.yaml -- python3 examples/python/diloco_gpt.py TEXT

Each worker takes 50 steps of AdamW, then pushes the difference as int4.
"""

import sys

import numpy as np
import torch
import torch.nn.functional as F
import weir
from torch import nn
from weir.torch import DataLoader, DiLoCo

WIDTH, HEADS, LAYERS, CONTEXT, BATCH, ROUND = 64, 4, 2, 64, 8, 50
INT4 = {"codec": "int4", "feedback": False}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.ln_1, self.ln_2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):  # (B, L, C)
        b, n, c = x.shape
        qkv = self.c_attn(self.ln_1(x)).view(b, n, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, heads, L, C / heads)
        scores = q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        seen = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
        x = x + self.c_proj(seen.transpose(1, 2).reshape(b, n, c))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    """GPT-2 (Radford et al. 2019) over bytes. The embedding is the head, too."""

    def __init__(self, width=WIDTH, heads=HEADS, layers=LAYERS, context=CONTEXT, tokens=256):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, tokens):  # (B, L) -> (B, L, tokens)
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


def read(path):
    """Rows of CONTEXT bytes, and the next byte of each."""
    text = torch.from_numpy(np.fromfile(path, np.uint8).astype(np.int64))
    rows = text.unfold(0, CONTEXT + 1, CONTEXT)
    return torch.utils.data.TensorDataset(rows[:, :-1], rows[:, 1:])


def main(path):
    torch.set_num_threads(1)
    model = GPT()
    inner = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1)
    with weir.connect() as job, DataLoader(read(path), job, BATCH, unit_batches=ROUND) as loader:
        rounds = DiLoCo(job, model, inner, every=ROUND, push=INT4, pull="int8")
        for x, y in loader:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            inner.zero_grad()
            loss.backward()
            inner.step()
            job.progress(rows=len(x), loss_sum=loss.item() * len(x))
        rounds.finish()
        print(f"{rounds.rounds} rounds, {job.stats().bytes_pushed / 1e6:.2f} MB pushed")


if __name__ == "__main__":
    main(sys.argv[1])

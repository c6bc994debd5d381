"""Trains a GPT-2 in PyTorch by weir.torch.DiLoCo as weir-worker trains it: the same first weights,
the same batches at the same places of the training, the same rates. Claim 5 of tests/claims/python.

    diloco_gpt.py train SETTINGS.json   below `weir launch`; RANK 0 writes the validation loss
    diloco_gpt.py value SETTINGS.json   the loss of the first weights, without a job

Settings: model (folder in Hugging Face's format), train and valid (texts), out (file for the loss),
batch, round, passes, seed, lr, warmup, min, outer, push, pull.
"""

import json
import math
import os
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../examples/python"))
from diloco_gpt import GPT

MASK64 = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
NO_TARGET = -100
SEQUENCE = 64


def avalanche(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK64
    return x ^ x >> 31


def mix(seed, a, b):
    """common/base/prng_mix.h"""
    x = avalanche(seed + GOLDEN & MASK64)
    x = avalanche((x ^ a) + GOLDEN & MASK64)
    return avalanche((x ^ b) + GOLDEN & MASK64)


def rotate(x, k):
    return (x << k | x >> (64 - k)) & MASK64


class Prng:
    """common/base/prng.c: xoshiro256++"""

    def __init__(self, seed):
        self.s = [avalanche(seed + (i + 1) * GOLDEN & MASK64) for i in range(4)]

    def u64(self):
        s = self.s
        result = (rotate((s[0] + s[3]) & MASK64, 23) + s[0]) & MASK64
        t = s[1] << 17 & MASK64
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
        return result

    def below(self, bound):
        product = self.u64() * bound
        while product & MASK64 < (1 << 64) % bound:
            product = self.u64() * bound
        return product >> 64


class Text:
    """worker/data/tokens/sequences.h and worker/data/unit.c: packed sequences and their order."""

    def __init__(self, path, rows_of_unit, seed):
        self.bytes = np.fromfile(path, np.uint8).astype(np.int64)
        self.rows = (len(self.bytes) - 2) // SEQUENCE + 1
        self.of_unit, self.seed = rows_of_unit, seed
        self.units = -(-self.rows // rows_of_unit)
        self.stride = int(self.rows * 0.6180339887498949) + 1
        while math.gcd(self.stride, self.rows) != 1:
            self.stride += 1

    def order(self, unit):
        first = unit.data_unit * self.of_unit
        n = min(self.of_unit, self.rows - first)
        r, order = Prng(mix(self.seed, unit.pass_, unit.place) or 1), [0] * n
        for i in range(n):
            j = r.below(i + 1)
            order[i], order[j] = order[j], i
        return [(first + k) * self.stride % self.rows for k in order]

    def read(self, rows):
        """Tokens and targets, int64 (rows, SEQUENCE)."""
        at = np.asarray(rows)[:, None] * SEQUENCE + np.arange(SEQUENCE + 1)
        found = self.bytes[np.minimum(at, len(self.bytes) - 1)]
        x, y = np.where(at < len(self.bytes), found, 0)[:, :-1], found[:, 1:]
        y = np.where(at[:, 1:] < len(self.bytes), y, NO_TARGET)
        return torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(y)


def read_safetensors(path):
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(size)), f.read()
    header.pop("__metadata__", None)
    for name, t in header.items():
        begin, end = t["data_offsets"]
        values = np.frombuffer(data[begin:end], np.float32).reshape(t["shape"])
        yield name, torch.from_numpy(values.copy())


def load(folder):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        c = json.load(f)
    model = GPT(c["n_embd"], c["n_head"], c["n_layer"], c["n_positions"], c["vocab_size"])
    state = {}
    for name, value in read_safetensors(os.path.join(folder, "model.safetensors")):
        name = name.replace("transformer.", "").replace("attn.c_", "c_")
        name = name.replace("mlp.c_proj", "c_out").replace("mlp.c_fc", "c_fc")
        product = name.startswith("h.") and value.dim() == 2  # (in, out) in GPT-2
        state[name] = value.T.contiguous() if product else value
    model.load_state_dict(state)
    return model


def loss_of(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=NO_TARGET)


def value(model, s):
    """The mean loss of the validation text's targets."""
    text = Text(s["valid"], 32, 0)
    total = 0.0
    with torch.no_grad():
        for first in range(0, text.rows, 32):
            x, y = text.read(range(first, min(first + 32, text.rows)))
            total += loss_of(model, x, y).item() * (y != NO_TARGET).sum().item()
    return total / (len(text.bytes) - 1)


def rate(s, step, total):
    """kernels/schedule.c: cosine after warm-up."""
    if step < s["warmup"]:
        return s["lr"] * step / s["warmup"]
    x = min(1.0, (step - s["warmup"]) / (total - s["warmup"]))
    return s["lr"] * (s["min"] + (1 - s["min"]) * (1 + math.cos(math.pi * x)) / 2)


def train(s):
    import weir
    from weir.torch import DiLoCo

    workers = int(os.environ["WORLD_SIZE"])
    text = Text(s["train"], s["batch"] * s["round"], s["seed"])
    model = load(s["model"])
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    inner = torch.optim.AdamW(groups, betas=(0.9, 0.95))
    of_pass = -(-text.rows // s["batch"])
    with weir.connect(
        units=text.units, unit_batches=s["round"], rows=text.rows, dataset=s["train"]
    ) as job:
        rounds = DiLoCo(
            job, model, inner, s["round"], outer=s["outer"], push=s["push"], pull=s["pull"]
        )
        for unit in rounds.units():
            with unit:
                order = text.order(unit)
                for batch in rounds.batches(unit, -(-len(order) // s["batch"])):
                    x, y = text.read(order[batch.index * s["batch"] :][: s["batch"]])
                    place = unit.pass_ * of_pass + unit.place * s["round"] + batch.index
                    for group in inner.param_groups:
                        group["lr"] = rate(
                            s, place // workers, -(-s["passes"] * of_pass // workers)
                        )
                    loss = loss_of(model, x, y)
                    inner.zero_grad()
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
                    inner.step()
                    job.progress(rows=len(x), loss_sum=loss.item() * len(x))
        rounds.finish()
    if os.environ["RANK"] == "0":
        with open(s["out"], "w", encoding="utf-8") as f:
            f.write(f"{value(model, s):.6f}\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    with open(sys.argv[2], encoding="utf-8") as settings:
        s = json.load(settings)
    if sys.argv[1] == "train":
        train(s)
    else:
        print(f"{value(load(s['model']), s):.6f}")

#!/usr/bin/env python3
"""PyTorch twins of the models that read columns: DIN, MMoE and the two towers, on generated data.

    columns.py generate KIND DIR        train.csv, test.csv, batch.csv and the jobs of KIND in DIR
    columns.py twin KIND DIR --seeds 3  trains the twin; prints its mean figure as JSON
    columns.py gradients KIND DIR       compares the gradients of batch.csv

KIND is din, mmoe or two_tower. DIR/job.yaml trains; DIR/batch.yaml takes one step of SGD with rate 1
on batch.csv alone, so that the weights before it less those after it are the gradient. `gradients`
reads DIR/before.safetensors and DIR/after.safetensors (`weir export`) and, for each field,
DIR/before.FIELD.csv and DIR/after.FIELD.csv (`weir export --ids FIELD`). It exits 1 if the
gradient of a tensor differs by more than 1e-3 of its norm.
"""
import argparse
import csv
import json
import math
import struct
import sys

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, embedding, normalize

TRAIN, TEST, BATCH = 200000, 30000, 512
STD, DIM = 0.2, 16
RATE = {"din": 4.0e-3, "mmoe": 2.0e-3, "two_tower": 5.0e-3}
PASSES = {"din": 5, "mmoe": 5, "two_tower": 4}
TEMPERATURE, NEAREST = 0.2, 50
HIDDEN, ATTENTION, TASK_HIDDEN, EXPERTS, VECTOR = [64, 32], [32, 16], [16], 4, 16

# The columns of each kind, in the order of the list: name, kind, further keys.
COLUMNS = {
    "din": [("user", "categorical", ""), ("item", "categorical", ""), ("category", "categorical", ""),
            ("history", "sequence", ", share: item, max_length: 12"), ("click", "label", "")],
    "mmoe": [("user", "categorical", ""), ("item", "categorical", ""), ("place", "categorical", ""), ("price", "numeric", ""),
             ("click", "label", ""), ("buy", "label", ", missing: masked")],
    "two_tower": [("user", "categorical", ""), ("group", "categorical", ""), ("item", "categorical", ""),
                  ("category", "categorical", ""), ("click", "label", "")],
}
MODELS = {
    "din": f"hidden: {HIDDEN}, attention: {ATTENTION}",
    "mmoe": f"hidden: {HIDDEN}, task_hidden: {TASK_HIDDEN}, experts: {EXPERTS}",
    "two_tower": f"hidden: {HIDDEN}, vector: {VECTOR}, temperature: {TEMPERATURE}, user: [user, group], item: [item, category]",
}
FIGURES = {"din": "", "mmoe": ", best_task: buy, loss: {task_weights: [1, 2]}", "two_tower": f", rank_at: [{NEAREST}]"}


def fields(kind):
    """The columns with embeddings of their own."""
    return [name for name, what, _ in COLUMNS[kind] if what == "categorical"]


# --- Data with a planted structure


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def din_rows(rng, n):
    """A click is likely if the history has items of the row's category; users have two favourites."""
    users, items, categories = 1000, 600, 20
    taste, mood = rng.integers(0, categories, (users, 2)), rng.normal(size=users)
    for _ in range(n):
        user, item = rng.integers(users), rng.integers(items)
        length = rng.integers(0, 13)
        near = rng.random(length) < 0.5
        seen = rng.integers(0, items // categories, length) * categories
        seen += np.where(near, taste[user, rng.integers(0, 2, length)], rng.integers(0, categories, length))
        if rng.random() < 0.5:
            item = item // categories * categories + taste[user, rng.integers(2)]
        same = np.count_nonzero(seen % categories == item % categories)
        click = rng.random() < sigmoid(-2.5 + 2.2 * min(same, 3) + 0.8 * mood[user])
        yield f"u{user}", f"i{item}", f"c{item % categories}", "|".join(f"i{s}" for s in seen), int(click)


def mmoe_rows(rng, n):
    """Two labels with related effects of user, item and place, whose sign decides what the price does; a
    purchase is known of two rows in three."""
    counts = (1000, 600, 12)
    click = [rng.normal(size=count) for count in counts]
    buy = [0.6 * own + 0.8 * rng.normal(size=count) for own, count in zip(click, counts)]
    for _ in range(n):
        a, b, c, price = rng.integers(counts[0]), rng.integers(counts[1]), rng.integers(counts[2]), rng.normal()
        turn = 1 if c % 2 else -1
        clicks = rng.random() < sigmoid(click[0][a] + click[1][b] + click[2][c] + 0.8 * turn * price)
        buys = rng.random() < sigmoid(buy[0][a] + buy[1][b] + buy[2][c] - 0.8 * turn * price - 1)
        yield f"u{a}", f"i{b}", f"p{c}", f"{price:.4f}", int(clicks), int(buys) if rng.random() < 2 / 3 else ""


def two_tower_rows(rng, n):
    """Users choose items near to them in a latent space, and popular ones."""
    users, items, groups, categories = 1000, 1000, 10, 20
    centre, around = rng.normal(size=(groups, 4)), rng.normal(size=(categories, 4))
    u = centre[np.arange(users) % groups] + 0.5 * rng.normal(size=(users, 4))
    v = around[np.arange(items) % categories] + 0.5 * rng.normal(size=(items, 4))
    appeal = 1.2 * u @ v.T + np.log(1 / (1 + np.arange(items) / 50))
    chance = np.cumsum(np.exp(appeal - appeal.max(1, keepdims=True)), axis=1)
    for _ in range(n):
        a = rng.integers(users)
        b = min(int(np.searchsorted(chance[a], rng.random() * chance[a, -1])), items - 1)
        yield f"u{a}", f"g{a % groups}", f"i{b}", f"c{b % categories}", 1


def job(kind, folder, batch):
    """The job that trains, or that takes one step on batch.csv."""
    columns = "\n".join(f"    - {{name: {name}, kind: {what}{more}}}" for name, what, more in COLUMNS[kind])
    optimizer = "{kind: sgd, lr: 1}" if batch else f"{{kind: adam, lr: {RATE[kind]}, schedule: {{kind: cosine}}}}"
    files = f"train: {folder}/batch.csv" if batch else f"train: {folder}/train.csv\n  valid: {folder}/test.csv\n  test: {folder}/test.csv"
    return f"""job: {kind}
cluster: {{servers: 1, workers: 1, partitions: 4}}
data:
  format: csv
  {files}
  batch: {BATCH}
  unit_batches: 64
  columns:
{columns}
model: {{kind: {kind}, dim: {DIM}, {MODELS[kind]}, init_std: {STD}}}
tables:
  embedding: {{optimizer: {optimizer}, mode: {{kind: sync}}}}
  dense: {{optimizer: {optimizer}, mode: {{kind: sync}}}}
train: {{passes: {1 if batch else PASSES[kind]}, keep_best: false{FIGURES[kind]}{", warm_start: " + folder + "/before.safetensors" if batch else ""}}}
"""


def generate(kind, folder):
    rng = np.random.default_rng(5)
    rows = list({"din": din_rows, "mmoe": mmoe_rows, "two_tower": two_tower_rows}[kind](rng, TRAIN + TEST))
    parts = {"train": rows[:TRAIN], "test": rows[TRAIN:], "batch": rows[:BATCH]}
    for name, part in parts.items():
        with open(f"{folder}/{name}.csv", "w", newline="") as f:
            csv.writer(f).writerows([[c[0] for c in COLUMNS[kind]], *part])
    for name in ("job", "batch"):
        with open(f"{folder}/{name}.yaml", "w") as f:
            f.write(job(kind, folder, name == "batch"))


# --- Rows as tensors


class Ids:
    """Numbers the ids of a field."""

    def __init__(self):
        self.of = {}

    def __call__(self, text):
        return self.of.setdefault(text, len(self.of))


def read(kind, path, ids):
    """The columns of a file: numbers of ids, padded histories with their mask, floats (NaN: missing)."""
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    out = {}
    for name, what, more in COLUMNS[kind]:
        cells = [row[name] for row in rows]
        if what == "categorical":
            out[name] = torch.tensor([ids[name](c) for c in cells])
        elif what == "sequence":
            lists = [[ids["item"](i) for i in c.split("|") if i][-12:] for c in cells]
            out[name] = torch.tensor([h + [0] * (12 - len(h)) for h in lists])
            out["mask"] = torch.tensor([[1.0] * len(h) + [0.0] * (12 - len(h)) for h in lists])
        else:
            out[name] = torch.tensor([float(c) if c else math.nan for c in cells])
    return out


def part_of(data, rows):
    return {name: column[rows] for name, column in data.items()}


# --- The models, as functions of named weights: those of `weir export`, and "FIELD" for embeddings


def look_up(w, field, ids):
    """Training updates the rows of a batch alone, as Weir does; gradients are compared whole."""
    return embedding(ids, w[field], sparse=w[field].dtype == torch.float32)


def tower(w, name, x):
    i = 0
    while f"{name}.{i}.weight" in w:
        x = torch.relu(x @ w[f"{name}.{i}.weight"].T + w[f"{name}.{i}.bias"])
        i += 1
    return x


def din(w, d):
    item, history = look_up(w, "item", d["item"]), look_up(w, "item", d["history"])
    target = item.unsqueeze(1).expand_as(history)
    pairs = torch.cat([history, target, history - target, history * target], dim=2)
    weight = tower(w, "attention.0", pairs) @ w["attention.0.head.weight"].T + w["attention.0.head.bias"]
    pooled = (weight * d["mask"].unsqueeze(2) * history).sum(1)
    x = torch.cat([look_up(w, "user", d["user"]), item, look_up(w, "category", d["category"]), pooled], dim=1)
    return tower(w, "tower", x) @ w["head.weight"].T + w["bias"]


def mmoe(w, d):
    x = torch.cat([look_up(w, f, d[f]) for f in fields("mmoe")] + [d["price"].unsqueeze(1)], dim=1)
    experts = torch.stack([tower(w, f"expert.{e}", x) for e in range(EXPERTS)], dim=1)
    logits = []
    for t in range(2):
        gates = (x @ w[f"task.{t}.gate.weight"].T).softmax(1)
        logits.append(tower(w, f"task.{t}", (gates.unsqueeze(2) * experts).sum(1)) @ w[f"task.{t}.head.weight"].T)
    return torch.cat(logits, dim=1) + w["bias"]


def vectors(w, d, side, names):
    x = tower(w, side, torch.cat([look_up(w, f, d[f]) for f in names], dim=1))
    return normalize(x @ w[f"{side}.out.weight"].T + w[f"{side}.out.bias"])


def retrieval_loss(w, d, log_q):
    """The batch's softmax (Yi et al. 2019, eq. 4), without other rows of the same item."""
    logits = vectors(w, d, "user", ["user", "group"]) @ vectors(w, d, "item", ["item", "category"]).T / TEMPERATURE
    logits = logits - log_q[d["item"]]
    same = d["item"].unsqueeze(0) == d["item"].unsqueeze(1)
    same.fill_diagonal_(False)
    return torch.nn.functional.cross_entropy(logits.masked_fill(same, -math.inf), torch.arange(len(logits)))


def labels_of(kind, d):
    return torch.stack([d[name] for name, what, _ in COLUMNS[kind] if what == "label"], dim=1)


def loss_of(kind, w, d, log_q):
    if kind == "two_tower":
        return retrieval_loss(w, d, log_q)
    labels = labels_of(kind, d)
    known = ~labels.isnan()
    loss = binary_cross_entropy_with_logits((din if kind == "din" else mmoe)(w, d), labels.nan_to_num(), reduction="none")
    weights = torch.tensor([1.0, 2.0]) if kind == "mmoe" else torch.ones(1)
    return (loss * known * weights).sum() / len(labels)


def log_frequencies(train, items):
    """ln of each item's share of the training rows."""
    counts = torch.bincount(train["item"], minlength=items).float()
    return torch.log(counts.clamp(min=1) / counts.sum())


# --- Training


def shapes(kind):
    """Names and shapes of the dense weights; a vector that has no weight of its name starts at 0."""
    out = {}

    def layers(name, n, widths):
        for i, width in enumerate(widths):
            out[f"{name}.{i}.weight"], out[f"{name}.{i}.bias"] = (width, n), (width,)
            n = width
        return n

    if kind == "din":
        out["attention.0.head.weight"] = (1, layers("attention.0", 4 * DIM, ATTENTION))
        out["attention.0.head.bias"] = (1,)
        out["head.weight"] = (1, layers("tower", 4 * DIM, HIDDEN))
        out["bias"] = (1,)
    elif kind == "mmoe":
        n = 3 * DIM + 1
        for e in range(EXPERTS):
            width = layers(f"expert.{e}", n, HIDDEN)
        for t in range(2):
            out[f"task.{t}.gate.weight"] = (EXPERTS, n)
            out[f"task.{t}.head.weight"] = (1, layers(f"task.{t}", width, TASK_HIDDEN))
        out["bias"] = (2,)
    else:
        for side in ("user", "item"):
            out[f"{side}.out.weight"] = (VECTOR, layers(side, 2 * DIM, HIDDEN))
            out[f"{side}.out.bias"] = (VECTOR,)
    return out


def initial(kind, ids):
    w = {f: torch.randn(len(ids[f].of), DIM) * STD for f in fields(kind)}
    for name, shape in shapes(kind).items():
        of = shapes(kind).get(name.replace(".bias", ".weight"), ())
        bound = of[1] ** -0.5 if len(of) == 2 and not name.endswith("head.bias") and name != "bias" else 0.0
        w[name] = torch.empty(shape).uniform_(-bound, bound) if bound else torch.zeros(shape)
    return {name: x.requires_grad_() for name, x in w.items()}


def auc(labels, scores):
    """Exact area under the ROC curve, ties counted half (Mann-Whitney)."""
    order = np.argsort(scores, kind="mergesort")
    _, inverse, counts = np.unique(scores[order], return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = np.empty(len(scores))
    ranks[order] = (ends - (counts - 1) / 2.0)[inverse]
    positive = labels == 1
    p, n = positive.sum(), (~positive).sum()
    return float((ranks[positive].sum() - p * (p + 1) / 2.0) / (p * n))


def recall(w, catalogue, test):
    """The share of rows whose item is among the NEAREST of the catalogue for its user."""
    item = torch.full((len(w["item"]),), -1)
    item[catalogue["item"]] = torch.arange(len(catalogue["item"]))
    scores = vectors(w, test, "user", ["user", "group"]) @ vectors(w, catalogue, "item", ["item", "category"]).T
    own = scores.gather(1, item[test["item"]].unsqueeze(1))
    return float(((scores > own).sum(1) < NEAREST).double().mean())


@torch.no_grad()
def figures(kind, w, train, test):
    if kind == "two_tower":
        both = {name: torch.cat([train[name], test[name]]) for name in train}
        _, first = np.unique(both["item"].numpy(), return_index=True)
        return [recall(w, part_of(both, torch.from_numpy(first)), test)]
    scores, labels = (din if kind == "din" else mmoe)(w, test).double(), labels_of(kind, test)
    known = ~labels.isnan()
    return [auc(labels[known[:, t], t].numpy(), scores[known[:, t], t].numpy()) for t in range(labels.shape[1])]


def run(kind, ids, train, test, seed):
    torch.manual_seed(seed)
    w = initial(kind, ids)
    n = len(train["item"])
    log_q = log_frequencies(train, len(ids["item"].of))
    optimizers = [torch.optim.SparseAdam([w[f] for f in fields(kind)], lr=RATE[kind]),
                  torch.optim.Adam([x for name, x in w.items() if name not in fields(kind)], lr=RATE[kind])]
    total = PASSES[kind] * math.ceil(n / BATCH)
    schedules = [torch.optim.lr_scheduler.LambdaLR(o, lambda i: (1 + math.cos(math.pi * i / total)) / 2) for o in optimizers]
    for _ in range(PASSES[kind]):
        for rows in torch.randperm(n).split(BATCH):
            for o in optimizers:
                o.zero_grad()
            loss_of(kind, w, part_of(train, rows), log_q).backward()
            for o in optimizers + schedules:
                o.step()
    return figures(kind, w, train, test)


def twin(kind, folder, seeds):
    ids = {f: Ids() for f in fields(kind)}
    train, test = (read(kind, f"{folder}/{part}.csv", ids) for part in ("train", "test"))
    results = [run(kind, ids, train, test, seed) for seed in range(1, seeds + 1)]
    print(json.dumps({"model": kind, "torch": torch.__version__, "mean": np.mean(results, axis=0).tolist(), "all": results}))


# --- Gradients


def weights(path):
    """The dense tensors of a file of `weir export`."""
    with open(path, "rb") as f:
        data = f.read()
    length = struct.unpack_from("<Q", data)[0]
    out = {}
    for name, t in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__" and t["dtype"] == "F32" and not name.startswith(("embedding.", "linear.")):
            begin, end = (8 + length + at for at in t["data_offsets"])
            out[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).reshape(t["shape"])
    return out


def embeddings(path):
    with open(path, newline="") as f:
        rows = list(csv.reader(f))[1:]
    return {row[0]: torch.tensor([float(v) for v in row[1:]]) for row in rows}


def gradients(kind, folder):
    before, after = weights(f"{folder}/before.safetensors"), weights(f"{folder}/after.safetensors")
    ids, stepped = {f: Ids() for f in fields(kind)}, {}
    for f in fields(kind):
        old, new = (embeddings(f"{folder}/{when}.{f}.csv") for when in ("before", "after"))
        before[f] = torch.stack([old[i] for i in new])
        after[f] = torch.stack(list(new.values()))
        for i in new:
            ids[f](i)
    w = {name: x.double().requires_grad_() for name, x in before.items()}
    batch = read(kind, f"{folder}/batch.csv", ids)
    known = {f: len(before[f]) for f in fields(kind)}
    if any(len(ids[f].of) > known[f] for f in known):
        sys.exit(f"ids of batch.csv have no embedding: {[f for f in known if len(ids[f].of) > known[f]]}")
    batch = {name: x.double() if x.is_floating_point() else x for name, x in batch.items()}
    loss_of(kind, w, batch, log_frequencies(batch, len(ids["item"].of)).double()).backward()
    worst = ("", 0.0)
    for name, x in w.items():
        theirs = before[name].double() - after[name].double()
        stepped[name] = float((theirs - x.grad.reshape(theirs.shape)).norm() / x.grad.norm().clamp(min=1e-12))
        worst = max(worst, (name, stepped[name]), key=lambda pair: pair[1])
    print(f"{kind}: the gradients of {len(w)} tensors differ by at most {worst[1]:.1e} of their norm ({worst[0]})")
    sys.exit(0 if worst[1] <= 1e-3 else 1)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("verb", choices=("generate", "twin", "gradients"))
    p.add_argument("kind", choices=list(COLUMNS))
    p.add_argument("folder")
    p.add_argument("--seeds", type=int, default=3)
    # Small batches gain little from threads, which wait long on a busy machine.
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    if a.verb == "generate":
        generate(a.kind, a.folder)
    elif a.verb == "twin":
        twin(a.kind, a.folder, a.seeds)
    else:
        gradients(a.kind, a.folder)


if __name__ == "__main__":
    main()

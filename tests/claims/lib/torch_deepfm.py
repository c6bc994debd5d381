"""A DeepFM of one's own in PyTorch on the Frappe log, wholly in PyTorch or through weir.torch.

usage: torch_deepfm.py plain FILE SEED PASSES
       torch_deepfm.py weir FILE SEED PASSES WORKERS

Prints the AUC on the test rows. Rows go to test and training by a checksum of their line. Both
train on the same rows in the same order, begin with the same weights, and take Adam's steps at the
same rates. So the AUCs differ by what asynchronous pushes and several workers do.
"""

import math
import subprocess
import sys
import zlib

import numpy as np
import torch
import weir
import weir.torch
from torch import nn
from torch.utils.data import TensorDataset
from weir.torch.order import shuffled

DIM, HIDDEN, FIELDS, IDS, BATCH, UNIT_BATCHES = 16, 64, 10, 5383, 256, 16
LR, INIT, DROPOUT = 1e-3, 0.01, 0.5
L2 = 1e-2  # of embeddings, added to their gradients
TEST_TENTHS = (8, 9)


def read(path):
    """Training and test rows: ids int64 (rows, FIELDS), labels float32 (rows,)."""
    ids, labels, tests = [], [], []
    with open(path) as lines:
        for line in lines:
            label, *words = line.split()
            ids.append([int(w.split(":")[0]) for w in words])
            labels.append(float(label) > 0)
            tests.append(zlib.crc32(line.strip().encode()) % 10 in TEST_TENTHS)
    x, y, test = torch.tensor(ids), torch.tensor(labels).float(), torch.tensor(tests)
    return TensorDataset(x[~test], y[~test]), (x[test], y[test])


class DeepFM(weir.torch.Module):
    def __init__(self, embedding, linear):
        super().__init__()
        self.embedding = embedding
        self.linear = linear
        layers, width = [], FIELDS * DIM
        for _ in range(2):
            layers += [
                nn.Linear(width, HIDDEN),
                nn.BatchNorm1d(HIDDEN),
                nn.ReLU(),
                nn.Dropout(DROPOUT),
            ]
            width = HIDDEN
        self.deep = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, ids):
        v = self.embedding(ids)  # (rows, FIELDS, DIM)
        pairs = (v.sum(1) ** 2 - (v**2).sum(1)).sum(1) / 2
        return self.linear(ids).flatten(1).sum(1) + pairs + self.deep(v.flatten(1)).squeeze(1)


def steps_in_all(rows, passes):
    return passes * math.ceil(rows / BATCH)


def train_step(model, x, y, optimizer):
    loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def plain(path, seed, passes):
    data, test = read(path)
    model, _ = build(len(data), seed, passes)
    with weir.local() as servers, servers.connect() as job:
        for name in ("embedding", "linear"):
            rows = getattr(model, name).bind(job, create=True).pull(np.arange(IDS))
            setattr(model, name, nn.Embedding.from_pretrained(torch.from_numpy(rows), freeze=False))
    torch.manual_seed(seed)
    groups = [
        {"params": [model.embedding.weight, model.linear.weight], "weight_decay": L2},
        {"params": model.deep.parameters()},
    ]
    optimizer = torch.optim.Adam(groups, LR)
    total = steps_in_all(len(data), passes)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda t: (1 + math.cos(math.pi * t / total)) / 2
    )
    for pass_ in range(passes):
        order = torch.from_numpy(shuffled(0, len(data), len(data), seed, pass_))
        for part in order.split(BATCH):
            train_step(model, *data[part], optimizer)
            schedule.step()
    model.eval()
    return weir.torch.binary_scores(model, [test])["auc"]


def build(rows, seed, passes):
    schedule = {"kind": "cosine", "total": steps_in_all(rows, passes)}
    rule = {"kind": "adam", "lr": LR, "schedule": schedule}
    # full: rows that a step leaves out go on by their moments, as in torch.optim.Adam.
    rows_rule = {**rule, "decay": "full", "l2": L2}
    torch.manual_seed(seed)
    model = DeepFM(
        weir.torch.Embedding(
            "embedding", DIM, optimizer=rows_rule, init={"kind": "normal", "a": INIT}, seed=seed
        ),
        weir.torch.Embedding("linear", 1, optimizer=rows_rule, init="zero"),
    )
    return model, rule


def trainer(path, seed, passes, ledger, name):
    data, _ = read(path)
    model, rule = build(len(data), seed, passes)
    with weir.connect(ledger, name=name) as job:
        loader = weir.torch.DataLoader(
            data,
            job,
            BATCH,
            passes=passes,
            unit_batches=UNIT_BATCHES,
            seed=seed,
            collate=None,
            rows={model.embedding: 0, model.linear: 0},
        )
        optimizer = weir.torch.Optimizer(model, job, optimizer=rule)
        torch.manual_seed(seed)  # of dropout
        for x, y in loader:
            train_step(model, x, y, optimizer)


def with_weir(path, seed, passes, workers):
    data, test = read(path)
    model, _ = build(len(data), seed, passes)
    with weir.local(workers=workers) as servers:
        trainers = [
            subprocess.Popen(
                [
                    sys.executable,
                    __file__,
                    "trainer",
                    path,
                    str(seed),
                    str(passes),
                    servers.ledger,
                    f"t{i}",
                ]
            )
            for i in range(workers)
        ]
        if any([t.wait() for t in trainers]):
            sys.exit("a trainer failed")
        with servers.connect(name="test", role="observer") as job:
            if job.status().audit != "exact":
                sys.exit(f"the audit failed: {job.status()}")
            model.load_from(job)
            model.eval()
            return weir.torch.binary_scores(model, [test])["auc"]


def main():
    verb, path, *more = sys.argv[1:]
    numbers = [int(x) if x.isdigit() else x for x in more]
    if verb == "trainer":
        trainer(path, *numbers)
    else:
        print(f"{(plain if verb == 'plain' else with_weir)(path, *numbers):.6f}")


if __name__ == "__main__":
    main()

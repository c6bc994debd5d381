"""The cost of a step through weir.torch, over the same step wholly in PyTorch.

usage: torch_cost.py [ROUNDS [STEPS [WORKERS]]]

A step looks up 26 ids for each of 4096 samples among 1 M rows of 16 numbers, sums them, and trains
them with Adam. PyTorch: nn.EmbeddingBag(sparse=True) and SparseAdam in one process with two
threads. Weir: the rows are on a server; two processes, the trainer and the server. The rounds
alternate, so that both meet the same noise. Prints samples per second and the ratio of medians.
"""

import statistics
import sys
import time

import torch
import weir
import weir.torch
from torch import nn
from torch.utils.data import TensorDataset

BATCH, FIELDS, DIM, IDS, LR = 4096, 26, 16, 1000000, 1e-3
WARM = 5  # steps before the clock starts
UNIT_BATCHES = 8


def data(steps):
    g = torch.Generator().manual_seed(1)
    rows = BATCH * steps
    ids = torch.randint(0, IDS, (rows, FIELDS), generator=g)
    return TensorDataset(ids, (ids.sum(1) % 2).float())


class Model(nn.Module):
    def __init__(self, bag):
        super().__init__()
        self.bag = bag
        self.out = nn.Linear(DIM, 1)

    def forward(self, ids):
        return self.out(self.bag(ids)).squeeze(1)


def timed(loader, model, *optimizers):
    """Samples per second."""
    began, samples = 0.0, 0
    for i, (x, y) in enumerate(loader):
        if i == WARM:
            began = time.perf_counter()
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        for o in optimizers:
            o.zero_grad()
        loss.backward()
        for o in optimizers:
            o.step()
        samples += len(y) if i >= WARM else 0
    return samples / (time.perf_counter() - began)


def plain(dataset):
    torch.set_num_threads(2)
    model = Model(nn.EmbeddingBag(IDS, DIM, mode="sum", sparse=True))
    rows = list(model.bag.parameters())
    optimizers = torch.optim.SparseAdam(rows, LR), torch.optim.Adam(model.out.parameters(), LR)
    steps = len(dataset) // BATCH
    loader = (dataset[i * BATCH : (i + 1) * BATCH] for i in range(steps))
    return timed(loader, model, *optimizers)


def with_weir(dataset, workers):
    torch.set_num_threads(1)
    rule = {"kind": "adam", "lr": LR}
    model = Model(weir.torch.EmbeddingBag("rows", DIM, optimizer=rule))
    with weir.local() as servers, servers.connect(name="t") as job:
        loader = weir.torch.DataLoader(
            dataset,
            job,
            BATCH,
            workers,
            unit_batches=UNIT_BATCHES,
            rows={model.bag: 0},
            collate=None,
            shuffle=False,
        )
        optimizer = weir.torch.Optimizer(model, job, optimizer=rule)
        return timed(loader, model, optimizer)


def main():
    rounds, steps, workers = (list(map(int, sys.argv[1:])) + [5, 40, 0][len(sys.argv) - 1 :])[:3]
    dataset = data(steps)
    rates = {"PyTorch": [], "weir.torch": []}
    for _ in range(rounds):
        rates["PyTorch"].append(plain(dataset))
        rates["weir.torch"].append(with_weir(dataset, workers))
    for name, values in rates.items():
        shown = " ".join(f"{v:.0f}" for v in values)
        print(f"{name}: {statistics.median(values):.0f} samples/s ({shown})")
    print(f"{statistics.median(rates['weir.torch']) / statistics.median(rates['PyTorch']):.4f}")


if __name__ == "__main__":
    main()

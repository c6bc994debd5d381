"""Two-tower retrieval: users and items meet in one space, and a user's items lie nearest.

    weir launch examples/python/clicks.yaml -- python3 examples/python/two_tower.py

The users and items are generated: each has one of 20 tastes, and a user clicks on items of that
taste. The loss is the softmax over the batch's items (in-batch negatives). Each worker prints how
many of a user's ten nearest items have the user's taste; chance would be one in 20.
"""

import torch
import torch.nn.functional as F
import weir
from torch import nn
from weir.torch import DataLoader, Embedding, Optimizer

USERS, ITEMS, TASTES, DIM, CLICKS, BATCH, NEAREST = 2000, 1000, 20, 16, 40000, 256, 10
ADAM = {"kind": "adam", "lr": 1e-2}


class Tower(nn.Module):
    def __init__(self, table):
        super().__init__()
        init = {"kind": "normal", "a": 0.1}
        self.rows = Embedding(table, DIM, optimizer=ADAM, init=init)
        self.out = nn.Sequential(nn.Linear(DIM, 32), nn.ReLU(), nn.Linear(32, DIM))

    def forward(self, ids):  # int64 (B,) -> unit vectors (B, DIM)
        return F.normalize(self.out(self.rows(ids)), dim=1)


def tastes(count, seed):
    return torch.randint(TASTES, (count,), generator=torch.Generator().manual_seed(seed))


def make_clicks():
    """User and item of each click: int64 (CLICKS,), (CLICKS,)."""
    g = torch.Generator().manual_seed(3)
    users = torch.randint(USERS, (CLICKS,), generator=g)
    by_taste = [torch.nonzero(tastes(ITEMS, 2) == t).squeeze(1) for t in range(TASTES)]
    draws = torch.rand(CLICKS, generator=g)
    liked = [by_taste[t] for t in tastes(USERS, 1)[users]]
    items = torch.stack([items[int(d * len(items))] for items, d in zip(liked, draws)])
    return users, items


def precision(towers):
    """The share of the nearest items that have the user's taste."""
    with torch.no_grad():
        scores = towers.user(torch.arange(USERS)) @ towers.item(torch.arange(ITEMS)).T
    nearest = scores.topk(NEAREST, 1).indices
    return (tastes(ITEMS, 2)[nearest] == tastes(USERS, 1)[:, None]).float().mean().item()


def main():
    torch.set_num_threads(1)
    data = torch.utils.data.TensorDataset(*make_clicks())
    towers = nn.ModuleDict({"user": Tower("users"), "item": Tower("items")})
    towers.user, towers.item = towers["user"], towers["item"]
    with weir.connect() as job:
        loader = DataLoader(data, job, BATCH, rows={towers.user.rows: 0, towers.item.rows: 1})
        optimizer = Optimizer(towers, job, optimizer=ADAM)
        for users, items in loader:
            logits = towers.user(users) @ towers.item(items).T / 0.1  # (B, B)
            loss = F.cross_entropy(logits, torch.arange(len(users)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step(loss=loss)
        weir.torch.load_from(towers, job)
        print(f"of the nearest items, {100 * precision(towers):.1f} % have the user's taste")


if __name__ == "__main__":
    main()

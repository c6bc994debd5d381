"""Trainers of one's own with reading processes, killed with kill -9 at random moments.

usage: torch_killed.py KILLS SEED

Two trainers at a time share a job whose rows count how often each sample was trained. A victim is
drawn, killed at a random time after its first batch, and started again under its name. The last
line: kills, the audit's missing and double parts, rows whose count is not the passes, processes
left over, and trainers that failed.
"""

import random
import signal
import subprocess
import sys
import time

import numpy as np
import torch
import weir
import weir.torch
from torch.utils.data import TensorDataset

SAMPLES, BATCH, UNIT_BATCHES, TRAINERS, READERS = 20000, 20, 5, 2, 2
STEP_S = 0.02  # a step takes at least this long, so that the job outlasts the kills
LONGEST_LIFE_S = 1.5  # of a trainer, from its first batch
PASSES_A_KILL = 0.4


def train(ledger, name, passes):
    torch.set_num_threads(1)
    counts = weir.torch.Embedding("counts", 1, optimizer={"kind": "sgd", "lr": 1}, init="zero")
    dense = torch.nn.Linear(8, 1, bias=False)
    model = torch.nn.ModuleList([counts, dense])
    with weir.connect(ledger, name=name) as job:
        loader = weir.torch.DataLoader(
            TensorDataset(torch.arange(SAMPLES)),
            job,
            BATCH,
            READERS,
            passes=passes,
            unit_batches=UNIT_BATCHES,
            rows={counts: 0},
        )
        optimizer = weir.torch.Optimizer(model, job)
        for i, (x,) in enumerate(loader):
            if i == 0:
                print("begun", flush=True)
            (dense.weight.sum() - counts(x).sum()).backward()
            time.sleep(STEP_S)
            optimizer.step()
            optimizer.zero_grad()


def start(servers, i, passes):
    words = [sys.executable, __file__, "train", servers.ledger, f"trainer-{i}", str(passes)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def readers_left(folder):
    """Processes of trainers that are still there, by their command lines."""
    found = subprocess.run(["pgrep", "-f", f"train unix:{folder}"], capture_output=True, text=True)
    return found.stdout.split()


def main():
    kills, seed = int(sys.argv[1]), int(sys.argv[2])
    passes = max(2, round(kills * PASSES_A_KILL))
    draw = random.Random(seed)
    settings = {"cluster": {"lease_ms": 3001}}
    done, failed = 0, []
    with weir.local(servers=2, workers=TRAINERS, settings=settings) as servers:
        trainers = [start(servers, i, passes) for i in range(TRAINERS)]
        while done < kills and all(t.poll() is None for t in trainers):
            i = draw.randrange(TRAINERS)
            trainers[i].stdout.readline()
            time.sleep(draw.uniform(0, LONGEST_LIFE_S))
            if trainers[i].poll() is None:
                trainers[i].send_signal(signal.SIGKILL)
                trainers[i].wait()
                done += 1
                trainers[i] = start(servers, i, passes)
        failed = [t.returncode for t in trainers if t.wait()]
        with servers.connect(name="judge", role="observer") as job:
            deadline = time.monotonic() + 10
            while job.status().audit == "open" and time.monotonic() < deadline:
                time.sleep(0.1)
            status = job.status()
            counts = job.find("counts").pull(np.arange(SAMPLES))
        wrong = int((counts != passes).sum())
        left = len(readers_left(servers.folder))
    print(
        f"{done} kills in {passes} passes of {SAMPLES} samples: {status.workers_lost} workers lost"
        f", {status.parts_applied} parts applied, audit {status.audit}, failed trainers {failed}"
    )
    print(done, status.parts_missing, status.parts_double, wrong, left, len(failed))


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()

"""One misuse of the Python package after another, for claim 7 of tests/claims/python.

Each scenario prepares, then calls what must fail. The call raises the named exception within 10 s.
Prints a row for each, and exits 1 if one differs.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import weir

LIMIT_S = 10
SCENARIO_LIMIT_S = 90
SGD = {"kind": "sgd", "lr": 1}


def servers(**options):
    return weir.local(**{"partitions": 2, "settings": {"cluster": {"lease_ms": 3001}}, **options})


def connect(s, **options):
    return s.connect(**{"name": "trainer", "units": 4, "dataset": "test", **options})


def judge(call):
    """Calls, and prints what it raised and after how many seconds."""
    began, raised, text = time.monotonic(), "nothing", ""
    try:
        call()
    except Exception as e:
        raised, text = type(e).__name__, str(e)
    print(json.dumps([raised, text, time.monotonic() - began]), flush=True)


def batch_of(job):
    return next(job.lease(LIMIT_S).batches(1))


def dtype(s, job):
    batch, table = batch_of(job), job.table("t", width=2, optimizer=SGD)
    judge(lambda: batch.push({table: ([1], np.ones((1, 2), np.float64))}))


def shape(s, job):
    batch, table = batch_of(job), job.table("t", width=2, optimizer=SGD)
    judge(lambda: batch.push({table: ([1], np.ones((1, 3), np.float32))}))


def width(s, job):
    job.table("t", width=2)
    with connect(s, name="other") as other:
        judge(lambda: other.table("t", width=3))


def closed(s, job):
    table = job.table("t", width=2)
    job.close()
    judge(lambda: table.pull([1]))


def unaddressable(s, job):
    import torch
    from weir.torch import DataLoader

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(100))

    judge(lambda: DataLoader(Stream(), job, batch_size=4))


def forked(s, job):
    table = job.table("t", width=2)
    pid = os.fork()
    if pid == 0:
        judge(lambda: table.pull([1]))
        os._exit(0)
    os.waitpid(pid, 0)


def nan(s, job):
    batch, table = batch_of(job), job.table("t", width=2, optimizer=SGD)
    judge(lambda: batch.push({table: ([1], np.full((1, 2), np.nan, np.float32))}))


def lost(s, job):
    table = job.table("t", width=2)
    table.assign([1], np.ones((1, 2), np.float32))
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"weir-server") and s.folder.encode() in b" ".join(words):
            os.kill(int(pid), signal.SIGKILL)
    judge(lambda: table.pull([1]))


def restored(s, job):
    batch, table = batch_of(job), job.table("t", width=2, optimizer=SGD)
    batch.push({table: ([1], np.ones((1, 2), np.float32))}).wait(LIMIT_S)
    job.checkpoint()
    s.restore()
    judge(lambda: batch.pull({table: [1]}))


EXPECTED = {
    "dtype": (dtype, "InvalidError", "float32"),
    "shape": (shape, "InvalidError", "shape"),
    "width": (width, "ExistsError", "t"),
    "closed": (closed, "ClosedError", "connect again"),
    "unaddressable": (unaddressable, "InvalidError", "exactly_once"),
    "forked": (forked, "ClosedError", "fork"),
    "nan": (nan, "NotFiniteError", "t"),
    "lost": (lost, "LostError", "server"),
    "restored": (restored, "GenerationError", "generation"),
}


def run(name, folder):
    with servers(folder=folder) as s:
        EXPECTED[name][0](s, connect(s))
        os._exit(0)  # some of these jobs cannot be closed in order


def check(name):
    _, expected, word = EXPECTED[name]
    folder = tempfile.mkdtemp(prefix="weir-misuse-")
    try:
        done = subprocess.run(
            [sys.executable, __file__, name, folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=SCENARIO_LIMIT_S,
        )
        raised, text, seconds = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raised, text, seconds = "a hang", "", SCENARIO_LIMIT_S
    except json.JSONDecodeError:
        raised, text, seconds = "no answer", done.stderr.strip()[-300:], 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    good = raised == expected and word in text and seconds <= LIMIT_S
    print(
        f"{'ok' if good else 'WRONG'}  {name}: {raised} after {seconds:.2f} s: {text}", flush=True
    )
    return good


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(*sys.argv[1:])
    else:
        sys.exit(not all([check(name) for name in EXPECTED]))

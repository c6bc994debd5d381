"""What the tests share: small servers, a small training loop, a look at processes."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

import weir

UNITS, BATCHES, ROWS, WIDTH = 6, 4, 16, 4
SETTINGS = {"cluster": {"lease_ms": 3001}}


def servers(**options):
    return weir.local(**{"partitions": 4, "settings": SETTINGS, **options})


def connect(to, name="trainer", **options):
    return to.connect(
        **{
            "name": name,
            "units": UNITS,
            "rows": UNITS * BATCHES * ROWS,
            "dataset": "test",
            **options,
        }
    )


def keys_of(unit, batch, rows=ROWS):
    """Distinct keys of a batch, a function of its place in the data."""
    rng = np.random.default_rng((unit.data_unit, batch.index))
    return rng.choice(100, rows, replace=False).astype(np.uint64)


def count_keys(job, table, keep=None):
    """Pushes -1 for every key of every batch: with sgd at rate 1 each row counts its batches.

    Returns what the rows must be after one pass.
    """
    expected = np.zeros(100, np.float32)
    for unit in job.units():
        with unit:
            for batch in unit.batches(BATCHES):
                keys = keys_of(unit, batch)
                batch.pull({table: keys})
                ticket = batch.push({table: (keys, -np.ones((ROWS, table.width), np.float32))})
                if keep is not None:
                    keep.append(ticket)
                np.add.at(expected, keys.astype(int), 1)
    return expected


@contextlib.contextmanager
def job_of(passes=1, **options):
    """A job of one trainer over two servers."""
    with servers(servers=2, passes=passes, **options) as s, connect(s) as job:
        yield job


def alive(folder):
    """Processes whose command lines name the folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if folder.encode() in f.read() and int(pid) != os.getpid():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def name_of(pid):
    """The path of a process's program."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().split(b"\0")[0].decode()
    except OSError:
        return ""


def connections(folder):
    """Connections that servers in the folder have: the kernel's numbers."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as f:
        rows = [line.split() for line in f]
    return {r[6] for r in rows if len(r) == 8 and r[5] == "03" and r[7].startswith(folder)}


def sockets_of(pid):
    """How many sockets a process has."""
    fds = f"/proc/{pid}/fd"
    return sum(os.readlink(f"{fds}/{fd}").startswith("socket:") for fd in os.listdir(fds))


def kill_beside_its_fork(process, fork, folder):
    """Kills the process, then the fork once the servers have lost the process's connections.

    Returns how many these were. The fork has none of them: keepalive alone would take seconds.
    """
    had, own = connections(folder), sockets_of(process.pid)
    try:
        assert sockets_of(fork) == 0, "the fork has sockets"
        process.kill()
        wait_until(
            lambda: len(had & connections(folder)) <= len(had) - own, 5, f"{own} connections to end"
        )
    finally:
        os.kill(fork, signal.SIGKILL)
        process.kill()
        process.communicate()
    return own


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(0.05)


class Script(unittest.TestCase):
    """Tests that run a program of their own in another process."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="weir-test-")
        self.addCleanup(subprocess.run, ["rm", "-rf", self.folder])
        self.addCleanup(self.no_process_is_left)

    def no_process_is_left(self):
        wait_until(
            lambda: not alive(self.folder),
            15,
            f"the processes of {self.folder} to end: {alive(self.folder)}",
        )

    def start(self, text, support=True, **options):
        here = os.path.dirname(__file__)
        prelude = f"import sys, time\nsys.path.insert(0, {here!r})\nFOLDER = {self.folder!r}\n"
        if support:
            prelude += "from support import *\n"
        return subprocess.Popen(
            [sys.executable, "-c", prelude + text],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def run_script(self, text, seconds=30, support=True):
        process = self.start(text, support)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return process.returncode, out, err

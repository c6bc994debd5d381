"""Programs that start a trainer's processes: torchrun, multiprocessing's spawn, python -m."""

import os
import re
import signal
import subprocess
import sys
import unittest

from support import BATCHES, ROWS, UNITS, Script, servers

# Counts keys as one of several trainers, and says its name.
TRAINER = """
import sys
sys.path.insert(0, {here!r})
from support import *

def train(name=None):
    with weir.connect({ledger!r}, name=name, units=UNITS, dataset="test", passes=2) as job:
        table = job.table("counts", width=1, optimizer={{"kind": "sgd", "lr": 1}})
        count_keys(job, table)
        print("trained", job.name, flush=True)
"""
WITH_MAIN = TRAINER + """
if __name__ == "__main__":
    train()
"""
SPAWNED = TRAINER + """
if __name__ == "__main__":
    import multiprocessing
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(train, ["a", "b"], chunksize=1)
"""


class WaysToStart(Script):
    def runs(self, text, names, *command, environment=()):
        """Runs `command` on a module with this text: `names` train, and each batch counts once."""
        with servers(folder=self.folder + "/s", workers=len(names)) as s:
            here = os.path.dirname(os.path.abspath(__file__))
            with open(self.folder + "/trainer.py", "w") as f:
                f.write(text.format(here=here, ledger=s.ledger))
            done = subprocess.run(
                [sys.executable, *command],
                cwd=self.folder,
                env={**os.environ, **dict(environment)},
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(re.findall(r"trained (\S+)", done.stdout)), names)
            with s.connect(name="o", role="observer") as job:
                status = job.status()
                self.assertEqual((status.state, status.audit), ("finished", "exact"))
                rows = job.find("counts").pull(range(100))
                self.assertEqual(rows.sum(), 2 * UNITS * BATCHES * ROWS)

    def test_module(self):
        self.runs(WITH_MAIN, ["rank-3"], "-m", "trainer", environment={"RANK": "3"}.items())

    def test_spawn(self):
        self.runs(SPAWNED, ["a", "b"], "trainer.py")

    def test_torchrun(self):
        try:
            import torch.distributed
        except ImportError:
            self.skipTest("no PyTorch here")
        if not torch.distributed.is_available():
            self.skipTest(f"PyTorch {torch.__version__} was built without torch.distributed")
        if torch.__version__ < "2" and sys.version_info >= (3, 11):
            self.skipTest(f"torchrun of PyTorch {torch.__version__} starts nothing in Python 3.11")
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
        self.runs(WITH_MAIN, ["rank-0", "rank-1"], *torchrun, "trainer.py")

    def test_ctrl_c_of_a_terminal_reaches_readers_too(self):
        """The loop ends with KeyboardInterrupt alone, and its readers end with it."""
        try:
            import torch  # noqa: F401
        except ImportError:
            self.skipTest("no PyTorch here")
        text = """
import torch, weir.torch as wt
with weir.local(folder=FOLDER + "/s", passes=1000) as s, s.connect(name="t") as job:
    rows = wt.Embedding("counts", 1, optimizer="sgd")
    data = torch.utils.data.TensorDataset(torch.arange(400))
    with wt.DataLoader(data, job, 10, 2, rows={rows: 0}) as loader:
        optimizer = wt.Optimizer(rows, job)
        for i, (x,) in enumerate(loader):
            rows(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if i == 5:
                print("busy", flush=True)
"""
        process = self.start(text, start_new_session=True)
        self.assertEqual(process.stdout.readline(), "busy\n")
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=20)
        self.assertEqual(err.count("Traceback"), 1, err)
        self.assertRegex(err, r"KeyboardInterrupt\n$")
        self.assertEqual(process.returncode, -signal.SIGINT)


if __name__ == "__main__":
    unittest.main()

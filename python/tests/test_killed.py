import unittest

import numpy as np
from support import SETTINGS, Script, kill_beside_its_fork, servers, wait_until

try:
    import torch  # noqa: F401
except ImportError:
    raise unittest.SkipTest("no PyTorch here") from None

KILLED = """
import os, torch, weir.torch as wt
from torch.utils.data import TensorDataset
job = weir.connect(sys.argv[1] if len(sys.argv) > 1 else LEDGER, name="t")
rows = wt.Embedding("counts", 1, optimizer={"kind": "sgd", "lr": 1}, init="zero")
loader = wt.DataLoader(TensorDataset(torch.arange(400)), job, 10, 2, unit_batches=4, passes=2)
optimizer = wt.Optimizer(rows, job)
for i, (x,) in enumerate(loader):
    (-rows(x).sum()).backward()
    optimizer.step()
    optimizer.zero_grad()
    if i == STOP:
        print("there", flush=True)
        time.sleep(60)
print("finished", flush=True)
"""


class Killed(Script):
    def test_killed_trainers_lose_nothing(self):
        with servers(folder=self.folder + "/s", settings=SETTINGS) as s:
            for stop in (3, 17, 30, -1):
                process = self.start(f"LEDGER, STOP = {s.ledger!r}, {stop}\n" + KILLED)
                self.assertEqual(
                    process.stdout.readline().strip(), "finished" if stop < 0 else "there"
                )
                process.kill()
                out, err = process.communicate(timeout=10)  # its readers end, too
                self.assertNotIn("Traceback", err)
            with s.connect(name="o", role="observer") as job:
                got = job.find("counts").pull(np.arange(400))
                self.assertTrue((got == 2).all(), np.unique(got, return_counts=True))
                wait_until(lambda: job.status().audit == "exact", 5, "the audit")
                status = job.status()
                self.assertEqual((status.parts_missing, status.parts_double), (0, 0))


    def test_servers_notice_though_a_reader_lives(self):
        text = """
import os, signal, torch, weir.torch as wt
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, i):
        print(os.getpid(), flush=True)
        signal.pause()
job = weir.connect(LEDGER, name="t")
next(iter(wt.DataLoader(Slow(), job, 10, 1, version="1")))
"""
        with servers(folder=self.folder + "/s") as s:
            process = self.start(f"LEDGER = {s.ledger!r}\n" + text)
            reader = int(process.stdout.readline())
            self.assertGreater(kill_beside_its_fork(process, reader, s.folder), 0)


if __name__ == "__main__":
    unittest.main()

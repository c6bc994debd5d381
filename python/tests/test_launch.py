import json
import os
import signal
import subprocess
import sys
import unittest

from support import Script, alive, name_of, wait_until

from weir._library import program

TRAINER = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from support import *

with weir.connect(units=UNITS, dataset="test", passes=3) as job:
    assert job.name == os.environ["WEIR_NAME"] and int(os.environ["WORLD_SIZE"]) == 2
    table = job.table("counts", width=2, optimizer={"kind": "sgd", "lr": 1})
    for unit in job.units():
        with unit:
            for batch in unit.batches(BATCHES):
                keys = keys_of(unit, batch)
                batch.pull({table: keys})
                time.sleep(0.05)
                batch.push({table: (keys, -np.ones((ROWS, 2), np.float32))})
"""


class Launch(Script):
    def test_trainers_of_weir_launch(self):
        for name, text in (
            ("train.py", TRAINER),
            (
                "job.yaml",
                json.dumps(
                    {
                        "job": "launched",
                        "run_dir": self.folder + "/run",
                        "cluster": {"servers": 2, "workers": 2, "partitions": 4, "lease_ms": 3001},
                    }
                ),
            ),
        ):
            with open(os.path.join(self.folder, name), "w") as f:
                f.write(text)
        trainer = [
            sys.executable,
            self.folder + "/train.py",
            os.path.dirname(os.path.abspath(__file__)),
        ]
        launched = subprocess.Popen(
            [
                program("weir"),
                "launch",
                self.folder + "/job.yaml",
                "--report",
                self.folder + "/report.json",
                "--",
                *trainer,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

        def trainers():
            return [p for p in alive(self.folder) if name_of(p) == sys.executable]

        wait_until(lambda: len(trainers()) == 2, 20, "the trainers")
        os.kill(trainers()[0], signal.SIGKILL)  # it is started again
        out, _ = launched.communicate(timeout=60)
        self.assertEqual(launched.returncode, 0, out)
        with open(self.folder + "/report.json") as f:
            audit = json.load(f)["audit"]
        self.assertTrue(audit["ok"], audit)
        self.assertEqual((audit["missing"], audit["double"]), (0, 0))
        self.assertGreater(audit["applied"], 0)


if __name__ == "__main__":
    unittest.main()

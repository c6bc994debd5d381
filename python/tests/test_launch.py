import json
import os
import signal
import socket
import subprocess
import sys
import unittest
import unittest.mock

from support import Script, alive, name_of, wait_until

import weir
from weir._library import program

ROLES = ("server", "worker", "admin")
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
    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as f:
            f.write(text)

    def write_job(self, cluster, **others):
        job = {"job": "launched", "run_dir": self.folder + "/run", **others}
        job["cluster"] = {"servers": 2, "workers": 2, "partitions": 4, "lease_ms": 3001, **cluster}
        self.write("job.yaml", json.dumps(job))
        self.write("train.py", TRAINER)

    def launch(self, report, *options):
        here = os.path.dirname(os.path.abspath(__file__))
        return subprocess.Popen(
            [program("weir"), "launch", self.folder + "/job.yaml", *options]
            + ["--report", f"{self.folder}/{report}", "--"]
            + [sys.executable, self.folder + "/train.py", here],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def kill_a_trainer(self):
        def trainers():
            return [p for p in alive(self.folder) if name_of(p) == sys.executable]

        wait_until(lambda: len(trainers()) == 2, 20, "the trainers")
        os.kill(trainers()[0], signal.SIGKILL)  # it is started again

    def ends_well(self, launched, report):
        out, _ = launched.communicate(timeout=60)
        self.assertEqual(launched.returncode, 0, out)
        with open(f"{self.folder}/{report}") as f:
            audit = json.load(f)["audit"]
        self.assertTrue(audit["ok"], audit)
        self.assertEqual((audit["missing"], audit["double"]), (0, 0))
        self.assertGreater(audit["applied"], 0)

    def test_trainers_of_weir_launch(self):
        self.write_job({})
        launched = self.launch("report.json")
        self.kill_a_trainer()
        self.ends_well(launched, "report.json")

    def test_two_launches_with_certificates(self):
        certs = self.folder + "/certs"
        for words in (["init"], *(["issue", "--job", "launched", "--role", r] for r in ROLES)):
            command = [program("weir"), "certs", words[0], "--dir", certs, *words[1:]]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        at = f"127.0.0.1:{port}"
        files = {"certificate": certs + "/{role}.crt", "key": certs + "/{role}.key"}
        self.write_job({"servers": 1, "listen": at}, security={**files, "ca": certs + "/ca.crt"})
        first = self.launch("first.json", "--ranks", "0")
        second = self.launch("second.json", "--ranks", "1", "--join", at)
        self.kill_a_trainer()
        self.ends_well(second, "second.json")
        self.ends_well(first, "first.json")

    def test_certificates_without_authority_are_refused(self):
        told = {
            "WEIR_LEDGER": "127.0.0.1:1",
            "WEIR_CERTIFICATE": "worker.crt",
            "WEIR_KEY": "worker.key",
            "WEIR_CA": "",
            "WEIR_INSECURE": "true",
        }
        with unittest.mock.patch.dict(os.environ, told):
            with self.assertRaisesRegex(weir.InvalidError, "belong together: there is no ca"):
                weir.connect(timeout=0.1)


if __name__ == "__main__":
    unittest.main()

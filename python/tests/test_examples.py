"""Runs the programs of examples/python that the machine's own PyTorch suffices for."""

import glob
import json
import os
import random
import re
import subprocess
import sys
import unittest

from support import Script
from weir._library import program

try:
    import torch  # noqa: F401
except ImportError:
    raise unittest.SkipTest("no PyTorch here") from None

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "../../examples/python")
LINES_MAX = 80


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


class Examples(Script):
    def launch(self, job, workers, passes, example, *arguments, seconds=120):
        """Runs an example under `weir launch`. Returns its report and the workers' logs."""
        report = os.path.join(self.folder, "report.json")
        settings = [f"run_dir={self.folder}/run", f"cluster.workers={workers}"]
        settings += [f"train.passes={passes}"]
        command = [program("weir"), "launch", os.path.join(EXAMPLES, job)]
        for setting in settings:
            command += ["--set", setting]
        command += ["--report", report, "--", sys.executable, os.path.join(EXAMPLES, example)]
        ended = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=seconds
        )
        logs = [read(path) for path in glob.glob(f"{self.folder}/run/worker-*.log")]
        self.assertEqual(ended.returncode, 0, "\n".join([ended.stderr, *logs]))
        return json.loads(read(report)), logs

    def test_diloco_gpt(self):
        text = os.path.join(self.folder, "text")
        with open(text, "wb") as out:  # two units of 50 batches of 8 sequences of 64 bytes
            out.write(b"the quick brown fox jumps over the lazy dog. " * 1138)
        report, logs = self.launch("diloco.yaml", 2, 1, "diloco_gpt.py", text)
        self.assertEqual((report["audit"]["ok"], report["audit"]["missing"]), (True, 0))
        self.assertTrue(all("1 rounds, " in log for log in logs), logs)
        # The first weights and two rounds: the pushes of 100 batches would have 48 MB.
        self.assertLess(report["bytes"]["pushed"], 1_000_000)

    def figure(self, log, words):
        found = re.search(words + r" ([0-9.]+)", log)
        self.assertTrue(found, log)
        return float(found.group(1))

    def test_two_tower(self):
        report, logs = self.launch("clicks.yaml", 2, 4, "two_tower.py")
        self.assertTrue(report["audit"]["ok"])
        for log in logs:  # by chance it would be 5 %
            self.assertGreater(self.figure(log, "of the nearest items,"), 30)

    def test_deepfm_frappe(self):
        draw = random.Random(1)
        path = os.path.join(self.folder, "clicks.libfm")
        with open(path, "w", encoding="utf-8") as out:  # ids 0 and 1 together, or neither: a click
            for _ in range(4000):
                a, b = draw.randrange(2), draw.randrange(2)
                ids = [a, 10 + b, *(20 + draw.randrange(9) for _ in range(8))]
                out.write(" ".join(["1" if a == b else "-1", *(f"{i}:1" for i in ids)]) + "\n")
        report, logs = self.launch("clicks.yaml", 1, 4, "deepfm_frappe.py", path)
        self.assertTrue(report["audit"]["ok"])
        self.assertGreater(self.figure(logs[0], "test AUC"), 0.8)

    def test_notebook(self):
        with open(os.path.join(EXAMPLES, "../quickstart.ipynb"), encoding="utf-8") as f:
            cells = json.load(f)["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        status, out, err = self.run_script("\n".join(code), seconds=120, support=False)
        self.assertEqual(status, 0, err)
        self.assertGreater(self.figure(out, "test AUC"), 0.9)
        self.assertIn("finished audit: exact", out)

    def test_examples_are_short(self):
        for path in glob.glob(os.path.join(EXAMPLES, "*.py")):
            self.assertLessEqual(read(path).count("\n"), LINES_MAX, path)


if __name__ == "__main__":
    unittest.main()

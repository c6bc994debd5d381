"""Runs the programs of examples/python that the machine's own PyTorch suffices for."""

import glob
import json
import os
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
    def launch(self, workers, passes, example, *arguments, seconds=120):
        """Runs an example under `weir launch`. Returns its report."""
        report = os.path.join(self.folder, "report.json")
        settings = [f"run_dir={self.folder}/run", f"cluster.workers={workers}"]
        settings += [f"train.passes={passes}"]
        command = [program("weir"), "launch", os.path.join(EXAMPLES, "diloco.yaml")]
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
        report, logs = self.launch(2, 1, "diloco_gpt.py", text)
        self.assertEqual((report["audit"]["ok"], report["audit"]["missing"]), (True, 0))
        self.assertTrue(all("1 rounds, " in log for log in logs), logs)
        # The first weights and two rounds: the pushes of 100 batches would have 48 MB.
        self.assertLess(report["bytes"]["pushed"], 1_000_000)

    def test_examples_are_short(self):
        for path in glob.glob(os.path.join(EXAMPLES, "*.py")):
            self.assertLessEqual(read(path).count("\n"), LINES_MAX, path)


if __name__ == "__main__":
    unittest.main()

import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "docs", "PYTHON.md")
NUMBER = re.compile(r"\d+\.\d+")


class Page(unittest.TestCase):
    def test_first_program_prints_what_the_page_says(self):
        with open(PAGE, encoding="utf-8") as page:
            program, output = re.findall(r"```(?:python)?\n(.*?)```", page.read(), re.DOTALL)[:2]
        self.assertLessEqual(len(program.splitlines()), 25)
        out = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(out.stderr, "")
        self.assertEqual(NUMBER.sub("", out.stdout), NUMBER.sub("", output))
        # Pushes in flight make the last digit of the loss depend on the machine.
        for ours, theirs in zip(NUMBER.findall(out.stdout), NUMBER.findall(output)):
            self.assertAlmostEqual(float(ours), float(theirs), delta=0.05)

    def test_reference_is_that_of_the_docstrings(self):
        script = os.path.join(HERE, "..", "reference.py")
        done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()

import contextlib
import io
import sys
import types
import unittest
from unittest import mock

from support import servers

from weir import _progress

WITHOUT_TQDM = {"tqdm.auto": None}


class Bar:
    """Stands for tqdm.auto.tqdm: what the tests ask of it."""

    made = []

    def __init__(self, total, desc, unit, **shape):
        self.total, self.desc, self.unit, self.shape = total, desc, unit, shape
        self.n, self.postfix, self.refreshed, self.closed = 0, "", 0, False
        self.made.append(self)

    def update(self, n):
        self.n += n

    def set_postfix_str(self, text, refresh):
        self.postfix = text

    def refresh(self):
        self.refreshed += 1

    def close(self):
        self.closed = True


def bars():
    """Puts Bar in the place of tqdm."""
    Bar.made = []
    return mock.patch.dict(sys.modules, {"tqdm.auto": types.SimpleNamespace(tqdm=Bar)})


def lines(seconds=0.0):
    """Without tqdm, with a line after so many seconds; returns what is said."""
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.dict(sys.modules, WITHOUT_TQDM))
    stack.enter_context(mock.patch.object(_progress, "LINE_S", seconds))
    said = stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
    return stack, said


class Progress(unittest.TestCase):
    def test_lines_without_tqdm(self):
        stack, said = lines()
        with stack:
            p = _progress.Progress("job", 10)
            p.at(3)
            p.loss(0.5)
            p.at(2)  # it never goes back
            p.close(done=True)
        self.assertEqual(
            said.getvalue(),
            "job: step 3 of 10\njob: step 3 of 10: loss 0.5\njob: step 10 of 10: loss 0.5\n",
        )

    def test_lines_are_rare(self):
        stack, said = lines(1000)
        with stack:
            _progress.Progress("job", 10).at(3)
        self.assertEqual(said.getvalue(), "")

    def test_servers_that_start(self):
        with bars(), servers(progress=True):
            (bar,) = Bar.made
            self.assertEqual((bar.desc, bar.total, bar.closed), ("servers start", None, True))
        stack, said = lines()
        with stack, servers(progress=True):
            self.assertNotIn("None", said.getvalue())

    def test_real_tqdm(self):
        try:
            import tqdm.auto  # noqa: F401
        except ImportError:
            self.skipTest("no tqdm here")
        with contextlib.redirect_stderr(io.StringIO()) as said:
            p = _progress.Progress("job", 10)
            p.loss(0.25)
            p.at(4)
            p.close(done=True)
            _progress.Progress("servers start").close()
        self.assertRegex(said.getvalue(), "(?s)job: 100%.*10/10.*loss 0.25.*servers start: 00:00")


class Loader(unittest.TestCase):
    def setUp(self):
        try:
            import torch  # noqa: F401
        except ImportError:
            self.skipTest("no PyTorch here")

    def test_loader(self):
        import torch
        import weir.torch as wt
        from torch.utils.data import TensorDataset

        data = TensorDataset(torch.ones(90, 2))
        with bars(), servers(passes=2) as s, s.connect(name="t") as job:
            model = torch.nn.Linear(2, 1)
            loader = wt.DataLoader(data, job, 10, unit_batches=3, progress=True)
            optimizer = wt.Optimizer(model, job, optimizer="sgd")
            steps = 0
            for (x,) in loader:
                self.assertEqual(Bar.made[0].n, steps)
                loss = model(x).mean()
                loss.backward()
                optimizer.step(loss=loss)
                optimizer.zero_grad()
                self.assertEqual(Bar.made[0].postfix, f"loss {loss.item():.4g}")
                steps += 1
            (bar,) = Bar.made
            self.assertEqual((bar.desc, bar.total, bar.n, steps), ("t", 18, 18, 18))
            self.assertTrue(bar.closed)


if __name__ == "__main__":
    unittest.main()

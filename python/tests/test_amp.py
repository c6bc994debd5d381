"""Mixed precision, gradient scaling, clipping and accumulation: one identity a step."""

import unittest
from unittest import mock

import weir
from support import servers

try:
    import torch
    import weir.torch as wt
    from torch import nn
    from torch.utils.data import TensorDataset
except ImportError:
    raise unittest.SkipTest("no PyTorch here") from None

ROWS, BATCH, ACCUMULATE, IDS = 200, 10, 2, 20
SGD = {"kind": "sgd", "lr": 0.1}


class Model(wt.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.ids = wt.Embedding("ids", 4, optimizer=SGD, init={"kind": "normal", "a": 0.1})
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out(self.ids(x)).squeeze(1)


def scaler():
    """A GradScaler that scales on the CPU."""
    if not hasattr(torch.amp, "GradScaler"):
        raise unittest.SkipTest(
            f"PyTorch {torch.__version__} scales gradients on CUDA alone: torch.amp.GradScaler came later"
        )
    return torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000)


class Noted:
    """Notes which batches are pushed and left out."""

    def __enter__(self):
        self.pushed, self.left_out = [], []
        push, leave_out = weir.Batch.push, weir.Batch.leave_out

        def note(into, call):
            def noted(batch, *args, **options):
                into.append((batch.unit.pass_, batch.unit.number, batch.index))
                return call(batch, *args, **options)

            return noted

        self._patch = mock.patch.multiple(
            weir.Batch, push=note(self.pushed, push), leave_out=note(self.left_out, leave_out)
        )
        self._patch.start()
        return self

    def __exit__(self, *error):
        self._patch.stop()


class Amp(unittest.TestCase):
    def train(self, step):
        """Trains under autocast; step(loss, index, due, optimizer) takes what follows."""
        g = torch.Generator().manual_seed(1)
        x = torch.randint(0, IDS, (ROWS,), generator=g)
        data = TensorDataset(x, (x % 2).float())
        with servers() as s, s.connect(name="t") as job, Noted() as noted:
            model = Model()
            loader = wt.DataLoader(data, job, BATCH, accumulate=ACCUMULATE, rows={model.ids: 0})
            optimizer = wt.Optimizer(model, job, optimizer=SGD)
            index = 0
            for x, y in loader:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    logits = model(x)
                self.assertEqual(logits.dtype, torch.bfloat16)
                loss = nn.functional.binary_cross_entropy_with_logits(logits.float(), y)
                step(loss / ACCUMULATE, index, loader.step_due, optimizer)
                index += loader.step_due
            status = job.status()
            self.assertEqual((status.state, status.audit), ("finished", "exact"))
            model.load_from(job)
            rows = torch.from_numpy(job.find("ids").pull(range(IDS)))
            for values in (rows, *model.parameters()):
                self.assertTrue(torch.isfinite(values).all())
        identities = noted.pushed + noted.left_out
        self.assertEqual(len(identities), ROWS // (BATCH * ACCUMULATE))
        self.assertEqual(len(set(identities)), len(identities))  # one a step, and each once
        return noted

    def test_clipped_and_accumulated_steps(self):
        def step(loss, index, due, optimizer):
            loss.backward()
            if due:
                nn.utils.clip_grad_norm_(optimizer.parameters(), 0.01)
                optimizer.step()
                optimizer.zero_grad()

        self.assertEqual(self.train(step).left_out, [])

    def test_scaler_leaves_out_steps_that_overflow(self):
        scale, norms = scaler(), []

        def step(loss, index, due, optimizer):
            overflow = index % 4 == 1 and not due  # in the first micro-batch of the step
            scale.scale(loss * (float("inf") if overflow else 1)).backward()
            if due:
                scale.unscale_(optimizer)
                norms.append(float(nn.utils.clip_grad_norm_(optimizer.parameters(), 1.0)))
                scale.step(optimizer)
                scale.update()
                optimizer.zero_grad()

        noted = self.train(step)
        finite = [n for n in norms if n < 10]  # unscaled: the scale is 1024
        self.assertEqual((len(noted.left_out), len(finite)), (3, 7))
        self.assertEqual(scale.get_scale(), 1024 / 2**3)


if __name__ == "__main__":
    unittest.main()

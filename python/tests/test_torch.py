import copy
import math
import os
import subprocess
import threading
import unittest
import warnings

import numpy as np
import weir
from support import SETTINGS, servers

try:
    import torch
    import weir.torch as wt
    from torch import nn
    from torch.utils.data import Dataset, IterableDataset, TensorDataset
except ImportError:
    raise unittest.SkipTest("no PyTorch here") from None

from weir.torch.order import shuffled

SGD = {"kind": "sgd", "lr": 0.1}
COUNT = {"kind": "sgd", "lr": 1}
ON_DISK = {"cluster": {**SETTINGS["cluster"], "log": "disk"}}
ROWS, IDS = 400, 40


def clicks(rows=ROWS, ids=IDS):
    g = torch.Generator().manual_seed(1)
    x = torch.randint(0, ids, (rows, 2), generator=g)
    return TensorDataset(x, ((x[:, 0] < ids // 2) ^ (x[:, 1] % 7 == 0)).float())


class Clicks(wt.Module):
    """Two features of one table, a layer, and batch normalisation."""

    def __init__(self, normalise=True, **description):
        super().__init__()
        torch.manual_seed(3)
        description = {"optimizer": SGD, "init": {"kind": "normal", "a": 0.1}, **description}
        self.ids = wt.Embedding("ids", 4, features=[IDS, IDS], **description)
        self.norm = nn.BatchNorm1d(8) if normalise else nn.Identity()
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        return self.out(self.norm(self.ids(x).flatten(1))).squeeze(1)


def bce(model, x, y):
    return nn.functional.binary_cross_entropy_with_logits(model(x), y)


def train(model, loader, optimizer):
    """Rows trained, and the last loss."""
    rows, loss = 0, math.nan
    for x, y in loader:
        loss = bce(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step(loss=loss)
        rows += len(y)
    return rows, float(loss)


class Plain(nn.Module):
    """The same model wholly in PyTorch, with the servers' initial rows."""

    def __init__(self, model, rows):
        super().__init__()
        self.ids = nn.Embedding.from_pretrained(torch.from_numpy(rows.copy()), freeze=False)
        self.norm = nn.BatchNorm1d(8)
        self.out = nn.Linear(8, 1)
        self.out.load_state_dict(model.out.state_dict())

    def forward(self, x):
        return self.out(self.norm(self.ids(x + torch.tensor([0, IDS])).flatten(1))).squeeze(1)


class Training(unittest.TestCase):
    def equal_to_plain(self, rule, plain_rule):
        """Without staleness, every step is PyTorch's own."""
        with servers(passes=2) as s, s.connect(name="t") as job:
            model = Clicks(optimizer=rule)
            loader = wt.DataLoader(clicks(), job, 32, ahead=0, unit_batches=3)
            optimizer = wt.Optimizer(model, job, optimizer=rule)
            keys = np.arange(2 * IDS)
            plain = Plain(model, job.find("ids").pull(keys))
            other = plain_rule(plain.parameters())
            for step, (x, y) in enumerate(loader):
                if step == 5:  # in the middle of a step, too
                    model.load_from(job)
                for m, o in ((model, optimizer), (plain, other)):
                    loss = bce(m, x, y)
                    o.zero_grad()
                    loss.backward()
                    o.step()
            model.load_from(job)
            np.testing.assert_allclose(
                job.find("ids").pull(keys), plain.ids.weight.detach(), rtol=2e-4, atol=2e-6
            )
            np.testing.assert_allclose(
                model.out.weight.detach(), plain.out.weight.detach(), rtol=2e-4, atol=2e-6
            )
            for ours, theirs in zip(model.norm.buffers(), plain.norm.buffers()):
                if ours.is_floating_point():
                    np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-6)

    def test_sgd_is_as_plain(self):
        self.equal_to_plain(SGD, lambda p: torch.optim.SGD(p, 0.1))

    def test_adam_is_as_plain(self):
        rule = {"kind": "adam", "lr": 0.01, "decay": "full"}
        self.equal_to_plain(rule, lambda p: torch.optim.Adam(p, 0.01))

    def test_adagrad_is_as_plain(self):
        self.equal_to_plain(
            {"kind": "adagrad", "lr": 0.1, "eps": 1e-10}, lambda p: torch.optim.Adagrad(p, 0.1)
        )

    def test_schedule_ends_with_the_training(self):
        """The last step's rate is the schedule's last, though the last unit is shorter."""
        with servers(passes=3) as s, s.connect(name="t") as job:
            model = nn.Linear(2, 1, bias=False)
            loader = wt.DataLoader(clicks(), job, 30, unit_batches=4)
            total = 3 * loader.pass_steps
            self.assertEqual(total, 3 * 14)
            rule = {"kind": "sgd", "lr": 1, "schedule": {"kind": "linear", "total": total}}
            optimizer = wt.Optimizer(model, job, optimizer=rule)
            for x, _ in loader:
                model(x.float()).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            rate = max(c.lr for c in job.find("dense").clocks())
            self.assertAlmostEqual(rate, 1 / total, 6)

    def test_synchronous_tables_are_pulled_after_the_step_before(self):
        with servers(passes=2) as s, s.connect(name="t") as job:
            model = Clicks(mode="sync")
            loader = wt.DataLoader(clicks(), job, 32, rows={model.ids: 0})
            optimizer = wt.Optimizer(model, job, optimizer=SGD, mode="sync")
            self.assertEqual(train(model, loader, optimizer)[0], 2 * ROWS)
            self.assertEqual(job.status().audit, "exact")
        with servers() as s, s.connect(name="t") as job:
            model = Clicks(mode="sync")
            loader = wt.DataLoader(clicks(), job, 32, ahead=2)
            wt.Optimizer(model, job, optimizer=SGD)
            with self.assertRaisesRegex(weir.InvalidError, "ids is synchronous.* leave ahead out"):
                next(iter(loader))

    def test_learns_with_processes_and_pulls_ahead(self):
        with servers(servers=2, passes=20) as s, s.connect(name="t") as job:
            model = Clicks(optimizer={"kind": "adam", "lr": 0.03})
            loader = wt.DataLoader(
                clicks(), job, 32, 2, unit_batches=3, rows={model.ids: 0}, seed=5
            )
            optimizer = wt.Optimizer(model, job, optimizer={"kind": "adam", "lr": 0.03})
            rows, _ = train(model, loader, optimizer)
            self.assertEqual(rows, 20 * ROWS)
            status = job.status()
            self.assertEqual((status.state, status.audit), ("finished", "exact"))
            with s.connect(name="o", role="observer") as observer:
                seen = Clicks()
                seen.load_from(observer)
                seen.eval()
                self.assertTrue(torch.equal(seen.norm.running_mean, job_mean(job)))
                figures = wt.binary_scores(seen, [clicks().tensors])
                self.assertGreater(figures["auc"], 0.9, figures)
                self.assertEqual(list(seen.state_dict())[0], "norm.weight")  # no rows
        self.assertRaises(ChildProcessError, os.waitpid, -1, os.WNOHANG)

    def test_two_trainers_and_an_evaluator(self):
        with (
            servers(passes=3, workers=2) as s,
            s.connect(name="a") as a,
            s.connect(name="b") as b,
            s.connect(name="judge", role="evaluator") as judge,
        ):
            counts, failures = [0, 0], []

            def work(i, job):
                try:
                    model = Clicks()
                    loader = wt.DataLoader(clicks(), job, 32, unit_batches=2, rows={model.ids: 0})
                    counts[i], _ = train(model, loader, wt.Optimizer(model, job, optimizer=SGD))
                except BaseException as e:
                    failures.append(e)

            threads = [threading.Thread(target=work, args=x) for x in enumerate((a, b))]
            for t in threads:
                t.start()
            model = Clicks()
            with self.assertLogs("weir", "INFO") as log:
                history = wt.evaluate(
                    judge, model, lambda m: wt.binary_scores(m, [clicks().tensors])
                )
            passes = [figures["pass"] for figures in history]
            self.assertEqual((passes, passes[-1]), (sorted(set(passes)), 2))
            warned = sum("training goes on" in line for line in log.output)
            self.assertEqual(warned, len(passes) > 1)  # nobody waits; it may see the last alone
            for t in threads:
                t.join(20)
            self.assertEqual((failures, sum(counts)), ([], 3 * ROWS))
            self.assertEqual(a.status().auc, history[-1]["auc"])
            self.assertEqual(a.status().audit, "exact")

    def test_clipped_steps(self):
        with servers() as s, s.connect(name="t") as job:
            model = Clicks(normalise=False)
            loader = wt.DataLoader(clicks(), job, 100, rows={model.ids: 0})
            optimizer = wt.Optimizer(model, job, optimizer=SGD)
            for x, y in loader:
                before = [p.detach().clone() for p in model.parameters()]
                bce(model, x, y).backward()
                self.assertEqual(len(optimizer.param_groups[1]["params"]), 1)
                whole = nn.utils.clip_grad_norm_(optimizer.parameters(), 0.01)
                self.assertGreater(whole, 0.02)
                norm = math.sqrt(sum(float((p.grad**2).sum()) for p in optimizer.parameters()))
                self.assertAlmostEqual(norm, 0.01, 4)
                optimizer.step()
                optimizer.zero_grad()
            model.load_from(job)
            for p, q in zip(before, model.parameters()):
                self.assertLess(float((p - q).norm()), 0.0011)

    def test_accumulated_and_skipped_steps(self):
        """k micro-batches are one batch of the unit, and a step that is not taken is left out."""
        with servers() as s, s.connect(name="t") as job:
            rows = wt.EmbeddingBag("counts", 1, optimizer=COUNT, init="zero")
            loader = wt.DataLoader(
                clicks(), job, 10, 2, accumulate=3, unit_batches=3, rows={rows: 0}
            )
            optimizer = wt.Optimizer(rows, job)
            expected, pending, steps = np.zeros(IDS), np.zeros(IDS), 0
            for x, _ in loader:
                (-rows(x[:5]).sum()).backward()
                (-rows(x[5:]).sum()).backward()
                pending += np.bincount(x.ravel(), minlength=IDS)
                if not loader.step_due:
                    self.assertRaisesRegex(weir.StateError, "micro-batch", optimizer.step)
                    continue
                steps += 1
                if steps % 4:  # the others: as GradScaler after an overflow
                    optimizer.step()
                    expected += pending
                optimizer.zero_grad()
                pending[:] = 0
            self.assertEqual(steps, 14)
            self.assertEqual(job.status().audit, "exact")
            got = job.find("counts").pull(np.arange(IDS))[:, 0]
            np.testing.assert_array_equal(got, expected)

    def test_rows_count_their_examples(self):
        """Gradients of -1 count how often each id was trained: exactly as often as in the data."""
        data = clicks()
        with servers(passes=3) as s, s.connect(name="t") as job:
            rows = wt.EmbeddingBag("counts", 2, optimizer=COUNT, init="zero")
            loader = wt.DataLoader(data, job, 32, 2, unit_batches=2, rows={rows: 0})
            optimizer = wt.Optimizer(rows, job)
            for x, _ in loader:
                (-rows(x).sum()).backward()
                optimizer.step()
                optimizer.zero_grad()
            got = job.find("counts").pull(np.arange(IDS))
            expected = 3 * np.bincount(data.tensors[0].ravel(), minlength=IDS)
            np.testing.assert_array_equal(got[:, 0], expected)

    def test_ids_changed_in_the_loop(self):
        """Rows that the loader has pulled ahead serve the batch's own ids, and nothing else."""
        data = clicks()
        with servers() as s, s.connect(name="t") as job:
            rows = wt.Embedding("counts", 1, optimizer=COUNT, init="zero")
            loader = wt.DataLoader(data, job, 32, rows={rows: 0})
            optimizer = wt.Optimizer(rows, job)
            for x, _ in loader:
                (-rows(x).sum() - rows(x[:, 0]).sum()).backward()
                x += IDS
                (-rows(x.view(-1, 1)).sum()).backward()
                optimizer.step()
                optimizer.zero_grad()
            got = job.find("counts").pull(np.arange(2 * IDS))[:, 0]
            x = data.tensors[0].numpy()
            both, first = np.bincount(x.ravel(), minlength=IDS), np.bincount(x[:, 0], minlength=IDS)
            np.testing.assert_array_equal(got, np.concatenate([both + first, both]))

    def test_job_that_goes_back_to_a_checkpoint(self):
        data = clicks()
        with servers(passes=2, settings=ON_DISK) as s, s.connect(name="t") as job:
            rows = wt.Embedding("counts", 1, optimizer=COUNT, init="zero")
            loader = wt.DataLoader(data, job, 20, 2, unit_batches=2, rows={rows: 0})
            optimizer = wt.Optimizer(rows, job)
            steps = 0
            for x, _ in loader:
                steps += 1
                if steps == 5:
                    job.checkpoint()
                if steps == 13:
                    s.restore()
                (-rows(x).sum()).backward()
                optimizer.step()
                optimizer.zero_grad()
            self.assertEqual(job.generation, 2)
            self.assertGreater(steps, 2 * ROWS // 20)
            got = job.find("counts").pull(np.arange(IDS))[:, 0]
            np.testing.assert_array_equal(got, 2 * np.bincount(data.tensors[0].ravel()))

    def test_trainer_that_was_taken_for_dead(self):
        data = clicks()
        with servers() as s, s.connect(name="t") as job:
            rows = wt.Embedding("counts", 1, optimizer=COUNT, init="zero")
            loader = wt.DataLoader(data, job, 20, 2, unit_batches=2, rows={rows: 0})
            optimizer = wt.Optimizer(rows, job)
            steps = 0
            for x, _ in loader:
                steps += 1
                if steps == 5:  # stops this process for longer than the lease
                    signals = f"kill -STOP {os.getpid()}; sleep 4; kill -CONT {os.getpid()}"
                    subprocess.Popen(["sh", "-c", signals]).wait()
                (-rows(x).sum()).backward()
                optimizer.step()
                optimizer.zero_grad()
            self.assertGreater(job.status().workers_lost, 0)
            got = job.find("counts").pull(np.arange(IDS))[:, 0]
            np.testing.assert_array_equal(got, np.bincount(data.tensors[0].ravel()))
            self.assertEqual(job.status().audit, "exact")


def job_mean(job):
    return torch.from_numpy(job.find("dense-buffers").pull()[:8])


class Modules(unittest.TestCase):
    def test_bags_are_as_pytorchs(self):
        g = torch.Generator().manual_seed(2)
        ids = torch.randint(0, IDS, (12, 3), generator=g)
        offsets, weights = torch.tensor([0, 2, 2, 30]), torch.rand(12, 3, generator=g)
        with servers() as s, s.connect(name="t", units=1, unit_batches=8) as job:
            for mode in ("sum", "mean", "max"):
                bag = wt.EmbeddingBag("bag", 4, mode=mode, init={"kind": "uniform", "a": 1})
                bag.bind(job, create=True)
                weight = torch.from_numpy(job.find("bag").pull(np.arange(IDS)))
                plain = nn.EmbeddingBag.from_pretrained(weight, mode=mode)
                with torch.no_grad():
                    self.assertTrue(torch.equal(bag(ids), plain(ids)))
                    flat = ids.flatten()
                    self.assertTrue(torch.equal(bag(flat, offsets), plain(flat, offsets)))
                    if mode == "sum":
                        got = bag(ids, per_sample_weights=weights)
                        self.assertTrue(torch.equal(got, plain(ids, per_sample_weights=weights)))

    def test_copies_have_no_job(self):
        with servers() as s, s.connect(name="t") as job:
            model = Clicks()
            wt.Optimizer(model, job)
            other = copy.deepcopy(model)
            with self.assertRaisesRegex(weir.StateError, "has no job"):
                other(clicks()[:4][0])
            with torch.no_grad():
                other.out.weight.add_(1)
                self.assertEqual(model(clicks()[:4][0]).shape, (4,))
            self.assertFalse(torch.equal(model.out.weight, other.out.weight))

    def test_keys(self):
        ids = torch.tensor([[3, 5], [0, 1]])
        self.assertEqual(wt.feature_keys(ids, None).tolist(), ids.tolist())
        self.assertEqual(wt.feature_keys(ids, [4, 9]).tolist(), [[3, 9], [0, 5]])
        hashed = wt.feature_keys(ids, 2)
        self.assertEqual(len(set(hashed.ravel().tolist())), 4)
        with self.assertRaisesRegex(weir.InvalidError, "id 5 of feature 1 is outside 0 to 4"):
            wt.feature_keys(ids, [4, 5])
        with self.assertRaisesRegex(weir.InvalidError, "one id a feature"):
            wt.feature_keys(ids, 3)

    def test_keys_are_those_of_weir_key(self):
        program = weir._library.program("weir")
        for feature, id_ in ((0, 7), (3, 123456789)):
            out = subprocess.run(
                [program, "key", "--format", "libffm", str(feature), str(id_)],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            ids = torch.full((4,), id_)
            self.assertEqual(int(wt.feature_keys(ids, 4)[feature]), int(out.split()[-1]))

    def test_order_is_a_permutation(self):
        for n in (1, 2, 7, 64, 1000):
            whole = np.concatenate([shuffled(at, min(9, n - at), n, 3, 1) for at in range(0, n, 9)])
            self.assertEqual(sorted(whole.tolist()), list(range(n)))
        other = shuffled(0, 1000, 1000, 3, 2)
        self.assertLess((shuffled(0, 1000, 1000, 3, 1) == other).sum(), 20)
        self.assertLess(abs(np.corrcoef(other, np.arange(1000))[0, 1]), 0.15)

    def test_auc(self):
        self.assertEqual(wt.auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]), 0.75)
        self.assertEqual(wt.auc([0, 1], [0.5, 0.5]), 0.5)
        self.assertTrue(math.isnan(wt.auc([1, 1], [0.5, 0.6])))


class Noisy(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.rand(1)


class Broken(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 5:
            raise OSError("the disk is gone")
        return torch.tensor([i])


class Stream(IterableDataset):
    def __iter__(self):
        return iter([torch.tensor([i]) for i in range(6)])


class Misuse(unittest.TestCase):
    def test_datasets(self):
        with servers() as s, s.connect(name="t") as job:
            with self.assertRaisesRegex(weir.InvalidError, "exactly_once=False"):
                wt.DataLoader(Stream(), job, 2)
            with self.assertRaisesRegex(weir.InvalidError, "length"):
                wt.DataLoader(Stream(), job, 2, exactly_once=False)
            with self.assertRaisesRegex(weir.InvalidError, "version="):
                wt.DataLoader(Noisy(), job, 2)
            with self.assertRaisesRegex(weir.InvalidError, "batch_size"):
                wt.DataLoader(clicks(), job, 0)
            loader = wt.DataLoader(Stream(), job, 2, exactly_once=False, length=10, unit_batches=2)
            rows = wt.Embedding("counts", 1, optimizer=COUNT, init="zero")
            optimizer = wt.Optimizer(rows, job)
            for x in loader:
                (-rows(x).sum()).backward()
                optimizer.step()
                optimizer.zero_grad()
            self.assertEqual(job.find("counts").pull(np.arange(6)).sum(), 10)

    def test_other_data_or_settings_are_refused(self):
        with servers(workers=2) as s, s.connect(name="a") as a:
            wt.DataLoader(clicks(), a, 16)
            for data, size, words in (
                (clicks(), 32, "batch_size"),
                (clicks(ids=30), 16, "another dataset"),
            ):
                with s.connect(name="b") as b:
                    with self.assertRaisesRegex(weir.InvalidError, words):
                        wt.DataLoader(data, b, size)

    def test_dataset_that_fails(self):
        for workers in (0, 2):
            with servers() as s, s.connect(name="t") as job:
                loader = wt.DataLoader(
                    Broken(), job, 4, workers, shuffle=False, unit_batches=1, version="1"
                )
                with self.assertRaisesRegex((weir.Error, OSError), "the disk is gone"):
                    for _ in loader:
                        pass

    def test_loop(self):
        with servers() as s, s.connect(name="t") as job:
            with self.assertRaisesRegex(weir.StateError, "describe_data"):
                job.lease(1)
            model = Clicks()
            x, y = clicks()[:4]
            with self.assertRaisesRegex(weir.StateError, "has no job"):
                model(x)
            with self.assertRaisesRegex(weir.NotFoundError, "ids"):
                model.load_from(job)
            optimizer = wt.Optimizer(model, job, optimizer=SGD)
            with self.assertRaisesRegex(weir.StateError, "no_grad"):
                model(x)
            with torch.no_grad():
                self.assertEqual(model(x).shape, (4,))
            with self.assertRaisesRegex(weir.InvalidError, "dtype torch.int32"):
                model.ids(x.int())
            with self.assertRaisesRegex(weir.StateError, "batch in hand"):
                optimizer.step()
            with self.assertRaisesRegex(weir.UnsupportedError, "checkpoint"):
                optimizer.state_dict()
            with wt.DataLoader(clicks(), job, 16, unit_batches=2) as loader:
                for x, y in loader:
                    (bce(model, x, y) * math.nan).backward()
                    with self.assertRaisesRegex(weir.NotFiniteError, "table"):
                        optimizer.step()
                    with self.assertRaisesRegex(weir.StateError, "complete"):
                        optimizer.step()
                    optimizer.zero_grad()
                    break
                for x, y in loader:  # goes on with the next step
                    bce(model, x, y).backward()
                    optimizer.step()
                    break
            with self.assertRaisesRegex(weir.ClosedError, "loader is closed"):
                next(iter(loader))
            with self.assertRaisesRegex(weir.InvalidError, "dtype torch.float64"):
                wt.Optimizer(nn.Linear(2, 2).double(), job, table="other")
            with self.assertRaisesRegex(weir.ExistsError, "dense"):
                wt.Optimizer(nn.Linear(2, 2), job)


if __name__ == "__main__":
    warnings.simplefilter("error")
    unittest.main()

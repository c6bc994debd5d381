"""Rounds of local steps: against the same arithmetic without servers, and through failures."""

import copy
import threading
import time
import unittest
from unittest import mock

import numpy as np
import weir
from support import BATCHES, UNITS, connect, servers

try:
    import torch
    from torch.utils.data import TensorDataset
    from weir.torch import DataLoader, DiLoCo, Embedding, LocalSGD
except ImportError as e:
    raise unittest.SkipTest(f"no PyTorch here: {e}") from None

torch.set_num_threads(1)
WIDTH, ROWS = 8, 16
OUTER = weir.Optimizer("nesterov", lr=0.7, momentum=0.9)


def make_model(seed=0, hidden=12):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(WIDTH, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1)
    )


def examples(data_unit, index):
    g = torch.Generator().manual_seed(1000 * data_unit + index)
    x = torch.randn(ROWS, WIDTH, generator=g)
    return x, x.sum(1, keepdim=True).sin()


def train_batch(model, inner, data_unit, index):
    x, y = examples(data_unit, index)
    inner.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    inner.step()
    return loss.item()


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def fill(model, values):
    torch.nn.utils.vector_to_parameters(values.clone(), model.parameters())


def train(job, rounds, model, inner, each=None):
    """The user's loop. Returns the data units of its rounds."""
    done = []
    for unit in rounds.units():
        with unit:
            for batch in rounds.batches(unit, BATCHES):
                train_batch(model, inner, unit.data_unit, batch.index)
                if each:
                    each(batch)
            done.append(unit.data_unit)
    return done


class Arithmetic(unittest.TestCase):
    def test_one_worker_is_plain_training(self):
        with servers(servers=2, passes=2) as s, connect(s) as job:
            model = make_model()
            plain = copy.deepcopy(model)
            inner = torch.optim.Adam(model.parameters(), lr=0.01)
            rounds = LocalSGD(job, model, inner, every=BATCHES)
            units = train(job, rounds, model, inner)
            rounds.finish()
            inner = torch.optim.Adam(plain.parameters(), lr=0.01)
            for data_unit in units:
                for index in range(BATCHES):
                    train_batch(plain, inner, data_unit, index)
            self.assertEqual((len(units), rounds.rounds, rounds.undone), (2 * UNITS, 2 * UNITS, 0))
            self.assertLess((flat(model) - flat(plain)).abs().max().item(), 1e-5)
            self.assertEqual(job.status().audit, "exact")

    def test_two_workers_are_the_algorithm(self):
        """DiLoCo's algorithm 1 in a single process, over the units that each worker executed."""
        models, done = [make_model(), make_model()], [None, None]
        start = flat(models[0])

        def work(rank, s):
            with connect(s, f"w{rank}") as job:
                inner = torch.optim.AdamW(models[rank].parameters(), lr=0.02)
                rounds = DiLoCo(job, models[rank], inner, every=BATCHES, outer=OUTER)
                done[rank] = train(job, rounds, models[rank], inner)
                rounds.finish()

        with servers(servers=2, workers=2, passes=2) as s:
            threads = [threading.Thread(target=work, args=(rank, s)) for rank in range(2)]
            for t in threads:
                t.start()
            for t in threads:
                t.join(30)
        self.assertEqual([len(d) for d in done], [UNITS, UNITS])
        weights, velocity = start.clone(), torch.zeros_like(start)
        own = [make_model(), make_model()]
        inners = [torch.optim.AdamW(m.parameters(), lr=0.02) for m in own]
        for r in range(UNITS):
            deltas = []
            for rank in range(2):
                fill(own[rank], weights)
                for index in range(BATCHES):
                    train_batch(own[rank], inners[rank], done[rank][r], index)
                deltas.append(weights - flat(own[rank]))
            g = (deltas[0] + deltas[1]) / 2
            velocity = OUTER.momentum * velocity + g
            weights = weights - OUTER.lr * (g + OUTER.momentum * velocity)
        for model in models:
            self.assertLess((flat(model) - weights).abs().max().item(), 1e-4)
        self.assertGreater((weights - start).abs().max().item(), 0.1)

    def test_fragments_and_overlap(self):
        with servers(servers=2, passes=3) as s, connect(s, unit_batches=BATCHES) as job:
            model = torch.nn.Sequential(
                torch.nn.Linear(WIDTH, 14000), torch.nn.Tanh(), torch.nn.Linear(14000, 1)
            )
            inner = torch.optim.SGD(model.parameters(), lr=1e-4)
            rounds = DiLoCo(
                job, model, inner, 4, fragments=2, overlap=1, merge=0.5, outer="sgd", push="int8"
            )
            before = flat(model)
            moved = []

            def each(batch):
                moved.append((flat(model) - rounds._global).abs().max().item() > 0)

            self.assertEqual(len(train(job, rounds, model, inner, each)), 3 * UNITS)
            self.assertTrue(all(moved))
            self.assertEqual(rounds.rounds, 2 * 3 * UNITS)  # the unit's last batch pushes all
            self.assertEqual(job.status().audit, "exact")
            rounds.finish()
            self.assertFalse(torch.equal(flat(model), before))


class Loader(unittest.TestCase):
    """The loop over weir.torch.DataLoader knows nothing of rounds."""

    def test_loop_over_the_loader(self):
        g = torch.Generator().manual_seed(1)
        x = torch.randn(200, WIDTH, generator=g)
        data = TensorDataset(x, x.sum(1, keepdim=True).sin())
        with servers(servers=2, passes=2) as s, s.connect(name="trainer") as job:
            loader = DataLoader(data, job, 16, unit_batches=BATCHES)
            model = make_model()
            plain = copy.deepcopy(model)
            inner = torch.optim.Adam(model.parameters(), lr=0.01)
            rounds = LocalSGD(job, model, inner, every=BATCHES)
            other = torch.optim.Adam(plain.parameters(), lr=0.01)
            for x, y in loader:
                for m, o in ((model, inner), (plain, other)):
                    o.zero_grad()
                    torch.nn.functional.mse_loss(m(x), y).backward()
                    o.step()
            rounds.finish()
            self.assertEqual((rounds.rounds, rounds.undone), (2 * 4, 0))
            self.assertLess((flat(model) - flat(plain)).abs().max().item(), 1e-5)
            status = job.status()
            self.assertEqual((status.state, status.audit), ("finished", "exact"))

    def test_embeddings_are_pushed_with_each_batch(self):
        ids = torch.arange(120) % 30
        data = TensorDataset(ids, (ids % 2).float())
        with servers(passes=1) as s, s.connect(name="trainer") as job:
            model = torch.nn.Sequential(
                Embedding("ids", 4, optimizer=weir.Optimizer("sgd", lr=0.5)), torch.nn.Linear(4, 1)
            )
            loader = DataLoader(data, job, 10, unit_batches=4, rows={model[0]: 0})
            inner = torch.optim.SGD(model[1].parameters(), lr=0.1)
            LocalSGD(job, model, inner, every=4)
            before = job.find("ids").pull(np.arange(30))
            losses = []
            for x, y in loader:
                loss = torch.nn.functional.mse_loss(model(x).squeeze(1), y)
                inner.zero_grad()
                loss.backward()
                inner.step()
                losses.append(loss.item())
            self.assertTrue((job.find("ids").pull(np.arange(30)) != before).any(1).all())
            self.assertLess(np.mean(losses[-3:]), np.mean(losses[:3]))
            self.assertEqual(job.status().audit, "exact")


class Residuals(unittest.TestCase):
    """What error feedback keeps back is pushed before a trainer leaves."""

    def check(self, mode):
        data = TensorDataset(torch.randn(200, WIDTH, generator=torch.Generator().manual_seed(1)))
        with servers(servers=2, passes=2) as s, s.connect(name="trainer") as job:
            loader = DataLoader(data, job, 10, unit_batches=BATCHES)
            model = make_model()
            inner = torch.optim.SGD(model.parameters(), lr=0.1)
            rounds = LocalSGD(job, model, inner, every=BATCHES, push="int4", rounds=mode)
            expected, kept = flat(model).double(), 0.0
            push = job.push

            def note(batch, pushes, **options):
                if rounds.table in pushes:
                    expected.sub_(torch.from_numpy(pushes[rounds.table][1]))
                return push(batch, pushes, **options)

            job.push = note
            for (x,) in loader:
                kept = max(kept, job.stats().residual_norm)
                inner.zero_grad()
                model(x).square().mean().backward()
                inner.step()
            rounds.finish()
            self.assertGreater(kept, 0)
            self.assertEqual(job.stats().residual_norm, 0)
            self.assertLess((flat(model) - expected).abs().max().item(), 1e-5)
            self.assertEqual((rounds.rounds, job.status().audit), (2 * 5, "exact"))

    def test_asynchronous_rounds(self):
        self.check("async")

    def test_synchronous_rounds(self):
        self.check("sync")

    def test_without_the_loader(self):
        with servers(passes=2) as s, connect(s) as job:
            model = make_model()
            inner = torch.optim.SGD(model.parameters(), lr=0.01)
            rounds = LocalSGD(job, model, inner, every=BATCHES, push="int4")
            pushed, push_residuals = [], weir.Batch.push_residuals

            def note(batch):
                pushed.append((batch.unit.pass_, batch.index))
                push_residuals(batch)

            with mock.patch.object(weir.Batch, "push_residuals", note):
                train(job, rounds, model, inner)
            self.assertEqual(pushed, [(1, BATCHES)])  # once: with the last unit
            self.assertEqual((job.stats().residual_norm, job.status().audit), (0, "exact"))


class Failures(unittest.TestCase):
    def test_unit_left_early_undoes_its_round(self):
        with servers() as s, connect(s) as job:
            model = make_model()
            inner = torch.optim.Adam(model.parameters(), lr=0.01)
            rounds = LocalSGD(job, model, inner, every=BATCHES)
            train_one = iter(rounds.units())
            unit = next(train_one)
            with self.assertRaisesRegex(RuntimeError, "mine"), unit:
                for batch in rounds.batches(unit, BATCHES):
                    train_batch(model, inner, unit.data_unit, batch.index)
                    if batch.index == 1:
                        raise RuntimeError("mine")
            self.assertEqual(inner.state_dict()["state"][0]["step"], 2)
            unit = next(train_one)
            with unit:
                for batch in rounds.batches(unit, BATCHES):
                    if batch.index == 0:
                        self.assertEqual(inner.state_dict()["state"], {})
                        self.assertTrue(torch.equal(flat(model), flat(make_model())))
                    train_batch(model, inner, unit.data_unit, batch.index)
            self.assertEqual(rounds.undone, 1)
            train(job, rounds, model, inner)
            self.assertEqual(job.status().audit, "exact")

    def test_worker_taken_for_dead_goes_on_from_the_round(self):
        settings = {"cluster": {"lease_ms": 3001, "progress_timeout_ms": 1000}}
        with servers(settings=settings) as s, connect(s) as job:
            model = make_model()
            inner = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
            rounds = LocalSGD(job, model, inner, every=2)
            slept = []

            def each(batch):
                if batch.index == 2 and not slept:
                    slept.append(copy.deepcopy(inner.state_dict()["state"]))
                    time.sleep(3)
                elif len(slept) == 1:
                    slept.append(copy.deepcopy(rounds._start.state))

            train(job, rounds, model, inner, each)
            self.assertEqual(rounds.undone, 1)
            after = slept[1][0]["momentum_buffer"]
            self.assertFalse(torch.equal(slept[0][0]["momentum_buffer"], after))
            self.assertEqual(job.status().audit, "exact")

    def test_round_that_is_not_finite_is_undone(self):
        with servers() as s, connect(s) as job:
            model = make_model()
            inner = torch.optim.Adam(model.parameters(), lr=0.01)
            rounds = LocalSGD(job, model, inner, every=BATCHES)

            def each(batch):
                if batch.unit.number == 2 and batch.index == 1:
                    with torch.no_grad():
                        model[0].weight[0, 0] = float("nan")

            with self.assertLogs("weir", "WARNING") as said:
                train(job, rounds, model, inner, each)
            self.assertIn("undone", said.output[0])
            rounds.finish()
            self.assertTrue(torch.isfinite(flat(model)).all())
            self.assertEqual((rounds.undone, job.status().audit), (1, "exact"))

    def test_job_that_goes_back(self):
        with servers(passes=4) as s, connect(s) as job:
            model = make_model()
            inner = torch.optim.SGD(model.parameters(), lr=0.01)
            rounds = LocalSGD(job, model, inner, every=BATCHES)
            self.assertEqual(len(train_some(job, rounds, model, inner, 3)), 3)
            name = job.checkpoint()
            self.assertTrue(name)
            rounds.finish()
            there = flat(model)
            train_some(job, rounds, model, inner, 3)
            job.close()
            s.restore()
            with connect(s) as again:
                rounds = LocalSGD(again, make_model(9), inner, every=BATCHES)
                rounds.finish()
                self.assertTrue(torch.equal(flat(rounds.model), there))


def train_some(job, rounds, model, inner, units):
    done = []
    for unit in rounds.units():
        with unit:
            for batch in rounds.batches(unit, BATCHES):
                train_batch(model, inner, unit.data_unit, batch.index)
        done.append(unit.data_unit)
        if len(done) == units:
            return done
    return done


class Misuse(unittest.TestCase):
    def test_what_does_not_fit_is_refused(self):
        with servers() as s, connect(s) as job:
            model = make_model()
            inner = torch.optim.SGD(model.parameters(), lr=0.01)
            for options, words in (
                ({"every": 0}, "every is 0"),
                ({"fragments": 2}, "1 chunks of 65536"),
                ({"every": 4, "overlap": 4}, "less than every / fragments: 4"),
                ({"merge": 0.0}, "merge is 0"),
            ):
                with self.assertRaisesRegex(weir.InvalidError, words):
                    DiLoCo(job, model, inner, **options)
            with connect(s, "short", unit_batches=3) as short:
                with self.assertRaisesRegex(weir.InvalidError, "units have 3 batches"):
                    DiLoCo(short, model, inner, every=4)
            with self.assertRaisesRegex(weir.InvalidError, "0.weight has dtype torch.float64"):
                DiLoCo(job, make_model().double(), inner)
            with self.assertRaisesRegex(weir.InvalidError, "no parameter"):
                DiLoCo(job, torch.nn.ReLU(), inner)
            DiLoCo(job, model, inner)
            with self.assertRaisesRegex(weir.ExistsError, "dense"):
                DiLoCo(job, make_model(hidden=13), inner)

    def test_first_weights_are_those_of_the_first_process(self):
        with servers(workers=2) as s, connect(s, "a") as a, connect(s, "b") as b:
            one, other = make_model(1), make_model(2)
            for job, model in ((a, one), (b, other)):
                inner = torch.optim.SGD(model.parameters(), lr=0.01)
                DiLoCo(job, model, inner).finish()
            self.assertTrue(torch.equal(flat(one), flat(make_model(1))))
            self.assertTrue(torch.equal(flat(one), flat(other)))
            self.assertTrue(np.array_equal(flat(one).numpy(), a.find("dense").pull()))


if __name__ == "__main__":
    unittest.main()

import json
import shutil
import tempfile
import threading
import time
import unittest
import weakref

import numpy as np
import weir
from weir._program import run_program
from support import BATCHES, ROWS, UNITS, connect, count_keys, job_of, keys_of, servers, wait_until

SGD = {"kind": "sgd", "lr": 1}
DTYPES = {"F32": np.float32, "U64": np.uint64, "I64": np.int64}


def read_safetensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    start = 8 + int.from_bytes(raw[:8], "little")
    tensors = {k: v for k, v in json.loads(raw[8:start]).items() if k != "__metadata__"}
    for name, t in tensors.items():
        begin, end = t["data_offsets"]
        tensors[name] = np.frombuffer(raw[start + begin : start + end], DTYPES[t["dtype"]]).reshape(
            t["shape"]
        )
    return tensors


class Training(unittest.TestCase):
    def test_every_batch_counts_once(self):
        with job_of() as job:
            table = job.table("counts", width=2, optimizer=SGD)
            expected = count_keys(job, table)
            got = table.pull(np.arange(100))
            self.assertTrue(np.array_equal(got, np.stack([expected, expected], 1)), got)
            status = job.status()
            self.assertEqual((status.state, status.audit), ("finished", "exact"))
            self.assertEqual((status.parts_missing, status.parts_double), (0, 0))
            self.assertGreater(status.parts_applied, 0)
            self.assertEqual(sum(clock.steps > 0 for clock in table.clocks()), job.partitions)

    def test_dense_table_learns(self):
        with job_of(passes=6) as job:
            true = np.arange(16, dtype=np.float32) / 4 - 2
            w = job.table("weights", elements=16, optimizer=weir.Optimizer("sgd", lr=0.2))
            for unit in job.units():
                with unit:
                    for batch in unit.batches(BATCHES):
                        rng = np.random.default_rng((unit.data_unit, batch.index))
                        x = rng.uniform(-1, 1, (ROWS, 16)).astype(np.float32)
                        error = x @ (batch.pull({w: None})[w] - true)
                        batch.push({"weights": 2 * x.T @ error / ROWS})
                        job.progress(rows=ROWS, loss_sum=error @ error)
            self.assertLess(np.abs(w.pull() - true).max(), 0.05)
            wait_until(lambda: job.status().rows == 6 * UNITS * BATCHES * ROWS, 5, "the reports")

    def test_two_trainers_share_the_units(self):
        with servers(servers=2, workers=2) as s, connect(s, "a") as a, connect(s, "b") as b:
            tables = [job.table("counts", width=2, optimizer=SGD) for job in (a, b)]
            units = [job.units() for job in (a, b)]
            seen, open_ = set(), [0, 1]
            while open_:
                for i in list(open_):
                    unit = next(units[i], None) if len(seen) < UNITS else None
                    if unit is None:
                        open_.remove(i)
                        continue
                    with unit:
                        seen.add(unit.number)
                        for batch in unit.batches(BATCHES):
                            keys = keys_of(unit, batch)
                            batch.push({tables[i]: (keys, -np.ones((ROWS, 2), np.float32))})
            self.assertEqual(seen, set(range(UNITS)))
            self.assertEqual(tables[0].pull(np.arange(100))[:, 0].sum(), UNITS * BATCHES * ROWS)
            self.assertEqual((a.lease(5), b.lease(5)), (None, None))

    def test_parts_of_a_unit_that_is_shorter_than_declared(self):
        options = {"units": 1, "unit_batches": 16, "rows": 0}
        with servers(workers=2) as s:
            with connect(s, "a", **options) as a, connect(s, "b", **options) as b:
                units = [a.lease(5), b.lease(5)]
                first, second = sorted(units, key=lambda unit: unit.watermark)
                self.assertGreater(second.watermark, 6)
                self.assertEqual([b.index for b in first.batches(6)], list(range(first.end)))
                self.assertEqual(list(second.batches(6)), [])
                second.commit()

    def test_borrowed_and_copied_pushes(self):
        with job_of() as job:
            table = job.table("rows", width=8, optimizer=SGD)
            unit = job.lease(5)
            with unit:
                batches = unit.batches(2)
                keys, values = np.array([5, 9]), np.full((2, 8), -1, np.float32)
                ticket = next(batches).push({table: (keys, values)})
                keys[:], values[:] = 7, 100  # the push has its copy
                ticket.wait(5)
                self.assertTrue(ticket.done())
                borrowed = -np.ones((2, 8), np.float32)
                ticket = next(batches).push({table: (np.array([5, 9]), borrowed)}, copy=False)
                del borrowed  # the ticket keeps it
                ticket.wait(5)
            self.assertTrue((table.pull([5, 9, 7]) == [[2], [2], [0]]).all())

    def test_memory_in_flight_stays(self):
        with job_of() as job:
            table = job.table("rows", width=2, optimizer=SGD)
            flat = job.table("flat", elements=4)
            with job.lease(5) as unit:
                arrays = [np.arange(3), -np.ones((3, 2), np.float32), np.zeros(4, np.float32)]
                watched = [weakref.ref(a) for a in arrays]
                push = next(unit.batches(1)).push(
                    {table: tuple(arrays[:2]), flat: arrays[2]}, copy=False
                )
                arrays.append(np.arange(3))
                watched.append(weakref.ref(arrays[3]))
                pull = job.pull_ahead({table: arrays[3]})
                del arrays
                self.assertTrue(all(w() is not None for w in watched))
                push.wait(5)
                pull.wait(5)
                self.assertEqual([w() for w in watched], [None] * 4)
            with job.lease(5) as unit:
                gradient = np.ones((1, 2), np.float32)
                watched = weakref.ref(gradient)
                ticket = next(unit.batches(1)).push({table: ([7], gradient)})
                del gradient
                self.assertIsNone(watched())  # the push has its copy
                ticket.wait(5)

    def test_pull_shapes(self):
        with job_of() as job:
            table = job.table("rows", width=3, init={"kind": "uniform", "a": 0.5}, seed=3)
            grid = table.pull([[1, 2], [2, 1]])
            self.assertEqual((grid.shape, grid.dtype), ((2, 2, 3), np.float32))
            self.assertTrue(
                (grid[0] == grid[1, ::-1]).all() and (abs(grid) <= 0.5).all() and grid.std() > 0
            )
            out = np.zeros((1, 3), np.float32)
            self.assertIs(table.pull(np.array([1]), out=out), out)
            self.assertTrue((out[0] == grid[0, 0]).all())
            self.assertEqual(table.pull([]).shape, (0, 3))
            ahead = job.pull_ahead({"rows": [2]})
            self.assertTrue((ahead.wait(5)["rows"] == grid[0, 1]).all())

    def test_negative_keys_are_twos_complement(self):
        with job_of() as job:
            table = job.table("rows", width=1, init={"kind": "uniform", "a": 1}, seed=1)
            same = [np.array([-2]), np.array([-2], np.int32), np.array([2**64 - 2], np.uint64)]
            values = [table.pull(keys).tobytes() for keys in same]
            self.assertEqual(len(set(values)), 1)

    def test_tickets_need_no_wait(self):
        with job_of() as job:
            table = job.table("counts", width=2, optimizer=SGD)
            kept = []
            expected = count_keys(job, table, kept)
            self.assertTrue((table.pull(np.arange(100))[:, 0] == expected).all())
            del kept
            job.pull({table: [1]})
            self.assertLessEqual(len(job._handle.borrowed), 1)

    def test_settings_and_table_are_compared(self):
        with servers() as s, connect(s, "a", settings={"seed": 1}) as a:
            a.table("t", width=2)
            with self.assertRaisesRegex(weir.InvalidError, "seed"):
                connect(s, "b", settings={"seed": 2})
            with connect(s, "b", settings={"seed": 2}, accept=["seed"]) as b:
                with self.assertRaisesRegex(weir.ExistsError, "t"):
                    b.table("t", width=3)
                self.assertEqual(b.find("t").width, 2)

    def test_evaluator_judges_passes(self):
        with (
            servers(passes=2) as s,
            s.connect(name="judge", role="evaluator") as judge,
            connect(s) as job,
        ):
            table = job.table("counts", width=2, optimizer=SGD)
            judged = []

            def judge_all():
                for evaluation in judge.evaluations():
                    judged.append((evaluation.pass_, evaluation.last))
                    with self.assertRaisesRegex(weir.InvalidError, "no logloss"):
                        evaluation.verdict(auc=0.75)
                    evaluation.verdict(auc=0.75, logloss=0.5, figures={"gauc": 0.6, "ndcg@10": float("nan")})

            thread = threading.Thread(target=judge_all)
            thread.start()
            count_keys(job, table)
            thread.join(10)
            self.assertIn((1, True), judged)  # passes of such a job do not wait for verdicts
            self.assertEqual(job.status().auc, 0.75)

    def test_checkpoint_and_restore(self):
        with servers(passes=2) as s:
            with connect(s) as job:
                table = job.table("counts", width=2, optimizer=SGD)
                unit = job.lease(5)
                with unit:
                    for batch in unit.batches(BATCHES):
                        batch.push({table: ([5], -np.ones((1, 2), np.float32))})
                taken = job.checkpoint()
                self.assertRegex(taken["name"], "^ck-")
                for batch in job.lease(5).batches(1):
                    batch.push({table: ([5], -np.ones((1, 2), np.float32))}).wait()
                self.assertEqual(table.pull([5])[0, 0], BATCHES + 1)
            s.restore()
            with connect(s) as job:
                self.assertEqual(job.generation, 2)
                self.assertEqual(job.find("counts").pull([5])[0, 0], BATCHES)

    @unittest.skipUnless(shutil.which("etcd"), "no etcd here")
    def test_rewind_of_a_replicated_job(self):
        with servers(servers=2, replicas=2) as s, connect(s) as job:
            table = job.table("counts", width=2, optimizer=SGD)
            rejoined = []
            for unit in job.units(on_rejoin=rejoined.append):
                with unit:
                    for batch in unit.batches(BATCHES):
                        if not rejoined and unit.place == 2 and batch.index == 1:
                            job.checkpoint()
                            run_program("rewind", "--at", job.ledger)
                            for _ in range(
                                600
                            ):  # a pull meets the new generation, and ends this block
                                table.pull([1])
                                time.sleep(0.05)
                        keys = keys_of(unit, batch)
                        batch.push({table: (keys, -np.ones((ROWS, 2), np.float32))})
            self.assertEqual([type(e) for e in rejoined], [weir.GenerationError])
            self.assertEqual((job.generation, job.status().audit), (2, "exact"))
            self.assertEqual(table.pull(np.arange(100))[:, 0].sum(), UNITS * BATCHES * ROWS)

    def test_export(self):
        with job_of() as job, tempfile.TemporaryDirectory() as folder:
            job.table("rows", width=2).assign([3, 4], np.array([[1, 2], [3, 4]], np.float32))
            job.table("flat", elements=3).assign(None, np.array([5, 6, 7], np.float32))
            job.export(folder + "/all")
            job.export(folder + "/flat", "flat")
            rows = read_safetensors(folder + "/all")
            order = np.argsort(rows["rows.keys"])
            self.assertEqual(rows["rows.keys"][order].tolist(), [3, 4])
            self.assertEqual(rows["rows.values"][order].tolist(), [[1, 2], [3, 4]])
            self.assertEqual(rows["flat"].tolist(), [5, 6, 7])
            self.assertEqual(list(read_safetensors(folder + "/flat")), ["flat"])
            with self.assertRaisesRegex(weir.Error, "other"):
                job.export(folder + "/other", "other")

    def test_sum_duplicates(self):
        keys, sums = weir.sum_duplicates(
            [[3, 1], [3, 3]], np.arange(8, dtype=np.float32).reshape(2, 2, 2)
        )
        self.assertEqual(keys.tolist(), [1, 3])
        self.assertEqual(sums.tolist(), [[2, 3], [10, 13]])

    def test_dlpack_and_buffers(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch here")
        with job_of() as job:
            table = job.table("rows", width=2, optimizer=SGD)
            with job.lease(5) as unit:
                batch = next(unit.batches(1))
                batch.push({table: (torch.tensor([4, 6]), -torch.ones(2, 2))}).wait(5)
            out = torch.zeros(2, 2)
            table.pull(torch.tensor([4, 6]), out=out)
            self.assertEqual(out.tolist(), [[1, 1], [1, 1]])
            with self.assertRaisesRegex(weir.InvalidError, "detach"):
                table.assign(torch.tensor([4]), torch.ones(1, 2, requires_grad=True))
            import array

            table.assign(array.array("q", [4]), memoryview(np.full((1, 2), 7, np.float32)))
            self.assertEqual(table.pull(memoryview(np.array([4]))).tolist(), [[7, 7]])


if __name__ == "__main__":
    unittest.main()

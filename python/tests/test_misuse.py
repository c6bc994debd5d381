import os
import signal
import threading
import time
import unittest

import numpy as np
import weir
from support import (
    BATCHES,
    ROWS,
    Script,
    alive,
    connect,
    count_keys,
    job_of,
    keys_of,
    name_of,
    servers,
    wait_until,
)

ONE = np.ones((1, 2), np.float32)


class Misuse(unittest.TestCase):
    """Each mistake is an exception with a sentence, within 10 seconds."""

    def setUp(self):
        self.began = time.monotonic()

    def tearDown(self):
        self.assertLess(time.monotonic() - self.began, 10)

    def test_dtypes_and_shapes(self):
        with job_of() as job:
            table = job.table("rows", width=2)
            flat = job.table("flat", elements=4)
            with job.lease(5) as unit:
                batch = next(unit.batches(1))
                wrong = [
                    ({table: ([1], np.ones((1, 2)))}, "float64.*float32"),
                    ({table: ([1], np.ones((2, 2), np.float32))}, r"\(2, 2\).*\(1, 2\)"),
                    ({table: ([1.5], ONE)}, "float64.*integers"),
                    ({table: ([1, 1], np.ones((2, 2), np.float32))}, "1"),
                    ({table: ONE}, "keys, values"),
                    ({table: ([1], ONE, [2], 3)}, "tuple of 4"),
                    ({table: ([1], ONE.T.repeat(2, 1)[:1, ::-1])}, "contiguous"),
                    ({table: (object(), ONE)}, "rows"),
                    ({flat: np.ones(5, np.float32)}, r"\(5,\).*\(4,\)"),
                ]
                for gradients, words in wrong:
                    with (
                        self.subTest(words=words),
                        self.assertRaisesRegex(weir.InvalidError, words),
                    ):
                        batch.push(gradients)
                with self.assertRaisesRegex(weir.NotFoundError, "other"):
                    batch.push({"other": ONE})
                with self.assertRaisesRegex(weir.InvalidError, "needs keys"):
                    table.pull()
                read_only = np.zeros((1, 2), np.float32)
                read_only.flags.writeable = False
                with self.assertRaisesRegex(weir.InvalidError, "read-only"):
                    table.pull([1], out=read_only)
                batch.push({table: ([1], ONE)})  # the batch is as before

    def test_not_finite(self):
        with job_of() as job:
            table = job.table("rows", width=2)
            with job.lease(5) as unit:
                first, second = unit.batches(2)
                with self.assertRaisesRegex(weir.NotFiniteError, "rows"):
                    first.push({table: ([1], ONE * np.nan)})
                second.push({table: ([1], ONE)})
                with self.assertRaises(weir.StateError):
                    second.push({table: ([1], ONE)})

    def test_closed_job(self):
        with job_of() as job:
            table = job.table("rows", width=2)
            ticket = job.pull_ahead({table: [1]})
            job.close()
            job.close()
            self.assertTrue(job.closed)
            for call in (
                lambda: table.pull([1]),
                job.status,
                lambda: next(job.units()),
                ticket.wait,
                table.clocks,
            ):
                with self.assertRaisesRegex(weir.ClosedError, "closed"):
                    call()

    def test_closing_wakes_other_threads(self):
        with servers(workers=2) as s, connect(s) as job:
            errors = []
            units = job.units()
            held = [next(units) for _ in range(1)]
            while True:
                try:
                    held.append(job.lease(0.2))
                except weir.TimedOutError:
                    break

            def wait_for_work():
                try:
                    job.lease()
                except weir.Error as e:
                    errors.append(e)

            thread = threading.Thread(target=wait_for_work)
            thread.start()
            time.sleep(0.2)
            job.close()
            thread.join(5)
            self.assertFalse(thread.is_alive())
            self.assertIsInstance(errors[0], weir.ClosedError)

    def test_units_in_the_wrong_state(self):
        with job_of() as job, self.assertRaisesRegex(weir.StateError, "with unit"):
            for _ in job.units():
                pass

    def test_part_of_another_job(self):
        with job_of() as one, job_of() as other:
            table = one.table("rows", width=2)
            with self.assertRaisesRegex(weir.InvalidError, "another connection"):
                other.pull({table: [1]})

    def test_no_server(self):
        with self.assertRaises(weir.UnavailableError):
            weir.connect("unix:/nonexistent/weir.sock", name="a", units=1, timeout=1)
        with self.assertRaisesRegex(weir.InvalidError, "ledger"):
            weir.connect(name="a")
        with self.assertRaisesRegex(weir.InvalidError, "role"):
            weir.connect("unix:/x", name="a", role="boss")
        with self.assertRaisesRegex(weir.InvalidError, "connect"):
            weir.connect("unix:/x", name="a", units=-1)

    def test_name_is_taken(self):
        with servers() as s, connect(s, "one"), self.assertRaisesRegex(weir.ExistsError, "one"):
            connect(s, "one")

    def test_exception_gives_the_unit_back(self):
        with job_of() as job:
            table = job.table("counts", width=2, optimizer={"kind": "sgd", "lr": 1})
            with self.assertRaisesRegex(RuntimeError, "broken"):
                for unit in job.units():
                    with unit:
                        raise RuntimeError("broken")
            expected = count_keys(job, table)
            self.assertTrue((table.pull(np.arange(100))[:, 0] == expected).all())

    def test_worker_taken_for_dead_joins_again(self):
        settings = {"cluster": {"lease_ms": 3001, "progress_timeout_ms": 1000}}
        with servers(settings=settings) as s, connect(s) as job:
            table = job.table("counts", width=2, optimizer={"kind": "sgd", "lr": 1})
            lost, slow = [], True
            for unit in job.units(on_rejoin=lost.append):
                with unit:
                    for batch in unit.batches(BATCHES):
                        keys = keys_of(unit, batch)
                        batch.pull({table: keys})
                        if slow:
                            slow = False
                            time.sleep(3)
                        batch.push({table: (keys, -np.ones((ROWS, 2), np.float32))}).wait()
            self.assertEqual([type(e) for e in lost], [weir.StaleError])
            self.assertEqual(job.status().audit, "exact")


class LostServer(Script):
    def test_server_that_lost_its_state(self):
        with servers(folder=self.folder + "/s") as s, connect(s) as job:
            table = job.table("rows", width=2)
            table.assign([1], ONE)
            for pid in alive(self.folder):
                if name_of(pid).endswith("weir-server"):
                    os.kill(pid, signal.SIGKILL)
            with self.assertRaisesRegex(weir.LostError, "server-0.*killed by signal 9"):
                table.pull([1])
            with self.assertRaisesRegex(weir.LostError, "have ended"):
                job.close()

    def test_server_that_does_not_come_back(self):
        with servers(folder=self.folder + "/s") as s, connect(s) as job:
            table = job.table("rows", width=2)
            for pid in alive(self.folder):
                if name_of(pid).endswith("weir-server"):
                    os.kill(pid, signal.SIGSTOP)
                    self.addCleanup(resume, pid)
                    wait_until(lambda: state_of(pid) == "T", 5, "the server to stop")
            with self.assertRaises(weir.TimedOutError):
                table.pull([1], timeout=1)
            ticket = job.pull_ahead({table: [1]})
            self.assertFalse(ticket.done())
            for pid in alive(self.folder):
                resume(pid)
            self.assertEqual(ticket.wait(8)[table].shape, (1, 2))


def state_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


def resume(pid):
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    unittest.main()

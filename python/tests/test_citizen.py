import signal
import unittest

from support import Script, alive, kill_beside_its_fork, name_of, servers, wait_until

# Local servers and a connection with a push in flight, whose memory it borrows.
BUSY = """
s = weir.local(folder=FOLDER + "/s", servers=2, partitions=4, settings=SETTINGS)
job = connect(s)
table = job.table("rows", width=2)
unit = job.lease()
batch = next(unit.batches(2))
ticket = batch.push({table: ([1], np.ones((1, 2), np.float32))}, copy=False)
print("busy", flush=True)
"""


class Citizens(Script):
    """However a program ends, it leaves no process behind: Script looks for them at the end."""

    def ends(self, text, code, words="."):
        status, out, err = self.run_script(BUSY + text)
        self.assertEqual(status, code, err)
        self.assertRegex(out + err, words)
        self.no_process_is_left()
        return err

    def test_exit_without_close(self):
        self.assertEqual(self.ends("", 0), "")

    def test_exception(self):
        self.assertRegex(self.ends("1 / 0", 1), "ZeroDivisionError")

    def test_sys_exit_in_with(self):
        self.ends("with s, job:\n    sys.exit(3)", 3)

    def test_garbage(self):
        text = """
import gc
handle = job._handle
del job, table, unit, batch, ticket
gc.collect()
assert handle.client is None and not handle.borrowed
del s
gc.collect()
assert not alive(FOLDER), alive(FOLDER)
"""
        self.assertEqual(self.ends(text, 0), "")

    def test_os_exit(self):
        self.ends("os._exit(5)", 5)

    def test_fork(self):
        text = """
pid = os.fork()
if pid == 0:
    answers = []
    for call in (lambda: table.pull([1]), job.status, ticket.wait, unit.commit, job.close):
        try:
            call()
            answers.append("none")
        except weir.ClosedError as e:
            answers.append("fork" if "fork" in str(e) else str(e))
    print(answers, flush=True)
    del job, s  # the finalizers of a child do nothing
    sys.exit(0)
os.waitpid(pid, 0)
table.pull([1])
ticket.wait()
print("parent goes on")
"""
        self.ends(text, 0, r"(?s)\['fork', 'fork', 'fork', 'fork', 'none'\].*parent goes on")

    def test_fork_outlives_its_killed_parent(self):
        text = """
if os.fork() == 0:
    time.sleep(4)
    os._exit(0)
time.sleep(60)
"""
        process = self.start(BUSY + text)
        self.assertEqual(process.stdout.readline(), "busy\n")
        wait_until(lambda: alive(self.folder), 5, "the servers")
        process.kill()
        # The child inherits the output's pipe, so it is not read to its end.
        wait_until(
            lambda: not [p for p in alive(self.folder) if "weir" in name_of(p)],
            7,
            "the servers to end",
        )
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def test_servers_notice_though_a_fork_lives(self):
        """A connection ends with the parent: the child has given its copies up."""
        text = """
job = weir.connect(LEDGER, name="t", units=1)
job.table("rows", width=2).pull([1])
if os.fork() == 0:
    print(os.getpid(), flush=True)
    signal.pause()
signal.pause()
"""
        with servers(folder=self.folder + "/s", servers=2) as s:
            process = self.start(f"import signal\nLEDGER = {s.ledger!r}\n" + text)
            child = int(process.stdout.readline())
            self.assertGreaterEqual(kill_beside_its_fork(process, child, s.folder), 2)

    def test_kill(self):
        process = self.start(BUSY + "time.sleep(60)")
        self.assertEqual(process.stdout.readline(), "busy\n")
        process.kill()
        process.communicate()
        self.no_process_is_left()

    def test_ctrl_c_in_a_wait(self):
        process = self.start(BUSY + "print(job.lease().number, flush=True)\nwhile True: job.lease()")
        self.assertEqual(process.stdout.readline(), "busy\n")
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        self.assertRegex(err, "KeyboardInterrupt")
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.no_process_is_left()

    def test_multiprocessing_spawn(self):
        text = """
import multiprocessing as mp
with mp.get_context("spawn").Pool(1) as pool:
    print(pool.apply(len, ([1, 2],)))
"""
        self.ends(text, 0, "2")

    def test_both_import_orders(self):
        others = ["ssl", "grpc", "torch", "pyarrow.flight"]
        for names in ([*others, "weir"], ["weir", *others]):
            text = f"""
import importlib
for name in {names}:
    try:
        importlib.import_module(name)
    except ImportError as e:
        print("without", name)
"""
            status, out, err = self.run_script(
                text + "\nfrom support import *\n" + BUSY, support=False
            )
            self.assertEqual((status, err), (0, ""), out)
            self.assertRegex(out, "busy")


if __name__ == "__main__":
    unittest.main()

import logging
import os
import signal
import unittest

import weir
from support import alive, connect, servers, wait_until
from weir._library import ffi, lib
from weir._log import pipe


class Log(unittest.TestCase):
    """libweir's lines are records of the logger "weir"."""

    def test_levels(self):
        said = ((lib.WEIR_LOG_DEBUG, b"a"), (lib.WEIR_LOG_INFO, b"b: c"), (lib.WEIR_LOG_WARN, b""))
        with self.assertLogs("weir", "DEBUG") as log:
            for level, line in (*said, (lib.WEIR_LOG_ERROR, "d\né".encode())):
                lib.weir_log_to_fd(pipe(), level, ffi.new("char[]", line))
            wait_until(lambda: len(log.records) == 4, 5, "the lines")
        self.assertEqual(
            [(r.levelno, r.getMessage()) for r in log.records],
            [
                (logging.DEBUG, "a"),
                (logging.INFO, "b: c"),
                (logging.WARNING, ""),
                (logging.ERROR, "d é"),
            ],
        )

    def test_full_pipe_loses_lines_and_blocks_nobody(self):
        source, end = os.pipe()
        os.set_blocking(end, False)
        for _ in range(200):
            lib.weir_log_to_fd(
                ffi.new("int *", end), lib.WEIR_LOG_INFO, ffi.new("char[]", b"x" * 2000)
            )
        os.close(end)
        with os.fdopen(source) as lines:
            self.assertEqual(len(set(lines)), 1)  # a line is there as a whole, or not at all

    def test_servers_that_are_killed(self):
        with self.assertRaises(weir.LostError), servers() as s, connect(s) as job:
            job.table("rows", width=2).pull([1])
            with self.assertLogs("weir", "WARNING") as log:
                for pid in alive(s.folder):
                    os.kill(pid, signal.SIGKILL)
                wait_until(lambda: "is lost" in "".join(log.output), 5, "a line about the server")


if __name__ == "__main__":
    unittest.main()

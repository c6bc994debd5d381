"""What the binding adds to a step: step.c's calls in Python, and the difference.

usage: step.py STEP_PROGRAM [ROUNDS]

Prints medians over the rounds, in microseconds: of a step, and of the calling thread's CPU time.
The second shows what the binding does; the first has the noise of servers and network, too.
"""

import statistics
import subprocess
import sys
import time

import numpy as np

import weir

STEPS, ROWS, WIDTH, ELEMENTS = 2000, 64, 16, 1000


def steps_in_python(ledger):
    keys = np.arange(ROWS, dtype=np.uint64) * np.uint64(7919)
    row_gradients = np.zeros((ROWS, WIDTH), np.float32)
    flat_gradients = np.zeros(ELEMENTS, np.float32)
    wall, cpu = [], []
    with weir.connect(ledger, name="step", units=1) as job:
        rows, flat = job.table("rows", width=WIDTH), job.table("flat", elements=ELEMENTS)
        with job.lease() as unit:
            for batch in unit.batches(STEPS):
                began, used = time.perf_counter(), time.thread_time()
                batch.pull({rows: keys, flat: None})
                batch.push({rows: (keys, row_gradients), flat: flat_gradients}).wait()
                wall.append(time.perf_counter() - began)
                cpu.append(time.thread_time() - used)
    return statistics.median(wall) * 1e6, statistics.median(cpu) * 1e6


def steps_in_c(ledger, program):
    out = subprocess.run([program, ledger], check=True, capture_output=True, text=True).stdout
    return tuple(float(x) for x in out.split())


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    of_c, of_python = [], []
    for _ in range(rounds):
        for run, into in ((lambda at: steps_in_c(at, program), of_c), (steps_in_python, of_python)):
            with weir.local(partitions=4) as servers:
                into.append(run(servers.ledger))
    c, python = (tuple(statistics.median(x) for x in zip(*runs)) for runs in (of_c, of_python))
    print(f"in C       {c[0]:7.1f} us a step, {c[1]:6.1f} us of the thread's CPU")
    print(f"in Python  {python[0]:7.1f} us a step, {python[1]:6.1f} us of the thread's CPU")
    print(f"difference {python[0] - c[0]:7.1f} us a step, {python[1] - c[1]:6.1f} us of the thread's CPU")


if __name__ == "__main__":
    main()

"""Processor time of a job's processes per push that its servers apply.

    trace_cost.py WEIR SECONDS WINDOWS profile RUN_DIR RUN_DIR
    trace_cost.py WEIR SECONDS WINDOWS beside RUN_DIR RUN_DIR

Prints the microseconds of each of WINDOWS pairs of windows of SECONDS, a pair a line. `beside`: of
two jobs that run at the same time, so that whatever else the machine does slows both. `profile`: of
two equal jobs, without a trace and with one; each is traced in turn beside the other, and a line has
the geometric means, so that it does not count which of the two is faster. Processor time and not
time on a clock: on a machine whose cores are busy, the speed of a job is its inverse.
"""
import glob
import json
import math
import subprocess
import sys
import time

LEAD_S = 1.6  # until all workers trace


def processes(run):
    """The servers and workers that `weir train` runs there."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if words[0].rsplit(b"/", 1)[-1] in (b"weir-server", b"weir-worker") and any(run.encode() in w for w in words):
            if b"evaluator" not in words:
                found.append(path.rsplit("/", 1)[0])
    return found


def cpu_ns(run):
    total = 0
    for process in processes(run):
        for path in glob.glob(process + "/task/*/schedstat"):
            try:
                with open(path, encoding="ascii") as f:
                    total += int(f.read().split()[0])
            except OSError:  # the thread has ended
                continue
    return total


def pushes(weir, at):
    status = json.loads(subprocess.run([weir, "status", "--at", at, "--json"], check=True, capture_output=True).stdout)
    return sum(t["pushes"] for t in status["tables"])


def window(weir, runs, seconds):
    """Of each of the jobs."""
    before = [(cpu_ns(run), pushes(weir, address(run))) for run in runs]
    time.sleep(seconds)
    after = [(cpu_ns(run), pushes(weir, address(run))) for run in runs]
    return [(cpu1 - cpu0) / 1e3 / (done1 - done0) for (cpu0, done0), (cpu1, done1) in zip(before, after)]


def address(run):
    with open(run + "/ledger.address", encoding="utf-8") as f:
        return f.readline().split(",")[0].strip()


def traced(weir, run, runs, seconds):
    """As window, while one of the jobs is traced."""
    command = [weir, "profile", "--run", run, "--seconds", str(seconds + 2), "--out", "/dev/null"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as profile:
        line = profile.stderr.readline()
        assert line.startswith("tracing"), line
        time.sleep(LEAD_S)
        costs = window(weir, runs, seconds)
        profile.stderr.read()
        assert profile.wait() == 0
    return costs


def each_in_turn(weir, runs, seconds):
    first, second = (traced(weir, run, runs, seconds) for run in runs)
    return [math.sqrt(first[1] * second[0]), math.sqrt(first[0] * second[1])]


def main(weir, seconds, windows, how, *runs):
    for _ in range(int(windows)):
        costs = (window if how == "beside" else each_in_turn)(weir, runs, int(seconds))
        print(*(f"{c:.3f}" for c in costs), flush=True)


main(*sys.argv[1:])

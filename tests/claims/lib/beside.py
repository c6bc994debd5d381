"""The cost of misbehaving peers (tests/abuse/attacker.py) to a server and its honest workers.

    beside.py measure WEIR JOB PEER WINDOW_S ROUNDS MODE...   prints one JSON line per mode
    beside.py report FILE MEMORY_KIB LEAST AUDIT...           prints such lines as a table; fails if
                                                              a bound is exceeded

An attacker of each mode runs ROUNDS times for WINDOW_S, alternating with a process that uses as
much processor time without connecting. If honest workers keep less than CLEAR, two windows of which
one may be disturbed do not decide: AGAIN times as many rounds follow, and all of them count. PEER
names the attacker's certificate in the table; the variable TLS gives it. An attacker is stopped once
the server has grown by CEILING_KIB, which shows unbounded memory without harming the machine.
"""
import json
import os
import signal
import subprocess
import sys
import time

CEILING_KIB = 1 << 20
PATIENCE_S = 60
CLEAR, AGAIN = 0.9, 2
REFUSED = ("other job", "no certificate")  # peers that must not get a connection
BURN = """
import sys, time
share, began, used = float(sys.argv[2]), time.monotonic(), time.process_time()
while time.monotonic() < began + float(sys.argv[1]):
    if time.process_time() - used < share * (time.monotonic() - began): [i * i for i in range(2000)]
    else: time.sleep(0.002)
"""


class Job:
    def __init__(self, weir, job):
        self.command = [weir, "status", job, "--json"]
        server = self.status()["servers"][0]
        self.address, self.pid = server["address"], server["pid"]

    def status(self):
        """An honest caller tries again."""
        until = time.monotonic() + PATIENCE_S
        while True:
            got = subprocess.run(self.command, capture_output=True)
            if got.returncode == 0:
                return json.loads(got.stdout)
            if time.monotonic() > until:
                sys.exit(f"no status for {PATIENCE_S} s: {got.stderr.decode()[-300:]}")

    def cpu_s(self):
        """Processor time that the server has used."""
        try:
            return sum(map(int, open(f"/proc/{self.pid}/stat").read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            return 0

    def memory_kib(self):
        try:
            return next(int(line.split()[1]) for line in open(f"/proc/{self.pid}/status") if line.startswith("RssAnon"))
        except (OSError, StopIteration):
            return None  # it has ended

    def descriptors(self):
        try:
            return len(os.listdir(f"/proc/{self.pid}/fd"))
        except OSError:
            return 0

    def beside(self, command, ceiling_kib):
        """Runs it, and returns the events meanwhile."""
        rows, cpu_s, began, most = self.status()["rows"], self.cpu_s(), time.monotonic(), self.memory_kib() or 0
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        stopped = ended = False
        while True:
            pid, _, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            now = self.memory_kib()
            ended = ended or now is None
            most = max(most, now or 0)
            if (ended or most > ceiling_kib) and not stopped:
                stopped = True
                os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.05)
        out = process.stdout.read()
        process.stdout.close()
        process.returncode = 0
        elapsed = time.monotonic() - began
        rate = 0 if ended else (self.status()["rows"] - rows) / (time.monotonic() - began)
        return {"rate": rate, "server": (self.cpu_s() - cpu_s) / elapsed, "most": most, "ended": ended, "stopped": stopped, "did": json.loads(out or b"{}"), "share": (usage.ru_utime + usage.ru_stime) / elapsed, "elapsed": elapsed}

    def settle(self, descriptors):
        """Whether the server closes connections."""
        until = time.monotonic() + PATIENCE_S
        while self.descriptors() > descriptors + 16:
            if time.monotonic() > until:
                return False
            time.sleep(0.1)
        return True


def kept(row):
    """The part of their throughput that honest workers keep, over all rounds."""
    return sum(row["with"]) / sum(row["beside"]) if sum(row["beside"]) else 0


def measure(weir, job_file, peer, window, rounds, *modes):
    attacker = os.path.join(os.path.dirname(__file__), "../../abuse/attacker.py")
    job = Job(weir, job_file)
    descriptors = job.descriptors()
    for mode in modes:
        before = job.memory_kib()
        row = {"peer": peer, "mode": mode, "pid": job.pid, "before_kib": before or 0, "most_kib": 0, "with": [], "beside": [], "server_with": [], "server_beside": [], "ended": before is None, "stopped": False, "let_go": True, "did": {}}
        most_rounds = 0 if row["ended"] else int(rounds)
        while len(row["with"]) < most_rounds:
            flood = job.beside([sys.executable, attacker, mode, job.address, window], row["before_kib"] + CEILING_KIB)
            row.update(did=flood["did"], most_kib=max(row["most_kib"], flood["most"]), stopped=row["stopped"] or flood["stopped"])
            row["with"].append(flood["rate"])
            row["server_with"].append(flood["server"])
            row["let_go"] = job.settle(descriptors) and row["let_go"]
            burner = job.beside([sys.executable, "-c", BURN, str(flood["elapsed"]), str(flood["share"])], 1 << 40)
            row["beside"].append(burner["rate"])
            row["server_beside"].append(burner["server"])
            row["ended"] = flood["ended"] or burner["ended"]
            if row["ended"]:
                break
            if len(row["with"]) == int(rounds) and kept(row) < CLEAR:
                most_rounds += int(rounds) * AGAIN
        print(json.dumps(row), flush=True)
        if row["ended"]:
            sys.exit(f"the server ended beside {peer} {mode}")


def faults(row, memory_kib, least):
    """The bounds that a mode exceeds."""
    did, found = row["did"], []
    if row["ended"]:
        return ["the server ended"]
    if row["most_kib"] - row["before_kib"] > memory_kib:
        found.append("memory" + (", attacker stopped" if row["stopped"] else ""))
    if row["ratio"] < least:
        found.append("throughput")
    if not row["let_go"]:
        found.append("connections are kept")
    if not row["stopped"] and not did.keys() - {"mode", "cpu_s", "given_up", "why"}:
        found.append(f"no attack: {did.get('why', '')}")
    if row["peer"] in REFUSED and did.get("held", 0) > did.get("opened", 0) / 10:
        found.append("connections live")
    return found


def report(file, memory_kib, least, *audits):
    rows, bad = [json.loads(line) for line in open(file)], 0
    least = float(least)
    print(f"{'peer':15} {'flood':13} {'MiB before':>10} {'at most':>8} {'beside burner':>13} {'beside flood':>12} {'ratio':>5} {'rounds':>6}  server's cores, beside flood and burner")
    for row in rows:
        flood, burner, cores_with, cores_beside = (sum(row[x]) / len(row[x]) if row[x] else 0 for x in ("with", "beside", "server_with", "server_beside"))
        row["ratio"] = kept(row)
        wrong = faults(row, int(memory_kib), least)
        bad += bool(wrong)
        did = ", ".join(f"{k} {v}" for k, v in row["did"].items() if k not in ("mode", "why"))
        print(f"{row['peer']:15} {row['mode']:13} {row['before_kib'] / 1024:10.0f} {row['most_kib'] / 1024:8.0f} {burner:13.0f} {flood:12.0f} {row['ratio']:5.2f} {len(row['with']):6} {cores_with:5.2f} {cores_beside:4.2f}  {'; '.join(wrong).upper() or 'holds'} ({did})")
    for audit in (json.load(open(a))["audit"] for a in audits):
        ok = audit["ok"] and audit["double"] == audit["missing"] == 0
        bad += not ok
        print(f"audit: parts applied {audit['applied']} of {audit['parts_expected']}, twice {audit['double']}, missing {audit['missing']}")
    print(f"load of the machine over the last minute: {open('/proc/loadavg').read().split()[0]}")
    if not rows:
        sys.exit("DOES NOT HOLD: nothing was measured")
    idle = {}
    for row in rows:
        idle.setdefault(row["pid"], row["before_kib"])
    least_kept, grown = min(r["ratio"] for r in rows), max(r["most_kib"] - idle[r["pid"]] for r in rows)
    bad += grown > int(memory_kib)
    grown //= 1024
    print(f"{'DOES NOT HOLD' if bad else 'holds'}: {len(rows)} kinds, honest workers keep at least {100 * least_kept:.0f} % ({100 * least:.0f}), the server's memory grows by {grown} MiB at most ({int(memory_kib) // 1024})")
    sys.exit(bad > 0)


{"measure": measure, "report": report}[sys.argv[1]](*sys.argv[2:])

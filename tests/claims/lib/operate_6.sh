# Abuse: while one peer misbehaves in each of four ways (tests/abuse/attacker.py: slowly, with too much, with junk, with replays), the servers stay up, their memory is bounded, and honest workers train at
# least 80 % of the examples a second that they train beside a process that burns as much processor time without connecting. Both take turns, SECONDS each, ROUNDS times. At the end the audit: replayed
# pushes have not been applied.
. tests/claims/lib/common.sh
need_programs
window=$(pick 5 10) rounds=$(pick 2 4)
MEMORY_KIB=$((300 * 1024)) # that one peer may have a server hold: 64 calls of 4 MiB, and some

cat > "$WORK/job.yaml" <<-JOB
	job: abuse
	run_dir: $WORK/run
	cluster: {servers: 1, workers: 2, partitions: 8, listen: '127.0.0.1:0', log: disk, fsync_interval_ms: 1000}
	data: {generate: {rows: 100000, ids: 50000, seed: 3}, batch: 256, unit_batches: 16, seed: 5}
	model: {kind: deepfm, dim: 8, hidden: [64, 32]}
	tables:
	  embedding: {optimizer: {kind: adagrad, lr: 1.0e-2}}
	  dense: {optimizer: {kind: adam, lr: 1.0e-3}}
	train: {passes: 100000, seed: 7, threads: 1}
JOB
train_now() { # train_now [ARGUMENTS...]
	"$BUILD/weir" train "$WORK/job.yaml" --report "$WORK/report.json" "$@" > "$WORK/train.out" 2> "$WORK/train.err" < /dev/null &
	train=$!
}
train_now
trap 'kill -TERM $train 2> /dev/null; wait; rm -rf "$WORK"' EXIT
say_status() { "$BUILD/weir" status "$WORK/job.yaml" --json > "$WORK/status.json" 2> /dev/null; }
begun() { say_status && [ "$(figure "$WORK/status.json" pass)" -ge 3 ]; }
wait_for 120 "two passes" begun
at=$(python3 -c 'import json, sys; s = json.load(open(sys.argv[1]))["servers"][0]; print(s["address"], s["pid"])' "$WORK/status.json")
read -r address server <<< "$at"
workers_before=$(pgrep -P $train | sort | xargs)

python3 - "$BUILD/weir" "$WORK" "$address" "$server" "$window" "$rounds" > "$WORK/ratios.json" <<'PYTHON' || give_up "the measurement failed"
import json, os, statistics, subprocess, sys, threading, time
weir, work, address, server, window, rounds = *sys.argv[1:5], float(sys.argv[5]), int(sys.argv[6])

def rows():
    return json.loads(subprocess.run([weir, "status", f"{work}/job.yaml", "--json"], capture_output=True, check=True).stdout)["rows"]

def memory_kib():
    return next(int(line.split()[1]) for line in open(f"/proc/{server}/status") if line.startswith("RssAnon"))

def rate(what):  # examples a second while `what` runs, and the most memory
    most, began, before = 0, time.monotonic(), rows()
    while what.poll() is None:
        most = max(most, memory_kib())
        time.sleep(0.05)
    out = what.communicate()[0]
    return (rows() - before) / (time.monotonic() - began), most, out

BURN = "import sys, time\nend, share = time.monotonic() + float(sys.argv[1]), float(sys.argv[2])\nbegan, used = time.monotonic(), time.process_time()\nwhile time.monotonic() < end:\n    if time.process_time() - used < share * (time.monotonic() - began): [i * i for i in range(2000)]\n    else: time.sleep(0.002)"
result = {"idle_memory_kib": memory_kib(), "modes": {}}
for mode in ["slow", "oversized", "malformed", "replay"]:
    beside, with_, most = [], [], 0
    for _ in range(rounds):
        r, m, out = rate(subprocess.Popen([sys.executable, "tests/abuse/attacker.py", mode, address, str(window)], stdout=subprocess.PIPE))
        did = json.loads(out)
        with_.append(r)
        most = max(most, m)
        beside.append(rate(subprocess.Popen([sys.executable, "-c", BURN, str(window), str(did["cpu_s"] / window)], stdout=subprocess.PIPE))[0])
    result["modes"][mode] = {"with": with_, "beside": beside, "ratio": statistics.mean(with_) / statistics.mean(beside), "most_kib": most, "last": did}
print(json.dumps(result))
PYTHON
[ "$(pgrep -P $train | sort | xargs)" = "$workers_before" ] && up=1 || up=0
kill -TERM $train
wait $train
say_status
passes=$(sed -n 's/.*pass \([0-9]*\)\/.*/\1/p' "$WORK/train.err" | tail -n 1)
trap 'rm -rf "$WORK"' EXIT
"$BUILD/weir" train --resume "$WORK/job.yaml" --set "train.passes=$((passes + 2))" --report "$WORK/report.json" > "$WORK/train.out" 2> "$WORK/train.err" < /dev/null ||
	{ cat "$WORK/train.err" >&2; give_up "the job does not end"; }
python3 - "$WORK" "$up" "$MEMORY_KIB" <<'PYTHON'
import json, sys
work, up, memory = sys.argv[1], sys.argv[2] == "1", int(sys.argv[3])
r, audit = json.load(open(f"{work}/ratios.json")), json.load(open(f"{work}/report.json"))["audit"]
for mode, m in r["modes"].items():
    print(f"{mode}: {sum(m['with']) / len(m['with']):.0f} examples/s, beside a burner {sum(m['beside']) / len(m['beside']):.0f}: ratio {m['ratio']:.2f}; memory at most {(m['most_kib'] - r['idle_memory_kib']) / 1024:.0f} MiB more; {m['last']}")
least = min(m["ratio"] for m in r["modes"].values())
grown = max(m["most_kib"] for m in r["modes"].values()) - r["idle_memory_kib"]
print(f"every process lived through it: {up}; parts applied {audit['applied']} of {audit['parts_expected']}, twice {audit['double']}, missing {audit['missing']}")
print(f"load of the machine over the last minute: {open('/proc/loadavg').read().split()[0]}")
holds = up and least >= 0.8 and grown <= memory and audit["ok"] and audit["double"] == audit["missing"] == 0
print(f"{'holds' if holds else 'DOES NOT HOLD'}: honest workers keep at least {100 * least:.0f} % (80), the server's memory grows by {grown / 1024:.0f} MiB at most ({memory // 1024})")
sys.exit(not holds)
PYTHON

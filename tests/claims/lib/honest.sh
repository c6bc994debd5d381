# A job of two honest workers and one server that trains until it is told to end, while others
# misbehave (beside.py).
trap 'kill -TERM ${train:-} 2> /dev/null; wait; rm -rf "$WORK"' EXIT
: > "$WORK/rows.jsonl"
audits=()

honest_status() { "$BUILD/weir" status "$WORK/job.yaml" --json > "$WORK/status.json" 2> /dev/null; }
honest_begun() { honest_status && [ "$(figure "$WORK/status.json" pass)" -ge 3 ]; }
honest_workers() { pgrep -P "$train" | sort | xargs; }

# honest_begin NAME [KEYS]: KEYS are further lines of the job file.
honest_begin() {
	honest=$1
	cat > "$WORK/job.yaml" <<-JOB
		job: abuse
		run_dir: $WORK/run-$honest
		cluster: {servers: 1, workers: 2, partitions: 8, listen: '127.0.0.1:0', log: disk, fsync_interval_ms: 1000}
		data: {generate: {rows: 100000, ids: 50000, seed: 3}, batch: 256, unit_batches: 16, seed: 5}
		model: {kind: deepfm, dim: 8, hidden: [64, 32]}
		tables:
		  embedding: {optimizer: {kind: adagrad, lr: 1.0e-2}}
		  dense: {optimizer: {kind: adam, lr: 1.0e-3}}
		train: {passes: 100000, seed: 7, threads: 1}
		${2:-}
	JOB
	"$BUILD/weir" train "$WORK/job.yaml" --report "$WORK/report.json" > "$WORK/train.out" 2> "$WORK/train.err" < /dev/null &
	train=$!
	wait_for 120 "two passes" honest_begun
	workers_before=$(honest_workers)
}

# honest_beside PEER WINDOW_S ROUNDS MODE...: the variable TLS is the attacker's certificate.
honest_beside() {
	python3 tests/claims/lib/beside.py measure "$BUILD/weir" "$WORK/job.yaml" "$@" >> "$WORK/rows.jsonl" || honest_fails "the measurement ended early"
}

# honest_fails WHY: prints the measurements so far.
honest_fails() {
	honest_report 0.8
	tail -n 3 "$WORK/train.err" >&2
	give_up "DOES NOT HOLD: $1"
}

# Lets the job end two passes later, so that it is audited. Every process must have survived.
honest_end() {
	[ "$(honest_workers)" = "$workers_before" ] || honest_fails "processes of the job have ended"
	kill -TERM "$train"
	wait "$train"
	train=
	local passes
	passes=$(sed -n 's/.*pass \([0-9]*\)\/.*/\1/p' "$WORK/train.err" | tail -n 1)
	"$BUILD/weir" train --resume "$WORK/job.yaml" --set "train.passes=$((passes + 2))" --report "$WORK/audit-$honest.json" > "$WORK/train.out" 2> "$WORK/train.err" < /dev/null ||
		{ cat "$WORK/train.err" >&2; give_up "the job does not end"; }
	audits+=("$WORK/audit-$honest.json")
}

# honest_report LEAST: prints the last lines of the claim and returns its exit status.
# Maximum memory that one peer may occupy: 64 calls of 4 MiB, and slack.
HONEST_MEMORY_KIB=$((300 * 1024))
honest_report() { python3 tests/claims/lib/beside.py report "$WORK/rows.jsonl" "$HONEST_MEMORY_KIB" "$1" "${audits[@]}"; }

# Top-k's residuals are sent when a worker is told to end, whether nobody, a step or an unfinished
# round waits for its pushes. It ends cleanly, the others continue, and every push is applied
# exactly once.
. "$(dirname "$0")/lib.sh"
LEASE_MS=20000
write_job 1000 "log: disk"
sed -i -e 's/kind: fm, dim: 8/kind: deepfm, dim: 8, hidden: [64]/' -e 's/  batch: [0-9]*/  batch: 64/' -e 's/unit_batches: [0-9]*/unit_batches: 32/' "$DIR/job.yaml"
# leaves NAME [ARGUMENTS...]
leaves() {
	local name=$1 victim
	shift
	start_train --fresh --set 'tables.dense.push={codec: topk, density: 0.05}' --set 'tables.embedding.push={codec: int8, rows: 0.5}' "$@"
	wait_for 30 "$name: the first rows" status ".rows >= 5000"
	victim=$(pid_of worker-1) || fail "$name: worker-1 does not run"
	kill -TERM "$victim"
	wait_for 20 "$name: worker-1 to end" is_gone "$victim"
	wait_for 20 "$name: the other to go on" status ".rows >= $(($(json "$DIR/status.json" .rows) + 5000))"
	stop_train 30
	[ $STATUS = $STOPPED ] || fail "$name: exit status $STATUS"
	grep -E "worker-[01].*(failed|ended with status [1-9])" "$DIR/train.err" && fail "$name: a worker failed"
	resume_train --set 'tables.dense.push={codec: topk, density: 0.05}' --set 'tables.embedding.push={codec: int8, rows: 0.5}' "$@"
	finish_train 60
	[ $STATUS = 0 ] || fail "$name: exit status $STATUS of the resumed run"
	audited
	holds "$DIR/report.json" ".workers_lost == 0 and .compression.residual_norm == 0"
	[ "$name" != async ] || holds "$DIR/report.json" ".compression.residual_lost == 0"
	nothing_left
}
leaves async
leaves sync --set tables.dense.mode.kind=sync
leaves local --set 'tables.dense.mode={kind: local, steps: 32, rounds: sync, inner: {kind: adam, lr: 3.0e-3}}' --set 'tables.dense.optimizer={kind: sgd, lr: 1}'

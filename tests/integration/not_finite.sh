# A value too large to square makes a batch's gradients infinite. The batch is skipped or clipped,
# counted, and named in the worker's log, whether gradients go to the servers or into local
# parameters, on the CPU or a device. The model stays finite.
. "$(dirname "$0")/lib.sh"
awk 'BEGIN { for (i = 0; i < 6000; i++) print (i * 7919 % 3 == 0) " " i % 50 ":1 " 50 + i % 3 ":1 " 60 + i % 7 ":" (i == 1234 ? "3e38" : "1") }' > "$DIR/rows.libsvm"
head -n 600 "$DIR/rows.libsvm" > "$DIR/valid.libsvm"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {servers: 1, workers: 1, partitions: 4}
	data: {format: libsvm, train: '$DIR/rows.libsvm', valid: '$DIR/valid.libsvm', fields: 3, batch: 64, unit_batches: 8}
	model: {kind: deepfm, dim: 4, hidden: [16]}
	tables:
	  embedding: {optimizer: {kind: adam, lr: 1.0e-2}}
	  dense: {optimizer: {kind: adam, lr: 1.0e-2}}
	train: {passes: 2, seed: 1, threads: 1}
JOB
LOCAL=(--set 'tables.dense.mode={kind: local, steps: 4, rounds: async, inner: {kind: adam, lr: 1.0e-2}}' --set 'tables.dense.optimizer={kind: sgd, lr: 1}')
# once POLICY WORD [ARGUMENTS...]: the batch occurs in each of two passes, and WORD is in the
# worker's log.
once() {
	local policy=$1 word=$2
	shift 2
	rm -rf "$RUN"
	start_train --set "train.not_finite=$policy" "$@"
	finish_train 60
	[ $STATUS = 0 ] || fail "exit status $STATUS with $policy $*"
	audited
	holds "$DIR/report.json" ".batches_not_finite == 2"
	holds "$DIR/report.json" "(.passes | length == 2) and (.passes | all(.logloss < 0.7))"
	[ "$(grep -c "gradient not finite.*batch=[0-9]* $word" "$RUN/worker-0.log")" = 2 ] || fail "the worker's log does not name the batch"
	grep -q "not finite *gradients of 2 batches" "$DIR/train.out" || fail "the report does not tell"
	nothing_left
}
once reject "is left out"
once reject "is left out" "${LOCAL[@]}"
once clip "is clipped"
once clip "is clipped" "${LOCAL[@]}"
emulate_device || exit 0
once reject "is left out" "${LOCAL[@]}" --set device=cuda
once clip "is clipped" "${LOCAL[@]}" --set device=cuda

# train.precision: fp16 on an emulated device. Batches whose gradients overflow are skipped and
# counted as done, the loss scale falls until none overflows, and training continues, also with
# local steps of a worker.
. "$(dirname "$0")/lib.sh"
emulate_device || { echo "the CUDA backend is not built for an emulated device here: skipped"; exit 77; }
# The values are so large that a new model is certain about every row, and wrong for half of them.
# The gradient of a batch of one row is then 1, and 2^16 times that overflows fp16.
awk 'BEGIN { srand(3); for (i = 0; i < 200; i++) print (rand() < 0.5) " " int(rand() * 9) ":900 " 20 + int(rand() * 9) ":900 " 40 + int(rand() * 9) ":900" }' > "$DIR/rows.libsvm"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	device: cuda
	cluster: {servers: 1, workers: 1, partitions: 4}
	data: {format: libsvm, train: '$DIR/rows.libsvm', fields: 3, batch: 1, unit_batches: 16}
	model: {kind: deepfm, dim: 4, hidden: [8]}
	train: {passes: 1, seed: 1, threads: 1, precision: fp16}
JOB
# trains [ARGUMENTS...]: trains to the end, with batches skipped.
trains() {
	start_train --fresh "$@"
	finish_train 60
	[ $STATUS = 0 ] || fail "exit status $STATUS: $*"
	audited
	holds "$DIR/report.json" '.loss_scale.skipped > 0 and .loss_scale.last < 65536 and .loss_scale.last >= pow(2; 16 - .loss_scale.skipped)'
	holds "$DIR/report.json" '.batches_not_finite == 0 and .rows == 200 and .device.bytes_most > 0'
	[ "$(grep -c "loss scale too large.*is left out" "$RUN/worker-0.log")" = "$(json "$DIR/report.json" .loss_scale.skipped)" ] ||
		fail "the worker's log does not name the batches that were left out"
	grep -q "loss scale *[0-9]* at last; [0-9]* batches were left out" "$DIR/train.out" || fail "the report does not tell"
	grep -q "precision=fp16" "$RUN/worker-0.log" && grep -q "device used.*in_use_at_most=" "$RUN/worker-0.log" || fail "the worker's log does not tell"
	nothing_left
}
each_halves() { holds "$DIR/report.json" '.loss_scale.last == pow(2; 16 - .loss_scale.skipped)'; }
trains # of the batches that are on the device together, one halves the scale
trains --set 'tables.embedding.mode={kind: sync}' --set 'tables.dense.mode={kind: sync}'
each_halves
trains --set 'tables.dense.mode={kind: local, steps: 4, rounds: async, inner: {kind: sgd, lr: 1.0e-3}}' --set 'tables.dense.optimizer={kind: sgd, lr: 1}'
each_halves

# Unsupported settings are refused before anything starts.
start_train --fresh --set device=auto
finish_train 60
[ $STATUS != 0 ] || fail "fp16 was accepted where there is no driver"
told "train.precision is fp16, which the CPU does not compute, and device: auto finds no other" "$DIR/train.err"

# A model that exceeds train.device_memory on an emulated device: the run fails with the request and
# the remedy, and resumes with more memory.
. "$(dirname "$0")/lib.sh"
emulate_device || { echo "the CUDA backend is not built for an emulated device here: skipped"; exit 77; }
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	device: cuda
	cluster: {servers: 1, workers: 1, partitions: 4, log: disk}
	data: {generate: {rows: 1500, ids: 13312, seed: 3}, batch: 256, unit_batches: 2}
	model: {kind: wide_deep, dim: 4, hidden: [9000]}
	train: {passes: 1, threads: 1, keep_best: false}
JOB
start_train --set train.device_memory=64MiB
finish_train 60
[ $STATUS = 1 ] || fail "exit status $STATUS with too little memory"
told "worker-0" "out of memory for" "cuda:0 (emulated device): out of memory: " "MiB were asked for" "of a budget of 64.0 MiB" "train.device_memory is the budget: raise it" "$DIR/train.err"
grep -q "device used.*budget=64.0MiB" "$RUN/worker-0.log" || fail "the worker's log does not say what it had"
start_train --resume
finish_train 120
[ $STATUS = 0 ] || fail "exit status $STATUS of the resumed run"
audited
holds "$DIR/report.json" '.device.bytes_most > 64 * 1024 * 1024'
start_train --fresh --set train.device_memory=300MiB
finish_train 60
[ $STATUS = 1 ] || fail "exit status $STATUS with more than there is"
told "cuda:0 (emulated device) has 256.0 MiB free of 256.0 MiB, and train.device_memory is 300.0 MiB" "$DIR/train.err"
nothing_left

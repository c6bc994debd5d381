# On a device a batch computes while the previous one is pushed, if the tables' modes allow it. The
# model is as good, and each push is applied once, also when a worker is declared dead or stopped
# with batches in flight. On an emulated device.
. "$(dirname "$0")/lib.sh"
emulate_device || { echo "the CUDA backend is not built for an emulated device here: skipped"; exit 77; }
# small_job WORKERS PASSES EMBEDDING DENSE
small_job() {
	cat > "$DIR/job.yaml" <<-JOB
		job: it
		run_dir: $RUN
		cluster: {servers: 1, workers: $1, partitions: 4, lease_ms: 3001}
		data: {generate: {rows: 4000, ids: 13312, seed: 3}, batch: 128, unit_batches: 4, seed: 1}
		model: {kind: deepfm, dim: 4, hidden: [16, 8], batch_norm: true, dropout: 0.2}
		tables: {embedding: {$3}, dense: {optimizer: {kind: adam, lr: 1.0e-3}, $4}}
		train: {passes: $2, seed: 1, threads: 1, clip_norm: 1}
	JOB
}
at_once() { grep -q "device=cuda.* batches_at_once=$1" "$RUN/worker-0.log" || fail "$2: not $1 batches at once: $(grep computing "$RUN/worker-0.log")"; }

small_job 1 3 'mode: {kind: async}, push: {codec: int8}' 'mode: {kind: ssp, bound: 4}, push: {codec: topk, density: 0.05, values: int8}'
for device in cpu cuda; do
	start_train --fresh --set "device=$device"
	finish_train 60
	[ $STATUS = 0 ] || fail "device $device: exit status $STATUS"
	audited
	cp "$DIR/report.json" "$DIR/$device.json"
done
at_once 2 "asynchronous"
grep -q "replays=[1-9]" "$RUN/worker-0.log" || fail "no batch was one call: $(grep "device used" "$RUN/worker-0.log")"
jq -es '(.[0].test.auc - .[1].test.auc | fabs) < 0.02' "$DIR/cpu.json" "$DIR/cuda.json" > /dev/null ||
	fail "AUC is $(json "$DIR/cpu.json" .test.auc) on the CPU, $(json "$DIR/cuda.json" .test.auc) on the device"

# A batch that must see the previous push's result, or must wait for it, does not overlap.
for mode in 'kind: sync' 'kind: ssp, bound: 0'; do
	small_job 1 1 "mode: {$mode}" "mode: {$mode}"
	start_train --fresh --set device=cuda
	finish_train 30
	[ $STATUS = 0 ] || fail "$mode: exit status $STATUS"
	audited
	at_once 1 "$mode"
done

# A worker sleeps past its lease with batches on the device; then the run is stopped.
small_job 2 200 'mode: {kind: async}, push: {codec: int8}, pull: {cache: {memory: 1MiB}}' 'mode: {kind: async}, push: {codec: topk, density: 0.05}'
start_train --fresh --set device=cuda
wait_for 30 "the first rows" status ".rows >= 2000"
sleep_past_lease worker-1
rejoined() { grep -q "taken for dead" "$RUN/worker-1.log"; }
wait_for 30 "worker-1 to join anew" rejoined
status . || fail "no status"
rows=$(json "$DIR/status.json" .rows)
wait_for 30 "both to go on" status ".rows >= $rows + 2000"
kill -TERM "$TRAIN"
finish_train 12
[ $STATUS = $STOPPED ] || fail "exit status $STATUS"
holds "$DIR/report.json" "(.finished | not) and .audit.double == 0 and .leases_expired >= 1"
nothing_left

# device: cuda trains to the same AUC or loss as device: cpu, with as many bytes pushed, on an
# emulated device. The evaluator and weir eval also use it.
. "$(dirname "$0")/lib.sh"
emulate_device || { echo "the CUDA backend is not built for an emulated device here: skipped"; exit 77; }
awk 'BEGIN { srand(5); split("ship sails over the wide green sea", w, " "); for (i = 0; i < 6000; i++) printf "%s ", w[at = rand() < 0.8 ? at % 7 + 1 : int(rand() * 7) + 1] }' > "$DIR/text.txt"
clicks='generate: {rows: 3000, ids: 13312, seed: 3}, batch: 256, unit_batches: 4, seed: 1'
text="format: text, context: 6, train: $DIR/text.txt, split: {by: crc32, train: 6, valid: 2, test: 2}, batch: 256, unit_batches: 4"
# compare NUMBER DATA MODEL TABLES: one worker and one server, synchronous, so that both devices see
# the same batches.
compare() {
	cat > "$DIR/job.yaml" <<-JOB
		job: it
		run_dir: $RUN
		cluster: {servers: 1, workers: 1, partitions: 4}
		data: {$2}
		model: {$3}
		tables: {$4}
		train: {passes: 2, seed: 1, threads: 1, clip_norm: 1}
	JOB
	for device in cpu cuda; do
		start_train --fresh --set "device=$device"
		finish_train 60
		[ $STATUS = 0 ] || fail "$3, device $device: exit status $STATUS"
		audited
		cp "$DIR/report.json" "$DIR/$device.json"
	done
	grep -q "device=cuda" "$RUN/worker-0.log" || fail "the worker's log does not say that it computed on a CUDA device"
	jq -es --arg figure "$1" '(.[0].test[$figure] - .[1].test[$figure] | fabs) < 0.001' "$DIR/cpu.json" "$DIR/cuda.json" > /dev/null ||
		fail "$3: $1 is $(json "$DIR/cpu.json" ".test.$1") on the CPU, $(json "$DIR/cuda.json" ".test.$1") on the device"
	# of a small table, rounding lets top-k send a few more or fewer elements
	jq -es '(.[0].bytes.pushed - .[1].bytes.pushed | fabs) < 0.1 * .[0].bytes.pushed' "$DIR/cpu.json" "$DIR/cuda.json" > /dev/null ||
		fail "$3: $(json "$DIR/cpu.json" .bytes.pushed) bytes were pushed from the CPU, $(json "$DIR/cuda.json" .bytes.pushed) from the device"
}
sync='embedding: {mode: {kind: sync}}, dense: {mode: {kind: sync}, optimizer: {kind: adam, lr: 1.0e-3}}'
compare auc "$clicks" 'kind: deepfm, dim: 4, hidden: [16, 8], batch_norm: true, dropout: 0.2' "$sync"
# Gradients are encoded on the device: top-k keeps its residual there, rows are int8.
compare auc "$clicks" 'kind: deepfm, dim: 16, hidden: [64, 32]' \
	'embedding: {mode: {kind: sync}, push: {codec: int8}}, dense: {mode: {kind: sync}, optimizer: {kind: adam, lr: 1.0e-3}, push: {codec: topk, density: 0.02, values: int8}}'
compare auc "$clicks" 'kind: dlrm, dim: 4, hidden: [16], bottom: [8, 4]' "$sync"
# Products in other precisions end close by.
for precision in tf32 bf16 fp16; do
	start_train --fresh --set device=cuda --set "train.precision=$precision"
	finish_train 60
	[ $STATUS = 0 ] || fail "train.precision=$precision: exit status $STATUS"
	audited
	grep -q "precision=$precision" "$RUN/worker-0.log" || fail "the worker's log does not say that it computed in $precision"
	jq -es '(.[0].test.auc - .[1].test.auc | fabs) < 0.003' "$DIR/cpu.json" "$DIR/report.json" > /dev/null ||
		fail "$precision: the AUC is $(json "$DIR/report.json" .test.auc), on the CPU $(json "$DIR/cpu.json" .test.auc)"
done
compare loss "$text" 'kind: ngram, dim: 4, hidden: [16]' 'dense: {mode: {kind: sync}, optimizer: {kind: adam, lr: 5.0e-3}}'
# The worker's own steps run on the device, and their pushes are encoded there.
compare loss "$text" 'kind: ngram, dim: 4, hidden: [16]' \
	'dense: {mode: {kind: local, steps: 2, inner: {kind: adam, lr: 5.0e-3}}, optimizer: {kind: sgd, lr: 1}, push: {codec: topk, density: 0.1}}'

"$WEIR" eval --job "$DIR/job.yaml" --set device=cuda --json > "$DIR/eval.json" 2> "$DIR/eval.err" || fail "weir eval"
jq -es '(.[0].loss - .[1].test.loss | fabs) < 1e-5' "$DIR/eval.json" "$DIR/cuda.json" > /dev/null ||
	fail "weir eval says $(cat "$DIR/eval.json"), the report $(jq -c .test "$DIR/cuda.json")"
nothing_left

# Layers that travel while others compute: synchronous training of a deep click model (2.1 million
# parameters of layers) and of GPT-2 (10.7 million), a worker with one thread at 1 Gb/s.
#   - a step is at least 1.3 times shorter than with train.overlap: off; medians of runs in turn
#   - weights are the same to the bit, in every run; every push is applied exactly once
#   - kills: tests/integration/layers.sh
# QUICK=1: fewer and shorter runs.
. tests/claims/lib/common.sh
RUNS=$(pick 2 5) LEAST=1.3
need_programs

cat > "$WORK/deep.yaml" <<-JOB
	job: deep
	cluster: {servers: 1, workers: 1, partitions: 16, network: {rate: 1Gb/s}}
	data: {generate: {rows: $(pick 100000 200000), ids: 100000, seed: 3}, batch: 1024, unit_batches: 16, seed: 1}
	model: {kind: deepfm, dim: 16, hidden: [1024, 1024, 512]}
	tables:
	  embedding: {optimizer: {kind: adagrad, lr: 1.0e-2}, mode: {kind: sync}}
	  dense: {optimizer: {kind: adam, lr: 1.0e-3}, mode: {kind: sync}}
	train: {passes: 1, seed: 1, threads: 1, keep_best: false}
JOB
head -c "$(pick 40000 80000)" "$WEIR_DATA/tinyshakespeare/input.txt" > "$WORK/text.txt" || give_up "no text in $WEIR_DATA/tinyshakespeare"
cat > "$WORK/gpt.yaml" <<-JOB
	job: gpt
	cluster: {servers: 1, workers: 1, partitions: 16, network: {rate: 1Gb/s}}
	data: {format: tokens, tokenizer: bytes, sequence: 128, train: $WORK/text.txt, split: {by: crc32, train: 100, valid: 0, test: 0}, batch: 8, unit_batches: 20}
	model: {kind: gpt2, layers: 6, heads: 6, width: 384, dropout: 0.1}
	tables: {dense: {optimizer: {kind: adamw, lr: 1.0e-3, beta2: 0.95, weight_decay: 0.1}, mode: {kind: sync}}}
	train: {passes: 1, threads: 1, keep_best: false}
JOB

# step_ms NAME BATCH: of a run that train has left.
step_ms() { jq "1000 * $2 / .samples_per_s" "$WORK/$1.json"; }
median() { python3 -c 'import statistics, sys; print(f"{statistics.median(map(float, sys.argv[1:])):.1f}")' "$@"; }
lines=() good=1
compare() { # compare JOB BATCH
	local run overlap sums=() exact=0 whole=() layers=() w l ratio same
	for run in $(seq "$RUNS"); do
		for overlap in off layers; do
			train "$1-$overlap" "$WORK/$1.yaml" --fresh --set "train.overlap=$overlap"
			sums+=("$(sha256sum < "$WORK/$1-$overlap/best.safetensors")")
			exact=$((exact + $(jq '.audit | if .ok and .missing == 0 and .double == 0 then 1 else 0 end' "$WORK/$1-$overlap.json")))
			rm -rf "${WORK:?}/$1-$overlap"
			[ $overlap = off ] && whole+=("$(step_ms "$1-off" "$2")") || layers+=("$(step_ms "$1-layers" "$2")")
		done
		say "$1, run $run: ${whole[-1]} ms a step whole, ${layers[-1]} ms by layers"
	done
	w=$(median "${whole[@]}") l=$(median "${layers[@]}")
	ratio=$(python3 -c "print(f'{$w / $l:.2f}')")
	same=$(printf '%s\n' "${sums[@]}" | sort -u | wc -l)
	true_that "$w / $l >= $LEAST and $same == 1 and $exact == ${#sums[@]}" || good=0
	lines+=("$1: $w ms a step whole, $l ms by layers, $ratio times; $same set of weights in ${#sums[@]} runs, $exact audits exact")
}

compare deep 1024
compare gpt 8
verdict "$good" "at 1 Gb/s, ${lines[0]}; ${lines[1]} (at least $LEAST times, one set of weights)"

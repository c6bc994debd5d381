# DiLoCo of a small GPT with four processes in PyTorch, against Weir's own trainer: a GPT-2 begins
# with the same weights and takes the same rounds (50 batches, int4 differences, Nesterov at the
# servers). The loss of weir.torch.DiLoCo is within 0.3 % of weir-worker's, and 100 times fewer bytes
# are pushed and pulled than by synchronous training. The same holds after kill -9 of one process in
# the middle, which joins again. The audit is exact in each run.
. tests/claims/lib/python.sh
need_programs
need_data tinyshakespeare/input.txt
need_package torch
text=$WEIR_DATA/tinyshakespeare/input.txt
# A whole number of rounds of four workers with 50 batches of 4 sequences of 64 tokens.
part=$(pick 102400 512000) passes=$(pick 3 6) valid_bytes=$(pick 20000 75394) size=$(pick 'layers: 2, heads: 4, width: 64' 'layers: 4, heads: 4, width: 128')
[ "$QUICK" != 1 ] || echo "QUICK: a GPT-2 of 0.12 M parameters, a fifth of the text, three passes"
head -c "$part" "$text" > "$WORK/first.txt"
head -c $((2 * part)) "$text" | tail -c "$part" > "$WORK/second.txt"
tail -c "$valid_bytes" "$text" > "$WORK/valid.txt"

job() { # job NAME MODEL TEXT WORKERS TABLE
	cat > "$WORK/$1.yaml" <<-JOB
		job: $1
		cluster: {servers: 1, workers: $4}
		data: {format: tokens, tokenizer: bytes, sequence: 64, train: $WORK/$3.txt, valid: $WORK/valid.txt, cache: $WORK/cache, batch: 4, unit_batches: 50, seed: 1}
		model: {kind: gpt2, $2}
		tables: {dense: {$5}}
		train: {passes: $passes, clip_norm: 1}
	JOB
}
ADAMW='kind: adamw, lr: 1.0e-3, beta2: 0.95, weight_decay: 0.1, schedule: {kind: cosine, warmup: 50, min: 0.1}'
OUTER='kind: nesterov, lr: 0.8, momentum: 0.7'
job base "$size" first 1 "optimizer: {$ADAMW}"
train base "$WORK/base.yaml"
"$BUILD/weir" export "$WORK/base.yaml" --set "run_dir=$WORK/base" --format hf --out "$WORK/model" > "$WORK/out" 2>&1 || { cat "$WORK/out" >&2; give_up "weir export failed"; }
job sync "from: $WORK/model" second 4 "optimizer: {$ADAMW}, mode: {kind: sync}"
job diloco "from: $WORK/model" second 4 "optimizer: {$OUTER}, push: {codec: int4, feedback: false}, pull: {codec: int4}, mode: {kind: local, steps: 50, rounds: sync, inner: {$ADAMW}}"

cat > "$WORK/settings.json" <<-JSON
	{"model": "$WORK/model", "train": "$WORK/second.txt", "valid": "$WORK/valid.txt", "out": "$WORK/loss",
	 "batch": 4, "round": 50, "passes": $passes, "seed": 1, "lr": 1.0e-3, "warmup": 50, "min": 0.1,
	 "outer": {"kind": "nesterov", "lr": 0.8, "momentum": 0.7},
	 "push": {"codec": "int4", "feedback": false}, "pull": "int4"}
JSON
cat > "$WORK/own.yaml" <<-JOB
	job: own
	cluster: {servers: 1, workers: 4, lease_ms: 3001}
	train: {passes: $passes}
JOB
trainer=("$PYTHON" tests/claims/lib/diloco_gpt.py)
start=$("${trainer[@]}" value "$WORK/settings.json") || give_up "the model folder cannot be read"

# own NAME: trains in PyTorch and leaves $WORK/NAME.json. With a second argument it kills that worker
# in the middle.
own() {
	local name=$1 victim=${2:-} run pid
	rm -f "$WORK/loss"
	"$BUILD/weir" launch "$WORK/own.yaml" --set "job=$name" --set "run_dir=$WORK/$name" --report "$WORK/$name.json" -- "${trainer[@]}" train "$WORK/settings.json" > "$WORK/$name.out" 2> "$WORK/$name.err" &
	run=$!
	if [ "$victim" ]; then
		wait_for 1800 "the middle of the training" reached "$name"
		pid=$(python3 -c 'import json, sys; print(next(w["pid"] for w in json.load(open(sys.argv[1]))["workers"] if w["name"] == sys.argv[2]))' "$WORK/status.json" "$victim")
		kill -KILL "$pid"
	fi
	wait $run || { cat "$WORK/$name".out "$WORK/$name".err "$WORK/$name"/*.log >&2; give_up "weir launch $name failed"; }
	loss=$(cat "$WORK/loss") # of the process of rank 0
}
reached() { "$BUILD/weir" status "$WORK/own.yaml" --set "job=$1" --set "run_dir=$WORK/$1" --json > "$WORK/status.json" 2> /dev/null && [ "$(figure "$WORK/status.json" rows)" -ge $((part / 64 * passes / 2)) ]; }
row() { # row NAME LOSS: prints a row of the table, and sets bytes
	bytes=$(($(figure "$WORK/$1.json" bytes.pushed) + $(figure "$WORK/$1.json" bytes.pulled)))
	[ "$(figure "$WORK/$1.json" audit.ok)" = True ] || give_up "the audit of $1 failed"
	echo "$1: validation loss $2, $((bytes / 1000)) kB pushed and pulled, audit exact"
}
last() { python3 -c 'import json, sys; print("%.6f" % json.load(open(sys.argv[1]))["passes"][-1]["loss"])' "$WORK/$1.json"; } # the loss after the last pass
train sync "$WORK/sync.yaml"
train diloco "$WORK/diloco.yaml"
echo "the first weights: validation loss $start"
row sync "$(last sync)"
sync_bytes=$bytes
theirs=$(last diloco)
row diloco "$theirs"
own pytorch
row pytorch "$loss"
ours=$loss fewer=$(python3 -c "print($sync_bytes / $bytes)")
own pytorch-killed worker-2
row pytorch-killed "$loss"
grep -q "worker-2 .*signal 9" "$WORK/pytorch-killed.err" || give_up "no worker was killed: $(cat "$WORK/pytorch-killed.err")"
verdict "abs($ours / $theirs - 1) <= 0.003 and abs($loss / $theirs - 1) <= 0.003 and $fewer >= 100 and $ours < $start" \
	"DiLoCo in PyTorch $(python3 -c "print(f'{100 * ($ours / $theirs - 1):+.3f} %, {100 * ($loss / $theirs - 1):+.3f} % with a worker killed')") against weir-worker, $(python3 -c "print(f'{$fewer:.0f}')") times fewer bytes than synchronous"

# kill -9 of workers and servers during fine-tuning: three servers with two replicas of everything,
# two workers. A GPT-2 and the small Llama of the test data learn a text asynchronously,
# synchronously, in DiLoCo's rounds (int4 outer deltas, also streamed in fragments) and by LoRA,
# each once undisturbed and once with kills at random moments. Every push is applied exactly once,
# and replicas are equal. The loss curve continues after a kill where it was before, and ends where
# the undisturbed one does.
. tests/claims/lib/common.sh
need_installed test etcd
need_data tinyshakespeare/input.txt llama-2m-fresh/config.json
need_programs
small=$WEIR_DATA/llama-2m-fresh text=$WEIR_DATA/tinyshakespeare/input.txt
bytes=$(pick 150000 400000) server_kills=$(pick 1 2) worker_kills=$(pick 1 3)
# As shares. A point of the curve is the mean over a second. Its end depends on which worker had
# which unit.
UP=0.05 NEAR=0.03
[ "$QUICK" = 1 ] && echo "QUICK: $bytes bytes of text instead of 400000, $worker_kills worker and $server_kills server killed in each run instead of 3 and 2; no runs of the GPT-2 but the streaming one"
head -c "$bytes" "$text" > "$WORK/text.txt"

train=
leave_nothing() {
	[ -z "$train" ] || { kill "$train" && wait "$train"; }
	rm -rf "$WORK"
} 2> /dev/null
trap leave_nothing EXIT

# job NAME MODEL BATCH OPTIMIZER [MODE AND CODECS]: writes $WORK/NAME.yaml.
job() {
	cat > "$WORK/$1.yaml" <<-YAML
		job: $1
		run_dir: $WORK/$1
		cluster: {servers: 3, workers: 2, partitions: 8, replicas: 2, log: disk, lease_ms: 3001}
		data:
		  format: tokens
		  tokenizer: bytes
		  sequence: 64
		  train: $WORK/text.txt
		  split: {by: crc32, train: 90, valid: 10, test: 0}
		  cache: $WORK/cache
		  batch: $3
		  unit_batches: 32
		model: $2
		tables: {dense: {optimizer: $4${5:+, $5}}}
		train: {passes: 2, threads: 1, clip_norm: 1, keep_best: false, pace: {batch_ms: 100}} # a run has a curve and outlasts its kills on any machine
	YAML
}
ADAMW='kind: adamw, lr: 2.0e-3, beta2: 0.95, weight_decay: 0.1, schedule: {kind: cosine, warmup: 30, min: 0.1}'
# rounds [", KEYS"]
rounds() { echo "mode: {kind: local, steps: 16, rounds: sync, inner: {$ADAMW}${1:-}}, push: {codec: int4}, pull: {codec: int4}"; }
GPT='{kind: gpt2, layers: 3, heads: 4, width: 128, dropout: 0.1}'
LLAMA="{kind: llama, from: '$small'}"

# In jq: the processes that may be killed; of workers only those with work.
KILLABLE='def killable: (.servers[] | select(.answered) | {kind: "servers", pid}), (.workers[] | select(.live and (.evaluator | not) and .units_held > 0) | {kind: "workers", pid});'
job_says() { # job_says FILTER: leaves the status
	"$BUILD/weir" status --job "$WORK/$name.yaml" --set "run_dir=$WORK/$name-hit" --json > "$WORK/status.json" 2> /dev/null && jq -e "$KILLABLE $1" "$WORK/status.json" > /dev/null
}
# may_hit KIND ROWS: ROWS rows are trained, and every replica is in place, so that one server's
# death loses nothing.
may_hit() {
	kill -0 "$train" 2> /dev/null || { cat "$WORK/$name-hit.err" >&2; give_up "$name ended before all were killed"; }
	job_says ".rows >= $2 and ([.ledger, .partitions[] | (.in_sync | length) == 2] | all) and ([killable | .kind == \"$1\"] | any)"
}
hit() { # hit servers|workers: kill -9 of a random one
	kill -KILL "$(jq "$KILLABLE [killable | select(.kind == \"$1\") | .pid] | .[$RANDOM % length]" "$WORK/status.json")" || give_up "nobody to kill in $name"
	hits+=("$(date +%s.%N)")
}
# disturbed ROWS: runs the job, of ROWS rows in all, with kills: first a worker, then servers and
# workers in turn, at random moments of equal parts of its first 85 %.
disturbed() {
	local kinds=(workers) i part
	for ((i = 1; i < server_kills + worker_kills; i++)); do kinds+=("$([ $((i % 2)) = 1 ] && echo servers || echo workers)"); done
	hits=()
	"$BUILD/weir" train "$WORK/$name.yaml" --report "$WORK/$name-hit.json" --set "run_dir=$WORK/$name-hit" > "$WORK/$name-hit.out" 2> "$WORK/$name-hit.err" &
	train=$!
	part=$(($1 * 75 / 100 / ${#kinds[@]}))
	for ((i = 0; i < ${#kinds[@]}; i++)); do
		wait_for 600 "a random moment of $name" may_hit "${kinds[$i]}" $(($1 / 10 + i * part + RANDOM * part / 32768))
		hit "${kinds[$i]}"
	done
	wait "$train" || { cat "$WORK/$name-hit.err" >&2; give_up "$name failed"; }
	train=
}
holds=True checked=0 killed=0
of() { figure "$WORK/$name-$1.json" "$2"; } # of calm|hit FIGURE
compare() { # compare NAME
	local up near ok
	name=$1
	train "$name-calm" "$WORK/$name.yaml"
	disturbed "$(of calm rows)"
	python3 tests/claims/lib/curve.py "$WORK/$name-hit/events" "${hits[@]}" > "$WORK/curve" || give_up "the curve of $name does not go on"
	up=$(tail -n 1 "$WORK/curve")
	near=$(python3 -c "print(f'{$(of hit valid.loss) / $(of calm valid.loss) - 1:.4f}')")
	echo "$name: $(of hit workers_lost) workers and $(of hit servers_lost) servers killed, $(of hit leases_expired) leases expired;" \
		"$(jq -r '.audit | "\(.parts_expected) parts expected, \(.applied) applied, \(.missing) missing, \(.double) double; replicas compared \(.replicas_compared), differ \(.replicas_differ)"' "$WORK/$name-hit.json")"
	echo "  validation loss $(mean "$(of hit valid.loss)"), undisturbed $(mean "$(of calm valid.loss)"); the curve after a kill, at worst, $up above that before: $(head -n 1 "$WORK/curve")"
	ok=$(jq "[.finished, .audit.ok, .audit.parts_expected > 0, .audit.applied == .audit.parts_expected, .audit.missing == 0, .audit.double == 0, .audit.replicas_differ == 0,
		.workers_lost >= $worker_kills, .servers_lost >= $server_kills, .units_skipped == 0] | all" "$WORK/$name-hit.json")
	[ "$ok" = true ] && true_that "$up <= $UP and $near <= $NEAR" || holds=False
	checked=$((checked + 1)) killed=$((killed + ${#hits[@]}))
	rm -rf "${WORK:?}/$name-hit"
}

if [ "$QUICK" != 1 ]; then
	job gpt-async "$GPT" 16 "{${ADAMW/2.0e-3/1.0e-3}}"
	compare gpt-async
	job gpt-sync "$GPT" 16 "{$ADAMW}" 'mode: {kind: sync}'
	compare gpt-sync
fi
job gpt-streaming "$GPT" 16 '{kind: nesterov, lr: 0.7, momentum: 0.9}' "$(rounds ', fragments: 2, overlap: 2')"
compare gpt-streaming
job llama-async "$LLAMA" 16 "{${ADAMW/2.0e-3/1.0e-3}}"
compare llama-async
job llama-diloco "$LLAMA" 16 '{kind: nesterov, lr: 0.7, momentum: 0.9}' "$(rounds)"
compare llama-diloco
# The undisturbed run's model is the base of the adapters.
mkdir "$WORK/base" && cp "$small/config.json" "$WORK/base/"
"$BUILD/weir" export --job "$WORK/llama-async.yaml" --set "run_dir=$WORK/llama-async-calm" --set job=llama-async-calm --out "$WORK/base/model.safetensors" > "$WORK/out" 2>&1 ||
	{ cat "$WORK/out" >&2; give_up "weir export"; }
job llama-lora "{kind: llama, from: $WORK/base, lora: {rank: 8, alpha: 16, targets: [q_proj, v_proj, gate_proj, up_proj, down_proj]}}" 16 "{${ADAMW/2.0e-3/1.0e-3}}"
compare llama-lora
verdict "$holds" "$checked jobs with $killed processes killed: each push once, the curve after a kill at most $UP above that before, losses at the end at most $NEAR above undisturbed ones"

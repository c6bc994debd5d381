# Conversations from JSONL to an answer. Users' turns are random noise, so a small loss can only
# come from answers. Training stops when the validation loss no longer falls, and the best pass's
# weights answer new questions.
. "$(dirname "$0")/lib.sh"
# talk SEED LINES: the answer to a question of letters up to m is "ship ahoy", to others "green sea"
talk() {
	awk -v seed="$1" -v lines="$2" 'BEGIN {
		srand(seed)
		for (i = 0; i < lines; i++) {
			first = rand() < 0.5
			text = ""
			for (k = 0; k < 12; k++) text = text sprintf("%c", (first ? 97 : 110) + int(rand() * 13))
			printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"%s\"}]}\n", text, first ? "ship ahoy" : "green sea"
		}
	}'
}
talk 1 600 > "$DIR/train.jsonl"
talk 2 100 > "$DIR/valid.jsonl"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {servers: 2, workers: 2, partitions: 8, lease_ms: 3001}
	data: {format: tokens, tokenizer: bytes, chat: chatml, packing: apart, sequence: 96, train: $DIR/train.jsonl, valid: $DIR/valid.jsonl, batch: 8, unit_batches: 8}
	model: {kind: llama, layers: 2, heads: 2, width: 32}
	tables: {dense: {optimizer: {kind: adamw, lr: 4.0e-3}, mode: {kind: sync}}}
	train: {passes: 60, threads: 1, clip_norm: 1, early_stop: {metric: logloss, patience: 3, min_delta: 0.0005}}
JOB
start_train
finish_train 200
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
# 100 answers of 9 bytes, each with the 10 bytes of <|im_end|>; nothing else counts. If questions'
# letters counted, at 2.6 nats each, the loss would exceed 1.
holds "$DIR/report.json" '.finished and .valid.rows == 1900 and .valid.loss < 0.2'
holds "$DIR/report.json" '(.passes | length) as $n | $n > 2 and $n < 60'
holds "$RUN/evaluation.json" '.best_pass < (.passes | length)'
nothing_left

# New questions: nearly all answers are correct, as the loss promises.
right=0
for i in $(seq 0 9); do
	question=$(jq -r '.messages[0].content' "$DIR/valid.jsonl" | sed -n "$((i + 1))p")
	wanted=$(jq -r '.messages[1].content' "$DIR/valid.jsonl" | sed -n "$((i + 1))p")
	"$WEIR" generate "$DIR/job.yaml" --chat --prompt "$question" --temperature 0 --max-tokens 9 > "$DIR/said" 2> "$DIR/said.err" || fail "weir generate: $(cat "$DIR/said.err")"
	[ "$(cat "$DIR/said")" = "$wanted" ] && right=$((right + 1)) || echo "the answer to '$question' is '$(cat "$DIR/said")', not '$wanted'"
done
[ $right -ge 8 ] || fail "$right of 10 answers are right"

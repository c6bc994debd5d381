# A job without a validation part keeps the weights of its last pass and says so before training.
# export, eval and predict use them.
. "$(dirname "$0")/../integration/lib.sh"
awk 'BEGIN { srand(9); for (i = 0; i < 400; i++) { a = int(rand() * 5) + 1; print (rand() < a / 6 ? 1 : -1), a ":1", int(rand() * 3) + 10 ":1" } }' > "$DIR/train.svm"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {servers: 1, workers: 2}
	data: {format: libsvm, train: $DIR/train.svm, fields: 2, batch: 32, unit_batches: 2}
	model: {kind: lr}
	tables: {embedding: {optimizer: {kind: adam, lr: 1e-2}}, dense: {optimizer: {kind: adam, lr: 1e-2}}}
	train: {passes: 2}
JOB

# keeps PASS: the weights of that pass are kept, and each verb uses them.
keeps() {
	[ "$STATUS" = 0 ] || fail "exit status $STATUS"
	grep -q "no validation part chooses the best pass .*: the weights of the last pass are kept" "$DIR/train.err" || fail "it is not said before training"
	holds "$DIR/report.json" ".weights_pass == $1 and .chosen_by == \"last\" and (has(\"best_pass\") | not)"
	grep -q "weights .*of pass $1, the last, as the job has no validation part" "$DIR/train.out" || fail "the report does not say whose weights are kept"
	"$WEIR" export "$DIR/job.yaml" --out "$DIR/m$1.safetensors" > /dev/null || fail "export"
	"$WEIR" eval "$DIR/job.yaml" --json > "$DIR/eval.json" || fail "eval"
	holds "$DIR/eval.json" '.part == "train" and .rows == 400 and .auc > 0.6'
	"$WEIR" predict "$DIR/job.yaml" --out "$DIR/p.txt" > /dev/null || fail "predict"
	[ "$(wc -l < "$DIR/p.txt")" = 400 ] || fail "a score for each row"
}
start_train
finish_train 20
keeps 2

# A split whose validation part has no row: two kinds of lines, which all go to training.
awk 'BEGIN { for (i = 0; i < 64; i++) print (i % 2 ? "1 1:1" : "0 1:1") }' > "$DIR/few.svm"
"$WEIR" train "$DIR/job.yaml" --fresh --set "data.train=$DIR/few.svm" --set data.split.by=crc32 --set data.fields=1 > "$DIR/train.out" 2> "$DIR/train.err" ||
	fail "a split without a validation row: $(tail -n 1 "$DIR/train.err")"
grep -q "weights .*the last, as the validation part has no rows" "$DIR/train.out" || fail "the report does not say that there is no row: $(cat "$DIR/train.out")"

# With its log on disk, stopped in the middle and resumed.
start_train --fresh --set cluster.log=disk --set train.passes=1000 --set train.pace.batch_ms=20
wait_for 20 "the second pass" status '.pass > 1'
stop_train 20
[ ! -e "$RUN/best.safetensors" ] || fail "there are weights of no last pass"
start_train --resume --set cluster.log=disk --set "train.passes=$PASSES"
finish_train 20
keeps "$PASSES"

# A Llama from its text, and adapters of it: generate and export use the kept weights.
awk 'BEGIN { srand(5); for (i = 0; i < 600; i++) printf "%s ", substr("ship sails over", 1 + 5 * int(rand() * 3), 5) }' > "$DIR/text.txt"
sed "/^data:/,\$d" "$DIR/job.yaml" > "$DIR/llama.yaml"
cat >> "$DIR/llama.yaml" <<-JOB
	data: {format: tokens, tokenizer: bytes, sequence: 16, train: $DIR/text.txt, batch: 8, unit_batches: 2}
	model: {kind: llama, layers: 1, heads: 2, width: 16}
	tables: {dense: {optimizer: {kind: adamw, lr: 3.0e-3}}}
	train: {passes: 1, threads: 1}
JOB
sed "s#layers: 1.*#from: $DIR/model, lora: {rank: 2, alpha: 4, targets: [q_proj, v_proj]}}#" "$DIR/llama.yaml" > "$DIR/lora.yaml"
for kind in llama lora; do
	"$WEIR" train "$DIR/$kind.yaml" --fresh > "$DIR/train.out" 2> "$DIR/train.err" || fail "train of the $kind"
	grep -q "weights of the last pass are kept" "$DIR/train.err" && [ -s "$RUN/best.safetensors" ] || fail "no weights of the $kind"
	"$WEIR" generate "$DIR/$kind.yaml" --prompt "ship" --max-tokens 4 > "$DIR/said" 2> "$DIR/said.err" || fail "generate: $(cat "$DIR/said.err")"
	"$WEIR" eval "$DIR/$kind.yaml" --json > "$DIR/eval.json" || fail "eval of the $kind"
	holds "$DIR/eval.json" '.part == "train" and .loss > 0 and .not_numbers == 0'
	"$WEIR" export "$DIR/$kind.yaml" --format hf --out "$DIR/$([ $kind = llama ] && echo model || echo merged)" > /dev/null || fail "export of the $kind"
done
nothing_left
echo "the last weights are kept, and taken by export, eval and predict"

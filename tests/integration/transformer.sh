# Transformers from a text's bytes to a report: a GPT-2 and a Llama learn what bytes' frequencies cannot tell; one is evaluated, exported, and is then a model folder to
# begin with, to evaluate and to train adapters of.
. "$(dirname "$0")/lib.sh"
awk 'BEGIN {
	srand(5); split("ship sails over the wide green evening sea", w, " ")
	for (i = 0; i < 12000; i++) { at = rand() < 0.8 ? at % 8 + 1 : int(rand() * 8) + 1; printf "%s%s", w[at], i % 9 == 8 ? "\n" : " " }
}' > "$DIR/text.txt"
head -c 60000 "$DIR/text.txt" > "$DIR/train.txt"
tail -c +60001 "$DIR/text.txt" > "$DIR/valid.txt"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {servers: 2, workers: 2, partitions: 8, lease_ms: 3001}
	data: {format: tokens, tokenizer: bytes, sequence: 24, train: $DIR/train.txt, valid: $DIR/valid.txt, batch: 8, unit_batches: 8}
	model: {kind: gpt2, layers: 2, heads: 2, width: 32, dropout: 0.05}
	tables: {dense: {optimizer: {kind: adamw, lr: 3.0e-3, weight_decay: 0.01}}}
	train: {passes: 3, threads: 1, clip_norm: 1}
JOB
start_train
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" '.finished and .model == "gpt2" and (.passes | length) == 3'
holds "$DIR/report.json" '.valid.loss > 0.1 and .valid.loss < 1.1 and (.valid.perplexity - (.valid.loss | exp) | fabs) < 1e-9'
grep -q "nats a token" "$DIR/train.out" || fail "the report does not say the loss"
nothing_left

"$WEIR" eval --job "$DIR/job.yaml" --json > "$DIR/eval.json" 2> "$DIR/eval.err" || fail "weir eval"
jq -es '.[0].rows == .[1].valid.rows and (.[0].loss - .[1].valid.loss | fabs) < 1e-6' "$DIR/eval.json" "$DIR/report.json" > /dev/null ||
	fail "weir eval says $(cat "$DIR/eval.json"), the report $(jq -c .valid "$DIR/report.json")"
"$WEIR" predict --job "$DIR/job.yaml" --out "$DIR/scores.txt" > /dev/null 2> "$DIR/predict.err" || fail "weir predict"
awk -v loss="$(json "$DIR/report.json" .valid.loss)" -v tokens="$(json "$DIR/report.json" .valid.rows)" \
	'{ if ($1 > 0) exit 1; sum -= $1 } END { d = sum / tokens - loss; exit !(d * d < 1e-10) }' "$DIR/scores.txt" || fail "the sequences' scores do not add up to the loss"

# Exported weights have Hugging Face's names: with a config.json beside them they are a model folder.
mkdir "$DIR/model"
"$WEIR" export --job "$DIR/job.yaml" --out "$DIR/model/model.safetensors" > /dev/null 2> "$DIR/export.err" || fail "weir export"
echo '{"model_type": "gpt2", "vocab_size": 256, "n_positions": 24, "n_layer": 2, "n_head": 2, "n_embd": 32}' > "$DIR/model/config.json"
sed -e "s#model: .*#model: {kind: gpt2, from: $DIR/model}#; s/passes: 3/passes: 1/" "$DIR/job.yaml" > "$DIR/from.yaml"
start_train_of() { # start_train_of JOB [ARGUMENTS...]
	JOB=$1 && shift
	"$WEIR" train "$JOB" --fresh --report "$DIR/report.json" "$@" > "$DIR/train.out" 2> "$DIR/train.err" || fail "weir train $JOB: $(cat "$DIR/train.err")"
}
best=$(json "$DIR/eval.json" .loss)
start_train_of "$DIR/from.yaml" --set tables.dense.optimizer.lr=1.0e-6
holds "$DIR/report.json" "(.valid.loss - $best | fabs) < 0.02" # where it was left
start_train_of "$DIR/from.yaml" --set 'model.lora={rank: 4, targets: [c_attn, c_fc, c_proj]}' --set tables.dense.optimizer.lr=2.0e-3
holds "$DIR/report.json" ".valid.loss < $best + 0.02"

sed -e 's/kind: gpt2, layers: 2, heads: 2/kind: llama, layers: 2, heads: 4, kv_heads: 2/; s/{kind: adamw, lr: 3.0e-3, weight_decay: 0.01}}/{kind: adamw, lr: 3.0e-3}, mode: {kind: sync}}/' \
	-e 's/dropout: 0.05/recompute: layers/' "$DIR/job.yaml" > "$DIR/llama.yaml"
start_train_of "$DIR/llama.yaml"
holds "$DIR/report.json" '.finished and .model == "llama" and .valid.loss > 0.1 and .valid.loss < 1.1'

"$WEIR" train "$DIR/from.yaml" --fresh --set data.sequence=25 > "$DIR/out" 2> "$DIR/use.err" && fail "a sequence longer than the model's positions"
told data.sequence "positions for 24" "$DIR/use.err"
"$WEIR" train "$DIR/from.yaml" --fresh --set model.kind=llama > "$DIR/out" 2> "$DIR/use.err" && fail "a folder of another family"
told model.from "is of a gpt2" "$DIR/use.err"

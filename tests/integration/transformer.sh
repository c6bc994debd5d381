# Transformers from a text's bytes to a report: a GPT-2 and a Llama learn more than byte
# frequencies. One is evaluated and exported. The exported model folder is a start for training,
# evaluation and adapters, which are exported in their model and alone, and used as a start again.
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
	train: {passes: 8, threads: 1, clip_norm: 1} # with this many passes, a busy machine's staleness no longer matters
JOB
start_train --set 'tables.dense.optimizer.schedule={kind: linear, warmup: 20, min: 0.9}' --set train.peak_flops=1.0e10
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" '.finished and .model == "gpt2" and (.passes | length) == 8'
holds "$DIR/report.json" '.valid.loss > 0.1 and .valid.loss < 1.1 and (.valid.perplexity - (.valid.loss | exp) | fabs) < 1e-9'
holds "$DIR/report.json" '.samples_per_s > 0 and (.tokens_per_s - 24 * .samples_per_s | fabs) < 1e-6 * .tokens_per_s'
grep -q "samples/s of 24 tokens, .* tokens/s" "$DIR/train.out" || fail "the report does not say the speed in tokens"
grep -q "nats a token" "$DIR/train.out" || fail "the report does not say the loss"
# The step figures follow from the job: each batch is a step of the schedule, and a token takes 6
# operations per weight, plus attention's.
N=$((($(stat -c %s "$RUN/best.safetensors") - 8 - $(od -An -tu8 -N8 "$RUN/best.safetensors")) / 4))
holds "$DIR/report.json" '.tables[0].steps as $n | $n == 8 * (.rows / 64 | ceil) and (.learning_rate - 3e-3 * (1 - 0.1 * ($n - 21) / ($n - 20)) | fabs) < 1e-9'
holds "$DIR/report.json" "(.mfu - (6 * $N + 12 * 2 * 32 * 24) * .tokens_per_s / 2e10 | fabs) < 1e-6 * .mfu and .gradient_norm > 0 and .gradient_norm < 100"
grep -q "tokens/s, MFU .* %, " "$DIR/train.out" && grep -q "norm .*, learning rate .*, at last" "$DIR/train.out" || fail "the report does not say MFU or the gradient"
grep -q "perplexity .*, finished, gradient norm .*, lr " "$DIR/train.err" || fail "the live line does not say how it learns"
nothing_left

told_alike valid

# The model has learnt the order: its likeliest words follow one another as in the text.
generate() { # generate WHOSE OPTIONS...: writes the text to $DIR/said
	"$WEIR" generate "$@" --prompt "ship sails over" --max-tokens 12 > "$DIR/said" 2> "$DIR/said.err" || fail "weir generate: $(cat "$DIR/said.err")"
}
generate "$DIR/job.yaml" --temperature 0 && cp "$DIR/said" "$DIR/greedy"
grep -q "^ the" "$DIR/greedy" || fail "behind 'ship sails over' comes '$(cat "$DIR/greedy")'"
grep -q "9 more: the model has no more positions; weights of .*best.safetensors" "$DIR/said.err" || fail "$(cat "$DIR/said.err")"
generate "$DIR/job.yaml" --temperature 5 --seed 5 && cp "$DIR/said" "$DIR/drawn"
generate "$DIR/job.yaml" --temperature 5 --seed 5
cmp -s "$DIR/said" "$DIR/drawn" || fail "the same seed, another text"
generate "$DIR/job.yaml" --temperature 5 --seed 6
cmp -s "$DIR/said" "$DIR/drawn" && fail "another seed, the same text"
generate "$DIR/job.yaml" --temperature 1.5 --top-k 1
cmp -s "$DIR/said" "$DIR/greedy" || fail "of one token another one was drawn"
"$WEIR" generate "$DIR/job.yaml" --prompt "more than there are positions for" > "$DIR/out" 2> "$DIR/use.err" && fail "a prompt that is too long"
told "33 tokens" "positions for 24" "$DIR/use.err"

export_to() { # export_to OUT JOB [ARGUMENTS...]
	"$WEIR" export --job "$2" --out "$DIR/$1" "${@:3}" > /dev/null 2> "$DIR/export.err" || fail "weir export $*"
}
not_exported() { "$WEIR" export --job "$1" "${@:2}" > "$DIR/out" 2> "$DIR/use.err" && fail "weir export $*"; }
loss_of() { # loss_of JOB [ARGUMENTS...]
	"$WEIR" eval --job "$1" --json "${@:2}" > "$DIR/eval.json" 2> "$DIR/eval.err" || fail "weir eval $*"
	json "$DIR/eval.json" .loss
}
near() { awk -v a="$1" -v b="$2" -v within="$3" 'BEGIN { d = a - b; exit !(d < within && d > -within) }' || fail "$1 and $2 are further apart than $3"; }

# The folder has the weights of the file and is the same model; also in several files, and nearly so
# in bf16.
best=$(json "$DIR/eval.json" .loss)
export_to file.safetensors "$DIR/job.yaml"
cmp "$DIR/file.safetensors" "$RUN/best.safetensors" || fail "the file is not the best weights"
export_to model "$DIR/job.yaml" --format hf
near "$(loss_of "$DIR/job.yaml" --weights "$DIR/model")" "$best" 1e-9
export_to parts "$DIR/job.yaml" --format hf --type BF16 --file-bytes 20k
[ -e "$DIR/parts/model-00002-of-00004.safetensors" ] && [ -e "$DIR/parts/model.safetensors.index.json" ] || fail "not in several files: $(ls "$DIR/parts")"
near "$(loss_of "$DIR/job.yaml" --weights "$DIR/parts")" "$best" 0.01
not_exported "$DIR/job.yaml" --format hf --out "$DIR/parts"
told "parts has a model in it" --replace "$DIR/use.err"
export_to parts "$DIR/job.yaml" --format hf --replace
diff -r "$DIR/parts" "$DIR/model" || fail "replaced is not the same"
touch "$DIR/parts/notes"
not_exported "$DIR/job.yaml" --format hf --out "$DIR/parts" --replace
told "has notes in it" "$DIR/use.err"
not_exported "$DIR/job.yaml" --format peft --out "$DIR/none"
told "trains no adapters" "$DIR/use.err"
not_exported "$DIR/job.yaml" --format gguf --out "$DIR/none"
told gguf "expected safetensors, hf or peft" "$DIR/use.err"
sed -e "s#model: .*#model: {kind: gpt2, from: $DIR/model}#; s/passes: 8/passes: 1/" "$DIR/job.yaml" > "$DIR/from.yaml"
start_train_of() { # start_train_of JOB [ARGUMENTS...]
	JOB=$1 && shift
	"$WEIR" train "$JOB" --fresh --report "$DIR/report.json" "$@" > "$DIR/train.out" 2> "$DIR/train.err" || fail "weir train $JOB: $(cat "$DIR/train.err")"
}
start_train_of "$DIR/from.yaml" --set 'tables.dense={optimizer: {kind: nesterov, lr: 0.5}, mode: {kind: local, steps: 4, inner: {lr: 1.0e-6}}}'
holds "$DIR/report.json" "(.valid.loss - $best | fabs) < 0.02" # where it was left
# The worker's own, and the outer one.
holds "$DIR/report.json" '(.learning_rate - 1e-6 | fabs) < 1e-12 and .tables[0].learning_rate == 0.5'
sed -e "s#from: $DIR/model#&, lora: {rank: 4, alpha: 6, targets: [c_attn, c_fc, c_proj]}#; s/lr: 3.0e-3/lr: 2.0e-3/" "$DIR/from.yaml" > "$DIR/lora.yaml"
start_train_of "$DIR/lora.yaml"
holds "$DIR/report.json" ".valid.loss < $best + 0.02"

# Adapters inside their model equal adapters beside it. Alone they are weights to evaluate, import
# and start from.
lora=$(loss_of "$DIR/lora.yaml")
export_to merged "$DIR/lora.yaml" --format hf
near "$(loss_of "$DIR/job.yaml" --weights "$DIR/merged")" "$lora" 1e-5
export_to adapters "$DIR/lora.yaml" --format peft
sed -e "s#from: $DIR/model#&, lora: {from: $DIR/adapters}#" "$DIR/from.yaml" > "$DIR/adapted.yaml"
near "$(loss_of "$DIR/lora.yaml" --weights "$DIR/adapters")" "$lora" 1e-9
near "$(loss_of "$DIR/adapted.yaml" --weights "$DIR/adapters")" "$lora" 1e-9
export_to merged_again "$DIR/adapted.yaml" --weights "$DIR/adapters" --format hf
diff -r "$DIR/merged_again" "$DIR/merged" || fail "adapters of a folder are merged otherwise"
start_train_of "$DIR/adapted.yaml" --set tables.dense.optimizer.lr=1.0e-6
holds "$DIR/report.json" "(.valid.loss - $lora | fabs) < 0.02"
export_to again "$DIR/adapted.yaml" --format peft
cmp "$DIR/again/adapter_config.json" "$DIR/adapters/adapter_config.json" || fail "another adapter_config.json"
"$WEIR" eval --job "$DIR/from.yaml" --weights "$DIR/adapters" > "$DIR/out" 2> "$DIR/use.err" && fail "adapters without model.lora"
told "model.lora.rank was '4' and is '0'" "$DIR/use.err"
"$WEIR" eval --job "$DIR/from.yaml" --weights "$DIR/adapters" --accept model.lora.rank --accept model.lora.alpha --accept model.lora.targets > "$DIR/out" 2> "$DIR/use.err" &&
	fail "adapters without model.lora, accepted"
told "is a folder of adapters, and the job trains none" "$DIR/use.err"
"$WEIR" eval --job "$DIR/lora.yaml" --weights "$DIR/adapters" --set model.lora.alpha=8 > "$DIR/out" 2> "$DIR/use.err" && fail "adapters of another alpha"
told "model.lora.alpha was '6' and is '8'" "$DIR/use.err"

# Folders are merged into a folder of their kind. An existing output, also an index of several
# files, stays whole unless it may be replaced.
merge_to() { "$WEIR" merge --out "$DIR/$1" "${@:2}" > "$DIR/out" 2> "$DIR/use.err" || fail "weir merge $*: $(cat "$DIR/use.err")"; }
merge_to soup --method linear --weights 1,0 "$DIR/model" "$DIR/merged"
near "$(loss_of "$DIR/job.yaml" --weights "$DIR/soup")" "$best" 1e-6
merge_to half.safetensors --method linear --type BF16 "$DIR/file.safetensors" "$DIR/file.safetensors"
near "$(loss_of "$DIR/job.yaml" --weights "$DIR/half.safetensors")" "$best" 0.01
merge_to mean --method linear "$DIR/adapters" "$DIR/adapters"
diff -r "$DIR/mean" "$DIR/adapters" || fail "the mean of adapters and themselves is another folder"
export_to pieces "$DIR/job.yaml" --weights "$DIR/file.safetensors" --format hf --file-bytes 20k
"$WEIR" merge --method slerp "$DIR/model" "$DIR/merged" --out "$DIR/pieces" > "$DIR/out" 2> "$DIR/use.err" && fail "merged over a model"
told "pieces has a model in it" --replace "$DIR/use.err"
merge_to pieces --method linear --weights 0,1 "$DIR/pieces" "$DIR/merged" --replace
near "$(loss_of "$DIR/job.yaml" --weights "$DIR/pieces")" "$lora" 1e-5
[ ! -e "$DIR/pieces/model.safetensors.index.json" ] || fail "an index of what is gone"

# A model folder works without a job; adapters name their model.
generate "$DIR/model" --tokenizer bytes --temperature 0
cmp -s "$DIR/said" "$DIR/greedy" || fail "the folder says '$(cat "$DIR/said")', the job '$(cat "$DIR/greedy")'"
generate "$DIR/lora.yaml" --weights "$DIR/adapters" --temperature 0
grep -q "^ the" "$DIR/said" || fail "adapters say '$(cat "$DIR/said")'"
"$WEIR" generate "$DIR/adapters" --prompt x > "$DIR/out" 2> "$DIR/use.err" && fail "adapters without their model"
told "adapters is a folder without config.json" "--weights" "$DIR/use.err"
"$WEIR" generate "$DIR/model" --prompt-file "$DIR" > "$DIR/out" --tokenizer bytes 2> "$DIR/use.err" && fail "a folder as a prompt"
told "Is a directory" "$DIR/use.err"
"$WEIR" generate "$DIR/model" --prompt x > "$DIR/out" 2> "$DIR/use.err" && fail "a folder without a tokenizer"
told "tokenizer.json" "--tokenizer FOLDER|FILE|bytes" "$DIR/use.err"
"$WEIR" generate "$DIR/model" --prompt x --tokenizer bytes --chat > "$DIR/out" 2> "$DIR/use.err" && fail "a chat without a template"
told "no chat template" "bytes" "$DIR/use.err"

sed -e 's/kind: gpt2, layers: 2, heads: 2/kind: llama, layers: 2, heads: 4, kv_heads: 2/; s/{kind: adamw, lr: 3.0e-3, weight_decay: 0.01}}/{kind: adamw, lr: 3.0e-3}, mode: {kind: sync}}/' \
	-e 's/passes: 8/passes: 3/; s/dropout: 0.05/recompute: layers/; s/clip_norm: 1/&, accumulate: 3, peak_flops: 1.0e10/' "$DIR/job.yaml" > "$DIR/llama.yaml"
start_train_of "$DIR/llama.yaml"
holds "$DIR/report.json" '.finished and .model == "llama" and .valid.loss > 0.1 and .valid.loss < 1.1'

# A running job can also be exported, from all its servers.
sed -i -e 's/passes: 3/passes: 1000/' "$DIR/llama.yaml"
cp "$DIR/llama.yaml" "$DIR/job.yaml"
start_train --fresh
wait_for 60 "a first pass, and all figures of its steps" status '.pass > 1 and .mfu > 0 and .gradient_norm > 0 and .learning_rate > 0 and .tables[0].steps > 0'
holds "$DIR/status.json" '(.tokens_per_s - 24 * .samples_per_s | fabs) < 1e-6 * .tokens_per_s and (.perplexity - (.loss | exp) | fabs) < 1e-9 and .gradient_norm > 0'
holds "$DIR/status.json" '(.learning_rate - 3e-3 | fabs) < 1e-9 and .tables[0].steps > 0'
tells() { # without --json, too
	"$WEIR" status "${JOB_AT[@]}" > "$DIR/said" && grep -q "^trained .*, perplexity " "$DIR/said" && grep -q "^speed .* tokens/s, MFU .* %$" "$DIR/said" &&
		grep -q "^gradient .* learning rate 0.003$" "$DIR/said"
}
wait_for 20 "weir status to tell all of it" tells
curves() { for tag in tokens_per_s mfu gradient_norm learning_rate; do grep -qa "train/$tag" "$RUN"/events/* || return 1; done; }
wait_for 10 "the curves" curves
export_to running "$DIR/llama.yaml" --format hf
"$WEIR" checkpoint --job "$DIR/llama.yaml" --json > "$DIR/checkpoint.json" || fail "weir checkpoint"
kill -TERM "$TRAIN"
finish_train 60

# A checkpoint, by name or as the latest in its folder, gives the same as a folder exported from it,
# and is refused for scoring.
kept=$RUN/checkpoints/$(json "$DIR/checkpoint.json" .name)
export_to kept "$DIR/llama.yaml" --weights "$kept" --format hf
near "$(loss_of "$DIR/llama.yaml" --weights "$DIR/kept")" "$(json "$DIR/status.json" .loss)" 0.3
generate "$DIR/kept" --tokenizer bytes --temperature 0 && cp "$DIR/said" "$DIR/greedy"
for from in "$kept" "$kept.json" "$RUN/checkpoints"; do
	generate "$DIR/llama.yaml" --weights "$from" --temperature 0
	cmp -s "$DIR/said" "$DIR/greedy" || fail "$from says '$(cat "$DIR/said")', its folder '$(cat "$DIR/greedy")'"
done
not_exported "$DIR/llama.yaml" --weights "$kept" --out "$DIR/none"
told "is a checkpoint" "--format hf or peft" "$DIR/use.err"
"$WEIR" eval "$DIR/llama.yaml" --weights "$kept" > "$DIR/out" 2> "$DIR/use.err" && fail "weir eval of a checkpoint"
told "expected a safetensors file" "$DIR/use.err"
"$WEIR" generate "$DIR/llama.yaml" --weights "$kept" --set model.layers=1 --prompt x > "$DIR/out" 2> "$DIR/use.err" && fail "a checkpoint of another model"
told "model.layers was '" "is '1'" "$DIR/use.err"
"$WEIR" generate "$DIR/llama.yaml" --weights "$kept" --set model.layers=1 --accept model.layers --prompt x > "$DIR/out" 2> "$DIR/use.err" &&
	fail "a checkpoint of another shape"
told "has no table dense of this shape" "$DIR/use.err"
running=$(loss_of "$DIR/llama.yaml" --weights "$DIR/running")
near "$running" 0.6 0.5

"$WEIR" train "$DIR/from.yaml" --fresh --set data.sequence=25 > "$DIR/out" 2> "$DIR/use.err" && fail "a sequence longer than the model's positions"
told data.sequence "positions for 24" "$DIR/use.err"
echo "{}" > "$DIR/model/tokenizer.json"
"$WEIR" train "$DIR/from.yaml" --fresh > "$DIR/out" 2> "$DIR/use.err" && fail "bytes for a model of other tokens"
told "data.tokenizer is bytes" "model/tokenizer.json" "$DIR/use.err"
rm "$DIR/model/tokenizer.json"
"$WEIR" train "$DIR/from.yaml" --fresh --set model.kind=llama > "$DIR/out" 2> "$DIR/use.err" && fail "a folder of another family"
told model.from "is of a gpt2" "$DIR/use.err"

# Export: models trained by `weir train` become folders that transformers loads, with the job's
# weights bit for bit, and logits within 1e-4. The models are a GPT-2 and a Llama described by a
# job's keys, one of each from a folder of transformers (Llama 3's positions, biases, a tied head),
# and the test data's small Llama. Their tokenizers give the same ids. Adapters merged on export are
# within 1e-5 of those beside their model. PEFT loads weir's adapters, and weir loads PEFT's. PYTHON
# needs torch, transformers, safetensors and peft.
. tests/claims/lib/common.sh
export PYTHONPATH=tests/parity PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1
need_python torch transformers safetensors tokenizers peft
need_programs
need_tests llm_logits
weir() { "$BUILD/weir" "$@" > "$WORK/weir.out" 2> "$WORK/weir.err" || { cat "$WORK/weir.err" >&2; give_up "weir $1 failed"; }; }
plan() { echo "$*" >> "$WORK/plan"; }

BYTES=$(pick 60000 300000)
text=$WEIR_DATA/tinyshakespeare/input.txt
[ -e "$text" ] || { text=docs/OPERATIONS.md; say "Shakespeare is not there (WEIR_DATA): the text is $text"; }
head -c "$BYTES" "$text" > "$WORK/text.txt"
tail -c 20000 "$text" > "$WORK/valid.txt"
"$PYTHON" tests/parity/check_export.py make "$WORK" "$WORK/text.txt" --seed $$ > "$WORK/make.log" 2>&1 || { cat "$WORK/make.log" >&2; give_up "check_export.py make failed"; }

# job NAME MODEL: MODEL is the keys of its model.
job() {
	cat > "$WORK/$1.yaml" <<-JOB
		job: $1
		run_dir: $WORK/$1
		cluster: {servers: 2, workers: 2, partitions: 8}
		data: {format: tokens, tokenizer: $WORK/tokenizer, sequence: 48, train: $WORK/text.txt, valid: $WORK/valid.txt, batch: 8, unit_batches: 8, seed: 1}
		model: {$2}
		tables: {dense: {optimizer: {kind: adamw, lr: 2.0e-3}}}
		train: {passes: 1, threads: 1, clip_norm: 1, seed: 1}
	JOB
}
# logits JOB WEIGHTS: writes the logits of the job's model in training to $WORK/JOB.logits
logits() {
	"$BUILD/tests/llm_logits" "$WORK/$1.yaml" "$2" "$WORK/tokens.safetensors" "$WORK/$1.logits" || give_up "llm_logits $1 failed"
}

# Whole models
models=(gpt2-keys llama-keys gpt2-folder llama-folder)
job gpt2-keys "kind: gpt2, layers: 2, heads: 4, width: 64, positions: 64, dropout: 0.1"
job llama-keys "kind: llama, layers: 2, heads: 4, kv_heads: 2, width: 64, positions: 64, tied_head: false, rope_theta: 5000, norm_eps: 1.0e-6"
job gpt2-folder "kind: gpt2, from: $WORK/gpt2"
job llama-folder "kind: llama, from: $WORK/llama"
if [ -e "$WEIR_DATA/llama-2m-fresh/config.json" ]; then
	models+=(llama-2m-fresh)
	job llama-2m-fresh "kind: llama, from: $WEIR_DATA/llama-2m-fresh"
else
	say "the small Llama is not there (WEIR_DATA): left out"
fi
weir tokenize --tokenizer "$WORK/tokenizer" --in "$WORK/text.txt" --out "$WORK/text.bin" --eos none
for m in "${models[@]}"; do
	train "$m" "$WORK/$m.yaml"
	weir export "$WORK/$m.yaml" --format hf --out "$WORK/out/$m"
	weir export "$WORK/$m.yaml" --format hf --type BF16 --file-bytes 100k --out "$WORK/out/$m-bf16"
	logits "$m" "$WORK/$m/best.safetensors"
	plan weights "$m" "$WORK/out/$m" float32 "$WORK/$m/best.safetensors"
	plan weights "$m-in-bf16-and-several-files" "$WORK/out/$m-bf16" bfloat16 "$WORK/$m/best.safetensors"
	plan logits "$m" "$WORK/out/$m" 1e-4 "$WORK/$m.logits"
	plan tokens "$m" "$WORK/out/$m" "$WORK/text.txt" "$WORK/text.bin"
done

# Adapters
for kind in gpt2 llama; do
	targets=$([ $kind = gpt2 ] && echo c_attn, c_proj, c_fc || echo q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj)
	job "$kind-lora" "kind: $kind, from: $WORK/$kind, lora: {rank: 4, alpha: 10, dropout: 0.1, targets: [$targets]}"
	train "$kind-lora" "$WORK/$kind-lora.yaml"
	logits "$kind-lora" "$WORK/$kind-lora/best.safetensors"
	weir export "$WORK/$kind-lora.yaml" --format hf --out "$WORK/out/$kind-merged"
	weir export "$WORK/$kind-lora.yaml" --format peft --out "$WORK/out/$kind-adapters"
	job "$kind-base" "kind: $kind, from: $WORK/$kind"
	logits "$kind-base" "$WORK/$kind"
	job "$kind-merged" "kind: $kind, from: $WORK/$kind"
	logits "$kind-merged" "$WORK/out/$kind-merged"
	plan other "$kind-with-adapters-and-without" "$WORK/$kind-base.logits" 1e-2 "$WORK/$kind-lora.logits"
	plan same "$kind-merged-and-beside-its-model" "$WORK/$kind-merged.logits" 1e-5 "$WORK/$kind-lora.logits"
	plan logits "$kind-merged-in-transformers" "$WORK/out/$kind-merged" 1e-5 "$WORK/$kind-lora.logits"
	plan tensors "$kind-adapters" "$WORK/out/$kind-adapters" float32 "$WORK/$kind-lora/best.safetensors"
	plan adapters "$kind-adapters-in-PEFT" "$WORK/out/$kind-adapters" 1e-4 "$WORK/$kind-lora.logits" "$WORK/$kind"
	# PEFT's adapters: as written, exported again, and trained further
	job "$kind-peft-made" "kind: $kind, from: $WORK/$kind, lora: {from: $WORK/$kind-peft}"
	logits "$kind-peft-made" "$WORK/$kind-peft"
	weir export "$WORK/$kind-peft-made.yaml" --weights "$WORK/$kind-peft" --format peft --out "$WORK/out/$kind-again"
	plan adapters "$kind-adapters-of-PEFT" "$WORK/$kind-peft" 1e-4 "$WORK/$kind-peft-made.logits" "$WORK/$kind"
	plan tensors "$kind-adapters-of-PEFT-again" "$WORK/out/$kind-again" float32 "$WORK/$kind-peft/adapter_model.safetensors"
	weir eval "$WORK/$kind-peft-made.yaml" --weights "$WORK/$kind-peft" --json
	before=$(figure "$WORK/weir.out" loss)
	train "$kind-peft-made" "$WORK/$kind-peft-made.yaml"
	after=$(figure "$WORK/$kind-peft-made.json" valid.loss)
	echo "$kind: adapters of PEFT begin with a loss of $before, after a pass it is $after"
	true_that "$after < $before" || { echo "$kind: adapters of PEFT learn nothing" && learns=0; }
done
"$PYTHON" tests/parity/check_export.py check "$WORK/plan" > "$WORK/check.log" 2> "$WORK/check.err" || say "$(tail -n 5 "$WORK/check.err")"
cat "$WORK/check.log"
held=$(grep -oE '^[0-9]+ of [0-9]+' "$WORK/check.log" | tail -n 1)
[ "$QUICK" = 0 ] || say "QUICK: trained on $BYTES bytes of text"
verdict "${held%% *}+0 == ${held##* } > 0 and ${learns:-1} == 1" "$held comparisons: logits in transformers and PEFT within 1e-4 of weir's, merged adapters within 1e-5, weights and tokens the same"

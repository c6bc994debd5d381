# A language model is resumed or evaluated only with the same heads, positions, norms, adapters and
# base. Others are refused by name.
. "$(dirname "$0")/../integration/lib.sh"
awk 'BEGIN { for (i = 0; i < 60; i++) printf "The %dth of many short lines, %d words long.\n", i, i % 7 }' > "$DIR/text.txt"
cat > "$DIR/job.yaml" <<-JOB
	job: words
	run_dir: $RUN
	cluster: {log: disk}
	data: {format: tokens, tokenizer: bytes, sequence: 32, train: $DIR/text.txt, valid: $DIR/text.txt, batch: 8, unit_batches: 2}
	model: {kind: llama, layers: 1, width: 16, heads: 4, positions: 64}
	train: {passes: 1000, threads: 1, pace: {batch_ms: 5}}
JOB
refused() { # KEY VERB WORDS...
	local key=$1
	shift
	"$WEIR" "$@" > "$DIR/refused.err" 2>&1 && fail "taken: $*"
	told "$key was '" "' and is '" "--accept" "$DIR/refused.err"
}
begin() { # SETS...
	rm -rf "$RUN"
	start_train "$@"
	wait_for 30 "a pass" status '.pass >= 2'
	stop_train 30
	[ -e "$RUN/best.safetensors" ] || fail "no weights after $PASSES passes"
}
resumed() { refused "$1" train --resume "$DIR/job.yaml" "${@:2}"; }
evaluated() { refused "$1" eval "$DIR/job.yaml" --weights "$RUN/best.safetensors" "${@:2}"; }

begin
for pair in heads=8 rope_theta=500 norm_eps=0.01 tied_head=false; do
	resumed "model.${pair%=*}" --set "model.$pair"
	evaluated "model.${pair%=*}" --set "model.$pair"
done
resumed model.positions --set model.positions=128
resumed data.sequence --set data.sequence=16
"$WEIR" eval "$DIR/job.yaml" --weights "$RUN/best.safetensors" --set model.positions=128 --set data.sequence=128 > "$DIR/eval.out" 2> "$DIR/eval.err" ||
	fail "longer sequences are refused"
for base in a b; do # two bases of one shape: as trained, and from another seed
	"$WEIR" train "$DIR/job.yaml" --set "run_dir=$DIR/base-$base" --set train.passes=1 --set train.pace.batch_ms=0 \
		--set "train.seed=$([ $base = a ] && echo 1 || echo 2)" > "$DIR/base.err" 2>&1 || fail "weir train of base $base"
	"$WEIR" export "$DIR/job.yaml" --set "run_dir=$DIR/base-$base" --set "train.seed=$([ $base = a ] && echo 1 || echo 2)" \
		--format hf --out "$DIR/$base" > "$DIR/base.err" 2>&1 || fail "weir export of base $base"
done
"$WEIR" train "$DIR/job.yaml" --set "run_dir=$DIR/base-c" --set model.heads=8 --set train.passes=1 --set train.pace.batch_ms=0 > "$DIR/base.err" 2>&1 || fail "weir train of base c"
"$WEIR" export "$DIR/job.yaml" --set "run_dir=$DIR/base-c" --set model.heads=8 --format hf --out "$DIR/c" > "$DIR/base.err" 2>&1 || fail "weir export of base c"
"$WEIR" eval "$DIR/job.yaml" --weights "$DIR/b" > "$DIR/eval.out" 2> "$DIR/eval.err" || fail "an exported folder: $(cat "$DIR/eval.err")"
refused model.rope_theta eval "$DIR/job.yaml" --weights "$DIR/b" --set model.rope_theta=500
sed -i "s|^model:.*|model: {kind: llama, from: $DIR/a, lora: {rank: 2, targets: [q_proj, v_proj]}}|" "$DIR/job.yaml"
begin
"$WEIR" merge --method linear "$DIR/a" "$DIR/c" --out "$DIR/merged" --type F32 > "$DIR/refused.err" 2>&1 && fail "other heads are merged"
told "num_attention_heads is 8" "one's 4" "$DIR/refused.err"
resumed model.lora.alpha --set model.lora.alpha=64
resumed model.from --set "model.from=$DIR/b"
evaluated model.lora.alpha --set model.lora.alpha=64
evaluated model.from --set "model.from=$DIR/b"
mv "$DIR/a" "$DIR/elsewhere"
"$WEIR" eval "$DIR/job.yaml" --weights "$RUN/best.safetensors" --set "model.from=$DIR/elsewhere" > "$DIR/eval.out" 2> "$DIR/eval.err" ||
	fail "the same base in another place is refused"
nothing_left

# Bad input: model folders (weights, indices and config.json that are damaged, hostile or of another
# model), tokenizers, texts, JSONL, token files, and sequences and adapters that do not fit.
# tests/parity/hostile_models.py generates them, each with its expected message. weir train,
# tokenize, import and eval refuse each with status 1 and a sentence that names it, without a crash
# or a started server, also with AddressSanitizer and UBSan. An earlier run in the same folder, and
# a running job, lose nothing. Then the readers of such files are fuzzed.
. tests/claims/lib/common.sh
need_programs
need_built asan "$BUILD/asan" weir weir-server weir-worker test_safetensors test_model_folder test_tokenizer_tokenizer test_data_token_file
minutes=$(pick 2 20) every=$(pick 6 1)
[ "$QUICK" = 1 ] && echo "QUICK: with sanitizers each sixth case, and $minutes minutes of fuzzing instead of 20"
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:exitcode=99 UBSAN_OPTIONS=halt_on_error=1:exitcode=99
H=$WORK/hostile
python3 tests/parity/hostile_models.py "$H" || give_up "the cases cannot be made"
cat > "$WORK/job.yaml" <<-JOB
	job: earlier
	run_dir: $WORK/run
	cluster: {servers: 1, workers: 1, partitions: 4}
	data: {format: tokens, tokenizer: $H/good, sequence: 8, train: $H/text-good/data.txt, valid: $H/text-good/data.txt, cache: $WORK/cache, batch: 4, unit_batches: 4}
	model: {kind: gpt2, from: $H/good}
	tables: {dense: {optimizer: {kind: adamw, lr: 1.0e-3}}}
	train: {passes: 1, threads: 1}
JOB
"$BUILD/weir" train "$WORK/job.yaml" > "$WORK/good.out" 2>&1 || { cat "$WORK/good.out" >&2; give_up "the job does not train as it should be"; }
state() { find "$WORK/run" -type f ! -name LOCK ! -name '*.lock' -exec sha256sum {} + | sort -k 2; }
state > "$WORK/before"

checked=0 wrong=0
# refused NAME WORD... -- COMMAND...: exits 1, and its last line has the words.
refused() {
	local name=$1 words=() word last rc
	shift
	while [ "$1" != -- ]; do words+=("$1"); shift; done
	shift
	timeout 300 "$@" > "$WORK/out" 2> "$WORK/err" < /dev/null && rc=0 || rc=$?
	last=$(tail -n 1 "$WORK/err")
	checked=$((checked + 1))
	for word in "${words[@]}"; do
		case $last in *"$word"*) ;; *) rc="$rc, and '$word' is not said" ;; esac
	done
	if grep -q 'AddressSanitizer\|runtime error:' "$WORK/err"; then rc="$rc, and a sanitizer speaks"; fi
	[ "$rc" = 1 ] && return
	wrong=$((wrong + 1))
	echo "WRONG: $name: status $rc: ${last//$WORK/}"
}
# Each as $B has it.
train_with() { refused "$B, $1" "${@:2}" -- "$BUILD/$B/weir" train "$WORK/job.yaml" --fresh "${settings[@]}"; }
folder_case() { # folder_case NAME WORD...: all weights, and adapters of frozen ones
	local kind=gpt2 target=c_attn
	case $1 in llama-*) kind=llama target=q_proj ;; esac
	local settings=(--set "model.from=$H/$1" --set "model.kind=$kind")
	train_with "$@"
	settings+=(--set "model.lora={rank: 2, targets: [$target]}")
	train_with "$1 with adapters" "${@:2}"
}
tokenizer_case() {
	local settings=(--set "data.tokenizer=$H/$1" --set "data.cache=$WORK/other-cache")
	train_with "$@"
	refused "$B, $1, weir tokenize" "${@:2}" -- "$BUILD/$B/weir" tokenize --tokenizer "$H/$1" --in "$H/text-good/data.txt" --out "$WORK/none.bin"
}
data_cases() {
	local text settings weir=$BUILD/$B/weir
	for text in no-utf8 cut-utf8; do
		refused "$B, $text, weir tokenize" "$text/data.txt: invalid UTF-8 at byte" "--invalid" -- "$weir" tokenize --tokenizer "$H/good" --in "$H/text-$text/data.txt" --out "$WORK/none.bin"
		settings=(--set "data.train=$H/text-$text/data.txt")
		train_with "$text" "$text/data.txt: invalid UTF-8 at byte" data.invalid_utf8
	done
	settings=(--set "data.train=$H/text-empty/data.txt")
	train_with empty "there is no text in" text-empty/data.txt
	settings=(--set "data.train=$H/text-short/data.txt")
	train_with short "no two tokens that follow one another"
	refused "$B, lines" "more than 2 bad lines" "data.jsonl:41" "invalid UTF-8" -- "$weir" tokenize --tokenizer "$H/good" --in "$H/text-lines/data.jsonl" --out "$WORK/none.bin" --bad-lines-max 2
	settings=(--set "data.train=$H/text-lines/data.jsonl" --set data.bad_lines_max=2)
	train_with lines "data.jsonl:41"
	settings=(--set data.sequence=17)
	train_with "a long sequence" "data.sequence is 17" "positions for 16"
	settings=(--set data.sequence=4000000000)
	train_with "a very long sequence" data.sequence "1 to 1048576"
	settings=(--set "model.lora={rank: 2, targets: [q_proj]}")
	train_with "adapters of what there is not" q_proj "this model has c_attn, c_fc, c_proj"
	settings=(--set "model.lora={rank: 2, targets: [nothing]}")
	train_with "adapters of nothing" "model.lora.targets: has nothing" "expected names"
	settings=(--set model.kind=llama)
	train_with "of another family" model.from "is of a gpt2"
	settings=(--set "data.train=$WORK/other.bin")
	train_with "tokens of another tokenizer" other.bin "of another tokenizer than" data.tokenizer
	settings=(--set "data.train=$WORK/other.bin" --set data.tokenizer=)
	train_with "tokens of another tokenizer than the model's" other.bin "of another tokenizer than" model.from
	for text in cut bad; do
		settings=(--set "data.train=$WORK/$text.bin")
		train_with "a token file that is $text" "$text.bin is damaged"
	done
	[ ! -e "$WORK/none.bin" ] && [ ! -e "$WORK/none.bin.tmp" ] || { wrong=$((wrong + 1)); echo "WRONG: what was refused has left a token file"; }
}
running_job() { "$BUILD/weir" status "$WORK/job.yaml" "${@:2}" --json 2> /dev/null | python3 -c 'import json, sys; sys.exit(not eval(sys.argv[1], json.load(sys.stdin)))' "$1" 2> /dev/null; }
# A running job does not import hostile weights, and an eval of it does not start.
running_cases() {
	local name words settings weir=$BUILD/$B/weir
	local slow=(--set job=running --set "run_dir=$WORK/running" --set train.passes=1000 --set train.pace.batch_ms=30)
	"$BUILD/weir" train "$WORK/job.yaml" --fresh "${slow[@]}" > "$WORK/running.out" 2>&1 &
	local job=$!
	wait_for 60 "the running job" running_job "rows > 0" "${slow[@]}"
	while IFS=$'\t' read -r -a words; do
		name=${words[0]}
		refused "$B, $name, weir import" "${words[@]:1}" -- "$weir" import "$WORK/job.yaml" "${slow[@]}" --in "$H/$name"
		refused "$B, $name, weir eval" "${words[@]:1}" -- "$weir" eval "$WORK/job.yaml" "${slow[@]}" --set "model.from=$H/$name" --set "model.lora={rank: 2, targets: [c_attn]}" \
			--accept model.from --accept model.lora.rank --accept model.lora.targets
	done < <(grep -E '^(weights-(truncated|missing|wrong-shape|not-finite|overlap)|index-(up|shard-missing)|config-(unknown|zero-n_head))'$'\t' "$H/cases.tsv")
	running_job 'state == "running" and not failure and duplicates_refused + stale_refused + batches_not_finite == 0' "${slow[@]}" || { wrong=$((wrong + 1)); echo "WRONG: the running job is not as it was"; }
	kill -TERM $job
	wait $job || true
}

"$BUILD/weir" tokenize --tokenizer "$H/text-other" --in "$H/text-good/data.txt" --out "$WORK/other.bin" > /dev/null || give_up "weir tokenize"
"$BUILD/weir" tokenize --tokenizer "$H/good" --in "$H/text-good/data.txt" --out "$WORK/good.bin" > /dev/null || give_up "weir tokenize"
head -c 3000 "$WORK/good.bin" > "$WORK/cut.bin"
{ head -c 1000 "$WORK/good.bin"; printf '\377\377\377\377'; tail -c +1005 "$WORK/good.bin"; } > "$WORK/bad.bin"
for B in . asan; do
	before=$checked n=0
	while IFS=$'\t' read -r -a words; do
		n=$((n + 1))
		[ $B = . ] || [ $((n % every)) = 0 ] || continue
		case ${words[0]} in
		tokenizer-*) tokenizer_case "${words[@]}" ;;
		*) folder_case "${words[@]}" ;;
		esac
	done < "$H/cases.tsv"
	data_cases
	running_cases
	echo "$([ $B = . ] && echo "as released" || echo "with sanitizers"): $((checked - before)) refusals"
done
state > "$WORK/after"
cmp -s "$WORK/before" "$WORK/after" && kept=1 || kept=0
echo "the earlier run's folder: $(wc -l < "$WORK/before") files, $([ $kept = 1 ] && echo "as they were" || echo "CHANGED")"
tests=0
for test in test_safetensors test_model_folder test_tokenizer_tokenizer test_data_token_file; do
	"$BUILD/asan/tests/$test" > "$WORK/log" 2>&1 || { tests=$((tests + 1)); cat "$WORK/log"; }
done
fuzzed=0
FUZZ_TARGETS="safetensors model_folder tokenizer token_file" JOBS=$(nproc) SOAK_MINUTES=$(((minutes + $(nproc) - 1) / $(nproc))) scripts/soak.sh fuzz || fuzzed=1
verdict "$wrong == 0 and $kept == 1 and $tests == 0 and $fuzzed == 0" "$checked refusals of bad input, $wrong not as they should be; an earlier run is kept; four targets fuzzed without a crash"

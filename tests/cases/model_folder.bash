# Shared by the cases of model folders; source it after lib.sh. The expected losses were computed
# once by transformers 5.24 and PEFT 0.21 (fp32, CPU) from the folders that model_folder.py makes,
# over the same text in sequences of 32.
make() { (cd "$DIR" && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$CASES python3 -c "from model_folder import *; $1") || fail "cannot make $1"; }
CASES=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
make 'text("small.txt")'

# write_job KIND FOLDER
write_model_job() {
	cat > "$DIR/job.yaml" <<-JOB
		job: lm
		run_dir: $RUN
		data: {format: tokens, tokenizer: bytes, sequence: 32, train: $DIR/small.txt, valid: $DIR/small.txt, test: $DIR/small.txt, batch: 16}
		model: {kind: $1, from: $DIR/$2}
	JOB
}

# loss_is LOSS ARGUMENTS...: the loss of `weir eval`.
loss_is() {
	"$WEIR" eval "$DIR/job.yaml" --json "${@:2}" > "$DIR/eval.json" 2> "$DIR/eval.err" || fail "weir eval ${*:2}: $(cat "$DIR/eval.err")"
	holds "$DIR/eval.json" "(.loss - $1 | fabs) < 1e-5"
	echo "eval ${*:2}: $(json "$DIR/eval.json" .loss), expected $1"
}

# refused WORDS... -- VERB ARGUMENTS...: it fails, and its message has all the words.
refused() {
	local words=()
	while [ "$1" != -- ]; do words+=("$1") && shift; done
	"$WEIR" "${@:2}" > "$DIR/out" 2> "$DIR/use.err" && fail "weir ${*:2} was taken: $(cat "$DIR/out")"
	told "${words[@]}" "$DIR/use.err"
}

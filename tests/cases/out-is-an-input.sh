# A command refuses an output that is one of its inputs, under any name: data, job files and weights
# stay unchanged.
. "$(dirname "$0")/../integration/lib.sh"
rows() { awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) printf "%d %d:1 %d:1\n", i % 3 == 0, 1 + i % 7, 20 + i % 5 }'; }
rows 200 > "$DIR/train.svm"
rows 60 > "$DIR/valid.svm"
cat > "$DIR/job.yaml" <<-JOB
	job: spared
	run_dir: $RUN
	data: {format: libsvm, train: '$DIR/tr*.svm', valid: $DIR/valid.svm, batch: 16}
	model: {kind: fm, dim: 4}
JOB
"$WEIR" train "$DIR/job.yaml" > "$DIR/out" 2> "$DIR/train.err" || fail "weir train"
ln "$DIR/train.svm" "$DIR/same"
ln -s job.yaml "$DIR/link"
mkdir "$DIR/kept"
cp "$DIR/train.svm" "$DIR/valid.svm" "$DIR/job.yaml" "$RUN/best.safetensors" "$RUN/run.json" "$RUN/fingerprint.json" "$RUN/evaluation.json" "$DIR/kept"
refused() { # WHAT COMMAND...
	local what=$1 f
	shift
	"$@" > "$DIR/out" 2> "$DIR/refused.err" && fail "taken: $*"
	told "$what" "another name" "$DIR/refused.err"
	for f in "$DIR/train.svm" "$DIR/valid.svm" "$DIR/job.yaml" "$RUN/best.safetensors" "$RUN/run.json" "$RUN/fingerprint.json" "$RUN/evaluation.json"; do
		cmp -s "$f" "$DIR/kept/$(basename "$f")" || fail "$f has changed: $*"
	done
}
cd "$DIR" || fail "cd"
for verb in predict export; do
	refused "of data.train" "$WEIR" "$verb" job.yaml --out "$DIR/./train.svm"
	refused "of data.train" "$WEIR" "$verb" job.yaml --out same
	refused "of data.valid" "$WEIR" "$verb" job.yaml --out valid.svm
	refused "the job file" "$WEIR" "$verb" job.yaml --out link
	refused "the run's best.safetensors" "$WEIR" "$verb" job.yaml --out "$RUN/best.safetensors"
	refused "what --weights names" "$WEIR" "$verb" job.yaml --weights kept/best.safetensors --out kept/best.safetensors
done
for kept in train.svm job.yaml run.json; do
	refused "--report: " "$WEIR" train job.yaml --report "$([ -e "$kept" ] && echo "$kept" || echo "$RUN/$kept")"
	refused "--report: " "$WEIR" train job.yaml --dry-run --report "$([ -e "$kept" ] && echo "$kept" || echo "$RUN/$kept")"
done
refused "a file to tokenize" "$WEIR" tokenize --tokenizer bytes --in train.svm --out same
refused "one of the models" "$WEIR" merge --method linear "$RUN/best.safetensors" kept/best.safetensors --out kept/best.safetensors
refused "what --base names" "$WEIR" merge --method task "$RUN/best.safetensors" --base kept/best.safetensors --out kept/best.safetensors
"$WEIR" predict job.yaml --set data.test=train.svm --out scores.txt > out 2> predict.err || fail "weir predict to a new file"
"$WEIR" predict job.yaml --set data.test=train.svm --out scores.txt > out 2> predict.err || fail "weir predict again"
"$WEIR" predict job.yaml --set data.test=train.svm --out - 2> predict.err | cmp -s - scores.txt || fail "weir predict to stdout"
"$WEIR" train job.yaml --report "$RUN/report.json" > out 2> train.err || fail "weir train with its own report's name"
nothing_left

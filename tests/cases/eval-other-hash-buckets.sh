# A job whose ids have another meaning refuses weights: every verb that takes weights names the key
# and both values.
. "$(dirname "$0")/../integration/lib.sh"
rows() { awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) printf "%d %d:1 %d:1\n", i % 3 == 0, 1 + i % 9, 20 + i % 4 }'; }
rows 300 > "$DIR/train.svm"
rows 90 > "$DIR/test.svm"
cat > "$DIR/job.yaml" <<-JOB
	job: ids
	run_dir: $RUN
	data: {format: libsvm, train: $DIR/train.svm, test: $DIR/test.svm, batch: 16, fields: 2}
	model: {kind: lr}
	train: {passes: 2}
JOB
start_train
finish_train 30
[ $STATUS = 0 ] || fail "weir train"
refused() { # KEY WAS IS VERB WORDS...
	local key=$1 was=$2 is=$3
	shift 3
	"$WEIR" "$@" > "$DIR/refused.err" 2>&1 && fail "taken: $*"
	told "$key was '$was'" "is '$is'" "--accept" "$DIR/refused.err"
}
other=(data.hash_buckets 0 1000)
refused "${other[@]}" eval "$DIR/job.yaml" --set data.hash_buckets=1000
refused "${other[@]}" predict "$DIR/job.yaml" --out "$DIR/scores" --set data.hash_buckets=1000
refused "${other[@]}" export "$DIR/job.yaml" --out "$DIR/out" --set data.hash_buckets=1000
refused "${other[@]}" train "$DIR/job.yaml" --set "run_dir=$DIR/second" --set data.hash_buckets=1000 --set "train.warm_start=$RUN/best.safetensors"
refused train.seed 1 9 eval "$DIR/job.yaml" --set train.seed=9
refused model.kind lr fm eval "$DIR/job.yaml" --set model.kind=fm
"$WEIR" eval "$DIR/job.yaml" --json > "$DIR/eval.json" || fail "weir eval of the same job"
"$WEIR" eval "$DIR/job.yaml" --json --set train.passes=9 --set data.batch=8 --set "data.test=$DIR/train.svm" > "$DIR/eval.json" ||
	fail "weir eval on other data"
"$WEIR" eval "$DIR/job.yaml" --json --set data.hash_buckets=1000 --accept data.hash_buckets > "$DIR/eval.json" 2> "$DIR/eval.err" ||
	fail "--accept is not taken"
holds "$DIR/eval.json" '.accepted == [{"key": "data.hash_buckets", "was": "0", "is": "1000"}]'
nothing_left

# Resuming a run with other data or another model is refused. The keys and both values are named,
# and nothing is lost.
. "$(dirname "$0")/../integration/lib.sh"
rows() { awk -v n="$1" -v flip="$2" 'BEGIN { for (i = 1; i <= n; i++) { y = i % 3 == 0; printf "%d %d:1 %d:1\n", flip ? !y : y, 1 + i % 7, 20 + i % 5 } }'; }
mkdir "$DIR/other" "$DIR/moved"
rows 400 0 > "$DIR/train.svm"
rows 400 1 > "$DIR/other/train.svm"
rows 120 0 > "$DIR/valid.svm"
cp "$DIR/train.svm" "$DIR/moved"
cat > "$DIR/job.yaml" <<-JOB
	job: again
	run_dir: $RUN
	cluster: {log: disk}
	data: {format: libsvm, train: $DIR/train.svm, valid: $DIR/valid.svm, batch: 16, unit_batches: 4, fields: 2}
	model: {kind: deepfm, hidden: [8], dim: 4}
	train: {passes: 1000, pace: {batch_ms: 5}}
JOB
start_train
wait_for 20 "a pass" status '.pass >= 2'
stop_train 20
refused() { # KEY WAS IS SETS...
	local key=$1 was=$2 is=$3
	shift 3
	"$WEIR" train --resume "$DIR/job.yaml" --set "train.passes=$PASSES" "$@" > "$DIR/refused.err" 2>&1 && fail "resumed with $*"
	told "$key was '$was" "is '$is" "--accept" "$DIR/refused.err"
}
size=$(stat -c %s "$DIR/train.svm")
refused data.train "train.svm ($size bytes" "train.svm ($size bytes" --set "data.train=$DIR/other/train.svm"
refused model.kind deepfm wide_deep --set model.kind=wide_deep
refused data.hash_buckets 0 1000 --set data.hash_buckets=1000
refused data.cache auto off --set data.cache=off
refused data.seed 1 2 --set data.seed=2
refused train.clip_norm 0 0.5 --set train.clip_norm=0.5
"$WEIR" train --resume "$DIR/job.yaml" --set data.batch=8 --accept data.batch > "$DIR/refused.err" 2>&1 && fail "resumed with other units"
told "13 work units" "into 7" "$DIR/refused.err" # and the run is unchanged
rm "$RUN/cache"/* # what is cached of the data does not count
"$WEIR" train --resume "$DIR/job.yaml" --set "train.passes=$PASSES" --set train.pace.batch_ms=0 --set cluster.workers=2 \
	--set "data.train=$DIR/moved/train.svm" --report "$DIR/report.json" > "$DIR/resume.err" 2>&1 || fail "the same job in another place is not resumed"
audited
holds "$DIR/report.json" '.accepted == null'
"$WEIR" train --resume "$DIR/job.yaml" --set "train.passes=$((PASSES + 1))" --set train.pace.batch_ms=0 --set data.seed=2 --accept data.seed \
	--report "$DIR/report.json" > "$DIR/accept.err" 2>&1 || fail "--accept is not taken"
audited
holds "$DIR/report.json" '.accepted == [{"key": "data.seed", "was": "1", "is": "2"}]'
nothing_left

# Mistakes in the data are reported before the earlier run is touched. A new run keeps the results
# of the newest `keep_runs` earlier ones.
. "$(dirname "$0")/lib.sh"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {servers: 2, workers: 2, partitions: 8, log: disk}
	data: {format: libsvm, train: $DIR/train.svm, valid: $DIR/valid.svm, fields: 2, batch: 64, unit_batches: 8, seed: 5}
	model: {kind: lr}
	tables: {embedding: {optimizer: {kind: adam, lr: 0.05}}, dense: {optimizer: {kind: adam, lr: 0.05}}}
	train: {passes: 1, seed: 7, threads: 1}
JOB
rows() { python3 -c 'import random; random.seed(int("'"$1"'"))
for _ in range(2000): a = random.randrange(20); print(int(random.random() < a / 20), f"{a}:1 {100 + random.randrange(9)}:1")'; }
rows 1 > "$DIR/train.svm"
rows 2 > "$DIR/valid.svm"
train() { "$WEIR" train "$DIR/job.yaml" "$@" > "$DIR/out" 2> "$DIR/train.err" < /dev/null; }
train || fail "the first run"
before=$(files "$RUN")

echo "-- data that cannot be used"
cp "$DIR/train.svm" "$DIR/kept.svm"
for wrong in "" "no row at all" "$(printf '5 5\n%.0s' {1..2000})"; do
	printf '%s\n' "$wrong" | sed '/^$/d' > "$DIR/train.svm"
	train --fresh && fail "it trains on '${wrong:0:20}'"
	tail -n 1 "$DIR/train.err"
	[ "$(files "$RUN" | grep -v /cache/)" = "$(grep -v /cache/ <<< "$before")" ] || fail "the earlier run was touched"
done
cp "$DIR/kept.svm" "$DIR/train.svm"
train --fresh --set "data.valid=$DIR/nowhere.svm" && fail "it trains without its validation part"
told nowhere.svm "$DIR/train.err"
[ "$(files "$RUN" | grep -v /cache/)" = "$(grep -v /cache/ <<< "$before")" ] || fail "the earlier run was touched"
train && fail "it trains over the servers' data of the earlier run"
told "--resume" "--fresh" "$DIR/train.err"

echo "-- runs one after the other"
first=$(sha256sum < "$RUN/best.safetensors")
for run in 2 3 4; do
	train --fresh --set keep_runs=2 --set train.seed=$run || fail "run $run"
	grep -q "the results of the run before are in $RUN/earlier/$((run - 1)) now" "$DIR/train.err" || fail "it is not said where run $((run - 1)) is"
	[ $run != 2 ] || [ "$(sha256sum < "$RUN/earlier/1/best.safetensors")" = "$first" ] || fail "the first run's weights are not its own"
done
[ "$(ls "$RUN/earlier" | xargs)" = "2 3" ] || fail "kept: $(ls "$RUN/earlier" | xargs)"
for name in best.safetensors evaluation.json report.json run.json events server-0.log; do
	[ -e "$RUN/$name" ] && [ -e "$RUN/earlier/3/$name" ] || fail "$name is missing"
done
holds "$RUN/report.json" ".audit.ok"

# Killed during the move: the next run finishes it.
mkdir "$RUN/earlier/4.moving"
mv "$RUN/run.json" "$RUN/best.safetensors" "$RUN/earlier/4.moving"
train --resume && fail "a run that was half moved away is gone on with"
# Such a kill may leave a half-written file, too.
touch "$RUN/best.safetensors.tmp" "$RUN/server-1/IDENTITY.tmp"
train --fresh --set keep_runs=2 || fail "the run after one that was killed"
[ "$(ls "$RUN/earlier" | xargs)" = "3 4" ] || fail "kept: $(ls "$RUN/earlier" | xargs)"
for name in best.safetensors evaluation.json run.json events; do [ -e "$RUN/earlier/4/$name" ] || fail "the move was not finished: no $name"; done
nothing_left
echo "unusable data leave the earlier run as it is; of 5 runs the last is in place and 2 before it are kept"

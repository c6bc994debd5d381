# All participants of a job share the settings that determine results, whenever they join: workers,
# an evaluator, a reader of weights from the running job, a resume from the checkpoint. A work unit
# whose rows have changed stops the worker that reads it.
. "$(dirname "$0")/lib.sh"
rows() { awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) printf "%d %d:1 %d:1\n", i % 3 == 0, 1 + i % 9, 20 + i % 4 }'; }
rows 600 > "$DIR/train.svm"
rows 90 > "$DIR/valid.svm"
cat > "$DIR/job.yaml" <<-JOB
	job: same
	run_dir: $RUN
	cluster: {log: disk, workers: 1, lease_ms: 3001}
	data: {format: libsvm, train: $DIR/train.svm, valid: $DIR/valid.svm, batch: 16, unit_batches: 4, fields: 2}
	model: {kind: fm, dim: 4}
	train: {passes: 1000, threads: 1, pace: {batch_ms: 10}}
JOB
refused() { # KEY WAS IS COMMAND...
	local key=$1 was=$2 is=$3
	shift 3
	"$@" > "$DIR/refused.err" 2>&1 && fail "taken: $*"
	told "$key was '$was" "is '$is" "$DIR/refused.err"
}

# --- During the run
start_train
wait_for 20 "a pass" status '.pass >= 2'
ledger=$(cat "$RUN/ledger.address")
joins() { timeout 60 "$BUILD/weir-worker" --job "$DIR/job.yaml" --ledger "$ledger" "$@"; }
refused train.clip_norm 0 0.5 joins --name other --set train.clip_norm=0.5
refused data.seed 1 2 joins --name other --set data.seed=2
refused data.shuffle true false joins --name other --set data.shuffle=false
refused data.hash_buckets 0 100 joins --name other --set data.hash_buckets=100
refused train.seed 1 2 joins --name other --role evaluator --set train.seed=2
cp "$DIR/train.svm" "$DIR/valid2.svm"
refused data.valid "valid.svm (" "valid2.svm (" joins --name other --role evaluator --set "data.valid=$DIR/valid2.svm"
refused model.dim 4 8 "$WEIR" eval "$DIR/job.yaml" --set model.dim=8
refused data.hash_buckets 0 100 "$WEIR" export "$DIR/job.yaml" --out "$DIR/out" --set data.hash_buckets=100
"$WEIR" eval "$DIR/job.yaml" --set train.clip_norm=0.5 > "$DIR/eval.out" 2> "$DIR/eval.err" || fail "weir eval of the running job"
"$WEIR" export "$DIR/job.yaml" --out "$DIR/running.safetensors" > "$DIR/out" 2> "$DIR/export.err" || fail "weir export of the running job"
"$WEIR" checkpoint "$DIR/job.yaml" > "$DIR/out" 2> "$DIR/checkpoint.err" || fail "weir checkpoint"
refused data.hash_buckets 0 100 "$WEIR" eval "$DIR/job.yaml" --weights "$DIR/running.safetensors" --set data.hash_buckets=100
stop_train 20
holds "$RUN/checkpoints"/ck-*.json '.body.fingerprint | contains("data.seed=1\n")'

# --- A file that changes during a job: the same number of bytes, other ids
change() { sed 's/ 2:1/ 3:1/' "$DIR/kept.svm" > "$DIR/changed.svm" && mv "$DIR/changed.svm" "$DIR/train.svm"; }
cp "$DIR/train.svm" "$DIR/kept.svm"
start_train --resume
wait_for 20 "it to go on" status ".pass >= $PASSES"
change
kill -KILL "$(pid_of worker-0)" # a new worker takes its place and reads the file again
finish_train 60
[ $STATUS = 1 ] || fail "exit status $STATUS of a job whose file has changed"
grep -q "data.train was 'train.svm (" "$RUN/worker-0.log" || fail "the worker does not name the file: $(tail -n 3 "$RUN/worker-0.log")"
cp "$DIR/kept.svm" "$DIR/train.svm"
# Reads units from the file each time.
start_train --set "run_dir=$DIR/uncached" --set data.cache=off
seen() { "$WEIR" status "$DIR/job.yaml" --set "run_dir=$DIR/uncached" --json > "$DIR/seen.json" 2> /dev/null && jq -e '.pass >= 3' "$DIR/seen.json" > /dev/null; }
wait_for 20 "a second pass" seen
change
finish_train 60
[ $STATUS = 1 ] || fail "exit status $STATUS of a job whose rows have changed"
grep -qE "(bytes .*|the lines from byte .* on) of train.svm: unit .* has other examples" "$DIR/uncached/worker-0.log" || fail "the worker does not name file and rows: $(tail -n 3 "$DIR/uncached/worker-0.log")"
cp "$DIR/kept.svm" "$DIR/train.svm"

# --- From the checkpoint
refused train.clip_norm 0 0.5 "$WEIR" restore "$DIR/job.yaml" --from latest --set train.clip_norm=0.5
"$WEIR" restore "$DIR/job.yaml" --from latest --set tables.dense.optimizer.lr=0.5 --accept tables.dense.optimizer.lr > "$DIR/out" 2> "$DIR/restore.err" &&
	fail "weir restore takes another rate, which the checkpoint's table does not"
"$WEIR" restore "$DIR/job.yaml" --from latest --set train.clip_norm=0.25 --accept train.clip_norm > "$DIR/out" 2> "$DIR/restore.err" ||
	fail "weir restore of what is accepted"
"$WEIR" train --resume "$DIR/job.yaml" --set train.clip_norm=0.25 --set train.passes=1 > "$DIR/out" 2> "$DIR/again.err" ||
	fail "what restore accepted is refused: $(tail -n 1 "$DIR/again.err")"
# Another batch makes the schedule longer, which a table cannot take: the resume says so before any
# worker starts, however the difference was accepted.
cosine=(--set "run_dir=$DIR/cosine" --set 'tables.dense.optimizer.schedule={kind: cosine}' --set train.pace.batch_ms=0 --set train.passes=2)
fast() { "$WEIR" "$1" "$DIR/job.yaml" "${cosine[@]}" --set checkpoint.every_steps=20 "${@:2}" > "$DIR/out" 2> "$DIR/cosine.err"; }
fast train || fail "a run with a schedule"
for accepts in restore train; do
	rm -f "$DIR/cosine/worker-0.log"
	[ $accepts = restore ] && accept=(--set data.batch=15 --accept data.batch) || accept=()
	fast restore --from latest "${accept[@]}" || fail "weir restore: $(tail -n 1 "$DIR/cosine.err")"
	[ $accepts = restore ] && accept=() || accept=(--accept data.batch)
	fast train --resume --set data.batch=15 "${accept[@]}" && fail "a longer schedule is taken, accepted by $accepts"
	told --resume "schedule.total" "set it back" "$DIR/cosine.err"
	[ ! -e "$DIR/cosine/worker-0.log" ] || fail "a worker was started"
done
"$WEIR" restore "$DIR/job.yaml" --from latest > "$DIR/out" 2> "$DIR/restore.err" || fail "weir restore"
refused data.unit_batches 4 8 "$WEIR" train --resume "$DIR/job.yaml" --set data.unit_batches=8
refused data.hash_buckets 0 100 "$WEIR" train "$DIR/job.yaml" --set "run_dir=$DIR/second" --set data.hash_buckets=100 --set "train.warm_start=$RUN/checkpoints"
"$WEIR" train --resume "$DIR/job.yaml" --set train.pace.batch_ms=0 --set "train.passes=$PASSES" --set train.clip_norm=0.5 --accept train.clip_norm \
	--report "$DIR/report.json" > "$DIR/out" 2> "$DIR/accept.err" || fail "--accept is not taken"
audited
holds "$DIR/report.json" '.accepted == [{"key": "train.clip_norm", "was": "0", "is": "0.5"}]'

# --- Merged
"$WEIR" train "$DIR/job.yaml" --set "run_dir=$DIR/hashed" --set data.hash_buckets=100 --set train.passes=1 --set train.pace.batch_ms=0 > "$DIR/out" 2> "$DIR/hashed.err" ||
	fail "weir train of other ids"
refused data.hash_buckets 0 100 "$WEIR" merge --method linear "$DIR/running.safetensors" "$DIR/hashed/best.safetensors" --out "$DIR/merged.safetensors"
python3 - "$DIR/running.safetensors" "$DIR/unsaid.safetensors" <<-'STRIP'
	import json, struct, sys
	b = open(sys.argv[1], "rb").read()
	n = struct.unpack("<Q", b[:8])[0]
	h = json.loads(b[8:8 + n])
	assert h["__metadata__"].pop("weir.fingerprint")
	s = json.dumps(h).encode()
	s += b" " * (-len(s) % 8)
	open(sys.argv[2], "wb").write(struct.pack("<Q", len(s)) + s + b[8 + n:])
STRIP
for order in "running unsaid" "unsaid running"; do
	set -- $order
	"$WEIR" merge --method linear "$DIR/$1.safetensors" "$DIR/$2.safetensors" --out "$DIR/merged.safetensors" > "$DIR/out" 2> "$DIR/merge.err" || fail "weir merge of $order"
	told "unsaid.safetensors carries no fingerprint" "running.safetensors is not known" "$DIR/merge.err"
done

# --- Files of an earlier release
rm "$RUN/fingerprint.json"
"$WEIR" train --resume "$DIR/job.yaml" --set train.clip_norm=0.5 --set "train.passes=$PASSES" > "$DIR/out" 2> "$DIR/old.err" || fail "a run without a fingerprint"
grep -q "has no fingerprint" "$DIR/old.err" || fail "no warning: $(cat "$DIR/old.err")"
nothing_left

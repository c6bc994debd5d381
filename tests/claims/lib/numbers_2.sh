# Every key of the schema with its class. For each key that determines results: in one process, a
# job with another value is refused with the key's name and both values (test_fingerprint_keys).
# With real processes, a run resumed with another value is refused the same way and keeps all it
# had. Then one of each verb: resumed, joined, restored, evaluated, imported. QUICK=1: real
# processes for every third key.
. tests/claims/lib/common.sh
need_programs
need_tests test_fingerprint_keys
step=$(pick 3 1)
"$BUILD/tests/test_fingerprint_keys" > "$WORK/keys.out" 2>&1 || { tail -n 20 "$WORK/keys.out" >&2 && verdict 0 "a key is not refused, or refused without need"; }
"$BUILD/tests/test_fingerprint_keys" --table | tee "$WORK/table"
awk 'BEGIN { for (i = 1; i <= 400; i++) printf "%d %d:1 %d:1\n", i % 3 == 0, 1 + i % 9, 20 + i % 4 }' > "$WORK/train.svm"
cat > "$WORK/job.yaml" <<-JOB
	job: keys
	run_dir: $WORK/run
	cluster: {log: disk, workers: 1}
	data: {format: libsvm, train: $WORK/train.svm, valid: $WORK/train.svm, batch: 16, unit_batches: 4, fields: 2}
	model: {kind: deepfm, dim: 4, hidden: [8]}
	train: {passes: 1000, threads: 1, pace: {batch_ms: 10}}
JOB
"$BUILD/weir" train "$WORK/job.yaml" > /dev/null 2> "$WORK/train.err" &
TRAIN=$!
trap 'kill -KILL $TRAIN 2> /dev/null; rm -rf "$WORK"' EXIT
wait_for 60 "the first pass" test -e "$WORK/run/best.safetensors"
kill -TERM $TRAIN
wait $TRAIN
trap 'rm -rf "$WORK"' EXIT
before=$(cd "$WORK/run" && sha256sum best.safetensors evaluation.json fingerprint.json run.json)
tried=0 refused=0 unfit=0 n=0
"$BUILD/tests/test_fingerprint_keys" --others "$WORK/job.yaml" > "$WORK/others"
while read -r set; do
	[ $((++n % step)) = 0 ] || continue
	if timeout -s TERM 20 "$BUILD/weir" train --resume "$WORK/job.yaml" --set "$set" > "$WORK/out" 2>&1 < /dev/null; then
		tried=$((tried + 1)) && say "NOT REFUSED: $set"
	elif tail -n 1 "$WORK/out" | grep -q -- "--resume: .* ${set%%=*} was '.*' and is '"; then
		refused=$((refused + 1)) tried=$((tried + 1))
	elif tail -n 1 "$WORK/out" | grep -q "data\.\|NVIDIA"; then
		unfit=$((unfit + 1)) && say "not here: $set: $(tail -n 1 "$WORK/out")"
	else
		tried=$((tried + 1)) && say "NOT REFUSED: $set: $(tail -n 1 "$WORK/out")"
	fi
done < "$WORK/others"
after=$(cd "$WORK/run" && sha256sum best.safetensors evaluation.json fingerprint.json run.json)
verbs=0 failed=0
for script in tests/integration/fingerprint.sh tests/cases/resume-other-data-or-model.sh tests/cases/resume-other-llm.sh tests/cases/eval-other-hash-buckets.sh; do
	verbs=$((verbs + 1))
	timeout 300 bash "$script" "$BUILD" > "$WORK/out" 2>&1 < /dev/null || { failed=$((failed + 1)) && tail -n 20 "$WORK/out" >&2; }
	grep '^refused' "$WORK/out"
done
verdict "$tried > $(pick 20 60) and $refused == $tried and $failed == 0 and '$([ "$before" = "$after" ] && echo same)' == 'same'" \
	"$(grep -c . "$WORK/table") keys, $(grep -vc ' operation ' "$WORK/table") determine results; resumed with another value of $tried: $refused refused by name ($unfit more do not fit these data or this machine); $verbs scripts of verbs, $failed failed$(pick " (QUICK: every third key)" "")"

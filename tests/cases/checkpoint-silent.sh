# A malformed checkpoint.endpoint is refused with line and key. A failed checkpoint shows in train,
# status, metrics, the report and the exit status.
. "$(dirname "$0")/../integration/lib.sh"
export AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b
rows() { awk -v seed="$1" 'BEGIN { srand(seed); for (i = 0; i < 400; i++) print (rand() < 0.5 ? 1 : -1), int(rand() * 5) + 1 ":1", int(rand() * 3) + 10 ":1" }'; }
rows 1 > "$DIR/train.svm"
rows 2 > "$DIR/valid.svm"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	data: {format: libsvm, train: $DIR/train.svm, valid: $DIR/valid.svm, fields: 2, batch: 8, unit_batches: 4}
	model: {kind: lr}
	tables: {embedding: {optimizer: {kind: adam, lr: 1e-2}}, dense: {optimizer: {kind: adam, lr: 1e-2}}}
	train: {passes: 100, pace: {batch_ms: 20}}
	checkpoint:
	  dir: s3://bucket/a
	  endpoint: 'http://127.0.0.1:9/'
	  every_steps: 15
JOB
for endpoint in 127.0.0.1:9 http:// http://127.0.0.1:9/path http://host:port http://host:99999 'http://ho st' ftp://host; do
	sed "s|endpoint: .*|endpoint: '$endpoint'|" "$DIR/job.yaml" > "$DIR/wrong.yaml"
	"$WEIR" train "$DIR/wrong.yaml" > /dev/null 2> "$DIR/wrong.err" && fail "$endpoint is taken"
	told "wrong.yaml:9:" "checkpoint.endpoint: is '$endpoint'; expected" "$DIR/wrong.err"
done

# Nobody listens at port 9. A trailing slash is allowed.
start_train --http 0
wait_for 30 "status to tell of a failed checkpoint" status '.checkpoints.failing and .checkpoints.failed > 0 and .checkpoints.written == 0 and (.checkpoints.failure | contains("127.0.0.1:9"))'
"$WEIR" status --job "$DIR/job.yaml" | grep -q "checkpoints 0 written, .* failed, the last among them: .*127.0.0.1" || fail "status says nothing"
AT=$(sed -n 's,^.*\(http://127[0-9.:]*/\) shows it.*$,\1,p' "$DIR/train.err")
python3 -c 'import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())' "${AT}metrics" > "$DIR/series" || fail "no metrics"
grep -q "^weir_checkpoint_failing 1" "$DIR/series" || fail "no series"
grep -q "a checkpoint failed: .*127.0.0.1:9.*; training goes on without it" "$DIR/train.err" || fail "train says nothing"
kill -TERM "$TRAIN"
finish_train 20

# At the end, the report and the exit status show it.
start_train --fresh --set train.passes=1
finish_train 40
[ "$STATUS" != 0 ] || fail "exit status 0, and no checkpoint was written"
told "the job is finished, and its weights are kept, but its last checkpoint failed" "$DIR/train.err"
holds "$DIR/report.json" '.finished and .audit.ok and .checkpoints.failing and .checkpoints.written == 0'

# With a working place everything succeeds.
sed -i "/endpoint:/d; s|s3://bucket/a|$DIR/place|" "$DIR/job.yaml"
start_train --fresh --set train.passes=1
finish_train 20
[ "$STATUS" = 0 ] || fail "exit status $STATUS"
holds "$DIR/report.json" '.checkpoints.written > 0 and .checkpoints.failed == 0 and (.checkpoints.failing | not)'
nothing_left
echo "endpoints refused by line; a failed checkpoint told at each place"

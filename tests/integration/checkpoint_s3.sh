# Checkpoints every 100 batches on an S3 server (tests/s3/server.py checks every signature). The job
# is killed and continues from the last one.
. "$(dirname "$0")/lib.sh"
export AWS_ACCESS_KEY_ID=AKIDWEIRTEST AWS_SECRET_ACCESS_KEY=a/secret+key
python3 "$(dirname "$0")/../s3/server.py" "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" us-west-7 weir-it > "$DIR/port" 2> "$DIR/s3.log" &
S3=$!
trap 'kill -KILL $S3; wait $S3 2> /dev/null; cleanup' EXIT
wait_for 10 "the S3 server" test -s "$DIR/port"
write_job 10
echo "checkpoint: {dir: s3://weir-it/jobs/it, endpoint: 'http://127.0.0.1:$(cat "$DIR/port")', region: us-west-7, every_steps: 100, keep: 2}" >> "$DIR/job.yaml"
written() { [ "$(grep -s 'checkpoint written' "$RUN/server-0.log" | wc -l)" -ge "$1" ]; }
start_train
wait_for 60 "three checkpoints" written 3
kill -KILL "$TRAIN" $(left_over)
wait "$TRAIN" 2> /dev/null
"$WEIR" checkpoint verify "$DIR/job.yaml" --json > "$DIR/verified.json" || fail "not whole"
holds "$DIR/verified.json" '.step >= 300 and .rows > 0'
"$WEIR" restore "$DIR/job.yaml" --from latest > "$DIR/out" 2> "$DIR/out.err" || fail "$(tail -n 1 "$DIR/out.err")"
start_train --resume
finish_train 120
[ $STATUS = 0 ] || fail "the resumed job ended with $STATUS"
audited
AWS_SECRET_ACCESS_KEY=wrong "$WEIR" checkpoint verify "$DIR/job.yaml" > "$DIR/out" 2> "$DIR/out.err" && fail "a wrong key was taken"
tail -n 1 "$DIR/out.err" | grep -q 'check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY' || fail "the last line: $(tail -n 1 "$DIR/out.err")"

# Of two workers started with one name, the second is refused by name, and the job continues with
# the first to its end.
. "$(dirname "$0")/../integration/lib.sh"

awk 'BEGIN { srand(3); for (i = 0; i < 400; i++) { a = int(rand() * 9); print (a > 4), a + 1 ":1", int(rand() * 9) + 11 ":1" } }' > "$DIR/train.svm"
at=127.0.0.1:$(free_ports 1)
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {listen: '$at', servers_at: ['$at'], workers: 2}
	data: {format: libsvm, train: $DIR/train.svm, batch: 16, fields: 2}
	model: {kind: lr}
	train: {passes: 40, pace: {batch_ms: 3}}
JOB
mkdir -p "$RUN"
"$BUILD/weir-server" --job "$DIR/job.yaml" --index 0 --listen "$at" --ready-fd 3 3> "$DIR/ready" 2> "$DIR/server.err" &
server=$!
wait_for 10 "the server" grep -q READY "$DIR/ready"
"$BUILD/weir-worker" --job "$DIR/job.yaml" --name same 2> "$DIR/first.err" &
first=$!
wait_for 10 "the first worker" status '[.workers[] | select(.name == "same" and .live)] | length == 1'
timeout 60 "$BUILD/weir-worker" --job "$DIR/job.yaml" --name same 2> "$DIR/second.err"
status=$?
[ $status != 0 ] && [ $status != 124 ] || fail "the second worker ended with $status"
told "a live worker has this name, pid $first on" "give each worker a name of its own" "$DIR/second.err"
wait "$first" || fail "the first worker ended with $?: $(tail -n 1 "$DIR/first.err")"
status '.state == "finished" and .workers_lost == 0' || fail "the job has not finished: $(jq -c '[.state, .failure]' "$DIR/status.json")"
kill -TERM $server
wait $server || fail "the server ended with $?"

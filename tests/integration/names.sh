# Identities. While a job trains, a second worker with the name of a live one, and a second
# evaluator, are refused by name and disturb nobody. A killed worker's name is free at once. Then,
# in a job of its own, NAMES (300) names come and go; their number is unlimited.
. "$(dirname "$0")/lib.sh"
LEASE_MS=20000
write_job 1000 "log: disk"
start_train
wait_for 30 "the first rows" status ".rows >= 2000 and .pass >= 0"
LEDGER=unix:$RUN/server-0.sock
# refused NAME ROLE WORD...: started by hand.
refused() {
	timeout 60 "$BUILD/weir-worker" --job "$DIR/job.yaml" --ledger "$LEDGER" --name "$1" --role "$2" > "$DIR/hand.out" 2> "$DIR/hand.err" &&
		fail "$2 $1 takes part"
	told "${@:3}" "$DIR/hand.err"
}
wait_for 30 "worker-0 and the evaluator" status '[.workers[] | select((.name == "worker-0" or .name == "evaluator") and .live)] | length == 2'
refused worker-0 trainer "a live worker has this name, pid $(pid_of worker-0) on" "give each worker a name of its own"
refused intruder evaluator "the job has a live evaluator, evaluator (pid $(pid_of evaluator) on" "stop one of them"
holds "$DIR/status.json" ".workers_lost == 0"

victim=$(pid_of worker-0)
kill -KILL "$victim"
back() { status ".workers[] | select(.name == \"worker-0\") | .live and .pid != $victim"; }
wait_for 20 "worker-0 to have its name again" back
stop_train 20
resume_train
finish_train 60
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
parts=$(json "$DIR/report.json" .audit.applied)
nothing_left

cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $DIR/names
	cluster: {servers: 1, partitions: 1}
	data: {format: criteo, train: none}
	model: {kind: lr}
JOB
mkdir "$DIR/names"
"$BUILD/weir-server" --job "$DIR/job.yaml" --index 0 --ready-fd 3 3> "$DIR/ready" 2> "$DIR/server.err" &
wait_for 10 "the server" grep -q READY "$DIR/ready"
"$BUILD/tests/many_names" "unix:$DIR/names/server-0.sock" "${NAMES:-300}" 2> "$DIR/names.err" || fail "$(cat "$DIR/names.err")"
kill -TERM %1
wait %1
echo "a second worker-0 and a second evaluator were refused by name; worker-0 came back after a kill; ${NAMES:-300} names came and went; $parts parts, each once"

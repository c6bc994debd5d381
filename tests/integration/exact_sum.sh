# Integer gradients with a known exact sum. Two servers and three workers run as processes. A worker
# is killed with -9 repeatedly (KILLS, default 5), then one is stopped in mid-unit for longer than
# its lease. The weights must equal the sum to the last bit.
. "$(dirname "$0")/lib.sh"
kills=${KILLS:-5}
mkdir -p "$RUN"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {servers: 2, workers: 3, partitions: 8, lease_ms: 3001}
	data: {format: criteo, train: none}
	model: {kind: lr}
JOB
servers=unix:$RUN/server-0.sock,unix:$RUN/server-1.sock
for i in 0 1; do
	"$BUILD/weir-server" --job "$DIR/job.yaml" --index $i --servers $servers --ready-fd 3 3> "$DIR/ready-$i" 2> "$RUN/server-$i.log" &
	wait_for 10 "server $i" grep -q READY "$DIR/ready-$i"
done
ledger=unix:$RUN/server-0.sock
JOB_AT=(--at $ledger)
# await_work NAME: waits until it holds a unit.
await_work() { wait_for 20 "$1 to hold a unit" status ".workers[] | select(.name == \"$1\" and .live) | .units_held > 0"; }
mkfifo "$DIR/gate"
start_worker() {
	"$BUILD/tests/exact_sum" worker $ledger "worker-$1" "$DIR/gate" 2>> "$RUN/worker-$1.log" &
	eval "worker_$1=$!"
}
for i in 0 1 2; do start_worker $i; done

for ((k = 0; k < kills; k++)); do
	i=$((k % 3))
	await_work worker-$i
	eval "victim=\$worker_$i"
	kill -KILL "$victim"
	wait "$victim" 2> /dev/null
	start_worker $i
done
wait_for 60 "all units but those that wait at the gate" status ".committed == 100"
await_work worker-2
kill -STOP $worker_2
wait_for 20 "a lease to expire" status ".leases_expired > 0"
kill -CONT $worker_2
exec 9<> "$DIR/gate" # lets the job end
for i in 0 1 2; do
	eval "pid=\$worker_$i"
	wait_for 90 "worker-$i to end" is_gone "$pid"
	wait "$pid" || fail "worker-$i ended with status $?"
done
"$BUILD/tests/exact_sum" check $ledger || fail "the sums are not exact"
echo "$kills kills, $(jq .leases_expired "$DIR/status.json") leases expired"

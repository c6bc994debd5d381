# A worker's compute thread is stopped while its library continues, as by a hung device or a
# debugger. Its unit goes to others. The log, `weir status` and /metrics name host, process and
# unit. The weights are the exact sum. Once the thread continues, the worker learns that it was
# declared dead, and works again.
. "$(dirname "$0")/lib.sh"
mkdir -p "$RUN"
PORT=$(free_ports 1)
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {servers: 1, workers: 2, partitions: 8, lease_ms: 3001, progress_timeout_ms: 1000}
	data: {format: criteo, train: none}
	model: {kind: lr}
JOB
ledger=unix:$RUN/server-0.sock
"$BUILD/weir-server" --job "$DIR/job.yaml" --index 0 --http "127.0.0.1:$PORT" --ready-fd 3 3> "$DIR/ready" 2> "$RUN/server-0.log" &
wait_for 10 "the server" grep -q READY "$DIR/ready"
JOB_AT=(--at $ledger)
mkfifo "$DIR/gate"
start_worker() {
	"$BUILD/tests/exact_sum" worker $ledger "worker-$1" "$DIR/gate" 2>> "$RUN/worker-$1.log" &
	eval "worker_$1=$!"
}
WORKER='.workers[] | select(.name == "worker-1")'

# If the thread holds its library's or its allocator's lock, the whole worker stops and its lease
# expires; between two units, it holds none and nobody waits for it. Then try again.
start_worker 1
for ((try = 1; ; try++)); do
	[ $try -le 20 ] || fail "all of its threads stood still, $try times"
	wait_for 20 "worker-1 to hold a unit" status "$WORKER | .live and .units_held > 0"
	stop_thread $worker_1
	wait_for 20 "worker-1 to be taken for dead" status "$WORKER | (.live | not) or .units_held == 0"
	status "$WORKER | .stalled" && break
	release_thread
done
unit=$(jq -c "$WORKER | .stall" "$DIR/status.json")
holds "$DIR/status.json" ".workers_stalled == 1 and ($WORKER | .stall | .pid == $worker_1 and .pass == 1 and .units == 1 and .idle_ms >= 1000 and (.host | length) > 0)"
holds "$DIR/status.json" "$WORKER | .stall.since_unix_ms / 1000 | . > now - 600 and . <= now"
told "worker lost name=worker-1" 'why="it did not move"' "$RUN/server-0.log"
named=$(grep "worker stalled name=worker-1 host=.* pid=$worker_1 pass=0 unit=$(jq .unit <<< "$unit") units=1 idle_s=.* since=" "$RUN/server-0.log") || fail "the log does not name it"
"$WEIR" status "${JOB_AT[@]}" > "$DIR/status.txt"
grep -q "worker-1 *STALLED on .*, pid $worker_1," "$DIR/status.txt" && grep -q "stalled  *did not move for .* s, since .* UTC, with unit $(jq .unit <<< "$unit") of pass 1: its work went to others" "$DIR/status.txt" ||
	{ cat "$DIR/status.txt"; fail "weir status does not name it"; }
curl -s "http://127.0.0.1:$PORT/metrics" > "$DIR/page"
grep -q "^weir_worker_stalled_timestamp_seconds{worker=\"worker-1\",host=\".*\",pid=\"$worker_1\",pass=\"1\",unit=\"$(jq .unit <<< "$unit")\"} 1" "$DIR/page" || { cat "$DIR/page"; fail "/metrics does not name it"; }

exec 9<> "$DIR/gate" # lets the job end
for i in 0 2; do start_worker $i; done
for i in 0 2; do
	eval "pid=\$worker_$i"
	wait_for 60 "worker-$i to end" is_gone "$pid"
	wait "$pid" || fail "worker-$i ended with status $?"
done
"$BUILD/tests/exact_sum" check $ledger > "$DIR/sums.txt" || fail "the sums are not exact: $(cat "$DIR/sums.txt")"
release_thread
wait_for 20 "worker-1 to end" is_gone $worker_1
wait $worker_1 || fail "worker-1 ended with status $?"
grep -q "worker-1 was taken for dead, as it held work and did not move" "$RUN/worker-1.log" || fail "worker-1 was not told why"
"$BUILD/tests/exact_sum" check $ledger > "$DIR/sums.txt" || fail "the sums are not exact once it goes on: $(cat "$DIR/sums.txt")"
echo "$(cat "$DIR/sums.txt"); ${named#*worker stalled }" | cut -d: -f1-3

# A table costs a server memory when rows arrive, not at registration. Dense tables of 2^40 elements
# are refused every time, with logs in memory or on disk. TABLES (256) small ones in PARTITIONS (64)
# partitions cost little. Then a server whose log is on disk restarts.
. "$(dirname "$0")/lib.sh"
tables=${TABLES:-256} partitions=${PARTITIONS:-64}
mkdir -p "$RUN"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {servers: 1, workers: 1, partitions: $partitions, lease_ms: 3001}
	data: {format: criteo, train: none}
	model: {kind: lr}
JOB
ledger=unix:$RUN/server-0.sock
start_server() { # LOG
	: > "$DIR/ready"
	"$BUILD/weir-server" --job "$DIR/job.yaml" --index 0 --servers $ledger --set cluster.log=$1 --ready-fd 3 3> "$DIR/ready" 2>> "$RUN/server-0.log" &
	server=$!
	wait_for 60 "the server" grep -q READY "$DIR/ready"
}
stop_server() {
	kill -TERM $server
	wait $server || fail "the server ended with status $?"
}
mib() { echo $(($(sed -n "s/^$1:[^0-9]*\([0-9]*\) kB/\1/p" "/proc/$server/status") >> 10)); }

for log in memory disk; do
	start_server $log
	before=$(mib VmHWM)
	"$BUILD/tests/table_memory" $ledger "$tables" > "$DIR/refused" 2> "$DIR/tables.err" || fail "$(cat "$DIR/tables.err")"
	grep -q "table table-0: its dense rows stay in memory.* cluster.memory_budget, 4294967296 bytes: raise it, or use more servers" "$DIR/refused" ||
		fail "it says: $(cat "$DIR/refused")"
	grown=$(($(mib VmHWM) - before))
	[ $grown -le $((64 + tables * partitions * 2 / 1024)) ] || fail "with its log in $log the server has $grown MiB more"
	[ "$(wc -l < "/proc/$server/maps")" -lt 10000 ] || fail "the server has $(wc -l < "/proc/$server/maps") mappings"
	stop_server
	said="${said:-}$log: $grown MiB; "
done
start_server disk
stop_server
echo "$tables times 2^40 elements refused, $tables tables in $partitions partitions taken: ${said% } the server with its log on disk started again"

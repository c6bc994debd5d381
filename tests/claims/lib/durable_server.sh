# A weir-server driven by tests/bench/durable/zipf_trainer, for the claims about large tables and
# recovery. Source it after common.sh.
#
# server_start NAME [--set ...]: SERVER is its process, LEDGER its address.
server_start() {
	local name=$1
	shift
	cat > "$WORK/$name.yaml" <<-JOB
		job: $name
		run_dir: $WORK/$name
		cluster: {servers: 1, workers: 1, partitions: 16, lease_ms: 60000}
		data: {format: criteo, train: none, shuffle: false}
		model: {kind: lr}
	JOB
	LEDGER=unix:$WORK/$name/server-0.sock
	mkdir -p "$WORK/$name"
	rm -f "$WORK/$name.ready"
	"$BUILD/weir-server" --job "$WORK/$name.yaml" --index 0 --servers "$LEDGER" --ready-fd 3 "$@" 3> "$WORK/$name.ready" 2>> "$WORK/$name.log" &
	SERVER=$!
	wait_for 300 "server $name" grep -q READY "$WORK/$name.ready"
}
server_status() { "$BUILD/weir" status --at "$LEDGER" --json; }
server_figure() { server_status | jq -r "$1"; }
server_rss() { awk '/^VmRSS/ { printf "%.0f\n", $2 * 1024 }' "/proc/$SERVER/status"; }
server_stop() { # TERM, or another signal
	kill -"${1:-TERM}" "$SERVER" && wait "$SERVER" 2> /dev/null
	SERVER=
}
zipf() { "$BUILD/tests/zipf_trainer" "$LEDGER" "$@"; }
leave_nothing() {
	[ -z "${SERVER:-}" ] || { kill -KILL "$SERVER"; wait "$SERVER"; }
	rm -rf "$WORK"
} 2> /dev/null
trap leave_nothing EXIT

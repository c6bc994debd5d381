# Floods over HTTP/2 (tests/abuse/attacker.py) while a job trains, in plain text and over TLS. The
# server's memory stays bounded, the handshake refuses a peer of another job, /metrics counts cut
# connections, and every push is applied exactly once.
. "$(dirname "$0")/lib.sh"
LEASE_MS=20000
ATTACKER=$(cd "$(dirname "$0")/../abuse" && pwd)/attacker.py
SECONDS_EACH=1.5
GROWTH_KIB=$((128 * 1024)) # an endless header block would take a gigabyte in this time
ulimit -Sn hard
certs() { "$WEIR" certs "$@" > "$DIR/certs.out" 2>&1 || fail "weir certs $*: $(cat "$DIR/certs.out")"; }
anonymous_kib() { awk '/^RssAnon/ { print $2 }' "/proc/$SERVER/status"; }
counted() { awk -v name="$1" '$1 == name { print $2 }' "$DIR/page"; }

# flood MODE [TLS]: its result is in $DIR/flood.json.
flood() {
	local attacker now
	TLS=${2:--} python3 "$ATTACKER" "$1" "$AT" $SECONDS_EACH > "$DIR/flood.json" 2> "$DIR/flood.err" &
	attacker=$!
	while ! is_gone $attacker; do
		now=$(anonymous_kib) && [ "$now" -gt "$MOST" ] && MOST=$now
		sleep 0.02
	done
	wait $attacker || fail "$1: $(tail -n 2 "$DIR/flood.err")"
	cat "$DIR/flood.json"
	kill -0 "$SERVER" || fail "$1: the server is gone"
	[ $((MOST - BEFORE)) -le $GROWTH_KIB ] || fail "$1: the server's memory grew by $((MOST - BEFORE)) KiB"
}

# train_on [KEYS]: starts a job of one server and waits until it trains.
train_on() {
	rm -rf "$DIR/run"
	write_job 1000 "log: disk, listen: '127.0.0.1:0', executors: 1"
	sed -i 's/servers: 2/servers: 1/' "$DIR/job.yaml"
	printf '%s\n' "$@" >> "$DIR/job.yaml"
	PORT=$(free_ports 4)
	start_train --set "metrics.port=$PORT"
	wait_for 60 "the first rows" status ".rows >= 2000"
	AT=$(json "$DIR/status.json" '.servers[0].address')
	SERVER=$(json "$DIR/status.json" '.servers[0].pid')
	BEFORE=$(anonymous_kib) MOST=0
}
train_off() {
	curl -sf -o "$DIR/page" "http://127.0.0.1:$PORT/metrics" || fail "no page of the server"
	status ".workers_lost == 0" || fail "workers were lost: $(json "$DIR/status.json" .workers_lost)"
	stop_train 30
	start_train --resume --set "train.passes=$((PASSES + 1))"
	finish_train 60
	[ $STATUS = 0 ] || fail "exit status $STATUS"
	audited
	echo "memory grew by $((MOST - BEFORE)) KiB at most; cut $(counted 'weir_connections_refused_total{why="frames"}'), too many $(counted 'weir_connections_refused_total{why="number"}'), of another job $(counted 'weir_connections_refused_total{why="certificate"}')"
}

train_on
for mode in continuation reset settings connections; do flood $mode; done
train_off
[ "$(counted 'weir_connections_refused_total{why="frames"}')" -ge 3 ] || fail "floods were not counted"

certs init --dir "$DIR/certs"
for role in server worker admin; do certs issue --dir "$DIR/certs" --job it --role $role; done
certs issue --dir "$DIR/certs" --job other --role worker --name other
train_on "security: {certificate: '$DIR/certs/{role}.crt', key: '$DIR/certs/{role}.key', ca: $DIR/certs/ca.crt}"
flood continuation "$DIR/certs/worker.crt,$DIR/certs/worker.key,$DIR/certs/ca.crt"
# Each failed handshake counts as several connections, so the address is soon refused without one.
other_is_refused() {
	flood calls "$DIR/certs/other.crt,$DIR/certs/other.key,$DIR/certs/ca.crt"
	[ "$(json "$DIR/flood.json" '.held // 0')" = 0 ] || fail "connections of another job's peer live"
	curl -sf -o "$DIR/page" "http://127.0.0.1:$PORT/metrics" && [ "$(counted 'weir_connections_refused_total{why="number"}')" -ge 1 ]
}
wait_for 60 "the address of failed handshakes to be refused" other_is_refused
train_off
[ "$(counted 'weir_connections_refused_total{why="certificate"}')" -ge 1 ] || fail "another job's peer was not counted"
nothing_left

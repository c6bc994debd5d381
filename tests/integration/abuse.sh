# Peers misbehave while a job trains (tests/abuse/attacker.py): they are slow, send too much, junk,
# or old pushes again. The servers stay up, hold at most a peer's memory limit for each peer, and
# release it. Every push of the job is applied exactly once.
. "$(dirname "$0")/lib.sh"
LEASE_MS=20000
ATTACKER=$(cd "$(dirname "$0")/../abuse" && pwd)/attacker.py
GROWTH_KIB=$((300 * 1024)) # 64 calls of 4 MiB, and slack
write_job 40
sed -i 's/batch_ms: 5/batch_ms: 6/; s/cluster: {/cluster: {listen: "127.0.0.1:0", executors: 1, /' "$DIR/job.yaml"
ulimit -Sn 128 # fewer than the connections of the attackers
start_train
ulimit -Sn hard
wait_for 60 "a pass to be over" status ".pass >= 2"
AT=$(json "$DIR/status.json" '.servers[0].address')
SERVER=$(json "$DIR/status.json" '.servers[0].pid')
anonymous_kib() { awk '/^RssAnon/ { print $2 }' "/proc/$SERVER/status"; }
descriptors() { ls "/proc/$SERVER/fd" | wc -l; }
BEFORE=$(anonymous_kib) FILES=$(descriptors) most=0
for mode in malformed oversized replay slow; do
	python3 "$ATTACKER" $mode "$AT" 2 > "$DIR/$mode.json" 2> "$DIR/$mode.err" &
	attacker=$!
	while ! is_gone $attacker; do
		now=$(anonymous_kib) && [ "$now" -gt $most ] && most=$now
		sleep 0.05
	done
	wait $attacker || fail "$mode: $(tail -n 2 "$DIR/$mode.err")"
	cat "$DIR/$mode.json"
	kill -0 "$SERVER" || fail "$mode: the server is gone"
done
[ $((most - BEFORE)) -le $GROWTH_KIB ] || fail "the server's memory grew by $((most - BEFORE)) KiB"
echo "memory grew by $((most - BEFORE)) KiB at most"
[ "$(json "$DIR/replay.json" '.answers | keys | join(" ")')" = "15 25" ] || fail "replays were answered $(json "$DIR/replay.json" .answers), expected E_DUPLICATE, and E_MOVED of partitions that are elsewhere"
let_go() { [ "$(descriptors)" -le $((FILES + 2)) ]; }
wait_for 15 "the server to let go of connections" let_go

# A peer that answers pings but never completes its request is cut off. The number of its streams is
# limited.
python3 - "$ATTACKER" "$AT" <<'PYTHON' || fail "a request that never ends is held for ever, or a peer has all the streams that it wants"
import sys, time
sys.argv[1:], path = ["none", sys.argv[2], "0"], sys.argv[1]
exec(open(path).read())
p = Peer((host, int(port)))
stream = p.begin(b"/weir.v1.ParameterServer/Push")
p.pump(0.2)
p.body(stream, grpc(bytes(100))[:50], False)
began = time.monotonic()
while p.open and p.windows.get(stream) is not None and time.monotonic() < began + 60:
    p.pump(0.2)
print(f"given up after {time.monotonic() - began:.1f} s")
given_up = p.open and 5 < time.monotonic() - began < 40
streams = [p.begin(b"/weir.v1.ParameterServer/PushStream") for _ in range(40)]
began = time.monotonic()
while p.open and sum(p.windows[s] is None for s in streams) < 24 and time.monotonic() < began + 30:
    p.pump(0.2)
print(f"{sum(p.windows[s] is None for s in streams)} of 40 streams were refused")
sys.exit(not (given_up and p.open and sum(p.windows[s] is None for s in streams) == 24))
PYTHON
status ".workers_lost == 0" || fail "workers were lost: $(json "$DIR/status.json" .workers_lost)"
finish_train 110
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
nothing_left

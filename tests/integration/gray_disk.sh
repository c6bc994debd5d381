# A disk that works but takes seconds per sync, with a server's log on it. With replicas the server
# is named, hands its partitions to others and leaves the ISR; the job keeps its speed, and no lease
# is lost. LONG=1: the disk recovers and the server is in sync again. Then the same with one copy:
# the server is named, and the job waits for it.
. "$(dirname "$0")/lib.sh"
BAD=$BUILD/tests/libweir_bad_disk.so
[ -e "$BAD" ] || { echo "not under sanitizers: skipped"; exit 77; }
SYNC_MS=8000
LEASE_MS=20000 # a disk counts as slow after 3 s
begin() { # begin KEYS
	rm -rf "$RUN" "$DIR/slow"
	write_job 1000 "$1, ack: disk, fsync_interval_ms: 50"
	LD_PRELOAD=$BAD WEIR_BAD_WHEN=$DIR/slow WEIR_BAD_PATH=server-1/journal start_train
	wait_for 60 "the first rows" status ".rows >= 2000"
}
left_out() { status '([.partitions[] | select(.primary == 1 or ([.in_sync[].server] | index(1)))] | length == 0) and .servers[1].durable.disk_slow'; }
whole_run() {
	stop_train 60
	resume_train
	finish_train 120
	[ $STATUS = 0 ] || fail "exit status $STATUS"
	audited
	nothing_left
}

begin "log: disk, replicas: 2"
wait_for 30 "all replicas to be in sync" status "$WHOLE"
echo "sync $SYNC_MS" > "$DIR/slow"
wait_for 30 "server-1 to be left out" left_out
began=$SECONDS before=$(json "$DIR/status.json" .rows)
wait_for 60 "4,000 more rows" status ".rows >= $((before + 4000))"
speed=$((($(json "$DIR/status.json" .rows) - before) / (SECONDS - began + 1)))
# Two workers have units of 512 rows. Waiting for a sync in each would give 128 rows/s.
[ $speed -ge 200 ] || fail "$speed rows a second: the job waits for a slow disk"
holds "$DIR/status.json" ".workers_lost == 0 and .leases_expired == 0"
grep -q "server 1 (.*): its disk is slow: a sync of its log takes" "$DIR/train.err" || fail "weir train does not name it: $(tail -n 3 "$DIR/train.err")"
grep -q '"disk slow".*server-1' "$RUN/server-1.log" || grep -q "disk slow.*server-1" "$RUN/server-1.log" || fail "its log does not name the folder"
grep -q "server slow" "$RUN/server-0.log" || fail "the other server does not name it"
did="with replicas it was left out, and $speed rows a second were applied"
rm "$DIR/slow"
if [ "${LONG:-0}" = 1 ]; then
	wait_for 60 "it to be in sync again" status "$WHOLE"
	did+="; it came back"
fi
whole_run
if [ "${LONG:-0}" = 1 ]; then
	begin "log: disk"
	echo "sync $SYNC_MS" > "$DIR/slow"
	wait_for 30 "it to be named" grep -q "server 1 (.*): its disk is slow" "$DIR/train.err"
	holds "$DIR/status.json" ".workers_lost == 0"
	rm "$DIR/slow"
	whole_run
	did+="; with one copy it was named"
fi
echo "syncs of $SYNC_MS ms: $did; each push is applied once"

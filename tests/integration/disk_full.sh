# A full disk. A server that is told to end does so at once and leaves its rows to the log. One that
# starts recovers, waits, and continues when there is room. Without any room, pushes and evaluations
# wait, leases are kept, and training then continues. The run directory is a file system of its own,
# which the test resizes.
[ "$(id -u)" = 0 ] && unshare -m true 2> /dev/null || { echo "needs mounts of its own: skipped"; exit 77; }
[ "${WEIR_OWN_MOUNTS:-}" ] || WEIR_OWN_MOUNTS=1 exec unshare -m bash "$0" "$@"
. "$(dirname "$0")/lib.sh"
trap 'cleanup 2> /dev/null; umount -l "$RUN"; rm -rf "$DIR"' EXIT
mkdir "$RUN"
mount -t tmpfs -o size=4g weir "$RUN" || fail "no tmpfs"
write_job 400 "log: disk"

# The disk counts as full: rows need at least 512 MiB.
fill() { mount -o remount,size=$(($(df --output=used -k "$RUN" | tail -n 1) + 300 * 1024))k "$RUN" || fail "the file system is not made smaller"; }
servers_said() { grep -qs "$1" "$RUN/server-0.log" && grep -qs "$1" "$RUN/server-1.log"; }

start_train --set cluster.flush_interval_ms=600000
wait_for 60 "the first rows" status ".rows >= 5000"
fill
kill -TERM "$TRAIN"
told=$SECONDS
finish_train 12
[ $((SECONDS - told)) -le $((12 * PATIENCE)) ] || fail "the drain took $((SECONDS - told)) s"
servers_said "rows are not written" || fail "servers do not say that their rows are not written"
nothing_left

rm "$RUN"/server-*.log
start_train --resume --set cluster.flush_interval_ms=100
wait_for 60 "both servers to wait for space" servers_said "disk full"
servers_said "room again" && fail "rows are written to a full disk"
mount -o remount,size=4g "$RUN"
wait_for 30 "both servers to go on" servers_said "room again"

# --- No room for more log, only for what a pass leaves: pushes or the evaluation wait, then
# continue
# fails if more was written meanwhile
shrink() { mount -o remount,size=$(($(df --output=used -k "$RUN" | tail -n 1) + $1))k "$RUN" 2> /dev/null; }
room() { wait_for 10 "the file system to be made smaller" shrink "$1"; }
held_up() { # hardly any row for twice the lease time
	local rows up
	is_gone "$TRAIN" && fail "a full disk has ended the run: $(tail -n 1 "$DIR/train.err")"
	status . || return 1
	read -r rows up <<< "$(json "$DIR/status.json" '"\(.rows) \(.servers[0].uptime_ms)"')"
	[ -n "$since" ] && [ "$rows" -lt $((from + 1000)) ] || { from=$rows since=$up; return 1; }
	[ "$up" -gt $((since + 2 * 3001)) ]
}
# In steps, as the disk must not fail during a RocksDB flush; RocksDB writes nothing from here on.
fill
wait_for 30 "both servers to see it" status 'all(.servers[]; .durable.disk_full)'
for left in 0 2048; do
	room $left
	since=
	wait_for 60 "training to be held up" held_up
	holds "$DIR/status.json" '.leases_expired == 0 and all(.workers[]; .live) and all(.servers[]; .durable.disk_full)'
done
rows=$(json "$DIR/status.json" .rows)
mount -o remount,size=4g "$RUN"
wait_for 60 "training to go on" status ".rows >= $((rows + 20000))"
kill -TERM "$TRAIN"
finish_train 12
holds "$DIR/report.json" ".audit.double == 0 and .workers_lost == 0 and .rows >= 5000"
nothing_left

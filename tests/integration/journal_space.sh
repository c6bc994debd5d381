# Servers with their logs on disk leave rows and no log when a run has ended. Of two replicas
# neither waits for the other's end, so both end cleanly. LONG=1: the log also stays small during a
# run that pushes gigabytes into few rows, with one server killed on the way.
. "$(dirname "$0")/lib.sh"
LOG_LEFT=$((64 << 10))
LOG_MOST=$((512 << 20)) # 256 MiB, two segments being written or deleted, and a reserved one

log_bytes() { du -s -B1 "$RUN/server-$1/journal" | cut -f 1; }
left_little() {
	local i
	for i in 0 1; do
		[ "$(log_bytes $i)" -lt $LOG_LEFT ] || fail "server-$i left a log of $(log_bytes $i) bytes: $(ls -l "$RUN/server-$i/journal")"
		grep -q '"clean": true' "$RUN/server-$i/IDENTITY" || fail "server-$i did not end cleanly"
	done
}

write_job 2 "log: disk, replicas: 2"
start_train --fresh
finish_train 60
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
left_little
nothing_left
said="logs of $(log_bytes 0) and $(log_bytes 1) bytes are left of $(json "$DIR/report.json" .audit.applied) parts"

if [ -n "${LONG:-}" ]; then
	write_job 40 "log: disk"
	sed -i 's/rows: 20000/rows: 200000/; s/  batch: [0-9]*/  batch: 512/; s/model: .*/model: {kind: deepfm, dim: 8, hidden: [128, 64]}/' "$DIR/job.yaml"
	start_train --fresh
	wait_for 60 "the first rows" status ".rows >= 10000"
	most=0 killed=
	until is_gone "$TRAIN"; do
		for i in 0 1; do
			now=$(log_bytes $i 2> /dev/null)
			[ "${now:-0}" -le $most ] || most=$now
		done
		if [ -z "$killed" ] && [ $most -gt $((200 << 20)) ]; then
			killed=$(pid_of server-1) && kill -KILL "$killed"
		fi
		sleep 0.2
	done
	finish_train 1
	[ $STATUS = 0 ] || fail "exit status $STATUS"
	audited
	[ -n "$killed" ] || fail "the log never had 200 MiB: nothing was tested"
	[ $most -le $LOG_MOST ] || fail "a log of $most bytes, expected at most $LOG_MOST"
	left_little
	said="$said; of one that took $(json "$DIR/report.json" .bytes.pushed) bytes of pushes no log had more than $((most >> 20)) MiB"
fi
echo "$said"

# The thread that reads a worker's data is stopped, as by a dead NFS. `weir train` reports that the
# worker waits for data, and its units go to others. The worker takes no unit until its reader is
# back, and then trains again.
. "$(dirname "$0")/lib.sh"
write_job 1000 "log: disk, progress_timeout_ms: 2000"
WORKER='.workers[] | select(.name == "worker-1")'
start_train --http 0
wait_for 30 "rows of worker-1" status "$WORKER | .rows >= 500"
victim=$(pid_of worker-1) || fail "worker-1 does not run"
for ((try = 1; ; try++)); do # a stopped thread that holds a lock stops others, too
	[ $try -le 20 ] || fail "worker-1 stood still as a whole, $try times"
	wait_for 20 "worker-1 to hold a unit" status "$WORKER | .live and .units_held > 0"
	stalls=$(jq "[$WORKER | .stalls] | first" "$DIR/status.json")
	stop_thread "$victim" reader
	wait_for 30 "worker-1 to be taken for dead" status "$WORKER | .stalls > $stalls or (.live | not)"
	status "$WORKER | .stalls > $stalls and .stall.waits_for_data" && break
	release_thread
done
wait_for 20 "weir train to say so" grep -q "worker-1 (pid $victim on .*) did not move for .* s, since .* UTC, with unit .*; it waited for data: its work goes to the others" "$DIR/train.err"
at=$(sed -n 's,^.*http://\(127[0-9.:]*\)/ shows it.*$,\1,p' "$DIR/train.err")
curl -s "http://$at/status.json" | jq -e "$WORKER | .stalls > 0 and .stall.waits_for_data" > /dev/null || fail "the page does not say so"
rows=$(jq "[$WORKER | .rows] | first" "$DIR/status.json")
wait_for 30 "others to go on" status ".rows >= $(($(json "$DIR/status.json" .rows) + 3000))"
# Batches that were already read may still count.
holds "$DIR/status.json" "($WORKER | .units_held) == 0 and ($WORKER | .rows) <= $rows + 512"
said=$(grep -o "worker-1 (pid.*" "$DIR/train.err" | tail -n 1)
release_thread
wait_for 30 "worker-1 to train again" status "$WORKER | .live and .rows > $rows + 512"
stop_train 20
resume_train
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" '.workers_stalled >= 1'
nothing_left
echo "$said"

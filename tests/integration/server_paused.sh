# All servers pause (log: memory; a paused machine) for longer than a lease and than the time in
# which their silence is noticed. Workers wait, none ends, and none loses its lease, as the ledger
# could not hear them.
. "$(dirname "$0")/lib.sh"
write_job 1000
start_train
wait_for 30 "the first rows" status ".rows >= 2000"
servers="$(pid_of server-0) $(pid_of server-1)" || fail "a server does not run"
workers="$(pid_of worker-0) $(pid_of worker-1)"
kill -STOP $servers
stopped=$SECONDS
both_have_lost_it() { grep -q "connection to server .*server-1.sock is lost" "$RUN/worker-0.log" && grep -q "connection to server .*server-1.sock is lost" "$RUN/worker-1.log"; }
wait_for 10 "the workers to notice" both_have_lost_it
still_for_nine_seconds() { [ $((SECONDS - stopped)) -ge 9 ]; }
wait_for 10 "it to have stood still for long" still_for_nine_seconds
kill -CONT $servers
wait_for 20 "pushes to go on" status ".rows >= $(($(json "$DIR/status.json" .rows) + 5000))"
holds "$DIR/status.json" ".leases_expired == 0 and .workers_lost == 0"
[ "$workers" = "$(pid_of worker-0) $(pid_of worker-1)" ] || fail "a worker has ended: $(tail -n 1 "$DIR/train.err")"
kill -TERM "$TRAIN"
finish_train 30
[ $STATUS = $STOPPED ] || fail "exit status $STATUS"
nothing_left
echo "all servers stood still for 9 s: no lease of 3 s ran out, no worker ended"

# SIGTERM ends a run cleanly within 10 s (three times that on a busy machine), with status 143. A
# second one ends it sooner than a drain may take.
. "$(dirname "$0")/lib.sh"
LEASE_MS=20000
write_job 50
start_train
wait_for 30 "the first rows" status ".rows >= 2000"
kill -TERM "$TRAIN"
told=$SECONDS
finish_train 12
[ $((SECONDS - told)) -le $((12 * PATIENCE)) ] || fail "the drain took $((SECONDS - told)) s"
[ $STATUS = $STOPPED ] || fail "exit status $STATUS"
tail -n 1 "$DIR/train.err" | grep -q "stopped by Terminated.*run the job again" || fail "the last line does not say why: $(tail -n 1 "$DIR/train.err")"
holds "$DIR/report.json" "(.finished | not) and .workers_lost == 0 and .audit.double == 0"
nothing_left

start_train
wait_for 30 "the first rows" status ".rows >= 2000"
kill -STOP "$(pid_of worker-0)" # it cannot drain
kill -INT "$TRAIN"
said() { grep -q "$1" "$DIR/train.err"; }
wait_for 5 "the first signal to be told" said "workers finish their batch"
kill -INT "$TRAIN"
told=$SECONDS
finish_train 5
[ $((SECONDS - told)) -lt $((2 * PATIENCE)) ] || fail "the second signal took $((SECONDS - told)) s"
[ $STATUS = 130 ] || fail "exit status $STATUS after two signals"
nothing_left

# kill -9 of a worker in the middle: a message says so, the worker restarts, the run ends, and every
# push is applied exactly once.
. "$(dirname "$0")/lib.sh"
write_job 16
start_train
wait_for 30 "the first rows" status ".rows >= 2000"
victim=$(pid_of worker-0) || fail "worker-0 does not run"
kill -KILL "$victim"
finish_train 110
[ $STATUS = 0 ] || fail "exit status $STATUS"
grep -q "worker-0 (pid $victim) was killed by signal 9" "$DIR/train.err" || fail "the kill is not told"
audited
holds "$DIR/report.json" ".workers_lost >= 1 and .servers_lost == 0"
nothing_left

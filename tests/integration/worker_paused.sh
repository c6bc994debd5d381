# SIGSTOP of a worker for longer than its lease, then SIGCONT: its work is done by others, its late pushes are refused.
. "$(dirname "$0")/lib.sh"
write_job 8
start_train
wait_for 30 "the first rows" trained 2000
victim=$(pid_of worker-1) || fail "worker-1 does not run"
kill -STOP "$victim"
lease_expired() { trained 0 && [ "$(json "$DIR/status.json" "d['leases_expired'] > 0")" = True ]; }
wait_for 30 "the lease to expire" lease_expired
kill -CONT "$victim"
finish_train 110
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" "d['leases_expired'] >= 1"
nothing_left

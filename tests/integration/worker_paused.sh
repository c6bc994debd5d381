# SIGSTOP of a worker for longer than its lease, then SIGCONT: its work is done by others, its late pushes are refused.
. "$(dirname "$0")/lib.sh"
write_job 20
start_train
wait_for 30 "the first rows" status ".rows >= 2000"
victim=$(pid_of worker-1) || fail "worker-1 does not run"
stopped_at_work() { # a worker between two units holds no lease: another try
	kill -STOP "$victim"
	status '.workers[] | select(.name == "worker-1") | .units_held > 0' && return 0
	kill -CONT "$victim"
	return 1
}
wait_for 10 "worker-1 to hold a unit" stopped_at_work
wait_for 30 "the lease to expire" status ".leases_expired > 0"
kill -CONT "$victim"
finish_train 110
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" ".leases_expired >= 1"
nothing_left

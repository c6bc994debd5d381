# SIGSTOP of a worker for longer than its lease, then SIGCONT: others do its work, and its late
# pushes are refused.
. "$(dirname "$0")/lib.sh"
write_job 20
start_train
wait_for 30 "the first rows" status ".rows >= 2000"
sleep_past_lease worker-1
finish_train 110
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" ".leases_expired >= 1"
nothing_left

# The documented maximum of partitions on one server. Then two servers with two replicas of each of
# PARTITIONS (300): one server is killed, the other serves all, the job continues, and every push is
# applied exactly once.
. "$(dirname "$0")/lib.sh"
partitions=${PARTITIONS:-300}
write_job 1
sed -i "s/partitions: 8/partitions: 1024/; s/servers: 2/servers: 1/" "$DIR/job.yaml"
start_train --fresh
finish_train 60
[ $STATUS = 0 ] || fail "one server: exit status $STATUS"
audited

write_job 1000 "replicas: 2, log: disk"
sed -i "s/partitions: 8/partitions: $partitions/" "$DIR/job.yaml"
start_train --fresh
whole="[.ledger, .partitions[] | select((.in_sync | length) == 2)] | length == $((partitions + 1))"
wait_for 60 "all replicas to be in sync" status ".rows >= 2000 and ($whole)"
before=$(json "$DIR/status.json" .rows)
victim=$(pid_of server-1) || fail "server-1 does not run"
kill -KILL "$victim"
wait_for 60 "the survivor to have all, and rows to go on" status ".rows > $before + 2000"
wait_for 60 "all replicas to be in sync again" status "$whole"
stop_train 60
[ $STATUS = $STOPPED ] || fail "the drain: exit status $STATUS"
resume_train
finish_train 120
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
nothing_left
echo "1,024 partitions on one server; $partitions on the survivor of two: $(json "$DIR/report.json" .audit.applied) parts, each once"

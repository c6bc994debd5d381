# A job with a single worker survives its kill too.
. "$(dirname "$0")/lib.sh"
write_job 12
start_train --set cluster.workers=1
wait_for 30 "the first rows" status ".rows >= 2000"
kill -KILL "$(pid_of worker-0)"
finish_train 110
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
nothing_left

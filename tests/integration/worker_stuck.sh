# A worker that is stopped for good does not keep a finished job from ending.
. "$(dirname "$0")/lib.sh"
write_job 12
start_train
wait_for 30 "the first rows" status ".rows >= 1000"
kill -STOP "$(pid_of worker-1)"
finish_train 200 # a drain, and time for the passes under a sanitizer on a busy machine
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
nothing_left

# The evaluator's first thread is stopped. The evaluator is named, passes continue, and `weir train`
# ends without it. Every batch is applied once.
. "$(dirname "$0")/lib.sh"
write_job 3 "progress_timeout_ms: 2000"
sed -i 's/batch_ms: 0/batch_ms: 10/' "$DIR/job.yaml"
EVALUATOR='.workers[] | select(.name == "evaluator")'
start_train
wait_for 60 "the first evaluation" grep -qs "pass evaluated pass=0" "$RUN/server-0.log"
victim=$(pid_of evaluator) || fail "the evaluator does not run"
for ((try = 1; ; try++)); do # a stopped thread that holds its library's lock stops the library, too
	[ $try -le 20 ] || fail "the evaluator stood still as a whole, $try times"
	stop_thread "$victim"
	wait_for 60 "the evaluator to be taken for dead" status "$EVALUATOR | .live | not"
	status "$EVALUATOR | .stalled" && break
	release_thread
	wait_for 20 "the evaluator to be back" status "$EVALUATOR | .live"
done
wait_for 20 "weir train to say so" grep -q "evaluator (pid $victim on .*) did not move for .* s, since .* UTC, with the evaluation of pass .: passes go on without it" "$DIR/train.err"
said=$(grep -o "evaluator (pid.*" "$DIR/train.err" | tail -n 1)
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS"
grep -q "the evaluator does not move, the job has ended without it, and it is killed" "$DIR/train.err" || fail "it waited for the evaluator"
grep -q "pass not evaluated" "$RUN/server-0.log" || fail "every pass was evaluated"
holds "$DIR/report.json" '.finished and .workers_stalled >= 1 and ([.stalled[] | select(.name == "evaluator") | .stall.units] == [0])'
audited
release_thread
nothing_left
echo "$said"

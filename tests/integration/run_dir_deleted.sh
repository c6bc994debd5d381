# The run directory is deleted or moved while a job trains. The run ends within seconds and names
# the folder, whatever its processes were about to write.
. "$(dirname "$0")/lib.sh"
for log in memory disk; do
	write_job 1000 "log: $log"
	start_train
	wait_for 30 "the first rows" status ".rows >= 2000"
	[ $log = memory ] && rm -rf "$RUN" || mv "$RUN" "$DIR/elsewhere"
	began=$SECONDS
	finish_train 10
	[ $STATUS = 1 ] || fail "exit status $STATUS"
	told "the run directory $RUN was deleted or moved while the job ran" "$DIR/train.err"
	[ -z "$(left_over)" ] || fail "processes are left: $(left_over)"
	echo "log: $log: it ended after $((SECONDS - began)) s, naming the folder"
done

# A run resumes as a whole or not at all: not without a server's folder, not with servers that would
# not read the kept data, not with one copy instead of several or the reverse, and, with its log in
# memory, not twice from the same checkpoint.
. "$(dirname "$0")/lib.sh"

# refused WORD... -- ARGUMENTS...: `weir train --resume` with these arguments fails, gives the
# reason in its last line, and changes no byte of the run.
refused() {
	local words=() before
	while [ "$1" != -- ]; do words+=("$1"); shift; done
	shift
	before=$(files "$RUN")
	"$WEIR" train "$DIR/job.yaml" --resume "$@" > "$DIR/out" 2> "$DIR/out.err" < /dev/null
	[ $? = 1 ] || fail "not refused: $*"
	told "${words[@]}" "$DIR/out.err"
	[ "$before" = "$(files "$RUN")" ] || fail "something was changed by: $*"
}

# --- Log on disk
write_job 1000 "log: disk"
start_train
wait_for 60 "the first rows" status ".rows >= 2000"
kill -TERM "$TRAIN"
finish_train 30
refused "log on disk" "set cluster.log to disk" -- --set cluster.log=memory
holds "$RUN/run.json" '.servers == 2 and .replicas == 1'
refused "has 1 replica of each partition, and cluster.replicas is 2" "set it to 1" "weir restore" -- --set cluster.replicas=2
mv "$RUN/server-1" "$DIR/kept"
refused "server 1" "$RUN/server-1" "weir restore" -- --set train.passes=1
mkdir "$RUN/server-1"
refused "server 1" "$RUN/server-1" "weir restore" -- --set train.passes=1
rmdir "$RUN/server-1"
mv "$DIR/kept" "$RUN/server-1"
start_train --resume
wait_for 60 "more rows" status ".rows >= 10000"
kill -KILL "$TRAIN"
wait "$TRAIN" 2> /dev/null
for p in $(left_over); do wait_for 10 "process $p to be gone" is_gone "$p"; done
rm -r "$RUN"

# --- Several copies of everything. Another number above one is the same run; one copy is not.
write_job 1000 "log: disk, replicas: 2"
sed -i 's/servers: 2/servers: 3/' "$DIR/job.yaml"
# ends_resumed ARGUMENTS...: resumes, trains more, and is stopped.
ends_resumed() {
	start_train --resume "$@"
	wait_for 60 "its first look" status ".rows >= 1"
	wait_for 60 "more rows" status ".rows >= $(($(json "$DIR/status.json" .rows) + 2000))"
	kill -TERM "$TRAIN"
	finish_train 30
	told "stopped by Terminated" "$DIR/train.err"
	holds "$DIR/report.json" '.audit.double == 0'
}
start_train
wait_for 60 "the first rows" status ".rows >= 2000"
"$WEIR" checkpoint --job "$DIR/job.yaml" > "$DIR/out" || fail "no checkpoint"
kill -TERM "$TRAIN"
finish_train 30
holds "$RUN/run.json" '.servers == 3 and .replicas == 2'
refused "has 2 replicas of each partition, and cluster.replicas is 1" "set it to 2" "weir restore" -- --set cluster.replicas=1
ends_resumed --set cluster.replicas=3
holds "$RUN/run.json" '.replicas == 3'
refused "has 3 replicas of each partition, and cluster.replicas is 1" -- --set cluster.replicas=1
# As an earlier version writes it.
jq 'del(.replicas)' "$RUN/run.json" > "$DIR/earlier.json" && mv "$DIR/earlier.json" "$RUN/run.json"
ends_resumed
holds "$RUN/run.json" '.servers == 3 and (.replicas // 0) == 0'
"$WEIR" restore "$DIR/job.yaml" --from latest > "$DIR/out" 2> "$DIR/out.err" || fail "$(tail -n 1 "$DIR/out.err")"
ends_resumed --set cluster.replicas=1
holds "$RUN/run.json" '.replicas == 1'
rm -r "$RUN"

# --- Log in memory: training since the checkpoint is lost, so the next attempt is a new generation
write_job 1000
start_train
wait_for 60 "the first rows" status ".rows >= 2000"
"$WEIR" checkpoint --job "$DIR/job.yaml" > "$DIR/out" || fail "no checkpoint"
kill -TERM "$TRAIN"
finish_train 30
"$WEIR" restore "$DIR/job.yaml" --from latest > "$DIR/out" 2> "$DIR/out.err" || fail "$(tail -n 1 "$DIR/out.err")"
start_train --resume
wait_for 60 "more rows" status ".rows >= 10000"
kill -TERM "$TRAIN"
finish_train 30
told "stopped by Terminated" "weir restore --from latest" "$DIR/train.err"
refused "nothing of the run" "weir restore" --
"$WEIR" restore "$DIR/job.yaml" --from latest > "$DIR/out" 2> "$DIR/out.err" || fail "$(tail -n 1 "$DIR/out.err")"
holds "$RUN/run.json" '.generation == 3'
start_train --resume
wait_for 60 "rows once more" status ".rows >= 10000"
kill -TERM "$TRAIN"
finish_train 30
holds "$DIR/report.json" '.audit.double == 0'
nothing_left

# A job with replicas goes back to its last checkpoint: by itself when both replicas of a partition
# with logs in memory are killed; on command when the last full log was on a machine that does not
# return. Training continues by itself, and at the end every push of the new generation was applied
# exactly once. Without a checkpoint, the servers and the end of the run say so.
. "$(dirname "$0")/lib.sh"
write_job 12 "replicas: 2, fsync_interval_ms: 50"
sed -i -e 's/servers: 2/servers: 3/' "$DIR/job.yaml"
sed -i '/^  seed: 5/a\  split: {by: crc32, train: 90, valid: 10, test: 0}' "$DIR/job.yaml"
train_on() { wait_for 30 "more rows" status ".rows >= $(($(json "$DIR/status.json" .rows) + 3000))"; }
take_checkpoint() {
	"$WEIR" checkpoint --job "$DIR/job.yaml" --json > "$DIR/checkpoint.json" 2> "$DIR/checkpoint.err" || fail "no checkpoint: $(tail -n 1 "$DIR/checkpoint.err")"
	name=$(json "$DIR/checkpoint.json" .name)
}
said_lost() { grep -qs "$1" "$RUN"/server-*.log; }
# find_pair: sets `both` to the two servers that have partition 7.
find_pair() {
	wait_for 30 "two replicas" status '.partitions[7].in_sync | length == 2'
	both=$(json "$DIR/status.json" '.partitions[7].in_sync[].server')
}
kill_pair() {
	local pids="" server
	for server in $both; do pids+=" $(pid_of "server-$server")" || fail "server-$server does not run"; done
	kill -KILL $pids
}

# --- By itself
start_train --fresh --set cluster.log=memory
wait_for 30 "the first rows" status ".rows >= 3000"
wait_for 30 "all replicas to be in sync" status "$WHOLE"
take_checkpoint
train_on
find_pair
kill_pair
wait_for 30 "the job to go back" status ".generation == 2"
wait_for 30 "weir train to say so" grep -q "the job goes back to checkpoint $name, after .* batches, as generation 2: .* no server has a full log of it any more; .* batches that were trained since are undone" "$DIR/train.err"
said_lost "partition lost" || said_lost "ledger lost" || fail "nothing was lost"
wait_for 30 "the run's file to name it" jq -e ".generation == 2 and .restore == \"$name\"" "$RUN/run.json" > /dev/null
finish_train 120
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" ".finished and .rewinds == 1 and .batches_undone > 0"
ls -d "$RUN"/before-g2/server-* > /dev/null || fail "nothing was put aside"
nothing_left
grep -h "goes back to" "$DIR/train.err"

# --- On command: server b, the only one in sync, loses its folder and does not return
start_train --fresh --set cluster.log=disk --set train.passes=1000 --set train.pace.batch_ms=60
wait_for 30 "the first rows" status ".rows >= 3000"
wait_for 30 "all replicas to be in sync" status "$WHOLE"
take_checkpoint
train_on
find_pair
b=$(json "$DIR/status.json" '.partitions[7].primary')
a=$(for s in $both; do [ "$s" = "$b" ] || echo "$s"; done)
pid_a=$(pid_of server-$a) && pid_b=$(pid_of server-$b) || fail "they do not run"
kill -STOP "$pid_a"
wait_for 30 "the others to go on without server-$a" status "[.partitions[].in_sync[] | select(.server == $a)] | length == 0"
train_on
mv "$RUN/server-$b" "$DIR/lost" && touch "$RUN/server-$b"
kill -KILL "$pid_b"
kill -CONT "$pid_a"
is_not_started_again() { grep -q "server-$b (pid [0-9]*) ended with status 1" "$DIR/train.err"; }
wait_for 30 "server-$b to be given up" is_not_started_again
"$WEIR" rewind "$DIR/job.yaml" > "$DIR/rewind.out" 2> "$DIR/rewind.err" || fail "no rewind: $(tail -n 1 "$DIR/rewind.err")"
grep -q "the job goes back to $name, after .* batches, as generation 2" "$DIR/rewind.out" || fail "$(cat "$DIR/rewind.out")"
wait_for 60 "the job to go back" status ".generation == 2"
wait_for 30 "weir train to say so" grep -q "goes back to" "$DIR/train.err"
grep -h "goes back to" "$DIR/train.err"
train_on
stop_train 20
holds "$DIR/report.json" ".rewinds == 1 and .batches_undone > 0"
nothing_left

# --- Without a checkpoint
rm -rf "$RUN"
start_train --fresh --set cluster.log=memory --set train.pace.batch_ms=60
wait_for 30 "the first rows" status ".rows >= 3000"
wait_for 30 "all replicas to be in sync" status "$WHOLE"
"$WEIR" rewind "$DIR/job.yaml" > "$DIR/out" 2> "$DIR/rewind.err" && fail "it goes back to nothing"
told "holds no checkpoint of this run" "$DIR/rewind.err"
find_pair
kill_pair
wait_for 30 "it to be said" said_lost "no checkpoint.*holds no checkpoint of this run: the job must begin anew"
finish_train 60
[ $STATUS = 1 ] || fail "exit status $STATUS"
grep -q "the job goes back" "$DIR/train.err" && fail "it goes back"
told "was lost: no server has a full log of it any more" "holds no checkpoint of this run" "weir train --fresh" "checkpoint.every_steps" "$DIR/train.err"
nothing_left

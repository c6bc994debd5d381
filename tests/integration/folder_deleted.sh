# Folders of a run are deleted while it trains. Without the data's cache and the checkpoints it
# continues, and the next checkpoint is complete. Without a server's data it ends within seconds, as
# nothing is durable any more. It names the folder and the way back, which works.
. "$(dirname "$0")/lib.sh"
write_job 1000 "log: disk, flush_interval_ms: 600000" # only the log can notice
echo "checkpoint: {every_steps: 100}" >> "$DIR/job.yaml"
written() { [ "$(grep -c "checkpoint written" "$RUN/server-0.log")" -gt "$1" ]; }
start_train
wait_for 60 "a checkpoint" written 0
rm -rf "$RUN/cache" "$RUN/checkpoints"
taken=$(grep -c "checkpoint written" "$RUN/server-0.log")
kill -KILL "$(pid_of worker-0)" # a new worker reads the data again
wait_for 60 "two more checkpoints" written $((taken + 1))
wait_for 60 "worker-0 to train again" status '[.workers[] | select(.name == "worker-0" and .live and .rows > 0)] | length > 0'
"$WEIR" checkpoint verify "$DIR/job.yaml" > "$DIR/out" 2> "$DIR/verify.err" || fail "the latest checkpoint is not whole: $(cat "$DIR/verify.err")"

rm -rf "$RUN/server-1"
began=$SECONDS
finish_train 10
took=$((SECONDS - began))
[ $STATUS = 1 ] || fail "exit status $STATUS"
told server-1 "$RUN/server-1/journal" "was deleted" "weir restore --from latest" "$DIR/train.err"
[ $took -le $((10 * PATIENCE)) ] || fail "it took $took s"
start_train --resume
finish_train 10
told "server 1" "$RUN/server-1" "weir restore" "$DIR/train.err"
"$WEIR" restore "$DIR/job.yaml" --from latest > "$DIR/out" 2> "$DIR/restore.err" || fail "$(tail -n 1 "$DIR/restore.err")"
start_train --resume
wait_for 60 "rows of generation 2" status ".generation == 2 and .rows >= 2000"

kill -TERM "$TRAIN"
finish_train 60
nothing_left
echo "without cache and checkpoints it went on; without a server's data it ended after $took s, and went on from a checkpoint"

# A run starts from the weights of a checkpoint, by name and as the latest in its folder, and scores
# as the restored job does. The checkpoint is incremental, so rows occur twice.
. "$(dirname "$0")/lib.sh"
write_job 60
start_train
wait_for 60 "the first rows" status ".rows >= 20000"
"$WEIR" checkpoint --job "$DIR/job.yaml" > /dev/null || fail "no checkpoint"
wait_for 60 "more rows" status ".rows >= 40000"
"$WEIR" checkpoint --job "$DIR/job.yaml" --json > "$DIR/second.json" || fail "no second checkpoint"
kill -TERM "$TRAIN"
finish_train 30
mv "$RUN" "$DIR/first"
NAME=$(json "$DIR/second.json" .name)

# The checkpoint's score: restored on a server without training.
"$WEIR" restore "$DIR/job.yaml" --from "$NAME" --set "checkpoint.dir=$DIR/first/checkpoints" > /dev/null 2>&1 || fail "not restored"
cp "$DIR/first/generated.tsv" "$RUN"
mkdir "$DIR/by-hand"
at=unix:$DIR/by-hand/0.sock
"$BUILD/weir-server" --job "$DIR/job.yaml" --set "run_dir=$DIR/by-hand" --set "checkpoint.dir=$DIR/first/checkpoints" --set cluster.servers=1 --index 0 \
	--uuid "$(json "$RUN/run.json" .uuid)" --generation 2 --restore "$NAME" --listen "$at" --servers "$at" > "$DIR/by-hand/server.err" 2>&1 &
server=$!
wait_for 30 "the server by hand" grep -q " serving " "$DIR/by-hand/server.err"
"$WEIR" eval --job "$DIR/job.yaml" --set cluster.servers=1 --set "cluster.servers_at=['$at']" --json > "$DIR/restored.json" 2> "$DIR/eval.err" ||
	fail "weir eval: $(cat "$DIR/eval.err")"
kill -KILL "$server"
wait "$server" 2> /dev/null

still=(--set tables.embedding.optimizer.lr=1e-30 --set tables.dense.optimizer.lr=1e-30)
for from in "$DIR/first/checkpoints/$NAME" "$DIR/first/checkpoints/$NAME.json" "$DIR/first/checkpoints"; do
	rm -rf "$RUN"
	start_train --set "train.warm_start=$from" "${still[@]}" --set train.passes=1
	finish_train 100
	[ $STATUS = 0 ] || fail "exit status $STATUS of the warm start from $from"
	jq -es '.[0].auc - .[1].test.auc | fabs < 1e-5' "$DIR/restored.json" "$DIR/report.json" > /dev/null ||
		fail "restored it scored $(jq -c .auc "$DIR/restored.json"), the one started from $from $(jq -c .test "$DIR/report.json")"
done
start_train --set "train.warm_start=$DIR/first/checkpoints/$NAME" --set model.dim=4 --fresh
finish_train 100
[ $STATUS = 1 ] || fail "exit status $STATUS with a checkpoint of another model"
told "$NAME" "model.dim was '8' and is '4'" "$DIR/train.err"
start_train --set "train.warm_start=$DIR/first/checkpoints/$NAME" --set model.dim=4 --accept model.dim --fresh
finish_train 100
[ $STATUS = 1 ] || fail "exit status $STATUS with a checkpoint of another model"
tail -n 1 "$DIR/train.err" | grep -q "$NAME has no table embedding of this shape" || fail "the error does not name checkpoint and table: $(tail -n 1 "$DIR/train.err")"
nothing_left

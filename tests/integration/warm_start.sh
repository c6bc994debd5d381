# The weights of one run start another: exported, then imported by train.warm_start, they score the
# same before training. A file of another model is refused by name.
. "$(dirname "$0")/lib.sh"
write_job 2
start_train
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS"
"$WEIR" export --job "$DIR/job.yaml" --out "$DIR/model.safetensors" > /dev/null 2> "$DIR/export.err" || fail "weir export"
mv "$DIR/report.json" "$DIR/first.json"

start_train --set "train.warm_start=$DIR/model.safetensors" --set tables.embedding.optimizer.lr=1e-30 --set tables.dense.optimizer.lr=1e-30 --set train.passes=1
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS of the warm start"
audited
jq -es '.[0].test.auc - .[1].test.auc | fabs < 1e-5' "$DIR/first.json" "$DIR/report.json" > /dev/null ||
	fail "the first run scored $(jq -c .test "$DIR/first.json"), the one started from it $(jq -c .test "$DIR/report.json")"

# A run killed before its import is done imports again when resumed, and never after that.
still=(--set cluster.log=disk --set tables.embedding.optimizer.lr=1e-30 --set tables.dense.optimizer.lr=1e-30 --set train.passes=1)
for ((tries = 0; ; tries++)); do # on a busy machine the import may end before the kill
	rm -rf "$RUN"
	start_train --set "train.warm_start=$DIR/model.safetensors" "${still[@]}"
	until [ -e "$RUN/server-0/IDENTITY" ]; do kill -0 "$TRAIN" || fail "the run did not begin"; done
	kill -KILL "$TRAIN"
	wait "$TRAIN" 2> /dev/null
	for p in $(left_over); do kill -KILL "$p" 2> /dev/null; wait_for 10 "process $p to be gone" is_gone "$p"; done
	jq -e ".warm_start == \"$DIR/model.safetensors\"" "$RUN/run.json" > /dev/null && break
	[ "$tries" -lt 20 ] || fail "no run could be killed before its import was done"
done
start_train --resume "${still[@]}"
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS of the resumed warm start"
jq -es '.[0].test.auc - .[1].test.auc | fabs < 1e-5' "$DIR/first.json" "$DIR/report.json" > /dev/null ||
	fail "the first run scored $(jq -c .test "$DIR/first.json"), the one resumed in its import $(jq -c .test "$DIR/report.json")"
holds "$RUN/run.json" '.warm_start == ""'
rm -r "$RUN"

start_train --set "train.warm_start=$DIR/model.safetensors" --set model.dim=4
finish_train 100
[ $STATUS = 1 ] || fail "exit status $STATUS with the weights of another model"
tail -n 1 "$DIR/train.err" | grep -q "model.safetensors.*model.dim was '8' and is '4'" || fail "the error does not name the file and both widths: $(tail -n 1 "$DIR/train.err")"
nothing_left

# Unusable run directories and checkpoint places are named with the reason. Two runs cannot share a
# directory.
. "$(dirname "$0")/lib.sh"
write_job 50
: > "$DIR/file"
start_train --set run_dir="$DIR/file/run"
finish_train 10
[ $STATUS = 1 ] || fail "exit status $STATUS"
grep -q "$DIR/file" "$DIR/train.err" || fail "the folder is not named"

start_train
first=$TRAIN
wait_for 30 "the first rows" status ".rows >= 100"
"$WEIR" train "$DIR/job.yaml" > "$DIR/second.out" 2> "$DIR/second.err" && fail "a second run in the same folder"
grep -q "another .weir train.* runs in $RUN" "$DIR/second.err" || fail "the other run is not told: $(cat "$DIR/second.err")"
kill -TERM "$first"
finish_train 12
nothing_left

# A checkpoint place that cannot be opened: each due checkpoint fails once, at the coordinator's
# next check (every 500 ms), not repeatedly.
rm -rf "$RUN"
start_train --set checkpoint.dir=s3:///no-bucket --set checkpoint.every_steps=50
failures() { [ "$(grep -cs "checkpoint failed" "$RUN/server-0.log")" -ge "$1" ]; }
wait_for 60 "checkpoints to fail" failures 6
most=$(grep "checkpoint failed" "$RUN/server-0.log" | cut -d . -f 1 | uniq -c | sort -n | tail -n 1 | awk '{print $1}')
[ "$most" -le 3 ] || fail "$most checkpoints failed in one second"
kill -TERM "$TRAIN"
finish_train 12
nothing_left

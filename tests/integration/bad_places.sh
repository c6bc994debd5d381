# Run directories that cannot be used are named with the reason; two runs do not share one.
. "$(dirname "$0")/lib.sh"
write_job 50
: > "$DIR/file"
start_train --set run_dir="$DIR/file/run"
finish_train 10
[ $STATUS = 1 ] || fail "exit status $STATUS"
grep -q "$DIR/file" "$DIR/train.err" || fail "the folder is not named"

start_train
first=$TRAIN
wait_for 30 "the first rows" trained 100
"$WEIR" train "$DIR/job.yaml" > "$DIR/second.out" 2> "$DIR/second.err" && fail "a second run in the same folder"
grep -q "another .weir train. runs in $RUN" "$DIR/second.err" || fail "the other run is not told: $(cat "$DIR/second.err")"
kill -TERM "$first"
finish_train 12
nothing_left

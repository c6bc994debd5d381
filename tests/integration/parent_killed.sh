# kill -9 of `weir train` itself: no process stays, and the status says so, instead of a failed
# connection.
. "$(dirname "$0")/lib.sh"
write_job 50 "log: disk"
start_train
wait_for 30 "the first rows" status ".rows >= 2000"
kill -KILL "$TRAIN"
all_gone() { [ -z "$(left_over)" ]; }
wait_for 5 "its children to be gone" all_gone
[ -e "$RUN/ledger.address" ] || fail "it could clean up"
"$WEIR" status --job "$DIR/job.yaml" > "$DIR/out" 2> "$DIR/status.err" && fail "a status of what is gone"
told "does not run here" "last wrote at $(date -u +%Y-)" "weir train --resume" "$DIR/status.err"

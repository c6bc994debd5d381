# kill -9 of `weir train` itself: no process stays.
. "$(dirname "$0")/lib.sh"
write_job 50
start_train
wait_for 30 "the first rows" trained 2000
kill -KILL "$TRAIN"
all_gone() { [ -z "$(left_over)" ]; }
wait_for 5 "its children to be gone" all_gone

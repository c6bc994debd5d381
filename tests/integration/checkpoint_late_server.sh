# A checkpoint is asked for while one of two servers has not started yet, as when a run goes on: it
# waits for that server.
. "$(dirname "$0")/lib.sh"
mkdir -p "$RUN"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {servers: 2, partitions: 4, log: disk}
	data: {generate: {rows: 1000, ids: 20000}, batch: 10, unit_batches: 10}
	model: {kind: lr}
JOB
JOB_AT=(--at "unix:$RUN/server-0.sock")
serve() { # serve INDEX
	"$BUILD/weir-server" --job "$DIR/job.yaml" --index "$1" --ready-fd 3 3> "$DIR/ready-$1" 2> "$RUN/server-$1.log" &
	eval "server_$1=$!"
}
serve 0
wait_for 20 "server-0" grep -q READY "$DIR/ready-0"
"$WEIR" checkpoint "${JOB_AT[@]}" > "$DIR/out" 2> "$DIR/checkpoint.err" &
asked=$!
begun() { find "$RUN/checkpoints" -name 'ck-*' 2> /dev/null | grep -q .; }
wait_for 20 "server-0 to begin" begun
serve 1
wait_for 20 "weir checkpoint to end" is_gone $asked
wait $asked || fail "no checkpoint: $(cat "$DIR/checkpoint.err")"
kill -TERM $server_0 $server_1
for pid in $server_0 $server_1; do
	wait_for 20 "a server to end" is_gone "$pid"
done
nothing_left
cat "$DIR/out"

# Two processes claim to be one server. The second is refused while the first lives. If it replaces
# a stopped server, that one ends by itself when it wakes up: its state is old, and the
# coordinator's records name the other.
. "$(dirname "$0")/lib.sh"
write_job 1000 "replicas: 2"
sed -i 's/servers: 2/servers: 3/' "$DIR/job.yaml"
done_so_far() { wait_for 10 "a status" status . && jq '.pass * .units + .committed' "$DIR/status.json"; }

# second COMMAND...: starts server 1 again, with a folder and an address of its own.
second() {
	local uuid coord
	uuid=$(jq -r .uuid "$RUN/run.json")
	coord=$(command_line "$(pid_of server-0)" | grep -o 'cluster.coord=[^ ]*')
	"$BUILD/weir-server" --job "$DIR/job.yaml" --set "run_dir=$DIR/two" --set "$coord" --uuid "$uuid" --index 1 --listen "unix:$DIR/two.sock" \
		--servers "unix:$RUN/server-0.sock,unix:$DIR/two.sock,unix:$RUN/server-2.sock" --ready-fd 3 3> "$DIR/ready" 2>> "$DIR/two.err" &
	SECOND=$!
}

start_train
wait_for 30 "the first rows" status ".rows >= 5000"
wait_for 20 "all replicas to be in sync" status "$WHOLE"
mkdir "$DIR/two"
second
wait_for 20 "the second server 1 to end" is_gone $SECOND
wait $SECOND && fail "two processes are server 1"
told "server 1 of this job lives, at unix:$RUN/server-1.sock" "stop that one first" "$DIR/two.err"
grep -q "record changed" "$DIR/two.err" && fail "a second server 1 has changed the roles"

first=$(pid_of server-1)
kill -STOP "$first"
taken() {
	is_gone "${SECOND:-}" && second
	grep -q READY "$DIR/ready"
}
wait_for 30 "its place to be taken when its lease has ended" taken
wait_for 30 "all replicas to be in sync" status "$WHOLE"
wait_for 20 "pushes to go on" status ".rows >= $(($(json "$DIR/status.json" .rows) + 5000))"
before=$(done_so_far)
kill -CONT "$first"
wait_for 20 "the first server 1 to end" grep -q "server-1 (pid $first) ended with status 1: .*server 1 of this job was started again, at unix:$DIR/two.sock" "$DIR/train.err"
wait_for 20 "pushes to go on" status ".rows >= $(($(json "$DIR/status.json" .rows) + 5000))"
[ "$(done_so_far)" -ge "$before" ] || fail "what was committed is not any more"
wait_for 20 "all replicas to be in sync" status "$WHOLE"
kill -KILL $SECOND
kill -TERM "$TRAIN"
finish_train 20
[ $STATUS = $STOPPED ] || fail "exit status $STATUS"
nothing_left

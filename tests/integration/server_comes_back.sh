# log: memory, and a server that is killed and restarted by hand, empty. Every worker ends at once
# and names the server and the reason, and so does a worker that joins later. After a restart of
# everything, training works as in a new run.
. "$(dirname "$0")/lib.sh"
write_job 50
mkdir "$RUN"
# As `weir train` would.
"$WEIR" datagen --rows 20000 --ids 20000 --seed 3 --out "$RUN/generated.tsv" > /dev/null || fail "no data"
ledger=unix:$RUN/server-0.sock
JOB_AT=(--at $ledger)
serve() {
	"$BUILD/weir-server" --job "$DIR/job.yaml" --index "$1" --ready-fd 3 3> "$DIR/ready-$1" 2>> "$DIR/server-$1.err" &
	eval "server_$1=$!"
	wait_for 10 "server $1" grep -q READY "$DIR/ready-$1"
}
work() {
	"$BUILD/weir-worker" --job "$DIR/job.yaml" --ledger $ledger --name "$1" 2> "$DIR/$1.err" &
	eval "${1//-/_}=$!"
}
anew() {
	for i in 0 1; do
		eval "pid=\$server_$i"
		kill -KILL $pid
		wait $pid 2> /dev/null
	done
	serve 0
	serve 1
}
# ended NAME WORD...: that worker ends with status 1 and a last line that has the words.
ended() {
	local name=$1 pid
	eval "pid=\$${name//-/_}"
	shift
	wait_for 20 "$name to end" is_gone "$pid"
	wait "$pid"
	[ $? = 1 ] || fail "$name did not fail"
	told "$@" "$DIR/$name.err"
}

serve 0
serve 1
work worker-0
work worker-1
wait_for 30 "the first rows" status ".rows >= 2000"

kill -KILL $server_1
wait $server_1 2> /dev/null
serve 1
ended worker-0 "$RUN/server-1.sock" "log: memory" "start it anew"
ended worker-1 "$RUN/server-1.sock" "log: memory" "start it anew"
work worker-2
ended worker-2 "$RUN/server-1.sock" "log: memory"

anew
work worker-3
wait_for 30 "the first rows" status ".rows >= 2000"
kill -KILL $server_0
wait $server_0 2> /dev/null
serve 0
ended worker-3 server-0 "log: memory" "start it anew"
work worker-4
ended worker-4 "server 0 was started again" "log: memory" "start it anew"

anew
work worker-5
wait_for 30 "rows of a job begun anew" status ".rows >= 2000"

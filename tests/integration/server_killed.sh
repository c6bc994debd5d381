# kill -9 of a server (log: memory): everything ends within WITHIN seconds (default 10, or three
# times that for busy machines), and the message names the server and the remedy.
. "$(dirname "$0")/lib.sh"
write_job 50
start_train
wait_for 30 "the first rows" status ".rows >= 2000"
victim=$(pid_of server-1) || fail "server-1 does not run"
kill -KILL "$victim"
killed=$(date +%s%N)
finish_train 12
took=$((($(date +%s%N) - killed) / 1000000))
[ $took -le $((${WITHIN:-30} * 1000)) ] || fail "it took $took ms"
[ $STATUS = 1 ] || fail "exit status $STATUS"
last=$(tail -n 1 "$DIR/train.err")
for word in server-1 "pid $victim" "$RUN/server-1.sock" "signal 9" "log: memory" "run the job again"; do
	case $last in *"$word"*) ;; *) fail "the last line does not say '$word': $last" ;; esac
done
grep -q "server-1.sock" "$RUN/worker-0.log" "$RUN/worker-1.log" || fail "no worker names the server"
holds "$DIR/report.json" ".servers_lost == 1 and (.finished or .audit.ok | not)"
nothing_left
echo "ended $took ms after the kill"

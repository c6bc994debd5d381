# Three servers, two replicas of each partition, and the etcd that `weir train` starts. A server is
# killed in the middle, others take over its partitions, and it returns. At the end every push was
# applied exactly once. Without an etcd a sentence says so, and nothing is touched.
. "$(dirname "$0")/lib.sh"
write_job 10 "replicas: 2"
sed -i 's/servers: 2/servers: 3/' "$DIR/job.yaml"

mkdir "$DIR/bin"
PATH=$DIR/bin "$WEIR" train "$DIR/job.yaml" > "$DIR/out" 2> "$DIR/missing.err" && fail "it trains without an etcd"
told "cluster.replicas is 2" "etcd is not on PATH" "apt-get install etcd-server" "$DIR/missing.err"
[ ! -e "$RUN/run.json" ] || fail "a run was begun"
[ ! -e "$RUN/generated.tsv" ] || fail "data were made for nothing"

told_whole() { grep -c "all 8 partitions, and the ledger, have 2 replicas in sync again" "$DIR/train.err"; }
whole_again() { [ "$(told_whole)" -gt "$before" ]; }

# With its log in memory the server returns empty, even without tables. In this case the ledger's
# server is killed.
for log in disk memory; do
	start_train --fresh --set cluster.log=$log
	wait_for 30 "the first rows" status ".rows >= 5000"
	wait_for 20 "all replicas to be in sync" status "$WHOLE"
	server=$(json "$DIR/status.json" '.partitions[7].primary')
	[ $log = memory ] && server=$(json "$DIR/status.json" .ledger.server)
	victim=$(pid_of server-$server) || fail "server-$server does not run"
	before=$(told_whole)
	kill -KILL "$victim"
	wait_for 20 "its end to be told" \
		grep -q "server-$server (pid $victim) was killed by signal 9 (Killed): it is started again, and others go on with its partitions" "$DIR/train.err"
	wait_for 30 "all replicas to be in sync again" whole_again
	finish_train 60
	[ $STATUS = 0 ] || fail "exit status $STATUS"
	audited
	# With its log on disk a server may return before the others take over.
	holds "$DIR/report.json" ".finished and .servers_lost == 1 and (.partitions_moved > 0 or \"$log\" == \"disk\")"
	nothing_left
	grep "server $server had" "$DIR/train.err"
done

# All are ended by hand: that is reported at once, and no worker is waited for.
start_train --fresh --set train.passes=1000 --set train.pace.batch_ms=60
wait_for 30 "the first rows" status ".rows >= 5000"
for server in 0 1 2; do
	kill -TERM "$(pid_of server-$server)"
	wait_for 20 "the end of server-$server to be told" grep -q "server-$server .*pid.*ended with status 0" "$DIR/train.err"
done
told=$SECONDS
finish_train 30
[ $((SECONDS - told)) -lt 60 ] || fail "it waited $((SECONDS - told)) s for servers that are not started again"
[ $STATUS = 1 ] || fail "exit status $STATUS"
told server-2 "no other server is left" "run the job again" "$DIR/train.err"
nothing_left

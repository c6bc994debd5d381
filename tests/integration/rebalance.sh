# Servers of a job with replicas end for good. `weir rebalance` moves their replicas to live servers
# at once, even during their leases, and lists what it leaves in place, and why. `weir train`
# reports when all copies exist again, whichever server is gone. Every push is applied exactly once.
. "$(dirname "$0")/lib.sh"
write_job 1000 "replicas: 2, log: disk"
sed -i 's/servers: 2/servers: 3/' "$DIR/job.yaml"

# Number of partitions with a replica on server $1.
held() { status . && json "$DIR/status.json" "[.partitions[] | select([.in_sync[].server] | index($1))] | length"; }
has_none() { [ "$(held $1)" = 0 ]; }
rebalance() { "$WEIR" rebalance "$DIR/job.yaml" > "$DIR/rebalance.out" 2> "$DIR/rebalance.err" || fail "rebalance: $(cat "$DIR/rebalance.err")"; }
told_whole() { grep -c "all 8 partitions, and the ledger, have 2 replicas in sync again" "$DIR/train.err"; }
told_more() { [ "$(told_whole)" -gt "$told" ]; }

start_train
wait_for 30 "the first rows" status ".rows >= 5000"
wait_for 20 "all replicas to be in sync" status "$WHOLE"

# An added server takes its share, is killed, and never returns.
first=$(command_line "$(pid_of server-0)")
value() { grep -o -- "$1[ =][^ ]*" <<< "$first" | head -n 1 | cut -c $((${#1} + 2))-; }
"$BUILD/weir-server" --job "$DIR/job.yaml" --index 3 --uuid "$(value --uuid)" --generation 1 --servers "$(value --servers)" --listen "unix:$RUN/server-3.sock" \
	--set "cluster.coord=$(value cluster.coord)" > "$RUN/server-3.log" 2>&1 &
added=$!
takes_part() { rebalance && [ "$(held 3)" = 4 ]; }
wait_for 20 "server 3 to have its share" takes_part
told=$(told_whole)
kill -KILL $added
wait $added 2> /dev/null
rebalance
grep -q "server 3 does not answer: it is waited for, or for the end of its lease" "$DIR/rebalance.err" || fail "it does not say that it waits: $(cat "$DIR/rebalance.err")"
grep -q "partitions.* moved in" "$DIR/rebalance.out" || fail "nothing moved: $(cat "$DIR/rebalance.out")"
[ "$(wc -l < "$DIR/rebalance.out")" = 1 ] || fail "something was left: $(cat "$DIR/rebalance.out")"
cp "$DIR/rebalance.out" "$DIR/added.out"
status "$WHOLE" || fail "replicas are missing"
[ "$(held 3)" = 0 ] || fail "server 3 has something"
for server in 0 1 2; do
	[ "$(held $server)" -ge 5 ] || fail "server $server has $(held $server) replicas"
done
wait_for 20 "all copies to be told of" told_more

# Then the job's first servers, one after another.
for server in 2 1; do
	victim=$(pid_of server-$server)
	kill -TERM "$victim"
	wait_for 20 "its end to be told" grep -q "server-$server (pid $victim) .*: it is not started again" "$DIR/train.err"
	rebalance
	[ $server = 1 ] || status "$WHOLE" || fail "replicas are missing: $(cat "$DIR/rebalance.out")"
	wait_for 10 "server $server to be let go" has_none $server
done
[ "$(held 0)" = 8 ] || fail "server 0 does not have everything"
grep -q "^nothing to do$" "$DIR/rebalance.out" || fail "it does something: $(cat "$DIR/rebalance.out")"
grep -q "^8 partitions and the ledger keep a place on server 1, which is gone: every server that lives has a replica already" "$DIR/rebalance.out" ||
	fail "it does not say what it leaves: $(cat "$DIR/rebalance.out")"

rows=$(json "$DIR/status.json" .rows)
wait_for 20 "pushes to go on" status ".rows >= $((rows + 5000))"
kill -TERM "$TRAIN"
finish_train 20
[ $STATUS = $STOPPED ] || fail "exit status $STATUS"
holds "$DIR/report.json" ".audit.double == 0"
rm -f "$RUN/server-3.sock"
nothing_left
cat "$DIR/added.out" "$DIR/rebalance.out"

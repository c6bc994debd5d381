# Partitions of a job with replicas move while it trains: one primary to another server, then all
# partitions of a server, then back to equal shares. The ledger moves too, and its first server is
# stopped for good. Every push is applied exactly once.
. "$(dirname "$0")/lib.sh"
write_job 1000 "replicas: 2, log: disk"
sed -i 's/servers: 2/servers: 3/' "$DIR/job.yaml"

empty() { status '[.partitions[] | select(.primary == 2 or ([.in_sync[].server] | index(2)))] | length == 0'; }

start_train
wait_for 30 "the first rows" status ".rows >= 5000"
wait_for 20 "all replicas to be in sync" status "$WHOLE"

for to in 2 1; do
	"$WEIR" move 0 $to "$DIR/job.yaml" > "$DIR/move.out" 2> "$DIR/move.err" || fail "move to server $to: $(cat "$DIR/move.err")"
	grep -q "1 partition moved in" "$DIR/move.out" || fail "it does not say that it moved"
	status ".partitions[] | select(.id == 0) | .primary == $to" || fail "partition 0 is not on server $to"
done
"$WEIR" move 0 1 "$DIR/job.yaml" | grep -q "nothing to do" || fail "a move to where it is did something"

"$WEIR" drain 2 "$DIR/job.yaml" > "$DIR/drain.out" 2> "$DIR/drain.err" || fail "drain: $(cat "$DIR/drain.err")"
wait_for 10 "server 2 to have nothing" empty

"$WEIR" rebalance "$DIR/job.yaml" > "$DIR/rebalance.out" 2> "$DIR/rebalance.err" || fail "rebalance: $(cat "$DIR/rebalance.err")"
status '[range(3) as $s | [.partitions[] | select(.primary == $s)] | length] | min >= 2' || fail "primaries are not spread"
wait_for 10 "all replicas to be in sync" status "$WHOLE"

# Two servers are drained at once, without room for both. A drain that reports an empty server is
# right, and one that gives up says why.
drain_too() {
	"$WEIR" drain "$1" "$DIR/job.yaml" > "$DIR/drain-$1.out" 2> "$DIR/drain-$1.err"
	echo "$1 $?" >> "$DIR/drains"
}
drain_too 1 & drains=$!
drain_too 2
wait $drains
while read -r server code; do
	[ "$code" = 0 ] || told "server $server has partition" "given back" "then drain it again" "$DIR/drain-$server.err"
done < "$DIR/drains"
read -r server code <<< "$(tail -n 1 "$DIR/drains")"
holds_nothing() { status "[.partitions[], .ledger | select([.in_sync[].server] | index($server))] | length == 0"; }
[ "$code" != 0 ] || wait_for 10 "server $server to have nothing" holds_nothing
"$WEIR" rebalance "$DIR/job.yaml" > "$DIR/out" 2>&1 || fail "rebalance: $(cat "$DIR/out")"
"$WEIR" move ledger 0 "$DIR/job.yaml" > "$DIR/out" 2>&1 || fail "move of the ledger: $(cat "$DIR/out")"
wait_for 10 "all replicas to be in sync" status "$WHOLE"

"$WEIR" move 8 1 "$DIR/job.yaml" 2> "$DIR/wrong.err" && fail "a partition that is not there moved"
grep -q "there is no partition 8" "$DIR/wrong.err" || fail "it does not say what is wrong"

for to in 2 0; do
	"$WEIR" move ledger $to "$DIR/job.yaml" > "$DIR/ledger.out" 2> "$DIR/ledger.err" || fail "move of the ledger to server $to: $(cat "$DIR/ledger.err")"
	grep -q "^the ledger moved in" "$DIR/ledger.out" || fail "it does not say that the ledger moved: $(cat "$DIR/ledger.out")"
	wait_for 10 "the ledger on server $to" status ".ledger.server == $to" # it refuses calls for a moment
done
"$WEIR" drain 0 "$DIR/job.yaml" > "$DIR/first.out" 2> "$DIR/first.err" || fail "drain of server 0: $(cat "$DIR/first.err")"
grep -q "partitions and the ledger moved in" "$DIR/first.out" || fail "it does not say what moved: $(cat "$DIR/first.out")"
status '.ledger.server != 0 and ([.ledger.in_sync[].server] | index(0) | not)' || fail "the ledger is on server 0: $(json "$DIR/status.json" .ledger)"
wait_for 10 "server 0 to have nothing" grep -q "ledger has moved away" "$RUN/server-0.log"
victim=$(pid_of server-0) rows=$(json "$DIR/status.json" .rows)
kill -TERM "$victim"
wait_for 20 "its end to be told" grep -q "server-0 (pid $victim) .*: it is not started again" "$DIR/train.err"
wait_for 30 "the others to go on" status ".rows >= $((rows + 5000))"

stop_train 30
nothing_left
resume_train
finish_train 60
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" ".finished"
nothing_left
cat "$DIR/move.out" "$DIR/drain.out" "$DIR/rebalance.out" "$DIR/ledger.out" "$DIR/first.out"

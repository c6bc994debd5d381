# Workers come and go while a job runs. Two workers that `weir train` does not know join it and help
# at once. One is asked to leave and does, the other is killed. Every push is applied exactly once,
# whoever had a unit first.
. "$(dirname "$0")/lib.sh"
LEASE_MS=8000
write_job 24
start_train --set train.lr_scale=sqrt
wait_for 30 "the first rows" status ".rows >= 2000"
declare -A JOINED
for name in worker-7 worker-8; do
	"$BUILD/weir-worker" --job "$DIR/job.yaml" --set train.lr_scale=sqrt --ledger "$(cat "$RUN/ledger.address")" --name $name > "$DIR/$name.out" 2> "$DIR/$name.err" &
	JOINED[$name]=$!
done
for name in worker-7 worker-8; do
	wait_for 20 "$name to push" grep -qs "first push" "$DIR/$name.err"
	ms=$(sed -n 's/.*first push.*ms_since_start=\([0-9]*\).*/\1/p' "$DIR/$name.err")
	[ "$ms" -le $((2000 * PATIENCE)) ] || fail "$name was of no use for $ms ms"
done
wait_for 20 "four trainers" status '[.workers[] | select(.live and (.evaluator | not))] | length == 4'
kill -TERM "${JOINED[worker-7]}"
wait "${JOINED[worker-7]}" || fail "worker-7 left with status $?"
kill -KILL "${JOINED[worker-8]}"
wait "${JOINED[worker-8]}" 2> /dev/null
wait_for 20 "both to be missed" status '([.workers[] | select(.name == "worker-7")][0].left) and .workers_lost >= 1'
finish_train 110
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" ".workers_lost == 1 and .servers_lost == 0"
nothing_left

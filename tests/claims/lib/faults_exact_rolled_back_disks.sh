# A server's folder becomes an older copy of itself, repeatedly under load. With two replicas both
# servers are killed, and the one with the old copy starts alone: it puts the copy aside and is
# rebuilt from its peer. With one copy the server is refused by name, and continues with its newest
# folder. The weights are the exact sum of all integer gradients. QUICK=1: 3 rollbacks instead of
# 20, of each kind.
. tests/claims/lib/replicas.sh
rounds=$(pick 3 20)
units=$((rounds * 8 + 20))
[ "$QUICK" = 1 ] && echo "QUICK: $rounds rollbacks of each kind"

more_units() {
	job_says .committed || give_up "no status"
	local committed
	committed=$(jq .committed "$RUN/status.json")
	wait_for 120 "more units" job_says ".committed > $committed + 1 or .committed >= $units - 10"
}
# old_copy SERVER: kills it, copies its folder, restarts it until the copy is old, and kills it
# again.
old_copy() {
	kill_server "$1"
	rm -rf "$WORK/old"
	cp -a "$RUN/server-$1" "$WORK/old" || give_up "no copy"
	start_server "$1"
	wait_for 60 "server-$1 to be back" in_sync
	more_units
	kill_server "$1"
}
not_whole() { [ "$(grep -c "folder not whole" "$RUN/server-$1.log")" -gt "$2" ]; }

with_replicas() { # with_replicas SERVER
	local before
	wait_for 120 "all replicas to be in sync" in_sync
	old_copy "$1"
	kill_server $((1 - $1))
	rm -rf "$RUN/server-$1"
	mv "$WORK/old" "$RUN/server-$1"
	before=$(grep -c "folder not whole" "$RUN/server-$1.log")
	start_server "$1"
	wait_for 60 "server-$1 to put its folder aside" not_whole "$1" "$before"
	start_server $((1 - $1))
}
with_one_copy() { # with_one_copy SERVER
	old_copy "$1"
	mv "$RUN/server-$1" "$WORK/new"
	mv "$WORK/old" "$RUN/server-$1"
	start_server "$1"
	wait "${SERVER[$1]}" && give_up "server-$1 has served an old folder"
	tail -n 1 "$RUN/server-$1.log" | grep -q "has gone back in time" || { tail -n 5 "$RUN/server-$1.log" >&2; give_up "server-$1 does not say why it ends"; }
	rm -rf "$RUN/server-$1"
	mv "$WORK/new" "$RUN/server-$1"
	start_server "$1"
	wait_for 60 "server-$1 to be back" in_sync
}
# one_job REPLICAS FAULT
one_job() {
	local k i
	begin_cluster "rolled-back-$1" 2 "$1" disk "fsync_interval_ms: 20"
	for i in 0 1 2; do start_worker $i $units; done
	wait_for 120 "the first units" job_says ".committed > 0"
	for ((k = 0; k < rounds; k++)); do "$2" $((k % 2)); done
	wait_for 120 "all replicas to be in sync" in_sync
	finish_workers
	exact_sums $units || give_up "$1 replicas: the sums are not exact"
	end_cluster
}
one_job 2 with_replicas
one_job 1 with_one_copy
verdict True "$rounds old folders with two replicas, and $rounds with one copy, were told by name: every weight is the exact sum"

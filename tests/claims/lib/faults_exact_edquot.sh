# Writes of one server after another fail under load: its user's quota is used up, the device is
# full or broken. The server waits, or ends by name and is restarted when the disk works. The
# weights are the exact sum of all integer gradients. QUICK=1: 3 faults instead of 20, with two
# replicas and with one copy.
. tests/claims/lib/bad_disks.sh
rounds=$(pick 3 20)
units=$((rounds * 30 + 20)) # servers must have something to write in every round
[ "$QUICK" = 1 ] && echo "QUICK: $rounds faults with two replicas, and $rounds with one copy"
kinds=(EDQUOT ENOSPC EIO)
waited=0 ended=0

is_dead() { ! kill -0 "${SERVER[$1]}" 2> /dev/null || grep -q '^State:.*Z' "/proc/${SERVER[$1]}/status" 2> /dev/null; }
waits() { [ "$(grep -c "disk full" "$RUN/server-$1.log")" -gt "$2" ]; }
goes_on() { job_says ".committed > $1 or .committed >= $units - 10"; }
goes_on_or_ended() { is_dead "$1" || goes_on "$2"; }
waits_or_ended() { is_dead "$1" || waits "$1" "$2"; }

refuse_writes() { # refuse_writes SERVER KIND
	local before committed
	wait_for 120 "all replicas to be in sync" in_sync
	before=$(grep -c "disk full" "$RUN/server-$1.log")
	committed=$(jq .committed "$RUN/status.json")
	[ "$committed" -lt $((units - 10)) ] || give_up "the job is over after $k of $rounds faults"
	echo "write $2" > "$WORK/bad-server-$1"
	wait_for 120 "server-$1 to wait or to end" waits_or_ended "$1" "$before"
	rm "$WORK/bad-server-$1"
	wait_for 120 "units to go on, or server-$1 to end yet" goes_on_or_ended "$1" "$committed"
	if is_dead "$1"; then
		wait "${SERVER[$1]}"
		[ $? = 1 ] || give_up "server-$1 has ended by a signal"
		grep "^weir-server" "$RUN/server-$1.log" | tail -n 1 | grep -q "storage has failed.*server-$1" || give_up "server-$1 does not name its disk"
		start_server "$1"
		ended=$((ended + 1))
	else
		waited=$((waited + 1))
	fi
	wait_for 120 "units to go on" goes_on "$committed"
}
one_job() { # one_job REPLICAS
	local k i
	begin_cluster "edquot-$1" 2 "$1" disk "fsync_interval_ms: 20, flush_interval_ms: 200"
	for i in 0 1 2; do start_worker $i $units; done
	wait_for 120 "the first units" job_says ".committed > 0"
	for ((k = 0; k < rounds; k++)); do refuse_writes $((k % 2)) "${kinds[k % 3]}"; done
	wait_for 120 "all replicas to be in sync" in_sync
	finish_workers
	exact_sums $units || give_up "$1 replicas: the sums are not exact"
	end_cluster
}
one_job 2
one_job 1
verdict True "$((2 * rounds)) times the disk refused writes, $waited times the server waited, $ended times it ended by name: every weight is the exact sum"

# kill -9, or SIGSTOP and SIGCONT, of servers and workers at random moments under load: three
# servers, with two replicas of everything and logs on disk, then with three replicas and logs in
# memory. Each round is a job whose final weights are the exact sum of all its integer gradients,
# and whose replicas are equal.
. tests/claims/lib/replicas.sh
faults=$(pick 12 300)
units=$(pick 150 400)
[ "$QUICK" = 1 ] && echo "QUICK: $faults faults with each number of replicas instead of 300, shorter jobs"

# Between 0.1 and 3 seconds: some are declared dead.
stop_for_a_while() {
	kill -STOP "$1"
	sleep "$((RANDOM % 3)).$((1 + RANDOM % 9))"
	kill -CONT "$1"
}
disturb() {
	local i=$((RANDOM % 3))
	case $((RANDOM % 4)) in
	0) kill_server $i && start_server $i && server_kills=$((server_kills + 1)) ;;
	1) stop_for_a_while "${SERVER[$i]}" && server_stops=$((server_stops + 1)) ;;
	2) kill -KILL "${WORKER[$i]}" && { wait "${WORKER[$i]}" 2> /dev/null; start_worker $i $units; worker_kills=$((worker_kills + 1)); } ;;
	3) stop_for_a_while "${WORKER[$i]}" && worker_stops=$((worker_stops + 1)) ;;
	esac
}
# A server with its log in memory must copy its data from others before those may die.
may_disturb() { [ "$LOG" = disk ] || in_sync; }
under_load() { job_says ".committed < $units - 13"; }

storm() { # storm REPLICAS LOG
	local done_faults=0 i rounds=0
	server_kills=0 server_stops=0 worker_kills=0 worker_stops=0 LOG=$2
	while [ $done_faults -lt "$faults" ]; do
		rounds=$((rounds + 1))
		begin_cluster "storm-$1-$rounds" 3 "$1" "$2" "scrub_interval_s: 1"
		for i in 0 1 2; do start_worker $i $units; done
		wait_for 60 "the first units" job_says ".committed > 0"
		while [ $done_faults -lt "$faults" ]; do
			wait_for 120 "what was lost to be made good" may_disturb
			wait_for 120 "an answer" status
			under_load || break
			disturb
			done_faults=$((done_faults + 1))
			moment=$(($(jq .committed "$RUN/status.json") + RANDOM % 5))
			wait_for 120 "a random moment" job_says ".committed >= $moment or .committed >= $units - 13"
		done
		finish_workers
		wait_for 60 "all replicas to be in sync" in_sync
		exact_sums $units || give_up "round $rounds: the sums are not exact"
		wait_for 60 "replicas to be compared" job_says ".scrubs.compared > 0"
		job_says ".scrubs.differed == 0" || give_up "round $rounds: replicas differ"
		end_cluster
		rm -rf "$RUN"
	done
	echo "$1 replicas, log in $2: $rounds jobs, $done_faults faults: servers killed $server_kills times, stopped $server_stops times; workers killed $worker_kills," \
		"stopped $worker_stops times; every sum exact"
}
storm 2 disk
storm 3 memory
verdict True "every batch exactly once in every partition, through $faults faults with two replicas and as many with three"

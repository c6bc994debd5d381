# Two servers, three workers. On one worker after another, ptrace stops the compute thread while it
# holds a unit, as a hung device or a debugger does, until others have continued without it. Its
# library lives, so the ledger must notice that the unit makes no progress. (A stopped thread that
# holds its library's lock stops the library too; then the lease expires.) The weights are the exact
# sum of all integer gradients. QUICK=1: five threads instead of 20.
. tests/claims/lib/replicas.sh
need_tests stop_thread
stops=$(pick 5 20) units=$(pick 400 1500)
[ "$QUICK" = 1 ] && echo "QUICK: $stops stopped threads"
worker() { echo ".workers[] | select(.name == \"worker-$1\")"; }
stop_first_thread() { # of worker $1; STOPPER holds it
	rm -f "$RUN/held"
	mkfifo "$RUN/held"
	"$BUILD/tests/stop_thread" "${WORKER[$1]}" < "$RUN/held" > "$RUN/stopped" 2> "$RUN/stop.err" &
	STOPPER=$!
	exec 7> "$RUN/held"
	wait_for 10 "a thread to stop" grep -q stopped "$RUN/stopped"
}

begin_cluster stopped-threads 2 1 memory "progress_timeout_ms: 1000"
for i in 0 1 2; do start_worker $i $units; done
stalled=0
for ((k = 0; k < stops; k++)); do
	i=$((k % 3))
	wait_for 60 "worker-$i to hold a unit" job_says "$(worker $i) | .live and .units_held > 0"
	lost=$(jq .workers_lost "$RUN/status.json") committed=$(jq .committed "$RUN/status.json")
	stop_first_thread $i
	wait_for 60 "worker-$i to be taken for dead" job_says "($(worker $i) | .live | not) and .workers_lost > $lost"
	job_says "$(worker $i) | .stalled and .stall.pid == ${WORKER[$i]} and .stall.units > 0" && stalled=$((stalled + 1))
	wait_for 60 "others to go on" job_says ".committed > $committed or .committed >= $units - 10"
	exec 7>&-
	wait $STOPPER || give_up "the thread of worker-$i has ended"
	wait_for 60 "worker-$i to be back" job_says "$(worker $i) | .live"
done
finish_workers
exact_sums $units || give_up "the sums are not exact"
job_says . || give_up "the job does not answer"
named=$(grep -c "worker stalled name=worker-.* host=.* pid=.* unit=.* since=" "$RUN/server-0.log")
compared=$(cat "$RUN/sums.txt")
end_cluster
verdict "$stalled > $stops / 2 and $named >= $stalled" "$stops stopped compute threads, $stalled found idle and named, the others by their leases; $compared"

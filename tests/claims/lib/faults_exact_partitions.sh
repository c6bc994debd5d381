# Two servers with two replicas of each of many partitions. One server after another is killed under
# load, so that its peer serves all partitions. The weights are the exact sum of all integer
# gradients. QUICK=1: 300 partitions and two kills instead of 300 and 1,024 partitions with eight
# kills each.
. tests/claims/lib/replicas.sh
kills=$(pick 2 8)
units=$((kills * 100 + 10)) # workers must be active at most kills
[ "$QUICK" = 1 ] && echo "QUICK: 300 partitions, $kills kills"

# one_job PARTITIONS LOG
one_job() {
	local k i
	PARTITIONS=$1 begin_cluster "partitions-$1-$2" 2 2 "$2"
	for i in 0 1 2; do start_worker $i $units; done
	wait_for 120 "the first units" job_says ".committed > 0"
	for ((k = 0; k < kills; k++)); do
		wait_for 300 "all replicas to be in sync" in_sync
		kill_server $((k % 2))
		committed=$(jq .committed "$RUN/status.json")
		wait_for 120 "the survivor to serve all $1 partitions" job_says "[.partitions[] | select(.primary == $((1 - k % 2)))] | length == $1"
		wait_for 120 "units to go on" job_says ".committed > $committed or .committed >= $units - 10"
		start_server $((k % 2))
	done
	finish_workers
	exact_sums $units || give_up "$1 partitions: the sums are not exact"
	end_cluster
}
one_job 300 disk
[ "$QUICK" = 1 ] || one_job 1024 memory
verdict True "$kills kills of a server whose peer then had all of $(pick 300 '300, and of 1,024,') partitions: every weight is the exact sum"

# Syncs of one server's log after another's take 4 s under load, with two replicas. Each server is
# left out of the ISR, units continue, and it returns when its disk has recovered. The weights are
# the exact sum of all integer gradients. QUICK=1: 2 slow disks instead of 6.
BAD_UNDER=journal
. tests/claims/lib/bad_disks.sh
rounds=$(pick 2 6)
units=$((rounds * 30 + 40))
[ "$QUICK" = 1 ] && echo "QUICK: $rounds slow disks"
left_out() { job_says "[.partitions[] | select(.primary == $1 or ([.in_sync[].server] | index($1)))] | length == 0"; }

slow_down() { # slow_down SERVER
	local committed
	wait_for 120 "all replicas to be in sync" in_sync
	echo "sync 4000" > "$WORK/bad-server-$1"
	wait_for 60 "server-$1 to be left out" left_out "$1"
	committed=$(jq .committed "$RUN/status.json")
	wait_for 60 "units to go on" job_says ".committed > $committed + 2 or .committed >= $units - 10"
	grep -q "disk slow.*server-$1" "$RUN/server-$1.log" || give_up "server-$1 does not name its disk"
	rm "$WORK/bad-server-$1"
}
begin_cluster gray 2 2 disk "ack: disk, fsync_interval_ms: 20"
for i in 0 1 2; do start_worker $i $units; done
wait_for 120 "the first units" job_says ".committed > 0"
for ((k = 0; k < rounds; k++)); do slow_down $((k % 2)); done
wait_for 120 "all replicas to be in sync" in_sync
finish_workers
exact_sums $units || give_up "the sums are not exact"
end_cluster
verdict True "$rounds times a disk was slow, its server was left out and came back: every weight is the exact sum"

# Broken networks: three servers with two replicas of everything, their etcd and the workers are
# machines of their own. A server with a primary is cut off from the other servers, from the
# workers, from etcd, and from all of them: both ways, and each way alone. Each cut heals under
# load. No partition has two primaries in one epoch, the final weights are the exact sum of all
# integer gradients, replicas are equal, and the logs tell what happened.
. tests/claims/lib/networks.sh
networks tests/claims/lib/replicated_7.sh
. tests/claims/lib/replicas.sh
rounds=$(pick 1 5) hold_s=$(pick 3 8) units=$(pick 1500 6000)
a_cut=$(pick 500 1200) # units: more than are trained during a cut and its healing
[ "$QUICK" = 1 ] && echo "QUICK: every cut once instead of 5 times, each for $hold_s s instead of 8"
for m in server-0 server-1 server-2 etcd workers; do add_machine $m; done
address_of_server() { echo "$(address_of "server-$1"):7000"; }
address_of_etcd() { echo "$(address_of etcd):$([ "$1" = clients ] && echo 2379 || echo 2380)"; }

# The machines that server $victim is cut off from.
peers() { # peers servers|workers|etcd|all
	local i all=
	for i in 0 1 2; do [ $i = "$victim" ] || all="$all server-$i"; done
	case $1 in servers) echo "$all" ;; all) echo "$all" workers etcd ;; *) echo "$1" ;; esac
}
cut_off() { # cut PEERS both|out|in
	local m
	for m in $(peers "$1"); do
		[ "$2" = in ] || cut_way "server-$victim" "$m"
		[ "$2" = out ] || cut_way "$m" "server-$victim"
	done
}

# The logs' lines since `mark`.
mark() { for log in "$RUN"/*.log; do wc -l < "$log" > "$log.mark"; done; }
said() { # said LOG PATTERN
	tail -n "+$(($(cat "$RUN/$1.log.mark") + 1))" "$RUN/$1.log" | grep -q "$2"
}
another_said() { # another_said PATTERN
	local i
	for i in 0 1 2; do [ $i != "$victim" ] && said server-$i "$1" && return 0; done
	return 1
}
committed() { job_says "true" && jq .committed "$RUN/status.json"; }
more_than() { job_says ".committed > $1"; }
somebody_said() { another_said "$1" || said "server-$victim" "$1"; } # of the servers
cut_is_told() { # cut_is_told PEERS
	case $1 in
	servers) another_said "server silent.*server=$victim" && somebody_said "record changed" ;;
	workers) said worker-0 "connection to server $(address_of_server "$victim") is lost" ;;
	etcd) said "server-$victim" "coordinator away" ;;
	all) another_said "server silent.*server=$victim" && another_said "record changed" && said "server-$victim" "coordinator away" ;;
	esac
}
healing_is_told() { # healing_is_told PEERS
	case $1 in
	servers) another_said "server heard again.*server=$victim" && somebody_said "record changed" ;;
	workers) said worker-0 "server $(address_of_server "$victim") answers again" ;;
	etcd) said "server-$victim" "coordinator connected" ;;
	all) another_said "server heard again.*server=$victim" && said "server-$victim" "coordinator connected" ;;
	esac
}

# The story for a reader, from all logs, in order.
story() {
	local log
	for log in "$RUN"/server-*.log "$RUN"/worker-0.log; do
		tail -n "+$(($(cat "$log.mark") + 1))" "$log" | sed "s/ *server-[0-9]: / /; s/ / $(basename "$log" .log) /"
	done | sort | cut -c 1-220
}

# Cuts server $victim off, waits, heals. The next call finds the initial state.
disturb() { # disturb PEERS WAY
	local at progress ms
	victim=$(primary_of $((RANDOM % 8)))
	mark
	cut_off "$1" "$2"
	at=$(committed)
	wait_for 60 "the logs to tell that server $victim is cut off from $1 ($2)" cut_is_told "$1"
	sleep "$hold_s"
	progress=$(($(committed) - at))
	[ "$1" = workers ] || [ $progress -gt 0 ] || give_up "no progress while server $victim was cut off from $1 ($2)"
	at=$(date +%s%N)
	heal_ways
	wait_for 60 "progress after server $victim was cut off from $1 ($2)" more_than "$(committed)"
	ms=$((($(date +%s%N) - at) / 1000000)) slowest=$((ms > slowest ? ms : slowest))
	wait_for 60 "all replicas to be in sync" in_sync
	wait_for 30 "the logs to tell that it is over" healing_is_told "$1"
	echo "server $victim off from $1 ($2): $progress units meanwhile, progress within $ms ms, in sync after $((($(date +%s%N) - at) / 1000000)) ms"
	[ "$1 $2" != "servers both" ] || story > "$WORK/story"
}
under_load() { job_says ".committed < $units - $a_cut"; }

cuts=()
for ((round = 0; round < rounds; round++)); do
	for way in both out in; do
		for who in servers workers etcd all; do cuts+=("$who $way"); done
	done
done
slowest=0 done_cuts=0 jobs=0
: > "$WORK/served"
while [ $done_cuts -lt ${#cuts[@]} ]; do
	jobs=$((jobs + 1))
	begin_cluster "networks-$jobs" 3 2 disk "scrub_interval_s: 1"
	for i in 0 1 2; do start_worker $i "$units"; done
	wait_for 60 "the first units" job_says ".committed > 0"
	while [ $done_cuts -lt ${#cuts[@]} ] && under_load; do
		disturb ${cuts[$done_cuts]}
		done_cuts=$((done_cuts + 1))
	done
	finish_workers
	exact_sums "$units" || give_up "the sums are not exact"
	compared=$(jq .scrubs.compared "$RUN/status.json")
	wait_for 60 "replicas to be compared" job_says ".scrubs.compared > $compared + 100"
	job_says ".scrubs.differed == 0" || give_up "replicas differ"
	for i in 0 1 2; do # job, partition, epoch, server
		sed -n "s/.*partition served partition=\([0-9]*\) epoch=\([0-9]*\).*/$jobs \1 \2 $i/p; s/.*ledger served epoch=\([0-9]*\).*/$jobs ledger \1 $i/p" "$RUN/server-$i.log"
	done | sort -u >> "$WORK/served"
	end_cluster
	rm -rf "$RUN"
done
epochs=$(cut -d' ' -f1-3 < "$WORK/served" | sort -u | wc -l)
twice=$(cut -d' ' -f1-3 < "$WORK/served" | sort | uniq -d | wc -l)
echo "what the logs say of the last cut of a server from the others:"
head -n 20 "$WORK/story"
echo "$done_cuts cuts in $jobs jobs, every sum exact; $epochs epochs of partitions, $twice of them with two primaries; progress $slowest ms after a cut had healed, at the latest"
verdict "$twice == 0 and $slowest <= 10000" "$done_cuts cuts, no partition with two primaries, progress within $slowest ms of healing"

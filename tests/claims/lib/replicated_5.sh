# The cost of replicas: three servers with one, two and three replicas of everything, `ack:
# replicas`. A trainer of integer gradients that only pushes, and the DeepFM job, on loopback in a
# network of their own, whose bytes are counted. Each speed is relative to that with one replica in
# the same round, as the machine's other load changes from minute to minute. The figure is the
# median over the rounds.
. tests/claims/lib/needs.sh
need_installed claims ip
[ "${ALONE:-0}" = 1 ] || { need_namespaces; ALONE=1 exec unshare --map-root-user --net bash -c 'ip link set lo up && exec bash tests/claims/lib/replicated_5.sh'; }
. tests/claims/lib/replicas.sh
TCP=1
rounds=$(pick 2 7) units=$(pick 100 200) rows=$(pick 200000 400000)
[ "$QUICK" = 1 ] && echo "QUICK: $rounds rounds instead of 7, shorter jobs"
deepfm_job "$rows" ", log: memory, ack: replicas"

# median FILE REPLICAS COLUMN
median() { awk -v r="$2" -v c="$3" '$1 == r { print $c }' "$1" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
# Number of times a server was not heard for half a second
silences() { cat "$1"/server-*.log | grep -c "server silent" || true; }
# /sys shows the network in which it was mounted
loopback_bytes() { awk '$1 == "lo:" { print $2 }' /proc/net/dev; }
# Time that the host took from this machine, and the total
processors() { awk '/^cpu / { print $9, $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9 }' /proc/stat; }
# push REPLICAS: adds "REPLICAS MB/S NETWORK-BYTES PUSHED-BYTES IDLE-BYTES/S SILENCES" to
# $WORK/push.txt; without the idle network's bytes
push() {
	local idle before start
	begin_cluster "push-$1-$round" 3 "$1" memory "ack: replicas"
	idle=$(loopback_bytes)
	sleep 5
	idle=$((($(loopback_bytes) - idle) / 5)) # per second: heartbeats, leases
	start_worker 0 "$units"
	exec 9<> "$RUN/gate" # opens the gate for all
	before=$(loopback_bytes) start=$(date +%s%N)
	finish_workers
	status || give_up "no answer"
	echo "$1 $(($(date +%s%N) - start)) $(($(loopback_bytes) - before)) $(figure "$RUN/status.json" bytes.pushed) $idle $(silences "$RUN")" |
		awk '{ print $1, $4 / $2 * 1e3, $3 - $5 * $2 / 1e9, $4, $5, $6 }' >> "$WORK/push.txt"
	end_cluster
	rm -rf "$RUN"
}
# job REPLICAS: adds "REPLICAS SAMPLES/S NETWORK-BYTES PUSHED-BYTES - SILENCES" to $WORK/job.txt
job() {
	local before idle start
	idle=$(median "$WORK/push.txt" "$1" 5) before=$(loopback_bytes) start=$(date +%s%N)
	train "job-$1-$round" "$WORK/deepfm.yaml" --set cluster.listen=127.0.0.1:0 --set cluster.servers=3 --set "cluster.replicas=$1"
	echo "$1 $(figure "$WORK/job-$1-$round.json" samples_per_s) $(($(loopback_bytes) - before - idle * ($(date +%s%N) - start) / 1000000000)) $(figure "$WORK/job-$1-$round.json" bytes.pushed) - $(silences "$WORK/job-$1-$round")" >> "$WORK/job.txt"
	rm -rf "$WORK/job-$1-$round"
}
# of_round FILE UNIT: its last three lines, by replicas.
of_round() { tail -n 3 "$1" | sort | awk -v unit="$2" '{ printf("%s%s: %.0f %s (%d silences)", (NR > 1 ? ", " : ""), $1, $2, unit, $6) }'; }
read -r taken all <<< "$(processors)"
for ((round = 0; round < rounds; round++)); do
	for i in 0 1 2; do push $(((round + i) % 3 + 1)); done
	for i in 0 1 2; do job $(((round + i) % 3 + 1)); done
	echo "round $((round + 1)), by replicas: pushes $(of_round "$WORK/push.txt" MB/s); the job $(of_round "$WORK/job.txt" samples/s)"
done
# speed FILE REPLICAS: median over the rounds, relative to one replica.
speed() {
	paste -d ' ' <(awk '$1 == 1' "$1") <(awk -v r="$2" '$1 == r { print $2 }' "$1") | awk '{ print "-", $NF / $2 }' > "$WORK/speeds"
	printf %.3f "$(median "$WORK/speeds" - 2)"
}
# beyond FILE REPLICAS: additional network bytes over one replica, per byte pushed.
beyond() { awk -v a="$(median "$1" "$2" 3)" -v b="$(median "$1" 1 3)" -v p="$(median "$1" "$2" 4)" 'BEGIN { printf "%.4f", (a - b) / p }'; }
speed_2=$(speed "$WORK/job.txt" 2) beyond_2=$(beyond "$WORK/job.txt" 2) beyond_3=$(beyond "$WORK/job.txt" 3)
echo "$(processors | awk -v taken="$taken" -v all="$all" '{ printf "%.0f %%", ($1 - taken) / ($2 - all) * 100 }') of the processors' time was taken by the host"
echo "pushes: $(median "$WORK/push.txt" 1 2) MB/s with one replica; with two $(speed "$WORK/push.txt" 2) of that, with three $(speed "$WORK/push.txt" 3)"
echo "DeepFM job: $(median "$WORK/job.txt" 1 2) samples/s with one replica; with two $speed_2 of that, with three $(speed "$WORK/job.txt" 3)"
echo "network bytes beyond one replica's, for each byte pushed: the job $beyond_2 with two, $beyond_3 with three;" \
	"pushes in which most parts are of a few rows $(beyond "$WORK/push.txt" 2) and $(beyond "$WORK/push.txt" 3)"
verdict "$speed_2 >= 0.8 and $beyond_2 <= 1.02 and $beyond_3 <= 2.04" \
	"the job with two replicas at $speed_2 of one's speed; $beyond_2 and $beyond_3 network bytes for each pushed"

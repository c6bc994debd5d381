# What replicas cost: three servers with one, two and three replicas of everything, `ack: replicas`. A trainer of integer gradients that does nothing but push, and the
# DeepFM job: on loopback in a network of their own, whose bytes are counted.
[ "${ALONE:-0}" = 1 ] || ALONE=1 exec unshare -rn bash -c 'ip link set lo up && exec bash tests/claims/lib/replicated_5.sh'
. tests/claims/lib/replicas.sh
TCP=1
rounds=$(pick 2 5) units=$(pick 100 300) rows=$(pick 200000 600000)
[ "$QUICK" = 1 ] && echo "QUICK: $rounds rounds instead of 5, shorter jobs"
deepfm_job "$rows" ", log: memory, ack: replicas"

# median FILE REPLICAS COLUMN
median() { awk -v r="$2" -v c="$3" '$1 == r { print $c }' "$1" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
loopback_bytes() { awk '$1 == "lo:" { print $2 }' /proc/net/dev; } # /sys shows the network that it was mounted in
push() { # push REPLICAS: adds "REPLICAS MB/S NETWORK-BYTES PUSHED-BYTES IDLE-BYTES/S" to $WORK/push.txt; what the network has without pushes is not counted
	local idle before start
	begin_cluster "push-$1-$round" 3 "$1" memory "ack: replicas"
	idle=$(loopback_bytes)
	sleep 5
	idle=$((($(loopback_bytes) - idle) / 5)) # a second: hearts, leases
	start_worker 0 "$units"
	exec 9<> "$RUN/gate" # nobody waits at it
	before=$(loopback_bytes) start=$(date +%s%N)
	finish_workers
	status || give_up "no answer"
	echo "$1 $(($(date +%s%N) - start)) $(($(loopback_bytes) - before)) $(figure "$RUN/status.json" bytes.pushed) $idle" |
		awk '{ print $1, $4 / $2 * 1e3, $3 - $5 * $2 / 1e9, $4, $5 }' >> "$WORK/push.txt"
	end_cluster
	rm -rf "$RUN"
}
job() { # job REPLICAS: adds "REPLICAS SAMPLES/S NETWORK-BYTES PUSHED-BYTES" to $WORK/job.txt
	local before idle start
	idle=$(median "$WORK/push.txt" "$1" 5) before=$(loopback_bytes) start=$(date +%s%N)
	train "job-$1-$round" "$WORK/deepfm.yaml" --set cluster.listen=127.0.0.1:0 --set cluster.servers=3 --set "cluster.replicas=$1"
	echo "$1 $(figure "$WORK/job-$1-$round.json" samples_per_s) $(($(loopback_bytes) - before - idle * ($(date +%s%N) - start) / 1000000000)) $(figure "$WORK/job-$1-$round.json" bytes.pushed)" >> "$WORK/job.txt"
	rm -rf "$WORK/job-$1-$round"
}
for ((round = 0; round < rounds; round++)); do
	for i in 0 1 2; do push $(((round + i) % 3 + 1)); done
	for i in 0 1 2; do job $(((round + i) % 3 + 1)); done
done
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / b }'; }
# beyond FILE REPLICAS: bytes of the network beyond one replica's, for each byte pushed
beyond() { awk -v a="$(median "$1" "$2" 3)" -v b="$(median "$1" 1 3)" -v p="$(median "$1" "$2" 4)" 'BEGIN { printf "%.4f", (a - b) / p }'; }
for r in 1 2 3; do
	eval "rate_$r=$(median "$WORK/push.txt" $r 2) job_$r=$(median "$WORK/job.txt" $r 2)"
done
share_2=$(beyond "$WORK/job.txt" 2) share_3=$(beyond "$WORK/job.txt" 3)
echo "pushes: $rate_1 MB/s with one replica; with two $(ratio "$rate_2" "$rate_1") of that, with three $(ratio "$rate_3" "$rate_1")"
echo "DeepFM job: $job_1 samples/s with one replica; with two $(ratio "$job_2" "$job_1") of that, with three $(ratio "$job_3" "$job_1")"
echo "network bytes beyond one replica's, for each byte pushed: the job $share_2 with two, $share_3 with three;" \
	"pushes in which most parts are of a few rows $(beyond "$WORK/push.txt" 2) and $(beyond "$WORK/push.txt" 3)"
verdict "$job_2 >= 0.8 * $job_1 and $share_2 <= 1.02 and $share_3 <= 2.04" \
	"the job with two replicas at $(ratio "$job_2" "$job_1") of one's speed; $share_2 and $share_3 network bytes for each pushed"

# Partitions move while workers push at full speed: three servers, two replicas of everything, logs
# on disk. A random partition moves to a random other server, repeatedly. The pause of a move is the
# longest push of any worker in flight between the command and its end. Then, also under load, a
# server is added and gets its share, and another is drained and stopped for good. The final weights
# of each job are the exact sum of all its integer gradients, and its replicas are equal.
. tests/claims/lib/replicas.sh
moves=$(pick 20 100)
units=${UNITS:-$(pick 200 600)}
[ "$QUICK" = 1 ] && echo "QUICK: $moves moves instead of 100, shorter jobs"

milliseconds() { date +%s%N | sed 's/......$//'; }
under_load() { job_says ".committed < $units - 13"; }
start_workers() {
	local i
	for i in 0 1 2; do start_worker $i $units "$WORK/pushes-$RUN_NAME-$i"; done
	wait_for 60 "the first units" job_says ".committed > 0"
}
begin_job() { # begin_job NAME: workers push
	RUN_NAME=$1
	begin_cluster "$1" 3 2 disk "scrub_interval_s: 1"
	start_workers
}
# Ends the job and checks the result.
end_job() {
	local compared
	finish_workers
	wait_for 60 "all replicas to be in sync" in_sync
	exact_sums $units || give_up "$RUN_NAME: the sums are not exact"
	compared=$(jq .scrubs.compared "$RUN/status.json")
	wait_for 60 "replicas to be compared" job_says ".scrubs.compared > $compared + 100"
	job_says ".scrubs.differed == 0" || give_up "$RUN_NAME: replicas differ"
	end_cluster
	rm -rf "$RUN"
}
layout() { # layout VERB [ARGUMENTS...]: `weir move` and the like
	"$BUILD/weir" "$@" --at "$LEDGER" > "$RUN/layout.out" 2> "$RUN/layout.err" || { cat "$RUN/layout.err" >&2; give_up "weir $* failed"; }
}

# --- Moves, each of a random partition

move() {
	local partition=$((RANDOM % 8)) from to begin
	from=$(primary_of $partition)
	to=$(((from + 1 + RANDOM % 2) % 3))
	jq -e ".partitions[$partition].in_sync | map(.server) | index($to)" "$RUN/status.json" > /dev/null || copies=$((copies + 1))
	begin=$(milliseconds)
	layout move $partition $to
	echo "$begin $(milliseconds)" >> "$WORK/moves"
	[ "$(primary_of $partition)" = "$to" ] || give_up "partition $partition is not on server $to"
}
done_moves=0 jobs=0 copies=0
while [ $done_moves -lt "$moves" ]; do
	jobs=$((jobs + 1))
	begin_job "moves-$jobs"
	while [ $done_moves -lt "$moves" ] && under_load; do
		move
		done_moves=$((done_moves + 1))
	done
	end_job
done
# p50, p99 and maximum: for moves, the longest push in flight; for pushes, those that met no move.
read -r p50 p99 worst pushes quiet_p50 quiet_p99 quiet_worst <<< "$(cat "$WORK"/pushes-moves-* | sort -n | python3 -c '
import sys
moves = [[float(t) for t in line.split()] for line in open(sys.argv[1])]
longest, quiet, pushes = [0.0] * len(moves), [], 0
first = 0
for sent, acknowledged in (map(float, line.split()) for line in sys.stdin):
    pushes += 1
    while first < len(moves) and moves[first][1] < sent:
        first += 1
    met = [i for i in range(first, len(moves)) if moves[i][0] <= acknowledged]
    for i in met:
        longest[i] = max(longest[i], acknowledged - sent)
    if not met:
        quiet.append(acknowledged - sent)
def figures(times):
    times = sorted(times)
    return ["%.0f" % times[min(len(times) - 1, int(len(times) * p))] for p in (.5, .99, 1)]
print(*figures(longest), pushes, *figures(quiet))' "$WORK/moves")"
echo "$done_moves moves in $jobs jobs, $copies of them to a server that had no replica; the longest push of each: $p50 ms (p50), $p99 ms (p99), $worst ms (worst)"
echo "$pushes pushes; those that met no move: $quiet_p50 ms (p50), $quiet_p99 ms (p99), $quiet_worst ms (worst)"

# --- A server is added, another leaves

# Replicas on server $1, and those that are primaries.
share_of() { status && jq -r "[.partitions[] | select(any(.in_sync[]; .server == $1))] as \$r | \"\(\$r | length) \([\$r[] | select(.primary == $1)] | length)\"" "$RUN/status.json"; }
has_share() { [ "$(share_of "$1")" = "$2" ]; }
committed() { status && jq .committed "$RUN/status.json"; }

begin_job grows
"$BUILD/weir-server" --job "$RUN/job.yaml" --index 3 --servers "$LIST" --listen "$(address_of_server 3)" 2>> "$RUN/server-3.log" &
SERVER[3]=$!
joined() { job_says "(.servers | length) == 4 and .servers[3].answered"; }
wait_for 60 "server 3 to be part of the job" joined
layout rebalance
rebalanced=$(tail -n 1 "$RUN/layout.out")
wait_for 60 "all replicas to be in sync" in_sync
for i in 0 1 2 3; do
	has_share $i "4 2" || give_up "after weir rebalance server $i has $(share_of $i) replicas and primaries, not 4 and 2"
done
layout drain 2
drained=$(tail -n 1 "$RUN/layout.out")
wait_for 60 "server 2 to have nothing" has_share 2 "0 0"
kill -TERM "${SERVER[2]}"
wait "${SERVER[2]}" || give_up "server 2 ended with status $?"
unset "SERVER[2]"
at=$(committed)
under_load || give_up "the job ended before the servers had changed: give UNITS, more than $units"
wait_for 60 "units to be committed without server 2" job_says ".committed > $at"
end_job
echo "a server added, then weir rebalance: $rebalanced, 4 replicas and 2 primaries on each of 4 servers"
echo "weir drain: $drained; that server stopped, the job went on to its end without it"
verdict "$p99 <= 200" "$done_moves moves under load, a server added and one drained: every sum exact, replicas equal; a move's pause $p50 ms (p50), $p99 ms (p99)"

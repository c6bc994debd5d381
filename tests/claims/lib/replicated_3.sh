# Failover time of a partition: three servers, two replicas. kill -9 of the primary of one
# partition, while a client pushes into it continuously. Measures the time from the kill to the
# acknowledgement of the interrupted push, which the new primary gives.
. tests/claims/lib/replicas.sh
need_tests push_gaps
kills=$(pick 10 100)
[ "$QUICK" = 1 ] && echo "QUICK: $kills kills instead of 100"
begin_cluster failover 3 2 "${LOG:-disk}"
"$BUILD/tests/push_gaps" "$LEDGER" 0 8 > "$RUN/gaps.txt" 2> "$RUN/gaps.log" &
WORKER[0]=$!

milliseconds() { date +%s%N | sed 's/......$//'; }
# Sets `took`: when another server had become primary, and when the waiting push was acknowledged.
acknowledged_after() { # acknowledged_after MILLISECONDS: the time of the kill
	local served
	served=$(grep -h "partition served partition=0 " "$RUN"/server-*.log | cut -d ' ' -f 1 | sort | date -f - +%s%N | sed 's/......$//' | awk -v at="$1" '$1 > at { print; exit }')
	[ -n "$served" ] || return 1
	took=$(awk -v at="$1" -v served="$served" '$2 > served && $1 <= served { printf "%.0f", $2 - at; exit }' "$RUN/gaps.txt")
	[ -n "$took" ]
}
pushed() { job_says '[.tables[] | .pushes] | add > 0'; }
wait_for 60 "the first pushes" pushed
times=()
for ((k = 0; k < kills; k++)); do
	wait_for 120 "all replicas to be in sync" in_sync
	kill -0 "${WORKER[0]}" 2> /dev/null || { cat "$RUN/gaps.log" >&2; give_up "the client ended after $k kills"; }
	victim=$(primary_of 0)
	at=$(milliseconds)
	kill_server "$victim"
	wait_for 60 "a push to be acknowledged by another server" acknowledged_after "$at"
	times+=("$took")
	start_server "$victim"
done
read -r p50 p99 worst <<< "$(printf '%s\n' "${times[@]}" | sort -n | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)], t[int(NR * .99 + .999)], t[NR] }')"
verdict "$p50 <= 1000 and $p99 <= 3000" "$kills kills of a primary; a push was acknowledged by the new one within $p50 ms (p50), $p99 ms (p99), $worst ms (worst)"

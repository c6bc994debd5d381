# kill -9 of servers at random moments. Each time a part of the data without fsync is removed from
# the folder, as a machine's death would do. Once with `ack: disk`, once with `ack: primary`. The
# audit is exact in both, `primary` repeats batches, and the AUC is within 0.002 of an undisturbed
# run's.
. tests/claims/lib/common.sh
need_programs
need_tests weir_interpose drop_unsynced
# The standard deviation is .001 for one run of 600,000 rows (common.sh), and .0014 for the
# difference of two. The bound is four standard deviations.
kills=$(pick 6 200) apart_most=$(pick 0.006 0.002)
[ "$QUICK" = 1 ] && echo "QUICK: $kills kills on each rung instead of 200, fewer rows and passes, whose AUCs may be $apart_most apart"
click_job "$(pick 600000 1000000)" "$(pick 3 12)"
click_data
SAME_DATA+=("${CONVERGED[@]}")
# Long units and intervals, so that a kill loses something.
SETTINGS=("${SAME_DATA[@]}" --set cluster.log=disk --set data.unit_batches=64 --set cluster.fsync_interval_ms=1000)
train calm "$WORK/click.yaml" "${SETTINGS[@]}"

status() { "$BUILD/weir" status --job "$WORK/click.yaml" --set "run_dir=$WORK/$name" --json 2> /dev/null; }
job_says() { status | jq -e "$1" > /dev/null; }
is_dead() { [ ! -e "/proc/$1" ] || grep -q '^State:[[:space:]]*Z' "/proc/$1/status"; }
running() { kill -0 "$train" 2> /dev/null || { cat "$WORK/$name.err" >&2; give_up "the run ended after $done_kills kills"; }; }
server_pid() { # of server $1; sets `victim`
	running
	victim=$(for p in /proc/[0-9]*; do
		{ tr '\0' ' ' < "$p/cmdline"; } 2> /dev/null | grep -q "weir-server --job $WORK/click.yaml .*--index $1 " && echo "${p#/proc/}" && break
	done)
	[ -n "$victim" ]
}
# The parent pauses while the dead server's folder loses unsynced data.
kill_server() {
	server_pid $((RANDOM % 2)) || return 1
	kill -STOP $train
	kill -KILL "$victim" 2> /dev/null || { kill -CONT $train; return 1; }
	wait_for 10 "server $victim to be dead" is_dead "$victim"
	lost=$("$BUILD/tests/drop_unsynced" "$WORK/traces/$victim" "$WORK/$name" $RANDOM) || { kill -CONT $train; give_up "drop_unsynced failed"; }
	lost_bytes=$((lost_bytes + lost))
	done_kills=$((done_kills + 1))
	rm -f "$WORK/traces/$victim"
	kill -CONT $train
}
storm() { # storm ACK: leaves $WORK/ACK.json, lost_bytes
	name=$1 done_kills=0 lost_bytes=0
	mkdir -p "$WORK/traces"
	LD_PRELOAD="$BUILD/tests/libweir_interpose.so" WEIR_TRACE="$WORK/traces/%p" WEIR_TRACE_ROOT="$WORK/$name" WEIR_TRACE_RANGES=1 \
		"$BUILD/weir" train "$WORK/click.yaml" --report "$WORK/$name.json" --set "run_dir=$WORK/$name" "${SETTINGS[@]}" \
		--set "cluster.ack=$name" > "$WORK/$name.out" 2> "$WORK/$name.err" &
	train=$!
	wait_for 60 "the first rows" job_says ".rows > 0"
	while [ $done_kills -lt "$kills" ]; do
		running
		before=$(status | jq '.rows // 0')
		# A random moment.
		wait_for 120 "more rows" job_says ".rows >= ${before:-0} + $((RANDOM % 8000))"
		wait_for 60 "a server to kill" kill_server
	done
	wait $train || { cat "$WORK/$name.err" >&2; give_up "the run with ack: $name failed"; }
	rm -rf "$WORK/traces"
}
leave_nothing() {
	[ -z "${train:-}" ] || { kill -CONT $train; kill -TERM $train; wait $train; }
	rm -rf "$WORK"
} 2> /dev/null
trap leave_nothing EXIT

expression=True
for ack in disk primary; do
	storm $ack
	f=$WORK/$ack.json
	redone=$(figure "$f" redone_batches)
	echo "ack: $ack: $done_kills kills, $lost_bytes unsynced bytes taken; parts: $(figure "$f" audit.parts_expected) expected," \
		"$(figure "$f" audit.applied) applied, $(figure "$f" audit.missing) missing, $(figure "$f" audit.double) double; $redone batches redone;" \
		"AUC $(figure "$f" test.auc), undisturbed $(figure "$WORK/calm.json" test.auc)"
	expression="$expression and $(figure "$f" audit.ok) and $(figure "$f" servers_lost) >= $kills and abs($(figure "$f" test.auc) - $(figure "$WORK/calm.json" test.auc)) <= $apart_most"
	[ $ack = disk ] || expression="$expression and $redone > 0"
done
verdict "$expression" "every batch exactly once in every partition on both rungs, AUC within $apart_most; what \`primary\` lost was redone"

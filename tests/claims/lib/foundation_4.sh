# kill -9 of one of 3 workers, ten times at random moments, and one stopped past its lease. Checks
# the audit, an exact sum of integer gradients, and an AUC within 0.002 of an undisturbed run.
. tests/claims/lib/common.sh
need_programs
need_tests exact_sum
# The standard deviation is .001 for one run of 600,000 rows (common.sh), and .0014 for the
# difference of two. The bound is four standard deviations.
kills=$(pick 3 10) apart_most=$(pick 0.006 0.002)
[ "$QUICK" = 1 ] && echo "QUICK: $kills kills instead of 10, 600,000 rows instead of 1,500,000, whose AUCs may be $apart_most apart"
click_job "$(pick 600000 1500000)" 3
PACE=(--set train.pace.batch_ms=10) # the job outlasts the kills on any machine
click_data
SAME_DATA+=("${CONVERGED[@]}")
train calm "$WORK/click.yaml" "${SAME_DATA[@]}" "${PACE[@]}" --set cluster.workers=3
name=stormy
"$BUILD/weir" train "$WORK/click.yaml" --report "$WORK/$name.json" --set "run_dir=$WORK/$name" "${SAME_DATA[@]}" "${PACE[@]}" --set cluster.workers=3 > "$WORK/$name.out" 2> "$WORK/$name.err" &
train=$!
stopped_pid=
leave_nothing() {
	[ -z "$stopped_pid" ] || kill -CONT "$stopped_pid"
	kill $train && wait $train
	rm -rf "$WORK"
} 2> /dev/null
trap leave_nothing EXIT
status() { "$BUILD/weir" status --job "$WORK/click.yaml" --set "run_dir=$WORK/$name" --json 2> /dev/null; }
job_says() { status | jq -e "$1" > /dev/null; }
# Sets `victim` to "NAME PID" of a random worker that holds a unit and is not stopped. A finished
# job has none.
find_victim() {
	kill -0 $train 2> /dev/null || give_up "the job ended after $done_kills kills"
	victim=$(status | jq -r --arg stopped "$stopped" --argjson r $RANDOM '
		.workers | map(select(.live and (.evaluator | not) and .units_held > 0 and .name != $stopped))
		| if length > 0 then .[$r % length] | "\(.name) \(.pid)" else empty end')
	[ -n "$victim" ]
}
done_kills=0 stopped=
stop_one() { # while it holds a unit
	find_victim && kill -STOP "${victim#* }" || return 1
	stopped=${victim% *} stopped_pid=${victim#* }
	job_says "any(.workers[]; .name == \"$stopped\" and .units_held > 0)" && return 0
	kill -CONT "$stopped_pid"
	return 1
}
wait_for 60 "a worker to stop in mid-unit" stop_one
while [ $done_kills -lt "$kills" ]; do
	rows=$(status | jq .rows)
	wait_for 60 "more rows" job_says ".rows >= ${rows:-0} + $((RANDOM % 20000))" # a random moment
	wait_for 60 "a worker at work" find_victim
	kill -KILL "${victim#* }" 2> /dev/null && done_kills=$((done_kills + 1))
done
wait_for 60 "the stopped worker's lease to expire" job_says ".leases_expired > 0"
kill -CONT "$stopped_pid"
wait $train || { cat "$WORK/$name.err" >&2; give_up "the disturbed run failed"; }
KILLS=$kills bash tests/integration/exact_sum.sh "$BUILD" > "$WORK/exact.log" 2>&1
exact=$?
tail -n 2 "$WORK/exact.log"
read -r calm stormy <<< "$(figure "$WORK/calm.json" test.auc) $(figure "$WORK/$name.json" test.auc)"
audit="$(figure "$WORK/$name.json" audit.parts_expected) expected, $(figure "$WORK/$name.json" audit.applied) applied, $(figure "$WORK/$name.json" audit.missing) missing, $(figure "$WORK/$name.json" audit.double) double"
lost=$(figure "$WORK/$name.json" workers_lost)
echo "$done_kills kills, one worker stopped past its lease, $lost workers lost; parts: $audit; exact integer sum: status $exact; AUC $stormy, undisturbed $calm"
verdict "$done_kills == $kills and $lost >= $kills and $(figure "$WORK/$name.json" audit.ok) and $exact == 0 and abs($calm - $stormy) <= $apart_most" "exactly once, and the AUC $stormy, undisturbed $calm: within $apart_most"

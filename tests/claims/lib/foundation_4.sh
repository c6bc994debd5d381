# kill -9 of one of 3 workers, ten times at random moments, and one stopped for longer than its lease: the audit, an exact sum of integer
# gradients, and an AUC within 0.002 of an undisturbed run.
. tests/claims/lib/common.sh
need_programs
need_tests exact_sum
kills=$(pick 3 10)
click_job "$(pick 200000 1500000)" 2
click_data
train calm "$WORK/click.yaml" "${SAME_DATA[@]}" --set cluster.workers=3
name=stormy
"$BUILD/weir" train "$WORK/click.yaml" --report "$WORK/$name.json" --set "run_dir=$WORK/$name" "${SAME_DATA[@]}" --set cluster.workers=3 > "$WORK/$name.out" 2> "$WORK/$name.err" &
train=$!
status() { "$BUILD/weir" status --job "$WORK/click.yaml" --set "run_dir=$WORK/$name" --json 2> /dev/null; }
worker_at_work() { # a worker that holds a unit: "NAME PID"; given names come in random order
	status | python3 -c 'import json, random, sys
w = [x for x in json.load(sys.stdin)["workers"] if x["live"] and not x["evaluator"] and x["units_held"] > 0 and x["name"] not in sys.argv[1:]]
x = random.choice(w) if w else None
print(x["name"], x["pid"]) if x else None' "$@" 2> /dev/null
}
done_kills=0 stopped=
for ((tries = 0; tries < 2000 && done_kills < kills; tries++)); do
	kill -0 $train 2> /dev/null || break
	victim=$(worker_at_work ${stopped:+"$stopped"})
	[ -n "$victim" ] || continue
	if [ -z "$stopped" ]; then
		stopped=${victim% *} stopped_pid=${victim#* }
		kill -STOP "$stopped_pid"
		continue
	fi
	sleep "0.$((RANDOM % 5))" # a random moment of its unit
	kill -KILL "${victim#* }" 2> /dev/null && done_kills=$((done_kills + 1))
done
for ((tries = 0; tries < 200; tries++)); do # longer than its lease
	status | python3 -c 'import json, sys; sys.exit(json.load(sys.stdin)["leases_expired"] == 0)' 2> /dev/null && break
	kill -0 $train 2> /dev/null || break
	sleep 0.1
done
[ -n "$stopped" ] && kill -CONT "$stopped_pid" 2> /dev/null
wait $train || { cat "$WORK/$name.err" >&2; give_up "the disturbed run failed"; }
KILLS=$kills bash tests/integration/exact_sum.sh "$BUILD" > "$WORK/exact.log" 2>&1
exact=$?
tail -n 2 "$WORK/exact.log"
read -r calm stormy <<< "$(figure "$WORK/calm.json" test.auc) $(figure "$WORK/$name.json" test.auc)"
audit="$(figure "$WORK/$name.json" audit.parts_expected) expected, $(figure "$WORK/$name.json" audit.applied) applied, $(figure "$WORK/$name.json" audit.missing) missing, $(figure "$WORK/$name.json" audit.double) double"
lost=$(figure "$WORK/$name.json" workers_lost)
echo "$done_kills kills, one worker stopped past its lease, $lost workers lost; parts: $audit; exact integer sum: status $exact; AUC $stormy, undisturbed $calm"
verdict "$done_kills == $kills and $lost >= $kills and $(figure "$WORK/$name.json" audit.ok) and $exact == 0 and abs($calm - $stormy) <= 0.002" "exactly once, and the AUC unchanged within 0.002"

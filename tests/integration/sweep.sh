# A sweep of two runs with two seeds is killed midway and resumes. Finished runs are kept,
# interrupted ones run again, and the result is complete.
. "$(dirname "$0")/lib.sh"
write_job 2
OUT=$DIR/out
RUN=$OUT/run
cat > "$DIR/sweep.yaml" <<-SWEEP
	base: $DIR/job.yaml
	seeds: [1, 2]
	metric: auc
	out: $OUT
	runs:
	- {name: fp32}
	- {name: int8, set: [tables.embedding.push.codec=int8, tables.dense.push.codec=int8, train.pace.batch_ms=20]}
SWEEP

nobody_left() { [ -z "$(left_over)" ]; }
start_sweep() {
	"$WEIR" sweep "$DIR/sweep.yaml" "$@" > "$DIR/sweep.out" 2> "$DIR/sweep.err" < /dev/null &
	TRAIN=$!
}
said() { grep -qF -- "$1" "$DIR/sweep.err"; }
ended_with() { # ended_with STATUS
	finish_train 200
	[ $STATUS = "$1" ] || { cat "$DIR/sweep.err"; fail "exit status $STATUS, not $1"; }
}

# Killed while the third of four trains: none of its processes stay.
start_sweep
wait_for 100 "the third run" said "[3/4] int8, seed 1: begun"
"$WEIR" sweep "$DIR/sweep.yaml" > /dev/null 2> "$DIR/second.err" && fail "two sweeps at once"
told "in use by weir sweep" "$DIR/second.err"
wait_for 20 "the third run's servers" pid_of server-0 > /dev/null
kill -KILL "$TRAIN"
wait "$TRAIN" 2> /dev/null
wait_for 20 "all to end" nobody_left
[ -e "$OUT/int8-1.note.json" ] && fail "what was cut off is said to be finished"
holds "$OUT/results.json" '(.runs[0].seeds | length) == 2 and (.runs[1].seeds | length) == 0'
first=$(sha256sum "$OUT"/fp32-?.json)

# It resumes. The note and the report of a finished run are unchanged.
start_sweep
ended_with 0
said "[1/4] fp32, seed 1: kept, test auc 0." && said "[2/4] fp32, seed 2: kept" || fail "finished runs are not kept"
said "[3/4] int8, seed 1: begun" && said "[4/4] int8, seed 2: finished" || fail "unfinished runs are not run"
[ "$first" = "$(sha256sum "$OUT"/fp32-?.json)" ] || fail "finished runs were run again"
holds "$OUT/results.json" '.metric == "auc" and .part == "test" and ([.runs[].name] == ["fp32", "int8"])'
holds "$OUT/results.json" 'all(.runs[]; (.seeds | length) == 2 and .auc.mean > 0.5 and .auc.min <= .auc.mean and .auc.mean <= .auc.max)'
holds "$OUT/results.json" '.runs[0].times_fewer_bytes == 1 and .runs[1].times_fewer_bytes > 1.1'
holds "$OUT/results.json" 'all(.runs[].seeds[]; [.passes[].pass] == [1, 2] and .passes[0].seconds <= .passes[1].seconds)'
holds "$OUT/results.json" 'all(.runs[].seeds[].passes[]; .rows > 0 and .bytes_pushed > 0 and .bytes_pulled > 0 and .seconds > 0)'
holds "$OUT/results.json" 'all(.runs[].seeds[]; .passes[0].bytes_pushed < .passes[1].bytes_pushed and .passes[1].bytes_pushed <= .bytes_pushed)'
holds "$OUT/results.json" 'all(.runs[].seeds[]; .passes[1].rows == 2 * .passes[0].rows)'
holds "$OUT/fp32-1.json" '.finished and .audit.ok'
[ "$(json "$OUT/fp32-1.json" .test.auc)" != "$(json "$OUT/fp32-2.json" .test.auc)" ] || fail "seeds make no difference"
[ "$(grep -c '^| ' "$OUT/table.md")" = 3 ] || fail "the table: $(cat "$OUT/table.md")"
cmp -s "$OUT/table.md" "$DIR/sweep.out" || fail "the table is not what was printed"
for plot in "$OUT"/metric-{bytes,seconds}.svg; do
	[ "$(grep -c '<polyline ' "$plot")" = 6 ] && grep -q '>int8</text>' "$plot" || fail "not a plot: $(cat "$plot")"
done

# Nothing is left to do until a run's set changes; then only that run repeats. A failing run ends
# the sweep, by name.
start_sweep
ended_with 0
said "begun" && fail "a finished sweep was run again"
sed -i 's/set: .*/set: [train.passes=1]}/; s/seeds: .*/seeds: [2]/' "$DIR/sweep.yaml"
start_sweep
ended_with 0
said "[1/2] fp32, seed 2: kept" && said "[2/2] int8, seed 2: finished" || fail "not what had changed was run"
holds "$OUT/results.json" '[.runs[].seeds[].passes | length] == [2, 1]'
sed -i 's/^- {name: int8.*/- {name: bad, set: ["cluster.listen=no.such.host.invalid:5000", "security.insecure=true"]}\n- {name: good, set: [train.passes=1]}/' "$DIR/sweep.yaml"
start_sweep
ended_with 1
told "run bad, seed 2 ended with status 1" no.such.host.invalid "its log: $OUT/bad-2.log" "$DIR/sweep.err"
said "good, seed" && fail "it went on"
start_sweep --keep-going
ended_with 1
told "1 of 3 runs failed" "$DIR/sweep.err"
said "[3/3] good, seed 2: finished" || fail "it did not go on"
holds "$OUT/results.json" '[.runs[].seeds | length] == [1, 0, 1]'

# A stop is passed on. The base's text counts, too.
sed -i 's/passes: 2/passes: 400/' "$DIR/job.yaml"
start_sweep
wait_for 20 "the first run's servers" pid_of server-0 > /dev/null
kill -TERM "$TRAIN"
ended_with 143
told "stopped by Terminated with 0 of 3 runs finished" "$DIR/sweep.err"
nothing_left

# A search of one synchronous trial at a time is killed three times, and ends with the table of one
# that was not. In parallel no trial is lost, doubled or trained twice. A trial that fails is
# reported. A population takes over checkpoints.
. "$(dirname "$0")/lib.sh"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {servers: 1, workers: 1, partitions: 4, lease_ms: 3001}
	data:
	  generate: {rows: 12000, ids: 20000, seed: 3}
	  batch: 128
	  unit_batches: 8
	  seed: 5
	model: {kind: fm, dim: 4}
	tables:
	  embedding: {optimizer: {kind: adam}, mode: {kind: sync}}
	  dense: {optimizer: {kind: adam}, mode: {kind: sync}}
	train: {passes: 4, seed: 7, threads: 1}
JOB
write_search() { # write_search OUT SEARCH [SPACE]
	cat > "$DIR/sweep.yaml" <<-SWEEP
		base: $DIR/job.yaml
		out: $DIR/$1
		set: [tables.dense.optimizer.lr=1.0e-3]
		search: {$2}
		space:
		  tables.embedding.optimizer.lr: {min: 1.0e-4, max: 3.0e-2, log: true}
		  ${3:-}
	SWEEP
}
nobody_left() { [ -z "$(left_over)" ]; }
start_search() {
	"$WEIR" sweep "$DIR/sweep.yaml" > "$DIR/sweep.out" 2> "$DIR/sweep.err" < /dev/null &
	TRAIN=$!
}
said() { grep -qE -- "$1" "$DIR/sweep.err"; }
ended_with() { # ended_with STATUS
	finish_train 200
	[ $STATUS = "$1" ] || { cat "$DIR/sweep.err"; fail "exit status $STATUS, not $1"; }
}
kill_at() { # kill_at PATTERN SECONDS_OF_TRAINING_SEEN
	start_search
	wait_for 100 "$1" said "$1"
	wait_for 20 "its servers" pid_in_slot
	kill -KILL "$TRAIN"
	wait "$TRAIN" 2> /dev/null
	wait_for 20 "all to end" nobody_left
}
pid_in_slot() { grep -lsF -- "weir-worker" $(printf '/proc/%s/cmdline ' $(left_over)) | grep -q .; }
table_of() { sed "s#$DIR/[a-z]*#OUT#g" "$DIR/$1/table.md"; }

# One at a time: ASHA with rungs at passes 1, 2 and 4.
ASHA='kind: tpe, trials: 4, seed: 2, startup: 2, metric: valid.auc, stop: {kind: asha, eta: 2}'
write_search whole "$ASHA"
start_search
ended_with 0
said "trial 3, pass 1: done" || fail "not four trials"
said "pass 2: goes on from pass 1" && said "pass 4: goes on from pass 2" || fail "no promotions"
holds "$DIR/whole/results.json" '(.trials | length) == 4 and ([.trials[] | select(.state == "trained to the end")] | length) >= 1'
# Each pass of a trial is trained once: a promoted one goes on from its checkpoint.
holds "$DIR/whole/results.json" '[.trials[].passes[] | .samples / .pass] | unique | length == 1'
cmp -s "$DIR/whole/table.md" "$DIR/sweep.out" || fail "the table is not what was printed"
grep -q 'fANOVA.*tables.embedding.optimizer.lr' "$DIR/whole/table.md" || fail "no importance"
for plot in progress parallel; do
	xmllint --noout "$DIR/whole/$plot.svg" 2> /dev/null || grep -q '</svg>' "$DIR/whole/$plot.svg" || fail "not a plot: $plot"
done
"$WEIR" check "$DIR/whole/best.yaml" > "$DIR/check.out" 2>&1 || fail "the best job: $(cat "$DIR/check.out")"

write_search killed "$ASHA"
kill_at "trial 1, pass 1: begun"
kill_at "trial [0-9], pass 2: goes on"
kill_at "trial [0-9], pass 4: goes on"
start_search
ended_with 0
diff <(table_of whole) <(table_of killed) || fail "killed three times, the table differs"
holds "$DIR/killed/results.json" '[.trials[].trial] == [0, 1, 2, 3]'
start_search
ended_with 0
said "begun" && fail "a finished search went on"

# Another search does not go on with this one.
write_search killed "${ASHA/seed: 2/seed: 3}"
start_search
ended_with 1
told "is of another search" "$DIR/killed" "$DIR/sweep.err"

# Two at a time, killed once; the third trial's value is not one of the job.
write_search parallel 'kind: grid, parallel: 2, metric: [valid.auc, bytes], passes: 1' 'model.dim: [4, 5, 2000000, 6]'
sed -i '/embedding.optimizer.lr: /d' "$DIR/sweep.yaml"
kill_at "trial 1, pass 1: begun"
start_search
ended_with 0
said "trial 2, pass 1: FAILED: .*model.dim" || fail "a failed trial is not reported"
holds "$DIR/parallel/results.json" '[.trials[].trial] == [0, 1, 2, 3] and .trials[2].state == "failed"'
holds "$DIR/parallel/results.json" 'all(.trials[] | select(.trial != 2); (.passes | length) == 1)'
[ "$(grep -c '"tell"' "$DIR/parallel/journal.jsonl")" = 3 ] || fail "told: $(cat "$DIR/parallel/journal.jsonl")"
[ -s "$DIR/parallel/pareto.svg" ] || fail "no Pareto front"

# A population of four exploits after each pass.
write_search pbt 'kind: pbt, trials: 4, metric: valid.auc, quantile: 0.25, passes: 3'
start_search
ended_with 0
[ "$(grep -cE "begun from trial [0-9]'s checkpoint of pass [12]" "$DIR/sweep.err")" = 2 ] || fail "not two forks: $(cat "$DIR/sweep.err")"
holds "$DIR/pbt/results.json" 'all(.trials[]; .state == "trained to the end") and ([.trials[].passes[] | .samples / .pass] | unique | length == 1)'
grep -q '^- to pass [123], trial [0-3]: tables.embedding.optimizer.lr=' "$DIR/pbt/table.md" || fail "no schedule"

# A stop is passed on.
write_search stopped 'kind: random, trials: 2, metric: valid.auc, passes: 400'
start_search
wait_for 100 "a trial" said "trial 0, pass 400: begun"
wait_for 20 "its worker" pid_in_slot
kill -TERM "$TRAIN"
ended_with 143
told "stopped by Terminated" "the same command goes on" "$DIR/sweep.err"
nothing_left

# DIN, end to end: a click when the history has an item of the row's group. Some histories are empty. What was saved scores as the run did, weir predict
# gives the same AUC, and the run goes on after its end.
. "$(dirname "$0")/lib.sh"
rows() { # ROWS SEED
	awk -v n="$1" -v seed="$2" 'BEGIN {
		srand(seed); print "item,history,click"
		for (i = 0; i < n; i++) {
			item = int(rand() * 60); has = 0; h = ""
			for (k = int(rand() * 7); k > 0; k--) {
				seen = int(rand() * 60); h = h (h == "" ? "" : "|") "i" seen
				if (seen % 6 == item % 6) has = 1
			}
			printf "i%d,%s,%d\n", item, h, rand() < 0.05 ? 1 - has : has
		}
	}'
}
rows 20000 1 > "$DIR/train.csv"
rows 2000 2 > "$DIR/valid.csv"
rows 2000 3 > "$DIR/test.csv"
cat > "$DIR/job.yaml" <<-JOB
	job: din
	run_dir: $DIR/run
	cluster: {servers: 1, workers: 2, log: disk}
	data:
	  format: csv
	  train: $DIR/train.csv
	  valid: $DIR/valid.csv
	  test: $DIR/test.csv
	  batch: 128
	  unit_batches: 8
	  columns:
	    - {name: item, kind: categorical}
	    - {name: history, kind: sequence, share: item, max_length: 10}
	    - {name: click, kind: label}
	model: {kind: din, dim: 8, hidden: [32], attention: [16], init_std: 0.3}
	tables: {embedding: {optimizer: {kind: adam, lr: 1.0e-2}}, dense: {optimizer: {kind: adam, lr: 5.0e-3}}}
	train: {passes: 8, threads: 1}
JOB
start_train
finish_train 90
[ "$STATUS" = 0 ] || fail "exit status $STATUS"
holds "$DIR/report.json" '.test.auc > 0.93'
"$WEIR" eval "$DIR/job.yaml" --part test --json > "$DIR/eval.json" 2> "$DIR/eval.err" || fail "weir eval"
jq -es '.[0].test.auc - .[1].auc | fabs < 1e-6' "$DIR/report.json" "$DIR/eval.json" > "$DIR/out" || fail "it scores otherwise than its run"
"$WEIR" predict "$DIR/job.yaml" --part test --out "$DIR/scores" > "$DIR/out" 2> "$DIR/predict.err" || fail "weir predict"
[ "$(wc -l < "$DIR/scores")" = 2000 ] || fail "$(wc -l < "$DIR/scores") scores of 2000 rows"
"$WEIR" train --resume "$DIR/job.yaml" --set train.passes=9 --report "$DIR/resumed.json" > "$DIR/out" 2> "$DIR/resume.err" || fail "not resumed"
holds "$DIR/resumed.json" '.audit.missing == 0 and .audit.double == 0'
echo "din: $(jq -c '.test.auc' "$DIR/report.json")"
nothing_left

# Models of several labels, end to end: each task learns its own rule, a task masked in most rows too;
# the report has figures of each, train.best_task names those that come first and choose the weights;
# weir eval and weir predict agree with the run, and a run goes on after its end.
. "$(dirname "$0")/lib.sh"
rows() { # ROWS SEED
	awk -v n="$1" -v seed="$2" 'BEGIN {
		srand(seed); print "user,item,click,buy"
		for (i = 0; i < n; i++) {
			u = int(rand() * 10); v = int(rand() * 10)
			buy = rand() < 0.6 ? "" : (u + 2 * v) % 3 == 0 ? 1 : 0
			printf "u%d,i%d,%d,%s\n", u, v, (u + v + (rand() < 0.1)) % 2, buy
		}
	}'
}
rows 6000 1 > "$DIR/train.csv"
rows 1000 2 > "$DIR/valid.csv"
rows 1000 3 > "$DIR/test.csv"
write_model() { # KIND
	cat > "$DIR/job.yaml" <<-JOB
		job: $1
		run_dir: $DIR/$1
		cluster: {servers: 1, workers: 2, log: disk}
		data:
		  format: csv
		  train: $DIR/train.csv
		  valid: $DIR/valid.csv
		  test: $DIR/test.csv
		  batch: 64
		  unit_batches: 8
		  columns:
		    - {name: user, kind: categorical}
		    - {name: item, kind: categorical}
		    - {name: click, kind: label}
		    - {name: buy, kind: label, missing: masked}
		model: {kind: $1, dim: 8, hidden: [32], task_hidden: [16], experts: 3, init_std: 0.3}
		tables: {embedding: {optimizer: {kind: adam, lr: 2.0e-2}}, dense: {optimizer: {kind: adam, lr: 1.0e-2}}}
		train: {passes: 10, threads: 1, best_task: buy, loss: {task_weights: [1, 2]}}
	JOB
}
for kind in shared_bottom mmoe; do
	write_model $kind
	start_train
	finish_train 60
	[ "$STATUS" = 0 ] || fail "$kind: exit status $STATUS"
	# a click flips in one of ten rows
	holds "$DIR/report.json" '.test.tasks | map(.name) == ["click", "buy"]'
	holds "$DIR/report.json" '.test.tasks[0].auc > 0.8 and .test.tasks[1].auc > 0.95'
	holds "$DIR/report.json" '.test.auc == .test.tasks[1].auc and .test.rows == .test.tasks[1].rows'
	holds "$DIR/report.json" '.test.tasks[0].rows == 1000 and .test.tasks[1].rows > 300 and .test.tasks[1].rows < 500'
	grep -q "'click': AUC 0" "$DIR/train.out" || fail "$kind: the report has no lines of the tasks"
	"$WEIR" eval "$DIR/job.yaml" --part test --json > "$DIR/eval.json" 2> "$DIR/eval.err" || fail "weir eval of $kind"
	jq -es '[.[0].test.tasks, .[1].tasks] | .[0] == .[1]' "$DIR/report.json" "$DIR/eval.json" > "$DIR/out" || fail "$kind scores otherwise than its run"
	"$WEIR" eval "$DIR/job.yaml" --part test --by user --json > "$DIR/sliced.json" 2> "$DIR/eval.err" || fail "weir eval --by of $kind"
	jq -es '.[0].auc == .[1].auc and ([.[0].slices[].rows] | add) == .[1].rows' "$DIR/sliced.json" "$DIR/eval.json" > "$DIR/out" || fail "$kind: slices are not of the task 'buy'"
	"$WEIR" predict "$DIR/job.yaml" --part test --out "$DIR/scores" > "$DIR/out" 2> "$DIR/predict.err" || fail "weir predict of $kind"
	[ "$(grep -c '^[0-9.e-]*,[0-9.e-]*$' "$DIR/scores")" = 1000 ] || fail "$kind: not two scores a row"
	"$WEIR" train --resume "$DIR/job.yaml" --set train.passes=11 --report "$DIR/resumed.json" > "$DIR/out" 2> "$DIR/resume.err" || fail "$kind is not resumed"
	holds "$DIR/resumed.json" '.audit.missing == 0 and .audit.double == 0'
	echo "$kind: $(jq -c '.test.tasks | map({name, auc})' "$DIR/report.json")"
done
"$WEIR" check "$DIR/job.yaml" --set train.best_task=by > "$DIR/check.out" 2>&1 && fail "a task that is no label is taken"
grep -q "train.best_task: is 'by', and data.columns has no such column of kind: label; the nearest is 'buy'" "$DIR/check.out" || fail "the message: $(cat "$DIR/check.out")"
"$WEIR" check "$DIR/job.yaml" --set 'train.loss.task_weights=[1]' > "$DIR/check.out" 2>&1 && fail "one weight of two tasks is taken"
grep -q "train.loss.task_weights: has 1 numbers, and data.columns has 2 of kind: label" "$DIR/check.out" || fail "the message: $(cat "$DIR/check.out")"
nothing_left

# Batch norm with batches of one row is refused with line and key before training. A last batch of
# one row is skipped, with a message.
. "$(dirname "$0")/../integration/lib.sh"
rows() { awk -v n="$1" 'BEGIN { srand(5); for (i = 0; i < n; i++) print (rand() < 0.4 ? 1 : 0), int(rand() * 6) + 1 ":1", int(rand() * 4) + 11 ":1" }'; }
rows 65 > "$DIR/train.svm"
rows 30 > "$DIR/valid.svm"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	data: {format: libsvm, train: $DIR/train.svm, valid: $DIR/valid.svm, batch: 1, fields: 2}
	model: {kind: deepfm, dim: 4, hidden: [8, 4], batch_norm: true}
	tables: {embedding: {optimizer: {kind: adam, lr: 0.05}}, dense: {optimizer: {kind: adam, lr: 0.05}}}
	train: {passes: 2}
JOB
"$WEIR" train "$DIR/job.yaml" > "$DIR/refused.out" 2> "$DIR/refused.err" && fail "it trains batches of one row"
told "job.yaml:3:" "data.batch: is 1, and model.batch_norm" "$DIR/refused.err"
[ ! -e "$RUN" ] || fail "training began"
"$WEIR" train "$DIR/job.yaml" --set model.kind=lr > /dev/null 2>&1 || fail "a model without a tower needs no second row"

start_train --fresh --set data.batch=16 # 65 rows: four batches, and one of a row
finish_train 20
[ "$STATUS" = 0 ] || fail "exit status $STATUS"
grep -q "the last batch of a pass has one row, which model.batch_norm cannot learn from: it is left out" "$DIR/train.err" || fail "it is not said before training"
[ "$(grep -h "batch of one row" "$RUN"/worker-*.log | wc -l)" = 2 ] || fail "a pass leaves out one batch, and says so"
holds "$DIR/report.json" '.finished and .audit.ok and .valid.logloss < 1'
nothing_left
echo "refused by data.batch; of 65 rows one is left out in each pass"

# NaN scores make AUC and logloss undefined, eval and predict fail with their number, and a pass
# with NaN scores is never the best.
. "$(dirname "$0")/../integration/lib.sh"
JOB_AT=(--job "$DIR/job.yaml")
# rows COUNT SEED VALUE: two fields; the first decides the label.
rows() { awk -v n="$1" -v seed="$2" -v value="$3" 'BEGIN { srand(seed); for (i = 0; i < n; i++) {
	a = int(rand() * 6) + 1; print (rand() < a / 7 ? 1 : 0), a ":" value, int(rand() * 4) + 11 ":" value } }'; }
rows 200 1 1 > "$DIR/train.svm"
rows 60 2 1 > "$DIR/valid.svm"
{ rows 40 3 1; rows 7 4 1e22; } > "$DIR/test.svm" # squares of the last rows' values are beyond fp32
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	data: {format: libsvm, train: $DIR/train.svm, valid: $DIR/valid.svm, test: $DIR/test.svm, batch: 16, fields: 2}
	model: {kind: fm, dim: 4}
	tables: {embedding: {optimizer: {kind: adam, lr: 0.05}}, dense: {optimizer: {kind: adam, lr: 0.05}}}
	train: {passes: 3}
JOB

start_train
finish_train 20
[ "$STATUS" = 0 ] || fail "exit status $STATUS"
grep -q "test .*AUC nan .*47 rows, the scores of 7 are no numbers" "$DIR/train.out" || { cat "$DIR/train.out"; fail "the report does not say it"; }
holds "$DIR/report.json" '.test.auc == null and .test.logloss == null and .test.not_numbers == 7 and .valid.not_numbers == 0 and .chosen_by == "auc"'
"$WEIR" eval "$DIR/job.yaml" --json > "$DIR/eval.json" 2> "$DIR/eval.err" && fail "eval ended well"
holds "$DIR/eval.json" '.auc == null and .logloss == null and .calibration == null and .not_numbers == 7'
told "7 of 47 scores of the test part are not numbers" "$DIR/eval.err"
"$WEIR" predict "$DIR/job.yaml" --part test --out "$DIR/p.txt" 2> "$DIR/predict.err" > /dev/null && fail "predict ended well"
told "7 of 47 scores" "$DIR/predict.err"
[ "$(wc -l < "$DIR/p.txt")" = 47 ] && [ "$(grep -c '^nan$' "$DIR/p.txt")" = 7 ] || fail "a line for each row, nan where there is no number"

# With NaN in the validation part, no pass has figures, none is the best, and the last weights are
# kept.
rm -rf "$RUN"
cp "$DIR/test.svm" "$DIR/valid.svm"
start_train
finish_train 20
[ "$STATUS" = 0 ] || fail "exit status $STATUS"
holds "$DIR/report.json" '(has("best_pass") | not) and .weights_pass == 3 and .chosen_by == "last" and ([.passes[] | select(.not_numbers == 7 and .auc == null)] | length == 3)'
grep -q "7 scores of the validation part.* are no numbers" "$DIR/train.err" || fail "train does not say it while it runs"
[ -s "$RUN/best.safetensors" ] || fail "no weights are left"

# Without a single number the run fails, though it keeps the last weights.
rm -rf "$RUN"
rows 20 4 1e22 > "$DIR/valid.svm"
start_train
finish_train 20
[ "$STATUS" = 1 ] || fail "exit status $STATUS"
told "all 20 scores of the validation part are not numbers" "best.safetensors has the last weights" "$DIR/train.err"
[ -s "$RUN/best.safetensors" ] || fail "no weights are left"

# With one class there is no AUC, and the logloss chooses.
rm -rf "$RUN"
rows 60 2 1 | sed 's/^0/1/' > "$DIR/valid.svm"
start_train
finish_train 20
[ "$STATUS" = 0 ] || fail "exit status $STATUS"
grep -q "all rows of the validation part are positive, so that its AUC is undefined: the best pass is chosen by its logloss" "$DIR/train.err" ||
	fail "the choice is not said before training"
holds "$DIR/report.json" '.chosen_by == "logloss" and .best_pass == (.passes | min_by(.logloss) | .pass)'
nothing_left
echo "NaN in, NaN and the number of scores out; never the best"

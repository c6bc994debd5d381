# AUC, logloss and calibration weight rows as training does: rows of weight 0 with wrong labels
# change nothing.
. "$(dirname "$0")/../integration/lib.sh"
# rows SEED: LABEL and two features; the first decides the label.
rows() { awk -v seed="$1" 'BEGIN { srand(seed); for (i = 0; i < 300; i++) {
	a = int(rand() * 6) + 1; print (rand() < a / 7 ? 1 : 0), a ":1", int(rand() * 4) + 11 ":1" } }'; }
rows 1 > "$DIR/train.svm"
rows 2 > "$DIR/valid.svm"
rows 3 > "$DIR/plain.svm"
# The same rows with a copy of each that has the other label and weight 0, and with each third one
# twice, as one row of weight 2.
awk '{ w = NR % 3 ? 1 : 2; label = $1; $1 = label ":" w; print; $1 = (1 - label) ":0"; print }' "$DIR/plain.svm" > "$DIR/weighted.svm"
awk '{ print; if (NR % 3 == 0) print }' "$DIR/plain.svm" > "$DIR/repeated.svm"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	data: {format: libsvm, train: $DIR/train.svm, valid: $DIR/valid.svm, test: $DIR/weighted.svm, batch: 16, fields: 2}
	model: {kind: lr}
	tables: {embedding: {optimizer: {kind: adam, lr: 0.05}}, dense: {optimizer: {kind: adam, lr: 0.05}}}
	train: {passes: 2}
JOB
start_train
finish_train 20
[ "$STATUS" = 0 ] || fail "exit status $STATUS"
"$WEIR" eval "$DIR/job.yaml" --json > "$DIR/weighted.json" || fail "eval of the weighted rows"
"$WEIR" eval "$DIR/job.yaml" --json --set "data.test=$DIR/repeated.svm" > "$DIR/repeated.json" || fail "eval of the repeated rows"
jq -s -e 'def near(f): (.[0] | f) as $a | (.[1] | f) as $b | ($a - $b) * ($a - $b) < 1e-18;
	near(.auc) and near(.logloss) and near(.calibration) and .[0].rows == 600 and .[1].rows == 400' "$DIR/weighted.json" "$DIR/repeated.json" > /dev/null ||
	{ cat "$DIR"/*.json; fail "a weight of 2 is not two rows, or one of 0 not none"; }
holds "$DIR/report.json" '.test.auc > 0.7'
nothing_left
echo "weights 0, 1 and 2 are none, one and two rows"

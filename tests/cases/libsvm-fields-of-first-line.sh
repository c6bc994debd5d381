# Rows with more entries than the first one are used: fields: auto counts the longest row. A longer
# row elsewhere is refused with data.fields as the remedy.
. "$(dirname "$0")/../integration/lib.sh"
cd "$DIR" || exit 1
awk 'BEGIN { for (i = 0; i < 90; i++) print i % 2, 1 + i % 2 ":1", 3 + i % 5 ":1" (i % 10 == 9 ? " 9:1 10:1" : "") }' > train.svm
head -n 1 train.svm > valid.svm
echo "0 1:1 3:1 9:1 10:1 11:1" > longer.svm
cat > job.yaml <<-JOB
	job: fields
	run_dir: $RUN
	data: {format: libsvm, train: train.svm, valid: train.svm, batch: 16}
	model: {kind: fm, dim: 4}
JOB
train() { "$WEIR" train job.yaml --fresh --report report.json "$@" > train.out 2> train.err; }
train || fail "weir train"
holds report.json ".valid.rows == 90 and .bad_lines == 0"
train --set data.valid=valid.svm || fail "a validation part with shorter rows"
holds report.json ".valid.rows == 1"
"$WEIR" predict job.yaml --part test --set data.test=valid.svm --set data.train=gone.svm --out scores.txt > predict.out || fail "the weights do not say how many fields there are"
train --set data.valid=longer.svm && fail "a longer row was left out"
told "longer.svm:1: 5 entries, more than the 4 fields" "set data.fields to 5 or more" train.err
train --set data.valid=longer.svm --set data.fields=5 || fail "data.fields 5"
holds report.json ".valid.rows == 1 and .bad_lines == 0"
nothing_left
echo "90 of 90 rows are taken; a longer one elsewhere is refused"

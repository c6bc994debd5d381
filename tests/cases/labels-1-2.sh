# Labels other than 0, 1 and -1 are refused by value, with the remedy, or read by
# data.positive_above. Data with a single class causes a warning.
. "$(dirname "$0")/../integration/lib.sh"
cd "$DIR" || exit 1
# rows LABEL0 LABEL1: 120 rows; the second entry decides the class.
rows() { awk -v no="$1" -v yes="$2" 'BEGIN { for (i = 0; i < 120; i++) { y = i % 3 == 0; print (y ? yes : no), 1 + i % 7 ":1", 20 + y ":1" } }'; }
rows 1 2 > covtype.svm
rows 2 5 > ratings.svm
rows 0 0.3 > shares.svm
rows -1 +1 > signs.svm
rows 1 1 > ones.svm
cat > job.yaml <<-JOB
	job: labels
	run_dir: $RUN
	data: {format: libsvm, train: covtype.svm, valid: covtype.svm, batch: 16}
	model: {kind: lr}
	tables: {embedding: {optimizer: {lr: 0.1}}}
	train: {passes: 2}
JOB
train() { "$WEIR" train job.yaml --fresh --report "$DIR/report.json" "$@" > train.out 2> train.err; }
train && fail "labels 1 and 2 were taken"
told "covtype.svm:1: the label is 2" data.positive_above train.err
train --set data.train=ratings.svm --set data.valid=[] && fail "ratings were taken"
told "ratings.svm:1: the label is 5" data.positive_above train.err
train --set data.train=shares.svm --set data.valid=[] && fail "labels of 0.3 were taken"
told "shares.svm:1: the label is 0.3" data.positive_above train.err
train --set data.train=signs.svm && fail "a validation part with labels 1 and 2 was taken"
told "covtype.svm:1: the label is 2" train.err
train --set data.positive_above=1.5 || fail "labels above 1.5"
holds report.json ".valid.auc == 1"
train --set data.train=signs.svm --set data.valid=signs.svm || fail "labels -1 and +1"
holds report.json ".valid.auc == 1"
train --set data.train=ones.svm --set data.valid=signs.svm || fail "one class"
grep -q "warning: all 120 rows of data.train are positive" train.err || fail "nobody is warned of one class: $(cat train.err)"
sed 's/ /:0 /' signs.svm > weightless.svm
"$WEIR" check job.yaml --set data.train=weightless.svm --set data.valid=[] > check.out 2> check.err || fail "rows without weight: $(cat check.err)"
grep -q "^note   data.train: no row of data.train has a weight above 0: there is nothing to learn" check.out || fail "nobody is told of rows without weight: $(cat check.out)"
# In a few rows such labels may be slips, so the remaining rows are checked.
head -n 12 covtype.svm > few.svm
train --set data.train=few.svm --set data.valid=[] && fail "8 rows of one class were taken, and 4 left out"
told "all 8 rows of few.svm are positive once 4 bad lines are left out" train.err
train --set data.format=packed --set data.positive_above=1.5 && fail "labels of packed data were to be read"
told data.positive_above packed train.err
# Exported weights do not depend on labels: an export reads none.
start_train --fresh --set data.positive_above=1.5 --set train.passes=1000 --set train.pace.batch_ms=30 --set checkpoint.every_steps=20
wait_for 30 "a checkpoint" compgen -G "$RUN/checkpoints/ck-*.json" > /dev/null
cp -r "$RUN/checkpoints" kept
"$WEIR" export job.yaml --out running.safetensors > export.out 2> export.err || fail "weir export of a job that runs: $(cat export.err)"
[ ! -s export.err ] || fail "an export reads labels: $(cat export.err)"
kill -INT "$TRAIN"
finish_train 20
"$WEIR" export job.yaml --weights kept --out kept.safetensors > export.out 2> export.err && fail "a checkpoint of clicks became a file"
told "kept is a checkpoint, which can only leave as --format hf or peft" export.err
[ "$(wc -l < export.err)" = 1 ] || fail "an export reads labels: $(cat export.err)"
nothing_left
echo "other labels are refused by value, data.positive_above reads them, one class is warned of"

# `weir train --fresh` on data without a training row is refused, and the earlier run stays
# complete.
. "$(dirname "$0")/../integration/lib.sh"

# rows FILE COUNT SEED: libsvm rows whose label follows their first id.
rows() { awk -v n="$2" -v s="$3" 'BEGIN { srand(s); for (i = 0; i < n; i++) { a = int(rand() * 9); print (a > 4), a + 1 ":1", int(rand() * 9) + 11 ":1" } }' > "$1"; }
rows "$DIR/train.svm" 200 1
rows "$DIR/valid.svm" 60 2
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {log: disk}
	data: {format: libsvm, train: $DIR/train.svm, valid: $DIR/valid.svm, batch: 16, fields: 2}
	model: {kind: lr}
JOB
start_train
finish_train 60
[ $STATUS = 0 ] || fail "exit status $STATUS"
[ -e "$RUN/best.safetensors" ] && [ -d "$RUN/server-0" ] || fail "the first run left nothing"
before=$(files "$RUN")

# refused WORD...: the current data is refused, and no file of the run changes.
refused() {
	start_train --fresh
	finish_train 30
	[ $STATUS = 1 ] || fail "exit status $STATUS"
	told "$@" "$DIR/train.err"
	[ "$(files "$RUN" | grep -v cache)" = "$(grep -v cache <<< "$before")" ] || fail "the earlier run was changed"
}
: > "$DIR/train.svm"
refused "there is no row" "$DIR/train.svm"
printf '\n\n\n' > "$DIR/train.svm"
refused "there is no row" "$DIR/train.svm"
for i in 1 2 3 4 5; do echo "a bad line"; done > "$DIR/train.svm" # fewer than data.bad_lines_max
refused "no line of the data is a row" "5 bad lines" "$DIR/train.svm"
rm "$DIR/train.svm"
refused "$DIR/train.svm"
rows "$DIR/train.svm" 200 1
: > "$DIR/valid.svm"
start_train --fresh
finish_train 30
[ $STATUS = 0 ] || [ "$(files "$RUN" | grep -v cache)" = "$(grep -v cache <<< "$before")" ] || fail "a validation part without rows changed the run"
rows "$DIR/valid.svm" 60 2
start_train --fresh
finish_train 60
[ $STATUS = 0 ] || fail "exit status $STATUS with good data"
nothing_left

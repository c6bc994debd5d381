# A job fails if all its batches have NaN gradients, as it learns nothing.
. "$(dirname "$0")/../integration/lib.sh"
awk 'BEGIN { for (i = 0; i < 200; i++) printf "%d %d:1e38 %d:-1e38\n", i % 2, 1 + i % 7, 20 + i % 5 }' > "$DIR/huge.svm"
awk 'BEGIN { for (i = 0; i < 200; i++) printf "%d %d:1 %d:1\n", i % 2, 1 + i % 7, 20 + i % 5 }' > "$DIR/rows.svm"
cat > "$DIR/job.yaml" <<-JOB
	job: nothing
	run_dir: $RUN
	data: {format: libsvm, train: $DIR/huge.svm, valid: $DIR/rows.svm, batch: 16}
	model: {kind: deepfm, hidden: [8], dim: 4}
	train: {passes: 2}
JOB
"$WEIR" train "$DIR/job.yaml" --report "$DIR/report.json" > "$DIR/out" 2> "$DIR/train.err" && fail "a job that learnt nothing is a success"
told "nothing was learnt: the gradients of all 26 batches" "$DIR/train.err"
holds "$DIR/report.json" ".batches_not_finite == 26 and .finished"
"$WEIR" train "$DIR/job.yaml" --set "data.train=[$DIR/huge.svm, $DIR/rows.svm]" > "$DIR/out" 2> "$DIR/train.err" || fail "a job that has some batches left: $(tail -n 1 "$DIR/train.err")"
nothing_left

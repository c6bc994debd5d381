# A run whose best weights are missing or unreadable reports that before it resumes, as its report
# would name a missing file.
. "$(dirname "$0")/../integration/lib.sh"
awk 'BEGIN { for (i = 0; i < 200; i++) printf "%d %d:1 %d:1\n", i % 3 == 0, 1 + i % 7, 20 + i % 5 }' > "$DIR/rows.svm"
cat > "$DIR/job.yaml" <<-JOB
	job: best
	run_dir: $RUN
	cluster: {log: disk}
	data: {format: libsvm, train: $DIR/rows.svm, valid: $DIR/rows.svm, batch: 16}
	model: {kind: fm, dim: 4}
	train: {passes: 2}
JOB
"$WEIR" train "$DIR/job.yaml" > "$DIR/out" 2> "$DIR/train.err" || fail "weir train"
cp "$RUN/best.safetensors" "$DIR/best"
refused() { # WORDS...
	local how
	for how in --dry-run ''; do
		"$WEIR" train --resume "$DIR/job.yaml" $how --set train.passes=3 > "$DIR/out" 2> "$DIR/refused.err" && fail "resumed"
		told "$@" "$DIR/refused.err"
	done
}
rm "$RUN/best.safetensors"
refused "the best weights so far, of pass" "best.safetensors" "Put the file back"
head -c 300 "$DIR/best" > "$RUN/best.safetensors"
refused "cannot be read" "Put the file back"
cp "$DIR/best" "$RUN/best.safetensors"
cp "$RUN/evaluation.json" "$DIR"
: > "$RUN/evaluation.json"
refused evaluation.json
cp "$DIR/evaluation.json" "$RUN"
"$WEIR" train --resume "$DIR/job.yaml" --set train.passes=3 > "$DIR/out" 2> "$DIR/resume.err" || fail "the whole run is not resumed"
rm "$RUN/evaluation.json" "$RUN/best.safetensors" # the remedy in the message
"$WEIR" train --resume "$DIR/job.yaml" --set train.passes=4 --report "$DIR/report.json" > "$DIR/out" 2> "$DIR/resume.err" || fail "it does not go on as told"
audited
holds "$DIR/report.json" ".best_pass == 4"
"$WEIR" eval "$DIR/job.yaml" > "$DIR/out" 2> "$DIR/eval.err" || fail "weir eval"
nothing_left

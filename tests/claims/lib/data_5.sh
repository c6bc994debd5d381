# AUC, PR-AUC, logloss, calibration, GAUC, NDCG@k, recall@k and hit rate@k equal those of
# scikit-learn and NumPy in float64 to 1e-9: on 20 random cases with ties, weights and groups, and
# for `weir eval` on the scores of `weir predict`.
. tests/claims/lib/common.sh
PYTHON_SET=sklearn
need_python numpy scipy sklearn
need_programs
need_tests quality_rows
cases=$("$PYTHON" tests/parity/quality.py cases "$BUILD/tests/quality_rows" --cases 20) || verdict 0 "$cases"
say "$cases"
# rows SEED: 300 groups of 1 to 20 rows whose one feature decides the label. Few features: many ties.
rows() { awk -v seed="$1" 'BEGIN { srand(seed); for (g = 0; g < 300; g++) for (i = int(rand() * 20); i >= 0; i--) {
	f = int(rand() * 12); print (rand() < f / 30 ? 1 : 0), "qid:" g, 1 + f ":1" } }'; }
rows 1 > "$WORK/train.svm"
rows 2 > "$WORK/test.svm"
cat > "$WORK/job.yaml" <<-JOB
	job: groups
	cluster: {partitions: 2}
	data: {format: libsvm, train: $WORK/train.svm, valid: $WORK/test.svm, batch: 32, fields: 1}
	model: {kind: lr}
	tables: {embedding: {optimizer: {kind: adam, lr: 0.05}}, dense: {optimizer: {kind: adam, lr: 0.05}}}
	train: {passes: 2, best_by: gauc, rank_at: [1, 5, 10]}
JOB
train groups "$WORK/job.yaml"
SAME=(--set job=groups --set "run_dir=$WORK/groups")
"$BUILD/weir" eval "$WORK/job.yaml" "${SAME[@]}" --json > "$WORK/eval.json" || give_up "weir eval failed"
"$BUILD/weir" predict "$WORK/job.yaml" "${SAME[@]}" --part valid --out "$WORK/scores.txt" > /dev/null || give_up "weir predict failed"
scored=$("$PYTHON" tests/parity/quality.py eval "$WORK/eval.json" "$WORK/test.svm" "$WORK/scores.txt") || verdict 0 "$scored"
verdict 1 "$cases; $scored (to 1e-9)"

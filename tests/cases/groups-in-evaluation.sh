# Figures by group: a model that knows only which group clicks more has an AUC, and no order within
# a group. train.best_by chooses the weights by such a figure, and a qid of 0 is a group, too.
. "$(dirname "$0")/../integration/lib.sh"
# rows SEED: groups 0 to 19 of 10 rows; feature 1 + group % 2 decides the label.
rows() { awk -v seed="$1" 'BEGIN { srand(seed); for (g = 0; g < 20; g++) for (i = 0; i < 10; i++)
	print (rand() < (g % 2 ? .8 : .2) ? 1 : 0), "qid:" g, 1 + g % 2 ":1" }'; }
rows 1 > "$DIR/train.svm"
rows 2 > "$DIR/valid.svm"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	data: {format: libsvm, train: $DIR/train.svm, valid: $DIR/valid.svm, batch: 16, fields: 1}
	model: {kind: lr}
	tables: {embedding: {optimizer: {kind: adam, lr: 0.05}}, dense: {optimizer: {kind: adam, lr: 0.05}}}
	train: {passes: 2, best_by: gauc, rank_at: [1, 5, 10]}
JOB
start_train
finish_train 20
[ "$STATUS" = 0 ] || fail "exit status $STATUS"
holds "$DIR/report.json" '.chosen_by == "gauc" and .valid.auc > 0.7 and .valid.gauc == 0.5 and .valid.groups == 20 and
	(.valid.at | map(.k)) == [1, 5, 10] and .valid.at[2].recall == 1 and (.valid.buckets | length) == 2'
"$WEIR" eval "$DIR/job.yaml" --json > "$DIR/eval.json" || fail "weir eval --json"
jq -s -e '(.[0].valid | del(.part, .weights)) == (.[1] | del(.part, .weights))' "$DIR/report.json" "$DIR/eval.json" > /dev/null ||
	{ cat "$DIR"/*.json; fail "eval differs from the report"; }
"$WEIR" eval "$DIR/job.yaml" > "$DIR/eval.txt" || fail "weir eval"
for said in 'GAUC 0.5000 (' 'of 20 groups' 'NDCG@5 ' 'recall@10 1.0000' 'PR-AUC ' 'predicted'; do
	grep -qF "$said" "$DIR/eval.txt" || { cat "$DIR/eval.txt"; fail "weir eval does not say '$said'"; }
done
# Without groups the figure is undefined, and the logloss chooses.
sed -i 's/qid:[0-9]* //' "$DIR/train.svm" "$DIR/valid.svm"
start_train --fresh
finish_train 20
holds "$DIR/report.json" '.chosen_by == "logloss" and (.valid | has("gauc") | not)'
grep -q 'the best by its logloss, as the figure of train.best_by is undefined' "$DIR"/*.out || fail "the report does not say why"
nothing_left
echo "figures by group"

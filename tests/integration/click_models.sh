# Every click model, end to end: it learns a product of two fields under noise (lr cannot), its saved
# weights score as the run did and as its formula says, what is exported is what was saved, the run
# goes on after its end, and another model refuses its weights. The models are those that `weir check`
# lists.
. "$(dirname "$0")/lib.sh"
SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
rows() { awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed); for (i = 0; i < n; i++) { a = int(rand() * 8); b = int(rand() * 8); printf "%d %d:1 %d:1\n", (a + b + (rand() < 0.15)) % 2, 1 + a, 11 + b } }'; }
rows 4000 1 > "$DIR/train.svm"
rows 800 2 > "$DIR/valid.svm"
rows 800 3 > "$DIR/test.svm"
write_model() { # KIND
	cat > "$DIR/job.yaml" <<-JOB
		job: $1
		run_dir: $DIR/$1
		cluster: {servers: 1, workers: 2, log: disk}
		data: {format: libsvm, train: $DIR/train.svm, valid: $DIR/valid.svm, test: $DIR/test.svm, batch: 64, unit_batches: 8, fields: 2}
		model: {kind: $1, dim: 8, hidden: [16], bottom: [8], cin: [6, 4], rank: 4, task_hidden: [8], init_std: 0.3}
		tables: {embedding: {optimizer: {kind: adam, lr: 2.0e-2}}, dense: {optimizer: {kind: adam, lr: 1.0e-2}}}
		train: {passes: 4, threads: 1}
	JOB
}
auc() { jq -r '.auc' "$1"; }

write_model nothing
"$WEIR" check "$DIR/job.yaml" > "$DIR/check.out" 2>&1 && fail "a model that is nothing is taken"
models=$(sed -n 's/.*expected one of \([a-z0-9_, ]*\).*/\1/p' "$DIR/check.out" | head -n 1 | tr -d ,)
[ "$(wc -w <<< "$models")" -ge 10 ] || fail "only these models: $models"
other=
for kind in $models; do
	case $kind in ngram | gpt2 | llama) continue ;; din | two_tower) continue ;; esac # din.sh, two_tower.sh
	write_model "$kind"
	start_train
	finish_train 60
	[ "$STATUS" = 0 ] || fail "$kind: exit status $STATUS"
	if [ "$kind" = lr ]; then
		holds "$DIR/report.json" '.test.auc < 0.6'
	else
		holds "$DIR/report.json" '.test.auc > 0.8'
	fi
	"$WEIR" eval "$DIR/job.yaml" --part test --json > "$DIR/eval.json" 2> "$DIR/eval.err" || fail "weir eval of $kind"
	jq -es '.[0].test.auc - .[1].auc | fabs < 1e-6' "$DIR/report.json" "$DIR/eval.json" > /dev/null || fail "$kind scores otherwise than its run: $(auc "$DIR/eval.json")"
	"$WEIR" predict "$DIR/job.yaml" --part test --out "$DIR/scores" > "$DIR/out" 2> "$DIR/predict.err" || fail "weir predict of $kind"
	[ "$(wc -l < "$DIR/scores")" = 800 ] || fail "$kind: $(wc -l < "$DIR/scores") scores of 800 rows"
	"$WEIR" export "$DIR/job.yaml" --out "$DIR/$kind.safetensors" > "$DIR/out" 2> "$DIR/export.err" || fail "weir export of $kind"
	cmp "$DIR/$kind.safetensors" "$DIR/$kind/best.safetensors" || fail "$kind: not the best weights"
	python3 "$SOURCE/tests/parity/click_scores.py" "$DIR/$kind.safetensors" "$DIR/test.svm" "$DIR/scores" || fail "$kind: other scores than by its formula"
	"$WEIR" train --resume "$DIR/job.yaml" --set train.passes=5 --report "$DIR/resumed.json" > "$DIR/out" 2> "$DIR/resume.err" || fail "$kind is not resumed"
	holds "$DIR/resumed.json" '.audit.missing == 0 and .audit.double == 0'
	if [ -n "$other" ]; then
		"$WEIR" train --fresh "$DIR/job.yaml" --set "train.warm_start=$DIR/$other.safetensors" > "$DIR/out" 2> "$DIR/warm.err" && fail "$kind begins with weights of $other"
		told model.kind "$other" "$DIR/warm.err"
	fi
	other=$kind
	echo "$kind: $(jq -c '.test' "$DIR/report.json")"
done
nothing_left

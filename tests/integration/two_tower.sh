# Two towers, end to end: users choose items of their group. Recall among all items is far above that
# of chance, evaluation and prediction agree with it, the saved weights have both towers, and the run
# goes on after its end.
. "$(dirname "$0")/lib.sh"
rows() { # ROWS SEED
	awk -v n="$1" -v seed="$2" 'BEGIN {
		srand(seed); print "user,item,price,bought"
		for (i = 0; i < n; i++) {
			u = int(rand() * 200); v = int(rand() * rand() * 30) * 10 + u % 10
			if (rand() < 0.1) v = int(rand() * 300)
			printf "u%d,i%d,%.3f,1\n", u, v, v / 300
		}
	}'
}
rows 20000 1 > "$DIR/train.csv"
rows 2000 2 > "$DIR/valid.csv"
rows 2000 3 > "$DIR/test.csv"
cat > "$DIR/job.yaml" <<-JOB
	job: towers
	run_dir: $DIR/run
	cluster: {servers: 1, workers: 2, log: disk}
	data:
	  format: csv
	  train: $DIR/train.csv
	  valid: $DIR/valid.csv
	  test: $DIR/test.csv
	  batch: 256
	  unit_batches: 8
	  columns:
	    - {name: user, kind: categorical}
	    - {name: item, kind: categorical}
	    - {name: price, kind: numeric}
	    - {name: bought, kind: label}
	model: {kind: two_tower, dim: 8, hidden: [32], vector: 16, user: [user], item: [item, price], init_std: 0.3}
	tables: {embedding: {optimizer: {kind: adam, lr: 1.0e-2}}, dense: {optimizer: {kind: adam, lr: 5.0e-3}}}
	train: {passes: 6, threads: 1, best_by: recall, rank_at: [30, 5]}
JOB
start_train
finish_train 90
[ "$STATUS" = 0 ] || fail "exit status $STATUS"
# 30 of 300 items are of a user's group, and nine of ten rows
holds "$DIR/report.json" '.test.items == 300 and .test.rows == 2000 and .chosen_by == "recall"'
holds "$DIR/report.json" '.test.at[0].k == 30 and .test.at[0].recall > 0.8 and .test.at[1].recall > 0.2 and .test.at[1].ndcg > 0.1 and .test.logloss < 4.5'
grep -q 'recall@30 0\.' "$DIR/train.out" || fail "the report shows no recall"
"$WEIR" eval "$DIR/job.yaml" --part test --json > "$DIR/eval.json" 2> "$DIR/eval.err" || fail "weir eval"
jq -es '[.[0].test.at, .[1].at] | .[0] == .[1]' "$DIR/report.json" "$DIR/eval.json" > "$DIR/out" || fail "it ranks otherwise than its run"
"$WEIR" eval "$DIR/job.yaml" --by user > "$DIR/out" 2> "$DIR/by.err" && fail "retrieval is sliced"
"$WEIR" predict "$DIR/job.yaml" --part test --out "$DIR/scores" > "$DIR/out" 2> "$DIR/predict.err" || fail "weir predict"
[ "$(wc -l < "$DIR/scores")" = 2000 ] || fail "$(wc -l < "$DIR/scores") scores of 2000 rows"
# the logit is a product of vectors of length 1 over the temperature, 0.1
awk '$1 > 10.001 || $1 < -10.001 { bad = 1 } { sum += $1 } END { exit bad || sum / NR < 3 }' "$DIR/scores" || fail "the scores are no products of unit vectors"
"$WEIR" export "$DIR/job.yaml" --out "$DIR/towers.safetensors" > "$DIR/out" 2> "$DIR/export.err" || fail "weir export"
for name in user.0.weight user.out.weight item.0.weight item.out.bias embedding.values; do
	grep -q "\"$name\"" "$DIR/towers.safetensors" || fail "the weights lack $name"
done
"$WEIR" train --resume "$DIR/job.yaml" --set train.passes=7 --report "$DIR/resumed.json" > "$DIR/out" 2> "$DIR/resume.err" || fail "not resumed"
holds "$DIR/resumed.json" '.audit.missing == 0 and .audit.double == 0'
# With drawn negatives batches of 16 rank far above chance; the examples are counted, not the negatives.
"$WEIR" train "$DIR/job.yaml" --fresh --set data.batch=16 --set data.unit_batches=128 --set model.negatives=64 --set model.negatives_power=0.5 --set train.passes=2 --report "$DIR/drawn.json" > "$DIR/out" 2> "$DIR/drawn.err" || fail "not with negatives"
holds "$DIR/drawn.json" '.audit.missing == 0 and .audit.double == 0 and .rows == 40000 and .test.at[0].recall > 0.6'
echo "two_tower: $(jq -c '.test.at' "$DIR/report.json")"
nothing_left

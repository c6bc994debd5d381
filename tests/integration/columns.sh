# A job with every kind of column trains from CSV: what the columns say is learnt, scales are found
# once and kept, and predictions use them whatever becomes of the training data.
. "$(dirname "$0")/lib.sh"
cd "$DIR" || exit 1
# A click depends on the age's bucket, on the largest of a row's tags, and on a number far from 0.
awk 'BEGIN {
	srand(7); print "day;age;colour;tags;seen;price;click"
	for (i = 0; i < 12000; i++) {
		age = 10 + int(rand() * 60); c = int(rand() * 4); n = int(rand() * 4); tags = ""; hot = 0
		for (k = 0; k < n; k++) { t = int(rand() * 8); hot = hot || t == 3; tags = tags (k ? "|" : "") "t" t }
		price = 100000 + 50 * rand(); z = (age >= 30 && age < 40 ? 2 : -1) + (hot ? 2 : -0.5) + (price - 100025) / 15 + (c == 1 ? 1 : 0)
		printf "%d.1.2026 08:%02d;%s;%s;%s;%s;%s;%d\n", 1 + int(i / 1000), i % 60, (i % 50 ? age : ""), (i % 40 ? "c" c : ""), tags, "t" int(rand() * 8), (i % 30 ? sprintf("%.2f", price) : ""), rand() < 1 / (1 + exp(-z))
	}
}' > log.csv
printf 'c0\nc1\nc2\n' > colours.txt
cat > job.yaml <<-JOB
	job: columns
	run_dir: $RUN
	data:
	  format: csv
	  train: log.csv
	  batch: 128
	  csv: {delimiter: ';', quote: none}
	  split: {by: time, valid_from: 10.1.2026 00:00}
	  columns:
	    - {name: day, kind: time, format: '%d.%m.%Y %H:%M'}
	    - {name: age, kind: numeric, transform: bucketize, boundaries: [20, 30, 40, 50]}
	    - {name: colour, kind: categorical, vocabulary: colours.txt, default: c2}
	    - {name: tags, kind: multi, pooling: max}
	    - {name: seen, kind: sequence, share: tags}
	    - {name: price, kind: numeric, transform: standard}
	    - {name: click, kind: label}
	model: {kind: deepfm, dim: 4, hidden: [16]}
	cluster: {partitions: 2, workers: 2}
	train: {passes: 3}
	tables: {embedding: {optimizer: {lr: 0.01}, mode: {kind: sync}}, dense: {optimizer: {lr: 0.01}, mode: {kind: sync}}}
JOB
"$WEIR" check job.yaml > check.out 2>&1 || fail "weir check: $(cat check.out)"
[ -e "$RUN/columns.json" ] && fail "weir check has written columns.json"
"$WEIR" train job.yaml --fresh --report report.json > train.out 2> train.err || fail "weir train: $(tail -n 3 train.err)"
holds report.json '.finished and .bad_lines == 0 and .valid.rows == 3000 and .valid.auc > 0.75'
kept=$(tr -d ' \n' < "$RUN/columns.json")
case $kept in *'"column":"price","mean":1000'*) ;; *) fail "columns.json is $kept" ;; esac

# Without the price, or without the age, the model is worse.
for change in 's/{name: price, kind: numeric, transform: standard}/{name: price, kind: ignore}/' \
	's/{name: age, kind: numeric.*}/{name: age, kind: ignore}/'; do
	sed "$change; s|^run_dir:.*|run_dir: $RUN-less|" job.yaml > less.yaml
	"$WEIR" train less.yaml --fresh --report less.json > train.out 2> train.err || fail "weir train of less: $(tail -n 3 train.err)"
	jq -e --slurpfile all report.json '.valid.auc + 0.02 < $all[0].valid.auc' less.json > /dev/null || fail "AUC $(json less.json .valid.auc) with less, $(json report.json .valid.auc) with all"
done

# Predictions keep the scales of the training, when its data have changed and when they are gone.
cp log.csv new.csv
new=(--part test --set data.split.by=none --set data.split.valid_from= --set data.test=new.csv)
"$WEIR" predict job.yaml "${new[@]}" --out before.txt > predict.out 2> predict.err || fail "weir predict: $(cat predict.err)"
mv log.csv gone.csv
"$WEIR" predict job.yaml "${new[@]}" --out after.txt > predict.out 2> predict.err || fail "weir predict without the training data: $(cat predict.err)"
cmp before.txt after.txt || fail "other scores without the training data"
mv "$RUN/columns.json" kept.json
"$WEIR" predict job.yaml "${new[@]}" --out lost.txt > predict.out 2> predict.err && fail "scores without scales"
told "the scales of data.columns are those of the training part: no data file matches log.csv" predict.err
sed 's/transform: standard}/transform: standard, mean: 1, std: 2}/' job.yaml > hand.yaml
"$WEIR" predict hand.yaml "${new[@]}" --out hand.txt > predict.out 2> predict.err && fail "weights are taken for other scales"
told data.columns predict.err

# Keys: of the vocabulary by lines, of a number by its bucket.
[ "$("$WEIR" key colour c1 --job job.yaml)" = $(((1 << 32) + 2)) ] || fail "the key of c1 is $("$WEIR" key colour c1 --job job.yaml)"
[ "$("$WEIR" key colour c9 --job job.yaml)" = $((1 << 32)) ] || fail "the key of another colour is $("$WEIR" key colour c9 --job job.yaml)"
[ "$("$WEIR" key age 35 --job job.yaml)" = "$("$WEIR" key 0 2)" ] || fail "the key of an age is not that of its bucket"
nothing_left
echo "AUC $(json report.json .valid.auc) with all columns, $(json less.json .valid.auc) without the age"

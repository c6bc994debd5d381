# A job that names the columns of CSV: from the same rows as Criteo text it learns the same model,
# plain, quoted, compressed, as JSON lines or without a packed cache. Predictions need no label; weir
# key knows columns by name; weights are refused for other columns.
. "$(dirname "$0")/lib.sh"
cd "$DIR" || exit 1
"$WEIR" datagen --rows 12000 --ids 13312 --out all.tsv > datagen.out || fail "weir datagen"
head -n 9000 all.tsv > train.tsv
tail -n 3000 all.tsv > valid.tsv
# as_csv QUOTE END: quotes cells whose number is divisible by QUOTE (0: none), ends rows with END.
as_csv() {
	awk -F '\t' -v quote="$1" -v end="$2" 'BEGIN {
		printf "clicked"; for (i = 1; i <= 13; i++) printf ",n%d", i; for (i = 1; i <= 26; i++) printf ",c%d", i; printf "%s\n", end
	} {
		for (i = 1; i <= NF; i++) printf("%s%s", (i > 1 ? "," : ""), (quote && (i + NR) % quote == 0 ? "\"" $i "\"" : $i))
		printf "%s\n", end
	}'
}
columns="$(echo '- {name: clicked, kind: label}'; for i in $(seq 13); do echo "- {name: n$i, kind: numeric, transform: log1p}"; done; for i in $(seq 26); do echo "- {name: c$i, kind: categorical}"; done)"
for part in train valid; do
	as_csv 0 '' < $part.tsv > $part-plain.csv
	as_csv 3 $'\r' < $part.tsv > $part-quoted.csv
	gzip -c $part-quoted.csv > $part-gzip.csv.gz
	zstd -q -c $part-plain.csv > $part-zstd.csv.zst
	jq -cR --slurpfile names <(head -n 1 $part-plain.csv | jq -R 'split(",")') \
		'select(input_line_number > 1) | split(",") | [$names[0], .] | transpose | map({(.[0]): .[1]}) | add' $part-plain.csv > $part-json.jsonl
done
job() { # job NAME FORMAT SUFFIX: writes NAME.yaml
	cat > "$1.yaml" <<-JOB
		job: table
		run_dir: $RUN-$1
		data: {format: $2, train: train$3, valid: valid$3, batch: 256}
		model: {kind: deepfm, dim: 4, hidden: [16]}
		cluster: {partitions: 2}
		tables: {embedding: {optimizer: {lr: 0.01}, mode: {kind: sync}}, dense: {optimizer: {lr: 0.01}, mode: {kind: sync}}}
	JOB
	[ "$2" = criteo ] || { sed -i "s/batch: 256}/batch: 256, columns: [/" "$1.yaml"; sed -i "/columns: \[/r /dev/stdin" "$1.yaml" <<< "$(sed 's/^- //; $!s/$/,/; s/^/  /' <<< "$columns")
  ]}"; }
}
job tsv criteo .tsv
job plain csv -plain.csv
job quoted csv -quoted.csv
job gzip csv -gzip.csv.gz
job zstd csv -zstd.csv.zst
job json jsonl -json.jsonl
for name in tsv plain quoted gzip zstd json; do
	"$WEIR" train $name.yaml --fresh --report $name.json > train.out 2> train.err || fail "weir train of $name: $(tail -n 3 train.err)"
	holds $name.json '.finished and .bad_lines == 0 and .valid.rows == 3000'
	[ "$(json $name.json .valid.auc)" = "$(json tsv.json .valid.auc)" ] || fail "$name: AUC $(json $name.json .valid.auc), not $(json tsv.json .valid.auc)"
done
holds tsv.json '.valid.auc > 0.6'

# Without a packed cache, units are cut where rows begin.
"$WEIR" train quoted.yaml --fresh --set data.cache=off --set data.unit_batches=2 --report off.json > train.out 2> train.err || fail "weir train without a cache"
holds off.json '.finished and .bad_lines == 0 and .valid.rows == 3000 and .valid.auc > 0.6'
ls "$RUN-quoted"/cache/*.rows > rows.txt || fail "the places where units begin are not kept"

# Scores of rows without a label, in the order of the file.
cut -d , -f 2- valid-plain.csv > unlabelled.csv
"$WEIR" predict plain.yaml --part valid --out labelled.txt > predict.out 2> predict.err || fail "weir predict"
"$WEIR" predict plain.yaml --part valid --set data.valid=unlabelled.csv --lines --out scores.txt > predict.out 2> predict.err || fail "weir predict without labels: $(cat predict.err)"
cut -f 2 scores.txt | cmp - labelled.txt || fail "other scores without the label"
[ "$(head -n 1 scores.txt | cut -f 1)" = unlabelled.csv:2 ] || fail "the first row is at $(head -n 1 scores.txt | cut -f 1)"

# Keys by the names of columns.
[ "$("$WEIR" key c3 05db9164 --job plain.yaml)" = "$("$WEIR" key 2 05db9164)" ] || fail "the key of a column's value is another"
"$WEIR" key c33 x --job plain.yaml > key.out 2> key.err && fail "a key of a column that does not exist"
told "data.columns has no column 'c33'; the nearest is 'c3'" key.err
"$WEIR" key n1 5 --job plain.yaml > key.out 2> key.err && fail "a key of a number"
told "the column 'n1' is of kind numeric, which has no ids" key.err

# Mistakes.
"$WEIR" train plain.yaml --fresh --set data.train=train-plain.csv --set data.valid=unlabelled.csv > train.out 2> train.err && fail "rows without a label are evaluated"
told "unlabelled.csv has no column 'clicked', which data.columns names" train.err
sed 's/{name: c5,/{name: cc5,/' plain.yaml > typo.yaml
"$WEIR" train typo.yaml --set run_dir="$RUN" > train.out 2> train.err && fail "a column that the file lacks"
told "has no column 'cc5', which data.columns names; the nearest is 'c5'" train.err
sed 's/{name: c5, kind: categorical}/{name: c5, kind: ignore}/' plain.yaml > other.yaml
"$WEIR" predict other.yaml --part valid --out other.txt > predict.out 2> predict.err && fail "weights are taken for other columns"
told data.columns predict.err
nothing_left
echo "AUC $(json tsv.json .valid.auc) from Criteo text and from CSV, plain, quoted and compressed, and from JSON lines"

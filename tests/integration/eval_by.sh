# weir eval --by: the figures of each slice equal those of a file with its rows alone; the rest has
# all others; bad lines and rows without a label belong to no slice.
. "$(dirname "$0")/lib.sh"
tables="$(cd "$(dirname "$0")/../tables" && pwd)/tables.py"
cd "$DIR" || exit 1
python3 "$tables" taobao 6000 all.csv || fail "tables.py"
head -n 3001 all.csv > train.csv
{ head -n 1 all.csv; tail -n 3000 all.csv; } > test.csv
"$WEIR" inspect train.csv | sed -e "s|^  split:.*|  test: [test.csv]|" -e '/^train:/d' -e 's/{name: user, kind: categorical}/{name: user, kind: group}/' > job.yaml || fail "weir inspect"
printf 'run_dir: %s\ntrain: {passes: 2, rank_at: [1, 3]}\n' "$RUN" >> job.yaml
"$WEIR" train job.yaml --set model.hidden='[16]' --set model.dim=4 > train.out 2> train.err || fail "weir train: $(tail -n 3 train.err)"
SAME=(--set model.hidden='[16]' --set model.dim=4)

# The values with the most rows, by the sixth column from the end: cate_id.
"$WEIR" eval job.yaml "${SAME[@]}" --by cate_id --top 4 --json > sliced.json || fail "weir eval --by"
"$WEIR" eval job.yaml "${SAME[@]}" --json > whole.json || fail "weir eval"
jq -e -s 'def figures: del(.part, .weights, .by, .values, .slices, .left_out); (.[0] | figures) == (.[1] | figures)' sliced.json whole.json > same.out || fail "the whole part has other figures"
holds sliced.json '.by == "cate_id" and .values == 90 and (.slices | length) == 5 and .left_out == 0 and (.slices | map(.rows) | add) == 3000'
awk -F , 'NR > 1 {n[$7]++} END {for (v in n) print n[v], v}' test.csv | sort -k 1,1nr | head -n 4 | cut -d ' ' -f 1 > most.txt
jq -r '.slices[:4][].rows' sliced.json | cmp - most.txt || fail "other values have the most rows"
# slice_is VALUE: the figures of the slice are those of its rows in a file of their own.
slice_is() {
	awk -F , -v value="$1" 'NR == 1 || $7 == value' test.csv > slice.csv
	"$WEIR" eval job.yaml "${SAME[@]}" --set data.test=slice.csv --json > slice.json || fail "weir eval of the rows of $1"
	jq -e -s --arg value "$1" '(.[0].slices[] | select(.value == $value) | del(.value)) == (.[1] | del(.part, .weights))' sliced.json slice.json > same.out ||
		fail "the slice $1 has other figures: $(jq -c --arg value "$1" '.slices[] | select(.value == $value) | del(.buckets)' sliced.json), not $(jq -c 'del(.buckets)' slice.json)"
}
for value in $(jq -r '.slices[:4][].value' sliced.json); do
	slice_is "$value"
done
holds sliced.json '.slices[4].value == null and (.slices[4].gauc | type) == "number" and (.slices[4].buckets | length) > 5'

# Text; a column that the model does not read; empty values.
"$WEIR" eval job.yaml "${SAME[@]}" --by brand > sliced.out || fail "weir eval --by brand"
grep -q '^by brand, 101 values:' sliced.out && grep -q '^  (empty) ' sliced.out && grep -q '^  (the rest) ' sliced.out && grep -q 'GAUC   NDCG@1' sliced.out ||
	fail "the table lacks a line: $(cat sliced.out)"

# Broken lines, blank ones and unknown labels are left out and counted.
{ head -n 5 test.csv; printf 'a,b\n\n'; sed -n 6p test.csv | awk -F , -v OFS=, '{$6 = "?"; print}'; tail -n +7 test.csv; } > holes.csv
"$WEIR" eval job.yaml "${SAME[@]}" --by pid --set data.test=holes.csv --json > holes.json || fail "weir eval --by with bad lines"
holds holes.json '.left_out == 3 and .rows == 2999 and (.slices | length) == 3 and (.slices[2] | .value == "" and .rows == 0)'

# Mistakes.
"$WEIR" eval job.yaml "${SAME[@]}" --by cat_id > wrong.out 2> wrong.err && fail "a column that the data lack"
told "test.csv has no column 'cat_id'; the nearest is 'cate_id'" wrong.err
"$WEIR" eval job.yaml "${SAME[@]}" --by pid --top 0 > wrong.out 2> wrong.err && fail "no slices"
told '--top is 0; expected a number from 1 to 1000' wrong.err
nothing_left
echo "5 slices as files of their own"

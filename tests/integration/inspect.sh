# weir inspect: CSV and JSON lines become jobs that train without an edit; a job's columns are
# checked against its data; mistakes are told. arrow.sh does the same with Parquet and Arrow.
. "$(dirname "$0")/lib.sh"
tables="$(cd "$(dirname "$0")/../tables" && pwd)/tables.py"
cd "$DIR" || exit 1
says() { grep -qF -- "$1" "$2" || fail "'$1' is not in $2: $(tail -n 20 "$2")"; }
draft() { # draft TABLE ROWS: TABLE.csv and TABLE.yaml
	python3 "$tables" "$1" "$2" "$1.csv" || fail "tables.py $1"
	"$WEIR" inspect "$1.csv" > "$1.yaml" 2> inspect.err || fail "weir inspect of $1: $(cat inspect.err)"
	[ ! -s inspect.err ] || fail "weir inspect of $1 says: $(cat inspect.err)"
}

# A bag, a history that shares the items' embeddings, a rating for the label, quotes, and times.
draft amazon 6000
says 'looked at 6000 rows' amazon.yaml
says '{name: history, kind: sequence, separator: " ", pooling: mean, share: parent_asin}' amazon.yaml
says '{name: title, kind: ignore}  # free text' amazon.yaml
says '{name: timestamp, kind: time, format: unix_ms}' amazon.yaml
says '{name: rating, kind: label, positive_above: 3}' amazon.yaml
"$WEIR" train amazon.yaml --set run_dir="$RUN" --set model.hidden='[16]' --set model.dim=4 --set train.passes=3 --report amazon.json > train.out 2> train.err || fail "weir train: $(tail -n 3 train.err)"
holds amazon.json '.finished and .bad_lines == 0 and .valid.auc > 0.6'
"$WEIR" inspect --job amazon.yaml > job.out 2>&1 || fail "weir inspect --job: $(cat job.out)"
says '6000 rows of a sample' job.out

# The same table as JSON lines: numbers, a list for the history, an object, and a key that comes late.
python3 - <<-'PYTHON' || fail "no JSON lines"
	import csv, json
	with open("amazon.csv", newline="") as table, open("amazon.jsonl", "w") as out:
	    for i, row in enumerate(csv.DictReader(table)):
	        line = {name: text for name, text in row.items() if text}
	        line |= {"history": row["history"].split(), "rating": float(row["rating"]), "timestamp": int(row["timestamp"])}
	        line["seller"] = {"name": "a", "since": [2001]}
	        if i > 100:
	            line["late"] = i % 7
	        print(json.dumps(line), file=out)
PYTHON
"$WEIR" inspect amazon.jsonl > lines.yaml 2> inspect.err || fail "weir inspect of JSON lines: $(cat inspect.err)"
[ ! -s inspect.err ] || fail "weir inspect of JSON lines says: $(cat inspect.err)"
says 'format: jsonl' lines.yaml
says '{name: history, kind: sequence, pooling: mean, share: parent_asin}' lines.yaml
says '{name: timestamp, kind: time, format: unix_ms}' lines.yaml
says '{name: rating, kind: label, positive_above: 3}' lines.yaml
says '{name: seller, kind: ignore}  # has objects; columns have texts, numbers and lists of them' lines.yaml
says '{name: late, kind: categorical}' lines.yaml
"$WEIR" train lines.yaml --set run_dir="$RUN-lines" --set model.hidden='[16]' --set model.dim=4 --set train.passes=3 --report lines.json > train.out 2> train.err || fail "weir train of JSON lines: $(tail -n 3 train.err)"
holds lines.json '.finished and .bad_lines == 0 and .valid.auc > 0.6'
"$WEIR" inspect --job lines.yaml > job.out 2>&1 || fail "weir inspect --job of JSON lines: $(cat job.out)"
says '6000 rows of a sample' job.out
"$WEIR" inspect amazon.jsonl --json > lines.json || fail "weir inspect --json of JSON lines"
holds lines.json '.format == "jsonl" and .sample.rows == 6000 and ([.columns[].name] | index("late") > index("seller"))'
sed 's/{name: parent_asin, kind: categorical/{name: parent_asin, kind: numeric/; s/, share: parent_asin//' lines.yaml > wrong.yaml
{ echo '{"rating": 1'; cat amazon.jsonl; } > broken.jsonl
"$WEIR" inspect --job wrong.yaml --set data.train=broken.jsonl > wrong.out 2> wrong.err && fail "a text taken for a number in JSON lines"
says "bad    broken.jsonl:1: not a JSON object: expected ',' or '}' at byte 13" wrong.out
says "bad    broken.jsonl:2: column 'parent_asin': " wrong.out
says 'WRONG  no row of the sample can be read' wrong.out

# The copy of the label is left out.
draft taobao 3000
says "{name: nonclk, kind: ignore}  # tells the label 'clk'" taobao.yaml
"$WEIR" inspect taobao.csv --json > taobao.json || fail "weir inspect --json"
holds taobao.json '.sample.rows == 3000 and (.columns | length) == 15 and .columns[5].kind == "label" and .columns[9].empty > 1000'
holds taobao.json '.columns[0] | .name == "user" and (.distinct > 900) and (.distinct < 2100)'

# A job that does not suit its data.
sed 's/{name: pid, kind: categorical}/{name: pid, kind: numeric}/' taobao.yaml > wrong.yaml
"$WEIR" inspect --job wrong.yaml > wrong.out 2> wrong.err && fail "a text taken for a number"
says "bad    taobao.csv:2: column 'pid': '430539_1007' is not a number" wrong.out
says 'WRONG  no row of the sample can be read' wrong.out
sed 's/{name: brand, kind: categorical}/{name: brnd, kind: categorical}/' taobao.yaml > typo.yaml
"$WEIR" inspect --job typo.yaml > wrong.out 2> wrong.err && fail "a column that the data lack"
told "has no column 'brnd', which data.columns names; the nearest is 'brand'" wrong.err
{ sed 2q taobao.csv; echo 1,2; } > ragged.csv
"$WEIR" inspect --job taobao.yaml --set data.train=ragged.csv > wrong.out 2> wrong.err
says "bad    ragged.csv:3: the row has 2 cells; expected 15, one for each column" wrong.out
sed 's/kind: categorical}  # 1[0-9]* different whole numbers/kind: multi, max_length: 1}  #/' taobao.yaml > multi.yaml
"$WEIR" inspect --job multi.yaml > multi.out || fail "weir inspect --job of a bag: $(cat multi.out)"
says "user: no value has the separator '|': is it another character?" multi.out

# Other forms of CSV: tabs, no header, gzip.
tr ',' '\t' < taobao.csv | tail -n +2 | gzip > bare.tsv.gz
"$WEIR" inspect bare.tsv.gz > bare.yaml 2> bare.err || fail "weir inspect of tabs: $(cat bare.err)"
says 'csv: {delimiter: "\x09", header: false}' bare.yaml
"$WEIR" check bare.yaml --set run_dir="$RUN-bare" > check.out 2>&1 || fail "the job for tabs without a header: $(grep WRONG check.out)"

# Mistakes.
for wrong in "no-such.csv:no data file matches no-such.csv" "--header=maybe taobao.csv:--header is 'maybe'; expected true or false" \
	"--delimiter=ab taobao.csv:--delimiter is 'ab'; expected one character" "taobao.csv --job taobao.yaml:takes either files or --job"; do
	# shellcheck disable=SC2086 # words of a command
	"$WEIR" inspect ${wrong%%:*} > wrong.out 2> wrong.err && fail "weir inspect ${wrong%%:*}"
	told "${wrong#*:}" wrong.err
done
echo '[{"user": "a", "label": 1}]' > rows.json
"$WEIR" inspect rows.json > wrong.out 2> wrong.err && fail "a JSON array"
told 'rows.json is one JSON array; expected an object a line' wrong.err
printf 'PAR1....PAR1' > rows.parquet
"$WEIR" inspect rows.parquet --header true > wrong.out 2> wrong.err && fail "Parquet with a header"
told 'rows.parquet is no CSV: leave out --delimiter and --header' wrong.err
"$WEIR" inspect taobao.csv rows.parquet > wrong.out 2> wrong.err && fail "files of two formats"
told 'taobao.csv and rows.parquet have different formats' wrong.err
"$WEIR" inspect --job taobao.yaml --set data.train=rows.parquet > wrong.out 2> wrong.err && fail "a Parquet file as CSV"
told 'rows.parquet is a Parquet file; expected data.format: parquet' wrong.err
head -n 1 taobao.csv > header.csv
"$WEIR" inspect header.csv > wrong.out 2> wrong.err && fail "a file without rows"
told 'header.csv has no row below its header' wrong.err
printf 'a,b\n1,x\n2,y\n' > unlabelled.csv
"$WEIR" inspect unlabelled.csv > unlabelled.yaml 2> wrong.err || fail "a file without a label"
told 'no column looks like a label' wrong.err
nothing_left
echo "AUC $(json amazon.json .valid.auc) by the job that weir inspect wrote"

# weir export --ids: rows of a column with its original ids, as CSV and as safetensors with the ids
# beside it: each id has the values that the whole export has under the key of `weir key`. Ids of a
# history that shares the column's embeddings count; ids that were never pushed are left out; a
# running job's rows leave, too.
. "$(dirname "$0")/lib.sh"
source=$(cd "$(dirname "$0")/../.." && pwd)
cd "$DIR" || exit 1
python3 "$source/examples/data/shop_log.py" 6000 > all.csv || fail "shop_log.py"
# One id with a quote and a comma, one of a file that is not trained on, one in a history alone.
sed 's/,i5,/,"i""5,x",/; 10s/,[^,]*,\([0-9.]*,[a-z]*,[01]\)$/,i1 only-in-history,\1/' all.csv | head -n 5001 > train.csv
{ head -n 1 all.csv; sed -n '5002,$s/,i7,/,never-trained,/p' all.csv; } > test.csv
cat > job.yaml <<-JOB
	job: it
	run_dir: $RUN
	data:
	  format: csv
	  train: train.csv
	  test: test.csv
	  batch: 128
	  columns:
	  - {name: impression_id, kind: id}
	  - {name: ts, kind: ignore}
	  - {name: user_id, kind: categorical}
	  - {name: item_id, kind: categorical}
	  - {name: tags, kind: multi}
	  - {name: last_items, kind: sequence, separator: " ", share: item_id}
	  - {name: price, kind: numeric, transform: log1p}
	  - {name: device, kind: categorical}
	  - {name: clicked, kind: label}
	model: {kind: fm, dim: 4}
	train: {passes: 2}
JOB
"$WEIR" train job.yaml > train.out 2> train.err || fail "weir train: $(tail -n 3 train.err)"
"$WEIR" export job.yaml --out whole.safetensors > export.out || fail "weir export"
"$WEIR" export job.yaml --ids item_id --out items.csv > items.out || fail "weir export --ids"
"$WEIR" export job.yaml --ids item_id --out items.safetensors > export.out || fail "weir export --ids as safetensors"
"$WEIR" export job.yaml --ids tags --table linear --out tags.csv > export.out || fail "weir export --ids --table"
python3 - "$WEIR" <<-'PY' || fail "an id has other values"
	import csv, json, random, struct, subprocess, sys
	def tensors(path):
	    data = open(path, "rb").read()
	    size = struct.unpack("<Q", data[:8])[0]
	    out = {}
	    for name, t in json.loads(data[8:8 + size]).items():
	        if name != "__metadata__":
	            a, b = t["data_offsets"]
	            kind = {"U64": "Q", "F32": "f"}[t["dtype"]]
	            out[name] = (t["shape"], struct.unpack(f"<{(b - a) // struct.calcsize(kind)}{kind}", data[8 + size + a:8 + size + b]))
	    return out
	whole = tensors("whole.safetensors")
	row_of = {t: dict(zip(whole[t + ".keys"][1], range(10**9))) for t in ("embedding", "linear")}
	def values(table, column, text):
	    key = int(subprocess.run([sys.argv[1], "key", column, text, "--job", "job.yaml"], capture_output=True, text=True, check=True).stdout)
	    width = whole[table + ".values"][0][1]
	    at = row_of[table][key] * width
	    return whole[table + ".values"][1][at:at + width]
	items = list(csv.reader(open("items.csv", newline="")))
	assert items[0] == ["item_id", "v0", "v1", "v2", "v3"], items[0]
	ids = [r[0] for r in items[1:]]
	assert len(ids) == len(set(ids)) > 250 and 'i"5,x' in ids and "only-in-history" in ids and "never-trained" not in ids, ids
	for text in random.Random(1).sample(ids, 12) + ['i"5,x', "only-in-history"]:
	    row = items[1 + ids.index(text)]
	    assert [struct.pack("<f", float(v)) for v in row[1:]] == [struct.pack("<f", v) for v in values("embedding", "item_id", text)], row
	beside = [r[0] for r in csv.reader(open("items.ids.csv", newline=""))]
	shape, flat = tensors("items.safetensors")["values"]
	assert beside == ["item_id"] + ids and shape == [len(ids), 4]
	assert [float("%.9g" % v) for v in flat] == [float(v) for r in items[1:] for v in r[1:]]
	tags = list(csv.reader(open("tags.csv", newline="")))
	assert sorted(r[0] for r in tags[1:]) == ["books", "garden", "kitchen", "music", "outdoor", "toys"] and tags[0] == ["tags", "v0"], tags
	print(f"{len(ids)} items")
PY
grep -Eq '^items.csv: ([0-9]+) of the ([0-9]+) ids of item_id, 4 numbers each' items.out || fail "the result says: $(cat items.out)"

# The same rows as JSON lines, with lists: the same ids and values.
python3 - <<-'PY' || fail "train.jsonl"
	import csv, json
	for part in ("train", "test"):
	    with open(part + ".jsonl", "w") as out:
	        for row in csv.DictReader(open(part + ".csv", newline="")):
	            lists = {"tags": row["tags"].split("|"), "last_items": row["last_items"].split()}
	            out.write(json.dumps({**row, **lists, "price": float(row["price"]), "clicked": int(row["clicked"])}) + "\n")
PY
JSONL=(--accept data.format --set data.format=jsonl --set data.train=train.jsonl --set data.test=test.jsonl)
for column in item_id tags; do
	"$WEIR" export job.yaml "${JSONL[@]}" --ids $column --out jsonl.csv > export.out 2> export.err || fail "export --ids of JSON lines: $(cat export.err)"
	"$WEIR" export job.yaml --ids $column --out csv.csv > export.out || fail "export --ids $column"
	cmp csv.csv jsonl.csv || fail "JSON lines give other rows of $column"
done
"$WEIR" predict job.yaml "${JSONL[@]}" --ids tags,impression_id --out scores.csv > predict.out 2> predict.err || fail "weir predict: $(cat predict.err)"
grep -qE '^[a-z]+([|][a-z]+)+,m[0-9]+,0[.]' scores.csv || fail "a list is written as $(sed -n 2p scores.csv)"

# Mistakes.
wrong() { # wrong WORDS ARGUMENT...
	local words=$1
	shift
	"$WEIR" export job.yaml --out x.csv "$@" > wrong.out 2> wrong.err && fail "weir export $*"
	told "$words" wrong.err
	[ ! -e x.csv ] || fail "a refused verb leaves a file"
}
wrong "data.columns has no column 'itm_id'; the nearest is 'item_id'" --ids itm_id
wrong "the column 'price' is of kind numeric, which has no embeddings" --ids price
wrong "the column 'last_items' shares the embeddings of 'item_id': export those" --ids last_items
wrong '--ids is of --format safetensors alone' --ids item_id --format hf
wrong 'has no dense table with rows by key' --ids item_id --table dense

# A running job.
start_train --fresh --set train.passes=10000 --set train.keep_best=false
wait_for 20 "rows to be trained" status '.rows > 20000'
"$WEIR" export job.yaml --ids device --out running.csv > running.out 2> running.err || fail "export of a running job: $(cat running.err)"
told 'the running job at' running.out
[ "$(cut -d , -f 1 running.csv | sort | xargs)" = 'desktop device phone tablet' ] || fail "running.csv has $(cat running.csv)"
kill -TERM "$TRAIN"
finish_train 20
ls ./*.weights 2> /dev/null && fail "a file of weights is left"
nothing_left

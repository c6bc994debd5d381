# The same table as CSV, Parquet and Arrow gives the same model: plain and compressed Parquet, with
# dictionaries, nulls, lists and timestamps, in row groups that end elsewhere than units do, and by
# ranges over HTTP. Without the plug-in the message says what to do.
. "$(dirname "$0")/lib.sh"
HERE=$(cd "$(dirname "$0")" && pwd)
cd "$DIR" || exit 1
mkdir served
BUILD=$(dirname "$WEIR")
PYTHON=$BUILD/pyarrow/bin/python
columns="[{name: y, kind: label}, {name: user, kind: categorical}, {name: tags, kind: multi}, {name: price, kind: numeric}, {name: at, kind: time, format: iso8601}, {name: note, kind: ignore}]"
job() { # job NAME FORMAT FILES
	cat > "$1.yaml" <<-JOB
		job: table
		run_dir: $RUN-$1
		data: {format: $2, train: '$3', split: {by: time, valid_from: 2026-01-03}, batch: 64, unit_batches: 4, columns: $columns}
		model: {kind: fm, dim: 4}
		cluster: {partitions: 2}
		tables: {embedding: {optimizer: {lr: 0.05}, mode: {kind: sync}}, dense: {optimizer: {lr: 0.05}, mode: {kind: sync}}}
	JOB
}
printf 'PAR1....PAR1' > broken.parquet
job broken parquet broken.parquet
if ! [ -e "$BUILD/libweir_arrow.so" ]; then
	"$WEIR" train broken.yaml > train.out 2> train.err && fail "Parquet without the plug-in"
	told "reading it needs the plug-in for Parquet and Arrow (libweir_arrow.so is not in" train.err
	told "make arrow" train.err
	echo "skipped: there is no plug-in for Parquet and Arrow here: run \`make arrow\`"
	exit 77
fi
"$WEIR" train broken.yaml > train.out 2> train.err && fail "a broken Parquet file"
told "broken.parquet: " train.err

"$PYTHON" - <<-'PYTHON' || fail "no tables"
	import csv, datetime, random
	import pyarrow as pa, pyarrow.parquet as pq
	r = random.Random(4)
	day = datetime.datetime(2026, 1, 1)
	rows = []
	for i in range(4000):
	    user, tags = r.randrange(200), [r.choice("abcdef") for _ in range(r.randrange(4))]
	    rows.append((int(r.random() < (user % 10 + len(tags)) / 14), user if user else None, tags, r.randrange(40) / 4 if i % 7 else None,
	                 day + datetime.timedelta(minutes=i), "x"))
	with open("rows.csv", "w", newline="") as f:
	    out = csv.writer(f)
	    out.writerow(["y", "user", "tags", "price", "at", "note"])
	    for y, user, tags, price, at, note in rows:
	        out.writerow([y, "" if user is None else user, "|".join(tags), "" if price is None else price, at.isoformat() + "Z", note])
	y, user, tags, price, at, note = map(list, zip(*rows))
	table = pa.table({"y": pa.array(y, pa.int8()), "user": pa.array(user, pa.int32()), "tags": tags, "price": price,
	                  "at": pa.array(at, pa.timestamp("us")), "note": pa.array(note).dictionary_encode()})
	pq.write_table(table, "rows.parquet", row_group_size=700, compression="zstd")
	day = table.append_column("day", pa.array([at.strftime("%d") for at in at]))
	pq.write_to_dataset(day.drop_columns(["note"]), "days", partition_cols=["day"], basename_template="part-{i}.parquet")
	half = table.num_rows // 2
	pq.write_table(table.slice(0, half), "part-1.parquet", compression="snappy", use_dictionary=False)
	pq.write_table(table.slice(half), "part-2.parquet", compression="none", data_page_version="2.0")
	with pa.OSFile("rows.arrow", "wb") as f, pa.ipc.new_file(f, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as out:
	    for batch in table.to_batches(max_chunksize=300):
	        out.write_batch(batch)
PYTHON
job csv csv rows.csv
job parquet parquet rows.parquet
job parts parquet 'part-*.parquet'
job arrow arrow rows.arrow
for name in csv parquet parts arrow; do
	"$WEIR" train $name.yaml --report $name.json > train.out 2> train.err || fail "weir train of $name: $(tail -n 3 train.err)"
	holds $name.json '.finished and .bad_lines == 0 and .rows == 2880 and .valid.rows == 1120'
	[ "$(json $name.json .valid.auc)" = "$(json csv.json .valid.auc)" ] || fail "$name: AUC $(json $name.json .valid.auc), not $(json csv.json .valid.auc)"
done
holds csv.json '.valid.auc > 0.55'
# Without a cache, units are read from row groups.
for name in parquet arrow; do
	"$WEIR" train $name.yaml --fresh --set data.cache=off --report off.json > train.out 2> train.err || fail "weir train of $name without a cache: $(tail -n 3 train.err)"
	holds off.json '.finished and .bad_lines == 0 and .rows == 2880 and .valid.rows == 1120'
done
# Scores with ids, slices and ids of embeddings are those of CSV.
for name in csv parquet parts arrow; do
	"$WEIR" predict $name.yaml --weights "$RUN-csv/best.safetensors" --accept data.format --part valid --ids user,tags,y --out $name.scores > verb.out 2> verb.err || fail "weir predict of $name: $(tail -n 1 verb.err)"
	"$WEIR" eval $name.yaml --weights "$RUN-csv/best.safetensors" --accept data.format --part valid --by user --top 5 --json 2> verb.err | jq '.slices, .auc' > $name.slices || fail "weir eval of $name: $(tail -n 1 verb.err)"
	"$WEIR" export $name.yaml --weights "$RUN-csv/best.safetensors" --accept data.format --ids tags --out $name.tags > verb.out 2> verb.err || fail "weir export of $name: $(tail -n 1 verb.err)"
	for verb in scores slices tags; do
		tr '|' ' ' < $name.$verb | cmp - <(tr '|' ' ' < csv.$verb) || fail "$name gives other $verb"
	done
done
[ "$(wc -l < csv.scores)" = 1121 ] && [ "$(wc -l < csv.tags)" = 7 ] || fail "rows are missing"
# Scores and ids as Parquet are those of CSV.
"$WEIR" predict parquet.yaml --weights "$RUN-csv/best.safetensors" --accept data.format --part valid --ids user,tags,y --out scores.parquet > verb.out 2> verb.err || fail "weir predict into Parquet: $(tail -n 1 verb.err)"
"$WEIR" predict parquet.yaml --weights "$RUN-csv/best.safetensors" --accept data.format --part valid --out only.parquet > verb.out 2> verb.err || fail "weir predict into Parquet: $(tail -n 1 verb.err)"
"$WEIR" export parquet.yaml --weights "$RUN-csv/best.safetensors" --accept data.format --ids tags --out tags.parquet > verb.out 2> verb.err || fail "weir export into Parquet: $(tail -n 1 verb.err)"
"$PYTHON" - <<-'PYTHON' || fail "other tables as Parquet than as CSV"
	import csv
	import pyarrow as pa, pyarrow.parquet as pq
	for name, texts, number, of in (("scores", 3, pa.float64(), "csv.scores"), ("tags", 1, pa.float32(), "csv.tags")):
	    rows = list(csv.reader(open(of)))
	    table = pq.read_table(f"{name}.parquet")
	    assert table.column_names == rows[0], table.column_names
	    for i, texts_of in enumerate(zip(*rows[1:])):
	        expected = pa.array(texts_of) if i < texts else pa.array(map(float, texts_of), number)
	        assert table.column(i).combine_chunks() == expected, table.column_names[i]
	assert pq.read_table("only.parquet").column("score") == pq.read_table("scores.parquet").column("score")
PYTHON
"$WEIR" predict parquet.yaml --lines --out x.parquet > verb.out 2> verb.err && fail "lines in Parquet"
told "x.parquet is to be Parquet: name columns with --ids" verb.err
# A folder's name is a column of the rows below it, if the job names it.
sed -e 's/, {name: note, kind: ignore}//' -e "s,rows.parquet,days/day=*/part-*," parquet.yaml > below.yaml
"$WEIR" train below.yaml --set "run_dir=$RUN-below" --report below.json > train.out 2> train.err || fail "weir train below folders: $(tail -n 3 train.err)"
holds below.json '.finished and .bad_lines == 0 and .rows == 2880 and .valid.rows == 1120'
sed -e 's/{name: tags/{name: day, kind: categorical}, &/' below.yaml > day.yaml
"$WEIR" train day.yaml --set "run_dir=$RUN-day" --report day.json > train.out 2> train.err || fail "weir train with the folders' column: $(tail -n 3 train.err)"
holds day.json '.finished and .bad_lines == 0 and .rows == 2880 and .valid.rows == 1120'
"$WEIR" export day.yaml --weights "$RUN-day/best.safetensors" --ids day --out days.csv > verb.out 2> verb.err || fail "weir export of the folders' column: $(tail -n 1 verb.err)"
[ "$(cut -d, -f1 days.csv | xargs)" = "day 01 02" ] || fail "the folders' ids are $(cut -d, -f1 days.csv | xargs)"
# The same in a bucket, by its folder; other objects of the table are left out.
export AWS_ACCESS_KEY_ID=AKIDWEIRTEST AWS_SECRET_ACCESS_KEY=a/secret+key
python3 "$HERE/../s3/server.py" "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" us-west-7 weir-it > s3.port 2> s3.log &
S3=$!
trap 'kill -KILL $S3; wait $S3 2> /dev/null; cleanup' EXIT
wait_for 10 "the S3 server" test -s s3.port
S3_AT=http://127.0.0.1:$(cat s3.port)
for file in days/*/*; do curl -sf --data-binary "@$file" "$S3_AT/-/objects/table/${file#days/}" || fail "the bucket is not filled"; done
curl -sf --data-binary x "$S3_AT/-/objects/table/_SUCCESS" || fail "the bucket is not filled"
sed "s,train: '[^']*',train: 's3://weir-it/table/'\, endpoint: '$S3_AT'\, region: us-west-7," day.yaml > bucket.yaml
"$WEIR" train bucket.yaml --set "run_dir=$RUN-bucket" --report bucket.json > train.out 2> train.err || fail "weir train on a bucket: $(tail -n 3 train.err)"
holds bucket.json '.finished and .bad_lines == 0 and .rows == 2880 and .valid.rows == 1120'
"$WEIR" export bucket.yaml --weights "$RUN-bucket/best.safetensors" --ids day --out days.csv > verb.out 2> verb.err || fail "weir export of a bucket's folders: $(tail -n 1 verb.err)"
[ "$(cut -d, -f1 days.csv | sort -r | xargs)" = "day 02 01" ] || fail "the bucket's ids are $(cut -d, -f1 days.csv | xargs)"
"$WEIR" train csv.yaml --set "run_dir=$RUN" --set data.train=rows.parquet > train.out 2> train.err && fail "a Parquet file as CSV"
told "rows.parquet is a Parquet file; expected data.format: parquet" train.err
# On a web server, only the columns that the job uses are read; the model is the same.
"$PYTHON" - <<-'PYTHON' || fail "no table"
	import random
	import pyarrow as pa, pyarrow.parquet as pq
	table = pq.read_table("rows.parquet")
	r = random.Random(5)
	notes = pa.array(["".join(r.choices("abcdefghijklmnopqrstuvwxyz", k=400)) for _ in range(table.num_rows)])
	pq.write_table(table.set_column(table.column_names.index("note"), "note", notes), "served/rows.parquet", row_group_size=700)
PYTHON
python3 "$HERE/../s3/web.py" served > web.port 2> web.log &
WEB=$!
trap 'kill -KILL $WEB $S3; wait $WEB $S3 2> /dev/null; cleanup' EXIT
wait_for 10 "the web server" test -s web.port
WEB_AT=http://127.0.0.1:$(cat web.port)
sed "s,'rows.parquet',$WEB_AT/rows.parquet," parquet.yaml > remote.yaml
for cache in auto off; do
	"$WEIR" train remote.yaml --set "run_dir=$RUN-remote-$cache" --set data.cache=$cache --report remote.json > train.out 2> train.err || fail "weir train over HTTP: $(tail -n 3 train.err)"
	holds remote.json '.finished and .bad_lines == 0 and .rows == 2880 and .valid.rows == 1120'
	[ "$cache" = off ] || [ "$(json remote.json .valid.auc)" = "$(json csv.json .valid.auc)" ] || fail "over HTTP: AUC $(json remote.json .valid.auc), not $(json csv.json .valid.auc)"
	sent=$(curl -sf "$WEB_AT/-/sent")
	[ "$cache" = off ] || [ "$sent" -lt 400000 ] || fail "$sent bytes were read, of a file of $(stat -c %s served/rows.parquet)"
done
sed 's/name: tags, kind: multi/name: tags, kind: categorical/' parquet.yaml > list.yaml
"$WEIR" train list.yaml --set "run_dir=$RUN" > train.out 2> train.err && fail "a list as an id"
told "rows.parquet: column 'tags' is of kind categorical and of another type; expected texts, integers or booleans" train.err
nothing_left
echo "AUC $(json csv.json .valid.auc) from CSV, Parquet and Arrow"

# Columns with embeddings of their own widths, end to end: each width has a table; two workers, one of
# them killed, apply each push once; a resume and a restored checkpoint go on with all tables, also
# with a cache of pulled rows; servers and weights on disk give the same figures; ids leave with the
# width of their column; an emulated device trains them, too.
. "$(dirname "$0")/lib.sh"
cd "$DIR" || exit 1
awk 'BEGIN {
	srand(7); print "click,device,user,seen,hour"
	for (i = 0; i < 12000; i++) {
		d = int(rand() * 4); u = int(rand() * 300); s = int(rand() * 300); h = int(rand() * 24)
		z = (d == 1 ? 1.5 : -0.5) + (u % 3 == 0 ? 1.5 : -1) + (s % 2 ? 0.7 : -0.7) + (h > 18 ? 0.8 : -0.3)
		printf "%d,d%d,u%d,u%d|u%d,%d\n", rand() < 1 / (1 + exp(-z)), d, u, s, s, h
	}
}' > log.csv
cat > job.yaml <<-JOB
	job: dims
	run_dir: $RUN
	cluster: {servers: 2, workers: 2, partitions: 4, log: disk, lease_ms: 3001}
	data:
	  format: csv
	  train: log.csv
	  batch: 64
	  unit_batches: 4
	  split: {by: crc32, train: 8, valid: 1, test: 1}
	  columns:
	    - {name: click, kind: label}
	    - {name: device, kind: categorical, dim: 2}
	    - {name: user, kind: categorical}
	    - {name: seen, kind: multi, share: user, pooling: max}
	    - {name: hour, kind: numeric, transform: bucketize, boundaries: [6, 12, 18], dim: 3}
	model: {kind: wide_deep, dim: 8, hidden: [16]}
	checkpoint: {dir: $DIR/checkpoints}
	tables: {embedding: {optimizer: {lr: 0.01}}, dense: {optimizer: {lr: 0.01}}}
	train: {passes: 30, threads: 1, pace: {batch_ms: 10}}
JOB
start_train
wait_for 30 "the first rows" status ".rows >= 4000"
kill -KILL "$(pid_of worker-0)"
"$WEIR" checkpoint --job job.yaml > checkpoint.out 2> checkpoint.err || fail "weir checkpoint: $(cat checkpoint.err)"
stop_train 60
"$WEIR" train job.yaml --resume --set train.pace.batch_ms=0 --set train.passes=$PASSES --report report.json > train.out 2> train.err || fail "the run does not go on: $(tail -n 3 train.err)"
audited
holds report.json '.finished and .test.auc > 0.72'
holds report.json '[.tables[].name] | sort == ["dense", "embedding", "embedding_2", "embedding_3", "linear"]'

# The saved weights hold each id's row in the table of its width; the servers' rows are scored alike.
"$WEIR" export job.yaml --out whole.safetensors > export.out 2> export.err || fail "weir export: $(cat export.err)"
python3 - <<-'PY' || fail "the tables have other shapes"
	import json, struct
	data = open("whole.safetensors", "rb").read()
	header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
	shapes = {name: t["shape"] for name, t in header.items() if name.endswith(".values")}
	assert shapes == {"embedding.values": [300, 8], "embedding_2.values": [4, 2], "embedding_3.values": [4, 3], "linear.values": [308, 1]}, shapes
	assert header["tower.0.weight"]["shape"] == [16, 2 + 8 + 8 + 3], header["tower.0.weight"]
	assert {"embedding.table", "embedding_2.table", "embedding_3.table"} <= set(header["__metadata__"]), header["__metadata__"]
PY
for column in device:2:4 user:8:300; do
	IFS=: read -r name width count <<< "$column"
	"$WEIR" export job.yaml --ids "$name" --out ids.csv > ids.out 2> ids.err || fail "weir export --ids $name: $(cat ids.err)"
	grep -q "^ids.csv: $count of the $count ids of $name, $width numbers each" ids.out || fail "the result says: $(cat ids.out)"
done


# The weights on disk give the figures that the servers' rows gave, also of a run that goes on from
# the checkpoint and keeps pulled rows.
same_figures() {
	"$WEIR" eval job.yaml --part valid --json > eval.json 2> eval.err || fail "weir eval: $(cat eval.err)"
	jq -es '.[0].valid.logloss == .[1].logloss and .[0].valid.rows == .[1].rows' report.json eval.json > out || fail "$(json eval.json .logloss) and not $(json report.json .valid.logloss)"
}
same_figures
"$WEIR" restore job.yaml --from latest > restore.out 2> restore.err || fail "weir restore: $(cat restore.err)"
"$WEIR" train job.yaml --resume --set train.pace.batch_ms=0 --set train.passes=$PASSES --set tables.embedding.pull.cache='{memory: 1MiB, max_age: 8, max_uses: 4}' \
	--accept tables.embedding.pull.cache.memory --accept tables.embedding.pull.cache.max_age --accept tables.embedding.pull.cache.max_uses --report report.json > train.out 2> train.err || fail "the restored run does not go on: $(tail -n 3 train.err)"
audited
holds report.json '.finished and .test.auc > 0.72 and .row_cache.hit_ratio > 0.3'
same_figures
"$WEIR" train job.yaml --fresh --set data.columns='[{name: click, kind: label}, {name: device, kind: categorical, dim: 2}, {name: user, kind: categorical}, {name: seen, kind: ignore}, {name: hour, kind: ignore}]' --set model.kind=deepfm > train.out 2> train.err && fail "deepfm takes two widths"
told "data.columns[1].dim: is 2, and model.kind is deepfm, which multiplies embeddings" train.err

# A checkpoint warms another job's tables; an emulated device computes with them.
emulate_device || { nothing_left; exit 0; }
"$WEIR" train job.yaml --fresh --set device=cuda --set train.pace.batch_ms=0 --set train.passes=1 --set train.warm_start="$DIR/checkpoints" \
	--set tables.embedding.pull.cache='{memory: 1MiB, max_age: 8, max_uses: 4}' --report report.json > train.out 2> train.err || fail "no run on a device: $(tail -n 3 train.err)"
audited
grep -q device=cuda "$RUN/worker-0.log" || fail "the worker did not compute on the device"
holds report.json '.test.auc > 0.72 and .row_cache.hit_ratio > 0.3'
nothing_left

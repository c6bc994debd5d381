# The learning rate of a push follows the training, not its partition: a rare row learns the same
# with 1, 16 and 256 partitions, sync and async.
. "$(dirname "$0")/../integration/lib.sh"

# 300 rows, one per batch, all labels 1; only the first and the last have id 7. The rate of SGD
# falls linearly from 1 to 0, so the weight of id 7 takes a step of 1 - sigmoid(0) = .5 at rate 1
# and one of 1 - sigmoid(.5) = .3775407 at rate 1/300. It ends at .5012585.
awk 'BEGIN { for (i = 0; i < 300; i++) print 1, (i % 299 ? 1000 : 7) ":1" }' > "$DIR/train.svm"

run() { # run MODE PARTITIONS
	RUN=$DIR/run-$1-$2
	cat > "$DIR/job.yaml" << EOF
job: rare
run_dir: $RUN
cluster: {servers: 1, workers: 1, partitions: $2}
data: {format: libsvm, train: '$DIR/train.svm', valid: '$DIR/train.svm', fields: 1, batch: 1, unit_batches: 64, shuffle: false}
model: {kind: lr}
tables:
  embedding: {optimizer: {kind: sgd, lr: 1, schedule: {kind: linear}}, mode: {kind: $1}}
  dense: {optimizer: {kind: sgd, lr: 1.0e-9}, mode: {kind: $1}}
train: {passes: 1}
EOF
	"$WEIR" train "$DIR/job.yaml" --report "$DIR/report.json" > "$DIR/train.out" 2> "$DIR/train.err" || fail "training, $1 with $2 partitions"
	"$WEIR" export "$DIR/job.yaml" --out "$DIR/$1-$2" > /dev/null 2> "$DIR/export.err" || fail "export, $1 with $2 partitions"
	python3 - "$DIR/$1-$2" << 'EOF' || fail "the weight of id 7, $1 with $2 partitions"
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8 : 8 + n])
def column(name, code):
    first, end = header[name]["data_offsets"]
    return struct.unpack("<%d%s" % ((end - first) // struct.calcsize(code), code), data[8 + n + first : 8 + n + end])
weight = dict(zip(column("linear.keys", "Q"), column("linear.values", "f")))[7]
print("weight of id 7: %.7f" % weight)
sys.exit(abs(weight - 0.5012585) > 1e-6)
EOF
}

for partitions in 1 16 256; do
	run async $partitions
	run sync $partitions
done
cmp "$DIR/sync-1" "$DIR/sync-16" || fail "sync: 16 partitions learn something else than 1"
cmp "$DIR/sync-1" "$DIR/sync-256" || fail "sync: 256 partitions learn something else than 1"
nothing_left

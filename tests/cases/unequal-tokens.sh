# Synchronous workers whose batches differ in tokens, rows or row weights learn the same as one
# worker with the larger batch.
. "$(dirname "$0")/../integration/lib.sh"

# Pairs of short and long completions, so that batches of two have between 4 and 50 counted tokens.
# Then prompts longer than a sequence, which count no token.
python3 - "$DIR" << 'EOF'
import json, random, sys
random.seed(3)
text = lambda n: "".join(random.choice("abcdefgh") for _ in range(n))
with open(sys.argv[1] + "/train.jsonl", "w") as out:
    for i in range(20):
        for length in (1, 1, 24, 24) if i < 18 else (40, 40, 2, 2):
            row = {"prompt": text(26 if length == 1 else 3), "completion": text(length)}
            if length == 40:
                row = {"prompt": text(90), "completion": "x"}
            out.write(json.dumps(row) + "\n")
with open(sys.argv[1] + "/train.svm", "w") as out:
    # The last batch of 8 has 6 rows; of batches of 4 by two workers, one is full and one has 2.
    for i in range(406):
        a, b = random.randrange(30), random.randrange(50)
        out.write("%d %d:1 %d:1\n" % (random.random() < (a + b) / 80, a, 100 + b))
# Weights from 0 to 30, in runs: batches whose rows all weigh 0 meet batches of large weight.
with open(sys.argv[1] + "/weighted.svm", "w") as out:
    for i in range(406):
        a, b = random.randrange(30), random.randrange(50)
        weight = (0, 0.25, 1, 30)[i // 2 % 4] if i % 16 < 8 else random.random()
        out.write("%d:%g %d:1 %d:1\n" % (random.random() < (a + b) / 80, weight, a, 100 + b))
EOF

cat > "$DIR/text.yaml" << EOF
job: tokens
cluster: {servers: 1, workers: 1, partitions: 4}
data: {format: tokens, tokenizer: bytes, sequence: 32, packing: apart, train: '$DIR/train.jsonl', valid: '$DIR/train.jsonl', batch: 4, unit_batches: 1, shuffle: false}
model: {kind: gpt2, layers: 1, heads: 1, width: 16, vocabulary: 256, dropout: 0}
tables:
  dense: {optimizer: {kind: sgd, lr: 0.1}, mode: {kind: sync}}
train: {passes: 1}
EOF
cat > "$DIR/rows.yaml" << EOF
job: rows
cluster: {servers: 1, workers: 1, partitions: 4}
data: {format: libsvm, train: '$DIR/train.svm', valid: '$DIR/train.svm', fields: 2, batch: 8, unit_batches: 1, shuffle: false}
model: {kind: fm, dim: 4}
tables:
  embedding: {optimizer: {kind: adagrad, lr: 0.05}, mode: {kind: sync}}
  dense: {optimizer: {kind: sgd, lr: 0.1}, mode: {kind: sync}}
train: {passes: 1}
EOF

sed 's/^job: rows/job: weighted/; s/train\.svm/weighted.svm/g' "$DIR/rows.yaml" > "$DIR/weighted.yaml"

run() { # run JOB WORKERS BATCH
	RUN=$DIR/run-$1-$2
	"$WEIR" train "$DIR/$1.yaml" --set "run_dir=$RUN" --set "cluster.workers=$2" --set "data.batch=$3" > "$DIR/train.out" 2> "$DIR/train.err" ||
		fail "training of $1 with $2 workers"
}

# Only the order of sums differs: some hundred fp32 additions in each of some fifty steps of rate .1
# and gradients below 1 differ by far less than 1e-5. The mean of means differs by more than .01.
alike() { # alike JOB WORKERS
	python3 - "$DIR/run-$1-1/best.safetensors" "$DIR/run-$1-$2/best.safetensors" << 'EOF' || fail "$1: $2 workers learn something else than one"
import json, struct, sys
def load(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8 : 8 + n]).items():
        if name != "__metadata__" and t["dtype"] == "F32":
            first, end = t["data_offsets"]
            out[name] = struct.unpack("<%df" % ((end - first) // 4), data[8 + n + first : 8 + n + end])
    return out
a, b = load(sys.argv[1]), load(sys.argv[2])
assert a.keys() == b.keys()
far = max(abs(x - y) for name in a for x, y in zip(a[name], b[name]))
print("largest difference: %.2g" % far)
sys.exit(not far < 1e-5)
EOF
}

for job in text rows weighted; do
	run $job 1 "$([ $job = text ] && echo 4 || echo 8)"
	run $job 2 "$([ $job = text ] && echo 2 || echo 4)"
	run $job 4 "$([ $job = text ] && echo 1 || echo 2)"
	alike $job 2
	alike $job 4
done
nothing_left

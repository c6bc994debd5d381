# Weight decay shrinks matrices, including token embeddings, and spares biases and norms, unless the
# job says otherwise; on servers and in local rounds.
. "$(dirname "$0")/../integration/lib.sh"

awk 'BEGIN { srand(2); for (i = 0; i < 600; i++) printf "%s ", substr("the cat sat on a mat and so did we all then", 1 + int(rand() * 20), 3 + int(rand() * 9)) }' > "$DIR/train.txt"

run() { # run NAME SET...
	local name=$1
	shift
	cat > "$DIR/job.yaml" << EOF
job: decay
run_dir: $DIR/run-$name
cluster: {servers: 1, workers: 1, partitions: 2}
data: {format: tokens, tokenizer: bytes, sequence: 32, train: '$DIR/train.txt', valid: '$DIR/train.txt', batch: 4, unit_batches: 10}
model: {kind: gpt2, layers: 1, heads: 1, width: 16, vocabulary: 256, dropout: 0}
tables:
  dense: {optimizer: {kind: adamw, lr: 1.0e-5, weight_decay: 2000}, mode: {kind: sync}}
train: {passes: 2}
EOF
	RUN=$DIR/run-$name
	"$WEIR" train "$DIR/job.yaml" "$@" > "$DIR/train.out" 2> "$DIR/train.err" || fail "training ($name)"
}

# shrunk NAME KIND LEAST MOST: checks how far weight decay shrank the tensors with one dimension, or
# two.
shrunk() {
	python3 - "$DIR/run-plain/best.safetensors" "$DIR/run-$1/best.safetensors" "${@:2}" << 'EOF' || fail "$1: $2"
import json, struct, sys
def load(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8 : 8 + n]).items():
        if name != "__metadata__" and t["dtype"] == "F32":
            first, end = t["data_offsets"]
            out[name] = len(t["shape"]), struct.unpack("<%df" % ((end - first) // 4), data[8 + n + first : 8 + n + end])
    return out
plain, run = load(sys.argv[1]), load(sys.argv[2])
wanted, least, most = {"vectors": 1, "matrices": 2}[sys.argv[3]], float(sys.argv[4]), float(sys.argv[5])
norm = lambda x: sum(v * v for v in x) ** 0.5
seen = 0
for name, (dims, values) in plain.items():
    if dims != wanted or norm(values) < 0.5:  # a bias has moved by 1e-5 in each step, at the most
        continue
    left = norm(run[name][1]) / norm(values)
    print("%s: %.3f" % (name, left))
    assert least <= left <= most, name
    seen += 1
assert seen >= 3, "too few tensors"
EOF
}

run plain --set tables.dense.optimizer.weight_decay=0
run default
run all --set tables.dense.decay_vectors=true
run local --set 'tables.dense.optimizer={kind: sgd, lr: 1, weight_decay: 0}' \
	--set 'tables.dense.mode={kind: local, steps: 5, inner: {kind: adamw, lr: 1.0e-5, weight_decay: 2000}}'
shrunk default vectors .99 1.01
shrunk default matrices 0 .8
shrunk all vectors 0 .8
shrunk all matrices 0 .8
shrunk local vectors .99 1.01
shrunk local matrices 0 .8
nothing_left

# Two synchronous workers and the same seeds give the same file, byte for byte, however fast either of them is.
. "$(dirname "$0")/../integration/lib.sh"

awk 'BEGIN { srand(7); for (i = 0; i < 4000; i++) { a = int(rand() * 40); b = int(rand() * 60); print (rand() < (a + b) / 100), a ":1", 100 + b ":1" } }' > "$DIR/train.svm"

run() { # run NAME SET...
	local name=$1
	shift
	RUN=$DIR/run-$name
	cat > "$DIR/job.yaml" << EOF
job: repeat
run_dir: $RUN
cluster: {servers: 1, workers: 2}
data: {format: libsvm, train: '$DIR/train.svm', fields: 2, batch: 64, unit_batches: 3, split: {by: crc32}}
model: {kind: deepfm, dim: 4, hidden: [8], dropout: 0.2}
tables:
  embedding: {mode: {kind: sync}, optimizer: {kind: adam, lr: 1.0e-2, decay: full, schedule: {kind: linear, warmup: 10}}}
  dense: {mode: {kind: sync}, optimizer: {kind: adam, lr: 1.0e-2, schedule: {kind: cosine, warmup: 10}}}
train: {passes: 2}
EOF
	"$WEIR" train "$DIR/job.yaml" --report "$DIR/$name.json" "$@" > "$DIR/train.out" 2> "$DIR/train.err" || fail "training ($name)"
}

run first
run again
# One of them takes three times as long for each batch, as on another machine: the same batches meet.
run slow --set train.pace.batch_ms=2 --set train.pace.slow=one --set train.pace.times=3
for name in again slow; do
	cmp "$DIR/run-first/best.safetensors" "$DIR/run-$name/best.safetensors" || fail "run $name learns something else"
done
nothing_left

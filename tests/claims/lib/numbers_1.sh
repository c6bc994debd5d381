# Results do not depend on partitions or workers. Every optimizer and schedule gives the same bits
# with 1, 16 and 256 partitions; so do 1, 2 and 4 synchronous workers whose batches differ in tokens
# or rows, and three runs of two synchronous workers.
. tests/claims/lib/common.sh
need_programs

OPTIMIZERS='sgd momentum nesterov adagrad row_adagrad adam adamw lamb lion ftrl delayed_nesterov average adam_full adamw_full'
SCHEDULES='constant linear cosine wsd step triangular triangular2 exp_range'
awk 'BEGIN { srand(5); for (i = 0; i < 400; i++) { a = int(rand() * rand() * 60); b = int(rand() * 90); print (rand() < (a + b) / 150), a ":1", 100 + b ":1" } }' > "$WORK/train.svm"
optimizer() { # optimizer NAME SCHEDULE: prints it as a job writes it
	local kind=${1%_full} decay=lazy
	[ "$kind" = "$1" ] || decay=full
	echo "{kind: $kind, lr: 0.05, initial: 0.1, weight_decay: 0.1, l1: 0.01, l2: 0.01, window: 3, decay: $decay," \
		"schedule: {kind: $2, warmup: 3, decay: 10, period: 7, min: 0.1, gamma: 0.9}}"
}

# run NAME PARTITIONS OPTIMIZER SCHEDULE: one synchronous worker, with batches so small that most
# have rows in few partitions.
run() {
	cat > "$WORK/job.yaml" << EOF
job: $1
run_dir: $WORK/$1
cluster: {servers: 1, workers: 1, partitions: $2}
data: {format: libsvm, train: '$WORK/train.svm', valid: '$WORK/train.svm', fields: 2, batch: 8, unit_batches: 4}
model: {kind: deepfm, dim: 4, hidden: [8], batch_norm: true, dropout: 0.1}
tables:
  embedding: {mode: {kind: sync}, optimizer: $(optimizer "$3" "$4")}
  dense: {mode: {kind: sync}, optimizer: $(optimizer "${3%_full}" "$4")}
train: {passes: 2}
EOF
	"$BUILD/weir" train "$WORK/job.yaml" > "$WORK/out" 2>&1 || { cat "$WORK/out" >&2; give_up "$3 with $4 and $2 partitions does not train"; }
}

# same FILE...: the same tensors, rows by their keys, bit for bit.
same() {
	python3 - "$@" << 'EOF'
import json, struct, sys
def load(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + n])
    raw = lambda t: data[8 + n + t["data_offsets"][0] : 8 + n + t["data_offsets"][1]]
    out = {k: raw(t) for k, t in header.items() if k != "__metadata__"}
    for name in [k[:-5] for k in out if k.endswith(".keys")]:
        keys = struct.unpack("<%dQ" % (len(out[name + ".keys"]) // 8), out[name + ".keys"])
        values = out.pop(name + ".values")
        width = len(values) // max(len(keys), 1)
        out[name] = {k: values[i * width : (i + 1) * width] for i, k in enumerate(keys)}
        out[name + ".keys"] = sorted(keys)
    return out
first = load(sys.argv[1])
for path in sys.argv[2:]:
    other = load(path)
    for name in first.keys() | other.keys():
        if first.get(name) != other.get(name):
            sys.exit("%s and %s differ in %s" % (sys.argv[1], path, name))
EOF
}

combinations=0 different=0
set -- $SCHEDULES
for o in $OPTIMIZERS; do
	[ "$QUICK" = 1 ] && some=$1 || some=$SCHEDULES
	for s in $some; do
		for p in 1 16 256; do run "$o-$s-$p" $p $o $s; done
		same "$WORK/$o-$s-1/best.safetensors" "$WORK/$o-$s-16/best.safetensors" "$WORK/$o-$s-256/best.safetensors" ||
			{ different=$((different + 1)) && say "$o with $s depends on the partitions"; }
		combinations=$((combinations + 1))
		rm -rf "$WORK/$o-$s"-*
	done
	shift
	[ $# -gt 0 ] || set -- $SCHEDULES
done
echo "partitions 1, 16, 256: $combinations pairs of optimizer and schedule, $different of them different$([ "$QUICK" = 1 ] && echo ' (QUICK: each optimizer with one schedule)')"

bash tests/cases/unequal-tokens.sh "$BUILD" > "$WORK/workers" 2>&1
workers=$?
sed 's/^/1, 2, 4 workers with unequal tokens and rows: /' "$WORK/workers"

cat > "$WORK/repeat.yaml" << EOF
job: repeat
cluster: {servers: 2, workers: 2}
data: {format: libsvm, train: '${WEIR_DATA}/frappe/frappe.libfm', fields: 10, batch: 512, unit_batches: 4, split: {by: crc32}}
model: {kind: fm, dim: 4}
tables:
  embedding: {mode: {kind: sync}, optimizer: {kind: adam, lr: 1.0e-2, schedule: {kind: linear, warmup: 10}}}
  dense: {mode: {kind: sync}, optimizer: {kind: adam, lr: 1.0e-2, schedule: {kind: linear, warmup: 10}}}
train: {passes: 2}
EOF
for i in 1 2 3; do
	train "repeat-$i" "$WORK/repeat.yaml"
	sha256sum < "$WORK/repeat-$i/best.safetensors" >> "$WORK/sums"
done
files=$(sort -u "$WORK/sums" | wc -l)
echo "three runs of two synchronous workers: $files different files ($(head -c 16 "$WORK/sums"))"
verdict "$combinations > 0 and $different == 0 and $workers == 0 and $files == 1" \
	"equal results for any partitions and workers: $combinations combinations, $((combinations - different)) equal"

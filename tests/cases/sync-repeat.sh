# Two synchronous workers with the same seeds give the same file, byte for byte, however fast either
# one is. The weights are also the same when the run is stopped and resumed, or when workers, the
# server or all processes are killed.
. "$(dirname "$0")/../integration/lib.sh"

awk 'BEGIN { srand(7); for (i = 0; i < 4000; i++) { a = int(rand() * 40); b = int(rand() * 60); print (rand() < (a + b) / 100), a ":1", 100 + b ":1" } }' > "$DIR/train.svm"

job() { # job NAME
	RUN=$DIR/run-$1
	cat > "$DIR/job.yaml" << EOF
job: repeat
run_dir: $RUN
cluster: {servers: 1, workers: 2, log: disk}
data: {format: libsvm, train: '$DIR/train.svm', fields: 2, batch: 64, unit_batches: 3, split: {by: crc32}}
model: {kind: deepfm, dim: 4, hidden: [8], dropout: 0.2}
tables:
  embedding: {mode: {kind: sync}, optimizer: {kind: adam, lr: 1.0e-2, decay: full, schedule: {kind: linear, warmup: 10}}}
  dense: {mode: {kind: sync}, optimizer: {kind: adam, lr: 1.0e-2, schedule: {kind: cosine, warmup: 10}}}
train: {passes: 2}
EOF
}

run() { # run NAME SET...
	local name=$1
	shift
	job "$name"
	"$WEIR" train "$DIR/job.yaml" --report "$DIR/$name.json" "$@" > "$DIR/train.out" 2> "$DIR/train.err" || fail "training ($name)"
}

run first
run again
# One worker takes three times as long per batch, as on another machine: the same batches meet.
run slow --set train.pace.batch_ms=2 --set train.pace.slow=one --set train.pace.times=3
for name in again slow; do
	cmp "$DIR/run-first/best.safetensors" "$DIR/run-$name/best.safetensors" || fail "run $name learns something else"
done

# Compares rows by key, as a restarted server stores them in another order; everything else is
# identical to the bit.
same_weights() {
	python3 - "$1" "$2" << 'EOF'
import json, struct, sys
def load(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header, data = json.loads(data[8 : 8 + n]), data[8 + n :]
    del header["__metadata__"]
    out = {name: data[slice(*t["data_offsets"])] for name, t in header.items()}
    for name in [name for name in out if name.endswith(".keys")]:
        keys, values = out.pop(name), name[:-4] + "values"
        width = len(out[values]) * 8 // len(keys)
        rows = range(len(keys) // 8)
        out[values] = {keys[8 * i : 8 * i + 8]: out[values][width * i : width * (i + 1)] for i in rows}
    return out
a, b = load(sys.argv[1]), load(sys.argv[2])
different = [name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)]
print("different:", *different) if different else None
sys.exit(bool(different))
EOF
}

# steps N: waits until N steps have closed.
steps() { status "([.tables[].steps] | max) >= $1"; }

# They hold the locks of their folders until they end.
kill_all() {
	local p all
	all=$(left_over)
	kill -KILL "$TRAIN"
	for p in $all; do
		kill -KILL "$p" 2> /dev/null
	done
	wait "$TRAIN" 2> /dev/null
	for p in $all; do
		wait_for 30 "process $p to end" is_gone "$p"
	done
}

# Batches last long enough for everything to happen within some fifty steps. One worker is slower,
# so the other waits most of the time.
PACE=(--set train.pace.batch_ms=20 --set train.pace.slow=one --set train.pace.times=3)
for what in stop worker workers server both all; do
	job $what
	start_train "${PACE[@]}"
	wait_for 60 "ten steps" steps 10
	case $what in
	stop)
		kill -TERM "$TRAIN"
		finish_train 60
		[ $STATUS = $STOPPED ] || fail "exit status $STATUS of the stopped run"
		start_train --resume "${PACE[@]}"
		;;
	worker) kill -KILL "$(pid_of worker-0)" ;;
	workers)
		kill -KILL "$(pid_of worker-1)"
		wait_for 60 "fifteen steps" steps 15
		for worker in worker-0 worker-1; do
			wait_for 10 "$worker" pid_of $worker > "$DIR/pid"
			kill -KILL "$(tail -n 1 "$DIR/pid")"
		done
		;;
	server) kill -KILL "$(pid_of server-0)" ;;
	both) kill -KILL "$(pid_of worker-1)" "$(pid_of server-0)" ;;
	all)
		kill_all
		start_train --resume "${PACE[@]}"
		;;
	esac
	finish_train 100
	[ $STATUS = 0 ] || fail "exit status $STATUS: $what"
	audited
	same_weights "$DIR/run-first/best.safetensors" "$RUN/best.safetensors" || fail "$what: other weights than a run that nothing happened to"
	echo "$what: the same weights"
done
nothing_left

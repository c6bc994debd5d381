# Recovery of a server with 10 M rows and a log tail of 1 GB after a kill. Prints the seconds until
# it has caught up (it serves only after the whole replay; most rows are loaded later, on demand)
# and until its first pull, and the replay rate relative to the rate at which the DeepFM job wrote
# that log. The rows come from a warm start, whose entries are flushed before the tail begins, so
# the tail is the job's pushes. No validation runs while the job's rate is measured.
. tests/claims/lib/common.sh
need_programs
rows=$(pick 1000000 10000000) tail=$(pick 100000000 1000000000)
[ "$QUICK" = 1 ] && echo "QUICK: $rows rows instead of 10 M, a tail of $tail bytes instead of 1 GB"
deepfm_job 400000 ", log: disk, memory_budget: 16GiB"
train first "$WORK/deepfm.yaml"
# Its weights with more rows, as a start.
python3 - "$WORK/first/best.safetensors" "$WORK/start.safetensors" "$rows" <<'PY'
import array, json, struct, sys
data, rows = open(sys.argv[1], 'rb').read(), int(sys.argv[3])
n, = struct.unpack('<Q', data[:8])
header, body = json.loads(data[8:8 + n]), data[8 + n:]
meta, tensors = header.pop('__metadata__', {}), {}
for name, t in header.items():
    tensors[name] = [t['dtype'], t['shape'], body[slice(*t['data_offsets'])]]
have = tensors['embedding.keys'][1][0]
more = max(0, rows - have)
tensors['embedding.keys'][2] += array.array('Q', ((i * 0x9e3779b97f4a7c15) & (2**64 - 1) for i in range(1, more + 1))).tobytes()
tensors['embedding.values'][2] += struct.pack('<f', 0.01) * (16 * more)
tensors['embedding.keys'][1], tensors['embedding.values'][1] = [have + more], [have + more, 16]
at, out = 0, {'__metadata__': meta}
order = sorted(tensors, key=lambda k: tensors[k][0] != 'U64')
for name in order:
    out[name] = {'dtype': tensors[name][0], 'shape': tensors[name][1], 'data_offsets': [at, at + len(tensors[name][2])]}
    at += len(tensors[name][2])
text = json.dumps(out, separators=(',', ':')).encode()
text += b' ' * (-len(text) % 8)
with open(sys.argv[2], 'wb') as f:
    f.write(struct.pack('<Q', len(text)) + text)
    for name in order:
        f.write(tensors[name][2])
PY
SAME=(--set data.generate.rows=0 --set "data.train=$WORK/first/generated.tsv" --set "data.cache=$WORK/first/cache" --set "run_dir=$WORK/long" --set train.passes=1000 --set train.keep_best=false)
start() { # start ARGUMENTS...
	"$BUILD/weir" train "$WORK/deepfm.yaml" "${SAME[@]}" "$@" >> "$WORK/long.out" 2>> "$WORK/long.err" &
	train=$!
}
start --set "train.warm_start=$WORK/start.safetensors" --set cluster.flush_interval_ms=1000
leave_nothing() {
	[ -z "${train:-}" ] || { kill -TERM $train; kill -TERM $train; wait $train; }
	rm -rf "$WORK"
} 2> /dev/null
trap leave_nothing EXIT
look() { "$BUILD/weir" status --job "$WORK/deepfm.yaml" --set "run_dir=$WORK/long" --json > "$WORK/now.json" 2> /dev/null; }
says() { look && jq -e "$1" "$WORK/now.json" > /dev/null; }
log_bytes() { jq '.servers[0].durable.journal_bytes' "$WORK/now.json"; }
wait_for 600 "training to begin" says '.rows > 100000'
# Their log entries have 72 bytes per row.
wait_for 600 "the rows to be flushed" says ".servers[0].durable.journal_bytes < $rows * 20"
before=$(jq .rows "$WORK/now.json") held=$(jq '.servers[0].durable.resident_rows' "$WORK/now.json")
kill -TERM $train && wait $train
start --resume --set cluster.flush_interval_ms=3600000 # stops flushes
wait_for 600 "training to go on" says ".rows > $before + 20000"
a=$(log_bytes) ta=$(date +%s.%N)
# The replay does not include entry headers.
wait_for 300 "a log tail of $tail bytes" says ".servers[0].durable.journal_bytes >= $a + 1.01 * $tail"
b=$(log_bytes) tb=$(date +%s.%N)
server=$(jq '.servers[0].pid' "$WORK/now.json")
killed=$(date +%s.%N)
kill -KILL "$server"
wait_for 600 "the server to serve again" says ".servers[0].pid != $server and .servers[0].durable.recovery_ms > 0"
back=$(date +%s.%N)
wait_for 120 "the first pull" says "([.tables[].pulls] | add) > 0"
pulled=$(date +%s.%N)
rows_after=$(jq .rows "$WORK/now.json")
wait_for 120 "training to go on" says ".rows > $rows_after"
line=$(grep recovered "$WORK/long/server-0.log" | tail -n 1)
ms=$(sed 's/.* ms=\([0-9]*\).*/\1/' <<< "$line") bytes=$(sed 's/.* bytes=\([0-9]*\).*/\1/' <<< "$line") replay=$(sed -n 's/.* replay_ms=\([0-9]*\).*/\1/p' <<< "$line")
job_rate=$(python3 -c 'import sys; a, b, t, u = map(float, sys.argv[1:]); print(f"{(b - a) / (u - t) / 1e6:.1f}")' "$a" "$b" "$ta" "$tb")
replay_rate=$(python3 -c 'import sys; print(f"{float(sys.argv[1]) / float(sys.argv[2]) / 1e3:.1f}")' "$bytes" "${replay:-$ms}")
since() { python3 -c 'import sys; print(f"{float(sys.argv[1]) - float(sys.argv[2]):.1f}")' "$1" "$killed"; }
echo "$held rows; $line"
echo "killed to caught up, restart pause included: $(since "$back") s, to the first pull: $(since "$pulled") s; recovery ${ms} ms, of it replay ${replay:-unknown} ms of $bytes bytes"
echo "replay $replay_rate MB/s of log; the DeepFM job wrote it at $job_rate MB/s"
verdict "$job_rate > 0 and $replay_rate >= 5 * $job_rate and $bytes >= $tail and $held >= $rows" "replay at least 5 times as fast as the job wrote, of at least $tail bytes, with $rows rows"

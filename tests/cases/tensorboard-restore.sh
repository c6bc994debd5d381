# After a restore TensorBoard shows one curve: a SessionLog START at the checkpoint's step makes it
# drop later points.
. "$(dirname "$0")/../integration/lib.sh"
rows() { awk -v seed="$1" 'BEGIN { srand(seed); for (i = 0; i < 400; i++) print (rand() < 0.5 ? 1 : -1), int(rand() * 5) + 1 ":1", int(rand() * 3) + 10 ":1" }'; }
rows 1 > "$DIR/train.svm"
rows 2 > "$DIR/valid.svm"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {servers: 1, workers: 1, log: disk}
	data: {format: libsvm, train: $DIR/train.svm, valid: $DIR/valid.svm, fields: 2, batch: 8, unit_batches: 5}
	model: {kind: lr}
	tables: {embedding: {optimizer: {kind: adam, lr: 1e-2}}, dense: {optimizer: {kind: adam, lr: 1e-2}}}
	train: {passes: 1000, pace: {batch_ms: 30}}
	checkpoint: {every_steps: 53, keep: 1000}
JOB
start_train
# The first checkpoint follows an evaluation, and the curve has points after it.
wait_for 60 "a curve beyond the first checkpoint" status '.checkpoints.written >= 2 and .rows >= 8 * 100'
stop_train 30

first=$(find "$RUN/checkpoints" -maxdepth 1 -name 'ck-*.json' -printf '%f\n' | sort | head -1)
first=${first%.json}
"$WEIR" restore "$DIR/job.yaml" --from "$first" > "$DIR/restore.out" 2> "$DIR/restore.err" || fail "restore: $(cat "$DIR/restore.err")"
step=$(sed -n 's/.*, after \([0-9]*\) batches.*/\1/p' "$DIR/restore.out")
start_train --resume --set "train.passes=$PASSES"
finish_train 60
[ "$STATUS" = 0 ] || fail "exit status $STATUS"

# As TensorBoard does: reads files in name order; a START drops points of its step and later ones.
python3 - "$RUN/events" "$step" <<-'PY' || fail "the curves overlap"
	import glob, struct, sys
	def varint(b, i):
	    n = shift = 0
	    while True:
	        n |= (b[i] & 127) << shift; shift += 7; i += 1
	        if b[i - 1] < 128: return n, i
	def fields(b):
	    i = 0
	    while i < len(b):
	        key, i = varint(b, i)
	        if key & 7 == 0: value, i = varint(b, i)
	        elif key & 7 == 2:
	            n, i = varint(b, i); value, i = b[i:i + n], i + n
	        else:
	            n = 8 if key & 7 == 1 else 4
	            value, i = b[i:i + n], i + n
	        yield key >> 3, value
	restored, starts, dropped, curve = int(sys.argv[2]), [], 0, []
	for name in sorted(glob.glob(sys.argv[1] + "/*")):
	    b, i = open(name, "rb").read(), 0
	    while i < len(b):
	        n = struct.unpack_from("<Q", b, i)[0]
	        event = dict(fields(b[i + 12:i + 12 + n]))
	        i += 16 + n
	        step = event.get(2, 0)
	        if 7 in event and dict(fields(event[7])).get(1) == 1:
	            starts.append(step)
	            dropped += sum(s >= step for s, _ in curve)
	            curve = [(s, t) for s, t in curve if s < step]
	        for number, value in fields(event.get(5, b"")):
	            curve.append((step, dict(fields(value))[1]))
	assert restored in starts, (restored, starts)
	assert dropped > 0, "nothing was beyond the checkpoint"
	losses = [s for s, t in curve if t == b"train/loss"]
	assert losses == sorted(set(losses)) and len(losses) > 1, losses
	assert any(s > restored for s in losses), losses
	valid = [s for s, t in curve if t == b"valid/auc"]
	# A pass has 50 batches.
	assert len(valid) == len(set(valid)) and all(s % 50 == 0 for s in valid) and valid, valid
	print(len(losses), "losses and", len(valid), "evaluations after", dropped, "were dropped; starts at", starts)
PY
nothing_left

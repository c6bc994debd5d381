# Python's safetensors opens what `weir export` writes, for a running job and a finished one, and
# reads the rows that Weir reports.
for PYTHON in python3 /usr/bin/python3 none; do
	"$PYTHON" -c "import safetensors" 2> /dev/null && break
done
[ "$PYTHON" != none ] || { echo "no Python here has the module safetensors: skipped"; exit 77; }
. "$(dirname "$0")/lib.sh"
write_job 30

# opens FILE: it has all tensors of the model in their shapes, and no spare byte.
opens() {
	"$PYTHON" - "$1" <<-'PY' || fail "$1 does not open"
		import struct, sys
		from safetensors import deserialize
		tensors = dict(deserialize(open(sys.argv[1], "rb").read()))
		for table, width in ("embedding", 8), ("linear", 1):
		    keys, values = tensors[table + ".keys"], tensors[table + ".values"]
		    rows = keys["shape"][0]
		    assert keys["dtype"] == "U64" and values["dtype"] == "F32", (keys["dtype"], values["dtype"])
		    assert rows > 1000 and values["shape"] == [rows, width], (keys["shape"], values["shape"])
		    assert len(set(struct.unpack("<%dQ" % rows, bytes(keys["data"])))) == rows, "a key comes twice"
		    floats = struct.unpack("<%df" % (rows * width), bytes(values["data"]))
		    assert any(floats) and all(abs(f) < 100 for f in floats), "values that no training makes"
		print(sys.argv[1].split("/")[-1], {name: t["shape"] for name, t in tensors.items()})
	PY
}

start_train
wait_for 60 "the first rows" status ".rows >= 20000"
"$WEIR" export --job "$DIR/job.yaml" --out "$DIR/running.safetensors" > "$DIR/out" 2> "$DIR/export.err" || fail "weir export of a running job"
grep -q "the running job at" "$DIR/out" || fail "exported something else: $(cat "$DIR/out")"
opens "$DIR/running.safetensors"
kill -TERM "$TRAIN"
finish_train 30
"$WEIR" export --job "$DIR/job.yaml" --out "$DIR/ended.safetensors" > "$DIR/out" 2> "$DIR/export.err" || fail "weir export of a job that has ended"
opens "$DIR/ended.safetensors"
cmp "$DIR/ended.safetensors" "$RUN/best.safetensors" || fail "not the best weights"
[ -z "$(find "$DIR" -name '*.spool' -o -name '*.tmp')" ] || fail "files are left: $(find "$DIR" -name '*.spool' -o -name '*.tmp')"
nothing_left

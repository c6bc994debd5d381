# libsvm ids reach 2^64-1, with and without data.fields. Larger ones are refused with that limit.
. "$(dirname "$0")/../integration/lib.sh"
cd "$DIR" || exit 1
# Multiples of 2^64 divided by the golden ratio, and the largest id.
python3 > ids.svm <<-PY
	for i in range(160):
	    y = i % 2
	    print(y, *("%d:1" % ((0x9e3779b97f4a7c15 * (1 + 40 * j + i % 9)) % 2**64) for j in range(2)), "%d:1" % (2**64 - 1 - y))
PY
cat > job.yaml <<-JOB
	job: ids
	run_dir: $RUN
	data: {format: libsvm, train: ids.svm, valid: ids.svm, batch: 16, fields: 3}
	model: {kind: lr}
	tables: {embedding: {optimizer: {lr: 0.1}}}
	train: {passes: 3}
JOB
for fields in 3 auto; do
	"$WEIR" train job.yaml --fresh --set data.fields=$fields --report report.json > train.out 2> train.err || fail "data.fields $fields"
	holds report.json '.valid.auc == 1 and .valid.rows == 160 and .bad_lines == 0'
	audited
done
"$WEIR" export job.yaml --out ids.safetensors > export.out || fail "weir export"
python3 - <<-PY || fail "the exported keys are not those of the file"
	import json, struct
	f = open("ids.safetensors", "rb"); n = struct.unpack("<Q", f.read(8))[0]
	begin, end = json.loads(f.read(n))["linear.keys"]["data_offsets"]
	f.seek(8 + n + begin)
	keys = set(struct.unpack("<%dQ" % ((end - begin) // 8), f.read(end - begin)))
	assert keys == {int(e.split(":")[0]) for line in open("ids.svm") for e in line.split()[1:]}
PY
sed 's/18446744073709551615/18446744073709551616/' ids.svm > beyond.svm
"$WEIR" train job.yaml --fresh --set data.train=beyond.svm --set data.bad_lines_max=9 > train.out 2> train.err && fail "2^64 was taken"
told "beyond.svm:1" "beyond 2^64 - 1" train.err
nothing_left
echo "ids up to 2^64 - 1 are taken"

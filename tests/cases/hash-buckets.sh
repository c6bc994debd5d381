# Each field has its own hash buckets: one bucket gives 2 keys for 2 fields and 26 for Criteo's, and
# as many buckets as ids lose nothing.
. "$(dirname "$0")/../integration/lib.sh"
cd "$DIR" || exit 1
# An id in one field has the opposite meaning in the other.
awk 'BEGIN { for (i = 0; i < 1200; i++) { a = (i * 7 + int(i / 40)) % 40; b = (i * 13) % 40; print (a - b > 0), "0:" a ":1", "1:" b ":1" } }' > opposite.ffm
"$WEIR" datagen --rows 300 --ids 13312 --seed 5 --out click.tsv > datagen.out || fail "weir datagen"
cat > ffm.yaml <<-JOB
	job: ffm
	run_dir: $RUN
	data: {format: libffm, train: opposite.ffm, valid: opposite.ffm, batch: 64, unit_batches: 4}
	model: {kind: lr}
	tables: {embedding: {optimizer: {lr: 0.05}}, dense: {optimizer: {lr: 0.05}}}
	train: {passes: 4}
JOB
cat > criteo.yaml <<-JOB
	job: criteo
	run_dir: $RUN
	data: {format: criteo, train: click.tsv, valid: click.tsv, hash_buckets: 1, batch: 64}
	model: {kind: lr}
JOB
# keys FILE: rows of the exported table.
keys() { python3 -c 'import json, struct, sys
f = open(sys.argv[1], "rb"); n = struct.unpack("<Q", f.read(8))[0]
print(json.loads(f.read(n))["linear.keys"]["shape"][0])' "$1"; }
# train JOB BUCKETS: trains and prints the number of keys.
train() {
	"$WEIR" train "$1.yaml" --fresh --set data.hash_buckets="$2" --report "$DIR/report.json" > train.out 2> train.err || fail "weir train $1"
	"$WEIR" export "$1.yaml" --set data.hash_buckets="$2" --out "$1-$2.safetensors" > export.out 2> export.err || fail "weir export $1"
	keys "$1-$2.safetensors"
}
one=$(train ffm 1) && forty=$(train ffm 40) || fail "$one $forty"
holds report.json ".valid.auc > 0.97"
folded=$(json report.json .valid.auc)
none=$(train ffm 0) && all=$(train criteo 1) || fail "$none $all"
[ "$one $forty $none $all" = "2 80 80 26" ] || fail "$one, $forty, $none and $all keys, not 2, 80, 80 and 26"
"$WEIR" train ffm.yaml --fresh --set data.hash_buckets=4503599627370497 > train.out 2> train.err && fail "2^52 + 1 buckets were taken"
told data.hash_buckets 4503599627370496 train.err
nothing_left
echo "2 keys of 2 fields, 26 of 26, AUC $folded with as many buckets as ids"

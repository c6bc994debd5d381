# A text model from its file to its report. It learns more than byte frequencies; then it is
# evaluated, used to predict, exported, and used as a start. With the text of WEIR_DATA, if present,
# it takes a few more steps.
. "$(dirname "$0")/lib.sh"
# Eight words, mostly in an order that the previous word decides: 2.5 nats per byte by frequency,
# well below one with context.
awk 'BEGIN {
	srand(5); split("ship sails over the wide green evening sea", w, " ")
	for (i = 0; i < 30000; i++) { at = rand() < 0.8 ? at % 8 + 1 : int(rand() * 8) + 1; printf "%s%s", w[at], i % 9 == 8 ? "\n" : " " }
}' > "$DIR/text.txt"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {servers: 2, workers: 2, partitions: 8, lease_ms: 3001}
	data:
	  format: text
	  context: 12
	  train: $DIR/text.txt
	  split: {by: crc32, train: 6, valid: 2, test: 2}
	  batch: 128
	  unit_batches: 8
	model: {kind: ngram, dim: 8, hidden: [64], init_std: 0.3}
	tables: {dense: {optimizer: {kind: adam, lr: 5.0e-3}}}
	train: {passes: 2, threads: 1}
JOB
start_train
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" '.finished and .model == "ngram" and (.passes | length) == 2'
holds "$DIR/report.json" '.test.loss > 0.1 and .test.loss < 0.9 and (.test.bits_per_byte - .test.loss / (2 | log) | fabs) < 1e-9'
holds "$DIR/report.json" '(.test | has("auc") or has("logloss")) == false'
# The first pass has learnt nearly all there is: the second may only lose the noise of two workers.
holds "$DIR/report.json" '.passes[1].loss < .passes[0].loss * 1.05'
grep -q "nats a byte" "$DIR/train.out" || fail "the report does not say the loss"
nothing_left

told_alike test
[ "$(wc -l < "$DIR/scores.txt")" = "$(json "$DIR/report.json" .test.rows)" ] || fail "not a line for each byte"
"$WEIR" export --job "$DIR/job.yaml" --out "$DIR/model.safetensors" > /dev/null 2> "$DIR/export.err" || fail "weir export"

# Exported weights are a start: one more pass begins far below chance.
start_train --set run_dir="$RUN-2" --set train.warm_start="$DIR/model.safetensors" --set train.passes=1
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS with the exported weights"
holds "$DIR/report.json" '.test.loss < 0.9'
"$WEIR" train "$DIR/job.yaml" --set model.kind=lr > "$DIR/out" 2> "$DIR/use.err" && fail "text is no click data"
told model.kind "expected ngram" "$DIR/use.err"

text=${WEIR_DATA:-/nowhere}/tinyshakespeare/input.txt
if [ -r "$text" ]; then
	head -c 200000 "$text" > "$DIR/text.txt"
	start_train --fresh --set train.passes=1
	finish_train 100
	[ $STATUS = 0 ] || fail "exit status $STATUS on $text"
	# Byte frequencies alone give 3.3.
	holds "$DIR/report.json" '.test.loss > 1.5 and .test.loss < 2.9'
fi

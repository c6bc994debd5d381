# tables.embedding.pull.cache: a worker pulls fewer rows, by the number of its cache hits, and
# trains to the same AUC; also on an emulated device.
. "$(dirname "$0")/lib.sh"
# train NAME EXTRA...: one worker and one server on the CPU; the report is in NAME.json.
train() {
	local name=$1
	shift
	cat > "$DIR/job.yaml" <<-JOB
		job: it
		run_dir: $RUN
		device: cpu
		cluster: {servers: 1, workers: 1, partitions: 4}
		data: {generate: {rows: 30000, ids: 20000, seed: 3}, split: {train: 6, valid: 0, test: 4}, batch: 128, unit_batches: 8, seed: 5}
		model: {kind: fm, dim: 8}
		tables: {embedding: {optimizer: {kind: adam, lr: 1.0e-3}}, dense: {optimizer: {kind: adam, lr: 1.0e-3}}}
		train: {passes: 2, seed: 7, threads: 1}
	JOB
	start_train --fresh "$@"
	finish_train 60
	[ $STATUS = 0 ] || fail "$name: exit status $STATUS"
	audited
	cp "$DIR/report.json" "$DIR/$name.json"
}
CACHE=(--set "tables.embedding.pull.cache={memory: 1MiB, max_age: 8, max_uses: 4}")

# Rows requested from one keyed table, computed from the bytes of two tables with the same keys and
# messages, but 8 values or 1.
pulled_rows='[.tables[] | {(.name): .pull_plain_bytes}] | add | (.embedding - .linear) / 4 / (8 - 1)'
# saves PLAIN CACHED: the requested rows, including the evaluator's, shrink by the hits.
saves() {
	jq -es "(.[0] | $pulled_rows) - (.[1] | $pulled_rows) == .[1].row_cache.hits" "$DIR/$1.json" "$DIR/$2.json" > /dev/null ||
		fail "$1 pulled $(json "$DIR/$1.json" "$pulled_rows") rows, $2 $(json "$DIR/$2.json" "$pulled_rows"): $(jq -c .row_cache "$DIR/$2.json")"
	jq -es '.[0].bytes.pulled - .[1].bytes.pulled > 0.99 * .[1].row_cache.hits * 4 * (8 + 1)' "$DIR/$1.json" "$DIR/$2.json" > /dev/null ||
		fail "$1 pulled $(json "$DIR/$1.json" .bytes.pulled) bytes, $2 $(json "$DIR/$2.json" .bytes.pulled)"
	jq -es '(.[0].test.auc - .[1].test.auc | fabs) < 0.002' "$DIR/$1.json" "$DIR/$2.json" > /dev/null ||
		fail "the AUC of $1 is $(json "$DIR/$1.json" .test.auc), of $2 $(json "$DIR/$2.json" .test.auc)"
}
train plain
holds "$DIR/plain.json" 'has("row_cache") | not'
train cached "${CACHE[@]}"
holds "$DIR/cached.json" '.row_cache.hit_ratio > 0.3 and .row_cache.hits < .row_cache.keys'
grep -q '^  row cache  ' "$DIR/train.out" || fail "the report does not tell of the cache"
saves plain cached

emulate_device || { nothing_left; exit 0; }
train device "${CACHE[@]}" --set device=cuda
grep -q "device=cuda" "$RUN/worker-0.log" || fail "the worker's log does not say that it computed on a CUDA device"
saves plain device
jq -es '.[0].row_cache == .[1].row_cache' "$DIR/cached.json" "$DIR/device.json" > /dev/null || # only keys matter
	fail "the cache had $(jq -c .row_cache "$DIR/cached.json") on the CPU, $(jq -c .row_cache "$DIR/device.json") on the device"
start_train --fresh --set tables.embedding.pull.cache.memory=900GiB --set device=cuda
finish_train 60
[ $STATUS = 1 ] || fail "a cache of 900 GiB: exit status $STATUS"
told "tables.embedding.pull.cache.memory" "expected at most" "$RUN/worker-0.log"
nothing_left

# Layers that travel while others compute give the weights, to the bit, of a dense table that travels
# whole: of click models and transformers, undisturbed, and with kill -9 of a server and of the
# worker while a batch is on its way. The audit is exact each time.
. "$(dirname "$0")/lib.sh"
PASSES=2 RATE=200Mb/s # 4.3 MB a batch and way: most of the time something is on its way
clicks() { # clicks OVERLAP
	cat > "$DIR/job.yaml" <<-JOB
		job: it
		run_dir: $RUN
		cluster: {servers: 2, workers: 1, partitions: 8, lease_ms: 20001, log: disk, network: {rate: $RATE}}
		data: {generate: {rows: 6000, ids: 20000, seed: 3}, batch: 256, unit_batches: 4, shuffle: true, seed: 5}
		model: {kind: deepfm, dim: 8, hidden: [1024, 512, 256], dropout: 0.1}
		tables:
		  embedding: {optimizer: {kind: adam, lr: 1.0e-3}, mode: {kind: sync}}
		  dense: {optimizer: {kind: adam, lr: 1.0e-3}, mode: {kind: sync}}
		train: {passes: $PASSES, seed: 7, threads: 1, keep_best: false, overlap: $1}
	JOB
}
text() { # text OVERLAP
	cat > "$DIR/job.yaml" <<-JOB
		job: it
		run_dir: $RUN
		cluster: {servers: 2, workers: 1, partitions: 8}
		data: {format: tokens, tokenizer: bytes, sequence: 32, train: $DIR/text.txt, split: {by: crc32, train: 80, valid: 20, test: 0}, batch: 8, unit_batches: 8}
		model: {kind: gpt2, layers: 2, heads: 4, width: 160, dropout: 0.1}
		tables: {dense: {optimizer: {kind: adamw, lr: 1.0e-3}, push: {codec: bf16}, pull: {codec: bf16}, mode: {kind: sync}}}
		train: {passes: 1, threads: 1, keep_best: false, overlap: $1}
	JOB
}
travels() { grep -q "layers travel" "$RUN/worker-0.log"; }

clicks off
start_train
ended_with_weights whole
travels && fail "layers travel with overlap: off"
clicks layers
start_train --fresh
ended_with_weights layers whole
travels || fail "no layer travels with overlap: layers"

start_train --fresh
wait_for 60 "the first rows" status ".rows >= 1000"
kill -KILL "$(pid_of server-1)"
wait_for 60 "more rows" status ".rows >= 3000"
kill -KILL "$(pid_of worker-0)"
ended_with_weights killed whole
holds "$DIR/report.json" ".workers_lost >= 1 and .servers_lost >= 1"

seq 1 9000 > "$DIR/text.txt"
text off
start_train --fresh
ended_with_weights text
text auto
start_train --fresh
ended_with_weights text-layers text
travels || fail "no layer of a transformer travels with overlap: auto"

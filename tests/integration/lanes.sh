# Bulk data over lanes give the weights, to the bit, of the same run over gRPC: undisturbed, and with
# kill -9 of a server and of the worker. Where a lane cannot be opened the data go over gRPC, with a
# warning. The audit is exact each time.
. "$(dirname "$0")/lib.sh"
write_job() { # write_job LANE
	cat > "$DIR/job.yaml" <<-JOB
		job: it
		run_dir: $RUN
		cluster: {servers: 2, workers: 1, partitions: 8, lease_ms: 20001, log: disk, lane: $1, network: {rate: 400Mb/s}}
		data: {generate: {rows: 6000, ids: 20000, seed: 3}, batch: 256, unit_batches: 4, shuffle: true, seed: 5}
		model: {kind: deepfm, dim: 8, hidden: [1024, 512, 256], dropout: 0.1}
		tables:
		  embedding: {optimizer: {kind: adam, lr: 1.0e-3}, mode: {kind: sync}}
		  dense: {optimizer: {kind: adam, lr: 1.0e-3}, mode: {kind: sync}}
		train: {passes: 2, seed: 7, threads: 1, keep_best: false}
	JOB
}
# lanes: sockets of lanes that are open, apart from those that listen.
lanes() { awk -v at="$RUN" 'index($8, at) && /\.lane$/ && $6 == "03"' /proc/net/unix | wc -l; }
has_lanes() { [ "$(lanes)" -ge 4 ]; }
warned() { grep -c "no lane" "$RUN/worker-0.log"; }

write_job grpc
start_train
wait_for 60 "the first rows" status ".rows >= 256"
[ "$(lanes)" = 0 ] || fail "lanes with lane: grpc"
ended_with_weights grpc
write_job auto
start_train --fresh
wait_for 60 "two lanes to each server" has_lanes
ended_with_weights lanes grpc
[ "$(warned)" = 0 ] || fail "a warning without a reason"

start_train --fresh
wait_for 60 "the first rows" status ".rows >= 1000"
kill -KILL "$(pid_of server-1)"
wait_for 60 "more rows" status ".rows >= 3000"
kill -KILL "$(pid_of worker-0)"
ended_with_weights killed grpc

start_train --fresh
wait_for 60 "the first rows" status ".rows >= 1000"
rm "$RUN"/*.lane
kill -KILL "$(pid_of worker-0)"
ended_with_weights blocked grpc
[ "$(warned)" -ge 1 ] || fail "no warning of a lane that cannot be opened"

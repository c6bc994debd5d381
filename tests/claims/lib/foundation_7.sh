# DeepFM samples/s with two threads in all: a worker with one compute thread and a server with one,
# against PyTorch with two in one process. Also shows a worker that computes on both CPUs, with the
# server on the same two. Everything is bound to CPUs 0 and 1. The peer is the fastest interpreter
# of PYTHONS with PyTorch in a short run (default: the current one and Debian's).
. tests/claims/lib/common.sh
need_programs
taskset -pc 0,1 $$ > /dev/null || skip "needs CPUs 0 and 1"
twin() { # twin PYTHON [ARGUMENTS...]: leaves $WORK/peer.json
	local python=$1
	shift
	"$python" tests/parity/deepfm_speed.py --threads 2 "$@" > "$WORK/peer.json" || give_up "the PyTorch twin failed with $python"
}
[ -n "${PYTHONS:-}" ] || { find_python torch numpy; PYTHONS="$PYTHON /usr/bin/python3"; }
peer='' peer_rate=0 tried=()
for python in $PYTHONS; do
	"$python" -c 'import torch, numpy' 2> /dev/null || continue
	twin "$python" --batches 4 --repetitions 1
	rate=$(figure "$WORK/peer.json" samples_per_s)
	tried+=("$(figure "$WORK/peer.json" torch) ($python): $rate")
	if true_that "$rate > $peer_rate"; then peer=$python peer_rate=$rate; fi
done
[ -n "$peer" ] || skip "needs a PyTorch (any CPU build) in one of PYTHONS='$PYTHONS'"
printf 'PyTorch in a short run, %s\n' "${tried[@]}"
cat > "$WORK/speed.yaml" <<-JOB
	job: speed
	cluster: {servers: 1, workers: 1, partitions: 16, executors: 1}
	data: {generate: {rows: $(pick 400000 2000000), ids: 1000000, seed: 1}, batch: 4096, unit_batches: 8}
	model: {kind: deepfm, dim: 16, hidden: [400, 400, 400]}
	tables:
	  embedding: {optimizer: {kind: adam, lr: 1.0e-3}}
	  dense: {optimizer: {kind: adam, lr: 1.0e-3}}
	train: {passes: 1, seed: 1, threads: 1}
JOB
rounds=$(pick 1 3)
ours=() shared=() theirs=()
for round in $(seq 1 "$rounds"); do # interleaved
	train speed "$WORK/speed.yaml"
	ours+=("$(figure "$WORK/speed.json" samples_per_s)")
	train shared "$WORK/speed.yaml" --set train.threads=2
	shared+=("$(figure "$WORK/shared.json" samples_per_s)")
	twin "$peer"
	theirs+=("$(figure "$WORK/peer.json" samples_per_s)")
	rm -rf "${WORK:?}/speed" "${WORK:?}/shared"
done
o=$(mean "${ours[@]}") s=$(mean "${shared[@]}") t=$(mean "${theirs[@]}")
echo "samples/s on two CPUs: Weir, two compute threads and the server beside them $s (${shared[*]}), one compute thread $o (${ours[*]});" \
	"PyTorch $(figure "$WORK/peer.json" torch), two threads $t (${theirs[*]})"
verdict "$o >= $t" "ratio $(python3 -c "print(f'{$o / $t:.2f}, with two compute threads {$s / $t:.2f}')")"

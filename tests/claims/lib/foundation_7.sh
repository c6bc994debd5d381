# DeepFM samples per second, two threads in all: through a server and a worker against PyTorch in one process.
. tests/claims/lib/common.sh
need_programs
python3 -c 'import torch' 2> /dev/null || give_up "needs PyTorch for python3 (any CPU build)"
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
ours=() theirs=()
for round in $(seq 1 "$rounds"); do # interleaved
	train speed "$WORK/speed.yaml"
	ours+=("$(figure "$WORK/speed.json" samples_per_s)")
	theirs+=("$(python3 tests/parity/deepfm_speed.py --threads 2 | tee -a "$WORK/peer.log" | grep -o '[0-9][0-9.]* *samples/s' | tail -n 1 | grep -o '^[0-9.]*')")
done
[ -n "${theirs[0]}" ] || { cat "$WORK/peer.log" >&2; give_up "PyTorch gave no figure"; }
o=$(mean "${ours[@]}")
t=$(mean "${theirs[@]}")
echo "samples/s: Weir $o (${ours[*]}), PyTorch $(python3 -c 'import torch; print(torch.__version__)') $t (${theirs[*]})"
verdict "$o >= $t" "ratio $(python3 -c "print(f'{$o / $t:.2f}')")"

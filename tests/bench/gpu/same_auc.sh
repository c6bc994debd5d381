#!/usr/bin/env bash
# same_auc.sh WEIR [DEVICE]: one synchronous job of click data on the CPU and on DEVICE (cuda), so
# that both see the same batches. Prints both AUCs; exits 0 if they differ by less than 0.001. WEIR
# is the program, with the CUDA backend beside it or in ../lib. QUICK=1: a small job.
set -eu
weir=$1 device=${2:-cuda}
work=$(mktemp -d "${TMPDIR:-/tmp}/weir-auc-XXXXXX")
trap 'rm -rf "$work"' EXIT
rows=400000 ids=200000 dim=16 hidden='[256, 128]' batch=2048
[ "${QUICK:-0}" != 1 ] || rows=3000 ids=13312 dim=4 hidden='[16, 8]' batch=256
cat > "$work/job.yaml" <<JOB
job: same-auc
run_dir: $work/run
cluster: {servers: 1, workers: 1, partitions: 8}
data: {generate: {rows: $rows, ids: $ids, seed: 3}, batch: $batch, unit_batches: 4, seed: 1}
model: {kind: deepfm, dim: $dim, hidden: $hidden}
tables:
  embedding: {optimizer: {kind: adam, lr: 2.0e-3, schedule: {kind: cosine}}, mode: {kind: sync}}
  dense: {optimizer: {kind: adam, lr: 1.0e-3, schedule: {kind: cosine}}, mode: {kind: sync}}
train: {passes: 2, seed: 1}
JOB
for d in cpu "$device"; do
	"$weir" train "$work/job.yaml" --fresh --set "device=$d" --report "$work/$d.json" > "$work/$d.out" 2> "$work/$d.err" || {
		tail -n 5 "$work/$d.err" >&2
		echo "training on $d failed" >&2
		exit 1
	}
	[ "$d" = cpu ] || grep -q "device=cuda" "$work/run/worker-0.log" || { echo "the worker did not compute on $device" >&2; exit 1; }
done
python3 - "$work/cpu.json" "$work/$device.json" <<'PY'
import json, sys
auc = [json.load(open(path))["test"]["auc"] for path in sys.argv[1:]]
print(f"AUC {auc[0]:.5f} on the CPU, {auc[1]:.5f} on the device: {abs(auc[0] - auc[1]):.5f} apart")
sys.exit(not abs(auc[0] - auc[1]) < 0.001)
PY

# Frappe: LR, FM, DeepFM and DCN-v2, mean test AUC over 5 seeds, not more than 0.002 below their PyTorch twins on the same split,
# which take their hyper-parameters from the same job files.
. tests/claims/lib/common.sh
need_programs
data=$WEIR_DATA/frappe/frappe.libfm
[ -r "$data" ] || give_up "there is no $data: set WEIR_DATA"
python3 -c 'import torch' 2> /dev/null || give_up "needs PyTorch for python3 (any CPU build)"
seeds=$(pick 2 5)
all=True
for model in lr fm deepfm dcnv2; do
	aucs=()
	for seed in $(seq 1 "$seeds"); do
		train "$model-$seed" "config/frappe-$model.yaml" --set "train.seed=$seed" --set "data.seed=$seed"
		aucs+=("$(figure "$WORK/$model-$seed.json" test.auc)")
		rm -rf "${WORK:?}/$model-$seed"
	done
	ours=$(mean "${aucs[@]}")
	twin=$(python3 tests/parity/frappe.py --data "$data" --job "config/frappe-$model.yaml" --seeds "$seeds" | tee -a "$WORK/twins.log" | sed -n 's/.*mean[^0-9]*\([0-9.]*\).*/\1/p' | tail -n 1)
	[ -n "$twin" ] || { tail -n 5 "$WORK/twins.log" >&2; give_up "the twin of $model gave no mean"; }
	echo "$model: test AUC $ours (${aucs[*]}), PyTorch $twin, $seeds seeds"
	true_that "$ours >= $twin - 0.002" || all=False
done
verdict "$all" "every model is at most 0.002 below its twin"

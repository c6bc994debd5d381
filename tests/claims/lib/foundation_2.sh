# Frappe: LR, FM, DeepFM and DCN-v2. The mean test AUC over 5 seeds is at most 0.002 below PyTorch
# twins on the same split, which take their hyper-parameters from the same job files.
. tests/claims/lib/common.sh
need_programs
need_data frappe/frappe.libfm
need_python torch numpy
# The standard deviation is .0015 for one seed, and as much for the difference of two means of two.
# The deep models end .0009 below their twins. The bound is four standard deviations plus .0009.
seeds=$(pick 2 5) below_most=$(pick 0.007 0.002)
[ "$QUICK" = 1 ] && echo "QUICK: $seeds seeds instead of 5, whose mean may be $below_most below the twin's"
all=True said=()
for model in lr fm deepfm dcnv2; do
	aucs=()
	for seed in $(seq 1 "$seeds"); do
		train "$model-$seed" "config/frappe-$model.yaml" --set "train.seed=$seed" --set "data.seed=$seed"
		aucs+=("$(figure "$WORK/$model-$seed.json" test.auc)")
		rm -rf "${WORK:?}/$model-$seed"
	done
	ours=$(mean "${aucs[@]}")
	twin=$("$PYTHON" tests/parity/frappe.py --data "$WEIR_DATA/frappe/frappe.libfm" --job "config/frappe-$model.yaml" --seeds "$seeds" | tee -a "$WORK/twins.log" | sed -n 's/.*mean[^0-9]*\([0-9.]*\).*/\1/p' | tail -n 1)
	[ -n "$twin" ] || { tail -n 5 "$WORK/twins.log" >&2; give_up "the twin of $model gave no mean"; }
	echo "$model: test AUC $ours (${aucs[*]}), PyTorch $twin, $seeds seeds"
	said+=("$model $ours ($twin),")
	true_that "$ours >= $twin - $below_most" || all=False
done
verdict "$all" "every model is at most $below_most below its twin: ${said[*]}"

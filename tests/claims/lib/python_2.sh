# A user's own DeepFM in PyTorch on the Frappe log: the test AUC through weir.torch against the same
# model wholly in PyTorch, means over three seeds, within 0.002; and two asynchronous workers within
# 0.002 of one. Every run's audit is exact.
. tests/claims/lib/python.sh
need_data frappe/frappe.libfm
need_package torch
seeds=$(pick 1 "1 2 3") passes=12 apart=$(pick 0.003 0.002)
[ "$QUICK" != 1 ] || echo "QUICK: one seed; AUCs of single runs may be $apart apart"
auc() { "$PYTHON" tests/claims/lib/torch_deepfm.py "$1" "$WEIR_DATA/frappe/frappe.libfm" "$seed" "$passes" ${2:+"$2"} || give_up "a run failed"; }
plain=() one=() two=()
for seed in $seeds; do
	plain+=("$(auc plain)") one+=("$(auc weir 1)") two+=("$(auc weir 2)")
	echo "seed $seed: AUC ${plain[-1]} in PyTorch, ${one[-1]} with one worker, ${two[-1]} with two"
done
p=$(mean "${plain[@]}") a=$(mean "${one[@]}") b=$(mean "${two[@]}")
verdict "abs($a - $p) <= $apart and abs($b - $a) <= $apart and $p > 0.9" \
	"mean AUC $p in PyTorch, $a through weir.torch, $b with two asynchronous workers"

# One worker of four is slow: its batches last four times as long as the others' (train.pace: a
# delay, not a share of the processor). Asynchronous training ends at least 1.4 times as soon as
# synchronous, with as good a model. If another worker, at random, becomes the slow one five times a
# second, at 40 ms per batch, so do ssp(8) and hybrid (embeddings asynchronous, dense synchronous
# with one backup worker). DeepFM (MLP 64) on Frappe.
. tests/claims/lib/common.sh
need_programs
need_data frappe/frappe.libfm
seeds=$(pick 1 "1 2 3") passes=$(pick 4 12)
[ "$QUICK" = 1 ] && echo "QUICK: seed 1 and 4 passes instead of seeds 1 to 3 and 12 passes"
SYNC=(--set tables.embedding.mode.kind=sync --set tables.dense.mode.kind=sync)
SSP=(--set tables.embedding.mode.kind=ssp --set tables.embedding.mode.bound=8 --set tables.dense.mode.kind=ssp --set tables.dense.mode.bound=8)
HYBRID=(--set tables.dense.mode.kind=sync --set tables.dense.mode.backup=1)
run() { # run NAME SEED SLOW [ARGUMENTS...]
	local name=$1-$2 seed=$2 slow=$3
	shift 3
	train "$name" config/frappe-deepfm.yaml --set cluster.workers=4 --set data.unit_batches=8 --set "train.passes=$passes" --set "train.seed=$seed" \
		--set train.pace.batch_ms=40 --set "model.hidden=[64]" --set "train.pace.slow=$slow" "$@"
	rm -rf "${WORK:?}/$name"
	echo "$name: $(figure "$WORK/$name.json" train_s) s, test AUC $(figure "$WORK/$name.json" test.auc), $(figure "$WORK/$name.json" batches_dropped) batches dropped"
}
for seed in $seeds; do
	run one_sync "$seed" one "${SYNC[@]}"
	run one_async "$seed" one
	run rotating_sync "$seed" rotating "${SYNC[@]}"
	run rotating_async "$seed" rotating
	run rotating_ssp8 "$seed" rotating "${SSP[@]}"
	run rotating_hybrid "$seed" rotating "${HYBRID[@]}"
done
all_of() { for seed in $seeds; do figure "$WORK/$1-$seed.json" "$2"; done; }
holds=True
compare() { # compare NAME WITH
	local faster worse
	faster=$(python3 -c "print(f'{$(mean $(all_of "$2" train_s)) / $(mean $(all_of "$1" train_s)):.2f}')")
	worse=$(python3 -c "print(f'{$(mean $(all_of "$2" test.auc)) - $(mean $(all_of "$1" test.auc)):.4f}')")
	echo "$1: $faster times as soon as $2; its AUC is $worse lower"
	true_that "$faster >= 1.4 and $worse <= 0.001" || holds=False
}
compare one_async one_sync
compare rotating_async rotating_sync
compare rotating_ssp8 rotating_sync
compare rotating_hybrid rotating_sync
verdict "$holds" "a slow worker of four holds up none but synchronous training"

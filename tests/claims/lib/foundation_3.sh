# Asynchronous with 4 workers against synchronous with 1, mean test AUC over 3 seeds; and the synchronous run against a plain loop, bit for bit.
. tests/claims/lib/common.sh
need_programs
seeds=$(pick 1 3)
click_job "$(pick 200000 1500000)" 3
click_data
SAME_DATA+=(--set data.batch=256 --set data.unit_batches=16) # trained until more passes gain nothing: what is compared is where they end
sync=(--set tables.embedding.mode.kind=sync --set tables.dense.mode.kind=sync --set cluster.workers=1)
asynchronous=() synchronous=()
for seed in $(seq 1 "$seeds"); do
	train "async-$seed" "$WORK/click.yaml" "${SAME_DATA[@]}" --set cluster.workers=4 --set "train.seed=$seed"
	train "sync-$seed" "$WORK/click.yaml" "${SAME_DATA[@]}" "${sync[@]}" --set "train.seed=$seed"
	asynchronous+=("$(figure "$WORK/async-$seed.json" test.auc)")
	synchronous+=("$(figure "$WORK/sync-$seed.json" test.auc)")
done
cmake --build "$BUILD" >&2 || give_up "the tests do not build"
ctest --test-dir "$BUILD" -R '^train_synchronous$' --no-tests=error --output-on-failure > "$WORK/loop.log" 2>&1
loop=$?
tail -n 4 "$WORK/loop.log"
a=$(mean "${asynchronous[@]}")
s=$(mean "${synchronous[@]}")
echo "asynchronous, 4 workers: $a (${asynchronous[*]}); synchronous, 1 worker: $s (${synchronous[*]}); equals a plain loop bit for bit: status $loop"
verdict "abs($a - $s) <= 0.002 and $loop == 0" "within 0.002 of each other, and bit for bit"

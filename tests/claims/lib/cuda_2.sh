# Compression at the speed of the device's memory, as shares of a copy in the same run. Top-k 1 %
# with error feedback and int8 values: .85 from 64 Mi elements on and .70 at 16 Mi; with momentum
# (DGC) .80; dense int8 with error feedback .85. And at least five times as fast as the obvious
# PyTorch code.
. tests/claims/lib/cuda.sh
need_gpu bench_gpu
"$BUILD/cuda/tests/bench_gpu" compression --check --out "$WORK/bench" | tee "$WORK/log"
met=${PIPESTATUS[0]}
[ "$(grep -c '^\(holds\|DOES NOT HOLD\)' "$WORK/log")" = 5 ] || give_up "the benchmark did not come to its end"
need_peers compression
awk -v least=5 -f tests/bench/gpu/compare.awk "$WORK/peers" "$WORK/bench" && faster=0 || faster=$?
verdict "$met == 0 and $faster == 0" "compression at the shares of a copy above, and at least 5 times as fast as PyTorch"

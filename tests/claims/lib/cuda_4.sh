# The same job on the GPU and on the CPU: the AUCs differ by at most 0.001.
. tests/claims/lib/cuda.sh
need_programs
need_gpu
mkdir -p "$WORK/weir/bin" "$WORK/weir/lib"
cp "$BUILD/weir" "$BUILD/weir-server" "$BUILD/weir-worker" "$WORK/weir/bin"
cp "$BUILD/cuda/lib/libweir_cuda.so" "$WORK/weir/lib"
[ "$QUICK" = 1 ] && echo "QUICK: 3,000 rows instead of 400,000"
QUICK=$QUICK tests/bench/gpu/same_auc.sh "$WORK/weir/bin/weir" > "$WORK/auc" && same=0 || same=$?
cat "$WORK/auc"
verdict "$same == 0" "training on the GPU and on the CPU end within 0.001 AUC"

# tests/bench/gpu/run_all.sh runs from end to end: with cc and CMake alone it builds for an emulated device, tests, measures, and trains from a bundle on it.
. "$(dirname "$0")/lib.sh"
[ -e "$BUILD/tests/emulated/libweir_cuda.so" ] || { echo "the CUDA backend is not built for an emulated device here: skipped"; exit 77; }
RUN_ALL=$(dirname "$0")/../bench/gpu/run_all.sh
mkdir -p "$DIR/weir/bin" "$DIR/weir/lib"
cp "$BUILD/weir" "$BUILD/weir-server" "$BUILD/weir-worker" "$DIR/weir/bin" || fail "cannot copy the programs"
tar -C "$DIR" -czf "$DIR/weir.tar.gz" weir || fail "cannot make an archive"
if [ ! -e /dev/nvidiactl ] && ! nvidia-smi -L > /dev/null 2>&1; then
	"$RUN_ALL" > "$DIR/no-gpu.out" 2> "$DIR/no-gpu.err"
	[ $? = 77 ] || fail "without a GPU its exit status is not 77"
	told "there is no GPU here" "$DIR/no-gpu.err"
fi
# It builds the kernels anew, which takes minutes: `make test`, which has a part of each test, leaves that to `make soak`.
if [ "${WEIR_ROUNDS_PART:-1}" != 1 ]; then
	echo "without WEIR_ROUNDS_PART the script runs whole, on an emulated device"
	nothing_left
	exit 0
fi
WEIR_GPU=emulated WEIR_GPU_BUILD=$BUILD/gpu-dry WEIR_BUNDLE=$DIR/weir.tar.gz OUT=$DIR/out PYTHON=python3 LIMIT_S=780 "$RUN_ALL" > "$DIR/run_all.out" 2> "$DIR/run_all.err"
status=$?
cat "$DIR/run_all.out"
LOGS=$BUILD/gpu-dry/out
[ $status = 0 ] || { cat "$LOGS"/*.log; fail "exit status $status"; }
for step in machine bundle build-tests backend tests bench training step-fp32 step-tf32 gpt2; do
	grep -q "^$step .* ok$" "$LOGS/steps.txt" || fail "$step did not run"
done
[ "$(grep -c '^top-k 1 % int8' "$LOGS/bench.tsv")" -ge 3 ] || fail "the benchmark has no figures"
tar -tzf "$DIR/out/logs.tar.gz" | grep -q bench.tsv || fail "the archive has no results"
grep -q '^AUC .* on the device' "$DIR/out/table.txt" || fail "the table has no AUC"
grep -q '^pull, step, push .* of the step$' "$DIR/out/table.txt" || fail "the table has no step"

grep -q 'tokens/s; .* forward and backward' "$DIR/out/table.txt" || fail "the table has no step of GPT-2"

# A step that fails stops no other, and the status tells.
WEIR_GPU=emulated WEIR_GPU_BUILD=$BUILD/gpu-dry WEIR_BUNDLE=$DIR/nowhere PYTHON=false LIMIT_S=120 "$RUN_ALL" > "$DIR/run_all.out" 2> "$DIR/run_all.err"
[ $? = 1 ] || fail "a step failed, and the exit status is not 1"
grep -q '^bundle .*FAILED' "$LOGS/steps.txt" || fail "a bundle that is not there was unpacked"
grep -q '^bench .* ok$' "$LOGS/steps.txt" || fail "the benchmark did not run after a step that failed"
nothing_left

# Without a GPU. Weir builds with and without nvcc, and without any package. The kernels' tests pass
# on the CPU and on the emulated device. `weir train --set device=cuda` reports the missing device
# and the remedy. Both backends have every op. No kernel that compresses, looks up or adds rows
# spills on any compute capability.
. tests/claims/lib/cuda.sh
capabilities=$(pick 90 "75 80 86 89 90")
[ "$QUICK" = 1 ] && echo "QUICK: compute capability 9.0 alone instead of 7.5 8.0 8.6 8.9 9.0"
need_programs
jobs=$(nproc)

# build NAME OPTIONS...: builds all of common/, kernels/ and their tests with cc and CMake alone;
# with nvcc if present and requested.
build() {
	local name=$1
	shift
	cmake -S . -B "$WORK/$name" -DWEIR_CORE_ONLY=ON "$@" > "$WORK/$name.log" 2>&1 && cmake --build "$WORK/$name" -j "$jobs" >> "$WORK/$name.log" 2>&1 ||
		{ tail -n 40 "$WORK/$name.log" >&2; give_up "it does not build: $name"; }
	echo "$name: $(find "$WORK/$name/tests" -maxdepth 1 -name 'test_*' | wc -l) test programs$([ ! -e "$WORK/$name/lib/libweir_cuda.so" ] || echo " and the CUDA backend")"
}
build without-nvcc -DWEIR_CUDA=OFF
[ ! -e "$WORK/without-nvcc/lib/libweir_cuda.so" ] || give_up "WEIR_CUDA=OFF, and the CUDA backend is built"
command -v nvcc > /dev/null || skip "there is no nvcc here: the CUDA backend cannot be built"
build with-nvcc -DWEIR_CUDA=ON
library=$WORK/with-nvcc/lib/libweir_cuda.so
[ -e "$library" ] || give_up "WEIR_CUDA=ON, and the CUDA backend is not built"
# A missing nvcc is an error only if it is requested.
cmake -S . -B "$WORK/not-found" -DWEIR_CORE_ONLY=ON -DWEIR_NVCC= > "$WORK/not-found.log" 2>&1 || { cat "$WORK/not-found.log" >&2; give_up "it cannot be configured where nvcc is not found"; }
cmake -S . -B "$WORK/asked-for" -DWEIR_CORE_ONLY=ON -DWEIR_NVCC= -DWEIR_CUDA=ON > "$WORK/asked-for.log" 2>&1 && give_up "WEIR_CUDA=ON without nvcc is no error"
grep 'WEIR_CUDA is ON but there is no nvcc' "$WORK/asked-for.log" || give_up "WEIR_CUDA=ON without nvcc does not say what to do"

ctest --test-dir "$WORK/without-nvcc" -j "$jobs" -LE '^(gpu|sanitizer)$' --output-on-failure --no-tests=error > "$WORK/ctest" 2>&1 && tests=0 || tests=$?
[ $tests = 0 ] || cat "$WORK/ctest"
grep 'tests passed' "$WORK/ctest"

WEIR_TEST=$("$WORK/with-nvcc/tests/test_ops_table" "$library" 2>&1) && ops=0 || ops=$?
grep 'none missing' <<< "$WEIR_TEST" || echo "$WEIR_TEST"
[ "$(grep -c 'none missing' <<< "$WEIR_TEST")" -ge 2 ] || ops=1

says=0
mkdir -p "$WORK/weir/bin" "$WORK/weir/lib"
cp "$BUILD/weir" "$BUILD/weir-server" "$BUILD/weir-worker" "$WORK/weir/bin"
click_job 1000
# refused WHERE: weir train in WHERE with device=cuda names the missing part and the remedy.
refused() {
	"$WORK/weir/bin/weir" train "$WORK/click.yaml" --set "run_dir=$WORK/run" --set device=cuda > "$WORK/out" 2> "$WORK/err" && says=$((says + 1))
	tail -n 1 "$WORK/err"
	tail -n 1 "$WORK/err" | grep -q 'no CUDA \(device\|backend\).*use device: cpu' || says=$((says + 1))
}
refused
if [ ! -e /dev/nvidiactl ]; then
	cp "$library" "$WORK/weir/lib"
	refused
fi

JOBS=$jobs scripts/cuda_resources.sh $capabilities > "$WORK/resources" 2> "$WORK/spills" && spills=0 || spills=$?
cat "$WORK/spills"
kernels() { sed -n 's/^| [a-z_0-9]* | `\([a-z_0-9]*\).*/\1/p' "$1" | sort -u; }
echo "$(grep -c '^| [a-z_]* | `' "$WORK/resources") kernels assembled for $capabilities"
missing=$(comm -23 <(kernels "$WORK/resources") <(kernels docs/CUDA-KERNELS.md) | tr '\n' ' ')
[ -z "$missing" ] || echo "not in docs/CUDA-KERNELS.md, which scripts/cuda_resources.sh makes: $missing"
verdict "$tests == 0 and $ops == 0 and $says == 0 and $spills == 0 and not '$missing'" \
	"builds with nvcc, without it and without packages; the kernels' tests pass; device=cuda says what is missing; every op is in both backends; no spills in compression and look-ups; the report is in docs"

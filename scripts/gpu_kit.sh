#!/usr/bin/env bash
# gpu_kit.sh: makes build/gpu-kit/weir-gpu-kit.tar.gz, which is carried to a machine with a GPU:
# the bundle, in lib/ the CUDA backend for Hopper (sm_90), in tests/ the tests and benchmarks of
# kernels, stripped, and in gpu/ the scripts of tests/bench/gpu. The programs are built before
# (make gpu-kit).
#
#   CUDA_ARCHITECTURES  compute capabilities, as "80 90", instead of what CMakeLists.txt takes
#   OTHER               another libweir_cuda.so, for the A/B of `run.sh why`: lib/other/ has it
#   WEIR_GPU=emulated   of what is built in BUILD (build): the backend of the emulated device, to
#                       rehearse; KIT names the folder, and no archive is made
#
# gpu_kit.sh kernels FOLDER: backend and tests alone, into FOLDER/lib and FOLDER/tests; cc, CMake, nvcc,
# and make or ninja are enough. A machine with a GPU does that where the kit lacks them.
set -eu
cd "$(dirname "$0")/.."
out=${KIT:-build/gpu-kit/weir-gpu-kit}
archive=$out.tar.gz
bytes_max=$((60 << 20))
built=${BUILD:-build}
jobs=${JOBS:-$(nproc)}
PATH="$PATH:/usr/local/cuda/bin"
command -v make > /dev/null || export CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}

# take_tests FOLDER TO: programs and the list of tests
take_tests() {
	mkdir -p "$2/tests"
	cp "$1/gpu_tests" "$1/bench_gpu" "$1/bench_llm" "$2/tests"
	local name
	for name in $(cat "$1/gpu_tests"); do [ ! -e "$1/test_$name" ] || cp "$1/test_$name" "$2/tests"; done
	strip "$2"/tests/test_* "$2/tests/bench_gpu" "$2/tests/bench_llm"
}

# kernels TO: without nvcc tests alone, which take whatever backend lies in TO/lib
kernels() {
	local folder=build/gpu-kit/build options=(-DCMAKE_BUILD_TYPE=Release -DWEIR_CORE_ONLY=ON -DWEIR_WERROR=OFF -DWEIR_CUDA_EMULATED=OFF)
	local targets=(bench_gpu bench_llm weir_gpu_tests)
	if command -v nvcc > /dev/null; then
		options+=(-DWEIR_CUDA=ON "-DWEIR_CUDA_ARCHITECTURES=$(tr ' ' ';' <<< "${CUDA_ARCHITECTURES:-}")")
		targets+=(weir_cuda)
	else
		echo "gpu_kit: there is no nvcc here: the kit has no CUDA backend, and is completed on the machine with the GPU" >&2
		options+=(-DWEIR_CUDA=OFF)
	fi
	mkdir -p $folder
	cmake -S . -B $folder "${options[@]}" > $folder.log 2>&1 && cmake --build $folder -j "$jobs" --target "${targets[@]}" >> $folder.log 2>&1 ||
		{ tail -n 40 $folder.log >&2; exit 1; }
	take_tests $folder/tests "$1"
	mkdir -p "$1/lib"
	[ ! -e $folder/lib/libweir_cuda.so ] || cp $folder/lib/libweir_cuda.so "$1/lib"
}

take_scripts() {
	mkdir -p "$out/gpu"
	cp tests/bench/gpu/*.sh tests/bench/gpu/*.awk tests/bench/gpu/peers.py tests/bench/gpu/README.md "$out/gpu"
	[ -z "${OTHER:-}" ] || { mkdir -p "$out/lib/other" && cp "$OTHER" "$out/lib/other/libweir_cuda.so"; }
}

if [ "${1:-}" = kernels ]; then
	kernels "$2"
	exit
fi
rm -rf "$out" "$archive"
if [ "${WEIR_GPU:-}" = emulated ]; then
	mkdir -p "$out/bin" "$out/lib"
	cp "$built/weir" "$built/weir-server" "$built/weir-worker" "$out/bin"
	cp "$built/tests/emulated/libweir_cuda.so" "$out/lib"
	take_tests "$built/tests" "$out"
	take_scripts
	exit
fi
kernels build/gpu-kit/kernels
ARROW=no CUDA_LIBRARY=$PWD/build/gpu-kit/kernels/lib/libweir_cuda.so BUNDLE=$out scripts/bundle.sh
mv build/gpu-kit/kernels/tests "$out"
rm -r build/gpu-kit/kernels
take_scripts
tar -C "$(dirname "$out")" --sort=name --owner=0 --group=0 --numeric-owner -czf "$archive" "$(basename "$out")"
bytes=$(stat -c %s "$archive")
echo "gpu-kit: $archive, $((bytes >> 10)) KiB; tests/bench/gpu/README.md says what to do with it"
if [ "$bytes" -ge "$bytes_max" ]; then
	echo "gpu-kit: larger than $((bytes_max >> 20)) MiB: it would not be carried" >&2
	exit 1
fi

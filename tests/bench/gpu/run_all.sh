#!/usr/bin/env bash
# run_all.sh: all that a GPU is for, in less than nine minutes: builds the kernels and their tests, runs the tests, also under compute-sanitizer, measures, trains from the bundle,
# and prints one table. Needs nvcc, cc and CMake, and no network; PyTorch, compute-sanitizer and the bundle (`make bundle`) are used where they are.
#
#   WEIR_BUNDLE   the bundle, an archive or a folder (build/bundle/weir-*.tar.*)
#   OUT           a folder for logs and results (build/gpu/out)
#   LIMIT_S       seconds in all (530)
#   WEIR_GPU=emulated: the same with an emulated device, in small, to see that this script runs
#
# What one step does not do stops no other. Exits with 0 where all went well or had nothing to run with, 1 where something failed, 77 where there is no GPU.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
build=${WEIR_GPU_BUILD:-$root/build/gpu}
OUT=${OUT:-$build/out}
LIMIT_S=${LIMIT_S:-530}
emulated=0 patience=1
[ "${WEIR_GPU:-}" != emulated ] || emulated=1 patience=5 # and a machine that may be slow, and busy
PATH="$PATH:/usr/local/cuda/bin"
python=${PYTHON:-python3}
jobs=$(nproc)
mkdir -p "$OUT" "$build"
steps=$OUT/steps.txt failed=0

if [ $emulated = 0 ] && [ ! -e /dev/nvidiactl ] && ! nvidia-smi -L > /dev/null 2>&1; then
	echo "run_all: there is no GPU here; WEIR_GPU=emulated shows that this script runs" >&2
	exit 77
fi

# step NAME SECONDS COMMAND...: within that time and what is left in all. Its output is in OUT/NAME.log.
step() {
	local name=$1 limit=$(($2 * patience)) left=$((LIMIT_S - SECONDS)) status=0 start=$SECONDS said
	shift 2
	[ "$limit" -le "$left" ] || limit=$left
	if [ "$limit" -lt 5 ]; then
		status=124
	else
		timeout --kill-after=5 "$limit" "$@" > "$OUT/$name.log" 2>&1 || status=$?
	fi
	case $status in
	0) said=ok ;;
	77) said="skipped: $(tail -n 1 "$OUT/$name.log" | sed 's/^skipped: //')" ;;
	124 | 137) said="OUT OF TIME after $((SECONDS - start)) s" failed=1 ;;
	*) said="FAILED (status $status)" failed=1 ;;
	esac
	printf '%-16s %4d s  %s\n' "$name" $((SECONDS - start)) "$said" | tee -a "$steps"
	case $said in FAILED* | OUT*) tail -n 25 "$OUT/$name.log" 2> /dev/null | sed 's/^/    /' ;; esac
	return $status
}

# Where PyTorch's packages have CUDA's libraries, "" if nowhere.
torch_cuda() {
	"$python" - <<-'PY' 2> /dev/null
		import glob, importlib.util, os
		spec = importlib.util.find_spec("nvidia")
		for place in spec.submodule_search_locations if spec else []:
		    for library in glob.glob(place + "/*/lib/libcublas.so.*")[:1]:
		        print(os.path.dirname(os.path.dirname(library)))
	PY
}

tell_machine() {
	date -u '+%Y-%m-%d %H:%M UTC'
	if [ $emulated = 1 ]; then echo "an emulated device"; else nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader; fi
	nvcc --version 2> /dev/null | grep release || echo "no nvcc"
	"$python" -c 'import torch; print("PyTorch", torch.__version__)' 2> /dev/null || echo "no PyTorch"
	echo "$jobs cores, $(cmake --version | head -n 1), $(cc --version | head -n 1)"
}

configure() {
	local cuda=(-DWEIR_CUDA=AUTO -DWEIR_CUDA_EMULATED=OFF) prefix
	[ $emulated = 0 ] || cuda=(-DWEIR_CUDA=OFF -DWEIR_CUDA_EMULATED=ON)
	prefix=$(torch_cuda)
	cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DWEIR_CORE_ONLY=ON -DWEIR_WERROR=OFF "${cuda[@]}" ${prefix:+"-DCMAKE_PREFIX_PATH=$prefix"}
}
build_tests() { # with an emulated device: few of them
	configure || return
	if [ $emulated = 1 ]; then
		cmake --build "$build" -j "$jobs" --target bench_gpu test_dropout test_reruns weir_cuda_emulated &&
			mkdir -p "$build/lib" && cp "$build/tests/emulated/libweir_cuda.so" "$build/lib"
	else
		cmake --build "$build" -j "$jobs" --target bench_gpu weir_gpu_tests
	fi
}
build_backend() {
	[ $emulated = 0 ] || { echo "skipped: the emulated one is built with the tests"; return 77; }
	cmake --build "$build" -j "$jobs" --target weir_cuda
}
# The bundle's backend, where none could be built here.
borrow_backend() {
	[ ! -e "$build/lib/libweir_cuda.so" ] && [ -e "$bundle/lib/libweir_cuda.so" ] || return 0
	mkdir -p "$build/lib" && cp "$bundle/lib/libweir_cuda.so" "$build/lib" && echo "the tests run with the bundle's CUDA backend"
}

run_tests() {
	local which=(-L '^gpu$')
	[ $emulated = 0 ] || which=(-R '^gpu_(dropout|reruns)$')
	export WEIR_TEST_SEED=${WEIR_TEST_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
	echo "WEIR_TEST_SEED=$WEIR_TEST_SEED"
	ctest --test-dir "$build" "${which[@]}" -j 4 --output-on-failure --no-tests=error > "$OUT/ctest.log" 2>&1
	local status=$?
	cat "$OUT/ctest.log"
	if grep -q 'Skipped' "$OUT/ctest.log"; then
		echo "tests were skipped, though there is a device:"
		WEIR_TEST_DEVICE=cuda "$build/tests/test_dropout" 2>&1 | tail -n 1
		status=1
	fi
	return $status
}
run_sanitizer() { QUICK=1 LIMIT_S=75 JOBS=6 "$here/sanitize.sh" "$build"; }
run_bench() {
	local how=(--check)
	[ $emulated = 0 ] || how=(--quick)
	"$build/tests/bench_gpu" "${how[@]}" --out "$OUT/bench.tsv"
}
run_peers() { # run_peers GROUP
	local how=()
	[ $emulated = 0 ] || how=(--quick --device cpu)
	"$python" "$here/peers.py" "$1" "${how[@]}" --out "$OUT/peers-$1.tsv"
}

unpack_bundle() {
	local given=${WEIR_BUNDLE:-$(ls -t "$root"/build/bundle/weir-*.tar.* 2> /dev/null | head -n 1)}
	[ -n "$given" ] || { echo "skipped: there is no bundle in build/bundle, and WEIR_BUNDLE names none"; return 77; }
	mkdir -p "$bundle"
	case $given in
	*.tar.zst) zstd -dc "$given" | tar -C "$bundle" --strip-components=1 -xf - ;;
	*.tar.*) tar -C "$bundle" --strip-components=1 -xf "$given" ;;
	*) cp -r "$given/." "$bundle" ;;
	esac
}
has_bundle() {
	[ -x "$bundle/bin/weir" ] || { echo "skipped: there is no bundle here"; return 77; }
	[ $emulated = 0 ] || cp "$build/lib/libweir_cuda.so" "$bundle/lib"
}
run_training() {
	has_bundle || return
	if [ $emulated = 1 ]; then QUICK=1 "$here/same_auc.sh" "$bundle/bin/weir"; else "$here/same_auc.sh" "$bundle/bin/weir"; fi
}
run_step() {
	local how=()
	has_bundle || return
	[ $emulated = 0 ] || how=(--quick)
	"$bundle/bin/weir" bench step --json --set device=cuda "${how[@]}" "$@"
}

tell_step() { # tell_step FILE PEERS
	"$python" - "$@" <<-'PY'
		import json, os, sys
		results = {r["name"]: r["value"] for r in json.load(open(sys.argv[1]))["results"]}
		for name, value in results.items():
		    print(f"{name:<34} {value:12.0f} samples/s  {value / results['step']:8.2f} of the step")
		if os.path.exists(sys.argv[2]):
		    for line in open(sys.argv[2]):
		        name, rows, seconds = line.rstrip("\n").split("\t")
		        speed = int(rows) / float(seconds)
		        print(f"PyTorch: {name:<25} {speed:12.0f} samples/s; the step is {results['step'] / speed:.2f} times as fast")
	PY
}
tell_all() {
	cat "$OUT/machine.log"
	echo
	cat "$steps"
	if [ -s "$OUT/bench.tsv" ]; then
		echo
		awk -f "$here/compare.awk" "$([ -s "$OUT/peers-compression.tsv" ] && echo "$OUT/peers-compression.tsv" || echo /dev/null)" "$OUT/bench.tsv"
		grep -h '^\(holds\|DOES NOT HOLD\)' "$OUT/bench.log"
	fi
	for kind in fp32 int8; do
		[ -s "$OUT/step-$kind.log" ] && grep -q results "$OUT/step-$kind.log" || continue
		printf '\nDLRM, gradients of embeddings as %s\n' "$kind"
		tell_step "$OUT/step-$kind.log" "$OUT/peers-dlrm.tsv"
	done
	[ ! -e "$OUT/training.log" ] || { echo; grep AUC "$OUT/training.log"; }
}

# What timeout starts is a program: this script again.
if [ "${1:-}" = --one ]; then
	bundle=$2
	shift 2
	"$@"
	exit
fi
: > "$steps"
bundle=$(mktemp -d /tmp/weir-gpu-XXXXXX)
trap 'rm -rf "$bundle"' EXIT
one() { # one NAME SECONDS FUNCTION [ARGUMENTS...]
	local name=$1 limit=$2
	shift 2
	step "$name" "$limit" bash "$here/run_all.sh" --one "$bundle" "$@"
}
export OUT
prefix=$(torch_cuda)
[ -z "$prefix" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$prefix/lib"

one machine 20 tell_machine
cat "$OUT/machine.log"
one bundle 60 unpack_bundle
one build-tests 200 build_tests
one build-backend 240 build_backend
one backend 10 borrow_backend
one tests 120 run_tests
one bench 70 run_bench
one peers-compression 60 run_peers compression
one training 70 run_training
one step-fp32 60 run_step
one step-int8 60 run_step --set tables.embedding.push.codec=int8
one sanitizer 90 run_sanitizer
one peers-dlrm 120 run_peers dlrm

echo
tell_all | tee "$OUT/table.txt"
printf '\n%d seconds; logs and results are in %s\n' "$SECONDS" "$OUT"
exit $failed

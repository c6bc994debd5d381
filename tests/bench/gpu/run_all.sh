#!/usr/bin/env bash
# run_all.sh: all that a GPU is for, in less than nine minutes: builds the kernels and their tests, runs the tests, also under compute-sanitizer, measures, trains from the bundle,
# and prints one table. Needs nvcc, cc and CMake, and no network; PyTorch, compute-sanitizer and the bundle (`make bundle`) are used where they are.
#
#   WEIR_BUNDLE   the bundle, an archive or a folder (build/bundle/weir-*.tar.*)
#   OUT           a folder that gets the table, and an archive of all logs and results, which are in build/gpu/out
#   LIMIT_S       seconds in all (530)
#   WEIR_GPU=emulated: the same with an emulated device, in small, to see that this script runs
#
# What one step does not do stops no other. Exits with 0 where all went well or had nothing to run with, 1 where something failed, 77 where there is no GPU.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
build=${WEIR_GPU_BUILD:-$root/build/gpu}
logs=$build/out
LIMIT_S=${LIMIT_S:-530}
emulated=0 patience=1
[ "${WEIR_GPU:-}" != emulated ] || emulated=1 patience=5 # and a machine that may be slow, and busy
PATH="$PATH:/usr/local/cuda/bin"
python=${PYTHON:-python3}
jobs=$(nproc)
steps=$logs/steps.txt failed=0
mkdir -p "$logs"

if [ $emulated = 0 ] && [ ! -e /dev/nvidiactl ] && ! nvidia-smi -L > /dev/null 2>&1; then
	echo "run_all: there is no GPU here; WEIR_GPU=emulated shows that this script runs" >&2
	exit 77
fi

# step NAME SECONDS COMMAND...: within that time and what is left in all. Its output is in build/gpu/out/NAME.log.
step() {
	local name=$1 limit=$(($2 * patience)) left=$((LIMIT_S - SECONDS)) status=0 start=$SECONDS said
	shift 2
	[ "$limit" -le "$left" ] || limit=$left
	if [ "$limit" -lt 5 ]; then
		status=124
	else
		timeout --kill-after=5 "$limit" "$@" > "$logs/$name.log" 2>&1 || status=$?
	fi
	case $status in
	0) said=ok ;;
	77) said="skipped: $(tail -n 1 "$logs/$name.log" | sed 's/^skipped: //')" ;;
	124 | 137) said="OUT OF TIME after $((SECONDS - start)) s" failed=1 ;;
	*) said="FAILED (status $status)" failed=1 ;;
	esac
	printf '%-16s %4d s  %s\n' "$name" $((SECONDS - start)) "$said" | tee -a "$steps"
	case $said in FAILED* | OUT*) tail -n 25 "$logs/$name.log" 2> /dev/null | sed 's/^/    /' ;; esac
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
		cmake --build "$build" -j "$jobs" --target bench_gpu bench_llm test_dropout test_reruns weir_cuda_emulated &&
			mkdir -p "$build/lib" && cp "$build/tests/emulated/libweir_cuda.so" "$build/lib"
	else
		cmake --build "$build" -j "$jobs" --target bench_gpu bench_llm weir_gpu_tests
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
	ctest --test-dir "$build" "${which[@]}" -j 4 --output-on-failure --no-tests=error > "$logs/ctest.log" 2>&1
	local status=$?
	cat "$logs/ctest.log"
	if grep -q 'Skipped' "$logs/ctest.log"; then
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
	"$build/tests/bench_gpu" "${how[@]}" --out "$logs/bench.tsv"
}
run_peers() { # run_peers GROUP
	local how=()
	[ $emulated = 0 ] || how=(--quick --device cpu)
	"$python" "$here/peers.py" "$1" "${how[@]}" --out "$logs/peers-$1.tsv"
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
run_step() { # run_step PRECISION
	local how=()
	has_bundle || return
	[ $emulated = 0 ] || how=(--quick)
	"$bundle/bin/weir" bench step --json --set device=cuda --set "train.precision=$1" --set tables.embedding.push.codec=int8 "${how[@]}" > "$logs/step-$1.json"
}

run_gpt2() { # 16 x 1024 tokens a step
	local how=(16 1024 20 bf16)
	[ $emulated = 0 ] || how=(2 16 2 bf16 small)
	"$build/tests/bench_llm" cuda 1 "${how[@]}" > "$logs/gpt2.json"
}

tell_gpt2() {
	"$python" - "$logs/gpt2.json" "$logs/peers-gpt2.tsv" <<-'PY'
		import json, os, sys
		ours = json.load(open(sys.argv[1]))
		print(f"{ours['tokens_per_s']:12.0f} tokens/s; {ours['pass_ms']:.1f} ms forward and backward, {ours['update_ms']:.1f} ms AdamW; {ours['device']}")
		for line in open(sys.argv[2]) if os.path.exists(sys.argv[2]) else []:
		    name, tokens, seconds = line.rstrip("\n").split("\t")
		    speed = int(tokens) / float(seconds)
		    print(f"{speed:12.0f} tokens/s PyTorch's; Weir is {ours['tokens_per_s'] / speed:.2f} times as fast")
	PY
}
tell_step() { # tell_step PRECISION
	"$python" - "$1" "$logs/step-$1.json" "$logs/peers-dlrm.tsv" <<-'PY'
		import json, os, sys
		precision, step, peers = sys.argv[1:]
		results = {r["name"]: r["value"] for r in json.load(open(step))["results"]}
		for name, value in results.items():
		    print(f"{name:<34} {value:12.0f} samples/s  {value / results['step']:8.2f} of the step")
		for line in open(peers) if os.path.exists(peers) else []:
		    name, rows, seconds = line.rstrip("\n").split("\t")
		    if f" {precision}" in name:
		        speed = int(rows) / float(seconds)
		        print(f"PyTorch: {name:<35} {speed:12.0f} samples/s; the step is {results['step'] / speed:.2f} times as fast")
	PY
}
tell_all() {
	cat "$logs/machine.log"
	echo
	cat "$steps"
	if [ -s "$logs/bench.tsv" ]; then
		echo
		awk -f "$here/compare.awk" "$([ -s "$logs/peers-compression.tsv" ] && echo "$logs/peers-compression.tsv" || echo /dev/null)" "$logs/bench.tsv"
		grep -h '^\(holds\|DOES NOT HOLD\)' "$logs/bench.log"
	fi
	for precision in fp32 tf32; do
		[ -s "$logs/step-$precision.json" ] || continue
		printf '\nDLRM, products in %s, gradients of embeddings pushed as int8\n' "$precision"
		tell_step "$precision"
	done
	[ ! -s "$logs/gpt2.json" ] || { printf '\nA training step of GPT-2, products in bf16\n'; tell_gpt2; }
	[ ! -e "$logs/training.log" ] || { echo; grep AUC "$logs/training.log"; }
}

# What timeout starts is a program: this script again.
if [ "${1:-}" = --one ]; then
	bundle=$2
	shift 2
	"$@"
	exit
fi
rm -f "$logs"/*.log "$logs"/*.tsv "$logs"/*.json "$logs/table.txt" # of another run
: > "$steps"
bundle=$(mktemp -d /tmp/weir-gpu-XXXXXX)
trap 'rm -rf "$bundle"' EXIT
one() { # one NAME SECONDS FUNCTION [ARGUMENTS...]
	local name=$1 limit=$2
	shift 2
	step "$name" "$limit" bash "$here/run_all.sh" --one "$bundle" "$@"
}
prefix=$(torch_cuda)
[ -z "$prefix" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$prefix/lib"

one machine 20 tell_machine
cat "$logs/machine.log"
one bundle 60 unpack_bundle
one build-tests 200 build_tests
one build-backend 240 build_backend
one backend 10 borrow_backend
one tests 120 run_tests
one bench 70 run_bench
one peers-compression 60 run_peers compression
one training 70 run_training
one step-fp32 60 run_step fp32
one step-tf32 60 run_step tf32
one peers-dlrm 120 run_peers dlrm # steps at the end are what a slow build leaves out
one gpt2 45 run_gpt2
one peers-gpt2 75 run_peers gpt2
one sanitizer 90 run_sanitizer

echo
tell_all | tee "$logs/table.txt"
printf '\n%d seconds; logs and results are in %s\n' "$SECONDS" "$logs"
if [ -n "${OUT:-}" ]; then
	mkdir -p "$OUT" && cp "$logs/table.txt" "$OUT" && tar -C "$logs" -czf "$OUT/logs.tar.gz" .
fi
exit $failed

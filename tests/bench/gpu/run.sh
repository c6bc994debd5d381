#!/usr/bin/env bash
# run.sh MODE: the measurements on a borrowed GPU, in four modes with a time limit each. README.md
# is the guide.
#
#   truth    5 min   copy speeds, GPU tests, compute-sanitizer, compression beside a copy, GPT-2
#   why      6 min   failures again, alone and checked; ncu on kernels; one backend beside another
#   peers  9.5 min   DLRM and GPT-2 beside PyTorch on the same card; the AUC of the CPU
#   confirm  4 min   tests and the main figures once more, after a change
#   table FOLDER     the table of what a run left, ended or killed
#
#   KIT       folder or archive of `make gpu-kit` (the one this script is in, else the archive in
#             build/gpu-kit)
#   OUT       folder for the results (build/gpu-out/MODE); at most eight files
#   AFTER     why: the failures.txt to run again (that of the last truth or confirm here)
#   LIMIT_S   seconds in all, instead of the mode's
#   WEIR_GPU=emulated   a small rehearsal with a kit for the emulated device
#
# Each figure is written at once, each step when it ends, and the table after each step, so that a
# killed run loses nothing. A step that fails or takes too long does not stop the others. Exits 0, 1
# after a failure, or 77 without a GPU.
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ -x "$here/../bin/weir" ]; then root=$(cd "$here/.." && pwd) results=$root/gpu-out; else root=$(cd "$here/../../.." && pwd) results=$root/build/gpu-out; fi
python=${PYTHON:-python3}
PATH="$PATH:/usr/local/cuda/bin"
emulated=0 patience=1
[ "${WEIR_GPU:-}" != emulated ] || emulated=1 patience=5 # the machine may be slow and busy
full() { [ $emulated = 0 ]; }

# --- Steps. Each function runs in a process of its own.

machine() {
	date -u '+%Y-%m-%d %H:%M UTC'
	if full; then nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader; else echo "an emulated device"; fi
	"$python" -c 'import torch; print("PyTorch", torch.__version__)' 2> /dev/null || echo "no PyTorch"
	local tool
	for tool in nvcc compute-sanitizer ncu; do command -v $tool > /dev/null || echo "no $tool"; done
	echo "$(nproc) cores"
}
# Builds the backend and the tests that the kit lacks.
complete() {
	[ -x "$root/scripts/gpu_kit.sh" ] || { echo "the kit has no backend or no tests, and the sources are not here: make it where nvcc is"; return 1; }
	"$root/scripts/gpu_kit.sh" kernels "$kit"
}
is_complete() { [ -e "$kit/lib/libweir_cuda.so" ] && [ -e "$kit/tests/gpu_tests" ]; }
bench() { # bench GROUP [OPTIONS...]
	full || set -- "$1" --quick
	"$kit/tests/bench_gpu" --out "$OUT/bench.tsv" "$@"
}
tests() { # tests TOOL... [-- TEST...]
	local tools=()
	while [ $# -gt 0 ] && [ "$1" != -- ]; do tools+=("$1"); shift; done
	[ $# -eq 0 ] || shift
	full || set -- dropout reruns
	TESTS="$*" FAILURES=$OUT/failures.txt LIMIT_S=$((80 * patience)) "$here/tests.sh" "$kit/tests" "${tools[@]}"
}
sanitizer() { JOBS=6 tests memcheck racecheck initcheck synccheck -- compression embedding replay; }
gpt2() { # gpt2 STEPS: 16 x 1024 tokens per step
	if full; then set -- 16 1024 "$1" bf16; else set -- 2 16 "$1" bf16 small; fi
	"$kit/tests/bench_llm" cuda 1 "$@" 2>> "$OUT/gpt2.txt"
}
has_programs() { [ -x "$kit/bin/weir" ] || { echo "skipped: the kit has no programs"; return 77; }; }
step_of() { # step_of PRECISION
	local less=()
	has_programs || return
	full || less=(--quick)
	"$kit/bin/weir" bench step --values "$OUT/step-$1.tsv" --set device=cuda --set "train.precision=$1" --set tables.embedding.push.codec=int8 "${less[@]}"
}
peer() { # peer GROUP WAYS
	local less=()
	full || less=(--quick --device cpu)
	"$python" "$here/peers.py" "$1" --ways "$2" "${less[@]}" --out "$OUT/peers.tsv"
}
same_auc() {
	has_programs || return
	if full; then "$here/same_auc.sh" "$kit/bin/weir"; else QUICK=1 "$here/same_auc.sh" "$kit/bin/weir"; fi
}

# Each failure with its numbers: alone, launch by launch, and checked.
again() {
	local tool test seed status=0
	[ -s "$AFTER" ] || { echo "skipped: no failures are known: $AFTER is not there"; return 77; }
	while read -r tool test seed; do
		echo "$tool $test with WEIR_TEST_SEED=$seed: alone, with CUDA_LAUNCH_BLOCKING=1, under memcheck"
		export WEIR_TEST_SEED=$seed TESTS=$test LIMIT_S=60
		"$here/tests.sh" "$kit/tests" "$tool" < /dev/null || status=1
		CUDA_LAUNCH_BLOCKING=1 "$here/tests.sh" "$kit/tests" plain < /dev/null || status=1
		"$here/tests.sh" "$kit/tests" memcheck < /dev/null || [ $? = 77 ] || status=1
	done < <(sort -u "$AFTER")
	return $status
}
# Profiles one kernel: time, memory, occupancy.
KERNELS=${KERNELS:-topk_tile_kernel encode_kernel encode_rows_kernel topk_decode_kernel accumulate_kernel gather_kernel short_segments_kernel chunks_kernel dots_kernel dots_backward_kernel}
KERNELS_TEXT=${KERNELS_TEXT:-tensor_attention_kernel tensor_queries_backward_kernel tensor_keys_backward_kernel cross_entropy_kernel norm_backward_kernel}
METRICS=gpu__time_duration.sum,dram__bytes.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__throughput.avg.pct_of_peak_sustained_elapsed,sm__warps_active.avg.pct_of_peak_sustained_active,launch__registers_per_thread
profile_one() { # profile_one KERNEL COMMAND...: does not lock the clocks
	local kernel=$1
	shift
	ncu --clock-control none --kernel-name "$kernel" --launch-skip 1 --launch-count 2 --kill yes --metrics "$METRICS" --csv "$@" < /dev/null > "$kit/ncu.csv" 2> "$kit/ncu.err"
	grep '^"' "$kit/ncu.csv" >> "$OUT/ncu.csv" && echo "$kernel: $(grep -c "$kernel" "$kit/ncu.csv") values" && return
	echo "$kernel: nothing: $(tail -n 2 "$kit/ncu.csv" "$kit/ncu.err" | tr '\n' ' ')"
	return 1
}
profile() {
	local kernel status=0 quick=(--elements 64) text=(16 1024 2 bf16)
	command -v ncu > /dev/null || { echo "skipped: there is no ncu here"; return 77; }
	full || quick=(--quick) text=(2 16 2 bf16 small)
	for kernel in $KERNELS; do profile_one "$kernel" "$kit/tests/bench_gpu" "${quick[@]}" compression model || status=1; done
	for kernel in $KERNELS_TEXT; do profile_one "$kernel" "$kit/tests/bench_llm" cuda 1 "${text[@]}" || status=1; done
	return $status
}
# Two backends in turn. If the kit has only one, it runs twice, which shows the noise.
ab() {
	local round side quick=(--elements 64) other=$kit/lib/other/libweir_cuda.so
	full || quick=(--quick)
	[ -e "$other" ] || { other=$kit/lib/libweir_cuda.so && echo "the kit has no other backend: the same one twice"; }
	mkdir -p "$kit/a" "$kit/b"
	cp "$kit/tests/bench_gpu" "$kit/lib/libweir_cuda.so" "$kit/a" && cp "$kit/tests/bench_gpu" "$other" "$kit/b" || return
	for round in 1 2 3; do
		for side in a b; do "$kit/$side/bench_gpu" "${quick[@]}" --out "$OUT/ab-$side.tsv" compression || return; done
	done
}

# --- The table

of_steps() { # of_steps FILE: median samples/s of each subject over its rounds; round 0 warms up
	sort -t "$(printf '\t')" -k2,2 -k3,3g "$1" | awk -F'\t' '
		function tell() { if (n) printf "%-34s %12.0f samples/s\n", name, value[int((n + 1) / 2)] }
		$2 != name { tell(); name = $2; n = 0 }
		$1 > 0 { value[++n] = $3 }
		END { tell() }'
}
# of_peers NAME UNIT OURS: each of PyTorch's ways, and Weir's speed relative to the fastest
of_peers() {
	[ -s "$OUT/peers.tsv" ] || return
	awk -F'\t' -v name="$1" -v unit="$2" -v ours="$3" '
		index($1, name) == 1 { printf "PyTorch: %-76s %12.0f %s\n", $1 ", " $4, $2 / $3, unit }
		$1 == name && $2 / $3 > best { best = $2 / $3 }
		END { if (best && ours) printf "Weir is %.2f times as fast as the fastest of these that updates weights\n", ours / best }' "$OUT/peers.tsv"
}
of_gpt2() {
	sed -n 's/^step [0-9]*: \([0-9.]*\) tokens.*/\1/p' "$OUT/gpt2.txt" 2> /dev/null | sort -g | awk '{ v[NR] = $1 } END { if (NR) printf "%12.0f tokens/s, the median of %d steps\n", v[int((NR + 1) / 2)], NR }'
}
of_ab() {
	awk -F'\t' 'FNR == 1 { file++ } { k = $1 "\t" $2; if (!((file, k) in s) || $3 < s[file, k]) s[file, k] = $3; if (file == 2) seen[k] = 1 }
		END { for (k in seen) { split(k, name, "\t"); printf "%-34s %11d %10.1f us, the other %10.1f us: %.3f\n", name[1], name[2], s[1, k] * 1e6, s[2, k] * 1e6, s[2, k] / s[1, k] } }' "$OUT/ab-a.tsv" "$OUT/ab-b.tsv" | sort
}
of_ncu() {
	"$python" - "$OUT/ncu.csv" <<-'PY'
		import csv, sys
		kernels, columns = {}, None
		for row in csv.reader(open(sys.argv[1])):
		    if "Metric Name" in row:
		        columns = {name: i for i, name in enumerate(row)}
		    elif columns and len(row) == len(columns):
		        metrics = kernels.setdefault(row[columns["Kernel Name"]].split("(")[0], {})
		        metrics[row[columns["Metric Name"]]] = row[columns["Metric Value"]] + " " + row[columns["Metric Unit"]]
		for kernel, metrics in kernels.items():
		    print(kernel + ": " + ", ".join(f"{name.split('.')[0]} {value}" for name, value in sorted(metrics.items())))
	PY
}
table() {
	cat "$OUT/steps.txt"
	if [ -s "$OUT/bench.tsv" ]; then
		echo
		awk -f "$here/compare.awk" "$([ -s "$OUT/peers.tsv" ] && echo "$OUT/peers.tsv" || echo /dev/null)" "$OUT/bench.tsv"
	fi
	grep -h '^\(holds\|DOES NOT HOLD\): ' "$OUT/log.txt"
	local precision steps
	for precision in fp32 tf32; do
		grep -qs "^dlrm step $precision" "$OUT/peers.tsv" || [ -s "$OUT/step-$precision.tsv" ] || continue
		printf '\nDLRM, products in %s, gradients of embeddings pushed as int8\n' "$precision"
		steps=$([ ! -s "$OUT/step-$precision.tsv" ] || of_steps "$OUT/step-$precision.tsv")
		[ -z "$steps" ] || echo "$steps"
		of_peers "dlrm step $precision" samples/s "$(awk '$1 == "step" && $3 ~ /samples/ { print $2 }' <<< "$steps")"
	done
	if [ -s "$OUT/gpt2.txt" ] || grep -qs '^gpt2' "$OUT/peers.tsv"; then
		printf '\nA training step of GPT-2, products in bf16\n'
		of_gpt2
		of_peers "gpt2 step bf16" tokens/s "$(of_gpt2 | awk '{ print $1 }')"
	fi
	[ ! -s "$OUT/ncu.csv" ] || { echo; of_ncu; }
	[ ! -s "$OUT/ab-b.tsv" ] || { echo; of_ab; }
	grep -h '^AUC .* on the device' "$OUT/log.txt"
	[ ! -s "$OUT/failures.txt" ] || { printf '\nNot clean (tool, test, seed):\n'; sort -u "$OUT/failures.txt"; }
}

# --- Running steps

failed=0
# one NAME SECONDS FUNCTION [ARGUMENTS...]: limited by SECONDS and by the total time left
one() {
	local name=$1 limit=$(($2 * patience)) left=$((LIMIT_S - SECONDS)) status=0 start=$SECONDS said from
	shift 2
	[ "$limit" -le "$left" ] || limit=$left
	printf '== %s\n' "$name" >> "$OUT/log.txt"
	from=$(($(stat -c %s "$OUT/log.txt") + 1))
	if [ "$limit" -lt 5 ]; then
		status=124
	else
		timeout --kill-after=5 "$limit" bash "$here/run.sh" --step "$@" >> "$OUT/log.txt" 2>&1 || status=$?
	fi
	case $status in
	0) said=ok ;;
	77) said=$(tail -n 1 "$OUT/log.txt") && said="skipped: ${said#skipped: }" ;;
	124 | 137) said="OUT OF TIME after $((SECONDS - start)) s" failed=1 ;;
	*) said="FAILED (status $status)" failed=1 ;;
	esac
	printf '%-22s %4d s  %s\n' "$name" $((SECONDS - start)) "$said" | tee -a "$OUT/steps.txt"
	case $said in FAILED* | OUT*) tail -c "+$from" "$OUT/log.txt" | tail -n 15 | sed 's/^/    /' ;; esac
	table > "$kit/table" && mv "$kit/table" "$OUT/table.txt"
	[ ! -s "$OUT/failures.txt" ] || [ "$mode" = why ] || cp "$OUT/failures.txt" "$results"
}

# The steps' limits, and 15 s for `machine`, add up to the mode's time, except in peers.
truth() {
	one copies 20 bench copies
	one tests 100 tests plain
	one sanitizer 75 sanitizer
	one bench-check 50 bench compression --check
	one gpt2 30 gpt2 5
}
why() {
	one again 110 again
	one ncu 140 profile
	one ab 90 ab
}
peers() { # the longest step comes last and gets the time left, as it may never end
	one peers-dlrm 90 peer dlrm plain
	one step-fp32 60 step_of fp32
	one step-tf32 60 step_of tf32
	one peers-gpt2 60 peer gpt2 plain
	one gpt2 45 gpt2 20
	one same-auc 80 same_auc
	one peers-dlrm-compiled 200 peer dlrm compiled
	one peers-gpt2-compiled 200 peer gpt2 compiled
}
confirm() {
	one peers-compression 30 peer compression plain
	one bench-check 50 bench compression --check
	one tests 80 tests plain
	one step-fp32 40 step_of fp32
	one gpt2 25 gpt2 10
}

# --- The program

if [ "${1:-}" = --step ]; then
	shift
	"$@"
	exit
fi
mode=${1:-}
case $mode in
truth) limit=300 ;;
why) limit=360 ;;
peers) limit=570 ;;
confirm) limit=240 ;;
table) limit=0 ;;
*)
	sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
if [ "$mode" = table ]; then
	OUT=${2:?table needs the folder that a run left}
	table
	exit 0
fi
if full && [ ! -e /dev/nvidiactl ] && ! nvidia-smi -L > /dev/null 2>&1; then
	echo "run.sh: there is no GPU here; WEIR_GPU=emulated rehearses" >&2
	exit 77
fi
LIMIT_S=${LIMIT_S:-$((limit * patience))}
export OUT=${OUT:-$results/$mode} AFTER=${AFTER:-$results/failures.txt}
mkdir -p "$results" "$OUT" && OUT=$(cd "$OUT" && pwd) || exit 1
rm -f "$OUT"/*.tsv "$OUT"/*.txt "$OUT"/ncu.csv # from another run
: > "$OUT/steps.txt"

export kit=$(mktemp -d "${TMPDIR:-/tmp}/weir-gpu-XXXXXX") # a copy to complete, as kits are read-only
trap 'rm -rf "$kit"' EXIT
given=${KIT:-}
[ -n "$given" ] || [ ! -x "$root/bin/weir" ] || given=$root
[ -n "$given" ] || [ ! -e "$root/build/gpu-kit/weir-gpu-kit.tar.gz" ] || given=$root/build/gpu-kit/weir-gpu-kit.tar.gz
case $given in
'') echo "run.sh: there is no kit: backend and tests are built here, without the programs" ;;
*.tar.gz) tar -C "$kit" --strip-components=1 -xzf "$given" || exit 1 ;;
*) cp -r "$given/." "$kit" || exit 1 ;;
esac
# Without the toolkit, cuBLAS comes from PyTorch's packages.
cublas=$("$python" -c 'import glob, importlib.util as u
spec = u.find_spec("nvidia")
print(*[f[: f.rindex("/")] for p in (spec.submodule_search_locations if spec else []) for f in glob.glob(p + "/*/lib/libcublas.so.*")][:1])' 2> /dev/null)
[ -z "$cublas" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$cublas"

one machine 15 machine
cat "$OUT/log.txt"
is_complete || { LIMIT_S=240 one complete 240 complete; SECONDS=0; } # not part of the mode's time
"$mode"
echo
cat "$OUT/table.txt"
printf '\n%d seconds; what was found is in %s\n' "$SECONDS" "$OUT"
exit $failed

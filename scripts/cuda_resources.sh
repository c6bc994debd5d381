#!/bin/sh
# What each CUDA kernel takes of a device, as the assembler tells it: a table of registers, shared memory, stack and spills, in bytes, for each compute
# capability that is named (default: 75 80 86 89 90). Needs nvcc, and no device. Ends with 1 where a kernel of ours spills.
#
#   scripts/cuda_resources.sh [CAPABILITY ...]
set -eu
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/local/cuda/bin"
command -v nvcc >/dev/null || { echo "cuda_resources: there is no nvcc here" >&2; exit 77; }
[ $# -gt 0 ] || set -- 75 80 86 89 90
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

echo "| capability | kernel | registers | shared | stack | spill stores | spill loads |"
echo "|---|---|---:|---:|---:|---:|---:|"
for capability in "$@"; do
	for source in kernels/cuda/*.cu; do
		case $source in */sort_cub.cu) continue ;; esac # CUB's kernels are CUB's
		nvcc -std=c++20 -O3 --fmad=false -Wno-deprecated-gpu-targets -arch="sm_$capability" -cubin -Xptxas -v -Ikernels/cuda -Ikernels -Ikernels/codecs -Ikernels/rules -Icommon/include -I. \
			"$source" -o "$scratch/cubin" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }
		c++filt <"$scratch/log" | awk -v capability="$capability" '
			/Compiling entry function/ {
				split($0, quoted, "\x27")
				kernel = quoted[2]
				sub(/^void /, "", kernel)
				sub(/\(.*$/, "", kernel)
				gsub(/\|/, "\\|", kernel)
			}
			/bytes stack frame/ { stack = $1; stores = $5; loads = $9 }
			/Used .* registers/ {
				shared = 0
				for (i = 2; i <= NF; i++) {
					if ($i ~ /^registers/) registers = $(i - 1)
					if ($i == "smem," || $i == "smem") shared = $(i - 2)
				}
				printf "| %s | %s | %s | %s | %s | %s | %s |\n", capability, kernel, registers, shared, stack, stores, loads
			}'
	done
done | tee "$scratch/table"
awk -F'|' '$7 + $8 > 0 { print "spills: " $0; bad = 1 } END { exit bad }' "$scratch/table"

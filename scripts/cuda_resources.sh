#!/bin/sh
# What each CUDA kernel takes of a device, as the assembler tells it, for each compute capability that is named (default: 75 80 86 89 90): a table of registers of a
# thread, and the largest shared memory, stack and spills, in bytes. Needs nvcc, and no device; JOBS compilers at once. docs/CUDA-KERNELS.md is what it prints.
# Ends with 1 where a kernel that compresses, looks up or adds rows spills; others are told on stderr.
#
#   scripts/cuda_resources.sh [CAPABILITY ...]      SOURCES="codec topk_encode": of these files alone
set -eu
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/local/cuda/bin"
command -v nvcc >/dev/null || { echo "cuda_resources: there is no nvcc here" >&2; exit 77; }
[ $# -gt 0 ] || set -- 75 80 86 89 90
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
gencode=""
for capability in "$@"; do gencode="$gencode -gencode=arch=compute_$capability,code=sm_$capability"; done

# CUB's kernels are CUB's.
launcher=$(command -v ccache || true) # which keeps what the assembler said, too
export gencode scratch launcher
if [ -n "${SOURCES:-}" ]; then printf 'kernels/cuda/%s.cu\n' $SOURCES; else find kernels/cuda -name '*.cu' ! -name sort_cub.cu | sort; fi | xargs -P "${JOBS:-$(nproc)}" -I{} sh -c '
	name=$(basename {} .cu)
	$launcher nvcc -std=c++20 -O3 --fmad=false -Wno-deprecated-gpu-targets $gencode -c -Xptxas -v -Ikernels/cuda -Ikernels -Ikernels/codecs -Ikernels/rules -Icommon/include -I. \
		{} -o "$scratch/$name.o" >"$scratch/$name.log" 2>&1 || { cat "$scratch/$name.log" >&2; exit 255; }'

# A line for each kernel and capability: file, kernel, capability, registers, shared, stack, spill stores, spill loads
for log in "$scratch"/*.log; do
	c++filt <"$log" | sed 's/\([<,] *\)([A-Za-z_: ]*)/\1/g' | awk -v file="$(basename "$log" .log)" '
		/Compiling entry function/ {
			split($0, quoted, "\x27")
			kernel = quoted[2]
			capability = quoted[4]
			sub(/^void /, "", kernel)
			sub(/^\(anonymous namespace\)::/, "", kernel)
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
			printf "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", file, kernel, capability, registers, shared, stack, stores, loads
		}'
done >"$scratch/all"

echo "# CUDA kernels"
echo
echo "Registers of a thread by compute capability. Shared memory, stack and spills are in bytes, the"
echo "largest of all capabilities. \`scripts/cuda_resources.sh >docs/CUDA-KERNELS.md\` makes this table;"
echo "this one is of nvcc $(nvcc --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')."
awk -F'\t' -v capabilities="$*" '
	function max(a, b) { return a + 0 > b + 0 ? a : b }
	BEGIN { many = split(capabilities, all, " ") }
	{
		key = $1 "\t" $2
		if (!(key in seen)) { order[++count] = key; seen[key] = 1 }
		registers[key, $3] = $4
		shared[key] = max(shared[key], $5)
		stack[key] = max(stack[key], $6)
		spills[key] = max(spills[key], $7 + $8)
	}
	END {
		printf "\n| file | kernel |"
		for (i = 1; i <= many; i++) printf " %s.%s |", substr(all[i], 1, length(all[i]) - 1), substr(all[i], length(all[i]))
		printf " shared | stack | spills |\n|---|---|"
		for (i = 1; i <= many + 3; i++) printf "---:|"
		print ""
		for (k = 1; k <= count; k++) {
			split(order[k], names, "\t")
			printf "| %s | `%s` |", names[1], names[2]
			for (i = 1; i <= many; i++) printf " %s |", registers[order[k], "sm_" all[i]]
			printf " %d | %d | %d |\n", shared[order[k]], stack[order[k]], spills[order[k]]
		}
	}' "$scratch/all"
awk -F'\t' '$7 + $8 > 0 {
	print "spills: " $2 " of " $1 ".cu at " $3 ": " $7 " bytes stored, " $8 " loaded" >"/dev/stderr"
	bad += $1 ~ /^(codec|encode|topk|compress|gather|scatter|copy_rows)/
} END { exit bad > 0 }' "$scratch/all"

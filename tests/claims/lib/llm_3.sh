# CPU speed: training steps (forward, backward, AdamW of all weights) of GPT-2's 124M shape in fp32.
# With two threads, tokens/s are at least 1.5 times those of llm.c's train_gpt2 and 0.9 times
# PyTorch's, at 4 x 64 tokens (llm.c's default), 4 x 256 and 1 x 1024. LLM_C names a folder with
# llm.c (git clone https://github.com/karpathy/llm.c), whose train_gpt2.c is compiled in the
# temporary folder with its Makefile's flags and the sizes of the run, by gcc and clang; the faster
# counts. PYTHON: with torch and transformers. PyTorch runs with and without torch.compile, and the
# faster counts. Runs are interleaved.
. tests/claims/lib/common.sh
THREADS=2
need_llm_c
need_python torch transformers numpy
taskset -pc 0,1 $$ > /dev/null || skip "needs CPUs 0 and 1"
need_tests bench_llm
"$PYTHON" tests/bench/llm/make_llm_c_inputs.py "$WORK" || give_up "the inputs of llm.c cannot be made"
steps=$(pick 3 5) rounds=$(pick 1 2)
export OMP_NUM_THREADS=$THREADS

# build_llm_c COMPILER SEQUENCES LENGTH STEPS: $WORK/llm_c; neither validates nor generates
build_llm_c() {
	sed -e "s/int B = 4;/int B = $2;/; s/int T = 64;/int T = $3;/; s/step <= 40/step <= $4/; s/val_num_batches = 5/val_num_batches = 0/" \
		-e 's/if (step % 10 == 0)/if (0)/; s/if (step > 0 && step % 20 == 0)/if (0)/' "$LLM_C/train_gpt2.c" > "$WORK/train_gpt2.c"
	"$1" -O3 -Ofast -march=native -Wno-unused-result -Wno-unknown-pragmas -fopenmp -DOMP -I"$LLM_C" "$WORK/train_gpt2.c" -lm -o "$WORK/llm_c" 2> "$WORK/cc.log"
}
llm_c() { # llm_c SEQUENCES LENGTH: tokens/s of the median step, without the first
	(cd "$WORK" && ./llm_c) | sed -n 's/^step [1-9][0-9]*: .*took \([0-9.]*\) ms.*/\1/p' |
		python3 -c "import statistics, sys; print(round($1 * $2 / statistics.median(float(l) for l in sys.stdin) * 1e3, 1))"
}
weir() { "$BUILD/tests/bench_llm" cpu $THREADS "$1" "$2" "$steps" > "$WORK/weir.json" && figure "$WORK/weir.json" tokens_per_s; }
torch() { # torch SEQUENCES LENGTH [--compile]
	"$PYTHON" tests/bench/llm/gpt2_torch.py --threads $THREADS --sequences "$1" --length "$2" --steps "$steps" "${@:3}" > "$WORK/torch.json" 2> "$WORK/torch.err" &&
		figure "$WORK/torch.json" tokens_per_s
}

compiler='' best=0
for cc in gcc clang; do
	command -v $cc > /dev/null && build_llm_c $cc 4 64 2 || continue
	rate=$(llm_c 4 64)
	say "llm.c compiled by $cc: $rate tokens/s"
	if true_that "$rate > $best"; then compiler=$cc best=$rate; fi
done
[ -n "$compiler" ] || give_up "llm.c does not compile: $(cat "$WORK/cc.log")"
compiled=--compile
torch 4 64 --compile > /dev/null || { say "torch.compile does not work here: $(tail -n 1 "$WORK/torch.err")"; compiled=''; }
least_c=1e9 least_t=1e9
for shape in '4 64' '4 256' '1 1024'; do
	read -r sequences length <<< "$shape"
	build_llm_c $compiler $sequences $length "$steps"
	ours=() theirs=() eager=() fast=()
	for round in $(seq 1 "$rounds"); do
		ours+=("$(weir $sequences $length)")
		theirs+=("$(llm_c $sequences $length)")
		eager+=("$(torch $sequences $length)") || give_up "PyTorch failed: $(cat "$WORK/torch.err")"
		[ -z "$compiled" ] || fast+=("$(torch $sequences $length --compile)")
	done
	o=$(mean "${ours[@]}") c=$(mean "${theirs[@]}") t=$(mean "${eager[@]}") f=$([ -z "$compiled" ] && echo 0 || mean "${fast[@]}")
	to_c=$(python3 -c "print(f'{$o / $c:.2f}')") to_t=$(python3 -c "print(f'{$o / max($t, $f):.2f}')")
	echo "$sequences x $length tokens a step: Weir $o tokens/s (${ours[*]}); llm.c ($compiler) $c (${theirs[*]}), ratio $to_c;" \
		"PyTorch $(figure "$WORK/torch.json" torch) $t (${eager[*]}), compiled $f (${fast[*]-}), ratio $to_t"
	least_c=$(python3 -c "print(min($least_c, $to_c))") least_t=$(python3 -c "print(min($least_t, $to_t))")
done
echo "load of the machine over the last minute: $(cut -d' ' -f1 /proc/loadavg), of which about $THREADS was ours"
verdict "$least_c >= 1.5 and $least_t >= 0.9" "at least $least_c times llm.c's tokens/s and $least_t of PyTorch's"

# Parity with PyTorch in fp32: logits within 1e-4 relative, loss 1e-5, the gradient of every tensor 1e-3, and ten steps of AdamW track within 1e-4. Of a GPT-2 and two Llamas of
# random weights (grouped queries, Llama 3's positions; all biases and a tied head) and of the small Llama of the test data, against the vectors that are committed; and, where
# PYTHON has torch and transformers, against vectors that it makes here, of other numbers and all tensors in full.
. tests/claims/lib/common.sh
PYTHON=${PYTHON:-python3}
need_tests llm_parity test_transformer
small=$WEIR_DATA/llama-2m-fresh
checked=0 holds=0
compare() { # compare WHAT MODEL VECTORS
	local line
	"$BUILD/tests/llm_parity" "$2" "$3" > "$WORK/parity.out" 2> "$WORK/parity.err"
	local rc=$?
	line=$(tail -n 1 "$WORK/parity.out")
	checked=$((checked + 1))
	[ $rc = 0 ] && holds=$((holds + 1))
	[ -n "$line" ] || line=$(cat "$WORK/parity.err")
	echo "$1: $(grep -cE '^(all|entries) .*grad\.' "$WORK/parity.out") gradients, $line"
}
for model in gpt2 llama llama_biased; do
	compare "$model, committed vectors" "tests/golden/llm/$model" "tests/golden/llm/$model/vectors.safetensors"
done
if [ -e "$small/config.json" ]; then
	compare "llama-2m-fresh, committed vectors" "$small" tests/golden/llm/llama-2m-fresh.safetensors
else
	give_up "the small Llama is not there: set WEIR_DATA"
fi
"$BUILD/tests/test_transformer" > "$WORK/tests.log" 2>&1 || { cat "$WORK/tests.log" >&2; give_up "test_transformer fails"; }
if "$PYTHON" -c 'import torch, transformers, safetensors' 2> /dev/null; then
	made() { "$PYTHON" tests/parity/make_llm_vectors.py "$@" --seed "$$" > "$WORK/made.log" 2>&1 || give_up "make_llm_vectors.py $1 failed: $(cat "$WORK/made.log")"; }
	made golden "$WORK/llm"
	for model in gpt2 llama llama_biased; do
		compare "$model, made here with seed $$" "$WORK/llm/$model" "$WORK/llm/$model/vectors.safetensors"
	done
	made of "$small" "$WORK/small.safetensors"
	compare "llama-2m-fresh, made here, in full" "$small" "$WORK/small.safetensors"
	echo "$(tail -n 1 "$WORK/made.log")"
else
	echo "$PYTHON has no torch, transformers and safetensors: compared with committed vectors alone"
fi
verdict "$holds == $checked" "$holds of $checked comparisons are within logits 1e-4, loss 1e-5, gradients 1e-3, ten steps of AdamW 1e-4"

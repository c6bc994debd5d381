# GPU speed: training steps (forward, backward, AdamW of all weights) of GPT-2's 124M shape with
# products in bf16, 16 x 1024 tokens. Tokens/s are at least PyTorch's (autocast to bf16, with or
# without torch.compile, whichever is faster) in the same run and, on a card like H100 and H200, at
# least 450,000. MFU is relative to the card's dense bf16 peak, with 6 operations per weight and
# token, and 12 per layer, width and position (Chowdhery et al. 2022, appendix B).
. tests/claims/lib/cuda.sh
need_gpu bench_llm
rounds=$(pick 1 3)
ours=() theirs=()
for round in $(seq 1 "$rounds"); do
	"$BUILD/cuda/tests/bench_llm" cuda 1 16 1024 20 bf16 > "$WORK/gpt2.json" || give_up "the step cannot be measured"
	ours+=("$(figure "$WORK/gpt2.json" tokens_per_s)")
	need_peers gpt2
	theirs+=("$(peer_speed "gpt2 step bf16" %.1f)")
	[ -n "${theirs[-1]}" ] || give_up "PyTorch did not come to its end"
done
o=$(mean "${ours[@]}") t=$(mean "${theirs[@]}")
ratio=$(python3 -c "print(f'{$o / $t:.3f}')")
device=$(figure "$WORK/gpt2.json" device)
peak=0 floor=0 # operations/s; tokens/s
case $device in
*H100* | *H200* | *GH200*) peak=989e12 floor=450000 ;;
*A100*) peak=312e12 ;;
esac
echo "$device: Weir $o tokens/s (${ours[*]}), PyTorch $t (${theirs[*]}); forward and backward $(figure "$WORK/gpt2.json" pass_ms) ms, AdamW $(figure "$WORK/gpt2.json" update_ms) ms"
[ $peak = 0 ] || python3 -c "
token = 6 * ($(figure "$WORK/gpt2.json" weights) - 1024 * 768) + 12 * 12 * 768 * 1024
print(f'MFU: Weir {$o * token / $peak:.3f}, PyTorch {$t * token / $peak:.3f} of {$peak / 1e12:.0f} TFLOP/s')"
verdict "$ratio >= 1 and $o >= $floor" "$ratio of PyTorch's tokens a second, at least 1 is asked for; $o tokens/s, at least $floor"

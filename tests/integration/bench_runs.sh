# Every benchmark runs in its quick form, writes JSON with figures and ratios, and leaves nothing
# behind.
. "$(dirname "$0")/lib.sh"
export TMPDIR=$DIR/tmp
mkdir "$TMPDIR"
for b in store log optim gemm loader pull push "push --no-apply" "push --tls" step "step --set model.kind=deepfm --set tables.dense.push.codec=topk"; do
	"$WEIR" bench $b --quick --json > "$DIR/bench.json" 2> "$DIR/bench.err" || fail "weir bench $b"
	holds "$DIR/bench.json" "(.results | length) >= 2 and all(.results[]; .value > 0)"
	holds "$DIR/bench.json" "any(.results[]; .ratio > 0)"
done
[ -z "$(ls "$TMPDIR")" ] || fail "left in TMPDIR: $(ls "$TMPDIR")"

# On a device the next batch is launched before the previous one is collected. So the host waits
# with two in flight, and more often than once per round at the end of `compute`.
if emulate_device; then
	WEIR_CUDA_HOST_TRACE=$DIR/trace "$WEIR" bench step --quick --rounds 4 --json --set device=cuda > "$DIR/bench.json" 2> "$DIR/bench.err" || fail "weir bench step on a device: $(cat "$DIR/bench.err")"
	holds "$DIR/bench.json" "(.results | length) == 6 and all(.results[]; .value > 0)"
	two=$(grep -c ' 2 graphs' "$DIR/trace")
	[ "$two" -gt 4 ] || fail "the host waited $two times with two batches under way: one is collected before the next is launched"
	echo "with two batches under way the host waited $two times of $(wc -l < "$DIR/trace")"
fi

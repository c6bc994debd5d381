# Every benchmark runs in its quick form and writes JSON with figures and ratios; nothing is left.
. "$(dirname "$0")/lib.sh"
before=$(ls /tmp | grep -c '^weir-bench-')
for b in store log optim gemm loader pull push "push --no-apply" "push --tls" step "step --set model.kind=deepfm --set tables.dense.push.codec=topk"; do
	"$WEIR" bench $b --quick --json > "$DIR/bench.json" 2> "$DIR/bench.err" || fail "weir bench $b"
	holds "$DIR/bench.json" "(.results | length) >= 2 and all(.results[]; .value > 0)"
	holds "$DIR/bench.json" "any(.results[]; .ratio > 0)"
done
[ "$(ls /tmp | grep -c '^weir-bench-')" = "$before" ] || fail "folders are left in /tmp"

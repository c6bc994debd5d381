# Every benchmark runs in its quick form and writes JSON with figures and ratios; nothing is left.
. "$(dirname "$0")/lib.sh"
before=$(ls /tmp | grep -c '^weir-bench-')
for b in store optim gemm loader pull push "push --no-apply"; do
	"$WEIR" bench $b --quick --json > "$DIR/bench.json" 2> "$DIR/bench.err" || fail "weir bench $b"
	holds "$DIR/bench.json" "len(d['results']) >= 2 and all(r['value'] > 0 for r in d['results'])"
	holds "$DIR/bench.json" "any(r.get('ratio', 0) > 0 for r in d['results'])"
done
[ "$(ls /tmp | grep -c '^weir-bench-')" = "$before" ] || fail "folders are left in /tmp"

# A repeated push has the same bytes. Nothing is lost: what top-k sends plus what it keeps equals
# the gradient in random tiles of many seeds, to the bit on every instruction set. Thresholds equal
# those of a sort. Randomly damaged records are refused or harmless, also under sanitizers.
. tests/claims/lib/common.sh
tiles=$(pick 2000 100000)
tables=$(pick 100 3000)
damaged=$(pick 20000 2000000)
[ "$QUICK" = 1 ] && echo "QUICK: $tiles tiles, $tables tables, $damaged damaged records instead of 100000, 3000, 2000000"
failed=0
run() { # run NAME COMMAND...
	local name=$1
	shift
	"$@" > "$WORK/$name.log" 2>&1 || { failed=$((failed + 1)); cat "$WORK/$name.log"; }
	grep -E 'sent again|random tiles|damaged records|missed k|relative squared error|PASSED' "$WORK/$name.log" | sed "s/^/$name: /"
}
for preset in release asan; do
	folder=$BUILD part=1
	[ $preset = release ] || folder=$BUILD/asan part=10
	need_built $preset "$folder" test_topk test_topk_threshold test_topk_decode test_optimizer_sparse test_resent test_codec_variants test_compressed_push test_row_sparsifier
	run "$preset-tiles" "$folder/tests/test_topk" $((tiles / part))
	run "$preset-thresholds" "$folder/tests/test_topk_threshold" $((tables / part))
	run "$preset-damage" "$folder/tests/test_topk_decode" $((damaged / part))
	run "$preset-sparse" "$folder/tests/test_optimizer_sparse"
	for test in resent codec_variants compressed_push row_sparsifier; do
		run "$preset-$test" "$folder/tests/test_$test"
	done
done
verdict "$failed == 0" "retried pushes are the same bytes, nothing is lost by any codec, the same bits everywhere, and what is damaged is refused or harmless"

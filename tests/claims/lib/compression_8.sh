# Every decoder fuzzed: each target runs for a while on a corpus of its own without a crash, and what is special (zeros, equal, denormal, NaN, infinity, nothing) is
# tried in every codec, also under sanitizers. Prints executions and crashes of each target.
. tests/claims/lib/common.sh
names=$(sed -n 's/^weir_fuzz(\([a-z0-9_]*\).*/\1/p' tests/fuzz/CMakeLists.txt)
count=$(wc -w <<< "$names")
each=$(pick 6 $((3600 / count))) # an hour in all
[ "$QUICK" = 1 ] && echo "QUICK: $each s for each target instead of $((3600 / count))"
crashes=0
need_built asan "$BUILD/asan" test_codec_special
need_tests test_codec_special
for folder in "$BUILD" "$BUILD/asan"; do
	"$folder/tests/test_codec_special" > "$WORK/special" 2>&1 && echo "$folder: $(grep -c 'OK \]' "$WORK/special") cases of what is special" ||
		{ crashes=$((crashes + 1)); cat "$WORK/special"; }
done
command -v clang > /dev/null || give_up "there is no clang, whose libFuzzer this needs: apt-get install clang, as make soak does"
fuzzers=$BUILD/fuzz
need_built fuzz "$fuzzers" weir_fuzzers
for name in $names; do
	status=0
	mkdir -p "$WORK/corpus/$name"
	"$fuzzers/fuzz/smoke_$name" --write "$WORK/corpus/$name"
	"$fuzzers/fuzz/fuzz_$name" -max_total_time="$each" -max_len=65536 -timeout=30 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
		-artifact_prefix="$WORK/$name-" "$WORK/corpus/$name" > "$WORK/$name.log" 2>&1 || status=$?
	[ $status = 0 ] || { crashes=$((crashes + 1)); tail -n 60 "$WORK/$name.log"; }
	echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$WORK/$name.log") executions in $each s, $([ $status = 0 ] && echo "no crash" || echo CRASHED)"
done
verdict "$crashes == 0" "$count fuzz targets and every codec's special inputs without a crash"

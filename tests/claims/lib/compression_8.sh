# Fuzzes every decoder. Each target runs for a while without a crash, an hour of processor time in
# all (make soak-fuzz). Special values (zeros, equal values, denormals, NaN, infinity, empty inputs)
# pass through every codec, also under sanitizers. Prints the executions of each target, and which
# ones crashed.
. tests/claims/lib/common.sh
need_installed test clang # for libFuzzer
minutes=$(pick 4 60) jobs=$(nproc)
[ "$QUICK" = 1 ] && echo "QUICK: $minutes minutes of processor time instead of 60"
crashes=0
need_built asan "$BUILD/asan" test_codec_special
need_tests test_codec_special
for folder in "$BUILD" "$BUILD/asan"; do
	"$folder/tests/test_codec_special" > "$WORK/special" 2>&1 && echo "$folder: $(grep -c 'OK \]' "$WORK/special") cases of what is special" ||
		{ crashes=$((crashes + 1)); cat "$WORK/special"; }
done
JOBS=$jobs SOAK_MINUTES=$(((minutes + jobs - 1) / jobs)) scripts/soak.sh fuzz || crashes=$((crashes + 1))
verdict "$crashes == 0" "every fuzz target and every codec's special inputs without a crash"

# AddressSanitizer with UBSan over all tests, ThreadSanitizer over server, client and queue.
. tests/claims/lib/common.sh
failed=0
run() { # run PRESET CTEST ARGUMENTS...
	local preset=$1
	shift
	cmake --preset "$preset" > "$WORK/$preset.log" 2>&1 && cmake --build "build/$preset" >> "$WORK/$preset.log" 2>&1 ||
		{ tail -n 20 "$WORK/$preset.log" >&2; give_up "the $preset build failed"; }
	ctest --test-dir "build/$preset" --no-tests=error --output-on-failure "$@" > "$WORK/$preset.tests" 2>&1 || failed=$((failed + 1))
	echo "$preset: $(grep 'tests passed' "$WORK/$preset.tests")"
	grep -E 'ERROR: AddressSanitizer|WARNING: ThreadSanitizer|runtime error' "$WORK/$preset.tests" | sort | uniq -c | head
}
run asan $(pick "-LE integration" "")
run tsan -R 'queue|rpc|server|partition|ledger|client|exactly_once'
verdict "$failed == 0" "both sanitizers are silent"

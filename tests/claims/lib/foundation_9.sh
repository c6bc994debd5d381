# AddressSanitizer with UBSan over all tests. ThreadSanitizer over code that threads share: server,
# client, queue, loader.
. tests/claims/lib/common.sh
export UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1"
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
run tsan -L tsan
verdict "$failed == 0" "both sanitizers are silent"

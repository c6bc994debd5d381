#!/usr/bin/env bash
# tests.sh FOLDER [TOOL...]: runs the GPU tests of FOLDER, JOBS (4) at once, each under every TOOL:
# `plain` (the default) or a tool of compute-sanitizer: memcheck, racecheck, initcheck, synccheck.
#
#   TESTS     a selection, such as "embedding replay"; the build lists all in FOLDER/gpu_tests
#   LIMIT_S   seconds per test (600)
#   FAILURES  file that gets a line "TOOL TEST SEED" for each failure at once
#
# Prints a line per test when it ends. Exits 1 after a failure, 77 without a device or without
# compute-sanitizer.
set -eu
folder=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- plain
PATH="$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer"
if [ "$*" != plain ] && ! command -v compute-sanitizer > /dev/null; then
	echo "skipped: there is no compute-sanitizer here"
	exit 77
fi
export WEIR_TEST_DEVICE=cuda CMOCKA_TEST_ABORT=1 LIMIT_S=${LIMIT_S:-600} FAILURES=${FAILURES:-/dev/null}
export WEIR_TEST_SEED=${WEIR_TEST_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
"$folder/test_dropout" > /dev/null 2>&1 || [ $? != 77 ] || {
	echo "skipped: $("$folder/test_dropout" 2>&1 | tail -n 1)"
	exit 77
}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

one() { # one LOGS FOLDER TOOL TEST: tests check failed allocations themselves
	local status=0 log=$1/$3-$4 start=$SECONDS run=()
	[ "$3" = plain ] || run=(compute-sanitizer --tool "$3" --error-exitcode 99 --report-api-errors no --print-limit 5)
	timeout --kill-after=5 "$LIMIT_S" "${run[@]}" "$2/test_$4" > "$log" 2>&1 || status=$?
	if [ $status = 0 ]; then
		echo "$3 $4: clean, $((SECONDS - start)) s"
		return
	fi
	echo "$3 $4 $WEIR_TEST_SEED" >> "$FAILURES"
	case $status in
	77) echo "$3 $4: SKIPPED, though there is a device: $(tail -n 1 "$log")" ;;
	99) echo "$3 $4: ERRORS"; grep '^=========' "$log" | head -n 40 ;;
	124 | 137) echo "$3 $4: not done after $LIMIT_S s" ;;
	*) echo "$3 $4: FAILED (status $status)"; tail -n 15 "$log" ;;
	esac
	return 1
}
export -f one
echo "WEIR_TEST_SEED=$WEIR_TEST_SEED"
for tool; do
	for test in ${TESTS:-$(cat "$folder/gpu_tests")}; do printf '%s %s\n' "$tool" "$test"; done
done | xargs -P "${JOBS:-4}" -L 1 bash -c 'one "$@"' one "$logs" "$folder" || exit 1

#!/usr/bin/env bash
# sanitize.sh BUILD [TOOL...]: the tests of a GPU under compute-sanitizer: memcheck, racecheck, initcheck and synccheck, or those that are named. QUICK=1: the tests that do
# most. Prints a line for each; exits with 1 where one is not clean, or takes longer than LIMIT_S (600) seconds, and with 77 where there is no compute-sanitizer or no device.
set -eu
build=$1
shift
[ $# -gt 0 ] || set -- memcheck racecheck initcheck synccheck
PATH="$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer"
command -v compute-sanitizer > /dev/null || { echo "skipped: there is no compute-sanitizer here" >&2; exit 77; }
export WEIR_TEST_DEVICE=cuda CMOCKA_TEST_ABORT=1 LIMIT_S=${LIMIT_S:-600}
"$build/tests/test_dropout" > /dev/null 2>&1 || [ $? != 77 ] || { echo "skipped: there is no device here" >&2; exit 77; }
tests=$(cd "$build" && ctest -N -L '^gpu$' | sed -n 's/^ *Test *#[0-9]*: gpu_//p')
[ "${QUICK:-0}" != 1 ] || tests="compression embedding reruns"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

one() { # one TOOL TEST: what memory is refused for is a test's own business
	local status=0 log=$3/$1-$2 start=$SECONDS
	timeout "$LIMIT_S" compute-sanitizer --tool "$1" --error-exitcode 99 --report-api-errors no --print-limit 5 "$4/tests/test_$2" > "$log" 2>&1 || status=$?
	case $status in
	0) echo "$1 $2: clean, $((SECONDS - start)) s" ;;
	99) echo "$1 $2: ERRORS"; grep '^=========' "$log" | head -n 40 ;;
	124) echo "$1 $2: not done after $LIMIT_S s" ;;
	*) echo "$1 $2: FAILED (status $status)"; tail -n 10 "$log" ;;
	esac
	return $status
}
export -f one
for tool; do
	for test in $tests; do printf '%s %s\n' "$tool" "$test"; done
done | xargs -P "${JOBS:-8}" -L 1 bash -c 'one "$3" "$4" "$1" "$2"' one "$logs" "$build" || exit 1

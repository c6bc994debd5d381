#!/bin/sh
# What `make test` runs: clang's warnings of every file, threads under ThreadSanitizer, nearly
# everything under AddressSanitizer and UBSan, everything as released. Tests labelled `patient` run
# as released only, and tests of random cases try a part of them (tests/rounds.h); `make soak` has
# the rest. The release run comes last, so that the last lines are ctest's over all tests.
set -eu
cd "$(dirname "$0")/.."
: "${JOBS:=$(nproc)}"
at_once=$((4 * JOBS)) # tests: most of them wait for something most of the time

export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1 second_deadlock_stack=1}"

# build PRESET FOLDER TARGET
build() {
	echo "== $1: build"
	mkdir -p "$2"
	cmake --preset "$1" >"$2/configure.log" 2>&1 || { cat "$2/configure.log"; exit 1; }
	cmake --build "$2" -j "$JOBS" --target "$3" >"$2/build.log" 2>&1 || { tail -n 100 "$2/build.log"; exit 1; }
}

# run FOLDER CTEST'S ARGUMENTS...: prints which tests were skipped and why; ctest's own closing lines
# come last.
run() {
	folder=$1 code=$1/ctest.code
	shift
	{
		ended=0
		ctest --test-dir "$folder" "$@" --output-on-failure || ended=$?
		echo "$ended" >"$code"
	} | awk -v results="$folder/Testing/Temporary/LastTest.log" -f scripts/skipped.awk
	return "$(cat "$code")"
}

build clang build/clang all # a minute: nothing is made

build tsan build/tsan weir_tests
echo "== tsan: the tests of what threads share"
export WEIR_ROUNDS_PART=8
run build/tsan -L tsan -LE patient -j "$at_once"

build asan build/asan weir_tests
echo "== asan: the tests"
run build/asan -LE patient -j "$at_once"

build release build all
echo "== release: every test"
run build -j "$at_once"

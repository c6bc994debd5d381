#!/bin/sh
# What `make check` runs, while you work: the release programs and the unit tests, those of
# tests/unit that have no label `patient`. Tests that try random input try a part of it
# (tests/rounds.h). Ends with the number of tests and the time. `make test` has the rest.
set -eu
cd "$(dirname "$0")/.."
: "${JOBS:=$(nproc)}"
began=$(date +%s)

mkdir -p build
cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
cmake --build build -j "$JOBS" --target weir weir-server weir-worker weir_device weir_unit_tests
built=$(date +%s)

echo "check: runs the unit tests; build/check.log lists them"
status=0
WEIR_ROUNDS_PART=8 ctest --test-dir build -L '^unit$' -j $((3 * JOBS)) --output-on-failure --no-tests=error >build/check.log || status=$?
if [ "$status" != 0 ]; then
	cat build/check.log
	echo "check: to run one of them again: ctest --test-dir build -R '^NAME\$' --output-on-failure" >&2
	exit "$status"
fi
ran=$(sed -n 's/.* tests passed, .* out of \([0-9]*\)$/\1/p' build/check.log)
skipped=$(grep -c '\*\*\*Skipped' build/check.log || true)
now=$(date +%s)
echo "check: $((ran - skipped)) unit tests passed, $skipped skipped, in $((now - began)) s: $((built - began)) s to build, $((now - built)) s to test"

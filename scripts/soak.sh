#!/bin/sh
# What `make soak` runs: each fuzz target for FUZZ_SECONDS where there is clang, what `make test` has no time for under sanitizers, simulated jobs
# from new seeds for SIM_SECONDS, then the tests of whole programs and of threads, ROUNDS times each or until one fails. What a fuzz target fails on is left in build/fuzz.
set -eu
cd "$(dirname "$0")/.."
: "${JOBS:=$(nproc)}" "${ROUNDS:=20}" "${FUZZ_SECONDS:=60}" "${SIM_SECONDS:=300}"

if command -v clang >/dev/null; then
	cmake --preset fuzz >/dev/null
	cmake --build build/fuzz -j "$JOBS" --target weir_fuzzers
	for program in build/fuzz/fuzz/fuzz_*; do
		name=${program##*/fuzz_}
		corpus=build/fuzz/corpus/$name
		mkdir -p "$corpus"
		build/fuzz/fuzz/smoke_"$name" --write "$corpus"
		echo "== $name: $FUZZ_SECONDS s"
		"$program" -max_total_time="$FUZZ_SECONDS" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
			-artifact_prefix=build/fuzz/"$name"- "$corpus"
	done
fi

echo "== under sanitizers: the patient tests, and all rounds of the random ones"
cmake --preset tsan >/dev/null
cmake --build build/tsan -j "$JOBS" --target weir_tests weir_patient_tests
ctest --test-dir build/tsan -L tsan -L "patient|rounds" -j "$JOBS" --output-on-failure
cmake --preset asan >/dev/null
cmake --build build/asan -j "$JOBS" --target weir_tests weir_patient_tests
ctest --test-dir build/asan -L "patient|rounds" -j "$JOBS" --output-on-failure

cmake --preset release >/dev/null
cmake --build build -j "$JOBS" --target all
echo "== simulated jobs: $SIM_SECONDS s"
build/tests/sim --seed "$(date +%s)000" --seconds "$SIM_SECONDS" --jobs "$JOBS"
exec ctest --test-dir build -L 'integration|tsan' --repeat "until-fail:$ROUNDS" -j "$JOBS" --output-on-failure

#!/usr/bin/env bash
# soak.sh [fuzz|sim|chaos|memory]...: what `make test` has no time for. SOAK_MINUTES (150) in all, divided among those that are named; none: all four. Building is not counted.
#   fuzz     every fuzz target alike, JOBS at once: libFuzzer where there is clang, else the smoke programs under AddressSanitizer. What one fails on is left in
#            build/fuzz. FUZZ_TARGETS names some: "job parse"
#   sim      simulated jobs, and the explorer of the replicas' protocol, from new seeds
#   chaos    programs that are killed, disks that fail, machines that die, and what is random, as released; what threads share under ThreadSanitizer. In random order, again and again
#   memory   a long job whose processes must not grow (soak_memory.sh), then what is patient or random under AddressSanitizer, which looks for leaks
# Ends at the first failure, but fuzzes every target.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${JOBS:=$(nproc)}" "${SOAK_MINUTES:=150}"
[ $# -gt 0 ] || set -- fuzz sim chaos memory
seconds=$((SOAK_MINUTES * 60 / $#))

# build PRESET FOLDER TARGET...
build() {
	local preset=$1 folder=$2
	shift 2
	echo "== $preset: build"
	mkdir -p "$folder"
	cmake --preset "$preset" > "$folder/configure.log" 2>&1 || { cat "$folder/configure.log"; exit 1; }
	cmake --build "$folder" -j "$JOBS" --target "$@" > "$folder/build.log" 2>&1 || { tail -n 100 "$folder/build.log"; exit 1; }
}

# fuzz_one FOLDER SECONDS NAME: runs one target, prints its executions
fuzz_one() {
	local folder=$1 seconds=$2 name=$3 log=$1/$3.log corpus=$1/corpus/$3 status=0
	mkdir -p "$corpus"
	if [ -x "$folder/fuzz/fuzz_$name" ]; then
		"$folder/fuzz/smoke_$name" --write "$corpus"
		"$folder/fuzz/fuzz_$name" -max_total_time="$seconds" -max_len=65536 -timeout=30 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
			-artifact_prefix="$folder/$name-" "$corpus" > "$log" 2>&1 || status=$?
		echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") executions in $seconds s"
	else
		timeout "$seconds" "$folder/fuzz/smoke_$name" 4000000000 > "$log" 2>&1 || status=$?
		[ $status != 124 ] || status=0
		echo "$name: smoke for $seconds s"
	fi
	[ $status = 0 ] || { tail -n 60 "$log"; echo "$name: CRASHED (status $status)"; return 1; }
}

soak_fuzz() {
	local folder=build/asan names count each
	if command -v clang > /dev/null; then
		folder=build/fuzz
		build fuzz build/fuzz weir_fuzzers
	else
		build asan build/asan weir_tests
	fi
	names=${FUZZ_TARGETS:-}
	[ -n "$names" ] || names=$(sed -n 's/^weir_fuzz(\([a-z0-9_]*\).*/\1/p' tests/fuzz/CMakeLists.txt)
	count=$(wc -w <<< "$names")
	each=$((seconds * JOBS / count))
	[ "$each" -gt 0 ] || each=1
	echo "== fuzz: $count targets, $each s each, $JOBS at once"
	export -f fuzz_one
	xargs -P "$JOBS" -n 1 bash -c 'fuzz_one "$@"' fuzz_one "$folder" "$each" <<< "${names// /$'\n'}" || { echo "a fuzz target crashed" >&2; exit 1; }
}

soak_sim() {
	build release build simulator replica_explorer
	local seed
	seed=$(date +%s)000
	echo "== simulated jobs from seed $seed: $((seconds * 3 / 4)) s; then the replicas' protocol: $((seconds / 4)) s"
	build/tests/sim --seed "$seed" --seconds $((seconds * 3 / 4)) --jobs "$JOBS"
	build/tests/replica_explorer --seed "$seed" --seconds $((seconds / 4 + 1))
}

# run_tests SECONDS FOLDER LABELS: the tests with these labels in random order, some at once, over and over until the time is up
run_tests() {
	local until=$((SECONDS + $1)) folder=$2 labels=$3 some
	echo "== $folder: tests of $labels, $1 s"
	while [ $SECONDS -lt $until ]; do
		for some in $(ctest --test-dir "$folder" -N -L "$labels" | sed -n 's/^ *Test *#[0-9]*: //p' | shuf | xargs -n $((2 * JOBS)) | tr ' ' '|'); do
			[ $SECONDS -lt $until ] || return 0
			ctest --test-dir "$folder" -R "^($some)\$" -j $((2 * JOBS)) --output-on-failure --no-tests=error > "$folder/soak.log" 2>&1 || { cat "$folder/soak.log"; return 1; }
			sed -n 's/^ *[0-9/]* Test *#[0-9]*: /  /p' "$folder/soak.log"
		done
	done
}

soak_chaos() {
	build release build all
	build tsan build/tsan weir_tests weir_patient_tests
	run_tests $((seconds / 2)) build 'integration|crash|rounds'
	run_tests $((seconds / 2)) build/tsan tsan
}

soak_memory() {
	build release build weir weir-server weir-worker
	build asan build/asan weir_tests weir_patient_tests weir-server weir-worker
	echo "== a job whose processes must not grow: $((seconds / 2)) s"
	scripts/soak_memory.sh $((seconds / 2))
	run_tests $((seconds / 2)) build/asan 'patient|rounds'
}

for part; do
	case $part in
	fuzz | sim | chaos | memory) "soak_$part" ;;
	*) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
	esac
done
echo "soaked: $*, $SOAK_MINUTES minutes"

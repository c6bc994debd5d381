#!/bin/sh
# What `make soak` runs: the tests of whole programs and of threads, ROUNDS times each or until one fails.
set -eu
cd "$(dirname "$0")/.."
: "${JOBS:=$(nproc)}" "${ROUNDS:=20}"
cmake --preset release >/dev/null
cmake --build build -j "$JOBS" --target all
exec ctest --test-dir build -L 'integration|tsan' --repeat "until-fail:$ROUNDS" -j "$JOBS" --output-on-failure

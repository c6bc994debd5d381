#!/bin/sh
# What `make bench` measures: each benchmark prints a ratio to a limit that it measures in the same run.
set -eu
cd "$(dirname "$0")/.."
for what in push pull store log optim gemm loader; do
	echo "== $what"
	build/weir bench "$what"
done

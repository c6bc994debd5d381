#!/usr/bin/env bash
# find.sh SOURCE WORK SEEDS [NAME]: plants each sim_ bug (or those whose names begin with NAME) into
# a copy of the source tree in WORK, builds the simulator there, and runs it for at most SEEDS seeds
# until it finds the bug. JOBS is the number of processes. Prints the number of seeds for each bug;
# exits 0 when all are found.
set -eu
source=$1 work=$2 seeds=$3 only=${4:-sim_}
: "${JOBS:=$(nproc)}" "${LIMIT_S:=900}" # of one bug
bugs=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$work/source"
tar -C "$source" --exclude=./build --exclude=./.git -cf - . | tar -C "$work/source" -xf -
build() { cmake --build "$work/build" -j "$JOBS" --target simulator > "$work/build.log" 2>&1 || { tail -n 20 "$work/build.log"; exit 1; }; }
(cd "$work/source" && cmake --preset release -B "$work/build") > "$work/cmake.log" 2>&1 || { tail -n 20 "$work/cmake.log"; exit 1; }
missed=0
for patch in "$bugs"/"$only"*.patch; do
	name=$(basename "$patch" .patch)
	patch -d "$work/source" -p1 --fuzz=0 --silent < "$patch" || { echo "$name does not apply: bring it up to date"; exit 1; }
	build
	status=0
	timeout "$LIMIT_S" "$work/build/tests/sim" --seeds "1..$seeds" --jobs "$JOBS" --first > "$work/out" 2> "$work/err" || status=$?
	patch -d "$work/source" -p1 --reverse --silent < "$patch"
	first=$(sed -n 's/^the first violation: seed //p' "$work/out")
	if [ -n "$first" ]; then
		echo "$name: seed $first: $(sed -n "s/^seed $first: //p" "$work/err" | head -n 1)"
	else
		echo "$name: not found (status $status) in $seeds seeds"
		missed=$((missed + 1))
	fi
done
[ "$missed" -eq 0 ]

#!/bin/sh
# check.sh SOURCE               checks that every planted bug applies to the source tree, and that
#                               the explorer compiles as it is compiled with a bug
# check.sh SOURCE SEEDS [NAME]  and that the explorer finds each replica_ bug within SEEDS seeds
#
# NAME limits the check to bugs whose names begin with it. find.sh checks the sim_ bugs.
set -eu
source=$1 seeds=${2:-0} only=${3:-replica_}
bugs=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for patch in "$bugs"/*.patch; do
	name=$(basename "$patch" .patch)
	patch -d "$source" -p1 --fuzz=0 --silent --dry-run < "$patch" || { echo "$name does not apply: bring it up to date"; exit 1; }
done

# compile FOLDER ARGUMENT...: the explorer, with the replica of FOLDER
compile() {
	tree=$1
	shift
	cc -std=gnu17 -iquote "$tree" -iquote "$source" -I "$source/common/include" "$source"/tests/sim/replica/*.c \
		"$tree/server/replica/replica.c" "$tree/server/replica/replica_follower.c" "$tree/server/replica/replica_primary.c" \
		"$tree/server/replica/replica_record.c" "$tree/server/records/epochs.c" "$source/common/base/prng.c" "$source/common/base/clock.c" "$@"
}
compile "$source" -fsyntax-only
[ "$seeds" -gt 0 ] || exit 0
missed=0 limit_s=${LIMIT_S:-600} # of one bug
for patch in "$bugs"/"$only"*.patch; do
	name=$(basename "$patch" .patch)
	rm -rf "$work/server"
	mkdir "$work/server"
	cp -r "$source/server/records" "$source/server/replica" "$work/server"
	patch -d "$work" -p1 --fuzz=0 --silent < "$patch"
	compile "$work" -O2 -lm -o "$work/explorer"
	status=0
	timeout "$limit_s" "$work/explorer" --seeds "$seeds" > "$work/out" 2>&1 || status=$?
	case $status in
	1) echo "$name: $(sed -n 's/^seeds \([0-9]*\) .*/\1 seeds/p' "$work/out"): $(head -1 "$work/out")" ;;
	134) echo "$name: an assertion failed: $(tail -1 "$work/out")" ;;
	*)
		echo "$name: not found (status $status) in $seeds seeds"
		missed=$((missed + 1))
		;;
	esac
done
[ "$missed" -eq 0 ]

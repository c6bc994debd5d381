#!/bin/sh
# rooms.sh SOURCE: the tree follows the rules of its rooms (scripts/rooms.py), and each planted
# violation is found.
set -eu
source=$1
check="$source/scripts/rooms.py"
"$check" "$source"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# plant NAME FILE LINE EXPECTED: a copy of the tree with LINE added to FILE is refused with
# EXPECTED.
plant()
{
	rm -rf "$work/tree"
	mkdir "$work/tree"
	for folder in docs common proto kernels overview server worker cli; do
		cp -r "$source/$folder" "$work/tree"
	done
	mkdir -p "$(dirname "$work/tree/$2")"
	printf '%s\n' "$3" >> "$work/tree/$2"
	status=0
	"$check" "$work/tree" > "$work/out" || status=$?
	if [ "$status" -ne 1 ] || ! grep -qF "$4" "$work/out"; then
		echo "$1: not found (status $status):"
		cat "$work/out"
		exit 1
	fi
	echo "$1: $(grep -F "$4" "$work/out" | head -1)"
}

plant upward server/store/store.c '#include "server/service/server.h"' 'room server/service comes after server/store'
plant strangers worker/client/push.c '#include "server/log/journal.h"' 'never include each other'
plant not_from_the_top server/store/store.c '#include "rowmap.h"' 'does not name a file from the top'
plant circle server/log/log.h '#include "server/log/journal.h"' 'headers in a circle'
plant no_room server/attic/old.c 'int old;' 'its folder is not in the table'

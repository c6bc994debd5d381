#!/bin/sh
# The version of Weir. project() in CMakeLists.txt has it. Programs, libweir.so, weir.pc, bundles
# and images take it from there; some files need a copy.
#   version.sh             print it
#   version.sh --check     name each copy that differs; status 1 if one does or is missing
#   version.sh X.Y.Z       set it and its copies; the heading in CHANGELOG.md is yours to write
# WEIR_SOURCE: the tree, if not the one that this script is in.
set -eu
cd "${WEIR_SOURCE:-$(dirname "$0")/..}"
tags=docker/k8s/components/images/kustomization.yaml
version=$(sed -n 's/^project(weir VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
[ -n "$version" ] || { echo "version: CMakeLists.txt has no line 'project(weir VERSION X.Y.Z ...'" >&2; exit 1; }

# "FILE:LINE VERSION" of each copy.
copies() {
	awk 'function copy(text) { print FILENAME ":" FNR, text }
		/^ARG VERSION=/ { copy(substr($0, 13)) }
		/name: weir-.*newTag: / { sub(/.*newTag: */, ""); sub(/[ ,}].*/, ""); copy($0) }' docker/*.Dockerfile "$tags"
	awk '/^## \[[0-9]/ { gsub(/[][]/, "", $2); print FILENAME ":" FNR, $2; exit }' CHANGELOG.md
}
# check COUNT: there are as many copies as files that need one, and all are equal.
check() {
	copies | awk -v version="$version" -v least="$1" '
		$2 != version { print $1 ": " $2 ", but CMakeLists.txt has " version ": run scripts/version.sh " version; bad = 1 }
		END {
			if (NR < least) {
				print "only " NR " of " least " copies are found: see docker/*.Dockerfile, docker/k8s/components/images, CHANGELOG.md"
				bad = 1
			}
			exit bad
		}' >&2
}

case ${1:-} in
'') echo "$version" ;;
--check)
	# A label in each Dockerfile, a tag for its image, and the newest heading of CHANGELOG.md.
	check $((2 * $(ls docker/*.Dockerfile | wc -l) + 1))
	;;
[0-9]*.[0-9]*.[0-9]*)
	sed -i "s/^project(weir VERSION [0-9.]* /project(weir VERSION $1 /" CMakeLists.txt
	sed -i "s/^ARG VERSION=.*/ARG VERSION=$1/" docker/*.Dockerfile
	sed -i "/name: weir-/s/newTag: [0-9.]*/newTag: $1/" "$tags"
	echo "version: $1; CHANGELOG.md needs a heading '## [$1] - $(date +%F)'" >&2
	;;
*)
	echo "usage: version.sh [--check | X.Y.Z]" >&2
	exit 2
	;;
esac

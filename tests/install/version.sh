#!/usr/bin/env bash
# version.sh SOURCE BUILD: the version is the same everywhere, and a copy that differs is found by
# file and line.
set -u
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "version: $*" >&2; exit 1; }
same() { [ "$2" = "$version" ] || fail "$1 has '$2', CMakeLists.txt '$version'"; }

version=$("$source/scripts/version.sh") || fail "the script fails"
"$source/scripts/version.sh" --check || fail "copies differ"
for program in weir weir-server weir-worker; do same "$program" "$("$build/$program" --version | cut -d ' ' -f 2)"; done
same weir.pc "$(sed -n 's/^Version: //p' "$build/weir.pc")"
same weirConfigVersion.cmake "$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")/\1/p' "$build/weirConfigVersion.cmake")"
same "the name of libweir.so's file" "$(basename "$(readlink -f "$build/libweir.so")" | sed 's/^libweir\.so\.//')"
grep -q "weir $version" "$build/manual/man/weir.1" || fail "the man pages are of another version"
if command -v readelf > /dev/null; then
	readelf -d "$build/libweir.so" | grep -q "soname: \[libweir.so.${version%%.*}\]" || fail "libweir.so has another SONAME: $(readelf -d "$build/libweir.so" | grep soname)"
fi
# Bundles and images ask the script.
for script in bundle image image_root; do
	grep -qx 'version=$(scripts/version.sh)' "$source/scripts/$script.sh" || fail "scripts/$script.sh does not ask scripts/version.sh"
done

# --- In a copy of the files with a version
copy() {
	rm -rf "$work/tree"
	mkdir -p "$work/tree/docker/k8s/components/images"
	cp "$source/CMakeLists.txt" "$source/CHANGELOG.md" "$work/tree"
	cp "$source"/docker/*.Dockerfile "$work/tree/docker"
	cp "$source/docker/k8s/components/images/kustomization.yaml" "$work/tree/docker/k8s/components/images"
}
check() { WEIR_SOURCE=$work/tree "$source/scripts/version.sh" --check > "$work/out" 2>&1; }
planted=0
plant() { # plant FILE EXPRESSION: the sed expression changes a copy of the version in FILE
	copy
	check || { cat "$work/out"; fail "a true copy is refused"; }
	sed -i "$2" "$work/tree/$1"
	! check || fail "another version in $1 is not found"
	grep -q "^$1:[0-9]*: 7.7.7, but CMakeLists.txt has $version" "$work/out" || { cat "$work/out"; fail "does not name $1 and its line"; }
	planted=$((planted + 1))
}
for file in server worker-cpu worker-cuda; do
	plant "docker/$file.Dockerfile" 's/^ARG VERSION=.*/ARG VERSION=7.7.7/'
	plant docker/k8s/components/images/kustomization.yaml "/name: weir-$file/s/newTag: [0-9.]*/newTag: 7.7.7/"
done
plant CHANGELOG.md 's/^## \[[0-9.]*\]/## [7.7.7]/'
copy
sed -i '/^ARG VERSION=/d' "$work/tree/docker/server.Dockerfile"
! check || fail "a missing copy is not found"

# --- A new version is set everywhere except in the changelog.
copy
WEIR_SOURCE=$work/tree "$source/scripts/version.sh" 8.9.10 2> /dev/null || fail "setting a version fails"
! check || fail "the changelog's heading is not asked for"
[ "$(grep -c "8.9.10" "$work/out")" = 1 ] && grep -q '^CHANGELOG.md:' "$work/out" || { cat "$work/out"; fail "something else has the old version"; }
[ "$(WEIR_SOURCE=$work/tree "$source/scripts/version.sh")" = 8.9.10 ] || fail "the version is not set"
echo "$version everywhere; $planted copies that differ are found"

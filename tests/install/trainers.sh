#!/usr/bin/env bash
# trainers.sh PREFIX SOURCE: a foreign CMake project, and the compiler with pkg-config, build
# tests/embed's trainer against the installation below PREFIX. It trains on installed servers.
set -u
prefix=$1 source=$2
trainer=$source/tests/embed/linear_regression.c
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "trainers: $*" >&2; exit 1; }
version=$("$prefix/bin/weir" --version) && version=${version#weir }

train() { # train NAME COMMAND...: runs it with two servers
	local name=$1
	shift
	sh "$source/tests/embed/run.sh" "$prefix/bin/weir-server" "$@" > "$work/out" 2>&1 || { cat "$work/out"; fail "the trainer built by $name fails"; }
	echo "built by $name: $(tail -n 1 "$work/out")"
}

configure() { # configure FOLDER VERSION
	cmake -S "$source/tests/install/project" -B "$work/$1" -DCMAKE_PREFIX_PATH="$prefix" -DWANTED="$2" -DSOURCE="$trainer" > "$work/log" 2>&1
}
configure cmake "$version" && cmake --build "$work/cmake" >> "$work/log" 2>&1 || { cat "$work/log"; fail "the CMake project cannot be built"; }
train CMake "$work/cmake/trainer"
! configure later 99.0.0 || fail "find_package(weir 99.0.0) finds $version"
grep -q "99.0.0" "$work/log" || { cat "$work/log"; fail "CMake does not say which version is missing"; }

command -v pkg-config > /dev/null || { echo "pkg-config is not here: the second half is left out"; exit 0; }
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
[ "$(pkg-config --modversion weir)" = "$version" ] || fail "weir.pc has version $(pkg-config --modversion weir), the program $version"
# shellcheck disable=SC2046 # one word per flag
"${CC:-cc}" -std=c11 -Wall -Wextra -pedantic -Werror "$trainer" $(pkg-config --cflags --libs weir) -lm -o "$work/plain" || fail "cc with pkg-config fails"
export LD_LIBRARY_PATH=$prefix/lib # as ldconfig or -Wl,-rpath would do
train "cc and pkg-config" "$work/plain"

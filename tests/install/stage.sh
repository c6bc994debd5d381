#!/usr/bin/env bash
# stage.sh BUILD INSTALLED: installs BUILD with PREFIX=/opt/weir and DESTDIR=INSTALLED. All expected
# files exist, and none names the folder of the build or the sources.
set -u
build=$1 installed=$2
prefix=$installed/opt/weir
fail() { echo "stage: $*" >&2; exit 1; }

rm -rf "$installed"
DESTDIR=$installed cmake --install "$build" --prefix /opt/weir > "$build/tests/installed.log" 2>&1 || { cat "$build/tests/installed.log"; fail "cmake --install fails"; }

for file in bin/weir bin/weir-server bin/weir-worker lib/libweir.so include/weir/{weir,status,table,encoder,security}.h lib/pkgconfig/weir.pc \
	lib/cmake/weir/weirConfig.cmake lib/cmake/weir/weirConfigVersion.cmake share/man/man1/weir.1 share/man/man1/weir-train.1 share/man/man1/weir-server.1 \
	share/man/man1/weir-worker.1 share/bash-completion/completions/{weir,weir-server,weir-worker} share/zsh/site-functions/_weir \
	share/doc/weir/{LICENSE,README.md,CHANGELOG.md,CONTRIBUTING.md,SECURITY.md,config/reference.yaml,docs/PROGRAMS.md}; do
	[ -e "$prefix/$file" ] || fail "$file is not installed"
done
others=$(find "$installed" -type f -o -type l | grep -v "^$prefix/" || true)
[ -z "$others" ] || fail "installed beside the prefix: $others"

# Texts for builds and completion, and the loader's search path.
named=$(grep -rlF -e "$build" -e "$(dirname "$build")" "$prefix/lib/cmake" "$prefix/lib/pkgconfig" "$prefix/share/man" "$prefix/share/bash-completion" "$prefix/share/zsh" || true)
[ -z "$named" ] || fail "these name the folder of the build: $named"
if command -v readelf > /dev/null; then
	for program in "$prefix"/bin/*; do
		readelf -d "$program" | grep -q 'R.*PATH.*\[\$ORIGIN/\.\./lib\]' || fail "$program looks for libraries elsewhere: $(readelf -d "$program" | grep PATH)"
	done
fi
echo "$(find "$installed" -type f | wc -l) files below PREFIX=/opt/weir"

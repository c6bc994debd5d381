#!/bin/sh
# Makes build/wheel/weir_ps-VERSION-py3-none-PLATFORM.whl from build/: pip takes scikit-build-core from a package index, and that installs what
# CMake has built. auditwheel says the platform: the oldest glibc that has what the files need.
set -eu
cd "$(dirname "$0")/.."
out=build/wheel
bytes_max=$((45 << 20))
glibc_max=36 # of Debian 12
python=${PYTHON:-python3}

rm -rf "$out"
mkdir -p "$out"
"$python" -m venv "$out/tools"
"$out/tools/bin/pip" install -q 'wheel>=0.40' auditwheel
"$out/tools/bin/pip" wheel -q --no-deps -w "$out/made" \
	-C cmake.source-dir=prebuilt -C "cmake.define.WEIR_BUILD=$PWD/build" ./python
"$out/tools/bin/auditwheel" show "$out"/made/*.whl >"$out/audit.log"
platform=$(tr '\n' ' ' <"$out/audit.log" | sed -n 's/.*following platform tag: "\([^"]*\)".*/\1/p')
glibc=$(echo "$platform" | sed -n 's/^manylinux_2_\([0-9]*\)_.*/\1/p')
if [ "${glibc:-99}" -gt "$glibc_max" ]; then
	cat "$out/audit.log" >&2
	echo "wheel: needs a later glibc than 2.$glibc_max" >&2
	exit 1
fi
"$out/tools/bin/wheel" tags --platform-tag "$platform" --remove "$out"/made/*.whl >"$out/tags.log"
mv "$out"/made/*.whl "$out"
rm -r "$out/made" "$out/tools"
wheel=$(echo "$out"/*.whl)

bytes=$(stat -c %s "$wheel")
echo "wheel: $wheel, $((bytes >> 10)) KiB"
if [ "$bytes" -gt "$bytes_max" ]; then
	echo "wheel: larger than $((bytes_max >> 20)) MiB" >&2
	exit 1
fi
if unzip -l "$wheel" | grep -Ei 'cublas|cudart|libcuda|nvidia|libweir_cuda'; then
	echo "wheel: a library of NVIDIA is in it" >&2
	exit 1
fi

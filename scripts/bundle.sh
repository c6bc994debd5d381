#!/bin/sh
# Makes build/bundle/weir-VERSION-linux-x86_64 and an archive of it: the programs, libweir, and every library they need but glibc's own, found
# relative to where the folder stands. Runs on any x86-64 Linux with the glibc of the build machine or a later one. Where nvcc is found the CUDA backend is in it,
# for CUDA_ARCHITECTURES (75;80;86;89;90) and with code for the driver to compile for all later ones; of CUDA it needs the driver and cuBLAS, which are not in it.
#
#   BUNDLE        the folder to make, without an archive
#   ARROW         no: without the plug-in for Parquet and Arrow
#   CUDA_LIBRARY  the backend to take instead of building one; where it is not there, none
set -eu
cd "$(dirname "$0")/.."
version=$(scripts/version.sh)
name="weir-$version-linux-$(uname -m)"
out="${BUNDLE:-build/bundle/$name}"
bytes_max=$((40 << 20)) arrow_bytes_max=$((30 << 20))
cublas='^libcublas(Lt)?\.so'
PATH="$PATH:/usr/local/cuda/bin"
command -v make >/dev/null || export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
glibc='^(linux-vdso|ld-linux-.*|libc|libm|libpthread|libdl|librt|libresolv|libnss_.*|libutil|libmvec)\.so'

[ -n "${BUNDLE:-}" ] || rm -rf build/bundle
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib" "$out/include" "$out/licenses"
cp build/weir build/weir-server build/weir-worker "$out/bin"
cp -P build/libweir.so "build/libweir.so.${version%%.*}" "build/libweir.so.$version" "$out/lib" # the last is a file, the others are links
# The plug-in for Parquet and Arrow, if `make arrow` has made it.
if [ "${ARROW:-yes}" = yes ] && [ -e build/libweir_arrow.so ]; then
	cmake --build build -j "${JOBS:-$(nproc)}" --target weir_arrow >build/bundle-arrow.log 2>&1 || { tail -n 50 build/bundle-arrow.log >&2; exit 1; }
	cp build/libweir_arrow.so "$out/lib"
	cp build/pyarrow/lib/python3*/site-packages/pyarrow-*.dist-info/licenses/LICENSE.txt "$out/licenses/pyarrow"
	bytes_max=$((bytes_max + arrow_bytes_max))
fi
if [ -n "${CUDA_LIBRARY:-}" ]; then
	[ ! -e "$CUDA_LIBRARY" ] || cp "$CUDA_LIBRARY" "$out/lib"
elif command -v nvcc >/dev/null; then
	cuda=build/bundle-cuda
	cmake -S . -B "$cuda" -DWEIR_CORE_ONLY=ON -DWEIR_CUDA=ON -DBUILD_TESTING=OFF "-DWEIR_CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES:-75;80;86;89;90}" >build/bundle-cuda.log
	cmake --build "$cuda" -j "${JOBS:-$(nproc)}" --target weir_cuda >>build/bundle-cuda.log 2>&1 || { tail -n 50 build/bundle-cuda.log >&2; exit 1; }
	cp "$cuda/lib/libweir_cuda.so" "$out/lib"
else
	echo "bundle: there is no nvcc here: it will train on CPUs only" >&2
fi
if [ -e "$out/lib/libweir_cuda.so" ]; then
	for licence in /usr/local/cuda/EULA.txt /usr/local/cuda/dist-info/nvidia_cuda_runtime-*/licenses/*; do
		[ ! -e "$licence" ] || cp "$licence" "$out/licenses/cuda-runtime"
	done
fi
cp -r config LICENSE README.md docs "$out"
cp -r common/include/weir worker/include/weir "$out/include"

scripts/stand_alone.sh "$out"

# The bundle must stand alone: moved elsewhere it runs, and it takes nothing but glibc, and for GPUs cuBLAS, from the machine.
elsewhere=$(mktemp -d)
trap 'rm -rf "$elsewhere"' EXIT
cp -r "$out" "$elsewhere/moved"
env -u LD_LIBRARY_PATH -u LD_PRELOAD "$elsewhere/moved/bin/weir" version
foreign=$(env -u LD_LIBRARY_PATH -u LD_PRELOAD ldd "$elsewhere"/moved/bin/* "$elsewhere"/moved/lib/* |
	awk -v home="$elsewhere/moved/" '$2 == "=>" && index($3, home) != 1 {print $1, $3, $4}' | sort -u | grep -Ev "$glibc|$cublas" || true)
if [ -n "$foreign" ]; then
	echo "bundle: not from the bundle: $foreign" >&2
	exit 1
fi

[ -z "${BUNDLE:-}" ] || exit 0
archive="build/bundle/$name.tar.zst"
tar -C build/bundle --sort=name --owner=0 --group=0 --numeric-owner -cf - "$name" | zstd -q -12 -T0 -o "$archive"
bytes=$(stat -c %s "$archive")
echo "bundle: $archive, $((bytes >> 10)) KiB"
if [ "$bytes" -ge "$bytes_max" ]; then
	echo "bundle: larger than $((bytes_max >> 20)) MiB" >&2
	exit 1
fi

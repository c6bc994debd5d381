#!/bin/sh
# Makes a folder stand alone: copies every library that its programs and libraries need into its lib/, except glibc's own and cuBLAS, strips
# ours, and lets all of them find each other relative to themselves. Copies the licences of the libraries into licenses/.
#   stand_alone.sh FOLDER    FOLDER/bin has programs, FOLDER/lib libraries
#
#   SUFFIX     appended to the names of the copied libraries (libz.so.1: libz-SUFFIX.so.1), so that a process may load them beside other
#              releases of the same libraries
#   EXCEPT     a pattern (grep -E) of libraries that the machine has, beside glibc
set -eu
out=$1
known='^(linux-vdso|ld-linux-.*|libc|libm|libpthread|libdl|librt|libresolv|libnss_.*|libutil|libmvec)\.so|^libcublas(Lt)?\.so'
[ -z "${EXCEPT:-}" ] || known="$known|$EXCEPT"
renamed() { # SONAME
	if [ -n "${SUFFIX:-}" ]; then
		echo "${1%%.so*}-$SUFFIX.so${1#*.so}"
	else
		echo "$1"
	fi
}

mkdir -p "$out/licenses"
# All that the loader would load, by name and by where this machine has it.
ldd "$out"/bin/* "$out"/lib/libweir*.so* | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u | grep -Ev "$known|^libweir" >"$out/libraries"
renames=""
while read -r soname path; do
	to=$(renamed "$soname")
	cp -L "$path" "$out/lib/$to"
	[ "$to" = "$soname" ] || renames="$renames --replace-needed $soname $to"
	real=$(readlink -f "$path")
	owner=$(dpkg-query -S "$real" 2>/dev/null || dpkg-query -S "${real#/usr}" 2>/dev/null || true)
	owner=${owner%%:*}
	[ -z "$owner" ] || cp -L "/usr/share/doc/$owner/copyright" "$out/licenses/$owner"
done <"$out/libraries"
rm "$out/libraries"

chmod u+w "$out"/bin/* "$out"/lib/*
find "$out/bin" "$out"/lib/libweir*.so* -type f -exec strip --strip-unneeded {} + # the others are stripped already
# One change at a time: patchelf 0.14 mixes up the names of two.
change() { # FILE RPATH
	# shellcheck disable=SC2086 # words
	[ -z "$renames" ] || patchelf $renames "$1"
	patchelf --set-rpath "$2" "$1"
}
for file in "$out"/bin/*; do change "$file" '$ORIGIN/../lib'; done
for file in "$out"/lib/*; do
	[ ! -L "$file" ] || continue
	name=${file##*/}
	case ${SUFFIX:+$name} in
	*"-${SUFFIX:-}.so"*) patchelf --set-soname "$name" "$file" ;;
	esac
	case $name in
	libweir_cuda.so) change "$file" '$ORIGIN:/usr/local/cuda/lib64' ;;
	*) change "$file" '$ORIGIN' ;;
	esac
done

#!/bin/sh
# image_root.sh server|worker-cpu|worker-cuda OUT: makes the root of an image. Of the bundle (scripts/bundle.sh) the programs of that image and the libraries that they load; of this
# Debian glibc and the certificates of public authorities; for worker-cuda cuBLAS, of the CUDA toolkit; a user `weir`, 10001. Nothing else: no shell, no package manager.
# OUT/usr/share/sbom/weir.spdx.json lists what it is made of. The same bundle on the same Debian gives the same bytes.
set -eu
kind=$1 out=$2
cd "$(dirname "$0")/.."
version=$(scripts/version.sh)
bundle="build/bundle/weir-$version-linux-$(uname -m)"
case $kind in
server) files="bin/weir bin/weir-server" ;;
worker-cpu) files="bin/weir bin/weir-worker lib/libweir_arrow.so" ;;
worker-cuda) files="bin/weir bin/weir-worker lib/libweir_arrow.so lib/libweir_cuda.so" ;;
*)
	echo "image_root: $kind is none of server, worker-cpu, worker-cuda" >&2
	exit 2
	;;
esac

rm -rf "$out"
mkdir -p "$out/bin" "$out/lib" "$out/lib64" "$out/etc/ssl/certs" "$out/usr/share/sbom" "$out/usr/share/doc" "$out/var/lib/weir" "$out/data" "$out/tmp"
chown 10001:10001 "$out/var/lib/weir"
chmod 1777 "$out/tmp"
for file in $files; do
	[ -e "$bundle/$file" ] || { echo "image_root: $bundle has no $file: it takes nvcc to build libweir_cuda.so, and \`make arrow\` for libweir_arrow.so" >&2; exit 1; }
	cp "$bundle/$file" "$out/$file"
done

# What the loader would load, and itself: "libz.so.1 => /path (0x...)", "/lib64/ld-linux-x86-64.so.2 (0x...)".
list="$out.libraries"
for file in $files; do
	env -u LD_LIBRARY_PATH ldd "$bundle/$file"
done | awk '$3 == "not" {print "image_root: " $1 " is not found" > "/dev/stderr"; bad = 1} $2 == "=>" && $3 ~ /^\// {print $1, $3} END {exit bad}' >"$list.all"
sort -u "$list.all" >"$list"
while read -r soname path; do cp -L "$path" "$out/lib/$soname"; done <"$list"
cp -L /lib64/ld-linux-x86-64.so.2 "$out/lib64"

cp /etc/ssl/certs/ca-certificates.crt "$out/etc/ssl/certs"
printf 'root:x:0:0:root:/:\nweir:x:10001:10001:weir:/var/lib/weir:\n' >"$out/etc/passwd"
printf 'root:x:0:\nweir:x:10001:\n' >"$out/etc/group"
printf 'hosts: files dns\n' >"$out/etc/nsswitch.conf"
# Where NVIDIA's container runtime puts the driver's libraries.
[ "$kind" != worker-cuda ] || { cp /etc/debian_version "$out/etc"; mkdir -p "$out/usr/lib/x86_64-linux-gnu"; }

# --- Who made it: "FILE PACKAGE VERSION [SOURCE VERSION]", then SPDX 2.3.
of_package='${Package} ${Version} ${source:Package} ${source:Version}\n'
owner_of() { # owner_of SONAME PATH
	case $1 in
	libarrow*.so* | libparquet*.so*) sed -n "s/^pyarrow==/$1 pyarrow /p" arrow/pyarrow.txt && return ;;
	esac
	case $2 in
	"$PWD/$bundle"/*) path=$(ls "/usr/lib/$(uname -m)-linux-gnu/$1" "/lib/$(uname -m)-linux-gnu/$1" 2>/dev/null | head -n 1) ;;
	*) path=$2 ;;
	esac
	real=$(readlink -f "${path:-$2}")
	package=$(dpkg-query -S "$real" 2>/dev/null || dpkg-query -S "${real#/usr}" 2>/dev/null || true)
	package=${package%%:*}
	if [ -n "$package" ]; then
		dpkg-query -W -f="$1 $of_package" "$package"
	elif [ -z "$path" ]; then
		echo "$1 weir $version"
	else # of no package: cuBLAS of a toolkit, libcublas.so.13.0.2.14
		echo "$1 $(basename "${real%%.so*}") ${real##*.so.}"
	fi
}
{
	while read -r soname path; do owner_of "$soname" "$path"; done <"$list"
	owner_of ld-linux-x86-64.so.2 /lib64/ld-linux-x86-64.so.2
	dpkg-query -W -f="ca-certificates.crt $of_package" ca-certificates
	for file in $files; do echo "$(basename "$file") weir $version"; done
} | sort -u >"$list.owned"
awk '{print $2}' "$list.owned" | sort -u | while read -r package; do
	for licence in "/usr/share/doc/$package/copyright" "$bundle/licenses/$package"; do
		[ ! -e "$licence" ] || cp -L "$licence" "$out/usr/share/doc/$package.copyright"
	done
done
cp LICENSE "$out/usr/share/doc/weir.copyright"
[ "$kind" != worker-cuda ] || [ ! -e "$bundle/licenses/cuda-runtime" ] || cp "$bundle/licenses/cuda-runtime" "$out/usr/share/doc/cuda.copyright"
created=$(date -u -d "@${SOURCE_DATE_EPOCH:-0}" +%Y-%m-%dT%H:%M:%SZ)
jq -R -n -S --arg kind "$kind" --arg version "$version" --arg created "$created" --arg id "$(sha256sum "$list.owned" | cut -c 1-32)" '
	[inputs | split(" ") | {file: .[0], name: .[1], version: .[2], source: .[3:]}] | group_by(.name) as $packages
	| {spdxVersion: "SPDX-2.3", dataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", name: "weir-\($kind)-\($version)",
	   documentNamespace: "urn:weir:image:\($kind):\($version):\($id)",
	   creationInfo: {created: $created, creators: ["Tool: weir-image_root"]},
	   packages: [$packages[] | {SPDXID: "SPDXRef-\(.[0].name | gsub("[^a-zA-Z0-9.]"; "-"))", name: .[0].name, versionInfo: .[0].version,
	     downloadLocation: "NOASSERTION", licenseConcluded: "NOASSERTION", copyrightText: "NOASSERTION",
	     licenseDeclared: (if .[0].name == "weir" then "Apache-2.0" else "NOASSERTION" end), filesAnalyzed: false,
	     comment: ("files: " + ([.[].file] | join(" "))),
	     sourceInfo: (if .[0].source == [] then "built here" else "built from: " + (.[0].source | join(" ")) end),
	     externalRefs: (if (.[0].name == "weir") or (.[0].name | startswith("libcu")) then [] else
	       [{referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: (if .[0].name == "pyarrow" then "pkg:pypi/pyarrow@\(.[0].version)"
	         else "pkg:deb/debian/\(.[0].name)@\(.[0].version | @uri)?arch=amd64" end)}] end)}],
	   relationships: [$packages[] | {spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES", relatedSpdxElement: "SPDXRef-\(.[0].name | gsub("[^a-zA-Z0-9.]"; "-"))"}]}' \
	<"$list.owned" >"$out/usr/share/sbom/weir.spdx.json"
rm -f "$list" "$list.all" "$list.owned"

# It stands alone: here nothing of this machine is in reach.
if [ "$(id -u)" = 0 ]; then
	for program in "$out"/bin/*; do
		chroot "$out" "/bin/$(basename "$program")" --help >/dev/null 2>&1 || [ $? = 2 ] || { echo "image_root: $program does not run in $out" >&2; exit 1; }
	done
fi
find "$out" -exec touch -h -d "@${SOURCE_DATE_EPOCH:-0}" {} +

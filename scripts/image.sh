#!/bin/sh
# What `make image` runs: image.sh [server] [worker-cpu] [worker-cuda] builds docker/NAME.Dockerfile (all three, the last where nvcc is) with buildah, which needs no daemon, and leaves
# build/image/weir-NAME.oci.tar (`docker load`, `skopeo copy oci-archive:...`, `buildah push` take it) and its list of contents, weir-NAME.spdx.json. The base of the build stage is
# BASE (debian:12), or where no registry can be reached a Debian 12 that debootstrap makes. The same sources on the same base give the same digest; IMAGE_CACHE=no builds them from the start, to see it.
set -eu
cd "$(dirname "$0")/.."
out=build/image
: "${BASE:=docker.io/library/debian:12}" "${CUDA:=/usr/local/cuda}" "${CUDA_ARCHITECTURES:=75;80;86;89;90}"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH BUILDAH_ISOLATION=chroot
version=$(scripts/version.sh)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
mkdir -p "$out"
say() { echo "image: $*" >&2; }
builder() { buildah --root "$PWD/$out/storage" --runroot "$PWD/$out/run" "$@"; }

# A Debian 12 of its packages, from where this machine has its own.
make_base() {
	root=$(mktemp -d)
	debootstrap --variant=minbase --include=ca-certificates bookworm "$root/base" "${MIRROR:-http://deb.debian.org/debian}" >"$out/debootstrap.log" 2>&1 ||
		{ tail -n 5 "$out/debootstrap.log" >&2; rm -rf "$root"; say "no registry and no mirror of Debian can be reached: name an image that is here, BASE=..."; exit 1; }
	rm -rf "$root/base/var/cache/apt/archives/"*.deb
	container=$(builder from scratch)
	builder add -q "$container" "$root/base" / >/dev/null
	builder commit -q "$container" "$1" >/dev/null
	builder rm "$container" >/dev/null
	rm -rf "$root"
}
if ! builder inspect --type image "$BASE" >/dev/null 2>&1 && ! timeout 30 buildah --root "$PWD/$out/storage" --runroot "$PWD/$out/run" pull -q "$BASE" >"$out/pull.log" 2>&1; then
	BASE=localhost/debian-bookworm
	builder inspect --type image "$BASE" >/dev/null 2>&1 || { say "there is no registry here: the base is made by debootstrap"; make_base "$BASE"; }
fi

build() { # build NAME OPTIONS...
	name=$1
	shift
	builder build -q --layers $([ "${IMAGE_CACHE:-yes}" = yes ] || echo --no-cache) --timestamp "$SOURCE_DATE_EPOCH" --build-arg "BASE=$BASE" --build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" --build-arg "VERSION=$version" \
		--build-arg "REVISION=$revision" "$@" -f "docker/$name.Dockerfile" -t "weir-$name:$version" . >"$out/$name.log" 2>&1 || { tail -n 30 "$out/$name.log" >&2; say "$name cannot be built"; exit 1; }
	rm -f "$out/weir-$name.oci.tar"
	builder push -q "weir-$name:$version" "oci-archive:$out/weir-$name.oci.tar:weir-$name:$version"
	container=$(builder from "weir-$name:$version")
	root=$(builder mount "$container")
	cp "$root/usr/share/sbom/weir.spdx.json" "$out/weir-$name.spdx.json"
	mib=$(du -sm "$root" | cut -f 1)
	builder rm "$container" >/dev/null
	say "$out/weir-$name.oci.tar: $mib MiB ($(($(stat -c %s "$out/weir-$name.oci.tar") >> 20)) MiB compressed), image $(builder inspect --type image --format '{{.FromImageID}}' "weir-$name:$version" | cut -c 1-12)"
}
# The wheel of pyarrow for the base's Python: a build may reach less than this machine does.
wheels() {
	[ -e "$out/wheels/made" ] && cmp -s arrow/pyarrow.txt "$out/wheels/made" && return
	rm -rf "$out/wheels" && mkdir -p "$out/wheels"
	[ -x "$out/pip/bin/python" ] || python3 -m venv "$out/pip"
	"$out/pip/bin/python" -m pip download -q -d "$out/wheels" --only-binary :all: --implementation cp --python-version 3.11 --platform manylinux_2_28_x86_64 -r arrow/pyarrow.txt ||
		{ say "PyPI gives no pyarrow: the workers' images read no Parquet without it"; exit 1; }
	cp arrow/pyarrow.txt "$out/wheels/made"
}
[ $# -gt 0 ] || set -- server worker-cpu $([ ! -x "$CUDA/bin/nvcc" ] || echo worker-cuda)
for name in "$@"; do
	case $name in
	worker-cuda) wheels && build "$name" --build-context "wheels=$out/wheels" --build-context "cuda=$CUDA" --build-arg "CUDA_ARCHITECTURES=$CUDA_ARCHITECTURES" ;;
	worker-cpu) wheels && build "$name" --build-context "wheels=$out/wheels" ;;
	*) build "$name" ;;
	esac
done

#!/bin/sh
# Installs the Debian packages of the named sections of packages.txt that are missing; does nothing, and asks for nothing, when all are
# there.  usage: scripts/packages.sh run [test] [image]
set -eu
list="$(dirname "$0")/../packages.txt"

wanted=""
for section in "$@"; do
	names=$(awk -v want="[$section]" '/^\[/ {inside = $0 == want; next} inside && NF && !/^#/ {print $1}' "$list")
	if [ -z "$names" ]; then
		echo "packages: packages.txt has no section [$section]" >&2
		exit 2
	fi
	wanted="$wanted $names"
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	echo "packages: this is not a Debian system; going on in the hope that it has what these provide:" $wanted >&2
	exit 0
fi

# shellcheck disable=SC2086 # one word per package
have=$(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' $wanted 2>/dev/null | awk '$1 == "ii" {print $2}' || true)
missing=""
for name in $wanted; do
	echo "$have" | grep -qx "$name" || missing="$missing $name"
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "packages: missing:$missing" >&2
		echo "packages: not root and no sudo here; as root run: apt-get update && apt-get install --no-install-recommends$missing" >&2
		exit 1
	fi
	as_root="sudo"
fi

echo "packages: installing$missing"
# shellcheck disable=SC2086
install() {
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
}
# shellcheck disable=SC2086
if apt-cache show $missing >/dev/null 2>&1 && install; then
	exit 0
fi
# No package lists yet, or old ones.
if $as_root apt-get update -q && install; then
	exit 0
fi
echo "packages: could not install:$missing" >&2
echo "packages: see apt-get's message above; with them installed by other means, run make again" >&2
exit 1

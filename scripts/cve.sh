#!/bin/sh
# usage: scripts/cve.sh ADVISORIES.json SBOM.spdx.json...
#
# Advisories that are open for what an image is made of. ADVISORIES.json is the export of Debian's
# security tracker (https://security-tracker.debian.org/tracker/data/json), or a file of that form:
#
#     {"SOURCE PACKAGE": {"CVE": {"description": "...", "releases":
#         {"bookworm": {"status": "open|resolved", "fixed_version": "1.2-3", "urgency": "..."}}}}}
#
# SBOM.spdx.json: what scripts/image.sh writes beside each image. One line for each advisory:
# UPDATE (a version without it exists), ACCEPTED (docker/advisories_accepted.txt says why Weir can
# live with it) or OPEN. Exit status: 0 all are accepted, 1 some are not, 2 bad input.
# SUITE (bookworm) and ACCEPTED (that file) may be set. Needs jq and dpkg.
set -eu
suite=${SUITE:-bookworm} accepted=${ACCEPTED:-$(dirname "$0")/../docker/advisories_accepted.txt}
[ $# -ge 2 ] || { sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }
advisories=$1
shift
for file in "$advisories" "$@"; do
	jq -e 'type == "object"' "$file" >/dev/null 2>&1 || { echo "cve: $file: no JSON object" >&2; exit 2; }
done
[ -r "$accepted" ] || { echo "cve: $accepted: cannot be read" >&2; exit 2; }

# "SOURCE VERSION" of each Debian package in an SBOM
sources() {
	jq -r '.packages[]?.sourceInfo // empty | capture("^built from: (?<name>\\S+) (?<version>\\S+)$") | "\(.name) \(.version)"' "$@" | sort -u
}
# "CVE STATUS FIXED" of a source package; FIXED - without a fixed version
advisories_of() {
	jq -r --arg package "$1" --arg suite "$suite" '.[$package] // {} | to_entries[] | .key as $cve | .value.releases[$suite] // empty
		| select(.fixed_version != "0" and .urgency != "unimportant") | "\($cve) \(.status) \(.fixed_version // "-")"' "$advisories"
}
list=$(sources "$@")
[ -n "$list" ] || { echo "cve: $*: no Debian packages with a sourceInfo; make the images again" >&2; exit 2; }
bad=0 known=0 packages=0
while read -r package version; do
	packages=$((packages + 1))
	[ "$(jq --arg p "$package" 'has($p)' "$advisories")" = false ] || known=$((known + 1))
	for line in $(advisories_of "$package" | tr ' ' '|'); do
		cve=${line%%|*} fixed=${line##*|}
		[ "$fixed" = - ] || dpkg --compare-versions "$version" lt "$fixed" || continue
		why=$(sed -n "s/^$cve  *$package  *//p" "$accepted")
		if [ "$fixed" != - ]; then
			echo "UPDATE   $package $version: $cve is fixed in $fixed"
		elif [ -n "$why" ]; then
			echo "ACCEPTED $package $version: $cve: $why"
			continue
		else
			echo "OPEN     $package $version: $cve has no fixed version in $suite"
		fi
		bad=$((bad + 1))
	done
done <<EOF
$list
EOF
echo "cve: $packages source packages, $known of them in the list; $bad advisories to act on"
[ $bad = 0 ]

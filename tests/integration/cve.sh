# scripts/cve.sh reports by version what is open, fixed elsewhere, accepted or unknown, and refuses
# bad input. Uses no network.
. "$(dirname "$0")/lib.sh"
CVE=$(cd "$(dirname "$0")/../../scripts" && pwd)/cve.sh
package() { printf '{"name": "%s", "versionInfo": "%s", "sourceInfo": "%s"}' "$1" "$2" "$3"; }
sbom() { echo "{\"packages\": [$(package liba1 1.0-3 "built from: a ${1:-1.0-3}"), $(package liba2 1.0-3 "built from: a ${1:-1.0-3}"), $(package libb 2-1 "built from: b 2-1"), $(package weir 1 "built here")]}" > "$DIR/sbom.json"; }
advisory() { printf '"%s": {"releases": {"bookworm": {"status": "%s"%s, "urgency": "%s"}}}' "$1" "$2" "${3:+, \"fixed_version\": \"$3\"}" "${4:-low}"; }
cat > "$DIR/advisories.json" <<JSON
{"a": {$(advisory CVE-1 resolved 1.0-2), $(advisory CVE-2 resolved 1.0-10), $(advisory CVE-3 open), $(advisory CVE-4 resolved 0), $(advisory CVE-5 open "" unimportant)},
 "b": {$(advisory CVE-6 open)}, "elsewhere": {$(advisory CVE-7 open)}}
JSON
echo "CVE-6 b nobody can reach it" > "$DIR/accepted"
# check STATUS LINE...
check() {
	ACCEPTED=$DIR/accepted "$CVE" "$DIR/advisories.json" "$DIR/sbom.json" > "$DIR/out" 2>&1
	local status=$?
	[ $status = "$1" ] || fail "exit status $status, expected $1: $(cat "$DIR/out")"
	for line in "${@:2}"; do grep -qF -- "$line" "$DIR/out" || fail "'$line' is not in: $(cat "$DIR/out")"; done
	[ "$1" = 2 ] || [ "$(wc -l < "$DIR/out")" = $(($# - 1)) ] || fail "other lines: $(cat "$DIR/out")"
}
sbom
check 1 "UPDATE   a 1.0-3: CVE-2 is fixed in 1.0-10" "OPEN     a 1.0-3: CVE-3 has no fixed version" "ACCEPTED b 2-1: CVE-6: nobody can reach it" "2 source packages, 2 of them in the list; 2 advisories to act on"
sbom 1.0-10
echo "CVE-3 a likewise" >> "$DIR/accepted"
check 0 "ACCEPTED a 1.0-10: CVE-3: likewise" "ACCEPTED b 2-1: CVE-6" "0 advisories to act on"
: > "$DIR/accepted"
check 1 "OPEN     a 1.0-10: CVE-3" "OPEN     b 2-1: CVE-6" "2 advisories to act on"
echo "{}" > "$DIR/sbom.json"
check 2 "no Debian packages"
echo "no json" > "$DIR/sbom.json"
check 2 "sbom.json: no JSON object"
tail -n 1 "$DIR/out"
nothing_left

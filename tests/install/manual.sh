#!/usr/bin/env bash
# manual.sh PREFIX SOURCE: each program and each verb has a man page, which names every option of
# its help text, and which groff reads without a warning.
set -u
prefix=$1
pages=$prefix/share/man/man1
fail() { echo "manual: $*" >&2; exit 1; }
plain() { sed 's/\\-/-/g' "$1"; }

verbs=$("$prefix/bin/weir" help | sed -n 's/^  weir \([a-z]*\) .*/\1/p' | grep -v -x help)
[ "$(wc -w <<< "$verbs")" -ge 20 ] || fail "only these verbs: $verbs"
options=0
look() { # look PAGE COMMAND...: the page of that command
	local page=$pages/$1.1 option name
	name=$1
	shift
	[ -s "$page" ] || fail "there is no $page"
	plain "$page" | grep -q "^$name - " || fail "$name has no line 'NAME - what it does'"
	for option in $("$@" | sed -n 's/^  \(--[a-z-]*\).*/\1/p'); do
		plain "$page" | grep -qE "^\.B $option( |\$)" || fail "$page does not have $option"
		options=$((options + 1))
	done
}
for verb in $verbs; do look "weir-$verb" "$prefix/bin/weir" help "$verb"; done
for verb in $verbs; do plain "$pages/weir.1" | grep -q "^\.BR weir-$verb (1)" || fail "weir(1) does not have $verb"; done
look weir-server "$prefix/bin/weir-server" --help
look weir-worker "$prefix/bin/weir-worker" --help
[ "$(find "$pages" -name '*.1' | wc -l)" = $(($(wc -w <<< "$verbs") + 3)) ] || fail "there are other pages: $(ls "$pages")"

if command -v groff > /dev/null; then
	for page in "$pages"/*.1; do
		warnings=$(groff -man -ww -z -Tutf8 "$page" 2>&1)
		[ -z "$warnings" ] || fail "$page: $warnings"
	done
	read_by="read by groff without a warning"
else
	read_by="groff is not here, so that they are not read"
fi
echo "$(find "$pages" -name '*.1' | wc -l) pages with $options options, $read_by"

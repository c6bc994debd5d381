#!/usr/bin/env bash
# help.sh SOURCE: `make help` has a line for each target of the Makefile.
set -u
source=$1
fail() { echo "help: $*" >&2; exit 1; }
said=$(make -s -C "$source" help) || fail "make help fails"
targets=$(sed -n '/^\.PHONY:/,/[^\\]$/p' "$source/Makefile" | sed 's/^\.PHONY://; s/\\$//' | xargs -n 1)
rules=$(sed -n 's/^\([a-z][a-z -]*\):\( .*\)\{0,1\}$/\1/p' "$source/Makefile" | xargs -n 1 | sort -u)
[ "$(sort <<< "$targets")" = "$rules" ] || fail "rules without a name in .PHONY, or the reverse: $(comm -3 <(sort <<< "$targets") <(echo "$rules") | xargs)"
for target in $targets; do
	[ "$(grep -c "^  make $target  *[A-Za-z]" <<< "$said")" = 1 ] || fail "make help has no line for '$target': write '$target: ... ## what it does' in the Makefile"
done
echo "$(wc -l <<< "$targets") targets, each in one line"

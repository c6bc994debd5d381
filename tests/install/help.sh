#!/usr/bin/env bash
# help.sh SOURCE: `make help` has a line for each target of the Makefile; a target without one is
# named.
set -u
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "help: $*" >&2; exit 1; }

check() { # check FOLDER: checks its Makefile; sets `targets`
	local said rules target
	said=$(make -s -C "$1" help) || { echo "make help fails"; return 1; }
	targets=$(sed -n '/^\.PHONY:/,/[^\\]$/p' "$1/Makefile" | sed 's/^\.PHONY://; s/\\$//' | xargs -n 1)
	rules=$(sed -n 's/^\([a-z][a-z -]*\):\( .*\)\{0,1\}$/\1/p' "$1/Makefile" | xargs -n 1 | sort -u)
	[ "$(sort <<< "$targets")" = "$rules" ] || { echo "in .PHONY or a rule, not in both: $(comm -3 <(sort <<< "$targets") <(echo "$rules") | xargs)"; return 1; }
	for target in $targets; do
		[ "$(grep -c "^  make $target  *[A-Za-z]" <<< "$said")" = 1 ] || { echo "no line for '$target': write '$target: ... ## what it does' in the Makefile"; return 1; }
	done
}
check "$source" || fail "see above"
count=$(wc -l <<< "$targets")

mkdir "$work/scripts"
cp "$source/scripts/make_help.awk" "$work/scripts"
plant() { # plant EXPECTED LINE...: adds lines to the Makefile
	local want=$1 said
	shift
	{ cat "$source/Makefile"; printf '%s\n' "$@"; } > "$work/Makefile"
	said=$(check "$work") && fail "not found: $*"
	grep -qF "$want" <<< "$said" || fail "'$said' does not say: $want"
}
plant "in .PHONY or a rule, not in both: forgotten" "forgotten: ## a rule alone"
plant "no line for 'forgotten'" ".PHONY: \\" "	forgotten" "forgotten: programs"
echo "$count targets, each in one line; two that are forgotten are found"

#!/usr/bin/env bash
# claims.sh [--list] [ISSUE | ISSUE:LINE]...: runs claims one after another, all or the named ones,
# and prints a table: the result of each (holds, FAILS or skipped), its seconds, and its figure (the
# verdict, or the last line it printed). Runs the short forms (QUICK=1) unless QUICK=0 is set. Ends a
# claim after CLAIM_LIMIT_S seconds, and counts it as failed. Leaves the table in
# CLAIMS_OUT/table.txt (build/claims) and the output of each claim in ISSUE-LINE.log.
# Exits 0 if no claim failed. --list prints the names of the claims, as ISSUE:LINE, and runs none.
set -u
cd "$(dirname "$0")/.." || exit
export QUICK=${QUICK:-1}
: "${CLAIM_LIMIT_S:=$([ "$QUICK" = 1 ] && echo 3600 || echo 36000)}"
OUT=${CLAIMS_OUT:-build/claims}
TABLE=$OUT/table.txt
running=
trap '[ -z "$running" ] || { kill -TERM "$running"; wait "$running"; }; exit 130' INT TERM

lines() { # lines ISSUE: its numbers
	"tests/claims/$1" --list | cut -f 1
}
# "ISSUE LINE" of each that is asked for
wanted() {
	local name issue issues names=("$@")
	issues=$(find tests/claims -maxdepth 1 -type f -executable -printf '%f\n' | sort)
	[ $# -gt 0 ] || mapfile -t names <<< "$issues"
	for name in "${names[@]}"; do
		issue=${name%%:*}
		grep -qx "$issue" <<< "$issues" || { echo "there is no tests/claims/$issue: expected one of $(xargs <<< "$issues")" >&2; return 2; }
		case $name in
		*:*) lines "$issue" | grep -x "${name#*:}" || { echo "tests/claims/$issue has no line '${name#*:}': expected one of $(lines "$issue" | xargs)" >&2; return 2; } ;;
		*) lines "$issue" ;;
		esac | sed "s/^/$issue /"
		[ "${PIPESTATUS[0]}" = 0 ] || return 2
	done
}
# figure LOG: its verdict, or its last line
figure() {
	local line
	line=$(grep -E '^(holds|DOES NOT HOLD|skipped): ' "$1" | tail -n 1)
	[ -n "$line" ] || line=$(grep . "$1" | tail -n 1)
	sed -E 's/^(holds|DOES NOT HOLD|skipped): //' <<< "$line"
}
run() { # run ISSUE LINE: adds its row
	local log=$OUT/$1-$2.log began=$SECONDS result text
	timeout -k 60 "$CLAIM_LIMIT_S" "tests/claims/$1" "$2" > "$log" 2>&1 < /dev/null &
	running=$!
	wait "$running"
	local status=$?
	running=
	text=$(figure "$log")
	case $status in
	0) result=holds ;;
	77) result=skipped ;;
	124 | 137) result=FAILS text="ended after $CLAIM_LIMIT_S s; $text" ;;
	*) result=FAILS ;;
	esac
	printf '%-12s %-4s %-8s %7s  %s\n' "$1" "$2" $result $((SECONDS - began)) "$text" | tee -a "$TABLE"
}

if [ "${1:-}" = --list ]; then
	shift
	wanted "$@" | tr ' ' :
	exit
fi
mkdir -p "$OUT"
all=$(wanted "$@") || exit 2
printf '%-12s %-4s %-8s %7s  %s\n' issue line result seconds figure | tee "$TABLE"
while read -r issue line; do run "$issue" "$line"; done <<< "$all"
count() { grep -cE "^[a-z]+ +[0-9]+ +$1 " "$TABLE"; }
failed=$(count FAILS)
echo "$(count holds) hold, $failed FAIL, $(count skipped) skipped$([ "$QUICK" != 1 ] || echo ' (QUICK=1)'); what each printed: $OUT/ISSUE-LINE.log"
[ "$failed" = 0 ]

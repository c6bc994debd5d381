# core.sh ARCHIVE: all of ARCHIVE, weir_common, but hash.c and text_index.c does without these two:
# WEIR_CORE_ONLY builds the rest with a compiler alone (common/CMakeLists.txt).
set -eu
taken=$(nm -A "$1" 2> /dev/null | sed -E 's/^[^:]*://' | awk '
	{ split($1, at, ":"); only = at[1] ~ /^(hash|text_index)\.c\./ }
	only && $(NF - 1) ~ /^[TDRB]$/ { defined[$NF] = 1 }
	!only && $(NF - 1) == "U" { used[$NF] = at[1] }
	END { if (!("hash_bytes" in defined)) print "no hash_bytes in the archive"; for (name in used) if (name in defined) print used[name] " uses " name }')
[ -z "$taken" ] || { printf '%s\n' "$taken" "the core has no byte hashes (common/CMakeLists.txt)" >&2; exit 1; }

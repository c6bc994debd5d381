#!/usr/bin/env bash
# check.sh BUILD: `make check` runs every test of tests/unit: each has the label `unit`, unless it
# is patient or needs a GPU. set_tests_properties(... LABELS ...) would silently remove the label.
set -u
ctest --test-dir "$1" --show-only=json-v1 > "$1/tests/all.json" || exit 1
jq -r '.backtraceGraph as $graph
	| def files: recurse($graph.nodes[.].parent // empty) | $graph.files[$graph.nodes[.].file];
	.tests[] | select(any(.backtrace | files; contains("/tests/unit/")))
	| [.name] + [.properties[] | select(.name == "LABELS") | .value[]] | join(" ")' "$1/tests/all.json" > "$1/tests/unit.txt" || exit 1
rm "$1/tests/all.json"
without=$(grep -vE ' (unit|patient|gpu)( |$)' "$1/tests/unit.txt")
[ -z "$without" ] || { echo "check: no label unit (append labels with set_property(TEST ... APPEND PROPERTY LABELS ...)):" "$without" >&2; exit 1; }
units=$(grep -cE ' unit( |$)' "$1/tests/unit.txt")
[ "$units" -ge 200 ] || { echo "check: only $units tests have the label unit" >&2; exit 1; }
echo "$(wc -l < "$1/tests/unit.txt") tests of tests/unit, make check runs $units"

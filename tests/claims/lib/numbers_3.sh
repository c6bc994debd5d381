# Every case of tests/cases shows the behaviour that its script states. Fails if WEIR_CASES
# (../shared/cases) has a case without a script.
. tests/claims/lib/common.sh
need_programs
need_tests all
WEIR_CASES=${WEIR_CASES:-$ROOT/../shared/cases}
cases=0 failed=0 skipped=0 missing=0
for script in tests/cases/*.sh; do
	name=$(basename "$script" .sh)
	cases=$((cases + 1))
	bash "$script" "$BUILD" > "$WORK/out" 2>&1 < /dev/null
	case $? in
	0) mark=holds ;;
	77) mark=skipped skipped=$((skipped + 1)) ;;
	*) mark=FAILS failed=$((failed + 1)) && tail -n 20 "$WORK/out" >&2 ;;
	esac
	printf '%-30s %-7s %s\n' "$name" "$mark" "$(sed -n '1s/^# *//p' "$script")"
done
for folder in "$WEIR_CASES"/*/; do
	name=$(basename "$folder")
	[ ! -d "$folder" ] || [ -e "tests/cases/$name.sh" ] || { missing=$((missing + 1)) && printf '%-30s MISSING\n' "$name"; }
done
verdict "$cases > 0 and $failed == 0 and $missing == 0" "$((cases - failed - skipped)) of $cases cases, $skipped skipped, $missing without a test"

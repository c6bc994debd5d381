# regressions TABLE: runs each row (item, command, injected fault, expected result; separated by
# tabs) against real processes and prints it with the command's last line. Ends with a verdict.
regressions() {
	local item command injected must mark failed=0 rows=0 skipped=0
	while IFS=$'\t' read -r item command injected must; do
		case $item in '' | '#'*) continue ;; esac
		rows=$((rows + 1))
		bash -c "$command" > "$WORK/out" 2>&1 < /dev/null
		case $? in
		0) mark=holds ;;
		77) mark=skipped skipped=$((skipped + 1)) ;;
		*) mark=FAILS failed=$((failed + 1)) && tail -n 20 "$WORK/out" >&2 ;;
		esac
		printf '%-4s %-7s %s\n     must: %s\n     did:  %s\n' "$item" "$mark" "$injected" "$must" "$(tail -n 1 "$WORK/out")"
	done < "$1"
	verdict "$rows > 0 and $failed == 0" "$((rows - failed - skipped)) of $rows regressions, $skipped skipped"
}

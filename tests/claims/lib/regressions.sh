# regressions TABLE: runs each row (item, command, injected fault, expected result; separated by
# tabs) against real processes and prints it with the command's last line. Ends with a verdict.
# QUICK=1: four rows at once.
regressions() {
	local item command injected must number=0
	[ "$QUICK" = 0 ] || echo "four rows run at once" >&2
	while IFS=$'\t' read -r item command injected must; do
		case $item in '' | '#'*) continue ;; esac
		number=$((number + 1))
		[ "$QUICK" = 0 ] || [ "$(jobs -r | wc -l)" -lt 4 ] || wait -n
		{
			bash -c "$command" > "$WORK/$number.out" 2>&1 < /dev/null
			echo $? > "$WORK/$number.status"
		} &
		[ "$QUICK" = 1 ] || wait
	done < "$1"
	wait
	regressions_told "$1"
}

regressions_told() {
	local item command injected must mark failed=0 rows=0 skipped=0
	while IFS=$'\t' read -r item command injected must; do
		case $item in '' | '#'*) continue ;; esac
		rows=$((rows + 1))
		case $(cat "$WORK/$rows.status") in
		0) mark=holds ;;
		77) mark=skipped skipped=$((skipped + 1)) ;;
		*) mark=FAILS failed=$((failed + 1)) && tail -n 20 "$WORK/$rows.out" >&2 ;;
		esac
		printf '%-4s %-7s %s\n     must: %s\n     did:  %s\n' "$item" "$mark" "$injected" "$must" "$(tail -n 1 "$WORK/$rows.out")"
	done < "$1"
	verdict "$rows > 0 and $failed == 0" "$((rows - failed - skipped)) of $rows regressions, $skipped skipped"
}

# The weights are an exact sum, computed independently, after each kind of fault: runs every
# faults_exact_CASE.sh. CASES selects some.
. tests/claims/lib/common.sh
need_programs
need_tests all
failed=0 cases=0
for file in tests/claims/lib/faults_exact_*.sh; do
	name=${file##*/faults_exact_}
	name=${name%.sh}
	case " ${CASES:-$name} " in *" $name "*) ;; *) continue ;; esac
	cases=$((cases + 1))
	bash "$file" > "$WORK/out" 2> "$WORK/err" || { failed=$((failed + 1)) && tail -n 20 "$WORK/err" >&2; }
	echo "$name: $(tail -n 1 "$WORK/out")"
done
verdict "$cases > 0 and $failed == 0" "$((cases - failed)) of $cases kinds of fault leave the exact sum"

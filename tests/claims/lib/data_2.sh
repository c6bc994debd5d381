# Hostile tables (tests/parity/hostile_tables.py): each is read as its clean spelling, by the scores
# that a trained model gives its rows, or refused by a sentence with the place. Then the readers are
# fuzzed. QUICK=1: less fuzzing.
. tests/claims/lib/common.sh
minutes=$(pick 1 20)
[ "$QUICK" = 1 ] && echo "QUICK: $minutes minute of fuzzing instead of 20"
need_programs
need_arrow
"$TABLES_PYTHON" tests/parity/hostile_tables.py "$WORK/tables" || give_up "no tables"
cat > "$WORK/job.yaml" <<-JOB
	job: hostile
	run_dir: $WORK/run
	cluster: {partitions: 2}
	data:
	  format: csv
	  train: $WORK/tables/clean.csv
	  valid: $WORK/tables/clean.csv
	  batch: 32
	  bad_lines_max: 0
	  columns:
	    - {name: click, kind: label}
	    - {name: city, kind: categorical}
	    - {name: tags, kind: multi}
	    - {name: price, kind: numeric}
	    - {name: ts, kind: time, format: unix}
	model: {kind: lr}
	tables: {embedding: {optimizer: {kind: adam, lr: 0.1}}, dense: {optimizer: {kind: adam, lr: 0.1}}}
	train: {passes: 3}
JOB
grep -v '^  valid:' "$WORK/job.yaml" > "$WORK/split.yaml"
# scores OUT FILES [SETTING]: with a setting of data.split, the files are cut. One of data.format is
# for all files of the job. SETTING eval: no scores, but whether the labels are read.
scores() {
	local arguments=("$WORK/job.yaml" --set "data.valid=$2")
	rm -f "$1"
	case ${3:-} in
	data.split=*) arguments=("$WORK/split.yaml" --set "data.train=$2" --set "$3") ;;
	data.format=*) arguments+=(--set "$3" --set "data.train=$2" --accept data.format) ;;
	?*=*) arguments+=(--set "$3") ;;
	esac
	if [ "${3:-}" = eval ]; then set -- eval; else set -- predict --out "$1"; fi
	timeout 60 "$BUILD/weir" "$@" "${arguments[@]}" --part valid > "$WORK/out" 2> "$WORK/err"
}
"$BUILD/weir" train "$WORK/job.yaml" > "$WORK/out" 2> "$WORK/err" || { cat "$WORK/err" >&2; give_up "the clean table does not train"; }
scores "$WORK/clean.txt" "$WORK/tables/clean.csv" || { cat "$WORK/err" >&2; give_up "the clean table has no scores"; }
[ "$(sort -u "$WORK/clean.txt" | wc -l)" -gt 100 ] || give_up "the scores do not tell rows apart"

right=0 wrong=0
while IFS=$'\t' read -r name files expected setting; do
	scores "$WORK/scores.txt" "$files" "$setting"
	status=$?
	case $expected in
	same) [ $status = 0 ] && grep . "$WORK/scores.txt" | cmp -s - "$WORK/clean.txt" ;;
	none) [ $status = 0 ] && [ ! -s "$WORK/scores.txt" ] ;;
	*) [ $status = 1 ] && [ ! -e "$WORK/scores.txt" ] && grep -qE -- "$expected" "$WORK/err" ;;
	esac && what=right || what=WRONG
	[ $what = right ] && right=$((right + 1)) || wrong=$((wrong + 1))
	said=
	case $expected in same | none) [ $what = right ] ;; *) false ;; esac ||
		said=$(grep -m 1 -E -- "$expected" "$WORK/err" || tail -n 1 "$WORK/err")
	printf '%-28s %-6s %s\n' "$name" $what "$(sed "s#$WORK/tables/##g" <<< "${said:-its rows: $expected}" | cut -c 1-150)"
done < "$WORK/tables/cases.tsv"
fuzzed=0
FUZZ_TARGETS="csv arrow" JOBS=1 SOAK_MINUTES=$minutes scripts/soak.sh fuzz >&2 || fuzzed=1
verdict "$wrong == 0 and $right >= 80 and $fuzzed == 0" "$right of $((right + wrong)) hostile tables are read right or refused by name; CSV, JSON lines and Arrow batches fuzzed for $minutes min"

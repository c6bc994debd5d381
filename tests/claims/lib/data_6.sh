# weir inspect on tables in the form of six public data sets writes a job that trains without an
# edit; the tutorials of docs/tutorials; weir schema takes every job file of the repository and the
# six, and refuses a misspelt one. QUICK=1: 6,000 rows a table instead of 20,000, without the tutorial
# in Python, which needs the package.
. tests/claims/lib/python.sh
TABLES="movielens criteo avazu taobao adult amazon"
AUC_LEAST=$(pick 0.6 0.7)
ROWS=$(pick 6000 20000)
need_programs
"$BUILD/weir" schema > "$WORK/schema.json" || give_up "weir schema failed"
worst=1
for table in $TABLES; do
	python3 tests/tables/tables.py "$table" "$ROWS" "$WORK/$table.csv" || give_up "tables.py $table failed"
	"$BUILD/weir" inspect "$WORK/$table.csv" > "$WORK/$table.yaml" 2> "$WORK/err" || { cat "$WORK/err" >&2; give_up "weir inspect of $table failed"; }
	[ ! -s "$WORK/err" ] || verdict 0 "$table: $(cat "$WORK/err")"
	train "$table" "$WORK/$table.yaml"
	[ "$(figure "$WORK/$table.json" bad_lines)" = 0 ] || verdict 0 "$table: $(figure "$WORK/$table.json" bad_lines) rows are bad by the job that weir inspect wrote"
	auc=$(figure "$WORK/$table.json" test.auc)
	printf '%-10s %3d columns  AUC %.4f\n' "$table" "$(grep -c -- '- {name:' "$WORK/$table.yaml")" "$auc"
	true_that "$auc < $worst" && worst=$auc
done
true_that "$worst > $AUC_LEAST" || verdict 0 "the worst AUC of the six is $worst; expected more than $AUC_LEAST"

valid=$(python3 tests/schema/validate.py "$WORK/schema.json" config/*.yaml examples/python/*.yaml $(printf "$WORK/%s.yaml " $TABLES))
case $? in 0) ;; 77) skip "$valid" ;; *) verdict 0 "$valid" ;; esac
sed 's/kind: label/kind: lable/' "$WORK/taobao.yaml" > "$WORK/misspelt.yaml"
python3 tests/schema/validate.py "$WORK/schema.json" "$WORK/misspelt.yaml" > "$WORK/out" && verdict 0 "the schema takes kind: lable"

pages="own-log own-chat $(pick '' own-model)"
for page in $pages; do
	mkdir "$WORK/$page"
	path=$PATH
	if [ "$page" = own-model ]; then
		need_package numpy
		path=$(dirname "$PYTHON"):$PATH
	fi
	PATH=$path python3 tests/tutorials/run.py "docs/tutorials/$page.md" "$BUILD" "$WORK/$page" > "$WORK/out" 2>&1 || verdict 0 "$page: $(cat "$WORK/out")"
done
verdict 1 "6 tables train by the job that weir inspect wrote, AUC $(printf %.4f "$worst") and more; $valid; tutorials: $(xargs <<< "$pages")"

# weir predict scores rows without labels: one output line per input line, in order. Evaluating them
# is refused by name, and so is a file without rows.
. "$(dirname "$0")/../integration/lib.sh"
cd "$DIR" || exit 1
"$WEIR" datagen --rows 400 --ids 13312 --seed 5 --out click.tsv > datagen.out || fail "weir datagen"
cut -f 2- click.tsv | head -n 50 > test.tsv
awk 'BEGIN { for (i = 0; i < 200; i++) print i % 2, 2 + i % 2 ":1", 4 + i % 5 ":0.5" }' > click.svm
awk 'BEGIN { for (i = 0; i < 200; i++) print i % 2, "0:" i % 2 ":1", "1:" i % 5 ":0.5" }' > click.ffm
for f in svm ffm; do cut -d ' ' -f 2- click.$f | head -n 50 > test.$f; done
cat > job.yaml <<-JOB
	job: predict
	run_dir: $RUN
	data: {format: criteo, train: click.tsv, batch: 16}
	model: {kind: lr}
	tables: {embedding: {optimizer: {lr: 0.1}}}
JOB
for f in criteo/tsv libsvm/svm libffm/ffm; do
	format=${f%/*} end=${f#*/}
	set -- job.yaml --set data.format="$format" --set data.train="click.$end" --set data.valid="click.$end"
	"$WEIR" train "$@" --fresh > train.out 2> train.err || fail "weir train of $format"
	"$WEIR" predict "$@" --part valid --out labelled.txt > predict.out 2> predict.err || fail "weir predict of $format"
	"$WEIR" predict "$@" --part test --set data.test="test.$end" --out scores.txt > predict.out 2> predict.err || fail "weir predict of $format without labels"
	head -n 50 labelled.txt | cmp - scores.txt || fail "$format: other scores without labels"
	"$WEIR" eval "$@" --part test --set data.test="test.$end" > eval.out 2> eval.err && fail "$format: rows without labels were evaluated"
	told "test.$end has no labels" data.test eval.err
	"$WEIR" train "$@" --set run_dir="$RUN-2" --set data.test="test.$end" > train.out 2> train.err && fail "$format: a run that cannot be evaluated was begun"
	told "test.$end has no labels" data.test train.err
done

# The last format: bad lines, blank lines, several files, their places.
sed -e 's/^0:/broken 0:/; 7,$d' test.ffm | sed -n '1,4p' > 1.ffm
sed -n '5p' test.ffm > second.ffm && printf '\n# end\n0:1:x\n' >> second.ffm
sed -n '1,4p' test.ffm > first.ffm
set -- job.yaml --set data.format=libffm --set data.train=click.ffm --part test
"$WEIR" predict "$@" --set 'data.test=[first.ffm, second.ffm]' --out mixed.txt > predict.out 2> predict.err || fail "weir predict of several files"
[ "$(tail -n 1 mixed.txt)" = nan ] && [ "$(sed -n '6,7p' mixed.txt | tr -d '\n')" = "" ] && [ "$(wc -l < mixed.txt)" = 8 ] || fail "not a line for each line: $(cat mixed.txt)"
sed -n "5p" mixed.txt | cmp - <(sed -n "5p" scores.txt) || fail "the first row of the second file has another score"
grep -q "5 scores.*1 bad line: nan; 2 lines without a row" predict.out || fail "not counted: $(cat predict.out)"
"$WEIR" predict "$@" --set 'data.test=[first.ffm, second.ffm]' --lines --out places.txt > predict.out 2> predict.err || fail "weir predict --lines"
cut -f 2 places.txt | cmp - mixed.txt || fail "--lines changes the scores"
[ "$(cut -f 1 places.txt | tr '\n' ' ')" = "first.ffm:1 first.ffm:2 first.ffm:3 first.ffm:4 second.ffm:1 second.ffm:2 second.ffm:3 second.ffm:4 " ] || fail "the places: $(cut -f 1 places.txt)"
"$WEIR" predict "$@" --set data.test=1.ffm --out none.txt > predict.out 2> predict.err && fail "a file without a row was scored"
told "bad lines" "1.ffm:1" predict.err
ls none.txt* 2> /dev/null && fail "a file of no scores is left"
# Criteo lines with and without a label, whichever are more.
"$WEIR" train job.yaml --fresh --set data.valid=click.tsv > train.out 2> train.err || fail "weir train"
for most in click.tsv test.tsv; do
	few=$([ $most = click.tsv ] && echo test.tsv || echo click.tsv)
	{ head -n 20 $most && head -n 1 "$few"; } > both.tsv
	"$WEIR" predict job.yaml --set data.valid=click.tsv --set data.test=both.tsv --part test --out both.txt > predict.out 2> predict.err && fail "$most with a line of $few was scored"
	told "both.tsv:21: " "expected one on all lines, or on none" predict.err
	ls both.txt* 2> /dev/null && fail "scores are left"
done
# If every line begins with 1, only the option decides.
printf '1:1 4:0.5\n1:1 5:0.5\n' > ones.svm
"$WEIR" train job.yaml --fresh --set data.format=libsvm --set data.train=click.svm --set data.valid=click.svm > train.out 2> train.err || fail "weir train"
"$WEIR" predict job.yaml --set data.format=libsvm --set data.train=click.svm --set data.test=ones.svm --set data.valid=click.svm --part test --unlabelled --out ones.txt > predict.out 2> predict.err || fail "--unlabelled"
[ "$(wc -l < ones.txt)" = 2 ] || fail "--unlabelled: $(cat ones.txt)"
nothing_left
echo "rows without labels have the scores of the same rows with labels, a line for each line"

# Comments, blank lines and a byte order mark are ignored, also at the beginning. qid is the
# group of a row and changes no score. No row is left out, and the scores are those of the bare file.
. "$(dirname "$0")/../integration/lib.sh"
cd "$DIR" || exit 1
awk 'BEGIN { for (i = 0; i < 100; i++) print i % 2, 1 + i % 2 ":1", 3 + i % 5 ":0.5" }' > bare.svm
{ printf '\357\273\277\n# written by a tool\n\n#\n'; awk '{ print $1, "qid:" int(NR / 10), $2, $3, "# row " NR; if (NR % 20 == 0) print "  \t" }' bare.svm; } > noted.svm
cat > job.yaml <<-JOB
	job: comments
	data: {format: libsvm, train: bare.svm, valid: bare.svm, batch: 16, cache: off}
	model: {kind: lr}
	cluster: {partitions: 1}
	tables: {embedding: {optimizer: {lr: 0.1}, mode: {kind: sync}}, dense: {mode: {kind: sync}}}
JOB
for name in bare noted; do
	"$WEIR" train job.yaml --set run_dir="$RUN" --fresh --set data.train=$name.svm --set data.valid=$name.svm --report report.json > train.out 2> train.err || fail "weir train of $name.svm"
	holds report.json ".valid.rows == 100 and .bad_lines == 0"
	"$WEIR" predict job.yaml --set run_dir="$RUN" --part valid --set data.valid=$name.svm --out $name.txt > predict.out || fail "weir predict of $name.svm"
done
# One line of scores per line of the file.
[ "$(wc -l < noted.txt)" = "$(wc -l < noted.svm)" ] || fail "$(wc -l < noted.txt) lines of scores for $(wc -l < noted.svm) lines"
[ "$(grep -c . noted.txt)" = 100 ] || fail "$(grep -c . noted.txt) scores, not 100"
"$WEIR" predict job.yaml --set run_dir="$RUN" --part valid --out again.txt > predict.out || fail "weir predict of bare.svm by the other weights"
grep . noted.txt | cmp - again.txt || fail "the scores of the same rows differ"
nothing_left
echo "100 scores in $(wc -l < noted.svm) lines, those of the bare file"

# An existing data file is used under its literal name, even with pattern characters. Patterns also
# work in folders with such names.
. "$(dirname "$0")/../integration/lib.sh"
cd "$DIR" || exit 1
mkdir 'd[1]' 'e{a,b}'
awk 'BEGIN { for (i = 0; i < 60; i++) print i % 2, 1 + i % 2 ":1" }' > 'd[1]/train.svm'
cp 'd[1]/train.svm' 'e{a,b}/valid*?.svm'
write() {
	cat > job.yaml <<-JOB
		job: names
		run_dir: $RUN
		data: {format: libsvm, train: '$1', valid: 'e{a,b}/valid*?.svm', batch: 16}
		model: {kind: lr}
	JOB
}
for train in 'd[1]/train.svm' 'd[1]/tr*.svm'; do
	write "$train"
	"$WEIR" train job.yaml --fresh --report report.json > train.out 2> train.err || fail "$train is not taken"
	holds report.json ".valid.rows == 60"
done
write 'd[1]/{none,nobody}.svm'
"$WEIR" train job.yaml --fresh > train.out 2> train.err && fail "a pattern that nothing matches was taken"
told "no data file matches d[1]/{none,nobody}.svm" train.err
printf '{"text": "x"}\n' > '[x]{y,z}.jsonl'
"$WEIR" tokenize --tokenizer bytes --out o.bin --in '[x]{y,z}.jsonl' > tokenize.out 2> tokenize.err || fail "weir tokenize"
nothing_left
echo "names that stand are taken"

# weir predict scores files in the given order, matches of a pattern by path, and each once. The
# order of data.train does not change training.
. "$(dirname "$0")/../integration/lib.sh"
cd "$DIR" || exit 1
awk 'BEGIN { for (i = 0; i < 90; i++) print i % 2, 1 + i % 2 ":1", 5 + i % 7 ":" 1 + i / 100 }' > all.svm
sed -n '1,30p' all.svm > c.svm
sed -n '31,60p' all.svm > a.svm
sed -n '61,90p' all.svm > b.svm
cat > job.yaml <<-JOB
	job: order
	run_dir: $RUN
	data: {format: libsvm, train: [c.svm, a.svm, b.svm], valid: all.svm, batch: 16}
	model: {kind: lr}
	tables: {embedding: {optimizer: {lr: 0.1}}}
JOB
"$WEIR" train job.yaml --report first.json > train.out 2> train.err || fail "weir train"
"$WEIR" predict job.yaml --part valid --out all.txt > predict.out 2> predict.err || fail "weir predict"
scored() { # scored FILES...: prints their places and scores
	"$WEIR" predict job.yaml --set "data.test=[$1]" --part test --lines --out scores.txt > predict.out 2> predict.err || fail "weir predict of $1: $(cat predict.err)"
	cut -f 1 scores.txt | sed 's/:.*//' | uniq | tr '\n' ' ' > files.txt
	[ "$(cat files.txt)" = "$2" ] || fail "$1 are written as $(cat files.txt)"
}
scored "c.svm, a.svm, b.svm" "c.svm a.svm b.svm "
cut -f 2 scores.txt | cmp - all.txt || fail "other scores than of all lines in one file"
scored "c.svm, '[ab].svm'" "c.svm a.svm b.svm "
cut -f 2 scores.txt | cmp - all.txt || fail "other scores with a pattern"
scored "b.svm, '[abc].svm'" "b.svm a.svm c.svm "
scored "b.svm, b.svm" "b.svm "
# An output does not replace a scored file.
"$WEIR" predict job.yaml --set data.test=c.svm --part test --out c.svm > predict.out 2> predict.err && fail "the file that was scored is replaced"
told "which would be lost: give the output another name" predict.err
cmp c.svm <(sed -n '1,30p' all.svm) || fail "what was to be scored has changed"
"$WEIR" train job.yaml --fresh --set 'data.train=[a.svm, b.svm, c.svm]' --report second.json > train.out 2> train.err || fail "weir train"
[ "$(json first.json .valid.auc)" = "$(json second.json .valid.auc)" ] || fail "the order of data.train changes what is trained"
nothing_left
echo "files are scored in the order given"

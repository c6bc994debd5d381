# Criteo lines with CRLF score the same as with LF, and so do numbers written as 1.0.
. "$(dirname "$0")/../integration/lib.sh"
cd "$DIR" || exit 1
"$WEIR" datagen --rows 300 --ids 13312 --seed 5 --out train.tsv > datagen.out || fail "weir datagen"
head -n 40 train.tsv > lf.tsv
sed 's/$/\r/' lf.tsv > crlf.tsv
awk -F '\t' -v OFS='\t' '{ for (i = 1; i <= 14; i++) if ($i != "") $i = $i ".0"; print }' lf.tsv > real.tsv
cat > job.yaml <<-JOB
	job: crlf
	run_dir: $RUN
	data: {format: criteo, train: train.tsv, valid: lf.tsv, test: crlf.tsv, batch: 16}
	model: {kind: lr}
	tables: {embedding: {optimizer: {lr: 0.05}}}
	train: {passes: 2}
JOB
"$WEIR" train job.yaml > train.out 2> train.err || fail "weir train"
"$WEIR" predict job.yaml --part valid --out lf.txt > predict.out || fail "weir predict of LF"
"$WEIR" predict job.yaml --part test --out crlf.txt >> predict.out || fail "weir predict of CRLF"
"$WEIR" predict job.yaml --part test --set data.test=real.tsv --out real.txt >> predict.out || fail "weir predict of reals"
[ "$(wc -l < lf.txt)" = 40 ] || fail "$(wc -l < lf.txt) scores, not 40"
cmp lf.txt crlf.txt && cmp lf.txt real.txt || fail "the scores differ"
nothing_left
echo "40 scores are the same with LF, with CRLF and with numbers as 1.0"

# Broken lines are counted and shown with file and line. Too many fail the job.
. "$(dirname "$0")/lib.sh"
"$WEIR" datagen --rows 6000 --ids 20000 --seed 4 --out "$DIR/click.tsv" > /dev/null || fail "weir datagen"
sed -i -e '17s/.*/this is no click/' -e '400s/\t.*//' "$DIR/click.tsv"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {servers: 1, workers: 1, partitions: 4}
	data: {format: criteo, train: '$DIR/click.tsv', batch: 64, unit_batches: 8}
	model: {kind: lr}
	train: {threads: 1}
JOB
start_train
finish_train 60
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" ".bad_lines == 2"
grep -q "click.tsv:17" "$DIR/train.err" || fail "click.tsv:17 is not named"

rm -r "$RUN"
start_train --set data.bad_lines_max=1
finish_train 60
[ $STATUS = 1 ] || fail "exit status $STATUS with too many bad lines"
grep -q "click.tsv" "$DIR/train.err" || fail "the file is not named: $(cat "$DIR/train.err")"
nothing_left

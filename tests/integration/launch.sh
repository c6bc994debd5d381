# weir launch: trainers of another program, whose processes are killed at any moment. The audit is
# exact, and the report and the exit status say so.
. "$(dirname "$0")/lib.sh"
TRAINER=$BUILD/tests/embed_linear_regression
[ -x "$TRAINER" ] || exit 77
ln -s "$TRAINER" "$DIR/trainer" # its command line names this test's folder
TRAINER=$DIR/trainer
printf 'job: own\nrun_dir: %s\ncluster: {servers: 2, workers: 3, partitions: 4}\n' "$RUN" > "$DIR/job.yaml"

# refused ARGUMENTS... -- WORD...: weir launch fails with a sentence that has all the words.
refused() {
	local arguments=()
	while [ "$1" != : ]; do arguments+=("$1"); shift; done
	shift
	"$WEIR" launch "${arguments[@]}" > /dev/null 2> "$DIR/wrong.err" && fail "not refused: ${arguments[*]}"
	told "$@" "$DIR/wrong.err"
}
refused "$DIR/job.yaml" : "behind --" "train.py"
refused "$DIR/job.yaml" -- : "behind --"
refused "$DIR/job.yaml" -- no-such-program : "no-such-program" "PATH"
refused "$DIR/job.yaml" -- ./no-such-program : "no-such-program" "No such file"
printf 'job: own\nrun_dir: %s\ndata: {train: a.tsv}\n' "$RUN" > "$DIR/data.yaml"
refused "$DIR/data.yaml" -- true : "weir train"
[ ! -e "$RUN" ] || fail "a refused launch has begun a run"

# --- The environment of a trainer; those that leave before the job is done
cat > "$DIR/tell.sh" <<'SH'
echo "$WEIR_NAME $RANK $LOCAL_RANK $WORLD_SIZE $WEIR_LEDGER $WEIR_JOB $*" > "$TELL/$WEIR_NAME"
exit 3
SH
mkdir "$DIR/tell"
TELL=$DIR/tell "$WEIR" launch "$DIR/job.yaml" -- sh "$DIR/tell.sh" --help "two words" > "$DIR/tell.out" 2> "$DIR/tell.err"
[ $? = 1 ] || fail "trainers that fail are no success"
told "no worker is left" "ended with status 3" "$DIR/tell.err"
grep -q "NOT FINISHED" "$DIR/tell.out" || fail "the report: $(cat "$DIR/tell.out")"
for i in 0 1 2; do
	[ "$(cat "$DIR/tell/worker-$i")" = "worker-$i $i $i 3 unix:$RUN/server-0.sock $DIR/job.yaml --help two words" ] ||
		fail "trainer $i was told: $(cat "$DIR/tell/worker-$i")"
done

# --- A job, with kill -9 of each trainer at least once
PACE_MS=30 "$WEIR" launch "$DIR/job.yaml" --report "$DIR/report.json" -- "$TRAINER" > "$DIR/train.out" 2> "$DIR/train.err" &
TRAIN=$!
wait_for 20 "the first rows" status ".rows >= 1000"
kills=0
for i in 0 1 2 0 1 2; do
	status "any(.workers[]; .name == \"worker-$i\" and .live)" || continue
	pid=$(json "$DIR/status.json" ".workers[] | select(.name == \"worker-$i\") | .pid")
	kill -KILL "$pid" 2> /dev/null && kills=$((kills + 1))
	wait_for 20 "worker-$i after its death" status ".state == \"finished\" or any(.workers[]; .name == \"worker-$i\" and .live and .pid != $pid)"
done
[ $kills -ge 3 ] || fail "$kills trainers were killed"
wait_for 60 "the end" is_gone "$TRAIN"
wait "$TRAIN" || fail "weir launch ended with status $?: $(cat "$DIR/train.err")"
TRAIN=
grep -q "every push applied exactly once: 1000 parts expected, 1000 applied, 0 missing, 0 double" "$DIR/train.out" || fail "$(cat "$DIR/train.out")"
holds "$DIR/report.json" ".model == \"foreign\" and .finished and .audit.ok and .audit.parts_expected == 1000 and .audit.missing == 0 and .audit.double == 0 and .workers_lost >= $kills"
holds "$RUN/report.json" '.audit.ok'
grep -q "largest error of a weight" "$RUN/worker-0.log" || fail "worker-0 has left no log: $(cat "$RUN/worker-0.log")"
[ -z "$(left_over)" ] || fail "left: $(left_over)"

# --- A trainer that saves its model after the job, longer than weir-worker may
cat > "$DIR/save.sh" <<'SH'
"$@" && sleep 11 && echo saved > "$SAVED"
SH
SAVED=$DIR/saved "$WEIR" launch "$DIR/job.yaml" --fresh --set cluster.workers=1 -- sh "$DIR/save.sh" "$TRAINER" > "$DIR/save.out" 2> "$DIR/save.err" ||
	fail "a trainer that stays: $(cat "$DIR/save.err")"
[ -e "$DIR/saved" ] || fail "the trainer was killed before it had saved: $(cat "$DIR/save.err")"

# --- The first signal stops it with the status of signals, and nothing is left
PACE_MS=50 "$WEIR" launch "$DIR/job.yaml" --fresh -- "$TRAINER" > "$DIR/stop.out" 2> "$DIR/stop.err" &
TRAIN=$!
wait_for 20 "the first rows" status ".rows >= 100"
kill -TERM "$TRAIN"
wait "$TRAIN"
[ $? = $STOPPED ] || fail "it did not end by the signal"
TRAIN=
told "stopped by Terminated" "$DIR/stop.err"
[ -z "$(left_over)" ] || fail "left: $(left_over)"

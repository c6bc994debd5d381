# `weir profile` of a running job: one trace of two servers and two workers, with flows in the order
# of time; the job goes on, and each of its pushes counts once. Then of a job that it starts and
# stops. What cannot be profiled is refused in words.
. "$(dirname "$0")/lib.sh"
LEASE_MS=20000
write_job 40
CHECK=$(cd "$(dirname "$0")" && pwd)/profile.py
refused() { "$WEIR" profile "$@" > "$DIR/refused.out" 2> "$DIR/refused.err"; }

refused --run "$DIR" && fail "a folder without a run is profiled"
told "no job runs there" "$DIR/refused.err"
refused && fail "nothing is profiled"
told "needs JOB.yaml" "$DIR/refused.err"
refused "$DIR/job.yaml" --seconds 0 && fail "no seconds are profiled"
told "--seconds 0" "$DIR/refused.err"
refused "$DIR/job.yaml" --run "$DIR" --at unix:there && fail "two jobs are profiled"
told "give one of them" "$DIR/refused.err"

start_train
wait_for 60 "batches" status '.rows > 0'
"$WEIR" profile --run "$RUN" --seconds 2 --out "$DIR/trace.json" --json > "$DIR/profile.json" 2> "$DIR/profile.err" &
PROFILE=$!
wait_for 20 "the trace to begin" grep -q '^tracing' "$DIR/profile.err"
busy() { ! refused --run "$RUN" --seconds 1 --out "$DIR/other.json" && grep -q 'another `weir profile`' "$DIR/refused.err"; }
wait_for 20 "the second profile to be refused" busy
told "another" "try again" "$DIR/refused.err"
wait "$PROFILE" || { cat "$DIR/profile.err"; fail "the running job is not profiled"; }
python3 "$CHECK" "$DIR/trace.json" "$DIR/profile.json" || fail "the trace of the running job is wrong"
[ ! -e "$DIR/other.json" ] || fail "a refused profile has written a trace"
# Once more, and as text: nothing of the first one is left.
AT=$(cut -d, -f1 "$RUN/ledger.address")
"$WEIR" profile --at "$AT" --seconds 1 --out "$DIR/again.json" > "$DIR/again.out" || fail "the second profile"
for words in 'stands out' 'where a worker' 'operation of workers' 'critical path of the median'; do
	grep -q "$words" "$DIR/again.out" || { cat "$DIR/again.out"; fail "the report does not say '$words'"; }
done
finish_train 120
[ "$STATUS" = 0 ] || fail "the profiled job ended with $STATUS"
audited
holds "$DIR/report.json" '.workers_lost == 0 and .servers_lost == 0'

refused "$DIR/job.yaml" --set model.kind=none && fail "a wrong job is profiled"
(cd "$DIR" && "$WEIR" profile job.yaml --set train.passes=100000 --seconds 1 --out own.json --json > own.report 2> own.err) ||
	{ cat "$DIR/own.err"; fail "a job is not started for its profile"; }
python3 "$CHECK" "$DIR/own.json" "$DIR/own.report" || fail "the trace of the started job is wrong"
[ ! -e "$DIR/own.json.run" ] || fail "the folder of the profiled run is left"
[ -z "$(left_over)" ] || fail "processes are left"

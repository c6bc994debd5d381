# weir launch on two "machines": one launch has the servers and two trainers, another one joins with
# the other two. Trainers of both are killed; both launches report the same exact audit.
. "$(dirname "$0")/lib.sh"
TRAINER=$BUILD/tests/embed_linear_regression
[ -x "$TRAINER" ] || exit 77
ln -s "$TRAINER" "$DIR/trainer" # its command line names this test's folder
TRAINER=$DIR/trainer
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
AT=127.0.0.1:$PORT
printf 'job: own\nrun_dir: %s\ncluster: {workers: 4, partitions: 4, lease_ms: 3001, listen: "%s"}\n' "$RUN" "$AT" > "$DIR/job.yaml"
JOB=$DIR/job.yaml

# refused ARGUMENTS... : WORD...: weir launch fails with a sentence that has all the words.
refused() {
	local arguments=()
	while [ "$1" != : ]; do arguments+=("$1"); shift; done
	shift
	"$WEIR" launch "$JOB" "${arguments[@]}" -- true > /dev/null 2> "$DIR/wrong.err" && fail "not refused: ${arguments[*]}"
	told "$@" "$DIR/wrong.err"
}
refused --ranks 2-4 : "0-3" "cluster.workers"
refused --ranks 3-2 : "FIRST-LAST"
refused --ranks 1,2 : "FIRST-LAST"
refused --ranks -1 : "FIRST-LAST"
refused --join "$AT" : "--ranks"
refused --join "$AT" --ranks 2-3 --fresh : "--fresh" "starts the servers"
refused --join nowhere --ranks 2-3 : "--join" "nowhere"
refused --join elsewhere.example:7700 --ranks 2-3 : "elsewhere.example" "security.insecure"
refused --join "$AT" --ranks 2-3 --set "cluster.servers_at=[$AT]" : "servers_at"
refused --ranks 0-1 --chaos 1 : "--chaos" "--ranks"
[ ! -e "$RUN" ] || fail "a refused launch has begun a run"

# --- The environment of a trainer, and the second launch waits for the first one
cat > "$DIR/tell.sh" <<'TRAINER_SH'
echo "$WEIR_NAME $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $WEIR_LEDGER" > "$TELL/$WEIR_NAME"
exec "$TRAINER"
TRAINER_SH
mkdir "$DIR/tell"
export TELL=$DIR/tell TRAINER PACE_MS=30
begin() { # begin NAME ARGUMENTS...: a launch in the background, whose process is in $BEGUN
	"$WEIR" launch "$JOB" "${@:2}" --report "$DIR/$1.json" -- sh "$DIR/tell.sh" > "$DIR/$1.out" 2> "$DIR/$1.err" &
	BEGUN=$!
}
begin second --join "$AT" --ranks 2-3
SECOND=$BEGUN
wait_for 20 "the second launch to say that it waits" grep -q "waiting for the servers at $AT" "$DIR/second.err"
begin first --ranks 0-1
TRAIN=$BEGUN
wait_for 20 "all trainers" status '[.workers[] | select(.live)] | length == 4'
for i in 0 1 2 3; do
	[ "$(cat "$DIR/tell/worker-$i")" = "worker-$i $i $((i % 2)) 4 2 $AT" ] || fail "trainer $i was told: $(cat "$DIR/tell/worker-$i")"
done

# --- kill -9 of a trainer of each launch, which starts it again
for i in 3 0; do
	status "any(.workers[]; .name == \"worker-$i\" and .live)" || fail "worker-$i is not there"
	pid=$(json "$DIR/status.json" ".workers[] | select(.name == \"worker-$i\") | .pid")
	kill -KILL "$pid" || fail "worker-$i has left already"
	wait_for 20 "worker-$i after its death" status "any(.workers[]; .name == \"worker-$i\" and .live and .pid != $pid)"
done
wait_for 60 "the end of the second launch" is_gone "$SECOND"
wait "$SECOND" || fail "the second launch ended with status $?: $(cat "$DIR/second.err")"
wait_for 60 "the end of the first launch" is_gone "$TRAIN"
wait "$TRAIN" || fail "the first launch ended with status $?: $(cat "$DIR/first.err")"
TRAIN=
for launch in first second; do
	holds "$DIR/$launch.json" '.finished and .audit.ok and .audit.parts_expected == 1000 and .audit.applied == 1000 and .audit.missing == 0 and .audit.double == 0 and .workers_lost >= 2'
done
grep -q "worker-3 .*started again" "$DIR/second.err" || fail "the second launch did not start its trainer again"
grep -q "worker-0 .*started again" "$DIR/first.err" || fail "the first launch did not start its trainer again"
[ -e "$RUN/worker-0.log" ] && [ -e "$RUN/ranks-2-3/worker-3.log" ] && [ ! -e "$RUN/worker-3.log" ] || fail "the logs: $(find "$RUN" -name '*.log')"
[ -z "$(left_over)" ] || fail "left: $(left_over)"

PACE_MS=10
# --- The servers stay until the trainers of the other launch have left
cat > "$DIR/tell.sh" <<'TRAINER_SH'
[ "$RANK" -ge 2 ] || exit 3
exec "$TRAINER"
TRAINER_SH
begin second --join "$AT" --ranks 2-3
SECOND=$BEGUN
cat > "$DIR/wait.sh" <<'TRAINER_SH'
[ "$RANK" -ge 2 ] && exec "$TRAINER"
until [ -e "$TELL/go" ]; do sleep 0.1; done
exit 3
TRAINER_SH
"$WEIR" launch "$JOB" --fresh --ranks 0-1 --report "$DIR/first.json" -- sh "$DIR/wait.sh" > "$DIR/first.out" 2> "$DIR/first.err" &
TRAIN=$!
wait_for 20 "the trainers of the second launch" status '[.workers[] | select(.live)] | length == 2'
: > "$TELL/go"
wait_for 20 "the servers to stay" grep -q "the servers stay for 2 of other launches" "$DIR/first.err"
wait_for 60 "the end of the second launch" is_gone "$SECOND"
wait "$SECOND" || fail "the second launch ended with status $?: $(cat "$DIR/second.err")"
wait_for 60 "the end of the first launch" is_gone "$TRAIN"
wait "$TRAIN" || fail "the first launch ended with status $?: $(cat "$DIR/first.err")"
TRAIN=
holds "$DIR/first.json" '.audit.ok and .audit.missing == 0 and .audit.double == 0'
[ -z "$(left_over)" ] || fail "left: $(left_over)"

# --- A signal ends the wait for servers
begin second --join "$AT" --ranks 2-3
wait_for 20 "the second launch to wait" grep -q "waiting for the servers" "$DIR/second.err"
kill -TERM "$BEGUN"
wait_for 10 "the end of the wait" is_gone "$BEGUN"
told "stopped by Terminated while it waited for $AT" "$DIR/second.err"

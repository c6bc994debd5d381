# weir up and down: servers without workers, data or a model. They outlive the command, come back
# after kill -9, and end by `weir down`, or in the foreground with the process that holds a pipe.
. "$(dirname "$0")/lib.sh"
TRAINER=$BUILD/tests/embed_linear_regression
[ -x "$TRAINER" ] || exit 77
printf 'job: own\nrun_dir: %s\ncluster: {servers: 2, partitions: 4, log: disk}\ncheckpoint: {dir: %s/ck}\n' "$RUN" "$DIR" > "$DIR/job.yaml"

# up ARGUMENTS...: starts the servers; LEDGER is the last line on stdout.
up() {
	"$WEIR" up "$DIR/job.yaml" "$@" > "$DIR/up.out" 2> "$DIR/up.err" || fail "weir up $*: $(cat "$DIR/up.err")"
	LEDGER=$(tail -n 1 "$DIR/up.out")
}
down() { "$WEIR" down "$DIR/job.yaml" > "$DIR/down.out" 2> "$DIR/down.err" || fail "weir down: $(cat "$DIR/down.err")"; }
is_down() { [ -z "$(left_over)" ]; }
supervisor() { cut -d' ' -f1 "$RUN/run.pid"; }
server_pid() { json "$DIR/status.json" ".servers[$1].pid"; }

# --- It is a job for others, not for `weir train`
"$WEIR" check "$DIR/job.yaml" > "$DIR/check.out" || fail "the job is not right"
"$WEIR" train "$DIR/job.yaml" 2> "$DIR/train.err" && fail "weir train has trained nothing"
told "data.train: missing" "weir up" "weir launch" "$DIR/train.err"
"$WEIR" down "$DIR/job.yaml" 2> "$DIR/down.err" && fail "weir down found servers"
told "does not run here" "weir up" "$DIR/down.err"

# --- Up, train, status, checkpoint
up
[ "$LEDGER" = "unix:$RUN/server-0.sock" ] || fail "the address is $LEDGER"
"$WEIR" status "$DIR/job.yaml" > "$DIR/status.out" || fail "no status"
grep -q "no trainer has joined yet" "$DIR/status.out" || fail "the status: $(cat "$DIR/status.out")"
"$WEIR" up "$DIR/job.yaml" 2> "$DIR/second.err" && fail "a second weir up"
told "runs in $RUN" "$DIR/second.err"
"$TRAINER" "$LEDGER" > "$DIR/trainer.out" 2>&1 || fail "the trainer: $(cat "$DIR/trainer.out")"
grep -q "expected 1000 applied 1000 missing 0 double 0" "$DIR/trainer.out" || fail "$(cat "$DIR/trainer.out")"
status '.state == "finished" and .pass == 5' || fail "the status: $(cat "$DIR/status.json")"
"$WEIR" checkpoint "$DIR/job.yaml" > "$DIR/checkpoint.out" 2>&1 || fail "no checkpoint: $(cat "$DIR/checkpoint.out")"

# --- Export of its tables
"$WEIR" export "$DIR/job.yaml" --out "$DIR/tables.safetensors" > "$DIR/export.out" 2>&1 || fail "no export: $(cat "$DIR/export.out")"
grep -q "1 table" "$DIR/export.out" || fail "$(cat "$DIR/export.out")"
grep -aqF '"weights":{"dtype":"F32","shape":[17]' "$DIR/tables.safetensors" || fail "the file has not the table"
"$WEIR" export "$DIR/job.yaml" --out "$DIR/none" --table nope 2> "$DIR/export.err" && fail "a table that is not there"
told "no table nope" "$DIR/export.err"
"$WEIR" eval "$DIR/job.yaml" 2> "$DIR/eval.err" && fail "an evaluation without data"
told "data.train: missing" "$DIR/eval.err"
[ "$("$WEIR" key 1 7 --format libffm --hash-buckets 5)" = 7 ] || fail "the key of an index in buckets"
"$WEIR" key 1 x --format libffm 2> "$DIR/key.err" && fail "a key of no index"
told "is 'x'" "$DIR/key.err"

# --- A server that is killed comes back
old=$(server_pid 1)
kill -KILL "$old"
is_back() { status ".servers | length == 2 and all(.pid > 0 and .pid != $old)" && status '.servers | all(.answered)'; }
wait_for 20 "the killed server" is_back

# --- Down; up refuses to overwrite, --resume goes on, --json tells the same
down
is_down || fail "left: $(left_over)"
[ ! -e "$RUN/run.pid" ] || fail "run.pid is left"
"$WEIR" up "$DIR/job.yaml" 2> "$DIR/again.err" && fail "weir up over earlier data"
told "weir up --resume" "weir up --fresh" "$DIR/again.err"
up --resume --json
holds "$DIR/up.out" ".job == \"own\" and .ledger == \"unix:$RUN/server-0.sock\" and .servers == 2"
status '.state == "finished" and .pass == 5' || fail "it has forgotten"
down

# --- A checkpoint is restored
"$WEIR" restore "$DIR/job.yaml" --from latest > "$DIR/restore.out" 2>&1 || fail "no restore: $(cat "$DIR/restore.out")"
up --resume
status '.generation == 2 and .state == "finished"' || fail "the restored job: $(cat "$DIR/status.json")"

# --- kill -9 of the process that runs the servers: they die with it, and `down` says so
kill -KILL "$(supervisor)"
wait_for 10 "the servers to die" is_down
"$WEIR" down "$DIR/job.yaml" 2> "$DIR/down.err" && fail "weir down found servers"
told "does not run here" "$DIR/down.err"

# --- In the foreground, until the pipe closes
mkfifo "$DIR/pipe"
"$WEIR" up "$DIR/job.yaml" --fresh --foreground < "$DIR/pipe" > "$DIR/fg.out" 2> "$DIR/fg.err" &
TRAIN=$!
exec 8> "$DIR/pipe"
has_address() { [ -s "$DIR/fg.out" ]; }
wait_for 20 "the servers" has_address
status '.servers | all(.answered)' || fail "they do not answer"
exec 8>&-
wait_for 10 "the servers to end" is_gone "$TRAIN"
wait "$TRAIN" || fail "it ended with status $?: $(cat "$DIR/fg.err")"
is_down || fail "left: $(left_over)"

# --- The same with a pipe of another number; what is on stdin does not matter
mkfifo "$DIR/other"
sh -c 'exec 7< "$1"; shift; exec "$@"' sh "$DIR/other" "$WEIR" up "$DIR/job.yaml" --fresh --foreground --watch-fd 7 < /dev/null > "$DIR/fg.out" 2> "$DIR/fg.err" &
TRAIN=$!
exec 8> "$DIR/other"
wait_for 20 "the servers" has_address
kill -0 "$TRAIN" || fail "it did not stay: $(cat "$DIR/fg.err")"
exec 8>&-
wait_for 10 "the servers to end" is_gone "$TRAIN"
wait "$TRAIN" || fail "it ended with status $?"
"$WEIR" up "$DIR/job.yaml" --foreground --watch-fd 77 2> "$DIR/wrong.err" && fail "a descriptor that is not open"
told "--watch-fd" "77" "$DIR/wrong.err"
"$WEIR" up "$DIR/job.yaml" --watch-fd 0 2> "$DIR/wrong.err" && fail "a pipe for servers in the background"
told "--foreground" "$DIR/wrong.err"

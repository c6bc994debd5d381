# The etcd of a job with replicas is stopped for longer than servers wait for it. Pushes continue,
# and no partition moves. It is killed, and comes back. Then the run is ended and resumes from its
# log, for which etcd's data was kept, too.
. "$(dirname "$0")/lib.sh"
write_job 1000 "replicas: 2, log: disk"
sed -i 's/servers: 2/servers: 3/' "$DIR/job.yaml"
primaries() { wait_for 10 "a status" status . && jq -c '[.partitions[] | [.id, .primary, .epoch]]' "$DIR/status.json"; }
etcd() { for p in $(left_over); do command_line "$p" | grep -q -- "--data-dir $RUN/etcd " && echo "$p" && return 0; done; return 1; }
away() { grep -q "coordinator away" "$RUN/server-0.log" && grep -q "coordinator away" "$RUN/server-1.log" && grep -q "coordinator away" "$RUN/server-2.log"; }

start_train
wait_for 30 "the first rows" status ".rows >= 5000"
wait_for 20 "all replicas to be in sync" status "$WHOLE"
etcd=$(etcd) || fail "there is no etcd"
connected=$(grep -c "coordinator connected" "$RUN/server-0.log")
kill -STOP "$etcd"
wait_for 20 "every server to notice" away
before=$(primaries) rows=$(json "$DIR/status.json" .rows)
wait_for 20 "pushes to go on" status ".rows >= $((rows + 10000))"
after=$(primaries)
[ "$after" = "$before" ] || fail "partitions have moved: $before then $after"

# Calls that need etcd fail at once, with one message, and succeed when it is back.
to=$(((($(json "$DIR/status.json" '.partitions[0].primary')) + 1) % 3))
"$WEIR" move 0 $to "$DIR/job.yaml" > "$DIR/move.out" 2> "$DIR/move.err" &
MOVE=$!
waits="waiting, at most 120 s: the coordinator does not answer: ask again when it is back"
wait_for 4 "the move to say what it waits for" grep -qx "$waits" "$DIR/move.err"
kill -CONT "$etcd"
wait_for 20 "the move to end" is_gone $MOVE
wait $MOVE || fail "the move: $(tail -n 1 "$DIR/move.err")"
[ "$(grep -c waiting "$DIR/move.err")" = 1 ] || fail "it says what it waits for more than once: $(cat "$DIR/move.err")"
back() { [ "$(grep -c "coordinator connected" "$RUN/server-0.log")" -gt "$connected" ]; }
wait_for 20 "a server to hear it again" back

# A server that dies meanwhile is restarted, waits with one message, and begins when etcd is back.
kill -STOP "$etcd"
victim=$(pid_of server-2)
kill -KILL "$victim"
waits() { grep -c "cluster.coord etcd://.* does not answer yet: start it, or correct the address" "$RUN/server-2.log"; }
says_so() { [ "$(waits)" -gt 0 ]; }
wait_for 20 "server 2 to say that it waits" says_so
again() { pid_of server-2 > /dev/null && [ "$(grep -c "server-2: serving " "$RUN/server-2.log")" = 2 ]; }
again && fail "it serves without knowing which generation"
kill -CONT "$etcd"
wait_for 20 "server 2 to begin" again
wait_for 20 "all replicas to be in sync" status "$WHOLE"
[ "$(waits)" = 1 ] || fail "it says that it waits $(waits) times"

# etcd dies: `weir train` restarts it on its data.
connected=$(grep -c "coordinator connected" "$RUN/server-0.log")
kill -KILL "$etcd"
wait_for 20 "its end to be told" grep -q "etcd (pid $etcd) was killed by signal 9 (Killed): it is started again" "$DIR/train.err"
wait_for 20 "a server to hear it again" back
rows=$(json "$DIR/status.json" .rows)
wait_for 20 "pushes to go on" status ".rows >= $((rows + 1000))"

stop_train 20
[ $STATUS = $STOPPED ] || fail "exit status $STATUS"
told "stopped by" "weir train --resume" "$DIR/train.err"
[ -d "$RUN/etcd" ] || fail "what the etcd had is not kept"
nothing_left
resume_train
finish_train 90
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
nothing_left
mv "$RUN/etcd" "$DIR/lost"
"$WEIR" train "$DIR/job.yaml" --resume > "$DIR/out" 2> "$DIR/lost.err" && fail "it goes on without what its etcd had"
told "$RUN/etcd is not there" "weir train --fresh" "$DIR/lost.err"

# An etcd that lost its data does not help, and only servers can know.
mkdir "$RUN/etcd"
start_train --resume
lost() { grep -c "record not there .*partition=ledger .*Bring back its data" "$RUN/server-0.log"; }
says_lost() { [ "$(lost)" -gt 0 ]; }
wait_for 30 "server 0 to say that the ledger's record is lost" says_lost
kill -TERM "$TRAIN"
finish_train 30
[ $STATUS = 1 ] || fail "exit status $STATUS"
[ "$(lost)" = 1 ] || fail "it says so $(lost) times"

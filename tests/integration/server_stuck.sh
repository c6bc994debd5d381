# A server's executor is stopped while its other threads continue, as by a hung lock or disk. The
# server's log, `weir train`, /metrics and /readyz name it. With one copy of its partitions, workers
# wait, name it in their logs, and lose no lease; with replicas other servers take over. When the
# thread continues, so does the job, and the audit holds. REPLICAS (1)
. "$(dirname "$0")/lib.sh"
replicas=${REPLICAS:-1}
[ "$replicas" = 1 ] || command -v etcd > /dev/null || { echo "skipped: no etcd"; exit 77; }
write_job 1000 "log: disk, progress_timeout_ms: 2000, replicas: $replicas"
PORT=$(free_ports 5)
start_train --set "metrics.port=$PORT"
wait_for 60 "the first rows" status ".rows >= 2000"
[ "$replicas" = 1 ] || wait_for 40 "all replicas to be in sync" status "$WHOLE"
victim=$(pid_of server-1) || fail "server-1 does not run"
stop_thread "$victim" exec-0
wait_for 20 "its own log" grep -q "error server-1: stuck thread=exec-0 has not run for 2000 ms" "$RUN/server-1.log"
page() { curl -s -m 8 -o "$DIR/page" -w '%{http_code}' "http://127.0.0.1:$((PORT + 1))$1" > "$DIR/code"; }
stuck() { page /metrics && grep -q '^weir_server_stuck_seconds{server="1"} [1-9]' "$DIR/page" && grep -q '^weir_server_up{server="1"} 0$' "$DIR/page"; }
wait_for 10 "/metrics" stuck
page /readyz
[ "$(cat "$DIR/code")" = 503 ] && grep -q "its thread exec-0 has not run for" "$DIR/page" || fail "/readyz: $(cat "$DIR/code" "$DIR/page")"
wait_for 30 "weir train" grep -q "server 1 (.*whose process lives.*) has answered nothing for 5 s: it is stuck, stopped, or cut off; its log: $RUN/server-1.log" "$DIR/train.err"
if [ "$replicas" = 1 ]; then
	lost() { grep -q "server .*server-1.sock\( is lost\| has answered nothing\)" "$RUN/worker-0.log" && grep -q "server .*server-1.sock\( is lost\| has answered nothing\)" "$RUN/worker-1.log"; }
	wait_for 20 "the workers' logs" lost
	"$WEIR" status "${JOB_AT[@]}" | grep -q "server 1 .*server-1.sock does not answer" || fail "weir status does not say so"
	status ".workers_stalled == 0 and .workers_lost == 0" || fail "workers are taken for dead: $(cat "$DIR/status.json")"
else
	wait_for 30 "others to go on with its partitions" grep -q "server 0 goes on with" "$DIR/train.err"
	status . && wait_for 30 "rows" status ".rows >= $(($(json "$DIR/status.json" .rows) + 2000))"
fi
said="$(grep -o "stuck thread=.*2000 ms" "$RUN/server-1.log" | tail -n 1); $(grep -o "has answered nothing for 5 s.*cut off" "$DIR/train.err")"
release_thread
wait_for 30 "it to answer again" grep -q "server 1 answers again" "$DIR/train.err"
grep -q "not stuck any more" "$RUN/server-1.log" || fail "its log does not say that it goes on"
[ "$replicas" = 1 ] || wait_for 60 "all replicas to be in sync again" status "$WHOLE"
status . && wait_for 30 "rows" status ".rows >= $(($(json "$DIR/status.json" .rows) + 2000))"
[ "$victim" = "$(pid_of server-1)" ] || fail "server-1 has ended"
stop_train 20
resume_train
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
nothing_left
echo "server 1, of $replicas: $said; $(jq .audit.applied "$DIR/report.json") parts applied, none twice"

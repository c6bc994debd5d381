# The page of `weir status --http` for a running job: it has the numbers of `weir status`, in a form
# that Prometheus reads.
. "$(dirname "$0")/lib.sh"
write_job 1000
# get PATH: the page goes to page, its status to code.
get() {
	python3 - "$AT$1" > "$DIR/page" 2> "$DIR/code" <<-'PY'
		import sys, urllib.error, urllib.request
		try:
		    reply = urllib.request.urlopen(sys.argv[1], timeout=20)
		except urllib.error.HTTPError as e:
		    reply = e
		sys.stdout.write(reply.read().decode())
		sys.stderr.write(str(reply.status))
	PY
}
number() { awk -v name="$1" '$1 == name {print $2}' "$DIR/page"; }
trains() { get /metrics && [ "$(cat "$DIR/code")" = 200 ] && awk '$1 == "weir_rows_total" && $2 > 0 {found = 1} END {exit !found}' "$DIR/page"; }

"$WEIR" status "${JOB_AT[@]}" --http 0 > "$DIR/http.out" 2> "$DIR/http.err" &
HTTP=$!
wait_for 10 "the address" test -s "$DIR/http.out"
AT=$(sed 's,/$,,' "$DIR/http.out")
case $AT in http://127.0.0.1:*) ;; *) fail "not on loopback: $AT" ;; esac
get /healthz && [ "$(cat "$DIR/code")" = 200 ] || fail "/healthz: $(cat "$DIR/code")"
get /readyz && [ "$(cat "$DIR/code")" = 503 ] || fail "/readyz before the job runs: $(cat "$DIR/code")"
get /status.json && [ "$(cat "$DIR/code")" = 503 ] || fail "/status.json before the job runs: $(cat "$DIR/code")"
get /none && [ "$(cat "$DIR/code")" = 404 ] || fail "/none: $(cat "$DIR/code")"

start_train
wait_for 60 "rows in /metrics" trains
NAMES=$(grep -c '^# TYPE ' "$DIR/page")
[ "$NAMES" -ge 40 ] || fail "only $NAMES names"
[ "$(number weir_workers_live)" = 2 ] && [ "$(number weir_servers_answering)" = 2 ] && [ "$(number weir_partitions)" = 8 ] || { cat "$DIR/page"; fail "not this job"; }
ROWS=$(number weir_rows_total)
status ".rows >= $ROWS" || fail "weir status has fewer rows than $ROWS"
if command -v promtool > /dev/null; then
	promtool check metrics < "$DIR/page" || fail "promtool does not take the page"
else
	echo "there is no promtool here: not checked with it"
fi
get /status.json && holds "$DIR/page" '.job == "it" and .rows > 0 and (.curve | type) == "array" and (.partitions | length) == 8'
get / && grep -q "<h1 id=\"job\">" "$DIR/page" || fail "there is no page for people"
get /readyz && [ "$(cat "$DIR/code")" = 200 ] || fail "/readyz: $(cat "$DIR/code")"

stop_train 30
kill -TERM $HTTP
wait_for 10 "weir status to end" is_gone $HTTP
wait $HTTP || fail "weir status --http ended with $?"
echo "$NAMES names, $ROWS rows"
nothing_left

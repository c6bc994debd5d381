# Servers and workers serve pages at their ports (metrics.port), and `weir train --http` serves the
# run's. They report the same job alike until a server drains. The pages have every name that the
# alerts and the dashboard use. A real Prometheus, if installed, scrapes them and raises no alert.
. "$(dirname "$0")/lib.sh"
write_job 1000 "log: disk"
SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
PORT=$(free_ports 5) # 2 servers, 2 workers, the evaluator
get() { curl -s -o "$DIR/page-$1" -w '%{http_code}' "http://127.0.0.1:$1${2:-/metrics}" > "$DIR/code"; [ "$(cat "$DIR/code")" = "${3:-200}" ]; }
has() { grep -q "^$2" "$DIR/page-$1" || { cat "$DIR/page-$1"; fail "port $1: no line begins with $2"; }; }
trains() { get $((PORT + 2)) && grep -q '^weir_rpc_client_seconds_count{method="Progress"} [1-9]' "$DIR/page-$((PORT + 2))"; }

start_train --set "metrics.port=$PORT" --http 0
wait_for 60 "the progress of worker-0" trains
for i in 0 1; do
	get $((PORT + i)) || fail "server-$i: $(cat "$DIR/code")"
	has $((PORT + i)) "weir_server_up{server=\"$i\"} 1"
	has $((PORT + i)) "weir_partition_replication_lag_entries{"
	has $((PORT + i)) "process_resident_memory_bytes "
	grep -q "weir_server_up{server=\"$((1 - i))\"}" "$DIR/page-$((PORT + i))" && fail "server-$i tells of the other"
	for method in PushStream PullStream; do has $((PORT + i)) "weir_rpc_server_seconds_count{method=\"$method\"} [1-9]"; done
	get $((PORT + i)) /readyz || fail "server-$i is not ready: $(cat "$DIR/page-$((PORT + i))")"
done
get $PORT && get $((PORT + 1)) || fail "servers' pages"
[ "$(cat "$DIR/page-$PORT" "$DIR/page-$((PORT + 1))" | grep -c '^weir_loss_total ')" = 1 ] || fail "the ledger's series are not on one page, its server's"
for method in PushStream PullStream Lease; do has $((PORT + 2)) "weir_rpc_client_seconds_count{method=\"$method\"} [1-9]"; done
for name in read pull compute push; do has $((PORT + 2)) "# TYPE weir_trainer_${name}.*seconds histogram"; done
get $((PORT + 3)) /healthz || fail "worker-1"
get $((PORT + 4)) || fail "the evaluator"

RUN_AT=$(sed -n 's,^.*http://\(127[0-9.:]*\)/ shows it.*$,\1,p' "$DIR/train.err")
told() { get "${RUN_AT#*:}" && grep -q '^weir_rows_total [1-9]' "$DIR/page-${RUN_AT#*:}"; }
wait_for 30 "rows on weir train's own page" told # a worker's first progress report may have none

# Every series in use exists. GPUs are tested separately, as few machines have them.
python3 - "$SOURCE/docker/monitoring" "$DIR" "$SOURCE/docs/OPERATIONS.md" <<-'PY' || fail "names do not agree"
	import glob, json, re, sys
	folder, pages, manual = sys.argv[1:]
	there = set()
	for page in glob.glob(pages + "/page-*"):
	    there |= set(re.findall(r"^(?:# TYPE )?([a-zA-Z_:][\w:]*)[ {]", open(page).read(), re.M))  # some have no value yet
	rules = open(folder + "/alerts.yaml").read()
	dashboard = json.load(open(folder + "/dashboard.json"))
	asked = set()
	for expr in re.findall(r"expr: (.*)", rules) + [t["expr"] for p in dashboard["panels"] for t in p.get("targets", [])]:
	    asked |= set(re.findall(r"\b(?:weir|process)_\w+", re.sub(r'"[^"]*"', "", expr)))
	missing = {n for n in asked - there if not n.startswith("weir_gpu_")}
	assert not missing, f"nobody shows {sorted(missing)}"
	alerts, tests, text = re.findall(r"- alert: (\w+)", rules), open(folder + "/alerts_test.yaml").read(), open(manual).read()
	for alert in alerts:
	    assert f"- name: {alert}\n" in tests, f"{alert} has no test"
	    assert f"`{alert}`" in text, f"OPERATIONS.md does not say what to do about {alert}"
	print(f"{len(there)} names, {len(asked)} of them in {len(alerts)} alerts and {len(dashboard['panels'])} panels")
PY

if command -v promtool > /dev/null; then
	promtool check rules "$SOURCE/docker/monitoring/alerts.yaml" > /dev/null || fail "promtool does not take the rules"
	promtool check config "$SOURCE/docker/monitoring/prometheus.yaml" > /dev/null || fail "promtool does not take prometheus.yaml"
	promtool test rules "$SOURCE/docker/monitoring/alerts_test.yaml" > "$DIR/rules.out" || { cat "$DIR/rules.out"; fail "a rule does not do what it should"; }
	for i in 0 2; do promtool check metrics < "$DIR/page-$((PORT + i))" || fail "promtool does not take the page at $((PORT + i))"; done
else
	echo "there is no promtool here: rules and pages are not checked with it"
fi
if command -v prometheus > /dev/null; then
	sed 's,interval: 15s,interval: 1s,' "$SOURCE/docker/monitoring/alerts.yaml" > "$DIR/alerts.yaml"
	cat > "$DIR/prometheus.yaml" <<-CONFIG
		global: {scrape_interval: 1s, evaluation_interval: 1s}
		rule_files: [alerts.yaml]
		scrape_configs:
		- {job_name: weir-it, static_configs: [{targets: ["127.0.0.1:$PORT", "127.0.0.1:$((PORT + 1))", "127.0.0.1:$((PORT + 2))"]}]}
	CONFIG
	prometheus --config.file="$DIR/prometheus.yaml" --storage.tsdb.path="$DIR/tsdb/" --web.listen-address=127.0.0.1:0 > "$DIR/prometheus.out" 2>&1 &
	PROMETHEUS=$!
	asks() { local at; at=$(sed -n 's/.*Listening on.*address=//p' "$DIR/prometheus.out"); curl -s "http://$at/api/v1/$1" > "$DIR/answer" && jq -e "$2" "$DIR/answer" > /dev/null 2>&1; }
	wait_for 20 "three targets" asks targets '[.data.activeTargets[] | select(.health == "up")] | length == 3'
	wait_for 20 "the job's rows" asks 'query?query=weir_rows_total' '.data.result[0].value[1] | tonumber > 0'
	wait_for 20 "rates of rows" asks 'query?query=weir:rows:rate5m' '.data.result[0].value[1] | tonumber > 0'
	asks alerts '[.data.alerts[] | select(.state == "firing")] == []' || { cat "$DIR/answer"; fail "an alert fires"; }
	asks targets '[.data.droppedTargets, .data.activeTargets[].lastError | select(. != [] and . != "")] == []' || { cat "$DIR/answer"; fail "a scrape failed"; }
	kill $PROMETHEUS && wait_for 20 "prometheus to end" is_gone $PROMETHEUS
else
	echo "there is no prometheus here: nobody scraped"
fi
stop_train 30
nothing_left

# A real MLflow server (PyPI) receives a run, its resumption and a search; its page shows the run in
# a real browser. TensorBoard (PyPI) reads the settings and figures of the search's trials for its
# plugin HParams. Needs Chromium. SHOT=FILE keeps the picture of MLflow's page. What a server that is
# down or hangs does to a run: tests/integration/track.sh.
. tests/claims/lib/common.sh
PYTHON_SET=tracking
need_installed claims chromium
need_python mlflow tensorboard
need_programs
export MLFLOW_DISABLE_TELEMETRY=true DO_NOT_TRACK=true
SHOT=${SHOT:-$WORK/mlflow.png}
pids=()
end_all() { for pid in "${pids[@]}"; do kill -- "-$pid" 2> /dev/null; wait "$pid" 2> /dev/null; done; rm -rf "$WORK"; }
trap end_all EXIT
free_port() { "$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
ask() { "$PYTHON" -c 'import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())' "$@"; }
answers() { ask "$1" > /dev/null 2>&1; }

# --- MLflow
port=$(free_port)
setsid "$PYTHON" -m mlflow server --host 127.0.0.1 --port "$port" --backend-store-uri "sqlite:///$WORK/mlflow.db" \
	--artifacts-destination "$WORK/artifacts" --workers 1 > "$WORK/mlflow.log" 2>&1 &
pids+=($!)
uri=http://127.0.0.1:$port
wait_for 120 "MLflow" answers "$uri/health"
cat > "$WORK/job.yaml" <<-JOB
	job: clicks
	cluster: {servers: 2, workers: 2, partitions: 8, lease_ms: 3001, log: disk}
	data: {generate: {rows: 40000, ids: 20000, seed: 11}, batch: 256, unit_batches: 8, seed: 1}
	model: {kind: deepfm, dim: 8, hidden: [32]}
	tables: {embedding: {optimizer: {kind: adam}}, dense: {optimizer: {kind: adam}}}
	train: {passes: 3, seed: 1}
	track: {mlflow: {uri: '$uri', experiment: clicks, run_name: deepfm-first, patience_s: 60, tags: [team=ads]}}
JOB
run() { "$BUILD/weir" train "$WORK/job.yaml" --set "run_dir=$WORK/run" --report "$WORK/report.json" "$@" > "$WORK/run.out" 2> "$WORK/run.err" || { cat "$WORK/run.err" >&2; give_up "weir train failed"; }; }
run
run --resume --set train.passes=4
cat > "$WORK/sweep.yaml" <<-SWEEP
	base: $WORK/job.yaml
	out: $WORK/search
	set: [cluster.log=memory, train.passes=2]
	search: {kind: random, trials: 3, metric: valid.auc}
	space:
	  tables.embedding.optimizer.lr: {min: 1.0e-4, max: 1.0e-2, log: true}
	  model.dim: [4, 8]
SWEEP
"$BUILD/weir" sweep "$WORK/sweep.yaml" > "$WORK/sweep.out" 2> "$WORK/sweep.err" || { cat "$WORK/sweep.err" >&2; give_up "weir sweep failed"; }
id=$(jq -r .run_id "$WORK/run/mlflow.json")
"$PYTHON" - "$uri" "$id" "$WORK" <<-'PY' || give_up "MLflow has not got the runs as they are"
	import json, sys
	from mlflow.tracking import MlflowClient
	uri, run_id, work = sys.argv[1:]
	client, report = MlflowClient(uri), json.load(open(f"{work}/report.json"))
	run = client.get_run(run_id)
	assert run.info.status == "FINISHED" and run.info.run_name == "deepfm-first", run.info
	assert run.data.params["model.kind"] == "deepfm" and run.data.params["train.passes"] == "3" and len(run.data.params) > 100
	assert run.data.tags["team"] == "ads" and run.data.tags["weir.audit"] == "ok"
	aucs = {m.step: m.value for m in client.get_metric_history(run_id, "valid/auc")}
	assert len(aucs) == 4 and all(abs(aucs[step] - p["auc"]) < 1e-9 for step, p in zip(sorted(aucs), report["passes"])), aucs
	assert abs(run.data.metrics["test/auc"] - report["test"]["auc"]) < 1e-9
	assert {a.path for a in client.list_artifacts(run_id)} == {"resolved-job.yaml", "report.json", "run.html"}
	runs = client.search_runs([run.info.experiment_id])
	nested = [r for r in runs if "mlflow.parentRunId" in r.data.tags]
	assert len(runs) == 5 and len(nested) == 3 and len({r.data.tags["mlflow.parentRunId"] for r in nested}) == 1, runs
	print(sum(len(client.get_metric_history(run_id, name)) for name in run.data.metrics), run.info.experiment_id)
PY
experiment=$(jq -r .experiment_id "$WORK/run/mlflow.json")
browse() { timeout 120 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$WORK/browser" --virtual-time-budget=30000 --window-size=1400,1200 "$@" 2> "$WORK/browser.err"; }
page=$uri/#/experiments/$experiment/runs/$id
browse --dump-dom "$page" > "$WORK/page.html" || give_up "the browser: $(tail -n 3 "$WORK/browser.err")"
grep -q deepfm-first "$WORK/page.html" && grep -q 'valid/auc' "$WORK/page.html" || give_up "MLflow's page does not show the run"
browse --screenshot="$SHOT" "$page" > /dev/null || give_up "the browser: $(tail -n 3 "$WORK/browser.err")"

# --- TensorBoard
board=$(free_port)
setsid "$PYTHON" -m tensorboard.main --logdir "$WORK/search" --host 127.0.0.1 --port "$board" --reload_interval 1 > "$WORK/board.log" 2>&1 &
pids+=($!)
plugin=http://127.0.0.1:$board/data/plugin/hparams
cat > "$WORK/plugin.py" <<-'PY'
	import json, sys, urllib.request
	def ask(what, **body):
	    request = urllib.request.Request(f"{sys.argv[1]}/{what}", json.dumps(body).encode(), {"Content-Type": "application/json"})
	    return json.load(urllib.request.urlopen(request, timeout=30))
	if len(sys.argv) == 2:
	    sys.exit(len(ask("experiment")["hparamInfos"]) != 2)
PY
has_settings() { "$PYTHON" "$WORK/plugin.py" "$plugin" 2> /dev/null; }
wait_for 90 "TensorBoard" has_settings
cat >> "$WORK/plugin.py" <<-'PY'
	experiment, results = ask("experiment"), json.load(open(sys.argv[2]))
	assert {h["name"] for h in experiment["hparamInfos"]} == {"tables.embedding.optimizer.lr", "model.dim"}, experiment
	assert [m["name"]["tag"] for m in experiment["metricInfos"]] == ["valid/auc"], experiment
	groups = ask("session_groups", startIndex=0, sliceSize=10, allowedStatuses=["STATUS_SUCCESS"], colParams=[])["sessionGroups"]
	shown = sorted((float(g["hparams"]["tables.embedding.optimizer.lr"]), round(g["metricValues"][0]["value"], 6)) for g in groups)
	meant = sorted((float(dict(s.split("=", 1) for s in t["passes"][-1]["set"])["tables.embedding.optimizer.lr"]), round(t["passes"][-1]["measures"][0]["value"], 6)) for t in results["trials"])
	assert len(shown) == 3 and all(abs(a - b) < 1e-6 and abs(x - y) < 1e-5 for (a, x), (b, y) in zip(shown, meant)), (shown, meant)
PY
"$PYTHON" "$WORK/plugin.py" "$plugin" "$WORK/search/results.json" || give_up "TensorBoard has not got the trials as they are"
picture=$(wc -c < "$SHOT")
verdict "$picture > 10000" "MLflow has a run of two starts, a search with three nested trials, artifacts, and its page shows the run ($picture bytes of picture); TensorBoard's plugin has three trials with two settings"

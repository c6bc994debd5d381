# A run at a tracking server: parameters, values by step, tags, artifacts; a resumed run goes on in
# the same run there. A server that is down, hangs or answers 500 neither stops nor slows the
# training: what waits is sent when it is back, else it is told.
. "$(dirname "$0")/lib.sh"
HERE=$(dirname "$0")
export MLFLOW_TRACKING_TOKEN=secret
start_server() { # start_server MODE
	echo "$1" > "$DIR/mode"
	python3 "$HERE/fake_mlflow.py" "$DIR/" > "$DIR/port" 2> "$DIR/server.err" &
	SERVER=$!
	wait_for 10 "the server" test -s "$DIR/port"
	URI=http://127.0.0.1:$(cat "$DIR/port")
}
end_server() { kill "$SERVER" && wait "$SERVER" 2> /dev/null; }
tracked() { jq -e "$1" "$DIR/state.json" > /dev/null 2>&1; }
no_violations() { tracked '.violations == []' || { jq .violations "$DIR/state.json"; fail "the server was asked wrongly"; }; }
# same_as_report EXPRESSION: whether these values at the server are those of the report's passes.
same_as_report() {
	jq -e --slurpfile report "$DIR/report.json" "[[$1], [\$report[0].passes[].auc]] | (.[0] | length) == (.[1] | length) and (transpose | all((.[0] - .[1] | fabs) < 1e-9))" "$DIR/run.json" > /dev/null ||
		{ jq -c "[$1]" "$DIR/run.json"; jq -c '[.passes[].auc]' "$DIR/report.json"; fail "not the AUCs of the report"; }
}
ends_well() { finish_train 90; [ "$STATUS" = 0 ] || fail "exit status $STATUS"; }

# --- A run, and its resumption.
write_job 3 'log: disk'
start_server ok
track=(--set "track.mlflow.uri=$URI" --set 'track.mlflow.experiment=ads team' --set 'track.mlflow.tags=[team=ads]' --set track.mlflow.run_name=first)
start_train "${track[@]}" --set 'train.pace={batch_ms: 20}'
ends_well
no_violations
holds "$DIR/state.json" '(.runs | length) == 1 and .experiments == {"ads team": "1"} and .authorization == ["Bearer secret"]'
run() { jq ".runs[\"$(printf '%032x' "$1")\"]" "$DIR/state.json" > "$DIR/run.json"; }
run 1
holds "$DIR/run.json" '.status == "FINISHED" and .name == "first" and .tags.team == "ads" and .tags["weir.audit"] == "ok"'
holds "$DIR/run.json" '.params["model.kind"] == "fm" and .params["tables.dense.optimizer.lr"] == "0.003" and .params["train.passes"] == "3" and (.params | length) > 100'
holds "$DIR/run.json" '(.metrics["train/loss"] | length) > 1 and ([.metrics["train/loss"][][0]] | . == sort)'
same_as_report '.metrics["valid/auc"][][1]'
jq -e --slurpfile report "$DIR/report.json" '.metrics["test/auc"][0][1] - $report[0].test.auc | fabs < 1e-9' "$DIR/run.json" > /dev/null || fail "not the AUC of the test part"
holds "$DIR/artifact-1-report.json" '.audit.ok'
grep -q '"job": *"it"' "$DIR/artifact-1-run.html" || fail "the page is not there"
"$WEIR" check "$DIR/artifact-1-resolved-job.yaml" > /dev/null 2>&1 || fail "the job is not there"
grep -q secret "$DIR"/artifact-* "$RUN"/*.json && fail "the token is written down"
start_train --resume "${track[@]}" --set train.passes=4
ends_well
no_violations
run 1
holds "$DIR/state.json" '(.runs | length) == 1'
holds "$DIR/run.json" '.starts == 2 and .status == "FINISHED" and .params["train.passes"] == "3"'
same_as_report '.metrics["valid/auc"] | group_by(.[0])[] | last[1]' # the end of the third pass is told twice, as to TensorBoard

# --- Another run is another one, and its creation is not repeated when the answer is lost.
echo lost > "$DIR/mode"
start_train --fresh "${track[@]}" --set train.passes=2
ends_well
no_violations
holds "$DIR/state.json" '(.runs | length) == 2'
run 2
holds "$DIR/run.json" '.status == "FINISHED" and (.metrics["valid/auc"] | length) == 2'

# --- A server that is back in time gets all; the trouble is told once.
echo 500 > "$DIR/mode"
start_train --fresh "${track[@]}" --set track.mlflow.patience_s=60 --set train.passes=2 --set 'train.pace={batch_ms: 20}'
wait_for 30 "the warning" grep -q 'training goes on' "$DIR/train.err"
wait_for 60 "the report" grep -q 'every push applied exactly once' "$DIR/train.out"
echo ok > "$DIR/mode"
ends_well
[ "$(grep -c 'training goes on' "$DIR/train.err")" = 1 ] || fail "the trouble is told more than once"
grep -q 'database is away' "$DIR/train.err" || fail "the reason is not told"
no_violations
run 3
holds "$DIR/run.json" '.status == "FINISHED" and (.metrics["valid/auc"] | length) == 2 and (.artifacts | length) == 3'

# --- One that hangs costs the patience at the end, and nothing else.
echo hang > "$DIR/mode"
start_train --fresh "${track[@]}" --set track.mlflow.patience_s=1 --set train.passes=2
wait_for 60 "the report" grep -q 'every push applied exactly once' "$DIR/train.out"
before=$SECONDS
ends_well
[ $((SECONDS - before)) -le $((8 * PATIENCE)) ] || fail "the end took $((SECONDS - before)) s"
grep -q 'has not got all of the run' "$DIR/train.err" || fail "it is not told"
told "values were not sent" "$DIR/train.err"
end_server

# --- One that is down, too. The patience is 0.
start_train --fresh "${track[@]}" --set track.mlflow.patience_s=0 --set train.passes=1
ends_well
grep -q 'has not got all of the run' "$DIR/train.err" || fail "it is not told"

# --- A search: its trials are nested in a run of its own, each is one run over all its segments.
cat > "$DIR/sweep.yaml" <<-SWEEP
	base: $DIR/job.yaml
	out: $DIR/search
	set: ['track.mlflow.uri=URI', track.mlflow.experiment=search, train.passes=2, 'train.pace={batch_ms: 0}']
	search: {kind: random, trials: 2, metric: valid.auc, stop: {kind: asha, first: 1, eta: 2}}
	space:
	  tables.embedding.optimizer.lr: {min: 1.0e-4, max: 3.0e-2, log: true}
SWEEP
rm -f "$DIR/port" "$DIR/state.json"
start_server ok
sed -i "s,=URI,=$URI," "$DIR/sweep.yaml"
"$WEIR" sweep "$DIR/sweep.yaml" > "$DIR/sweep.out" 2> "$DIR/sweep.err" < /dev/null || { cat "$DIR/sweep.err"; fail "the search failed"; }
no_violations
holds "$DIR/state.json" '(.runs | length) == 3 and ([.runs[] | .tags["mlflow.parentRunId"]] | unique | length) == 2'
holds "$DIR/state.json" '[.runs[] | select(.tags["mlflow.parentRunId"])] | all(.status == "FINISHED" and (.name | startswith("trial-000")) and (.metrics["valid/auc"] | length) >= 1)'
holds "$DIR/state.json" '[.runs[] | select(.tags["mlflow.parentRunId"] | not)] | length == 1 and (.[0].artifacts | has("table.md") and has("best.yaml")) and .[0].status == "FINISHED" and (.[0].metrics | has("best/valid.auc"))'
end_server
echo "$(jq .requests "$DIR/state.json") requests of a search of 2 trials"
nothing_left
